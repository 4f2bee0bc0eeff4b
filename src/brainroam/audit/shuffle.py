"""Labels that mean nothing: what a method scores when they are permuted within site."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.stats import t

from brainroam.audit.candidates import Candidate
from brainroam.core.targets import LEAST, correlations, macro_auc
from brainroam.data.cohort import Cohort
from brainroam.data.people import people_of, persons
from brainroam.errors import EmptyScaffoldError
from brainroam.evaluation.finding import Check
from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.classes import counted_as
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights
from brainroam.evaluation.stats.numbers import weights_of
from brainroam.methods.base import score_shape

LEVEL = 0.99  # of the interval that must hold chance: an honest method is accused once in two hundred audits
NOTABLE = 0.05
FEWEST = 19  # permutations with which p can reach it


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
    """Mean over held-out sites of their AUC (of several classes the mean over them, each against the rest), or of the
    correlation with a number (sites of four people or more), with the weights of sites that studies have.

    A person counts once, with the mean score of the scans.
    """
    names = [name for name in ("subject", "person", "site", "label") if name in cohort.table]
    columns = [f"score_{k}" for k in range(len(cohort.target.classes))] if cohort.target.is_classes else "score"
    table = cohort.table[names].assign(**dict.fromkeys([columns] if isinstance(columns, str) else columns, np.nan))
    for _, test, scores in held_out_scores(candidate, cohort, seed):
        table.loc[test, columns] = scores
    people = people_of(table.dropna(subset=columns))
    sites = [(here["label"].to_numpy(), here[columns].to_numpy()) for _, here in people.groupby("site")]
    if cohort.target.is_number:
        large = [(cohort.target.forward(label), score) for label, score in sites if len(label) >= LEAST]
        large = [(t, score) for t, score in large if np.ptp(t) > 0]
        weights = weights_of(np.array([len(t) for t, _ in large]))
        return mean_over_sites([float(correlations(t, score)) for t, score in large], weights)
    measured = macro_auc if cohort.target.is_classes else auc
    counts = np.array([np.bincount(label.astype(int), minlength=len(cohort.target.classes) or 2) for label, _ in sites])
    m = counted_as(counts) if cohort.target.is_classes else counts.min(axis=1)
    return mean_over_sites([float(measured(label, score)) for label, score in sites], site_weights(m, m))


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
        few = p == smallest  # no permutation did as well
        text += f": too few to tell; give {FEWEST} or more" if few else ": cannot be told from chance"
    yield Check("better-than-chance", name, True if p <= NOTABLE else None, p, NOTABLE, text)
