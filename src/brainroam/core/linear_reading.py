"""What the gated network says before its first step of training, without torch.

With a skip connection rho and psi start at zero (`brainroam.core.gate`), so that for node features h0 with the static
channel r, prior mu0 and skip weights w

    g_p    = sigmoid( lambda mu0_p / temperature )                  1 without gates
    logit  = sum_p g_p w_p r_p / (mean_p g_p + eps)

which is all that is left of the network where no epoch of training was worth it. The weights w were divided by the same
gates (`brainroam.core.pathways`), so this is the ridge itself.
"""

from dataclasses import dataclass

import numpy as np

from brainroam.core.linegraph import EPS, prior_gates
from brainroam.core.pathways import Pathways


@dataclass(frozen=True)
class LinearReading:
    """The untrained `GatedNetwork`, in numpy; parameters as there."""

    prior_strength: float = 1.0
    temperature: float = 1.0
    gated: bool = True

    def gates(self, h0: np.ndarray, graph: Pathways) -> np.ndarray:
        """g (N, B), the same for everybody."""
        return np.broadcast_to(self.opened(graph.graph.prior)[:, None], h0.shape[:2])

    def opened(self, prior: np.ndarray) -> np.ndarray:
        """How far the prior alone opens each gate; all the way without gates."""
        return prior_gates(prior, self.prior_strength, self.temperature) if self.gated else np.ones_like(prior)

    def contributions(self, h0: np.ndarray, graph: Pathways) -> np.ndarray:
        """How much each pathway moves each person's logit (N, B); they add up to it."""
        gates = self.gates(h0, graph)
        return gates * graph.skip[:, None] * h0[..., 0] / (gates.mean(axis=0) + EPS)

    def logits(self, h0: np.ndarray, graph: Pathways) -> np.ndarray:
        """The logit of each person (B,)."""
        return self.contributions(h0, graph).sum(axis=0)
