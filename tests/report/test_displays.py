"""Display objects: the same numbers as the report's, from results, predictions or an estimator."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam import report
from brainroam.audit import audit
from brainroam.errors import DataError, RunsError, UsageError
from brainroam.report.data import read_data

mpl.use("Agg")


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)


@pytest.fixture(scope="module")
def results(cohort):
    return brainroam.evaluate(cohort, ["fc-ridge", "confounds"], tuning="fast")


@pytest.fixture(scope="module")
def fitted(cohort):
    people = cohort.table
    clf = brainroam.CoreClassifier(hidden=4, budget=4, updates=4, skip="none", tau_percentile=60)
    return clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])


@pytest.mark.parametrize("name", ["SiteForest", "RocBySite", "ScoresBySite", "CalibrationBySite", "DecisionCurve",
                                  "Motion", "Group"])  # fmt: skip
def test_every_display_draws_on_given_axes_and_on_its_own(results, name):
    make = getattr(report, f"{name}Display")
    _, ax = plt.subplots()
    display = make.from_results(results)
    assert display.plot(ax=ax) is display and display.ax_ is ax and ax.has_data()
    assert display.plot().ax_ is not ax
    plt.close("all")


def test_the_forest_from_predictions_is_that_of_the_results(results):
    rows = results.predictions[results.predictions["method"] == "fc-ridge"]
    made = report.SiteForestDisplay.from_predictions(rows["label"], rows["score"], rows["site"])
    kept = report.SiteForestDisplay.from_results(results, "fc-ridge")
    expected = {site: roc_auc_score(here["label"], here["score"]) for site, here in rows.groupby("site")}
    assert made.sites.set_index("site")["auc"].to_dict() == pytest.approx(expected)
    assert made.summary.mean == pytest.approx(kept.summary.mean)
    assert made.sites["auc"].tolist() == pytest.approx(kept.sites["auc"].tolist())


def test_the_mean_roc_is_a_mean_of_curves_not_a_pooled_curve():
    y, site = np.tile([0, 1], 20), np.repeat(["A", "B"], 20)
    score = y + 100.0 * (site == "B")  # perfect within each site, poor when pooled
    assert report.RocBySiteDisplay.from_predictions(y, score, site).mean.min() == 1.0


def test_net_benefit_at_a_threshold_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    p = np.clip(0.3 * y + rng.uniform(size=200) * 0.7, 0.01, 0.99)
    called = p >= 0.3
    expected = (called & (y == 1)).mean() - (called & (y == 0)).mean() * 0.3 / 0.7
    assert report.DecisionCurveDisplay.from_predictions(y, p).net_benefit(0.3) == pytest.approx(expected)
    rare = report.DecisionCurveDisplay.from_predictions(y, p, prevalence=0.02)
    assert rare.act_on_all(0.3) == pytest.approx(0.02 - 0.98 * 0.3 / 0.7)


def test_the_decision_curve_of_a_calibrated_model_has_its_closed_form():
    """With p uniform and P(case) = p: integral of p - (1 - p) t / (1 - t) from t to 1, which is (1 - t) / 2."""
    p, rank = np.repeat((np.arange(200) + 0.5) / 200, 200), np.tile(np.arange(200) + 0.5, 200) / 200
    display = report.DecisionCurveDisplay.from_predictions((rank < p).astype(int), p)
    for t in (0.1, 0.5, 0.8):
        assert display.net_benefit(t) == pytest.approx((1 - t) / 2, abs=0.004)


def test_scaffold_and_gates_are_drawn_from_an_estimator(fitted, cohort):
    people = cohort.table
    display = report.ScaffoldDisplay.from_estimator(fitted, cohort.atlas, top=5).plot()
    largest = np.abs(fitted.scaffold_.consensus[fitted.scaffold_.edges]).max()
    assert np.abs(display.values).max() == largest and len(display.pairs) == len(display.values) <= 10
    gates = report.GateDisplay.from_estimator(fitted, cohort.series, people["site"], covariates=people[["age", "sex"]])
    expected = np.median(fitted.gates(cohort.series, covariates=people[["age", "sex"]]), axis=1)
    assert gates.plot().gates["median"].tolist() == pytest.approx(expected.tolist())
    with pytest.raises(UsageError, match="coordinates"):
        display.plot(kind="glass")
    plt.close("all")


def test_errors_say_what_to_do(results, cohort):
    with pytest.raises(RunsError, match="core"):
        report.ScaffoldDisplay.from_results(results)
    with pytest.raises(DataError, match="person"):
        report.RocBySiteDisplay.from_predictions([0, 1], [0.1], ["A", "A"])
    with pytest.raises(DataError, match="control"):
        report.RocBySiteDisplay.from_predictions([1, 2], [0.1, 0.2], ["A", "A"])
    still = cohort.with_columns(cohort.table[["mean_fd"]] * np.nan)
    unmoved = brainroam.evaluate(still, ["majority"], tuning="fast")
    with pytest.raises(DataError, match="mean_fd"):
        report.MotionDisplay.from_results(unmoved)


def test_results_report_like_folders(results, tmp_path):
    assert brainroam.write_report(results, tmp_path / "r.html").stat().st_size > 1e5
    assert read_data(results).path is None


def test_a_notebook_has_something_to_look_at(cohort, results, fitted):
    people = cohort.table
    found = fitted.explain(cohort.series, people[["age", "sex"]], atlas=cohort.atlas)
    comparison = brainroam.compare(results, reference="fc-ridge")
    for thing, word in ((cohort, "S01"), (results, "fc-ridge"), (comparison, "confounds"), (fitted.scaffold_, "kappa"),
                        (found, "d_com"), (fitted, "CoreClassifier")):  # fmt: skip
        assert word in thing._repr_html_()
    assert "<td>duplicates</td>" in audit(cohort, [], permutations=0)._repr_html_()
    display = report.SiteForestDisplay.from_results(results)
    assert 'src="data:image/png;base64,' in display._repr_html_() and not hasattr(display, "ax_")
    assert "base64" not in display.plot()._repr_html_()  # the notebook shows what plot() drew
    hostile = cohort.with_columns(people[["site"]].map(lambda site: f"<script>{site}"))
    assert "<script>S01" not in hostile._repr_html_() and "&lt;script&gt;S01" in hostile._repr_html_()


@pytest.mark.parametrize("name", ["CoreClassifier", "EnsembleClassifier"])
def test_a_classifier_is_saved_and_loaded_from_python(cohort, fitted, tmp_path, name):
    people = cohort.table
    known = {"covariates": people[["age", "sex"]]}
    clf = fitted
    if name == "EnsembleClassifier":
        clf = brainroam.EnsembleClassifier().fit(cohort.series, people["label"], site=people["site"], **known)
    again = brainroam.load_model(clf.save(tmp_path / "model", cohort.atlas))
    assert type(again).__name__ == name
    assert (again.predict_proba(cohort.series, **known) == clf.predict_proba(cohort.series, **known)).all()
    assert len(again.explain(cohort.series, **known).people) == 10 * len(cohort)
