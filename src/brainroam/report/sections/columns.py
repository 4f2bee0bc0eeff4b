"""What the columns of a table look like: a histogram of each group of columns, as `check` has counted them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from brainroam.data.check.column_shapes import BINS
from brainroam.errors import listed
from brainroam.report.figures import BLUE, add_tip
from brainroam.report.page import Drawing

WIDTH, HEIGHT = 6.4, 0.75  # inches, of a row
CAPTION = (
    "Values of the columns within sites, in standard deviations of each column, by what the columns look like; the "
    "bars at both ends hold all beyond. Skewed columns, and those at their floor, are read by normal scores."
)


def columns_drawing(groups: Sequence[Mapping[str, Any]]) -> Drawing:
    """A strip with a row for each group (`brainroam.data.check.column_shapes.column_groups`)."""
    return Drawing("columns", CAPTION, lambda: _draw(groups))


def _draw(groups: Sequence[Mapping[str, Any]]) -> Figure:
    figure = Figure((WIDTH, HEIGHT * len(groups) + 0.35), layout="constrained")
    rows = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    middle = (BINS[1:] + BINS[:-1]) / 2
    for ax, group in zip(rows, groups, strict=True):
        bars = ax.bar(middle, group["histogram"], width=np.diff(BINS), color=BLUE)
        for bar, share in zip(bars, group["histogram"], strict=True):
            add_tip(bar, f"{share:.1%} of the values")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_title(f"{len(group['columns'])} {group['kind']}: {listed(group['columns'], 3)}", loc="left", fontsize=9)
    rows[-1].set_xlabel("standard deviations within sites")
    return figure
