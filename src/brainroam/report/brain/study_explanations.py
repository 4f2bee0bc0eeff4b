"""From the runs of a study to one explanation: the folds of one method, one seed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from brainroam.evaluation.run_records import RunSpec
from brainroam.methods.explanation import Explanation
from brainroam.report.data import ReportData

Run: TypeAlias = tuple[RunSpec, dict[str, Any]]


@dataclass(frozen=True)
class StudyExplanation:
    """A method, the seed shown, its explanation over folds, and the held-out people in the same order."""

    method: str
    seed: int
    explanation: Explanation
    people: pd.DataFrame


def explain_scaffold(data: ReportData) -> StudyExplanation | None:
    """The scaffold of the report's method or else of core or a variant of it; None where no run kept one."""
    candidates = (_of_runs(data, name, lambda kept: kept.get("kind") == "scaffold") for name in _may_select(data))
    return next(filter(None, candidates), None)


def explain_scaffolds(data: ReportData) -> dict[str, StudyExplanation]:
    """`explain_scaffold` of each block by its name, of one measurement as ""; empty where no run kept one."""
    for name in _may_select(data):
        runs = [run for run in runs_of(data, name) if "blocks" in run[1]["explanation"]]
        if runs:
            blocks = dict.fromkeys(block for _, result in runs for block in result["explanation"]["blocks"])
            return {block: _of_block(data, name, runs, block) for block in blocks}
    found = explain_scaffold(data)
    return {"": found} if found else {}


def _may_select(data: ReportData) -> dict[str, None]:
    """The method of the report, then core, then every other."""
    return dict.fromkeys([data.method, "core", *data.names])


def explain_people(data: ReportData) -> StudyExplanation | None:
    """What moved each held-out person in the score of the report's method itself; None where its runs kept nothing."""
    return _of_runs(data, data.method, lambda kept: "people" in kept)


def _of_runs(data: ReportData, name: str, wanted: Callable[[dict[str, Any]], bool]) -> StudyExplanation | None:
    runs = [run for run in runs_of(data, name) if wanted(run[1]["explanation"])]
    return _explain(data, name, runs, [result["explanation"] for _, result in runs]) if runs else None


def _of_block(data: ReportData, name: str, runs: list[Run], block: str) -> StudyExplanation:
    runs = [run for run in runs if block in run[1]["explanation"]["blocks"]]
    return _explain(data, name, runs, [result["explanation"]["blocks"][block] for _, result in runs])


def _explain(data: ReportData, name: str, runs: list[Run], kept: list[dict[str, Any]]) -> StudyExplanation:
    people, target = [held_out(*run) for run in runs], data.results.target
    explanation = Explanation(kept, people, target.name if target.is_number else "")
    return StudyExplanation(name, runs[0][0].seed, explanation, pd.concat(people, ignore_index=True))


def runs_of(data: ReportData, method: str) -> list[Run]:
    """Runs of a method that kept an explanation, of its first seed and repeat: others would show people repeatedly."""
    runs = data.explanations(method)
    if data.protocol == "halves":
        repeat = min((spec.fold for spec, _ in runs), default="")[:-1]
        runs = [(spec, result) for spec, result in runs if spec.fold.startswith(repeat)]
    first = min((spec.seed for spec, _ in runs), default=0)
    return [run for run in runs if run[0].seed == first]


def held_out(spec: RunSpec, result: dict[str, Any]) -> pd.DataFrame:
    """Subject, fold (as site), label, score and, of two classes, probability of the people a run held out, in order."""
    table = pd.DataFrame({"site": spec.fold, **result["predictions"]})
    return table[table.columns.intersection(["subject", "site", "label", "score", "probability"])]


def embeddings(data: ReportData, method: str) -> tuple[np.ndarray, pd.DataFrame] | None:
    """Embedding (n, k) of everybody, fold by fold, and who they are; None where no run kept one.

    Every fold has axes of its own. Within a fold they are centred, divided by one common spread, and turned so that
    each rises with the fold's score; k is the smallest number of axes any fold has.
    """
    runs = [run for run in runs_of(data, method) if run[1]["explanation"].get("embedding")]
    if not runs:
        return None
    spaces = [result["explanation"]["embedding"] for _, result in runs]
    k = min(len(rows[0]) for rows in spaces)
    people = [held_out(*run) for run in runs]
    points = [_orient(np.array(rows)[:, :k], table["score"]) for rows, table in zip(spaces, people, strict=True)]
    return np.concatenate(points), pd.concat(people, ignore_index=True)


def _orient(points: np.ndarray, score: pd.Series) -> np.ndarray:
    centred = points - points.mean(axis=0)
    rises = np.sign((score - score.mean()).to_numpy(dtype=float) @ centred)
    return centred * np.where(rises == 0, 1, rises) / max(float(np.sqrt((centred**2).sum(axis=1).mean())), 1e-12)
