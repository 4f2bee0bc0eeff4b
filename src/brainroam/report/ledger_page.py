"""The page of a ledger of forecasts: how often inside, how wide, and every forecast that was revealed."""

from pathlib import Path

import pandas as pd

from brainroam import __version__
from brainroam.evaluation.forecast import NAMES
from brainroam.evaluation.ledger import ORDER, boldness, read_ledger, revealed, summarise
from brainroam.report import figures
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.forecast import ForecastDisplay
from brainroam.report.page import render
from brainroam.utils.files import write_text

CAPTION = "Every forecast that was revealed: intervals of 80 and 95 % for the AUC to be observed, and the AUC found."


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
