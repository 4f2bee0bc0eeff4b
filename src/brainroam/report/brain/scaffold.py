"""The section on the scaffold: which pathways the sites agree on, as pictures, in 3-D and as tables.

The outline of the brain for the 3-D view: the cortex of fsaverage, as nilearn ships it, smoothed and thinned out.

fsaverage5 is a subdivided icosahedron: its first 642 vertices are those of a coarser one, whose faces are the convex
hull of the same vertices on the sphere. The cerebellum is no part of it.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from brainroam.methods.explanation import Explanation
from brainroam.report.brain.figures import chord_drawing, connectome_drawing, lobes_drawing, sites_drawing
from brainroam.report.brain.glass import columns_drawing, places_drawing
from brainroam.report.brain.study_explanations import StudyExplanation, explain_scaffolds
from brainroam.report.data import ReportData
from brainroam.report.figures import inline
from brainroam.report.page import Section, missing, render
from brainroam.report.tables import Column, fixed, table

IN_VIEW = 120  # pathways the 3-D view can show
LISTED = 300
HEADINGS = {
    "d_com": ("Difference (d_com)", fixed(4)),
    "effect": ("Effect", fixed(4)),
    "nu": ("Folds (nu)", fixed(2)),
    "kappa": ("Sites (kappa)", fixed(2)),
    "pi": ("Stability (pi)", fixed(2)),
    "mean_gate": ("Mean gate", fixed(2)),
    "mean_size_of_contribution": ("Contribution", fixed(3)),
}
COARSE = 642
SMOOTHING = 12


def scaffold_section(data: ReportData) -> Section:
    """Which pathways all sites agree on; of several blocks, block by block."""
    blocks = explain_scaffolds(data)
    if not blocks and len(data.words.kinds) > 1:
        return Section("scaffold", "Scaffold", Markup())  # the section on people names what explains blocks
    if not blocks:
        what = "Which pathways the sites agree on"
        return missing("scaffold", "Scaffold", what, data.command("loso", "--methods core"))
    scenes = {block: scene(core.explanation) for block, core in blocks.items()}
    in_view = next((block for block, found in scenes.items() if found), None)  # one page turns one brain
    parts = [
        _describe(data, core, block, scenes[block] if block == in_view else None) for block, core in blocks.items()
    ]
    drawings = [drawing for part in parts for drawing in part.drawings]
    return Section("scaffold", "Scaffold", Markup().join(part.html for part in parts), tuple(drawings))


def _describe(data: ReportData, core: StudyExplanation, block: str, scene: dict[str, Any] | None) -> Section:
    """The section on one block; of the only one, on everything."""
    explanation = core.explanation
    columns = explanation.atlas.columns
    makers = (columns_drawing, places_drawing) if columns else (connectome_drawing, chord_drawing)
    sites, lobes = sites_drawing(explanation), lobes_drawing(explanation)
    brain, after = (
        [replace(drawing, name=_of_block(drawing.name, block)) for drawing in some if drawing]
        for some in ([make(explanation) for make in makers], [sites, lobes])
    )
    positive, negative = explanation.signed(10)
    shown = explanation.pathways.head(LISTED)
    ones, up, down = ("columns", "Larger", "Smaller") if columns else ("pathways", "Stronger", "Weaker")
    html = render(
        "scaffold.html",
        block=block,
        sentence=_sentence(explanation, core.method, core.seed),
        other=data.method if data.method != core.method else "",
        method=core.method,
        chance=_chance(explanation),
        caveat=_caveat(data, core.method),
        figures=[inline(drawing) for drawing in brain],
        scene=scene,
        columns=columns,
        placed=len(explanation.places) > 0 or explanation.atlas.coords is not None,
        ones=ones,
        positive=pathway_table(
            positive,
            _of_block("positive-pathways", block),
            f"{up} {explanation.where_positive}: the ten largest",
        ),
        negative=pathway_table(
            negative,
            _of_block("negative-pathways", block),
            f"{down} {explanation.where_positive}: the ten largest",
        ),
        every_title=f"{_count_shown(len(shown), len(explanation.pathways))} {ones} that any fold selected",
        sites_title=f"Sites and {parts.kind}s" if lobes and (parts := explanation.parts) else "Sites",
        every=pathway_table(
            shown,
            _of_block("pathways", block),
            f"{ones.capitalize()} by the size of d_com, whichever folds selected them",
            whole=True,
        ),
        after=[inline(drawing) for drawing in after],
        sites=_site_table(explanation, block),
    )
    return Section("scaffold", "Scaffold", html, (*brain, *after))


def _of_block(name: str, block: str) -> str:
    """The name of a table or figure, of one block among several."""
    return f"{name}-{block}" if block else name


def _count_shown(n: int, total: int) -> str:
    return f"All {n}" if n == total else f"The {n} largest of all {total}"


def scene(explanation: Explanation) -> dict[str, Any] | None:
    """What the 3-D view draws, as plain values; None without coordinates."""
    if explanation.atlas.coords is None or not len(explanation.pathways):
        return None
    positive, negative = explanation.signed(IN_VIEW // 2)
    chosen = pd.concat([positive, negative]).sort_values("rank")
    pairs = np.stack(np.triu_indices(len(explanation.atlas), 1), axis=1)[chosen["edge"]]
    used, ends = np.unique(pairs, return_inverse=True)
    parts = explanation.parts
    vertices, faces = outline()
    return {
        "nodes": [
            {
                "name": explanation.atlas.labels[k],
                "part": parts.of_region[k] if parts else "",
                "mni": explanation.atlas.coords[k].tolist(),
            }
            for k in used
        ],
        "edges": [
            [int(a), int(b), float(value)]
            for (a, b), value in zip(ends.reshape(-1, 2), chosen[explanation.measure], strict=True)
        ],
        "vertices": vertices,
        "faces": faces,
    }


def pathway_table(rows: pd.DataFrame, name: str, caption: str, whole: bool = False) -> Markup:
    """Pathways as a sortable table; the ``whole`` one has all quantities, the other those of the paper's table.

    Nothing where there are none.
    """
    if not len(rows):
        return Markup("")
    columns = region_columns(rows)
    if len(columns) == 1:
        rows = rows.drop(columns="mean_gate", errors="ignore")  # a table is read without gates
    rows = rows if whole else rows.drop(columns="mean_size_of_contribution", errors="ignore")
    columns += [Column(key, *shown) for key, shown in HEADINGS.items() if key in rows]
    if "x_1" in rows:
        for k in (1, 2):
            points = rows[[f"{axis}_{k}" for axis in "xyz"]].to_numpy(dtype=float)
            rows = rows.assign(**{f"mni_{k}": [f"{x:.0f} {y:.0f} {z:.0f}" for x, y, z in points]})
        columns += [Column(f"mni_{k}", f"MNI, {which}", _without_breaks) for k, which in ((1, "first"), (2, "second"))]
    return table(rows, columns, name, caption)


def region_columns(rows: pd.DataFrame) -> list[Column]:
    """The two regions of each row, or the column of a table, which stands in both places."""
    if len(rows) and (rows["region_1"] == rows["region_2"]).all():
        return [Column("region_1", "Column")]
    return [Column("region_1", "Region"), Column("region_2", "Region")]


def _without_breaks(text: str) -> str:
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def _sentence(explanation: Explanation, method: str, seed: int) -> str:
    sizes = [len(fold["edges"]["edge"]) for fold in explanation.folds]
    n_rois, columns = len(explanation.atlas), explanation.atlas.columns
    one = "a column" if columns else "an edge"
    every = f"{n_rois} columns" if columns else f"{n_rois * (n_rois - 1) // 2} edges between {n_rois} regions"
    count = f"{min(sizes)} to {max(sizes)}" if len(set(sizes)) > 1 else str(sizes[0])
    differs = (
        f"goes with {explanation.number}"
        if explanation.number
        else "differs between people with and without the condition"
    )
    words = (
        f"A pathway is {one} that {differs} in the same direction at most training sites; all pathways together are "
        f"the scaffold. {method} (seed {seed}) keeps {count} of {every}"
    )
    if "nu" in explanation.pathways:
        always = int((explanation.pathways["nu"] == 1).sum())
        words += (
            f", {always} of them in each of the {len(sizes)} folds. Pictures and lists show those that at least half "
            "of the folds keep; the folds share most of their training sites, so this is not independent evidence"
        )
    return f"{words}."


def _chance(explanation: Explanation) -> str:
    """Whether the sites agree more than chance, from the folds that kept it."""
    folds = [np.array(fold["chance"]) for fold in explanation.folds if "chance" in fold]
    if not folds:
        return ""
    own, flipped = np.mean([fold[0] for fold in folds]), np.mean([fold[1:].mean() for fold in folds])
    p = np.median([(fold >= fold[0]).mean() for fold in folds])
    least = np.median([1 / len(fold) for fold in folds])
    if p <= 0.05:
        verdict = "the sites agree more than chance explains"
    elif p <= least:
        verdict = "the smallest p that so few sites can give, so they cannot show more"
    else:
        verdict = "the sites do not agree more than chance explains: do not interpret single pathways"
    ones = "columns" if explanation.atlas.columns else "edges"
    return (
        f"Some {ones} are selected in any data. With the signs of whole sites flipped at random, the selected {ones} "
        f"would differ by {flipped:.4f} on average (mean size of d_com); they differ by {own:.4f} (means over folds; "
        f"median p = {p:.2g}): {verdict}."
    )


def _caveat(data: ReportData, method: str) -> str:
    """A model that is no better than guessing has pathways all the same; they then mean nothing."""
    rows = data.comparison.table
    rows = rows[rows["method"] == method]
    low, guessing = data.target.order.ends[0], data.figure.chance
    if rows.empty or not np.isfinite(rows[low].iloc[0]) or rows[low].iloc[0] > guessing:
        return ""
    return (
        f"These data do not show that {method} is better than guessing. It has pathways all the same, because it must "
        "select some; do not read them as a finding."
    )


def _site_table(explanation: Explanation, block: str) -> Markup | None:
    rows = explanation.sites(5)
    if not len(rows):
        return None
    columns = [
        Column("site", "Site"),
        Column("rank", "Rank"),
        *region_columns(rows),
        Column("d_site", "d at the site", fixed(4)),
        Column("d_com", "d_com of all", fixed(4)),
    ]
    ones = "columns" if explanation.atlas.columns else "pathways"
    name = _of_block("pathways-by-site", block)
    return table(rows, columns, name, f"The five largest contrasts of each site, among strong {ones}")


@cache
def outline() -> tuple[list[list[int]], list[list[int]]]:
    """Vertices in millimetres and triangles that face outwards, both hemispheres.

    >>> vertices, faces = outline()
    >>> len(vertices), len(faces)
    (1284, 2560)
    """
    from nilearn.datasets import load_fsaverage

    pial, sphere = (load_fsaverage("fsaverage5")[part].parts for part in ("pial", "sphere"))
    vertices, faces = [], []
    for k, side in enumerate(("left", "right")):
        vertices.append(_smooth(pial[side].coordinates, pial[side].faces)[:COARSE])
        faces.append(_hull(sphere[side].coordinates[:COARSE]) + k * COARSE)
    return np.rint(np.concatenate(vertices)).astype(int).tolist(), np.concatenate(faces).tolist()


def _smooth(coordinates: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Each vertex at the mean of its neighbours, several times, and then stretched back to the size it had."""
    from scipy.sparse import coo_array

    n = len(coordinates)
    a, b = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).T
    links = coo_array((np.ones(len(a)), (a, b)), shape=(n, n)).tocsr()
    degree = np.asarray(links.sum(axis=1)).ravel()[:, None]
    smooth = np.asarray(coordinates, dtype=float)
    for _ in range(SMOOTHING):
        smooth = 0.5 * (smooth + links @ smooth / degree)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    return low + (smooth - smooth.min(axis=0)) * (high - low) / np.ptp(smooth, axis=0)


def _hull(sphere: np.ndarray) -> np.ndarray:
    """Triangles of points on a sphere, wound so that they face outwards."""
    from scipy.spatial import ConvexHull

    faces = ConvexHull(sphere).simplices
    a, b, c = (sphere[faces[:, k]] for k in range(3))
    inwards = (np.cross(b - a, c - a) * a).sum(axis=1) < 0
    faces[inwards] = faces[inwards][:, ::-1]
    return faces[np.lexsort(faces.T)]
