"""A plan, made in Python and typed at the command line."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.target_column import with_target
from brainroam.errors import DataError, UsageError
from brainroam.evaluation.planning.plan import make_plan
from brainroam.report import LearningCurveDisplay

SMALL = ("--option", "n_sites=6", "--option", "n_per_site=12", "--option", "n_rois=8")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("plan")
    result = run("plan", "synthetic", *SMALL, "--methods", "fc-ridge,log-ridge", "--draws", "2", "--out", out)
    assert result.exit_code == 0, result.output
    return out, result.stdout


def test_the_command_answers_in_sentences_and_leaves_files(written):
    out, said = written
    assert "With 5 more sites like these, a model of 11 sites is expected to reach" in said
    assert "New sites minus more people:" in said and "in 80 % of studies" in said
    names = {path.name for path in out.iterdir()}
    assert names == {"plan.json", "plan.md", "plan.html", *(f"learning_curve.{x}" for x in ("csv", "png", "svg"))}
    found = json.loads((out / "plan.json").read_text())
    assert found["command"].startswith(("brainroam", "pytest", "__main__")) and found["seed"] == 0
    assert all(line in (out / "plan.md").read_text() for line in found["sentences"])
    assert len(found["manifest_hash"]) == 64 and len(found["curve"]) == 11


def test_the_picture_is_made_from_the_file(written):
    display = LearningCurveDisplay.from_plan(written[0]).plot()
    assert display.n_sites == 6 and display.curve["n_sites"].max() == 12
    assert {text.get_text() for text in display.ax_.get_legend().get_texts()} >= {"expected", "50 % of their people"}


def test_the_last_point_is_leave_one_site_out():
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=12, n_rois=8)
    plan = make_plan(cohort, ["fc-ridge"], more_sites=2, n_draws=2)
    results = brainroam.evaluate(cohort, ["fc-ridge"])
    points = plan.points()
    last = points[(points["n_sites"] == 5) & (points["share"] == 1)]["auc"].item()
    assert np.isclose(last, brainroam.compare(results).table["auc"].item())


@pytest.mark.usefixtures("undrawn")
def test_runs_answer_the_comparison_and_the_report_shows_the_plan_beside_them(written, tmp_path):
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=12, n_rois=8)
    brainroam.evaluate(cohort, ["fc-ridge", "log-ridge"], out=tmp_path / "runs")
    result = run("plan", tmp_path / "runs", "--out", tmp_path / "plan")
    assert result.exit_code == 0, result.output
    assert "would be found with 6 sites of 12 people" in result.stdout
    assert "brainroam plan DATA measures the learning curve" in result.stdout
    assert not (tmp_path / "plan" / "learning_curve.csv").exists()
    for plan, has_curve in ((tmp_path / "plan", False), (written[0], True)):
        shutil.copytree(plan, tmp_path / "runs" / "plan", dirs_exist_ok=True)
        page = brainroam.write_report(tmp_path / "runs", tmp_path / "report.html").read_text()
        assert "More sites, or more people" in page and ("figure-learning_curve" in page) == has_curve
        assert "Of other data" not in page


def test_what_cannot_be_said_is_refused():
    few = run("plan", "synthetic", "--option", "n_sites=5", "--option", "n_rois=8", "--methods", "fc-ridge")
    assert few.exit_code == 1 and "at least 6 sites" in few.stderr
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=8, n_rois=8)
    with pytest.raises(UsageError, match="twice"):
        make_plan(cohort, ["fc-ridge"], more_sites=7)
    with pytest.raises(DataError, match="curve"):
        make_plan(cohort, ["majority"], n_draws=2)


def with_a_number(n_sites=6, n=40):
    """A cohort whose people have a severity, which follows their edges, at unequal levels of the sites."""
    cohort = brainroam.make_cohort(n_sites=n_sites, n_per_site=n, n_rois=12)
    rng = np.random.default_rng(0)
    site = cohort.table["site"].astype("category").cat.codes.to_numpy()
    severity = 3 * cohort.labels + rng.normal(size=len(cohort)) + 10 * site + 20
    classes = np.array(["HC", "MDD", "SCZ"])[cohort.labels * (1 + (rng.random(len(cohort)) < 0.4))]
    return cohort.with_columns(pd.DataFrame({"severity": severity, "dx": classes}))


@pytest.mark.parametrize(("column", "figure"), [("severity:number", "r"), ("dx:classes", "auc")])
def test_a_plan_of_a_number_and_of_several_classes_ends_at_leave_one_site_out(column, figure, tmp_path):
    cohort = with_target(with_a_number(), column)
    plan = make_plan(cohort, ["fc-ridge", "log-ridge"], more_sites=2, n_draws=2)
    results = brainroam.evaluate(cohort, ["fc-ridge", "log-ridge"], out=tmp_path / "runs")
    points = plan.points()
    last = points[(points["n_sites"] == 5) & (points["share"] == 1)][figure].item()
    scores = results.scores[results.scores["method"] == "fc-ridge"]
    if figure == "r":  # Fisher's z, sites of equal size
        assert np.isclose(last, np.tanh(np.arctanh(scores["r"]).mean()))
    else:
        assert np.isclose(last, brainroam.compare(results).table.set_index("method").loc["fc-ridge", "auc"])
    assert plan.law.expected(8) >= plan.law.expected(6) and plan.contrast.n_sites == 6
    assert (
        LearningCurveDisplay.from_plan(plan).plot().ax_.get_ylabel().startswith("Mean r" if figure == "r" else "Mean A")
    )
    of_runs = run("plan", tmp_path / "runs", "--methods", "fc-ridge,log-ridge", "--out", tmp_path / "plan")
    assert of_runs.exit_code == 0, of_runs.output
    assert np.isclose(json.loads((tmp_path / "plan" / "plan.json").read_text())["contrast"]["c"], plan.contrast.c)
