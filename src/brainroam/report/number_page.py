"""The page of a study of a number: what travels, predicted against true by site, errors by site."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam.evaluation.results import Results
from brainroam.evaluation.stats.numbers import average_seeds, order_intervals
from brainroam.report.figures import GREY, canvas, draw_forest
from brainroam.report.page import Drawing
from brainroam.report.tables import Column, fixed, number, table

LINE = 10  # people from which on a site's own line says something
SITES = (
    Column("site", "Site"),
    Column("n", "People", fixed(0)),
    Column("r", "r", number),
    Column("level", "Level off by", number),
    Column("scale", "Scale", number),
    Column("mae", "Error", number),
    Column("mae_constant", "Error of a constant", number),
    Column("r2", "R2 within", number),
)


def number_content(results: Results, chosen: str) -> tuple[pd.DataFrame, list[Drawing], dict[str, Markup]]:
    """Metrics of the chosen method at every site, the figure, and the tables of the page by name."""
    name = results.target.name
    sites = average_seeds(results.scores[results.scores["method"] == chosen]).sort_values("r", ascending=False)
    people = results.predictions[results.predictions["method"] == chosen]
    n, r = (sites[name].to_numpy(dtype=float) for name in ("n", "r"))
    picture = Drawing(
        "predicted",
        f"{name} predicted by {chosen} against the truth at held-out sites: a colour for each site, "
        f"and a line where it has {LINE} people or more; dashed: where both are equal.",
        lambda: _scatter(people.groupby("site"), name),
    )
    known = np.isfinite(r)
    forest = Drawing(
        "sites",
        f"Correlation of {chosen}'s prediction with {name} at each held-out site, with an interval of 95 % for that "
        "site alone; dashed: none.",
        lambda: draw_forest(
            sites["site"][known].tolist(),
            r[known],
            order_intervals(r[known], n[known]),
            n[known],
            0.0,
            "r within the site",
        ),
    )
    shown = table(sites, SITES, "sites", f"{chosen} at every held-out site, the best order first")
    return sites, [picture, forest], {"sites": shown}


def _scatter(sites: Iterable, name: str) -> Figure:
    figure, ax = canvas(5.0, 4.6)
    for k, (_, here) in enumerate(sites):
        x, y = here["predicted"].to_numpy(dtype=float), here["label"].to_numpy(dtype=float)
        ax.scatter(x, y, s=6, alpha=0.4, linewidth=0, color=f"C{k % 10}")
        if len(x) >= LINE and np.ptp(x) > 0:
            slope, height = np.polyfit(x, y, 1)
            ends = np.array([x.min(), x.max()])
            ax.plot(ends, height + slope * ends, linewidth=1, color=f"C{k % 10}")
    low, high = ax.get_xlim()
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    ax.set(xlabel=f"Predicted {name}", ylabel=f"True {name}")
    return figure
