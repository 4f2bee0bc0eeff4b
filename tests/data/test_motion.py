"""Motion as estimated from series, and what is taken out of edges by it."""

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.core.nuisance import nuisance_variables, split_covariates
from brainroam.data.check import check_cohort
from brainroam.data.cohort import Cohort
from brainroam.data.motion import estimate_motion
from brainroam.data.people import NUISANCE
from brainroam.data.prepare import with_nuisance
from brainroam.data.study_file import read_study
from brainroam.methods.core import Core
from brainroam.methods.ensemble import Ensemble
from brainroam.methods.scaffold_ridge import ScaffoldRidge


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=4, n_per_site=24, n_rois=14, seed=3)


@pytest.fixture(scope="module")
def unmeasured(cohort):
    """Jumps of size FD in the series, more of them in cases, and no column of FD."""
    rng, table = np.random.default_rng(0), cohort.table
    moved = rng.lognormal(0, 0.5, len(table)) * (1 + table["label"])
    series = [x.copy() for x in cohort.series]
    for x, size in zip(series, moved, strict=True):
        when = rng.integers(5, len(x) - 5, 6)
        x[when] += size * x.std() * rng.normal(1, 0.3, x.shape[1])
    return Cohort(series, table.assign(mean_fd=np.nan), cohort.atlas), moved


def test_the_estimate_of_a_person_depends_on_that_person_alone(cohort):
    together = estimate_motion(cohort.series)
    alone = pd.concat([estimate_motion([x]) for x in cohort.series], ignore_index=True)
    pd.testing.assert_frame_equal(together, alone)


def test_the_estimate_has_no_unit_but_for_the_amplitude(cohort):
    x = cohort.series[0]
    small, large = estimate_motion([x, 1000 * x]).to_numpy()
    assert small[0] == pytest.approx(large[0])
    assert large[1] - small[1] == pytest.approx(np.log(1000))


def test_series_without_a_signal_have_no_estimate():
    assert estimate_motion([np.ones((20, 3))]).isna().all(axis=None)


def test_jumps_of_the_signal_are_seen_within_sites(unmeasured):
    cohort, moved = unmeasured
    found = pd.DataFrame({"found": estimate_motion(cohort.series)["variation"], "moved": np.log(moved)})
    within = found - found.groupby(cohort.table["site"]).transform("mean")
    assert within.corr().loc["found", "moved"] > 0.7


def test_no_pathway_covaries_with_motion_within_site_and_class_in_training(cohort):
    core = Core(tau_percentile=50, epochs=0).fit(cohort).core_
    nuisance = nuisance_variables(cohort, NUISANCE)
    statistics_of = core.pathways_.directions
    assert statistics_of.shape == (len(core.scaffold_), 1)
    nodes = core.nodes(cohort, cohort.table)
    projected = core.pathways_.without_nuisance(nodes)[..., 0]
    np.testing.assert_allclose(core.pathways_.directions.T @ projected, 0, atol=1e-8)
    before, after = (np.abs(x @ nuisance).max() for x in (nodes[..., 0], projected))
    assert after < 0.2 * before  # as at inference, by the average deconfounder


@pytest.mark.parametrize("make", [Core, ScaffoldRidge, Ensemble])
def test_motion_is_not_asked_of_a_new_person(cohort, make):
    settings = {} if make is Ensemble else {"tau_percentile": 50}
    model = make(**settings).fit(cohort.using(["age", "mean_fd"]))
    people = cohort.select(["S01"])
    unknown = people.with_columns(people.table[["mean_fd"]] * np.nan)
    np.testing.assert_array_equal(model.score(people), model.score(unknown))


def test_a_covariate_that_is_a_nuisance_variable_is_projected_not_regressed(cohort):
    removed, projected = split_covariates(cohort, ["age", "mean_fd"], NUISANCE)
    assert list(removed) == ["age"] and projected.shape[1] == 1
    told, silent = (Core(tau_percentile=50, epochs=0).fit(cohort.using(q)) for q in (["age", "mean_fd"], ["age"]))
    np.testing.assert_array_equal(told.score(cohort), silent.score(cohort))


