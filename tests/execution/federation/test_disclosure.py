"""Attacks on what leaves a hospital, written down as whoever holds the files would carry them out; each must fail."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import FastICA

import brainroam
from brainroam.core.connectivity import cohort_edges
from brainroam.core.site_summary import SiteProducts, own_residuals
from brainroam.errors import SummaryError, UsageError
from brainroam.execution.federation import answer
from brainroam.execution.federation.disclosure import (
    disclosable_covariates,
    disclosable_edges,
    drawn_in,
    recognisable,
    singled_out,
)
from brainroam.execution.federation.files import REQUEST, Message, Settings
from brainroam.execution.federation.ledger import Ledger

REAL = "CMU", "CALTECH", "OHSU", "SBL"


@pytest.fixture(scope="module")
def hospital():
    return brainroam.make_cohort(n_sites=2, n_per_site=60, n_rois=16, seed=3).select(["S01"])


def with_column(cohort, values, name="special"):
    return cohort.with_columns(pd.DataFrame({name: np.asarray(values, dtype=float)})).using(["age", "sex", name])


def request_to(cohort, number, arrays, covariates=("age", "sex"), settings=None, sites=("S01", "S02", "S03")):
    first = answer(cohort)
    like = settings or first.settings, first.atlas, list(covariates)
    return Message(REQUEST, number, *like, arrays, sites=list(sites))


def asking(edges):
    return {"edges": edges, "centre": np.zeros(len(edges)), "priority": np.linspace(1, 0, len(edges))}


def guess_of(summary, cohort, person):
    """What round 1 says of somebody whose covariates are known: level plus slopes, and half of the contrast."""
    raw = cohort.covariates(summary.covariates).to_numpy(dtype=float)[person]
    arrays = summary.arrays
    share = arrays["counts"][1 - cohort.labels[person]] / arrays["counts"].sum()
    side = (2 * cohort.labels[person] - 1) * share
    return arrays["fit.intercept"] + raw @ np.nan_to_num(arrays["fit.coef"]) + side * arrays["contrast"]


def told_of(summary, cohort, person):
    """How the guess goes along with the person's own deviation from everybody else."""
    edges = cohort_edges(cohort, "log", 0.7, True)
    usual = np.nanmean(np.delete(edges, person, axis=0), axis=0)
    known = np.isfinite(guess := guess_of(summary, cohort, person)) & np.isfinite(edges[person])
    return np.corrcoef((guess - usual)[known], (edges[person] - usual)[known])[0, 1]


def test_one_bearer_of_a_level_is_not_told(hospital):
    alone = with_column(hospital, np.eye(60)[7])
    summary = answer(alone)
    assert "fewer than 5" in summary.withheld["special"]
    assert np.isnan(summary.arrays["covariate_mean"][:, 2]).all()
    assert np.isnan(summary.arrays["fit.coef"][2]).all()
    assert not summary.arrays["covariate_scatter"][2].any()
    assert told_of(summary, alone, 7) < 0.8


@pytest.mark.parametrize("far", [60.0, 1.0, -1e4])
def test_one_outlier_in_a_numeric_column_is_not_told(hospital, far):
    volumes = np.random.default_rng(0).normal(200, 1, 60).round(2)
    volumes[7] = far
    alone = with_column(hospital, volumes)
    table, why = disclosable_covariates(alone.covariates(), alone.labels, 5)
    assert "special" in why
    assert table["special"].isna().all() or table["special"].min() > 190
    assert told_of(answer(alone), alone, 7) < 0.8


