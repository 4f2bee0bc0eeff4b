"""Bad input of every kind ends in an error for people; ``python -m tests.fuzz`` does the same for hours."""

import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brainroam.data.loading import load_cohort
from brainroam.data.readers.series import read_series
from brainroam.data.readers.tables import read_table
from brainroam.data.store import CohortStore, write_store
from brainroam.data.study_file import read_study
from brainroam.data.synthetic import make_cohort
from brainroam.errors import BrainroamError, ReaderError

ROOT = Path(__file__).resolve().parents[2]
TRIES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
CELLS = st.one_of(
    st.sampled_from(
        ["", "n/a", "NaN", "inf", "1e999", "../../x", "/etc/passwd", "\0", "ü" * 99, "=1+1", "1_0", "²", '"']
    ),
    st.floats().map(str),
    st.integers().map(str),
    st.text(max_size=12),
)
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=6), min_size=1, max_size=8)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="bounds the memory of a process as Linux does")
def test_hundreds_of_spoilt_files_are_read_or_refused(tmp_path):
    """Every reader, models, runs, study files and command lines, in a process with bounded memory and time."""
    command = [sys.executable, "-m", "tests.fuzz", "--inputs", "15", "--out", tmp_path / "out.json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads((tmp_path / "out.json").read_text())
    assert len(outcomes) == 16 and all(o["read"] + o["refused"] == 15 for o in outcomes)
    assert all(o["read"] and o["refused"] for o in outcomes)  # mutations that only ever break or never do test little


@TRIES
@given(rows=ROWS, mark=st.sampled_from("\t,; "), suffix=st.sampled_from(["tsv", "csv", "txt", "1D"]))
def test_any_table_is_a_series_or_a_refusal(rows, mark, suffix):
    _read_or_refuse(read_series, f"x.{suffix}", "\n".join(mark.join(row) for row in rows).encode("utf-8", "replace"))


@TRIES
@given(rows=ROWS, mark=st.sampled_from("\t,;"))
def test_any_table_is_a_table_of_people_or_a_refusal(rows, mark):
    _read_or_refuse(read_table, "x.csv", "\n".join(mark.join(row) for row in rows).encode("utf-8", "replace"))


@TRIES
@given(content=st.binary(max_size=300), name=st.sampled_from(["x.npy", "x.mat", "x.ptseries.nii", "x.csv"]))
def test_any_bytes_are_a_series_or_a_refusal(content, name):
    _read_or_refuse(read_series, name, content)


@TRIES
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))))
def test_any_bytes_are_a_study_file_or_a_refusal(content):
    _read_or_refuse(read_study, "study.yaml", content)


@TRIES
@given(
    content=st.dictionaries(
        st.one_of(
            st.sampled_from(["data", "sites", "options", "methods", "seeds", "out", "atlas"]), st.integers(), st.text()
        ),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=5),
            lambda x: st.lists(x) | st.dictionaries(st.text(), x),
            max_leaves=4,
        ),
        max_size=4,
    )
)
def test_any_yaml_is_a_study_file_or_a_refusal(content):
    import yaml

    _read_or_refuse(read_study, "study.yaml", yaml.safe_dump({"data": "synthetic", **content}).encode())


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9)
)


@pytest.mark.parametrize(
    "line",
    [
        f"{BOMB}sites: *a8",
        "sites: " + "[" * 5000,
        "methods: " + "{" * 50_000,
        "seeds: " + "9" * 20_000,
        "out: 2001-99-99",
        "out: ~nobody-of-that-name/x",
        "seeds: " + "x" * 5000,
    ],
)
def test_a_study_file_made_to_do_harm_is_refused(tmp_path, line):
    (tmp_path / "study.yaml").write_text(f"data: synthetic\n{line}\n")
    with pytest.raises(BrainroamError):
        read_study(tmp_path / "study.yaml")


def test_an_atlas_with_a_name_too_long_for_a_file_is_no_file(tmp_path):
    (tmp_path / "study.yaml").write_text("data: synthetic\natlas: " + "x" * 5000)
    assert len(str(read_study(tmp_path / "study.yaml").atlas)) == 5000


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "x" * 5000])
def test_a_path_that_cannot_be_is_refused(path):
    with pytest.raises(BrainroamError):
        load_cohort(path)


def test_a_table_of_people_of_very_many_columns_is_refused_at_once(tmp_path):
    (tmp_path / "x.csv").write_text("a," * 20_000 + "b\n" + "1," * 20_000 + "2\n")
    with pytest.raises(ReaderError, match="20001 columns"):
        read_table(tmp_path / "x.csv")


def _read_or_refuse(read, name, content):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            read(file)
        except BrainroamError as error:
            assert str(error)
        assert [path.name for path in Path(folder).iterdir()] == [name]


