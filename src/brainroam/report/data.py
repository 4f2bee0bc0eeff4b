"""What a report is made from: the runs of a folder, and what `brainroam audit` left beside them."""

import json
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.errors import RunsError, unknown
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.runner import Results, load_runs
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats.compare import Comparison, compare_methods
from brainroam.evaluation.stats.families import compared, subject
from brainroam.evaluation.stats.metrics import average_seeds
from brainroam.evaluation.stats.site_scores import SiteScores, gather

PROTOCOLS = ("loso", "loio", "halves", "cv")


@dataclass(frozen=True)
class ReportData:
    """Everything a section may read.

    Attributes
    ----------
    folder : RunsFolder
        The run files themselves.
    results : Results
        The finished runs as tables.
    method : str
        The method the report is about.
    protocol : str
        The protocol it is judged under.
    """

    folder: RunsFolder
    results: Results
    method: str
    protocol: str

    @property
    def path(self) -> Path:
        """The folder of runs."""
        return self.folder.path

    @property
    def study(self) -> dict[str, Any]:
        """The cohort, the commands, and what is missing, see `Results`."""
        return self.results.study

    @cached_property
    def names(self) -> list[str]:
        """The methods run under the main protocol, in alphabetical order."""
        return self.names_under(self.protocol)

    def names_under(self, protocol: str) -> list[str]:
        """The methods run under a protocol."""
        scores = self.results.scores
        return sorted(scores.loc[scores["protocol"] == protocol, "method"].unique())

    @cached_property
    def compared(self) -> list[str]:
        """The methods to compare: no ablation of CORE and no point of a sweep, which have sections of their own."""
        return compared(self.names, self.method)

    @cached_property
    def comparison(self) -> Comparison:
        """Every compared method against the method of the report."""
        return self.compare(self.compared, self.method)

    def compare(self, names: Sequence[str], reference: str, protocol: str | None = None) -> Comparison:
        """Some methods against one of them."""
        scores, predictions = (
            frame[frame["method"].isin(names) & (frame["protocol"] == (protocol or self.protocol))]
            for frame in (self.results.scores, self.results.predictions)
        )
        return compare_methods(scores, predictions, reference)

    @cached_property
    def gathered(self) -> SiteScores:
        """Per-site AUCs of all methods under the main protocol."""
        return gather(self.results.predictions, self.protocol)

    @cached_property
    def site_scores(self) -> pd.DataFrame:
        """One row per method and held-out site under the main protocol, seeds averaged."""
        averaged = average_seeds(self.results.scores)
        return averaged[averaged["protocol"] == self.protocol].reset_index(drop=True)

    @property
    def headline(self) -> dict[str, Any]:
        """The row of the report's method in the comparison."""
        table = self.comparison.table
        return table[table["method"] == self.method].iloc[0].to_dict()

    @property
    def unit(self) -> str:
        """What is held out and measured: a site, an institution, or a fold of people."""
        return UNITS[self.protocol]

    @property
    def shell_path(self) -> str:
        """The folder of runs as one types it."""
        return shlex.quote(str(self.path))

    @cached_property
    def finished(self) -> list[tuple[RunSpec, dict[str, Any]]]:
        """Every finished run, whatever its protocol, in the order of the tables."""
        done = [run for run in self.folder.runs.values() if run[1]["status"] == "done"]
        return sorted(done, key=lambda run: run[0].key)

    def explanations(self, method: str, protocol: str | None = None) -> list[tuple[RunSpec, dict[str, Any]]]:
        """What the runs of a method say of their pathways, gates and embeddings; only runs that say it."""
        wanted = (protocol or self.protocol, method)
        return [
            (spec, result["explanation"])
            for spec, result in self.finished
            if (spec.protocol, spec.name) == wanted and result.get("explanation")
        ]

    @cached_property
    def audit(self) -> dict[str, Any] | None:
        """What ``brainroam audit DATA --out RUNS/audit.json`` found, or None."""
        file = self.path / "audit.json"
        if not file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            checks = content["checks"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunsError(f"{file} is not an audit of brainroam; write it again with brainroam audit") from error
        if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
            raise RunsError(f"{file} is not an audit of brainroam; write it again with brainroam audit")
        return content


def read_data(runs: str | Path, method: str | None = None) -> ReportData:
    """Read a folder of runs; ``method`` is chosen by its name where it is not given, never by its result."""
    folder = RunsFolder(runs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* runs are not finished")
        results = load_runs(folder, partial=True)
    unfinished = len(results.study["missing"]) + len(results.study["failed"])
    if unfinished:
        warnings.warn(f"{unfinished} of the runs asked for are missing or failed; the report lists them", stacklevel=3)
    found = set(results.scores["protocol"])
    if not found:
        raise RunsError(f"{runs} holds no finished runs yet; brainroam loso writes them")
    protocol = next(name for name in PROTOCOLS if name in found)
    data = ReportData(folder, results, "", protocol)
    if method is not None and method not in data.names:
        raise unknown("method of these runs", method, data.names)
    return ReportData(folder, results, method or subject(data.names), protocol)
