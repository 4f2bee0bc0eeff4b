"""Two studies of the same people side by side, as typed."""

import json

import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.errors import RunsError
from brainroam.evaluation.tables import read_table


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("studies")
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=14, n_rois=8, seed=1)
    fewer = cohort.subset(range(1, len(cohort)))  # another pipeline lost somebody
    for name, people in (("before", cohort), ("after", fewer)):
        brainroam.evaluate(people, ["fc-ridge", "majority"], tuning="fast", out=root / name / "runs")
    return root


def test_compare_pairs_the_people_both_have(folders):
    words = ["compare", str(folders / "before" / "runs"), str(folders / "after" / "runs"), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    methods = {row["method"]: row["auc"] for row in found["methods"]}
    assert set(methods) == {f"{s}: {m}" for s in ("before", "after") for m in ("fc-ridge", "majority")}
    assert any("1 person is not in every study" in note for note in found["notes"])
    rows, kept = (read_table(folders / name / "runs" / "predictions.csv") for name in ("before", "after"))
    rows = rows[(rows["method"] == "fc-ridge") & rows["subject"].isin(kept["subject"])]
    mean = sum(roc_auc_score(here["label"], here["score"]) for _, here in rows.groupby("site")) / 3
    assert methods["before: fc-ridge"] == pytest.approx(mean)


@pytest.mark.usefixtures("undrawn")
def test_report_of_two_folders(folders, tmp_path):
    page = brainroam.write_report([folders / "before" / "runs", folders / "after" / "runs"], tmp_path / "r.html")
    html = page.read_text(encoding="utf-8")
    assert "<h1>before and after</h1>" in html and "after: fc-ridge" in html


def test_strangers_and_twins_are_refused(folders, tmp_path):
    other = brainroam.make_cohort(n_sites=3, n_per_site=14, n_rois=8, seed=2)
    other = other.with_columns(other.table[["subject"]].map(lambda name: f"x{name}"))
    brainroam.evaluate(other, ["majority"], tuning="fast", out=tmp_path / "runs")
    with pytest.raises(RunsError, match="common"):
        brainroam.compare([folders / "before" / "runs", tmp_path / "runs"])
    with pytest.raises(RunsError, match="twice"):
        brainroam.compare([tmp_path / "runs", tmp_path / "runs"])
