"""What check says of tables, matrices and blocks; each case is one thing done to clean people, which say nothing."""

import numpy as np
import pandas as pd
import pytest

from brainroam.data.atlas import columns_of_table
from brainroam.data.check import check_cohort, find_duplicates
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.data.target import Classes

RNG = np.random.default_rng(1)
PEOPLE = make_cohort(n_sites=4, n_per_site=12, n_rois=10, seed=4)
TABLE = PEOPLE.table.assign(mean_fd=RNG.uniform(0.05, 0.3, 48))
N = len(TABLE)
VALUES = 2.5 + 0.2 * RNG.normal(size=(N, 12))
NAMES = [f"lh_region{k}_thickness" for k in range(12)]
COMMON = np.repeat([0, 1], 5)  # two networks, whose regions share a signal
MATRICES = [np.corrcoef((x + 3 * RNG.normal(size=(len(x), 2))[:, COMMON]).T) for x in PEOPLE.series]
AT_FIRST = (TABLE["site"] == TABLE["site"].iloc[0]).to_numpy()


def table(values=VALUES, names=NAMES):
    return Cohort(list(values[:, None]), TABLE, columns_of_table(names), measure="table")


def matrices(change=lambda m, k: m):
    return Cohort([change(m, k) for k, m in enumerate(MATRICES)], TABLE, measure="matrices")


def found(cohort):
    return {finding.code: finding for finding in check_cohort(cohort).findings}


def replaced(column, values, name=None):
    changed, names = VALUES.copy(), list(NAMES)
    changed[:, column] = values
    names[column] = name or names[column]
    return table(changed, names)


def partial(m):
    precision = np.linalg.inv(m + 0.05 * np.eye(len(m)))
    return -precision / np.sqrt(np.outer(np.diag(precision), np.diag(precision))) + 2 * np.eye(len(m))


def with_some_z(m, k):
    z = np.arctanh(0.99 * m - 0.99 * np.eye(len(m)))
    z[0, 1] = z[1, 0] = 1.4
    return z if AT_FIRST[k] else m


def with_one_asymmetric(m, k):
    other = m.copy()
    other[0, 1] += 0.2 * (k == 7)
    return other


def zero_diagonal(m, k):
    return m - np.eye(len(m)) * (k < 3)


