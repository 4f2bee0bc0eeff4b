"""Several measurements of the same people: a method once per block, its scores put on one scale and added.

With s_ib the score of person i by block b, from a fit without the person's site, divided by its spread within sites,
and t their label, both without their site means, weights are those of least squares,

    beta = argmin sum_i (t_i - sum_b beta_b s_ib)^2        over training people who have every block
    w_b  = E[beta_b | its estimate, its standard error e_b]

The second line believes, before it has seen anything, that a block of seven in ten has nothing to say (beta = 0) and
that in the others beta is half normal with a spread of .4 standard deviations of t. So weak evidence gives a block
little, strong evidence gives it beta itself, and nothing jumps in between. In simulation a block of noise costs 0.25
points of AUC beside a block of 74.9 with 60 people, 0.05 with 120 and 0.01 with 300; beside a weak block of 63.8 it
costs 0.85, 0.34 and 0.05, for 60 people can hardly tell which of the two is noise (the positive part of James and Stein
costs 1.17, 0.39 and 0.08; equal weights 7.6 in the first case). Where no block says something with a probability of
`CLEAR`, and none bears that share of the weight, a note tells so: in simulation cohorts with the note lose 1.4 to 2.7
points of AUC, those without it 0.1 to 0.3 (docs/results/blocks.md). Who lacks a block is read from the others: the
block adds 0, the score of the mean of the training sites.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm

from brainroam.core.targets import spread_within_sites
from brainroam.data.cohort import Cohort
from brainroam.data.target.within import within_sites
from brainroam.methods.base import Method, score_shape
from brainroam.utils.model_files import part

NOTHING = 0.7  # blocks that are believed to have nothing to say, before their scores are seen
SLAB = 0.4  # spread of the slopes of others, in standard deviations of the target
CLEAR = 0.9  # probability of saying something, or share of the weight, that one block at least should reach
UNCLEAR = (
    "with {people} people, held-out sites cannot tell which block says something (probability: {told}), and a "
    "block of noise may cost points; if you know which one to trust, name it: {method}[blocks=NAME]"
)


def parts_of(method: str, blocks: Sequence[str]) -> list[str]:
    """A method on each block alone, and on all but one, so that a comparison says what each block adds.

    >>> parts_of("ensemble", ["rest", "anatomy"])
    ['ensemble[blocks=rest]', 'ensemble[blocks=anatomy]']
    """
    others = ["+".join(other for other in blocks if other != block) for block in blocks]
    return [f"{method}[blocks={part}]" for part in dict.fromkeys([*blocks, *others])]


class BlockSum(Method):
    """The sum of one fitted method per block.

    Parameters
    ----------
    members : mapping of str to Method
        A method for each block, tuned on inner held-out sites (`TunedMethod`).

    Attributes
    ----------
    weights_ : ndarray
        Of the blocks' scores, in the order of ``members``.
    inner_scores_ : ndarray
        Out-of-site score of each training person; NaN where no block has one.
    """

    def __init__(self, members: Mapping[str, Any]) -> None:
        self.members = dict(members)

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Fit every block on those who have it, and weigh them on inner held-out sites."""
        shape = score_shape(len(cohort), cohort.target)
        inner = np.full((*shape, len(self.members)), np.nan)
        for k, (name, member) in enumerate(self.members.items()):
            have = np.flatnonzero(cohort.has_block(name))
            inner[have, ..., k] = member.fit(cohort.block(name).subset(have), seed).inner_scores_
        site, y = cohort.table["site"].to_numpy(), cohort.targets
        # Several classes: each person counts once for each, with the score of the class and whether it is theirs.
        rows = inner.reshape(-1, len(self.members))
        if shape[1:]:
            columns = [np.char.add(site.astype(str), f"/{k}") for k in range(shape[1])]
            site, y = np.stack(columns, axis=1).ravel(), cohort.target.columns(cohort.targets).ravel()
        weighing = weigh(rows, y, site)
        self.weights_ = weighing.weights
        self.inner_scores_ = np.where(np.isfinite(inner).any(axis=-1), np.nan_to_num(inner) @ self.weights_, np.nan)
        shares = self.weights_ * spread_within_sites(rows, site)
        each = ", ".join(f"{name} {share:.0%}" for name, share in zip(self.members, shares / shares.sum(), strict=True))
        method, weighed = next(iter(self.members.values())).info.name, len(self.members) > 1
        self.notes_ = [f"weights of the blocks in {method}, from inner held-out sites: {each}"] if weighed else []
        if weighed and max(weighing.says_something.max(), (shares / shares.sum()).max()) < CLEAR:
            self.notes_.append(
                UNCLEAR.format(people=cohort.n_people, told=weighing.describe(self.members), method=method)
            )
        for name, member in self.members.items():
            self.notes_ += [f"{name}: {note}" for note in member.notes_]
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The weighted sum; a block that somebody lacks adds 0."""
        target = next(iter(self.members.values())).target_
        scores = np.zeros((*score_shape(len(cohort), target), len(self.members)))
        for k, (name, member) in enumerate(self.members.items()):
            have = np.flatnonzero(cohort.has_block(name))
            if len(have):
                scores[have, ..., k] = member.score(cohort.block(name).subset(have))
        return scores @ self.weights_

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any] | None:
        """The explanation of the block with the largest weight; for another one set ``blocks`` to its name."""
        name = max(self.members, key=lambda name: self.weights_[list(self.members).index(name)])
        return self.members[name].model_.explanation(cohort.block(name), top)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Missing covariates of any block's method."""
        tables = [member.missing_covariates(cohort) for member in self.members.values()]
        table = pd.concat(tables, axis=1)
        return table.T.groupby(level=0, sort=False).any().T if len(table.columns) else table

    def state(self) -> dict[str, np.ndarray]:
        """Weights, and what each block's method learned."""
        parts = {f"{name}.{key}": v for name, member in self.members.items() for key, v in member.state().items()}
        weights = zip(self.members, self.weights_, strict=True)
        return {**{f"{name}.weight": np.array([weight]) for name, weight in weights}, **parts}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.weights_ = np.concatenate([state[f"{name}.weight"] for name in self.members])
        for name, member in self.members.items():
            member.load_state(part(state, name))
        return self