def test_cells_of_two_columns_and_of_class_hold_the_count(hospital):
    y, rng = hospital.labels, np.random.default_rng(0)
    table = pd.DataFrame({"sex": np.tile([0, 1], 30)})
    table["left"] = np.where(table["sex"] == 0, rng.permutation(np.tile([0, 1], 30)), 0)  # one left-handed woman
    table.loc[1, "left"] = 1
    assert set(disclosable_covariates(table, rng.permutation(np.tile([0, 1], 30)), 5)[1]) == {"left"}
    treated = np.where(y == 0, rng.permuted(np.tile([0, 1], 30)), 0)
    treated[np.flatnonzero(y == 1)[:2]] = 1  # two cases of the level
    assert "treated" in disclosable_covariates(pd.DataFrame({"treated": treated}), y, 5)[1]
    unknown = pd.DataFrame({"dose": np.where(np.arange(60) < 3, 1.0, np.nan)})
    assert "dose" in disclosable_covariates(unknown, y, 5)[1]


def test_leverage_stays_below_the_bound_at_every_edge(hospital):
    """By the definition: how far the told numbers move when one person's value does, at every edge."""
    table, y = hospital.covariates(), hospital.labels
    told, _ = disclosable_covariates(table.reset_index(drop=True), y, 5)
    design = np.column_stack([np.ones(60), told.to_numpy(), y])
    hat = design @ np.linalg.pinv(design)
    assert np.diag(hat).max() <= 0.3
    edges = cohort_edges(hospital, "log", 0.7, True)
    assert not singled_out(edges, told, y, 1.345, 5).any()
    assert singled_out(edges, told, y, 0.01, 5).any()  # a median regression passes through single people
    few = np.where((np.arange(60)[:, None] < 52) & (y == 1)[:, None] & (np.arange(len(edges.T)) < 4), np.nan, edges)
    assert singled_out(few, told, y, 1.345, 5)[:4].all()


def test_a_small_site_with_few_on_an_edge_drops_it(hospital):
    series = [x * np.r_[float(i < 3), np.ones(15)] for i, x in enumerate(hospital.series)]
    part = brainroam.Cohort(series, hospital.table)
    summary = answer(part)
    assert np.isnan(summary.arrays["fit.intercept"][:15]).all()
    assert np.isnan(summary.arrays["contrast"][:15]).all()
    assert summary.withheld["edges"].startswith("15 ")


def test_who_lacks_a_region_is_not_found_in_the_products():
    """The row of F that vanishes on the edges somebody lacks is that person's residual, where it is the only one."""
    cohort = brainroam.make_cohort(n_sites=2, n_per_site=28, n_rois=40, seed=3).select(["S01"])
    series = [x * np.r_[float(i != 7), np.ones(39)] for i, x in enumerate(cohort.series)]
    cohort = brainroam.Cohort(series, cohort.table, covariates=[])
    edges, asked = cohort_edges(cohort, "log", 0.7, True), np.arange(250)
    nothing = pd.DataFrame(index=range(28))
    residuals = np.nan_to_num(own_residuals(edges[:, asked], nothing, 1.345)[1])

    def found(factor):
        rows = np.linalg.svd(factor[:, :39])[0].T @ factor  # those that vanish on the 39 edges come last
        return max(abs(np.corrcoef(row, residuals[7])[0, 1]) for row in rows if row.std() > 1e-9)

    open_ = SiteProducts.of(asked, edges[:, asked], cohort.labels, nothing, 1.345)
    assert found(open_.factor) > 0.99
    request = request_to(cohort, 2, asking(asked), covariates=[])
    sent = answer(cohort, request).arrays
    assert np.isnan(sent["sums"][:, :39]).all()
    assert np.abs(sent["factor"][:, :39]).max() < 1e-12
    assert not recognisable(residuals[:, 39:], np.isnan(edges[:, 39:250]), 5).any()


