"""What all displays share: axes to draw on, and people given as arrays."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam.errors import DataError
from brainroam.report.figures import canvas, png
from brainroam.report.section import Drawing


class Display(Protocol):
    """Something that can be drawn."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""

    def plot(self, ax: Axes | None = None) -> "Display":
        """Draw it."""


class Shown:
    """A display that a notebook draws when it is the last line of a cell, instead of printing the tables in it."""

    def _repr_html_(self: Display) -> str:
        name = type(self).__name__
        if hasattr(self, "ax_"):  # plot() has drawn it in this cell
            return f"<p>{name}</p>"
        image = b64encode(png(drawing(name, name, copy(self)))).decode()
        return f'<img alt="{name}" style="max-width:100%;width:{self.size[0]}in" src="data:image/png;base64,{image}">'


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or new ones that a notebook shows."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def drawing(name: str, caption: str, display: Display, narrow: float | None = None) -> Drawing:
    """A display as a figure of the report; drawn a second time at the width ``narrow`` in inches for a phone."""

    def draw(width: float | None = None):
        figure, axes = canvas(width or display.size[0], display.size[1])
        display.plot(ax=axes)
        return figure

    return Drawing(name, caption, draw, Drawing(name, caption, lambda: draw(narrow)) if narrow else None)


def people_frame(site: Sequence[Any], label: Sequence[int], **columns: Sequence[float]) -> pd.DataFrame:
    """Arrays of the same length as one table with ``site``, ``label`` and the others.

    >>> people_frame(["A"], [1], score=[0.3]).to_dict("list")
    {'site': ['A'], 'label': [1], 'score': [0.3]}
    """
    given = {"site": np.asarray(site).astype(str), "label": np.asarray(label), **columns}
    lengths = {name: len(values) for name, values in given.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"one value per person is needed, got {lengths}")
    frame = pd.DataFrame({name: np.asarray(values) for name, values in given.items()})
    if not set(frame["label"]) <= {0, 1}:
        raise DataError("labels must be 0 (control) and 1 (condition)")
    return frame


def sites_with_both(people: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The people of each site that has cases and controls."""
    for site, here in people.groupby("site", sort=True):
        if here["label"].nunique() == 2:
            yield str(site), here
