"""IRM: a GIN whose classifier must be optimal at every site at once.

    min  mean_e R_e + lambda mean_e g_e^2,    g_e = d/dw R_e(w logit) at w = 1 = mean_{i in e} logit_i (sigmoid(logit_i) - y_i)

R_e is the cross-entropy at site e. The square is estimated without bias as the product of g on the even and on the odd
people of the site's batch. Batches hold as many people of every site, both classes spread evenly: from batches drawn
at random a site gets about seven people and the penalty is noise.

During the first ``anneal_epochs`` lambda is at most 1. DomainBed resets Adam when lambda jumps; dividing the objective
by max(1, lambda) keeps the size of the gradients instead. With a single training site the penalty is 0: nothing is
known of what varies between sites.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from brainroam.baselines.base import MethodInfo
from brainroam.baselines.deep import People, cross_entropy, site_balanced_batches
from brainroam.baselines.gin import GIN
from brainroam.baselines.layers import Network
from brainroam.baselines.registry import register


@dataclass(kw_only=True, eq=False)
class IRM(GIN):
    """Invariant risk minimisation; see the module for the formula.

    Parameters
    ----------
    penalty : float
        lambda.
    anneal_epochs : int
    per_site : int
        People of each site in a batch.
    """

    penalty: float = 1.0
    anneal_epochs: int = 20
    per_site: int = 8

    def batches(self, people: People) -> Iterator[Tensor]:
        """As many people of every site."""
        yield from site_balanced_batches(people.site, people.y, self.per_site)

    def loss(self, network: Network, batch: People, epoch: int) -> Tensor:
        """Mean risk over sites, and the penalty."""
        logit = network(*batch.inputs)
        sites = [batch.site == e for e in batch.site.unique()]
        risk = torch.stack([cross_entropy(logit[here], batch.y[here]) for here in sites]).mean()
        if len(sites) == 1:
            return risk
        weight = self.penalty if epoch >= self.anneal_epochs else min(self.penalty, 1.0)
        penalty = torch.stack([irm_penalty(logit[here], batch.y[here]) for here in sites]).mean()
        return (risk + weight * penalty) / max(1.0, weight)


def irm_penalty(logit: Tensor, y: Tensor) -> Tensor:
    """Unbiased estimate of g^2: the product of g on the even and the odd people; 0 for fewer than two people."""
    if len(y) < 2:
        return logit.sum() * 0
    slope = logit * (logit.sigmoid() - y)
    return slope[::2].mean() * slope[1::2].mean()


register(
    MethodInfo(
        name="irm",
        make=IRM,
        summary="GIN with invariant risk minimisation over sites",
        citation="Arjovsky et al. (2019) Invariant risk minimization. arXiv:1907.02893",
        grid={"penalty": (1.0, 0.01, 10.0, 100.0)},
        needs=("site",),
    )
)
