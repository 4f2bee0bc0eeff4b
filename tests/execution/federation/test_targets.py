"""Hospitals that predict a number, or tell several classes apart: the same model, the same rules."""

import json

import numpy as np
import pandas as pd
import pytest
from hospital_rounds import round_of

import brainroam
from brainroam.data.target.order import class_aucs, correlations
from brainroam.data.target_column import with_target
from brainroam.errors import SummaryError, UsageError
from brainroam.execution.federation import Pool, Protection, answer
from brainroam.execution.federation.disclosure import disclosable_steps
from brainroam.execution.federation.files import SUMMARY, read_message
from brainroam.execution.federation.model import FIXED
from brainroam.execution.federation.show import describe_file
from brainroam.methods.predictions import predictions
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod
from brainroam.report.pool_page import write_pool_page


@pytest.fixture(scope="module")
def people():
    """Four hospitals: a severity whose level differs between them, and three diagnoses, one of which the last lacks.

    Grades are a severity in seven steps, of which the first hospital lacks the lowest two, and the last the highest.
    """
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=120, n_rois=12, seed=2).using(["age"])
    rng, site = np.random.default_rng(0), cohort.table["site"].astype("category").cat.codes.to_numpy()
    dx = np.array(["HC", "MDD", "SCZ"])[cohort.labels * (1 + (rng.random(len(cohort)) < 0.5) * (site < 3))]
    severity = 2.0 * cohort.labels + rng.normal(size=len(cohort)) + 4 * site
    noisy = 4.0 + 1.5 * cohort.labels + rng.normal(scale=1.3, size=len(cohort))
    grade = np.clip(np.rint(noisy), np.where(site == 0, 3, 1), np.where(site == 3, 6, 7)).astype(int)
    grade[(site == 1) & (grade == 4)] = 5  # a hole in the middle: codes of that site alone would be other numbers
    return cohort.with_columns(pd.DataFrame({"dx": dx, "severity": severity, "grade": grade}))


def pooled(cohort, folder, told=None):
    """The central fit, of the people as they are told; the pool of all sites after its rounds is in the folder."""
    for number in (1, 2, 3):
        pool = Pool(folder / "pool")
        pool.receive(round_of(cohort, folder, number, folder / "pool"))
        progress = pool.advance()
    assert progress.next_round == 4
    # Of a number, what a fit in one place would choose at held-out sites is fixed here: thresholds and penalties.
    fixed = {"tau_percentile": [80], "penalties": [3, 10, 30]} if cohort.target.is_number else {}
    return TunedMethod(method_info("core"), "default", **FIXED, **fixed).fit(cohort if told is None else told)


@pytest.fixture(scope="module")
def numbers(people, tmp_path_factory):
    cohort, folder = with_target(people, "severity"), tmp_path_factory.mktemp("numbers")
    return cohort, folder, pooled(cohort, folder)


@pytest.fixture(scope="module")
def orders(people, tmp_path_factory):
    """Hospitals tell joined steps where few people share one; the fit in one place is given these."""
    folder, grade = tmp_path_factory.mktemp("orders"), people.table.groupby("site")["grade"]
    joined = grade.transform(lambda steps: disclosable_steps(steps.to_numpy(dtype=float), 5)).astype(int)
    assert 0 < (joined != people.table["grade"]).sum() < 30
    told = with_target(people.with_columns(pd.DataFrame({"grade": joined})), "grade:ordered")
    return told, folder, pooled(with_target(people, "grade:ordered"), folder, told)


@pytest.fixture(scope="module")
def classes(people, tmp_path_factory):
    cohort, folder = with_target(people, "dx"), tmp_path_factory.mktemp("classes")
    return cohort, folder, pooled(cohort, folder)


def test_a_number_pooled_equals_one_fit_in_one_place(numbers):
    cohort, folder, central = numbers
    model = load_method(folder / "pool" / "model", cohort)[0]
    one, other = central.model_.core_, model.model_.core_
    np.testing.assert_array_equal(one.scaffold_.edges, other.scaffold_.edges)
    np.testing.assert_allclose(one.scaffold_.consensus, other.scaffold_.consensus, atol=1e-8)
    np.testing.assert_allclose(central.score(cohort), model.score(cohort), atol=2e-6)
    assert vars(model.calibration_) == pytest.approx(vars(central.calibration_), abs=1e-5)
    for name, shift in central.shifts_.items():
        assert vars(model.shifts_[name]) == pytest.approx(vars(shift), abs=1e-4)
    scores, site = pd.read_csv(folder / "pool" / "scores.csv", index_col="site"), cohort.table["site"].to_numpy()
    for name in cohort.sites:
        here = site == name
        r = correlations(cohort.targets[here], central.inner_scores_[here])
        assert scores.loc[name, "r"] == pytest.approx(float(r), abs=1e-6)
    assert any("correlation is expected" in line for line in write_pool_page(folder / "pool"))


