"""CORAL: a GIN whose pooled embeddings have the same mean and covariance at every training site.

    min  mean_e R_e + gamma mean_{e<e'} [ mean (mu_e - mu_e')^2 + mean (C_e - C_e')^2 ],
    C_e = (Z_e - mu_e)^T (Z_e - mu_e) / (n_e - 1)

Z_e are the embeddings of the people of site e before the linear head, R_e the cross-entropy there. The mean over pairs
of squared differences is twice the variance over sites, which is how it is computed. Batches hold as many people of
every site. No data of the test site are used: this is domain generalisation, not adaptation. With a single training
site the penalty is 0.

GOOD's released code aligns covariances only and subtracts mu^T mu once instead of n times, which makes it nearly a
match of second moments; here C is the covariance, and means are aligned as in DomainBed.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import People
from brainroam.methods.deep.gin import GIN
from brainroam.methods.deep.graph_baselines import SiteBalanced, by_site, site_risks
from brainroam.methods.registry import register


@dataclass(kw_only=True, eq=False)
class CORAL(SiteBalanced, GIN):
    """Correlation alignment; see the module for the formula.

    Parameters
    ----------
    penalty : float
        gamma.
    """

    penalty: NonNegativeFloat = 1.0

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Mean risk over sites, and the misalignment of their embeddings."""
        embedding = network.embed(*batch.inputs)
        risk = site_risks(network.head(embedding), batch).mean()
        return risk + self.penalty * misalignment(by_site(embedding, batch.site))


def misalignment(embeddings: list[Tensor]) -> Tensor:
    """Mean squared difference of means and of covariances over all pairs of sites with at least two people."""
    embeddings = [z for z in embeddings if len(z) > 1]
    if len(embeddings) < 2:
        return torch.zeros(())
    means = torch.stack([z.mean(0) for z in embeddings])
    covariances = torch.stack([z.T.cov() for z in embeddings])
    return 2 * means.var(0).mean() + 2 * covariances.var(0).mean()


register(
    MethodInfo(
        name="coral",
        make=CORAL,
        summary="GIN with means and covariances of the embedding aligned between sites",
        citation="Sun & Saenko (2016) Deep CORAL: correlation alignment for deep domain adaptation. ECCV workshops",
        grid={"penalty": (1.0, 0.1, 10.0)},
        needs=("site",),
        released={"epochs": 200, "hidden": 100, "per_site": 0, "weight_decay": 0.0},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
