"""Anybody's estimator is judged as ours are: the same numbers as by hand, its groups, its audit, errors in words."""

import inspect
import json
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from typer.testing import CliRunner

import brainroam
from brainroam.audit import gate
from brainroam.cli import app
from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.data.target_column import with_target
from brainroam.errors import MethodError, RunsError, UsageError
from brainroam.evaluation import runner
from brainroam.evaluation.code_version import code_version
from brainroam.methods.adapter import EstimatorMethod, estimator_info
from brainroam.methods.base import Method, MethodInfo
from brainroam.methods.registry import is_ours, method_info, register, resolve, temporarily
from brainroam.methods.tuning import GROUPS, TunedMethod


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8, seed=3)


def with_a_lost_region(cohort):
    series = [np.array(x) for x in cohort.series]
    series[5][:, 2] = 1.0
    return Cohort(series, cohort.table, cohort.atlas)


def test_scores_equal_those_of_a_loop_by_hand(cohort):
    """numpy's correlations, missing ones at the training mean, scikit-learn's own loop."""
    cohort = with_a_lost_region(cohort)
    pairs = np.triu_indices(cohort.n_rois, 1)
    with np.errstate(invalid="ignore"):
        edges = np.stack([np.corrcoef(x.T)[pairs] for x in cohort.series])
    site, by_hand = cohort.table["site"].to_numpy(), np.empty(len(cohort))
    for train, test in LeaveOneGroupOut().split(edges, groups=site):
        mean = np.nanmean(edges[train], axis=0)
        model = RidgeClassifier(alpha=3).fit(np.where(np.isnan(edges[train]), mean, edges[train]), cohort.labels[train])
        by_hand[test] = model.decision_function(np.where(np.isnan(edges[test]), mean, edges[test]))
    found = runner.evaluate(cohort, {"mine": RidgeClassifier(alpha=3)}, tuning="fast")
    assert all("RidgeClassifier" in run["summary"] for _, run in found.records)  # for the report, which cannot know it
    ours = found.predictions.set_index("subject")["score"].reindex(cohort.table["subject"]).to_numpy()
    np.testing.assert_allclose(ours, by_hand, rtol=0, atol=1e-12)


class LeastSquares:
    """A class of one's own: nothing of scikit-learn."""

    def fit(self, X, y):
        self.weights = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.column_stack([X, np.ones(len(X))]) @ self.weights


def test_matrices_are_read_as_the_series_they_come_from(cohort):
    matrices = Cohort([np.corrcoef(x.T) for x in cohort.series], cohort.table, measure="matrices")
    flat = make_pipeline(FunctionTransformer(lambda X: X.reshape(len(X), -1)), RidgeClassifier())
    for mine in (RidgeClassifier(), EstimatorMethod(flat, "matrices")):
        one, other = (runner.evaluate(who, {"mine": mine}, tuning="fast").predictions for who in (cohort, matrices))
        np.testing.assert_allclose(one["score"], other["score"], rtol=0, atol=1e-9)
    with pytest.raises(UsageError, match="matrices"):
        runner.evaluate(matrices, {"mine": EstimatorMethod(RidgeClassifier(), "series")})


def test_columns_of_a_table_are_read_in_their_own_units_by_name(cohort):
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(len(cohort), 5)) + cohort.labels[:, None]) * [1, 10, 100, 1000, 1]
    values[3, 1] = np.nan
    table = Cohort(values[:, None], cohort.table, measure="table")
    names = list(table.atlas.labels)
    mine = make_pipeline(ColumnTransformer([("some", "passthrough", names[:3])]), RidgeClassifier(alpha=5))
    found = runner.evaluate(table, {"mine": mine}, tuning="fast").predictions
    site, by_hand = cohort.table["site"].to_numpy(), np.empty(len(cohort))
    for train, test in LeaveOneGroupOut().split(values, groups=site):
        filled = np.where(np.isnan(values), np.nanmean(values[train], axis=0), values)[:, :3]
        model = RidgeClassifier(alpha=5).fit(filled[train], cohort.labels[train])
        by_hand[test] = model.decision_function(filled[test])
    ours = found.set_index("subject")["score"].reindex(cohort.table["subject"])
    np.testing.assert_allclose(ours, by_hand, rtol=0, atol=1e-9)


def test_a_class_of_ones_own_predicts_a_number_and_is_told_what_classes_need(cohort):
    with pytest.warns(UserWarning, match="covariate"):
        ages = with_target(cohort, "age")
    assert runner.evaluate(ages, {"mine": LeastSquares()}, tuning="fast").scores["r"].notna().all()
    with pytest.raises(UsageError, match="decision_function"):
        runner.evaluate(cohort, {"mine": LeastSquares()})


