"""Ridge on the columns of a table, by many penalties at once, each as far as held-out people believe it.

With r the columns of the training people in units of their standard deviation within sites, without their site means
(`brainroam.core.site_edges`), t their classes (-1 and 1) or numbers without site means, and d the pooled contrast of
each column, reading k has the penalty p and the power a of `POWERS`:

    w_k    = argmin  |t - F w|^2 + p m |w|^2,      F = r |d|^a,      m the mean squared length of a row of F
    score  = sum_k  s_k (r |d|^a)' w_k / h_k

s_k is how far the reading is believed (`brainroam.core.penalties`) and h_k the spread of its scores, both of people of
inner held-out sites. With a = 1 columns without a contrast are penalised more, which helps where few of many tell
anything. In the end there is one weight for each column. What moves with a nuisance variable (head motion) within site
and class is projected out. Of several classes each is read against the rest, all with the same s. Of a number sites are
random effects: each is one row more, as in CORE's linear reading (`brainroam.core.pathways`).

Skewed columns are read by their normal scores among the training people (`brainroam.methods.column_scores`); these are
learned once, without labels, and inner folds share them.

Connectivity matrices that are no correlations, such as counts of fibres, are read in the same way.
"""

from collections.abc import Sequence
from itertools import product
from typing import Self

import numpy as np

from brainroam.core.connectivity import PEARSON, cohort_edges, zero_where_missing
from brainroam.core.nuisance import nuisance_variables
from brainroam.core.pathways import site_rows
from brainroam.core.penalties import mix_readings, prior_of, table_penalties
from brainroam.core.ridge import Rows, ridge_candidates, without_directions
from brainroam.core.site_edges import SiteEdges
from brainroam.data.cohort import Cohort
from brainroam.data.target.within import within_sites
from brainroam.methods.base import score_shape
from brainroam.methods.column_scores import ColumnScores, by_scores
from brainroam.methods.edge_ridge import CentredReading
from brainroam.methods.one_against_rest import present
from brainroam.methods.tuning import GROUPS, inner_folds

POWERS = {0.0: 1.0, 1.0: 1 / 3}  # and how far each is believed before anything is seen
COPIES = 4  # of the table, in double precision, that a fit holds


class TableRidge(CentredReading):
    """Ridges of all columns, added up over penalties.

    Parameters
    ----------
    covariates : sequence of str, optional
        Nuisance variables whose directions are projected out; those of the study by default (motion).
    by_scores : bool
        Whether skewed columns are read by their normal scores.

    Attributes
    ----------
    shares_ : dict of (float, float) to float
        How far each reading is believed, by its power and penalty.
    inner_scores_ : ndarray of shape (n,) or (n, K)
        Score of each training person by a fit without their site; NaN where their site could not be held out.
    foretold_scores_ : ndarray
        The same, with readings believed as far as other sites say.
    """

    kind = PEARSON

    def __init__(self, covariates: Sequence[str] | None = None, by_scores: bool = True) -> None:
        self.covariates, self.by_scores = covariates, by_scores

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Learn from inner held-out sites how far each reading is believed, then read everybody."""
        penalties = table_penalties(len(cohort), cohort.n_features)
        readings = list(product(POWERS, penalties))
        inner = np.full((len(readings), *score_shape(len(cohort), cohort.target)), np.nan)
        self.columns_, people = self._columns(cohort)
        folds = list(inner_folds(cohort, seed, groups=GROUPS))
        for train, held_out in folds:
            centre, weights = self._read(people.subset(train), penalties)
            about = zero_where_missing(cohort_edges(people.subset(held_out)) - centre)
            inner[:, held_out] = np.moveaxis(np.tensordot(about, weights, (1, 1)), 1, 0)  # of (n, R) or (n, R, K)
        site = cohort.table["site"].to_numpy()
        target = cohort.target.columns(cohort.targets)
        prior = np.outer(list(POWERS.values()), prior_of(penalties)).ravel()
        mixture = mix_readings(inner, target.astype(float), site, prior)
        self.foretold_scores_ = np.full(inner.shape[1:], np.nan)
        for _, held_out in folds:
            others = inner.copy()
            others[:, held_out] = np.nan
            factors = mix_readings(others, target.astype(float), site, prior).factors
            self.foretold_scores_[held_out] = np.tensordot(factors, inner[:, held_out], 1)
        self.shares_ = dict(zip(readings, mixture.believed.tolist(), strict=True))
        self.centre_, weights = self._read(people, penalties)
        self.coef_, self.inner_scores_ = (np.tensordot(mixture.factors, each, 1) for each in (weights, inner))
        return self

    def _columns(self, cohort: Cohort) -> tuple[ColumnScores, Cohort]:
        return by_scores(cohort) if self.by_scores else (ColumnScores().load_state({}), cohort)

    def _read(self, cohort: Cohort, penalties: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """The centre (M,), and the weights by every reading (R, M), or (R, M, K) of several classes."""
        edges = SiteEdges(cohort, self.kind)
        classes = cohort.target.scored_classes
        if not classes:
            return edges.centre(edges.sites), self._weights(cohort, edges, penalties)
        weights = np.zeros((len(POWERS) * len(penalties), edges.n_edges, len(classes)))
        for code in present(cohort):
            one = cohort.one_against_rest(code)
            weights[..., code] = self._weights(one, SiteEdges(one, self.kind), penalties)
        return edges.centre(edges.sites), weights

    def _weights(self, cohort: Cohort, edges: SiteEdges, penalties: Sequence[float]) -> np.ndarray:
        """The weights (R, M) of two classes or a number, in the columns' own units."""
        cohort.features.require_memory(COPIES * 8 * len(cohort) * edges.n_edges, "a ridge on the columns of a table")
        columns = np.concatenate([block for _, block in edges.residuals()], axis=1).astype(float)
        site, t = cohort.table["site"].to_numpy().astype(str), cohort.target.learned(cohort.targets)
        target, nuisance = within_sites(t, site), nuisance_variables(cohort, self.covariates)
        contrast, weights = np.abs(edges.contrast(edges.sites)), []
        for power in POWERS:
            scale = contrast**power
            features = columns * scale
            features = without_directions(features, features.T @ nuisance)
            rows = _site_rows(edges, scale, t) if cohort.target.is_number else None
            of_power = ridge_candidates(features, target, [(penalty,) for penalty in penalties], rows)
            weights += [each * scale for each in of_power]
        return edges.in_own_units(np.transpose(weights)).T


def _site_rows(edges: SiteEdges, scale: np.ndarray, t: np.ndarray) -> Rows:
    """The rows of sites as random effects, from the mean columns and the mean number of each."""
    level = np.nan_to_num((edges.means - edges.centre(edges.sites)) / edges.scale * scale)
    people = list(edges.people.values())
    return site_rows(level, np.array([t[here].mean() for here in people]), np.array([len(here) for here in people]))
