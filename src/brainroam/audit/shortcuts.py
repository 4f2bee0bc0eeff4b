"""Results that mean little without any leak: what the data alone allow, and what a method scores on shuffled labels.

The data: one person at two sites, sites that can be told apart, confounds that predict. Labels permuted within site
mean nothing, so a method that still predicts them has seen the labels it is judged by.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t
from sklearn.linear_model import RidgeClassifier

from brainroam.audit.candidates import Candidate, MethodCandidate
from brainroam.audit.fresh import FreshProcesses
from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.data.check import find_duplicates
from brainroam.data.cohort import Cohort
from brainroam.data.people import people_of, persons
from brainroam.errors import EmptyScaffoldError, listed
from brainroam.evaluation.checks import Check
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.splits import SiteStratifiedKFold, folds
from brainroam.evaluation.stats.compare import summarise
from brainroam.methods.base import score_shape
from brainroam.methods.edge_features import EdgeFeatures
from brainroam.methods.linear import principal_axes
from brainroam.methods.registry import is_ours

CONFOUNDS = {"age": "age", "sex": "sex", "mean_fd": "motion", "n_timepoints": "scan length"}
N_FOLDS = 3
LEVEL = 0.99  # of the interval that must hold chance: an honest method is accused once in two hundred audits
NOTABLE = 0.05
OF_PERMUTATIONS = "label-shuffle", "better-than-chance"
FEWEST = 19  # permutations with which p can reach it


def duplicates(cohort: Cohort) -> Check:
    """The same person at two sites is trained on and tested on, whatever the method."""
    site = cohort.table.set_index("subject")["site"]
    measured = [cohort.block(name).subset(cohort.has_block(name)) for name in cohort.blocks] or [cohort]
    pairs = dict.fromkeys((pair.first, pair.second) for block in measured for pair in find_duplicates(block))
    across = [
        f"{first} ({site[first]}) = {second} ({site[second]})" for first, second in pairs if site[first] != site[second]
    ]
    within = [f"{first} = {second} ({site[first]})" for first, second in pairs if site[first] == site[second]]
    if across:
        text = f"one person at two sites is both trained on and predicted: {listed(across)}; keep one of each"
    elif within:
        text = f"one person twice at one site, counted twice there: {listed(within)}; keep one of each"
    else:
        tabular = cohort.measure == "table"
        what = "measures" if tabular else f"{cohort.measure} or nearly the same connectivity"
        text = f"no two of {cohort.counted} have the same {what}"
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
    label = cohort.target.order.strata(cohort.targets).astype(int)
    for train, test in SiteStratifiedKFold(N_FOLDS, random_state=seed).split(edges, label, site):
        features = EdgeFeatures("pearson")
        trained, new = features.fit_transform(cohort.subset(train)), features.transform(cohort.subset(test))
        scores["before"].append(_recognises_site(trained, new, site[train], site[test]))
        frozen = SiteDeconfounder().fit(trained, covariates=covariates.iloc[train], site=site[train])
        trained, new = (
            frozen.frozen_residuals(edges, covariates.iloc[people]) for edges, people in ((trained, train), (new, test))
        )
        scores["after"].append(_recognises_site(trained, new, site[train], site[test]))
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
    row, order = summarise(results.scores, results.predictions, cohort.target).iloc[0], cohort.target.order
    mean, low, high = (float(row[name]) for name in (order.figure.name, *order.ends))
    return _judge_confounds(f"{words} alone: {order.word}", mean, order.figure.chance, low, high, row["reason"])


def _judge_confounds(measured: str, value: float, chance: float, low: float, high: float, reason: str) -> Check:
    predict = low > chance
    text = f"{measured} {value:.3f} at held-out sites "
    if np.isnan(low):
        text += f"({reason}); nothing can be said"
    else:
        text += f"(95 % interval {low:.3f} to {high:.3f}); "
        text += "compare every method with that" if predict else "no better than chance"
    return Check("confounds-only", "", None if predict else True, value, chance, text)


def _recognises_site(train: np.ndarray, test: np.ndarray, site: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether the site of each test person is told right by a ridge classifier."""
    mean = train.mean(axis=0)
    rotated, axes = principal_axes(train - mean)
    scale = float(rotated.var(axis=0).sum())  # the total variance: the penalty follows the scale of the edges
    return RidgeClassifier(alpha=scale).fit(rotated, site).predict((test - mean) @ axes) == truth


def permuted_within_site(cohort: Cohort, seed: int) -> Cohort:
    """The same people with labels permuted within each site; every site keeps its share of cases.

    A person's scans get one label: they are not exchangeable with those of others.

    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> shuffled = permuted_within_site(cohort, seed=0)
    >>> bool((shuffled.labels == cohort.labels).all()), shuffled.labels[:8].sum() == cohort.labels[:8].sum()
    (False, np.True_)
    """
    rng = np.random.default_rng(seed)
    keys = [cohort.table["site"], persons(cohort.table), cohort.table["label"]]
    unit = pd.DataFrame(dict(enumerate(keys))).groupby([0, 1, 2], sort=False).ngroup()
    people = cohort.table.loc[~unit.duplicated(), ["site", "label"]].reset_index(drop=True)
    permuted = people.groupby("site")["label"].transform(rng.permutation)
    return cohort.with_columns(pd.DataFrame({"label": permuted.to_numpy()[unit]}))


