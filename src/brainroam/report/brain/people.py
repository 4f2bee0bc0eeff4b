"""The sections on people: how open their pathways are, which contributed most to each score, and the embedding.

Does what the decision is made from group people by diagnosis, or by site?
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from brainroam.core.choice import describe_decision
from brainroam.data.target import Target
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.brain.figures import gates_drawing
from brainroam.report.brain.study_explanations import StudyExplanation, embeddings, explain_people, explain_scaffold
from brainroam.report.data import ReportData
from brainroam.report.figures import BLUE, PALETTE, RULE, VERMILION, inline
from brainroam.report.page import Drawing, Section, missing, render

MOST_PEOPLE = 2000  # the page stays below eight megabytes


def gates_section(data: ReportData) -> Section:
    """How much of each pathway each person uses, and what moved the score of the report's method.

    Gates are CORE's. People are explained by the method of the report; by CORE only where that method keeps nothing.
    """
    core = explain_scaffold(data)
    shown = explain_people(data) or core
    if not shown and len(data.words.kinds) > 1:
        what = "Which edges and columns of each block count most, and for whom"
        return missing("gates", "Gates", what, data.explaining)
    if not shown:
        what = "How open the gates are, and which pathways contributed most for each person"
        return missing("gates", "Gates", what, data.command("loso", "--methods core"))
    drawing = core and gates_drawing(core.explanation)
    html = render(
        "gates.html",
        scaffold=core is not None,  # its section brings the style
        sentence=_gates_sentence(core) if core else "",
        figure=inline(drawing) if drawing else "",
        method=shown.method,
        seed=shown.seed,
        other=data.method if shown.method != data.method else "",
        gated="gate" in shown.explanation.people,
        people=_people(shown, data.target),
        one=_one(shown),
        left_out=max(len(shown.people) - MOST_PEOPLE, 0),
    )
    return Section("gates", "Gates and people" if drawing else "People", html, (drawing,) if drawing else ())


def _one(shown: StudyExplanation) -> str:
    """What contributes to a score: a column of a table, a pathway that has a gate, or an edge."""
    if shown.explanation.atlas.columns:
        return "column"
    return "pathway" if "gate" in shown.explanation.people else "edge"


def _gates_sentence(core: StudyExplanation) -> str:
    if core.explanation.atlas.columns:
        return (
            f"{core.method} (seed {core.seed}) reads the columns of a table linearly: it has no network and no gates."
        )
    sentence = f"How {core.method} (seed {core.seed}) reads the people it was not trained on."
    choices = [fold["choice"] for fold in core.explanation.folds if "choice" in fold]
    if decision := describe_decision(choices):
        sentence += f" {decision[0].upper()}{decision[1:]}."
    if any(choice["network"] == 0 for choice in choices):
        sentence += " Where it is not believed, a linear reading takes every pathway in full: all gates are 1."
    return sentence


def _people(shown: StudyExplanation, target: Target) -> dict[str, Any]:
    """Everybody's pathways by site, with the names of pathways once."""
    rows = shown.explanation.people
    first, second = rows["region_1"].astype(str), rows["region_2"].astype(str)
    names = first.where(first == second, first + " - " + second)
    pathways = dict.fromkeys(names)
    place = {name: k for k, name in enumerate(pathways)}
    ends = [*np.flatnonzero(rows["rank"] == 1).tolist(), len(rows)]  # a small scaffold gives fewer rows
    gate = rows["gate"].round(3) if "gate" in rows else [None] * len(rows)
    cells = list(zip(names.map(place), gate, rows["contribution"].round(4), strict=True))
    said = next(name for name in ("probability", "predicted", "score") if name in shown.people)
    sites: dict[str, list[dict[str, Any]]] = {}
    for i, person in enumerate(shown.people.head(MOST_PEOPLE).itertuples()):
        known = "" if pd.isna(person.label) else target.spell(person.label)
        about = {"subject": person.subject, "known": known, "said": round(getattr(person, said), 3)}
        sites.setdefault(str(person.site), []).append(about | {"rows": cells[ends[i] : ends[i + 1]]})
    words = {"probability": "probability of the condition", "predicted": f"predicted {target.name}", "score": "score"}
    return {"pathways": list(pathways), "sites": list(sites.items()), "said": words[said]}


