"""Run methods under a protocol: everything that is missing, nothing twice, whatever happens in between."""

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from datetime import date
from pathlib import Path
from platform import python_version
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from brainroam.core.connectivity import EdgeKind
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Fold
from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.errors import RunsError, counted, listed, unknown
from brainroam.evaluation.duration import Pace
from brainroam.evaluation.run_records import RunSpec, Task, kept_explanation, make_tasks, plain
from brainroam.evaluation.runs_folder import PARTICIPANTS, RunsFolder, complete_tables, mixed_versions
from brainroam.evaluation.shared_edges import shared_edges
from brainroam.evaluation.splits import UNITS, folds, protocol_of
from brainroam.evaluation.stats.classes import compare_classes, people_counted
from brainroam.evaluation.stats.classes import site_metrics as class_metrics
from brainroam.evaluation.stats.compare import compare_methods
from brainroam.evaluation.stats.confounding import KNOWN, confounding
from brainroam.evaluation.stats.metrics import (
    RULE,
    average_seeds,
    mean_over_sites,
    over_sites,
    site_metrics,
    site_weights,
)
from brainroam.evaluation.stats.numbers import compare_numbers, weights_of
from brainroam.evaluation.stats.numbers import site_metrics as number_metrics
from brainroam.evaluation.tables import columns_of, frame, metrics_by_site, prediction_rows, score_rows
from brainroam.execution import engine as engines
from brainroam.execution.progress import Advance, View, show_progress
from brainroam.methods.registry import STANDARD_TUNING, Judged, is_ours
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.html import html_summary
from brainroam.utils.optional import versions

COMPANY = "scores of the same people differ when others are scored with them"
SAME = 1e-6  # of the spread of scores: single precision rounds batches otherwise
PACKAGES = ("brainroam", "nilearn", "numpy", "pandas", "scikit-learn", "scipy", "torch")


