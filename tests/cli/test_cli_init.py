"""From a folder as people have them to a report: `brainroam init` and `brainroam run`, as typed."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml
from docs_world import abide
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.cli.source import source_of
from brainroam.data.detect import look
from brainroam.data.study_file import Study, read_study
from brainroam.data.synthetic import make_cohort
from brainroam.errors import ReaderError, UsageError

CITIES = {"S01": "Oslo", "S02": "Rome 1.5T", "S03": "São Paulo"}


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def messy(root, n_rois=12, transpose=False, table="Copy of subjects FINAL v2.xlsx", **names):
    """120 csv files and a spreadsheet whose ids lost their zeros, with odd column names."""
    cohort = make_cohort(n_sites=3, n_per_site=40, n_rois=n_rois, seed=1)
    series = root / "timeseries_final"
    series.mkdir(parents=True)
    rows = []
    for k, (x, person) in enumerate(zip(cohort.series, cohort.table.itertuples(), strict=True), start=1):
        city = CITIES[person.site]
        np.savetxt(series / f"{city[:2].upper()}_{k:04d}_rest.csv", x.T if transpose else x, fmt="%.4f", delimiter=",")
        row = (
            k,
            city,
            1 if person.label else 2,
            round(person.age, 1),
            "M" if person.sex else "F",
            "" if k % 7 else "!",
        )
        rows.append(row)
    header = ("Sub ID", "Scanner location", "Dx (1=patient)", "Age at visit", "Gender", "Remarks")
    frame = pd.DataFrame(rows, columns=[names.get(name, name) for name in header])
    path = root / table
    frame.to_excel(path, index=False) if path.suffix == ".xlsx" else frame.to_csv(path, index=False, sep=";")
    return cohort


@pytest.mark.parametrize(
    ("place", "template"),
    [
        ("data/{site}/{number}_ts.csv", "data/{site}/{participant_id}_ts.csv"),
        ("{site}/func/{number}.csv", "{site}/func/{participant_id}.csv"),
        ("ts/{site}_{number}.csv", "ts/{site}_{participant_id}.csv"),
    ],
)
def test_ids_that_begin_anew_at_every_site_are_told_apart_by_path(tmp_path, place, template):
    cohort = make_cohort(n_sites=3, n_per_site=10, n_rois=8, seed=1)
    rows = []
    for x, person in zip(cohort.series, cohort.table.itertuples(), strict=True):
        number = person.subject[-2:]
        file = tmp_path / "study" / place.format(site=person.site, number=number)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(file, x, delimiter=",")
        rows.append((number, person.site, "HC" if person.label == 0 else "MDD", round(person.age, 1)))
    table = pd.DataFrame(rows, columns=["id", "site", "diagnosis", "age"])
    table.to_csv(tmp_path / "study" / "people.csv", index=False)
    done = run("init", tmp_path / "study", "--out", tmp_path / "study.yaml")
    assert done.exit_code == 0 and "30 people of 3 sites" in done.output, done.output
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["options"]["template"] == template
    read = brainroam.load_cohort(tmp_path / "study.yaml")
    np.testing.assert_allclose(read.series[12], cohort.series[12])
    assert read.table["subject"][12] == "S02_03" and read.table["label"].tolist() == cohort.labels.tolist()


def test_a_messy_folder_becomes_a_report_in_two_commands(tmp_path, monkeypatch):
    cohort = messy(tmp_path / "my data")
    monkeypatch.chdir(tmp_path)
    done = run("init", "my data", "--methods", "fc-ridge,confounds")
    assert done.exit_code == 0, done.output
    assert (
        f"120 people of 3 sites, {int(cohort.labels.sum())} with the condition, 12 regions; 0 left out" in done.output
    )
    study = read_study("study.yaml")
    assert study.options["site_col"] == "Scanner location" and study.options["label_col"] == "Dx (1=patient)"
    loaded = study.load()
    np.testing.assert_array_equal(loaded.labels, cohort.labels)
    np.testing.assert_allclose(loaded.series[100], cohort.series[100], atol=1e-4)
    np.testing.assert_array_equal(loaded.table["sex"], cohort.table["sex"])

    first = run("run")
    assert first.exit_code == 0, first.output
    assert "hold out sites 6/6" in first.stderr and "fc-ridge" in first.stdout
    page = (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    assert "<html" in page[:500].lower() and 'id="audit"' in page and "of <code>brainroam check</code>" in page
    assert {"audit.json", "check.json"} <= {file.name for file in (tmp_path / "results" / "runs").iterdir()}
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "results" / "runs" / "runs").iterdir()}
    assert "all finished before" in run("run", "study.yaml").stderr
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "results" / "runs" / "runs").iterdir()}
    assert run("run", "--quiet").output == ""


def test_every_command_takes_the_study_file(tmp_path, monkeypatch):
    messy(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert run("init", "data", "--methods", "fc-ridge").exit_code == 0
    assert "120 people, 3 sites" in run("check", "study.yaml").output
    assert "80 people, 2 sites" in run("check", "study.yaml", "--sites", "Oslo,Rome 1.5T").output
    done = run("loso", "study.yaml", "--held-out", "Oslo")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "results" / "runs" / "scores.csv").is_file() and "fc-ridge" in done.stdout
    assert run("fit", "study.yaml", "--method", "fc-ridge", "--tuning", "fast").exit_code == 0
    assert "120 people" in run("predict", "model", "study.yaml").output


@pytest.mark.parametrize("table", ["people.csv", "people.xlsx"])
def test_what_cannot_be_seen_is_asked_for_with_flags(tmp_path, monkeypatch, table):
    odd = {"Dx (1=patient)": "Group", "Scanner location": "Wo"}
    messy(tmp_path / "data", table=table, **odd)
    monkeypatch.chdir(tmp_path)
    done = run("init", "data")
    assert done.exit_code == 2 and not (tmp_path / "study.yaml").exists()
    assert "--site COLUMN (Wo" in done.stderr and "--case 1 or 2" in done.stderr
    done = run("init", "data", "--site", "Wo", "--case", "2")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["options"]["control"] == "1"
    again = run("init", "data", "--site", "Wo", "--case", "1")
    assert again.exit_code == 2 and "--force" in again.stderr
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_questions_are_asked_on_a_terminal(tmp_path):
    import pty

    messy(tmp_path / "data", **{"Dx (1=patient)": "Group"})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from brainroam.cli import main; main()", "init", "data"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    os.write(ours, b"9\n1\n")
    seen = b""
    while chunk := _read(ours):
        seen += chunk
    assert process.wait(timeout=60) == 0, seen
    assert b"Which value of 'Group' means the condition?" in seen and b"Please give one of" in seen
    assert b"a) 1" in seen and b"b) 2" in seen  # no number in front of a number
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["options"]["case"] == "1"


def _read(descriptor):
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that the other side has closed
        return b""


def test_regions_in_rows_are_seen_and_an_atlas_is_known_by_its_size(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["id,site,dx", *(f"{k},{'AB'[k % 2]},{k // 2 % 2}" for k in range(6))]
    (tmp_path / "participants.csv").write_text("\n".join(rows))
    for k in range(6):
        np.save(tmp_path / f"{k}.npy", rng.normal(size=(116, 50 + k)))
    guess = look(tmp_path)
    assert (guess.atlas, guess.options["transpose"], guess.questions) == ("aal", True, [])


def test_codes_are_read_from_the_name_of_the_column(tmp_path):
    rows = ["id,site,group (0 = patient; 1 = control)", *(f"p{k},{'AB'[k % 2]},{k // 2 % 2}" for k in range(6))]
    (tmp_path / "people.csv").write_text("\n".join(rows))
    for k in range(6):
        np.save(tmp_path / f"p{k}.npy", np.random.default_rng(k).normal(size=(50, 5)))
    options = look(tmp_path).options
    assert (options["case"], options["control"]) == ("0", "1")


def test_a_known_layout_needs_no_columns(tmp_path):
    make_cohort(n_sites=3, n_per_site=8, n_rois=10).save(tmp_path / "cohort.npz")
    assert look(tmp_path / "cohort.npz").reader == "store"
    done = run("init", tmp_path / "cohort.npz", "--out", tmp_path / "s.yaml")
    assert done.exit_code == 0, done.output
    assert "- core\n" in (tmp_path / "s.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data: synthetic\nmethds: [core]", "line 2: unknown key 'methds'; did you mean 'methods'?"),
        ("data: synthetic\nseeds: many", "line 2: 'seeds' should be a valid integer, not 'many'"),
        ("data: synthetic\nseeds: 0", "'seeds' should be greater than or equal to 1, not 0"),
        ("data: synthetic\nsites: [NO, SE]", "'sites.0' should be text, not False; put quotes around it"),
        ("data: synthetic\nmax_missing_rois: 20", "should be less than or equal to 1"),
        ("data: synthetic\noptions: 3", "'options' should be a valid dictionary"),
        ("reader: auto", "'data' is missing"),
        ("data: [", "line 1 is not YAML"),
        ("data: a: b", "needs quotes"),
        ("just words", "should be lines of 'key: value'"),
    ],
)
def test_mistakes_in_a_study_file_are_named_with_their_line(tmp_path, text, words):
    file = tmp_path / "study.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_study(file)
    assert str(file) in str(error.value) and words in str(error.value)
    done = run("run", file)
    assert done.exit_code == 2 and "Traceback" not in done.stderr


def test_commands_of_one_kind_tune_alike(tmp_path):
    """A study file that does not say how much to tune means what the bare command means."""
    (tmp_path / "plain.yaml").write_text("data: synthetic\n")
    (tmp_path / "typo.yaml").write_text("data: synthetic\ntuning: slow\n")
    bare = inspect.signature(brainroam.evaluate).parameters["tuning"].default
    assert source_of(str(tmp_path / "plain.yaml"), {}).tuning == bare == "default"
    with pytest.raises(UsageError, match=r"typo.yaml: 'tuning'.*default"):
        source_of(str(tmp_path / "typo.yaml"), {})


def test_all_mistakes_are_said_at_once_and_paths_start_at_the_file(tmp_path, monkeypatch):
    file = tmp_path / "deep" / "study.yaml"
    file.parent.mkdir()
    file.write_text("data: ../people\nseeds: x\njobs: y\n")
    with pytest.raises(UsageError, match=r"(?s)'seeds'.*'jobs'"):
        read_study(file)
    file.write_text("data: ../people\noptions: {participants: table.csv}\n")
    study = read_study(file)
    assert study == Study(
        data=str(tmp_path / "deep" / "../people"),
        options={"participants": str(tmp_path / "deep" / "table.csv")},
        out=str(tmp_path / "deep" / "results"),
    )
    assert run("run", tmp_path / "none.yaml").exit_code == 2


@pytest.mark.usefixtures("undrawn")
def test_a_failed_method_does_not_stop_the_report(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(
        "data: synthetic\noptions: {n_sites: 3, n_per_site: 12, n_rois: 10}\ntuning: fast\n"
        "methods: [fc-ridge, 'log-ridge[kind=nothing]']\n"
    )
    done = run("run", file)
    assert done.exit_code == 1 and "unknown edge kind 'nothing'" in done.stderr
    assert (tmp_path / "results" / "report.html").is_file()


def test_data_that_cannot_be_used_stop_the_study(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("data: synthetic\nsites: [S01]\nmethods: [majority]\n")
    done = run("run", file)
    assert done.exit_code == 1 and "not usable" in done.stdout
    assert not (tmp_path / "results").exists()


def test_a_column_of_institutions_is_found_and_read(tmp_path):
    messy(tmp_path, table="people.csv")
    people = pd.read_csv(tmp_path / "people.csv", sep=";")
    people["University hospital"] = people["Scanner location"].map({"Oslo": "N", "Rome 1.5T": "S", "São Paulo": "S"})
    people.to_csv(tmp_path / "people.csv", index=False, sep=";")
    result = run("init", tmp_path, "--out", tmp_path / "study.yaml", "--methods", "fc-ridge")
    assert result.exit_code == 0 and "3 sites are of 2 institutions" in result.output
    table = read_study(tmp_path / "study.yaml").load().table
    assert table.groupby("institution")["site"].nunique().to_dict() == {"N": 1, "S": 2}


def foreign(root, columns, codes, encoding, delimiter=","):
    """Three sites in the names of files, one of them with regions x time, and a table in another language."""
    rng = np.random.default_rng(0)
    (root / "ts").mkdir(parents=True)
    rows = [delimiter.join(columns)]
    for k in range(18):
        city = ("PKU6", "HMU", "SWU1")[k // 6]
        x = rng.normal(size=(40 + k, 7))
        np.save(root / "ts" / f"{city}_sub-{100 + k}_rest.npy", x.T if city == "HMU" else x)
        rows.append(delimiter.join([str(100 + k), codes[k % 2], str(20 + k), codes[2 + k // 2 % 2], f"0.{k + 10}"]))
    (root / "table.csv").write_bytes("\n".join(rows).encode(encoding))


@pytest.mark.parametrize(
    ("columns", "codes", "encoding"),
    [
        (["编号", "诊断", "年龄", "性别", "平均头动"], ["患者", "健康对照", "男", "女"], "gbk"),
        (["被験者", "診断", "年齢", "性別", "頭部運動"], ["うつ病", "健常者", "男性", "女性"], "cp932"),
        (["번호", "진단", "나이", "성별", "머리 움직임"], ["환자", "대조군", "남", "여"], "euc-kr"),
        (
            ["Proband", "Diagnose", "Alter", "Geschlecht", "Bewegung"],
            ["MDD", "Kontrolle", "männlich", "weiblich"],
            "latin-1",
        ),
        (["Sujet", "Diagnostic", "Âge", "Sexe", "Mouvement"], ["patient", "témoin", "homme", "femme"], "utf-16"),
        (
            ["Participante", "Diagnóstico", "Edad", "Sexo", "Movimiento"],
            ["paciente", "sano", "hombre", "mujer"],
            "utf-8",
        ),
    ],
)
def test_tables_in_other_languages_and_sites_in_file_names(tmp_path, monkeypatch, columns, codes, encoding):
    foreign(tmp_path / "data", columns, codes, encoding)
    monkeypatch.chdir(tmp_path)
    asked = run("init", "data")
    assert asked.exit_code == 2 and "HMU (6 people)" in asked.stderr
    assert columns[1] not in asked.stderr  # the diagnosis is no answer to the question for a site
    done = run("init", "data", "--template", "ts/{site}_{participant_id}_rest.npy")
    assert done.exit_code == 0, done.output
    assert "sites: HMU, PKU6, SWU1" in done.output and "6 of 6 at HMU" in done.stderr
    cohort = read_study("study.yaml").load()
    assert cohort.n_rois == 7 and cohort.labels.sum() == 9
    assert cohort.table["age"].tolist() == list(range(20, 38)) and cohort.table["sex"].sum() == 10
    assert cohort.table["mean_fd"].iloc[3] == 0.13
    assert f"mean_fd_col: {columns[-1]}" in (tmp_path / "study.yaml").read_text(encoding="utf-8")


def test_people_to_be_predicted_need_no_diagnosis_but_their_table_is_no_series(tmp_path, monkeypatch):
    columns = ["编号", "诊断", "年龄", "性别", "平均头动"]
    foreign(tmp_path / "new", columns, ["患者", "健康对照", "男", "女"], "gbk")
    (table,) = (tmp_path / "new").glob("*.csv")
    pd.read_csv(table, encoding="gbk").drop(columns="诊断").to_csv(table, index=False, encoding="gbk")
    monkeypatch.chdir(tmp_path)
    assert "--label none" in run("init", "new").stderr
    with pytest.raises(ReaderError, match="table"):
        brainroam.load_cohort("new", require_label=False)


def test_mistakes_are_answered_before_the_data_are_read(tmp_path, monkeypatch):
    (tmp_path / "study.yml").write_text("data: nowhere\nmethods: [tangent-rigde]\n")
    monkeypatch.chdir(tmp_path)
    assert "did you mean study.yml?" in run("check", "study.yaml").stderr
    for command in (
        ["run", "study.yml"],
        ["check", "study.yml"],
        ["loso", "study.yml"],
        ["loso", "nowhere", "--methods", "tangent-rigde"],
    ):
        assert "tangent-ridge" in run(*command).stderr


def test_names_of_sites_are_never_broken(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    name = "Universitätsklinikum Hamburg-Eppendorf"
    from brainroam.data.cohort import Cohort

    made = make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    table = made.table.assign(site=made.table["site"].replace({made.sites[0]: name}))
    Cohort(made.series, table, made.atlas).save(tmp_path / "cohort.npz")
    assert name in run("check", str(tmp_path / "cohort.npz")).output


def test_freesurfer_tables_beside_abide_are_a_block(tmp_path):
    abide(tmp_path)
    names = [file.name.partition("_rois_")[0] for file in sorted(tmp_path.rglob("*.1D"))]
    thickness = pd.DataFrame(2.5 + 0.1 * np.random.default_rng(0).normal(size=(24, 12))).add_prefix("lh_region")
    thickness.insert(0, "lh.aparc.thickness", names)
    (tmp_path / "freesurfer").mkdir()
    thickness.to_csv(tmp_path / "freesurfer" / "lh.aparc.tsv", sep="\t", index=False)
    done = run("init", tmp_path, "--out", tmp_path / "study.yaml")
    assert done.exit_code == 0, done.stderr
    cohort = read_study(tmp_path / "study.yaml").load()
    assert {name: block.measure for name, block in cohort.blocks.items()} == {"series": "series", "anatomy": "table"}
