"""The sections about the brain, from real runs on a cohort whose sites, people and regions have hostile names."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import brainroam
from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.methods.explanation import Explanation
from brainroam.report.brain.people import _gates_sentence, embedding_section, gates_section
from brainroam.report.brain.person import safe_name, write_person
from brainroam.report.brain.scaffold import outline, scaffold_section, scene
from brainroam.report.brain.study_explanations import embeddings, explain_scaffold
from brainroam.report.data import read_data

NAMES = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", r"$\frac{ & 'quoted' \"", "=1+1"]
CORE = "core[budget=2,hidden=8,skip=none,tau_percentile=50,updates=4]"


def hostile_brain():
    """Four sites, their people and eight regions somewhere in the brain, all with names that attack."""
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=14, n_rois=8, seed=1)
    site = cohort.table["site"].map(dict(zip(cohort.sites, NAMES, strict=True)))
    subject = [f"<b onclick=alert(3)>{i}</b>" for i in range(len(cohort))]
    coords = np.random.default_rng(0).uniform((-60, -90, -40), (60, 60, 60), (cohort.n_rois, 3))
    names = tuple(f"{name} {k}" for k, name in enumerate(NAMES * 2))
    return Cohort(cohort.series, cohort.table.assign(site=site, subject=subject), Atlas("mine", names, coords))


@pytest.fixture(scope="session")
def brain_runs(tmp_path_factory):
    path = tmp_path_factory.mktemp("brain") / "runs"
    brainroam.evaluate(hostile_brain(), [CORE, "ensemble", "majority"], tuning="default", out=path)
    return path


@pytest.fixture(scope="session")
def brain_data(brain_runs):
    return read_data(brain_runs, CORE)


def embedded(html, name):
    """The JSON that a section hands to its script."""
    (text,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)


def test_the_view_draws_the_pathways_most_folds_selected(brain_data):
    explanation = explain_scaffold(brain_data).explanation
    view = embedded(scaffold_section(brain_data).html, "brain-data")
    counted = explanation.counted.set_index("edge")
    assert len(view["edges"]) == min(len(counted), 120)
    shown = {frozenset((view["nodes"][a]["name"], view["nodes"][b]["name"])): v for a, b, v in view["edges"]}
    for row in counted.itertuples():
        assert shown[frozenset((row.region_1, row.region_2))] == pytest.approx(row.d_com)
    where = dict(zip(explanation.atlas.labels, explanation.atlas.coords.tolist(), strict=True))
    assert all(node["mni"] == pytest.approx(where[node["name"]]) for node in view["nodes"])
    sizes = [abs(edge[2]) for edge in view["edges"]]
    assert sizes == sorted(sizes, reverse=True)


def test_everybody_held_out_can_be_looked_up(brain_data):
    people = embedded(gates_section(brain_data).html, "person-data")
    listed = {member["subject"]: (site, member) for site, members in people["sites"] for member in members}
    runs = [run for spec, run in brain_data.finished if spec.name == CORE]
    assert len(listed) == sum(len(run["predictions"]["subject"]) for run in runs)
    for spec, run in brain_data.finished:
        if spec.name != CORE:
            continue
        for i, subject in enumerate(run["predictions"]["subject"]):
            site, member = listed[subject]
            assert site == spec.fold
            assert member["said"] == pytest.approx(run["predictions"]["probability"][i], abs=6e-4)
            kept = run["explanation"]["people"]["contribution"][i]
            assert [row[2] for row in member["rows"]] == pytest.approx(kept, abs=6e-5)


def test_people_are_explained_by_the_score_of_the_method_that_is_reported(brain_runs):
    data = read_data(brain_runs, "ensemble")
    section = gates_section(data)
    assert "score of ensemble" in section.html and "not that of" not in section.html
    people = embedded(section.html, "person-data")
    members = {member["subject"]: member for _, members in people["sites"] for member in members}
    for spec, run in data.finished:
        if spec.name == "ensemble":
            for subject, moved in zip(
                run["predictions"]["subject"], run["explanation"]["people"]["contribution"], strict=True
            ):
                assert [row[2] for row in members[subject]["rows"]] == pytest.approx(moved, abs=6e-5)
                assert members[subject]["rows"][0][1] is None  # the ensemble has no gates


def test_what_was_decided_about_the_network_is_said(brain_data):
    found = explain_scaffold(brain_data)
    assert "The network is believed by 1.00 (1.00 to 1.00 in 4 folds)." in gates_section(brain_data).html
    weighed = [{"network": share, "gain": gain, "gain_error": 0.01} for share, gain in ((0.0, -0.02), (0.5, 0.0))]
    folds = [fold | {"choice": choice} for fold, choice in zip(found.explanation.folds, weighed, strict=False)]
    sentence = _gates_sentence(replace(found, explanation=Explanation(folds, [found.people] * 2)))
    assert "by 0.25 (0.00 to 0.50 in 2 folds): -1.0 points" in sentence and "linear reading" in sentence


@pytest.mark.parametrize("make", [scaffold_section, gates_section, embedding_section])
def test_names_stay_text(brain_data, make):
    section = make(brain_data)
    for name in NAMES[:2]:
        assert name not in section.html
    assert "<b onclick" not in section.html
    assert section.drawings


def test_embeddings_of_folds_have_a_common_scale(brain_data):
    points, people = embeddings(brain_data, "ensemble")
    for fold in people["site"].unique():
        here = (people["site"] == fold).to_numpy()
        np.testing.assert_allclose(points[here].mean(axis=0), 0, atol=1e-12)
        assert (points[here] ** 2).sum(axis=1).mean() == pytest.approx(1)
        assert (people["score"][here].to_numpy() @ points[here] >= -1e-9).all()
    assert embeddings(brain_data, "majority") is None


def test_old_runs_without_explanations_name_the_command(full_runs):
    data = read_data(full_runs)
    for make, word in ((scaffold_section, "core"), (gates_section, "core"), (embedding_section, "core,ensemble")):
        section = make(data)
        assert not section.html and f"brainroam loso DATA --methods {word} --out" in section.missing[0].command
        assert not section.drawings


def test_run_files_stay_small_and_keep_what_they_promise(brain_runs):
    for spec, run in RunsFolder(brain_runs).runs.values():
        found = run.get("explanation")
        assert (found is None) == (spec.name == "majority")
        if found:
            assert len(found["embedding"]) == len(run["predictions"]["subject"])
            assert "people" in found and ("edges" in found) == (spec.name == CORE)


def test_a_region_without_coordinates_is_not_drawn(brain_data):
    explanation = explain_scaffold(brain_data).explanation
    bare = [{**fold, "regions": {**fold["regions"], "mni": None}} for fold in explanation.folds]
    assert scene(type(explanation)(bare, explanation._people)) is None


def test_the_outline_is_a_closed_surface_of_two_hemispheres():
    vertices, faces = map(np.array, outline())
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()
    assert vertices[:642, 0].mean() < -20 and vertices[642:, 0].mean() > 20
    a, b, c = (vertices[faces[:, k]].astype(float) for k in range(3))
    volume = (np.cross(a, b) * c).sum() / 6  # positive when triangles face outwards
    assert 6e5 < volume < 2e6  # cubic millimetres


def test_a_page_about_one_person_escapes_their_name(tmp_path):
    from brainroam.methods.registry import method_info
    from brainroam.methods.tuning import TunedMethod

    cohort = hostile_brain()
    training, people = cohort.select(NAMES[:3]), cohort.select(NAMES[3:])
    fitted = TunedMethod(method_info("ensemble"), "default").fit(training)
    header = {"method": "ensemble", "training": {"n_people": len(training), "sites": NAMES[:3]}}
    subject = people.table["subject"].iloc[0]
    page = write_person(fitted, header, people, subject, tmp_path)
    assert page.parent == tmp_path
    text = page.read_text()
    assert "<b onclick" not in text and NAMES[0] not in text
    assert f"probability of {fitted.probability(people)[0]:.2f}" in text
    assert text.count("<svg") == 2  # the place among others, and the brain


@pytest.mark.parametrize("subject", ["../../etc/passwd", "a/b", "a\\b", "..", "CON:1", "x" * 300, "naïve"])
def test_file_names_are_safe(subject):
    name = safe_name(subject)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert len(name) < 80 and not name.startswith(".")
    assert safe_name(subject + "?") != name
