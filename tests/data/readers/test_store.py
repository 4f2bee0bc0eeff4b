"""The chunked store: exact, partial, streamed, atomic, and loud when a byte is wrong."""

import json
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam import Cohort, load_cohort
from brainroam.cli import app
from brainroam.data.readers.participants import Scratch
from brainroam.data.readers.text import Series
from brainroam.data.store import CohortStore, write_store
from brainroam.errors import BrainroamError, DataError, ReaderError, UsageError
from brainroam.evaluation.run_records import table_hash
from brainroam.utils.files import write_checksummed


@pytest.fixture(scope="module")
def cohort():
    made = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=10, constant_rois=1, missing_covariates=3)
    table = made.table.assign(scanner=["GE", None] * 12, visits=pd.array([1, None, 3] * 8, dtype="Int64"))
    table.loc[5, "label"] = np.nan
    return Cohort(made.series, table, excluded=pd.DataFrame({"subject": ["x"], "reason": ["no scan"]}))


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks shorter and longer than a person's scan both occur in real stores; these cut every scan."""
    monkeypatch.setattr("brainroam.data.store.CHUNK_BYTES", 100 * 10 * 8)


@pytest.fixture
def store(tmp_path, cohort, small_chunks):
    return write_store(tmp_path / "c.zarr", cohort.table, cohort.series, cohort.atlas, cohort.excluded)


def chunk_files(store):
    return sorted((store / "series").glob("c/*/0"), key=lambda path: int(path.parent.name))


def test_reading_equals_the_original(cohort, store):
    read = load_cohort(store, require_label=False, max_missing_rois=1)
    assert all(np.array_equal(a, b) for a, b in zip(read.series, cohort.series, strict=True))
    assert read.manifest_hash == cohort.manifest_hash == CohortStore(store).manifest_hash
    assert table_hash(read) == table_hash(cohort)
    assert read.atlas == cohort.atlas and read.excluded.equals(cohort.excluded)
    assert len(chunk_files(store)) > len(cohort)


def test_people_without_label_are_left_out_as_from_any_layout(cohort, store):
    read = load_cohort(store, max_missing_rois=1)
    assert len(read) == len(cohort) - 1 and read.excluded["reason"].tolist() == ["no scan", "no label"]
    with pytest.raises(UsageError, match="regions of 'custom'"):
        load_cohort(store, atlas="aal")
    with pytest.raises(UsageError, match="'S03'"):
        load_cohort(store, sites=["S33"])


def test_some_sites_are_read_without_the_rest(cohort, store):
    files = chunk_files(store)
    for file in files[: len(files) // 2]:  # where the first site lies
        file.unlink()
    read = load_cohort(store, sites=["S03"])
    assert read.manifest_hash == cohort.select(["S03"]).manifest_hash
    with pytest.raises(ReaderError, match="subject S01_0001"):
        load_cohort(store, sites=["S01"])


def test_any_people_are_read_in_any_order(cohort, store):
    rows = [20, 3, 3, 11]
    for x, row in zip(CohortStore(store).series(rows), rows, strict=True):
        assert np.array_equal(x, cohort.series[row]) and not x.flags.writeable


def test_the_stream_is_never_held(tmp_path, small_chunks):
    alive, most = set(), 0

    def people():
        nonlocal most
        for seed in range(30):
            x = np.random.default_rng(seed).normal(size=(50, 10)).view(Tracked)
            x.of = alive, seed
            alive.add(seed)
            most = max(most, len(alive))
            yield x
            del x

    table = pd.DataFrame({"subject": [str(i) for i in range(30)], "site": "A", "label": 0})
    write_store(tmp_path / "c.zarr", table, people())
    assert most <= 4


class Tracked(np.ndarray):
    of = None

    def __del__(self):
        if self.of:
            self.of[0].discard(self.of[1])


def test_single_precision_stays_single_on_disk_and_exact(tmp_path):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(20 + i, 4)).astype(np.float32) for i in range(3)]
    table = pd.DataFrame({"subject": list("abc"), "site": "A", "label": [0, 1, 0]})
    store = CohortStore(write_store(tmp_path / "c.zarr", table, series))
    assert store.dtype == np.float32
    assert all(np.array_equal(x, y) for x, y in zip(store.series(), series, strict=True))
    with pytest.raises(DataError, match="subject b"):
        write_store(tmp_path / "d.zarr", table, [series[0], rng.normal(size=(20, 4)), series[2]])
    assert not (tmp_path / "d.zarr").exists()