@pytest.mark.filterwarnings("ignore:FastICA did not converge")
def test_products_are_told_on_few_edges_for_few_people():
    """With many edges and few people, independent components of the products are the residuals of single people."""
    rng = np.random.default_rng(0)
    people = rng.standard_t(8, size=(20, 6000))  # tails like those of residuals over edges

    def found(factor):
        parts = (
            FastICA(19, whiten="unit-variance", random_state=0, max_iter=100, tol=0.01)
            .fit_transform(factor[:, factor.any(axis=0)].T)
            .T
        )
        shown = people[:, factor.any(axis=0)]
        return np.median(np.abs(np.corrcoef(parts, shown)[:19, 19:]).max(axis=0))

    turned = np.linalg.qr(rng.normal(size=(20, 20)))[0] @ (people - people.mean(axis=0))
    assert found(turned) > 0.9
    asked = np.arange(6000)
    kept = disclosable_edges(asked, rng.random(6000), np.empty(0, dtype=int), 20)
    assert kept.sum() == 200
    assert found(np.where(kept, turned, 0)) < 0.6
    again = disclosable_edges(asked, rng.random(6000), asked[kept], 20)
    np.testing.assert_array_equal(again, kept)


def test_chosen_coefficients_bring_no_column_back(hospital):
    hiv = with_column(hospital, np.eye(60)[7] + np.eye(60)[8])
    reading = {"0.edges": np.array([0]), "0.weights": np.array([1.0]), "0.mean_intercept": np.zeros(1)}
    moments = {"0.covariate_mean": np.zeros(3), "0.covariate_std": np.ones(3)}
    reading |= moments | {"0.mean_coef": np.array([[0.0], [0.0], [-1e9]])}
    request = request_to(hiv, 3, reading, ["age", "sex", "special"])
    told = answer(hiv, request).arrays
    assert np.abs(told["mean"]).max() < 10
    assert np.abs(told["bins"][:, 2]).max() < 10
    with pytest.raises(SummaryError, match="special"):
        answer(hospital.using(["age", "sex"]), request)


def test_scores_that_single_somebody_out_are_drawn_in():
    rng = np.random.default_rng(0)
    score = rng.normal(size=40)
    assert drawn_in(score, 5) is score
    for n in (1, 2, 4):
        apart = score + 50 * (np.arange(40) < n)
        assert drawn_in(apart, 5).max() < 5


def test_nobody_stands_apart_in_the_scores_of_a_class():
    """A mean score of ten cases is not mostly that of one, who is ordinary among forty others."""
    rng = np.random.default_rng(0)
    cases = np.arange(50) < 10
    score = np.where(cases, 0.1, 2.0) * rng.normal(size=50)
    score[0] = 4.0
    assert drawn_in(score, 5) is score
    told = drawn_in(score, 5, [cases, ~cases])
    assert told[0] < 0.3
    np.testing.assert_array_equal(told[~cases], score[~cases])


def test_round_one_fixes_people_settings_and_covariates(hospital, tmp_path):
    plain = hospital.using(["age"])
    rounds = asking(np.arange(20))

    def send(cohort, request=None, **options):
        return answer(cohort, request, ledger=Ledger(tmp_path, "S01"), **options)

    asked = request_to(plain, 2, rounds, ["age"])
    with pytest.raises(SummaryError, match="record"):
        send(plain, asked)
    first = send(plain)
    again = send(plain)
    assert all(np.array_equal(first.arrays[name], again.arrays[name], equal_nan=True) for name in first.arrays)
    with pytest.raises(SummaryError, match="covariates"):
        send(hospital)
    with pytest.raises(SummaryError, match="huber_k"):
        send(plain, request_to(plain, 2, rounds, ["age"], Settings(huber_k=0.5)))
    with pytest.raises(SummaryError, match="min_count"):
        send(plain, asked, min_count=3)
    with pytest.raises(SummaryError, match="1 of them"):
        send(plain.subset(range(1, 60)), asked)
    with pytest.raises(SummaryError, match="1 people"):
        send(plain.subset(range(1, 60)))
    swapped = plain.with_columns(plain.table[["label"]].where(np.arange(60)[:, None] > 0, 1 - plain.table[["label"]]))
    with pytest.raises(SummaryError, match="gone"):
        send(swapped, asked)
    for start in (0, 1, 2):
        send(plain, request_to(plain, 2, asking(np.arange(start, 20)), ["age"]))
    with pytest.raises(SummaryError, match="answers"):
        send(plain, request_to(plain, 2, asking(np.arange(3, 20)), ["age"]))
    strange = {"0.edges": np.array([99]), "0.weights": np.ones(1), "0.mean_intercept": np.zeros(1)}
    strange |= {"0.mean_coef": np.zeros((1, 1)), "0.covariate_mean": np.zeros(1), "0.covariate_std": np.ones(1)}
    with pytest.raises(SummaryError, match="ask"):
        send(plain, request_to(plain, 3, strange, ["age"]))
    send(plain.subset(range(6, 60)))  # six have gone: the difference is of as many as a mean may be


