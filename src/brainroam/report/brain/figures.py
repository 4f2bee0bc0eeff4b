"""Static pictures of an explanation: where pathways run, between which lobes or networks, at which sites, gates.

Each is a display object or made by one; `write_explanation` writes them as PNG and SVG beside tables as CSV.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.path import Path as Curve

from brainroam.core.connectivity import edge_pairs
from brainroam.data.atlas import Atlas, anonymous_atlas
from brainroam.data.atlas.anatomy import Parts, parts_of
from brainroam.errors import RunsError, UsageError, unknown
from brainroam.methods.explanation import QUANTILES, Explanation
from brainroam.report.brain.glass import columns_drawing, measure_words, places_drawing
from brainroam.report.data import Source, read_data
from brainroam.report.figures import (
    BLUE,
    GREY,
    INK,
    PALETTE,
    RULE,
    VERMILION,
    NotebookDisplay,
    axes_for,
    canvas,
    drawing,
    region_words,
    shorten,
    write,
)
from brainroam.report.page import Drawing
from brainroam.utils.files import write_csv

KINDS = ("chord", "glass")
SHOWN = 20  # pathways of each sign
AT_SITES = 12  # pathways of each sign whose contrast is shown at every site
LABEL = 24  # characters of the name of a region on the circle
NAMES = ("q05", "q25", "median", "q75", "q95")
SIGNED = LinearSegmentedColormap.from_list("signed", [BLUE, "#e9ebee", VERMILION])
COUNTS = LinearSegmentedColormap.from_list("counts", ["#e9ebee", BLUE])


@dataclass
class ScaffoldDisplay(NotebookDisplay):
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
        from brainroam.report.brain.study_explanations import explain_scaffold

        core = explain_scaffold(read_data(results, method))
        if core is None:
            raise RunsError("no run kept a scaffold; run core, which selects one")
        return cls.from_explanation(core.explanation, top)

    @classmethod
    def from_explanation(cls, explanation: Any, top: int = SHOWN) -> "ScaffoldDisplay":
        """Of an `Explanation`: its largest pathways of either sign."""
        chosen = pd.concat(explanation.signed(top))
        pairs = explanation.atlas.pairs[chosen["edge"].to_numpy(dtype=int)]
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
            name = shorten(region_words(self.atlas.labels[k]), LABEL)
            ax.text(1.05 * x, 1.05 * y, name, fontsize=7.5, va="center", rotation_mode="anchor", **side)
        longest = max((len(region_words(self.atlas.labels[k])) for k in order), default=0)
        reach = 1.15 + 0.5 * min(longest / LABEL, 1)  # room for the names
        ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        ax.set_axis_off()

    def _glass(self, ax: Axes) -> None:
        if self.atlas.coords is None:
            raise UsageError(f"the atlas {self.atlas.name!r} has no coordinates; use kind='chord'")
        from brainroam.report.brain.glass import glass_brain

        glass_brain(self.atlas.coords[self.pairs[:, 0]], self.atlas.coords[self.pairs[:, 1]], self.values, ax)


@dataclass
class GateDisplay(NotebookDisplay):
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
        from brainroam.report.brain.study_explanations import explain_scaffold

        core = explain_scaffold(read_data(results, method))
        if core is None or not len(core.explanation.gates):
            raise RunsError("no run kept the gates of its people; run core, which has gates")
        return cls(core.explanation.gates)

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
        ax.set_yticks(range(len(sites)), [shorten(str(site), 30) for site in sites[::-1]])
        ax.set(xlim=(0, 1), ylim=(-0.6, len(sites) - 0.4), xlabel="Gate (0 shut, 1 open)")
        return self


def drawings(explanation: Explanation) -> Iterator[Drawing]:
    """Every picture this explanation can give."""
    makers = (
        *(connectome_drawing, chord_drawing, columns_drawing, places_drawing),
        *(lobes_drawing, sites_drawing, gates_drawing),
    )
    yield from (made for make in makers if (made := make(explanation)) is not None)


def connectome_drawing(explanation: Explanation) -> Drawing | None:
    """Glass brain of the largest pathways of both signs; None without coordinates."""
    if explanation.atlas.coords is None or not len(explanation.pathways):
        return None
    positive, negative = explanation.signed(SHOWN)
    caption = (
        f"The {len(positive)} largest positive (vermilion) and {len(negative)} largest negative (blue) pathways by "
        f"{measure_words(explanation)}. Positive: stronger {explanation.where_positive}. From the left and the right "
        "only pathways within that hemisphere are drawn."
        if explanation.kind == "scaffold"
        else f"The {len(positive) + len(negative)} largest pathways by {measure_words(explanation)}."
    )
    display = ScaffoldDisplay.from_explanation(explanation, SHOWN)
    return Drawing("connectome", caption, lambda: _glass(display))


def _glass(display: ScaffoldDisplay) -> Figure:
    figure = Figure((9.4, 2.9))
    display.plot(figure.add_axes((0, 0, 1, 0.93)), kind="glass")
    return figure


def chord_drawing(explanation: Explanation) -> Drawing | None:
    """The largest pathways of both signs on a circle of regions; None where nothing is signed, or columns are read."""
    if explanation.kind != "scaffold" or explanation.atlas.columns:
        return None
    display = ScaffoldDisplay.from_explanation(explanation, SHOWN)
    if not len(display.values):
        return None
    parts = explanation.parts
    lobes = f" Dots of one colour lie in one {parts.kind}." if parts else ""
    caption = (
        f"The {len(display.values)} largest pathways between named regions; vermilion: stronger "
        f"{explanation.where_positive}, blue: weaker. Thicker lines stand for larger contrasts.{lobes}"
    )
    return drawing("chord", caption, display)


def lobes_drawing(explanation: Explanation) -> Drawing | None:
    """How many pathways join which lobes or networks; None where neither is known."""
    table, parts = explanation.networks, explanation.parts
    if parts is None or not len(table) or explanation.atlas.columns:
        return None
    what = "pathways of the scaffold" if explanation.kind == "scaffold" else f"{len(explanation.counted)} largest edges"
    signs = ", and whether they are rather positive (vermilion) or negative (blue)" if table["negative"].any() else ""
    caption = f"How many of the {what} join which {parts.kind}s{signs}."
    if parts.kind == "lobe":
        caption += " Regions of an atlas other than AAL take the lobe of the nearest AAL region."
    return Drawing(f"{parts.kind}s", caption, lambda: _parts_map(table, parts))


def _parts_map(table: pd.DataFrame, parts: Parts) -> Figure:
    n, place = len(parts.names), {name: k for k, name in enumerate(parts.names)}
    count, balance = np.zeros((n, n), dtype=int), np.full((n, n), np.nan)
    for row in table.to_dict("records"):
        a, b = place[row[f"{parts.kind}_2"]], place[row[f"{parts.kind}_1"]]  # the first comes first in their order
        count[a, b] = row["pathways"]
        balance[a, b] = (row["positive"] - row["negative"]) / max(row["pathways"], 1)
    figure, axes = canvas(7.4, max(4.4, 0.36 * n + 1.2))
    signed = bool(table["negative"].any())
    colours = balance if signed else np.where(count > 0, count / count.max(), np.nan)
    image = axes.imshow(colours, cmap=SIGNED if signed else COUNTS, vmin=-1 if signed else 0, vmax=1, aspect="auto")
    for a, b in np.argwhere(np.tri(n)):
        # The cells have colours of their own, so the digits must not follow the theme.
        colour = "#101418" if abs(np.nan_to_num(colours[a, b])) < 0.6 else "#ffffff"
        axes.text(b, a, str(count[a, b]), ha="center", va="center", color=colour if count[a, b] else GREY)
    axes.set_xticks(range(n), parts.names, rotation=35, ha="right")
    axes.set_yticks(range(n), parts.names)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if signed:
        bar = figure.colorbar(image, ax=axes, shrink=0.75, ticks=[-1, 0, 1])
        bar.ax.set_yticklabels(["all negative", "as many of both", "all positive"])
        bar.outline.set_visible(False)
    return figure


def sites_drawing(explanation: Explanation) -> Drawing | None:
    """Contrast of every site on the strongest pathways; None without a scaffold."""
    contrasts = explanation.site_contrasts
    if not len(contrasts):
        return None
    positive, negative = explanation.signed(AT_SITES)
    chosen = pd.concat([positive, negative[::-1]])
    chosen = chosen[chosen["edge"].isin(contrasts["edge"])]
    wide = contrasts.pivot(index="edge", columns="site", values="d_site").reindex(chosen["edge"])
    pairs = zip(chosen["region_1"], chosen["region_2"], strict=True)
    names = [region_words(a) if a == b else f"{region_words(a)} - {region_words(b)}" for a, b in pairs]
    one, more = ("column", "larger") if explanation.atlas.columns else ("pathway", "stronger")
    caption = (
        f"What each site itself shows on the {len(chosen)} strongest {one}s (vermilion: {more} "
        f"{explanation.where_positive}). A row of one colour is a {one} the sites agree on. Grey: not measured there."
    )
    return Drawing("sites", caption, lambda: _site_map(wide, names))


def _site_map(wide: pd.DataFrame, names: list[str]) -> Figure:
    values = wide.to_numpy(dtype=float)
    bound = float(np.nanquantile(np.abs(values), 0.98))
    figure, axes = canvas(8.4, 0.23 * len(names) + 1.4)
    axes.set_facecolor(RULE)
    image = axes.imshow(values, cmap=SIGNED, vmin=-bound, vmax=bound, aspect="auto")
    axes.set_xticks(range(len(wide.columns)), wide.columns, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="contrast d at the site")
    bar.outline.set_visible(False)
    return figure


def gates_drawing(explanation: Explanation) -> Drawing | None:
    """Gates of the people of each site; None for methods without gates, or where all of them are open."""
    gates = explanation.gates
    if (gates.get("q05", pd.Series(dtype=float)) == 1).all():
        return None
    caption = (
        "Gates of the held-out people by site: how open the pathways are (0 shut, 1 open). Line: from the 5 % to the "
        "95 % quantile of a person's gates, bar: the middle half, both averaged over people; points: each person's "
        "median."
    )
    return drawing("gates", caption, GateDisplay(gates))


def write_explanation(explanation: Explanation, folder: Path) -> list[Path]:
    """Write every table and figure that is not empty, and return their paths."""
    tables = {
        "pathways": explanation.pathways.drop(columns="edge"),
        "people": explanation.people,
        "gates": explanation.gates,
        "sites": explanation.sites(10),
        "networks": explanation.networks,
        "regions": explanation.places if explanation.atlas.columns else explanation.regions,
    }
    written = [write_csv(folder / f"{name}.csv", table) for name, table in tables.items() if len(table)]
    for picture in drawings(explanation):
        written += write(picture, folder)
    return written
