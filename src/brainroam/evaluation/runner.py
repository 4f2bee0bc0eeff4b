"""Run methods under a protocol; an interrupted study resumes, and finished runs are not repeated."""

import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, astuple, replace
from datetime import date
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.connectivity import EdgeKind, edge_name, features
from brainroam.data.check.duplicates import identical_pairs
from brainroam.data.cohort import Cohort
from brainroam.data.features import FeatureFolder
from brainroam.data.folds import Fold
from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.errors import BrainroamError, UsageError, listed, unknown
from brainroam.evaluation.duration import Pace
from brainroam.evaluation.results import Results, results_of
from brainroam.evaluation.run_records import RunSpec, Task, explanation_to_keep, make_tasks, plain, table_hash
from brainroam.evaluation.runs_folder import RunsFolder, complete_tables
from brainroam.evaluation.splits import HELD_OUT, SEVERAL_SITES, folds, protocol_of
from brainroam.evaluation.tables import metrics_by_site
from brainroam.execution import engine as engines
from brainroam.execution.out_of_core import write_edges
from brainroam.execution.progress import Advance, View, show_progress
from brainroam.methods.registry import STANDARD_TUNING, Judged, is_ours
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.optional import versions

FOLDER = "shared"
PEOPLE_AT_A_TIME = 32
FEW = 1_000_000  # edge values: read and computed before a process could start
COMPANY = "scores of the same people differ when others are scored with them"
SAME = 1e-6  # of the spread of scores: single precision rounds batches otherwise
PACKAGES = ("brainroam", "nilearn", "numpy", "pandas", "scikit-learn", "scipy", "torch")


def evaluate(
    cohort: Cohort,
    methods: Judged | Sequence[Judged] | Mapping[str, Judged],
    protocol: str = "loso",
    seeds: int = 1,
    tuning: str = STANDARD_TUNING,
    out: str | Path | None = None,
    jobs: int = 1,
    engine: str | engines.Engine = "local",
    parameters: Mapping[str, Any] | None = None,
    held_out: Sequence[str] | None = None,
    n_splits: int = 5,
    n_repeats: int = 1,
    force: bool = False,
    partial: bool = False,
    progress: bool | View = False,
    *,
    sites: Sequence[str] | None = None,
) -> Results:
    """Run every method on every fold and seed.

    What ``out`` holds already is not done again, so a study that was interrupted is resumed by the same call. A run
    that fails is recorded with its traceback, does not stop the others, and is tried again at the next call.

    Parameters
    ----------
    cohort : Cohort
    methods : one, a sequence, or a dict by names of your own
        Registered names, with parameters to fix in brackets: ``"core[budget=20]"``; and estimators with ``fit`` and
        ``decision_function`` or ``predict_proba``, as they are (on edges) or in an `EstimatorMethod`, which says what
        they are given.
    protocol : {"leave-one-site-out", "institutions", "halves", "folds"}
        What is held out, see `splits.folds`.
    seeds : int
        Seeds 0, 1, ...; a method that is not random is run once, with seed 0.
    tuning : {"default", "fast", "full"}
        How every method is tuned, see `brainroam.methods.tuning`.
    out : path, optional
        The folder of runs; by default nothing is kept on disk.
    jobs, engine
        How many runs at a time, each on one core, and where, see `brainroam.execution.engine.map`.
    parameters : dict, optional
        Fixed for every method, as if it stood in brackets.
    held_out : sequence of str, optional
        Hold out only these sites (or institutions, or folds), one after the other; training uses everybody else.
    n_splits : int
        Of ``folds``: parts the people are dealt into.
    n_repeats : int
        Of ``folds`` and ``halves``: how often people or sites are split at random.
    force : bool
        Do finished runs again.
    partial : bool
        Return what there is, with a warning, even when some runs failed.
    progress : bool or callable
        Show how far it is on stderr, or in a view of your own (see `progress.View`).
    sites : sequence of str, optional
        The earlier name of ``held_out``.

    Returns
    -------
    Results
        Of the runs asked for here; `load_runs` gives all that a folder holds.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> brainroam.evaluate(cohort, ["fc-ridge"], tuning="fast").scores[["method", "site", "seed", "n"]]
         method site  seed   n
    0  fc-ridge  S01     0  12
    1  fc-ridge  S02     0  12
    2  fc-ridge  S03     0  12
    """
    if not isinstance(cohort, Cohort):
        raise UsageError(
            f"evaluate takes a cohort, not a {type(cohort).__name__}: brainroam.load_cohort(folder), or of arrays "
            "brainroam.Cohort(series, table), whose table has the columns subject, site and label"
        )
    protocol = protocol_of(protocol)
    cohort.targets  # noqa: B018  who has none is named before anything is computed
    splits = _select_folds(cohort, protocol, held_out if sites is None else sites, n_splits, n_repeats)
    _warn_of_copies(cohort, splits)
    tasks = list(make_tasks(cohort, methods, protocol, splits, seeds, tuning, parameters or {}))
    with _folder(out, cohort) as folder:
        folder.plan([task.spec for task in tasks])
        todo = [task for task in tasks if force or folder.status(task.spec) != "done"]
        kinds = {kind: None for task in todo for kind in _edge_kinds(task)}
        running: dict[str, str] = {}
        with (
            engines.open_engine(engine, jobs) as where,
            _share_edges(cohort, list(kinds), folder.path, jobs, where, progress) if todo else nullcontext(),
            show_progress(len(todo), progress) as advance,
            closing(engines.map(execute, todo, cohort, jobs, where, _show_running(running, advance))) as outcomes,
        ):
            pace = Pace(todo, cohort, folder.runs.values()) if progress and todo else None
            if pace and (words := pace.before.text(len(todo), jobs)):
                advance.say(words)
            for task, outcome in outcomes:
                running.pop(task.spec.hash, None)
                if isinstance(outcome, engines.Failure):
                    outcome = {"status": "failed", **asdict(outcome)}
                folder.keep(task.spec, outcome)
                advance(_run_line(task.spec, outcome))
                if pace and (words := pace.after(task.spec, outcome, jobs)):
                    advance.say(words)
                advance.now(_running_text(running))
        everything = complete_tables(folder.path)  # also what other commands have finished there meanwhile
        results = results_of(everything, [task.spec for task in tasks], partial, permanent=out is not None)
        return replace(results, path=None if out is None else everything.path)


