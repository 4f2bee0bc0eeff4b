"""Explanations: pathways that a fitted method reads, and those of single people, in one form for all methods.

An explanation is a dictionary of arrays; run files keep it, and `Explanation` tables it, of one
fitted model or of the runs of a whole leave-one-site-out study::

    kind      "scaffold" (CORE), "linear" (weights of edges) or "masks" (what a deep method attends to)
    measure   the column of ``edges`` they are ranked by: d_com, effect, or the method's own name for its mask
    regions   name (P,), mni (P, 3) or None, network (P,) or None; columns (True) where they are those of a table
    edges     edge (index in triu order, or of a column), then one column per quantity; the largest measure first
    sites     site (E,), edge (K,), contrast (E, K): d_e of the K largest edges at each training site   (CORE)
    nodes     one column per region-wise quantity (P,)                                                  (some masks)
    chance    strength of the scaffold as it is, then with signs of whole sites flipped                 (CORE)
    choice    how far the network is believed and why, `CoreClassifier.chosen_`                         (CORE)
    people    edge (n, top), contribution or mask (n, top) and, for CORE, gate (n, top), gate_quantiles (n, 5)
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.data.atlas import Atlas
from brainroam.data.atlas.anatomy import Parts, parts_of
from brainroam.data.atlas.freesurfer import centres_of, place_of
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.methods.base import Method
from brainroam.utils.html import html_summary

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TOP_AT_SITES = 40
STRONGEST = 200  # edges that stand for a method that weighs all of them
KINDS = {
    "scaffold": "d_com: median over sites of {contrast}",
    "linear": "effect: mean size of the {one}'s part in the score, negative where a {larger} speaks against",
    "masks": "mean over people of the weight the method gives to the {one}",
}


def describe_edges(kind: str, measure: str, atlas: Atlas, edges: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The entries that every explanation has, with edges sorted by their measure."""
    order = np.argsort(-np.abs(edges[measure]), kind="stable")
    return {
        "kind": kind,
        "measure": measure,
        "regions": _regions(atlas),
        "edges": {name: np.asarray(column)[order] for name, column in edges.items()},
    }


def _regions(atlas: Atlas) -> dict[str, Any]:
    regions = {"name": list(atlas.labels), "mni": atlas.coords, "network": atlas.networks}
    return regions | ({"columns": True} if atlas.columns else {})


def largest(edges: np.ndarray, top: int, by: str, **values: np.ndarray) -> dict[str, np.ndarray]:
    """Each person's ``top`` edges by the size of one of the values (n, M), and all values there.

    >>> largest(np.array([4, 7]), 1, "contribution", contribution=np.array([[0.1, -0.3]]))
    {'edge': array([[7]]), 'contribution': array([[-0.3]])}
    """
    chosen = np.argsort(-np.abs(values[by]), axis=1, kind="stable")[:, :top]
    return {"edge": edges[chosen], **{name: np.take_along_axis(v, chosen, axis=1) for name, v in values.items()}}


def linear_explanation(
    atlas: Atlas, weights: Mapping[str, np.ndarray], contributions: np.ndarray, direction: np.ndarray, top: int
) -> dict[str, Any]:
    """Explanation of a score that is a sum over edges.

    Parameters
    ----------
    weights : dict of str to ndarray of shape (M,)
        The weights of each set of edge values the method reads.
    contributions : ndarray of shape (n, M)
        What each edge adds to each person's score.
    direction : ndarray of shape (M,)
        Positive where a stronger edge speaks for the condition.

    The measure ``effect`` is the mean size of an edge's contribution, with the sign of its direction.
    """
    every = np.arange(contributions.shape[1])
    effect = np.sign(direction) * np.abs(contributions).mean(axis=0)
    content = describe_edges("linear", "effect", atlas, {"edge": every, "effect": effect, **weights})
    return content | {"people": largest(every, top, "contribution", contribution=contributions)}


def mask_explanation(atlas: Atlas, shown: Mapping[str, np.ndarray], top: int) -> dict[str, Any] | None:
    """Explanation by masks of a deep method: a matrix over regions (n, P, P), a value per region (n, P), or both."""
    n_rois = len(atlas)
    matrices = {name: value for name, value in shown.items() if value.ndim == 3 and value.shape[1:] == (n_rois,) * 2}
    vectors = {name: value for name, value in shown.items() if value.ndim == 2 and value.shape[1] == n_rois}
    if not matrices and not vectors:
        return None
    content: dict[str, Any] = {"kind": "masks", "regions": _regions(atlas)}
    if matrices:
        name, value = next(iter(matrices.items()))
        rows, columns = np.triu_indices(n_rois, 1)
        mask = (value[:, rows, columns] + value[:, columns, rows]) / 2
        every = np.arange(mask.shape[1])
        content |= describe_edges("masks", name, atlas, {"edge": every, name: mask.mean(axis=0)})
        content["people"] = largest(every, top, "mask", mask=mask)
    if vectors:
        content["nodes"] = {name: value.mean(axis=0) for name, value in vectors.items()}
    return content


