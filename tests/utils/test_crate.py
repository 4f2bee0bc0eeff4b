"""The crates of runs and models, read by the library that archives use."""

import json

import pytest
from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.utils.crate import CRATE

rocrate = pytest.importorskip("rocrate.rocrate")
DATA = ["synthetic", "--option", "n_sites=3", "--option", "n_per_site=8", "--option", "n_rois=8"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("crates")
    for command in (
        ["loso", *DATA, "--methods", "fc-ridge,majority", "--tuning", "fast", "--out", str(root / "runs")],
        ["fit", *DATA, "--method", "fc-ridge", "--out", str(root / "model")],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    return root


@pytest.mark.parametrize(("name", "file"), [("runs", "scores.csv"), ("model", "model.safetensors")])
def test_a_crate_says_which_data_command_and_versions_made_a_folder(folders, name, file):
    crate = rocrate.ROCrate(folders / name)
    assert {part.id for part in crate.root_dataset["hasPart"]} >= {file}
    (action,) = crate.root_dataset["mentions"]
    assert action.type == "CreateAction" and action["instrument"].id == "#brainroam"
    facts = {fact["name"]: fact["value"] for fact in action["object"]["additionalProperty"]}
    assert facts["n_people"] == 24 and facts["n_sites"] == 3 and len(facts["manifest_hash"]) == 64
    needed = {package["name"]: package["version"] for package in action["instrument"]["softwareRequirements"]}
    assert {"numpy", "python"} <= set(needed)


def test_every_entity_that_is_named_is_there(folders):
    for name in ("runs", "model"):
        graph = json.loads((folders / name / CRATE).read_text())["@graph"]
        here = {entity["@id"] for entity in graph} | {"https://w3id.org/ro/crate/1.1"}
        assert {link["@id"] for entity in graph for link in _links(entity)} <= here


def _links(entity):
    for value in entity.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield item


def test_an_older_crate_is_replaced_with_the_model_and_not_warned_of(folders, recwarn):
    from brainroam.utils.model_files import load_model

    load_model(folders / "model")
    assert not [warning for warning in recwarn if "not part of the model" in str(warning.message)]