CASES = {
    "the age": (lambda: replaced(3, TABLE["age"]), "no-measure", "age"),
    "ids": (lambda: replaced(3, np.arange(N) + 50001.0, "number"), "no-measure", "ids"),
    "the diagnosis": (lambda: replaced(3, TABLE["label"] + 0.1 * RNG.normal(size=N)), "no-measure", "diagnosis"),
    "head size": (
        lambda: replaced(3, RNG.normal(1.5e6, 1e5, N), "EstimatedTotalIntraCranialVol"),
        "head-size",
        "Cranial",
    ),
    "columns twice": (lambda: replaced(3, VALUES[:, 4]), "copied-columns", "region4"),
    "zeros": (lambda: replaced(3, np.where(np.arange(N) == 5, 0.0, VALUES[:, 3])), "zero-as-missing", "region3"),
    "a site in cm": (lambda: table(VALUES / np.where(AT_FIRST, 10, 1)[:, None]), "other-units", "columns"),
    "z at one site": (lambda: matrices(with_some_z), "mixed-edges", "Fisher"),
    "partial at one site": (lambda: matrices(lambda m, k: partial(m) if AT_FIRST[k] else m), "mixed-edges", "partial"),
    "not symmetric": (lambda: matrices(with_one_asymmetric), "not-symmetric", TABLE["subject"].iloc[7]),
    "no diagonal": (lambda: matrices(zero_diagonal), "zero-diagonal", TABLE["subject"].iloc[0]),
    "a block of few": (
        lambda: PEOPLE.with_block("anatomy", table().subset(range(4, N)), "rest"),
        "lacks-block",
        TABLE["subject"].iloc[0],
    ),
    "a block of controls": (
        lambda: PEOPLE.with_block("anatomy", table().subset(np.flatnonzero(TABLE["label"] == 0)), "rest"),
        "lacks-by-class",
        "cases",
    ),
    "one block twice": (
        lambda: table().with_block("again", table(names=[f"c{k}" for k in range(12)]), "anatomy"),
        "same-blocks",
        "again",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_named(case):
    make, code, word = CASES[case]
    findings = found(make())
    assert code in findings and word in findings[code].message, findings


def test_clean_tables_and_matrices_are_left_alone():
    clean = table().with_block("fc", matrices(), "anatomy")
    assert not {code for code in found(clean) if code in {of for _, of, _ in CASES.values()}}
    assert isinstance(check_cohort(clean).to_dict()["measured"], dict) and isinstance(TABLE, pd.DataFrame)


def test_scanners_that_differ_are_no_other_units_and_many_sites_in_other_units_are_one_finding():
    rng = np.random.default_rng(0)
    shift = dict(zip(PEOPLE.sites, rng.normal(0, 1.5, (len(PEOPLE.sites), VALUES.shape[1])), strict=True))
    noisy = np.exp(rng.normal(0, 1.2, VALUES.shape) + np.array([shift[name] for name in PEOPLE.table["site"]]))
    assert "other-units" not in found(table(noisy))
    many = make_cohort(n_sites=12, n_per_site=6, n_rois=8, seed=1)
    values = rng.normal(1000, 50, (len(many), 8)) / np.where(many.table["site"].isin(many.sites[:4]), 10, 1)[:, None]
    cohort = Cohort(list(values[:, None]), many.table, measure="table")
    of_units = [finding for finding in check_cohort(cohort).findings if finding.code == "other-units"]
    assert len(of_units) == 1
    assert "4 sites" in of_units[0].message


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_strong_site_effects_are_one_sentence_with_sites_columns_and_the_likely_reason(spread):
    """Sixty columns at eight sites, each shifted by one to two standard deviations within sites."""
    rng = np.random.default_rng(0)
    people = make_cohort(n_sites=8, n_per_site=12, n_rois=8, seed=1)
    shift = rng.uniform(1, 2, (8, 60)) * rng.choice([-1, 1], (8, 60))
    scores = rng.normal(size=(96, 60)) + np.repeat(shift, 12, axis=0)
    values = np.exp(scores) if spread == 1 else np.maximum(2 + scores, 0.01)
    findings = check_cohort(Cohort(list(values[:, None]), people.table, measure="table")).findings
    sizes = [finding for finding in findings if finding.code in ("other-units", "site-effects")]
    (finding,) = sizes
    assert finding.code == "site-effects" and "of 60 columns)" in finding.message
    assert any(site in finding.message for site in people.sites) and "scanner" in finding.remedy


def test_units_are_told_beside_strong_site_effects():
    rng = np.random.default_rng(0)
    people = make_cohort(n_sites=8, n_per_site=12, n_rois=8, seed=1)
    shift = rng.uniform(1, 2, (8, 60)) * rng.choice([-1, 1], (8, 60))
    values = 10 + rng.normal(size=(96, 60)) + np.repeat(shift, 12, axis=0)
    values[:12] /= np.where(np.arange(60) < 30, 10, 1000)
    values[12:24, :5] *= np.array([6, 20, 33, 60, 400])
    codes = found(Cohort(list(values[:, None]), people.table, measure="table"))
    assert codes["other-units"].site == people.sites[0] and "60 columns are" in codes["other-units"].message
    assert f"{people.sites[1]} (5 of 60 columns)" in codes["site-effects"].message


def test_whom_to_leave_out_of_people_with_the_same_measures_is_said():
    from brainroam.cli.show import without_twins

    values = VALUES.copy()
    values[[5, 9]] = values[2]
    people = without_twins(check_cohort(table(values)).findings)
    assert set(people) <= set(TABLE["subject"].iloc[[2, 5, 9]])
    assert len(people) >= 2


def test_whose_zeros_they_are_is_named_with_the_site():
    finding = found(replaced(3, np.where(np.arange(N) == 5, 0.0, VALUES[:, 3])))["zero-as-missing"]
    assert finding.subjects == (TABLE["subject"].iloc[5],) and f"{TABLE['site'].iloc[5]} 1" in finding.message


def test_sites_whose_diagonals_alone_are_zero_are_suspected_of_other_edges():
    """Fisher's z of weak edges stay below 1, so only their diagonal tells them."""
    there = found(matrices(lambda m, k: m - np.eye(len(m)) * AT_FIRST[k]))["zero-diagonal"]
    assert there.severity == "warning" and "everybody's of" in there.message
    everywhere = found(matrices(lambda m, k: m - np.eye(len(m))))["zero-diagonal"]
    assert everywhere.severity == "note"


def test_a_scale_that_tells_two_of_three_diagnoses_apart_is_named():
    people = TABLE.assign(label=np.tile([0.0, 1.0, 2.0], N // 3))
    scale = np.round(10 + 6 * (people["label"] == 2) + RNG.normal(0, 2, N))
    values = np.column_stack([VALUES, scale])
    columns = columns_of_table([*NAMES, "complaints"])
    cohort = Cohort(list(values[:, None]), people, columns, measure="table", target=Classes("dx", ("a", "b", "c")))
    finding = found(cohort)["no-measure"]
    assert finding.severity == "error" and "complaints" in finding.message


def test_an_empty_cell_is_of_a_column_and_one_person_of_a_small_site_is_no_share():
    values = np.random.default_rng(0).normal(2.5, 0.1, (40, 5))
    values[0, 1] = np.nan
    site = np.repeat(["A", "B", "C", "D"], 10)
    people = pd.DataFrame({"subject": [f"p{k}" for k in range(40)], "site": site, "label": np.tile([0.0, 1.0], 20)})

    def found():
        cohort = Cohort(
            list(values[:, None]), people, columns_of_table([f"c{k}" for k in range(5)], "t"), measure="table"
        )
        return {f.code: f for f in check_cohort(cohort).findings}

    assert "low-coverage" not in found()
    assert "column" in found()["missing-rois"].message and "edges" not in found()["missing-rois"].remedy
    values[1, 1] = np.nan
    assert "2 of" not in found()["low-coverage"].message and "1 column" in found()["low-coverage"].message


def test_zeros_are_named_beside_a_site_in_other_units():
    """Centimetres at one site are near zero for those in millimetres."""
    values, site = np.random.default_rng(0).normal(2.5, 0.1, (120, 4)), np.repeat(["A", "B", "C", "D"], 30)
    values[site == "B"] /= 10
    values[:4, 2] = 0
    people = pd.DataFrame({"subject": [f"p{k:03}" for k in range(120)], "site": site, "label": np.tile([0.0, 1.0], 60)})
    columns = columns_of_table(["c0", "c1", "c2", "c3"], "t")
    findings = check_cohort(Cohort(list(values[:, None]), people, columns, measure="table")).findings
    (found,) = [finding for finding in findings if finding.code == "zero-as-missing"]
    assert found.subjects == ("p000", "p001", "p002", "p003") and "in 1 columns: c2" in found.message


def noisy_people(seed=0):
    """People of three sites who share a strong pattern, as people do, and are of their own beside it."""
    rng, n, p = np.random.default_rng(seed), 60, 30
    shared = rng.normal(size=(p, 4))
    series = [
        rng.normal(size=(120, 4)) @ (shared + 0.6 * rng.normal(size=(p, 4))).T + rng.normal(size=(120, p))
        for _ in range(n)
    ]
    site = np.repeat(["A", "B", "C"], n // 3)
    people = pd.DataFrame({"subject": [f"p{k}" for k in range(n)], "site": site, "label": np.tile([0.0, 1.0], n // 2)})
    return series, people


def test_one_person_under_two_ids_is_found_in_matrices_and_nobody_else():
    series, people = noisy_people()
    made = [np.corrcoef(x.T) for x in series]
    made[50] = np.round(made[3], 2)
    cohort = Cohort(made, people, measure="matrices")
    assert [(twin.first, twin.second, twin.kind) for twin in find_duplicates(cohort)] == [("p3", "p50", "alike")]
    assert "p50" in found(cohort)["alike-people"].message
    made[50] = made[3]
    assert found(Cohort(made, people, measure="matrices"))["identical-people"].subjects == ("p3", "p50")


def test_ids_that_are_nearly_the_same_are_named_whatever_was_measured():
    subjects = TABLE["subject"].tolist()
    people = TABLE.assign(subject=["sub-" + subjects[1].upper(), *subjects[1:]])
    for cohort in (
        Cohort(MATRICES, people, measure="matrices"),
        Cohort(list(VALUES[:, None]), people, measure="table"),
    ):
        assert subjects[1] in found(cohort)["similar-ids"].message


def test_regions_without_edges_are_named_in_every_block():
    def without_a_region(m, k):
        m = m.copy()
        m[3] = m[:, 3] = np.nan if k == 2 else m[3]
        return m

    alone = matrices(without_a_region)
    for cohort, begins in (
        (alone, "regions have no edges"),
        (PEOPLE.with_block("fc", alone, "rest"), "fc: regions have no"),
    ):
        finding = found(cohort)["missing-rois"]
        assert finding.message.startswith(begins) and finding.subjects == (TABLE["subject"].iloc[2],)


def coarse(n=600, seed=0):
    """Four columns of 0 and 1 and one of three levels: hundreds of people share a row."""
    rng = np.random.default_rng(seed)
    values = np.column_stack([rng.integers(0, 2, (n, 4)), rng.integers(0, 3, n)[:, None] == [0, 1, 2]]).astype(float)
    names = ["hypoxia", "shift", "tsah", "edh", "ct=I", "ct=II", "ct=III"]
    people = {"subject": [f"p{k}" for k in range(n)], "site": [f"S{k % 4}" for k in range(n)]}
    return values, names, pd.DataFrame(people | {"label": rng.integers(0, 2, n)})


def test_rows_of_few_values_that_agree_by_chance_are_no_copies():
    values, names, people = coarse()
    cohort = Cohort(list(values[:, None]), people, columns_of_table(names), measure="table")
    assert find_duplicates(cohort) == []
    report = check_cohort(cohort)
    assert not [finding for finding in report.findings if finding.code == "identical-people"] and report.usable
    assert "600 people have the measures" in found(cohort)["alike-by-chance"].message


def test_an_improbable_match_among_coarse_columns_is_a_copy_and_ten_are_named():
    values, names, people = coarse()
    measured = np.column_stack([values, np.random.default_rng(1).normal(size=(len(values), 4)).round(3)])
    measured[300:325] = measured[:25]
    columns = columns_of_table([*names, "hb", "glucose", "sodium", "ph"])
    cohort = Cohort(list(measured[:, None]), people, columns, measure="table")
    report = check_cohort(cohort)
    named = [finding for finding in report.findings if finding.code == "identical-people"]
    assert [finding.subjects for finding in named] == [(f"p{k}", f"p{300 + k}") for k in range(10)]
    assert (
        "15 people more"
        in found(Cohort(list(measured[:, None]), people, columns, measure="table"))["identical-measures"].message
    )


def skewed_table(n_sites=6, n_per_site=40, seed=0):
    rng = np.random.default_rng(seed)
    n = n_sites * n_per_site
    people = {"subject": [f"p{k}" for k in range(n)], "site": np.repeat([f"S{k}" for k in range(n_sites)], n_per_site)}
    people = pd.DataFrame(people | {"label": np.tile([0, 1], n // 2)})
    return rng, people, rng.normal(size=(n, 20))


def test_what_columns_look_like_is_said():
    _, people, values = skewed_table()
    values[:, :8] = np.exp(1.5 * values[:, :8])
    values[:, 8:] = np.where(values[:, 8:] > (people["site"] != "S2").to_numpy()[:, None] - 0.3, values[:, 8:] + 9, 0)
    said = found(Cohort(list(values[:, None]), people, columns_of_table([f"c{k}" for k in range(20)]), measure="table"))
    message = said["columns"].message
    assert (
        "8 are skewed" in message and "12 have 30%" in message and "at S2 to" in message and "cells are zero" in message
    )


@pytest.mark.parametrize(("effects", "golden"), [([2.0], True), ([0.5] * 20, False), ([0.0], False)])
def test_a_column_that_tells_as_much_as_all_is_named(effects, golden):
    _, people, values = skewed_table()
    values[:, : len(effects)] += np.outer(people["label"], effects)
    names = ["delirium", *(f"c{k}" for k in range(19))]
    said = found(Cohort(list(values[:, None]), people, columns_of_table(names), measure="table"))
    assert ("golden-column" in said) == golden
    assert not golden or "delirium alone" in said["golden-column"].message


def test_columns_that_sites_or_classes_lack_are_named():
    rng, people, values = skewed_table()
    values[people["site"] == "S1", 3] = np.nan
    values[people["site"] == "S2", 4] = 0
    values[(rng.random(len(people)) < 0.4) & (people["label"] == 1), 5] = np.nan
    values[rng.random(len(people)) < 0.4, 7] = np.nan
    said = found(Cohort(list(values[:, None]), people, columns_of_table([f"c{k}" for k in range(20)]), measure="table"))
    assert said["known-at-sites"].message == "c3 is known at some sites only"
    assert (said["zero-at-site"].site, said["zero-at-site"].message[:8]) == ("S2", "c4 is 0 ")
    assert said["known-by-class"].message.endswith("who lacks c5")


def test_groups_of_columns_are_drawn_in_the_report():
    from brainroam.report.figures import inline
    from brainroam.report.sections.columns import columns_drawing

    _, people, values = skewed_table()
    values[:, :8] = np.exp(1.5 * values[:, :8])
    cohort = Cohort(list(values[:, None]), people, columns_of_table([f"c{k}" for k in range(20)]), measure="table")
    groups = check_cohort(cohort).to_dict()["columns"]
    assert [(group["kind"], len(group["columns"])) for group in groups] == [("about symmetric", 12), ("skewed", 8)]
    assert all(sum(group["histogram"]) == pytest.approx(1, abs=0.01) for group in groups)
    page = str(inline(columns_drawing(groups)))
    assert "8 skewed: c0, c1, c2 and 5 more" in page and "% of the values" in page
