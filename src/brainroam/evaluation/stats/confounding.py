"""How much of a score is motion, age, sex or the size of the head: from predictions and participants.

Scores of different folds come from different models, so everything is computed within a held-out site. With s the
score of a person of class c, and x the covariates (log mean FD for motion, intracranial volume for the head),

    s = a_c + b'x + e            least squares within the site, one slope for all classes
    s without x = s - b'x        the slope never sees the difference between the classes, so it cannot take it away

Motion alone, and age and sex alone, are judged like any other method: a logistic model of the other sites.

Of several classes each has a score of its own, and the AUC is the mean over classes, each against the rest, at sites
without the people of classes of which hardly anybody is there. Of a number see `number_confounding`.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from brainroam.data.folds import hold_out
from brainroam.data.people import people_of
from brainroam.data.target.order import equivalent_sizes, is_constant, macro_auc
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights

MOTION = ("log_fd",)
AGE_SEX = ("age", "sex")
HEAD = ("head_size",)
ALL = (*MOTION, *AGE_SEX)
SITE_COLUMNS = (
    "motion_alone",
    "age_sex_alone",
    "auc",
    "auc_without_motion",
    "auc_without_age_sex",
    "auc_without_all",
    "r_motion",
    "auc_without_head_size",
    "r_head_size",
)
WITHOUT = {
    "auc_without_motion": MOTION,
    "auc_without_age_sex": AGE_SEX,
    "auc_without_all": ALL,
    "auc_without_head_size": HEAD,
}
CORRELATED = {"auc_without_motion": "r_motion", "auc_without_head_size": "r_head_size"}
KNOWN = ("age", "sex", "mean_fd", "head_size")  # columns of the participants that are looked at
SCAN_LENGTH = "n_timepoints"  # and this, of a number
FEWEST = 3  # people per class below which a slope within a site says nothing


def confounding_by_site(
    predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str = "loso", classes: Sequence[str] = ()
) -> pd.DataFrame:
    """One row per method and held-out site.

    Parameters
    ----------
    predictions : DataFrame
        ``method``, ``protocol``, ``site``, ``seed``, ``subject``, ``label`` and ``score``, or, of several classes,
        ``score_<class>``.
    participants : DataFrame
        ``subject``, ``label`` and, where known, ``age``, ``sex``, ``mean_fd`` and ``head_size``.
    protocol : str
    classes : sequence of str
        Names, where there are several.

    Returns
    -------
    DataFrame
        ``method``, ``site``, ``n``, ``weight`` (`metrics.site_weights`), and with seeds averaged:
        ``motion_alone`` and ``age_sex_alone`` (AUC of a logistic model of the other sites), ``auc``, then
        ``auc_without_motion``, ``auc_without_age_sex`` and ``auc_without_all`` (motion, age and sex taken out of the
        score), ``r_motion``, the correlation of score and log mean FD within classes, and ``auc_without_head_size`` and
        ``r_head_size``, the same of intracranial volume. NaN where a covariate is unknown; people with an unknown
        covariate are left out of the figures that use it. Several classes have no one score to correlate.

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
    people, scores = with_covariates(predictions, participants, protocol), ["score"]
    if classes:
        scores = [f"score_{name}" for name in classes]
        people = _without_rare_classes(people)
    alone = {
        "motion_alone": covariates_alone(people, MOTION),
        "age_sex_alone": covariates_alone(people, AGE_SEX),
    }
    rows = []
    for (method, site), runs in people.groupby(["method", "site"], sort=True):
        per_seed = pd.DataFrame([_of_run(run, scores) for _, run in runs.groupby("seed")])
        at_site = {name: values.get(site, np.nan) for name, values in alone.items()}
        label = runs.drop_duplicates("subject")["label"].to_numpy(dtype=int)
        row = {"method": method, "site": site, "n": len(label), "weight": _weight(label)}
        rows.append(row | at_site | per_seed.mean().to_dict())
    return pd.DataFrame(rows, columns=["method", "site", "n", "weight", *SITE_COLUMNS])


def _without_rare_classes(people: pd.DataFrame) -> pd.DataFrame:
    """Without those at a site who are of a class of which fewer than `FEWEST` are there."""
    size = people.groupby(["method", "site", "seed", "label"])["subject"].transform("size")
    return people[size >= FEWEST]


def _weight(label: np.ndarray) -> float:
    """`metrics.site_weights` of a site with these people; of several classes as `classes` counts them."""
    counts = np.bincount(label, minlength=2)
    of_classes = counts if len(counts) == 2 else equivalent_sizes(counts[None])[[0, 0]]
    return float(site_weights(*of_classes))


def confounding(
    predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str = "loso", classes: Sequence[str] = ()
) -> pd.DataFrame:
    """One row per method: the means over sites of `confounding_by_site`, best AUC first."""
    return confounding_means(confounding_by_site(predictions, participants, protocol, classes))


def confounding_means(sites: pd.DataFrame) -> pd.DataFrame:
    """`metrics.mean_over_sites` of every column of `confounding_by_site`, a row per method, best AUC first.

    Sites with too few people for a slope have an AUC, but none without covariates: both means are over those
    ``n_sites`` of the method where all that is known can be taken out, of the ``of_sites`` at which some method has an
    AUC: their difference is what was taken out. Methods with fewer sites stand after those with more.
    """
    rows, of_sites = [], sites.loc[sites["auc"].notna(), "site"].nunique()
    for method, here in sites.groupby("method"):
        parts = [name for name in WITHOUT if here[name].notna().any()]
        both = here[here[parts].notna().all(axis=1)] if parts else here
        of_both = ("auc", *parts)
        means = {
            name: mean_over_sites(part[name], part["weight"])
            for name in SITE_COLUMNS
            for part in [both if name in of_both else here]
        }
        counts = {"n_sites": int(both["auc"].notna().sum()), "of_sites": of_sites}
        rows.append({"method": method, **means, **counts})
    means = pd.DataFrame(rows, columns=["method", *SITE_COLUMNS, "n_sites", "of_sites"])
    return means.sort_values(["n_sites", "auc"], ascending=False, kind="stable", ignore_index=True)


