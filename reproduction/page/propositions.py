"""Both propositions as figures."""

from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.report.figures import BLUE, GREEN, GREY, VERMILION, canvas
from brainroam.report.page import Drawing
from reproduction.page.content import Block, Part
from reproduction.page.data import PaperData

COLOURS = (VERMILION, BLUE, GREEN)
BINS = np.array([0, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, np.inf])


def propositions(data: PaperData) -> Part:
    """What pooling leaves, and when the scaffold cannot change."""
    title, found = "Propositions 1 and 2", data.measured("propositions")
    if found is None:
        return Part("propositions", title, ("Not measured yet: part propositions.",))
    bias, margin = pd.DataFrame(found["bias"]), pd.DataFrame(found["margin"])
    blocks: list[Block] = [
        "Proposition 1 says that one regression for all sites leaves a bias where slopes differ between "
        "sites. It does, in proportion to the difference; but a site's own regression pays for its slopes with "
        "the noise of few people."
    ]
    caption = (
        "Bias left by three ways of deconfounding (root mean square, in units of correlation) against the "
        "standard deviation of slopes between sites, on the people, sites and covariates of this cohort with drawn "
        "edges; dotted: how much slopes differ in its real edges, beyond sampling error."
    )
    blocks.append(Drawing("proposition-1", caption, lambda: _bias(bias, found["spread"])))
    blocks.append(_first(bias, found["spread"]))
    blocks.append(
        "Proposition 2 says that an edge whose margin exceeds the perturbation of its nuisance estimate keeps its "
        "place in or out of the scaffold."
    )
    caption = (
        "Share of drawn edges whose membership is that of the true residuals, by margin / perturbation; dashed: 1."
    )
    blocks.append(Drawing("proposition-2", caption, lambda: _margin(margin)))
    blocks.append(_second(margin))
    return Part("propositions", title, tuple(blocks))


def _first(bias: pd.DataFrame, spread: dict[str, float]) -> str:
    table = bias.pivot(index="spread", columns="fit", values="bias")
    own = next(name for name in table if name.startswith("each site"))
    above = table.index[table["pooled"] > table[own]]
    crossing = f"from a spread of {above[0]:g} on" if len(above) else "at no spread shown"
    there = ", ".join(f"{value:.3f} for {name}" for name, value in spread.items()) or "not known"
    return f"Pooling leaves more than a site's own regression {crossing}. In the real edges slopes differ by {there}."


def _second(margin: pd.DataFrame) -> str:
    safe = margin["ratio"] > 1
    kept = int(margin.loc[safe, "agrees"].sum())
    lost = int((~margin.loc[~safe, "agrees"]).sum())
    return (
        f"Above 1, {kept} of {int(safe.sum())} edges keep their membership, as the proposition says they must; below "
        f"1, {lost} of {int((~safe).sum())} lose it: the condition is sufficient and far from necessary."
    )


def _bias(bias: pd.DataFrame, spread: dict[str, float]) -> Figure:
    figure, axes = canvas(7.6, 3.4)
    for colour, (fit, rows) in zip(COLOURS, bias.groupby("fit", sort=False), strict=False):
        axes.plot(rows["spread"], rows["bias"], "o-", color=colour, label=fit)
    for k, (name, value) in enumerate(spread.items()):  # each name on a line of its own: the spreads may be close
        axes.axvline(value, color=GREY, linewidth=1, linestyle=":")
        axes.annotate(name, (value, 1 - 0.08 * k), xycoords=("data", "axes fraction"), va="top", fontsize=8)
    axes.set(xlabel="Standard deviation of slopes between sites", ylabel="Bias left")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8)
    return figure


def _margin(margin: pd.DataFrame) -> Figure:
    inside = np.digitize(margin["ratio"], BINS) - 1
    share = margin.groupby(inside)["agrees"].agg(["mean", "size"]).reindex(range(len(BINS) - 1))
    figure, axes = canvas(7.6, 3.0)
    at = np.arange(len(share))
    # Points, not bars: all shares are near 1, so the axis does not start at 0.
    axes.scatter(at, share["mean"], color=[BLUE if low >= 1 else GREY for low in BINS[:-1]])
    for x, (mean, size) in enumerate(share.to_numpy()):
        if np.isfinite(size):
            label, at_point = f"{mean:.1%}\nof {size:.0f}", (x, mean)
            axes.annotate(label, at_point, (0, 5), textcoords="offset points", ha="center", va="bottom", fontsize=8)
    axes.axvline(np.flatnonzero(BINS == 1)[0] - 0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    names = [f"{low:g} to {high:g}" for low, high in pairwise(BINS[:-1])]
    axes.set_xticks(at, [*names, f"over {BINS[-2]:g}"], fontsize=8)
    low = float(np.nanmin(share["mean"]))
    axes.set_ylim(low - (1 - low) / 6 - 0.01, 1 + (1 - low) / 2 + 0.01)
    axes.set_yticks([tick for tick in axes.get_yticks() if low - 0.03 <= tick <= 1])
    axes.set(xlabel="Margin / perturbation", ylabel="Same membership")
    return figure