BESIDE = ("brainood", "brainnettf", "gcn", "ensemble", "tangent-ridge")
NEIGHBOURS = 10
ITERATIONS = 500  # of t-SNE: a thousand people change little afterwards, and a report waits for it
MARKERS = "osD^vP*X"


def embedding_section(data: ReportData) -> Section:
    """The method of the report beside another, coloured by diagnosis and by site."""
    candidates = dict.fromkeys([data.method, "core", *BESIDE, *data.names])
    embedded = ((name, spaces) for name in candidates if name not in CONTROLS and (spaces := embeddings(data, name)))
    shown = dict(islice(embedded, 2))
    if not shown and len(data.words.kinds) > 1:
        return Section("embedding", "Embedding", Markup())  # each block has axes of its own
    if not shown:
        what = "Whether people group by diagnosis or by site"
        return missing("embedding", "Embedding", what, data.command("loso", "--methods core,ensemble"))
    maps = {name: (t_sne(points), people) for name, (points, people) in shown.items()}
    what = data.results.target.name
    caption = (
        f"t-SNE of the held-out people of all folds (PCA start, seed 0). Left: {what}; right: the fold that held "
        "them out. Every fold has axes of its own, which are centred and scaled within the fold and turned to rise "
        "with its score; a difference of level between folds therefore cannot show. In t-SNE, distances between groups "
        "mean little."
    )
    drawing = Drawing("embedding", caption, lambda: draw_maps(maps, what))
    sentence = f"Do people group by {what}, as they should, or by site, in the features that a method decides from? "
    fold = "fold" if data.protocol == "halves" else data.unit
    sentence += " ".join(neighbourhood(name, *spaces, fold, what) for name, spaces in shown.items())
    html = render("embedding.html", sentence=sentence, figure=inline(drawing))
    return Section("embedding", "Embedding", html, (drawing,))


def t_sne(points: np.ndarray) -> np.ndarray:
    """Points (n, k) in the plane."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, max((len(points) - 1) / 3, 1.0))
    with threadpool_limits(1):  # the same picture on any number of cores
        return TSNE(2, perplexity=perplexity, init="pca", max_iter=ITERATIONS, random_state=0).fit_transform(points)


def neighbourhood(
    name: str, points: np.ndarray, people: pd.DataFrame, fold: str = "fold", what: str = "diagnosis"
) -> str:
    """How alike neighbours are, in the space before t-SNE."""
    from sklearn.neighbors import NearestNeighbors

    k = min(NEIGHBOURS, len(points) - 1)
    near = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(return_distance=False)[:, 1:]
    shares = []
    for column in ("label", "site"):
        values = people[column].to_numpy()
        counts = pd.Series(values).value_counts()
        chance = float((counts * (counts - 1)).sum() / (len(values) * (len(values) - 1)))
        shares.append((float((values[near] == values[:, None]).mean()), chance))
    (label, label_chance), (site, site_chance) = shares
    return (
        f"With {name}, {label:.0%} of a person's {k} nearest neighbours have the same {what} ({label_chance:.0%} by "
        f"chance) and {site:.0%} come from the same {fold} ({site_chance:.0%} by chance)."
    )


def draw_maps(maps: dict[str, tuple[np.ndarray, pd.DataFrame]], what: str = "diagnosis") -> Figure:
    """Two panels for each method: people by class, and by the fold that held them out."""
    figure = Figure((8.4, 3.7 * len(maps)), layout="constrained")
    grid = figure.subplots(len(maps), 2, squeeze=False)
    for row, (name, (at, people)) in zip(grid, maps.items(), strict=True):
        _scatter(row[0], at, people["label"].map({0: "without", 1: "with the condition"}), (BLUE, VERMILION))
        _scatter(row[1], at, people["site"], PALETTE)
        row[0].set_title(f"{name}: {what}", loc="left")
        row[1].set_title(f"{name}: fold", loc="left")
    return figure


def _scatter(axes, at: np.ndarray, groups: pd.Series, colours: Sequence[str]) -> None:
    names = sorted(groups.dropna().unique(), reverse=len(colours) == 2)
    for k, name in enumerate(names):
        here = (groups == name).to_numpy()
        colour, marker = colours[k % len(colours)], MARKERS[k // len(colours) % len(MARKERS)]
        axes.scatter(*at[here].T, s=14, color=colour, marker=marker, linewidth=0, alpha=0.8, label=str(name))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(RULE)
    if 0 < len(names) <= 24:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7.5, handletextpad=0.1, borderpad=0.2)
