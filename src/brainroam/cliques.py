"""The product with A~, region by region.

Two pathways share at most one region, so A~ is a sum of small dense blocks, one for each region, over the pathways that
end there; every pathway ends at two regions and has half of its diagonal entry in each block:

    A~ x = sum_r  S_r' B_r S_r x                                        S_r picks the pathways of region r

Blocks of about the same size are filled up with zeros to one size and multiplied together. That does hardly more
arithmetic than the non-zeros of A~ ask for, in the dense products that processors are fast at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from brainroam.linegraph import LineGraph

NARROW = 8  # blocks up to this size are multiplied together
WIDER = 1.25  # and then up to 1.25 times that size, and so on


@dataclass(frozen=True)
class Cliques:
    """A~ of N pathways: blocks (k, size, size) for each size, and which pathway stands in which of their R rows.

    Attributes
    ----------
    members : Tensor of shape (R,)
        The pathway in every row of every block; anyone in the rows that were filled up.
    places : Tensor of shape (N, 2)
        The two rows of every pathway.
    """

    blocks: tuple[Tensor, ...]
    members: Tensor
    places: Tensor

    @classmethod
    def of(cls, graph: LineGraph, device: str = "cpu", dtype: torch.dtype = torch.float32) -> "Cliques":
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
        member = np.concatenate(members)
        places = row[np.argsort(member[row], kind="stable")].reshape(-1, 2)
        return cls(tuple(blocks), torch.as_tensor(member, device=device), torch.as_tensor(places, device=device))

    def __matmul__(self, flat: Tensor) -> Tensor:
        """A~ times a matrix (N, k)."""
        rows = flat.index_select(0, self.members)
        spread = torch.empty_like(rows)
        for block, (before, after) in zip(self.blocks, self._parts(rows, spread), strict=True):
            torch.bmm(block, before, out=after)
        return functional.embedding_bag(self.places, spread, mode="sum")

    def _parts(self, *matrices: Tensor) -> Iterator[list[Tensor]]:
        """The rows of each size, block by block (k, size, columns)."""
        stop = 0
        for block in self.blocks:
            start, stop = stop, stop + block.shape[0] * block.shape[1]
            yield [matrix[start:stop].view(*block.shape[:2], -1) for matrix in matrices]


def _by_size(cliques: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cliques of about the same size as one array (k, size), filled up with a member, and what of it is their own."""
    groups: dict[int, list[np.ndarray]] = {}
    for clique in cliques:
        power = np.ceil(np.log(max(1.0, len(clique) / NARROW)) / np.log(WIDER))
        groups.setdefault(int(power), []).append(clique)
    for _, group in sorted(groups.items()):
        size = max(map(len, group))
        filled = np.array([np.pad(clique, (0, size - len(clique)), mode="edge") for clique in group])
        yield filled, np.arange(size) < np.array([[len(clique)] for clique in group])
