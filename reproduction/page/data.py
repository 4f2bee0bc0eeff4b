"""What the page is made from: the finished runs of a study of the paper, and what it measured besides."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.evaluation.results import Results, load_runs
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.evaluation.stats.compare import compare_methods, summarise
from brainroam.report.data import ReportData
from reproduction.datasets import DATASETS, Dataset
from reproduction.parts import Paper
from reproduction.study import configuration, measured


@dataclass(frozen=True, eq=False)
class PaperData:
    """Everything a part of the page may read.

    Attributes
    ----------
    folder : Path
        Of the study.
    facts : dict
        What ``paper.json`` says.
    results : Results or None
        The finished runs; None where there are none yet.
    study : dict
        The cohort, as ``study.json`` describes it, with the commands.
    """

    folder: Path
    facts: dict[str, Any]
    results: Results | None
    study: dict[str, Any]

    @property
    def path(self) -> Path:
        """The folder, as the page's template calls it."""
        return self.folder

    @cached_property
    def paper(self) -> Paper:
        """What was asked for."""
        return Paper(None, self.facts["epochs"], self.facts["gate_budget"])

    @cached_property
    def dataset(self) -> Dataset | None:
        """The dataset of the paper that this is, or None."""
        return next((dataset for dataset in DATASETS if dataset.name == self.facts["dataset"]), None)

    @property
    def published(self) -> str | None:
        """Under which name its numbers are published."""
        return self.dataset.name if self.dataset else None

    @property
    def cohort_name(self) -> str | None:
        """Under which name its people are published; both atlases have the same."""
        return self.dataset.reader if self.dataset else None

    def measured(self, part: str) -> dict[str, Any] | None:
        """What a part measured without runs."""
        return measured(self.folder, part)

    def names(self, protocol: str) -> set[str]:
        """The methods with finished runs under a protocol."""
        if self.results is None:
            return set()
        scores = self.results.scores
        return set(scores.loc[scores["protocol"] == protocol, "method"])

    def why_failed(self, name: str) -> str:
        """The error of a method whose runs failed, or nothing."""
        runs = [line.partition(": ") for line in self.study["failed"]]
        error = next((error for run, _, error in runs if run.startswith(f"{name} at ")), "")
        return error.partition(": ")[2]  # without the name of the exception

    def folds(self, name: str) -> int:
        """How many sites a method was held out from so far."""
        assert self.results is not None
        scores = self.results.scores
        return scores.loc[(scores["protocol"] == "loso") & (scores["method"] == name), "site"].nunique()

    @cached_property
    def _summaries(self) -> dict[str, pd.DataFrame]:
        if self.results is None:
            return {}
        found = summarise(self.results.scores, self.results.predictions)
        return {str(protocol): rows.set_index("method") for protocol, rows in found.groupby("protocol")}

    def summary(self, protocol: str) -> pd.DataFrame:
        """Mean AUC with interval, ACC and so on by method; empty where nothing was run."""
        return self._summaries.get(protocol, pd.DataFrame())

    def spread(self, name: str, protocol: str) -> dict[str, float]:
        """Standard deviations of AUC and ACC over sites, seeds averaged before, in points; and the number of seeds."""
        assert self.results is not None
        scores = self.results.scores
        rows = scores[(scores["protocol"] == protocol) & (scores["method"] == name)]
        found = 100 * rows.groupby("fold")[["auc", "acc"]].mean().std()
        return {"auc_sd": found["auc"], "acc_sd": found["acc"], "seeds": rows["seed"].nunique()}

    def paired(self, names: list[str], reference: str) -> pd.DataFrame:
        """Per-site differences of some methods to one of them under leave-one-site-out, by method."""
        assert self.results is not None
        scores, predictions = (
            frame[frame["method"].isin(names) & (frame["protocol"] == "loso")]
            for frame in (self.results.scores, self.results.predictions)
        )
        found = compare_methods(scores, predictions, reference, all_pairs=False).paired
        return found[found["against"] == reference].drop_duplicates("method").set_index("method")

    def choices(self, name: str) -> list[dict[str, Any]]:
        """What a variant of CORE decided about its network, fold by fold."""
        runs = self.results.records if self.results else ()
        found = [result["explanation"].get("choice") for spec, result in runs if _explains(spec, result, name)]
        return [choice for choice in found if choice]

    @cached_property
    def report(self) -> ReportData | None:
        """The same runs as the ordinary report reads them."""
        return ReportData(self.results, self.paper.core, "loso") if self.results and self.names("loso") else None

    @property
    def days(self) -> str:
        """When the runs were done."""
        dates = sorted({result.get("date", "") for _, result in (self.results.records if self.results else ())} - {""})
        return dates[0] if len(dates) == 1 else " to ".join([dates[0], dates[-1]]) if dates else ""

    @property
    def hours(self) -> float:
        """What all finished runs took, one after the other."""
        return float(np.sum([result["seconds"] for _, result in (self.results.records if self.results else ())])) / 3600


def read_paper(folder: str | Path) -> PaperData:
    """The study in a folder, finished or not."""
    facts, runs = configuration(folder), RunsFolder(Path(folder) / "runs")
    results = None
    if any(result["status"] == "done" for _, result in runs.runs.values()):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* runs are not finished")
            results = load_runs(runs, partial=True)
    study = results.study if results else {**runs.study, "commands": runs.commands, "missing": [], "failed": []}
    return PaperData(Path(folder), facts, results, study)


def _explains(spec: Any, result: dict[str, Any], name: str) -> bool:
    return (spec.name, spec.protocol) == (name, "loso") and bool(result.get("explanation"))