def held_out_scores(
    candidate: Candidate, cohort: Cohort, seed: int = 0
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Leave one site out, by default settings: name, positions and scores of each site with both classes.

    A method that finds no scaffold says that there is nothing to find: everybody scores alike.
    """
    label = cohort.targets
    for fold in folds(cohort.table, "loso"):
        if len(set(label[fold.test])) < 2 or len(set(label[fold.train])) < 2:
            continue
        try:
            scores = candidate.quick_scores(cohort, fold.train, fold.test, seed)
        except EmptyScaffoldError:
            scores = np.zeros(score_shape(len(fold.test), cohort.target))
        yield fold.name, fold.test, scores


def mean_order(candidate: Candidate, cohort: Cohort, seed: int = 0) -> float:
    """Mean over held-out sites of the order of their people, as in a study: the AUC, or r.

    A person counts once, with the mean score of the scans.
    """
    target, order = cohort.target, cohort.target.order
    names = [name for name in ("subject", "person", "site", "label") if name in cohort.table]
    table = cohort.table[names].assign(**dict.fromkeys(target.score_columns, np.nan))
    for _, test, scores in held_out_scores(candidate, cohort, seed):
        table.loc[test, target.score_columns] = np.column_stack(list(target.score_table(scores).values()))
    people = people_of(table.dropna(subset=target.score_columns)).groupby("site")
    found = [order.at_site(here["label"].to_numpy(), target.scores_of(here)) for _, here in people]
    return order.figure.mean(*np.array(found).T)


def shuffle_checks(
    name: str, real: float, shuffled: Sequence[float], measure: str = "AUC", chance: float = 0.5
) -> Iterator[Check]:
    """Judge the AUCs, or correlations, under permuted labels, and the real one against them.

    >>> shuffled = [0.47, 0.52, 0.5, 0.49, 0.53, 0.46, 0.51, 0.5, 0.48]
    >>> [(check.name, check.passed, check.value) for check in shuffle_checks("fc-ridge", 0.7, shuffled)]
    [('label-shuffle', True, 0.4955555555555555), ('better-than-chance', None, 0.1)]
    """
    n, mean = len(shuffled), float(np.mean(shuffled))
    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * np.std(shuffled, ddof=1) / np.sqrt(n))
    honest = mean - half <= chance
    text = f"{n} permutations of all labels within site: mean {measure} {mean:.3f}, {LEVEL:.0%} interval "
    text += f"{mean - half:.3f} to {mean + half:.3f}, "
    text += "as it must be" if honest else f"above {chance:g}: labels reach the scores they judge"
    yield Check("label-shuffle", name, honest, mean, chance + half, text)
    smallest, p = 1 / (n + 1), (1 + sum(value >= real for value in shuffled)) / (n + 1)
    text = f"mean {measure} over held-out sites {real:.3f}, by default settings; p = {p:.2g} against {n} permutations "
    text += f"(the smallest they can give is {smallest:.2g})"
    if p > NOTABLE:
        too_few = p == smallest  # no permutation did as well
        text += f": too few to tell; give {FEWEST} or more" if too_few else ": cannot be told from chance"
    yield Check("better-than-chance", name, True if p <= NOTABLE else None, p, NOTABLE, text)


def permutation_checks(
    item: Candidate,
    cohort: Cohort,
    processes: FreshProcesses,
    permutations: int,
    seed: int,
    advance: Callable[[str], None],
) -> Iterator[Check]:
    """All folds of one permutation in a process of their own, as in a study; processes share features of people.

    Methods of brainroam run in this process: what they keep of a fold is known by what it was computed from, and most
    of it does not ask for labels. `tangent-ridge` then finds the references of its folds once instead of once for each
    permutation.
    """
    if permutations == 0:
        return
    ours = isinstance(item, MethodCandidate) and is_ours(item.info)
    run: Callable[..., float] = partial(_called, item) if ours else processes.of(item)
    with nullcontext() if cohort.on_disk else cohort.features.kept_in(processes.folder / "features"):
        order = cohort.target.order
        real = run(mean_order, cohort, seed)
        advance(f"{item.name}: {order.word} {real:.3f}")
        scores = []
        for k in range(permutations):
            scores.append(run(mean_order, permuted_within_site(cohort, seed + k), seed))
            advance(f"{item.name}: {order.word} {scores[-1]:.3f} with permuted labels")
    yield from shuffle_checks(item.name, real, scores, order.word, order.figure.chance)


def _called(item: Candidate, function: Callable[..., float], cohort: Cohort, *args: Any) -> float:
    return function(item, cohort, *args)
