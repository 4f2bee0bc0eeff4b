"""What a study with somebody else's method says, computed again where that method never was.

A method runs in the process that measures it, and Python keeps nothing from it: it may change labels, put another
function in the place of a metric, or spoil the method it is compared with. So

labels   of everybody are hashed before and after each run, where it runs (`brainroam.evaluation.runner.execute`), and
         those in the kept scores are compared with those of the cohort
metrics  of every run are computed again from its kept scores
rivals   that came with brainroam are run again at one held-out site, the quickest

the last two in a fresh process that never imports the method. A run whose figures do not come again counts as failed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brainroam.audit.candidates import Candidate, candidate
from brainroam.audit.fresh import FreshProcesses
from brainroam.data.cohort import Cohort
from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.errors import counted
from brainroam.evaluation.results import Results
from brainroam.evaluation.run_records import RunSpec, Task, plain
from brainroam.evaluation.runner import execute, require_unchanged
from brainroam.evaluation.splits import folds
from brainroam.evaluation.tables import columns_of, frame, metrics_by_site, people_metrics, prediction_rows
from brainroam.methods.registry import full_name, is_ours, resolve

OF_DECISIONS = "acc", "balanced_acc"
SAME = 1e-6  # of a metric: sums in another order
SAME_SCORE = 1e-3  # of the spread of scores: networks on another kind of machine

Record = tuple[RunSpec, dict[str, Any]]


def refuted(
    results: Results, cohort: Cohort, methods: Any, parameters: Mapping[str, Any], n_splits: int, n_repeats: int
) -> dict[str, str]:
    """By hash the runs whose labels, metrics or scores do not come again, each with what is wrong, in words."""
    rivals = []
    for info, own in resolve(methods):
        name = full_name(info.name, plain({**parameters, **own}))
        mine = [run for run in results.records if run[0].name == name]
        if is_ours(info) and mine:
            spec, outcome = min(mine, key=lambda run: run[1]["seconds"])
            held_out = {fold.name: fold for fold in folds(cohort.table, spec.protocol, n_splits, n_repeats)}
            rivals.append((Task(spec, info, held_out[spec.fold]), outcome["predictions"]))
    with FreshProcesses() as processes:
        run = processes.of(candidate("majority"))  # any that came with brainroam: nothing else is imported there
        wrong = run(wrong_figures, cohort, results.records)
        for task, predictions in rivals:
            if task.spec.hash not in wrong and (words := run(wrong_scores, cohort, task, predictions)):
                wrong[task.spec.hash] = words
    return wrong


def wrong_figures(_: Candidate, cohort: Cohort, records: Sequence[Record]) -> dict[str, str]:
    """By hash the runs with labels that are not those of the cohort, or metrics that are not those of their scores."""
    table = cohort.table
    known = dict(zip(table["subject"], table["label"], strict=True))
    wrong = dict[str, str]()
    for spec, outcome in records:
        require_unchanged(cohort, spec)
        scans = frame(columns_of(outcome)[1], prediction_rows(spec, outcome))
        n_others = int((scans["label"].astype(float) != scans["subject"].map(known).astype(float)).sum())
        if n_others:
            wrong[spec.hash] = (
                f"it was measured with other labels than those of the cohort ({counted(n_others, 'scan', 'scans')})"
            )
            continue
        target = Target.of_description(outcome.get("target"))
        means = len(people_of(scans, ())) < len(scans)  # by which threshold a mean of scans was called is not kept
        for site, stored in metrics_by_site(spec, outcome).items():
            again = people_metrics(scans[scans["site"] == site], target, outcome)
            again = {name: value for name, value in again.items() if not (means and name in OF_DECISIONS)}
            if words := _differing(stored, again):
                wrong[spec.hash] = f"its kept figures are not those of its scores ({words} at {site})"
    return wrong


def _differing(stored: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """The first metric that differs, in words."""
    for name, value in again.items():
        kept = np.nan if stored.get(name) is None else stored[name]
        if not np.isclose(kept, value, rtol=SAME, atol=SAME, equal_nan=True):
            return f"{name} {kept:.3g} is kept, {value:.3g} computed again"
    return ""


def wrong_scores(_: Candidate, cohort: Cohort, task: Task, kept: Mapping[str, Any]) -> str:
    """What differs when a run is done again, in words."""
    again = execute(cohort, task)["predictions"]
    for name in kept:
        if not name.startswith(("score", "predicted")):
            continue
        before, after = (np.asarray(each[name], dtype=float) for each in (kept, again))
        moved = np.abs(before - after).max()
        if not moved <= SAME_SCORE * np.ptp(after):
            return f"run again in a fresh process it gives other scores ({name} moved by up to {moved:.3g})"
    return ""
