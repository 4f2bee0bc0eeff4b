"""The ensemble: three ridges of all edges, added up.

Each reader is a ridge on edges without their site means (`edge_ridge`), from which what moves with head motion within
site and class is projected out:

    pearson         Pearson correlations
    log             matrix logarithm of spatial-sign correlations, soft scaffold
    cofluctuation   matrix logarithm of co-fluctuation, soft scaffold

The readers differ in which moments of a scan they believe; what they agree on travels best to a site never seen.
Selecting the winner of an inner competition is unstable with few sites, and weights learned there were no better than
fixed ones. So each score is divided by its spread within inner held-out sites and counted 1 : 2 : 2: the two logarithms
read better than Pearson in most regimes, most clearly with few people. Recipe and its evidence:
docs/results/abide20.md; it was chosen on twenty-site ABIDE.

Matrices, which have no time course, are read by the first two. A table is read by ridges of its columns by many
penalties, each as far as held-out people believe it (`brainroam.methods.table_ridge`), and so are matrices that are no
correlations. Where columns are skewed there are two such readers, of normal scores and of values as they are, which are
weighted in the same way. Directions of head motion are taken out of tables as of edges; age, sex and intracranial
volume are not: on the anatomy of twenty-site ABIDE taking them out, by projection or by regression, moved the AUC by
less than half a point.

Of a number each reader takes sites as random effects and has its penalty chosen on inner held-out sites
(`edge_ridge`); a soft scaffold earned nothing there. Readers then differ more than they do for a diagnosis (Pearson
edges tell age much worse), and the numbers of inner held-out people say by how much: with z the scores by fits without
the person's site, over their spread, and t the number, both about the means of sites,

    w = argmin  |t - z w|^2 / n + STACKED |w|^2,      w >= 0

so readers that agree share their weight, and one that adds nothing gets none.

No covariate of a new person is needed. Age and sex stay in the edges unless they are named in ``covariates``.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from scipy.optimize import nnls

from brainroam.core.nuisance import note_of_motion
from brainroam.core.penalties import mix_readings
from brainroam.core.targets import spread_within_sites
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Folds
from brainroam.data.target.order import mean_order
from brainroam.data.target.within import within_sites
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo, score_shape
from brainroam.methods.edge_ridge import NUMBER_PENALTIES, CentredReading, EdgeRidge
from brainroam.methods.explanation import linear_explanation
from brainroam.methods.one_against_rest import OneAgainstRest
from brainroam.methods.registry import register
from brainroam.methods.table_ridge import TableRidge
from brainroam.methods.tuning import GROUPS, inner_folds
from brainroam.utils.model_files import part
from brainroam.utils.optional import one_thread

SOFT = 0.25
MEMBERS: dict[str, dict[str, Any]] = {
    "pearson": {"kind": "pearson"},
    "log": {"kind": "log", "shrinkage": 0.7, "robust": True, "soft": SOFT},
    "cofluctuation": {"kind": "cofluctuation", "shrinkage": 0.7, "soft": SOFT},
}
SHARES = {"pearson": 1.0, "log": 2.0, "cofluctuation": 2.0}
READERS = {"series": tuple(MEMBERS), "matrices": ("pearson", "log")}
TABLE, VALUES = "table", "values"  # the readers of columns with units of their own, and of skewed ones as they are
STACKED = 0.1  # penalty of the weights of readers of a number, in units of the variance of a score within sites
AT_A_TIME = 64  # people: with a large atlas each copy of everybody's edges takes half a gigabyte


class Ensemble(Method):
    """A weighted sum of ridges of all edges.

    Parameters
    ----------
    covariates : sequence of str, optional
        Nuisance variables whose directions are taken out of the edges; those of the study by default (motion).

    Attributes
    ----------
    members_ : dict of str to EdgeRidge
        Fitted on all training people.
    weights_ : ndarray
        Of each reader's score, in the order of ``members_``.
    inner_scores_ : ndarray
        Score of each training person by a fit without their site; NaN where their site could not be held out.
    """

    explains_people = True

    def __init__(self, covariates: Sequence[str] | None = None) -> None:
        self.covariates = covariates
        self.edge_kinds = tuple(reader.kind for reader in self._members("series").values())

    @one_thread()  # the same bytes on any number of cores
    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Scale the members on inner held-out sites, then fit them on everybody."""
        self.notes_ = note_of_motion(cohort, self.covariates)
        if cohort.own_units:
            return self._fit_table(cohort, seed)
        folds = list(inner_folds(cohort, seed, groups=GROUPS))
        classes = cohort.target.scored_classes
        readers = self._members(cohort.measure, classes)
        if cohort.target.is_number:
            readers = {name: self._choose_for_number(name, cohort, folds) for name in readers}
        inner = np.stack([_score_out_of_site(reader, cohort, folds) for reader in readers.values()], axis=1)
        shares, site = np.array([SHARES[name] for name in readers]), cohort.table["site"].to_numpy()
        known = np.isfinite(inner).reshape(len(inner), -1).all(axis=1)
        if classes:
            columns = [spread_within_sites(inner[known, :, k], site[known]) for k in range(len(classes))]
            spread = np.stack(columns, axis=1)
            self.weights_ = shares[:, None] / shares.sum() / spread
        else:
            spread = spread_within_sites(inner[known], site[known])
            if cohort.target.is_number:
                shares = _stack(inner[known] / spread, cohort.targets[known], site[known], shares)
            self.weights_ = shares / shares.sum() / spread
        self.inner_scores_ = self._add(inner)
        self.members_ = {name: reader.fit(cohort) for name, reader in readers.items()}
        return self

    def _fit_table(self, cohort: Cohort, seed: int) -> Self:
        """A reader of scores, beside it one of values where columns are skewed; both hold out sites by themselves."""
        self.members_ = {TABLE: TableRidge(self.covariates).fit(cohort, seed)}
        if len(self.members_[TABLE].columns_.skewed_):
            self.members_[VALUES] = TableRidge(self.covariates, by_scores=False).fit(cohort, seed)
        readers, folds = list(self.members_.values()), inner_folds(cohort, seed, groups=GROUPS)
        told = np.stack([reader.foretold_scores_ for reader in readers])
        site, target = cohort.table["site"].to_numpy(), cohort.target.columns(cohort.targets).astype(float)
        self.weights_, self.foretold_scores_ = np.ones((len(readers), *told.shape[2:])), told[0]
        if len(readers) > 1:
            factors = mix_readings(told, target, site, np.ones(len(readers))).factors
            self.weights_ *= factors.reshape(-1, *[1] * (told.ndim - 2))
            self.foretold_scores_ = np.full(told.shape[1:], np.nan)
            for _, held_out in folds:
                others = told.copy()
                others[:, held_out] = np.nan
                factors = mix_readings(others, target, site, np.ones(len(readers))).factors
                self.foretold_scores_[held_out] = np.tensordot(factors, told[:, held_out], 1)
        self.inner_scores_ = self._add(np.stack([reader.inner_scores_ for reader in readers], axis=1))
        return self

    @one_thread()
    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum of all members."""
        return self._add(np.stack([reader.score(cohort) for reader in self.members_.values()], axis=1))

    def _add(self, scores: np.ndarray) -> np.ndarray:
        """The sum (n,) of scores (n, R) of the members, or (n, K) of scores (n, R, K) of several classes."""
        by_class = self.weights_.shape[1:]
        return np.einsum("nrk,rk->nk", scores, self.weights_) if by_class else scores @ self.weights_

    def contributions(self, cohort: Cohort, edges: np.ndarray | None = None) -> np.ndarray:
        """What each edge, or each of these, adds to each person's score by all members.

        Shape (n, M), or (n, M, K) of several classes.
        """
        if self.weights_.ndim == 1:
            return self._contributions(cohort, 0, edges)
        classes = range(self.weights_.shape[1])
        return np.stack([self._contributions(cohort, code, edges) for code in classes], axis=-1)

    def _contributions(self, cohort: Cohort, code: int, edges: np.ndarray | None) -> np.ndarray:
        """Those to the score of the class with this code; a class that nobody of the training people had has none."""
        columns = np.arange(cohort.n_features) if edges is None else edges
        moved, shown = np.zeros((len(cohort), len(columns))), self._weighted_members(code).values()
        for people in np.array_split(np.arange(len(cohort)), -(-len(cohort) // AT_A_TIME)):
            some = cohort.subset(people)
            for weight, reader in shown:
                moved[people] += weight * reader.contributions(some, code)[:, columns]
        return moved

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The weight of each edge in each kind of edge values, and what it adds to whom; of classes for the last."""
        last = self.weights_.shape[1] - 1 if self.weights_.ndim == 2 else 0
        if self.weights_.ndim == 2 and TABLE not in self.members_:  # the last that some training people had
            last = max(next(iter(self.members_.values())).members_)
        weights = {
            f"weight_{name}": weight * reader.coef_of(last)
            for name, (weight, reader) in self._weighted_members(last).items()
        }
        contributions = self._contributions(cohort, last, None)
        return linear_explanation(cohort.atlas, weights, contributions, np.sum(list(weights.values()), axis=0), top)

    def _weighted_members(self, code: int) -> dict[str, tuple[float, CentredReading]]:
        """Each member with its weight; of several classes those that tell the class with this code from the rest."""
        if TABLE in self.members_:  # reads all classes by itself
            weights = self.weights_.reshape(len(self.weights_), -1)[:, -1].tolist()
            return dict(zip(self.members_, zip(weights, self.members_.values(), strict=True), strict=True))
        if self.weights_.ndim == 1:
            return dict(zip(self.members_, zip(self.weights_, self.members_.values(), strict=True), strict=True))
        readers = zip(self.members_.items(), self.weights_[:, code], strict=True)
        return {name: (weight, each.members_[code]) for (name, each), weight in readers if code in each.members_}

    def representation(self, cohort: Cohort) -> np.ndarray | None:
        """The contributions of the edges; nothing for several classes, each of which has its own."""
        return None if self.weights_.ndim == 2 else self.contributions(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """Weights and members."""
        readers = {f"{name}.{key}": v for name, reader in self.members_.items() for key, v in reader.state().items()}
        return {"weights": self.weights_, **readers}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.weights_ = state["weights"]
        readers = self._members_of(self.weights_, {name.partition(".")[0] for name in state})
        self.members_ = {name: reader.load_state(part(state, name)) for name, reader in readers.items()}
        return self

    def _choose_for_number(self, name: str, cohort: Cohort, folds: Folds) -> EdgeRidge:
        """The member for a number, without a soft scaffold, with the penalty that orders held-out people best."""
        y, site = cohort.targets, cohort.table["site"].to_numpy()
        plain = {**MEMBERS[name], "soft": 0.0, "covariates": self.covariates}
        readers = [EdgeRidge(**plain, penalties=penalties) for penalties in NUMBER_PENALTIES]
        inner = np.stack([_score_out_of_site(reader, cohort, folds) for reader in readers])
        known = np.isfinite(inner).all(axis=0)
        return readers[int(np.argmax(mean_order(y[known], site[known], inner[:, known])))]

    def _members_of(self, weights: np.ndarray, names: Collection[str]) -> dict[str, Any]:
        """Members with these weights, of which a state names those of a table, to be loaded."""
        if TABLE in names:
            both = {TABLE: TableRidge(self.covariates), VALUES: TableRidge(self.covariates, by_scores=False)}
            return {name: reader for name, reader in both.items() if name in names}
        measure = next(name for name, readers in READERS.items() if len(readers) == len(weights))
        return self._members(measure, [""] * sum(weights.shape[1:]))

    def _members(self, measure: str, classes: Sequence[str] = ()) -> dict[str, Any]:
        """A ridge for each kind of edges, for several classes one for each of them."""
        return {name: self._make(name, classes) for name in READERS[measure]}

    def _make(self, name: str, classes: Sequence[str]) -> Any:
        make = partial(EdgeRidge, **MEMBERS[name], covariates=self.covariates)
        return OneAgainstRest(make, classes) if classes else make()


def _stack(z: np.ndarray, t: np.ndarray, site: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """w (R,) of scores z (n, R) and a number t; the shares of a diagnosis where no member correlates with it.

    >>> rng = np.random.default_rng(0)
    >>> t, site = rng.normal(size=400), np.repeat(["A", "B"], 200)
    >>> z = t[:, None] + rng.normal(size=(400, 3)) * [1, 1, 9]
    >>> w = _stack(z / z.std(axis=0), t, site, np.ones(3))
    >>> bool(abs(w[0] - w[1]) < 0.2 * w[0] and w[2] < 0.2 * w[0])
    True
    """
    z, t = within_sites(z, site), within_sites(t.astype(float), site)
    penalty = np.sqrt(STACKED * len(t)) * np.eye(z.shape[1])
    weights = nnls(np.vstack([z, penalty]), np.concatenate([t, np.zeros(z.shape[1])]))[0]
    return weights if weights.any() else otherwise


def _score_out_of_site(reader: Method, cohort: Cohort, folds: Folds) -> np.ndarray:
    inner = np.full(score_shape(len(cohort), cohort.target), np.nan)
    for (_, held_out), path in zip(folds, reader.out_of_fold(cohort, folds), strict=True):
        inner[held_out] = path[0]
    return inner


register(
    MethodInfo(
        "ensemble",
        Ensemble,
        "sum of three readers of all edges: Pearson, logarithm, co-fluctuation",
        "brainroam",
        needs=("site",),
        covariate_use="projected",
        self_selecting=True,
        stochastic=False,
        reads=("series", "matrices", "table"),
        targets=EVERY_TARGET,
    )
)
