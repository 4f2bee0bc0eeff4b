"""cepg-proxy: our reconstruction of CEPG from one sentence; its paper and code could not be found.

CORE describes CEPG as promoting invariant information by environment-promoted objectives. The nearest published
relatives are LECI (label and environment causal independence) and GSAT, from which this is put together:

    m = GSAT's edge gate,   z_I = mean_u GIN(X, m A)_u,   z_E = mean_u GIN(X, (1 - m) A)_u
    min  CE(y | z_I) + CE(e | z_E) + l_adv ( CE(e | GRL z_I) + CE(y | GRL z_E) ) + l_var Var_e(R_e)

e is the site, R_e the cross-entropy there, GRL reverses the gradient: what stays in the graph must tell the label and
not the site, what is cut away the site and not the label. l_adv rises to its value over ``ramp_epochs``. In training
the gate is sampled as in GSAT; batches hold as many people of every site. With a single training site the terms of e
are 0.
**Nothing said about this proxy is a statement about CEPG.**

Explanation: ``edges`` (n, P, P), the gate m.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn
from torch.nn import functional as F

from brainroam.methods.base import CLASSES_TOO, MethodInfo
from brainroam.methods.deep.base import People, Shape, cross_entropy
from brainroam.methods.deep.graph_baselines import EdgeMethod, SiteBalanced, site_risks
from brainroam.methods.deep.gsat import AttentionNetwork
from brainroam.methods.deep.layers import Head, concrete, reverse_gradient
from brainroam.methods.registry import register


class EnvironmentNetwork(AttentionNetwork):
    """GSAT's network with heads for the site and adversaries; the complement of the gate is encoded as well."""

    def __init__(self, encoder: nn.Module, scorer: nn.Module, hidden: int, n_sites: int) -> None:
        super().__init__(encoder, scorer, hidden)
        self.site_head, self.site_adversary = (nn.Linear(hidden, n_sites) for _ in range(2))
        self.label_adversary = Head(hidden)


@dataclass(kw_only=True, eq=False)
class CEPGProxy(SiteBalanced, EdgeMethod):
    """Environment-promoted gate; see the module for the formula and for what it is not.

    Parameters
    ----------
    adversary : float
        l_adv.
    variance : float
        l_var.
    ramp_epochs : int
    """

    epochs: NonNegativeInt = 15
    adversary: NonNegativeFloat = 0.1
    variance: NonNegativeFloat = 1.0
    ramp_epochs: NonNegativeInt = 10

    def build(self, shape: Shape) -> EnvironmentNetwork:
        """GSAT's encoder and scorer, and four heads."""
        return EnvironmentNetwork(*self.encoder_and_scorer(shape.rois), self.hidden, shape.sites)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Label from the gated graph, site from the rest, and the adversaries."""
        x, ends, present = batch.inputs
        gate = concrete(network.edge_logits(x, ends, present), training=True)
        invariant, environment = (network.embed(x, ends, present * part) for part in (gate, 1 - gate))
        risks = site_risks(network.head(invariant), batch)
        weight = self.adversary * min(1.0, (epoch + 1) / self.ramp_epochs)
        loss = risks.mean() + weight * cross_entropy(network.label_adversary(reverse_gradient(environment)), batch.y)
        if len(risks) > 1:
            loss = loss + F.cross_entropy(network.site_head(environment), batch.site)
            loss = loss + weight * F.cross_entropy(network.site_adversary(reverse_gradient(invariant)), batch.site)
            loss = loss + self.variance * torch.var(risks)
        return loss


register(
    MethodInfo(
        name="cepg-proxy",
        make=CEPGProxy,
        summary="proxy, reconstructed from one sentence: an edge gate that keeps the label and drops the site",
        citation="inferred; stands in for CEPG (Wang 2026, as cited by CORE), whose text was not found",
        grid={"adversary": (0.1, 1.0)},
        needs=("site",),
        targets=CLASSES_TOO,
        one_against_rest=True,
    )
)
