"""One site under several names, and sites that are left out."""

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.check import check_cohort
from brainroam.data.spellings import look_alikes
from brainroam.errors import UsageError

NINE = ["koeln", "Köln", "Tuebingen", "Tübingen", "Muenchen LMU", "München-LMU", "広島大", "広島大学", "Oslo"]


def study(root, names, n_per_site=6):
    """A folder of series and a table whose sites have these names."""
    cohort = brainroam.make_cohort(n_sites=len(names), n_per_site=n_per_site, n_rois=8, seed=1)
    table = cohort.table
    (root / "ts").mkdir(parents=True)
    for x, subject in zip(cohort.series, table["subject"], strict=True):
        np.savetxt(root / "ts" / f"{subject}.csv", x, delimiter=",")
    center = table["site"].map(dict(zip(cohort.sites, names, strict=True)))
    people = {"ID": table["subject"], "center": center, "dx": table["label"].map({0: "HC", 1: "MDD"})}
    pd.DataFrame(people).to_csv(root / "people.csv", index=False)
    return root


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize(
    "pair",
    [
        ("koeln", "Köln"),
        ("Tuebingen", "Tübingen"),
        ("Muenchen LMU", "München-LMU"),
        ("LMU München", "MuenchenLMU"),
        ("São Paulo", "Sao_Paulo"),
        ("Århus", "Aarhus"),
        ("広島大", "広島大学"),
        ("廣島大學", "広島大"),
        ("华西医院", "華西醫院"),
        ("서울대", "서울대학교"),
        ("Uni Oslo", "University of Oslo"),
        ("KKI", "KKI_ADHD"),
        ("Leiden_2180", "Leiden_2200"),
    ],
)
def test_spellings_of_one_site_are_seen(pair):
    assert look_alikes([*pair, "Rome", "Paris"]) == [list(pair)]


@pytest.mark.parametrize(
    "sites",
    [
        ["NYU", "UM_1", "UM_2", "USM", "LEUVEN_1", "LEUVEN_2", "MAX_MUN", "UCLA_1", "UCLA_2"],
        [f"S{k:02d}" for k in range(1, 25)],
        [f"Site_{k}" for k in range(1001, 1009)],
        ["北大", "東大", "阪大", "大阪", "大連"],
        ["Site 1-2", "Site 2-1", "Site 12"],
    ],
)
def test_different_sites_are_not_taken_for_one(sites):
    assert look_alikes(sites) == []


def test_init_asks_about_every_pair_and_the_answers_make_five_sites_of_nine(tmp_path):
    root = study(tmp_path / "data", NINE)
    out = tmp_path / "study.yaml"
    asked = run("init", root, "--out", out)
    assert asked.exit_code != 0
    for one, other in zip(NINE[:8:2], NINE[1:8:2], strict=True):
        assert f"Are {one!r} (6 people) and {other!r} (6 people) one site?" in asked.output.replace("\n", " ")
    pairs = ["koeln=Köln", "Tuebingen=Tübingen", "Muenchen LMU=München-LMU", "広島大学=広島大"]
    done = run("init", root, "--out", out, *(word for pair in pairs for word in ("--site-names", pair)))
    assert done.exit_code == 0 and "54 people of 5 sites" in done.output, done.output
    names = yaml.safe_load(out.read_text())["site_names"]
    assert names["koeln"] == "Köln" and len(names) == 4
    assert brainroam.load_cohort(out).sites == sorted(["Köln", "Tübingen", "München-LMU", "広島大", "Oslo"])


def test_sites_that_are_said_to_be_several_stay_so_and_are_not_asked_about_again(tmp_path):
    root, out = study(tmp_path / "data", ["UM", "UM_ASD", "Oslo"]), tmp_path / "study.yaml"
    done = run("init", root, "--out", out, "--site-names", "UM=UM,UM_ASD=UM_ASD")
    assert done.exit_code == 0 and "18 people of 3 sites" in done.output, done.output
    assert "may be one site" not in run("check", out).output