def _edge_kinds(task: Task) -> tuple[EdgeKind, ...]:
    return task.info.make(**task.info.settings(task.spec.parameters)).edge_kinds


def execute(cohort: Cohort, task: Task) -> dict[str, Any]:
    """Learn on the training people, score the held-out ones, and return the result as plain values."""
    start, spec = time.perf_counter(), task.spec
    require_unchanged(cohort, spec, "before")
    training, held_out = cohort.subset(task.fold.train), cohort.subset(task.fold.test)
    model = TunedMethod(task.info, spec.tuning, **spec.parameters).fit(training, spec.seed)
    score = model.score(held_out)
    target = cohort.target
    columns = target.scored(model, held_out.table["label"].to_numpy(dtype=float), score)
    facts = target.facts(model, people_of(training.table, ())["label"].to_numpy(dtype=float))
    explanation = explanation_to_keep(model.model_, training, held_out.without_labels())
    require_unchanged(cohort, spec)
    scans = held_out.table.assign(**columns)
    site = scans["site"].to_numpy(dtype=str)

    def metrics_of(who: np.ndarray | slice) -> dict[str, float | int]:
        return target.at_site(target.decided(people_of(scans[who], ()), model), facts)

    if spec.protocol == "loio":
        scans = scans.assign(institution=spec.fold)  # also where names of sites tell it
    of_several_sites = spec.protocol in SEVERAL_SITES  # one model, so that each of its sites can be measured by itself
    names = [name for name in ("person", "institution") if name in scans]
    everybody = slice(None)
    each = {name: metrics_of(site == name) for name in np.unique(site)} if of_several_sites else metrics_of(everybody)
    return plain(
        {
            "status": "done",
            "predictions": {
                "subject": scans["subject"].tolist(),
                **{name: scans[name].fillna("").astype(str).tolist() for name in names},
                **({"site": site} if of_several_sites else {}),
                **columns,
            },
            "metrics": each,
            **facts,
            "next_site": _facts_for_next_site(model),
            "configuration": model.configuration_,
            **({"summary": task.info.summary} if task.info.estimator is not None else {}),  # no registry knows it
            "notes": [*filter(None, [task.fold.note]), *model.notes_, *_note_on_company(model, held_out, score)],
            **({"explanation": explanation} if explanation else {}),
            "seconds": round(time.perf_counter() - start, 3),
            "date": date.today().isoformat(),
            "versions": {"python": python_version(), **versions(PACKAGES)},
        }
    )


def require_unchanged(cohort: Cohort, spec: RunSpec, when: str = "while") -> None:
    """Refuse a cohort with another table than at the beginning of the study: a method has changed it."""
    if table_hash(cohort) != spec.table_hash:
        raise BrainroamError(
            f"labels, sites or covariates of the cohort were changed {when} {spec.name} ran, by a method of this "
            "study; leave that method out, and read the data again in a new process"
        )


def _facts_for_next_site(model: TunedMethod) -> dict[str, Any]:
    """What the training sites teach about another one: calibration, shifts of the threshold, prediction sets."""
    return {
        "calibration": asdict(model.calibration_),
        "shifts": {name: astuple(shift) for name, shift in model.shifts_.items()},
        "sets": {f"{level:g}": limits for level, limits in model.sets_.limits.items()},
        "n_sites": model.sets_.n_sites,
    }


