"""The person is the unit, not the scan; the institution, not its sites: counts, tests, permutations and intervals."""

import numpy as np
import pandas as pd
import pytest
from units_study import institutions, own_intervals, scanned

import brainroam
from brainroam.audit.candidates import MethodCandidate
from brainroam.audit.shortcuts import mean_order, permuted_within_site
from brainroam.data.check import check_cohort
from brainroam.data.target import Number
from brainroam.evaluation.next_site import coverage
from brainroam.evaluation.planning.draws import draws
from brainroam.evaluation.planning.plan import plan_of_runs
from brainroam.evaluation.stats.compare import compare_methods
from brainroam.evaluation.stats.confounding import confounding
from brainroam.evaluation.stats.groups import groups_by_site
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod


@pytest.fixture(scope="module")
def cohort():
    """Fifty people with three scans each."""
    made = scanned(np.random.default_rng(0), 3)
    age = pd.factorize(made.table["person"])[0] % 7 + 20.0
    return made.with_columns(pd.DataFrame({"age": age, "sex": pd.factorize(made.table["person"])[0] % 2}))


@pytest.fixture(scope="module")
def results(cohort):
    return brainroam.evaluate(cohort, ["fc-ridge"])


def test_people_are_counted_and_scans_beside_them(cohort):
    assert "50 people, 150 scans" in repr(cohort) and cohort.n_people == 50 and len(cohort) == 150
    found = check_cohort(cohort)
    assert (found.cohort["n_people"], found.cohort["n_scans"], found.cohort["n_cases"]) == (50, 150, 25)
    assert found.sites[["n", "scans", "cases"]].to_numpy().tolist() == [[10, 30, 5]] * 5
    assert "several-scans" in {finding.code for finding in found.findings}


def test_a_site_is_measured_on_its_people_by_their_mean_scores(cohort, results):
    people = results.predictions.groupby(["site", "person"])[["label", "score"]].mean().reset_index()
    for row in results.scores.itertuples():
        here = people[people["site"] == row.site]
        cases, controls = (here.loc[here["label"] == c, "score"].to_numpy() for c in (1, 0))
        assert (row.n, row.n_cases) == (10, 5)
        assert row.auc == pytest.approx((cases[:, None] > controls).mean())
    compared = brainroam.compare(results).table
    assert compared["n_sites"].tolist() == [5]  # the AUCs of scores and predictions agree, or this is an error


def test_groups_prediction_sets_and_plans_count_people(cohort, results):
    by_site = groups_by_site(results.predictions, results.participants, "fc-ridge")
    assert by_site[by_site["covariate"] == "sex"]["n"].sum() == 50
    assert set(coverage(results.records)["n"]) == {10}
    six = scanned(np.random.default_rng(1), 2, n_sites=6).table
    person = six["person"].to_numpy()
    for draw in draws(six, 1, 0):
        kept = pd.Series(person[draw.train]).value_counts()
        assert set(kept) == {2}  # nobody with half of the scans


@pytest.mark.usefixtures("undrawn")
def test_the_report_says_people_and_scans(results, tmp_path):
    page = brainroam.write_report(results, tmp_path / "report.html").read_text()
    assert "50 people, 150 scans" in page and "150 people" not in page


@pytest.mark.parametrize("target", ["label", "age"])
def test_what_a_model_foretells_counts_people(cohort, target):
    number = Number("age")
    chosen = cohort if target == "label" else cohort.predicting(number, cohort.table.assign(label=cohort.table["age"]))
    inner = TunedMethod(method_info("fc-ridge")).fit(chosen).inner_sites_
    people = inner["n_cases"] + inner["n_controls"] if target == "label" else inner["n"]
    assert people.tolist() == cohort.table.groupby("site")["person"].nunique().tolist()


def test_permutations_keep_the_scans_of_a_person_together(cohort):
    shuffled = permuted_within_site(cohort, 3).table
    assert (shuffled.groupby("person")["label"].nunique() == 1).all()
    assert shuffled.groupby("site")["label"].sum().tolist() == [15] * 5


def test_a_sites_interval_covers_with_several_scans():
    assert own_intervals(5, 10, 0.7, 120) >= 0.93 - 3 * np.sqrt(0.95 * 0.05 / 120)


