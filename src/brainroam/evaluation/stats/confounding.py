"""How much of a score is motion, age or sex, and for whom a method works: from predictions and participants.

Scores of different folds come from different models, so everything is computed within a held-out site. With s the
score of a person of class c, and x the covariates (log mean FD for motion),

    s = a_c + b'x + e            least squares within the site, one slope for both classes
    s without x = s - b'x        the slope never sees the difference between the classes, so it cannot take it away

Motion alone, and age and sex alone, are judged like any other method: a logistic model of the other sites.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from brainroam.evaluation.stats.metrics import auc

MOTION = ("log_fd",)
AGE_SEX = ("age", "sex")
ALL = (*MOTION, *AGE_SEX)
SITE_COLUMNS = (
    "motion_alone",
    "age_sex_alone",
    "auc",
    "auc_without_motion",
    "auc_without_all",
    "r_motion",
)
FEWEST = 3  # people per class below which a slope within a site says nothing


def confounding_by_site(predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str = "loso") -> pd.DataFrame:
    """One row per method and held-out site.

    Parameters
    ----------
    predictions : DataFrame
        ``method``, ``protocol``, ``site``, ``seed``, ``subject``, ``label`` and ``score``.
    participants : DataFrame
        ``subject``, ``label`` and, where known, ``age``, ``sex`` and ``mean_fd``.

    Returns
    -------
    DataFrame
        ``method``, ``site``, ``n``, and with seeds averaged: ``motion_alone`` and ``age_sex_alone`` (AUC of a logistic
        model of the other sites), ``auc``, ``auc_without_motion``, ``auc_without_all`` (motion, age and sex taken out
        of the score), and ``r_motion``, the correlation of score and log mean FD within classes. NaN where a covariate
        is unknown; people with an unknown covariate are left out of the figures that use it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"subject": [f"p{i:03}" for i in range(120)], "label": np.tile([0, 1], 60),
    ...     "mean_fd": rng.lognormal(-2, 0.5, 120), "age": rng.normal(20, 5, 120), "sex": np.tile([0, 0, 1], 40)})
    >>> people["mean_fd"] *= 1 + people["label"]  # cases move more
    >>> runs = people[["subject", "label"]].assign(method="motion", protocol="loso", seed=0,
    ...     site=np.repeat(["A", "B", "C"], 40), score=np.log(people["mean_fd"]))
    >>> found = confounding_by_site(runs, people)
    >>> found[["auc", "auc_without_motion", "r_motion"]].mean().round(2).tolist()
    [0.87, 0.5, 1.0]
    """
    people = _joined(predictions, participants, protocol)
    alone = {
        "motion_alone": covariates_alone(people, MOTION),
        "age_sex_alone": covariates_alone(people, AGE_SEX),
    }
    rows = []
    for (method, site), runs in people.groupby(["method", "site"], sort=True):
        per_seed = pd.DataFrame([_of_run(run) for _, run in runs.groupby("seed")])
        known = {name: values.get(site, np.nan) for name, values in alone.items()}
        rows.append({"method": method, "site": site, "n": runs["subject"].nunique(), **known, **per_seed.mean()})
    return pd.DataFrame(rows, columns=["method", "site", "n", *SITE_COLUMNS])


def confounding(predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str = "loso") -> pd.DataFrame:
    """One row per method: the means over sites of `confounding_by_site`, best AUC first."""
    sites = confounding_by_site(predictions, participants, protocol)
    means = sites.groupby("method")[list(SITE_COLUMNS)].mean().reset_index()
    return means.sort_values("auc", ascending=False, kind="stable", ignore_index=True)


def covariates_alone(people: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """AUC at each held-out site of a logistic model of these covariates, learned on the people of the other sites."""
    once = people.drop_duplicates(["site", "subject"]).dropna(subset=list(names))
    found = {}
    for site in once["site"].unique():
        here = once["site"] == site
        train, test = once[~here], once[here]
        if train["label"].nunique() < 2 or test["label"].nunique() < 2:
            continue
        scaler = StandardScaler().fit(train[list(names)].to_numpy(dtype=float))
        model = LogisticRegression().fit(scaler.transform(train[list(names)].to_numpy(dtype=float)), train["label"])
        score = model.decision_function(scaler.transform(test[list(names)].to_numpy(dtype=float)))
        found[str(site)] = auc(test["label"].to_numpy(), score)
    return found


def without(score: np.ndarray, label: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """The scores (n,) of one site without what the covariates (n, k) explain of them within the classes.

    >>> label, x = np.array([0, 0, 0, 1, 1, 1]), np.array([[1.0], [2], [3], [1], [2], [3]])
    >>> without(5 * label + 2 * x[:, 0], label, x).round(6)
    array([4., 4., 4., 9., 9., 9.])
    """
    x = covariates - covariates.mean(axis=0)
    centred_x, centred_score = x.astype(float).copy(), score.astype(float).copy()
    for c in (0, 1):
        centred_x[label == c] -= x[label == c].mean(axis=0)
        centred_score[label == c] -= score[label == c].mean()
    slope = np.linalg.lstsq(centred_x, centred_score, rcond=None)[0]
    digits = 9 - int(np.floor(np.log10(np.abs(score).max() or 1)))
    return np.round(score - x @ slope, digits)  # a score that is nothing but x leaves ties, not an order by rounding


def within_class_correlation(score: np.ndarray, x: np.ndarray, label: np.ndarray) -> float:
    """Correlation of score and x after both are centred within the classes."""
    parts = [(score[label == c], x[label == c]) for c in (0, 1)]
    s, v = (np.concatenate([part[k] - part[k].mean() for part in parts if len(part[k])]) for k in (0, 1))
    scale = np.sqrt((s @ s) * (v @ v))
    return float(s @ v / scale) if scale > 0 else float("nan")


def auc_by_group(
    predictions: pd.DataFrame,
    participants: pd.DataFrame,
    method: str,
    protocol: str = "loso",
    n_boot: int = 2000,
    random_state: int = 0,
) -> pd.DataFrame:
    """AUC of one method by sex and by thirds of age and motion, with intervals.

    Only a case and a control of the same site and the same group are compared, and all such pairs count alike. The
    95 % interval draws sites with replacement. Thirds are those of the whole cohort.

    Returns
    -------
    DataFrame
        ``covariate``, ``group``, ``n``, ``n_cases``, ``n_sites`` with both classes, ``auc``, ``low``, ``high``.
    """
    people = _joined(predictions, participants, protocol)
    people = people[people["method"] == method]
    rng = np.random.default_rng(random_state)
    rows = []
    for covariate, group, members in _groups(people.drop_duplicates("subject")):
        inside = people[people["subject"].isin(members)]
        wins, pairs = [], []
        for _, runs in inside.groupby("site"):
            n_cases, n_controls = (runs.loc[runs["label"] == c, "subject"].nunique() for c in (1, 0))
            if n_cases and n_controls:
                seeds = [auc(run["label"].to_numpy(), run["score"].to_numpy()) for _, run in runs.groupby("seed")]
                pairs.append(n_cases * n_controls)
                wins.append(np.mean(seeds) * pairs[-1])
        once = inside.drop_duplicates("subject")
        row = {"covariate": covariate, "group": group, "n": len(once), "n_cases": int(once["label"].sum())}
        rows.append(row | {"n_sites": len(pairs)} | _pooled(np.array(wins), np.array(pairs), rng, n_boot))
    columns = ["covariate", "group", "n", "n_cases", "n_sites", "auc", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _pooled(wins: np.ndarray, pairs: np.ndarray, rng: np.random.Generator, n_boot: int) -> dict[str, float]:
    """Share of pairs won, and its interval when sites are drawn again."""
    if len(pairs) == 0:
        return {"auc": np.nan, "low": np.nan, "high": np.nan}
    if len(pairs) < 3:
        return {"auc": float(wins.sum() / pairs.sum()), "low": np.nan, "high": np.nan}
    drawn = rng.integers(len(pairs), size=(n_boot, len(pairs)))
    low, high = np.quantile(wins[drawn].sum(axis=1) / pairs[drawn].sum(axis=1), [0.025, 0.975])
    return {"auc": float(wins.sum() / pairs.sum()), "low": float(low), "high": float(high)}


def _groups(people: pd.DataFrame):
    """Covariate, name of the group, and its subjects."""
    for value, name in ((0, "female"), (1, "male")):
        yield "sex", name, people.loc[people["sex"] == value, "subject"]
    for covariate, column in (("age", "age"), ("motion", "mean_fd")):
        known = people.dropna(subset=column)
        if known[column].nunique() < 3:
            continue
        third = np.searchsorted(known[column].quantile([1 / 3, 2 / 3]), known[column], side="left")
        for k in range(3):
            values = known.loc[third == k, column]
            if len(values):
                show = "{:.0f} to {:.0f} years" if column == "age" else "{:.2f} to {:.2f} mm"
                yield covariate, show.format(values.min(), values.max()), known.loc[third == k, "subject"]


def _joined(predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Predictions of one protocol with the covariates of the people; a covariate that is absent is unknown."""
    rows = predictions[predictions["protocol"] == protocol]
    known = participants.reindex(columns=["subject", "age", "sex", "mean_fd"])
    people = rows.merge(known, on="subject", how="left")
    motion = people["mean_fd"].astype(float)
    return people.assign(log_fd=np.log(motion.where(motion > 0)))


def _of_run(run: pd.DataFrame) -> dict[str, float]:
    """The figures of one method, site and seed."""
    label, score = run["label"].to_numpy(), run["score"].to_numpy(dtype=float)
    found = {"auc": auc(label, score), "r_motion": np.nan}
    for name, covariates in (("auc_without_motion", MOTION), ("auc_without_all", ALL)):
        known = run.dropna(subset=list(covariates))
        label, score = known["label"].to_numpy(), known["score"].to_numpy(dtype=float)
        x = known[list(covariates)].to_numpy(dtype=float)
        if min((label == 0).sum(), (label == 1).sum()) < FEWEST:
            found[name] = np.nan
            continue
        found[name] = auc(label, without(score, label, x))
        if covariates == MOTION:
            found["r_motion"] = within_class_correlation(score, x[:, 0], label)
    return found
