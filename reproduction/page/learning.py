"""Why the sign of the scaffold decides: what networks learn of the people they are trained on, epoch by epoch."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.report.figures import BLUE, GREY, ORANGE, VERMILION
from brainroam.report.page import Drawing
from brainroam.report.tables import Column, fixed
from reproduction.page.content import Block, Listing, Part
from reproduction.page.data import PaperData

COLOURS = dict(zip(("positive edges", "both signs", "both signs, oriented"), (VERMILION, GREY, BLUE), strict=True))


def learning(data: PaperData) -> Part:
    """Curves, and their ends as a table."""
    title, found = "Which reading can be learned", data.measured("learning")
    if found is None or not found["curves"]:
        return Part("learning", title, ("Not measured yet: part learning.",))
    rows = pd.DataFrame(found["curves"])
    caption = (
        "AUC after each epoch, mean over the sites held out (seed 0; 64 hidden units, rate .001). Left: of the people "
        "that the network is trained on; right: of the site held out. No epoch was chosen by these curves."
    )
    points = fixed(1, 100)
    columns = [
        Column("reading", "Scaffold"),
        Column("sites", "Sites"),
        Column("pathways", "Pathways", fixed(0)),
        Column("training", "AUC in training", points),
        Column("held_out", "AUC at the held-out site", points),
        Column("acc_half", "ACC at one half", points),
        Column("acc_midpoint", "at the middle of the class means", points),
        Column("acc_median", "at the site's own median", points),
    ]
    blocks: list[Block] = [
        "Nodes share all weights and the readout is their mean. In a scaffold with edges of both signs, what pathways "
        "that are stronger in patients add is taken away by those that are weaker: such a network has little to learn "
        "from, even of the people it is trained on. Edges of one sign do not cancel; nor do edges of both signs when "
        "each is multiplied by the sign of its contrast, which is our cure (`orient`).",
        Drawing("learning", caption, lambda: _draw(rows)),
        Listing(_ends(rows), columns, "learning", "After the last epoch, means over sites"),
    ]
    return Part("learning", title, tuple(blocks))


def _ends(rows: pd.DataFrame) -> pd.DataFrame:
    last = rows.assign(**{name: rows[name].map(lambda curve: curve[-1]) for name in ("training", "held_out")})
    means = last.groupby("reading", sort=False).mean(numeric_only=True).reset_index()
    return means.merge(rows.groupby("reading").size().rename("sites").reset_index(), on="reading")


def _draw(rows: pd.DataFrame) -> Figure:
    figure = Figure((9.4, 3.2), layout="constrained")
    for axes, name, heading in zip(
        figure.subplots(1, 2, sharey=True),
        ("training", "held_out"),
        ("in training", "at the held-out site"),
        strict=True,
    ):
        for reading, group in rows.groupby("reading", sort=False):
            curve = 100 * np.mean(group[name].tolist(), axis=0)
            axes.plot(np.arange(1, len(curve) + 1), curve, color=COLOURS.get(str(reading), ORANGE), label=reading)
        axes.axhline(50, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        axes.set(xlabel="Epochs", ylabel=f"AUC {heading}")
    figure.axes[1].legend(fontsize=8)
    return figure
