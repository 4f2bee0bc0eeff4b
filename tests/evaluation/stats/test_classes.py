"""Several classes at held-out sites: metrics against scikit-learn, verdicts, comparison, tables, page, prediction."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from tests.evaluation.class_coverage_study import independent_coverage
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.target.order import equivalent_sizes
from brainroam.data.target.sites_several import site_metrics
from brainroam.data.target_column import with_target
from brainroam.errors import DataError
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.class_pairs import class_pairs
from brainroam.evaluation.stats.compare import compare_methods
from brainroam.evaluation.stats.verdict import auc_variance

NAMES = ("HC", "MDD", "SCZ")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A wide table of tiny sites, some of which lack a class."""
    rng, rows = np.random.default_rng(0), []
    for site in range(8):
        for k, count in enumerate([(5, 4, 4), (3, 0, 5), (6, 2, 1), (4, 4, 0)][site % 4]):
            for _ in range(count):
                values = rng.normal(size=6) + 2 * np.eye(6)[k] + site % 3
                rows.append([f"s{len(rows)}", f"site{site}", NAMES[k], *values])
    path = tmp_path_factory.mktemp("wide") / "people.csv"
    people = pd.DataFrame(rows, columns=["participant_id", "site", "diagnosis", *(f"volume_{j}" for j in range(6))])
    people.to_csv(path, index=False)
    return path


def test_metrics_of_a_site_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    code, p = rng.integers(3, size=60), rng.dirichlet(np.ones(3), size=60)
    found = site_metrics(code, p, p.argmax(axis=1), p, NAMES)
    assert found["auc"] == pytest.approx(roc_auc_score(code, p, multi_class="ovr"))
    assert found["balanced_acc"] == pytest.approx(balanced_accuracy_score(code, p.argmax(axis=1)))
    assert found["log_loss"] == pytest.approx(log_loss(code, p))
    assert found["auc_MDD"] == pytest.approx(roc_auc_score(code == 1, p[:, 1]))


def test_a_site_counts_as_one_of_two_classes_with_the_same_variance():
    (m,) = equivalent_sizes(np.array([[12, 7, 3]]))
    of_classes = [auc_variance(0.0, 0.0, np.array(k), np.array(22 - k)) for k in (12, 7, 3)]
    assert auc_variance(0.0, 0.0, m, m) == pytest.approx(np.mean(of_classes))
    assert equivalent_sizes(np.array([[12, 7]]))[0] == pytest.approx(equivalent_sizes(np.array([[12, 7, 0]]))[0])


@pytest.mark.parametrize("equal", [True, False])
def test_intervals_cover(equal):
    found = independent_coverage(6, equal, 0.8, 0.2, 60)  # of the mean, of the next site, of what is observed there
    assert min(found) >= 0.9  # 60 studies; docs/reliability.md has 300 for each


