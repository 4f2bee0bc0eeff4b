"""Deconfounded edges out: right by an independent regression, and nothing of a held-out site in what others get."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from brainroam import make_cohort
from brainroam.cli import app
from brainroam.core.connectivity import cohort_edges, pearson_edges
from brainroam.data.cohort import Cohort
from brainroam.report.relmats import deconfounded_edges, write_edge_table


def made(n_rois=8):
    return make_cohort(n_sites=3, n_per_site=20, n_rois=n_rois, seed=3).using(["age", "mean_fd"])


def test_residuals_of_training_people_have_neither_site_nor_covariate_left():
    cohort = made()
    residuals, edges = deconfounded_edges(cohort).values, cohort_edges(cohort, "pearson")
    for site in cohort.sites:
        here = (cohort.table["site"] == site).to_numpy()
        q = cohort.table.loc[here, ["age", "mean_fd"]].to_numpy()
        design = np.column_stack([np.ones(len(q)), q])
        expected = edges[here] - design @ np.linalg.lstsq(design, edges[here], rcond=None)[0]
        # Huber's regression and least squares agree but for the pull of outliers
        alike = [np.corrcoef(a, b)[0, 1] for a, b in zip(residuals[here].T, expected.T, strict=True)]
        assert np.median(alike) > 0.99 and abs(residuals[here].mean()) < 0.02


def test_a_held_out_site_is_not_learned_from():
    cohort = made()
    table, series = cohort.table, cohort.series
    away = (table["site"] == "S03").to_numpy()
    rng = np.random.default_rng(0)
    for k in np.flatnonzero(away)[1:]:
        series[k] = rng.normal(size=series[k].shape)
    table.loc[np.flatnonzero(away)[1:], "age"] = 99.0
    other = Cohort(series, table, covariates=cohort.covariate_names)
    one, two = (deconfounded_edges(x, held_out=["S03"]) for x in (cohort, other))
    assert set(one.by[away]) == {"frozen"} and set(one.by[~away]) == {"site"}
    np.testing.assert_array_equal(one.values[~away], two.values[~away])
    first = np.flatnonzero(away)[0]
    np.testing.assert_array_equal(one.values[first], two.values[first])  # nor do its people depend on one another


def test_the_command_writes_what_the_function_gives(tmp_path):
    cohort = made()
    cohort.save(tmp_path / "c.npz")
    typed = ["export", str(tmp_path / "c.npz"), "--deconfounded", "--held-out", "S03", "--covariates", "age,mean_fd"]
    result = CliRunner().invoke(app, [*typed, "--table", "--out", str(tmp_path / "edges")])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "edges" / "edges.tsv", sep="\t")
    expected = deconfounded_edges(cohort, held_out=["S03"]).values
    np.testing.assert_allclose(table.iloc[:, 4:].to_numpy(), expected, rtol=1e-4, atol=1e-5)
    assert table["deconfounded"].value_counts().to_dict() == {"site": 40, "frozen": 20}
    assert list(table)[4] == "ROI_001--ROI_002"
    told = json.loads((tmp_path / "edges" / "edges.json").read_text())["MeasureDescription"]
    assert "on age, mean_fd, learned on 2 sites (S01, S02)" in told
    matrices = CliRunner().invoke(app, [*typed, "--out", str(tmp_path / "relmats")])
    assert matrices.exit_code == 0, matrices.output
    first = next((tmp_path / "relmats").glob("sub-*/func/*_relmat.dense.tsv"))
    assert np.loadtxt(first, delimiter="\t").shape == (8, 8)
    assert pd.read_csv(tmp_path / "relmats" / "participants.tsv", sep="\t")["deconfounded"].iloc[-1] == "frozen"


def test_without_the_option_edges_are_as_they_are(tmp_path):
    cohort = made()
    cohort.save(tmp_path / "c.npz")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "c.npz"), "--table", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "edges.tsv", sep="\t")
    np.testing.assert_allclose(table.iloc[:, 3:].to_numpy(), pearson_edges(cohort.series), rtol=1e-4, atol=1e-5)
    refused = CliRunner().invoke(app, ["export", str(tmp_path / "c.npz"), "--held-out", "S03"])
    assert refused.exit_code == 2


def test_no_cell_of_the_table_of_edges_is_a_formula(tmp_path):
    cohort = made()
    people = cohort.table.assign(subject=["=1+1", *cohort.table["subject"][1:]])
    path = write_edge_table(Cohort(cohort.series, people), tmp_path)
    assert path.read_text().splitlines()[1].startswith("'=1+1\t")
