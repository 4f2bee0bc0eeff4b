"""What the page says, against the runs it is made from, and what it says when runs are missing or names are hostile."""

import json
import re
import shutil
import subprocess
import sys

import lxml.html
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from pretended import HOSTILE, pretend
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.target_column import with_target
from brainroam.errors import BrainroamError, RunsError, UsageError
from brainroam.evaluation.tables import read_table

QUESTIONS = ["work", "fail", "confounds", "mine", "trust", "write", "add"]  # these runs keep no pathways
IDS = ["verdict", "figures", "comparison", "sites", "confounding", "groups", "controls", "next-site",
       "calibration", "check", "people", "ablation", "sensitivity", "provenance", "methods", "checklist", "probast",
       "model-card"]  # fmt: skip


def parse(path):
    return lxml.html.fromstring(path.read_text(encoding="utf-8"))


def text_of(page, id):
    return " ".join(page.get_element_by_id(id).text_content().split())


def rows_of(page, name):
    """The values of a table, by its name."""
    (found,) = page.xpath("//table[@data-name=$name]", name=name)
    head = [cell.text_content().strip() for cell in found.xpath("./thead/tr/th")]
    body = [[cell.get("data-value") for cell in row.xpath("./th|./td")] for row in found.xpath("./tbody/tr")]
    return pd.DataFrame(body, columns=head)


def test_every_section_is_there_and_reachable(full_report):
    page = parse(full_report)
    assert [section.get("id") for section in page.xpath("//main//section")] == [IDS[0], "answers", *IDS[1:]]
    assert page.xpath("//div[@class='chapter']/@id") == QUESTIONS
    linked = [link.get("href")[1:] for link in page.xpath("//nav//a")]
    assert sorted(linked) == sorted([*IDS[1:], *QUESTIONS])
    assert all(page.get_element_by_id(link[1:]) is not None for link in page.xpath("//a/@href"))
    assert page.xpath("//a[@class='skip']/@href") == ["#content"] and page.get("lang") == "en"
    assert not page.xpath("//th[not(@scope)]") and not page.xpath("//table[not(caption)]")
    labels = page.xpath("//figure//*[local-name()='svg']/@aria-labelledby")
    assert labels and all(page.get_element_by_id(label).text_content().strip() for label in labels)
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))


def test_the_verdict_is_that_of_compare(full_report, full_runs):
    table = brainroam.compare(full_runs, reference="core").table
    row = table[(table["method"] == "core") & (table["protocol"] == "loso")].iloc[0]
    page = parse(full_report)
    first, figures = text_of(page, "verdict"), text_of(page, "figures")
    assert f"core ranks the right one higher {100 * row['auc']:.0f} times out of 100" in first
    assert f"expect {100 * row['next_low']:.0f} to {100 * row['next_high']:.0f} of 100" in first
    plain = table[(table["method"] == "fc-ridge") & (table["protocol"] == "loso")].iloc[0]
    assert f"Plain ridge regression (fc-ridge) on the same connectivity reaches {100 * plain['auc']:.0f}" in first
    assert f"core has a mean AUC of {row['auc']:.2f}" in figures
    assert f"next site is expected between {row['next_low']:.2f} and {row['next_high']:.2f}" in figures
    assert f"{row['worst_auc']:.2f} {row['worst_site']}" in figures


def test_aucs_are_those_of_the_predictions(full_report, full_runs):
    predictions = read_table(full_runs / "predictions.csv")
    mine = predictions[(predictions["method"] == "core") & (predictions["protocol"] == "loso")]
    expected = {
        site: np.mean([roc_auc_score(run["label"], run["score"]) for _, run in people.groupby("seed")])
        for site, people in mine.groupby("site")
    }
    rows = rows_of(parse(full_report), "auc-by-site").set_index("Site")
    assert rows["AUC"].astype(float).to_dict() == pytest.approx(expected)


def test_ablations_and_sweeps_stand_apart(full_report):
    page = parse(full_report)
    assert sorted(rows_of(page, "methods")["Method"]) == ["confounds", "core", "ensemble", "fc-ridge"]
    assert sorted(rows_of(page, "ablation")["Method"]) == ["core-no-cd", "core-no-pg", "core-no-sg", "core-tp"]
    assert page.xpath("//figure[@id='figure-sweep-budget']") and page.xpath("//figure[@id='figure-sweep-window']")
    assert "site-only" in rows_of(page, "methods-cv")["Method"].tolist()
    assert "in in-distribution folds" in text_of(page, "controls")


