"""Whom a model has never seen the like of."""

import json

import numpy as np
import pytest

import brainroam
from brainroam import make_cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.data.target.sites_two import balanced_metrics
from brainroam.errors import ModelFileError
from brainroam.methods.familiarity import Familiarity, known_share, sketch, without_rare_edges
from brainroam.methods.registry import method_info
from brainroam.methods.saving import save_method
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.model_files import load_model


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(n_sites=5, n_per_site=30, n_rois=12)


@pytest.fixture(scope="module")
def known(cohort):
    return Familiarity.of(cohort.select(cohort.sites[:4]))


def changed(cohort, **columns):
    person = cohort.select(["S05"]).subset([0])
    return person.with_columns(person.table.assign(**columns)[list(columns)])


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("age", 90.0, "age 90 is outside"),
        ("mean_fd", 4.0, "moved 4.00 mm"),
        ("tr", 0.01, "less than 99 % of training"),
    ],
)
def test_one_strange_thing_is_named_and_nothing_else(cohort, known, column, value, said):
    (reasons,) = known.flags(changed(cohort, **{column: value}))
    assert said in reasons and ";" not in reasons


def test_unknown_is_not_strange(cohort, known):
    assert known.flags(changed(cohort, age=np.nan, mean_fd=np.nan)) == [""]


def test_few_training_people_are_flagged_and_more_of_a_new_site(cohort, known):
    trained = known.flags(cohort.select(cohort.sites[:4]))
    assert np.mean([text != "" for text in trained]) < 0.1
    assert np.mean([text != "" for text in known.flags(cohort.select(["S05"]))]) < 0.4


def test_a_scan_swamped_by_an_artefact_is_far_from_everybody(cohort, known):
    person = cohort.select(["S05"]).subset([0])
    swamped = person.series[0] + 20 * np.random.default_rng(0).normal(size=(len(person.series[0]), 1))
    assert "edges farther" in known.flags(Cohort([swamped], person.table))[0]


def test_regions_without_signal_are_counted(cohort, known):
    person = cohort.select(["S05"]).subset([0])
    dead = person.series[0].copy()
    dead[:, :2] = 0
    assert "2 regions without signal" in known.flags(Cohort([dead], person.table))[0]


@pytest.fixture(scope="module")
def model(cohort):
    return TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:4]))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x, rng: x + 20 * rng.normal(size=(len(x), 1)), "edges farther"),
        (lambda x, rng: x + 4 * rng.normal(size=x.shape), "edges resemble"),
        (lambda x, rng: x[:, rng.permutation(x.shape[1])], "edges resemble"),
    ],
    ids=["one signal in all regions", "noise", "shuffled regions"],
)
def test_people_whose_scan_is_spoiled_are_flagged_and_predicted_worse(cohort, known, model, spoil, said):
    people, rng = cohort.select(["S05"]), np.random.default_rng(0)
    spoiled = Cohort([spoil(x, rng) for x in people.series], people.table)
    flagged, usual = (np.mean([said in text for text in known.flags(here)]) for here in (spoiled, people))
    assert flagged > 0.9 and usual < 0.3
    right = []
    for here in (people, spoiled):
        called = model.calibration_.decide(model.score(here))
        right.append(balanced_metrics(here.labels, model.probability(here), called)["balanced_acc"])
    assert right[0] > 0.6 > right[1]


