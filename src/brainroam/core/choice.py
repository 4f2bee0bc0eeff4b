"""Which reading to believe: the linear one, the trained network, or both.

Both read the people of training sites that were held out, in groups of sites. Let C be the concordance within sites:
the share of pairs of a case and a control of one site that a reading puts in the right order. The readings see the same
people, so the gain G = C_network - C_linear and its standard error follow from the differences of their placements
(DeLong et al. 1988). With few people that is mostly noise, so it is weighed against what was expected beforehand,
a gain of mu with the standard deviation tau (`EXPECTED`). Each reading then counts by how probable it is that it is the
better one,

    w = Phi( (G / se^2 + mu / tau^2) / sqrt(1 / se^2 + 1 / tau^2) ),      0 below `FIRM`, 1 above 1 - `FIRM`
    score = (1 - w) linear / s_linear + w network / s_network

with s the spread of a reading within held-out sites. Firm evidence chooses, weak evidence follows the expectation, and
evidence against it mixes. mu and tau were chosen on simulated cohorts of two classes, where the network gains more
than mu on average; for a number nothing is expected (tau is infinite). Where nothing could be held out the linear
reading, which needs fewer people, is kept. How this fares: docs/results/gate.md.

References
----------
DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated receiver operating
characteristic curves, Biometrics 44(3), 837-845.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from brainroam.core.auc import added_error, placements, sites_with_scores
from brainroam.core.episodes import as_array
from brainroam.core.numbers import is_number, order_gain, sites_with_numbers
from brainroam.core.pathways import Pathways
from brainroam.utils.threads import one_thread

if TYPE_CHECKING:
    from torch import Tensor

    from brainroam.core.gate import GatedNetwork

FIRM = 0.05  # a reading that is the better one with less than this probability is not used
EXPECTED = (0.03, 0.02)  # mu and tau of the gain of the concordance, before any evidence
LEAST = 2  # cases and controls of a site, so that its placements have a variance
EPS = 1e-12


@dataclass(frozen=True)
class Choice:
    """How far the network is believed, and why.

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


def weigh(linear: np.ndarray, network: np.ndarray, y: np.ndarray, site: np.ndarray) -> Choice:
    """Weigh two readings of the same people, each by a fit without the person's site; NaN for people without one.

    >>> y, site = np.tile([0, 1], 30), np.repeat(["A", "B"], 30)
    >>> noise = np.random.default_rng(0).normal(size=60)
    >>> weigh(noise, y + 0.5 * noise, y, site).share, weigh(y + 0.5 * noise, noise, y, site).share
    (1.0, 0.0)
    """
    if y.ndim == 2:
        return _weigh_classes(linear, network, y, site)
    if is_number(y):
        return _weigh_numbers(linear, network, y, site)
    gains, variances, pairs = [], [], []
    for here in sites_with_scores(y, site, linear + network, LEAST):
        of_linear, of_network = placements(y[here], linear[here]), placements(y[here], network[here])
        of_cases, of_controls = (new - old for new, old in zip(of_network, of_linear, strict=True))
        gains.append(of_cases.mean())
        variances.append(sum(np.var(change, ddof=1) / len(change) for change in (of_cases, of_controls)))
        pairs.append(len(of_cases) * len(of_controls))
    return _chosen(gains, variances, pairs, linear, network, site, EXPECTED)


def _weigh_numbers(linear: np.ndarray, network: np.ndarray, t: np.ndarray, site: np.ndarray) -> Choice:
    """The same for a number: the gain is that of Fisher's z of the correlation within a site."""
    sites = sites_with_numbers(t, site, linear + network)
    found = [order_gain(t[here], linear[here], network[here]) for here in sites]
    people = [len(here) - 3 for here in sites]
    return _chosen([gain for gain, _ in found], [variance for _, variance in found], people, linear, network, site)


def _weigh_classes(linear: np.ndarray, network: np.ndarray, y: np.ndarray, site: np.ndarray) -> Choice:
    """The same for several classes (n, K): the gain is the mean over classes, each against the rest.

    A person takes part in the AUC of every class, so the variance is that of what a person adds to all of them.
    """
    gains, variances, pairs = [], [], []
    known = np.isfinite(linear + network).all(axis=1)
    for name in np.unique(site[known]):
        here = np.flatnonzero(known & (site == name))
        added, found, counted = np.zeros(len(here)), [], 0
        for k, case in enumerate(y[here].T == 1):
            if min(case.sum(), (~case).sum()) < LEAST:
                continue
            both = (placements(case, scores[here, k]) for scores in (network, linear))
            of_cases, of_others = (new - old for new, old in zip(*both, strict=True))
            found.append(of_cases.mean())
            added += added_error(case, of_cases, of_others)
            counted += len(of_cases) * len(of_others)
        if found:
            gains.append(float(np.mean(found)))
            variances.append(float(np.square(added / len(found)).sum()))
            pairs.append(counted)
    return _chosen(gains, variances, pairs, linear, network, site)


