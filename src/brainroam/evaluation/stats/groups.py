"""For whom a method works: results by sex and by thirds of age and motion, per site and pooled.

Only a case and a control of the same site and the same group are compared, as scores of different folds come from
different models. The AUC of a group is the mean over sites as everywhere (`metrics.site_weights`, with the people of
the group), a ratio of sums, and so are sensitivity and specificity, which count people:

    AUC = sum_e w_e A_e / sum_e w_e,   w_e = min(cases, controls, 20) of the group at site e

Its interval is that of `verdict`, which knows how few people a site has; there is none where `verdict.refusal` says so,
and ``reason`` repeats it. The test of two groups a and b takes sites as
the unit: theta = AUC_b - AUC_a is computed from all k sites and without each of them, and the jackknife's
pseudo-values

    theta_e = k theta - (k - 1) theta without e

have the t distribution with k - 1 degrees of freedom. Both groups are read by the same models, so what left-out sites
share in training cancels: with models that are trained on the other sites the test rejects 3.9 to 5.5 % of true null
hypotheses at the 5 % level (docs/results/next-site.md).

A few people who are all ordered rightly do not scatter, yet they are as uncertain as any few people. So the variance of
theta is at least the sampling variance of both groups, each as if two people more of either class had been read, one
rightly and one wrongly, and a group without an interval is not tested. Thirds are those of the whole cohort.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import ndtri
from scipy.stats import t as t_law

from brainroam.evaluation.stats.confounding import with_covariates
from brainroam.evaluation.stats.metrics import auc, site_weights
from brainroam.evaluation.stats.paired import LEVEL, CorrectedT, holm, nadeau_bengio
from brainroam.evaluation.stats.verdict import auc_variance, site_intervals, verdict

MEASURES = ("auc", "sensitivity", "specificity")
SITE_COLUMNS = ("covariate", "group", "site", "n", "n_cases", "auc", "low", "high")


def groups_by_site(
    predictions: pd.DataFrame, participants: pd.DataFrame, method: str, protocol: str = "loso"
) -> pd.DataFrame:
    """One row per group and held-out site that has people of it.

    Parameters
    ----------
    predictions : DataFrame
        ``method``, ``protocol``, ``site``, ``seed``, ``subject``, ``label``, ``score`` and, where known,
        ``predicted``; seeds are averaged.
    participants : DataFrame
        ``subject`` and, where known, ``age``, ``sex`` and ``mean_fd``.

    Returns
    -------
    DataFrame
        ``covariate``, ``group``, ``site``, ``n``, ``n_cases``, ``auc`` with its 95 % interval (``low``, ``high``; NaN
        without both classes), ``sensitivity`` and ``specificity`` of the predicted class.
    """
    people = with_covariates(predictions, participants, protocol)
    people = people[people["method"] == method]
    rows = []
    for covariate, group, members in _groups(people.drop_duplicates("subject")):
        for site, runs in people[people["subject"].isin(members)].groupby("site"):
            once = runs.drop_duplicates("subject")
            row = {"covariate": covariate, "group": group, "site": site, "n": len(once)}
            runs_of = runs.groupby([name for name in ("seed", "fold") if name in runs])
            means = pd.DataFrame([_of_run(run) for _, run in runs_of]).mean()
            rows.append(row | {"n_cases": int(once["label"].sum())} | means.to_dict())
    table = pd.DataFrame(rows, columns=[*SITE_COLUMNS[:5], *MEASURES]).assign(low=np.nan, high=np.nan)
    measured = table["auc"].notna().to_numpy()
    if measured.any():
        cases = table["n_cases"].to_numpy()[measured]
        controls = table["n"].to_numpy()[measured] - cases
        low, high = site_intervals(table["auc"].to_numpy()[measured], cases, controls)
        table.loc[measured, "low"], table.loc[measured, "high"] = low, high
    return table[[*SITE_COLUMNS, *MEASURES[1:]]]


def groups_pooled(by_site: pd.DataFrame) -> pd.DataFrame:
    """One row per group of `groups_by_site`, over all sites.

    Returns
    -------
    DataFrame
        ``covariate``, ``group``, ``n``, ``n_cases``, ``n_sites`` with both classes, ``auc`` with its 95 % interval
        ``low`` to ``high`` and, where there is none, the ``reason``; ``sensitivity``, ``specificity``.
    """
    rows = []
    for (covariate, group), sites in by_site.groupby(["covariate", "group"], sort=False):
        row = {"covariate": covariate, "group": group, "n": sites["n"].sum(), "n_cases": sites["n_cases"].sum()}
        pooled = {name: _ratio(*part) for name, part in _parts(sites).items()}
        over_sites = verdict(sites["auc"], sites["n_cases"], sites["n"] - sites["n_cases"])
        reason = over_sites.reason if np.isnan(over_sites.low) else ""
        own = {"n_sites": over_sites.n_sites, "low": over_sites.low, "high": over_sites.high, "reason": reason}
        rows.append(row | pooled | own)
    columns = ["covariate", "group", "n", "n_cases", "n_sites", "auc", "low", "high", "reason", *MEASURES[1:]]
    return pd.DataFrame(rows, columns=columns)


def group_tests(by_site: pd.DataFrame) -> pd.DataFrame:
    """Is the last group of a covariate read better or worse than the first? One row per covariate and measure.

    Returns
    -------
    DataFrame
        ``covariate``, ``first``, ``last``, ``measure``, ``gap`` (last minus first), its 95 % interval ``low`` to
        ``high``, ``p``, and ``p_holm``, corrected for all rows; NaN where a group has too few people for an interval.

    Examples
    --------
    >>> rows = [("sex", name, f"S{e}", 20, 10, value + e / 100, 0.5, 0.5)
    ...         for name, value in (("female", 0.6), ("male", 0.8)) for e in range(6)]
    >>> columns = ["covariate", "group", "site", "n", "n_cases", *MEASURES]
    >>> group_tests(pd.DataFrame(rows, columns=columns))[["last", "measure", "gap"]].round(2).head(1)
       last measure  gap
    0  male     auc  0.2
    """
    rows = []
    pooled = groups_pooled(by_site)
    told = pooled[pooled["low"].notna()]
    for covariate, groups in by_site.groupby("covariate", sort=False):
        names = groups["group"].unique()
        if len(names) < 2:
            continue
        names = names[[0, -1]]
        both_told = set(names) <= set(told.loc[told["covariate"] == covariate, "group"])
        sites = np.unique(groups["site"])
        of_sites = [groups[groups["group"] == name].set_index("site").reindex(sites) for name in names]
        first, last = map(_parts, of_sites)
        for measure in MEASURES:
            values = pseudo_values(*first[measure], *last[measure]) if both_told else np.array([])
            sampling = sum(_sampling_variance(rows_of, measure) for rows_of in of_sites)
            test = _no_surer_than(nadeau_bengio(values, 0.0), sampling, len(values))
            key = {"covariate": covariate, "first": names[0], "last": names[1], "measure": measure}
            rows.append(key | {"gap": test.mean, "low": test.low, "high": test.high, "p": test.p})
    columns = ["covariate", "first", "last", "measure", "gap", "low", "high", "p"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=holm(table["p"].to_numpy(dtype=float)))


def _no_surer_than(test: CorrectedT, variance: float, k: int) -> CorrectedT:
    """The same test where the mean has at least this variance; k sites tell its scatter."""
    half = float(t_law.ppf((1 + LEVEL) / 2, max(k - 1, 1)) * np.sqrt(variance))
    if not k or (test.high - test.low) / 2 >= half:  # NaN where there is no scatter at all
        return test
    ratio = test.mean / np.sqrt(variance)
    return CorrectedT(test.mean, test.mean - half, test.mean + half, ratio, float(2 * t_law.sf(abs(ratio), k - 1)))


def _sampling_variance(sites: pd.DataFrame, measure: str) -> float:
    """Variance of a measure of one group over its sites by its people alone, two people more of either class counted.

    >>> sites = pd.DataFrame({"n": [4], "n_cases": [2], "auc": [1.0], "sensitivity": [1.0], "specificity": [0.5]})
    >>> _sampling_variance(sites, "sensitivity")  # 3 of 4 right: .75 * .25 / 2
    0.09375
    """
    won, of = _parts(sites)[measure]
    counted, total = of > 0, of.sum()
    if measure != "auc":
        share = (won.sum() + 1) / (total + 2)
        return float(share * (1 - share) / total) if total else np.nan
    cases, people = (sites[name].to_numpy(dtype=float)[counted] for name in ("n_cases", "n"))
    scarce = np.minimum(cases, people - cases).sum()
    area = (_ratio(won, of) * scarce + 1) / (scarce + 2)
    variances = auc_variance(float(ndtri(area)), 0.0, cases, people - cases)
    return float(variances @ (of[counted] / total) ** 2)


def pseudo_values(won_a: np.ndarray, of_a: np.ndarray, won_b: np.ndarray, of_b: np.ndarray) -> np.ndarray:
    """Jackknife pseudo-values of the difference b - a of two ratios of sums over sites, for sites with either.

    >>> pseudo_values(np.array([1.0, 2]), np.array([4, 4]), np.array([2.0, 4]), np.array([4, 4])).tolist()
    [0.25, 0.5]
    """
    parts = np.array([won_a, of_a, won_b, of_b])[:, (of_a > 0) | (of_b > 0)]
    total, k = parts.sum(axis=1), parts.shape[1]

    def gap(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return sums[2] / sums[3] - sums[0] / sums[1]

    values = k * gap(total) - (k - 1) * gap(total[:, None] - parts)
    return values if np.isfinite(values).all() else np.array([])  # one site holds all of a group: nothing to test


def _of_run(run: pd.DataFrame) -> dict[str, float]:
    label, score = run["label"].to_numpy(), run["score"].to_numpy(dtype=float)
    metrics = {"auc": auc(label, score), "sensitivity": np.nan, "specificity": np.nan}
    if "predicted" in run and run["predicted"].notna().all():
        right = (run["predicted"].to_numpy() >= 0.5) == (label == 1)
        for c, name in ((1, "sensitivity"), (0, "specificity")):
            metrics[name] = float(right[label == c].mean()) if (label == c).any() else np.nan
    return metrics


def _parts(sites: pd.DataFrame) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """For each measure its sum at each site and what it is divided by; a site without it counts nothing."""
    cases, people = sites["n_cases"].fillna(0).to_numpy(dtype=float), sites["n"].fillna(0).to_numpy(dtype=float)
    of = {"auc": site_weights(cases, people - cases), "sensitivity": cases, "specificity": people - cases}
    shares = {name: sites[name].to_numpy(dtype=float) for name in MEASURES}
    counts = {name: np.where(np.isfinite(shares[name]), of[name], 0.0) for name in MEASURES}
    return {name: (np.nan_to_num(shares[name]) * counts[name], counts[name]) for name in MEASURES}


def _ratio(won: np.ndarray, of: np.ndarray) -> float:
    return float(won.sum() / of.sum()) if of.sum() else np.nan


def _groups(people: pd.DataFrame) -> Iterator[tuple[str, str, pd.Series]]:
    """Covariate, name of the group, and its subjects."""
    for value, name in ((0, "female"), (1, "male")):
        if (people["sex"] == value).any():
            yield "sex", name, people.loc[people["sex"] == value, "subject"]
    for covariate, column in (("age", "age"), ("motion", "mean_fd")):
        known = people.dropna(subset=column)
        if known[column].nunique() < 3:
            continue
        third = np.searchsorted(known[column].quantile([1 / 3, 2 / 3]), known[column], side="left")
        parts = [known[third == k] for k in range(3) if (third == k).any()]
        names = span_names([part[column] for part in parts], *((0, "years") if column == "age" else (2, "mm")))
        for name, part in zip(names, parts, strict=True):
            yield covariate, name, part["subject"]


def span_names(parts: Sequence[pd.Series], digits: int, unit: str) -> list[str]:
    """From where to where each part goes; with more digits where parts would share a name.

    >>> span_names([pd.Series([0.1, 0.2]), pd.Series([0.3, 0.4])], 0, "years")
    ['0.1 to 0.2 years', '0.3 to 0.4 years']
    """
    names = [f"{part.min():.{digits}f} to {part.max():.{digits}f} {unit}" for part in parts]
    return names if len(set(names)) == len(names) or digits > 12 else span_names(parts, digits + 1, unit)
