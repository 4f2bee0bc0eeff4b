"""`check_cohort` finds what is wrong, names it, and raises no false alarm."""

import json

import numpy as np
import pandas as pd
import pytest

import brainroam
from brainroam.data.atlas import Atlas
from brainroam.data.check import check_cohort, find_duplicates
from brainroam.data.check.labels import contrast
from brainroam.data.cohort import Cohort
from brainroam.data.columns import within_sites
from brainroam.data.loading import load_cohort
from brainroam.data.prepare import with_covariates
from brainroam.data.synthetic import make_cohort
from brainroam.data.target import Classes
from brainroam.data.target_column import with_target


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=4, n_per_site=20, n_rois=20, seed=1)


def with_series(cohort, changes):
    """The cohort with other series for some people, by position."""
    series = cohort.series
    for position, x in changes.items():
        series[position] = x
    return Cohort(series, cohort.table)


def with_columns(cohort, **columns):
    return Cohort(cohort.series, cohort.table.assign(**columns))


def found(cohort, code):
    return [finding for finding in check_cohort(cohort).findings if finding.code == code]


def codes(cohort):
    return {finding.code for finding in check_cohort(cohort).findings}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(6, 40, 40), (3, 20, 8), (2, 20, 60)])
def test_a_clean_cohort_gets_a_clean_report(shape, seed):
    report = check_cohort(make_cohort(*shape, seed=seed))
    assert report.usable
    assert not {f.code for f in report.findings} - {"label-by-age", "label-by-sex", "label-by-mean_fd"}  # chance


def test_site_table_counts_what_is_there(cohort):
    report, table = check_cohort(cohort), cohort.table
    assert report.sites["site"].tolist() == cohort.sites
    for row in report.sites.itertuples():
        here = table[table["site"] == row.site]
        assert (row.n, row.cases, row.controls) == (20, here["label"].sum(), 20 - here["label"].sum())
        assert (row.male, row.female) == ((here["sex"] == 1).sum(), (here["sex"] == 0).sum())
        assert row.age_mean == pytest.approx(here["age"].mean())
        assert row.tr == [here["tr"].iloc[0]]
        assert row.volumes_min == row.volumes_max == here["n_timepoints"].iloc[0]


def test_report_survives_json_with_unknown_values(cohort):
    report = check_cohort(with_columns(cohort, age=np.nan, tr=np.nan))
    content = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert content["usable"] is True
    assert content["manifest_hash"] == cohort.manifest_hash
    assert content["sites"][0]["age_mean"] is None and content["sites"][0]["tr"] == []
    assert {f["code"] for f in content["findings"]} >= {"no-age", "no-tr"}


# What makes a cohort unusable


def test_one_site_is_an_error(cohort):
    report = check_cohort(cohort.select(["S02"]))
    assert not report.usable
    assert (report.findings[0].severity, report.findings[0].code, report.findings[0].site) == (
        "error",
        "one-site",
        "S02",
    )


@pytest.mark.parametrize(
    ("label", "code", "words"),
    [(1, "one-class", "cases"), (0, "one-class", "controls"), (np.nan, "no-labels", "nobody")],
)
def test_one_class_or_none_is_an_error(cohort, label, code, words):
    report = check_cohort(with_columns(cohort, label=label))
    assert not report.usable
    assert [words in f.message for f in report.findings if f.code == code] == [True]


def test_usability_is_judged_without_those_who_will_be_left_out(cohort):
    """Three of four sites have hardly any region with signal, so one site is left."""
    dead = {i: np.where(np.arange(20) < 15, 0, cohort.series[i]) for i in range(20, 80)}
    spoilt = with_series(cohort, dead)
    assert {f.code for f in check_cohort(spoilt).findings if f.severity == "error"} == {"one-site"}
    assert check_cohort(spoilt, max_missing_rois=0.9).usable
    everybody = with_series(cohort, {i: np.zeros((50, 20)) for i in range(80)})
    assert "nobody-left" in codes(everybody)


