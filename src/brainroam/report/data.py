"""The data of a report and its displays: results, and the files of `check`, `audit` and `plan` beside them.

What the study is called and how its data are named on a command line is read off the commands that made the runs.
"""

import json
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import people_of, persons
from brainroam.data.study_file import is_study, read_study
from brainroam.data.target import Target
from brainroam.data.target.base import Place
from brainroam.data.target.figures import Figure
from brainroam.data.target.orders import Order
from brainroam.errors import RunsError, UsageError, unknown
from brainroam.evaluation.checks import Check, check_files, unknown_of
from brainroam.evaluation.results import Results, load_studies
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats.compare import ALPHA, Comparison, compare_methods
from brainroam.evaluation.stats.confounding import KNOWN, confounding_by_site
from brainroam.evaluation.stats.families import compared, main_method
from brainroam.evaluation.stats.groups import groups_by_site, groups_pooled
from brainroam.evaluation.stats.metrics import average_seeds
from brainroam.evaluation.stats.site_scores import SiteScores, gather
from brainroam.evaluation.tables import KEY
from brainroam.methods.registry import bare_name
from brainroam.report.audits import AuditVerdict, audit_verdict
from brainroam.report.words import Words, words_of

PROTOCOLS = ("loso", "loio", "halves", "cv")
PLAIN = "fc-ridge"  # the reference a new method has to beat
CONFOUNDS = "confounds"  # the control that reads covariates alone
BETTER, WORSE, NO_DIFFERENCE_FOUND = "better", "worse", "cannot be told"

#: Anything a display can be made from.
Source: TypeAlias = "str | Path | Sequence[str | Path] | Results | ReportData"
READING = (
    "--reader",
    "--atlas",
    "--sites",
    "--preset",
    "--max-missing-rois",
    "--option",
    "--block",
    "--target",
    "--covariates",
)
READERS_OF_DATA = ("loso", "cv", "ablate", "sweep", "run", "audit", "check")


@dataclass(frozen=True)
class Summary:
    """What the sites say together about one method: one place for every interval that is shown.

    Attributes
    ----------
    mean, low, high : float
        Mean of the figure (AUC, r) over held-out sites and its 95 % interval.
    next_low, next_high : float
        Where its true value at the next site is expected (95 % prediction interval); NaN for in-distribution folds.
    """

    mean: float
    low: float
    high: float
    next_low: float
    next_high: float

    @classmethod
    def of_row(cls, row: Any, order: Order) -> "Summary":
        """From a row of the table of a `Comparison`."""
        return cls(*(float(row[name]) for name in (order.figure.name, *order.ends, "next_low", "next_high")))