def test_names_that_differ_in_case_only_are_joined_without_a_question(tmp_path):
    root, out = study(tmp_path / "data", ["NYU", "nyu", "Oslo"]), tmp_path / "study.yaml"
    done = run("init", root, "--out", out)
    assert done.exit_code == 0 and "18 people of 2 sites" in done.output, done.output


def test_the_check_names_sites_that_look_alike(tmp_path):
    cohort = brainroam.load_cohort(study(tmp_path, ["koeln", "Köln", "Oslo"]))
    (found,) = [finding for finding in check_cohort(cohort).findings if finding.code == "look-alike-sites"]
    assert "'koeln'" in found.message and "{koeln: Köln}" in found.remedy
    told = check_cohort(cohort, site_names={"koeln": "koeln", "Köln": "Köln"})
    assert not any(finding.code == "look-alike-sites" for finding in told.findings)


def test_a_site_that_nobody_has_cannot_be_renamed(tmp_path):
    root = study(tmp_path, ["Rome", "Oslo", "Paris"])
    with pytest.raises(UsageError, match="site_names names Rom, but no site is called so"):
        brainroam.load_cohort(root, site_names={"Rom": "Rome"})


@pytest.mark.parametrize("kind", ["folder", "saved", "store", "synthetic"])
def test_an_excluded_site_is_nowhere_and_its_people_are_listed(tmp_path, kind):
    made = brainroam.make_cohort(n_sites=3, n_per_site=6, n_rois=8, seed=1)
    data, options = {
        "folder": lambda: (study(tmp_path, ["S01", "S02", "S03"]), {}),
        "saved": lambda: (made.save(tmp_path / "cohort.npz"), {}),
        "store": lambda: (_store(tmp_path, made), {}),
        "synthetic": lambda: ("synthetic", {"n_sites": 3, "n_per_site": 6, "n_rois": 8, "seed": 1}),
    }[kind]()
    cohort = brainroam.load_cohort(data, exclude_sites=["S02"], **options)
    assert cohort.sites == ["S01", "S03"]
    assert cohort.excluded["reason"].tolist() == ["site S02 is excluded"] * 6
    with pytest.raises(UsageError, match="site to exclude 'S2'"):
        brainroam.load_cohort(data, exclude_sites=["S2"], **options)
    renamed = brainroam.load_cohort(data, sites=["Oslo", "S03"], site_names={"S01": "Oslo"}, **options)
    assert renamed.sites == ["Oslo", "S03"]


def _store(folder, cohort):
    from brainroam.data.store import write_store

    return write_store(folder / "cohort.zarr", cohort.table, cohort.series)


def test_files_of_an_excluded_site_are_not_opened(tmp_path):
    root = study(tmp_path, ["Rome", "Oslo", "Paris"])
    (root / "ts" / "S01_0001.csv").write_text("damaged")
    cohort = brainroam.load_cohort(root, exclude_sites="Rome")
    assert cohort.sites == ["Oslo", "Paris"]


def test_a_site_is_left_out_on_the_command_line_as_in_the_study_file(tmp_path):
    root, out = study(tmp_path / "data", ["Rome", "Oslo", "Paris", "Wien"]), tmp_path / "study.yaml"
    assert run("init", root, "--out", out, "--exclude-sites", "Rome").exit_code == 0
    assert brainroam.load_cohort(out).sites == ["Oslo", "Paris", "Wien"]
    assert "12 people" in run("check", out, "--exclude-sites", "Rome,Oslo").output


def test_a_store_is_read_without_a_site_piece_by_piece(tmp_path):
    made = brainroam.make_cohort(n_sites=4, n_per_site=10, n_rois=8, seed=1)
    path = _store(tmp_path, made)
    done = run(
        "loso", path, "--methods", "fc-ridge", "--exclude-sites", "S02", "--memory", "1GB", "--out", tmp_path / "o"
    )
    assert done.exit_code == 0, done.output
    sites = set(pd.read_csv(tmp_path / "o" / "scores.csv")["site"])
    assert "S02" not in sites and {"S01", "S03", "S04"} <= sites