# Copies


def test_identical_series_under_two_ids_are_an_error_naming_the_pair(cohort):
    (finding,) = found(with_series(cohort, {5: cohort.series[45]}), "identical-people")
    assert finding.severity == "error"
    assert finding.subjects == ("S01_0006", "S03_0006")
    assert "S01_0006 and S03_0006" in finding.message and "S01 and S03" in finding.message


def test_identical_series_are_found_even_with_too_few_regions_for_a_profile():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(40, 3)) for _ in range(6)]
    series[4] = series[1]
    table = make_cohort(2, 4, 8).table.head(6)
    assert [(d.first, d.second, d.kind) for d in find_duplicates(Cohort(series, table))] == [
        ("S01_0002", "S02_0001", "identical")
    ]


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: 3 * x + 100,
        lambda x: np.round(x, 1),
        lambda x: x[25:],
        lambda x: np.roll(x, 40, axis=0),
        lambda x: x[: int(0.7 * len(x))],
        lambda x: x + np.random.default_rng(0).normal(scale=0.3, size=x.shape),
        lambda x: np.where(np.arange(20) < 3, 0, x),
    ],
    ids=["rescaled", "rounded", "shifted", "rolled", "cut", "noisy", "some regions lost"],
)
def test_a_disguised_copy_is_found(cohort, copy):
    (finding,) = found(with_series(cohort, {5: copy(cohort.series[45])}), "alike-people")
    assert finding.severity == "warning"
    assert finding.subjects == ("S01_0006", "S03_0006")


def test_what_two_copies_share_is_said(cohort):
    table = cohort.table
    table.loc[[5, 7], "mean_fd"] = 0.123456
    table.loc[[5, 7], "label"] = [0, 1]
    series = cohort.series
    series[7] = series[5][3:]
    (finding,) = found(Cohort(series, table), "alike-people")
    assert "same mean_fd (0.123456)" in finding.message and "opposite labels" in finding.message
    assert finding.site == "S01"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "settings",
    [
        {"n_sites": 2, "n_per_site": 4, "n_rois": 8},
        {"n_sites": 2, "n_per_site": 10, "n_rois": 8, "outliers": 4},
        {"outliers": 10, "constant_rois": 10, "n_rois": 20},
    ],
)
def test_different_people_are_never_called_copies(settings, seed):
    assert find_duplicates(make_cohort(**settings, seed=seed)) == []


def test_nearly_equal_ids_are_reported(cohort):
    subjects = cohort.table["subject"].tolist()
    subjects[0], subjects[1] = "sub-0042", "42"
    (finding,) = found(with_columns(cohort, subject=subjects), "similar-ids")
    assert finding.subjects == ("sub-0042", "42")


# Regions and scans


def test_regions_without_signal_are_listed_for_whoever_lacks_them():
    spoilt = make_cohort(n_sites=3, n_per_site=30, n_rois=20, constant_rois=4)
    (finding,) = found(spoilt, "missing-rois")
    assert set(finding.subjects) == set(spoilt.truth.constant_rois)
    assert "4 of 90 people" in finding.message
    assert check_cohort(spoilt).sites["with_missing_rois"].sum() == 4


def test_people_over_the_limit_and_regions_lacking_at_a_site_are_named(cohort):
    lost = {i: np.where(np.arange(20) < 5, np.nan, cohort.series[i]) for i in (20, 21, 22)}
    spoilt = with_series(cohort, lost)
    (over,) = found(spoilt, "over-limit")
    assert over.subjects == ("S02_0001", "S02_0002", "S02_0003") and "(5)" in over.message
    (low,) = found(spoilt, "low-coverage")
    assert low.site == "S02" and "ROI_001 (15%)" in low.message
    assert check_cohort(spoilt).usable


def test_regions_that_hardly_vary_are_noted(cohort):
    x = cohort.series[3].copy()
    x[:, [2, 9]] *= 0.01
    (finding,) = found(with_series(cohort, {3: x}), "weak-rois")
    assert (finding.severity, finding.subjects) == ("note", ("S01_0004",)) and "S01_0004 (2)" in finding.message