def npy_claiming(shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return header.getvalue() + bytes(800)


def one_person(folder, name, content):
    folder.mkdir()
    (folder / "participants.tsv").write_text("participant_id\tsite\tdiagnosis\np\tA\t1\n")
    (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("shape", [(10, 10**9), (10**9, 10), (2**62, 4), (2**40, 2**40)])
def test_an_array_that_claims_more_than_its_file_holds(tmp_path, shape):
    with pytest.raises(ReaderError):
        load_cohort(one_person(tmp_path / "data", "p.npy", npy_claiming(shape)))


@pytest.mark.parametrize("size", [10**9, 2**31 - 1])
def test_a_matrix_of_matlab_that_claims_more_than_its_file_holds(tmp_path, size):
    from scipy.io import savemat

    savemat(tmp_path / "x.mat", {"x": np.ones((6, 4))})
    content = (tmp_path / "x.mat").read_bytes()
    at = content.index(struct.pack("<ii", 6, 4))
    content = content[:at] + struct.pack("<ii", 6, size) + content[at + 8 :]
    with pytest.raises(ReaderError):
        load_cohort(one_person(tmp_path / "data", "p.mat", content))


def test_a_matrix_of_matlab_with_a_name_longer_than_the_file_asks_for_no_memory(tmp_path):
    import tracemalloc

    file = tmp_path / "x.mat"
    file.write_bytes(struct.pack("<5i", 0, 6, 4, 0, 2**31 - 1) + bytes(48))  # version 4: the last is the name's length
    tracemalloc.start()
    with pytest.raises(ReaderError):
        read_series(file)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_an_image_that_claims_more_than_its_file_holds(tmp_path):
    from tests.fuzz.targets import build_folder

    build_folder(tmp_path / "seed")
    content = bytearray((tmp_path / "seed" / "p5.ptseries.nii").read_bytes())
    content[16 + 8 * 5 : 16 + 8 * 6] = struct.pack("<q", 10**9)  # dim[5] of a NIfTI-2 header
    with pytest.raises(ReaderError):
        load_cohort(one_person(tmp_path / "data", "p.ptseries.nii", bytes(content)))


def test_an_image_with_an_extension_longer_than_the_file_asks_for_no_memory(tmp_path):
    import tracemalloc

    from tests.fuzz.targets import build_folder

    build_folder(tmp_path)
    file = tmp_path / "p5.ptseries.nii"
    content = bytearray(file.read_bytes())
    content[544:548] = struct.pack("<i", 2**31 - 16)  # the size of the first extension, behind a NIfTI-2 header
    file.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(ReaderError):
        read_series(file)
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


def test_a_table_with_a_header_of_very_many_columns_is_read_or_refused():
    content = b"\t".join(b"%d" % i for i in range(200_000)) + b"\n1\t2\n3\t4\n"
    _read_or_refuse(read_series, "x.tsv", content)


def test_a_spreadsheet_that_unpacks_to_very_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.data.readers.series.MAX_UNPACKED", 1_000_000)
    pd.DataFrame({"participant_id": ["p"]}).to_excel(tmp_path / "x.xlsx", index=False)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "p.csv").write_text("1,2\n3,4\n")
    with (
        zipfile.ZipFile(tmp_path / "x.xlsx") as old,
        zipfile.ZipFile(folder / "participants.xlsx", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
        with new.open("xl/worksheets/sheet9.xml", "w") as bomb:
            bomb.write(bytes(3_000_000))
    with pytest.raises(ReaderError, match="unpacks"):
        load_cohort(folder)


def test_members_of_an_archive_are_never_unpacked_to_disk(tmp_path):
    file = make_cohort(n_sites=2, n_per_site=4, n_rois=8).save(tmp_path / "data" / "cohort.npz")
    link = zipfile.ZipInfo("link.npy")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../escaped.npy", b"x")
        archive.writestr("/tmp/escaped.npy", b"x")
        archive.writestr(link, "/etc/passwd")
    before = sorted(tmp_path.rglob("*"))
    assert len(load_cohort(file)) == 8
    assert sorted(tmp_path.rglob("*")) == before and not Path("/tmp/escaped.npy").exists()


@pytest.mark.parametrize("keep", [0, 10, 17, 100, -1])
def test_a_chunk_that_was_cut_short_is_refused_before_it_is_unpacked(tmp_path, keep):
    """Blosc would read on in memory that is not its own, and end the process."""
    cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    store = write_store(tmp_path / "c.zarr", cohort.table, cohort.series)
    chunk = store / "series" / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:keep])
    with pytest.raises(ReaderError, match="series"):
        list(CohortStore(store).series())


def test_a_chunk_that_claims_to_unpack_to_more_is_refused(tmp_path):
    cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    store = write_store(tmp_path / "c.zarr", cohort.table, cohort.series)
    chunk = store / "series" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[4:8] = struct.pack("<I", 2**31 - 1)
    chunk.write_bytes(content)
    with pytest.raises(ReaderError, match="long"):
        list(CohortStore(store).series())


def test_a_store_packed_in_another_way_is_refused(tmp_path):
    cohort = make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    store = write_store(tmp_path / "c.zarr", cohort.table, cohort.series)
    file = store / "series" / "zarr.json"
    content = json.loads(file.read_text())
    content["chunk_grid"]["configuration"]["chunk_shape"][0] = 10**9
    file.write_text(json.dumps(content))
    with pytest.raises(ReaderError, match="damaged"):
        CohortStore(store)


def test_json_nested_too_deep_is_a_refusal_or_no_sidecar(tmp_path):
    from brainroam.cli.source import parse_option
    from brainroam.data.readers.bids import sidecar_tr
    from brainroam.methods.registry import parse_name

    deep = "[" * 100_000
    (tmp_path / "sub-1_task-rest_timeseries.json").write_text(deep)
    assert np.isnan(sidecar_tr(tmp_path / "sub-1_task-rest_timeseries.tsv"))
    assert parse_option(f"a={deep}") == ("a", deep)
    assert parse_name(f"core[a={deep}]") == ("core", {"a": deep})
    np.savez(tmp_path / "cohort.npz", header=np.array(deep), data=np.ones(1), coords=np.ones(1))
    with pytest.raises(ReaderError):
        load_cohort(tmp_path / "cohort.npz")


def test_more_repeats_than_anybody_can_run_are_refused(tmp_path):
    from typer.testing import CliRunner

    from brainroam.cli import app

    done = CliRunner().invoke(app, ["cv", "nowhere", "--repeats", "9" * 400, "--out", str(tmp_path / "runs")])
    assert done.exit_code == 2 and "--repeats" in done.output
