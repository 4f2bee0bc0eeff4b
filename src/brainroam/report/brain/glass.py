"""Pathways or regions in a glass brain, seen from four sides."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from brainroam.report.figures import BLUE, GREY, INK, VERMILION

LARGEST = 130.0  # area of the largest dot, in points


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
    _titled(display, ax)


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
    _titled(display, ax)


def _titled(display: Any, ax: Axes) -> None:
    """Name the sides, and let the page shine through."""
    figure = ax.figure
    ax.set_axis_off()
    for title, axes in zip(("left", "back", "right", "top"), display.axes.values(), strict=True):
        axes.ax.set_title(title, color=GREY, fontsize=9)
    for axes in figure.axes:
        axes.patch.set_alpha(0)
        for outline in axes.patches:  # black on black in a dark page
            outline.set_edgecolor(GREY)
