"""Matrices and tables: what methods learn from them, against references written out here."""

import numpy as np
import pandas as pd
import pytest

from brainroam.audit.spoiling import with_corrupted_data
from brainroam.core.connectivity import cohort_edges
from brainroam.data.atlas import columns_of_table
from brainroam.data.check import find_duplicates
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import DataError, UsageError
from brainroam.methods.arrays import anonymous_cohort
from brainroam.methods.edge_ridge import EdgeRidge
from brainroam.methods.registry import method_info, method_names
from brainroam.methods.saving import load_method, prepared_as_in_training, save_method
from brainroam.methods.tuning import TunedMethod

ON_TABLES = [
    name for name in method_names() if "table" in method_info(name).reads and name not in ("majority", "site-only")
]


def table_cohort(n_sites=6, n_per_site=20, n_columns=30, missing=0.02, seed=0):
    """A table with columns of very different units, of which the first five carry the diagnosis."""
    rng = np.random.default_rng(seed)
    n = n_sites * n_per_site
    site = np.repeat([f"S{k}" for k in range(n_sites)], n_per_site)
    y = np.tile([0, 1], n // 2)
    values = (
        rng.normal(size=(n, n_columns)) + rng.normal(size=(n_sites, n_columns))[np.repeat(range(n_sites), n_per_site)]
    )
    values[:, :5] += 0.8 * y[:, None]
    values = 5 + values * 10.0 ** rng.integers(-2, 5, n_columns)
    values[rng.random(values.shape) < missing] = np.nan
    people = {
        "subject": [f"p{i}" for i in range(n)],
        "site": site,
        "label": y,
        "age": rng.uniform(10, 60, n),
        "sex": rng.integers(0, 2, n),
    }
    columns = columns_of_table([f"measure {k}" for k in range(n_columns)])
    return Cohort(list(values[:, None]), pd.DataFrame(people), columns, measure="table")


@pytest.fixture(scope="module")
def table():
    return table_cohort()


@pytest.fixture(scope="module")
def series():
    return make_cohort(n_sites=5, n_per_site=16, n_rois=12, seed=3)


@pytest.fixture(scope="module")
def matrices(series):
    correlations = [np.corrcoef(x.T) for x in series.series]
    return Cohort(correlations, series.table, measure="matrices")


def fitted(name, cohort, **settings):
    return TunedMethod(method_info(name), "fast", **settings).fit(cohort, 0)


def test_edges_of_pearson_matrices_are_those_of_their_series(series, matrices):
    np.testing.assert_allclose(cohort_edges(matrices), cohort_edges(series), atol=1e-12)
    for kind in ("log", "partial"):
        np.testing.assert_allclose(cohort_edges(matrices, kind, 0.7), cohort_edges(series, kind, 0.7), atol=1e-9)
    with pytest.raises(DataError, match="series"):
        cohort_edges(matrices, "lag")


def test_fisher_z_is_read_as_correlations_in_the_logarithm(series):
    strong = [np.corrcoef((x + 3 * x.mean(axis=1, keepdims=True)).T) for x in series.series]
    with np.errstate(divide="ignore"):
        z = [np.arctanh(r) for r in strong]
    r, z = (Cohort(m, series.table, measure="matrices") for m in (strong, z))
    assert "Fisher" in z.prepared[0]
    np.testing.assert_allclose(cohort_edges(z, "log", 0.7), cohort_edges(r, "log", 0.7), atol=1e-9)


def test_a_model_of_fisher_z_reads_correlations_without_a_warning(series, tmp_path, recwarn):
    r = [0.5 * np.corrcoef(x.T) + 0.5 for x in series.series]
    z = [np.arctanh(np.clip(x, -0.999, 0.999)) for x in r]
    crooked = [x + (k == 3) * np.triu(np.full_like(x, 0.1), 1) for k, x in enumerate(z)]
    trained = Cohort(crooked, series.table, measure="matrices")
    assert len(trained.prepared) == 2
    path = save_method(tmp_path / "model", fitted("fc-ridge", trained), trained)
    _, header = load_method(path, new := Cohort(r, series.table, measure="matrices"))
    prepared_as_in_training(header, new)
    assert not [str(warning.message) for warning in recwarn if "prepared otherwise" in str(warning.message)]


def test_a_triangle_stands_for_a_matrix(series):
    whole = np.corrcoef(series.series[0].T)
    made = [Cohort([x], series.table.iloc[:1], measure="matrices") for x in (whole, np.triu(whole), np.tril(whole))]
    for other in made[1:]:
        np.testing.assert_allclose(other.series[0], made[0].series[0], rtol=1e-12)


def test_plain_ridge_of_a_table_is_a_ridge_of_standardised_columns(table):
    x, y, site = np.concatenate(table.series), table.labels, table.table["site"].to_numpy()
    frame = pd.DataFrame(x)
    residual = (frame - frame.groupby(site).transform("mean")).to_numpy()
    scale = np.nanstd(residual, axis=0)
    r = np.nan_to_num(residual) / scale
    target = 2.0 * y - 1 - pd.Series(2.0 * y - 1).groupby(site).transform("mean").to_numpy()
    penalty = 3.0 * (r**2).sum() / len(r)
    weights = np.linalg.solve(r.T @ r + penalty * np.eye(r.shape[1]), r.T @ target)
    centre = frame.groupby(site).mean().mean(axis=0).to_numpy()
    expected = np.nan_to_num(x - centre) / scale @ weights
    np.testing.assert_allclose(fitted("fc-ridge", table).score(table), expected, atol=1e-8)


@pytest.mark.parametrize("name", ON_TABLES)
def test_units_of_columns_do_not_matter(name):
    table = table_cohort(n_sites=6)  # in five groups, which follow from ranks
    factor = 10.0 ** np.linspace(-6, 6, table.n_rois)
    other = table.with_series([x * factor for x in table.series])
    same, rescaled = fitted(name, table).score(table), fitted(name, other).score(other)
    np.testing.assert_allclose(rescaled, same, rtol=1e-3, atol=1e-4 * np.std(same))


@pytest.mark.parametrize("name", ON_TABLES)
def test_models_of_tables_are_read_back_as_they_were(table, name, tmp_path):
    model = fitted(name, table)
    again, header = load_method(save_method(tmp_path / "model", model, table), table)
    assert header["measure"] == "table"
    np.testing.assert_array_equal(again.score(table), model.score(table))


@pytest.mark.parametrize("name", ["ensemble", "core", "scaffold-ridge", "fc-ridge", "combat-ridge", "fc-svm"])
def test_a_corrupted_held_out_site_leaves_the_model_as_it_is(table, matrices, name):
    for cohort in (table, matrices):
        held_out = cohort.table["site"] == cohort.sites[0]
        spoiled = with_corrupted_data(cohort, np.flatnonzero(held_out), seed=1)
        settings = {"epochs": 0} if name == "core" else {}
        one, other = (fitted(name, c.subset(~held_out.to_numpy()), **settings).state() for c in (cohort, spoiled))
        assert one.keys() == other.keys()
        assert all(one[key].tobytes() == other[key].tobytes() for key in one)


def test_a_method_that_needs_series_refuses_a_table(table, matrices):
    with pytest.raises(UsageError, match="table"):
        fitted("tangent-ridge", table)
    with pytest.raises(UsageError, match="matrices"):
        fitted("core-tp", matrices)


def counts_of(series, larger=1):
    """Counts of streamlines, of which one pair of regions has its own unit."""
    counts = [np.round(np.exp(4 + 2 * np.corrcoef(x.T))) * (1 - np.eye(x.shape[1])) for x in series.series]
    for matrix in counts:
        matrix[0, 1] = matrix[1, 0] = larger * matrix[0, 1]
    return Cohort(counts, series.table, series.atlas, measure="matrices")


@pytest.mark.parametrize(("name", "fixed"), [("core", {"epochs": 0}), ("scaffold-ridge", {})])
def test_counts_are_read_edge_by_edge_so_that_the_unit_of_one_does_not_matter(series, tmp_path, name, fixed):
    fitted = {k: TunedMethod(method_info(name), **fixed).fit(counts_of(series, k)) for k in (1, 1000)}
    expected = fitted[1].score(counts_of(series))
    np.testing.assert_allclose(fitted[1000].score(counts_of(series, 1000)), expected, rtol=1e-6)
    save_method(tmp_path / "model", fitted[1], counts_of(series))
    loaded, _ = load_method(tmp_path / "model", counts_of(series))
    np.testing.assert_array_equal(loaded.score(counts_of(series)), expected)


def test_core_reads_a_table_without_a_network_and_says_so(table):
    model = fitted("core", table)
    assert model.model_.core_.reading_.network is None
    assert any("table" in note for note in model.notes_)
    chosen = set(model.model_.core_.scaffold_.edges)
    assert len(chosen & set(range(5))) >= 4  # where the diagnosis was planted


def test_what_is_measured_survives_selecting_saving_and_columns(table, matrices, tmp_path):
    for cohort in (table, matrices):
        saved = Cohort.load(cohort.subset([3, 1]).save(tmp_path / "cohort.npz"))
        assert saved.measure == cohort.measure and saved.atlas == cohort.atlas
        np.testing.assert_array_equal(saved.series[1], cohort.series[1])
        assert cohort.with_columns(cohort.table[["age"]]).select(cohort.sites[:2]).measure == cohort.measure
    assert table.n_features == 30 and table.atlas.feature_names[0] == "measure 0"
    assert matrices.n_features == 66 and matrices.atlas.feature_names[0] == "ROI_001 - ROI_002"


def test_bare_arrays_tell_what_they_are(series):
    n = len(series)
    correlations = np.stack([np.corrcoef(x.T) for x in series.series])
    assert anonymous_cohort(series.series).measure == "series"
    assert anonymous_cohort(correlations).measure == anonymous_cohort(list(correlations)).measure == "matrices"
    assert anonymous_cohort(np.zeros((n, 4))).measure == "table"
    assert anonymous_cohort(pd.DataFrame({"a": [1.0], "b": [2]})).atlas.labels == ("a", "b")
    with pytest.raises(DataError, match="numbers"):
        anonymous_cohort(pd.DataFrame({"a": ["x"]}))


def test_people_who_lack_many_columns_are_left_out(table):
    rows = table.series
    rows[0] = np.where(np.arange(30) < 10, np.nan, rows[0])
    assert not len(table.with_series(rows).exclude_missing().excluded)
    assert table.with_series(rows).exclude_missing(0.3).excluded["subject"].tolist() == ["p0"]
    rows[0] = np.where(np.arange(30) < 28, np.nan, rows[0])
    assert table.with_series(rows).exclude_missing().excluded["subject"].tolist() == ["p0"]


@pytest.fixture(scope="module")
def both(series):
    rng = np.random.default_rng(5)
    n, y = len(series), series.labels
    rows = rng.normal(size=(n, 1, 12)) + 0.8 * y[:, None, None] * (np.arange(12) < 3)
    anatomy = Cohort(list(rows), series.table, columns_of_table(list("abcdefghijkl")), measure="table")
    return series.with_block("anatomy", anatomy.subset(range(4, n)), "rest")


def test_a_sum_of_blocks_adds_the_blocks_and_reads_who_lacks_one(both, tmp_path):
    model = fitted("ensemble", both)
    parts = {name: fitted("ensemble", both, blocks=name) for name in both.blocks}
    rest = fitted("ensemble", both.block("rest")).score(both.block("rest"))
    anatomy = fitted("ensemble", both.block("anatomy").subset(range(4, len(both)))).score(
        both.block("anatomy").subset(range(4, len(both)))
    )
    weights = model.model_.weights_
    expected = weights[0] * rest + weights[1] * np.concatenate([np.zeros(4), anatomy])
    np.testing.assert_allclose(model.score(both), expected, atol=1e-10)
    np.testing.assert_allclose(np.corrcoef(parts["rest"].score(both), rest)[0, 1], 1, atol=1e-12)
    again, _ = load_method(save_method(tmp_path / "model", model, both), both)
    np.testing.assert_array_equal(again.score(both), model.score(both))


def test_every_block_is_explained_on_those_who_have_it(both):
    from brainroam.methods.blocks import parts_read
    from brainroam.methods.explanation import Explanation

    read = parts_read(fitted("ensemble", both).model_, both)
    assert {name: len(people) for name, (_, people) in read.items()} == {"rest": len(both), "anatomy": len(both) - 4}
    first = Explanation.of_model(*read["anatomy"], top=3).pathways["region_1"].iat[0]
    assert first in "abc"  # where the diagnosis was planted


def test_blocks_survive_selecting_columns_and_saving(both, tmp_path):
    part = both.with_columns(both.table[["age"]]).subset([5, 0]).without_labels()
    assert part.has_block("anatomy").tolist() == [True, False] and part.block("anatomy").labels_hidden
    np.testing.assert_array_equal(part.block("anatomy").series[0], both.block("anatomy").series[5])
    again = Cohort.load(both.save(tmp_path / "both.npz"))
    assert list(again.blocks) == ["rest", "anatomy"] and again.manifest_hash == both.manifest_hash
    assert both.manifest_hash != both.block("rest").manifest_hash


def test_corrupting_a_block_of_the_held_out_site_leaves_the_sum_as_it_is(both):
    held_out = (both.table["site"] == both.sites[0]).to_numpy()
    spoiled = with_corrupted_data(both, np.flatnonzero(held_out), seed=2)
    for name in both.blocks:
        pairs = zip(both.block(name).series, spoiled.block(name).series, strict=True)
        same = [np.array_equal(one, other, equal_nan=True) for one, other in pairs]
        assert same == (~held_out).tolist()
    one, other = (fitted("ensemble", c.subset(~held_out)).state() for c in (both, spoiled))
    assert all(one[key].tobytes() == other[key].tobytes() for key in one)


def test_a_block_of_noise_hardly_costs_anything():
    from brainroam.methods.blocks import weigh

    rng, lost = np.random.default_rng(0), []
    y, site = np.tile([0, 1], 60), np.repeat(range(6), 20)
    for _ in range(100):
        scores = rng.normal(size=(120, 2)) + np.outer(y, [0.95, 0.0])
        w = weigh(scores, y, site).weights
        lost.append(1 - w[0] / np.hypot(*w))  # share of the effect size that is lost
    assert np.mean(lost) < 0.01


def test_a_block_that_no_training_person_has_is_left_out(both):
    site = both.sites[0]
    here = (both.table["site"] == site).to_numpy()
    rest = both.block("rest")
    some = rest.with_block("anatomy", both.block("anatomy").subset(here), "rest")
    model = fitted("ensemble", some.subset(~here))
    assert any("anatomy left out" in note for note in model.notes_)
    np.testing.assert_allclose(
        np.argsort(model.score(some)), np.argsort(fitted("ensemble", rest.subset(~here)).score(rest))
    )
    with pytest.raises(DataError, match="anatomy"):
        fitted("ensemble", some.subset(~here), blocks="anatomy")


@pytest.mark.parametrize(("n_per_site", "told"), [(10, True), (100, False)])
def test_a_model_says_when_it_cannot_tell_which_block_is_noise(n_per_site, told):
    cohort = make_cohort(n_sites=5, n_per_site=n_per_site, n_rois=8, seed=3)
    rng, y = np.random.default_rng(0), cohort.labels
    values = rng.normal(size=(len(y), 12)) + 0.2 * y[:, None]
    table = Cohort(list(values[:, None]), cohort.table, measure="table")
    noise = Cohort(list(rng.normal(size=(len(y), 1, 12))), cohort.table, measure="table")
    notes = fitted("fc-ridge", table.with_block("noise", noise, "table")).notes_
    assert told == any("cannot tell" in note and "fc-ridge[blocks=NAME]" in note for note in notes)


def test_check_names_a_site_with_other_units_and_copied_rows(table):
    from brainroam.data.check import check_cohort

    rows, here = table.series, table.table["site"] == "S2"
    rows = [np.abs(x) + 5 for x in rows]
    rows = [x / 10 if of_site else x for x, of_site in zip(rows, here, strict=True)]
    rows[7] = rows[3]
    found = {finding.code: finding for finding in check_cohort(table.with_series(rows)).findings}
    assert found["other-units"].site == "S2" and "p3" in found["identical-people"].message


def test_the_penalty_of_a_table_is_weaker_where_a_large_factor_hides_the_effect():
    """Everybody differs most in one factor, which says nothing: a strong penalty sees little else."""
    rng, n = np.random.default_rng(1), 240
    people = table_cohort(n_sites=6, n_per_site=n // 6, n_columns=4).table
    y = people["label"].to_numpy()
    values = 0.5 * rng.normal(size=(n, 60)) + 3 * rng.normal(size=(n, 1)) + np.outer(y, rng.normal(0, 0.12, 60))
    cohort = Cohort(list(values[:, None]), people, measure="table")
    training, held_out = cohort.select(["S0", "S1", "S2", "S3"]), cohort.select(["S4", "S5"])
    one = fitted("ensemble", training).model_.members_["table"]
    assert sum(share for (_, penalty), share in one.shares_.items() if penalty < 1) > 0.9
    score, strong = one.score(held_out), EdgeRidge(covariates=("mean_fd",)).fit(training).score(held_out)
    assert np.corrcoef(score, held_out.labels)[0, 1] > np.corrcoef(strong, held_out.labels)[0, 1] + 0.1


@pytest.mark.parametrize("method", ["core", "scaffold-ridge"])
def test_a_scaffold_of_a_table_of_many_tiny_sites_is_not_nearly_empty(method):
    """Where sites have four people signs hardly agree: a threshold of agreement leaves a few columns, or none."""
    cohort = table_cohort(n_sites=50, n_per_site=4, n_columns=100, missing=0, seed=1)
    rng = np.random.default_rng(0)
    effect = rng.choice([-0.4, 0.4], 60)
    values = rng.normal(size=(len(cohort), 100))
    values[:, :60] += cohort.labels[:, None] * effect
    cohort = Cohort(list(values[:, None]), cohort.table, cohort.atlas, measure="table")
    train, new = cohort.select(cohort.sites[:40]), cohort.select(cohort.sites[40:])
    site, case = new.table["site"].to_numpy(), new.labels == 1
    pairs = np.equal.outer(site, site) & case[:, None] & ~case
    scores = {name: TunedMethod(method_info(name), "default").fit(train).score(new) for name in (method, "fc-ridge")}
    order = {name: (x[:, None] > x)[pairs].mean() for name, x in scores.items()}
    assert order[method] > order["fc-ridge"] - 0.05


@pytest.mark.filterwarnings("error")
def test_a_row_that_stands_twice_in_a_table_is_found(table):
    series = table.series
    assert find_duplicates(table) == []
    series[3] = series[50]
    twins = find_duplicates(Cohort(series, table.table, table.atlas, measure="table"))
    assert [(twin.first, twin.second, twin.kind) for twin in twins] == [("p3", "p50", "identical")]
