import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import cross_val_score

import brainroam
from brainroam.errors import DataError, UsageError
from brainroam.evaluation.splits import SiteStratifiedKFold, folds


def metadata(n: int = 90, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    site = rng.choice(["NYU1", "NYU2", "UM", "USM"], size=n)
    institution = np.where(np.char.startswith(site, "NYU"), "NYU", site)
    subject = [f"s{i}" for i in range(n)]
    return pd.DataFrame(
        {"subject": subject, "site": site, "institution": institution, "label": rng.integers(2, size=n)}
    )


@pytest.mark.parametrize("protocol", ["loso", "loio", "cv"])
def test_every_person_is_held_out_once_and_never_trained_on(protocol):
    table = metadata()
    parts = list(folds(table, protocol))
    assert sorted(np.concatenate([fold.test for fold in parts])) == list(range(len(table)))
    for fold in parts:
        assert sorted([*fold.train, *fold.test]) == list(range(len(table)))
    assert len({fold.name for fold in parts}) == len(parts)


def test_halves_are_whole_sites_tested_both_ways_in_every_repeat():
    table = metadata()
    parts = list(folds(table, "halves", n_repeats=3))
    assert [fold.name for fold in parts] == [f"halves-0{r}-{half}" for r in (1, 2, 3) for half in "AB"]
    for one, other in zip(parts[::2], parts[1::2], strict=True):
        assert np.array_equal(one.train, other.test) and np.array_equal(one.test, other.train)
        tested = set(table["site"].iloc[one.test])
        assert len(tested) == 2 and tested.isdisjoint(table["site"].iloc[one.train])
        assert sorted([*one.train, *one.test]) == list(range(len(table)))
    assert len({tuple(fold.test) for fold in parts}) > 2


def test_halves_follow_the_seed_and_more_repeats_change_no_earlier_one():
    table = metadata()
    few, many, other = (
        [fold.test.tolist() for fold in folds(table, "halves", n_repeats=n, random_state=seed)]
        for n, seed in ((2, 0), (12, 0), (12, 5))
    )
    assert few == many[:4]
    assert many != other


def test_both_halves_can_be_learned_from_where_some_sites_have_one_class():
    table = pd.DataFrame({"site": np.repeat(list("ABCDEFG"), 4), "label": np.tile([0, 1], 14)})
    table.loc[table["site"].isin(["E", "F", "G"]), "label"] = 1
    for fold in folds(table, "halves", n_repeats=20):
        assert len({"A", "B", "C", "D"} & set(table["site"].iloc[fold.train])) == 2
    with pytest.raises(DataError, match="four sites"):
        list(folds(table[table["site"] != "A"], "halves"))


def test_relatives_are_on_one_side_of_every_half():
    table = metadata()
    table["group"] = np.arange(len(table)) // 3  # families reach across sites
    for fold in folds(table, "halves", n_repeats=2):
        assert set(table["group"].iloc[fold.train]).isdisjoint(table["group"].iloc[fold.test])


def test_a_held_out_site_is_unseen_and_whole():
    table = metadata()
    for fold in folds(table, "loso"):
        assert set(table["site"].iloc[fold.test]) == {fold.name}
        assert fold.name not in set(table["site"].iloc[fold.train])


def test_sites_of_one_institution_are_held_out_together():
    table = metadata()
    held_out = {fold.name: set(table["site"].iloc[fold.test]) for fold in folds(table, "loio")}
    assert held_out == {"NYU": {"NYU1", "NYU2"}, "UM": {"UM"}, "USM": {"USM"}}


def test_a_site_with_one_class_keeps_its_fold():
    table = metadata()
    table.loc[table["site"] == "UM", "label"] = 1
    assert [fold.name for fold in folds(table, "loso")] == ["NYU1", "NYU2", "UM", "USM"]


@given(
    strata=st.lists(st.tuples(st.sampled_from("ABCDE"), st.integers(0, 1)), min_size=5, max_size=80),
    n_splits=st.integers(2, 5),
    seed=st.integers(0, 100),
)
def test_folds_share_out_every_stratum_evenly(strata, n_splits, seed):
    site, label = (np.array(column) for column in zip(*strata, strict=True))
    tests = [t for _, t in SiteStratifiedKFold(n_splits, random_state=seed).split(site, label, groups=site)]
    for members in [np.ones(len(label), bool), label == 1, *((site == s) & (label == 0) for s in "ABCDE")]:
        counts = [int(members[test].sum()) for test in tests]
        assert max(counts) - min(counts) <= 1


def test_repeats_differ_but_are_reproducible_and_independent_of_their_number():
    table = metadata()
    once, thrice = list(folds(table, "cv", n_repeats=1)), list(folds(table, "cv", n_repeats=3))
    assert [fold.name for fold in thrice[4:6]] == ["repeat1-fold5", "repeat2-fold1"]
    for a, b in zip(once, thrice, strict=False):
        assert np.array_equal(a.test, b.test)
    assert not np.array_equal(thrice[0].test, thrice[5].test)
    assert not np.array_equal(once[0].test, next(folds(table, "cv", random_state=1)).test)


def test_scikit_learn_takes_it_as_cross_validator():
    table = metadata()
    cv = SiteStratifiedKFold(n_splits=3, n_repeats=2)
    result = cross_val_score(DummyClassifier(), np.zeros((90, 1)), table["label"], groups=table["site"], cv=cv)
    assert len(result) == cv.get_n_splits() == 6


def test_errors_say_what_is_missing_and_what_to_do():
    table = metadata()
    with pytest.raises(UsageError, match="'loso'"):
        list(folds(table, "losso"))
    with pytest.raises(DataError, match="'institution'"):
        list(folds(table.drop(columns="institution").replace({"site": {"NYU2": "Oslo"}}), "loio"))
    with pytest.warns(UserWarning, match="NYU1"):  # sites that are named like one go together
        assert "NYU" in [fold.name for fold in folds(table.drop(columns="institution"), "loio")]
    with pytest.raises(DataError, match="'label'"):
        list(folds(table.assign(label=table["label"].astype(float).where(table.index != 3)), "cv"))
    with pytest.raises(DataError, match="'UM'"):
        list(folds(table[table["site"] == "UM"], "loso"))
    with pytest.raises(DataError, match="5 folds"):
        list(folds(table.head(4), "cv"))


@pytest.mark.parametrize(
    ("protocol", "column", "splitter"),
    [
        ("loso", "site", brainroam.LeaveOneSiteOut()),
        ("loio", "institution", brainroam.LeaveOneInstitutionOut()),
        ("halves", "site", brainroam.SiteHalves(n_repeats=2)),
    ],
)
def test_the_public_splitters_are_the_folds_of_a_study(protocol, column, splitter):
    table = metadata().assign(group=[f"F{i % 40}" for i in range(90)])  # families across sites
    ours = [(fold.train.tolist(), fold.test.tolist()) for fold in folds(table, protocol, n_repeats=2)]
    split = [(a.tolist(), b.tolist()) for a, b in splitter.split(table, table["label"], groups=table[column])]
    assert split == ours and len(split) == splitter.get_n_splits(table, table["label"], table[column])
    assert all(set(table["group"][train]).isdisjoint(table["group"][test]) for train, test in split)
    X, y = np.zeros((90, 1)), table["label"]
    scores = cross_val_score(DummyClassifier(), X, y, groups=table[column], cv=splitter)
    with config_context(enable_metadata_routing=True):
        routed = cross_val_score(DummyClassifier(), X, y, params={"groups": table[column]}, cv=splitter)
    assert len(scores) == len(split) and np.array_equal(scores, routed)


def test_the_public_splitters_refuse_what_would_leak():
    X, y = np.zeros((4, 1)), [0, 1, 0, 1]
    for site, noun in [(["NYU", "nyu ", "UM", "UM"], "names"), (["A", None, "B", "B"], "missing"), (None, "groups")]:
        with pytest.raises((DataError, UsageError), match=noun):
            list(brainroam.LeaveOneSiteOut().split(X, y, groups=site))
    for splitter in (brainroam.LeaveOneSiteOut(), brainroam.SiteHalves()):
        with pytest.raises(ValueError, match="inconsistent"):
            list(splitter.split(X, y, groups=["A", "B", "C"]))
    split = brainroam.LeaveOneInstitutionOut(by_name=True).split(X, y, groups=["UM_1", "UM_2", "A", "B"])
    assert [test.tolist() for _, test in split] == [[2], [3], [0, 1]]


def test_sites_are_halved_without_labels_and_folds_by_class_ask_for_them():
    site = np.repeat(list("ABCDE"), 3)
    for train, test in brainroam.SiteHalves(n_repeats=3).split(np.zeros((15, 1)), groups=site):
        assert set(site[train]).isdisjoint(site[test]) and len(train) + len(test) == 15
        assert abs(len(set(site[train])) - len(set(site[test]))) == 1
    with pytest.raises(DataError, match="four sites"):
        list(brainroam.SiteHalves().split(np.zeros((6, 1)), groups=site[:6]))
    with pytest.raises(UsageError, match="need y"):
        list(SiteStratifiedKFold().split(np.zeros((15, 1)), groups=site))
