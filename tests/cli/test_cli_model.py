"""fit, predict and explain, as people type them."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from brainroam import make_cohort
from brainroam.cli import app
from brainroam.data.atlas import load_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.target import TWO_CLASSES
from brainroam.evaluation.external import validate
from brainroam.evaluation.stats import verdict as models
from brainroam.methods.core import Core
from brainroam.methods.explanation import Explanation
from brainroam.methods.familiarity import sketch
from brainroam.utils.model_files import load_model

SETTINGS = ("budget=3", "tau_percentile=60", "hidden=8", "updates=60", "skip=none")
SMALL = tuple(word for setting in SETTINGS for word in ("--set", setting))


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def said(result):
    """What was printed, without the line breaks of a narrow terminal."""
    return re.sub(r"\s+", " ", result.output)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Training data of four sites, a fifth site whose people have no label, and a model fitted on the four."""
    place = tmp_path_factory.mktemp("cli")
    cohort = make_cohort(n_sites=5, n_per_site=12, n_rois=12, seed=1)
    cohort.select(["S01", "S02", "S03", "S04"]).save(place / "train.npz")
    new = cohort.select(["S05"])
    table = new.table.assign(label=np.nan)
    table.loc[0, "subject"] = "=HYPERLINK('evil')"
    table.loc[1, "age"] = np.nan
    dead = new.series[2].copy()
    dead[:, :7] = 0
    series = [dead if i == 2 else x for i, x in enumerate(new.series)]
    Cohort(series, table).save(place / "new.npz")
    result = run("fit", place / "train.npz", "--out", place / "model", *SMALL)
    assert result.exit_code == 0, result.output
    assert "core fitted on 48 people of 4 sites" in said(result)
    assert "core: the network is believed by 1.00" in said(result)
    return place


def test_a_fit_in_memory_leaves_alone_a_folder_named_like_the_work_of_one_on_disk(place, tmp_path):
    mine = tmp_path / "model.work" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = run("fit", place / "train.npz", "--method", "fc-ridge", "--tuning", "fast", "--out", tmp_path / "model")
    assert done.exit_code == 0, done.output
    assert mine.read_text() == "mine"


def test_predicting_for_the_people_of_the_training_is_said(place, tmp_path):
    again = run("predict", place / "model", place / "train.npz", "--out", tmp_path / "p.csv")
    assert again.exit_code == 0, again.output
    assert "warning: about 100% of these people were in the training of this model" in said(again)
    assert "No external validation" in said(again) and "foretold" not in said(again)
    new = run("predict", place / "model", place / "new.npz", "--out", tmp_path / "p.csv")
    assert new.exit_code == 0 and "in the training" not in said(new)


def test_the_model_says_what_it_is(place):
    header = json.loads((place / "model" / "model.json").read_text())
    assert header["method"] == "core"
    assert header["configuration"] == {"budget": 3, "tau_percentile": 60, "hidden": 8, "updates": 60, "skip": "none"}
    assert header["training"] == {
        "manifest_hash": Cohort.load(place / "train.npz").manifest_hash,
        "n_people": 48,
        "prepared": [],
        "sites": ["S01", "S02", "S03", "S04"],
        "sketch": sketch(Cohort.load(place / "train.npz")),
    }
    assert [site["site"] for site in header["inner_sites"]] == header["training"]["sites"]
    assert header["notice"].startswith("Personal data: ")


def test_fit_says_that_a_model_is_personal_data(place, tmp_path):
    result = run("fit", place / "train.npz", "--method", "fc-ridge", "--tuning", "fast", "--out", tmp_path / "model")
    assert "The model is personal data" in said(result) and "docs/security.md" in said(result)


def test_what_each_site_shows_is_not_in_the_model_and_explain_says_so(place, tmp_path):
    _, arrays = load_model(place / "model")
    n_sites, n_edges = 4, 66
    assert not any(array.shape == (n_sites, n_edges) for array in arrays.values())
    result = run("explain", place / "model", place / "train.npz", "--out", tmp_path / "why")
    assert result.exit_code == 0 and "contrasts by site are not kept in a model" in said(result)
    assert not (tmp_path / "why" / "sites.csv").exists()


def test_people_without_a_label_are_predicted(place):
    result = run("predict", place / "model", place / "new.npz", "--out", place / "predictions.csv")
    assert result.exit_code == 0, result.output
    assert "11 people" in said(result)
    assert "7 of 12 regions" in said(result)  # who was left out, and why
    table = pd.read_csv(place / "predictions.csv", keep_default_na=False)
    columns = ["subject", "site", "protocol", "probability", "prevalence", "predicted", "set_80", "imputed", "flags"]
    assert table.columns.tolist() == columns
    assert (table["protocol"] == "strict").all() and table["set_80"].isin(["case", "control", "either"]).all()
    assert table.loc[0, "subject"] == "'=HYPERLINK('evil')"
    assert table["imputed"].tolist() == ["", "age"] + [""] * 9
    assert table["probability"][table["predicted"] == 1].min() > table["probability"][table["predicted"] == 0].max()