def test_site_table_has_what_the_cohort_has(full_report):
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=16, n_rois=8, seed=2)
    rows = rows_of(parse(full_report), "sites").set_index("Site")
    ages = cohort.table.groupby("site")["age"].mean()
    assert rows["Age, mean (SD)"].astype(float).to_dict() == pytest.approx(ages.to_dict())
    assert rows["People"].astype(int).tolist() == [16] * 6


def test_what_is_missing_does_not_stand_in_the_way(hostile_report, hostile_runs):
    page = parse(hostile_report)
    shown = page.xpath("//main//section/@id")
    assert not {"ablation", "sensitivity", "scaffold", "gates", "audit"} & set(shown)
    added = text_of(page, "add")
    assert f"brainroam ablate DATA --out {hostile_runs}" in added  # runs begun from Python name no data
    assert "brainroam sweep DATA --over budget" in added and "brainroam sweep DATA --over window" in added
    assert f"brainroam audit DATA --out {hostile_runs}/audit.json" in added
    assert "brainroam cv DATA --methods site-only" in added
    assert "neither checked nor audited" in text_of(page, "verdict")
    assert "series were not checked" in text_of(page, "answers")


def test_every_column_that_needs_it_is_explained(full_report):
    page = parse(full_report)
    for name in ("methods", "paired", "auc-by-site", "calibration", "confounding"):
        (found,) = page.xpath("//table[@data-name=$name]", name=name)
        titles = [cell.get("title") for cell in found.xpath("./thead/tr/th")][1:]
        legend = found.getparent().getnext().text_content()
        unexplained = [cell.text_content() for cell in found.xpath("./thead/tr/th")[1:] if not cell.get("title")]
        assert set(unexplained) <= {"Sites", "Folds", "People", "With the condition", "Controls"}, unexplained
        assert all(title in legend for title in titles if title)


def test_hostile_names_are_text(hostile_report):
    page = parse(hostile_report)
    assert not page.xpath("//img[@onerror] | //b[@onclick] | //*[@onclick]")
    assert not [script for script in page.xpath("//script") if "alert(" in script.text_content()]
    sites = rows_of(page, "sites")["Site"].tolist()
    assert sorted(name[:20] for name in sites) == sorted(name[:20] for name in HOSTILE)
    drawn = " ".join(page.xpath("//figure[@id='figure-forest']//*[local-name()='text']/text()"))
    assert all(name[:12] in drawn for name in HOSTILE[:3])
    flow = text_of(page, "people")
    assert "2 left out" in flow and "2: for example scanned <twice> 3 times" in flow


def test_nothing_is_fetched_and_the_file_is_small(full_report, hostile_report):
    for path in (full_report, hostile_report):
        html = path.read_text(encoding="utf-8")
        links = parse(path).xpath("//@src | //@href | //@*[local-name()='href']")
        assert all(link.startswith(("#", "data:")) for link in links), [x for x in links if x[:1] != "#"]
        assert not re.search(r"@import|url\(\s*['\"]?(?!#)", html)
        assert path.stat().st_size < 3e6


def test_the_same_runs_give_the_same_bytes(full_runs, full_report, tmp_path):
    assert brainroam.write_report(full_runs, tmp_path / "again.html").read_bytes() == full_report.read_bytes()


def test_figures_are_written_for_print(full_report, full_runs):
    folder = full_runs.parent / "figures"
    names = {path.stem for path in folder.iterdir()}
    assert {"forest", "methods", "calibration", "ablation", "sweep-budget", "sweep-window"} <= names
    for name in names:
        with Image.open(folder / f"{name}.png") as image:
            assert round(image.info["dpi"][0]) == 300 and image.width > 1100
        assert (folder / f"{name}.svg").read_text().startswith("<?xml")


def copy_of(runs, tmp_path):
    return shutil.copytree(runs, tmp_path / "runs")