def test_an_order_pooled_equals_one_fit_in_one_place(orders):
    cohort, folder, central = orders
    assert cohort.target.classes == tuple("1234567") and central.target_.classes == tuple("1234567")
    model = load_method(folder / "pool" / "model", cohort)[0]
    assert model.target_ == cohort.target
    np.testing.assert_allclose(central.score(cohort), model.score(cohort), atol=2e-6)
    assert vars(model.calibration_) == pytest.approx(vars(central.calibration_), abs=1e-5)
    for name, shift in central.shifts_.items():
        assert vars(model.shifts_[name]) == pytest.approx(vars(shift), abs=1e-4)
    one, other = (predictions(each, cohort) for each in (central, model))
    np.testing.assert_allclose(one["predicted"], other["predicted"], atol=1e-5)
    assert (one["level"] == other["level"]).mean() > 0.99 and set(other["level"]) <= set(cohort.target.classes)
    scores, site = pd.read_csv(folder / "pool" / "scores.csv", index_col="site"), cohort.table["site"].to_numpy()
    for name in cohort.sites:
        counts = np.bincount(cohort.targets[site == name].astype(int), minlength=7)
        assert scores.loc[name, [f"n_{step}" for step in cohort.target.classes]].tolist() == counts.tolist()
    assert any("steps at the next site" in line for line in write_pool_page(folder / "pool"))


def test_no_step_of_fewer_people_than_agreed_leaves_a_hospital(people):
    own = people.select([people.sites[3]])
    grade = own.table["grade"].to_numpy().copy()
    grade[:] = np.repeat([2, 3, 4, 6], [50, 40, 26, 4])  # four people at 6
    few = with_target(own.with_columns(pd.DataFrame({"grade": grade})), "grade:ordered")
    found = answer(few)
    assert found.arrays["steps"].tolist() == [[2, 50], [3, 40], [4, 30]]
    assert found.target["classes"] == [] and "fewer than 5" in found.withheld["grade"]
    assert answer(few, min_count=4).arrays["steps"].tolist() == [[2, 50], [3, 40], [4, 26], [6, 4]]
    nothing_left = own.with_columns(pd.DataFrame({"grade": np.repeat([2, 3, 1], [116, 2, 2])}))
    with pytest.raises(SummaryError, match="fewer than 5 people differ in grade"):
        answer(with_target(nothing_left, "grade:ordered"))
    halves = with_target(own.with_columns(pd.DataFrame({"grade": grade / 2})), "grade:ordered")
    with pytest.raises(UsageError, match="number them 1, 2, 3"):
        answer(halves)
    words = own.with_columns(pd.DataFrame({"grade": np.array(["mild", "moderate", "severe"])[np.arange(len(own)) % 3]}))
    with pytest.raises(UsageError, match="column of their own"):
        answer(with_target(words, "grade:ordered=mild,moderate,severe"))


def test_steps_that_are_no_neighbours_or_not_those_of_the_counts_are_refused(people, tmp_path):
    far = people.with_columns(pd.DataFrame({"grade": 5 * people.table["grade"]}))
    files = round_of(with_target(far, "grade:ordered"), tmp_path, 1, tmp_path)
    with pytest.raises(SummaryError, match="neighbouring whole numbers"):
        Pool(tmp_path / "pool").receive(files)
    told = read_message(files[0], SUMMARY)
    told.arrays["steps"][0, 1] += 1
    with pytest.raises(SummaryError, match="the people at each step"):
        read_message(told.write(tmp_path / "edited.summary"), SUMMARY)


