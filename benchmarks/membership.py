"""Who was in it? A likelihood-ratio attack on models and summaries, with shadow cohorts.

python benchmarks/membership.py                               (made-up people; about ten minutes of one core)
python benchmarks/membership.py --root /data/ABIDE_pcp        (random halves of ABIDE)

Half of a population, drawn anew for every fit, are members. The attacker has the file and the scan, covariates, site
and diagnosis of a person, and people of the same population, of whom they draw shadow cohorts and fit the same
thing to them (Carlini et al. 2022). What a fit says of a person i is a few numbers f_i; with means and spread of f_i
over the shadow fits with and without that person,

    LR_i = log N(f_i; in_i, s_in) - log N(f_i; out_i, s_out)

Every fit is the target once, and the others its shadows. Reported are the AUC of LR (of two people, one of whom took
part, how often the right one is named) and the share of members found where 1 % of the others are accused.

    model           f = (2y - 1) score, and (x - m)'(b - m), b the model's mean edges and m their mean over shadows
    first summary   f = the same with the contrast of the site in the place of a score
    second summary  f = share of the residual that lies outside of the span of the products

References
----------
Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), Membership inference attacks from first principles, IEEE S&P.
"""

import argparse
from collections.abc import Callable

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve
from threadpoolctl import threadpool_limits

import brainroam
from brainroam import Cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.core.scaffold import edges_of
from brainroam.core.site_summary import SiteProducts, SiteSummary, SummaryStatistics
from brainroam.execution.federation import Protection
from brainroam.execution.federation.model import reading
from brainroam.execution.federation.site import read_scores
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.registry import method_info

THRESHOLDS = 80, 0.75, 0.7
Says = Callable[[Cohort, np.ndarray], list[np.ndarray]]  # everybody, members -> numbers or directions per fit


def method(name: str, **settings: object) -> Says:
    """Scores of everybody, and the mean edges that a saved model keeps."""

    def fit(cohort: Cohort, members: np.ndarray) -> list[np.ndarray]:
        training = cohort.subset(members)
        fitted = method_info(name).make(**settings).fit(training)
        return [fitted.score(cohort), np.nan_to_num(Familiarity.of(training).centre)]

    return fit


def summaries_of(cohort: Cohort, members: np.ndarray, budget: Protection | None) -> tuple[dict, dict, np.ndarray]:
    """First and second summaries of the members of each site, and the edges asked for."""
    edges, y, site = cohort_edges(cohort, "log", 0.7, True), cohort.labels, cohort.table["site"].to_numpy()
    covariates, rng = cohort.covariates(), np.random.default_rng()
    who = {name: np.flatnonzero(members & (site == name)) for name in cohort.sites}
    tables = {name: covariates.iloc[here].reset_index(drop=True) for name, here in who.items()}
    first = {
        name: budget.summary(edges[here], y[here], rng)
        if budget
        else SiteSummary.of(edges[here], y[here], tables[name], 1.345, "mean")
        for name, here in who.items()
    }
    statistics = SummaryStatistics(first, list(covariates.columns))
    asked = edges_of([statistics.scaffold(cohort.sites, *THRESHOLDS)])
    centre = statistics.deconfounder.mean_intercept_[asked]
    second = {
        name: budget.products(asked, edges[np.ix_(here, asked)], centre, y[here], rng)
        if budget
        else SiteProducts.of(asked, edges[np.ix_(here, asked)], y[here], tables[name], 1.345)
        for name, here in who.items()
    }
    return first, second, asked


def pooled(budget: Protection | None) -> Says:
    """The model of a pool."""

    def fit(cohort: Cohort, members: np.ndarray) -> list[np.ndarray]:
        first, second, _ = summaries_of(cohort, members, budget)
        statistics = SummaryStatistics(first, list(cohort.covariate_names), second)
        learned = reading(statistics.pathways(cohort.sites, statistics.scaffold(cohort.sites, *THRESHOLDS)))
        edges = cohort_edges(cohort, "log", 0.7, True)
        return [read_scores(learned, edges, cohort.covariates()), statistics.deconfounder.mean_intercept_]

    return fit


def first_summary(budget: Protection | None) -> Says:
    """Per person: along the contrast of the own site, and along its level."""

    def fit(cohort: Cohort, members: np.ndarray) -> list[np.ndarray]:
        first, _, _ = summaries_of(cohort, members, budget)
        edges, site = cohort_edges(cohort, "log", 0.7, True), cohort.table["site"].to_numpy()
        along, level = np.zeros(len(cohort)), np.zeros(len(cohort))
        for name, summary in first.items():
            here = site == name
            raw = cohort.covariates()[here].to_numpy(dtype=float)
            r = np.nan_to_num(edges[here] - summary.fit.intercept - raw @ np.nan_to_num(summary.fit.coef))
            along[here] = r @ np.nan_to_num(summary.contrast)
            level[here] = -np.linalg.norm(r, axis=1)
        return [along, level]

    return fit