@pytest.mark.usefixtures("undrawn")
def test_the_audit_is_shown(hostile_runs, tmp_path):
    runs = copy_of(hostile_runs, tmp_path)
    study = json.loads((runs / "study.json").read_text())
    check = {"name": "site decodable <i>", "method": "fc-ridge", "passed": False, "value": 0.912, "limit": 0.6}
    others = [{"name": "duplicates", "passed": True, "evidence": {"pairs": []}}, {"name": "confounds", "passed": None}]
    content = {"checks": [check, *others], "command": "brainroam audit DATA", "manifest_hash": study["manifest_hash"]}
    (runs / "audit.json").write_text(json.dumps(content))
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    audit = text_of(page, "audit")
    assert "The audit failed: site decodable <i> of fc-ridge" in text_of(page, "verdict")
    assert page.xpath("//aside//a/@href")[0] == "#audit"
    assert "1 of 3 checks passed" in audit and "To note: confounds." in audit and "0.912" in audit
    assert "Failed: site decodable <i> (fc-ridge)." in audit and "brainroam audit DATA" in audit
    assert "Of other data" not in audit
    (runs / "audit.json").write_text(json.dumps({**content, "manifest_hash": "other"}))
    assert "Of other data" in text_of(parse(brainroam.write_report(runs, tmp_path / "r.html")), "audit")
    for broken in ("{", "[]", '{"checks": 3}'):
        (runs / "audit.json").write_text(broken)
        with pytest.raises(RunsError, match="brainroam audit"):
            brainroam.write_report(runs, tmp_path / "r.html")


@pytest.mark.usefixtures("undrawn")
def test_every_sentence_about_audits_reads_one_verdict_and_names_whom_it_covers(full_runs, tmp_path):
    runs = copy_of(full_runs, tmp_path)
    study = json.loads((runs / "study.json").read_text())
    check = {"name": "corruption", "method": "core", "passed": True}
    (runs / "audit.json").write_text(json.dumps({"checks": [check], "manifest_hash": study["manifest_hash"]}))
    leaking = {"key": "k", "method": "fc-ridge", "verdict": "2 of 11 checks failed", "leak": True}
    leaking |= {"n_checks": 11, "n_passed": 9, "failed": ["memory", "names"]}
    (runs / "method-audits.json").write_text(json.dumps({"audits": [leaking]}))
    page = brainroam.write_report(runs, tmp_path / "r.html").read_text(encoding="utf-8")
    words = "10 of 12 checks for leaks and shortcuts passed; failed: memory (fc-ridge), names (fc-ridge)."
    assert page.count(words) >= 2 and "none failed" not in page and "0 checks failed" not in page
    assert "They are of the data and of core, fc-ridge, not of confounds," in page


@pytest.mark.usefixtures("undrawn")
def test_missing_and_failed_runs_are_admitted(full_runs, tmp_path):
    runs = copy_of(full_runs, tmp_path)
    gone, *_ = (
        f for f in sorted((runs / "runs").iterdir()) if json.loads(f.read_text())["spec"]["method"] == "fc-ridge"
    )
    gone.unlink()
    with pytest.warns(UserWarning, match="1 of the runs"):
        page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert "Incomplete: 1 of the runs" in text_of(page, "verdict")
    assert "Runs that are not done yet" in text_of(page, "provenance")
    assert "fc-ridge has no result at" in text_of(page, "comparison")
    (cell,) = page.xpath("//table[@data-name='methods']/tbody/tr[th[@data-value='fc-ridge']]/td[1]")
    assert cell.text_content().strip() == "5 of 6"
    assert "Plain ridge regression" not in text_of(page, "verdict")  # its mean is over other sites


@pytest.mark.usefixtures("undrawn")
def test_a_curve_of_a_sweep_is_over_the_sites_that_all_its_points_have(full_runs, tmp_path):
    runs = copy_of(full_runs, tmp_path)
    for file in (runs / "runs").iterdir():
        spec = json.loads(file.read_text())["spec"]
        if (spec["method"], spec["parameters"], spec["fold"]) == ("core", {"budget": 20}, "S01"):
            file.unlink()
    with pytest.warns(UserWarning, match="of the runs"):
        page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert "Over the 5 of 6 sites that all points have." in text_of(page, "sensitivity")


@pytest.mark.usefixtures("undrawn")
def test_folds_alone_say_nothing_about_the_next_site(tmp_path):
    cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=8)
    runs = pretend(tmp_path / "runs", cohort, ["fc-ridge", "site-only"], protocol="cv", n_splits=3)
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert "in-distribution folds say nothing about the next site" in text_of(page, "figures")
    assert "At the next" not in text_of(page, "verdict")
    assert "Nadeau and Bengio" in text_of(page, "comparison")


