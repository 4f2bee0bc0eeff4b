"""Prior-guided, subject-adaptive gating: which pathways carry messages, and what they say.

For one person, with node features h0_p = [r, log(s + eps), log(f + eps)] (standardised), prior mu0 and propagation A~:

    context    c      = phi( mean_p h0_p )
    gate       g_p    = sigmoid( (psi([h0_p, c]) + lambda mu0_p) / temperature )
    embedding  h_p    = W h0_p + w0                                   three channels to the hidden width, linear
    layer l    h_p    = h_p + F_l( h_p, sum_q A~_pq g_q h_q )
    readout    z      = sum_p g_p h_p / (sum_p g_p + eps)
    logit             = rho(z)

phi, psi, F_l and rho are two-layer perceptrons.

Nodes share all weights; nothing here knows how many there are or which regions they join. The same network therefore
reads any scaffold, which is what episodic training needs.

The product with A~ goes region by region. Two pathways share at most one region, so A~ is a sum of small dense blocks,
one for each region, over the pathways that end there; every pathway ends at two regions and has half of its diagonal
entry in each block:

    A~ x = sum_r  S_r' B_r S_r x                                      S_r picks the pathways of region r

Blocks of about the same size are filled up with zeros to one size and multiplied together. That does hardly more
arithmetic than the non-zeros of A~ ask for, in the dense products that processors are fast at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from brainroam.core.linegraph import LineGraph

EPS = 1e-8
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
        The pathway in every row of these blocks; any pathway in padded rows.
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
    """Cliques of about the same size as one array (k, size), padded with a member, and a mask of what is no padding."""
    groups: dict[int, list[np.ndarray]] = {}
    for clique in cliques:
        power = np.ceil(np.log(max(1.0, len(clique) / NARROW)) / np.log(WIDER))
        groups.setdefault(int(power), []).append(clique)
    for _, group in sorted(groups.items()):
        lengths = np.array([[len(clique)] for clique in group])
        row = np.arange(lengths.max())
        start = np.cumsum(lengths)[:, None] - lengths
        yield np.concatenate(group)[start + np.minimum(row, lengths - 1)], row < lengths


@dataclass(frozen=True)
class PathwayGraph:
    """The graph that a network reads: prior (N,) and propagation by cliques."""

    prior: Tensor
    propagation: RoiCliques

    @classmethod
    def of(cls, graph: LineGraph, device: str = "cpu", dtype: torch.dtype = torch.float32) -> "PathwayGraph":
        """Move the arrays of one scaffold to torch."""
        return cls(torch.as_tensor(graph.prior, dtype=dtype, device=device), RoiCliques.of(graph, device, dtype))


@dataclass(frozen=True)
class Reading:
    """Output of the network for B people and N pathways: logit (B,), gates (N, B), nodes (N, B, H), z (B, H).

    Of K classes the logit is (B, K).
    """

    logit: Tensor
    gates: Tensor
    nodes: Tensor
    z: Tensor


class _Perceptron(nn.Sequential):
    """Linear, ReLU, linear."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    @property
    def first(self) -> nn.Linear:
        """The first linear map, for callers who can apply it more cheaply than to its whole input."""
        return self[0]  # type: ignore[return-value]  # to torch a module like any other

    def rest(self, hidden: Tensor) -> Tensor:
        """What follows the first linear map."""
        return self[2](self[1](hidden))