@dataclass(frozen=True)
class ReportData:
    """Everything a section may read.

    Attributes
    ----------
    results : Results
        The finished runs.
    method : str
        The method the report is about.
    protocol : str
        The protocol it is judged under.
    """

    results: Results
    method: str
    protocol: str

    @property
    def path(self) -> Path | None:
        """The folder of runs; None for results that were never written."""
        return self.results.path

    @property
    def study(self) -> dict[str, Any]:
        """The cohort, the commands, and what is missing, see `Results`."""
        return self.results.study

    @cached_property
    def words(self) -> Words:
        """The words for what was measured."""
        return words_of(self.study)

    @property
    def name(self) -> str:
        """What the study is called."""
        if "joined" in self.study:
            return " and ".join(self.study["joined"])
        if self.from_files:
            return " and ".join(dict.fromkeys(Path(file).stem for file in self.from_files.values()))
        return study_name(self.study["commands"]) or f"Study of {len(self.study['sites'])} sites"

    @property
    def date(self) -> str:
        """The day on which the last run was done; empty for runs of older versions."""
        return max((result.get("date", "") for _, result in self.finished), default="")

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

    @cached_property
    def of_protocol(self) -> Results:
        """The results under the protocol of the page: sites under different ones are not put together."""
        scores, predictions = (
            frame[frame["protocol"] == self.protocol] for frame in (self.results.scores, self.results.predictions)
        )
        return replace(self.results, scores=scores, predictions=predictions)

    def compare(self, names: Sequence[str], reference: str, protocol: str | None = None) -> Comparison:
        """Some methods against one of them."""
        scores, predictions = (
            frame[frame["method"].isin(names) & (frame["protocol"] == (protocol or self.protocol))]
            for frame in (self.results.scores, self.results.predictions)
        )
        return compare_methods(scores, predictions, reference, target=self.target)

    @property
    def target(self) -> Target:
        """What is predicted."""
        return self.results.target

    @property
    def figure(self) -> Figure:
        """What the report is about: the AUC, or the correlation of a number."""
        return self.target.order.figure

    @property
    def place(self) -> Place:
        """Where people were held out, in words."""
        return self.gathered.place

    @cached_property
    def gathered(self) -> SiteScores:
        """The figure of all methods at each site under the main protocol."""
        return gather(self.results.predictions, self.protocol, self.results.target)

    @cached_property
    def site_scores(self) -> pd.DataFrame:
        """One row per method and held-out site under the main protocol, seeds averaged."""
        averaged = average_seeds(self.results.scores, self.target.measured[1:])
        return averaged[averaged["protocol"] == self.protocol].reset_index(drop=True)

    @cached_property
    def site_aucs(self) -> pd.DataFrame:
        """Figure and 95 % interval of the method of the report at each site that has one, best first."""
        return self.gathered.intervals(self.method)

    @property
    def headline(self) -> dict[str, Any]:
        """The row of the report's method in the comparison."""
        return self.row_of(self.method)

    def row_of(self, method: str) -> dict[str, Any]:
        """The row of a compared method."""
        table = self.comparison.table
        return table[table["method"] == method].iloc[0].to_dict()

    @property
    def summary(self) -> Summary:
        """Mean, interval and next site of the method of the report."""
        return Summary.of_row(self.headline, self.target.order)

    def beside(self, name: str) -> str:
        """What a method of the same study is called; of several studies, names have a prefix."""
        return self.method.removesuffix(bare_name(self.method)) + name

    def against(self, name: str) -> str:
        """Whether the method of the report is better or worse than another (Holm), or cannot be told from it.

        Empty where the other was not run, or has no AUC.
        """
        paired = self.comparison.paired
        rows = paired[(paired["method"] == self.beside(name)) & paired["difference"].notna()]
        if rows.empty:
            return ""
        row = rows.iloc[0]  # the other minus the method of the report
        if not row["p_holm"] < ALPHA:
            return NO_DIFFERENCE_FOUND
        return BETTER if row["difference"] < 0 else WORSE

    def sentence_on(self, name: str) -> str:
        """The comparison with another method in words."""
        return self.comparison.against[self.beside(name)]

    @property
    def references(self) -> dict[str, float]:
        """The mean of the plain ridge, where it was run at the same sites and is not the method of the report."""
        plain = self.beside(PLAIN)
        if plain not in self.compared or self.method == plain:
            return {}
        mean = self.mean_beside(plain)
        return {PLAIN: mean} if np.isfinite(mean) else {}

    def mean_beside(self, other: str) -> float:
        """Mean figure of another method at the sites of the report's; NaN where it lacks one of them, as unfinished."""
        own, values = (self.gathered.values[:, self.gathered.methods.index(name)] for name in (self.method, other))
        lacks_one = np.isnan(values[np.isfinite(own)]).any()
        return float("nan") if lacks_one else self.gathered.mean(other, self.method)

    @cached_property
    def people(self) -> pd.DataFrame:
        """Held-out people of the method of the report, one row each, averaged over seeds.

        Site, subject, label and what the target tells of a person (of two classes score, probability, the prevalence it
        holds for, and the predicted class); means over the scans of a person.
        """
        rows = self.results.predictions
        rows = rows[(rows["method"] == self.method) & (rows["protocol"] == self.protocol)]
        if "prevalence" in self.results.scores:
            rows = rows.merge(self.results.scores[[*KEY, "prevalence"]], on=list(KEY))
        rows = rows.assign(subject=persons)
        numbers = [name for name in (*self.target.told[1:], "prevalence") if name in rows]
        return rows.groupby(["site", "subject", "label"])[numbers].mean().reset_index()

    @cached_property
    def participants(self) -> pd.DataFrame:
        """Age, sex, motion and scan length of each scan; empty for runs of older versions."""
        return self.results.participants

    @cached_property
    def everybody(self) -> pd.DataFrame:
        """The participants, each person once."""
        return people_of(self.participants, ())

    @cached_property
    def confounding(self) -> pd.DataFrame:
        """`confounding_by_site` of the compared methods; empty for folds, or where no covariate is known."""
        unknown_to_all = self.participants[list(KNOWN)].isna().all(axis=None)
        if self.protocol == "cv" or unknown_to_all or self.target.is_number:  # of which see `number_confounding`
            return pd.DataFrame()
        rows, target = self.results.predictions, self.results.target
        rows = rows[rows["method"].isin(self.compared)]
        classes = target.classes if target.is_classes else ()
        return confounding_by_site(rows, self.participants, self.protocol, classes)

    @cached_property
    def groups(self) -> pd.DataFrame:
        """`groups_pooled` of the method of the report; empty where no covariate is known."""
        has_groups = "probability" in self.results.predictions and not self.confounding.empty
        return groups_pooled(self.groups_by_site) if has_groups else pd.DataFrame()

    @cached_property
    def groups_by_site(self) -> pd.DataFrame:
        """`groups.groups_by_site` of the method of the report."""
        return groups_by_site(self.results.predictions, self.participants, self.method, self.protocol)

    @property
    def unit(self) -> str:
        """What is measured by itself: a site, or a fold of people."""
        return UNITS[self.protocol]

    @property
    def next_place(self) -> str:
        """What a prediction is about: the next site, or one of another institution where some sites share one."""
        return self.place.following

    @property
    def shell_path(self) -> str:
        """The folder of runs as one types it."""
        return shlex.quote(str(self.path)) if self.path else "RUNS"

    @property
    def only_files(self) -> bool:
        """Whether all of it was made elsewhere: there is nothing to run again."""
        return bool(self.from_files) and not self.finished

    @property
    def sources(self) -> str:
        """What the report was made from, as one types it."""
        return (
            shlex.join([*([str(self.path)] if self.path else []), *dict.fromkeys(self.from_files.values())]) or "RUNS"
        )

    def command(self, verb: str, options: str = "", out: str | None = None) -> str:
        """A command on the data of this study, as one types it."""
        data = shlex.join(data_words(self.study["commands"])) or "DATA"
        return " ".join(part for part in ("brainroam", verb, data, options, f"--out {out or self.shell_path}") if part)

    @property
    def explaining(self) -> str:
        """The commands that explain the method of the report block by block, which its runs do not keep."""
        fit = self.command("fit", f"--method {shlex.quote(bare_name(self.method))}", "model")
        return f"{fit} && {self.command('explain model', out='explanation')}"

    @cached_property
    def finished(self) -> list[tuple[RunSpec, dict[str, Any]]]:
        """Every finished run, whatever its protocol, in the order of the tables."""
        return sorted(self.results.records, key=lambda run: run[0].key)

    def explanations(self, method: str) -> list[tuple[RunSpec, dict[str, Any]]]:
        """What the runs of a method say of their pathways, gates and embeddings; only runs that say it."""
        return [
            (spec, result)
            for spec, result in self.finished
            if (spec.protocol, spec.name) == (self.protocol, method) and result.get("explanation")
        ]

    @cached_property
    def audit(self) -> dict[str, Any] | None:
        """What ``brainroam audit DATA --out RUNS/audit.json`` found, or None."""
        return self._left_beside("audit", "checks")

    @cached_property
    def audit_verdict(self) -> AuditVerdict:
        """What all searches for leaks say together."""
        return audit_verdict(self)

    @property
    def from_files(self) -> dict[str, str]:
        """The file of each method whose scores were made elsewhere."""
        return self.study.get("from_files", {})

    @cached_property
    def file_checks(self) -> list[Check]:
        """What the scores of these methods show of how they were made."""
        return check_files(self.results)

    @property
    def file_unknowns(self) -> list[str]:
        """What their files cannot show, a sentence each."""
        return unknown_of(self.results)

    @cached_property
    def check(self) -> dict[str, Any] | None:
        """What ``brainroam check DATA --out RUNS/check.json`` found, or None."""
        return self._left_beside("check", "findings")

    @cached_property
    def method_audits(self) -> list[dict[str, Any]]:
        """What the leak checks said of each method that did not come with brainroam, before it was run."""
        folders = map(Path, self.study.get("folders", [self.path] if self.path else []))
        audits = [self._left_beside("method-audits", "audits", folder) for folder in folders]
        return [audit for content in audits if content is not None for audit in content["audits"]]

    @cached_property
    def plan(self) -> dict[str, Any] | None:
        """What ``brainroam plan DATA --out RUNS/plan`` found, or None."""
        return self._left_beside("plan", "curve", self.path / "plan" if self.path else None)

    def _left_beside(self, name: str, key: str, folder: Path | None = None) -> dict[str, Any] | None:
        folder = folder or self.path
        file = folder / f"{name}.json" if folder else None
        if file is None or not file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            items = content[key]
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise TypeError(f"{key} is no list")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            verb = "loso" if name == "method-audits" else name
            raise RunsError(f"{file} cannot be read; write it again with brainroam {verb}") from error
        return content