def _chosen(
    gains: Sequence[float],
    variances: Sequence[float],
    counts: Sequence[int],
    linear: np.ndarray,
    network: np.ndarray,
    site: np.ndarray,
    expected: tuple[float, float] = (0.0, np.inf),
) -> Choice:
    """From the gain of each site, its variance and what it counts, and from mu and tau of the gain expected."""
    if not gains:
        return Choice(0.0)
    weights = np.array(counts) / np.sum(counts)
    gain, error = float(weights @ gains), float(np.sqrt(weights**2 @ variances))
    share = _better(gain, max(error, EPS), *expected)
    share = 0.0 if share < FIRM else 1.0 if share > 1 - FIRM else share
    return Choice(share, gain, error, _spread(linear, site), _spread(network, site))


def _better(gain: float, error: float, mu: float, tau: float) -> float:
    """How probable a positive gain is, by its estimate and by what was expected.

    >>> round(_better(0.0, 0.02, 0.03, 0.02), 3), round(_better(0.01, 0.01, 0.0, np.inf), 3)
    (0.856, 0.841)
    """
    return float(ndtr((gain / error**2 + mu / tau**2) / np.sqrt(1 / error**2 + 1 / tau**2)))


def _spread(score: np.ndarray, site: np.ndarray) -> float:
    """Standard deviation of the known scores about the means of their sites; 1 where there is none.

    Of several classes (n, K) the mean over them, so that their sizes among each other stay.
    """
    if score.ndim == 2:
        return float(np.mean([_spread(column, site) for column in score.T]))
    # Not by pandas, as for blocks: other rounding would move the probabilities of people in the ninth digit.
    known = np.isfinite(score)
    score, codes = score[known], np.unique(site[known], return_inverse=True)[1]
    means = np.bincount(codes, score) / np.bincount(codes)
    return float(np.std(score - means[codes])) or 1.0


def decision_told(chosen: Sequence[Mapping[str, Any]]) -> str:
    """What one or several fits decided (`CoreModel.chosen_`), in words; nothing where nothing is known.

    >>> decision_told([{"network": 0.834, "gain": 0.0411, "gain_error": 0.0123}])
    'the network is believed by 0.83: +4.1 points of AUC at held-out training sites, standard error 1.2 (expected +3.0, 2.0)'
    >>> decision_told([{"network": 0.0}, {"network": 1.0}])
    'the network is believed by 0.50 (0.00 to 1.00 in 2 folds)'
    """
    shares = [found["network"] for found in chosen if "network" in found]
    if not shares:
        return ""
    told = f"the network is believed by {np.mean(shares):.2f}"
    if len(shares) > 1:
        told += f" ({min(shares):.2f} to {max(shares):.2f} in {len(shares)} folds)"
    tried = [(found["gain"], found["gain_error"]) for found in chosen if "gain" in found]
    if not tried:
        return told
    if any("r" in found for found in chosen):
        gain, error = np.mean(tried, axis=0)
        return f"{told}: {gain:+.2f} of Fisher's z at held-out training sites, standard error {error:.2f}"
    gain, error = 100 * np.mean(tried, axis=0)
    mu, tau = 100 * np.array(EXPECTED)
    found = f"{gain:+.1f} points of AUC at held-out training sites, standard error {error:.1f}"
    return f"{told}: {found} (expected {mu:+.1f}, {tau:.1f})"


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
        return self.choice.combine(linear, as_array(self.network.logits(self._seen(h0), self.graph)))

    @one_thread()
    def gates(self, h0: np.ndarray) -> np.ndarray:
        """g (N, B): the network's, and 0 where it does not look; 1 without it: the linear reading reads everything."""
        if self.network is None:
            return np.ones(h0.shape[:2])
        return self._on_all(self.network.gates(self._seen(h0), self.graph), h0)

    @one_thread()
    def contributions(self, h0: np.ndarray) -> np.ndarray:
        """How much each pathway moves each person's score (N, B)."""
        linear = self.pathways.contributions(h0)
        if self.network is None:
            return linear
        return self.choice.combine(linear, self._on_all(self.network.contributions(self._seen(h0), self.graph), h0))

    @one_thread()
    def embedding(self, h0: np.ndarray) -> np.ndarray | None:
        """The network's graph-level representation z (B, H); None without a network."""
        return None if self.network is None else as_array(self.network(self._seen(h0), self.graph).z)

    def _seen(self, h0: np.ndarray) -> "Tensor":
        """What the network sees, in its own precision."""
        return self.graph.prior.new_tensor(h0[self.nodes])

    def _on_all(self, values: "Tensor", h0: np.ndarray) -> np.ndarray:
        """Values at the network's pathways (K, B), with zeros at all others (N, B)."""
        whole = np.zeros((*h0.shape[:2], *values.shape[2:]))
        whole[self.nodes] = as_array(values)
        return whole
