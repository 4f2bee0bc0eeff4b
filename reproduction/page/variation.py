"""Figure 1: sites differ, and connectivity moves."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brainroam.report.figures import BLUE, INK, PALETTE, region_words, shorten
from brainroam.report.page import Drawing
from reproduction.page.content import Part
from reproduction.page.data import PaperData


def variation(data: PaperData) -> Part:
    """Both halves of the figure, of these people."""
    title, found = "Figure 1: what differs between sites, and within a scan", data.measured("variation")
    if found is None:
        return Part("figure-1", title, ("Not measured yet: part variation.",))
    edge = " and ".join(map(region_words, found["edge"]))
    caption = (
        "(a) The mean correlation over all edges of the people of each site: line from the 5 % to the 95 % quantile, "
        f"bar: the middle half, point: median. (b) The correlation between {edge} in windows of 30 volumes, stride 5, "
        "of one person each of some sites; the edge is the one that differs most between the classes."
    )
    return Part("figure-1", title, (Drawing("figure-1", caption, lambda: _draw(found)),))


def _draw(found: dict) -> Figure:
    figure = Figure((9.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _levels(left, found["sites"])
    for colour, person in zip(PALETTE, found["people"], strict=False):
        right.plot(5 * np.arange(len(person["windows"])), person["windows"], color=colour, label=person["site"])
    right.set(xlabel="First volume of the window", ylabel="Correlation", title="(b)")
    right.legend(fontsize=8)
    return figure


def _levels(axes: Axes, sites: list[dict]) -> None:
    for y, site in enumerate(reversed(sites)):
        low, first, median, third, high = site["level"]
        axes.hlines(y, low, high, color=INK, linewidth=1)
        axes.hlines(y, first, third, color=BLUE, linewidth=7, alpha=0.45)
        axes.scatter(median, y, s=16, color=BLUE, zorder=3)
    axes.set_yticks(range(len(sites)), [shorten(site["site"], 20) for site in sites[::-1]])
    axes.set(xlabel="Mean correlation over all edges", title="(a)")