class Watching(ClassifierMixin, BaseEstimator):
    """Keeps what it was given."""

    given: ClassVar[list] = []

    def __init__(self, ask=""):
        self.ask = ask

    def fit(self, X, y, site=None, covariates=None):
        self.classes_ = np.unique(y)
        Watching.given.append((X, site, covariates))
        return self

    def decision_function(self, X):
        Watching.given.append((X, None, None))
        return np.arange(len(X), dtype=float)


@pytest.mark.parametrize(
    ("kind", "shape"), [("edges", (48, 28)), ("matrices", (48, 8, 8)), ("table", (48, 2)), ("series", (48,))]
)
def test_an_estimator_is_given_the_input_it_asks_for(cohort, kind, shape):
    Watching.given.clear()
    EstimatorMethod(Watching(), input=kind).fit(cohort).score(cohort.without_labels())
    for X, _, _ in Watching.given:
        assert (len(X),) == shape if kind == "series" else X.shape == shape
    X, site, covariates = Watching.given[0]
    if kind == "matrices":
        np.testing.assert_allclose(X[0], np.corrcoef(cohort.series[0].T), atol=1e-12)
    assert site.tolist() == cohort.table["site"].tolist() and list(covariates) == ["age", "sex"]


def test_a_search_gets_its_groups_inside_and_out(cohort):
    seen = []

    class Sites(LeaveOneGroupOut):
        def split(self, X, y=None, groups=None):
            seen.append(set(groups))
            return super().split(X, y, groups)

    search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1.0]}, cv=Sites())
    pipeline = make_pipeline(StandardScaler(), search)
    for estimator in (search, pipeline):
        seen.clear()
        fitted = TunedMethod(estimator_info(estimator), "fast").fit(cohort)
        assert len(seen) == min(GROUPS, len(cohort.sites)) + 1  # groups of sites that calibrate, and everybody
        assert seen[-1] == set(cohort.sites)
        assert fitted.model_.model_ is not estimator and not hasattr(search, "best_estimator_")


def test_a_deconfounder_in_a_pipeline_gets_site_and_covariates(cohort):
    pipeline = make_pipeline(brainroam.SiteDeconfounder(), RidgeClassifier())
    fitted = EstimatorMethod(pipeline).fit(cohort)
    assert fitted.model_[0].sites_ == cohort.sites and fitted.model_[0].encoder_.names_ == ["age", "sex"]
    assert np.isfinite(fitted.score(cohort.without_labels())).all()


def test_our_own_estimators_are_methods_too(cohort):
    results = brainroam.evaluate(cohort, [brainroam.EnsembleClassifier(), "majority"], tuning="fast")
    assert set(results.scores["method"]) == {"ensemble", "majority"}


def test_seeds_reach_every_part_that_has_none(cohort):
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    a, b, c = (EstimatorMethod(forest).fit(cohort, seed).score(cohort.without_labels()) for seed in (0, 0, 1))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert estimator_info(forest).stochastic
    assert not estimator_info(make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=1))).stochastic


# -- audit


class Memory(ClassifierMixin, BaseEstimator):
    """Remembers the label of everybody it ever learned from."""

    known: ClassVar[dict] = {}

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.model_ = RidgeClassifier().fit(X, y)
        for x, label in zip(X, y, strict=True):
            self.known.setdefault(x.tobytes(), label)
        return self

    def decision_function(self, X):
        return self.model_.decision_function(X) + np.array([10.0 * self.known.get(x.tobytes(), 0) for x in X])


class TestMean(ClassifierMixin, BaseEstimator):
    """Centres people at the mean of those who are scored with them."""

    __test__ = False

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.model_ = RidgeClassifier().fit(X - X.mean(axis=0), y)
        return self

    def decision_function(self, X):
        return self.model_.decision_function(X - X.mean(axis=0))


class Labels(TestMean):
    """Finds the labels of the people to be scored in the frames that called it."""

    def decision_function(self, X):
        frame = inspect.currentframe()
        while frame is not None:
            for value in list(frame.f_locals.values()):
                if isinstance(value, Cohort) and len(value) == len(X) and value.table["label"].notna().all():
                    return value.labels + 1e-3 * X[:, 0]
            frame = frame.f_back
        return X[:, 0]


