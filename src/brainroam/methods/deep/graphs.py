"""From a cohort to the tensors the deep baselines take: connectivity, its strongest edges, and plain series.

    x_u = r[u, :]            features of region u: its Pearson correlations; 0 on the diagonal and where r is missing
    A   = [ |r| >= q ]       the strongest ``density`` share of each person's edges, symmetric, unweighted, no loops
    s_u = (x_u - mean)/std   series over the first T frames, T the shortest series in training; 0 where u has no signal

Graphs stand as edge lists (n, E, 2): everybody has the same number E of edges u < v, so that what is computed for each
edge is one batched tensor. A person with fewer edges than E (too many regions without signal) has the rest marked
absent.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from brainroam.core.connectivity import cohort_edges, edges_to_matrix
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import missing_rois


def connectivity_matrices(cohort: Cohort) -> Tensor:
    """Pearson matrices (n, P, P), 0 on the diagonal and where a region has no signal."""
    return torch.from_numpy(edges_to_matrix(_known_edges(cohort)))


def strongest_edges(cohort: Cohort, density: float) -> tuple[Tensor, Tensor]:
    """Each person's strongest edges: endpoints (n, E, 2) with u < v, and 1 where the edge is there, else 0 (n, E)."""
    strength = torch.from_numpy(np.abs(_known_edges(cohort)))
    n_kept = max(1, round(density * strength.shape[1]))
    value, index = strength.topk(n_kept, dim=1)
    # In atlas order, so that neighbours in memory are neighbours in the matrix.
    index, order = index.sort(dim=1)
    pairs = torch.triu_indices(cohort.n_rois, cohort.n_rois, 1).T
    return pairs[index], (value.gather(1, order) > 0).float()


def adjacency_matrices(cohort: Cohort, density: float) -> Tensor:
    """The graphs of `strongest_edges` as matrices (n, P, P)."""
    ends, present = strongest_edges(cohort, density)
    return edge_matrix(present, ends, cohort.n_rois)


def edge_matrix(value: Tensor, ends: Tensor, n_rois: int) -> Tensor:
    """Symmetric matrices (B, P, P) with these values (B, E) at these edges (B, E, 2), 0 elsewhere.

    >>> edge_matrix(torch.tensor([[5.0]]), torch.tensor([[[0, 2]]]), 3)[0].tolist()
    [[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    """
    position = ends[..., 0] * n_rois + ends[..., 1]
    upper = value.new_zeros(len(value), n_rois * n_rois).scatter(1, position, value).view(-1, n_rois, n_rois)
    return upper + upper.mT


def standardised_series(cohort: Cohort, n_frames: int) -> Tensor:
    """Series (n, T, P) of the first frames, each region standardised; a shorter series is followed by zeros."""
    return torch.from_numpy(_standardise([x[:n_frames] for x in cohort.series], n_frames))


def whole_series(cohort: Cohort) -> tuple[Tensor, Tensor]:
    """Standardised series of everybody's own length, padded to the longest, and the weight 1/T_i of their frames."""
    lengths = torch.tensor([len(x) for x in cohort.series])
    longest = int(lengths.max())
    weight = (torch.arange(longest) < lengths[:, None]).float() / lengths[:, None]
    return torch.from_numpy(_standardise(cohort.series, longest)), weight


def _known_edges(cohort: Cohort) -> np.ndarray:
    return np.nan_to_num(cohort_edges(cohort)).astype(np.float32)


def _standardise(series: Sequence[np.ndarray], n_frames: int) -> np.ndarray:
    frames = np.zeros((len(series), n_frames, series[0].shape[1]), dtype=np.float32)
    for row, x, gone in zip(frames, series, missing_rois(series), strict=True):
        known = np.where(gone, 0.0, x)
        row[: len(x)] = (known - known.mean(axis=0)) / np.where(gone, 1.0, known.std(axis=0))
    return frames
