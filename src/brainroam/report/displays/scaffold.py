"""Which pathways: on a circle of regions, for any atlas, or in a glass brain where coordinates are known."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.path import Path as Curve

from brainroam.core.connectivity import edge_pairs
from brainroam.data.atlas import Atlas, anonymous_atlas
from brainroam.data.atlas.anatomy import parts_of
from brainroam.errors import RunsError, UsageError, unknown
from brainroam.report.data import Source, read_data
from brainroam.report.displays.axes import Shown, axes_for
from brainroam.report.figures import BLUE, INK, PALETTE, RULE, VERMILION, shortened

KINDS = ("chord", "glass")
SHOWN = 20  # pathways of each sign


SIDES = {"l": "left", "r": "right", "lh": "left", "rh": "right", "left": "left", "right": "right"}
NO_WORDS = {"7networks", "17networks", "ctx", "roi"}


def region_words(label: str) -> str:
    """The name of a region as people say it: the side first, without what only tools need.

    >>> region_words("7Networks_LH_Default_PFC_3"), region_words("Precentral_R"), region_words("L_V1_ROI")
    ('left Default PFC 3', 'right Precentral', 'left V1')
    """
    words = [word for word in re.split(r"[_\s.-]+", label) if word and word.lower() not in NO_WORDS]
    side = [SIDES[word.lower()] for word in words if word.lower() in SIDES]
    others = [word for word in words if word.lower() not in SIDES]
    return " ".join([*side[:1], *others]) if others else label


@dataclass
class ScaffoldDisplay(Shown):
    """The largest pathways of a scaffold; vermilion: stronger in people with the condition, blue: weaker.

    Parameters
    ----------
    pairs : ndarray of int, shape (k, 2)
        The two regions of each pathway.
    values : ndarray of shape (k,)
        Their contrasts d_com.
    atlas : Atlas
        Names and, where known, coordinates of the regions.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.report import ScaffoldDisplay
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> people = cohort.table
    >>> clf = brainroam.CoreClassifier(epochs=0, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> display = ScaffoldDisplay.from_estimator(clf, cohort.atlas).plot()
    >>> display.pairs.shape[1]
    2
    """

    pairs: np.ndarray
    values: np.ndarray
    atlas: Atlas

    @classmethod
    def from_results(cls, results: Source, method: str | None = None, top: int = SHOWN) -> "ScaffoldDisplay":
        """What at least half of the folds selected, of a method that selects a scaffold."""
        from brainroam.report.brain.study_explanations import explained

        found = explained(read_data(results, method))
        if found is None:
            raise RunsError("no run kept a scaffold; run core, which selects one")
        return cls.from_explanation(found.explanation, top)

    @classmethod
    def from_explanation(cls, explanation: Any, top: int = SHOWN) -> "ScaffoldDisplay":
        """Of an `Explanation`: its largest pathways of either sign."""
        chosen = pd.concat(explanation.signed(top))
        pairs = edge_pairs(len(explanation.atlas))[chosen["edge"].to_numpy(dtype=int)]
        return cls(pairs, chosen[explanation.measure].to_numpy(dtype=float), explanation.atlas)

    @classmethod
    def from_estimator(cls, estimator: Any, atlas: Atlas | None = None, top: int = SHOWN) -> "ScaffoldDisplay":
        """Of a fitted `CoreClassifier`, or of a `Scaffold`; ``atlas`` names the regions."""
        scaffold = getattr(estimator, "scaffold_", estimator)
        if not hasattr(scaffold, "consensus"):
            raise UsageError(f"a {type(estimator).__name__} has no scaffold; CoreClassifier has one once it is fitted")
        n_rois = int((1 + np.sqrt(1 + 8 * len(scaffold.consensus))) / 2)
        values = scaffold.consensus[scaffold.edges]
        order = np.argsort(-np.abs(values), kind="stable")
        chosen = np.concatenate([order[values[order] > 0][:top], order[values[order] < 0][:top]])
        pairs = edge_pairs(n_rois)[scaffold.edges[chosen]]
        return cls(pairs, values[chosen], atlas or anonymous_atlas(n_rois))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 6.2, 6.2

    def plot(self, ax: Axes | None = None, kind: str = "chord") -> "ScaffoldDisplay":
        """Draw it as a ``"chord"`` plot or in a ``"glass"`` brain, on these axes or on new ones."""
        if kind not in KINDS:
            raise unknown("kind of picture", kind, KINDS)
        if kind == "chord":
            self.ax_ = axes_for(ax, self.size)
            self._chords(self.ax_)
        else:
            self.ax_ = axes_for(ax, (9.4, 2.9))
            self._glass(self.ax_)
        return self

    def _chords(self, ax: Axes) -> None:
        parts = parts_of(self.atlas)
        part = [parts.names.index(name) for name in parts.of_region] if parts else [0] * len(self.atlas)
        order = sorted(np.unique(self.pairs), key=lambda k: (part[k], k))
        gaps = np.cumsum([0, *(part[a] != part[b] for a, b in pairwise(order))])
        turn = (np.arange(len(order)) + 1.2 * gaps) / max(len(order) + 1.2 * (gaps[-1] + 1), 1) if len(order) else []
        angle = dict(zip(order, np.pi / 2 - 2 * np.pi * np.asarray(turn), strict=True))
        ends = {k: np.array([np.cos(a), np.sin(a)]) for k, a in angle.items()}
        largest = max(np.abs(self.values).max(initial=0), 1e-12)
        from matplotlib.patches import PathPatch

        for (a, b), value in sorted(zip(self.pairs, self.values, strict=True), key=lambda item: abs(item[1])):
            curve = Curve([ends[a], 0.25 * (ends[a] + ends[b]), ends[b]], [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3])
            width, colour = 0.7 + 2.3 * abs(value) / largest, VERMILION if value > 0 else BLUE
            ax.add_patch(PathPatch(curve, facecolor="none", edgecolor=colour, linewidth=width, alpha=0.8))
        for k, a in angle.items():
            x, y = ends[k]
            colour = PALETTE[part[k] % len(PALETTE)] if parts else INK
            ax.scatter(x, y, s=22, color=colour, edgecolor=RULE, linewidth=0.5, zorder=3)
            degrees = np.degrees(a) % 360
            left = 90 < degrees < 270
            side = {"rotation": degrees - 180, "ha": "right"} if left else {"rotation": degrees, "ha": "left"}
            name = shortened(region_words(self.atlas.labels[k]), 24)
            ax.text(1.05 * x, 1.05 * y, name, fontsize=7.5, va="center", rotation_mode="anchor", **side)
        ax.set(xlim=(-1.65, 1.65), ylim=(-1.65, 1.65), aspect="equal")
        ax.set_axis_off()

    def _glass(self, ax: Axes) -> None:
        if self.atlas.coords is None:
            raise UsageError(f"the atlas {self.atlas.name!r} has no coordinates; use kind='chord'")
        from brainroam.report.brain.glass import glass_brain

        glass_brain(self.atlas.coords[self.pairs[:, 0]], self.atlas.coords[self.pairs[:, 1]], self.values, ax)
