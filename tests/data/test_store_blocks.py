"""Stores of matrices, tables and several blocks: what goes in comes out, in memory and on disk."""

import numpy as np
import pytest
from tests.methods.test_measures import table_cohort
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.data.store import store_cohort
from brainroam.data.stored_cohort import StoredCohort
from brainroam.errors import ReaderError

SERIES = brainroam.make_cohort(n_sites=4, n_per_site=20, n_rois=12, seed=3)


def matrices():
    return Cohort([np.corrcoef(x.T) for x in SERIES.series], SERIES.table, SERIES.atlas, measure="matrices")


def table():
    made = table_cohort(n_sites=4, n_per_site=20, seed=5)
    return made.made_of(made.series, SERIES.table)


def blocks():
    """Some lack the table, some the matrices."""
    return SERIES.with_block("anatomy", table().subset(range(70)), "rest").with_block(
        "task", matrices().subset(range(9, 80))
    )


@pytest.mark.parametrize("make", [matrices, table, blocks])
def test_what_goes_into_a_store_comes_out(make, tmp_path):
    cohort, path = make(), tmp_path / "cohort.zarr"
    again = brainroam.load_cohort(store_cohort(path, cohort))
    assert again.manifest_hash == cohort.manifest_hash
    assert list(again.blocks) == list(cohort.blocks)
    assert again.atlas == cohort.atlas
    some = brainroam.load_cohort(path, sites=["S02"])
    assert some.manifest_hash == cohort.select(["S02"])._as_whole().manifest_hash


@pytest.mark.parametrize(("make", "method"), [(matrices, "core"), (table, "core"), (blocks, "ensemble")])
def test_a_study_on_disk_is_the_study_in_memory(make, method, tmp_path):
    cohort = make()
    stored = StoredCohort(store_cohort(tmp_path / "cohort.zarr", cohort), tmp_path / "work", 2e9)
    one, other = (
        brainroam.evaluate(people, [f"{method}[epochs=0]" if method == "core" else method], tuning="fast").predictions
        for people in (cohort, stored)
    )
    np.testing.assert_allclose(one["score"], other["score"], atol=1e-8)


def test_the_command_converts_blocks_and_fits_within_a_memory(tmp_path):
    blocks().save(tmp_path / "cohort.npz")
    store, model = str(tmp_path / "cohort.zarr"), str(tmp_path / "model")
    for words in (
        ["convert", str(tmp_path / "cohort.npz"), "--out", store],
        ["fit", store, "--method", "ensemble", "--memory", "1GB", "--out", model],
        ["predict", model, store, "--out", str(tmp_path / "p.csv")],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    assert not (tmp_path / "model.work").exists()


def test_a_damaged_block_is_refused_by_name(tmp_path):
    path = store_cohort(tmp_path / "cohort.zarr", blocks())
    chunk = next((path / "blocks" / "1" / "series" / "c").rglob("0"))
    chunk = chunk if chunk.is_file() else next(file for file in chunk.rglob("*") if file.is_file())
    content = bytearray(chunk.read_bytes())
    content[-20] ^= 255
    chunk.write_bytes(bytes(content))
    with pytest.raises(ReaderError, match="damaged"):
        brainroam.load_cohort(path)
