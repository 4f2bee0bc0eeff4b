"""From the runs of a study to one explanation: the folds of one method, one seed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from brainroam.evaluation.run_records import RunSpec
from brainroam.report.data import ReportData
from brainroam.report.explanation import Explanation


@dataclass(frozen=True)
class Explained:
    """A method, the seed shown, its explanation over folds, and the held-out people in the same order."""

    method: str
    seed: int
    explanation: Explanation
    people: pd.DataFrame


def explained(data: ReportData) -> Explained | None:
    """The scaffold of the report's method or else of core or a variant of it; None where no run kept one."""
    for name in dict.fromkeys([data.method, "core", *data.names]):
        runs = [(spec, found) for spec, found in runs_of(data, name) if found.get("kind") == "scaffold"]
        if runs:
            people = [held_out(data, spec) for spec, _ in runs]
            explanation = Explanation([found for _, found in runs], people)
            return Explained(name, runs[0][0].seed, explanation, pd.concat(people, ignore_index=True))
    return None


def runs_of(data: ReportData, method: str) -> list[tuple[RunSpec, dict[str, Any]]]:
    """What the runs of a method kept, of its first seed and repeat: others would show everybody several times."""
    runs = data.explanations(method)
    if data.protocol == "halves":
        repeat = min((spec.fold for spec, _ in runs), default="")[:-1]
        runs = [(spec, found) for spec, found in runs if spec.fold.startswith(repeat)]
    first = min((spec.seed for spec, _ in runs), default=0)
    return [(spec, found) for spec, found in runs if spec.seed == first]


def held_out(data: ReportData, spec: RunSpec) -> pd.DataFrame:
    """Subject, site (or fold), label, score and probability of the people a run held out, in its order."""
    predictions = data.folder.runs[spec.hash][1]["predictions"]
    return pd.DataFrame({"site": spec.fold, **predictions})[["subject", "site", "label", "score", "probability"]]


def embeddings(data: ReportData, method: str) -> tuple[np.ndarray, pd.DataFrame] | None:
    """Embedding (n, k) of everybody, fold by fold, and who they are; None where no run kept one.

    Every fold has axes of its own. Within a fold they are centred, divided by one common spread, and turned so that
    each rises with the fold's score; k is the smallest number of axes any fold has.
    """
    runs = [(spec, found["embedding"]) for spec, found in runs_of(data, method) if found.get("embedding")]
    if not runs:
        return None
    k = min(len(rows[0]) for _, rows in runs)
    people = [held_out(data, spec) for spec, _ in runs]
    points = [_oriented(np.array(rows)[:, :k], table["score"]) for (_, rows), table in zip(runs, people, strict=True)]
    return np.concatenate(points), pd.concat(people, ignore_index=True)


def _oriented(points: np.ndarray, score: pd.Series) -> np.ndarray:
    centred = points - points.mean(axis=0)
    rises = np.sign((score - score.mean()).to_numpy(dtype=float) @ centred)
    return centred * np.where(rises == 0, 1, rises) / max(float(np.sqrt((centred**2).sum(axis=1).mean())), 1e-12)