@dataclass(frozen=True, repr=False)
class Results:
    """Finished runs as tables.

    Attributes
    ----------
    scores : DataFrame
        One row per run and held-out site: ``method``, ``protocol``, ``site`` (the fold, for ``cv``), ``fold`` (the
        same as ``site`` unless a fold holds several), ``seed``, the metrics of `metrics.site_metrics`, ``threshold``,
        ``tuning`` and the chosen ``configuration`` as JSON.
    predictions : DataFrame
        One row per run and held-out scan: ``subject``, ``person`` and ``institution`` (see `tables`), ``label``,
        ``score``, ``probability`` (where the share of cases is that of the training people, column ``prevalence`` of
        the scores) and ``predicted`` class.
    study : dict
        The cohort (``manifest_hash``, ``atlas``, ``sites``, ``excluded``, ``participants``), the ``commands``, and in
        words the runs that are ``missing`` and ``failed``.
    records : tuple of (RunSpec, dict)
        The finished runs themselves, with what they keep of pathways and gates.
    path : Path or None
        The folder of runs, where there is one.
    """

    scores: pd.DataFrame
    predictions: pd.DataFrame
    study: dict[str, Any]
    records: tuple[tuple[RunSpec, dict[str, Any]], ...] = ()
    path: Path | None = None

    def __repr__(self) -> str:
        methods = self.scores["method"].unique()
        return (
            f"Results({counted(len(self.records), 'run', 'runs')} of {listed(methods)}, {self.study.get('cohort', '')})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the mean AUC of every method."""
        if self.target.is_number:
            return compare_numbers(self.scores, self.predictions, self.target)._repr_html_()
        if self.target.is_classes:
            return compare_classes(self.scores, self.predictions, self.target)._repr_html_()
        rows = [
            {"method": method, "protocol": protocol, **over_sites(sites)}
            for (protocol, method), sites in average_seeds(self.scores).groupby(["protocol", "method"])
        ]
        columns = ["method", "protocol", "n_sites", "auc", "auc_sd", "worst_auc", "worst_site", "balanced_acc"]
        table = pd.DataFrame(rows, columns=columns).sort_values("auc", ascending=False)
        runs = f"{len(self.scores)} runs of {len(table)} methods"
        return html_summary(runs, table, [f"auc: {RULE}", "brainroam.compare(results) adds intervals and tests."])

    @property
    def target(self) -> Target:
        """What was predicted."""
        return Target.of_description(self.study.get("target"))

    @property
    def participants(self) -> pd.DataFrame:
        """Subject, person, site, institution, label, age, sex, motion, scan length, TR, head size; one row per scan."""
        return pd.DataFrame(self.study.get("participants", {}), columns=list(PARTICIPANTS))


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
    sites: Sequence[str] | None = None,
    n_splits: int = 5,
    n_repeats: int = 1,
    force: bool = False,
    partial: bool = False,
    progress: bool | View = False,
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
    tuning : {"full", "default", "fast"}
        How every method is tuned, see `brainroam.methods.tuning`.
    out : path, optional
        The folder of runs; by default nothing is kept on disk.
    jobs, engine
        How many runs at a time, each on one core, and where, see `brainroam.execution.engine.map`.
    parameters : dict, optional
        Fixed for every method, as if it stood in brackets.
    sites : sequence of str, optional
        Hold out only these sites (or institutions, or folds); training uses everybody else.
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
    protocol = protocol_of(protocol)
    cohort.targets  # noqa: B018  who has none is named before anything is computed
    held_out = _held_out(cohort, protocol, sites, n_splits, n_repeats)
    tasks = list(make_tasks(cohort, methods, protocol, held_out, seeds, tuning, parameters or {}))
    with _folder(out, cohort) as folder:
        folder.plan([task.spec for task in tasks])
        todo = [task for task in tasks if force or folder.status(task.spec) != "done"]
        kinds = {kind: None for task in todo for kind in _edge_kinds(task)}
        running: dict[str, str] = {}
        with (
            engines.open_engine(engine, jobs) as where,
            shared_edges(cohort, list(kinds), folder.path, jobs, where, progress),
            show_progress(len(todo), progress) as advance,
            closing(engines.map(execute, todo, cohort, jobs, where, _naming(running, advance))) as outcomes,
        ):
            pace = Pace(todo, cohort, folder.runs.values()) if progress and todo else None
            if pace and (words := pace.before.text(len(todo), jobs)):
                advance.say(words)
            for task, outcome in outcomes:
                running.pop(task.spec.hash, None)
                if isinstance(outcome, engines.Failure):
                    outcome = {"status": "failed", **asdict(outcome)}
                folder.keep(task.spec, outcome)
                advance(_line(task.spec, outcome))
                if pace and (words := pace.after(task.spec, outcome, jobs)):
                    advance.say(words)
                advance.now(_now(running))
        everything = complete_tables(folder.path)  # also what other commands have finished there meanwhile
        results = _results(everything, [task.spec for task in tasks], partial)
        return replace(results, path=None if out is None else everything.path)


def _edge_kinds(task: Task) -> tuple[EdgeKind, ...]:
    return task.info.make(**task.info.settings(task.spec.parameters)).edge_kinds


def load_runs(path: str | Path | RunsFolder, partial: bool = False) -> Results:
    """All finished runs of a folder; an error when some that were asked for are not finished, unless ``partial``."""
    folder = path if isinstance(path, RunsFolder) else RunsFolder(path)
    folder.require_plans()
    done = {key: spec for key, (spec, outcome) in folder.runs.items() if outcome["status"] == "done"}
    asked = folder.planned | done  # a failed run that nobody asks for any more is none of this study
    return _results(folder, asked.values(), partial)


def compare(
    runs: str | Path | Results | Sequence[str | Path],
    reference: str | None = None,
    partial: bool = False,
    all_pairs: bool = False,
    data: Cohort | None = None,
) -> Any:
    """Compare the methods of a folder of runs, of several folders, of files of predictions, or of results.

    Parameters
    ----------
    runs : path, sequence of paths, or Results
        Folders of runs, and tables of predictions (`brainroam.read_predictions`), side by side.
    reference, all_pairs
        See `compare.compare_methods`.
    partial : bool
        Accept studies of which some runs are not finished.
    data : Cohort, optional
        The people of a file of predictions, where no folder of runs stands beside it.

    Returns
    -------
    Comparison, NumberComparison where a number is predicted, or ClassComparison of several classes
    """
    results = runs if isinstance(runs, Results) else load_studies(runs, partial, data)
    if results.target.is_number:
        return compare_numbers(results.scores, results.predictions, results.target, reference, all_pairs)
    if results.target.is_classes:
        return compare_classes(results.scores, results.predictions, results.target, reference, all_pairs)
    comparison = compare_methods(results.scores, results.predictions, reference, all_pairs)
    gone = results.study.get("not_shared", 0)
    notes = [f"{counted(gone, 'person is', 'people are')} not in every study and left out here."] if gone else []
    from brainroam.evaluation.file_checks import caveats_of

    caveats = caveats_of(results)
    return replace(comparison, confounding=_confounding(results), notes=[*notes, *comparison.notes], caveats=caveats)


def load_studies(runs: str | Path | Sequence[str | Path], partial: bool = False, data: Cohort | None = None) -> Results:
    """Folders of runs and files of predictions, several as one, see `brainroam.evaluation.joining`.

    The people of a file are those of ``data``, or else of the first folder.
    """
    from brainroam.evaluation.joining import join_results
    from brainroam.evaluation.predictions_file import is_predictions_file, read_predictions

    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(path) for path in runs]
    named = dict(zip(study_labels(paths), paths, strict=True))
    studies = {name: load_runs(path, partial) for name, path in named.items() if not is_predictions_file(path)}
    people = data if data is not None else next(iter(studies.values()), None)
    studies |= {name: read_predictions(path, people) for name, path in named.items() if is_predictions_file(path)}
    return join_results(studies) if len(studies) > 1 else studies.popitem()[1]


