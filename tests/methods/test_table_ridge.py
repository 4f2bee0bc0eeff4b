"""The ridge of a table against scikit-learn, scipy and normal equations written out here."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr
from sklearn.linear_model import Ridge
from test_measures import table_cohort

from brainroam.core.penalties import TABLE_PENALTIES, mix_readings, prior_of, table_penalties
from brainroam.data.cohort import Cohort
from brainroam.data.target_column import with_target
from brainroam.methods.table_ridge import TableRidge

N_PENALTIES = len(TABLE_PENALTIES)


def within(values, site):
    values = np.array(values, dtype=float)
    for name in np.unique(site):
        values[site == name] -= np.nanmean(values[site == name], axis=0)
    return values


def columns_of(cohort):
    """Columns without site means in units of their deviation, and that deviation."""
    values = within(np.concatenate(cohort.series), cohort.table["site"].to_numpy())
    spread = np.nanstd(values, axis=0)
    return np.nan_to_num(values) / spread, spread


@pytest.fixture(scope="module")
def table():
    return table_cohort()


@pytest.mark.parametrize("place", [0, 4, 8])
def test_a_reading_is_scikit_learns_ridge_of_standardised_columns(table, place):
    x, spread = columns_of(table)
    y = within(2.0 * table.labels - 1, table.table["site"].to_numpy())
    strength = TABLE_PENALTIES[place] * (x**2).sum() / len(x)
    expected = Ridge(alpha=strength, fit_intercept=False, solver="svd").fit(x, y).coef_ / spread
    weights = TableRidge()._read(table, TABLE_PENALTIES)[1]
    np.testing.assert_allclose(weights[place], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_the_second_power_weighs_columns_by_their_contrast(table):
    x, spread = columns_of(table)
    site, y = table.table["site"].to_numpy(), table.labels
    gaps, weights = [], []
    raw = np.concatenate(table.series)
    for name in table.sites:
        case, control = (site == name) & (y == 1), (site == name) & (y == 0)
        gaps.append(np.nanmean(raw[case], axis=0) - np.nanmean(raw[control], axis=0))
        weights.append(case.sum() * control.sum() / (case.sum() + control.sum()))
    contrast = np.abs(np.average(gaps, axis=0, weights=weights)) / spread * np.sqrt(sum(weights))
    f = x * contrast
    strength = TABLE_PENALTIES[0] * (f**2).sum() / len(f)
    model = Ridge(alpha=strength, fit_intercept=False, solver="svd").fit(f, within(2.0 * y - 1, site))
    expected = model.coef_ * contrast / spread
    found = TableRidge()._read(table, TABLE_PENALTIES)[1][N_PENALTIES]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_a_number_is_read_with_sites_as_random_effects(table):
    """The same people with a number: one row for each site beside those of its people."""
    with pytest.warns(UserWarning, match="age"):
        cohort = with_target(table, "age:number")
    x, spread = columns_of(cohort)
    site, t = cohort.table["site"].to_numpy(), cohort.targets
    t = (t - t.mean()) / t.std()
    raw = np.concatenate(cohort.series)
    means = np.stack([np.nanmean(raw[site == name], axis=0) for name in cohort.sites])
    level, number = (means - means.mean(axis=0)) / spread, np.array([t[site == name].mean() for name in cohort.sites])
    k = 1 / (1 / 20 + 1 / 10)  # twenty people a site, which count as at most ten
    level, number = level - level.mean(axis=0), number - number.mean()
    penalty = 3.0 * np.trace(x.T @ x + k * level.T @ level) / len(x)
    left = x.T @ x + k * level.T @ level + penalty * np.eye(x.shape[1])
    expected = np.linalg.solve(left, x.T @ within(t, site) + k * level.T @ number) / spread
    found = TableRidge()._read(cohort, TABLE_PENALTIES)[1][0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_readings_are_believed_by_likelihood_and_prior():
    rng = np.random.default_rng(0)
    site, t = np.repeat(["A", "B", "C"], 40), rng.normal(size=120)
    scores = np.stack([t * share + rng.normal(size=120) for share in (0.2, 0.3, -0.4)])
    scores[:, 5] = np.nan
    mixture = mix_readings(scores, t, site, prior_of([3.0, 1.0, 0.3]))
    known = np.arange(120) != 5
    r = [max(pearsonr(within(z[known], site[known]), within(t[known], site[known]))[0], 0) for z in scores]
    expected = np.array([1, 1 / 9, 1 / 100]) * (1 - np.square(r)) ** (-119 / 2)
    np.testing.assert_allclose(mixture.believed, expected / expected.sum())
    spread = [within(z[known], site[known]).std() for z in scores]
    np.testing.assert_allclose(mixture.factors, mixture.believed / spread)


def test_nothing_is_believed_but_the_prior_where_nobody_was_held_out():
    mixture = mix_readings(np.full((2, 6), np.nan), np.arange(6.0), np.repeat(["A", "B"], 3), prior_of([3.0, 0.3]))
    np.testing.assert_allclose(mixture.believed, [1 / 1.01, 0.01 / 1.01])


def test_the_score_does_not_follow_head_motion():
    cohort = table_cohort(missing=0)
    rng = np.random.default_rng(0)
    motion = 0.1 * np.exp(rng.normal(size=len(cohort)))
    values = np.concatenate(cohort.series)
    values = values + np.outer(np.log(motion), values.std(axis=0))
    moved = Cohort(list(values[:, None]), cohort.table.assign(mean_fd=motion), cohort.atlas, measure="table")
    site, label = moved.table["site"].to_numpy(), moved.labels
    group = np.char.add(site.astype(str), label.astype(str))
    with_motion = [
        abs(np.corrcoef(within(model.score(moved), group), within(np.log(motion), group))[0, 1])
        for model in (TableRidge(("mean_fd",)).fit(moved), TableRidge(()).fit(moved))
    ]
    assert with_motion[0] < 1e-6 and with_motion[1] > 0.2


def test_each_of_several_classes_is_read_against_the_rest(table):
    names = np.array(["HC", "MDD", "SCZ"])[np.arange(len(table)) % 3]
    cohort = with_target(table.with_columns(pd.DataFrame({"dx": names})), "dx")
    model = TableRidge().fit(cohort)
    assert model.coef_.shape == (30, 3) and model.inner_scores_.shape == (len(table), 3)
    whole = model._read(cohort, TABLE_PENALTIES)[1]
    for code in range(3):
        alone = TableRidge()._read(cohort.one_against_rest(code), TABLE_PENALTIES)[1]
        np.testing.assert_array_equal(whole[..., code], alone)
    np.testing.assert_allclose(sum(model.shares_.values()), 1)


def test_few_columns_that_tell_are_found_among_many():
    """A power of 1 is believed where ten of two hundred columns differ, and orders new people better than one ridge."""
    rng = np.random.default_rng(2)
    people = table_cohort(n_sites=10, n_per_site=30, n_columns=4).table
    values = rng.normal(size=(300, 200))
    values[:, :10] += 0.5 * people["label"].to_numpy()[:, None]
    cohort = Cohort(list(values[:, None]), people, measure="table")
    model = TableRidge().fit(cohort.select(cohort.sites[:7]))
    assert sum(share for (power, _), share in model.shares_.items() if power == 1) > 0.9
    held_out = cohort.select(cohort.sites[7:])
    x, spread = columns_of(cohort.select(cohort.sites[:7]))
    y = within(2.0 * cohort.select(cohort.sites[:7]).labels - 1, cohort.table["site"].to_numpy()[:210])
    plain = Ridge(alpha=3 * 200, fit_intercept=False).fit(x, y).coef_ / spread
    r = [np.corrcoef(score, held_out.labels)[0, 1] for score in (model.score(held_out), values[210:] @ plain)]
    assert r[0] > r[1] + 0.1


def test_of_many_people_and_columns_only_strong_penalties_are_tried():
    assert table_penalties(2000, 300) == list(TABLE_PENALTIES)
    assert min(table_penalties(2000, 5000)) == 1.0
