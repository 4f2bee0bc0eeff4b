"""How open the gates are: one row per site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import RunsError
from brainroam.methods.explanation import QUANTILES
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for
from brainroam.report.figures import BLUE, INK, shortened

NAMES = ("q05", "q25", "median", "q75", "q95")


@dataclass
class GateDisplay(Shown):
    """Gates of people by site: 0 is shut, 1 is open.

    Line: from the 5 % to the 95 % quantile of a person's gates, bar: the middle half, both averaged over people;
    points: each person's median.

    Parameters
    ----------
    gates : DataFrame
        One row per person: ``site`` and the quantiles ``q05``, ``q25``, ``median``, ``q75``, ``q95``.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.report import GateDisplay
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> people = cohort.table
    >>> clf = brainroam.CoreClassifier(hidden=4, skip="none", updates=4, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> display = GateDisplay.from_estimator(clf, cohort.series, people["site"], covariates=people[["age", "sex"]])
    >>> len(display.gates)
    64
    """

    gates: pd.DataFrame

    @classmethod
    def from_results(cls, results: Source, method: str | None = None) -> "GateDisplay":
        """Of a folder of runs or of results of core or one of its variants."""
        from brainroam.report.brain.study_explanations import explained

        found = explained(read_data(results, method))
        if found is None or not len(found.explanation.gates):
            raise RunsError("no run kept the gates of its people; run core, which has gates")
        return cls(found.explanation.gates)

    @classmethod
    def from_estimator(cls, estimator: Any, series: Any, site: Sequence[str] | None = None, **known: Any):
        """Of a fitted `CoreClassifier` and people; ``known`` are their covariates and ``tr``."""
        values = np.quantile(estimator.gates(series, **known), QUANTILES, axis=1)
        table = pd.DataFrame(dict(zip(NAMES, values, strict=True)))
        return cls(table.assign(site="people" if site is None else np.asarray(site).astype(str)))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 6.4, 0.3 * self.gates["site"].nunique() + 0.9

    def plot(self, ax: Axes | None = None) -> "GateDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        sites = sorted(self.gates["site"].unique())
        for y, site in enumerate(reversed(sites)):
            here = self.gates[self.gates["site"] == site]
            mean = here[list(NAMES)].mean()
            ax.hlines(y, mean["q05"], mean["q95"], color=INK, linewidth=1)
            ax.hlines(y, mean["q25"], mean["q75"], color=BLUE, linewidth=9, alpha=0.45)
            ax.scatter(here["median"], np.full(len(here), y), s=9, color=BLUE, zorder=3)
        ax.set_yticks(range(len(sites)), [shortened(str(site), 30) for site in sites[::-1]])
        ax.set(xlim=(0, 1), ylim=(-0.6, len(sites) - 0.4), xlabel="Gate (0 shut, 1 open)")
        return self
