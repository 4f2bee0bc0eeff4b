"""The stress test of an audit: what a method loses at a held-out site where a shortcut turns round.

Each site is held out once, by default settings, and its people are scored; `brainroam.evaluation.stats.stress` judges
the scores. ``motion`` is log mean FD, or, where nobody measured it, motion as estimated from the series.
"""

import numpy as np

from brainroam.audit.candidates import Candidate
from brainroam.audit.shortcuts import held_out_scores
from brainroam.data.cohort import Cohort
from brainroam.data.motion import motion_of, without_motion
from brainroam.data.people import people_of
from brainroam.errors import DataError, UsageError, unknown
from brainroam.evaluation.checks import Check
from brainroam.evaluation.stats.stress import stress

SHORTCUTS = {"motion": "mean_fd", "age": "age", "sex": "sex", "length": "n_timepoints"}
LARGE = 0.1  # a loss of AUC that is said to be one


def shortcut_of(cohort: Cohort, name: str) -> np.ndarray:
    """The shortcut (n,) of everybody by its name; an error where nobody's is known."""
    if name not in SHORTCUTS:
        raise unknown("shortcut", name, SHORTCUTS)
    if not cohort.target.is_two_classes:
        raise UsageError("the stress test compares cases with controls; give a target of two classes")
    values = cohort.table[SHORTCUTS[name]].to_numpy(dtype=float)
    if name == "motion":
        values = np.log(np.where(values > 0, values, np.nan))
        values = np.where(without_motion(cohort), motion_of(cohort)[:, 0], values)
    if not np.isfinite(values).any():
        raise DataError(f"--stress {name}: nobody's {name} is known; add a column {SHORTCUTS[name]}")
    return values


def stress_check(item: Candidate, cohort: Cohort, name: str, seed: int = 0) -> Check:
    """How a method ranks people of held-out sites where a shortcut holds, and where it turns round."""
    people = cohort.table.assign(score=np.nan, shortcut=shortcut_of(cohort, name))
    for _, test, scores in held_out_scores(item, cohort, seed):
        people.loc[test, "score"] = scores
    people = people_of(people)
    found = stress(*(people[column].to_numpy() for column in ("score", "label", "shortcut", "site")))
    if not np.isfinite(found.loss):
        text = f"too few pairs of a case and a control differ in {name} either way, so nothing can be said"
        return Check(f"stress-{name}", item.name, None, None, LARGE, text)
    text = (
        f"of people of held-out sites, AUC {found.auc:.3f}; {found.holds:.3f} among pairs in which case and control "
        f"differ in {name} as at the other sites, {found.turns:.3f} among pairs that differ the other way. "
    )
    if found.loss > LARGE:
        text += f"If the patients of the next site differ from its controls the other way, expect {found.turns:.2f}"
    else:
        text += f"It hardly matters how patients and controls of the next site differ in {name}"
    return Check(f"stress-{name}", item.name, None if found.loss > LARGE else True, found.loss, LARGE, text)
