"""One model for Python and the command line: whatever is fitted on one side is read on the other."""

import numpy as np
import pandas as pd
import pytest
from cheap import cheap
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from typer.testing import CliRunner

import brainroam
from brainroam import SiteClassifier
from brainroam.cli import app
from brainroam.errors import UsageError
from brainroam.methods.registry import method_info, method_names
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod

Q = ["age", "sex", "mean_fd"]
METHODS = [
    name for name in method_names() if not (method_info(name).in_distribution_only or method_info(name).keeps_people)
]


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10, seed=3).using(Q)


def arrays(cohort):
    table = cohort.table
    return {"X": cohort.series, "covariates": table[Q], "tr": table["tr"]}


@pytest.mark.parametrize("name", METHODS)
def test_a_model_of_either_side_is_read_on_the_other(cohort, tmp_path, name):
    """Arrays in Python and a cohort on the command line give the same model, in the same file format."""
    table, settings = cohort.table, cheap(name)
    if method_info(name).covariate_use == "projected":
        settings["covariates"] = Q
    clf = SiteClassifier(name, "fast", **settings)
    clf.fit(**arrays(cohort), y=table["label"], site=table["site"])
    expected = clf.decision_function(**arrays(cohort))
    from_python, _ = load_method(clf.save(tmp_path / "python", cohort.atlas), cohort)  # as `brainroam predict` does
    np.testing.assert_array_equal(from_python.score(cohort), expected)
    np.testing.assert_array_equal(from_python.probability(cohort), clf.predict_proba(**arrays(cohort))[:, 1])

    fitted = TunedMethod(method_info(name), "fast", **settings).fit(cohort)  # as `brainroam fit` does
    again = brainroam.load_model(save_method(tmp_path / "command", fitted, cohort))
    assert isinstance(again, SiteClassifier) and again.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(again.decision_function(**arrays(cohort)), expected)
    np.testing.assert_array_equal(again.predict(cohort), clf.predict(**arrays(cohort)))
    assert again.calibration_ == fitted.calibration_
    assert clone(again).get_params().keys() == again.get_params().keys()


def test_the_command_line_reads_a_model_of_arrays(cohort, tmp_path):
    table = cohort.table
    words = np.where(table["label"] == 1, "patient", "control")
    clf = brainroam.CoreClassifier(epochs=0, tau_percentile=50, eta=0.6)
    clf.fit(cohort.series, words, site=table["site"], covariates=table[["age", "sex"]]).save(tmp_path / "model")
    cohort.save(tmp_path / "new.npz")
    for verb, out in (("predict", "predictions.csv"), ("explain", "explanation")):
        words = [verb, tmp_path / "model", tmp_path / "new.npz", "--out", tmp_path / out]
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "predictions.csv")["probability"]
    np.testing.assert_allclose(found, clf.predict_proba(cohort)[:, 1], rtol=1e-9)
    assert len(pd.read_csv(tmp_path / "explanation" / "pathways.csv")) == len(clf.scaffold_)


def test_a_calibration_is_kept_once(cohort, tmp_path):
    clf = brainroam.CoreClassifier(epochs=0, tau_percentile=50, eta=0.6).fit(cohort)
    header, state = brainroam.utils.model_files.load_model(clf.save(tmp_path / "model"))
    assert [name for name in state if "calibration" in name] == ["calibration"] and "calibration" not in header


def test_settings_are_parameters_of_scikit_learn(cohort):
    clf = SiteClassifier("fc-ridge", strength=2.0)
    assert clone(clf).get_params() == clf.get_params() == {
        "method": "fc-ridge", "tuning": "default", "random_state": 0, "strength": 2.0,
    }  # fmt: skip
    assert clf.set_params(strength=3.0, tuning="fast").get_params()["strength"] == 3.0
    with pytest.raises(UsageError, match="strenth"):
        SiteClassifier("fc-ridge", strenth=2.0).fit(cohort)
    by_name, by_setting = SiteClassifier("fc-ridge[strength=3.0]"), SiteClassifier("fc-ridge", strength=3.0)
    scores = [one.fit(cohort).decision_function(cohort) for one in (by_name, by_setting)]
    np.testing.assert_array_equal(*scores)


def test_anybodys_estimator_is_fitted_and_not_saved(cohort, tmp_path):
    clf = SiteClassifier(RidgeClassifier(alpha=10.0)).fit(cohort)
    assert clf.predict_proba(cohort).shape == (len(cohort), 2) and clf.get_params()["method__alpha"] == 10.0
    with pytest.raises(UsageError, match="skops"):
        clf.save(tmp_path / "model")


def test_our_classifiers_are_methods_of_a_study_with_their_settings():
    [(info, fixed)] = brainroam.methods.adapter.resolve(brainroam.CoreClassifier(eta=0.8))
    assert (info.name, fixed) == ("core", {"eta": 0.8})


def test_sets_hold_one_class_both_or_none(cohort):
    many = brainroam.make_cohort(n_sites=5, n_per_site=12, n_rois=10, seed=3)
    clf = SiteClassifier("fc-ridge").fit(many)
    words = clf.model_.sets_(clf.decision_function(many), 0.8)
    sets = {"control": [True, False], "case": [False, True], "either": [True, True], "neither": [False, False]}
    assert clf.predict_set(many, level=0.8).tolist() == [sets[word] for word in words]
