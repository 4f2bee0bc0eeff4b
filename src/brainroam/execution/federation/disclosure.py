"""What may leave a site: nothing that fewer than k people share, and nothing that one person decides.

Everything a first summary says about edge j is linear in the values y_j of the site's people: the regression is X'W y_j
(W Huber's weights) and the contrast c'y_j. The best linear guess of one person's value from all of it has

    R^2 = h_ij = [A (A'A)^-1 A']_ii,     A = [W_j X, c],  X = [1, covariates],  c = the contrast of the classes

which is that person's leverage. A mean over m people has h = 1/m, a level, class or edge of m people h >= 1/m, and
somebody whom the regression fits exactly h = 1. So one rule bounds them all:

1.  counts       every level of a covariate, each class within it and each cell of two such columns has k people, and
                 so many of each class are known; else the column is dropped
2.  design       h_i <= 3/(2k) for everybody; else the column to blame is drawn in (its 2, 3, ... k most extreme values
                 on either side are set to the last of them), and dropped where that is not enough
3.  edges        nobody stands out in its values (`brainroam.execution.federation.dominance`), k people of each class
                 have it, and h_ij <= 5/(3k), at most 1/3, for everybody with the weights of that edge; else the edge is
                 dropped, as if nobody of the site had it
4.  products     sum r r' = F'F fixes the people up to a rotation, which independent component analysis finds where
                 edges are many and people few: at most ten edges for each person of the site are told. Who lacks edges
                 has zeros there: they are one of the directions of F that vanish on those edges. There must be k of
                 them; else these edges are dropped
5.  scores       no person bears more than 1/3, and no k - 1 people more than 4/5, of the spread of the scores, and
                 nobody more than 1/3 of their sizes within a class; else the k most extreme are set to the last of them

A column that is dropped is unknown for everybody of the site, in all rounds.

Of several classes each has k people, and c is a column for each but the first. A number t has 2 k people, and c = t
about its mean: whoever is extreme in it weighs most in every slope. So t itself is drawn in like a covariate, until
h_i <= 3/(2k) with [1, t] alone, and the site is refused where nobody differs then; means, slopes and products are of
the drawn-in number.

Of an order each step that is told of has k people: those of a step with fewer are set to the next step towards the
median, and so are the outermost people who weigh too much. The site is refused where one step is left.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from brainroam.core.connectivity import edge_blocks
from brainroam.core.covariates import CovariateEncoder
from brainroam.core.site_fit import MAD_OF_A_STANDARD_NORMAL
from brainroam.core.site_summary import own_residuals
from brainroam.execution.federation.dominance import FEW, ONE
from brainroam.execution.federation.labels import Labels

MIN_COUNT, LEAST_COUNT = 5, 3
IN_DESIGN, AT_EDGE = 1.5, 5 / 3  # times 1 / k; the room between is for robust weights and missing people
EDGES_PER_PERSON = 10  # of products; with 20, residuals of one of 27 people of ABIDE were found with r = 0.94
MOST_LEVELS = 5
FEW_PEOPLE = "dropped: a level, a class within it or a cell with another column has fewer than {k} people"
FEW_KNOWN = "dropped: known for fewer than {k} people of a class"
FAR = "dropped: one person lies far from all others"
FEW_ON_EDGE = "{n} dropped: fewer than {k} people have them, one stands out, or they are more than the site may tell"
ON_EDGE_DRAWN_IN = "{n} drawn in: somebody stood out, whose values were set to less extreme ones of other people"
STEPS_JOINED = "drawn in: people at steps that fewer than {k} share were set to the next step"
DRAWN_IN = "drawn in: extreme values were set to less extreme ones of other people"


def disclosable_covariates(covariates: pd.DataFrame, y: np.ndarray, k: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """The covariates that a site may use, rules 1 and 2: NaN in a column that is dropped, and why by column.

    >>> one_left_hander = pd.DataFrame({"age": np.linspace(20, 40, 40), "left": np.eye(40)[0]})
    >>> table, why = disclosable_covariates(one_left_hander, np.tile([0, 1], 20), 5)
    >>> table.isna().all().to_dict(), why["left"][:7]
    ({'age': False, 'left': True}, 'dropped')
    """
    table = pd.DataFrame(CovariateEncoder().fit(covariates).encode(covariates), columns=covariates.columns)
    why: dict[str, str] = {}

    def drop(name: str, reason: str) -> None:
        table[name], why[name] = np.nan, reason.format(k=k)

    labels = Labels.of(y)
    masks, least, classes = *labels.groups(k), pd.Series(labels.codes)
    for name in table:
        present = table[name].notna().to_numpy()
        if min((present & mask).sum() for mask in masks) < least:
            drop(name, FEW_KNOWN)
        elif _of_levels(table[name], k) and _fewest(table[name], classes) < k:
            drop(name, FEW_PEOPLE)
    for one, other in combinations(table, 2):
        both = all(_of_levels(table[name], k) and table[name].nunique() > 1 for name in (one, other))
        if both and _fewest(table[one], table[other]) < k:
            drop(min(one, other, key=lambda name: table[name].value_counts().min()), FEW_PEOPLE)
    original, reached = table.copy(), dict.fromkeys(table, 1)
    while (h := _leverage(_design(table, y))).max() > IN_DESIGN / k:
        person = int(h.argmax())
        varying = [name for name in table if table[name].nunique() > 1]
        if not varying:
            break
        blamed = min(varying, key=lambda name: _leverage(_design(table.drop(columns=name), y))[person])
        reached[blamed] += 1
        if reached[blamed] > k or _of_levels(original[blamed], k):
            drop(blamed, FAR)
            continue
        ordered = np.sort(original[blamed].dropna())
        table[blamed] = original[blamed].clip(ordered[reached[blamed] - 1], ordered[-reached[blamed]])
        if table[blamed].nunique() > 1:
            why[blamed] = DRAWN_IN
        else:
            drop(blamed, FAR)
    return table, why


def disclosable_number(t: np.ndarray, k: int) -> np.ndarray | None:
    """A number whose extreme values are drawn in until nobody has too much leverage; None where nobody differs then.

    Of few different values each is that of k people.

    >>> disclosable_number(np.r_[np.arange(30.0), 1000.0], 5).max()
    np.float64(29.0)
    >>> disclosable_number(np.r_[np.zeros(30), 1.0, 1.0], 5) is None
    True
    """
    ordered = np.sort(t)
    for reach in range(1, k + 1):
        drawn = np.clip(t, ordered[reach - 1], ordered[-reach])
        shared = np.unique(drawn, return_counts=True)[1]
        few = len(shared) <= MOST_LEVELS and shared.min() < k
        fair = _leverage(np.column_stack([np.ones(len(t)), drawn])).max() <= IN_DESIGN / k
        if np.ptp(drawn) > 0 and fair and not few:
            return drawn
    return None


def disclosable_steps(t: np.ndarray, k: int) -> np.ndarray | None:
    """Steps of an order, each that of k people and nobody with too much leverage; None where one step is left.

    >>> disclosable_steps(np.repeat([1.0, 2, 3, 4], [20, 3, 20, 1]), 5)[[0, 20, 23, 43]].tolist()
    [1.0, 3.0, 3.0, 3.0]
    >>> disclosable_steps(np.repeat([1.0, 2], [20, 4]), 5) is None
    True
    """
    drawn = t.copy()
    while np.ptp(drawn) > 0:
        steps, people = np.unique(drawn, return_counts=True)
        middle = float(np.median(drawn))
        far = np.abs(steps - middle)
        h = _leverage(np.column_stack([np.ones(len(t)), drawn]))
        if people.min() < k:
            blamed = int(np.where(people < k, far, -1).argmax())
        elif h.max() > IN_DESIGN / k:
            blamed = int(np.searchsorted(steps, drawn[h.argmax()]))
        else:
            return drawn
        inwards = blamed - 1 if blamed == len(steps) - 1 or (blamed and steps[blamed] > middle) else blamed + 1
        drawn[drawn == steps[blamed]] = steps[inwards]
    return None


def singled_out(values: np.ndarray, covariates: pd.DataFrame, y: np.ndarray, huber_k: float, k: int) -> np.ndarray:
    """Which edges (M,) of a site have somebody with a leverage above 5/(3k), rule 3; not of edges that nobody has.

    >>> rng = np.random.default_rng(0)
    >>> edges, y = rng.normal(size=(40, 3)), np.tile([0, 1], 20)
    >>> edges[2:, 1] = np.nan
    >>> singled_out(edges, pd.DataFrame(index=range(40)), y, 1.345, 5).tolist()
    [False, True, False]
    """
    x = _basis(np.column_stack([np.ones(len(y)), CovariateEncoder().fit(covariates).impute(covariates)]))
    residuals = own_residuals(values, covariates, huber_k)[1]
    singled = np.zeros(values.shape[1], dtype=bool)
    for block in edge_blocks(values.shape[1]):
        singled[block] = _largest_leverage(x, residuals[:, block], y, huber_k, k) > min(ONE, AT_EDGE / k)
    return singled


def recognisable(residuals: np.ndarray, missing: np.ndarray, k: int) -> np.ndarray:
    """Which edges (N,) would show the residuals (n, N) of somebody who lacks them, rule 4.

    >>> rng = np.random.default_rng(0)
    >>> r, missing = rng.normal(size=(20, 200)), np.zeros((20, 200), dtype=bool)
    >>> missing[0, :40] = True
    >>> int(recognisable(np.where(missing, 0, r), missing, 5).sum())
    40
    """
    hidden, rank = np.zeros(missing.shape[1], dtype=bool), np.linalg.matrix_rank(residuals)
    for lacking in np.unique(missing[missing.any(axis=1)], axis=0):
        directions = rank - np.linalg.matrix_rank(residuals[:, lacking])
        if directions < min(k, (~lacking).sum()):
            hidden |= lacking
    return hidden


def disclosable_edges(edges: np.ndarray, priority: np.ndarray, before: np.ndarray, n_people: int) -> np.ndarray:
    """Which of the edges asked for (N,) have their place among ten per person, those told before and most wanted first.

    >>> disclosable_edges(np.arange(4), np.array([0.1, 0.4, 0.3, 0.2]), np.arange(100, 128), 3)
    array([False,  True,  True, False])
    """
    told_before = np.isin(edges, before)
    order = np.argsort(np.where(told_before, np.inf, priority), kind="stable")[::-1]
    room = EDGES_PER_PERSON * n_people - len(before) + int(told_before.sum())
    may_tell = told_before.copy()
    may_tell[order[: max(room, 0)]] = True
    return may_tell


def drawn_in(score: np.ndarray, k: int, groups: Sequence[np.ndarray] = ()) -> np.ndarray:
    """Scores none of which stands apart, rule 5; nor, by its size, in one of these groups (masks).

    >>> drawn_in(np.array([0.0] * 30 + [9.0]), 5).max()
    np.float64(0.0)
    """
    distance = np.abs(score - np.median(score))
    share = np.sort(distance**2)[::-1] / max(float((distance**2).sum()), 1e-300)
    if share[0] > ONE or share[: k - 1].sum() > FEW:
        score = _within_kth(score, k)
    for group in groups:
        size = np.abs(score[group] - np.median(score[group]))
        if size.max() > ONE * size.sum():
            score = score.copy()
            score[group] = _within_kth(score[group], k)
    return score


def _within_kth(score: np.ndarray, k: int) -> np.ndarray:
    """Scores no farther from their median than the k-th farthest."""
    middle = np.median(score)
    most = np.sort(np.abs(score - middle))[-k]
    return np.clip(score, middle - most, middle + most)


def _of_levels(values: pd.Series, k: int) -> bool:
    """Whether a column has so few different values that each could be shared by 2k people."""
    return values.nunique() <= min(MOST_LEVELS, max(2, len(values) // (2 * k)))


def _fewest(one: pd.Series, other: pd.Series) -> int:
    """The smallest cell of a table of two columns."""
    return int(pd.crosstab(one, other).to_numpy().min(initial=len(one)))


def _design(table: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """Intercept, class or number, and covariates, who is unknown at the mean."""
    columns = [table[name].fillna(table[name].mean()) for name in table if table[name].nunique() > 1]
    return np.column_stack([np.ones(len(y)), y, *columns])


def _basis(design: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the same."""
    mean = design.mean(axis=0)
    size = np.linalg.norm(design - mean, axis=0)
    varies = size > 1e-9 * np.maximum(1, np.abs(mean))
    centred = (design - mean)[:, varies] / size[varies]
    u, singular, _ = np.linalg.svd(centred, full_matrices=False)
    return np.column_stack([np.full(len(design), len(design) ** -0.5), u[:, singular > 1e-9]])