def _note_on_company(model: TunedMethod, held_out: Cohort, score: np.ndarray) -> list[str]:
    """A note if the scores of a foreign method change when half of the people are scored alone, in reverse order."""
    half = np.arange(len(held_out))[: len(held_out) // 2 : -1]
    if is_ours(model.info) or not len(half):
        return []
    moved = np.abs(model.score(held_out.subset(half)) - score[half]).max()
    return [COMPANY] if moved > SAME * np.ptp(score) else []


def _show_running(running: dict[str, str], advance: Advance) -> Callable[[Task], None]:
    """A callback that shows which runs are in progress."""

    def begin(task: Task) -> None:
        running[task.spec.hash] = str(task.spec)
        advance.now(_running_text(running))

    return begin


def _running_text(running: Mapping[str, str]) -> str:
    return f"now {listed(running.values(), 3)}" if running else ""


@contextmanager
def _folder(out: str | Path | None, cohort: Cohort) -> Iterator[RunsFolder]:
    """The folder ``out``, or a temporary one."""
    if out is not None:
        yield RunsFolder.of(out, cohort)
        return
    with tempfile.TemporaryDirectory(prefix="brainroam-") as scratch:
        yield RunsFolder.of(scratch, cohort)


def _select_folds(
    cohort: Cohort, protocol: str, sites: Sequence[str] | None, n_splits: int, n_repeats: int
) -> list[Fold]:
    every = {fold.name: fold for fold in folds(cohort.table, protocol, n_splits, n_repeats)}
    for name in sites or ():
        if name not in every:
            raise unknown(f"{HELD_OUT[protocol]} to hold out", name, every)
    return [fold for name, fold in every.items() if sites is None or name in sites]


def _warn_of_copies(cohort: Cohort, held_out: Sequence[Fold]) -> None:
    """Say whose measurements are trained on under one id and held out under another."""
    across: set[tuple[int, int]] = set()
    for block in (cohort.blocks or {"": cohort}).values():
        pairs = np.array(identical_pairs(block), dtype=int).reshape(-1, 2)
        for fold in held_out if len(pairs) else ():
            side = np.zeros(len(cohort), dtype=int)
            side[fold.train], side[fold.test] = 1, -1
            across |= {(first, second) for first, second in pairs[side[pairs].prod(axis=1) < 0].tolist()}
    if across:
        subject = cohort.table["subject"].tolist()
        people = [f"{subject[first]} = {subject[second]}" for first, second in sorted(across)]
        warnings.warn(
            f"the same measurements are trained on and held out: {listed(people)}; one person under two ids leaks the "
            "label. brainroam check names everybody; leave them out (--exclude)",
            stacklevel=4,
        )


def _run_line(spec: RunSpec, outcome: Mapping[str, Any]) -> str:
    if outcome["status"] == "failed":
        return f"{spec}: failed, {outcome['error']}"
    target, sites = Target.of_description(outcome.get("target")), pd.DataFrame(metrics_by_site(spec, outcome).values())
    figure = target.order.figure
    mean = figure.mean(sites[figure.name], target.order.weights_of(sites))
    text = target.order.nothing if np.isnan(mean) else f"{figure.head} {mean:.3f}"
    return f"{spec}: {text}, {outcome['seconds']:.1f} s"


@contextmanager
def _share_edges(
    cohort: Cohort,
    kinds: Sequence[EdgeKind],
    folder: Path,
    jobs: int,
    engine: str | engines.Engine,
    progress: bool | View = False,
) -> Iterator[None]:
    """Let processes share the series and edges of a cohort; what an interrupted study has computed is found again.

    The edges of a cohort on disk are written there.

    With one job there is nobody to share with, and workers of a cluster read the cohort from its store and compute
    their own. The files go when all runs are done.
    """
    if any(block.on_disk for block in (cohort.blocks or {"": cohort}).values()):
        write_edges(cohort, kinds, jobs, engine, progress)
        yield
        return
    if jobs == 1 or not engines.is_local(engine):
        yield
        return
    whole, _ = cohort.origin
    place = folder / FOLDER / whole.manifest_hash[:16]
    with whole.features.kept_in(place):
        for kind in kinds:
            if not whole.features.has(edge_name(kind)):
                _compute_edges(whole, kind, FeatureFolder(place), 1 if is_small(whole) else jobs, engine)
        yield
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def is_small(cohort: Cohort) -> bool:
    """Whether starting another process takes longer than the work it would do on this cohort.

    >>> import brainroam
    >>> is_small(brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8))
    True
    """
    return len(cohort) * cohort.n_features < FEW


def _compute_edges(
    cohort: Cohort, kind: EdgeKind, folder: FeatureFolder, jobs: int, engine: str | engines.Engine
) -> None:
    """Let all processes fill in the edges of some people each."""
    shape = len(cohort), cohort.n_features
    with folder.filling(edge_name(kind), shape) as file:
        tasks = [(kind, file, start) for start in range(0, len(cohort), PEOPLE_AT_A_TIME)]
        for _, outcome in engines.map(_edges_of_some, tasks, cohort, jobs, engine):
            if isinstance(outcome, engines.Failure):
                raise BrainroamError(f"the {kind.kind} edges could not be computed: {outcome.error}")


def _edges_of_some(cohort: Cohort, task: tuple[EdgeKind, Path, int]) -> None:
    kind, file, start = task
    people = slice(start, start + PEOPLE_AT_A_TIME)
    np.load(file, mmap_mode="r+")[people] = features(cohort.series[people], cohort.measure, kind)
