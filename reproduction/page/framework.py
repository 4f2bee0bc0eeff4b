"""Figure 2: the framework, drawn from what the model of one fold learned."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from brainroam.report.brain.figures import SIGNED
from brainroam.report.brain.study_explanations import Run, held_out, runs_of
from brainroam.report.figures import BLUE, GREY, VERMILION, shorten
from brainroam.report.page import Drawing
from reproduction.page.content import Part
from reproduction.page.data import PaperData

SHOWN = 30  # edges whose contrasts are shown


def framework(data: PaperData) -> Part:
    """Stage by stage, of the first fold."""
    title = "Figure 2: the framework, in one fold"
    runs = runs_of(data.report, data.paper.complete) if data.report else []
    runs = [run for run in runs if "sites" in run[1]["explanation"]]
    if not runs:
        return Part("figure-2", title, (f"Not run yet: {data.paper.complete}.",))
    first = min(runs, key=lambda run: run[0].fold)
    spec = first[0]
    caption = (
        f"{spec.name}, {spec.fold} held out. From the left: contrasts d_e of the training sites on the strongest edges "
        "(vermilion: stronger in patients); the scaffold, by consensus d_com and sign consistency kappa; its line "
        "graph, by how many pathways share a region with each; the gate of each pathway, mean over those held out, "
        "by |d_com|, which the prior follows; the logits of these people."
    )
    return Part("figure-2", title, (Drawing("figure-2", caption, lambda: _draw(first)),))


def _draw(run: Run) -> Figure:
    explanation, people = run[1]["explanation"], held_out(*run)
    edges = pd.DataFrame(explanation["edges"])
    figure = Figure((12.4, 2.9), layout="constrained")
    sites, scaffold, graph, gates, logits = figure.subplots(1, 5, width_ratios=(1.5, 1, 1, 1, 0.8))
    _contrasts(sites, explanation["sites"])
    scaffold.scatter(edges["d_com"], edges["kappa"], s=6, color=BLUE, alpha=0.5)
    scaffold.set(xlabel="d_com", ylabel="kappa", title="2 scaffold")
    graph.hist(_neighbours(edges["edge"].to_numpy(), len(explanation["regions"]["name"])), bins=20, color=BLUE)
    graph.set(xlabel="Pathways with a shared region", ylabel="Pathways", title="3 line graph")
    gates.scatter(edges["d_com"].abs(), edges["mean_gate"], s=6, color=BLUE, alpha=0.5)
    gates.set(xlabel="|d_com|", ylabel="Mean gate", ylim=(0, 1), title="4 gates")
    for label, colour in ((0, GREY), (1, VERMILION)):
        score = people.loc[people["label"] == label, "score"]
        spread = np.linspace(-0.25, 0.25, len(score)) if len(score) > 1 else np.zeros(len(score))
        logits.scatter(label + spread, score, s=12, color=colour)
    logits.set_xticks([0, 1], ["controls", "patients"])
    logits.set(ylabel="Logit", title=f"5 {shorten(run[0].fold, 14)}")
    return figure


def _contrasts(axes: Axes, sites: dict[str, Any]) -> None:
    contrast = np.array(sites["contrast"], dtype=float)[:, :SHOWN]
    bound = float(np.nanquantile(np.abs(contrast), 0.98)) or 1.0
    axes.imshow(contrast, cmap=SIGNED, vmin=-bound, vmax=bound, aspect="auto")
    axes.set_yticks(range(len(contrast)), [shorten(str(name), 12) for name in sites["site"]], fontsize=7)
    axes.set_xticks([])
    axes.set(xlabel="Strongest edges", title="1 contrasts of sites")


def _neighbours(edges: np.ndarray, n_regions: int) -> np.ndarray:
    """How many other pathways share a region with each."""
    pairs = np.stack(np.triu_indices(n_regions, 1), axis=1)[edges]
    at = np.bincount(pairs.ravel(), minlength=n_regions)
    return at[pairs].sum(axis=1) - 2