@pytest.mark.parametrize(
    "way",
    [
        lambda all_of: [all_of, all_of.subset(range(6, 60)), all_of.subset(range(1, 60))],  # back by a way round
        lambda all_of: [all_of, in_months(all_of).subset(range(1, 60))],  # another table of the same people
        lambda all_of: [all_of, renamed(all_of).subset(range(1, 60))],
        lambda all_of: [many_scans(all_of), many_scans(all_of).subset(range(6, 60))],  # six scans of one person
    ],
)
def test_no_two_first_rounds_differ_by_a_few_people(hospital, tmp_path, way):
    *told, last = way(hospital.using(["age"]))
    for cohort in told:
        answer(cohort, ledger=Ledger(tmp_path, "S01"))
    with pytest.raises(SummaryError, match="1 people"):
        answer(last, ledger=Ledger(tmp_path, "S01"))


def test_the_same_people_with_another_table_are_told_by_the_same_columns(hospital, tmp_path):
    answer(hospital.using(["age"]), ledger=Ledger(tmp_path, "S01"))
    with pytest.raises(SummaryError, match="covariates"):
        answer(in_months(hospital).using(["age", "sex"]), ledger=Ledger(tmp_path, "S01"))
    answer(in_months(hospital).using(["age"]), ledger=Ledger(tmp_path, "S01"))


def test_a_hospital_some_of_whose_people_have_no_known_age_keeps_a_record(hospital, tmp_path):
    gaps = hospital.with_columns(hospital.table[["age"]].where(np.arange(60)[:, None] > 0)).using(["age"])
    answer(gaps, ledger=Ledger(tmp_path, "S01"))
    answer(gaps, request_to(gaps, 2, asking(np.arange(20)), ["age"]), ledger=Ledger(tmp_path, "S01"))


def in_months(cohort):
    return cohort.with_columns(cohort.table[["age"]] * 12)


def renamed(cohort):
    return brainroam.Cohort(cohort.series, cohort.table.assign(subject=[f"x{k}" for k in range(len(cohort))])).using(
        ["age"]
    )


def many_scans(cohort):
    who = ["one" if k < 6 else f"p{k}" for k in range(len(cohort))]
    label = np.where(np.arange(len(cohort)) < 6, cohort.labels[0], cohort.labels)
    return cohort.with_columns(pd.DataFrame({"person": who, "label": label}))


def test_noise_is_the_same_for_the_same_request(hospital, tmp_path):
    from brainroam.execution.federation import Protection

    def send():
        ledger = Ledger(tmp_path, "S01")
        return answer(hospital.using([]), protection=Protection(1.0), ledger=ledger).arrays["contrast"]

    np.testing.assert_array_equal(send(), send())


def test_the_count_goes_up_only(hospital):
    with pytest.raises(UsageError, match="min-count"):
        answer(hospital, min_count=2)
    assert answer(hospital, min_count=12).min_count == 12


def test_the_left_hander_of_real_sites_is_not_recovered(abide_root):
    """One left-hander each at CMU, CALTECH, OHSU and SBL, where they were recovered to the last digit."""
    table = pd.read_csv(next(abide_root.glob("Phenotypic*.csv")))
    left = set(table.loc[table["HANDEDNESS_CATEGORY"] == "L", "SUB_ID"].astype(int))
    cohort, tried = brainroam.load_cohort(abide_root, atlas="aal"), 0
    for name in set(REAL) & set(cohort.sites):
        site = cohort.select([name])
        hand = site.table["subject"].str[-7:].astype(int).isin(left).to_numpy(dtype=float)
        if hand.sum() != 1:
            continue
        site, person, tried = with_column(site, hand, "left"), int(hand.argmax()), tried + 1
        summary = answer(site, min_per_class=5)
        assert "left" in summary.withheld
        assert told_of(summary, site, person) < 0.75
    assert tried


