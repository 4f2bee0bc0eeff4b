"""mean-MLP: each frame through a small MLP, averaged over time; a strong simple reference for series.

    logit = w . mean_t dropout(ReLU(LayerNorm( W s_t + c ))) + b

s_t are the standardised regions at frame t. Everybody's whole series is used, whatever its length: padding has weight
0 in the mean. The mean of a ReLU of W s_t depends on the variance of W s_t, which is how connectivity enters.
"""

from dataclasses import dataclass

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, MethodInfo
from brainroam.methods.deep.base import DeepMethod, Shape
from brainroam.methods.deep.graphs import whole_series
from brainroam.methods.deep.layers import Head, Network
from brainroam.methods.registry import register
from brainroam.utils.parameters import Share


class FrameNetwork(Network):
    """A frame encoder, a mean over time and a linear head."""

    def __init__(self, n_rois: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.frame = nn.Sequential(nn.Linear(n_rois, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Dropout(dropout))
        self.head = Head(hidden)

    def forward(self, series: Tensor, weight: Tensor) -> Tensor:
        """One logit per person from series (B, T, P) and the weights of their frames (B, T)."""
        return self.head((weight[:, None] @ self.frame(series)).squeeze(1))


@dataclass(kw_only=True, eq=False)
class MeanMLP(DeepMethod):
    """Mean over time of an MLP on frames; see the module for the formula.

    Parameters
    ----------
    hidden : int
    dropout : float
    """

    epochs: NonNegativeInt = 30
    learning_rate: NonNegativeFloat = 5e-3
    weight_decay: NonNegativeFloat = 0.0
    hidden: PositiveInt = 160
    dropout: Share = 0.49

    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """Whole series and frame weights."""
        return whole_series(cohort)

    def build(self, shape: Shape) -> FrameNetwork:
        """Encoder and head."""
        return FrameNetwork(shape.rois, self.hidden, self.dropout)


register(
    MethodInfo(
        name="mean-mlp",
        make=MeanMLP,
        summary="an MLP on every frame, averaged over time",
        citation="Popov et al. (2024) A simple but tough-to-beat baseline for fMRI time-series. NeuroImage",
        grid={"learning_rate": (5e-3, 1e-3)},
        released={"epochs": 200},
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
