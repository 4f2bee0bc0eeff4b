"""Checks for leaks and shortcuts, of any method (registered or your own) and of the data.

The audit sees what a method does while it runs, at one held-out site, on data that it changes; `CANNOT_SEE` lists what
leaves no trace there. Let your procedure begin with the raw data.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from brainroam.audit.candidates import Procedure, candidates_of
from brainroam.audit.fresh import FreshProcesses
from brainroam.audit.kept import KeptChecks, key_of
from brainroam.audit.leaks import leak_check_names, leak_checks
from brainroam.audit.pace import Pace, expected
from brainroam.audit.shortcuts import (
    FEWEST,
    OF_PERMUTATIONS,
    confounds_only,
    duplicates,
    permutation_checks,
    site_decodability,
)
from brainroam.audit.stress import shortcut_of, stress_check
from brainroam.data.cohort import Cohort
from brainroam.errors import UsageError
from brainroam.evaluation.checks import Audit, Check
from brainroam.execution.progress import View, show_progress
from brainroam.methods.registry import Judged
from brainroam.utils.optional import one_thread

__all__ = ["CANNOT_SEE", "Audit", "Check", "Procedure", "audit"]

DEFAULT_METHODS = ("fc-ridge",)
CANNOT_SEE = (
    "what was done to the data before they were read: scaled, harmonised, cleaned or selected with everybody",
    "features from weights that were trained elsewhere with the labels of the same people",
    "settings, exclusions or a choice of method made by people who had seen results at the test sites",
    "one person at two sites whose scans do not resemble each other, and relatives",
    "a cache on disk that was filled before the audit began: empty it first",
    "a leak that waits: for a larger cohort, another day, another machine",
    "edges chosen on everybody through a closure: what a method carries with it may come from everybody's labels",
    "code that looks for labels of held-out people in the memory of its process, in a study and never in an audit",
    "code that changes brainroam after the figures of a study were computed again: read the runs in a new process",
)


@one_thread()  # the same verdict on any number of cores
def audit(
    cohort: Cohort,
    methods: Judged | Sequence[Judged] | Mapping[str, Judged] = DEFAULT_METHODS,
    permutations: int = FEWEST,
    seed: int = 0,
    progress: bool | View = False,
    out: str | Path | None = None,
    stress: str | None = None,
) -> Audit:
    """Search a cohort and methods for leaks and shortcuts.

    Parameters
    ----------
    cohort : Cohort
    methods : str, estimator, function, sequence or mapping
        One or several, or several under names of one's own: registered names (``"core[budget=20]"``), `Method` classes,
        `MethodInfo`, estimators, or any function ``procedure(cohort, train, test, seed)`` that returns a score for each
        test person, of several classes one for each (n, K); ``train`` and ``test`` are positions in the cohort.
    permutations : int
        Of the labels, for each method; 0 leaves that test out.
    seed : int
        Draws the site to hold out, the corruption and the permutations, and is passed to the methods.
    progress : bool or callable
        Show how far it is on stderr, or in a view of one's own (`brainroam.execution.progress`).
    out : path, optional
        A JSON file in which every check is kept as it is done. What it holds of the same data, methods, settings and
        code is not done again, so an audit that was interrupted is resumed by the same call.
    stress : {"motion", "age", "sex", "length"}, optional
        Also hold out every site once, and compare pairs of a case and a control who differ in this as at the other
        sites with pairs who differ the other way.

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
    [('corruption', 'scaled_on_everybody'), ('lengths', 'scaled_on_everybody')]
    """
    if permutations < 0 or permutations == 1:
        raise UsageError(f"permutations must be 0 (none) or at least 2, got {permutations}")
    cohort.targets  # noqa: B018  who has none is named before anything is computed
    candidates = candidates_of(methods)
    if stress is not None:
        shortcut_of(cohort, stress)  # what is unknown is named before anything is computed
    of_data: list[tuple[str, Callable[[], Check]]] = [
        ("duplicates", partial(duplicates, cohort)),
        ("site-decodability", partial(site_decodability, cohort, seed)),
        ("confounds-only", partial(confounds_only, cohort)),
    ]
    kept, checks = KeptChecks(None if out is None else Path(out)), list[Check]()
    names = leak_check_names(cohort)
    steps = len(of_data) + len(candidates) * (len(names) + (permutations + 1 if permutations else 0) + bool(stress))
    with show_progress(steps, progress) as advance, FreshProcesses() as processes:
        if progress and (words := expected(candidates, cohort, permutations)):
            advance.say(words)
        key = key_of(None, cohort, seed)
        known = kept.under(key, "")
        for name, check in of_data:
            checks += kept.add([known.get(name) or check()], key)
            advance(name)
        for item in candidates:
            key = key_of(item, cohort, seed)
            known = kept.under(key, item.name)
            pace, left = Pace(item.name, cohort, permutations, advance), dict.fromkeys(names)
            for outcome in leak_checks(item, cohort, processes, seed, known):
                checks += kept.add([outcome], key)
                pace.after(outcome.name)
                advance(f"{item.name}: {outcome.name}")
                left.pop(outcome.name)
            for name in left:
                advance(f"{item.name}: {name} does not apply")
            permuted = [known[name] for name in OF_PERMUTATIONS if name in known]
            if permutations and not (permuted and permuted[0].evidence.startswith(f"{permutations} permutations ")):
                permuted = list(permutation_checks(item, cohort, processes, permutations, seed, advance))
            elif permutations:
                for _ in range(permutations + 1):
                    advance(f"{item.name}: permuted before")
            checks += kept.add(permuted, key)
            if stress is not None:
                checks += kept.add([known.get(f"stress-{stress}") or stress_check(item, cohort, stress, seed)], key)
                advance(f"{item.name}: stress-{stress}")
    audited = Audit(tuple(checks), cohort.manifest_hash, CANNOT_SEE)
    kept.complete(audited)
    return audited


class _CallablePackage(ModuleType):
    """A package that can be called: ``brainroam.audit(cohort)`` runs the audit."""

    __call__ = staticmethod(audit)


sys.modules[__name__].__class__ = _CallablePackage
