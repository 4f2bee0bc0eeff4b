"""Values at places: pathways or regions in a glass brain seen from four sides, and the columns of a table as bars."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from brainroam.methods.explanation import Explanation
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, canvas, region_words, shorten
from brainroam.report.page import Drawing

LARGEST = 130.0  # area of the largest dot, in points
SHOWN = 20  # columns of each sign
MEASURES = 4  # of a table that have a glass brain of their own
WORDS = {"d_com": "contrast d_com", "effect": "effect on the score"}


def glass_brain(first: np.ndarray, second: np.ndarray, values: np.ndarray, ax: Axes) -> None:
    """Draw pathways between MNI coordinates (k, 3), coloured by the sign of their values, in the place of ``ax``."""
    from nilearn.plotting import plot_connectome

    nodes, which = np.unique(np.concatenate([first, second]), axis=0, return_inverse=True)
    a, b = which.reshape(2, -1)
    matrix = np.zeros((len(nodes), len(nodes)))
    matrix[a, b] = matrix[b, a] = values
    bound = max(float(np.abs(values).max()), 1e-12) if len(values) else 1.0
    display = plot_connectome(
        matrix,
        nodes,
        node_color=INK,
        node_size=9,
        edge_cmap=LinearSegmentedColormap.from_list("two", [BLUE, BLUE, VERMILION, VERMILION]),
        edge_vmin=-bound,
        edge_vmax=bound,
        edge_kwargs={"linewidth": 1.6, "alpha": 0.85},
        display_mode="lyrz",
        figure=ax.figure,
        axes=ax.get_position().bounds,
        annotate=False,
        colorbar=False,
    )
    _name_sides(display, ax)


def regions_in_glass_brain(points: np.ndarray, values: np.ndarray, ax: Axes) -> None:
    """Draw dots at MNI coordinates (k, 3), as large as the size of their values (at most 1), coloured by their sign."""
    from nilearn.plotting import plot_glass_brain

    display = plot_glass_brain(
        None, display_mode="lyrz", figure=ax.figure, axes=ax.get_position().bounds, annotate=False, colorbar=False
    )
    for sign, colour in ((1, VERMILION), (-1, BLUE)):
        here = np.sign(values) == sign
        if here.any():
            display.add_markers(points[here], colour, marker_size=LARGEST * np.abs(values[here]), alpha=0.8)
    _name_sides(display, ax)


def _name_sides(display: Any, ax: Axes) -> None:
    """Title the views, and make the background transparent."""
    figure = ax.figure
    ax.set_axis_off()
    for title, axes in zip(("left", "back", "right", "top"), display.axes.values(), strict=True):
        axes.ax.set_title(title, color=GREY, fontsize=9)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
        for outline in axes.patches:  # black on black in a dark page
            outline.set_edgecolor(GREY)


def columns_drawing(explanation: Explanation) -> Drawing | None:
    """The largest columns of a table as bars; None where edges are read."""
    rows = pd.concat(explanation.signed(SHOWN)) if explanation.atlas.columns else pd.DataFrame()
    if not len(rows):
        return None
    rows = rows.sort_values(explanation.measure)
    caption = (
        f"The {len(rows)} columns of the table that count most, by {measure_words(explanation)}; {_signs(explanation)}."
    )
    return Drawing("columns", caption, lambda: _bars(rows["region_1"].tolist(), rows[explanation.measure].to_numpy()))


def _bars(names: list[str], values: np.ndarray) -> Figure:
    figure, axes = canvas(7.4, 0.22 * len(names) + 0.9)
    axes.barh(range(len(names)), values, color=np.where(values > 0, VERMILION, BLUE), height=0.7)
    axes.set_yticks(range(len(names)), [shorten(region_words(name), 44) for name in names], fontsize=8)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def places_drawing(explanation: Explanation) -> Drawing | None:
    """Regions of a table in a glass brain, a row for each measure; None where names tell no region with a centre."""
    places = explanation.places
    if not len(places):
        return None
    ranked = explanation.counted if explanation.kind == "scaffold" else explanation.pathways
    measures = places["measure"].value_counts().index[:MEASURES].tolist()
    located = f"{len(places)} of {len(ranked)} columns are of regions whose centre is known"
    caption = (
        f"Where the table's regions lie: larger dots count more, by {measure_words(explanation)}; "
        f"{_signs(explanation)}. "
        f"{located} (Desikan-Killiany, Destrieux and deep structures of FreeSurfer)."
    )
    return Drawing("regions", caption, lambda: _places(places, measures))


def _places(places: pd.DataFrame, measures: list[str]) -> Figure:
    figure, n = Figure((9.4, 2.6 * len(measures))), len(measures)
    largest = max(float(places["value"].abs().max()), 1e-12)
    for k, measure in enumerate(measures):
        some = places[places["measure"] == measure]
        ax = figure.add_axes((0.04, 1 - (k + 1) / n, 0.96, 0.88 / n))
        regions_in_glass_brain(some[["x", "y", "z"]].to_numpy(), some["value"].to_numpy() / largest, ax)
        figure.text(0.01, 1 - (k + 0.5) / n, measure, rotation=90, va="center", color=GREY, fontsize=10)
    return figure


def _signs(explanation: Explanation) -> str:
    if explanation.kind == "scaffold":
        return f"vermilion: larger {explanation.where_positive}, blue: smaller"
    speaks = f"for a higher {explanation.number}" if explanation.number else "for the condition"
    return f"vermilion: a larger value speaks {speaks}, blue: against it"


def measure_words(explanation: Explanation) -> str:
    """What pathways or columns are ranked by."""
    return WORDS.get(explanation.measure, f"mean {explanation.measure}")