def test_predictions_for_people_with_a_diagnosis_are_validated(place, tmp_path):
    labelled = make_cohort(n_sites=5, n_per_site=12, n_rois=12, seed=1).select(["S05"])
    labelled.save(tmp_path / "known.npz")
    result = run("predict", place / "model", tmp_path / "known.npz", "--out", tmp_path / "p.csv", "--prevalence", "0.1")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["label"].tolist() == labelled.labels.tolist() and (table["prevalence"] == 0.1).all()
    text, expected = said(result), validate(table).iloc[0]
    assert "10.0% of people are cases, as stated" in text
    assert f"{expected['auc']:.2f} {expected['low']:.2f}-{expected['high']:.2f}" in text
    sites = json.loads((place / "model" / "model.json").read_text())["inner_sites"]
    told = TWO_CLASSES.validation.foretold(pd.DataFrame(sites), models)
    assert f"foretold an AUC of {told['low']:.2f} to {told['high']:.2f}" in text
    unknown = run("predict", place / "model", place / "new.npz", "--out", tmp_path / "p.csv")
    assert "External validation" not in said(unknown) and "label" not in pd.read_csv(tmp_path / "p.csv")


def test_controls_of_the_new_site_move_its_threshold_and_get_no_row(place, tmp_path):
    people = Cohort.load(place / "new.npz").table["subject"].tolist()
    ours = [people[4], people[5], people[6]]
    (tmp_path / "ours.txt").write_text("\n".join(ours))
    results, ours_file = {}, ("--controls", tmp_path / "ours.txt")
    for name, options in {"strict": (), "controls": ours_file, "all": ("--adapt", "unlabelled")}.items():
        result = run("predict", place / "model", place / "new.npz", *options, "--out", tmp_path / f"{name}.csv")
        assert result.exit_code == 0, result.output
        results[name] = pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=False).set_index("subject")
    moved = results["controls"]
    assert not set(ours) & set(moved.index) and len(moved) == len(results["strict"]) - 3
    assert (moved["protocol"] == "controls-3").all() and (moved["set_80"] == "").all()
    assert (results["all"]["protocol"] == "unlabelled").all()
    strict = results["strict"].loc[moved.index, "probability"]
    assert (strict.rank() == moved["probability"].rank()).all()


def test_what_prediction_cannot_promise_or_do_is_refused(place, tmp_path):
    predict = ("predict", place / "model", place / "new.npz", "--out", tmp_path / "p.csv")
    sure = run(*predict, "--level", "95")
    assert sure.exit_code == 2 and "95 % cannot be promised" in said(sure) and "19 are needed" in said(sure)
    assert run(*predict, "--level", "80").exit_code == 0
    (tmp_path / "ours.txt").write_text("nobody\n")
    absent = run(*predict, "--controls", tmp_path / "ours.txt")
    assert absent.exit_code == 1 and "no person in the data has the id nobody" in said(absent)
    assert run(*predict, "--adapt", "labelled").exit_code == 2


def test_prediction_is_the_same_for_one_person_and_for_all(place, tmp_path):
    people = Cohort.load(place / "new.npz")
    people.subset([4]).save(tmp_path / "one.npz")
    run("predict", place / "model", place / "new.npz", "--out", tmp_path / "all.csv")
    run("predict", place / "model", tmp_path / "one.npz", "--out", tmp_path / "one.csv")
    one, everybody = (pd.read_csv(tmp_path / f"{name}.csv").set_index("subject") for name in ("one", "all"))
    (subject,) = one.index
    assert one.loc[subject, "probability"] == pytest.approx(everybody.loc[subject, "probability"], abs=1e-7)


def test_explanations_name_regions_pathways_and_people(place):
    result = run("explain", place / "model", place / "new.npz", "--out", place / "why", "--top", "4")
    assert result.exit_code == 0, result.output
    pathways = pd.read_csv(place / "why" / "pathways.csv")
    assert pathways["rank"].tolist() == list(range(1, len(pathways) + 1))
    assert (pathways["d_com"].abs().diff().dropna() <= 0).all()
    assert pathways["mean_gate"].between(0, 1).all()
    people = pd.read_csv(place / "why" / "people.csv")
    assert (people.groupby("subject").size() == 4).all()
    sizes = people.groupby("subject")["contribution"].apply(lambda c: (c.abs().diff().dropna() <= 0).all())
    assert sizes.all()
    known = set(zip(pathways["region_1"], pathways["region_2"], strict=True))
    assert set(zip(people["region_1"], people["region_2"], strict=True)) <= known


def test_a_model_without_pathways_cannot_be_explained(place, tmp_path):
    fitted = run("fit", place / "train.npz", "--out", tmp_path / "c", "--method", "confounds", "--tuning", "default")
    assert fitted.exit_code == 0, fitted.output
    assert run("predict", tmp_path / "c", place / "new.npz", "--out", tmp_path / "p.csv").exit_code == 0
    result = run("explain", tmp_path / "c", place / "new.npz", "--out", tmp_path / "why")
    assert result.exit_code == 2
    assert "Confounds, which has no pathways" in said(result)
    assert not (tmp_path / "why").exists()


