"""What the edges of a matrix are, told by their numbers alone: correlations, Fisher's z, or values in other units.

Correlations R of series have no negative eigenvalue. z = arctanh(R), with 1 on the diagonal, in general has some, and
tanh(z) has none again. With the eigenvalues v of a matrix whose diagonal is 1 and whose missing edges are 0,

    n(M) = sum of |v| over v < 0  /  sum of |v|

a matrix M holds Fisher's z if no edge is beyond `MOST_Z` and one of these is so:

    some edge is beyond 1 and n(tanh M) <= `MOST_NEGATIVE`, or `MOST_OF_POSITIVE` where no edge is negative
    none is, the diagonal is infinite or `A_LARGE_DIAGONAL` at least
    none is, some are negative and n(M) > `LEAST_NEGATIVE`, n(tanh M) < `RESTORED` n(M)

Measured on 299 people of ABIDE at eight sites. Of z the last rule knows 97 to 100 % with 30 to 116 AAL regions (82 to
86 % where 30 regions were chosen whose z stay below 1), a half to nine tenths with 20, a third with 10. It takes
nobody's correlations for z, nor those of two decimals, positive, absolute or partial ones; of those with noise of .01
in each edge up to a tenth, of 20 regions where correlations within +-.2 were set to 0 a fifth.

Beyond 1, n(tanh M) is 0 of z, up to .24 of z cut off by size (200 regions) and .4 of edges that were standardised over
people. Without negative edges it is up to .1 of positive z, and from .11 on of logarithms of simulated stream counts of
30 regions and more. Absolute z of 116 regions (.11) and positive z above a threshold (.1 to .13) are then taken for
edges in other units, which costs little; counts taken for z would lose all that tanh makes 1.

Edges are in units of their own, as stream counts are, where some are beyond 1, or where none is negative and the median
of those above 0 is less than `HEAVY` of the largest, as of counts over their sum or maximum: .002 to .08 in simulation;
positive, absolute and thresholded correlations of ABIDE have .15 to .5.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from brainroam.errors import listed, unknown

MOST_Z = 6.0  # atanh(0.99999): no correlation of two scanned regions has a larger Fisher z
A_LARGE_DIAGONAL = 3.0  # as covariances it would leave all correlations below 1/3
MOST_NEGATIVE, MOST_OF_POSITIVE = 0.25, 0.1
LEAST_NEGATIVE, RESTORED = 0.002, 0.25
HEAVY = 0.1
LOOKED_AT = 20  # people of a cohort
HELD = ("r", "z")  # what a study may say that the matrices of a site hold


def largest_edge(x: np.ndarray) -> float:
    """The largest absolute value of a matrix beside its diagonal; 0 where there is none.

    >>> largest_edge(np.array([[9.0, -0.5], [-0.5, 9.0]]))
    0.5
    """
    return float(np.abs(edges_alone(x)).max())


def are_fisher_z(matrices: Sequence[np.ndarray], as_given: Sequence[np.ndarray] | None = None) -> bool:
    """Whether the matrices of most people, of whom some are looked at, hold Fisher's z, and nobody's hold more.

    ``as_given`` are the same with the diagonals of their files, which may be infinite.

    >>> are_fisher_z([np.array([[0.0, 1.5], [1.5, 0.0]])]), are_fisher_z([np.array([[0.0, 90.0], [90.0, 0.0]])])
    (True, False)
    """
    largest = np.array([largest_edge(x) for x in matrices])
    told = np.flatnonzero(largest > 0)
    if largest.max() > MOST_Z or not len(told):
        return False
    some = np.unique(told[np.linspace(0, len(told) - 1, LOOKED_AT).astype(int)])
    given = matrices if as_given is None else as_given
    diagonals = [np.diag(np.asarray(given[k], dtype=float)) for k in some]
    are_z = [is_fisher_z(matrices[k], diagonal) for k, diagonal in zip(some, diagonals, strict=True)]
    return float(np.mean(are_z)) > 0.5


def is_fisher_z(x: np.ndarray, diagonal: np.ndarray) -> bool:
    """Whether the numbers of one matrix, and its diagonal, show that they are Fisher's z; see the rules above.

    >>> rng = np.random.default_rng(0)
    >>> r = np.corrcoef(rng.normal(size=(25, 1)) + 1.5 * rng.normal(size=(25, 40)), rowvar=False)
    >>> z = np.arctanh(r - np.eye(40))
    >>> [is_fisher_z(x, np.zeros(40)) for x in (r, np.tanh(z), z)]
    [False, False, True]
    """
    edges, largest = edges_alone(x), largest_edge(x)
    if not 0 < largest <= MOST_Z:
        return False
    if largest > 1 + 1e-6:
        return negative_share(np.tanh(edges)) <= (MOST_NEGATIVE if edges.min() < 0 else MOST_OF_POSITIVE)
    if (diagonal >= A_LARGE_DIAGONAL).all():
        return True
    negative = negative_share(edges) if edges.min() < 0 else 0.0
    return negative > LEAST_NEGATIVE and negative_share(np.tanh(edges)) < RESTORED * negative


def negative_share(edges: np.ndarray) -> float:
    """The share of negative eigenvalues, by size, of a matrix of edges to which a diagonal of 1 is added.

    >>> [round(negative_share(np.array([[0.0, r], [r, 0.0]])), 2) for r in (0.5, 3.0)]
    [0.0, 0.33]
    """
    with threadpool_limits(1, "blas"):
        values = np.linalg.eigvalsh(edges + np.eye(len(edges)))
    return float(np.abs(values[values < 0]).sum() / np.abs(values).sum())


def edges_alone(x: np.ndarray) -> np.ndarray:
    """The edges of a matrix; 0 on the diagonal and where one is missing."""
    return np.where(np.eye(len(x), dtype=bool) | ~np.isfinite(x), 0.0, x)


def in_own_units(x: np.ndarray) -> float:
    """1 for a matrix whose edges are in units of their own, 0 for correlations, NaN without any edge.

    >>> one = np.array([[0.0, 0.5, 0.1], [0.5, 0.0, 0.2], [0.1, 0.2, 0.0]])
    >>> in_own_units(one), in_own_units(100 * one), in_own_units(one**5)
    (0.0, 1.0, 1.0)
    """
    edges, largest = edges_alone(x), largest_edge(x)
    if largest == 0:
        return float("nan")
    heavy = edges.min() >= 0 and np.median(edges[edges > 0]) < HEAVY * largest
    return float(largest > 1 + 1e-6 or heavy)


def correlations_of(z: np.ndarray) -> np.ndarray:
    """A matrix of correlations from Fisher's z, read-only."""
    matrix = np.tanh(z)
    np.fill_diagonal(matrix, 1.0)
    matrix.setflags(write=False)
    return matrix


