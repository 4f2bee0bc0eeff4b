"""`python -m reproduction` as typed: on made-up people, and on small trees of the paper's five datasets."""

import re

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import app
from scipy.io import savemat
from typer.testing import CliRunner

SMALL = ("--option", "n_sites=4", "--option", "n_per_site=12", "--option", "n_rois=8")
BASE = "baseline_year_1_arm_1"


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of everything that is quick."""
    out = tmp_path_factory.mktemp("paper") / "study"
    parts = "dataset,loso,cv,edges,sites,variation,learning,k"
    run("synthetic", *SMALL, "--parts", parts, "--methods", "fc-ridge", "--epochs", 1, "--tuning", "fast", "--out", out)
    return out


def test_other_data_have_a_page_without_published_numbers(study):
    page = (study / "paper.md").read_text()
    assert "none of its five datasets" in page and "65.5" not in page and "Published" not in page
    assert "| reference | fc-ridge |" in page and "Not run yet: gcn" in page
    html = (study / "paper.html").read_text()
    assert "<h1>The paper on other data</h1>" in html and "http://" not in html.replace("http://www.w3.org", "")


def test_edges_and_sites_come_from_the_trained_network(study):
    page = (study / "paper.md").read_text()
    assert "at least half of the folds of core-paper[epochs=1] selected" in page
    folds = page[page.index("### Figure 7") :]
    assert re.search(r"\| S01 \| .+ - .+ 0\.\d{3}", folds) and re.search(r"\| S04 \| .+ - .+ 0\.\d{3}", folds)


def test_figures_1_and_2_and_what_networks_learn_are_drawn(study):
    page = (study / "paper.md").read_text()
    for name in ("figure-1", "figure-2", "learning"):
        assert f"paper-figures/{name}.png" in page
        assert (study / "paper-figures" / f"{name}.png").stat().st_size > 1000
    assert "| positive edges | 4 |" in page and "| both signs, oriented | 4 |" in page


def test_a_gate_budget_larger_than_the_scaffold_is_explained_and_not_awaited(study):
    page = (study / "paper.md").read_text()
    part = page[page.index("### Figure 4c") : page.index("### Figure 4d")]
    assert "cannot be run here: the gate budget K = 20 exceeds the" in part
    assert "Not run yet" not in part


def test_the_same_command_does_nothing_twice(study):
    runs = {file: file.stat().st_mtime_ns for file in (study / "runs" / "runs").iterdir()}
    (study / "paper.html").unlink()
    run(
        "synthetic",
        *SMALL,
        "--parts",
        "loso,edges",
        "--methods",
        "fc-ridge",
        "--epochs",
        1,
        "--tuning",
        "fast",
        "--out",
        study,
    )
    assert (study / "paper.html").is_file()
    assert runs == {file: file.stat().st_mtime_ns for file in (study / "runs" / "runs").iterdir()}


def test_an_unknown_part_is_answered_with_the_nearest(tmp_path):
    result = CliRunner().invoke(app, ["synthetic", *SMALL, "--parts", "ablatoin", "--out", str(tmp_path)])
    assert result.exit_code == 2 and "did you mean 'ablation'?" in result.output


# --- the five datasets ------------------------------------------------------------------------------------------------


def series(n_volumes=40, n_rois=116, seed=0):
    return np.random.default_rng(seed).normal(size=(n_volumes, n_rois))


def abide(root, roi_set="aal", n_rois=116):
    rows = []
    for i, site in enumerate(("PITT", "PITT", "YALE", "YALE")):
        name = f"{site}_00500{i}"
        rows.append({"SUB_ID": f"500{i}", "SITE_ID": site, "FILE_ID": name, "DX_GROUP": 1 + i % 2, "AGE_AT_SCAN": 20,
                     "SEX": 1, "FIQ": 100, "func_mean_fd": 0.1})  # fmt: skip
        file = root / "cpac" / "filt_global" / f"{name}_rois_{roi_set}.1D"
        file.parent.mkdir(parents=True, exist_ok=True)
        header = "\t".join(f"#{k}" for k in range(1, n_rois + 1))
        np.savetxt(file, series(n_rois=n_rois, seed=i), "%.4f", "\t", header=header, comments="")
    pd.DataFrame(rows).to_csv(root / "Phenotypic_V1_0b_preprocessed1.csv", index=False)
    return root, ("--atlas", roi_set)


def abide_cc200(root):
    return abide(root, "cc200", 200)


def rest_meta_mdd(root):
    folder = root / "Results" / "ROISignals_FunImgARCWF"
    folder.mkdir(parents=True)
    names = ["S1-1-0001", "S1-2-0001", "S20-1-0001", "S20-2-0001"]
    for i, name in enumerate(names):
        savemat(folder / f"ROISignals_{name}.mat", {"ROISignals": series(n_rois=1833, seed=i)})
    rows = [{"ID": name, "Sex": 1, "Age": 30} for name in names]
    with pd.ExcelWriter(root / "REST-meta-MDD-PhenotypicData_WithHAMDSubItem_V4.xlsx") as book:
        for sheet, mark in (("MDD", "-1-"), ("Controls", "-2-")):
            pd.DataFrame([row for row in rows if mark in row["ID"]]).to_excel(book, sheet_name=sheet, index=False)
    return root, ()


def srpbs(root):
    lines = ["participant_id\tsite\tprotocol\tdiag\tage\tsex\thand"]
    for i, site in enumerate(("HUH", "HUH", "KUT", "KUT")):
        lines.append(f"sub-000{i}\t{site}\t4\t{2 * (i % 2)}\t30\t1\t1")
        (root / "data").mkdir(parents=True, exist_ok=True)
        np.savetxt(root / "data" / f"sub-000{i}.csv", series(seed=i), "%.4f", ",")
    (root / "participants.tsv").write_text("\n".join(lines) + "\n")
    (root / "MRI_protocols_rsMRI.tsv").write_text("Parameters\nProtocol #\t4\nMRI Scanner\tGE\nTR (s)\t2.5\n")
    return root, ("--reader", "srpbs", "--option", "template=data/{participant_id}.csv")


def abcd(root):
    general, health = root / "core" / "abcd-general", root / "core" / "mental-health"
    for folder in (general, health, root / "series"):
        folder.mkdir(parents=True)
    ids = [f"NDAR_INV{name}" for name in ("AAA", "BBB", "CCC", "DDD")]
    site = ["site02", "site02", "site06", "site06"]
    of_visit = {"src_subject_id": ids, "eventname": BASE}
    tracking = {"site_id_l": site, "rel_family_id": range(4), "interview_age": 114}
    pd.DataFrame({**of_visit, **tracking}).to_csv(general / "abcd_y_lt.csv", index=False)
    pd.DataFrame({**of_visit, "demo_sex_v2": 1}).to_csv(general / "abcd_p_demo.csv", index=False)
    answers = {f"ksads_14_{k}_p": [1, 0, 1, 0] if k == 853 else 0 for k in (853, 854, 855, 856)}
    pd.DataFrame({**of_visit, **answers}).to_csv(health / "mh_p_ksads_ss.csv", index=False)
    for i, name in enumerate(ids):
        np.save(root / "series" / f"{name.replace('_', '')}.npy", series(400, seed=i))
    return root, ("--reader", "abcd", "--option", "template=series/{participant_id}.npy")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("make", "title", "core"),
    [
        (abide, "ABIDE", "65.5"),
        (abide_cc200, "ABIDE (CC200)", "63.7"),
        (rest_meta_mdd, "REST-meta-MDD", "67.4"),
        (srpbs, "SRPBS", "91.1"),
        (abcd, "ABCD (ADHD-task)", "74.3"),
    ],
)
def test_each_dataset_of_the_paper_is_known_with_its_numbers(make, title, core, tmp_path):
    root, options = make(tmp_path / "data")
    out = tmp_path / "paper"
    run(root, *options, "--parts", "dataset", "--out", out)
    page = (out / "paper.md").read_text()
    assert f"# The paper on {title}\n" in page and "4 people (2 with the condition) at 2 sites" in page
    row = next(line for line in page.splitlines() if line.startswith("| CORE, epochs chosen"))
    assert row.split(" | ")[2].startswith(core)  # published AUC, and nothing of ours beside it
    assert row.split(" | ")[3] == "\N{EN DASH}"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whoever_names_sites_gets_those_and_no_published_numbers(tmp_path):
    root, options = abide(tmp_path / "data")
    arguments = root, *options, "--sites", "PITT", "--parts", "dataset", "--out", tmp_path / "paper"
    run(*arguments)
    page = tmp_path / "paper" / "paper.md"
    assert "# The paper on other data" in page.read_text()
    page.unlink()
    run(*arguments, "--page-only")  # needs no data
    assert "# The paper on other data" in page.read_text()