def _leverage(design: np.ndarray) -> np.ndarray:
    return (_basis(design) ** 2).sum(axis=1)


def _largest_leverage(x: np.ndarray, residuals: np.ndarray, y: np.ndarray, huber_k: float, k: int) -> np.ndarray:
    """max_i h_ij of each edge; 0 where nobody has it, 1 where fewer than k people of a class do."""
    present, labels = np.isfinite(residuals), Labels.of(y)
    masks, least = labels.groups(k)
    size = np.abs(np.where(present, residuals, 0))
    with np.errstate(all="ignore"):
        ordered = np.sort(np.where(present, size, np.nan), axis=0)  # NaN last
        n, column = present.sum(axis=0), np.arange(residuals.shape[1])
        middle = (ordered[np.maximum(n - 1, 0) // 2, column] + ordered[np.minimum(n // 2, len(y) - 1), column]) / 2
        weights = np.where(size > (limit := huber_k * middle / MAD_OF_A_STANDARD_NORMAL), limit / size, 1.0) * present
        counts = np.stack([(present & mask[:, None]).sum(axis=0) for mask in masks])
        contrasts = labels.contrasts(present)
    columns = [weights.T[:, :, None] * x, *(np.nan_to_num(contrast).T[:, :, None] for contrast in contrasts)]
    a = np.concatenate(columns, axis=2)
    a /= np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300)
    inverse = np.linalg.pinv(np.swapaxes(a, 1, 2) @ a, rcond=1e-10, hermitian=True)
    h = ((a @ inverse) * a).sum(axis=2).max(axis=1)
    return np.where(n == 0, 0.0, np.where(counts.min(axis=0) < least, 1.0, h))