def correlations_at(
    matrices: Sequence[np.ndarray], sites: Sequence[str], edges: Mapping[str, str]
) -> tuple[list[np.ndarray], list[str]]:
    """Correlations of everybody where ``edges`` says what the matrices of sites hold, and what was done in words.

    Sites that it does not name are told by their numbers, all of them together.

    >>> z = np.array([[0.0, 0.5], [0.5, 0.0]])
    >>> matrices, done = correlations_at([z, z], ["Oslo", "Rome"], {"Oslo": "z"})
    >>> [x[0, 1].round(2).item() for x in matrices], done
    ([0.46, 0.5], ["Fisher's z of Oslo were turned into correlations, as told"])
    """
    for site, told in edges.items():
        if told not in HELD:
            raise unknown(f"edges of {site}:", str(told), HELD)
        if site not in sites:
            raise unknown("site of edges", site, sorted(set(sites)))
    untold = [x for x, site in zip(matrices, sites, strict=True) if site not in edges]
    others = "z" if untold and are_fisher_z([np.asarray(x) for x in untold]) else "r"
    held = [edges.get(site, others) for site in sites]
    named = listed(sorted({site for site, what in zip(sites, held, strict=True) if what == "z"}), 20)
    turned = [correlations_of(x) if what == "z" else x for x, what in zip(matrices, held, strict=True)]
    return turned, [f"Fisher's z of {named} were turned into correlations, as told"] if "z" in held else []
