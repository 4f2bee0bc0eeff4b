"""A few people of the held-out site: used for the threshold, never scored, and unknown to whatever is learned."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.core.connectivity import edges
from brainroam.data.cohort import Cohort
from brainroam.data.target import TargetRequest, adaptation
from brainroam.data.target.shifts import SiteShift
from brainroam.data.target_column import with_target
from brainroam.errors import UsageError
from brainroam.evaluation.next_site import adaptation_summary, adapted, coverage, coverage_over_sites
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=5, n_per_site=24, n_rois=10, seed=3)


@pytest.fixture(scope="module")
def results(cohort):
    return brainroam.evaluate(cohort, ["fc-ridge", "log-ridge"])


def test_nothing_of_the_held_out_site_reaches_the_shift_or_the_sets(cohort, results):
    rng = np.random.default_rng(0)
    table = cohort.table
    here = (table["site"] == "S02").to_numpy()
    table.loc[here, "label"] = 1 - table.loc[here, "label"]
    table.loc[here, ["age", "mean_fd"]] *= 3
    series = [x + 5 * rng.normal(size=x.shape) if h else x for x, h in zip(cohort.series, here, strict=True)]
    spoiled = brainroam.evaluate(Cohort(series, table), ["fc-ridge"], held_out=["S02"])
    (_, found), *_ = spoiled.records
    expected = next(run for spec, run in results.records if spec.fold == "S02" and spec.method == "fc-ridge")
    assert found["next_site"] == expected["next_site"]
    assert found["predictions"]["score"] != expected["predictions"]["score"]


def test_controls_that_move_the_threshold_are_not_scored(results, monkeypatch):
    used = []
    shift = SiteShift.__call__

    def remembered(self, score):
        used.append(score.copy())
        return shift(self, score)

    monkeypatch.setattr(SiteShift, "__call__", remembered)
    scored = []
    monkeypatch.setattr(adaptation, "auc", lambda label, score: scored.append(score.copy()) or auc(label, score))
    found = adapted(results.records, [5], n_draws=3)
    for taken, people in zip(used, scored, strict=True):
        if len(taken) == 5:
            assert not set(taken) & set(people)
    rows = found[found["adaptation"] == "controls-5"]
    assert (rows["n"] == 24 - 5).all() and (rows["n_used"] == 5).all()


def test_a_shift_leaves_the_order_of_people_alone_and_no_controls_are_strict(results):
    found = adapted(results.records, [0, 5], n_draws=4)
    assert np.allclose(found["auc"], found["strict_auc"])
    strict = found[found["adaptation"] == "strict"]
    assert np.allclose(strict["balanced_acc"], strict["strict_balanced_acc"])
    scores = results.scores.sort_values(["method", "site"])["balanced_acc"].to_numpy()
    assert np.allclose(strict.sort_values(["method", "site"])["balanced_acc"], scores)


def test_too_few_controls_leave_a_site_out_and_protocols_are_named(results):
    found = adapted(results.records, [0, 5, 40], n_draws=2)
    assert set(found["adaptation"]) == {"strict", "controls-5", "unlabelled"}
    assert adaptation_summary(found)["adaptation"].tolist() == ["strict", "controls-5", "unlabelled"] * 2
    with pytest.raises(UsageError, match="negative"):
        adapted(results.records, [-1])


def test_coverage_counts_sets_that_hold_the_label(results):
    found = coverage(results.records)
    assert found["level"].unique().tolist() == [0.8]  # four training sites
    spec, run = results.records[0]
    row = found[(found["site"] == spec.fold) & (found["method"] == spec.name)].iloc[0]
    low, high = run["next_site"]["sets"]["0.8"]
    label, score = np.array(run["predictions"]["label"]), np.array(run["predictions"]["score"])
    assert row["covered_cases"] == (score[label == 1] >= low).mean()
    assert row["covered_controls"] == (score[label == 0] <= high).mean()
    assert coverage_over_sites(found)["covered"].between(0.6, 1).all()


def test_the_command_writes_tables_that_name_their_protocol(tmp_path):
    small = ("--option", "n_sites=5", "--option", "n_per_site=16", "--option", "n_rois=8", "--methods", "fc-ridge")
    command = ["loso", "synthetic", *small, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*command, "--controls", "0,3"])
    assert result.exit_code == 0, result.output
    assert "controls-3" in result.stderr and "unlabelled" in result.stderr and "do not rank methods" in result.stderr
    header, first, *_ = (tmp_path / "adaptation.csv").read_text().splitlines()
    assert header.startswith("method,adaptation,site,seed") and first.startswith("fc-ridge,controls-3,S")
    assert (tmp_path / "prediction_sets.csv").is_file()
    wrong = CliRunner().invoke(app, [*command, "--controls", "few"])
    assert wrong.exit_code == 2 and "whole numbers" in wrong.stderr
    institution = CliRunner().invoke(app, [*command, "--controls", "5", "--protocol", "halves"])
    assert institution.exit_code == 2


def test_auc_of_a_reference_is_untouched(results):
    spec, run = results.records[0]
    people = run["predictions"]
    row = adapted([(spec, run)], [0]).iloc[0]
    assert row["auc"] == auc(np.array(people["label"]), np.array(people["score"]))


def test_a_small_site_is_never_named_as_the_worst_covered():
    row = {"method": "m", "level": 0.8, "seed": 0, "covered_cases": 1.0, "covered_controls": 1.0, "decided": 1.0}
    sites = pd.DataFrame([row | {"site": s, "n": n, "covered": c} for s, n, c in [("A", 40, 0.8), ("B", 1, 0.0)]])
    (found,) = coverage_over_sites(sites.assign(right=1.0)).to_dict("records")
    assert (found["worst_site"], found["worst"], found["covered"]) == ("A", 0.8, 0.4)
    (none,) = coverage_over_sites(sites[1:].assign(right=1.0)).to_dict("records")
    assert none["worst_site"] == "" and np.isnan(none["worst"])


# --- people of the held-out site whose number is known ----------------------------------------------------------------


@pytest.fixture(scope="module")
def with_points():
    """A number that follows an edge, on a level of each site's own."""
    made = brainroam.make_cohort(n_sites=5, n_per_site=24, n_rois=10, seed=3)
    table, rng = made.table, np.random.default_rng(0)
    level, edge = table["site"].map({name: 6 * rng.normal() for name in made.sites}), edges(made.series)[:, 0]
    table["points"] = 50 + level + 30 * edge + rng.normal(size=len(table))
    return Cohort(made.series, table)