def test_several_scans_of_a_person_count_once(hospital):
    """Five scans of one left-hander are one left-hander, and a person's scans are told as their mean."""
    twice = hospital.concat(_renamed(hospital, "again"))
    scans = twice.with_columns(pd.DataFrame({"person": list(hospital.table["subject"]) * 2}))
    assert answer(scans).arrays["counts"].tolist() == answer(hospital).arrays["counts"].tolist()
    one, rest = hospital.subset([0]), hospital
    for k in range(5):
        rest = rest.concat(_renamed(one, f"scan{k}"))
    person = [*hospital.table["subject"], *[hospital.table["subject"][0]] * 5]
    left = np.r_[1, np.zeros(len(hospital) - 1), np.ones(5)]
    scans = with_column(rest.with_columns(pd.DataFrame({"person": person})), left)
    assert "dropped" in answer(scans).withheld["special"]


def _renamed(cohort, word):
    noise = np.random.default_rng(len(word))
    series = [x + 0.1 * noise.normal(size=x.shape) for x in cohort.series]
    table = cohort.table.assign(subject=[f"{name}-{word}" for name in cohort.table["subject"]])
    return brainroam.Cohort(series, table, cohort.atlas)


@pytest.mark.parametrize("called", ["s01", "Hospital B"])
def test_people_are_held_against_every_record_of_the_folder_whatever_a_summary_is_called(hospital, tmp_path, called):
    answer(hospital, ledger=Ledger(tmp_path, "S01"))
    fewer = hospital.subset(range(1, 60))
    for other in (fewer, renamed(fewer), in_months(fewer)):
        with pytest.raises(SummaryError, match="people"):
            answer(other, name=called, ledger=Ledger(tmp_path, called))
    with pytest.raises(SummaryError, match="under two names"):
        answer(hospital, name=called, ledger=Ledger(tmp_path, called))
    assert not Ledger(tmp_path, called).path.exists()


def test_the_same_people_as_another_block_are_held_to_the_first(hospital, tmp_path):
    answer(hospital, ledger=Ledger(tmp_path, "S01"))
    with pytest.raises(SummaryError, match="under two names"):
        answer(hospital, ledger=Ledger(tmp_path, "S01"), block="rest")
    louder = brainroam.Cohort([x + np.arange(len(x))[:, None] for x in hospital.series], hospital.table)
    with pytest.raises(SummaryError, match="1 of those are missing"):
        answer(louder.subset(range(1, 60)), ledger=Ledger(tmp_path, "S01"), block="task")
    answer(louder, ledger=Ledger(tmp_path, "S01"), block="task")


def test_another_hospital_in_the_same_folder_is_no_difference(hospital, tmp_path):
    answer(hospital, ledger=Ledger(tmp_path, "S01"))
    other = brainroam.make_cohort(n_sites=2, n_per_site=60, n_rois=16, seed=3).select(["S02"])
    answer(other, ledger=Ledger(tmp_path, "S02"))


def test_of_requests_answered_at_once_three_are(hospital, tmp_path):
    """Each reads the record after the one before has written it."""
    answer(hospital, ledger=Ledger(tmp_path, "S01"))
    requests = [request_to(hospital, 2, asking(np.arange(start, 20))) for start in range(8)]

    def send(request):
        try:
            return answer(hospital, request, ledger=Ledger(tmp_path, "S01"))
        except SummaryError:
            return None

    with ThreadPoolExecutor(8) as at_once:
        assert sum(found is not None for found in at_once.map(send, requests)) == 3
    assert len(Ledger(tmp_path, "S01").content["answers"]) == 4