def test_a_ensemble_is_explained_by_the_weights_of_its_edges(place, tmp_path):
    run("fit", place / "train.npz", "--out", tmp_path / "ensemble", "--method", "ensemble")
    result = run("explain", tmp_path / "ensemble", place / "new.npz", "--out", tmp_path / "why", "--top", "2")
    assert result.exit_code == 0, result.output
    assert "66 pathways of ensemble, ranked by effect" in said(result)
    pathways = pd.read_csv(tmp_path / "why" / "pathways.csv")
    assert {"weight_pearson", "weight_log", "weight_cofluctuation"} < set(pathways)
    assert len(pd.read_csv(tmp_path / "why" / "people.csv")) == 2 * 11


def test_one_person_gets_a_page_of_their_own(place, tmp_path):
    arguments = ("explain", place / "model", place / "new.npz", "--out", tmp_path)
    result = run(*arguments, "--subject", "=HYPERLINK('evil')")
    assert result.exit_code == 0, result.output
    (page,) = tmp_path.iterdir()
    assert re.fullmatch(r"person-_HYPERLINK_evil_-[0-9a-f]{8}\.html", page.name)
    text = page.read_text()
    assert "=HYPERLINK(&#39;evil&#39;)" in text
    assert "Research use only" in text
    assert "calibrated on 48 people of 4 sites" in text
    assert "took part in training" not in text
    nobody = run(*arguments, "--subject", "=HYPERLINK('evi')")
    assert nobody.exit_code == 2
    assert "did you mean" in said(nobody)


def test_coordinates_come_from_the_atlas():
    aal = load_atlas("aal")
    cohort = make_cohort(n_sites=3, n_per_site=8, n_rois=116)
    cohort = Cohort(cohort.series, cohort.table, aal)
    core = Core(hidden=2, epochs=0, budget=1, profiles=False, covariates=("age",)).fit(cohort)
    table = Explanation.of_model(core, cohort).pathways
    row = table.iloc[0]
    for k in (1, 2):
        expected = aal.coords[aal.labels.index(row[f"region_{k}"])]
        np.testing.assert_array_equal(row[[f"x_{k}", f"y_{k}", f"z_{k}"]].to_numpy(float), expected)
    pairs = {frozenset(pair) for pair in table[["region_1", "region_2"]].to_numpy().tolist()}
    assert len(pairs) == len(core.core_.scaffold_)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "budgt=3"], 2, "unknown setting of core 'budgt'; did you mean 'budget'?"),
        (["--set", "budget"], 2, "not KEY=VALUE"),
        (["--set", "budget=4000"], 1, "gate budget K = 4000 exceeds"),
        (["--set", "window=4000", "--set", "profiles=true"], 1, "fewer volumes than one window of 4000"),
        (["--set", 'covariates=["age","iq"]'], 2, "unknown covariate 'iq'"),
        (["--method", "coer"], 2, "did you mean 'core'"),
        (["--method", "site-only"], 2, "cannot predict at a site it was not trained on"),
        (["--tuning", "lavish"], 2, "unknown tuning 'lavish'"),
    ],
)
def test_mistakes_are_answered_in_a_line(place, tmp_path, arguments, code, message):
    result = run("fit", place / "train.npz", "--out", tmp_path / "model", *arguments)
    assert result.exit_code == code, result.output
    assert message in said(result)
    assert not (tmp_path / "model").exists()


def test_damage_and_other_data_are_refused(place, tmp_path):
    make_cohort(n_sites=2, n_per_site=4, n_rois=9).save(tmp_path / "other.npz")
    other = run("predict", place / "model", tmp_path / "other.npz", "--out", tmp_path / "p.csv")
    assert other.exit_code == 1
    assert "made for the 12 regions" in said(other)
    absent = run("predict", tmp_path / "nothing", place / "new.npz", "--out", tmp_path / "p.csv")
    assert absent.exit_code == 1
    assert "is not a model" in said(absent)
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("command", ["fit", "predict", "explain"])
def test_help_shows_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: brainroam {command}" in said(result)


def test_real_sites_end_to_end(abide_root, tmp_path):
    real = (abide_root, "--atlas", "aal")
    quick = ("--set", "budget=20", "--set", "updates=4")
    fitted = run("fit", *real, "--sites", "CALTECH,OLIN,SBL,SDSU", "--out", tmp_path / "model", *quick)
    assert fitted.exit_code == 0, fitted.output
    assert "Caltech_0051478" in said(fitted)  # 65 of its 116 regions have no signal
    assert "site SBL (30 people) cannot estimate sex" in said(fitted)
    found = run("predict", tmp_path / "model", *real, "--sites", "TRINITY", "--out", tmp_path / "p.csv")
    assert found.exit_code == 0, found.output
    table = pd.read_csv(tmp_path / "p.csv")
    assert len(table) == 47
    assert table["probability"].between(0, 1).all()