@pytest.fixture(scope="module")
def number(with_points):
    return with_target(with_points, "points")


@pytest.fixture(scope="module")
def number_results(number):
    return brainroam.evaluate(number, ["fc-ridge"])


def test_known_numbers_mend_level_and_scale_and_leave_the_order_alone(number_results):
    found = adapted(number_results.records, [0, 10], n_draws=20)
    mended, strict = (found[found["adaptation"] == name] for name in ("labelled-10", "strict"))
    assert (mended["n"] == 24 - 10).all() and (mended["n_used"] == 10).all()
    assert np.allclose(found["r"], found["strict_r"], atol=1e-9)
    assert mended["mae"].mean() < mended["strict_mae"].mean() - 1
    assert mended["off"].mean() < mended["strict_off"].mean() - 1
    scores = number_results.scores.sort_values("site")
    for name in ("r", "mae", "scale"):
        assert np.allclose(strict[name], scores[name], equal_nan=True)
    assert np.allclose(strict["off"], scores["level"].abs())
    summary = adaptation_summary(found, number_results.target)
    assert summary["adaptation"].tolist() == ["strict", "labelled-10"] and summary["gain"].iloc[1] < -1


def test_the_curve_of_known_numbers_is_what_predict_would_give(number, number_results):
    run = next(run for run in number_results.records if run[0].fold == "S02")
    row = adapted([run], [5], n_draws=1).iloc[0]
    model = TunedMethod(method_info("fc-ridge")).fit(number.select([name for name in number.sites if name != "S02"]))
    new = number.select(["S02"])
    table, truth = new.table, new.table.set_index("subject")["label"]
    drawn = np.random.default_rng([0, 5, *b"S02"]).choice(24, 5, replace=False)
    table.loc[~table["subject"].isin(np.array(run[1]["predictions"]["subject"])[drawn]), "label"] = np.nan
    given = predictions(model, new.predicting(new.target, table), adapt="labelled")
    assert len(given) == 24 - 5
    off = given["predicted"].to_numpy() - truth[given["subject"]].to_numpy()
    assert row["mae"] == pytest.approx(np.abs(off).mean()) and row["off"] == pytest.approx(abs(off.mean()))


