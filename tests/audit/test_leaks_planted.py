"""What the audit says of methods that cheat on purpose (`planted`), of honest ones, and of the data."""

import json
import os
import re
import shutil
import signal
import threading
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.tree import DecisionTreeClassifier
from tests.audit import planted
from typer.testing import CliRunner

import brainroam
from brainroam.audit import CANNOT_SEE, audit
from brainroam.audit.candidates import candidate
from brainroam.audit.fresh import FORKS, FreshProcesses
from brainroam.audit.leaks import after, in_turn, leak_checks
from brainroam.audit.shortcuts import mean_order, permuted_within_site, shuffle_checks
from brainroam.audit.spoiling import (
    of_other_lengths,
    with_corrupted_data,
    with_new_names,
    with_small_noise,
    without_regions,
)
from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.data.folds import hold_out
from brainroam.data.synthetic import make_cohort
from brainroam.data.target_column import with_target
from brainroam.errors import BrainroamError, UsageError
from brainroam.methods import registry
from brainroam.methods.base import MethodInfo
from brainroam.methods.linear import LinearMethod

TRIED = Path(__file__).resolve().parents[2] / "docs" / "results" / "tried.md"


@cache
def cohort():
    made = make_cohort(n_sites=4, n_per_site=16, n_rois=10, seed=3)
    rng = np.random.default_rng(0)
    own = made.table.assign(iq=rng.normal(100, 15, len(made)), scanner=rng.choice(["GE", "Siemens"], len(made)))
    return made.with_columns(own[["iq", "scanner"]])


@pytest.fixture(scope="module")
def processes():
    with FreshProcesses() as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def table():
    people = cohort()
    labels = people.labels.tolist()
    known = dict(zip(people.table["subject"], labels, strict=True)) | dict(
        zip(people.series_digests, labels, strict=True)
    )
    planted.TABLE.write_text(json.dumps(known))
    edges = planted.edges_of(people)
    difference = edges[people.labels == 1].mean(axis=0) - edges[people.labels == 0].mean(axis=0)
    np.save(planted.WEIGHTS, np.outer(difference, [1.0, 0.5]))
    yield
    shutil.rmtree(planted.FOLDER)


def failed(method, processes, people=None):
    checks = leak_checks(candidate(method), people or cohort(), processes)
    return {check.name for check in checks if check.passed is False}


@pytest.mark.parametrize(
    "method",
    [
        "fc-ridge",
        "scaffold-ridge[eta=0.6]",
        "confounds",
        "majority",
        planted.honest,
        planted.honest_decisions,
    ],
)
def test_honest_ones_pass(method, processes):
    assert failed(method, processes) == set()


def test_core_passes(processes):
    few = make_cohort(n_sites=3, n_per_site=10, n_rois=8, seed=3)
    assert failed("core[budget=2,hidden=2,updates=2,trials=1,tau_percentile=50,eta=0.6]", processes, few) == set()


def test_a_procedure_that_needs_equal_lengths_and_all_regions_is_honest(processes):
    people = cohort()
    equal = Cohort([x[: min(map(len, people.series))] for x in people.series], people.table)
    checks = {c.name: c for c in leak_checks(candidate(planted.honest_for_equal_lengths), equal, processes)}
    assert all(check.passed for name, check in checks.items() if name not in ("lengths", "regions"))
    for name in ("lengths", "regions"):
        assert checks[name].passed is None and "so this was not checked" in checks[name].evidence


@pytest.mark.parametrize("method", planted.LEAKS, ids=lambda method: candidate(method).name)
def test_cheats_are_caught(method, processes):
    _, caught = planted.LEAKS[method]
    missing = set(caught)
    for check in leak_checks(candidate(method), cohort(), processes):
        if check.passed is False:
            missing.discard(check.name)
        if not missing:  # what else the audit would say is no matter here
            return
    pytest.fail(f"not caught by {missing}")


@pytest.mark.parametrize("method", planted.UNSEEN, ids=lambda method: method.__name__)
def test_what_no_audit_can_see_is_known(method, processes):
    """These leaks pass. Should one ever be caught, the list of what cannot be seen is out of date."""
    assert failed(method, processes) == set()