def test_scans_shorter_than_a_window_are_reported(cohort):
    (finding,) = found(with_series(cohort, {3: cohort.series[3][:29], 4: cohort.series[4][:30]}), "short-series")
    assert finding.subjects == ("S01_0004",) and "(29)" in finding.message


def test_people_the_reader_left_out_stand_in_the_report(cohort):
    mask = np.zeros(80, dtype=bool)
    mask[2] = True
    report = check_cohort(cohort.exclude(mask, ["no such file"]))
    assert report.to_dict()["excluded"] == [{"subject": "S01_0003", "reason": "no such file"}]


# Classes and covariates


@pytest.mark.parametrize(
    ("cases", "code"), [(0, "one-class-site"), (20, "one-class-site"), (4, "small-site"), (5, "imbalance"), (10, None)]
)
def test_sites_with_hardly_any_cases_or_controls_are_named(cohort, cases, code):
    label = cohort.table["label"].to_numpy().copy()
    label[:20] = np.arange(20) < cases
    named = [(f.code, f.site) for f in check_cohort(with_columns(cohort, label=label)).findings if f.site == "S01"]
    assert [pair for pair in named if not pair[0].startswith("label-by")] == ([(code, "S01")] if code else [])


def test_people_without_a_label_are_named(cohort):
    label = cohort.table["label"].astype(float)
    label[[3, 30]] = np.nan
    (finding,) = found(with_columns(cohort, label=label), "unlabelled")
    assert finding.subjects == ("S01_0004", "S02_0011")
    assert check_cohort(with_columns(cohort, label=label)).cohort["n_unlabelled"] == 2


def test_labels_confounded_with_site_are_named(cohort):
    label = np.concatenate([np.arange(20) < k for k in (16, 14, 6, 4)]).astype(int)
    (finding,) = found(with_columns(cohort, label=label), "label-by-site")
    # By hand: chi2 = sum (k - 10)^2 * 2 / 10 = 20.8, V = sqrt(20.8 / 80) = 0.51
    assert "0.51" in finding.message and "80% (S01)" in finding.message and "20% (S04)" in finding.message
    assert not found(cohort, "label-by-site")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [("age", 8, "older"), ("age", -8, "younger"), ("mean_fd", 0.2, "moved more"), ("mean_fd", -0.01, None)],
)
def test_labels_confounded_with_a_covariate_are_named_at_a_site_and_in_the_cohort(cohort, name, change, words):
    table = cohort.table
    table[name] = np.random.default_rng(0).normal(20 if name == "age" else 0.5, 3 if name == "age" else 0.1, len(table))
    table.loc[table["site"] == "S03", name] += change * table["label"]
    findings = found(Cohort(cohort.series, table), f"label-by-{name}")
    if words is None:
        assert not findings
    else:
        assert "S03" in [f.site for f in findings]
        assert all(words in f.message and "d = " in f.message for f in findings if f.site == "S03")


def test_what_is_a_covariate_already_is_not_advised_as_one():
    cohort = make_cohort(shortcut=2.0)
    advised = [found(cohort.using(names), "label-by-age")[0].remedy for names in (["sex"], ["age", "sex"])]
    assert "use it as a covariate (--covariates)" in advised[0]
    assert "use it" not in advised[1] and "brainroam compare" in advised[1]


@pytest.mark.parametrize("sites", [2, 4])
def test_a_site_whose_regions_are_in_another_order_is_seen(cohort, sites):
    part = cohort.select(cohort.sites[:sites])
    rows = np.flatnonzero(part.table["site"] == "S02")
    order = np.random.default_rng(0).permutation(part.n_rois)
    shuffled = with_series(part, {i: part.series[i][:, order] for i in rows})
    assert not found(part, "unlike-site")
    assert "S02" in [finding.site for finding in found(shuffled, "unlike-site")]
    assert len(found(shuffled, "unlike-site")) == (2 if sites == 2 else 1)  # of two, either may be the wrong one