def can_be_learned(cohort: Cohort, name: str) -> bool:
    """Whether enough people have a block to learn from it: two people of two classes each, or five with a number."""
    y = cohort.targets[cohort.has_block(name)]
    return cohort.target.is_learnable(y)


def parts_read(model: Method, cohort: Cohort) -> dict[str, tuple[Method, Cohort]]:
    """The method of each block with the people who have it, by name; of one measurement the method itself, as ""."""
    if not isinstance(model, BlockSum):
        return {"": (model, cohort)}
    have = {name: np.flatnonzero(cohort.has_block(name)) for name in model.members}
    return {
        name: (member.model_, cohort.block(name).subset(have[name]))
        for name, member in model.members.items()
        if len(have[name])
    }


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights (k,) of blocks, and the probability of each to say something; see the module's formula."""

    weights: np.ndarray
    says_something: np.ndarray

    def describe(self, names: Iterable[str]) -> str:
        """The probability of each block to predict at all, in words."""
        return ", ".join(f"{name} {p:.0%}" for name, p in zip(names, self.says_something, strict=True))


def weigh(scores: np.ndarray, y: np.ndarray, site: np.ndarray) -> Weighing:
    """Weights of the columns (n, k) of out-of-site scores.

    >>> rng = np.random.default_rng(0)
    >>> y, site = np.tile([0, 1], 200), np.repeat(["A", "B"], 200)
    >>> told, noise = rng.normal(size=400) + y, rng.normal(size=400)
    >>> found = weigh(np.column_stack([told, noise]), y, site)
    >>> bool(found.weights[0] > 10 * found.weights[1]), (found.says_something > CLEAR).tolist()
    (True, [True, False])
    """
    scale = spread_within_sites(scores, site)
    complete = np.isfinite(scores).all(axis=1)
    s, target = (within_sites(x[complete], site[complete]) for x in (scores / scale, y.astype(float)))
    free = len(s) - len(np.unique(site[complete])) - s.shape[1]
    return weigh_moments(s.T @ s, s.T @ target, float(target @ target), len(s), np.full(len(scale), free), scale)


def weigh_moments(
    products: np.ndarray, with_target: np.ndarray, square: float, n_people: int, free: np.ndarray, scale: np.ndarray
) -> Weighing:
    """The same from sums over people: s's (k, k) and s't (k,) of scores over their ``scale`` (k,), and t't.

    ``free`` (k,) are degrees of freedom; without any, blocks weigh the same.
    """
    if free.min() < 1 or square <= 0:
        return Weighing(1 / scale, np.zeros(len(scale)))
    inverse = np.linalg.pinv(products, hermitian=True)
    beta = inverse @ with_target
    error = np.diag(inverse) * max(square - float(with_target @ beta), 0.0) / free
    slopes, says_something = expected_slopes(beta, error, SLAB * np.sqrt(square / n_people))
    return Weighing(slopes / scale, says_something)


def expected_slopes(beta: np.ndarray, error: np.ndarray, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means of slopes that are 0 with probability `NOTHING`, else half normal with this spread.

    ``error`` are the squared standard errors of the estimates ``beta``. Also returns the probabilities that they are
    not 0.

    >>> slopes, probability = expected_slopes(np.array([0.2, 0.2, -0.2]), np.array([1e-6, 0.04, 1e-6]), 0.2)
    >>> slopes.round(3).tolist(), probability.round(2).tolist()
    ([0.2, 0.059, 0.0], [1.0, 0.37, 0.0])
    """
    error = np.maximum(error, 1e-12)
    shrunken = spread**2 / (spread**2 + error)
    mean, deviation = shrunken * beta, np.sqrt(shrunken * error)
    positive = norm.logcdf(mean / deviation)
    slab = np.log(2 * (1 - NOTHING)) + norm.logpdf(beta, scale=np.sqrt(spread**2 + error)) + positive
    spike = np.log(NOTHING) + norm.logpdf(beta, scale=np.sqrt(error))
    expected, probability = mean + deviation * np.exp(norm.logpdf(mean / deviation) - positive), expit(slab - spike)
    weights = np.maximum(expected, 0.0) * probability
    return (weights if weights.max() > 1e-9 else np.ones(len(beta))), probability


def names_of(asked: str | Sequence[str]) -> list[str]:
    """Names of blocks from a setting: ``rest+anatomy``, or a list.

    >>> names_of("rest+anatomy")
    ['rest', 'anatomy']
    """
    return [name.strip() for name in asked.split("+")] if isinstance(asked, str) else list(asked)