@pytest.mark.usefixtures("undrawn")
def test_halves_of_the_sites_have_a_report_with_a_mean_and_no_next_site(tmp_path):
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=10, n_rois=8)
    brainroam.evaluate(cohort, ["fc-ridge", "majority"], "halves", n_repeats=2, tuning="fast", out=tmp_path / "runs")
    page = parse(brainroam.write_report(tmp_path / "runs", tmp_path / "r.html"))
    verdict = text_of(page, "figures")
    assert "trained on half of the sites, fc-ridge has a mean AUC of" in verdict
    assert "over 4 held-out sites); no prediction for the next site" in verdict
    assert "Holm over 1 comparison: fc-ridge against each other method (halves of the sites)" in text_of(
        page, "comparison"
    )
    assert "averaged within each site first" in text_of(page, "methods")


@pytest.mark.usefixtures("undrawn")
def test_a_site_whose_codes_were_swapped_is_doubted(tmp_path):
    cohort = brainroam.make_cohort(n_sites=5, n_per_site=24, n_rois=8, seed=2)
    runs = pretend(tmp_path / "runs", cohort, ["fc-ridge"], shift=2.0, swapped=["S04"])
    page = brainroam.write_report(runs, tmp_path / "report.html").read_text()
    assert "Scores are reversed at S04" in page and "codes of cases and controls are swapped there" in page
    assert concerns_of(parse(tmp_path / "report.html"))[0] == "Scores are reversed at S04."
    assert "At S04 the interval lies below guessing (0.5)" in page
    fair = pretend(tmp_path / "fair", cohort, ["fc-ridge"], shift=2.0)
    assert "Scores are reversed" not in brainroam.write_report(fair, tmp_path / "fair.html").read_text()


def concerns_of(page):
    return [" ".join(item.text_content().split()) for item in page.xpath("//aside[@class='concerns']//li/strong")]


@pytest.mark.usefixtures("undrawn")
def test_the_gravest_worries_come_first_and_the_verdict_names_covariates(tmp_path):
    cohort = brainroam.make_cohort(n_sites=5, n_per_site=24, n_rois=8, seed=2)
    still = cohort.with_columns(pd.DataFrame({"mean_fd": np.full(len(cohort), np.nan)}))
    runs = pretend(tmp_path / "runs", still, ["ensemble", "fc-ridge", "confounds"], shift=1.5)
    found = [("missing-rois", None), ("alike-people", None), ("label-by-n_timepoints", None), ("label-by-age", "S01")]
    findings = [{"severity": "warning", "code": code, "message": code, "site": site} for code, site in found]
    (runs / "check.json").write_text(json.dumps({"findings": findings}))
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    first, second, third = concerns_of(page)
    assert "covariates" in first and "motion" in second and "length" in third
    assert "after Holm" in text_of(page, "verdict") or "p = " in text_of(page, "verdict")
    (bold,) = page.xpath("//p[@class='judgement']")
    assert "cannot tell it from covariates alone (confounds)" in bold.text_content()


@pytest.mark.usefixtures("undrawn")
def test_a_method_that_beats_covariates_has_no_worry_about_them(tmp_path):
    cohort = brainroam.make_cohort(n_sites=6, n_per_site=24, n_rois=8, seed=2)
    runs = pretend(tmp_path / "runs", cohort, ["ensemble"], shift=3.0)
    pretend(runs, cohort, ["confounds"], shift=0.0)
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert not [title for title in concerns_of(page) if "ovariates alone" in title or "not known" in title]
    (bold,) = page.xpath("//p[@class='judgement']")
    assert "It is better than covariates alone (confounds)" in bold.text_content()


@pytest.mark.usefixtures("undrawn")
def test_without_motion_its_section_is_whole_sentences_and_says_what_age_and_sex_leave(tmp_path):
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=20, n_rois=8, seed=2)
    still = cohort.with_columns(pd.DataFrame({"mean_fd": np.full(len(cohort), np.nan)}))
    runs = pretend(tmp_path / "runs", still, ["fc-ridge"], shift=1.5)
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    rows = rows_of(page, "confounding")
    assert "Without motion" not in rows and (rows["Without age, sex"].astype(float) > 0.5).all()
    said = page.get_element_by_id("confounding").xpath("./details/p")[0].text_content()
    assert all(part[0].isupper() and len(part.split()) > 4 for part in said.rstrip(".").split(". ")), said
    assert (
        "Head motion is not known" in said and f"{float(rows['Without age, sex'][0]):.2f} without age and sex" in said
    )


