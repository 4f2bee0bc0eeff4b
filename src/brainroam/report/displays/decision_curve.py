"""Would acting on the prediction do more good than acting on everybody or on nobody?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from brainroam.core.calibration import to_prevalence
from brainroam.errors import DataError
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for, people_frame
from brainroam.report.figures import BLUE, GREY, INK, VERMILION

THRESHOLDS = np.round(np.arange(0.02, 0.99, 0.01), 2)


@dataclass
class DecisionCurveDisplay(Shown):
    """Net benefit over the probability at which one would act (Vickers and Elkin 2006).

    With pi the share of cases, and someone called a case when their probability reaches t,

        net benefit = sensitivity * pi - (1 - specificity) * (1 - pi) * t / (1 - t)

    Parameters
    ----------
    label, probability : ndarray of shape (n,)
    prevalence : float, optional
        The share of cases where the model would be used; by default that of these people, which in a case-control
        study is far too high for screening.

    Examples
    --------
    >>> from brainroam.report import DecisionCurveDisplay
    >>> display = DecisionCurveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.3, 0.7, 0.9])
    >>> round(float(display.net_benefit(0.5)), 2), round(float(display.act_on_all(0.5)), 2)
    (0.5, 0.0)
    """

    label: np.ndarray
    probability: np.ndarray
    prevalence: float | None = None

    @classmethod
    def from_results(
        cls, results: Source, method: str | None = None, prevalence: float | None = None
    ) -> "DecisionCurveDisplay":
        """Of a folder of runs or of results."""
        people = read_data(results, method).people.dropna(subset="probability")
        probability = people["probability"]
        if prevalence is not None:
            probability = to_prevalence(probability, people["prevalence"], prevalence)
        return cls.from_predictions(people["label"], probability, prevalence)

    @classmethod
    def from_predictions(
        cls, y_true: Sequence[int], y_prob: Sequence[float], prevalence: float | None = None
    ) -> "DecisionCurveDisplay":
        """Of labels, and probabilities that hold for this prevalence."""
        people = people_frame([""] * len(y_true), y_true, probability=y_prob)
        if people["label"].nunique() < 2:
            raise DataError("a decision curve needs cases and controls")
        return cls(people["label"].to_numpy(), people["probability"].to_numpy(dtype=float), prevalence)

    @property
    def share(self) -> float:
        """The share of cases that the benefit is computed for."""
        return float(self.label.mean()) if self.prevalence is None else self.prevalence

    def net_benefit(self, threshold: float) -> float:
        """Of acting on everybody whose probability reaches the threshold."""
        called = self.probability >= threshold
        hit, false = called[self.label == 1].mean(), called[self.label == 0].mean()
        return hit * self.share - false * (1 - self.share) * threshold / (1 - threshold)

    def act_on_all(self, threshold: float) -> float:
        """Of acting on everybody."""
        return self.share - (1 - self.share) * threshold / (1 - threshold)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.0, 3.7

    def plot(self, ax: Axes | None = None) -> "DecisionCurveDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        ax.axhline(0, color=INK, linewidth=1, label="act on nobody")
        ax.plot(THRESHOLDS, [self.act_on_all(t) for t in THRESHOLDS], color=GREY, linewidth=1.4, label="act on all")
        ax.plot(THRESHOLDS, [self.net_benefit(t) for t in THRESHOLDS], color=VERMILION, linewidth=2, label="the model")
        ax.fill_between(
            THRESHOLDS,
            [max(self.act_on_all(t), 0) for t in THRESHOLDS],
            [max(self.net_benefit(t), self.act_on_all(t), 0) for t in THRESHOLDS],
            color=BLUE, alpha=0.13, linewidth=0, label="gained by the model",
        )  # fmt: skip
        ax.set(xlim=(0, 1), ylim=(-0.1 * self.share, 1.05 * self.share))
        ax.set(xlabel="Probability at which one would act", ylabel="Net benefit")
        ax.legend(loc="upper right", frameon=False, fontsize=8.5)
        return self
