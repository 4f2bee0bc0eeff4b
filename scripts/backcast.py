"""Do forecasts made from some sites of ABIDE hold at the sites that were left out?

    python scripts/backcast.py measure ABIDE_pcp --atlas aal --methods fc-ridge,ensemble --sites 6,10,15 --out scores
    python scripts/backcast.py judge ABIDE_pcp --out scores
    python scripts/backcast.py age ABIDE_pcp --atlas aal --sites 6,10,15

``measure`` draws k of the twenty sites as training sites, again and again, and keeps the score of everybody: of
training people by a fit without their site, of the others by the fit on all training sites. Files that exist are not
measured again, so it can be stopped and continued; each holds ``--piece`` draws. ``judge`` makes the forecast of
`brainroam.evaluation.forecast` from the training sites of each draw and holds it against the sites left out.

``age`` foretells the correlation and the mean error of log age, by ridge on Pearson edges: with K the products of
people less the mean of the training people, and l the mean of K's diagonal, a score is K (K + l I)^-1 (t - mean t).

Draws share sites, so coverage is counted by site first: the share of forecasts of one site that held, then the mean
over the sites, with its standard error over sites.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from common import parser_of

import brainroam
from brainroam.core.connectivity import cohort_edges
from brainroam.core.site_edges import SiteEdges
from brainroam.data.cohort import Cohort
from brainroam.data.folds import group_sites
from brainroam.data.target.calibration import calibrate, calibrate_number
from brainroam.data.target.outlook import expected_areas, expected_number
from brainroam.data.target.shifts import inner_sites, site_measures
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.metrics import site_weights
from brainroam.methods.edge_ridge import PENALTIES, EdgeRidge
from brainroam.methods.ensemble import MEMBERS, SHARES, spread_within_sites
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import GROUPS, TunedMethod
from brainroam.utils.optional import one_thread

Draws = list[list[str]]
LEARNED = ("volumes", "motion")  # looks whose slope is also learned from the training sites of each draw


def main() -> None:
    """Measure, or judge what was measured."""
    parser = parser_of(__doc__)
    parser.add_argument("step", choices=("measure", "judge", "age"))
    parser.add_argument("data")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--methods", default="fc-ridge,ensemble")
    parser.add_argument("--sites", default="6,10,15")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--piece", type=int, default=20)
    parser.add_argument("--pieces", type=int, default=10**6, help="stop after so many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("scores"))
    given = parser.parse_args()
    {"measure": lambda: measure(given), "judge": lambda: judge(given.data, given.out), "age": lambda: age(given)}[
        given.step
    ]()


def draws_of(sites: list[str], k: int, n_draws: int, seed: int) -> Draws:
    """Choices of k sites; the first of a longer list are those of a shorter one."""
    rng = np.random.default_rng([seed, k])
    return [sorted(rng.choice(sites, k, replace=False).tolist()) for _ in range(n_draws)]


@one_thread()
def measure(given: argparse.Namespace) -> None:
    """Write the scores of everybody, ``piece`` draws to a file."""
    given.out.mkdir(parents=True, exist_ok=True)
    todo = []
    for method in given.methods.split(","):
        for k in map(int, given.sites.split(",")):
            for start in range(0, given.draws, given.piece):
                file = given.out / f"{given.atlas}_{method}_{k}_{start:03d}.npz"
                if not file.exists():
                    todo.append((method, k, start, file))
    if not todo:
        return
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    for method, k, start, file in todo[: given.pieces]:
        draws = draws_of(cohort.sites, k, given.draws, given.seed)[start : start + given.piece]
        trained = np.array([cohort.table["site"].isin(sites).to_numpy() for sites in draws])
        np.savez(file, scores=SCORES.get(method, refitted)(cohort, draws, method), trained=trained)
        print(file, flush=True)


@one_thread()
def age(given: argparse.Namespace) -> None:
    """Coverage of the forecasts of a number, from products of people alone."""
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    edges = cohort_edges(cohort, "pearson")
    edges = np.where(np.isfinite(edges), edges, np.nanmean(edges, axis=0))
    products, t = edges @ edges.T, np.log(cohort.table["age"].to_numpy(dtype=float))
    site = cohort.table["site"].to_numpy(dtype=str)
    for k in map(int, given.sites.split(",")):
        rows = []
        for sites in draws_of(cohort.sites, k, given.draws, given.seed):
            score = np.full(len(t), np.nan)
            for training in [*folds_of(cohort, sites), sites]:
                away = ~np.isin(site, training) & (np.isin(site, sites) if training is not sites else True)
                score[away] = ridge_of_products(products, t, np.isin(site, training), away)
            rows += _judged_number(score, t, site, sites)
        print(f"{given.atlas}, k = {k}, {given.draws} draws")
        found = pd.DataFrame(rows)
        for measure, here in found.groupby("measure"):
            by_site = here.groupby("site")[["inside_80", "inside_95", "width_80", "width_95", "off"]].mean()
            worst = by_site["inside_95"].idxmin()
            error = (
                by_site["inside_95"].std() / np.sqrt(len(by_site)),
                by_site["inside_80"].std() / np.sqrt(len(by_site)),
            )
            mean = by_site.mean()
            print(
                f"  {measure}: 95 % held {mean['inside_95']:.1%} ({100 * error[0]:.1f}), width {mean['width_95']:.2f}; "
                f"80 % held {mean['inside_80']:.1%} ({100 * error[1]:.1f}), width {mean['width_80']:.2f}; "
                f"worst {worst} {by_site.loc[worst, 'inside_95']:.0%}; observed minus expected {mean['off']:+.3f}",
                flush=True,
            )


def ridge_of_products(products: np.ndarray, t: np.ndarray, train: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Scores of the people ``away`` by a ridge on those of ``train``, from products of people."""
    mean = products[:, train].mean(axis=1)
    centred = products - mean[:, None] - mean[None] + mean[train].mean()
    inner = centred[np.ix_(train, train)]
    dual = np.linalg.solve(inner + np.trace(inner) / len(inner) * np.eye(len(inner)), t[train] - t[train].mean())
    return centred[np.ix_(away, train)] @ dual