def test_the_paper_regresses_motion_like_any_covariate(cohort):
    model = Core(recipe="paper", hidden=4, epochs=1, budget=3, tau_percentile=50).fit(cohort.using(["age", "mean_fd"]))
    assert model.core_.deconfounder_.encoder_.names_ == ["age", "mean_fd"]
    assert model.core_.pathways_.directions.shape[1] == 0


def test_motion_that_nobody_measured_is_estimated_and_this_is_said(unmeasured, cohort):
    blind, _ = unmeasured
    model = Ensemble().fit(blind)
    assert any("motion as estimated from the series" in note for note in model.notes_)
    assert Ensemble().fit(cohort).notes_ == []
    assert nuisance_variables(blind, NUISANCE).shape[1] == 3


def test_scores_follow_unmeasured_motion_less_than_without_the_estimate(unmeasured):
    cohort, moved = unmeasured
    held_out = (cohort.table["site"] == "S04").to_numpy()
    train, new = cohort.subset(~held_out), cohort.subset(held_out)
    label, x = new.labels, np.log(moved[held_out])

    def follows(nuisance):
        score = Ensemble(nuisance).fit(train).score(new)
        parts = [(score[label == y] - score[label == y].mean(), x[label == y] - x[label == y].mean()) for y in (0, 1)]
        s, v = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        return np.corrcoef(s, v)[0, 1]

    assert abs(follows(NUISANCE)) < abs(follows(()))


def test_check_says_where_cases_seem_to_have_moved_more(unmeasured, cohort):
    codes = {finding.code for finding in check_cohort(unmeasured[0]).findings}
    assert "label-by-variation" in codes
    assert "label-by-variation" not in {finding.code for finding in check_cohort(cohort).findings}


@pytest.mark.parametrize("make", [Core, ScaffoldRidge, Ensemble])
def test_a_study_names_what_is_projected_out_of_every_method_of_ours(cohort, make):
    settings = {} if make is Ensemble else {"tau_percentile": 50}
    named = with_nuisance(cohort, ["mean_fd", "n_timepoints", "age"])
    usual, told = (make(**settings).fit(people).score(cohort) for people in (cohort, named))
    assert not np.allclose(usual, told)
    own = {"covariates" if make is Ensemble else "nuisance": ["mean_fd", "n_timepoints", "age"]}
    np.testing.assert_array_equal(make(**settings, **own).fit(cohort).score(cohort), told)


def test_a_category_is_a_direction_for_each_of_its_levels_but_one(cohort):
    drugs = np.resize(["none", "ssri", "snri"], len(cohort))
    people = with_nuisance(cohort.with_columns(pd.DataFrame({"medication": drugs})), ["mean_fd", "medication"])
    assert nuisance_variables(people).shape == (len(people), 3)
    assert Ensemble().fit(people).score(cohort).shape == (len(people),)  # of new people it is not asked


def test_a_nuisance_that_tells_the_diagnosis_is_warned_of_as_a_covariate_is(cohort):
    people = cohort.with_columns(pd.DataFrame({"severity": cohort.labels + np.linspace(0, 0.01, len(cohort))}))
    with pytest.warns(UserWarning, match="severity"):
        with_nuisance(people, ["mean_fd", "severity"])


def test_a_study_file_names_nuisance_variables(tmp_path):
    study = read_study(write(tmp_path, "data: synthetic\nnuisance: [mean_fd, n_timepoints]\n"))
    assert study.load().nuisance_names == ("mean_fd", "n_timepoints")
    assert study.load().covariate_names == ("age", "sex")


def write(folder, text):
    (folder / "study.yaml").write_text(text)
    return folder / "study.yaml"
