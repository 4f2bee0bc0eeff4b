"""Does a result cheat? Checks for any method, registered or your own, and for the data it was had from.

The audit sees what a method does while it runs. It cannot see what was done to the data before: a scaler fitted on
everybody and then forgotten leaves no trace, so let your procedure begin with the raw data.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from threadpoolctl import threadpool_limits

from brainroam.audit.candidates import Candidate, Procedure, candidate
from brainroam.audit.data import confounds_only, duplicates, site_decodability
from brainroam.audit.finding import Audit, Check
from brainroam.audit.leaks import leak_checks
from brainroam.audit.shuffle import mean_auc, permuted_within_site, shuffle_checks
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.execution.progress import show_progress
from brainroam.methods.base import Method, MethodInfo

__all__ = ["Audit", "Check", "Procedure", "audit"]

DEFAULT_METHODS = ("fc-ridge",)
PERMUTATIONS = 19  # the fewest with which p can reach 0.05


@threadpool_limits.wrap(limits=1)  # the same verdict on any number of cores
def audit(
    cohort: Cohort,
    methods: Sequence[str | MethodInfo | type[Method] | Procedure] = DEFAULT_METHODS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    progress: bool = False,
) -> Audit:
    """Search a cohort and methods for leaks and shortcuts.

    Parameters
    ----------
    cohort : Cohort
    methods : sequence
        Registered names (``"core[budget=20]"``), `Method` classes, `MethodInfo`, or any function
        ``procedure(cohort, train, test, seed)`` that returns a score for each test person; ``train`` and ``test`` are
        positions in the cohort.
    permutations : int
        Of the labels, for each method; 0 leaves that test out.
    seed : int
        Draws the site to hold out, the corruption and the permutations, and is passed to the methods.
    progress : bool
        Show how far it is on stderr.

    Examples
    --------
    >>> import brainroam
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from brainroam.core.connectivity import cohort_edges
    >>> def scaled_on_everybody(cohort, train, test, seed):
    ...     edges = cohort_edges(cohort, "pearson")
    ...     edges = (edges - edges.mean(axis=0)) / edges.std(axis=0)
    ...     model = RidgeClassifier(alpha=100).fit(edges[train], cohort.labels[train])
    ...     return model.decision_function(edges[test])
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=16, n_rois=10)
    >>> found = audit(cohort, ["fc-ridge", scaled_on_everybody], permutations=0)
    >>> [(check.name, check.method) for check in found.checks if check.passed is False]
    [('corruption', 'scaled_on_everybody')]
    """
    if permutations < 0 or permutations == 1:
        raise UsageError(f"permutations must be 0 (none) or at least 2, got {permutations}")
    cohort.labels  # noqa: B018  who has none is named before anything is computed
    candidates = [candidate(method) for method in ([methods] if isinstance(methods, str) else methods)]
    of_data: list[tuple[str, Callable[[], Check]]] = [
        ("duplicates", partial(duplicates, cohort)),
        ("site decodability", partial(site_decodability, cohort, seed)),
        ("confounds only", partial(confounds_only, cohort)),
    ]
    checks: list[Check] = []
    steps = 2 + permutations if permutations else 1
    with show_progress(len(of_data) + len(candidates) * steps, progress) as advance:
        for name, check in of_data:
            checks.append(check())
            advance(name)
        for item in candidates:
            checks += leak_checks(item, cohort, seed)
            advance(f"{item.name}: leaks")
            checks += _shuffled(item, cohort, permutations, seed, advance)
    return Audit(tuple(checks), cohort.manifest_hash)


def _shuffled(
    item: Candidate, cohort: Cohort, permutations: int, seed: int, advance: Callable[[str], None]
) -> Iterator[Check]:
    if permutations == 0:
        return
    real = mean_auc(item, cohort, seed)
    advance(f"{item.name}: AUC {real:.3f}")
    shuffled = []
    for k in range(permutations):
        shuffled.append(mean_auc(item, permuted_within_site(cohort, seed + k), seed))
        advance(f"{item.name}: AUC {shuffled[-1]:.3f} with permuted labels")
    yield from shuffle_checks(item.name, real, shuffled)