def covariates_alone(people: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """AUC at each held-out site of a logistic model of these covariates, learned on the people of the other sites.

    Of an institution that is held out whole, no site trains for another. Somebody who was scanned at several sites does
    not train for any of them.
    """
    once = people.drop_duplicates(["site", "subject"]).dropna(subset=list(names))
    sites, who = once["site"].to_numpy(), pd.factorize(once["subject"])[0]
    whole = "fold" in once and (once["protocol"] == "loio").all()
    aucs = {}
    for site in pd.unique(sites):
        together = np.unique(sites[once["fold"].isin(once["fold"][sites == site])]) if whole else [site]
        train, test = (once.iloc[rows] for rows in hold_out(sites, together, who))
        test = test[test["site"] == site]
        if train["label"].nunique() < 2 or test["label"].nunique() < 2:
            continue
        scaler = StandardScaler().fit(train[list(names)].to_numpy(dtype=float))
        model = LogisticRegression().fit(scaler.transform(train[list(names)].to_numpy(dtype=float)), train["label"])
        score = model.decision_function(scaler.transform(test[list(names)].to_numpy(dtype=float)))
        aucs[str(site)] = _auc_of_classes(test["label"].to_numpy(dtype=int), score, model.classes_.astype(int))
    return aucs


def _auc_of_classes(label: np.ndarray, score: np.ndarray, classes: Sequence[int] | np.ndarray) -> float:
    """AUC of the score (n,) of two classes, or mean AUC of the scores (n, K) of these classes."""
    if score.ndim == 1:
        return auc(label == max(classes), score)
    of_each = np.zeros((len(label), max(label.max(), *classes) + 1))  # a class that is not scored has one for all
    of_each[:, classes] = score
    return float(macro_auc(label, of_each))


def without(score: np.ndarray, label: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """The scores (n,) of one site without what the covariates (n, k) explain of them within the classes.

    >>> label, x = np.array([0, 0, 0, 1, 1, 1]), np.array([[1.0], [2], [3], [1], [2], [3]])
    >>> without(5 * label + 2 * x[:, 0], label, x).round(6)
    array([4., 4., 4., 9., 9., 9.])
    """
    x = covariates - covariates.mean(axis=0)
    centred_x, centred_score = x.astype(float).copy(), score.astype(float).copy()
    for c in np.unique(label):
        centred_x[label == c] -= x[label == c].mean(axis=0)
        centred_score[label == c] -= score[label == c].mean()
    slope = np.linalg.lstsq(centred_x, centred_score, rcond=None)[0]
    size, spread = (int(np.floor(np.log10(x or 1))) for x in (np.abs(score).max(), np.ptp(score)))
    digits = max(9 - size, 6 - spread)  # of scores far from 0 what differs between people
    return np.round(score - x @ slope, digits)  # a score that is nothing but x leaves ties, not an order by rounding


def within_class_correlation(score: np.ndarray, x: np.ndarray, label: np.ndarray) -> float:
    """Correlation of score and x after both are centred within the classes."""
    parts = [(score[label == c], x[label == c]) for c in (0, 1)]
    s, v = (np.concatenate([part[k] - part[k].mean() for part in parts if len(part[k])]) for k in (0, 1))
    if is_constant(score) or is_constant(x) or not (s.any() and v.any()):
        return float("nan")
    s /= np.abs(s).max()  # the squares of huge scores are beyond numbers
    return float(s @ v / np.sqrt((s @ s) * (v @ v)))


def with_covariates(predictions: pd.DataFrame, participants: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Predictions of one protocol with the covariates of the people, each once; one that is absent is unknown."""
    rows = predictions[predictions["protocol"] == protocol]
    columns = participants.reindex(columns=["subject", *KNOWN, SCAN_LENGTH])
    keys = [name for name in ("method", "protocol", "site", "fold", "seed") if name in rows]
    people = people_of(rows.merge(columns, on="subject", how="left"), keys)
    motion = people["mean_fd"].astype(float)
    return people.assign(log_fd=np.log(motion.where(motion > 0)))


def _of_run(run: pd.DataFrame, scores: Sequence[str]) -> dict[str, float]:
    """The figures of one method, site and seed."""
    metrics = {"auc": _ranked(run, [run[name].to_numpy(dtype=float) for name in scores])}
    metrics |= dict.fromkeys(CORRELATED.values(), np.nan)
    for name, covariates in WITHOUT.items():
        complete = run.dropna(subset=list(covariates))
        complete = complete[complete.groupby("label")["label"].transform("size") >= FEWEST]
        if complete["label"].nunique() < 2:
            metrics[name] = np.nan
            continue
        label, x = complete["label"].to_numpy(dtype=int), complete[list(covariates)].to_numpy(dtype=float)
        values = [complete[key].to_numpy(dtype=float) for key in scores]
        metrics[name] = _ranked(complete, [without(score, label, x) for score in values])
        if name in CORRELATED and len(scores) == 1:
            metrics[CORRELATED[name]] = within_class_correlation(values[0], x[:, 0], label)
    return metrics


def _ranked(people: pd.DataFrame, scores: Sequence[np.ndarray]) -> float:
    """The AUC of one score, or the mean AUC of a score for each class."""
    label = people["label"].to_numpy(dtype=int)
    return auc(label, scores[0]) if len(scores) == 1 else float(macro_auc(label, np.stack(scores, axis=-1)))
