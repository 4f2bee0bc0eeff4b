"""A site is a summary: edges of training people, centred site by site, and their products.

With x the edge values of a person of training site e, and b_e the mean of that site's people who have the edge,

    r     = x - b_e                          a training person; 0 where the edge is missing
    r     = x - b_bar                        anybody else; b_bar is the plain mean of b_e over the training sites
    K_ef  = R_e R_f'                         products of the people of two sites

b_e is known to site e alone and a block K_ef to two sites, so a fold is a choice of blocks. They are computed once for
a whole study, and what belongs to a held-out site cannot reach a fold that does not choose it. Edges are worked on in
blocks, everybody's at once, so that they may lie on disk (`brainroam.data.stored_cohort`) as well as in memory.

The pooled contrast of an edge between cases and controls is a sum over sites too, with d_e the difference of the class
means of site e, p_e = n1 n0 / (n1 + n0), and s the standard deviation of r over all training people:

    t = sum_e p_e d_e / (s sqrt(sum_e p_e))

Columns of a table have units of their own: there r is divided by s in products, and weights come back in units of x.

Of a number, p_e d_e is the sum of its values, without their mean at the site, times r, and p_e the sum of their
squares: of 0 and 1 that is the same.

Without centring, r = x in training (the mean of the site where the edge is missing), and b_bar is the mean over people.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from brainroam.core.connectivity import EdgeKind, cohort_edges, edge_blocks, zero_where_missing
from brainroam.data.cohort import Cohort


class SiteEdges:
    """The edges of the people of a cohort, site by site.

    Parameters
    ----------
    cohort : Cohort
        The training people. Its whole cohort remembers means and products.
    kind : EdgeKind
    centred : bool

    Attributes
    ----------
    sites : list of str
    people : dict of str to ndarray
        Positions of the people of each site.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=8, n_rois=8)
    >>> edges = SiteEdges(cohort, EdgeKind("pearson"))
    >>> edges.gram().shape, edges.primal(np.ones(24)).shape, edges.centre(["S01", "S02"]).shape
    ((24, 24), (28, 1), (28,))
    """

    def __init__(self, cohort: Cohort, kind: EdgeKind, centred: bool = True) -> None:
        whole, self._rows = cohort.origin
        self._labels, self._memory, self._folder = cohort.targets, cohort.features.memory, cohort.features.folder
        self._coding = cohort.target.coding
        self.kind, self.centred, self._cache = kind, centred, cohort.features.cache
        self._values = cohort_edges(whole, *kind)
        self._own_units = cohort.own_units
        self.n_edges = self._values.shape[1]
        self._blocks = edge_blocks(self.n_edges)
        site = cohort.table["site"].to_numpy().astype(str)
        self.sites = [str(name) for name in np.unique(site)]
        self.people = {name: np.flatnonzero(site == name) for name in self.sites}

    @property
    def cache_key(self) -> list[np.ndarray]:
        """Positions and sites of the people: K follows from these, the kind and the centring."""
        place = np.empty(len(self._rows), dtype=int)
        for number, people in enumerate(self.people.values()):
            place[people] = number
        return [self._rows, place]

    def gram(self) -> np.ndarray:
        """K (n, n) of everybody, in the order of the cohort."""
        return self._cache.get(("gram", self.kind, self.centred), self.cache_key, self._gram)

    def _gram(self) -> np.ndarray:
        pairs = [(first, second) for k, first in enumerate(self.sites) for second in self.sites[k:]]
        rows = [[self._rows[self.people[name]] for name in pair] for pair in pairs]
        name = "block", self.kind, self.centred
        if self._own_units:  # s is that of these people: no other fold has the same products
            products = self._products(pairs)
        else:
            products = self._cache.summaries(name, rows, lambda new: self._products([pairs[k] for k in new]))
        gram = np.empty((len(self._rows), len(self._rows)))
        for (first, second), product in zip(pairs, products, strict=True):
            gram[np.ix_(self.people[first], self.people[second])] = product
            gram[np.ix_(self.people[second], self.people[first])] = product.T
        return gram

    def _products(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """K_ef of these pairs of sites, in one walk over the edges."""
        products = [np.zeros((len(self.people[first]), len(self.people[second]))) for first, second in pairs]
        for columns in self._blocks:
            residuals = self._scaled_residuals(columns)
            for product, (first, second) in zip(products, pairs, strict=True):
                product += residuals[first] @ residuals[second].T
        return products

    def primal(self, weights: np.ndarray) -> np.ndarray:
        """Weights of the edges (M, k), in the units of x, from weights of the people (n, k): R' beta."""
        columns = weights.reshape(len(self._rows), -1)
        parts = []
        for block in self._blocks:
            residuals = self._scaled_residuals(block)
            parts.append(sum(residuals[name].T @ columns[people] for name, people in self.people.items()))
        return self.in_own_units(np.concatenate(parts))

    def in_own_units(self, weights: np.ndarray) -> np.ndarray:
        """Weights (M, k) of r as weights of x."""
        return weights / self.scale[:, None] if self._own_units else weights

    @cached_property
    def scale(self) -> np.ndarray:
        """s (M,) of everybody: the standard deviation of r; 1 where a column does not vary."""
        squares, count = (sum(values) for values in zip(*(self._spread(name) for name in self.sites), strict=True))
        spread = np.sqrt(squares / np.maximum(count, 1))
        return np.where(spread > 1e-12 * np.abs(np.nan_to_num(self.centre(self.sites))), spread, 1.0)

    def centre(self, sites: Sequence[str]) -> np.ndarray:
        """b_bar (M,) of these sites, subtracted from a person of another site; NaN where nobody has the edge."""
        means = self._means(sites)
        share = np.isfinite(means) * (1.0 if self.centred else [[float(len(self.people[name]))] for name in sites])
        with np.errstate(invalid="ignore"):
            return (np.nan_to_num(means) * share).sum(axis=0) / share.sum(axis=0)

    @property
    def means(self) -> np.ndarray:
        """b_e (E, M) of every site; NaN where nobody of it has the edge."""
        return self._means(self.sites)

    def _means(self, sites: Sequence[str]) -> np.ndarray:
        return np.stack([self._mean(name) for name in sites])

    def contrast(self, sites: Sequence[str]) -> np.ndarray:
        """t (M,) of the people of these sites; 0 where an edge does not vary."""
        parts = [self._contrast(name) for name in sites]
        precision = sum(self._precision(name) for name in sites)
        gap, squares, count = (sum(values) for values in zip(*parts, strict=True))
        spread = np.sqrt(squares / np.maximum(count, 1) * precision)
        return np.divide(gap, spread, out=np.zeros_like(spread), where=spread > 0)

    def mean_square(self, sites: Sequence[str], weights: np.ndarray) -> float:
        """Mean over the people of these sites of sum_j w_j r_j^2, centred."""
        if self._own_units:
            weights = weights / self.scale**2
        squares = sum(self._contrast(name)[1] for name in sites)
        return float(weights @ squares) / sum(len(self.people[name]) for name in sites)

    def residuals(self) -> "ResidualBlocks":
        """r of everybody, block after block of edges."""
        return ResidualBlocks(self._blocks, self._residual_block, self._memory / 4, self._folder)

    def _residual_block(self, columns: slice) -> np.ndarray:
        """r of everybody (n, edges) in the order of the cohort, in single precision."""
        block = np.empty((len(self._rows), columns.stop - columns.start), dtype=np.float32)
        for name, residuals in self._scaled_residuals(columns).items():
            block[self.people[name]] = residuals
        return block

    def score(self, people: np.ndarray, centre: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(x - centre)' w of these people (by position); a missing edge adds nothing."""
        rows = self._rows[people]
        parts = [zero_where_missing(self._values[rows, c] - centre[c]) @ weights[c] for c in self._blocks]
        return np.sum(parts, axis=0)

    def _mean(self, site: str) -> np.ndarray:
        rows = self._rows[self.people[site]]

        def mean(columns: slice) -> np.ndarray:
            values = self._values[rows, columns]
            present = np.isfinite(values)
            with np.errstate(invalid="ignore"):
                return np.where(present, values, 0).sum(axis=0) / present.sum(axis=0)

        return self._cache.summary(("site mean", self.kind), [rows], lambda: self._over_blocks(mean))

    def _residuals(self, columns: slice) -> dict[str, np.ndarray]:
        """r of the people of each site on a block of edges, which is read once for all sites."""
        values = self._values[self._rows, columns]
        return {name: self._without_mean(values[people], name, columns) for name, people in self.people.items()}

    def _scaled_residuals(self, columns: slice) -> dict[str, np.ndarray]:
        """r, of a table divided by s."""
        residuals = self._residuals(columns)
        if not self._own_units:
            return residuals
        return {name: values / self.scale[columns] for name, values in residuals.items()}

    def _spread(self, site: str) -> np.ndarray:
        """(2, M): the sum of squares about the mean of a site, and the number of values present."""
        values = self._values[self._rows[self.people[site]]]
        return np.stack([np.nansum(np.square(values - self._mean(site)), axis=0), np.isfinite(values).sum(axis=0)])

    def _without_mean(self, values: np.ndarray, site: str, columns: slice) -> np.ndarray:
        mean = self._mean(site)[columns]
        if self.centred:
            return zero_where_missing(values - mean)
        return np.where(np.isfinite(values), values, np.nan_to_num(mean))

    def _precision(self, site: str) -> float:
        """p_e."""
        return self._coding.precision(self._labels[self.people[site]])

    def _contrast(self, site: str) -> np.ndarray:
        """(3, M): p_e d_e, and the sum of squares and number of the values present."""
        people = self.people[site]
        y = self._labels[people]

        def contrast(columns: slice) -> np.ndarray:
            read = self._values[self._rows[people], columns]
            present = np.isfinite(read)
            values = np.where(present, self._without_mean(read, site, columns), 0)
            return np.stack([self._coding.pooled(values, present, y), (values**2).sum(axis=0), present.sum(axis=0)])

        name = "contrast", self.kind, self.centred, self._coding.measure
        return self._cache.summary(name, [self._rows[people], y], lambda: self._over_blocks(contrast))

    def _over_blocks(self, function: Callable[[slice], np.ndarray]) -> np.ndarray:
        return np.concatenate([function(columns) for columns in self._blocks], axis=-1)


class ResidualBlocks:
    """Blocks of edges that are walked over again and again, each computed once.

    As many as memory allows are kept there; with a ``folder`` the others are kept in a file below it, without one they
    are computed every time.

    >>> blocks = ResidualBlocks([slice(0, 2), slice(2, 3)], lambda columns: np.zeros((4, 2), np.float32), 40)
    >>> [columns.start for columns, _ in blocks], [columns.start for columns, _ in blocks]
    ([0, 2], [0, 2])
    """

    def __init__(
        self,
        columns: Sequence[slice],
        compute: Callable[[slice], np.ndarray],
        memory: float,
        folder: Path | None = None,
    ) -> None:
        self._columns, self._compute, self._memory = columns, compute, memory
        # It is deleted with this object.
        self._file = None if folder is None else tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._kept: dict[int, np.ndarray] = {}
        self._filed: dict[int, tuple[int, tuple[int, ...]]] = {}

    def __iter__(self) -> Iterator[tuple[slice, np.ndarray]]:
        for columns in self._columns:
            yield columns, self._block(columns)

    def _block(self, columns: slice) -> np.ndarray:
        if columns.start in self._kept:
            return self._kept[columns.start]
        if self._file is not None and columns.start in self._filed:
            place, shape = self._filed[columns.start]
            self._file.seek(place)
            return np.fromfile(self._file, np.float32, int(np.prod(shape))).reshape(shape)
        block = self._compute(columns)
        if sum(kept.nbytes for kept in self._kept.values()) + block.nbytes <= self._memory:
            self._kept[columns.start] = block
        elif self._file is not None:
            self._filed[columns.start] = self._file.seek(0, os.SEEK_END), block.shape
            block.tofile(self._file)
        return block
