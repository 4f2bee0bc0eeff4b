"""What is left of the order of a number without motion, age, sex, scan length and head size."""

import json

import numpy as np
import pandas as pd
import pytest
from lxml import html
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.target import Number
from brainroam.data.target_column import with_target
from brainroam.evaluation.stats.number_confounding import (
    names_known,
    number_confounding,
    number_confounding_by_site,
    partial_correlation,
)

IQ = Number("iq")


@pytest.fixture
def study():
    """Five sites of 40; predictions are half the truth and half motion, and the truth follows age."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"subject": [f"p{i:03}" for i in range(200)], "mean_fd": rng.lognormal(-2, 0.5, 200)})
    people["age"], people["sex"] = rng.normal(15, 4, 200), rng.integers(2, size=200).astype(float)
    people["n_timepoints"], people["head_size"] = rng.integers(150, 250, 200), rng.normal(1500, 100, 200)
    truth = 100 + 2 * people["age"] + 10 * rng.normal(size=200)
    predicted = 0.5 * truth + 8 * np.log(people["mean_fd"]) + 5 * rng.normal(size=200)
    runs = people[["subject"]].assign(method="m", protocol="loso", seed=0, site=np.repeat(list("ABCDE"), 40))
    return runs.assign(label=truth, predicted=predicted), people


def by_precision(p, t, x):
    """The partial correlation from the inverse of the correlation matrix of all columns."""
    inverse = np.linalg.inv(np.corrcoef(np.column_stack([p, t, x]).T))
    return -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])


def test_partial_correlations_are_those_of_the_precision_matrix(study):
    runs, people = study
    found = number_confounding_by_site(runs, people, IQ).set_index("site")
    for site, here in runs.merge(people, on="subject").groupby("site"):
        columns = {
            "motion": np.log(here["mean_fd"]),
            **{name: here[name] for name in ("age", "sex", "head_size")},
            "scan_length": here["n_timepoints"],
        }
        p, t = here["predicted"], here["label"]
        assert found.loc[site, "r"] == pytest.approx(np.corrcoef(p, t)[0, 1])
        for name, x in columns.items():
            assert found.loc[site, f"r_without_{name}"] == pytest.approx(by_precision(p, t, x))
        everything = np.column_stack(list(columns.values()))
        assert found.loc[site, "r_without_all"] == pytest.approx(by_precision(p, t, everything))
        assert found.loc[site, "r_motion"] == pytest.approx(by_precision(p, columns["motion"], t))
        assert found.loc[site, "r_head_size"] == pytest.approx(by_precision(p, here["head_size"], t))


def test_motion_hides_order_and_age_makes_it(study):
    row = number_confounding(*study, IQ).iloc[0]
    assert row["r_without_motion"] > row["r"] + 0.05 and row["r_without_age"] < row["r"] - 0.05
    assert row["r_motion"] > 0.4 and abs(row["r_head_size"]) < 0.2


def test_a_prediction_that_is_a_covariate_has_no_order_without_it(study):
    runs, people = study
    row = number_confounding(runs.assign(predicted=people["age"]), people, IQ).iloc[0]
    assert row["r"] > 0.4 and row["r_without_age"] == row["r_without_all"] == 0
    x = people["age"].to_numpy()
    assert partial_correlation(1e6 + 3 * x, runs["label"].to_numpy(), x[:, None]) == 0


def test_columns_are_of_the_same_people_and_sites_and_say_of_how_many(study):
    runs, people = study
    unknown = people.assign(mean_fd=people["mean_fd"].where(runs["site"] != "A"))
    unknown.loc[runs.index[runs["site"] == "B"][:10], "age"] = np.nan
    found = number_confounding(runs, unknown, IQ).iloc[0]
    assert (found["n_sites"], found["of_sites"], found["n_people"]) == (4, 5, 150)
    without_a = number_confounding(runs[runs["site"] != "A"], unknown, IQ).iloc[0]
    assert found["r"] == without_a["r"] and without_a["of_sites"] == 4


def test_a_covariate_that_few_have_that_is_constant_or_the_target_itself_is_not_looked_at(study):
    runs, people = study
    told = people.assign(
        mean_fd=people["mean_fd"].where(people.index < 60),
        n_timepoints=runs["site"].map({"A": 100, "B": 150, "C": 200, "D": 250, "E": 300}),
        head_size=5 * runs["label"] + 3,
    )
    assert names_known(number_confounding(runs, told, IQ)) == ["age", "sex"]
    nothing = number_confounding(runs, people[["subject"]], IQ).iloc[0]
    assert nothing["n_sites"] == 0 and np.isnan(nothing["r"])


def test_order_is_that_of_the_target_as_it_is_learned(study):
    runs, people = study
    logarithm = Number("iq", transform="log")
    logs = runs.assign(label=np.log(runs["label"]), predicted=np.log(runs["predicted"].clip(1)))
    found = number_confounding(runs.assign(predicted=runs["predicted"].clip(1)), people, logarithm)
    expected = number_confounding(logs, people, IQ)
    pd.testing.assert_frame_equal(found, expected)


def test_compare_and_the_report_of_a_number_say_what_covariates_explain(tmp_path, study):
    made = brainroam.make_cohort(n_sites=5, n_per_site=20, n_rois=8, seed=1)
    rng = np.random.default_rng(0)
    columns = {"score": made.table["age"] + rng.normal(size=100), "eTIV": rng.normal(1500, 100, 100)}
    cohort = with_target(made.with_columns(pd.DataFrame(columns)), "score")
    brainroam.evaluate(cohort, ["fc-ridge", "confounds"], tuning="fast", out=tmp_path / "runs")
    result = CliRunner().invoke(app, ["compare", str(tmp_path / "runs"), "--json"])
    found = {row["method"]: row for row in json.loads(result.stdout)["confounding"]}
    assert found["confounds"]["r"] > 0.5 > 0.3 > found["confounds"]["r_without_all"]
    assert found["confounds"]["r_without_head_size"] is not None and found["confounds"]["n_sites"] == 5
    printed = CliRunner().invoke(app, ["compare", str(tmp_path / "runs")]).stdout
    assert "Motion, age, sex, head size" in printed and "100 people of 5 of 5 sites" in " ".join(printed.split())
    page = html.parse(str(brainroam.write_report(tmp_path / "runs", tmp_path / "r.html"))).getroot()
    (table,) = page.xpath("//table[@data-name='confounding']")
    assert "Without head size" in table.text_content() and "5 sites and 100 people" in page.text_content()