@pytest.mark.parametrize("alone", [1, 4])
@pytest.mark.parametrize(
    "name", ["ensemble", "core", "fc-ridge", "log-ridge", "scaffold-ridge", "tangent-ridge", "fc-logistic"]
)
def test_a_model_file_holds_no_edge_that_few_people_have(tmp_path, name, alone):
    """A region that one person has, or four, stood with that person's values in the centre of every model."""
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=16, n_rois=10, seed=2)
    series = [x * np.r_[float(i < alone), np.ones(9)] for i, x in enumerate(cohort.series)]
    cohort = Cohort(series, cohort.table, cohort.atlas)
    fixed = {"epochs": 0} if name == "core" else {}
    fitted = TunedMethod(method_info(name), "default", **fixed).fit(cohort)
    _, arrays = load_model(save_method(tmp_path / "model", fitted, cohort))
    kinds = [("pearson", 0.5, False), ("pearson", 0.5, True), ("log", 0.5, False), ("log", 0.7, True)]
    for kind in kinds:
        edges = cohort_edges(cohort, *kind)[:alone, :9]
        for told in [*edges, edges.mean(axis=0)]:
            for key, values in arrays.items():
                if values.dtype.kind == "f":
                    held = [np.isclose(values, value, rtol=0, atol=1e-9).any() for value in told]
                    assert sum(held) < 2, key
    centre = arrays["familiarity"]
    assert np.isnan(centre[:9]).all()
    assert np.isfinite(centre[9:]).all()
    assert any("fewer than 5" in note for note in fitted.notes_)


def test_edges_that_enough_people_have_leave_the_cohort_as_it_is():
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10, constant_rois=3, seed=1)
    assert without_rare_edges(cohort) == (cohort, [])


def test_six_scans_of_one_person_are_one_person():
    """A region that only the scans of one person have is nobody else's, however many scans there are."""
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=16, n_rois=10, seed=2)
    series = [x * np.r_[float(i < 6), np.ones(9)] for i, x in enumerate(cohort.series)]
    table = cohort.table.assign(person=["somebody"] * 6 + [""] * (len(cohort) - 6))
    scans = Cohort(series, table, cohort.atlas)
    assert scans.table["group"].head(6).tolist() == ["somebody"] * 6  # a person with many scans is no study arm
    assert without_rare_edges(scans)[0].missing_rois[:, 0].all()


@pytest.fixture(scope="module")
def trained():
    return make_cohort(n_sites=4, n_per_site=40, n_rois=8, seed=0)


@pytest.fixture(scope="module")
def strangers():
    return make_cohort(n_sites=4, n_per_site=40, n_rois=8, seed=1)


def training(cohort):
    return {"manifest_hash": cohort.manifest_hash, "sketch": sketch(cohort)}


def test_parts_and_mixtures_are_recognised(trained, strangers):
    known = training(trained)
    assert known_share(known, trained) == 1
    assert known_share(known, trained.subset(range(30))) == 1
    mixed = trained.subset(range(80)).concat(
        type(strangers)(strangers.series[:80], strangers.table[:80].assign(subject=[f"x{i}" for i in range(80)]))
    )
    assert known_share(known, mixed) == pytest.approx(0.5, abs=0.15)


def test_strangers_are_not_recognised(trained, strangers):
    known = training(trained)
    assert known_share(known, strangers) == 0
    assert all(known_share(known, strangers.subset(range(k, k + 8))) == 0 for k in range(0, 160, 8))


def test_a_single_person_cannot_be_told_from_a_stranger(trained, strangers):
    known = training(trained)
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(known["sketch"]), dtype=np.uint8))
    assert 0.3 < bits.mean() < 0.5
    assert known_share(known, trained.subset([5])) == known_share(known, strangers.subset([5])) == 0


def test_a_model_that_says_nothing_or_nonsense(trained):
    assert known_share({}, trained) == 0
    for nonsense in ({"sketch": "no hex"}, {"sketch": 7}, json.loads("[]")):
        with pytest.raises(ModelFileError, match="trained"):
            known_share(nonsense, trained)


def test_who_lacks_a_block_is_not_said_to_be_unlike_the_training(cohort):
    matrices = [np.corrcoef(x.T) for x in cohort.series]
    both = cohort.with_block("task", Cohort(matrices, cohort.table, measure="matrices"), "rest")
    empty = both.with_series([np.full_like(x, np.nan) if i % 7 == 3 else x for i, x in enumerate(cohort.series)])
    known = Familiarity.of(both.select(cohort.sites[:4]))
    assert not any("without signal" in flag for flag in known.flags(empty.select(["S05"])))