@pytest.mark.parametrize(
    ("series", "message"),
    [
        ([np.ones((9, 4))], "subject b"),
        ([np.ones((9, 4))] * 4, "3 rows"),
        ([np.ones((9, 4)), np.ones((9, 5))], "subject b .*5 regions"),
        ([np.ones((9, 4)), np.ones(9)], "subject b: .*time"),
    ],
)
def test_a_stream_that_does_not_fit_leaves_nothing(tmp_path, series, message):
    table = pd.DataFrame({"subject": list("abc"), "site": "A", "label": [0, 1, 0]})
    with pytest.raises(DataError, match=message):
        write_store(tmp_path / "c.zarr", table, iter(series))
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_not_overwritten(store, cohort):
    with pytest.raises(BrainroamError, match="exists"):
        write_store(store, cohort.table, cohort.series)
    load_cohort(store)


def flip(path, position=-20):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_flipped_bit_in_a_chunk_is_noticed(store):
    flip(chunk_files(store)[7])
    with pytest.raises(ReaderError, match=r"c\.zarr .*subject S0\d_\d+"):
        load_cohort(store)


def test_a_chunk_cut_short_is_refused_with_its_subject(store):
    file = chunk_files(store)[3]
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ReaderError, match=r"c\.zarr .*subject S0\d_\d+"):
        load_cohort(store)


def test_a_table_changed_by_hand_is_refused(store):
    path = store / "cohort.json"
    path.write_text(path.read_text().replace('"S02_0001"', '"S02_0009"'))
    with pytest.raises(ReaderError, match=r"cohort\.json .*changed"):
        load_cohort(store)


def test_other_schemas_and_other_zarr_are_refused(store, tmp_path):
    manifest = json.loads((store / "cohort.json").read_text())
    (store / "cohort.json").write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(ReaderError, match="schema 99"):
        load_cohort(store)
    write_checksummed(store / "cohort.json", {"kind": "something else"})
    with pytest.raises(ReaderError, match="store"):
        load_cohort(store)
    (store / "cohort.json").unlink()
    with pytest.raises(ReaderError, match=r"cohort\.json"):
        load_cohort(store)


def test_damaged_zarr_metadata_are_refused(store):
    path = store / "series" / "zarr.json"
    metadata = json.loads(path.read_text())
    metadata["shape"][0] += 1
    path.write_text(json.dumps(metadata))
    with pytest.raises(ReaderError, match="series"):
        load_cohort(store)
    path.write_text("{")
    with pytest.raises(ReaderError, match="array"):
        load_cohort(store)


def test_without_zarr_the_line_that_installs_it_is_named(store, cohort, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "zarr", None)
    for use in (lambda: load_cohort(store), lambda: write_store(tmp_path / "n.zarr", cohort.table, cohort.series)):
        with pytest.raises(BrainroamError) as caught:
            use()
        assert str(caught.value).endswith('run: pip install "brainroam[store]"')


def test_spooled_series_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.data.readers.participants.SEGMENT", 100)
    spool = Scratch(tmp_path)
    series = [np.random.default_rng(i).normal(size=(5 + 10 * i, 3)) for i in range(6)]
    kept = [spool.keep(Series(x)).values for x in series]
    assert all(np.array_equal(a, b) and not a.flags.writeable for a, b in zip(kept, series, strict=True))
    assert 1 < len(list(tmp_path.iterdir())) < 6


def write_folder(root, cohort):
    root.mkdir()
    cohort.table.rename(columns={"subject": "participant_id", "label": "diagnosis"}).to_csv(
        root / "participants.csv", index=False
    )
    for subject, x in zip(cohort.table["subject"], cohort.series, strict=True):
        np.save(root / f"{subject}.npy", x)