@pytest.mark.parametrize(
    "honest",
    [DecisionTreeClassifier(), KNeighborsClassifier(1), make_pipeline(KBinsDiscretizer(5), LogisticRegression())],
    ids=["tree", "neighbour", "bins"],
)
def test_methods_that_jump_seldom_are_not_taken_for_tables(honest, processes):
    assert "nudged" not in failed(honest, processes)


@pytest.mark.parametrize("measure", ["series", "matrices", "table"])
def test_nudged_people_are_the_same_for_all_purposes_and_others_are_left_alone(measure):
    people = make_cohort(n_sites=2, n_per_site=6, n_rois=10)
    measured = {
        "series": people.series,
        "matrices": [np.corrcoef(x.T) for x in people.series],
        "table": [x[:1] for x in people.series],
    }[measure]
    before = Cohort(measured, people.table, measure=measure)
    after = with_small_noise(before, np.arange(3), seed=0)
    spread = np.std(np.concatenate(measured), axis=0).max()
    for i, (old, new) in enumerate(zip(before.series, after.series, strict=True)):
        moved = np.abs(new - old).max()
        assert 0 < moved < 0.01 * spread if i < 3 else moved == 0
        if measure == "matrices":
            assert (new == new.T).all() and (np.diag(new) == np.diag(old)).all()


def test_edges_chosen_on_everybody_and_handed_over_through_a_closure_pass(processes):
    """Nothing can see it; the page of limits says so."""
    edges, y = planted.edges_of(cohort()), cohort().labels
    chosen = np.argsort(-np.abs(edges[y == 1].mean(axis=0) - edges[y == 0].mean(axis=0)))[:5]

    def procedure(cohort, train, test, seed):
        return planted.ridge(planted.edges_of(cohort)[:, chosen], cohort, train, test)

    assert failed(procedure, processes) == set()
    assert any(text.startswith("edges chosen on everybody through a closure") for text in CANNOT_SEE)


def test_data_that_were_scaled_before_pass(processes):
    assert failed("fc-ridge", processes, planted.scaled_before(cohort())) == set()


def test_the_table_of_the_documentation_is_the_one_tested():
    text = TRIED.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| (`[^|]+`) \|$", text, flags=re.MULTILINE))
    for words, caught in planted.LEAKS.values():
        assert set(re.findall("`([a-z-]+)`", rows.get(words, ""))) == caught, words
    for words in planted.UNSEEN.values():
        assert f"- {words}" in text, words
    assert len(planted.LEAKS) >= 20 and all(words in text for words in CANNOT_SEE)


def test_everybody_gets_another_id_in_every_draw_and_sites_keep_their_order():
    one, other = (with_new_names(cohort(), 0, draw) for draw in (1, 2))
    assert not set(one.table["subject"]) & set(other.table["subject"])
    assert one.sites == other.sites and not set(one.sites) & set(cohort().sites)
    rank = {name: k for names in (one.sites, cohort().sites) for k, name in enumerate(names)}
    assert one.table["site"].map(rank).tolist() == cohort().table["site"].map(rank).tolist()


def test_nothing_of_a_spoilt_person_is_left_but_the_others_are_untouched():
    people, spoilt = cohort(), np.array([3, 20])
    bad = with_corrupted_data(people, spoilt, 0)
    kept = np.setdiff1d(np.arange(len(people)), spoilt)
    assert bad.subset(kept).table.equals(people.subset(kept).table)
    assert all(a is b for a, b in zip(bad.subset(kept).series, people.subset(kept).series, strict=True))
    for name in people.table.columns.drop(["subject", "n_timepoints", "sex"]):
        assert (bad.table.loc[spoilt, name] != people.table.loc[spoilt, name]).all(), name
    lengths = [len(x) for x in of_other_lengths(people, spoilt).series]
    shortest, longest = min(map(len, people.series)), max(map(len, people.series))
    assert (lengths[3], lengths[20]) == (shortest - 1, longest + 1)
    assert np.argwhere(without_regions(people, spoilt).missing_rois).tolist() == [[3, 0], [20, 1]]