def shared(institutions):
    """Scores of two methods at six sites, alike at the two sites of an institution."""
    rng = np.random.default_rng(5)
    rows = []
    for k, name in enumerate(["UM_1", "UM_2", "Oslo_1", "Oslo_2", "Bern_1", "Bern_2"]):
        for i in range((60, 20, 60, 30, 60, 14)[k]):
            noise = rng.normal()
            for method, effect in (("good", (0.2, 1.0, 1.8)[k // 2]), ("poor", 0.1)):
                score = noise + 0.3 * rng.normal() + effect * (i % 2)
                rows.append((method, "loso", name, 0, f"{name}-{i}", name.split("_")[0], i % 2, score))
    columns = ["method", "protocol", "site", "seed", "subject", "institution", "label", "score"]
    predictions = pd.DataFrame(rows, columns=columns)
    runs = predictions.groupby(["method", "protocol", "site", "seed"])
    scores = [(*key, auc(run["label"].to_numpy(), run["score"].to_numpy())) for key, run in runs]
    scores = pd.DataFrame(scores, columns=["method", "protocol", "site", "seed", "auc"])
    return compare_methods(scores, predictions if institutions else predictions.drop(columns="institution"))


def test_sites_of_one_institution_count_together():
    sites, houses = shared(False), shared(True)
    one, other = (found.table.set_index("method").loc["good"] for found in (sites, houses))
    assert (one["n_institutions"], other["n_institutions"], other["n_sites"]) == (6, 3, 6)
    assert other["auc"] == pytest.approx(one["auc"])  # one rule for means, whatever the unit of the intervals
    poor = houses.table.set_index("method").loc["poor", "auc"]
    assert houses.paired["difference"].abs().tolist() == pytest.approx([other["auc"] - poor])
    assert other["auc_high"] - other["auc_low"] > 1.3 * (one["auc_high"] - one["auc_low"])
    assert np.isnan(other["next_low"]) and "institutions" in other["reason"]
    assert houses.paired["n_sites"].tolist() == [3] and "3 institutions" in houses.sentences[0]
    assert any("--protocol institutions" in note and "as the unit" in note for note in houses.notes)
    assert any("UM_1 and UM_2" in note and "independent" in note for note in sites.notes)


def test_a_mean_over_sites_has_one_rule_wherever_it_stands():
    """Six sites of 12 + 12 people and one of 1 + 12."""
    made = brainroam.make_cohort(n_sites=7, n_per_site=26, n_rois=10, seed=3)
    label, site = made.labels, made.table["site"].to_numpy()
    kept = [
        np.flatnonzero((site == name) & (label == k))[: 1 if (name, k) == ("S07", 1) else 12]
        for name in made.sites
        for k in (0, 1)
    ]
    cohort = made.subset(np.sort(np.concatenate(kept)))
    results = brainroam.evaluate(cohort, ["fc-ridge", "confounds"])
    rows = results.scores[results.scores["method"] == "fc-ridge"]
    means = {
        name: mean_over_sites(here["auc"], site_weights(here["n_cases"], here["n"] - here["n_cases"]))
        for name, here in results.scores.groupby("method")
    }
    assert abs(means["fc-ridge"] - rows["auc"].mean()) > 0.002  # what each site counting once would give
    assert brainroam.compare(results).table.set_index("method")["auc"]["fc-ridge"] == pytest.approx(means["fc-ridge"])
    beside = confounding(results.predictions, results.participants).set_index("method").loc["fc-ridge"]
    there = rows[rows["site"] != "S07"]  # one case is too few to take anything out of the scores
    weights = site_weights(there["n_cases"], there["n"] - there["n_cases"])
    assert beside["auc"] == pytest.approx(mean_over_sites(there["auc"], weights))
    assert (beside["n_sites"], beside["of_sites"]) == (6, 7)
    gap = plan_of_runs(results, ["fc-ridge", "confounds"]).contrast.difference
    assert gap == pytest.approx(means["fc-ridge"] - means["confounds"])
    audited = mean_order(MethodCandidate(method_info("fc-ridge")), cohort)
    assert audited == pytest.approx(means["fc-ridge"])


@pytest.mark.parametrize("kind", [("12+4+4", 0.7, 0.3, 0.0), ("4+4+4+4+4", 0.7, 0.1, 0.4)])
def test_intervals_cover_with_the_institutions_given(kind):
    found = institutions(*kind, 200)
    assert min(found["mean"], found["next"]) >= 0.93 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_check_sees_sites_named_like_one_institution():
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8)
    names = dict(zip(cohort.sites, ["UM_1", "UM_2", "NYU", "Oslo"], strict=True))
    cohort = cohort.with_columns(pd.DataFrame({"site": cohort.table["site"].map(names)}))
    found = [finding for finding in check_cohort(cohort).findings if finding.code == "one-institution"]
    assert len(found) == 1 and "UM (UM_1, UM_2)" in found[0].message and "--protocol institutions" in found[0].remedy
    numbered = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8)
    assert "one-institution" not in {finding.code for finding in check_cohort(numbered).findings}
