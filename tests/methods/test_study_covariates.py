"""The covariates of a study reach every method that uses any, its saved model, and the words about it."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam import evaluate, make_cohort, write_report
from brainroam.cli import app
from brainroam.errors import DataError, UsageError
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod

SMALL = {"budget": 3, "tau_percentile": 60, "hidden": 4, "updates": 4}
CORE = "core[budget=3,tau_percentile=60,hidden=4,updates=4]"
USERS = {"core": SMALL, "scaffold-ridge": {}, "combat-ridge": {}, "confounds": {}}


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=16, n_rois=10, seed=4)


@pytest.mark.parametrize("name", USERS)
def test_methods_use_the_covariates_of_the_study(cohort, name):
    def scores(people):
        return method_info(name).make(**USERS[name]).fit(people).score(people)

    usual, told = scores(cohort), scores(cohort.using(["age", "mean_fd", "tr"]))
    assert not np.allclose(usual, told)
    explicit = method_info(name).make(**USERS[name], covariates=("age", "mean_fd", "tr")).fit(cohort).score(cohort)
    np.testing.assert_array_equal(told, explicit)


def test_a_saved_model_keeps_the_covariates_it_was_fitted_with(cohort, tmp_path):
    used = cohort.using(["tr"])
    fitted = TunedMethod(method_info("core"), "fast", **SMALL).fit(used)
    save_method(tmp_path / "model", fitted, used, 0)
    loaded, _ = load_method(tmp_path / "model", cohort)  # a cohort that says nothing of it
    np.testing.assert_array_equal(loaded.score(cohort), fitted.score(used))
    assert list(loaded.missing_covariates(cohort)) == ["tr"]


def page_of(cohort, methods, folder, tmp_path):
    evaluate(cohort, methods, tuning="fast", out=folder)
    return " ".join(write_report(folder, tmp_path / f"{folder.name}.html").read_text(encoding="utf-8").split())


@pytest.mark.usefixtures("undrawn")
def test_the_methods_text_says_what_was_removed_and_nothing_else(cohort, tmp_path):
    table = cohort.table[["sex"]].astype(float) * np.nan
    without_sex = cohort.with_columns(table).using(["age", "sex", "mean_fd"])
    page = page_of(without_sex, [CORE, "confounds", "fc-ridge"], tmp_path / "a", tmp_path)
    assert "tau_percentile=60,updates=4] removed age from the edges" in page
    assert "tau_percentile=60,updates=4] projected what moves with mean_fd within site and class out" in page
    assert "confounds read age and mean_fd and nothing of the brain" in page
    assert "sex was not known and so not used" in page and "removed age and sex" not in page
    page = page_of(cohort, ["ensemble"], tmp_path / "d", tmp_path)
    assert "ensemble projected what moves with mean_fd within site and class out of the edges" in page
    page = page_of(cohort, ["fc-ridge"], tmp_path / "b", tmp_path)
    assert "Covariates:" not in page
    page = page_of(cohort.using([]), [CORE], tmp_path / "c", tmp_path)
    assert "updates=4] projected what moves with mean_fd" in page and "removed age" not in page


def test_runs_with_other_covariates_are_another_study(cohort, tmp_path):
    cohort.save(tmp_path / "c.npz")
    typed = ["loso", str(tmp_path / "c.npz"), "--methods", "confounds", "--out", str(tmp_path / "runs")]
    assert CliRunner().invoke(app, typed).exit_code == 0
    other = CliRunner().invoke(app, [*typed, "--covariates", "age"])
    assert other.exit_code == 1 and "covariates differ" in " ".join(other.output.split())


@pytest.mark.parametrize("method", ["scaffold-ridge", "ensemble", "log-ridge"])
@pytest.mark.parametrize("name", ["agge", "label", "site"])
def test_a_covariate_that_is_none_is_refused_before_any_run(cohort, method, name, tmp_path):
    with pytest.raises(UsageError, match="covariate"):
        evaluate(cohort, [method], tuning="fast", out=tmp_path, parameters={"covariates": (name,)})
    assert not list(tmp_path.glob("runs/*.json"))


def test_a_column_that_cannot_be_a_covariate_is_said_once(cohort, tmp_path):
    visits = pd.DataFrame({"visit": [f"2020-01-{1 + k % 28:02d}" for k in range(len(cohort))]})
    dated = cohort.with_columns(visits).using(["age", "visit"])
    with pytest.raises(DataError, match="'visit'"):
        evaluate(dated, ["scaffold-ridge", "confounds"], tuning="fast", out=tmp_path)
    dated.save(tmp_path / "c.npz")
    shown = CliRunner().invoke(app, ["check", str(tmp_path / "c.npz")])
    assert shown.exit_code == 1 and " ".join(shown.output.split()).count("'visit' is a date") == 1


@pytest.mark.usefixtures("undrawn")
def test_the_methods_text_names_those_that_use_none(cohort, tmp_path):
    page = page_of(cohort, ["confounds", "fc-ridge", "ensemble[covariates=[]]"], tmp_path / "a", tmp_path)
    assert "ensemble[covariates=[]] and fc-ridge used no covariates" in page and "projected" not in page