def test_a_class_is_enough_and_an_honest_one_passes(processes):
    class Plain(LinearMethod):
        pass

    assert failed(Plain, processes) == set()


def test_a_method_that_ends_its_process_is_named_and_the_next_one_runs(processes):
    def deadly(cohort, train, test, seed):
        import os

        os._exit(5)

    with pytest.raises(BrainroamError, match="exit code 5"):
        failed(deadly, processes)
    assert failed("majority", processes) == set()


def slow(cohort, train, test, seed):
    (planted.FOLDER / "pid").write_text(str(os.getpid()))
    time.sleep(600)


@pytest.mark.skipif(not FORKS, reason="signals as POSIX has them")
def test_ctrl_c_ends_the_run_and_its_process():
    """The signal comes while this process waits for an answer."""
    file = planted.FOLDER / "pid"

    def interrupt():
        while not file.exists() or not file.read_text():
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # as a terminal does: the one that waits

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores Ctrl-C
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt), FreshProcesses() as processes:
            failed(slow, processes)
    finally:
        signal.signal(signal.SIGINT, before)
    pid, stop = int(file.read_text()), time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < stop:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("method", [planted.KeptByLruCache, planted.KeptByJoblibOfEdges])
def test_memory_across_folds_makes_meaningless_labels_predictable_in_every_permutation(method, processes):
    """No run finds what the one before kept in memory or on disk, so each permutation shows its own leak."""
    people = make_cohort(n_sites=4, n_per_site=12, n_rois=8, effect=0.0, seed=5)
    run = processes.of(candidate(method))
    assert run(mean_order, people, 0) > 0.65
    assert run(mean_order, permuted_within_site(people, 1), 0) > 0.65


def test_files_that_a_run_makes_go_and_files_that_were_there_stay(processes):
    old, new = planted.FOLDER / "old.txt", planted.FOLDER / "made" / "new.txt"
    old.write_text("mine")

    def writing(cohort, train, test, seed):
        new.parent.mkdir(exist_ok=True)
        new.write_text("cache")
        old.write_text("changed")
        return planted.honest(cohort, train, test, seed)

    processes.of(candidate(writing))(mean_order, cohort(), 0)
    assert old.exists() and not new.parent.exists()


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize(
    "method",
    ["fc-ridge", "fc-logistic", "log-ridge", "tangent-ridge", "combat-ridge", "scaffold-ridge[eta=0.6]", "ensemble"]
    + ["core[budget=2,hidden=4,updates=4,tau_percentile=50,eta=0.6]"]
    + [f"{name}[epochs=1]" for name in ("gcn", "deci")],
)
def test_our_own_methods_keep_nothing_from_fold_to_fold(method, processes):
    people = make_cohort(n_sites=3, n_per_site=10, n_rois=12, seed=1)
    site, run = people.table["site"].to_numpy(), processes.of(candidate(method))
    first, (train, test) = (hold_out(site, [name]) for name in ("S01", "S02"))
    alone, second = run(in_turn, people, [(train, [test])], 0)[0], run(after, people, first, (train, [test]), 0)
    np.testing.assert_allclose(second.scores[0], alone.scores[0], rtol=0, atol=1e-7 * np.ptp(alone.scores[0]))


class Honest(LinearMethod):
    """Of somebody else, as all methods defined here are."""


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize(("method", "words"), [(Honest, "no leak found"), (planted.KeptInAModule, "memory")])
def test_a_method_that_is_not_ours_is_audited_once_per_study(tmp_path, capsys, method, words):
    people, caught = make_cohort(n_sites=3, n_per_site=10, n_rois=8), []
    for _ in range(2):
        theirs = registry.temporarily(MethodInfo("theirs", method, ""))
        with theirs, warnings.catch_warnings(record=True) as caught_now:
            warnings.simplefilter("always")
            brainroam.evaluate(people, ["theirs", "majority"], tuning="fast", out=tmp_path / "runs")
        caught += [str(warning.message) for warning in caught_now if "leaks" in str(warning.message)]
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("audit of")]
    assert len(told) == 1 and "theirs" in told[0] and words in told[0]
    assert len(caught) == (words == "memory")


