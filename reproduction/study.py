"""Run the parts of the paper on one cohort: everything that is missing, nothing twice.

::

    DIR/paper.json   which dataset of the paper the data are, and how the study is configured
    DIR/runs/        a folder of runs, as every study has
    DIR/NAME.json    what was measured without runs: propositions, complexity, cost
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from brainroam.data.cohort import Cohort
from brainroam.errors import RunsError, unknown
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.utils.files import read_checksummed, write_checksummed
from reproduction.datasets import dataset_of
from reproduction.parts import EPOCHS, PARTS, SYSTEMS, Paper

CONFIGURATION = "paper.json"


def run_paper(
    cohort: Cohort,
    out: str | Path,
    parts: Sequence[str] = PARTS,
    systems: Sequence[str] | None = None,
    epochs: int = EPOCHS,
    seeds: int = 1,
    tuning: str = "default",
    jobs: int = 1,
    progress: bool = False,
    reader: str | None = None,
) -> Path:
    """Run parts of the paper; what the folder holds already is not done again.

    Parameters
    ----------
    cohort : Cohort
    out : path
        The folder of the study.
    parts : sequence of str
        See `reproduction.parts.PARTS`; they are computed in that order whatever the order here.
    systems : sequence of str, optional
        Methods of the tables, see `Paper`.
    epochs : int
        Of the network in ablation and sweeps.
    seeds, tuning, jobs, progress
        As for `brainroam.evaluate`.
    reader : str, optional
        That read the paper's sites, see `dataset_of`.

    Examples
    --------
    >>> import brainroam, tempfile
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> out = run_paper(cohort, tempfile.mkdtemp(), ["dataset", "loso"], ["fc-ridge"])
    >>> sorted(path.name for path in out.iterdir())
    ['paper.json', 'runs']
    """
    for part in parts:
        if part not in PARTS:
            raise unknown("part of the paper", part, PARTS)
    folder, dataset = Path(out), dataset_of(cohort, reader)
    RunsFolder.of(folder / "runs", cohort)  # another cohort is refused before anything is computed
    paper = Paper(systems, epochs, dataset.gate_budget if dataset else None)
    facts = {"dataset": dataset.name if dataset else None, "epochs": epochs, "gate_budget": paper.fixed.get("budget")}
    write_checksummed(folder / CONFIGURATION, facts)
    options: dict[str, Any] = {"seeds": seeds, "tuning": tuning, "jobs": jobs, "progress": progress}
    for part in (part for part in PARTS if part in parts):
        for job in paper.jobs(part):
            try:
                evaluate(cohort, job.methods, job.protocol, partial=True, out=folder / "runs", **options)
            except RunsError as error:  # not one run of the job could be done: the others go on
                warnings.warn(f"{part}: {error}", stacklevel=2)
        if part in MEASURED:
            _measured(folder, part, cohort, paper)
    return folder


def configuration(folder: str | Path) -> dict[str, Any]:
    """What ``paper.json`` says."""
    file = Path(folder) / CONFIGURATION
    if not file.is_file():
        raise RunsError(f"{folder} holds no study of the paper: there is no {CONFIGURATION} in it")
    return read_checksummed(file, RunsError)


def measured(folder: str | Path, part: str) -> dict[str, Any] | None:
    """What a part measured without runs, or None."""
    file = Path(folder) / f"{part}.json"
    return read_checksummed(file, RunsError) if file.is_file() else None


def _measured(folder: Path, part: str, cohort: Cohort, paper: Paper) -> None:
    """Measure once; what was measured on other data is measured again."""
    before = measured(folder, part)
    done = {} if before is None or before["manifest_hash"] != cohort.manifest_hash else before
    for found in MEASURED[part](cohort, paper, done):
        kept = {"manifest_hash": cohort.manifest_hash, "date": date.today().isoformat(), **found}
        write_checksummed(folder / f"{part}.json", plain(kept))


def _propositions(cohort: Cohort, paper: Paper, done: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if done:
        return
    from reproduction.propositions import margin_recovery, pooling_bias, spread_in

    table = cohort.table
    bias = pooling_bias(cohort.covariates(), table["site"].to_numpy(dtype=str), cohort.labels)
    yield {"bias": bias.to_dict("list"), "spread": spread_in(cohort), "margin": margin_recovery().to_dict("list")}


def _complexity(cohort: Cohort, paper: Paper, done: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if done:
        return
    from reproduction.complexity import exponents

    yield {"exponents": exponents().to_dict("list")}


def _variation(cohort: Cohort, paper: Paper, done: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if done:
        return
    from reproduction.variation import variation

    yield variation(cohort)


def _learning(cohort: Cohort, paper: Paper, done: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Curve by curve, so that it can be stopped and resumed."""
    from reproduction.learning import learning_curves

    curves = list(done.get("curves", []))
    known = [(curve["reading"], curve["site"]) for curve in curves]
    for curve in learning_curves(cohort, known=known):
        curves.append(curve)
        yield {"curves": curves}


def _cost(cohort: Cohort, paper: Paper, done: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Method by method, so that it can be stopped and resumed."""
    from reproduction.cost import costs

    rows = list(done.get("costs", []))
    known = {row["method"] for row in rows}
    asked = [name for name in ("core", *SYSTEMS.values(), "mean-mlp") if name == "core" or name in paper.systems]
    for cost in costs(cohort, [name for name in dict.fromkeys(asked) if name not in known]):
        rows.append(cost._asdict())
        yield {"costs": rows}


MEASURED: dict[str, Callable[[Cohort, Paper, dict[str, Any]], Iterator[dict[str, Any]]]] = {
    "variation": _variation,
    "learning": _learning,
    "propositions": _propositions,
    "complexity": _complexity,
    "cost": _cost,
}
