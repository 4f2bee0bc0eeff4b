"""What a run keeps besides its scores: the scaffold, the gates and an embedding of the held-out people.

``explanation`` in a run file is what `brainroam.methods.explanation` describes, for methods that select a scaffold; for
the ensemble, which weighs every edge, only its ``people``: the edges that moved each of them most. For every method
that offers a representation

    embedding  (n, 16)  held-out people on the leading principal axes of the training people's representations

in the order of ``predictions``. Of a cohort on disk, the axes are those of 256 training people.

Numbers have five significant digits; weights of thousands of edges are not kept
(`brainroam explain` gives them for a fitted model).
"""

from typing import Any

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.methods.base import Method
from brainroam.methods.explanation import leading_axes

DIGITS = 5
PEOPLE_FOR_AXES = 256


def kept_explanation(model: Method, training: Cohort, held_out: Cohort) -> dict[str, Any] | None:
    """What to keep of a fitted model; None for one that has nothing to show."""
    kept: dict[str, Any] = {}
    learned_from = model.representation(_few(training))
    if learned_from is not None:
        there = (model.representation(people) for people in held_out.batches())
        kept["embedding"] = np.concatenate([leading_axes(learned_from, part) for part in there if part is not None])
    if model.selects_scaffold:
        kept |= model.explanation(held_out) or {}
    elif model.explains_people:
        found = model.explanation(held_out) or {}
        kept |= {name: part for name, part in found.items() if name != "edges"}
    return rounded(kept) or None


def _few(training: Cohort) -> Cohort:
    """Everybody, or of many some people evenly among all: the axes of a picture need no more."""
    if len(training) <= PEOPLE_FOR_AXES:
        return training
    return training.subset(np.linspace(0, len(training) - 1, PEOPLE_FOR_AXES).astype(int))


def rounded(content: Any) -> Any:
    """Numbers of nested dictionaries, lists and arrays at five significant digits.

    >>> rounded({"gate": np.array([0.123456789, 1.0]), "edge": [12345678]})
    {'gate': [0.12346, 1.0], 'edge': [12345678]}
    """
    if isinstance(content, dict):
        return {key: rounded(value) for key, value in content.items()}
    if isinstance(content, np.ndarray):
        return rounded(content.tolist())
    if isinstance(content, list):
        return [rounded(value) for value in content]
    return float(f"{content:.{DIGITS}g}") if isinstance(content, float) else content
