"""How much of the order that predictions of a number give is motion, age, sex, scan length or the size of the head.

Within a held-out site, with p the prediction and t the truth (both as the target is learned, so logarithms where it is
one), x the covariates (n, k; log mean FD for motion, intracranial volume for the head), and e(v) what is left of v
after its least-squares fit by 1 and x,

    r              = cor(p, t)
    r without x    = cor(e(p), e(t))      the partial correlation; its Fisher's z has the variance 1 / (n - k - 3)
    r(p, motion)   = cor(p, log FD) with t in the place of x: whether predictions follow motion where the truth does not

All of it is of the people of whom every covariate is known, at the sites with n > k + 3 of them, so columns differ by
what was taken out and by nothing else. Means over sites are those of Fisher's z, see `verdict.next_site`.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from brainroam.data.target import Target
from brainroam.data.target.figures import fisher_z
from brainroam.data.target.order import LEAST, correlations
from brainroam.evaluation.stats.confounding import with_covariates
from brainroam.evaluation.stats.verdict import next_site

COVARIATES = {
    "motion": "log_fd",
    "age": "age",
    "sex": "sex",
    "scan_length": "n_timepoints",
    "head_size": "head_size",
}
FOLLOWED = ("motion", "head_size")  # whether predictions follow these is told as well
EVERY = "all"
COVARIATE_WORDS = {
    "motion": "motion",
    "age": "age",
    "sex": "sex",
    "scan_length": "scan length",
    "head_size": "head size",
    EVERY: "all",
}
COLUMNS = ("r", *(f"r_without_{name}" for name in (*COVARIATES, EVERY)), *(f"r_{name}" for name in FOLLOWED))
MOSTLY = 0.5  # share of the people of whom a covariate is known, below which it is not looked at
SAME = 1 - 1e-6  # correlation with the target from which on a covariate is the target itself


def number_confounding_by_site(
    predictions: pd.DataFrame, participants: pd.DataFrame, target: Target, protocol: str = "loso"
) -> pd.DataFrame:
    """One row per method and held-out site: ``method``, ``site``, ``n``, and `COLUMNS`, means over runs.

    A covariate that is not looked at has NaN, and so has a site where too few people are known.

    Parameters
    ----------
    predictions : DataFrame
        ``method``, ``protocol``, ``site``, ``seed``, ``subject``, ``label`` and ``predicted``.
    participants : DataFrame
        ``subject`` and, where known, ``age``, ``sex``, ``mean_fd``, ``n_timepoints`` and ``head_size``.
    target : Target
    protocol : str

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"subject": [f"p{i}" for i in range(120)], "age": rng.normal(20, 5, 120)})
    >>> runs = people[["subject"]].assign(method="age", protocol="loso", seed=0, site=np.repeat(["A", "B", "C"], 40),
    ...     label=people["age"] + rng.normal(0, 5, 120), predicted=people["age"])
    >>> found = number_confounding_by_site(runs, people, Target.of_kind("x", "number"))
    >>> found[["r", "r_without_age"]].mean().round(1).tolist()
    [0.6, 0.0]
    """
    people = with_covariates(predictions, participants, protocol)
    people = people.assign(t=target.forward(people["label"].to_numpy(dtype=float)))
    people["p"] = target.forward(people["predicted"].to_numpy(dtype=float))
    known = _known_covariates(people)
    rows = []
    for (method, site), runs in people.groupby(["method", "site"], sort=True):
        complete = runs.dropna(subset=["p", *known.values()])
        by_run = complete.groupby([name for name in ("fold", "seed") if name in complete])
        means = pd.DataFrame([_of_run(run, known) for _, run in by_run], columns=list(COLUMNS)).mean()
        rows.append({"method": method, "site": site, "n": complete["subject"].nunique(), **means})
    return pd.DataFrame(rows, columns=["method", "site", "n", *COLUMNS])


def number_confounding(
    predictions: pd.DataFrame, participants: pd.DataFrame, target: Target, protocol: str = "loso"
) -> pd.DataFrame:
    """One row per method, see `number_confounding_means`."""
    return number_confounding_means(number_confounding_by_site(predictions, participants, target, protocol))


def number_confounding_means(sites: pd.DataFrame) -> pd.DataFrame:
    """The means over sites of `number_confounding_by_site`, a row per method, the best order first.

    ``n_people`` of the ``n_sites`` at which all that is looked at can be taken out, of the ``of_sites`` at which people
    of some method were held out. Methods with fewer sites stand after those with more.
    """
    n_taken = _n_taken(sites)
    rows = []
    for method, every in sites.groupby("method"):
        here = every[every["r"].notna()]
        n = here["n"].to_numpy(dtype=float)
        means = {name: _mean(here[name].to_numpy(dtype=float), n - k) for name, k in n_taken.items()}
        counts = {"n_people": int(n.sum()), "n_sites": len(here), "of_sites": sites["site"].nunique()}
        rows.append({"method": method, **means, **counts})
    means = pd.DataFrame(rows, columns=["method", *COLUMNS, "n_people", "n_sites", "of_sites"])
    return means.sort_values(["n_sites", "r"], ascending=False, kind="stable", ignore_index=True)


def _n_taken(sites: pd.DataFrame) -> Mapping[str, int]:
    """How many covariates are taken out in each column."""
    looked_at = sum(sites[f"r_without_{name}"].notna().any() for name in COVARIATES)
    return {name: 0 if name == "r" else int(looked_at) if name.endswith(EVERY) else 1 for name in COLUMNS}


def _mean(r: np.ndarray, n: np.ndarray) -> float:
    """The mean of correlations of sites, each worth one of so many people."""
    r, n = r[n > 3], n[n > 3]
    return float(np.tanh(next_site(fisher_z(r), 1 / (n - 3)).mean)) if len(r) else float("nan")


def _known_covariates(people: pd.DataFrame) -> dict[str, str]:
    """The covariates that are known of most people, differ within some site, and are not the target itself."""
    once = people.drop_duplicates(["site", "subject"])
    known: dict[str, str] = {}
    for name, column in COVARIATES.items():
        here = once.dropna(subset=[column, "t"])
        x, t = (here[key].astype(float) - here.groupby("site")[key].transform("mean") for key in (column, "t"))
        if len(here) >= max(MOSTLY * len(once), LEAST) and abs(correlations(t.to_numpy(), x.to_numpy())) < SAME:
            known |= {name: column} if x.abs().max() > 0 else {}
    return known


def _of_run(run: pd.DataFrame, known: Mapping[str, str]) -> dict[str, float]:
    """The figures of one run at a site, of people of whom all is known."""
    p, t = (run[name].to_numpy(dtype=float) for name in ("p", "t"))
    found = dict.fromkeys(COLUMNS, np.nan)
    if not known or len(run) <= len(known) + 3 or np.ptp(t) == 0:
        return found
    found["r"] = float(correlations(t, p, float(np.std(t))))
    for name, column in known.items():
        found[f"r_without_{name}"] = partial_correlation(p, t, run[[column]].to_numpy(dtype=float))
        if name in FOLLOWED:
            found[f"r_{name}"] = partial_correlation(p, run[column].to_numpy(dtype=float), t[:, None])
    found[f"r_without_{EVERY}"] = partial_correlation(p, t, run[list(known.values())].to_numpy(dtype=float))
    return found


def partial_correlation(p: np.ndarray, t: np.ndarray, x: np.ndarray) -> float:
    """Correlation of p and t (n,) without what x (n, k) explains of either; 0 where nothing is left of one of them.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> partial_correlation(np.array([1.0, 0, 0, 1]) + 5 * x[:, 0], np.array([2.0, 0, 0, 2]) - x[:, 0], x)
    1.0
    """
    size = x.std(axis=0)
    scaled = (x - x.mean(axis=0)) / np.where(size > 0, size, 1)
    design = np.column_stack([np.ones(len(x)), scaled])
    left = [v - design @ np.linalg.lstsq(design, v, rcond=None)[0] for v in (p, t)]
    if any(np.abs(e).max() <= 1e-9 * np.ptp(v) for e, v in zip(left, (p, t), strict=True)):
        return 0.0
    return round(float(correlations(left[1], left[0])), 12)


def names_known(sites: pd.DataFrame) -> list[str]:
    """The covariates that are looked at in a table of sites or of methods."""
    return [name for name in COVARIATES if sites[f"r_without_{name}"].notna().any()]


def taken_out(names: list[str]) -> list[str]:
    """What stands behind ``r_without_``: each of these covariates by itself, and all of several.

    >>> taken_out(["age"]), taken_out(["age", "sex"])
    (['age'], ['age', 'sex', 'all'])
    """
    return [*names, *([EVERY] if len(names) > 1 else [])]