def leading_axes(training: np.ndarray, people: np.ndarray, n_axes: int = 16) -> np.ndarray:
    """People (n, k) on the leading principal axes of the training people, k <= ``n_axes``.

    Axes come from the training people's Gram matrix; each points to the side where a training person lies farthest,
    so that the same data give the same numbers.

    >>> x = np.random.default_rng(0).normal(size=(30, 5)) * [9, 5, 1, 1, 1]
    >>> leading_axes(x, x[:3], 2).shape
    (3, 2)
    """
    from scipy.linalg import eigh

    mean, wide = training.mean(axis=0), training.shape[1] > len(training)
    # Products are centred, not the people: a second copy of all their edges can be large.
    gram = training @ training.T if wide else training.T @ training - len(training) * np.outer(mean, mean)
    if wide:
        share = gram.mean(axis=0)
        gram += share.mean() - share - share[:, None]
    first = max(len(gram) - n_axes, 0)
    values, vectors = eigh(gram, subset_by_index=(first, len(gram) - 1))
    real = values > 1e-10 * max(values[-1], 1e-300)
    values, vectors = values[real][::-1], vectors[:, real][:, ::-1]
    axes = vectors
    if wide:
        weights = vectors / np.sqrt(values)
        axes = training.T @ weights - np.outer(mean, weights.sum(axis=0))
    placed = training @ axes - mean @ axes
    farthest = np.take_along_axis(placed, np.abs(placed).argmax(axis=0)[None], axis=0)
    return (people - mean) @ (axes * np.sign(farthest))