def _judged_number(score: np.ndarray, t: np.ndarray, site: np.ndarray, sites: list[str]) -> list[dict]:
    """A row for each site left out and measure: was it inside, and how wide was the interval."""
    known = np.isin(site, sites)
    calibration = calibrate_number(score[known], t[known])
    error = calibration(score) - t
    places = {name: site == name for name in np.unique(site)}
    measured = {
        "r": [np.corrcoef(score[here], t[here])[0, 1] for name, here in places.items() if name in sites],
        "level": [error[here].mean() for name, here in places.items() if name in sites],
        "level_var": [error[here].var(ddof=1) / here.sum() for name, here in places.items() if name in sites],
        "n": [here.sum() for name, here in places.items() if name in sites],
        "spread": [score[here].std(ddof=1) for name, here in places.items() if name in sites],
    }
    rows = []
    for name, here in places.items():
        if name in sites:
            continue
        expected = expected_number(measured, int(here.sum()), float(score[here].std(ddof=1)), models)["expected"]
        seen = {"r": np.corrcoef(score[here], t[here])[0, 1], "mean_error": error[here].mean()}
        for measure, told in expected.items():
            limits = {p: (told[f"low_{p}"], told[f"high_{p}"]) for p in (80, 95)}
            inside = {f"inside_{p}": low <= seen[measure] <= high for p, (low, high) in limits.items()}
            widths = {f"width_{p}": high - low for p, (low, high) in limits.items()}
            rows.append({"site": name, "measure": measure, "off": seen[measure] - told["expected"], **inside, **widths})
    return rows


def folds_of(cohort: Cohort, sites: list[str]) -> list[list[str]]:
    """The training sites of each inner fold of `brainroam.methods.tuning`."""
    site = cohort.select(sites).table["site"].to_numpy()
    return [[name for name in sites if name not in group] for group in group_sites(sites, site, GROUPS)]


