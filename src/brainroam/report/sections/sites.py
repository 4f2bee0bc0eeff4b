"""Where did it fail: every held-out site, its ROC curve and its scores."""

import pandas as pd

from brainroam.errors import listed
from brainroam.evaluation.stats.metrics import JUDGED, judged
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.roc_by_site import RocBySiteDisplay
from brainroam.report.displays.scores_by_site import ScoresBySiteDisplay
from brainroam.report.figures import inline
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.tables import Column, fixed, interval, table


def sites_section(data: ReportData) -> Section:
    """The method of the report at every held-out site."""
    roc = drawing(
        "roc",
        f"ROC curve of {data.method} at each held-out {data.unit} (thin) and the mean of the curves (thick). Scores of "
        "different folds are never pooled. Dashed: guessing.",
        RocBySiteDisplay.from_results(data),
    )
    scores = drawing(
        "scores",
        f"What {data.method} says of every held-out person, by {data.unit}; strokes are medians. A {data.unit} where "
        "the two colours lie on each other is one where it failed.",
        ScoresBySiteDisplay.from_results(data),
    )
    metrics = data.site_aucs.merge(
        data.site_scores[data.site_scores["method"] == data.method], on="site", suffixes=("", "_seed")
    )
    columns = [
        Column("site", data.unit.capitalize()),
        Column("n", "People"),
        Column("n_cases", "With the condition"),
        Column("auc", "AUC", fixed(2)),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("balanced_acc", "Balanced accuracy", fixed(2)),
        Column("sensitivity", "Sensitivity", fixed(2)),
        Column("specificity", "Specificity", fixed(2)),
        Column("brier", "Brier score", fixed(3)),
    ]
    html = render(
        "sites.html",
        figures=[inline(roc), inline(scores)],
        table=table(metrics, columns, "auc-by-site", f"{data.method} at every held-out {data.unit}, seeds averaged"),
        unit=data.unit,
        spread=_spread(data),
        one_class=data.gathered.one_class,
        every=_every(data),
    )
    return Section(
        "sites", "Site by site" if data.protocol != "cv" else "Fold by fold", html, (roc, scores), gist=_spread(data)
    )


def _spread(data: ReportData) -> str:
    sites = data.site_aucs
    if len(sites) < 2:
        return ""
    large = sites[judged(sites["n_cases"], sites["n"] - sites["n_cases"])]
    unsure = sites.loc[sites["low"] <= 0.5, "site"]
    text = ""
    if len(large) > 1:
        best, worst = large.iloc[0], large.iloc[-1]
        text = f"Best: {best['site']} ({best['auc']:.2f}); worst: {worst['site']} ({worst['auc']:.2f}). "
    if len(large) < len(sites):
        few = sites.loc[~sites["site"].isin(large["site"]), "site"]
        text += (
            f"Fewer than {JUDGED} people with the condition or controls, so neither best nor worst: {listed(few, 20)}. "
        )
    text += (
        f"At {len(unsure)} of {len(sites)} {data.unit}s the interval includes guessing (0.5): {listed(unsure, 20)}."
        if len(unsure)
        else f"At all {len(sites)} {data.unit}s the interval lies above guessing (0.5)."
    )
    return text + " Small sites scatter by chance alone: look at the intervals before explaining a difference."


def _every(data: ReportData):
    """AUC of every compared method at every site."""
    wide: pd.DataFrame = data.site_scores.pivot(index="site", columns="method", values="auc")[data.compared]
    order = data.comparison.table["method"]
    columns = [Column("site", data.unit.capitalize()), *(Column(name, name, fixed(2)) for name in order)]
    return table(wide.reset_index(), columns, "auc-by-site-and-method", "AUC of every method, seeds averaged")