def study_labels(folders: Sequence[Path]) -> list[str]:
    """A short name for each folder of runs: the part of its path that tells it from the others.

    >>> study_labels([Path("aal/runs"), Path("cc200/runs")]), study_labels([Path("a"), Path("b")])
    (['aal', 'cc200'], ['a', 'b'])
    """
    parts = [folder.absolute().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [part[-depth] if depth <= len(part) else "" for part in parts]
        if len(set(names)) == len(names):
            return names
    raise RunsError("the same study is named twice; name two")


def _confounding(results: Results) -> pd.DataFrame:
    """What motion, age, sex and head size have to do with the scores, for each protocol of whole sites."""
    protocols = [name for name in ("loso", "loio") if name in set(results.predictions["protocol"])]
    if results.participants[list(KNOWN)].isna().all(axis=None) or not protocols:
        return pd.DataFrame()
    tables = [confounding(results.predictions, results.participants, name) for name in protocols]
    return pd.concat([table.assign(protocol=name) for table, name in zip(tables, protocols, strict=True)])


def execute(cohort: Cohort, task: Task) -> dict[str, Any]:
    """Learn on the training people, score the held-out ones, and return the result as plain values."""
    start, spec = time.perf_counter(), task.spec
    training, held_out = cohort.subset(task.fold.train), cohort.subset(task.fold.test)
    model = TunedMethod(task.info, spec.tuning, **spec.parameters).fit(training, spec.seed)
    score = model.score(held_out)
    measured = _measure_two_classes
    if cohort.target.is_number:
        measured = _measure_number
    elif cohort.target.is_classes:
        measured = _measure_classes
    columns, metrics, facts = measured(model, training, held_out, score)
    explanation = kept_explanation(model.model_, training, held_out.without_labels())
    scans = held_out.table.assign(**columns)
    site = scans["site"].to_numpy(dtype=str)

    def metrics_of(who: np.ndarray | slice) -> dict[str, float | int]:
        return metrics(people_of(scans[who], ()))

    several = spec.protocol == "halves"  # one model, so that each of its sites can be measured by itself
    known = [name for name in ("person", "institution") if name in scans]
    by_site = {name: metrics_of(site == name) for name in np.unique(site)} if several else metrics_of(slice(None))
    return plain(
        {
            "status": "done",
            "predictions": {
                "subject": scans["subject"].tolist(),
                **{name: scans[name].fillna("").astype(str).tolist() for name in known},
                **({"site": site} if several else {}),
                **columns,
            },
            "metrics": by_site,
            **facts,
            "next_site": {
                "calibration": asdict(model.calibration_),
                "shifts": {name: astuple(shift) for name, shift in model.shifts_.items()},
                "sets": {f"{level:g}": limits for level, limits in model.sets_.limits.items()},
                "n_sites": model.sets_.n_sites,
            },
            "configuration": model.configuration_,
            **({"summary": task.info.summary} if task.info.estimator is not None else {}),  # no registry knows it
            "notes": [*filter(None, [task.fold.note]), *model.notes_, *_company(model, held_out, score)],
            **({"explanation": explanation} if explanation else {}),
            "seconds": round(time.perf_counter() - start, 3),
            "date": date.today().isoformat(),
            "versions": {"python": python_version(), **versions(PACKAGES)},
        }
    )


def _company(model: TunedMethod, held_out: Cohort, score: np.ndarray) -> list[str]:
    """A note where a method of somebody else scores the last half of the people, backwards, otherwise than before."""
    half = np.arange(len(held_out))[: len(held_out) // 2 : -1]
    if is_ours(model.info) or not len(half):
        return []
    moved = np.abs(model.score(held_out.subset(half)) - score[half]).max()
    return [COMPANY] if moved > SAME * np.ptp(score) else []


Measured: TypeAlias = tuple[dict[str, np.ndarray], Callable[[pd.DataFrame], dict[str, float | int]], dict[str, Any]]


def _measure_two_classes(model: TunedMethod, training: Cohort, held_out: Cohort, score: np.ndarray) -> Measured:
    """What is kept of each held-out scan of two classes, the metrics of people, and facts of the run."""
    calibration = model.calibration_
    columns = {"label": held_out.labels, "score": score, "probability": calibration(score)}

    def metrics(people: pd.DataFrame) -> dict[str, float | int]:
        label, mean, chance = (people[name].to_numpy() for name in columns)
        return site_metrics(label, mean, calibration.threshold, chance)

    return columns, metrics, {"threshold": calibration.threshold, "prevalence": calibration.prevalence}


def _measure_number(model: TunedMethod, training: Cohort, held_out: Cohort, score: np.ndarray) -> Measured:
    """As `_measure_two_classes`, of a number: predictions in its units, intervals, and the metrics of `numbers`."""
    target, label = training.target, held_out.table["label"].to_numpy(dtype=float)
    columns = {"label": label, "score": score, "predicted": model.predicted(score)}
    ends = {level: [target.inverse(end) for end in model.interval(score, level)] for level in model.sets_.limits}
    for level in (0.8, 0.9):
        low, high = ends.get(level, (np.full(len(score), np.nan),) * 2)
        columns |= {f"low_{100 * level:g}": low, f"high_{100 * level:g}": high}
    constant = float(target.inverse(np.array([training.targets.mean()]))[0])

    def metrics(people: pd.DataFrame) -> dict[str, float | int]:
        label = people["label"].to_numpy(dtype=float)
        inside = {
            f"covered_{name}": float(np.mean((people[f"low_{name}"] <= label) & (label <= people[f"high_{name}"])))
            for name in ("80", "90")
            if people[f"low_{name}"].notna().all()
        }
        return number_metrics(label, people["predicted"].to_numpy(dtype=float), constant, target, inside)

    return columns, metrics, {"target": target.described(), "constant": constant}


def _measure_classes(model: TunedMethod, training: Cohort, held_out: Cohort, score: np.ndarray) -> Measured:
    """As `_measure_two_classes`, of several: scores and probabilities of each, and the metrics of `classes`."""
    calibration, names = model.calibration_, training.target.classes
    of_each = {"probability": calibration(score), "score": score}
    columns = {"label": held_out.targets.astype(int), "predicted": calibration.decide(score)}
    columns |= {f"{what}_{name}": values[:, k] for what, values in of_each.items() for k, name in enumerate(names)}

    def metrics(people: pd.DataFrame) -> dict[str, float | int]:
        chance, mean = (people[[f"{what}_{name}" for name in names]].to_numpy(dtype=float) for what in of_each)
        return class_metrics(people["label"].to_numpy(dtype=int), mean, calibration.decide(mean), chance, names)

    return columns, metrics, {"target": training.target.described(), "prevalence": calibration.prevalence}


def _naming(running: dict[str, str], advance: Advance) -> Callable[[Task], None]:
    """Show each run when it begins, among those that are running."""

    def begin(task: Task) -> None:
        running[task.spec.hash] = str(task.spec)
        advance.now(_now(running))

    return begin


def _now(running: Mapping[str, str]) -> str:
    return f"now {listed(running.values(), 3)}" if running else ""


@contextmanager
def _folder(out: str | Path | None, cohort: Cohort) -> Iterator[RunsFolder]:
    """The folder asked for, or one that is gone afterwards."""
    if out is not None:
        yield RunsFolder.of(out, cohort)
        return
    with tempfile.TemporaryDirectory(prefix="brainroam-") as scratch:
        yield RunsFolder.of(scratch, cohort)


def _held_out(cohort: Cohort, protocol: str, sites: Sequence[str] | None, n_splits: int, n_repeats: int) -> list[Fold]:
    every = {fold.name: fold for fold in folds(cohort.table, protocol, n_splits, n_repeats)}
    for name in sites or ():
        if name not in every:
            raise unknown(f"{UNITS[protocol]} to hold out", name, every)
    return [fold for name, fold in every.items() if sites is None or name in sites]


def _line(spec: RunSpec, outcome: Mapping[str, Any]) -> str:
    if outcome["status"] == "failed":
        return f"{spec}: failed, {outcome['error']}"
    target, sites = Target.of_description(outcome.get("target")), pd.DataFrame(metrics_by_site(spec, outcome).values())
    n = sites["n"].to_numpy(dtype=float)
    if target.is_number:
        r = mean_over_sites(sites["r"], weights_of(n))
        return f"{spec}: {'too few people' if np.isnan(r) else f'r {r:.2f}'}, {outcome['seconds']:.1f} s"
    cases = people_counted(sites, target) if target.is_classes else sites["n_cases"].to_numpy(dtype=float)
    auc = mean_over_sites(sites["auc"], site_weights(cases, cases if target.is_classes else n - cases))
    return f"{spec}: {'one class only' if np.isnan(auc) else f'AUC {auc:.3f}'}, {outcome['seconds']:.1f} s"


def _results(folder: RunsFolder, wanted: Iterable[RunSpec], partial: bool) -> Results:
    """The finished runs among those wanted, by key; the others are an error, or a warning when ``partial``."""
    specs = sorted(wanted, key=lambda spec: spec.key)
    done = [folder.runs[spec.hash] for spec in specs if folder.status(spec) == "done"]
    failed = [(str(spec), folder.runs[spec.hash][1]["error"]) for spec in specs if folder.status(spec) == "failed"]
    missing = [str(spec) for spec in specs if folder.status(spec) == "missing"]
    if missing or failed:
        words = _incomplete(len(specs), missing, failed)
        if not partial or not done:
            raise RunsError(words)
        warnings.warn(words, stacklevel=3)
    if mixed := mixed_versions(spec for spec, _ in done):
        warnings.warn(mixed, stacklevel=3)
    return Results(
        frame(columns_of(folder.study)[0], (row for run in done for row in score_rows(*run))),
        frame(columns_of(folder.study)[1], (row for run in done for row in prediction_rows(*run))),
        {**folder.study, "commands": folder.commands, "missing": missing, "failed": [": ".join(run) for run in failed]},
        tuple(done),
        folder.path,
    )


def _incomplete(n_wanted: int, missing: Sequence[str], failed: Sequence[tuple[str, str]]) -> str:
    """What is not there, in words; runs that failed by the same error together."""
    parts = [f"{len(missing) + len(failed)} of {n_wanted} runs are not finished"]
    if missing:
        parts.append(f"not done yet: {listed(missing, 3)}")
    if failed:
        runs: dict[str, list[str]] = {}
        for run, error in failed:
            runs.setdefault(error, []).append(run)
        alike = [f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {e}" for e, names in runs.items()]
        parts.append(f"failed, with tracebacks in their files: {listed(alike, 3)}")
    return "; ".join(parts) + ". The same command does what is missing; --partial accepts what there is"
