"""The choice of the reading: the linear one, the trained network, or a mixture of both.

Both read the people of training sites that were held out, in groups of sites. Mixed by a share w between 0 and 1,

    score(w) = (1 - w) linear / s_linear + w network / s_network

with s the spread of a reading within held-out sites. Let C be the concordance within sites: the share of pairs of a
case and a control of one site that a score puts in the right order. The scores are of the same people, so the gain
G(w) = C(w) - C(0) and its standard error se(w) follow from the differences of their placements (DeLong et al. 1988).
With few people G is mostly noise; so it is shrunk towards the gain expected beforehand, w mu, by how well the network's
own gain is known, and the share with the largest gain after that is chosen,

    w  = argmax of k G(w) + (1 - k) w mu     over 0, 0.1, ..., 1
    k  = t^2 / (t^2 + se(1)^2)               t^2 = max(tau^2, (G(1) - mu)^2 / 4 - se(1)^2)
    mu = mu0 min(1, 2000 / M)                of M edges

Little evidence follows the expectation, much evidence itself. tau is how far gains lie from mu; where the network's is
more than two standard deviations off, the expectation counts less (t > tau). Of 2,000 edges a fifth may be pathways,
400, and the network reads them all; of a larger atlas it reads a part, the linear reading everything, and less is
expected of it. mu0, tau and this were chosen on cohorts of two classes, simulated ones of 24 to 200 regions and real
scans with other labels than a diagnosis; for a number no gain is expected (mu = 0), and a share counts only where its
gain exceeds its standard error. Where nothing could be held out the linear reading, which needs fewer people, is kept.
How this fares: docs/results/gate.md.

References
----------
DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated receiver operating
characteristic curves, Biometrics 44(3), 837-845.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brainroam.core.pathways import Pathways
from brainroam.data.target import TWO_CLASSES
from brainroam.data.target.coding import Coding, Gain
from brainroam.utils.optional import as_array, one_thread

if TYPE_CHECKING:
    from torch import Tensor

    from brainroam.core.gate import GatedNetwork

SHARES = np.arange(11) / 10


@dataclass(frozen=True)
class Choice:
    """The share of the network in the score, and the evidence for it.

    Attributes
    ----------
    share : float
        w: 0 is the linear reading alone, 1 the network alone.
    gain, error : float
        C_network - C_linear within held-out sites, and its standard error; NaN where only one reading was tried.
    linear_spread, network_spread : float
        s of either reading.
    """

    share: float
    gain: float = np.nan
    error: float = np.nan
    linear_spread: float = 1.0
    network_spread: float = 1.0

    def combine(self, linear: np.ndarray, network: np.ndarray) -> np.ndarray:
        """The score of people, or the contributions to it, from those of the two readings.

        >>> Choice(share=0.25, linear_spread=2.0).combine(np.array([4.0]), np.array([8.0])).tolist()
        [3.5]
        """
        if self.share == 0:
            return linear
        if self.share == 1:
            return network
        return (1 - self.share) * linear / self.linear_spread + self.share * network / self.network_spread


def weigh(
    linear: np.ndarray,
    network: np.ndarray,
    y: np.ndarray,
    site: np.ndarray,
    n_edges: int,
    coding: Coding = TWO_CLASSES.coding,
) -> Choice:
    """Weigh two readings of the same people, each by a fit without the person's site; NaN for people without one.

    >>> y, site = np.tile([0, 1], 30), np.repeat(["A", "B"], 30)
    >>> noise = np.random.default_rng(0).normal(size=60)
    >>> weigh(noise, y + 0.5 * noise, y, site, 276).share, weigh(y + 0.5 * noise, noise, y, site, 276).share
    (1.0, 0.0)
    """
    if not np.isfinite(linear + network).any():
        return Choice(0.0)
    mixed = Choice(0.0, linear_spread=spread_of_scores(linear, site), network_spread=spread_of_scores(network, site))
    gain, error = np.transpose(
        [measure_gain(linear, replace(mixed, share=w).combine(linear, network), y, site, coding) for w in SHARES[1:]]
    )
    if np.isnan(gain).all():
        return Choice(0.0)
    mu, tau = coding.expectation(n_edges)
    variance = max(tau**2, (gain[-1] - mu) ** 2 / 4 - error[-1] ** 2)
    k = variance / (variance + error[-1] ** 2)
    shrunken = k * gain + (1 - k) * mu * SHARES[1:]
    share = SHARES[np.argmax([0.0, *coding.counted(gain, error, shrunken)])]
    return replace(mixed, share=float(share), gain=float(gain[-1]), error=float(error[-1]))


def measure_gain(
    old: np.ndarray, new: np.ndarray, y: np.ndarray, site: np.ndarray, coding: Coding = TWO_CLASSES.coding
) -> tuple[float, float]:
    """Gain in the order of people within sites from an old score to a new one, and its standard error.

    In concordance, or of a number in Fisher's z, over all sites by their pairs or people; NaN where no site tells.
    """
    at_sites = coding.gains(old, new, y, site)
    return _pool_gains(at_sites) if at_sites else (np.nan, np.nan)


def _pool_gains(at_sites: Sequence[Gain]) -> tuple[float, float]:
    """The gain over all sites and its standard error."""
    gains, variances, counts = zip(*at_sites, strict=True)
    weights = np.array(counts) / np.sum(counts)
    return float(weights @ gains), float(np.sqrt(weights**2 @ variances))


def spread_of_scores(score: np.ndarray, site: np.ndarray) -> float:
    """Standard deviation of the known scores about the means of their sites; 1 where there is none.

    Of several classes (n, K) the mean over them, so that their sizes among each other stay.
    """
    return float(np.mean([_spread_of(column, site) for column in score.reshape(len(score), -1).T]))


def _spread_of(score: np.ndarray, site: np.ndarray) -> float:
    # Not by pandas, as for blocks: other rounding would move the probabilities of people in the ninth digit.
    known = np.isfinite(score)
    score, codes = score[known], np.unique(site[known], return_inverse=True)[1]
    means = np.bincount(codes, score) / np.bincount(codes)
    return float(np.std(score - means[codes])) or 1.0


def describe_decision(chosen: Sequence[Mapping[str, Any]]) -> str:
    """The decisions of one or several fits (`CoreModel.chosen_`) in words; empty without any.

    >>> describe_decision([{"network": 0.834, "gain": 0.0411, "gain_error": 0.0123}])
    'the network is believed by 0.83: +4.1 points of AUC at held-out training sites, standard error 1.2'
    >>> describe_decision([{"network": 0.0}, {"network": 1.0}])
    'the network is believed by 0.50 (0.00 to 1.00 in 2 folds)'
    """
    shares = [facts["network"] for facts in chosen if "network" in facts]
    if not shares:
        return ""
    text = f"the network is believed by {np.mean(shares):.2f}"
    if len(shares) > 1:
        text += f" ({min(shares):.2f} to {max(shares):.2f} in {len(shares)} folds)"
    tried = [(facts["gain"], facts["gain_error"]) for facts in chosen if "gain" in facts]
    if not tried:
        return text
    if any("r" in facts for facts in chosen):
        gain, error = np.mean(tried, axis=0)
        return f"{text}: {gain:+.2f} of Fisher's z at held-out training sites, standard error {error:.2f}"
    gain, error = 100 * np.mean(tried, axis=0)
    text += f": {gain:+.1f} points of AUC at held-out training sites, standard error {error:.1f}"
    expected = [facts["gain_expected"] for facts in chosen if "gain_expected" in facts]
    return f"{text} (expected {100 * np.mean(expected):+.1f})" if expected else text


@dataclass(frozen=True)
class CoreReading:
    """The chosen reading of people on frozen pathways.

    Attributes
    ----------
    choice : Choice
    pathways : Pathways
    nodes : ndarray of int
        Positions of the pathways that the network reads; the linear reading reads all.
    network : GatedNetwork or None
        None where the choice does not believe it.
    graph : PathwayGraph
        The network's view of its pathways.
    """

    choice: Choice
    pathways: Pathways
    nodes: np.ndarray
    network: "GatedNetwork | None" = None
    graph: Any = None

    @one_thread()
    def logits(self, h0: np.ndarray) -> np.ndarray:
        """The score (B,), or (B, K) of several classes, of people from their node features (N, B, C)."""
        linear = self.pathways.contributions(h0).sum(axis=0)
        if self.network is None:
            return linear
        return self.choice.combine(linear, self.network_logits(h0))

    @one_thread()
    def network_logits(self, h0: np.ndarray) -> np.ndarray:
        """The score (B,), or (B, K), of people by the network alone."""
        assert self.network is not None
        return as_array(self.network.logits(self._network_input(h0), self.graph))

    @one_thread()
    def gates(self, h0: np.ndarray) -> np.ndarray:
        """g (N, B): the network's, and 0 where it does not look; 1 without it: the linear reading reads everything."""
        if self.network is None:
            return np.ones(h0.shape[:2])
        return self._on_all(self.network.gates(self._network_input(h0), self.graph), h0)

    @one_thread()
    def contributions(self, h0: np.ndarray) -> np.ndarray:
        """How much each pathway moves each person's score (N, B)."""
        linear = self.pathways.contributions(h0)
        return linear if self.network is None else self.choice.combine(linear, self.network_contributions(h0))

    @one_thread()
    def network_contributions(self, h0: np.ndarray) -> np.ndarray:
        """How much each pathway moves each person's score by the network (N, B); 0 where it does not look."""
        assert self.network is not None
        return self._on_all(self.network.contributions(self._network_input(h0), self.graph), h0)

    @one_thread()
    def embedding(self, h0: np.ndarray) -> np.ndarray | None:
        """The network's graph-level representation z (B, H); None without a network."""
        return None if self.network is None else as_array(self.network(self._network_input(h0), self.graph).z)

    def _network_input(self, h0: np.ndarray) -> "Tensor":
        """Node features of the network's pathways without nuisance directions, as a tensor in its precision."""
        return self.graph.prior.new_tensor(self.pathways.on(self.nodes).without_nuisance(h0[self.nodes]))

    def _on_all(self, values: "Tensor", h0: np.ndarray) -> np.ndarray:
        """Values at the network's pathways (K, B), with zeros at all others (N, B)."""
        whole = np.zeros((*h0.shape[:2], *values.shape[2:]))
        whole[self.nodes] = as_array(values)
        return whole