@pytest.mark.usefixtures("warm_python")
def test_an_estimator_that_cheats_is_caught_and_an_honest_one_passes(cohort, capfd):
    cheats = {"memory": Memory(), "single-subject": TestMean(), "test-labels": Labels()}
    honest = make_pipeline(StandardScaler(), RidgeClassifier())
    with pytest.warns(UserWarning, match="leaks"):
        brainroam.evaluate(cohort, {**cheats, "honest": honest}, tuning="fast", held_out=cohort.sites[:1])
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("audit of")]
    *verdicts, last = [line for line in lines if "scores of its runs" not in line]
    assert [check for check, verdict in zip(cheats, verdicts, strict=True) if f"{check} (" in verdict] == list(cheats)
    assert last.startswith("audit of honest: no leak found")
    assert not is_ours(estimator_info(honest)) and is_ours(estimator_info(brainroam.EnsembleClassifier()))


class Lookup(TestMean):
    """Knows everybody's label from a table, by the scan."""

    def __init__(self, table=None):
        self.table = table

    def decision_function(self, X):
        return (
            super().decision_function(X) * 0 + [self.table.get(round(float(x[0]), 6), 0.5) for x in X] + 0.1 * X[:, 1]
        )


class Waiting(Memory):
    """Centres the people it scores where there are as many as a site of the whole study has, and not before."""

    known: ClassVar[dict] = {}

    def decision_function(self, X):
        return self.model_.decision_function(X - X.mean(axis=0) * (len(X) == 30))


def test_labels_from_a_table_and_leaks_that_wait_for_the_study_are_caught(capfd, tmp_path):
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=30, n_rois=8, seed=3)
    table = dict(zip(cohort_edges(cohort, "pearson")[:, 0].round(6).tolist(), cohort.labels.tolist(), strict=True))
    with pytest.warns(UserWarning, match=r"leaks|suspicious"):
        brainroam.evaluate(cohort, {"lookup": Lookup(table), "waiting": Waiting()}, tuning="fast", out=tmp_path)
    found = {audit["method"]: audit for audit in json.loads((tmp_path / "method-audits.json").read_text())["audits"]}
    assert "training-labels" in found["lookup"]["verdict"] and found["lookup"]["leak"]
    assert found["waiting"]["verdict"].startswith("no leak found") and found["waiting"]["suspicious"]
    assert "single-subject (at" in found["waiting"]["verdict"]


class CentringLater(RidgeClassifier):
    """Centres the scores of a whole site of the study, and not those of the few people of an audit."""

    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores - scores.mean() * (len(X) == 45)


class CentringNumbersLater(Ridge):
    def predict(self, X):
        scores = super().predict(X)
        return scores - scores.mean() * (len(X) == 45)


@pytest.mark.parametrize("kind", ["number", "classes"])
def test_leaks_that_wait_for_the_study_are_caught_whatever_is_predicted(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(gate, "leak_checks", lambda *_: iter(()))  # the audit before the study finds nothing, slowly
    cohort = brainroam.make_cohort(n_sites=5, n_per_site=45, n_rois=8, seed=3)
    if kind == "number":
        cohort, waiting, honest = with_target(cohort, "age"), CentringNumbersLater(), Ridge()
    else:
        dx = pd.DataFrame({"dx": np.array(["HC", "MDD", "SCZ"])[np.arange(len(cohort)) % 3]})
        cohort, waiting, honest = with_target(cohort.with_columns(dx), "dx"), CentringLater(), RidgeClassifier()
    with pytest.warns(UserWarning, match="suspicious"):
        brainroam.evaluate(cohort, {"waiting": waiting, "honest": honest}, tuning="fast", out=tmp_path)
    found = {audit["method"]: audit for audit in json.loads((tmp_path / "method-audits.json").read_text())["audits"]}
    assert "single-subject (at" in found["waiting"]["verdict"] and "centred (" in found["waiting"]["verdict"]
    assert not found["honest"]["leak"] and "suspicious" not in found["honest"]


@pytest.mark.usefixtures("warm_python")
def test_an_estimator_that_needs_more_people_is_audited_with_everybody(capfd):
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=30, n_rois=8, seed=3)
    neighbours = KNeighborsClassifier(25)  # of 60 training people, 30 in an inner fold, 20 of the few people
    brainroam.evaluate(cohort, {"mine": neighbours}, tuning="fast", held_out=cohort.sites[:1])
    assert "audit of mine: no leak found by 11 checks with 90 people" in capfd.readouterr().err


# -- identity


def test_runs_are_done_again_when_the_estimator_changes(cohort, tmp_path):
    def done(estimator):
        runner.evaluate(cohort, {"mine": estimator}, tuning="fast", out=tmp_path, held_out=cohort.sites[:1])
        return {file.stem for file in (tmp_path / "runs").glob("*.json")}

    first = done(make_pipeline(StandardScaler(), RidgeClassifier()))
    assert done(make_pipeline(StandardScaler(), RidgeClassifier())) == first
    with pytest.warns(UserWarning, match="superseded"):
        assert not done(make_pipeline(StandardScaler(), RidgeClassifier(alpha=2))) & first


