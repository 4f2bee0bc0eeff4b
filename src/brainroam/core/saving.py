"""A fitted `CoreClassifier` as named arrays, and back: the same probabilities, gates and contributions, bit for bit.

What follows from other parts is not stored: the line graph from the scaffold, the orientation from its signs. No series
and no score of a training person is stored either, nor the contrast of each site: it is a mean over few people, and
tells who was one of them, and with which diagnosis (docs/security.md). A model that was loaded has none.
"""

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from brainroam.core.calibration import Calibration
from brainroam.core.choice import Choice
from brainroam.core.classifier import CoreClassifier
from brainroam.core.connectivity import edge_pairs
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.episodes import as_array
from brainroam.core.linegraph import line_graph
from brainroam.core.pathways import Pathways
from brainroam.core.scaffold import Scaffold
from brainroam.data.atlas import Atlas
from brainroam.errors import ModelFileError
from brainroam.utils.model_files import describe_atlas, load_model, part, save_model
from brainroam.utils.optional import extra

KIND = "CoreClassifier"


def core_state(clf: CoreClassifier) -> dict[str, np.ndarray]:
    """Everything a fitted classifier learned, as arrays; names and notes are JSON bytes."""
    scaffold, network = clf.scaffold_, clf.reading_.network
    facts = {
        "classes": clf.classes_.tolist(),
        "n_rois": clf.n_rois_,
        "chosen": clf.chosen_,
        "notes": clf.notes_,
        "sites": scaffold.sites,
        "tau": scaffold.tau,
    }
    learned = {} if network is None else network.state_dict()
    weights = {f"network.{name}": as_array(value) for name, value in learned.items()}
    return {
        "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
        "calibration": np.array(astuple(clf.calibration_)),
        "choice": np.array(astuple(clf.reading_.choice)),
        **clf.pathways_.state(),
        **weights,
    }


def core_from_state(state: dict[str, np.ndarray], **parameters: Any) -> CoreClassifier:
    """The fitted classifier that `core_state` described; ``parameters`` are those it was made with."""
    clf = CoreClassifier(**parameters)
    facts = json.loads(state["facts"].tobytes())
    _require_shapes(state, facts["n_rois"], len(facts["sites"]), channels=3 if clf.profiles else 1)
    stored = {"contrast": np.empty((0, len(edge_pairs(facts["n_rois"])))), **part(state, "scaffold")}
    scaffold = Scaffold(**stored, tau=facts["tau"], sites=tuple(facts["sites"]))
    deconfounder = SiteDeconfounder().load_state(part(state, "deconfounder"))
    clf.classes_, clf.n_rois_ = np.array(facts["classes"]), facts["n_rois"]
    clf.chosen_, clf.notes_ = facts["chosen"], facts["notes"]
    clf.calibration_ = Calibration(*map(float, state["calibration"]))
    pathways = Pathways(
        deconfounder=deconfounder,
        scaffold=scaffold,
        graph=line_graph(edge_pairs(clf.n_rois_)[scaffold.edges], scaffold.consensus[scaffold.edges]),
        orientation=scaffold.signs if clf.orient else np.ones(len(scaffold)),
        **part(state, "pathways"),
    )
    choice = Choice(*map(float, state["choice"]))
    clf.set_reading(pathways, choice, _network(clf, part(state, "network")) if choice.share else None)
    return clf


def _network(clf: CoreClassifier, weights: dict[str, np.ndarray]) -> Any:
    """The stored network."""
    network, torch = clf._drawn_network("cpu").double(), extra("torch", "torch")
    network.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    return network


def _require_shapes(state: dict[str, np.ndarray], n_rois: int, n_sites: int, channels: int) -> None:
    """Refuse arrays that do not belong together: some would be broadcast, others fail in the middle of a prediction."""
    every, nodes = (len(edge_pairs(n_rois)),), (state["scaffold.edges"].size,)
    shapes = {
        "calibration": (4,),
        "choice": (5,),
        "scaffold.edges": nodes,
        "scaffold.contrast": (n_sites, *every),
        **dict.fromkeys(("scaffold.consensus", "scaffold.sign_consistency", "scaffold.stability"), every),
        **dict.fromkeys(("pathways.centre", "pathways.scale"), (*nodes, channels)),
        "pathways.skip": nodes,
        "deconfounder.mean_intercept": every,
    }
    for name, shape in shapes.items():
        if name in state and state[name].shape != shape:
            raise ValueError(f"{name} has the shape {state[name].shape}, not {shape}")


def save_core(clf: CoreClassifier, path: str | Path, atlas: Atlas | None = None) -> Path:
    """Write a fitted classifier as a model folder, see `brainroam.utils.model_files`; `load_core` reads it."""
    header = {"kind": KIND, "parameters": clf.get_params()}
    if atlas is not None:
        header["atlas"] = describe_atlas(atlas.name, atlas.labels)
    return save_model(path, header, core_state(clf))


def load_core(path: str | Path) -> CoreClassifier:
    """Read what `save_core` wrote."""
    header, arrays = load_model(path)
    if header.get("kind") != KIND:
        raise ModelFileError(f"{path} holds a {header.get('kind')!r}, not a {KIND}")
    try:
        return core_from_state(arrays, **header["parameters"])
    except (LookupError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFileError(f"{path} does not hold a whole {KIND}: {error}") from error
