"""Three hospitals, three rounds, one report: the commands of the issue, as people type them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.cohort import Cohort
from brainroam.execution.federation.files import SUMMARY, read_message


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hospitals")
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=24, n_rois=12, seed=2)
    for letter, name in zip("ABCD", cohort.sites, strict=True):
        cohort.select([name]).save(folder / f"{letter}.npz")
    cohort.save(folder / "all.npz")
    return folder


def three_rounds(folder):
    """What the pool of hospitals A, B and C prints in each round."""
    pool, printed = folder / "POOL", []
    for number in (1, 2, 3):
        request = [] if number == 1 else ["--request", pool / "request"]
        for letter in "ABC":
            result = run("site", folder / f"{letter}.npz", *request, "--out", folder / f"{letter}{number}.summary")
            assert result.exit_code == 0, result.output
        result = run("pool", *(folder / f"{letter}{number}.summary" for letter in "ABC"), "--out", pool)
        assert result.exit_code == 0, result.output
        printed.append(result.output)
    return printed


@pytest.fixture(scope="module")
def outputs(folder):
    return three_rounds(folder)


def test_three_rounds_end_in_scores_and_a_report(folder, outputs):
    assert "round 2: waiting for S01, S02, S03" in outputs[0]
    assert "model:" in outputs[1]
    assert "mean AUC over 3 held-out sites" in outputs[2]
    assert (folder / "POOL" / "scores.csv").read_text().count("\n") == 4
    assert "What do the hospitals say together?" in (folder / "POOL" / "report.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_the_model_predicts_explains_and_is_reported(folder, outputs):
    new = folder / "D.npz"
    result = run("predict", folder / "POOL" / "model", new, "--out", folder / "p.csv")
    assert result.exit_code == 0, result.output
    assert "24 people" in result.output
    assert run("explain", folder / "POOL" / "model", new, "--out", folder / "explanation").exit_code == 0
    assert run("report", folder / "POOL", "--out", folder / "r.html").exit_code == 0


def test_show_needs_no_data(folder, outputs):
    result = run("site", "--show", folder / "A2.summary")
    assert result.exit_code == 0
    assert "sum over everybody of the product of their residuals, as components" in result.output


def test_mistakes_are_one_line(folder, outputs, tmp_path):
    several = run("site", folder / "all.npz", "--out", tmp_path / "x")
    assert several.exit_code == 1
    assert "name one with --sites" in several.output
    (tmp_path / "text").write_text("hello")
    assert "is not a site summary" in run("site", "--show", tmp_path / "text").output
    assert "is not a site summary" in run("pool", folder / "A.npz", "--out", tmp_path / "pool").output
    assert run("site", folder / "A.npz", "--out", tmp_path / "x", "--set", "kind=tangled").exit_code == 2
    unasked = run("site", folder / "D.npz", "--request", folder / "POOL" / "request", "--out", tmp_path / "x")
    assert "does not ask site S04" in unasked.output
    assert run("pool", "--without", "S09", "--out", folder / "POOL").exit_code == 2
    assert run("report", tmp_path, "--out", tmp_path / "r.html").exit_code == 1


def test_a_hospital_that_has_withdrawn_comes_back_by_a_word_only(folder, outputs, tmp_path):
    pool = tmp_path / "POOL"
    files = [folder / f"{letter}1.summary" for letter in "ABC"]
    assert run("pool", *files, "--out", pool).exit_code == 0
    assert run("pool", "--without", "S02", "--out", pool).exit_code == 0
    again = run("pool", *files, "--out", pool)
    assert again.exit_code == 0
    assert "2 site(s) so far (S01, S03)" in again.output and "S02 has withdrawn" in again.output
    assert "has not withdrawn" in run("pool", *files, "--again", "S01", "--out", pool).output
    assert "3 sites" in run("pool", *files, "--again", "S02", "--out", pool).output


def test_round_two_is_noise_unless_said_otherwise(folder, outputs, tmp_path):
    sent = read_message(folder / "A2.summary", SUMMARY)
    assert set(sent.arrays) == {"counts", "masked"}
    for letter in "ABC":
        out = tmp_path / letter / "1.summary"
        assert run("site", folder / f"{letter}.npz", "--plain", "--out", out).exit_code == 0
    told = run("pool", *(tmp_path / letter / "1.summary" for letter in "ABC"), "--out", tmp_path / "POOL").output
    assert "round 2 is told in the open" in told


@pytest.fixture(scope="module")
def of_blocks(tmp_path_factory):
    """Four hospitals with scans and a table; the pool of three of them after all rounds, and what it printed."""
    folder = tmp_path_factory.mktemp("blocks")
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=40, n_rois=12, seed=2)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(len(cohort), 20)) + 0.5 * cohort.labels[:, None]
    table = Cohort(list(values[:, None]), cohort.table, measure="table")
    both = cohort.with_block("anatomy", table, "rest")
    for letter, name in zip("ABCD", both.sites, strict=True):
        both.select([name]).save(folder / f"{letter}.npz")
    cohort.select([cohort.sites[3]]).save(folder / "scans.npz")
    return folder, three_rounds(folder)[-1]


@pytest.mark.usefixtures("undrawn")
def test_blocks_are_pooled_by_the_same_commands(of_blocks):
    folder, told = of_blocks
    assert "weights of the blocks" in told and "mean AUC over 3 held-out sites" in told
    model, new = folder / "POOL" / "model", folder / "D.npz"
    result = run("predict", model, new, "--out", folder / "p.csv")
    assert result.exit_code == 0, result.output
    predicted = pd.read_csv(folder / "p.csv")
    assert roc_auc_score(predicted["label"], predicted["probability"]) > 0.7
    result = run("explain", model, new, "--out", folder / "explanation")
    assert result.exit_code == 0, result.output
    assert {path.name for path in (folder / "explanation").iterdir()} >= {"rest", "anatomy"}
    assert run("report", folder / "POOL", "--out", folder / "r.html").exit_code == 0
    lacks = run("predict", model, folder / "scans.npz", "--out", folder / "q.csv")
    assert lacks.exit_code == 1
    assert "anatomy" in lacks.output
    assert "Traceback" not in lacks.output


def test_a_hospital_may_take_part_with_one_block(of_blocks):
    folder, _ = of_blocks
    result = run("site", folder / "D.npz", "--only", "rest", "--out", folder / "one" / "D1.summary")
    assert result.exit_code == 0, result.output
    joined = run("pool", folder / "one" / "D1.summary", "--out", folder / "POOL")
    assert joined.exit_code == 0, joined.output
    assert "round 2" in joined.output