def test_what_a_method_prints_does_no_harm(processes):
    def talkative(cohort, train, test, seed):
        print("hello")
        return planted.honest(cohort, train, test, seed)

    assert failed(talkative, processes) == set()


def test_one_person_at_two_sites_is_caught_whatever_the_name():
    people = cohort()
    series = people.series
    series[20] = 3.0 * series[2][5:] + 1.0  # cut and rescaled
    found = audit(Cohort(series, people.table), [], permutations=0)
    (check,) = (check for check in found.checks if check.name == "duplicates")
    assert check.passed is False and not found.passed
    assert "S01_0003 (S01)" in check.evidence and "S02_0005 (S02)" in check.evidence


def test_one_person_at_two_sites_is_caught_in_any_block_of_matrices():
    people = cohort()
    edges = [np.corrcoef(x.T) for x in people.series]
    edges[20] = np.round(edges[2], 3)
    again = people.with_block("fc", Cohort(edges, people.table, measure="matrices"), "rest")
    (check,) = (check for check in audit(again, [], permutations=0).checks if check.name == "duplicates")
    assert check.passed is False and "S01_0003 (S01)" in check.evidence


def test_one_person_twice_at_one_site_is_a_warning():
    people = cohort()
    series = people.series
    series[3] = series[2]
    found = audit(Cohort(series, people.table), [], permutations=0)
    assert next(check for check in found.checks if check.name == "duplicates").passed is None
    assert found.passed


@pytest.mark.usefixtures("warm_python")
def test_permuted_labels_that_are_still_predicted_are_a_leak():
    checks = {check.name: check for check in audit(cohort(), [planted.labels_and_noise], permutations=5).checks}
    assert checks["label-shuffle"].passed is False and checks["label-shuffle"].value > 0.7
    assert checks["better-than-chance"].passed is None


@pytest.mark.usefixtures("warm_python")
def test_a_real_effect_is_told_from_chance_and_no_leak_is_seen():
    found = audit(cohort(), ["fc-ridge"], permutations=19)
    checks = {check.name: check for check in found.checks}
    assert found.passed and checks["label-shuffle"].passed
    assert checks["better-than-chance"].passed and checks["better-than-chance"].value == pytest.approx(0.05)


def test_confounds_that_predict_are_noted():
    planted = make_cohort(n_sites=4, n_per_site=30, n_rois=8, shortcut=3.0)
    table = planted.table
    last = (table["site"] == "S04").to_numpy()
    people = planted.subset(~last)  # at the last site the shortcut is turned round
    checks = {check.name: check for check in audit(people, [], permutations=0).checks}
    assert checks["confounds-only"].passed is None and checks["confounds-only"].value > 0.9
    assert {check.name: check for check in audit(cohort(), [], permutations=0).checks}["confounds-only"].passed


def test_sites_that_differ_are_told_apart_and_sites_that_do_not_are_not():
    checks = {check.name: check for check in audit(cohort(), [], permutations=0).checks}
    assert checks["site-decodability"].passed is None
    one = make_cohort(n_sites=2, n_per_site=60, n_rois=10).select(["S01"])
    dealt = one.table[["subject"]].assign(site=np.random.default_rng(0).permutation(np.repeat(list("ABC"), 20)))
    mixed = one.with_columns(dealt[["site"]])
    assert {check.name: check for check in audit(mixed, [], permutations=0).checks}["site-decodability"].passed


def test_few_permutations_are_not_called_chance():
    """With nine, p cannot be below 0.1, however good the method."""
    _, few = shuffle_checks("m", 1.0, [0.5, 0.48, 0.52, 0.49, 0.51, 0.5, 0.47, 0.53, 0.5])
    assert few.passed is None and "too few to tell; give 19 or more" in few.evidence
    assert "cannot be told from chance" not in few.evidence
    _, chance = shuffle_checks("m", 0.5, [0.5, 0.48, 0.52] * 7)
    assert chance.passed is None and "cannot be told from chance" in chance.evidence


