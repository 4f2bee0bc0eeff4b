"""Run files: a result is read back as it was, and nothing else is ever read as a result."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import RunsError, UsageError
from brainroam.evaluation.run_records import (
    RunSpec,
    people_hash,
    plain,
    read_run,
    read_run_file,
    table_hash,
    write_checksummed,
    write_run,
)
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.evaluation.splits import folds
from brainroam.evaluation.tables import SCORES, frame, read_table
from brainroam.methods.registry import full_name, parse_name, split_names
from brainroam.utils.files import csv_lines

SPEC = RunSpec("core", {"budget": 20, "kind": "log"}, "loso", "NYU", 0, "full", "p", "m", "t", "a", "v")
RESULT = {
    "status": "done",
    "predictions": {"subject": ["é", "2"], "score": [0.1 + 0.2, -1e-300]},
    "metrics": {"a": None},
}


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=2, n_per_site=6, n_rois=8)


def test_a_run_reads_back_as_it_was(tmp_path):
    write_run(tmp_path, SPEC, RESULT)
    assert read_run(tmp_path / f"{SPEC.hash}.json") == (SPEC, RESULT)


def test_the_hash_names_everything_and_nothing_else():
    changed = [
        replace(SPEC, **{name: "other"}) for name in SPEC.__dataclass_fields__ if name not in ("parameters", "seed")
    ]
    changed += [replace(SPEC, seed=1), replace(SPEC, parameters={"budget": 21, "kind": "log"})]
    assert len({spec.hash for spec in [SPEC, *changed]}) == 12
    assert replace(SPEC, parameters={"kind": "log", "budget": 20}).hash == SPEC.hash


def test_the_hash_is_the_same_in_another_process():
    code = f"from brainroam.evaluation.run_records import RunSpec; print({SPEC!r}.hash)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == SPEC.hash


def test_people_and_table_hashes_do_not_depend_on_order(cohort):
    turned = cohort.subset(np.arange(len(cohort))[::-1])
    assert table_hash(turned) == table_hash(cohort)
    ours, theirs = ({fold.name: people_hash(c, fold) for fold in folds(c.table, "loso")} for c in (cohort, turned))
    assert ours == theirs and len(set(ours.values())) == 2


def test_a_corrected_covariate_changes_the_table_hash(cohort):
    table = cohort.table
    table.loc[0, "age"] += 1
    corrected = Cohort(cohort.series, table)
    assert corrected.manifest_hash == cohort.manifest_hash
    assert table_hash(corrected) != table_hash(cohort)


@given(st.data())
def test_a_damaged_file_is_never_read_as_something_else(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    write_run(folder, SPEC, RESULT)
    path = folder / f"{SPEC.hash}.json"
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[where] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[where:]
    path.write_bytes(content)
    try:
        read = read_run(path)
    except RunsError as error:
        assert str(path) in str(error)
    else:
        assert read == (SPEC, RESULT)  # a flipped blank, say


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"schema"', "{}", '{"schema": 1, "checksum": NaN, "a": NaN}'])
def test_a_file_that_is_no_run_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(RunsError, match="short"):
        read_run_file(path)


def test_a_file_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "x.json"
    write_checksummed(path, {"a": 1})
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 2}))
    with pytest.raises(RunsError, match="schema 2"):
        read_run_file(path)


def test_a_run_under_another_name_and_a_sealed_file_without_a_run(tmp_path):
    write_run(tmp_path, SPEC, RESULT)
    (tmp_path / f"{SPEC.hash}.json").rename(tmp_path / "abc.json")
    with pytest.raises(RunsError, match="NYU"):
        read_run(tmp_path / "abc.json")
    write_checksummed(tmp_path / "plan.json", {"command": "x"})
    with pytest.raises(RunsError, match="no run"):
        read_run(tmp_path / "plan.json")
    with pytest.raises(RunsError, match="No such file"):
        read_run(tmp_path / "none.json")


def test_plain_refuses_what_json_has_not():
    with pytest.raises(UsageError, match="number"):
        plain({"a": [object()]})


NAMES = st.from_regex(r"[a-z_]+", fullmatch=True)
VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none(), NAMES,
    st.lists(st.integers(), max_size=3),
)  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_names_read_back(parameters):
    name = full_name("core", parameters)
    assert parse_name(name) == ("core", parameters)
    assert split_names(f"{name},fc-ridge") == [name, "fc-ridge"]


@pytest.mark.parametrize("text", ["core[budget=20", "core[budget]", "core[a b=1]", "core[a=1,a=2]"])
def test_names_that_cannot_be_read(text):
    with pytest.raises(UsageError, match="core\\[budget=20\\]"):
        parse_name(text)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1))
@example(["\r", "'\r", "a\rb", '"', "=1,2"])
def test_names_of_sites_survive_the_table_and_are_no_formulas(tmp_path_factory, sites):
    path = tmp_path_factory.getbasetemp() / "scores.csv"
    row = ("core", "loso", "", 0, 5, 2, *[0.1 + 0.2] * 8, None, 0.5, "full", "{}")
    rows = [(*row[:2], site, *row[3:]) for site in sites]
    path.write_text(csv_lines([SCORES, *rows]), encoding="utf-8", newline="")
    assert read_table(path)["site"].tolist() == sites
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)["site"]
    assert not any(cell[0] in "=+-@\t\r\n" for cell in cells)


def test_the_table_on_disk_equals_the_one_in_memory(tmp_path):
    rows = [
        ("core", "loso", site, site, 0, 5, 2, *[value] * 8, 0.1, 0.5, "full", "{}")
        for site, value in [("01", None), ("NA", 1 / 3)]
    ]
    (tmp_path / "scores.csv").write_text(csv_lines([SCORES, *rows]))
    pd.testing.assert_frame_equal(read_table(tmp_path / "scores.csv"), frame(SCORES, rows), check_dtype=False)


def test_the_tables_are_not_written_again_after_every_run(tmp_path, monkeypatch):
    cohort, written = make_cohort(n_sites=3, n_per_site=8, n_rois=8), []
    write = RunsFolder.write_tables
    monkeypatch.setattr(RunsFolder, "write_tables", lambda folder: (written.append(len(folder.runs)), write(folder))[1])
    evaluate(cohort, ["majority"], "cv", n_splits=2, n_repeats=50, out=tmp_path)
    assert len(written) < 45 and written[-1] == 100  # runs: 100
    assert len(read_table(tmp_path / "scores.csv")) == 100


def test_runs_are_found_in_what_run_writes_and_by_the_study_file(tmp_path):
    cohort = make_cohort(n_sites=4, n_per_site=12, n_rois=8)
    evaluate(cohort, ["confounds"], out=tmp_path / "results" / "runs")
    (tmp_path / "study.yaml").write_text("data: synthetic\nout: results\n")
    for named in ("results/runs", "results", "study.yaml"):
        assert len(RunsFolder(tmp_path / named).runs) == 4
    with pytest.raises(RunsError, match="--out"):
        RunsFolder(tmp_path)