def test_pairs_that_nothing_tells_apart_are_called_so():
    rng = np.random.default_rng(1)
    n = 600
    code, site = rng.integers(3, size=n), np.repeat([f"S{k}" for k in range(12)], n // 12)
    odds = np.column_stack([2.0 * (code == 0), 0.5 * rng.normal(size=n), np.zeros(n)]) + rng.normal(size=(n, 3))
    p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    columns = {f"probability_{name}": p[:, k] for k, name in enumerate(NAMES)}
    people = pd.DataFrame({"site": site, "subject": np.arange(n).astype(str), "label": code, **columns})
    target = brainroam.data.target.Classes("dx", NAMES)
    found = class_pairs(people, target, models).set_index(["class_1", "class_2"])["apart"]
    assert found.to_dict() == {("HC", "MDD"): True, ("HC", "SCZ"): True, ("MDD", "SCZ"): False}


def test_of_twelve_meaningless_classes_no_pair_is_claimed():
    """66 pairs at once: without a correction a quarter of such studies claim one."""
    rng, names = np.random.default_rng(0), tuple(f"c{k}" for k in range(12))
    target, claimed = brainroam.data.target.Classes("dx", names), 0
    for _ in range(20):
        n = 480
        p = rng.dirichlet(np.ones(12), size=n)
        columns = {f"probability_{name}": p[:, k] for k, name in enumerate(names)}
        site, code = np.repeat([f"S{k}" for k in range(8)], n // 8), rng.integers(12, size=n)
        people = pd.DataFrame({"site": site, "subject": np.arange(n).astype(str), "label": code, **columns})
        found = class_pairs(people, target, models)
        claimed += bool(found["apart"].any())
    assert claimed <= 2


def test_a_study_from_init_to_report_and_prediction(table, tmp_path):
    run = CliRunner().invoke
    study = tmp_path / "study.yaml"
    made = run(app, ["init", str(table), "--target", "diagnosis", "--out", str(study)])
    assert made.exit_code == 0, made.output
    done = run(
        app, ["run", str(study), "--methods", "fc-ridge,majority", "--jobs", "1", "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0, done.output
    assert "told apart" in done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(word in page for word in ("called HC", "confusion", "AUC SCZ", "held-out sites"))
    assert "33.3 is guessing" in page  # what columns mean is not that of two classes
    for chapter in ("people", "provenance", "methods", "checklist", "probast", "model-card", "next-site"):
        assert f'<section id="{chapter}"' in page, chapter
    results = brainroam.evaluation.results.load_runs(tmp_path / "out" / "runs")
    assert {"auc", "auc_HC", "n_SCZ", "log_loss"} <= set(results.scores)
    assert results.predictions[[f"probability_{name}" for name in NAMES]].sum(axis=1).to_numpy() == pytest.approx(1)
    compared = compare_methods(results.scores, results.predictions, target=results.target)
    assert compared.table["method"].tolist() == ["fc-ridge", "majority"]
    assert compared.paired["difference"].abs().iloc[0] == pytest.approx(compared.table["auc"].diff().abs().iloc[-1])

    sites = sorted(results.scores["site"].unique())
    few = results.scores[(results.scores["method"] == "majority") | (results.scores["site"] == sites[0])]
    people = results.predictions
    people = people[(people["method"] == "majority") | (people["site"] == sites[0])]
    partial = compare_methods(few, people, target=results.target)
    assert partial.table["method"].tolist() == ["majority", "fc-ridge"]
    assert partial.table["of_sites"].tolist() == [len(sites)] * 2
    assert any(f"over 1 of {len(sites)} sites" in note for note in partial.notes)

    fitted = run(app, ["fit", str(study), "--method", "fc-ridge", "--out", str(tmp_path / "model")])
    assert fitted.exit_code == 0, fitted.output
    shares = "HC=0.8,MDD=0.1,SCZ=0.1"
    csv = tmp_path / "predictions.csv"
    told = run(app, ["predict", str(tmp_path / "model"), str(study), "--prevalence", shares, "--out", str(csv)])
    assert told.exit_code == 0, told.output
    people = pd.read_csv(csv)
    assert set(people["predicted"]) <= set(NAMES)
    assert (people["label"] == people["predicted"]).mean() > 0.5
    assert people[[f"probability_{name}" for name in NAMES]].sum(axis=1).to_numpy() == pytest.approx(1)
    refused = run(app, ["predict", str(tmp_path / "model"), str(study), "--prevalence", "0.1", "--out", str(csv)])
    assert refused.exit_code != 0
    assert re.search("share", refused.output + str(refused.exception))


def test_a_class_of_one_site_is_left_out_and_said():
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    dx = np.tile(["HC", "MDD", "SCZ"], 12).astype(object)
    dx[[0, 3]] = "rare"
    with pytest.warns(UserWarning, match="one site"):
        found = with_target(cohort.with_columns(pd.DataFrame({"dx": dx})), "dx")
    assert found.target.classes == NAMES
    assert found.excluded["reason"].str.contains("rare").sum() == 2
    dx = np.where(np.arange(36) < 12, "HC", np.tile(["MDD", "SCZ"], 18))
    with pytest.warns(UserWarning, match="one site"), pytest.raises(DataError, match="three classes"):
        with_target(cohort.with_columns(pd.DataFrame({"dx": dx})), "dx")


def test_thirty_classes_are_asked_about():
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    names = pd.DataFrame({"dx": [f"c{k % 30}" for k in range(36)]})
    with pytest.raises(DataError, match="number"):
        with_target(cohort.with_columns(names), "dx")
