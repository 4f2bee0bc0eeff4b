"""One site's robust regression of all edges, in the covariates' own units.

Where covariate k is not estimable it is, among the people of the site, a combination of the kept columns,
``q_k = alpha_0 + alpha' q_kept``; its unknown effect sits inside the other coefficients. Given a value for gamma_k
from other sites, ``b - gamma_k alpha_0`` and ``gamma_kept - gamma_k alpha`` are the coefficients it leaves.
"""

from collections.abc import Sequence
from copy import copy

import numpy as np

from brainroam.errors import listed
from brainroam.utils.model_files import part

ABSORBED = ("columns", "kept", "dropped", "alpha")


class SiteFit:
    """Intercept (M,) and slopes (d, M) of every edge, NaN where they are not the site's own."""

    def __init__(self, n_edges: int, n_covariates: int, n_people: int) -> None:
        self.n_people = n_people
        self.intercept = np.full(n_edges, np.nan)
        self.coef = np.full((n_covariates, n_edges), np.nan)
        self.variance = np.full((n_covariates, n_edges), np.nan)
        self.centre = np.zeros(n_covariates)
        self._absorbed: list[tuple[np.ndarray, ...]] = []

    def record(
        self,
        columns: np.ndarray,
        kept: np.ndarray,
        intercept: np.ndarray,
        slope: np.ndarray,
        variance: np.ndarray,
        design: np.ndarray,
    ) -> None:
        """Store the fit of some edges on the kept columns of the design."""
        self.intercept[columns] = intercept
        self.coef[np.ix_(kept[1:] - 1, columns)] = slope
        self.variance[np.ix_(kept[1:] - 1, columns)] = variance
        dropped = np.setdiff1d(np.arange(1, design.shape[1]), kept)
        if len(dropped):
            alpha = np.linalg.lstsq(design[:, kept], design[:, dropped], rcond=None)[0]
            self._absorbed.append((columns, kept, dropped, alpha))

    def on(self, columns: np.ndarray) -> "SiteFit":
        """The same fit of some edges (by position) alone."""
        part = copy(self)
        part.intercept, part.coef, part.variance = (
            self.intercept[columns],
            self.coef[:, columns],
            self.variance[:, columns],
        )
        part._absorbed = [(np.flatnonzero(np.isin(columns, group)), *rest) for group, *rest in self._absorbed]
        return part

    def filled(self, usual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intercept (M,) and slopes (d, M) with ``usual`` standing in for the slopes that are not the site's own."""
        intercept, coef = self.intercept.copy(), np.where(np.isfinite(self.coef), self.coef, usual)
        for columns, kept, dropped, alpha in self._absorbed:
            moved = alpha @ usual[np.ix_(dropped - 1, columns)]
            intercept[columns] -= moved[0]
            coef[np.ix_(kept[1:] - 1, columns)] -= moved[1:]
        return intercept, coef

    def pooled(self, shrunken: np.ndarray, common: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Intercept (M,) and slopes (d, M) with shrunken slopes for its own; the fit at the mean covariates stays."""
        intercept, coef = self.filled(common)
        own = np.isfinite(shrunken)
        change = np.where(own, coef - shrunken, 0)
        return intercept + self.centre @ change, np.where(own, shrunken, coef)

    def notes(self, site: str, names: list[str]) -> list[str]:
        """What this site could not estimate, in words: one note for each cause, however many covariates it is about."""
        notes, n_edges = [], len(self.intercept)
        counts = np.isnan(self.coef).sum(axis=1)
        instead = "the mean slope of the other sites is used"
        whole = [name for name, count in zip(names, counts, strict=True) if count == n_edges]
        if whole:
            notes.append(f"site {site} ({self.n_people} people) cannot estimate {listed(whole)}: {instead}")
        partly = [f"{name} for {n} edges" for name, n in zip(names, counts, strict=True) if 0 < n < n_edges]
        if partly:
            notes.append(f"site {site} ({self.n_people} people) cannot estimate {listed(partly)}: {instead}")
        nobody = int(np.isnan(self.intercept).sum())
        if nobody:
            notes.append(f"site {site}: nobody has a value for {nobody} edges, which are averaged over the other sites")
        return notes

    def state(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        absorbed = {
            f"absorbed.{g}.{name}": value
            for g, group in enumerate(self._absorbed)
            for name, value in zip(ABSORBED, group, strict=True)
        }
        return {
            "intercept": self.intercept,
            "coef": self.coef,
            "variance": self.variance,
            "centre": self.centre,
            "n_people": np.array(self.n_people),
            **absorbed,
        }

    @classmethod
    def joined(cls, blocks: Sequence[dict[str, np.ndarray]]) -> "SiteFit":
        """One fit from the states of consecutive blocks of edges.

        >>> fit = SiteFit(3, 1, 20)
        >>> fit.record(np.arange(3), np.array([0]), np.ones(3), np.empty((0, 3)), np.empty((0, 3)), np.ones((20, 2)))
        >>> twice = SiteFit.joined([fit.state(), fit.state()])
        >>> twice.filled(np.full((1, 6), 0.25))[0].tolist()
        [0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
        """
        whole = cls(0, 0, int(blocks[0]["n_people"]))
        whole.intercept = np.concatenate([block["intercept"] for block in blocks])
        whole.coef = np.concatenate([block["coef"] for block in blocks], axis=1)
        whole.variance = np.concatenate([block["variance"] for block in blocks], axis=1)
        whole.centre = blocks[0]["centre"]
        start = 0
        for block in blocks:
            groups = part(block, "absorbed")
            for g in range(len(groups) // len(ABSORBED)):
                columns, *rest = (groups[f"{g}.{name}"] for name in ABSORBED)
                whole._absorbed.append((columns + start, *rest))
            start += len(block["intercept"])
        return whole
