"""One run: a method with its settings, trained and scored on one fold with one seed.

A `RunSpec` says exactly which; its hash names the file in which the result is kept. Files are checksummed: JSON with a
schema version and a checksum over its content, written at once or not at all. A file that is cut short, changed or not
ours is told apart from a result, so that an interrupted study is never read as complete.

A run keeps more than scores: the scaffold, the gates and an embedding of the held-out people.
``explanation`` in a run file is what `brainroam.methods.explanation` describes, for methods that select a scaffold; for
the ensemble, which weighs every edge, only its ``people``: the edges that moved each of them most. For every method
that offers a representation

    embedding  (n, 16)  held-out people on the leading principal axes of the training people's representations

in the order of ``predictions``. Of a cohort on disk, the axes are those of 256 training people.

Numbers have five significant digits; weights of thousands of edges are not kept
(`brainroam explain` gives them for a fitted model).

Which runs a study asks for, folds x methods x seeds, is checked before anything is computed (`make_tasks`).
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.data.columns import levels_of
from brainroam.data.folds import Fold
from brainroam.data.people import COVARIATES, NUISANCE
from brainroam.data.prepare import kind_of
from brainroam.errors import RunsError, UsageError, unknown
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.splits import HELD_OUT
from brainroam.methods.base import MEASURED, Method, MethodInfo
from brainroam.methods.blocks import parts_read
from brainroam.methods.explanation import leading_axes
from brainroam.methods.registry import TUNINGS, full_name, resolve
from brainroam.utils.files import content_hash, read_checksummed, write_checksummed
from brainroam.utils.parameters import settings_of

DIGITS = 5
PEOPLE_FOR_AXES = 256


@dataclass(frozen=True)
class RunSpec:
    """Everything a result depends on.

    Attributes
    ----------
    method : str
        The registered name.
    parameters : dict
        What was fixed rather than tuned.
    protocol, fold : str
        Which people are held out, see `splits.folds`.
    seed : int
    tuning : str
        How the rest was tuned, see `brainroam.methods.tuning`.
    people : str
        Hash of who is trained on and who is held out, see `people_hash`.
    manifest_hash, table_hash : str
        Of the whole cohort: its series, labels and sites; all its metadata.
    atlas : str
        Hash of the atlas: its name and the names of its regions.
    version : str
        Of the package and of the code of the method, see `brainroam.evaluation.code_version`.

    Examples
    --------
    >>> spec = RunSpec("core", {"budget": 20}, "loso", "NYU", 0, "full", "p", "m", "t", "a", "v")
    >>> str(spec), len(spec.hash)
    ('core[budget=20] at NYU, seed 0', 24)
    """

    method: str
    parameters: dict[str, Any]
    protocol: str
    fold: str
    seed: int
    tuning: str
    people: str
    manifest_hash: str
    table_hash: str
    atlas: str
    version: str

    @cached_property
    def hash(self) -> str:
        """Names the file; the same on every machine."""
        return content_hash(asdict(self))[:24]

    def is_rerun_of(self, other: "RunSpec") -> bool:
        """Whether this is the same run by other code."""
        return self != other and self == replace(other, version=self.version)

    @property
    def name(self) -> str:
        """The method with its parameters, as results list it."""
        return full_name(self.method, self.parameters)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """Protocol, method, fold and seed: the place of the result in every table."""
        return self.protocol, self.name, self.fold, self.seed

    def __str__(self) -> str:
        return f"{self.name} at {self.fold}, seed {self.seed}"


def people_hash(cohort: Cohort, fold: Fold) -> str:
    """Who is trained on and who is held out, in any order."""
    subjects = cohort.table["subject"].to_numpy()
    return content_hash([sorted(subjects[fold.train]), sorted(subjects[fold.test])])


def table_hash(cohort: Cohort) -> str:
    """The metadata, in any order of people: a corrected age makes another study."""
    table = cohort.table.sort_values("subject").to_csv(index=False, lineterminator="\n")
    if cohort.covariate_names != COVARIATES:
        table += ",".join(f"{name}:{kind_of(cohort.table[name])}" for name in cohort.covariate_names)
    if cohort.nuisance_names != NUISANCE:
        table += f"nuisance: {','.join(cohort.nuisance_names)}"
    if not cohort.target.is_two_classes:
        table += content_hash(cohort.target.described())
    return hashlib.sha256(table.encode()).hexdigest()


def atlas_hash(cohort: Cohort) -> str:
    """The name of the atlas and the names of its regions, in their order."""
    return content_hash(cohort.atlas.identity)


def write_run(folder: Path, spec: RunSpec, content: Mapping[str, Any]) -> None:
    """Keep the outcome of a run in its file."""
    write_checksummed(folder / f"{spec.hash}.json", {"spec": asdict(spec), **content})


def read_run(path: Path) -> tuple[RunSpec, dict[str, Any]]:
    """The spec and the rest of a run file."""
    content = read_run_file(path)
    try:
        spec = run_spec(content.pop("spec"))
    except (KeyError, TypeError) as error:
        raise RunsError(f"{path} holds no run") from error
    if spec.hash != path.stem:
        raise RunsError(f"{path} holds another run than its name says: {spec}")
    return spec, content


def run_spec(content: Any) -> RunSpec:
    """The spec that `dataclasses.asdict` turned into plain values; a `TypeError` when these are something else."""
    spec = RunSpec(**content)
    texts = [value for name, value in vars(spec).items() if name not in ("parameters", "seed")]
    if not (isinstance(spec.parameters, dict) and type(spec.seed) is int and all(isinstance(x, str) for x in texts)):
        raise TypeError("a spec is text, a seed and parameters")
    return spec


def read_run_file(path: Path) -> dict[str, Any]:
    """Read what `write_checksummed` wrote; anything else is an error that says what is wrong with it."""
    return read_checksummed(path, RunsError)


def plain(content: Any) -> Any:
    """Values as JSON has them: arrays as lists, what is not finite as null.

    >>> plain({"auc": np.float64("nan"), "layers": (np.int64(2), 3)})
    {'auc': None, 'layers': [2, 3]}
    """
    if isinstance(content, Mapping):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, np.ndarray | np.generic):
        return plain(content.tolist())
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if content is None or isinstance(content, str | int):
        return content
    raise UsageError(f"{content!r} is not a number, text, true, false, or a list of those")


def explanation_to_keep(model: Method, training: Cohort, held_out: Cohort) -> dict[str, Any] | None:
    """What to keep of a fitted model; None for one that has nothing to show."""
    content: dict[str, Any] = {}
    learned_from = model.representation(_people_for_axes(training))
    if learned_from is not None:
        parts = (model.representation(people) for people in held_out.batches())
        content["embedding"] = np.concatenate([leading_axes(learned_from, part) for part in parts if part is not None])
    if model.selects_scaffold:
        content |= model.explanation(held_out) or {}
    elif model.explains_people:
        explanation = model.explanation(held_out) or {}
        content |= {name: part for name, part in explanation.items() if name != "edges"}
    scaffolds = {
        name: {part: values for part, values in (member.explanation(people) or {}).items() if part != "people"}
        for name, (member, people) in parts_read(model, held_out).items()
        if name and member.selects_scaffold
    }
    return round_numbers(content | ({"blocks": scaffolds} if scaffolds else {})) or None


def _people_for_axes(training: Cohort) -> Cohort:
    """At most `PEOPLE_FOR_AXES` people, evenly among all, which is enough for the axes of a picture."""
    if len(training) <= PEOPLE_FOR_AXES:
        return training
    return training.subset(np.linspace(0, len(training) - 1, PEOPLE_FOR_AXES).astype(int))


def round_numbers(content: Any) -> Any:
    """Numbers of nested dictionaries, lists and arrays at five significant digits.

    >>> round_numbers({"gate": np.array([0.123456789, 1.0]), "edge": [12345678]})
    {'gate': [0.12346, 1.0], 'edge': [12345678]}
    """
    if isinstance(content, dict):
        return {key: round_numbers(value) for key, value in content.items()}
    if isinstance(content, np.ndarray):
        return round_numbers(content.tolist())
    if isinstance(content, list):
        return [round_numbers(value) for value in content]
    return float(f"{content:.{DIGITS}g}") if isinstance(content, float) else content


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
    """Every run of a study, fold by fold, so that runs of one fold can share computations.

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
    chosen = _configure(methods, protocol, parameters)
    for info, fixed in chosen:
        require_suitable(info, fixed, cohort)
    _require_covariates(cohort, chosen, held_out)
    of_cohort = cohort.manifest_hash, table_hash(cohort), atlas_hash(cohort)
    versions = {info.name: code_version(info) for info, _ in chosen}
    for fold in held_out:
        people = people_hash(cohort, fold)
        for info, fixed in chosen:
            for seed in range(seeds if info.stochastic else 1):
                run = info.name, fixed, protocol, fold.name, seed, tuning, people
                yield Task(RunSpec(*run, *of_cohort, versions[info.name]), info, fold)


