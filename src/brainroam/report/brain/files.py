"""An explanation as files: tables as CSV, figures as PNG and SVG."""

from pathlib import Path

from brainroam.methods.explanation import Explanation
from brainroam.report.brain.figures import drawings
from brainroam.report.figures import write
from brainroam.utils.files import write_csv


def write_explanation(explanation: Explanation, folder: Path) -> list[Path]:
    """Write every table and figure that is not empty, and return their paths."""
    tables = {
        "pathways": explanation.pathways.drop(columns="edge"),
        "people": explanation.people,
        "gates": explanation.gates,
        "sites": explanation.sites(10),
        "networks": explanation.networks,
        "regions": explanation.regions,
    }
    written = [write_csv(folder / f"{name}.csv", table) for name, table in tables.items() if len(table)]
    for drawing in drawings(explanation):
        written += write(drawing, folder)
    return written