def test_noise_is_unlike_noise_and_nobody_is_blamed(cohort):
    rng = np.random.default_rng(0)
    assert not found(with_series(cohort, {i: rng.normal(size=(60, 20)) for i in range(len(cohort))}), "unlike-site")


def test_sites_of_one_class_each_cannot_be_used(cohort):
    report = check_cohort(with_columns(cohort, site=np.where(cohort.table["label"] == 1, "clinic", "campus")))
    assert not report.usable
    (error,) = [finding for finding in report.findings if finding.severity == "error"]
    assert error.code == "no-contrast" and "none of the 2 sites" in error.message
    by_person = check_cohort(with_columns(cohort, site=cohort.table["subject"]))
    assert [finding.code for finding in by_person.findings] == ["no-contrast"]


def symptoms(cohort, rng):
    return 15 * cohort.table["label"] + rng.normal(3, 2, len(cohort))


def medication(cohort, rng):
    taken = (cohort.table["label"] == 1) & (rng.random(len(cohort)) < 0.9)
    return np.where(taken, "SSRI", "no drug")


def symptoms_of_cases(cohort, rng):
    return np.where(cohort.table["label"] == 1, rng.normal(20, 3, len(cohort)), np.nan)


@pytest.mark.parametrize(
    ("column", "words"),
    [(symptoms, "AUC 1.00"), (medication, "tells cases"), (symptoms_of_cases, "100% of the cases and 0% of the")],
)
def test_a_covariate_that_measures_the_condition_is_named_by_every_command(cohort, column, words):
    known = with_columns(cohort, measure=column(cohort, np.random.default_rng(0)))
    assert not found(known, "covariate-of-condition")  # a column that is not used harms nobody
    with pytest.warns(UserWarning, match="confound"):
        used = with_covariates(known, ["age", "measure"])
    (finding,) = found(used, "covariate-of-condition")
    assert "'measure'" in finding.message and words in finding.message
    assert not found(used, "label-by-measure")  # said once


@pytest.mark.parametrize("model", [brainroam.CoreClassifier(epochs=0), brainroam.EnsembleClassifier()])
def test_a_measure_of_the_condition_is_named_in_python_too(cohort, model):
    table = cohort.table
    covariates = table[["age"]].assign(hamd=symptoms(cohort, np.random.default_rng(0)))
    with pytest.warns(UserWarning, match="'hamd'"):
        model.fit(cohort.series, table["label"], site=table["site"], covariates=covariates)


def test_a_covariate_that_differs_between_classes_is_a_question_and_one_that_does_not_is_none(cohort):
    rng = np.random.default_rng(0)
    iq = 100 + rng.normal(0, 10, len(cohort))
    used = with_covariates(with_columns(cohort, iq=iq - 9 * cohort.table["label"], height=iq), ["age", "iq", "height"])
    (finding,) = found(used, "label-by-iq")
    assert "iq is lower in cases" in finding.message and "part of the condition" in finding.remedy
    assert not found(used, "label-by-height") and not found(used, "covariate-of-condition")


def test_within_sites_is_the_auc_of_pairs_of_the_same_site(cohort):
    rng = np.random.default_rng(3)
    table = cohort.table.assign(value=rng.integers(0, 9, len(cohort)).astype(float))
    won = pairs = 0.0
    for _, part in table.groupby("site"):
        for a in part.loc[part["label"] == 1, "value"]:
            for b in part.loc[part["label"] == 0, "value"]:
                won, pairs = won + (a > b) + (a == b) / 2, pairs + 1
    assert within_sites(table["label"], table["value"], table["site"]) == pytest.approx(
        max(won / pairs, 1 - won / pairs)
    )


def test_the_shortcut_is_seen_before_it_costs_anything():
    findings = found(make_cohort(shortcut=2.0), "label-by-age")
    assert {f.site for f in findings} == {None, "S01", "S02", "S03", "S04", "S05", "S06"}
    assert "younger" in next(f.message for f in findings if f.site == "S06")