def test_functions_and_arrays_count_as_parameters():
    def version(function=None, prior=None):
        return code_version(estimator_info(make_pipeline(FunctionTransformer(function), LogisticRegression(C=prior))))

    assert version(np.abs) == version(np.abs) != version(np.square)
    weights = np.linspace(0, 1, 5000), np.linspace(0, 1, 5000)
    weights[1][2500] += 1e-9  # their printed forms are equal
    assert version(prior=weights[0]) != version(prior=weights[1])


def test_what_was_typed_in_a_notebook_is_sent_to_other_processes(cohort):
    class Typed(TestMean):
        def decision_function(self, X):
            return self.model_.decision_function(X)

    one, two = (runner.evaluate(cohort, {"mine": Typed()}, tuning="fast", jobs=jobs).predictions for jobs in (1, 2))
    assert one.equals(two)


# -- errors


def broken(fit=lambda self: self, score=lambda self, X: X[:, 0]):
    class Broken(BaseEstimator):
        def fit(self, X, y):
            return fit(self)

        def decision_function(self, X):
            return score(self, X)

    return Broken()


class AsksForSite(TestMean):
    def decision_function(self, X, site):
        return super().decision_function(X)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (broken(fit=lambda self: None), "self"),
        (broken(score=lambda self, X: X), "shape"),
        (broken(score=lambda self, X: np.log(np.zeros(len(X)) - 1)), "finite"),
        (broken(score=lambda self, X: self.weights_ @ X), "weights_"),
        (broken(score=lambda self, X: ["high"] * len(X)), "numbers"),
        (AsksForSite(), "site"),
    ],
    ids=["no self", "shape", "nan", "attribute", "text", "site"],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_an_error_names_method_fold_and_remedy(cohort, estimator, words):
    with pytest.raises(RunsError, match=words) as error:
        runner.evaluate(cohort, {"mine": estimator}, tuning="fast", held_out=["S02"])
    assert "mine at S02" in str(error.value) and "MethodError: mine: " in str(error.value)


def test_an_error_says_where_in_the_authors_code_it_was_raised(cohort, tmp_path):
    def stumble(self, X):
        raise ValueError("boom")

    with pytest.raises(RunsError, match="out=FOLDER") as error:  # nothing is kept, so no traceback can be read later
        runner.evaluate(cohort, {"mine": broken(score=stumble)}, tuning="fast", held_out=["S02"])
    line = stumble.__code__.co_firstlineno + 1
    assert f"boom (test_adapter.py, line {line}, in stumble)" in str(error.value)
    with pytest.raises(RunsError, match="tracebacks") as error:
        runner.evaluate(cohort, {"mine": LogisticRegression(C=-1)}, tuning="fast", held_out=["S02"], out=tmp_path)
    assert "line" not in str(error.value)  # raised by scikit-learn: nothing of the author's to look at


def test_one_fold_that_fails_costs_no_other(cohort, tmp_path):
    class Bomb(RidgeClassifier):
        def fit(self, X, y, site=None):
            if len(set(site)) == 3 and "S02" not in site and not (tmp_path / "mended").exists():
                raise ValueError("boom")
            fitted.append(len(X))
            return super().fit(X, y)

    fitted = []
    for _ in range(2):
        with pytest.raises(RunsError, match="1 of 4 runs"):
            runner.evaluate(cohort, {"mine": Bomb()}, tuning="fast", out=tmp_path / "runs")
    n_whole = fitted.count(36)
    assert n_whole == 3  # not fitted again
    (tmp_path / "mended").touch()
    assert len(runner.evaluate(cohort, {"mine": Bomb()}, tuning="fast", out=tmp_path / "runs").scores) == 4
    assert fitted.count(36) == 4


def test_a_vote_without_scores_is_told_so(cohort):
    vote = VotingClassifier([("a", LogisticRegression()), ("b", RidgeClassifier())])
    with pytest.raises(RunsError, match="soft"):
        runner.evaluate(cohort, {"mine": vote}, tuning="fast", held_out=["S02"])