def require_suitable(info: MethodInfo, fixed: Mapping[str, Any], cohort: Cohort) -> None:
    """Refuse a method that cannot read what was measured, or cannot predict the target."""
    info.require_target(cohort.target)
    measures = {block.measure for block in cohort.blocks.values()} or {cohort.measure}
    if not measures & set(info.reads):
        info.require_measure(sorted(measures)[0])
    if fixed.get("profiles") is True and "series" not in measures:  # by its own choice core goes without
        name, seen = full_name(info.name, fixed), MEASURED[sorted(measures)[0]]
        raise UsageError(f"{name}: temporal profiles are of time series, but these people have {seen}")


def suitable_methods(methods: Sequence[str], cohort: Cohort) -> tuple[list[str], list[str]]:
    """The methods that can read these people and predict their target, and why the others cannot.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> table = brainroam.Cohort([x[:1] for x in cohort.series], cohort.table, measure="table")
    >>> suitable_methods(["fc-ridge", "tangent-ridge"], table)
    (['fc-ridge'], ['tangent-ridge reads series, but these people have a table of measures'])
    """
    fitting, reasons = [], []
    for name in methods:
        try:
            for info, fixed in resolve(name):
                require_suitable(info, fixed, cohort)
            fitting.append(name)
        except UsageError as error:
            reasons.append(str(error))
    return fitting, reasons


