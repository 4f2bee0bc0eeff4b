"""The report of several blocks, and of matrices alone: what each method read, and suggestions that can be run."""

import re

import numpy as np
import pytest

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.report.sections.audit import causes_of

METHODS = ["ensemble", "ensemble[blocks=task]", "ensemble[blocks=rest+task]", "tangent-ridge", "confounds"]


def text_of(page):
    text = re.sub(r"<(script|style).*?</\1>", " ", page.read_text(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("&amp;", "&")


@pytest.fixture(scope="module")
def blocks():
    rest = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=10, seed=2)
    task = Cohort([np.corrcoef(x[60:].T) for x in rest.series], rest.table, measure="matrices")
    values = np.random.default_rng(0).normal(size=(len(rest), 1, 12)) + 0.4 * rest.labels[:, None, None]
    table = Cohort(list(values), rest.table, measure="table")
    return rest.with_block("task", task, "rest").with_block("anatomy", table)


@pytest.fixture(scope="module")
def page(blocks, tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    results = brainroam.evaluate(blocks, METHODS, out=folder / "runs", tuning="fast")
    return text_of(brainroam.write_report(results, folder / "report.html"))


def test_each_method_is_described_by_what_it_read(page):
    assert "of matrices: sum of two readers of all edges: Pearson, logarithm" in page
    assert "of tables: ridges of all columns" in page
    assert "ensemble[blocks=task] (ensemble of task alone)" in page
    assert "ensemble[blocks=rest+task] (ensemble of rest and task alone)" in page
    assert re.search(r"tangent-ridge \(ridge on tangent connectivity, of rest alone", page)
    assert "A method read each block by itself; its scores were divided by their spread within sites" in page
    assert "and the columns of tables; per method under Methods text" in page


def test_what_blocks_cannot_show_is_not_suggested_but_what_explains_them(page):
    assert "explain model" in page and "Which edges and columns of each block count most" in page
    assert "Whether people group by diagnosis or by site" not in page and "How open the gates are" not in page
    assert re.search(r"anatomy (adds|takes) [\d.]+ AUC points (to|from) rest and task on average", page)
    assert not re.search(r"(rest|task) (adds|takes)", page)  # nobody ran the method without one of them


def test_the_scaffold_of_each_block_is_shown_under_names_of_its_own(blocks, tmp_path):
    brainroam.evaluate(blocks, ["ensemble", "core[tau_percentile=50,epochs=0]"], out=tmp_path / "runs", tuning="fast")
    out = brainroam.write_report(tmp_path / "runs", tmp_path / "report.html", figures=tmp_path / "figures")
    page = text_of(out)
    assert all(f"Block {name}" in page for name in ("rest", "task", "anatomy"))
    assert re.search(r"keeps [\d to]+ of 45 edges between 10 regions", page)
    assert re.search(r"keeps [\d to]+ of 12 columns", page)
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {"sites-rest", "sites-task", "sites-anatomy", "columns-anatomy"} <= names and "sites" not in names


def test_a_method_of_one_block_is_not_said_to_read_the_features_of_all(blocks, tmp_path):
    results = brainroam.evaluate(blocks, ["ensemble[blocks=task]", "fc-ridge"], out=tmp_path / "runs", tuning="fast")
    out = brainroam.write_report(results, tmp_path / "report.html", method="ensemble[blocks=task]")
    assert "Plain ridge regression (fc-ridge) on all blocks reaches" in text_of(out)


def test_a_method_that_reads_some_blocks_says_so(blocks):
    results = brainroam.evaluate(blocks, ["tangent-ridge"], tuning="fast", held_out=["S01"])
    (_, run), *_ = results.records
    assert "task, anatomy not read: tangent-ridge reads series" in run["notes"]


def test_a_report_of_matrices_names_no_time_course(blocks, tmp_path):
    results = brainroam.evaluate(blocks.block("task"), ["ensemble", "fc-ridge"], out=tmp_path / "runs", tuning="fast")
    page = text_of(brainroam.write_report(results, tmp_path / "report.html"))
    assert "co-fluctuation" not in page and "window" not in page and "changes over time" not in page
    assert "sum of two readers of all edges: Pearson, logarithm" in page


@pytest.mark.parametrize("target", ["number", "classes"])
def test_the_page_of_another_target_says_what_was_measured_and_what_each_block_adds(blocks, target, tmp_path):
    from brainroam.data.target_column import with_target

    rng = np.random.default_rng(1)
    column = rng.normal(30, 8, len(blocks)) if target == "number" else np.tile(["a", "b", "c", "a"], len(blocks) // 4)
    cohort = with_target(blocks.with_columns(blocks.table[[]].assign(goal=column)), "goal")
    methods = ["ensemble", "ensemble[blocks=rest+task]", "ensemble[blocks=anatomy]"]
    results = brainroam.evaluate(cohort, methods, out=tmp_path / "runs", tuning="fast")
    page = text_of(brainroam.write_report(results, tmp_path / "report.html"))
    assert "What was measured: rest: Regional fMRI time series (10 regions), task: Connectivity matrices" in page
    assert re.search(r"anatomy (adds|takes).* (rest and task give, r|from rest and task|to rest and task)", page)
    assert "weights of the blocks in ensemble, from inner held-out sites" in page


def test_weights_of_blocks_are_one_line_for_all_folds():
    notes = [
        "weights of the blocks in ensemble: rest 91%, task 9%",
        "weights of the blocks in ensemble: rest 80%, task 20%",
    ]
    (row,) = causes_of([("ensemble", {"notes": [note]}) for note in notes])
    assert row["note"] == "weights of the blocks in ensemble: rest 80 to 91%, task 9 to 20%"


def test_what_reads_the_course_of_time_is_refused_for_matrices_before_anything_runs(blocks):
    with pytest.raises(brainroam.errors.UsageError, match="temporal profiles are of time series"):
        brainroam.evaluate(blocks.block("task"), ["core[profiles=true]"], tuning="fast")
