"""What the data alone allow: one person at two sites, sites that can be told apart, confounds that predict."""

import numpy as np
from sklearn.linear_model import RidgeClassifier

from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.data.check import find_duplicates
from brainroam.data.cohort import Cohort
from brainroam.errors import listed
from brainroam.evaluation.finding import Check
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.splits import SiteStratifiedKFold
from brainroam.evaluation.stats import classes, numbers
from brainroam.evaluation.stats.compare import summarise
from brainroam.methods.features import EdgeFeatures
from brainroam.methods.linear import principal_axes

CONFOUNDS = {"age": "age", "sex": "sex", "mean_fd": "motion", "n_timepoints": "scan length"}
N_FOLDS = 3


def duplicates(cohort: Cohort) -> Check:
    """The same person at two sites is trained on and tested on, whatever the method."""
    site = cohort.table.set_index("subject")["site"]
    pairs = [(pair.first, pair.second) for pair in find_duplicates(cohort)]
    across = [
        f"{first} ({site[first]}) = {second} ({site[second]})" for first, second in pairs if site[first] != site[second]
    ]
    within = [f"{first} = {second} ({site[first]})" for first, second in pairs if site[first] == site[second]]
    if across:
        text = f"one person at two sites is both trained on and predicted: {listed(across)}; keep one of each"
    elif within:
        text = f"one person twice at one site, counted twice there: {listed(within)}; keep one of each"
    else:
        what = "series or nearly the same connectivity" if cohort.measure == "series" else "measures"
        text = f"no two of {len(cohort)} people have the same {what}"
    return Check(
        "duplicates", "", False if across else None if within else True, float(len(across) + len(within)), 0.0, text
    )


def site_decodability(cohort: Cohort, seed: int = 0) -> Check:
    """Can the site of a person be told from edges, before and after the frozen deconfounding that new people get?

    In-distribution folds: a ridge classifier of the site and the deconfounder learn on the same training people.
    """
    site, table = cohort.table["site"].to_numpy(), cohort.table
    covariates = table[[name for name in cohort.covariate_names if table[name].notna().any()]]
    scores: dict[str, list[np.ndarray]] = {"before": [], "after": []}
    edges = cohort_edges(cohort, "pearson")
    label = np.zeros(len(cohort), dtype=int) if cohort.target.is_number else cohort.targets.astype(int)
    for train, test in SiteStratifiedKFold(N_FOLDS, random_state=seed).split(edges, label, site):
        features = EdgeFeatures("pearson")
        trained, new = features.fit_transform(cohort.subset(train)), features.transform(cohort.subset(test))
        scores["before"].append(_right(trained, new, site[train], site[test]))
        frozen = SiteDeconfounder().fit(trained, covariates=covariates.iloc[train], site=site[train])
        trained, new = (
            frozen.frozen_residuals(edges, covariates.iloc[people]) for edges, people in ((trained, train), (new, test))
        )
        scores["after"].append(_right(trained, new, site[train], site[test]))
    before, after = (float(np.mean(np.concatenate(scores[when]))) for when in ("before", "after"))
    chance = float(np.mean([np.mean(site == name) for name in site]))
    limit = chance + 2 * (chance * (1 - chance) / len(cohort)) ** 0.5
    what = "the table" if cohort.measure == "table" else "edges"
    text = f"the site of a person never seen is told from {what} for {before:.0%} of people, and for {after:.0%} after "
    text += f"frozen deconfounding; guessing by size gives {chance:.0%}. "
    if after > limit:
        text += "A model can tell sites apart: that helps it wherever the share of cases differs between known sites, "
        text += "and misleads it at the next"
    else:
        text += "Sites cannot be told apart"
    return Check("site-decodability", "", None if after > limit else True, after, limit, text)


def confounds_only(cohort: Cohort) -> Check:
    """How well age, sex, motion and scan length alone predict at held-out sites."""
    names = [name for name in CONFOUNDS if cohort.table[name].notna().any()]
    if not names:
        text = f"{listed(CONFOUNDS.values())} are not known for anybody, so what they alone predict cannot be said"
        return Check("confounds-only", "", None, float("nan"), 0.5, text)
    results = evaluate(cohort, ["confounds"], tuning="fast", parameters={"covariates": names})
    words = listed([CONFOUNDS[name] for name in names])
    if cohort.target.is_number:
        number = numbers.verdict(numbers.average_seeds(results.scores))
        return _confounds(f"{words} alone: correlation", number.r, 0.0, number.low, number.high, number.reason)
    if cohort.target.is_classes:
        macro, _ = classes.summary(classes.average_seeds(results.scores, cohort.target), cohort.target)
        return _confounds(f"{words} alone: macro AUC", macro.mean, 0.5, macro.low, macro.high, macro.reason)
    row = summarise(results.scores, results.predictions).iloc[0]
    limits = float(row["auc_low"]), float(row["auc_high"])
    return _confounds(f"{words} alone: AUC", float(row["auc"]), 0.5, *limits, row["reason"])


def _confounds(measured: str, value: float, chance: float, low: float, high: float, reason: str) -> Check:
    predict = low > chance
    text = f"{measured} {value:.3f} at held-out sites "
    if np.isnan(low):
        text += f"({reason}); nothing can be said"
    else:
        text += f"(95 % interval {low:.3f} to {high:.3f}); "
        text += "compare every method with that" if predict else "no better than chance"
    return Check("confounds-only", "", None if predict else True, value, chance, text)


def _right(train: np.ndarray, test: np.ndarray, site: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether the site of each test person is told right by a ridge classifier."""
    mean = train.mean(axis=0)
    rotated, axes = principal_axes(train - mean)
    scale = float(rotated.var(axis=0).sum())  # the total variance: the penalty follows the scale of the edges
    return RidgeClassifier(alpha=scale).fit(rotated, site).predict((test - mean) @ axes) == truth
