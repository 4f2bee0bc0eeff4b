"""Where did it fail: every held-out site, in pictures and in a table."""

import pandas as pd
from markupsafe import Markup

from brainroam.errors import listed
from brainroam.evaluation.stats.class_pairs import confusion
from brainroam.report.data import ReportData
from brainroam.report.figures import inline
from brainroam.report.page import Section, render
from brainroam.report.sections.pictures import PICTURES, scans_of
from brainroam.report.tables import Column, column_of, fixed, interval, number, table


def sites_section(data: ReportData) -> Section:
    """The method of the report at every held-out site."""
    drawings = tuple(PICTURES[name](data) for name in data.target.pictures)
    scores = data.site_scores[data.site_scores["method"] == data.method].drop(columns=["n", data.figure.name])
    own = [name for name in scores if name not in data.site_aucs or name == "site"]
    metrics = data.site_aucs.merge(scores[own], on="site")
    columns = [
        Column("site", data.unit.capitalize()),
        Column("n", "People"),
        *(Column(name, _counted(name, data)) for name in data.target.order.counted if name != "n"),
        Column(data.figure.name, data.figure.head, number, meaning=data.target.shown[0].meaning),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        *map(column_of, data.target.shown_at_site),
    ]
    order = data.target.order
    caption = f"{data.method} at every held-out {data.unit}, seeds averaged"
    html = render(
        "sites.html",
        figures=[inline(made) for made in drawings],
        table=table(metrics, columns, f"{data.figure.name}-by-site", caption),
        unit=data.unit,
        spread=_spread(data),
        one_class=_without(data, f"No {data.figure.head} where everybody {order.lacking}"),
        every=Markup("").join([_every(data), *_pairs(data)]),
    )
    title = "Site by site" if data.protocol != "cv" else "Fold by fold"
    return Section("sites", title, html, drawings, gist=_spread(data))


def _counted(name: str, data: ReportData) -> str:
    """The heading of a column of `Order.counted`."""
    condition = getattr(data.target, "condition", "") or "the condition"
    return {"n_cases": f"With {condition}", "n_controls": "Controls"}.get(name, name.removeprefix("n_"))


def _without(data: ReportData, what: str) -> str:
    return f"{what}: {listed(data.gathered.without, 20)}." if data.gathered.without else ""


def _spread(data: ReportData) -> str:
    sites, figure = data.site_aucs, data.figure
    if len(sites) < 2:
        return ""
    enough = sites["named"] if 2 * sites["named"].sum() >= len(sites) else sites["named"] & False
    large, small = sites[enough], sites.loc[~sites["named"], "site"]
    unsure = sites.loc[(sites["low"] <= figure.chance) & (sites["high"] >= figure.chance), "site"]
    below = sites.loc[sites["high"] < figure.chance, "site"]
    text, guessing = "", f"guessing ({figure.chance:g})"
    if len(large) > 1:
        best, worst = large.iloc[0], large.iloc[-1]
        text = f"Best: {best['site']} ({best[figure.name]:.2f}); worst: {worst['site']} ({worst[figure.name]:.2f}). "
    if len(small):
        text += f"{data.target.order.few}, so neither best nor worst: {listed(small, 20)}. "
    if len(below):
        text += f"At {listed(below, 20)} the interval lies below {guessing}. "
    if len(unsure):
        text += f"At {len(unsure)} of {len(sites)} {data.unit}s the interval includes {guessing}: {listed(unsure, 20)}."
    else:
        others = "all others" if len(below) else "both sites" if len(sites) == 2 else f"all {len(sites)} {data.unit}s"
        text += f"At {others} the interval lies above {guessing}."
    return text + " Small sites scatter by chance alone: look at the intervals before explaining a difference."


def _every(data: ReportData) -> Markup:
    """The figure of every compared method at every site."""
    head = data.figure.head
    wide: pd.DataFrame = data.site_scores.pivot(index="site", columns="method", values=data.figure.name)[data.compared]
    order = data.comparison.table["method"]
    columns = [Column("site", data.unit.capitalize()), *(Column(name, name, fixed(2)) for name in order)]
    return table(
        wide.reset_index(), columns, f"{data.figure.name}-by-site-and-method", f"{head} of every method, seeds averaged"
    )


def _pairs(data: ReportData) -> list[Markup]:
    """Of several classes: which are told from which, and who was called what, site by site."""
    pairs = data.comparison.class_pairs
    mine = pairs[pairs["method"] == data.method]
    if mine.empty:
        return []
    told = mine.assign(
        classes=mine["class_1"] + " / " + mine["class_2"], told=mine["apart"].map({True: "yes", False: "not shown"})
    )
    columns = [
        Column("classes", "Classes"),
        Column("n_sites", "Sites", fixed(0)),
        Column("auc", "AUC", number, meaning="Of two people of one site, one of each class: 0.5 is guessing."),
        Column("low", "95 % interval", interval("low", "high"), of_row=True),
        Column("p_holm", "p, Holm", number, meaning="Corrected for all pairs of classes."),
        Column("told", "Told apart"),
    ]
    called = confusion(scans_of(data), data.target)
    order = {name: k for k, name in enumerate(data.site_aucs["site"])}
    called = called.sort_values("site", key=lambda site: site.map(order).fillna(len(order)), kind="stable")
    of_sites = [Column("site", "Site"), Column("label", "Class")]
    of_sites += [Column(name, f"called {name}", fixed(0)) for name in data.target.classes]
    return [
        table(told, columns, "pairs", f"Which classes {data.method} tells from which, among their people alone"),
        table(called, of_sites, "confusion", f"Whom {data.method} called what, site by site"),
    ]
