"""Which runs a study asks for: folds x methods x seeds, checked before anything is computed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from brainroam.data.cohort import Cohort
from brainroam.data.columns import levels_of
from brainroam.data.folds import Fold
from brainroam.errors import UsageError, unknown
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.run_records import RunSpec, atlas_hash, people_hash, plain, table_hash
from brainroam.evaluation.splits import UNITS
from brainroam.methods.adapter import resolve
from brainroam.methods.base import MethodInfo
from brainroam.methods.naming import TUNINGS, full_name
from brainroam.utils.parameters import settings_of


class Task(NamedTuple):
    """A run to be done: its spec, the method, and the positions of the people."""

    spec: RunSpec
    info: MethodInfo
    fold: Fold


def make_tasks(
    cohort: Cohort,
    methods: Any,
    protocol: str,
    held_out: Sequence[Fold],
    seeds: int,
    tuning: str,
    parameters: Mapping[str, Any],
) -> Iterator[Task]:
    """Every run of a study, fold by fold, so that what the runs of a fold share is at hand.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.evaluation.splits import folds
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> held_out = list(folds(cohort.table, "loso"))
    >>> for task in make_tasks(cohort, ["fc-ridge", "fc-svm"], "loso", held_out, 3, "full", {}):
    ...     print(task.spec)
    fc-ridge at S01, seed 0
    fc-svm at S01, seed 0
    fc-ridge at S02, seed 0
    fc-svm at S02, seed 0
    """
    if seeds < 1:
        raise UsageError(f"seeds must be at least 1, got {seeds}")
    if tuning not in TUNINGS:
        raise unknown("tuning", tuning, TUNINGS)
    chosen = _configured(methods, protocol, parameters)
    for info, _ in chosen:
        require_fitting(info, cohort)
    _require_covariates(cohort, chosen, held_out)
    of_cohort = cohort.manifest_hash, table_hash(cohort), atlas_hash(cohort)
    versions = {info.name: code_version(info) for info, _ in chosen}
    for fold in held_out:
        people = people_hash(cohort, fold)
        for info, fixed in chosen:
            for seed in range(seeds if info.stochastic else 1):
                run = info.name, fixed, protocol, fold.name, seed, tuning, people
                yield Task(RunSpec(*run, *of_cohort, versions[info.name]), info, fold)


def require_fitting(info: MethodInfo, cohort: Cohort) -> None:
    """Refuse a method that reads nothing of what was measured of these people, or does not learn their target."""
    info.require_target(cohort.target)
    measures = {block.measure for block in cohort.blocks.values()} or {cohort.measure}
    if not measures & set(info.reads):
        info.require_measure(sorted(measures)[0])


def those_fitting(methods: Sequence[str], cohort: Cohort) -> tuple[list[str], list[str]]:
    """The methods that fit these people and their target, and in words why others do not.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> table = brainroam.Cohort([x[:1] for x in cohort.series], cohort.table, measure="table")
    >>> those_fitting(["fc-ridge", "tangent-ridge"], table)
    (['fc-ridge'], ['tangent-ridge reads series, but these people have a table of measures'])
    """
    fitting, reasons = [], []
    for name in methods:
        try:
            for info, _ in resolve(name):
                require_fitting(info, cohort)
            fitting.append(name)
        except UsageError as error:
            reasons.append(str(error))
    return fitting, reasons


def _configured(methods: Any, protocol: str, parameters: Mapping[str, Any]) -> list[tuple[MethodInfo, dict[str, Any]]]:
    """Each method with its fixed parameters, by the name its results will have."""
    found: dict[str, tuple[MethodInfo, dict[str, Any]]] = {}
    for info, own in resolve(methods):
        fixed = plain({**parameters, **own})
        name = full_name(info.name, fixed)
        if name in found:
            raise UsageError(f"{name} is named twice; name every method once, estimators by {{'mine': ...}}")
        if info.in_distribution_only and protocol != "cv":
            raise UsageError(f"{name} cannot predict at a {UNITS[protocol]} it was not trained on; use cv for it")
        info.require(fixed)
        found[name] = info, fixed
    if not found:
        raise UsageError("no method was named; `brainroam methods` lists them")
    return list(found.values())


def _require_covariates(
    cohort: Cohort, chosen: Sequence[tuple[MethodInfo, Mapping[str, Any]]], held_out: Sequence[Fold]
) -> None:
    """Refuse what cannot be a covariate once, rather than in every run of every method that uses it."""
    for info, fixed in chosen:
        own = settings_of(info.make).get("covariates")
        if own is None:
            continue
        table = cohort.covariates(fixed.get("covariates", own.default))
        for name in table:
            for fold in held_out:
                levels_of(table[name].iloc[fold.train], name)
