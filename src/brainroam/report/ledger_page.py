"""The page of a ledger of forecasts: how often inside, how wide, every forecast that was revealed, and those not.

`ForecastDisplay` shows foretold and found: the interval of every site, and what was observed there.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from brainroam import __version__
from brainroam.errors import counted, listed
from brainroam.evaluation.forecast import NAMES
from brainroam.evaluation.ledger import ORDER, boldness, read_ledger, revealed, summarise, waiting
from brainroam.report import figures
from brainroam.report.figures import (
    BLUE,
    GREY,
    INK,
    RULE,
    VERMILION,
    NotebookDisplay,
    add_row_tips,
    axes_for,
    drawing,
    shorten,
)
from brainroam.report.page import render
from brainroam.report.tables import Column, fixed, interval, table
from brainroam.utils.files import write_text

if TYPE_CHECKING:
    from brainroam.evaluation.forecast import Forecast
    from brainroam.evaluation.reveal import Reveal


LABELS = {"auc": "AUC (0.5 is guessing, 1 is perfect)", "r": "Correlation (0 is guessing, 1 is perfect)"}
COLUMNS = (
    *(Column("target", "target"), Column("measure", "measure"), Column("inside_95", "inside 95 %")),
    *(Column("inside_80", "inside 80 %"), Column("width", "width of 95 %", fixed(2))),
    *(Column("off", "observed minus expected", "{:+.2f}".format), Column("verdict", "80 % intervals")),
)
REVEALED = (
    *(Column("day", "revealed"), Column("hash", "forecast"), Column("method", "method"), Column("target", "target")),
    *(Column("site", "site"), Column("held", "verdict"), Column("n", "people", fixed(0))),
    *(
        Column("n_judged", "judged", fixed(0)),
        Column("name", "measure"),
        Column("expected", "expected", fixed(2)),
        Column("low_95", "95 % interval", interval("low_95", "high_95"), True),
    ),
    Column("observed", "observed", fixed(2)),
)
OPEN = (
    *(Column("day", "foretold"), Column("hash", "forecast"), Column("method", "method"), Column("target", "target")),
    *(Column("sites", "sites"), Column("n", "people", fixed(0))),
)


@dataclass
class ForecastDisplay(NotebookDisplay):
    """Intervals of 80 and 95 % for the observed AUC of each site and, once revealed, the AUC itself.

    Parameters
    ----------
    rows : DataFrame
        ``site``, ``n``, ``measure``, ``expected``, ``low_80`` to ``high_95`` and, where known, ``observed``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Once plotted.

    Examples
    --------
    >>> row = {"site": "A", "n": 40, "measure": "auc", "expected": 0.7, "low_80": 0.6, "high_80": 0.8}
    >>> display = ForecastDisplay(pd.DataFrame([row | {"low_95": 0.5, "high_95": 0.9, "observed": 0.75}])).plot()
    >>> display.ax_.get_xlabel()
    'AUC (0.5 is guessing, 1 is perfect)'
    """

    rows: pd.DataFrame

    @classmethod
    def from_forecast(cls, forecast: "Forecast | Reveal") -> "ForecastDisplay":
        """Of the order of people in a forecast, or of what came of it."""
        measure = "r" if "r" in set(forecast.table["measure"]) else "auc"
        rows = forecast.table[forecast.table["measure"] == measure]
        return cls(rows if "observed" in rows else rows.assign(observed=np.nan))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit it."""
        return 5.6, 0.24 * max(len(self.rows), 3) + 1.0

    def plot(self, ax: Axes | None = None) -> "ForecastDisplay":
        """Draw it, on these axes or on new ones."""
        self.ax_ = ax = axes_for(ax, self.size)
        rows, at = self.rows, np.arange(len(self.rows))[::-1]
        measure = rows["measure"].iloc[0] if len(rows) else ""
        ax.axvline(0 if measure == "r" else 0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
        ax.hlines(at, rows["low_95"], rows["high_95"], color=GREY, linewidth=1.5, label="95 % interval")
        ax.hlines(at, rows["low_80"], rows["high_80"], color=GREY, linewidth=5, alpha=0.5, label="80 % interval")
        ax.scatter(rows["expected"], at, marker="|", s=60, color=INK, zorder=2.5, label="expected")
        inside = rows["observed"].between(rows["low_95"], rows["high_95"]).to_numpy()
        revealed = rows["observed"].notna().to_numpy()
        for which, colour, name in (
            (inside, BLUE, "observed, inside"),
            (~inside & revealed, VERMILION, "observed, outside"),
        ):
            if which.any():
                ax.scatter(rows["observed"][which], at[which], s=34, color=colour, zorder=3, label=name)
        ax.set_yticks(at, [f"{shorten(str(row.site), 18)}, n = {row.n:.0f}" for row in rows.itertuples()], fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.spines["bottom"].set_color(RULE)
        ax.set_ylim(-0.6, len(rows) - 0.4)
        ax.set_xlabel(LABELS.get(measure, measure))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, frameon=False)
        add_row_tips(ax, {float(y): _tip(row) for y, row in zip(at, rows.to_dict("records"), strict=True)})
        return self


def _tip(row: dict[str, Any]) -> str:
    words = f"{row['site']}: expected {row['expected']:.2f} ({row['low_95']:.2f} to {row['high_95']:.2f})"
    return words if row["observed"] != row["observed"] else f"{words}, observed {row['observed']:.2f}"


def write_ledger_page(ledger: Path) -> Path:
    """Write ``ledger.html`` beside a ledger."""
    book = read_ledger(ledger).assign(
        day=lambda rows: rows["time"].str[:10], hash=lambda rows: rows["forecast"].str[:12]
    )
    rows = revealed(book)
    order, open_ones = rows[rows["measure"].isin(ORDER)], _by_forecast(waiting(book))
    by_kind = order.groupby(["target", "measure"], sort=False)
    drawings = [
        drawing(f"forecasts-{k}", _caption(str(target), str(measure)), ForecastDisplay(here), narrow=3.4)
        for k, ((target, measure), here) in enumerate(by_kind)
    ]
    by_measure = rows.groupby(["target", "measure"], sort=False)
    parts = [{"target": target, **_measured(str(name), here)} for (target, name), here in by_measure]
    tables = (
        [table(pd.DataFrame(parts), COLUMNS, "measures", "How often the observed value lay inside")] if parts else []
    )
    tables += [table(_shown(order), REVEALED, "revealed", "Every forecast that was revealed")] if parts else []
    tables += [table(open_ones, OPEN, "waiting", "Forecasts that were not revealed")] if len(open_ones) else []
    page = render(
        "ledger.html",
        lines=list(summarise(book)),
        revealed=counted(len(order), "forecast of a site", "forecasts of a site"),
        figure=Markup("").join(figures.inline(one) for one in drawings),
        tables=tables,
        version=__version__,
    )
    return write_text(ledger.with_suffix(".html"), page + "\n")


def _caption(target: str, measure: str) -> str:
    name = LABELS[measure].partition(" (")[0]
    return f"{name}, {target}: foretold of each site and observed there; n is the number of its people."


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the ledger as the page shows them."""
    held = np.where(rows["inside_80"], "inside 80 %", np.where(rows["inside_95"], "inside 95 %", "outside"))
    return rows.assign(held=held, name=rows["measure"].map(NAMES))


def _by_forecast(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each forecast, with its sites."""
    facts = {name: (name, "first") for name in ("day", "hash", "method", "target")}
    return rows.groupby("forecast", sort=False).agg(**facts, sites=("site", listed), n=("n", "sum")).reset_index()


def _measured(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    inside = {p: int(rows[f"inside_{p}"].sum()) for p in (80, 95)}
    return {
        "measure": NAMES.get(name, name),
        "inside_95": f"{inside[95]} of {len(rows)}",
        "inside_80": f"{inside[80]} of {len(rows)}",
        "width": (rows["high_95"] - rows["low_95"]).mean(),
        "off": round(float((rows["observed"] - rows["expected"]).mean()), 2) + 0,  # no -0.00
        "verdict": boldness(inside[80], len(rows)).removeprefix("; ") or "too few to tell",
    }