def test_several_classes_pooled_equal_one_fit_in_one_place(classes):
    cohort, folder, central = classes
    model = load_method(folder / "pool" / "model", cohort)[0]
    one, other = central.model_.core_, model.model_.core_
    np.testing.assert_array_equal(one.scaffold_.edges, other.scaffold_.edges)
    np.testing.assert_allclose(central.score(cohort), model.score(cohort), atol=2e-6)
    scores, site = pd.read_csv(folder / "pool" / "scores.csv", index_col="site"), cohort.table["site"].to_numpy()
    for name in cohort.sites:
        here = site == name
        aucs = class_aucs(cohort.targets[here].astype(int), central.inner_scores_[here])
        np.testing.assert_allclose(scores.loc[name, [f"auc_{c}" for c in ("HC", "MDD", "SCZ")]], aucs, atol=1e-9)
    near = model.calibration_(central.inner_scores_) - central.calibration_(central.inner_scores_)
    assert np.abs(near).mean() < 0.03  # made-up people with the same means and products
    assert any("each class against the rest" in line for line in write_pool_page(folder / "pool"))


@pytest.mark.parametrize(
    ("kind", "measures"), [("numbers", ["r", "mean_error"]), ("orders", ["r", "mean_error"]), ("classes", ["auc"])]
)
def test_a_pooled_model_foretells_what_a_fit_in_one_place_does(kind, measures, request):
    _, folder, central = request.getfixturevalue(kind)
    new = brainroam.make_cohort(n_sites=5, n_per_site=40, n_rois=12, seed=2).using(["age"]).select(["S05"])
    told, here = (
        brainroam.foretell(model, new).table.set_index("measure").loc[measures, ["expected", "low_95", "high_95"]]
        for model in (folder / "pool" / "model", central)
    )
    np.testing.assert_allclose(told, here, atol=1e-4)


@pytest.mark.parametrize("kind", ["numbers", "orders", "classes"])
def test_no_number_of_a_person_is_in_a_file_and_all_of_it_is_told(kind, request):
    cohort, folder, _ = request.getfixturevalue(kind)
    own = cohort.select([cohort.sites[0]])
    for number in (1, 2, 3):
        path = folder / f"{cohort.sites[0]}-{number}.summary"
        arrays = read_message(path, SUMMARY).arrays
        for key, value in arrays.items():
            assert len(own) not in value.shape or key == "factor", key
            if kind == "orders" and key == "steps":
                assert value[:, 1].min() >= 5
            if kind == "numbers" and key not in ("edges", "counts", "fit.n_people"):
                assert not np.isin(value, own.targets).any(), key
        words = " ".join(describe_file(path))
        assert all(name in words for name in ("counts", "Not in it", *([] if number == 2 else ["mean"])))
        body = path.read_bytes().partition(b"\n")[2]
        header = json.loads(json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]["header"])
        assert header["target"]["name"] == cohort.target.name


def test_whoever_is_extreme_in_a_number_is_drawn_in_or_nothing_is_written(people):
    own = people.select([people.sites[0]])
    severity = own.table["severity"].to_numpy().copy()
    severity[0] = 60.0
    one = with_target(own.with_columns(pd.DataFrame({"severity": severity})), "severity")
    found = answer(one)
    assert "severity" in found.withheld
    _, low, *_, high, _ = np.sort(severity)
    assert found.arrays["target"][0] == pytest.approx(severity.clip(low, high).mean())
    severity = np.where(np.arange(len(own)) < 4, severity, 0.0)
    with pytest.raises(SummaryError, match="differ"):
        answer(with_target(own.with_columns(pd.DataFrame({"severity": severity})), "severity:number"))


def test_few_people_are_refused_and_small_classes_left_out(people):
    number, dx = with_target(people, "severity"), with_target(people, "dx")
    with pytest.raises(SummaryError, match="19 people"):
        answer(number.select([people.sites[0]]).subset(np.arange(19)))
    own = dx.select([people.sites[0]])
    code = own.targets.astype(int)
    few = own.subset(np.r_[np.flatnonzero(code != 2), np.flatnonzero(code == 2)[:4]])
    found = answer(few)
    assert found.target["classes"] == ["HC", "MDD"] and "fewer than the 10" in found.withheld["dx SCZ"]
    assert found.arrays["counts"].sum() == (code != 2).sum()
    with pytest.raises(UsageError, match="noise"):
        answer(number.select([people.sites[0]]).using([]), protection=Protection(10.0))


def test_another_target_is_refused(numbers, people, tmp_path):
    cohort, folder, _ = numbers
    other = answer(people.select([people.sites[1]])).write(tmp_path / "other.summary")
    with pytest.raises(SummaryError, match="two classes"):
        Pool(tmp_path / "pool").receive([folder / f"{cohort.sites[0]}-1.summary", other])