def test_all_male_sites_and_constant_covariates_are_notes():
    findings = found(make_cohort(all_male_sites=2), "constant-sex")
    assert [(f.site, f.severity, f.message) for f in findings] == [
        ("S01", "note", "everybody is male"),
        ("S02", "note", "everybody is male"),
    ]


def test_missing_covariates_are_named_of_people_sites_and_everybody(cohort):
    table = cohort.table
    table.loc[4, "age"] = np.nan
    table.loc[table["site"] == "S02", "sex"] = np.nan
    table["mean_fd"] = np.nan
    findings = check_cohort(Cohort(cohort.series, table)).findings
    gaps = {(f.code, f.site, f.severity, f.subjects) for f in findings if f.code.startswith(("no-", "missing-"))}
    assert gaps == {
        ("missing-age", "S01", "note", ("S01_0005",)),
        ("no-sex", "S02", "warning", ()),
        ("no-mean_fd", None, "note", ()),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("age", -9999),
        ("age", 0),
        ("age", 110),
        ("age", 180),
        ("sex", 2),
        ("mean_fd", -1),
        ("mean_fd", 95),
        ("tr", 2000),
    ],
)
def test_codes_read_as_numbers_are_reported(cohort, name, value):
    table = cohort.table
    table.loc[7, name] = value
    (finding,) = found(Cohort(cohort.series, table), f"implausible-{name}")
    assert finding.subjects == ("S01_0008",) and f"({value})" in finding.message


def test_several_tr_in_one_site_are_noted(cohort):
    tr = cohort.table["tr"].to_numpy().copy()
    tr[:5] = 0.8
    (finding,) = found(with_columns(cohort, tr=tr), "mixed-tr")
    assert finding.site == "S01" and "0.8" in finding.message


# The real cohort


@pytest.mark.abide
def test_the_suspicious_pair_of_abide_is_named_and_no_other(abide_root):
    """On CC200; test_cli_data does the same on AAL, as a user would."""
    (pair,) = found(load_cohort(abide_root, atlas="cc200", max_missing_rois=1.0), "alike-people")
    assert pair.subjects == ("Yale_0050578", "Yale_0050602")
    assert "same mean_fd" in pair.message and "opposite labels" in pair.message


@pytest.mark.parametrize("noise", [0, 3])
def test_scan_length_that_tells_cases_from_controls_is_named(noise):
    rng = np.random.default_rng(0)
    cohort = make_cohort(n_sites=3, n_per_site=20, n_rois=8, seed=0)
    table = cohort.table
    series = [
        x[: len(x) - 20 - rng.integers(0, noise + 1)] if (site, label) == ("S02", 1) else x
        for x, site, label in zip(cohort.series, table["site"], table["label"], strict=True)
    ]
    findings = check_cohort(Cohort(series, table)).findings
    (found,) = [f for f in findings if f.code == "label-by-n_timepoints" and f.site == "S02"]
    assert "shorter than of controls" in found.message and "cut all scans alike" in found.remedy


def test_what_is_doubtful_about_a_number_is_told():
    """One site on another scale, a typing error, a code among the values."""
    made = make_cohort(n_sites=5, n_per_site=20, n_rois=8)
    rng = np.random.default_rng(0)
    iq = rng.normal(100, 12, 100).round(1)
    clean = with_target(made.with_columns(pd.DataFrame({"iq": iq})), "iq")
    codes = {"other-definition", "target-by-site", "target-outlier", "target-ceiling", "target-code"}
    checked = check_cohort(clean)
    assert not codes & {finding.code for finding in checked.findings}
    assert checked.sites["target_mean"][0] == pytest.approx(iq[:20].mean())
    iq[:20] = rng.normal(10, 2, 20)
    iq[50:52] = [990, 999]
    strange = with_target(made.with_columns(pd.DataFrame({"iq": iq})), "iq")
    findings = check_cohort(strange).findings
    told = {"other-definition", "target-outlier", "target-code"}
    assert told <= {finding.code for finding in findings}
    assert [finding.site for finding in findings if finding.code == "other-definition"] == ["S01"]