def ridge_scores(cohort: Cohort, draws: Draws, reader: EdgeRidge) -> np.ndarray:
    """Scores (draws, n) of one reader: of training people by the inner fold without their site.

    Where each fold scales the edges its own way the problems of all draws are solved together, on the edges of all
    sites: what a fit takes from a site depends on that site alone.
    """
    site, edges = cohort.table["site"].to_numpy().astype(str), SiteEdges(cohort, reader.kind, reader.centred)
    kept = [[*folds_of(cohort, sites), sites] for sites in draws]
    if reader.soft:
        found = iter(reader._weights(edges, cohort, [sites for choice in kept for sites in choice]))
    else:  # the unit of the penalty is that of the draw's own people
        parts = [(SiteEdges(here := cohort.select(sites), reader.kind), here) for sites in draws]
        found = iter([w for part, choice in zip(parts, kept, strict=True) for w in reader._weights(*part, choice)])
    scores = np.full((len(draws), len(cohort)), np.nan)
    for row, choice in zip(scores, kept, strict=True):
        for sites in choice:
            whole = choice[-1]
            away = ~np.isin(site, sites) & (np.isin(site, whole) if sites is not whole else True)
            people = np.flatnonzero(away)
            row[people] = edges.score(people, edges.centre(sites), next(found))
    return scores


def plain_ridge(cohort: Cohort, draws: Draws, method: str) -> np.ndarray:
    """fc-ridge."""
    return ridge_scores(cohort, draws, EdgeRidge(penalties=PENALTIES[0]))


def ensemble(cohort: Cohort, draws: Draws, method: str) -> np.ndarray:
    """The weighted sum of its readers, scaled on the inner scores of each draw."""
    readers = [EdgeRidge(**settings, covariates=("mean_fd",)) for settings in MEMBERS.values()]
    parts = np.stack([ridge_scores(cohort, draws, reader) for reader in readers], axis=-1)
    site, shares = cohort.table["site"].to_numpy(), np.array([SHARES[name] for name in MEMBERS])
    scores = np.empty(parts.shape[:2])
    for row, part, sites in zip(scores, parts, draws, strict=True):
        here = np.isin(site, sites)
        row[:] = part @ (shares / shares.sum() / spread_within_sites(part[here], site[here]))
    return scores


def refitted(cohort: Cohort, draws: Draws, method: str) -> np.ndarray:
    """Any method, refitted for every draw."""
    site, scores = cohort.table["site"].to_numpy(), np.full((len(draws), len(cohort)), np.nan)
    for row, sites in zip(scores, draws, strict=True):
        here = np.isin(site, sites)
        model = TunedMethod(method_info(method), "default")
        row[here] = model.fit(cohort.subset(here)).inner_scores_
        row[~here] = model.score(cohort.subset(~here))
    return scores


SCORES = {"fc-ridge": plain_ridge, "ensemble": ensemble}


def judge(data: str, folder: Path) -> None:
    """Print coverage, width and error of every atlas, method and number of training sites."""
    groups: dict[tuple[str, str, int], list[Path]] = {}
    for file in sorted(folder.glob("*.npz")):
        atlas, method, k, _ = file.stem.split("_")
        groups.setdefault((atlas, method, int(k)), []).append(file)
    for atlas in dict.fromkeys(atlas for atlas, *_ in groups):
        cohort = brainroam.load_cohort(data, atlas=atlas)
        looks = site_looks(cohort)
        for (here, method, k), files in sorted(groups.items()):
            if here == atlas:
                kept = folder / f"{atlas}_{method}_{k}.csv"
                if not kept.exists() or kept.stat().st_mtime < max(file.stat().st_mtime for file in files):
                    pd.concat([judged(cohort, looks, file) for file in files]).to_csv(kept, index=False)
                rows = pd.read_csv(kept)
                show(f"{atlas} {method} {k}", rows)
                sharpen(rows[rows["measure"] == "auc"], looks)


def judged(cohort: Cohort, looks: pd.DataFrame, file: Path) -> pd.DataFrame:
    """One row per draw, left-out site and measure: expected, limits, observed, and the correlation with training."""
    content, site, y = np.load(file), cohort.table["site"].to_numpy(), cohort.labels
    means = {name: cohort_edges(cohort.select([name])).mean(axis=0) for name in cohort.sites}
    rows = []
    for draw, (score, trained) in enumerate(zip(content["scores"], content["trained"], strict=True)):
        calibration = calibrate(score[trained], y[trained], site[trained])
        measured = inner_sites(score[trained], y[trained], site[trained], calibration).to_dict("list")
        sharper = {name: from_training(measured, looks[name]) for name in LEARNED}
        centre = np.mean([means[name] for name in np.unique(site[trained])], axis=0)
        for name in np.unique(site[~trained]):
            here = site == name
            found = site_measures(y[here], score[here], calibration.decide(score[here]), calibration(score[here], 0.5))
            cases = here.sum() * calibration.prevalence
            expected = expected_areas(measured, cases, here.sum() - cases, models)
            facts = {"draw": f"{file.stem}-{draw}", "site": name, "n": here.sum(), "spread": score[here].std()}
            facts |= {f"by_{look}": a + b * looks[look][name] for look, (a, b) in sharper.items()}
            facts["resemblance"] = np.corrcoef(np.nan_to_num(means[name]), np.nan_to_num(centre))[0, 1]
            rows += [facts | {"measure": m, "observed": found[m], **expected[m]} for m in expected]
    return pd.DataFrame(rows)