def test_the_audit_is_silent_about_what_a_method_prints_and_warns_of(capfd):
    class Noisy(RidgeClassifier):
        def fit(self, X, y):
            print("epoch 1")
            warnings.warn("poor convergence", stacklevel=2)
            return super().fit(X, y)

    cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    with pytest.warns(UserWarning, match="convergence"):
        brainroam.evaluate(cohort, {"noisy": Noisy()}, tuning="fast", held_out=["S02"])
    seen = capfd.readouterr()
    assert "audit of noisy: no leak" in seen.err and "poor" not in seen.err and "epoch" not in seen.err
    assert "epoch 1" in seen.out  # of the study itself


def test_a_method_of_ones_own_is_told_the_same(cohort):
    class Forgetful(Method):
        def fit(self, cohort, seed=0, validation=None):
            self.mean_ = 0.0

        def score(self, cohort):
            return np.zeros(len(cohort))

        def state(self):
            return {}

        def load_state(self, state):
            return self

    with pytest.raises(MethodError, match="self"):
        TunedMethod(MethodInfo("forgetful", Forgetful, ""), "fast").fit(cohort)


def test_what_is_no_estimator_is_refused_before_anything_is_computed(cohort):
    for wrong, noun in [
        (object(), "fit"),
        (StandardScaler(), "predict_proba"),
        (RidgeClassifier, "class"),
        (make_pipeline, "function"),
    ]:
        with pytest.raises(UsageError, match=noun):
            resolve([wrong])
    with pytest.raises(UsageError, match="name"):
        resolve({"core": RidgeClassifier()})
    with pytest.raises(UsageError, match="twice"):
        runner.evaluate(cohort, [RidgeClassifier(), RidgeClassifier(alpha=2)])
    with pytest.raises(UsageError, match="input"):
        EstimatorMethod(RidgeClassifier(), input="voxels")


def test_a_method_registered_again_takes_the_place_of_the_first():
    first, second = (MethodInfo("mine", kind, "") for kind in (Watching, Memory))
    with temporarily(first):
        with pytest.warns(UserWarning, match="mine"):
            register(second)
        assert method_info("mine") is second


# -- the command line

FILE = """
from sklearn.base import BaseEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer


def doubled(X):
    return 2 * X


pipeline = make_pipeline(FunctionTransformer(doubled), RidgeClassifier())


def made(alpha=3.0):
    return RidgeClassifier(alpha=alpha)


def unfinished(alpha):
    return RidgeClassifier(alpha=alpha)


def procedure(cohort, train, test, seed):
    from brainroam.core.connectivity import cohort_edges

    edges = cohort_edges(cohort, "pearson")
    edges = edges / edges.std(axis=0)
    return RidgeClassifier().fit(edges[train], cohort.labels[train]).decision_function(edges[test])
"""


def test_a_file_of_methods_stands_beside_ours(cohort, tmp_path):
    cohort.save(tmp_path / "cohort.npz")
    (tmp_path / "my_study_methods.py").write_text(FILE)
    asked = f"{tmp_path / 'my_study_methods.py'}:pipeline,fc-ridge"
    command = ["loso", str(tmp_path / "cohort.npz"), "--methods", asked, "--tuning", "fast", "--json"]
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "runs")])
    assert result.exit_code == 0, result.output
    assert "running the code of" in result.stderr and "audit of pipeline: no leak" in result.stderr
    assert {row["method"] for row in json.loads(result.stdout)["methods"]} == {"pipeline", "fc-ridge"}
    ((info, _),) = resolve(f"{tmp_path / 'my_study_methods.py'}:made")
    assert info.name == "made" and info.estimator.alpha == 3
    for wrong, noun in [
        ("my_study_methods.py:pipelin", "pipeline"),
        ("absent.py:x", "file"),
        ("my_study_methods.py:unfinished", "alpha"),
    ]:
        with pytest.raises(UsageError, match=noun):
            resolve(str(tmp_path / wrong))


def test_a_procedure_of_a_file_is_audited(cohort, tmp_path):
    cohort.save(tmp_path / "cohort.npz")
    (tmp_path / "my_procedures.py").write_text(FILE)
    asked = ["--methods", f"{tmp_path / 'my_procedures.py'}:procedure", "--permutations", "0", "--json"]
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "cohort.npz"), *asked])
    assert result.exit_code == 1, result.output
    checks = {check["name"]: check["passed"] for check in json.loads(result.stdout)["checks"] if check["method"]}
    assert checks["corruption"] is False and checks["names"] is True  # scaled with everybody; reads no ids


def test_a_study_file_cannot_run_code(tmp_path):
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "study.yaml").write_text(f"data: synthetic\nmethods: ['{tmp_path / 'evil.py'}:pipeline']\n")
    result = CliRunner().invoke(app, ["loso", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "runs")])
    assert result.exit_code == 2 and "would run code" in result.stderr and "it ran" not in result.output
