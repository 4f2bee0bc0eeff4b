"""What each part of CORE is worth."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from brainroam.evaluation.stats.compare import Comparison
from brainroam.evaluation.stats.families import ablations
from brainroam.report.data import ReportData
from brainroam.report.figures import BLUE, GREY, INK, VERMILION, canvas, inline
from brainroam.report.page import missing, render
from brainroam.report.section import Drawing, Section
from brainroam.report.sections.comparison import paired_table

PARTS = {
    "core": "CORE, complete",
    "core-no-cd": "without site-aware deconfounding",
    "core-tp": "with temporal profiles",
    "core-no-pg": "without prior guidance",
    "core-no-sg": "without subject-adaptive gates",
}


def ablation_section(data: ReportData) -> Section:
    """CORE against itself with one part taken away."""
    families = ablations(data.names)
    if not families:
        return missing("ablation", "Ablation", "What each part of CORE is worth", data.command("ablate"))
    drawings, studies = [], []
    for number, family in enumerate(families, 1):
        found = data.compare(list(family.values()), family["core"])
        drawing = Drawing(
            "ablation" if number == 1 else f"ablation-{number}",
            f"Mean AUC of {family['core']} and of it without one part, with 95 % intervals; dots are held-out "
            f"{data.unit}s.",
            lambda found=found, family=family: _bars(data, found, family),  # type: ignore[misc]
        )
        drawings.append(drawing)
        paired = paired_table(found, family["core"], drawing.name)
        studies.append({"figure": inline(drawing), "paired": paired, "notes": found.notes, "name": family["core"]})
    html = render("ablation.html", studies=studies)
    return Section("ablation", "Ablation", html, tuple(drawings))


def _bars(data: ReportData, found: Comparison, family: dict[str, str]) -> Figure:
    variants = [method for method in PARTS if method in family]
    rows = found.table.set_index("method").loc[[family[method] for method in variants]]
    figure, axes = canvas(7.6, 0.5 * len(variants) + 0.8)
    at = np.arange(len(variants))[::-1]
    colour = [VERMILION if method == "core" else BLUE for method in variants]
    axes.barh(at, rows["auc"], height=0.6, color=colour, alpha=0.85)
    axes.hlines(at, rows["auc_low"], rows["auc_high"], color=INK, linewidth=1.2)
    wide: pd.DataFrame = data.site_scores.pivot(index="site", columns="method", values="auc")
    for y, method in zip(at, variants, strict=True):
        values = wide[family[method]].dropna()
        axes.plot(values, np.full(len(values), y - 0.17), "o", color=INK, markersize=2.6, alpha=0.7)
        mean = rows.loc[family[method], "auc"]
        axes.text(1.02, y, f"{mean:.3f}", transform=axes.get_yaxis_transform(), va="center")
    axes.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    axes.set_yticks(at, [PARTS[method] for method in variants])
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 1), xlabel="AUC; dashed: chance")
    return figure