class GatedNetwork(nn.Module):
    """The network above, for people batched in the second dimension.

    Parameters
    ----------
    channels : int
        Node features: 3, or 1 without temporal profiles.
    hidden, layers : int
    temperature : float
    prior_strength : float
        lambda; 0 removes the prior from the gate (the ablation "w/o PG").
    gated : bool
        False sets every gate to 1 (the ablation "w/o SG").
    outputs : int
        Logits of a person: 1, or one for each of several classes.
    """

    def __init__(
        self,
        channels: int = 3,
        hidden: int = 64,
        layers: int = 2,
        temperature: float = 1.0,
        prior_strength: float = 1.0,
        gated: bool = True,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.temperature, self.prior_strength, self.gated = temperature, prior_strength, gated
        self.phi = _Perceptron(channels, hidden, hidden)
        self.psi = _Perceptron(channels + hidden, hidden, 1)
        self.embed = nn.Linear(channels, hidden)
        self.updates = nn.ModuleList(_Perceptron(2 * hidden, hidden, hidden) for _ in range(layers))
        self.rho = _Perceptron(hidden, hidden, outputs)

    def forward(self, h0: Tensor, graph: PathwayGraph) -> Reading:
        """Read node features (N, B, channels) on a scaffold."""
        gates = self.gates(h0, graph)
        g = gates.unsqueeze(-1)
        h = self.embed(h0)
        updates: Iterable[_Perceptron] = self.updates  # type: ignore[assignment]  # to torch modules like any others
        for depth, update in enumerate(updates):
            if depth == 0:
                spread = propagate(graph.propagation, torch.cat([g * h0, g], dim=-1))
                hidden = self._first_hidden(update.first, h0, spread)
            else:
                hidden = _linear_of_both(update.first, h, propagate(graph.propagation, g * h))
            h = h + update.rest(hidden)
        z = (g * h).sum(dim=0) / (g.sum(dim=0) + EPS)
        logit = self.rho(z)
        return Reading(logit.squeeze(-1) if logit.shape[-1] == 1 else logit, gates, h, z)

    def gates(self, h0: Tensor, graph: PathwayGraph) -> Tensor:
        """g (N, B)."""
        if not self.gated:
            return torch.ones_like(h0[..., 0])
        hidden = _linear_of_both(self.psi.first, h0, self.phi(h0.mean(dim=0)))
        logit = self.psi.rest(hidden).squeeze(-1)
        return torch.sigmoid((logit + self.prior_strength * graph.prior.unsqueeze(-1)) / self.temperature)

    def logits(self, h0: Tensor, graph: PathwayGraph) -> Tensor:
        """The logit of each person (B,), for reading rather than training."""
        self.eval()
        with torch.no_grad():
            return self.forward(h0, graph).logit

    def _first_hidden(self, linear: nn.Linear, h0: Tensor, spread: Tensor) -> Tensor:
        """linear([h, A~ g h]) of the embedding h, from its few input channels h0 and A~ g [h0, 1] in its place."""
        of_h, of_message = linear.weight.split(self.embed.out_features, dim=1)
        embedding = torch.cat([self.embed.weight, self.embed.bias.unsqueeze(-1)], dim=-1)
        weight = torch.cat([of_h @ self.embed.weight, of_message @ embedding], dim=-1)
        return functional.linear(torch.cat([h0, spread], dim=-1), weight, of_h @ self.embed.bias + linear.bias)

    def contributions(self, h0: Tensor, graph: PathwayGraph) -> Tensor:
        """How much each pathway moves each person's logit (N, B), to first order: grad_z rho . g_p h_p / sum g.

        Of K classes (N, B, K).
        """
        reading = self.forward(h0, graph)
        z = reading.z.detach().requires_grad_()
        logit = self.rho(z)
        shares = []
        for k in range(logit.shape[-1]):
            (slope,) = torch.autograd.grad(logit[:, k].sum(), z, retain_graph=True)
            shares.append((reading.nodes * slope).sum(dim=-1) * reading.gates / (reading.gates.sum(dim=0) + EPS))
        return (shares[0] if len(shares) == 1 else torch.stack(shares, dim=-1)).detach()


class _Propagate(torch.autograd.Function):
    """A~ times nodes; A~ is symmetric, so its own product carries the gradient back."""

    @staticmethod
    def forward(ctx, matrix: RoiCliques, flat: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ flat

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ gradient.contiguous()


def propagate(matrix: RoiCliques, nodes: Tensor) -> Tensor:
    """sum_q A~_pq x_q for nodes (N, B, C)."""
    return _Propagate.apply(matrix, nodes.reshape(len(nodes), -1)).reshape(nodes.shape)


def _linear_of_both(linear: nn.Linear, one: Tensor, other: Tensor) -> Tensor:
    """linear([one, other]) without copying the two side by side; ``other`` may be the same for all nodes."""
    of_one, of_other = linear.weight.split([one.shape[-1], other.shape[-1]], dim=1)
    return functional.linear(one, of_one, linear.bias) + functional.linear(other, of_other)
