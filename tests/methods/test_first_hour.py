"""Mistakes of somebody's first hour in Python: each gives an error or a warning that says what to do."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

import brainroam
from brainroam import CoreClassifier, EnsembleClassifier, SiteClassifier, SiteDeconfounder, SiteRegressor
from brainroam.errors import DataError, UsageError

COHORT = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=12, seed=0)
PEOPLE = COHORT.table
X, Y, SITE, KNOWN = list(COHORT.series), PEOPLE["label"], PEOPLE["site"], PEOPLE[["age", "sex"]]
OTHER_ORDER = PEOPLE.iloc[::-1]
MEASURES = pd.DataFrame(np.random.default_rng(0).normal(size=(len(Y), 8))).add_prefix("m")
TRIANGLES = np.stack([np.corrcoef(x.T)[np.triu_indices(12, 1)] for x in X])
MATRICES = [np.corrcoef(x.T) for x in X]
DIRECTED = [x + (i == 4) * np.triu(np.full_like(x, 0.1), 1) for i, x in enumerate(MATRICES)]


def model():
    return SiteClassifier("fc-ridge", "fast")


def changed(place, x):
    """The series of everybody, of one person another one."""
    return [x if i == place else own for i, own in enumerate(X)]


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y, site=SITE, covariates=KNOWN)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"site": None}, "needs the site of every person.*params="),
        ({"y": None}, "needs the label of every person"),
        ({"site": SITE[:-1]}, "48 people but 47 values of site; give one for each person"),
        ({"site": OTHER_ORDER["site"]}, "y and site name the same people in different orders"),
        ({"covariates": OTHER_ORDER[["age"]]}, r"covariates\.loc\[y\.index\]"),
        ({"covariates": ["age", "sex"]}, "not the names of columns: table"),
        ({"covariates": KNOWN.assign(sex="tall")}, "neither male nor female; give 1 for male"),
        ({"site": [f"S{i}" for i in range(len(Y))]}, "a site is a hospital or a scanner"),
        ({"y": PEOPLE["age"]}, "for a number, as age, use brainroam.SiteRegressor"),
        ({"X": [x[: 60 + i % 3].T for i, x in enumerate(X)]}, "regions x time.*give x.T of each"),
        ({"X": changed(5, X[5].T)}, "person 5 are regions x time"),
        ({"X": "my_data"}, "the text 'my_data'.*load_cohort"),
        ({"X": [f"{i}.csv" for i in range(len(Y))]}, "names of files.*load_cohort"),
        ({"X": MEASURES.assign(dx=Y)}, "the column dx of X is y itself"),
        ({"X": MEASURES.assign(centre=pd.factorize(SITE)[0])}, "the column centre of X is site itself"),
        ({"X": MEASURES.assign(ID=50_000 + np.arange(len(Y)))}, r"an id.*X\.set_index\('ID'\)"),
    ],
)
def test_what_cannot_be_fitted_says_what_to_give(given, words):
    with pytest.raises(DataError, match=words):
        model().fit(**{"X": X, "y": Y, "site": SITE} | given)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"site": ["A"] * len(Y)}, "everybody is of one site"),
        ({"X": changed(4, X[4][:5])}, "fewer than 30 volumes of person 4"),
        ({"X": np.stack([x[:60].T for x in X])}, "if it is the other way round give x.T"),
        ({"X": changed(4, np.full((60, 12), np.nan))}, "nothing was measured of person 4"),
        ({"X": TRIANGLES}, "edges of 12 regions.*upper triangle: i, j = numpy.triu_indices"),
        ({"X": pd.DataFrame(TRIANGLES)}, "edges of 12 regions"),
        ({"X": DIRECTED}, "not symmetric: person 4; the mean of both triangles is read"),
        ({"X": [x[:12] for x in X]}, "12 x 12 numbers do not look like matrices of edges and are read as series of 12"),
    ],
)
def test_what_can_hardly_be_meant_is_warned_of_at_the_line_of_the_user(given, words):
    with pytest.warns(UserWarning, match=words) as told:
        model().fit(**{"X": X, "y": Y, "site": SITE} | given)
    assert {warning.filename for warning in told} == {__file__}


def test_what_is_right_is_not_warned_of():
    shuffled = PEOPLE.sample(frac=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(
            [X[i] for i in shuffled.index], shuffled["label"], site=shuffled["site"], covariates=shuffled[["age"]]
        )
        model().fit(X, Y, site=SITE, covariates=KNOWN.set_index(PEOPLE["subject"]))  # names beside 0, 1, 2, ...
        model().fit(MEASURES, Y.set_axis(MEASURES.index), site=SITE)
        model().fit(np.stack([np.corrcoef(x.T) for x in X]), Y, site=SITE)


def test_sexes_in_words_are_those_in_numbers():
    words = KNOWN.assign(sex=KNOWN["sex"].map({1.0: "M", 0.0: "F"}))
    models = [
        CoreClassifier(epochs=0, tau_percentile=50, tuning="fast").fit(X, Y, site=SITE, covariates=q)
        for q in (words, KNOWN)
    ]
    np.testing.assert_array_equal(*(one.decision_function(X, KNOWN) for one in models))
    np.testing.assert_array_equal(models[0].decision_function(X, words), models[0].decision_function(X, KNOWN))


def test_a_dictionary_of_covariates_is_a_table():
    one = SiteDeconfounder().fit(TRIANGLES, site=SITE, covariates={"age": KNOWN["age"], "sex": KNOWN["sex"]})
    np.testing.assert_array_equal(
        one.residuals_, SiteDeconfounder().fit(TRIANGLES, site=SITE, covariates=KNOWN).residuals_
    )


@pytest.mark.parametrize("wrong", [{"sites": SITE}, {"groups": SITE}])
@pytest.mark.parametrize(
    "one", [model(), SiteRegressor("fc-ridge"), SiteDeconfounder()], ids=lambda x: type(x).__name__
)
def test_a_wrong_keyword_is_answered_with_the_right_ones(one, wrong):
    with pytest.raises(TypeError, match=r"'(sites|groups)'; \w+\.fit is called as fit\(X, y, .*site=\.\.\."):
        one.fit(TRIANGLES, Y, **wrong)


def test_a_site_by_position_and_a_site_of_new_people_are_answered(fitted):
    with pytest.raises(TypeError, match=r"fit\(X, y, site=\.\.\., covariates=\.\.\."):
        model().fit(X, Y, SITE)
    with pytest.raises(TypeError, match=r"SiteClassifier.predict is called as predict\(X, covariates, tr\)"):
        fitted.predict(X, site=SITE)


def test_what_is_not_fitted_says_so_and_has_no_such_attribute():
    for name in ("classes_", "inner_scores_", "scaffold_"):
        assert not hasattr(CoreClassifier(), name)
        with pytest.raises(NotFittedError, match=rf"CoreClassifier is not fitted yet and has no {name}; call fit"):
            getattr(CoreClassifier(), name)
    with pytest.raises(AttributeError, match="no attribute 'coef_'"):
        CoreClassifier(epochs=0, tau_percentile=50).fit(COHORT).coef_  # noqa: B018


def test_people_of_another_kind_than_those_of_the_training_are_refused(fitted):
    with pytest.raises(DataError, match=r"fitted on time series, but X holds a table.*in a list, \[x\]"):
        fitted.predict(X[0])
    with pytest.raises(DataError, match="fitted on time series, but X holds connectivity matrices"):
        fitted.predict([np.corrcoef(x.T) for x in X])


def test_a_number_is_learned_from_numbers_that_vary():
    for y, words in ((["A"] * len(Y), "SiteClassifier"), (np.ones(len(Y)), "nothing to learn")):
        with pytest.raises(DataError, match=words):
            SiteRegressor("fc-ridge").fit(X, y, site=SITE)
    with pytest.raises(UsageError, match="unknown transform 'sqrt'"):
        SiteRegressor("fc-ridge", transform="sqrt").fit(X, PEOPLE["age"], site=SITE)


def test_a_method_given_as_a_seed_is_refused():
    with pytest.raises(UsageError, match="random_state must be a whole number, not 'core'"):
        EnsembleClassifier("core").fit(X, Y, site=SITE)


def test_cross_validation_without_sites_says_how_to_give_them():
    with pytest.raises(ValueError, match=r"needs the site of every person.*params=\{'site'"):
        cross_val_score(model(), X, Y, groups=SITE, cv=LeaveOneGroupOut())
    found = cross_val_score(model(), X, Y, groups=SITE, cv=LeaveOneGroupOut(), params={"site": SITE})
    assert found.shape == (4,) and np.isfinite(found).all()


def test_a_cohort_is_asked_for_where_arrays_are_given_and_results_where_a_cohort_is():
    with pytest.raises(UsageError, match="evaluate takes a cohort, not a list"):
        brainroam.evaluate(X, ["fc-ridge"])
    for verb in (brainroam.compare, brainroam.write_report):
        with pytest.raises(
            UsageError, match=r"no results yet; give what brainroam.evaluate\(cohort, methods\) returns"
        ):
            verb(COHORT)
