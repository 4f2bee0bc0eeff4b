"""Static pictures of an explanation: where pathways run, between which lobes or networks, at which sites, gates."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from brainroam.data.atlas.anatomy import Parts
from brainroam.methods.explanation import Explanation
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.gates import GateDisplay
from brainroam.report.displays.scaffold import SHOWN, ScaffoldDisplay, region_words
from brainroam.report.figures import BLUE, GREY, RULE, VERMILION, canvas
from brainroam.report.section import Drawing

SIGNED = LinearSegmentedColormap.from_list("signed", [BLUE, "#e9ebee", VERMILION])
COUNTS = LinearSegmentedColormap.from_list("counts", ["#e9ebee", BLUE])
WORDS = {"d_com": "contrast d_com", "effect": "effect on the score"}


def drawings(explanation: Explanation) -> Iterator[Drawing]:
    """Every picture this explanation can give."""
    makers = (connectome_drawing, chord_drawing, lobes_drawing, sites_drawing, gates_drawing)
    yield from (made for make in makers if (made := make(explanation)) is not None)


def connectome_drawing(explanation: Explanation) -> Drawing | None:
    """Glass brain of the largest pathways of both signs; None without coordinates."""
    if explanation.atlas.coords is None or not len(explanation.pathways):
        return None
    positive, negative = explanation.signed(SHOWN)
    caption = (
        f"The {len(positive)} largest positive (vermilion) and {len(negative)} largest negative (blue) pathways by "
        f"{_measure(explanation)}. Positive: stronger in people with the condition. From the left and the right only "
        "pathways within that hemisphere are drawn."
        if explanation.kind == "scaffold"
        else f"The {len(positive) + len(negative)} largest pathways by {_measure(explanation)}."
    )
    display = ScaffoldDisplay.from_explanation(explanation, SHOWN)
    return Drawing("connectome", caption, lambda: _glass(display))


def _glass(display: ScaffoldDisplay) -> Figure:
    figure = Figure((9.4, 2.9))
    display.plot(figure.add_axes((0, 0, 1, 0.93)), kind="glass")
    return figure


def chord_drawing(explanation: Explanation) -> Drawing | None:
    """The largest pathways of both signs on a circle of regions; None where nothing is signed."""
    display = ScaffoldDisplay.from_explanation(explanation, SHOWN)
    if explanation.kind != "scaffold" or not len(display.values):
        return None
    parts = explanation.parts
    lobes = f" Dots of one colour lie in one {parts.kind}." if parts else ""
    caption = (
        f"The same {len(display.values)} pathways between named regions; vermilion: stronger in people with the "
        f"condition, blue: weaker. Thicker lines stand for larger contrasts.{lobes}"
    )
    return drawing("chord", caption, display)


def lobes_drawing(explanation: Explanation) -> Drawing | None:
    """How many pathways join which lobes or networks; None where neither is known."""
    table, parts = explanation.networks, explanation.parts
    if parts is None or not len(table):
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


def sites_drawing(explanation: Explanation, top: int = 12) -> Drawing | None:
    """Contrast of every site on the strongest pathways; None without a scaffold."""
    found = explanation.site_contrasts
    if not len(found):
        return None
    positive, negative = explanation.signed(top)
    chosen = pd.concat([positive, negative[::-1]])
    chosen = chosen[chosen["edge"].isin(found["edge"])]
    wide = found.pivot(index="edge", columns="site", values="d_site").reindex(chosen["edge"])
    names = [
        f"{region_words(a)} - {region_words(b)}" for a, b in zip(chosen["region_1"], chosen["region_2"], strict=True)
    ]
    caption = (
        f"What each site itself shows on the {len(chosen)} strongest pathways (vermilion: stronger in people with the "
        "condition). A row of one colour is a pathway the sites agree on. Grey: not measured there."
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


def _measure(explanation: Explanation) -> str:
    return WORDS.get(explanation.measure, f"mean {explanation.measure}")
