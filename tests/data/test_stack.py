"""A stack of matrices without ids, and matrices of which some sites hold Fisher's z."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.check import check_cohort
from brainroam.errors import UsageError

COHORT = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=30, seed=0)
COMMON = np.random.default_rng(0).normal(size=(1000, 1))  # so that some z are beyond 1
FULL = [np.corrcoef((x / x.std() + 1.5 * COMMON[: len(x)]).T) for x in COHORT.series]
UPPER = np.triu_indices(30, 1)


def as_z(r):
    return np.arctanh(r - np.eye(len(r)))


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def write_people(root):
    table = COHORT.table
    label = table["label"].map({0: "HC", 1: "MDD"})
    people = pd.DataFrame({"ID": table["subject"], "site": table["site"], "dx": label})
    root.mkdir(exist_ok=True)
    people.to_csv(root / "people.csv", index=False)
    return table


@pytest.fixture
def folder(tmp_path):
    """Files of matrices, of which those of S02 hold z."""
    root = tmp_path / "data"
    table = write_people(root)
    for subject, site, r in zip(table["subject"], table["site"], FULL, strict=True):
        np.savetxt(root / f"{subject}.csv", as_z(r) if site == "S02" else r, delimiter=",")
    return root


def edges(cohort):
    return np.array([x[UPPER] for x in cohort.series])


EXPECTED = np.array([r[UPPER] for r in FULL])


def test_a_stack_says_on_the_screen_whose_rows_it_takes_its_own_to_be(tmp_path):
    root = tmp_path / "data"
    write_people(root)
    np.save(root / "stack.npy", np.array(FULL))
    said = "stack.npy holds no ids: its rows are taken to be those of people.csv, in their order"
    done = run("init", root, "--out", tmp_path / "study.yaml")
    assert done.exit_code == 0 and said in done.output, done.output
    np.testing.assert_allclose(edges(brainroam.load_cohort(tmp_path / "study.yaml")), EXPECTED)


def test_a_stack_of_one_row_too_few_is_named_with_both_numbers(tmp_path):
    root = tmp_path / "data"
    write_people(root)
    np.save(root / "stack.npy", np.array(FULL)[1:])
    done = run("init", root, "--out", tmp_path / "study.yaml")
    assert done.exit_code != 0 and "stack.npy has 35 rows for 36 people" in done.output, done.output


def test_sites_that_hold_z_are_read_as_told(folder):
    told = brainroam.load_cohort(folder, edges={"S02": "z"})
    np.testing.assert_allclose(edges(told), EXPECTED)
    assert told.prepared == ("Fisher's z of S02 were turned into correlations, as told",)
    at_s02 = (told.table["site"] == "S02").to_numpy()
    untold = edges(brainroam.load_cohort(folder))
    assert np.abs(untold - EXPECTED)[at_s02].max() > 0.01  # what is mended


def test_what_the_check_advises_mends_it(folder, tmp_path):
    study = tmp_path / "study.yaml"
    assert run("init", folder, "--out", study).exit_code == 0
    (found,) = [f for f in check_cohort(brainroam.load_cohort(study)).findings if f.code == "mixed-edges"]
    assert "--z-at S02" in found.remedy and "edges: {S02: z}" in found.remedy
    assert "Fisher's z at" not in run("check", study, "--z-at", "S02").output


def test_one_site_of_correlations_among_sites_of_z_is_named_as_well(tmp_path):
    root = tmp_path / "data"
    table = write_people(root)
    for subject, site, r in zip(table["subject"], table["site"], FULL, strict=True):
        np.savetxt(root / f"{subject}.csv", r if site == "S02" else as_z(r), delimiter=",")
    np.testing.assert_allclose(edges(brainroam.load_cohort(root, edges={"S01": "z", "S03": "z"})), EXPECTED)
    np.testing.assert_allclose(edges(brainroam.load_cohort(root, edges={"S02": "r"})), EXPECTED)


def test_a_stack_of_z_at_one_site_is_mended_too(tmp_path):
    root = tmp_path / "data"
    table = write_people(root)
    stack = np.array([as_z(r) if site == "S02" else r for r, site in zip(FULL, table["site"], strict=True)])
    np.save(root / "stack.npy", stack)
    assert run("init", root, "--out", tmp_path / "study.yaml").exit_code == 0
    cohort = brainroam.load_cohort(tmp_path / "study.yaml", edges={"S02": "z"})
    np.testing.assert_allclose(edges(cohort), EXPECTED)


@pytest.mark.parametrize(
    ("told", "words"),
    [({"S2": "z"}, "site of edges 'S2'"), ({"S02": "fisher"}, "edges of S02: 'fisher'")],
)
def test_edges_of_no_site_or_no_kind_are_refused(folder, told, words):
    with pytest.raises(UsageError, match=words):
        brainroam.load_cohort(folder, edges=told)


def test_edges_of_series_are_refused():
    with pytest.raises(UsageError, match="edges says what matrices hold, but these are series"):
        brainroam.load_cohort("synthetic", edges={"S01": "z"})
