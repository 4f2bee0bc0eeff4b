"""The product with A~, region by region.

Two pathways share at most one region, so A~ is a sum of small dense blocks, one for each region, over the pathways that
end there; every pathway ends at two regions and has half of its diagonal entry in each block:

    A~ x = sum_r  S_r' B_r S_r x                                        S_r picks the pathways of region r

Blocks of about the same size are filled up with zeros to one size and multiplied together. That does hardly more
arithmetic than the non-zeros of A~ ask for, in the dense products that processors are fast at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from brainroam.core.linegraph import LineGraph

NARROW = 8  # blocks up to this size are multiplied together
WIDER = 1.25  # and then up to 1.25 times that size, and so on


@dataclass(frozen=True)
class RoiCliques:
    """A~ of N pathways.

    Attributes
    ----------
    blocks : tuple of Tensor of shape (k, size, size)
        For each size, the k blocks of that size.
    members : tuple of Tensor of shape (k * size,)
        The pathway in every row of these blocks; anyone in the rows that were filled up.
    places : Tensor of shape (N, 2)
        The two rows of every pathway, counted through all blocks.
    """

    blocks: tuple[Tensor, ...]
    members: tuple[Tensor, ...]
    places: Tensor

    @classmethod
    def of(cls, graph: LineGraph, device: str = "cpu", dtype: torch.dtype = torch.float32) -> "RoiCliques":
        """Cut the propagation of a line graph into blocks."""
        blocks, members, own = [], [], []
        for clique, inside in _by_size(graph.cliques):
            rows, columns = clique[:, :, None], clique[:, None, :]
            block = graph.weights(rows, columns) * np.where(rows == columns, 0.5, 1)
            block *= inside[:, :, None] & inside[:, None, :]
            blocks.append(torch.as_tensor(block, dtype=dtype, device=device))
            members.append(clique.reshape(-1))
            own.append(inside.reshape(-1))
        row = np.flatnonzero(np.concatenate(own))
        places = row[np.argsort(np.concatenate(members)[row], kind="stable")].reshape(-1, 2)
        on_device = partial(torch.as_tensor, device=device)
        return cls(tuple(blocks), tuple(map(on_device, members)), on_device(places))

    def __matmul__(self, flat: Tensor) -> Tensor:
        """A~ times a matrix (N, columns)."""
        spread, stop = flat.new_empty(sum(map(len, self.members)), flat.shape[1]), 0
        for block, members in zip(self.blocks, self.members, strict=True):
            start, stop = stop, stop + len(members)
            rows = flat.index_select(0, members).view(*block.shape[:2], -1)
            torch.bmm(block, rows, out=spread[start:stop].view_as(rows))
        return functional.embedding_bag(self.places, spread, mode="sum")


def _by_size(cliques: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cliques of about the same size as one array (k, size), filled up with a member, and what of it is their own."""
    groups: dict[int, list[np.ndarray]] = {}
    for clique in cliques:
        power = np.ceil(np.log(max(1.0, len(clique) / NARROW)) / np.log(WIDER))
        groups.setdefault(int(power), []).append(clique)
    for _, group in sorted(groups.items()):
        lengths = np.array([[len(clique)] for clique in group])
        row = np.arange(lengths.max())
        start = np.cumsum(lengths)[:, None] - lengths
        yield np.concatenate(group)[start + np.minimum(row, lengths - 1)], row < lengths
