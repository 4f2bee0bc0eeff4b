"""Figure 5, Table 8 and Figure 7: the ten largest positive edges, and those of each site."""

from functools import cache

import numpy as np
import pandas as pd

from brainroam.methods.explanation import Explanation
from brainroam.report.brain.figures import connectome_drawing
from brainroam.report.brain.study_explanations import held_out, runs_of
from brainroam.report.tables import Column, fixed
from reproduction.page.content import Block, Listing, Part
from reproduction.page.data import PaperData
from reproduction.page.published import EDGES, wide

QUANTITIES = {"d_com": ("|d_com|", 4), "mean_gate": ("Gate", 3), "nu": ("nu", 2), "kappa": ("kappa", 2)}


def top_edges(data: PaperData) -> Part:
    """Figure 5 and Table 8."""
    found = _explanation(data)
    title = "Figure 5 and Table 8: the ten largest positive edges"
    if found is None:
        return Part("table-8", title, (f"Not run yet: {data.paper.network}.",))
    positive = found.signed(10)[0]
    blocks: list[Block] = [
        f"Edges that at least half of the folds of {data.paper.network} selected, the largest positive contrasts "
        "first. Gates are means over held-out people, nu is the share of folds that selected the edge."
    ]
    drawing = connectome_drawing(found)
    blocks += [drawing] if drawing else []
    columns = [Column("rank", "Rank"), Column("region_1", "Region"), Column("region_2", "Region"), *_columns()]
    rows = positive.assign(rank=np.arange(1, len(positive) + 1))
    blocks.append(Listing(rows, columns, "paper-edges", "Ours: the ten largest positive edges"))
    theirs = wide(EDGES, data.published)
    if not theirs.empty:
        blocks += _beside(found, positive, theirs)
    return Part("table-8", title, tuple(blocks))


def site_edges(data: PaperData) -> Part:
    """Figure 7."""
    found, title = _explanation(data), "Figure 7: edges of each site"
    rows = found.sites(5) if found else pd.DataFrame()
    if not len(rows):
        return Part("figure-7", title, (f"Not run yet: {data.paper.network}.",))
    columns = [
        Column("site", "Site"),
        Column("region_1", "Region"),
        Column("region_2", "Region"),
        Column("d_site", "d at the site", fixed(4)),
        Column("d_com", "d_com of all", fixed(4)),
    ]
    shared = int((np.sign(rows["d_site"]) == np.sign(rows["d_com"])).sum())
    text = (
        "The five largest contrasts of each training site among the strongest pathways. "
        f"{shared} of {len(rows)} have the sign that the sites agree on."
    )
    return Part("figure-7", title, (text, Listing(rows, columns, "paper-site-edges", "Largest contrasts of each site")))


def _columns(suffix: str = "", heading: str = "") -> list[Column]:
    return [Column(f"{key}{suffix}", f"{heading}{name}", fixed(digits)) for key, (name, digits) in QUANTITIES.items()]


def _beside(found: Explanation, positive: pd.DataFrame, theirs: pd.DataFrame) -> list[Block]:
    """The published edges with what our folds say of them."""
    ours = found.pathways.assign(item=[_pair(a, b) for a, b in _ends(found.pathways)]).set_index("item")
    items = [_pair(*item.split(" - ")) for item in theirs.index]
    beside = ours.reindex(items)[list(QUANTITIES)].add_suffix("_ours").reset_index(drop=True)
    rows = pd.concat([theirs.reset_index()[["item", *QUANTITIES]], beside], axis=1)
    columns = [Column("item", "Edge of the paper"), *_columns(heading="published "), *_columns("_ours", "our ")]
    seen = int(beside["nu_ours"].notna().sum())
    same = int((beside["d_com_ours"] > 0).sum())
    shared = len({_pair(a, b) for a, b in _ends(positive)} & set(items))
    text = (
        f"Of the paper's ten edges {seen} are in the scaffold of some fold here, {same} of them positive, and {shared} "
        "are among our ten. The paper does not state which preprocessing its series have, which moves single edges."
    )
    return [Listing(rows, columns, "paper-edges-published", "The paper's ten edges, published and here"), text]


def _ends(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(rows["region_1"], rows["region_2"], strict=True))


def _pair(a: str, b: str) -> str:
    return " - ".join(sorted((a, b)))


@cache
def _explanation(data: PaperData) -> Explanation | None:
    """Over the folds of the trained network, in units of correlation as in the paper."""
    runs = runs_of(data.report, data.paper.network) if data.report else []
    if not runs:
        return None
    return Explanation([result["explanation"] for _, result in runs], [held_out(*run) for run in runs])