def number_codes(values, **columns):
    """Findings about a number beside what was given as covariates, by code."""
    made = make_cohort(n_sites=5, n_per_site=20, n_rois=8)
    cohort = with_target(made.with_columns(pd.DataFrame({"iq": values, **columns})), "iq").using(columns)
    return {finding.code: finding for finding in check_cohort(cohort).findings}


def test_a_number_that_is_the_same_for_a_whole_site_is_told_and_another_unit_makes_no_outliers():
    made = make_cohort(n_sites=5, n_per_site=20, n_rois=8)
    table = made.table.assign(score=made.table["age"])
    table.loc[table["site"] == "S02", "score"] = 7.0
    table.loc[table["site"] == "S04", "score"] *= 12
    findings = check_cohort(with_target(made.with_columns(table[["score"]]), "score")).findings
    assert [finding.site for finding in findings if finding.code == "constant-target"] == ["S02"]
    assert [finding.site for finding in findings if finding.code == "other-definition"] == ["S04"]
    assert "target-outlier" not in {finding.code for finding in findings}


def test_a_number_at_its_ceiling_is_noted():
    iq = np.random.default_rng(0).normal(100, 12, 100).round(1)
    assert "target-ceiling" not in number_codes(iq)
    low = np.minimum(iq, 105)
    assert "largest iq of their site, mostly 105" in number_codes(low)["target-ceiling"].message
    low[:20] *= 3.3  # one site has another scale
    assert "mostly 105" in number_codes(low)["target-ceiling"].message


def test_a_number_that_lies_between_sites_is_told_with_its_share():
    """Variances 1 within and 4 between sites: four fifths."""
    steps = np.linspace(-1, 1, 20)
    within = np.tile(steps / steps.std(), 5)
    between = np.repeat(np.array([-2, -1, 0, 1, 2]) * np.sqrt(2), 20)
    assert number_codes(within + between)["target-by-site"].message.startswith("80%")


def test_a_covariate_that_is_nearly_the_number_is_an_error():
    rng = np.random.default_rng(0)
    iq = rng.normal(100, 12, 100)
    assert "covariate-is-target" not in number_codes(iq, reading=iq + rng.normal(0, 24, 100))
    found = number_codes(iq, verbal=iq + rng.normal(0, 3, 100))["covariate-is-target"]
    assert found.severity == "error" and "'verbal'" in found.message


def test_a_spectrum_that_goes_with_a_number_is_told_and_codes_are_not_taken_for_classes():
    made = make_cohort(n_sites=4, n_per_site=30, n_rois=8, seed=0)
    rng = np.random.default_rng(0)
    score = rng.integers(0, 12, size=len(made)).astype(float)  # holds 0 and 1, which are no controls and cases
    series = [np.cumsum(x, axis=0) if value > 8 else x for x, value in zip(made.series, score, strict=True)]
    cohort = with_target(made.with_series(series).with_columns(pd.DataFrame({"score": score})), "score:number")
    found = [finding for finding in check_cohort(cohort).findings if finding.code == "label-by-spectrum"]
    assert found and all("score" in finding.message and "r = " in finding.message for finding in found)
    plain = with_target(made.with_columns(pd.DataFrame({"score": score})), "score:number")
    assert not [f for f in check_cohort(plain).findings if "cases" in f.message]


def test_a_column_of_a_table_that_is_the_target_is_an_error():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"subject": [f"s{i}" for i in range(60)], "site": np.repeat(list("ABC"), 20)})
    score = rng.normal(50, 10, 60)
    values = np.column_stack([rng.normal(size=(60, 3)), 2 * score + 1])
    atlas = Atlas("measures", ("a", "b", "c", "d"), columns=True)
    cohort = Cohort(list(values[:, None, :]), table.assign(label=0, score=score), atlas, measure="table")
    report = check_cohort(with_target(cohort, "score"))
    assert [f.message for f in report.findings if f.code == "no-measure"] == ["d seems to be the target, score"]


