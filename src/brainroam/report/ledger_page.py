"""The page of a ledger of forecasts: how often inside, how wide, and every forecast that was revealed.

`ForecastDisplay` shows foretold and found: the interval of every site, and what was observed there.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from brainroam import __version__
from brainroam.evaluation.forecast import NAMES
from brainroam.evaluation.ledger import ORDER, boldness, read_ledger, revealed, summarise
from brainroam.report import figures
from brainroam.report.figures import BLUE, GREY, INK, RULE, VERMILION, Shown, axes_for, drawing, say_rows, shortened
from brainroam.report.page import render
from brainroam.utils.files import write_text

if TYPE_CHECKING:
    from brainroam.evaluation.forecast import Forecast
    from brainroam.evaluation.reveal import Reveal


LABELS = {"auc": "AUC (0.5 is guessing, 1 is perfect)", "r": "correlation (0 is guessing, 1 is perfect)"}
CAPTION = "Every forecast that was revealed: intervals of 80 and 95 % for the AUC to be observed, and the AUC found."


@dataclass
class ForecastDisplay(Shown):
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
        ax.scatter(rows["expected"], at, marker="|", s=60, color=INK, label="expected")
        inside = rows["observed"].between(rows["low_95"], rows["high_95"]).to_numpy()
        known = rows["observed"].notna().to_numpy()
        for which, colour, name in (
            (inside, BLUE, "observed, inside"),
            (~inside & known, VERMILION, "observed, outside"),
        ):
            if which.any():
                ax.scatter(rows["observed"][which], at[which], s=34, color=colour, zorder=3, label=name)
        ax.set_yticks(at, [f"{shortened(str(row.site), 18)}  {row.n:.0f}" for row in rows.itertuples()], fontsize=8.5)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        ax.spines["bottom"].set_color(RULE)
        ax.set_ylim(-0.6, len(rows) - 0.4)
        ax.set_xlabel(LABELS.get(measure, measure))
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, fontsize=8, frameon=False)
        say_rows(ax, {float(y): _tip(row) for y, row in zip(at, rows.to_dict("records"), strict=True)})
        return self


def _tip(row: dict[str, Any]) -> str:
    told = f"{row['site']}: expected {row['expected']:.2f} ({row['low_95']:.2f} to {row['high_95']:.2f})"
    return told if row["observed"] != row["observed"] else f"{told}, observed {row['observed']:.2f}"


def write_ledger_page(ledger: Path) -> Path:
    """Write ``ledger.html`` beside a ledger."""
    table = read_ledger(ledger)
    rows = revealed(table)
    order = rows[rows["measure"].isin(ORDER)]
    picture = drawing("forecasts", CAPTION, ForecastDisplay(order)) if len(order) else None
    page = render(
        "ledger.html",
        lines=list(summarise(table)),
        measures=[_measure(str(name), here) for name, here in rows.groupby("measure", sort=False)],
        rows=order.round(3).to_dict("records"),
        figure=figures.inline(picture) if picture else "",
        version=__version__,
    )
    return write_text(ledger.with_suffix(".html"), page + "\n")


def _measure(name: str, rows: pd.DataFrame) -> dict[str, str]:
    inside = {p: int(rows[f"inside_{p}"].sum()) for p in (80, 95)}
    return {
        "name": NAMES.get(name, name),
        "inside_95": f"{inside[95]} of {len(rows)}",
        "inside_80": f"{inside[80]} of {len(rows)}",
        "width": f"{(rows['high_95'] - rows['low_95']).mean():.2f}",
        "off": f"{(rows['observed'] - rows['expected']).mean():+.2f}",
        "verdict": boldness(inside[80], len(rows)).removeprefix("; ") or "too few to tell",
    }