def from_training(measured: dict[str, list], look: pd.Series) -> tuple[float, float]:
    """Intercept and slope of the inner sites' AUC on a look of theirs: what the training sites alone could learn."""
    weight = np.sqrt(site_weights(measured["n_cases"], measured["n_controls"]))
    x = np.column_stack([np.ones(len(weight)), look[measured["site"]]])
    found = np.linalg.lstsq(x * weight[:, None], np.array(measured["auc"]) * weight, rcond=None)[0]
    return float(found[0]), float(found[1])


def show(title: str, rows: pd.DataFrame) -> None:
    """Coverage by site, then over sites."""
    for measure, here in rows.groupby("measure", sort=False):
        told = f"{title} {measure}: {here['draw'].nunique()} draws, {len(here)} forecasts"
        for level in (80, 95):
            inside = here["observed"].between(here[f"low_{level}"], here[f"high_{level}"])
            by_site = inside.groupby(here["site"]).mean()
            width = (here[f"high_{level}"] - here[f"low_{level}"]).mean()
            worst = f"{by_site.idxmin()} {by_site.min():.2f}"
            told += f"; {level} %: {by_site.mean():.3f} (se {by_site.sem():.3f}, worst {worst}), width {width:.3f}"
        off = (here["observed"] - here["expected"]).groupby(here["site"]).mean()
        print(f"{told}; observed - expected {off.mean():+.3f} (sd over sites {off.std():.3f})", flush=True)


def site_looks(cohort: Cohort) -> pd.DataFrame:
    """What each site looks like, without labels."""
    table = cohort.table
    table["volumes"] = np.log(table["n_timepoints"])  # not seconds: ABIDE's table lacks the TR of ten sites
    table["motion"] = np.log(table["mean_fd"].clip(lower=1e-4))
    return (
        table.groupby("site")[["motion", "volumes", "age"]].mean().assign(people=np.log(table.groupby("site").size()))
    )


def sharpen(rows: pd.DataFrame, looks: pd.DataFrame) -> None:
    """Share of the squared error of the expected AUC that a regression on looks of *other* sites removes."""
    by_site = (
        rows.assign(off=rows["observed"] - rows["expected"]).groupby("site")[["off", "resemblance", "spread"]].mean()
    )
    table = by_site.join(looks)
    names = ["motion", "volumes", "age", "resemblance", "spread", "people"]
    told = []
    for chosen in (*([name] for name in names), names[:4]):
        x = np.column_stack([np.ones(len(table)), ((table[chosen] - table[chosen].mean()) / table[chosen].std())])
        off, left = table["off"].to_numpy(), []
        for k in range(len(off)):
            rest = np.arange(len(off)) != k
            left.append((off[k] - off[rest].mean(), off[k] - x[k] @ np.linalg.lstsq(x[rest], off[rest], rcond=None)[0]))
        without, with_looks = np.square(left).sum(axis=0)
        told.append(f"{'+'.join(chosen)} {1 - with_looks / without:+.2f}")
    for look in LEARNED:
        errors = rows.assign(
            plain=(rows["observed"] - rows["expected"]) ** 2, sharper=(rows["observed"] - rows[f"by_{look}"]) ** 2
        )
        plain, sharper = errors.groupby("site")[["plain", "sharper"]].mean().mean()
        print(
            f"   error removed by {look}, slope from the training sites alone: {1 - sharper / plain:+.2f}", flush=True
        )
    print(f"   error removed by looks, each site from the others: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