def test_many_small_sites_are_one_warning():
    cohort = make_cohort(n_sites=14, n_per_site=6, n_rois=8, seed=0)
    found = [finding for finding in check_cohort(cohort).findings if finding.code == "small-site"]
    assert len(found) == 1
    assert "sites: S01" in found[0].message


def test_small_sites_of_several_classes_are_told():
    cohort = make_cohort(n_sites=5, n_per_site=24, n_rois=8, seed=0)
    label = np.tile([0, 1, 2], 40)
    label[:24] = [0] * 20 + [1, 1, 2, 2]
    label[24:48] = 0
    classes = cohort.predicting(Classes("dx", ("HC", "A", "B")), cohort.table.assign(label=label))
    found = {f.site: f.code for f in check_cohort(classes).findings if f.code in ("small-site", "one-class-site")}
    assert found == {"S01": "small-site", "S02": "one-class-site"}


def test_one_kind_of_note_about_many_sites_is_one_note():
    cohort = make_cohort(n_sites=6, n_per_site=12, n_rois=8, seed=0, all_male_sites=5)
    found = [finding for finding in check_cohort(cohort).findings if finding.code == "constant-sex"]
    assert [finding.site for finding in found] == [None]
    assert found[0].message == "everybody is male, at 5 sites: S01, S02, S03, S04, S05"


@pytest.mark.parametrize("draw", [lambda rng, n: rng.random(n) < 0.7, lambda rng, n: rng.normal(size=n)])
def test_three_cases_that_are_alike_by_chance_are_no_confound(draw):
    """Nothing differs: the share of p below .01 must be about .01 and not that of Welch's test, .05 and more."""
    rng = np.random.default_rng(0)
    p = [contrast(draw(rng, 3).astype(float), draw(rng, 27).astype(float))[1] for _ in range(2000)]
    assert np.mean(np.array(p) < 0.01) < 0.016


def test_implausible_ages_are_named_with_their_site():
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=8, seed=0)
    months = cohort.table["age"].where(cohort.table["site"] != "S02", 12 * cohort.table["age"])
    found = check_cohort(cohort.with_columns(pd.DataFrame({"age": months}))).findings
    assert ["S02 (10 of 10)" in finding.message for finding in found if finding.code == "implausible-age"] == [True]


def test_a_site_of_older_people_has_no_other_definition_of_age():
    made = make_cohort(n_sites=5, n_per_site=20, n_rois=8)
    age = made.table["age"].where(made.table["site"] != "S01", made.table["age"] + 60)
    cohort = with_target(made.with_columns(pd.DataFrame({"age": age})).using(()), "age")
    (found,) = [finding for finding in check_cohort(cohort).findings if finding.code == "other-definition"]
    assert found.site == "S01" and "another age" in found.message and "test" not in found.remedy


def test_people_whom_the_study_leaves_out_are_named_and_enter_no_other_check():
    """Three people without signal were nearly the same, with opposite labels at different sites: a leak, it seemed."""
    cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=12)
    series = cohort.series
    for i in (0, 13, 26):
        series[i] = series[i].copy()
        series[i][:, 2:] = 0.0
        series[i][:, :2] = np.random.default_rng(0).normal(size=(len(series[i]), 2)).cumsum(axis=0)
    report = check_cohort(Cohort(series, cohort.table))
    (over,) = [finding for finding in report.findings if finding.code == "over-limit"]
    assert len(over.subjects) == 3
    assert {finding.code for finding in report.findings} & {"alike-people", "identical-people"} == set()
    assert report.to_dict()["n_people"] == 33 and report.sites["n"].tolist() == [11, 11, 11]
    assert report.to_dict()["manifest_hash"] == Cohort(series, cohort.table).exclude_missing(0.2).manifest_hash