def test_convert_and_every_command_reads_it(tmp_path):
    made = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=10)
    write_folder(tmp_path / "study", made)
    out = tmp_path / "new" / "study.zarr"
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "study"), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "24 people of 3 sites" in result.stdout and f"now try: brainroam check {out}" in result.stdout
    assert load_cohort(out).manifest_hash == load_cohort(tmp_path / "study").manifest_hash == made.manifest_hash
    assert sorted(path.name for path in tmp_path.rglob(".*")) == []  # no scratch is left
    again = CliRunner().invoke(app, ["convert", str(tmp_path / "study"), "--out", str(out)])
    assert again.exit_code == 1 and "exists and was left as it is" in again.stderr
    scores = []
    for data in (out, tmp_path / "study"):
        runs = tmp_path / f"runs-{data.name}"
        command = ["loso", str(data), "--methods", "fc-ridge", "--tuning", "fast", "--out", str(runs)]
        assert CliRunner().invoke(app, command).exit_code == 0
        scores.append((runs / "scores.csv").read_bytes())
    assert scores[0] == scores[1]


def test_convert_of_a_saved_cohort_reads_one_person_after_another(tmp_path):
    """All of it was in memory, twice."""
    rng, people = np.random.default_rng(0), brainroam.make_cohort(n_sites=4, n_per_site=10, n_rois=8).table
    made = Cohort([rng.normal(size=(4000, 40)) for _ in range(len(people))], people)
    made.save(tmp_path / "cohort.npz")
    size = sum(x.nbytes for x in made.series)
    brainroam.load_cohort(tmp_path / "cohort.npz")  # what is imported on the way counts for nobody
    tracemalloc.start()
    command = ["convert", str(tmp_path / "cohort.npz"), "--out", str(tmp_path / "cohort.zarr")]
    result = CliRunner().invoke(app, command)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.exit_code == 0 and size > 5e7 and peak < size / 2
    assert brainroam.load_cohort(tmp_path / "cohort.zarr").manifest_hash == made.manifest_hash


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills a process")
@pytest.mark.parametrize("when", ["reading", "writing"])
def test_convert_that_was_killed_can_be_started_again(tmp_path, when):
    made = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=10)
    write_folder(tmp_path / "study", made)
    slow = {
        "reading": "from brainroam.data.readers import participants as m; slow, name = m.Scratch, 'keep'",
        "writing": "from brainroam.data import store as m; slow, name = m._Writer, 'add'",
    }
    code = (
        f"import time; {slow[when]}; quick = getattr(slow, name)\n"
        "setattr(slow, name, lambda *a: (time.sleep(0.2), quick(*a))[1])\n"
        "from brainroam.cli import main; main()"
    )
    out = tmp_path / "made" / "study.zarr"
    command = ["convert", str(tmp_path / "study"), "--out", str(out)]
    killed = subprocess.Popen([sys.executable, "-c", code, *command], stderr=subprocess.PIPE, text=True)
    scratch = out.parent / ".study.zarr.making"
    begun = "*.spool" if when == "reading" else ".*.part"
    while not list(scratch.glob(begun)) and killed.poll() is None:
        time.sleep(0.01)
    beside = CliRunner().invoke(app, command)
    assert beside.exit_code == 1 and "another command is making" in beside.stderr
    killed.kill()
    killed.communicate()
    assert list(scratch.iterdir()) and not out.exists()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0 and "stopped before its end; starting again" in again.stderr
    assert load_cohort(out).manifest_hash == made.manifest_hash
    assert [path.name for path in out.parent.iterdir()] == ["study.zarr"]


def test_volumes_without_signal_are_dropped_and_counted_in_a_store_too(tmp_path):
    made = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    series = made.series
    series[0] = np.where(np.arange(len(series[0]))[:, None] < 7, 0, series[0])
    with pytest.warns(UserWarning, match="dropped"):
        path = write_store(tmp_path / "cohort.zarr", made.table, series)
    with pytest.warns(UserWarning, match="dropped"):
        in_memory = Cohort(series, made.table)
    read = load_cohort(path)
    assert read.table["empty_volumes"].tolist() == [7, *[0] * 7]
    assert read.manifest_hash == in_memory.manifest_hash and read.prepared == in_memory.prepared
