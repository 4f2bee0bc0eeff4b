"""IRM: a GIN whose classifier must be optimal at every site at once.

    min  mean_e R_e + lambda mean_e g_e^2,    g_e = d/dw R_e(w logit) at w = 1
                                                  = mean_{i in e} logit_i (sigmoid(logit_i) - y_i)

R_e is the cross-entropy at site e; of a number the squared error, and g_e = 2 mean_{i in e} f_i (f_i - y_i). The
square is estimated without bias as the product of g on the even and on the odd people of the site's batch. Batches
hold as many people of every site, both classes spread evenly: in batches drawn at random a site has about seven people,
and the penalty is noise.

During the first ``anneal_epochs`` lambda is at most 1. DomainBed resets Adam when lambda jumps; dividing the objective
by max(1, lambda) keeps the size of the gradients instead. With a single training site the penalty is 0: nothing is
known of what varies between sites.
"""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import NonNegativeFloat, NonNegativeInt
from torch import Tensor

from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import People
from brainroam.methods.deep.gin import GIN
from brainroam.methods.deep.graph_baselines import SiteBalanced, by_site, site_risks
from brainroam.methods.registry import register


@dataclass(kw_only=True, eq=False)
class IRM(SiteBalanced, GIN):
    """Invariant risk minimisation; see the module for the formula.

    Parameters
    ----------
    penalty : float
        lambda.
    anneal_epochs : int
        How long lambda stays at 1 or below.
    """

    penalty: NonNegativeFloat = 1.0
    anneal_epochs: NonNegativeInt = 10

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """Mean risk over sites, and the penalty."""
        logit = network(*batch.inputs)
        risk = site_risks(logit, batch).mean()
        slopes = by_site(slope_of(logit, batch), batch.site)
        if len(slopes) == 1:
            return risk
        weight = self.penalty if epoch >= self.anneal_epochs else min(self.penalty, 1.0)
        penalty = torch.stack([squared_mean(slope) for slope in slopes]).mean()
        return (risk + weight * penalty) / max(1.0, weight)


def slope_of(output: Tensor, batch: People) -> Tensor:
    """What each person adds to d/dw of the error of w times the output, at w = 1."""
    return output * (2 * (output - batch.y) if batch.number else output.sigmoid() - batch.y)


def squared_mean(slope: Tensor) -> Tensor:
    """Unbiased estimate of the square of an expectation: the product of two means over different people."""
    return slope[::2].mean() * slope[1::2].mean() if len(slope) > 1 else slope.sum() * 0


register(
    MethodInfo(
        name="irm",
        make=IRM,
        summary="GIN with invariant risk minimisation over sites",
        citation="Arjovsky et al. (2019) Invariant risk minimization. arXiv:1907.02893",
        grid={"penalty": (1.0, 0.01, 10.0, 100.0)},
        needs=("site",),
        released={
            "epochs": 200,
            "hidden": 100,
            "penalty": 0.01,
            "anneal_epochs": 0,
            "per_site": 0,
            "weight_decay": 0.0,
        },
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