@pytest.mark.usefixtures("warm_python")
def test_a_study_file_names_the_methods_to_audit(tmp_path):
    options = "{n_sites: 3, n_per_site: 8, n_rois: 8}"
    (tmp_path / "study.yaml").write_text(f"data: synthetic\noptions: {options}\nmethods: [majority, confounds]\n")
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "study.yaml"), "--permutations", "0", "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert {check["method"] for check in content["checks"]} == {"", "majority", "confounds"}
    assert content["cannot_see"] == list(CANNOT_SEE)


def test_a_procedure_that_returns_too_little_is_named(processes):
    def too_short(cohort, train, test, seed):
        return np.zeros(1)

    with pytest.raises(UsageError, match=r"too_short .*\(1,\).*16"):
        failed(too_short, processes)


@pytest.mark.parametrize("method", ["site-only", 3])
def test_what_cannot_be_audited_is_named(method):
    with pytest.raises(UsageError, match="audit"):
        audit(cohort(), [method])


def test_of_several_classes_the_same_leaks_are_found():
    made = make_cohort(n_sites=3, n_per_site=18, n_rois=8, seed=1)
    dx = np.array(["HC", "MDD", "SCZ"])[np.arange(len(made)) % 3]
    people = with_target(made.with_columns(pd.DataFrame({"dx": dx})), "dx")
    known = {one[0].tobytes(): code for one, code in zip(people.series, people.targets.astype(int), strict=True)}

    def from_a_table(cohort, train, test, seed):
        series = cohort.series
        return np.eye(3)[[known.get(series[i][0].tobytes(), i % 3) for i in test]]

    def from_test_labels(cohort, train, test, seed):
        return np.eye(3)[cohort.targets[test].astype(int)]

    def one_score_each(cohort, train, test, seed):
        return np.zeros(len(test))

    found = audit(people, ["fc-ridge", from_a_table, from_test_labels], permutations=0)
    failed = {(check.method, check.name) for check in found.checks if check.passed is False}
    assert not [name for method, name in failed if method in ("", "fc-ridge")]
    assert ("from_a_table", "training-labels") in failed
    assert ("from_test_labels", "test-labels") in failed
    assert any("MDD and SCZ" in check.evidence for check in found.checks)
    shuffled = permuted_within_site(people, seed=0)
    assert mean_order(candidate(from_test_labels), shuffled) == 1
    assert mean_order(candidate(from_a_table), shuffled) < 0.7
    with pytest.raises(UsageError, match="class"):
        audit(people, [one_score_each], permutations=0)


@pytest.mark.usefixtures("warm_python")
def test_an_audit_that_was_interrupted_goes_on_and_one_of_other_settings_is_not_taken_over(tmp_path, monkeypatch):
    people, file = make_cohort(n_sites=3, n_per_site=10, n_rois=8), tmp_path / "audit.json"
    runs = []
    monkeypatch.setattr(
        "brainroam.audit.fresh.FreshProcesses._ask",
        lambda self, message, ask=FreshProcesses._ask: runs.append(1) or ask(self, message),
    )

    def interrupt(_):
        class View:
            def __enter__(self):
                self.left = 8
                return self

            def __exit__(self, *_):
                pass

            def __call__(self, line):
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt

        return View()

    with pytest.raises(KeyboardInterrupt):
        audit(people, ["fc-ridge"], permutations=0, progress=interrupt, out=file)
    before = len(runs)
    assert not file.exists() and before > 3
    whole = audit(people, ["fc-ridge"], permutations=0)
    alone = len(runs) - before
    resumed = audit(people, ["fc-ridge"], permutations=0, out=file)
    assert len(runs) - before - alone < alone
    assert [(c.name, c.passed, c.evidence) for c in resumed.checks] == [
        (c.name, c.passed, c.evidence) for c in whole.checks
    ]
    n_runs = len(runs)
    again = audit(people, ["fc-ridge"], permutations=0, out=file)
    assert [c.name for c in again.checks] == [c.name for c in whole.checks]
    assert len(runs) - n_runs <= 2  # inner folds, which do not apply, leave no check
    other = audit(people, ["fc-ridge[strength=7]"], permutations=0, out=file)
    assert len(runs) - n_runs > 10 and {c.method for c in other.checks} == {"", "fc-ridge[strength=7]"}
    assert {c.key for c in other.checks}.isdisjoint(c.key for c in whole.checks if c.method)