class Explanation:
    """The pathways of one fitted model, or of the folds of a study.

    Parameters
    ----------
    folds : sequence of dict
        What each model says, see `brainroam.methods.explanation`.
    people : sequence of DataFrame
        For each model, the people it read: ``subject`` and ``site``, in its order.
    number : str
        The name of the number that is predicted; of classes none.

    Attributes
    ----------
    kind, measure : str
        ``"scaffold"``, ``"linear"`` or ``"masks"``, and the quantity pathways are ranked by.
    atlas : Atlas

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.core import Core
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12)
    >>> model = Core(epochs=0, tau_percentile=60).fit(cohort)
    >>> explanation = Explanation.of_model(model, cohort, top=3)
    >>> explanation.pathways[["rank", "region_1", "region_2"]].head(1).to_numpy().tolist()
    [[1, 'ROI_004', 'ROI_012']]
    >>> len(explanation.people) == 3 * len(cohort)
    True
    """

    def __init__(self, folds: Sequence[Mapping[str, Any]], people: Sequence[pd.DataFrame], number: str = "") -> None:
        first = folds[0]
        self.folds, self._people, self.number = list(folds), list(people), number
        self.kind, self.measure = first["kind"], first.get("measure", "")
        names, mni, networks = (first["regions"].get(key) for key in ("name", "mni", "network"))
        coords = None if mni is None else np.asarray(mni, dtype=float)
        networks, columns = None if networks is None else tuple(networks), bool(first["regions"].get("columns"))
        self.atlas = Atlas("regions", tuple(names), coords, networks=networks, columns=columns)

    @classmethod
    def of_model(cls, method: Method, cohort: Cohort, top: int = 10) -> Self:
        """Explain a fitted method on the people of a cohort, with the ``top`` pathways of each."""
        content = method.explanation(cohort, top)
        if content is None:
            raise UsageError(
                f"the model is a {type(method).__name__}, which has no pathways; core, ensemble and linear methods have"
            )
        return cls([content], [cohort.table[["subject", "site"]]], cohort.target.number)

    def __repr__(self) -> str:
        what = "columns" if self.atlas.columns else f"pathways of {len(self.atlas)} regions"
        return f"Explanation({len(self.pathways)} {what}; see .pathways and .people)"

    def _repr_html_(self) -> str:
        """For notebooks: the largest pathways."""
        hidden = ["edge", *(name for name in self.pathways if name[:2] in ("x_", "y_", "z_"))]
        table = self.pathways.head(10).drop(columns=hidden)
        return html_summary(f"{len(self.pathways)} pathways, ranked by {self.ranked_by}", table)

    @property
    def ranked_by(self) -> str:
        """Meaning of the order of pathways, or of the columns of a table, in words."""
        one, larger = ("column", "larger value") if self.atlas.columns else ("edge", "stronger edge")
        return KINDS[self.kind].format(one=one, larger=larger, contrast=self.contrast)

    @property
    def contrast(self) -> str:
        """What a site's contrast is, in words."""
        if self.number:
            return f"the slope on {self.number} within the site"
        return "the difference between people with and without the condition"

    @property
    def where_positive(self) -> str:
        """Where an edge with a positive contrast is stronger, in words."""
        return f"where {self.number} is higher" if self.number else "in people with the condition"

    @cached_property
    def pathways(self) -> pd.DataFrame:
        """One row per pathway, the largest first; values are means over the folds that selected it.

        ``nu`` is the share of folds that did, when there are several. Empty for methods that weigh regions only.
        """
        parts = [pd.DataFrame(fold["edges"]) for fold in self.folds if "edges" in fold]
        if not parts:
            return pd.DataFrame(columns=["rank", "edge", "region_1", "region_2"])
        grouped = pd.concat(parts).groupby("edge")
        values = grouped.mean()
        if len(self.folds) > 1:
            values["nu"] = grouped.size() / len(self.folds)
        values = values.iloc[np.argsort(-values[self.measure].abs(), kind="stable")].reset_index()
        table = pd.concat([self._regions(values["edge"].to_numpy()), values.drop(columns="edge")], axis=1)
        table.insert(0, "rank", np.arange(1, len(table) + 1))
        return table.assign(edge=values["edge"])

    @cached_property
    def places(self) -> pd.DataFrame:
        """Ranked columns of a table that belong to a region with a known centre, with side and measure.

        ``x``, ``y``, ``z`` are MNI millimetres, see `brainroam.data.atlas.freesurfer`; empty where no name tells one.
        """
        ranked = self.counted if self.kind == "scaffold" else self.pathways
        if not self.atlas.columns or not len(ranked):
            return pd.DataFrame(columns=["region", "side", "measure", "x", "y", "z"])
        table = ranked.rename(columns={"region_1": "column"})[["rank", "column", self.measure]]
        places = [place_of(name) for name in table["column"]]
        here = np.array([place is not None for place in places])
        named = pd.DataFrame([place for place in places if place is not None], columns=["side", "region", "measure"])
        points = pd.DataFrame(centres_of(table["column"])[here], columns=["x", "y", "z"])
        value = table[self.measure][here].reset_index(drop=True).rename("value")
        return pd.concat([table[["rank", "column"]][here].reset_index(drop=True), named, points, value], axis=1)

    @property
    def counted(self) -> pd.DataFrame:
        """The pathways that stand for the method, in its order.

        Its scaffold (of several folds, what at least half of them selected), or the strongest of all its edges.
        """
        table = self.pathways[self.pathways["nu"] >= 0.5] if "nu" in self.pathways else self.pathways
        return table if self.kind == "scaffold" else table.head(STRONGEST)

    def signed(self, top: int = 10) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The largest positive and the largest negative pathways, of those that are `counted`."""
        table = self.counted
        values = table.get(self.measure, pd.Series(dtype=float))
        return table[values > 0].head(top), table[values < 0].head(top)

    @cached_property
    def people(self) -> pd.DataFrame:
        """The pathways that moved each person most, one row each, the largest first."""
        parts = []
        for fold, table in zip(self.folds, self._people, strict=True):
            if "people" not in fold:
                continue
            columns = {name: np.asarray(value) for name, value in fold["people"].items() if name != "gate_quantiles"}
            n, top = columns["edge"].shape
            part = table.loc[np.repeat(table.index, top)].reset_index(drop=True)
            part["rank"] = np.tile(np.arange(1, top + 1), n)
            part = pd.concat([part, self._regions(columns["edge"].ravel())], axis=1)
            parts.append(part.assign(**{name: value.ravel() for name, value in columns.items() if name != "edge"}))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["subject", "site", "rank"])

    @cached_property
    def gates(self) -> pd.DataFrame:
        """Quantiles of each person's gates; empty for methods without gates."""
        parts = [
            table.assign(**dict(zip(("q05", "q25", "median", "q75", "q95"), np.transpose(quantiles), strict=True)))
            for fold, table in zip(self.folds, self._people, strict=True)
            if (quantiles := fold.get("people", {}).get("gate_quantiles")) is not None
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["subject", "site", "median"])

    @cached_property
    def site_contrasts(self) -> pd.DataFrame:
        """The contrast d_site of each training site on the strongest pathways, one row each; empty without a scaffold.

        A site's contrast depends on that site alone, so all folds that trained on it give the same.
        """
        parts = []
        for fold in self.folds:
            if "sites" not in fold:
                continue
            site, edge = fold["sites"]["site"], np.asarray(fold["sites"]["edge"])
            contrast = np.array(fold["sites"]["contrast"], dtype=float)
            rows = {"site": np.repeat(site, len(edge)), "edge": np.tile(edge, len(site)), "d_site": contrast.ravel()}
            parts.append(pd.DataFrame(rows))
        if not parts:
            return pd.DataFrame(columns=["site", "edge", "d_site"])
        return pd.concat(parts).drop_duplicates(["site", "edge"]).dropna().reset_index(drop=True)

    def sites(self, top: int = 5) -> pd.DataFrame:
        """Each site's largest contrasts among the strongest pathways, beside the consensus d_com."""
        if not len(self.site_contrasts):
            return self.site_contrasts
        table = self.site_contrasts.merge(self.pathways[["edge", "d_com"]], on="edge")
        table = table.iloc[np.argsort(-table["d_site"].abs(), kind="stable")].groupby("site").head(top)
        table = table.sort_values("site", kind="stable").reset_index(drop=True)
        rank = table.groupby("site").cumcount() + 1
        regions = self._regions(table["edge"].to_numpy())
        return pd.concat([table[["site"]].assign(rank=rank), regions, table[["d_site", "d_com"]]], axis=1)

    @cached_property
    def networks(self) -> pd.DataFrame:
        """How many pathways join which lobes or networks, and in which direction; empty where neither is known."""
        table, parts = self.counted, self.parts
        if parts is None or not len(table):
            return pd.DataFrame(columns=["lobe_1", "lobe_2", "pathways"])
        first, second = f"{parts.kind}_1", f"{parts.kind}_2"
        place = {name: k for k, name in enumerate(parts.names)}
        ends = np.sort([[place[a], place[b]] for a, b in zip(table[first], table[second], strict=True)], axis=1)
        value = table[self.measure].to_numpy()
        rows = pd.DataFrame(
            {"a": ends[:, 0], "b": ends[:, 1], "positive": value > 0, "negative": value < 0, "v": value}
        )
        counts = rows.groupby(["a", "b"]).agg(
            pathways=("v", "size"), positive=("positive", "sum"), negative=("negative", "sum"), mean=("v", "mean")
        )
        counts = counts.rename(columns={"mean": f"mean_{self.measure}"}).reset_index()
        sizes = pd.Series(parts.of_region).value_counts().reindex(parts.names, fill_value=0).to_numpy()
        a, b = counts.pop("a").to_numpy(), counts.pop("b").to_numpy()
        possible = np.where(a == b, sizes[a] * (sizes[a] - 1) // 2, sizes[a] * sizes[b])
        counts.insert(0, first, np.array(parts.names)[a])
        counts.insert(1, second, np.array(parts.names)[b])
        counts["share_of_possible"] = counts["pathways"] / possible
        return counts.sort_values("pathways", ascending=False, kind="stable", ignore_index=True)

    @property
    def regions(self) -> pd.DataFrame:
        """Values per region, for methods that give them, the largest first."""
        parts = [pd.DataFrame(fold["nodes"]) for fold in self.folds if "nodes" in fold]
        if not parts:
            return pd.DataFrame(columns=["region"])
        mean = sum(parts) / len(parts)
        mean.insert(0, "region", list(self.atlas.labels))
        return mean.sort_values(mean.columns[1], key=np.abs, ascending=False, kind="stable", ignore_index=True)

    @cached_property
    def parts(self) -> Parts | None:
        """The network or lobe of every region, where known."""
        return parts_of(self.atlas)

    def _regions(self, edges: np.ndarray) -> pd.DataFrame:
        """Names, lobes or networks and, where the atlas knows them, MNI coordinates of the two regions of each edge."""
        pairs = self.atlas.pairs[edges]
        labels = np.array(self.atlas.labels, dtype=object)
        columns = {f"region_{k + 1}": labels[pairs[:, k]] for k in (0, 1)}
        if self.parts is not None:
            part = np.array(self.parts.of_region, dtype=object)
            columns |= {f"{self.parts.kind}_{k + 1}": part[pairs[:, k]] for k in (0, 1)}
        if (mni := self.atlas.coords) is not None:
            columns |= {f"{axis}_{k + 1}": mni[pairs[:, k], c] for k in (0, 1) for c, axis in enumerate("xyz")}
        return pd.DataFrame(columns)
