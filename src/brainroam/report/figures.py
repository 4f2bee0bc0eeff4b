"""Drawing without global state: figures inlined as SVG that follows the page's colours, or written to files.

Here is also what all displays share: axes to draw on, and people given as arrays.
"""

import io
import re
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brainroam.errors import DataError
from brainroam.report.page import Drawing, render
from brainroam.utils.files import atomic_write

#: Okabe and Ito's palette, which colour-blind readers can tell apart; black is the ink of the page.
ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILION, PURPLE, GREY = "#0072b2", "#d55e00", "#cc79a7", "#8a8f98"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE, YELLOW, GREY)
SIDES = {"l": "left", "r": "right", "lh": "left", "rh": "right", "left": "left", "right": "right"}
NO_WORDS = {"7networks", "17networks", "ctx", "roi"}

#: Colours that change with the theme of the page, by the CSS that takes their place.
INK, RULE, PAPER = "#1c2128", "#d0d4da", "#fefefe"
THEMED = {
    INK: "currentColor",
    RULE: "var(--rule)",
    PAPER: "var(--paper)",
    BLUE: "var(--blue)",
    VERMILION: "var(--vermilion)",
}
TIP = "tip:"  # begins the id of what says something when pointed at

STYLE: dict[Any, Any] = {
    "axes.edgecolor": GREY,
    "axes.facecolor": "none",
    "axes.grid": False,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.size": 9.5,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: it can be searched, selected and read aloud
    "text.color": INK,
    "text.parse_math": False,  # a site named $\frac$ is a name, not a formula
    "xtick.color": INK,
    "ytick.color": INK,
}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
DPI = 300
REM_PER_INCH = 6.4  # so that the text of every figure is about as large as that of a table


def canvas(width: float, height: float, **options) -> tuple[Figure, Axes]:
    """An empty figure of this size in inches, and its axes."""
    figure = Figure((width, height), layout="constrained")
    return figure, figure.add_subplot(**options)


def region_words(label: str) -> str:
    """The name of a region as people say it: the side first, without what only tools need.

    >>> region_words("7Networks_LH_Default_PFC_3"), region_words("Precentral_R"), region_words("L_V1_ROI")
    ('left Default PFC 3', 'right Precentral', 'left V1')
    """
    words = [word for word in re.split(r"[_\s.-]+", label) if word and word.lower() not in NO_WORDS]
    side = [SIDES[word.lower()] for word in words if word.lower() in SIDES]
    others = [word for word in words if word.lower() not in SIDES]
    return " ".join([*side[:1], *others]) if others else label


def shorten(name: str, limit: int) -> str:
    """A name of at most ``limit`` characters.

    >>> shorten("University of Somewhere", 12)
    'University …'
    """
    return name if len(name) <= limit else name[: limit - 1] + "…"


def add_tip(artist: Artist, text: str) -> None:
    """Add a tooltip to an artist."""
    artist.set_gid(TIP + text)


def add_row_tips(ax: Axes, texts: Mapping[float, str]) -> None:
    """Add a tooltip to the row at each height."""
    for y, text in texts.items():
        row = ax.axhspan(y - 0.5, y + 0.5, alpha=0.001, linewidth=0, zorder=5)  # with none at all it is not drawn
        add_tip(row, text)


def inline(drawing: Drawing) -> Markup:
    """The drawing as a ``<figure>`` whose lines and text follow the page's theme."""
    svg, width = _draw_svg(drawing.name, drawing)
    narrow = _draw_svg(f"{drawing.name}-narrow", drawing.narrow)[0] if drawing.narrow else ""
    return render("figure.html", name=drawing.name, caption=drawing.caption, svg=svg, narrow=narrow, width=width)


def _draw_svg(name: str, drawing: Drawing) -> tuple[Markup, float]:
    """SVG for the page, and the width in rem at which its text is as large as that of a table."""
    with _style(name):
        figure = drawing.draw()
        svg = _apply_theme(name, f"{drawing.name}-caption", _save(figure, "svg"))
    return Markup(svg), round(REM_PER_INCH * float(figure.get_size_inches()[0]), 1)


def png(drawing: Drawing) -> bytes:
    """The drawing as PNG on white."""
    with _style(drawing.name):
        return _save(drawing.draw(), "png", facecolor="white")


def write(drawing: Drawing, folder: str | Path) -> list[Path]:
    """Write the drawing as PNG and SVG on white, for a manuscript."""
    paths = []
    with _style(drawing.name):
        figure = drawing.draw()
        for kind in ("png", "svg"):
            paths.append(Path(folder) / f"{drawing.name}.{kind}")
            with atomic_write(paths[-1]) as file:
                file.write(_save(figure, kind, facecolor="white"))
    return paths


@contextmanager
def _style(salt: str) -> Iterator[None]:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the reader's browser has it
        yield


def _save(figure: Figure, kind: str, **options) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(buffer, format=kind, dpi=DPI if kind == "png" else 72, metadata=metadata, **options)
    return buffer.getvalue()


def _apply_theme(name: str, caption: str, svg: bytes) -> str:
    """The SVG with ids of its own, tooltips and the colours of the page; it is parsed, not edited as text."""
    for prefix, uri in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, uri)
    root = ElementTree.fromstring(NOT_XML.sub("\N{REPLACEMENT CHARACTER}", svg.decode()))
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style")]:
            parent.remove(child)  # its style would be the whole page's
    for element in list(root.iter()):
        for key, value in list(element.attrib.items()):
            if key == "id" and value.startswith(TIP):
                del element.attrib[key]
                title = ElementTree.Element(f"{{{SVG}}}title")
                title.text = value.removeprefix(TIP)
                element.insert(0, title)
            elif key == "id":
                element.set(key, f"{name}-{value}")
            elif key == f"{{{XLINK}}}href" and value.startswith("#"):
                element.set(key, f"#{name}-{value[1:]}")
            else:
                value = value.replace("url(#", f"url(#{name}-")
                for colour, css in THEMED.items():
                    value = value.replace(colour, css)
                element.set(key, value)
    # The box keeps the proportions; the style sheet gives the width.
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": caption}
    return ElementTree.tostring(root, encoding="unicode")


class Display(Protocol):
    """Something that can be drawn."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""

    def plot(self, ax: Axes | None = None) -> "Display":
        """Draw it."""


class NotebookDisplay:
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
    people = {"site": np.asarray(site).astype(str), "label": np.asarray(label), **columns}
    lengths = {name: len(values) for name, values in people.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"one value per person is needed, got {lengths}")
    frame = pd.DataFrame({name: np.asarray(values) for name, values in people.items()})
    if not set(frame["label"]) <= {0, 1}:
        raise DataError("labels must be 0 (control) and 1 (condition)")
    return frame


def sites_with_both(people: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The people of each site that has cases and controls."""
    for site, here in people.groupby("site", sort=True):
        if here["label"].nunique() == 2:
            yield str(site), here
