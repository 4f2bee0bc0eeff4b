"""People who belong together: the column itself, and every place that splits people."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brainroam import make_cohort
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.site_statistics import site_statistics
from brainroam.data.cohort import Cohort
from brainroam.data.people import at_one_site, group_codes
from brainroam.errors import DataError
from brainroam.evaluation.splits import folds
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod, inner_folds


def siblings(n_families=20, n_sites=3, seed=0):
    """Families of two at one site, in random order."""
    rng = np.random.default_rng(seed)
    family = np.repeat([f"F{i}" for i in range(n_families)], 2)
    site = np.repeat(rng.choice([f"S{i}" for i in range(n_sites)], n_families), 2)
    order = rng.permutation(len(family))
    label = rng.integers(2, size=len(family))
    return pd.DataFrame({"site": site, "label": label, "group": family}).iloc[order].reset_index(drop=True)


def split(table, train, test):
    """Groups on both sides."""
    group = table["group"].dropna()
    return set(group[group.index.isin(train)]) & set(group[group.index.isin(test)])


def test_without_the_column_siblings_are_split_and_with_it_never():
    table = siblings()
    blind = folds(table.drop(columns="group"), "cv")
    assert sum(len(split(table, fold.train, fold.test)) for fold in blind) > 10
    for repeat in folds(table, "cv", n_repeats=3):
        assert not split(table, repeat.train, repeat.test)


@settings(deadline=None)
@given(
    people=st.lists(
        st.tuples(st.sampled_from("ABC"), st.integers(0, 1), st.none() | st.integers(0, 8)), min_size=12, max_size=60
    ),
    n_splits=st.integers(2, 4),
    seed=st.integers(0, 50),
)
def test_folds_partition_everybody_and_tear_no_group(people, n_splits, seed):
    table = pd.DataFrame(people, columns=["site", "label", "group"])
    if table["group"].isna().sum() < n_splits:
        return
    parts = list(folds(table, "cv", n_splits, random_state=seed))
    assert sorted(np.concatenate([part.test for part in parts])) == list(range(len(table)))
    for part in parts:
        assert not split(table, part.train, part.test)
        assert sorted([*part.train, *part.test]) == list(range(len(table)))


def test_whole_families_are_shared_out_evenly():
    table = siblings(60)
    parts = list(folds(table, "cv"))
    sizes = [len(part.test) for part in parts]
    assert max(sizes) - min(sizes) <= 4
    shares = [table["label"].iloc[part.test].mean() for part in parts]
    assert max(shares) - min(shares) < 0.25


def test_people_without_a_group_are_dealt_as_before():
    table = siblings()
    plain, empty = folds(table.drop(columns="group"), "cv"), folds(table.assign(group=None), "cv")
    for one, other in zip(plain, empty, strict=True):
        np.testing.assert_array_equal(one.test, other.test)


def test_relatives_of_the_held_out_site_are_left_out_of_training_and_this_is_noted():
    table = pd.DataFrame(
        {"site": list("AAABBBCCC"), "label": [0, 1, 0] * 3, "group": ["F", None, None, "F", "G", None, "G", None, None]}
    )
    found = {fold.name: fold for fold in folds(table, "loso")}
    assert found["A"].train.tolist() == [4, 5, 6, 7, 8]
    assert found["B"].train.tolist() == [1, 2, 7, 8]
    assert found["A"].note.startswith("1 person left out of training") and "also at A" in found["A"].note
    assert [fold.test.tolist() for fold in found.values()] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_family_everywhere_leaves_nobody_to_train_on():
    table = pd.DataFrame({"site": list("AABB"), "label": [0, 1, 0, 1], "group": ["F", "G", "F", "G"]})
    with pytest.raises(DataError, match="participants"):
        list(folds(table, "loso"))


def test_training_uses_a_family_at_one_site_only_and_says_so():
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=8)
    group = np.full(30, None, dtype=object)
    group[[0, 1, 10]] = "F"
    table = cohort.table.assign(group=group)
    assert np.flatnonzero(~at_one_site(table)).tolist() == [10]
    fitted = TunedMethod(method_info("fc-ridge"), "default").fit(Cohort(cohort.series, table))
    without = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.subset(np.arange(30) != 10))
    np.testing.assert_array_equal(fitted.model_.coef_, without.model_.coef_)
    assert fitted.notes_ == ["1 person left out of training: their group (family or person) has more people elsewhere"]


@pytest.mark.parametrize("n_sites", [1, 3])
def test_inner_folds_tear_no_family(n_sites):
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=8)
    family = np.random.default_rng(0).permutation(np.repeat(np.arange(15), 2)).astype(str)
    site = cohort.table["site"] if n_sites > 1 else "A"
    cohort = Cohort(cohort.series, cohort.table.assign(group=family, site=site))
    parts = list(inner_folds(cohort, 0))
    assert len(parts) > 1
    for train, held_out in parts:
        assert not split(cohort.table, train, held_out)
        assert len(set(cohort.labels[held_out])) == 2


def test_codes_follow_the_name_and_not_its_spelling():
    table = pd.DataFrame({"group": ["F1", "f1 ", None, "F2", None]})
    codes = group_codes(table).tolist()
    assert codes[0] == codes[1] and len(set(codes)) == 4
    assert group_codes(table.iloc[[0, 2, 3]]) is None
    assert group_codes(table.drop(columns="group")) is None


def test_a_column_of_diagnoses_is_no_column_of_families():
    cohort = make_cohort(n_sites=2, n_per_site=10, n_rois=8)
    arms = np.where(cohort.labels == 1, "patient", "control")
    with pytest.warns(UserWarning, match="'study_group'"):
        made = Cohort(cohort.series, cohort.table.assign(group=arms))
    assert made.table["study_group"].tolist() == arms.tolist() and "group" not in made.table


def test_the_hierarchical_bootstrap_of_a_scaffold_keeps_families_whole():
    cohort = make_cohort(n_sites=3, n_per_site=16, n_rois=8, seed=1)
    people = cohort.table
    family = people.groupby(["site", "label"]).cumcount() // 2
    names = people["site"] + people["label"].astype(str) + family.astype(str)
    together = cohort.with_columns(pd.DataFrame({"group": names}))

    def stability(people):
        statistics = site_statistics(people, people.covariates(), SiteDeconfounder())
        return statistics.scaffold(people.sites, 50, 0.5, 0.0, "hierarchical").stability

    assert stability(cohort).tobytes() != stability(together).tobytes()