def on_common_blocks(methods: Sequence[str], cohort: Cohort) -> list[str]:
    """Variants of a method on those blocks that all of them read, so that they differ in nothing else.

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=8, n_rois=8)
    >>> table = brainroam.Cohort([x[:1] for x in cohort.series], cohort.table, measure="table")
    >>> on_common_blocks(["core", "core-tp"], cohort.with_block("anatomy", table, "rest"))
    ['core[blocks=rest]', 'core-tp[blocks=rest]']
    """
    resolved = resolve(methods)
    reads = set.intersection(*(set(info.reads) for info, _ in resolved))
    common = [name for name, block in cohort.blocks.items() if block.measure in reads]
    if len(common) in (0, len(cohort.blocks)):
        return list(methods)
    return [full_name(info.name, {**fixed, "blocks": "+".join(common)}) for info, fixed in resolved]


def _configure(methods: Any, protocol: str, parameters: Mapping[str, Any]) -> list[tuple[MethodInfo, dict[str, Any]]]:
    """Each method with its fixed parameters, by the name its results will have."""
    configured: dict[str, tuple[MethodInfo, dict[str, Any]]] = {}
    for info, own in resolve(methods):
        fixed = plain({**parameters, **own})
        name = full_name(info.name, fixed)
        if name in configured:
            raise UsageError(f"{name} is named twice; name every method once, estimators by {{'mine': ...}}")
        if info.in_distribution_only and protocol != "cv":
            raise UsageError(f"{name} cannot predict at a {HELD_OUT[protocol]} it was not trained on; use cv for it")
        info.require(fixed)
        configured[name] = info, fixed
    if not configured:
        raise UsageError("no method was named; `brainroam methods` lists them")
    return list(configured.values())


def _require_covariates(
    cohort: Cohort, chosen: Sequence[tuple[MethodInfo, Mapping[str, Any]]], held_out: Sequence[Fold]
) -> None:
    """Refuse unusable covariates before the first run, and once for all methods."""
    for info, fixed in chosen:
        own = settings_of(info.make).get("covariates")
        if own is None:
            continue
        table = cohort.covariates(fixed.get("covariates", own.default))
        for name in table:
            for fold in held_out:
                levels_of(table[name].iloc[fold.train], name)