def second_summary(budget: Protection | None) -> Says:
    """Per person: how much of the residual lies outside of what the products span, and of what they weigh."""

    def fit(cohort: Cohort, members: np.ndarray) -> list[np.ndarray]:
        first, second, asked = summaries_of(cohort, members, budget)
        edges, site = cohort_edges(cohort, "log", 0.7, True)[:, asked], cohort.table["site"].to_numpy()
        found = np.zeros(len(cohort))
        for name, summary in first.items():
            here, fit = site == name, summary.fit.on(asked)
            raw = cohort.covariates()[here].to_numpy(dtype=float)
            r = np.nan_to_num(edges[here] - fit.intercept - raw @ np.nan_to_num(fit.coef))
            values, vectors = np.linalg.eigh(second[name].products)
            floor = 1e-6 * values.max()
            found[here] = -((r @ vectors) ** 2 / np.maximum(values, floor)).sum(axis=1)  # 1 at most for a member
        return [np.log(-found) * (1 - 2 * cohort.labels), np.log(-found)]

    return fit


def attack(cohort: Cohort, says: Says, n_fits: int, seed: int = 0) -> tuple[float, float]:
    """AUC and share of members found at 1 % false accusations."""
    rng, y = np.random.default_rng(seed), cohort.labels
    stratum = cohort.table.groupby(["site", "label"]).ngroup().to_numpy()
    members = np.zeros((n_fits, len(cohort)), dtype=bool)
    for row in members:
        for code in np.unique(stratum):
            people = rng.permutation(np.flatnonzero(stratum == code))
            row[people[: len(people) // 2]] = True
    told = [says(cohort, row) for row in members]
    features = [np.stack([(2 * y - 1) * fit[0] for fit in told])]
    second = np.stack([fit[1] for fit in told])
    if second.shape[1] == len(cohort):
        features.append(second)
    else:
        kind = ("log", 0.7, True) if says.__qualname__.startswith("pooled") else ("pearson", 0.5, False)
        x, m = np.nan_to_num(cohort_edges(cohort, *kind)), second.mean(axis=0)
        features.append((second - m) @ (x - x.mean(axis=0)).T)
    ratio = sum(_likelihood_ratio(values, members) for values in features)
    positive, found, _ = roc_curve(members.ravel(), ratio.ravel())
    return float(roc_auc_score(members.ravel(), ratio.ravel())), float(np.interp(0.01, positive, found))


def _likelihood_ratio(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """log N(f; in) - log N(f; out) of every fit and person, each fit judged by the other fits."""

    def moments(mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = mask.sum(axis=0) - mask
        mean = ((values * mask).sum(axis=0) - values * mask) / np.maximum(n, 1)
        pairs = zip(values.T, mask.T, strict=True)
        spread = np.sqrt(np.mean([np.var(column[keep], ddof=1) for column, keep in pairs if keep.sum() > 1]))
        return mean, spread * np.sqrt(1 + 1 / np.maximum(n, 1)), n

    (inside, s_in, n_in), (outside, s_out, n_out) = moments(members), moments(~members)
    log = ((values - outside) / s_out) ** 2 / 2 - ((values - inside) / s_in) ** 2 / 2 + np.log(s_out / s_in)
    return np.where((n_in > 0) & (n_out > 0), log, 0.0)


@threadpool_limits.wrap(limits=1)
def main() -> None:
    """Attack everything at three sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="an ABIDE_pcp folder in the place of made-up people")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 400, 1000])
    parser.add_argument("--fits", type=int, default=16)
    arguments = parser.parse_args()
    without = {"noise of epsilon 10": Protection(10.0), "noise of epsilon 100": Protection(100.0)}
    for size in arguments.sizes if arguments.root is None else [0]:
        if arguments.root:
            cohort = brainroam.load_cohort(arguments.root, atlas="aal")
        else:
            cohort = brainroam.make_cohort(n_sites=4, n_per_site=size // 2, n_rois=24, seed=1)
        known = {"ensemble": method("ensemble"), "core[epochs=0]": method("core", epochs=0), "pooled": pooled(None)}
        known |= {"first summaries": first_summary(None), "second summaries": second_summary(None)}
        noisy = {f"{n}, {w}": f(b) for w, b in without.items() for n, f in FEDERATED.items()}
        for (name, says), people in [
            *((item, cohort) for item in known.items()),
            *((item, cohort.using([])) for item in noisy.items()),
        ]:
            auc, found = attack(people, says, arguments.fits)
            print(f"{len(cohort) // 2:>5} people  {name:<42} AUC {auc:.2f}   found at 1 % {found:.0%}", flush=True)


FEDERATED = {"pooled": pooled, "first summaries": first_summary, "second summaries": second_summary}

if __name__ == "__main__":
    main()
