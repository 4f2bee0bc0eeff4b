"""What a fitted method says of pathways and people, in one form for all methods.

An explanation is a dictionary of arrays; run files keep it, and `brainroam.methods.explanation_tables` tables it::

    kind      "scaffold" (CORE), "linear" (weights of edges) or "masks" (what a deep method attends to)
    measure   the column of ``edges`` they are ranked by: d_com, effect, or the method's own name for its mask
    regions   name (P,), mni (P, 3) or None, network (P,) or None; columns (True) where they are those of a table
    edges     edge (index in triu order, or of a column), then one column per quantity; the largest measure first
    sites     site (E,), edge (K,), contrast (E, K): d_e of the K largest edges at each training site   (CORE)
    nodes     one column per region-wise quantity (P,)                                                  (some masks)
    chance    strength of the scaffold as it is, then with signs of whole sites flipped                 (CORE)
    choice    how far the network is believed and why, `CoreClassifier.chosen_`                         (CORE)
    people    edge (n, top), contribution or mask (n, top) and, for CORE, gate (n, top), gate_quantiles (n, 5)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from brainroam.data.atlas import Atlas

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TOP_AT_SITES = 40


def described(kind: str, measure: str, atlas: Atlas, edges: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The parts every explanation has; edges are put in the order of their measure."""
    order = np.argsort(-np.abs(edges[measure]), kind="stable")
    return {
        "kind": kind,
        "measure": measure,
        "regions": _regions(atlas),
        "edges": {name: np.asarray(column)[order] for name, column in edges.items()},
    }


def _regions(atlas: Atlas) -> dict[str, Any]:
    known = {"name": list(atlas.labels), "mni": atlas.coords, "network": atlas.networks}
    return known | ({"columns": True} if atlas.columns else {})


def largest(edges: np.ndarray, top: int, by: str, **values: np.ndarray) -> dict[str, np.ndarray]:
    """Each person's ``top`` edges by the size of one of the values (n, M), and all values there.

    >>> largest(np.array([4, 7]), 1, "contribution", contribution=np.array([[0.1, -0.3]]))
    {'edge': array([[7]]), 'contribution': array([[-0.3]])}
    """
    chosen = np.argsort(-np.abs(values[by]), axis=1, kind="stable")[:, :top]
    return {"edge": edges[chosen], **{name: np.take_along_axis(v, chosen, axis=1) for name, v in values.items()}}


def linear_explanation(
    atlas: Atlas, weights: Mapping[str, np.ndarray], contributions: np.ndarray, direction: np.ndarray, top: int
) -> dict[str, Any]:
    """Of a score that is a sum over edges.

    Parameters
    ----------
    weights : dict of str to ndarray of shape (M,)
        The weights of each set of edge values the method reads.
    contributions : ndarray of shape (n, M)
        What each edge adds to each person's score.
    direction : ndarray of shape (M,)
        Positive where a stronger edge speaks for the condition.

    The measure ``effect`` is the mean size of an edge's contribution, with the sign of its direction.
    """
    every = np.arange(contributions.shape[1])
    effect = np.sign(direction) * np.abs(contributions).mean(axis=0)
    found = described("linear", "effect", atlas, {"edge": every, "effect": effect, **weights})
    return found | {"people": largest(every, top, "contribution", contribution=contributions)}


def mask_explanation(atlas: Atlas, shown: Mapping[str, np.ndarray], top: int) -> dict[str, Any] | None:
    """Of what a deep method's paper shows: a matrix over regions (n, P, P), a value per region (n, P), or both."""
    n_rois = len(atlas)
    matrices = {name: value for name, value in shown.items() if value.ndim == 3 and value.shape[1:] == (n_rois,) * 2}
    vectors = {name: value for name, value in shown.items() if value.ndim == 2 and value.shape[1] == n_rois}
    if not matrices and not vectors:
        return None
    found: dict[str, Any] = {"kind": "masks", "regions": _regions(atlas)}
    if matrices:
        name, value = next(iter(matrices.items()))
        rows, columns = np.triu_indices(n_rois, 1)
        mask = (value[:, rows, columns] + value[:, columns, rows]) / 2
        every = np.arange(mask.shape[1])
        found |= described("masks", name, atlas, {"edge": every, name: mask.mean(axis=0)})
        found["people"] = largest(every, top, "mask", mask=mask)
    if vectors:
        found["nodes"] = {name: value.mean(axis=0) for name, value in vectors.items()}
    return found


def leading_axes(training: np.ndarray, people: np.ndarray, n_axes: int = 16) -> np.ndarray:
    """People (n, k) on the leading principal axes of the training people, k <= ``n_axes``.

    Axes come from the training people's Gram matrix; each points to the side where a training person lies farthest,
    so that the same data give the same numbers.

    >>> x = np.random.default_rng(0).normal(size=(30, 5)) * [9, 5, 1, 1, 1]
    >>> leading_axes(x, x[:3], 2).shape
    (3, 2)
    """
    from scipy.linalg import eigh

    mean, wide = training.mean(axis=0), training.shape[1] > len(training)
    # Products are centred, not the people: a second copy of all their edges can be large.
    gram = training @ training.T if wide else training.T @ training - len(training) * np.outer(mean, mean)
    if wide:
        share = gram.mean(axis=0)
        gram += share.mean() - share - share[:, None]
    first = max(len(gram) - n_axes, 0)
    values, vectors = eigh(gram, subset_by_index=(first, len(gram) - 1))
    real = values > 1e-10 * max(values[-1], 1e-300)
    values, vectors = values[real][::-1], vectors[:, real][:, ::-1]
    axes = vectors
    if wide:
        weights = vectors / np.sqrt(values)
        axes = training.T @ weights - np.outer(mean, weights.sum(axis=0))
    placed = training @ axes - mean @ axes
    farthest = np.take_along_axis(placed, np.abs(placed).argmax(axis=0)[None], axis=0)
    return (people - mean) @ (axes * np.sign(farthest))