def test_people_whose_number_is_used_are_never_scored(number_results, monkeypatch):
    used, scored, mend = [], [], adaptation.mend
    measure = adaptation.site_metrics
    monkeypatch.setattr(adaptation, "mend", lambda p, known, t, *of: used.append(set(t)) or mend(p, known, t, *of))
    monkeypatch.setattr(adaptation, "site_metrics", lambda t, *rest: scored.append(set(t)) or measure(t, *rest))
    adapted(number_results.records, [5], n_draws=3)
    assert len(used) == 5 * 3 and len(scored) == 2 * len(used)
    for k, taken in enumerate(used):  # nobody shares a value
        assert len(taken) == 5 and all(len(left) == 24 - 5 and not taken & left for left in scored[2 * k : 2 * k + 2])


def test_nothing_of_the_held_out_site_reaches_what_mends_a_number(number, number_results):
    table, rng = number.table, np.random.default_rng(0)
    here = (table["site"] == "S02").to_numpy()
    table.loc[here, "label"] = 1000 - 7 * table.loc[here, "label"]
    series = [x + 5 * rng.normal(size=x.shape) if h else x for x, h in zip(number.series, here, strict=True)]
    spoiled = brainroam.evaluate(number.made_of(series, table), ["fc-ridge"], held_out=["S02"])
    (_, found), *_ = spoiled.records
    expected = next(run for spec, run in number_results.records if spec.fold == "S02")
    assert found["next_site"] == expected["next_site"] and found["constant"] == expected["constant"]
    assert found["predictions"]["score"] != expected["predictions"]["score"]


def test_the_steps_of_an_order_stay_in_order_and_between_the_ends(with_points):
    steps = pd.qcut(with_points.table["points"], 4, labels=False)
    cohort = with_points.with_columns(steps.to_frame("step"))
    ordered = with_target(cohort, TargetRequest.of({"column": "step", "kind": "ordered"}))
    found = adapted(brainroam.evaluate(ordered, ["fc-ridge"]).records, [5], n_draws=5)
    assert (found["mae"] <= 3).all() and np.allclose(found["r"], found["strict_r"], atol=0.1)  # steps at the ends tie


def test_the_command_and_the_report_show_what_known_numbers_bring(tmp_path, with_points):
    path, out = tmp_path / "points.npz", tmp_path / "runs"
    with_points.save(path)
    command = ["loso", str(path), "--target", "points", "--methods", "fc-ridge", "--out", str(out)]
    result = CliRunner().invoke(app, [*command, "--controls", "0,5,10"])
    assert result.exit_code == 0, result.output
    assert "labelled-10" in result.stderr and "units of points" in result.stderr
    assert (out / "adaptation.csv").read_text().startswith("method,adaptation,site,seed,n_used,n,r,mae,off,scale,")
    few = with_points.select(with_points.sites[:3])  # of whom two are left to learn how sites differ
    fast = brainroam.evaluate(with_target(few, "points"), ["fc-ridge"], tuning="fast")
    assert "change nothing at a new site" in brainroam.write_report(fast, tmp_path / "fast.html").read_text()
    page = brainroam.write_report(out, tmp_path / "report.html", tmp_path / "figures").read_text()
    assert "10 of known points (5 sites)" in page and (tmp_path / "figures" / "adaptation.png").is_file()