def read_data(runs: Source, method: str | None = None, people: Cohort | None = None) -> ReportData:
    """Results, a folder of runs, or a file of predictions (of ``people``).

    ``method`` is chosen by its name where it is not given, never by its result.
    """
    if isinstance(runs, ReportData):
        if method is None or method == runs.method:
            return runs
        results = runs.results
    elif isinstance(runs, Results):
        results = runs
    else:
        results = _load(runs, people)
    protocols = set(results.scores["protocol"])
    if not protocols:
        raise RunsError(f"{runs} holds no finished runs yet; brainroam loso writes them")
    protocol = next(name for name in PROTOCOLS if name in protocols)
    names = ReportData(results, "", protocol).names
    if method is not None and method not in names:
        raise unknown("method of these runs", method, names)
    return ReportData(results, method or main_method(names), protocol)


def _load(runs: str | Path | Sequence[str | Path], people: Cohort | None) -> Results:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* runs are not finished")
        results = load_studies(runs, True, people)
    unfinished = len(results.study["missing"]) + len(results.study["failed"])
    if unfinished:
        warnings.warn(f"{unfinished} of the runs asked for are missing or failed; the report lists them", stacklevel=4)
    return results


def data_words(commands: Sequence[str]) -> list[str]:
    """DATA as it was typed, with the options that say how to read it; empty where no command tells.

    >>> data_words(["brainroam loso ABIDE_pcp --atlas aal --methods core", "brainroam run study.yaml"])
    ['ABIDE_pcp', '--atlas', 'aal']
    >>> data_words(["brainroam run --open"]), data_words(["ipykernel_launcher.py -f kernel.json"])
    (['study.yaml'], [])
    """
    for command in commands:
        words = shlex.split(command)
        if words[1:2] == ["run"] and (len(words) == 2 or words[2].startswith("-")):
            return ["study.yaml"]  # what the command reads unless told
        if len(words) < 3 or words[1] not in READERS_OF_DATA or words[2].startswith("-"):
            continue
        words_to_keep = [words[2]]
        for flag, value in pairwise(words[3:]):
            words_to_keep += [flag, value] if flag in READING else []
        return words_to_keep
    return []


def study_name(commands: Sequence[str]) -> str:
    """The name that the study file gives, else of the data or of the file's folder; empty where no command tells.

    >>> study_name(["brainroam loso data/ABIDE_pcp --atlas aal"]), study_name(["brainroam run autism/study.yaml"])
    ('ABIDE_pcp', 'autism')
    """
    words = data_words(commands)
    if not words:
        return ""
    path = Path(words[0])
    if is_study(path):
        try:
            if name := read_study(path).name:
                return name
        except UsageError:
            pass  # it is no longer there, or was changed since
        return path.absolute().parent.name if path.stem == "study" else path.stem
    return path.stem if path.suffix else path.name