@pytest.mark.usefixtures("undrawn")
def test_the_sites_where_age_is_known_are_counted_in_whole_numbers(tmp_path):
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=20, n_rois=8, seed=2)
    table = cohort.table
    known = pd.DataFrame({"mean_fd": np.nan, "age": table["age"].where(table["site"] != "S01")})
    runs = pretend(tmp_path / "runs", cohort.with_columns(known), ["fc-ridge"], shift=1.5)
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert "at the 3 of 4 sites where all can be taken out" in page.get_element_by_id("confounding").text_content()


@pytest.mark.usefixtures("undrawn")
def test_a_study_of_one_held_out_site(tmp_path):
    cohort = brainroam.make_cohort(n_sites=2, n_per_site=12, n_rois=8)
    brainroam.evaluate(cohort, ["majority"], tuning="fast", held_out=["S01"], out=tmp_path / "runs")
    page = parse(brainroam.write_report(tmp_path / "runs", tmp_path / "r.html"))
    assert "over 1 held-out site; no intervals: fewer than 3 sites" in text_of(page, "figures")
    assert "Other methods to compare with" in text_of(page, "add") and not page.xpath("//section[@id='comparison']")
    assert "12 of these people were held out" in text_of(page, "people")


def test_errors_say_what_to_do(hostile_runs, tmp_path):
    with pytest.raises(RunsError, match="runs"):
        brainroam.write_report(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(hostile_runs / "study.json", empty)
    with pytest.raises(RunsError, match="finished"):
        brainroam.write_report(empty)
    with pytest.raises(UsageError, match="'fc-ridge'"):
        brainroam.write_report(hostile_runs, tmp_path / "r.html", method="fc-rigde")
    (tmp_path / "file").write_text("")
    with pytest.raises(BrainroamError, match="write"):
        brainroam.write_report(hostile_runs, tmp_path / "file" / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_the_command_writes_page_and_figures_of_the_method_asked_for(hostile_runs, tmp_path):
    def run(*words):
        return CliRunner().invoke(app, ["report", *map(str, words)])

    result = run(hostile_runs, "--out", tmp_path / "r.html", "--method", "confounds", "--figures", tmp_path / "figures")
    assert result.exit_code == 0 and str(tmp_path / "r.html") in result.stdout, result.output
    assert "confounds has a mean AUC" in text_of(parse(tmp_path / "r.html"), "figures")
    assert (tmp_path / "figures" / "forest.png").is_file()
    assert "Example: brainroam report" in run("--help").output
    result = run(tmp_path / "nowhere")
    assert result.exit_code == 1 and "holds no runs" in result.stderr


def test_the_package_is_imported_without_drawing():
    subprocess.run([sys.executable, "-c", "import brainroam, sys; assert 'matplotlib' not in sys.modules"], check=True)


@pytest.mark.usefixtures("undrawn")
def test_sites_with_one_class_have_no_figures_rather_than_wrong_ones(tmp_path):
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=8)
    half = cohort.table["site"].isin(["S01", "S02"]).map({True: "A", False: "B"})
    apart = cohort.with_columns(pd.DataFrame({"site": half + cohort.table["label"].map({0: " controls", 1: " cases"})}))
    runs = pretend(tmp_path / "runs", apart, ["core", "fc-ridge"])
    page = parse(brainroam.write_report(runs, tmp_path / "r.html"))
    assert "No site has both cases and controls" in text_of(page, "verdict")
    assert not re.search(r"\bnan\b", page.find("body").text_content())


def test_the_first_lines_say_what_is_called_the_condition_and_which_blocks_there_are(tmp_path):
    made = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=8)
    table = brainroam.Cohort([x[:1] for x in made.series], made.table, measure="table")
    predicting = with_target(table.with_block("more", table, "anatomy"), "sex")
    results = brainroam.evaluate(predicting, ["fc-ridge", "confounds"], tuning="fast")
    page = brainroam.write_report(results, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "with sex male) at 4 sites, blocks anatomy, more" in page
    assert "one person with sex male and one with sex female" in page
    assert "Head motion is not known for anybody.</strong>" not in page  # of tables nobody expects it
