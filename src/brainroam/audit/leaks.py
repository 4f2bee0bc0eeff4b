"""Does anything of the held-out people reach the model? Change them, and see what else changes.

One site is held out. Then, everything else being equal,

``reproducible``    once more, on data it has already scored: nothing may change, or changes below mean nothing
``single-subject``  some people scored alone: each must score as in company
``test-labels``     their labels turned round: no score may change
``corruption``      half of them get other series, labels and covariates: the other half's scores may not change, nor,
                    where a method shows its state, a single byte of what was learned, threshold included
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from brainroam.audit.candidates import Candidate, Outcome
from brainroam.audit.finding import Check
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError

ROUNDING = 1e-6  # of the spread of the scores: batches may be rounded otherwise in single precision
N_ALONE = 3


def leak_checks(candidate: Candidate, cohort: Cohort, seed: int = 0) -> Iterator[Check]:
    """Hold out one site, drawn by the seed, and change it in every way that must not matter.

    >>> from brainroam.audit.candidates import candidate
    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> [(check.name, check.passed) for check in leak_checks(candidate("fc-ridge"), cohort)]
    [('reproducible', True), ('single-subject', True), ('test-labels', True), ('corruption', True)]
    """
    site, train, test = held_out(cohort, seed)
    rng = np.random.default_rng([seed, 1])
    alone = rng.choice(len(test), min(N_ALONE, len(test)), replace=False)
    first = candidate.run(cohort, train, [test, *(test[[i]] for i in alone)], seed)
    again = candidate.run(cohort, train, [test], seed)
    scores, people = first.scores[0], f"{len(test)} people of {site}"

    moved = gap(again.scores[0], scores)
    same = moved == 0 and again.state == first.state
    text = f"learned and scored the {people} twice: " + ("the same bytes" if same else _moved(moved, again, first))
    yield Check("reproducible", candidate.name, same, moved, 0.0, text)

    by_themselves = np.concatenate(first.scores[1:])
    moved = gap(by_themselves, scores[alone], scores)
    text = f"scored {len(alone)} of the {people} alone: "
    text += "as in company" if moved <= ROUNDING else f"{_share(moved)}; a score depends on who else is scored"
    yield Check("single-subject", candidate.name, moved <= ROUNDING, moved, ROUNDING, text)

    turned = candidate.run(turned_round(cohort, test), train, [test], seed)
    moved = gap(turned.scores[0], scores)
    same = moved == 0 and turned.state == first.state
    text = f"turned round the labels of the {people}: "
    text += "nothing changed" if same else f"{_moved(moved, turned, first)}; the labels to be predicted are read"
    yield Check("test-labels", candidate.name, same, moved, 0.0, text)

    moved, changed = 0.0, set[str]()
    for k in (0, 1):
        spoilt = candidate.run(corrupted(cohort, test[k::2], seed), train, [test], seed)
        moved = max(moved, gap(spoilt.scores[0][1 - k :: 2], scores[1 - k :: 2], scores))
        changed |= _changed(spoilt, first)
    text = f"spoilt one half of the {people}, then the other: "
    if moved <= ROUNDING and not changed:
        text += "the scores of the half left alone did not change"
        text += f", nor one byte of the {len(first.state)} arrays learned" if first.state else ""
    else:
        text += f"in the half left alone {_share(moved)}"
        text += f", and what was learned changed ({', '.join(sorted(changed))})" if changed else ""
        text += "; something is learned from the people to be predicted, such as a scaler fitted on everybody"
    yield Check("corruption", candidate.name, moved <= ROUNDING and not changed, moved, ROUNDING, text)


def held_out(cohort: Cohort, seed: int) -> tuple[str, np.ndarray, np.ndarray]:
    """A site with both classes, drawn by the seed: its name, and the positions to train on and to hold out."""
    site, label = cohort.table["site"].to_numpy(), cohort.labels
    usable = [
        name for name in cohort.sites if len(set(label[site == name])) == 2 and len(set(label[site != name])) == 2
    ]
    if not usable:
        raise DataError("no site can be held out with both classes in it and both classes elsewhere")
    name = usable[np.random.default_rng(seed).integers(len(usable))]
    return name, np.flatnonzero(site != name), np.flatnonzero(site == name)


def turned_round(cohort: Cohort, people: np.ndarray) -> Cohort:
    """A cohort of its own, with nothing remembered, in which these people have the other label."""
    table = cohort.table
    table.loc[people, "label"] = 1 - table.loc[people, "label"]
    return Cohort(cohort.series, table, cohort.atlas, covariates=cohort.covariate_names)


def corrupted(cohort: Cohort, people: np.ndarray, seed: int) -> Cohort:
    """A cohort of its own in which these people have series of noise, the other label and strange covariates."""
    rng = np.random.default_rng([seed, 2])
    series, table = cohort.series, turned_round(cohort, people).table
    for i in people:
        series[i] = 10 * rng.normal(size=series[i].shape) ** 3
    for name, value in {"age": 99.0, "sex": 1.0, "mean_fd": 9.0, "tr": 0.5}.items():
        table.loc[people, name] = value
    for name in cohort.covariate_names:
        table.loc[people, name] = 99.0 if pd.api.types.is_numeric_dtype(table[name]) else "strange"
    return Cohort(series, table, cohort.atlas, covariates=cohort.covariate_names)


def gap(ours: np.ndarray, theirs: np.ndarray, among: np.ndarray | None = None) -> float:
    """The largest difference, as a share of the spread of the scores; infinite where a score came or went.

    >>> gap(np.array([1.0, 3.5]), np.array([1.0, 3.0]))
    0.25
    """
    if np.array_equal(ours, theirs, equal_nan=True):
        return 0.0
    spread = float(np.ptp(theirs if among is None else among))
    difference = float(np.abs(ours - theirs).max())
    return difference / spread if np.isfinite(difference) and spread > 0 else float("inf")


def _changed(ours: Outcome, theirs: Outcome) -> set[str]:
    """Names of the learned arrays that differ."""
    return {name for name in ours.state.keys() | theirs.state.keys() if ours.state.get(name) != theirs.state.get(name)}


def _share(moved: float) -> str:
    return f"scores moved by up to {moved:.2g} of their spread" if np.isfinite(moved) else "scores came or went"


def _moved(moved: float, ours: Outcome, theirs: Outcome) -> str:
    changed = sorted(_changed(ours, theirs))
    return _share(moved) + (f", and what was learned changed ({', '.join(changed)})" if changed else "")
