"""An audit shows how far it is and how long it takes, and our own methods need no process for each permutation."""

from contextlib import nullcontext

import pytest
from tests.methods.test_measures import table_cohort

import brainroam
from brainroam.audit import audit, shortcuts
from brainroam.audit.candidates import candidate
from brainroam.audit.pace import FIRST, Pace, expected
from brainroam.data.synthetic import make_cohort
from brainroam.execution.progress import Advance
from brainroam.methods import edge_features


def shown(cohort, methods, permutations):
    """The number of steps that were announced, the lines of those done, and the audit."""
    totals, lines = [], []

    def view(total):
        totals.append(total)
        return nullcontext(Advance(lines.append))

    found = audit(cohort, methods, permutations, progress=view)
    return totals[0], lines, found


@pytest.mark.parametrize("measure", ["series", "table"])
def test_every_check_is_shown_as_it_is_done_and_steps_add_up(measure):
    series = measure == "series"
    cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=8) if series else table_cohort(n_sites=3, n_per_site=12)
    total, lines, found = shown(cohort, ["majority", "fc-ridge"], 2)
    assert total == len(lines) and ("fc-ridge: lengths" in lines) == series
    assert "majority: inner-folds does not apply" in lines and "fc-ridge: inner-folds" in lines
    done = [f"{check.method}: {check.name}" for check in found.checks if check.method]
    of_leaks = [name for name in done if "shuffle" not in name and "chance" not in name]
    assert [line for line in lines if line in done] == of_leaks


def test_a_long_audit_is_announced_and_corrected_by_its_first_runs(monkeypatch):
    large = make_cohort(n_sites=4, n_per_site=30, n_rois=60)
    monkeypatch.setattr("brainroam.audit.pace.machine_speed", lambda: 100.0)
    words = expected([candidate("core"), candidate("tangent-ridge")], large, 19)
    assert words.startswith("the audit takes about") and "core" in words and "tangent-ridge" in words
    assert "time of mine is not known" in expected([candidate("core"), *map(candidate, [mine])], large, 0)
    said, clock = [], iter([0.0, 20.0, 32.0, 40.0])
    monkeypatch.setattr("brainroam.audit.pace.time.monotonic", lambda: next(clock))
    pace = Pace("core", large, 0, Advance(said.append, say=said.append))
    for check in ("reproducible", FIRST, "corruption"):
        pace.after(check)
    assert said == ["core: about 3 min more by its first runs"]  # 15 runs of 12 s


def mine(cohort, train, test, seed):
    return test


def test_permutations_of_our_methods_give_the_same_in_this_process_as_in_others(monkeypatch):
    cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    scores = []
    for ours in (True, False):
        monkeypatch.setattr(shortcuts, "is_ours", lambda info, ours=ours: ours)
        found = brainroam.audit(cohort, ["tangent-ridge", "scaffold-ridge[eta=0.6]"], permutations=2)
        scores.append([check.value for check in found.checks if check.name == "label-shuffle"])
    assert scores[0] == scores[1] and len(scores[0]) == 2


def test_the_references_of_tangent_ridge_are_learned_once_for_all_permutations(monkeypatch):
    learned, original = [], edge_features.NearMean.of
    monkeypatch.setattr(edge_features.NearMean, "of", lambda *given: learned.append(1) or original(*given))
    audit(make_cohort(n_sites=3, n_per_site=12, n_rois=10), ["tangent-ridge"], permutations=3)
    assert len(learned) == 3  # sites; the leak checks run in other processes
