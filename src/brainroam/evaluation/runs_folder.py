"""A folder of runs: the runs that were requested, those that are finished, and their tables.

::

    RUNS/study.json         the cohort: manifest hash, atlas, sites, participants, who was left out
    RUNS/plans/<hash>.json  a command and the runs it asked for
    RUNS/runs/<hash>.json   a run: its spec, and its result or its error
    RUNS/scores.csv         one row per finished run and held-out site
    RUNS/predictions.csv    one row per finished run and scan
    RUNS/ro-crate-metadata.json  where all of it comes from, for archives
    RUNS/superseded/        runs by other code that were asked for again

Every JSON file is written once and at once, so several commands may work in one folder and any of them may be killed.
The run files are the truth; the tables are written from them.
"""

import shlex
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.cohort_file import to_columns
from brainroam.data.columns import head_sizes
from brainroam.data.people import people_of
from brainroam.data.prepare import kind_of
from brainroam.data.study_file import is_study, read_study
from brainroam.data.target import TWO_CLASSES
from brainroam.errors import RunsError, counted, listed
from brainroam.evaluation.code_version import package_of
from brainroam.evaluation.run_records import (
    RunSpec,
    atlas_hash,
    plain,
    read_run,
    read_run_file,
    run_spec,
    table_hash,
    write_run,
)
from brainroam.evaluation.tables import columns_of, prediction_rows, require_types, score_rows
from brainroam.utils.crate import command_line, write_crate
from brainroam.utils.files import content_hash, csv_lines, write_checksummed, write_text

#: What is kept of everybody, so that results can be told by age, sex and motion without reading the data again.
PARTICIPANTS = (
    "subject",
    "person",
    "site",
    "institution",
    "label",
    "age",
    "sex",
    "mean_fd",
    "n_timepoints",
    "tr",
    "head_size",
)


TABLES = ("scores.csv", "predictions.csv")
PROGRAM = "brainroam"
#: Options of commands that say how and where to compute, or what to leave out of a study: the question is the same.
WITH_VALUE = ("--jobs", "--memory", "--engine", "--scheduler", "--cluster", "--cluster-config", "--out", "--skip")
ALONE = ("--force", "--partial", "--json", "--open", "--quiet", "-q", "--verbose", "-v")


def question_of(command: str) -> list[str]:
    """The words of a command without those that say how it is computed and shown.

    >>> question_of("brainroam run study.yaml --jobs 2 --open --seeds=3")
    ['brainroam', 'run', 'study.yaml', '--seeds=3']
    """
    words, kept = shlex.split(command), list[str]()
    for before, word in zip(["", *words], words, strict=False):
        if before not in WITH_VALUE and word not in (*WITH_VALUE, *ALONE) and word.partition("=")[0] not in WITH_VALUE:
            kept.append(word)
    return kept


def _place_of_runs(path: Path) -> Path:
    """The folder of runs that is named: itself, in what ``brainroam run`` writes, or by the study file."""
    named = Path(read_study(path).out) if is_study(path) and path.is_file() else path
    place = next((place for place in (named, named / "runs") if (place / "study.json").is_file()), None)
    if place is None:
        raise RunsError(
            f"{named} holds no runs: there is no study.json in it; give the folder named with --out, or out:"
        )
    return place


class RunsFolder:
    """The runs of one cohort on disk.

    Attributes
    ----------
    path : Path
    study : dict
        What ``study.json`` says of the cohort.
    planned : dict of str to RunSpec
        Every run any command asked for, by hash.
    runs : dict of str to (RunSpec, dict)
        Every run that has an intact file, by hash; a damaged file is reported and counts as not done.
    commands : list of str
    damaged_plans : dict of str to RunsError
        Plans that cannot be read, by file name; the command that made one writes it again.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = _place_of_runs(Path(path))
        self.study = _read_study(self.path / "study.json")
        self.planned: dict[str, RunSpec] = {}
        self.runs: dict[str, tuple[RunSpec, dict[str, Any]]] = {}
        self.damaged_plans: dict[str, RunsError] = {}
        self._lines: dict[tuple, tuple[str, str]] = {}
        self._n_written = 0
        self._plans: dict[Path, tuple[str, list[RunSpec]]] = {}
        for file in sorted((self.path / "plans").glob("*.json")):
            try:
                self._plans[file] = _read_plan(file)
            except RunsError as error:
                self.damaged_plans[file.name] = error
        self._collect_planned()
        self.commands = sorted({command for command, _ in self._plans.values()})
        self._seen = self._files()
        self._of_others = Counter[str]()
        for file in sorted((self.path / "runs").glob("*.json")):
            self._load_run(file)
        for what, n in self._of_others.items():
            are = counted(n, "run is", "runs are")
            warnings.warn(f"{are} of another {what} than the others in {self.path} and not used", stacklevel=3)
        self._forget_superseded()

    @classmethod
    def of(cls, path: str | Path, cohort: Cohort) -> "RunsFolder":
        """The folder for this cohort, made if it is new; a folder of another cohort is refused."""
        file = Path(path) / "study.json"
        mine = describe_cohort(cohort)
        if not file.is_file():
            write_checksummed(file, mine)
        try:
            theirs = _read_study(file)
        except RunsError as error:  # each run file states its cohort as well: none of another one is taken for ours
            warnings.warn(f"{error}; it is written again", stacklevel=3)
            write_checksummed(file, mine)
            theirs = mine
        differing = [name for name in ("manifest_hash", "table_hash") if mine[name] != theirs[name]]
        if differing:
            what = "people, labels, sites or series" if "manifest_hash" in differing else "covariates"
            raise RunsError(
                f"{path} holds runs of another cohort: its {what} differ ({theirs['cohort']} there, {cohort} here); "
                "give another folder, or read the data with the same options as before"
            )
        if (mine["atlas"], mine["atlas_hash"]) != (theirs["atlas"], theirs["atlas_hash"]):
            raise RunsError(
                f"{path} holds runs with the atlas {theirs['atlas']!r}, the data have {mine['atlas']!r}"
                + (" with other names of regions" if mine["atlas"] == theirs["atlas"] else "")
                + "; give another folder, or name the atlas as before (--atlas)"
            )
        return cls(path)

    def plan(self, specs: Iterable[RunSpec]) -> None:
        """Record the requested runs; two different runs cannot have one place in the tables."""
        specs = list(specs)
        earlier = {spec.key: spec for spec in [*self.planned.values(), *(spec for spec, _ in self.runs.values())]}
        self._supersede(
            [earlier[spec.key] for spec in specs if spec.key in earlier and spec.is_rerun_of(earlier[spec.key])]
        )
        for spec in specs:
            other = earlier.get(spec.key, spec)
            if other.hash != spec.hash and not spec.is_rerun_of(other):
                how = "other folds" if other.tuning == spec.tuning else f"--tuning {other.tuning}"
                raise RunsError(
                    f"{self.path} contains runs made with {how} ({other}); reuse those settings, or give another folder"
                )
        command = command_line()
        content = {"command": command, "runs": [asdict(spec) for spec in specs]}
        file = self.path / "plans" / f"{content_hash(content)[:24]}.json"
        if not file.is_file() or file.name in self.damaged_plans:
            write_checksummed(file, content)
            self.damaged_plans.pop(file.name, None)
        if command.startswith(f"{PROGRAM} "):  # the study file has changed: it no longer asks for what it asked for
            self._forget_plans(
                [
                    other
                    for other, (typed, _) in self._plans.items()
                    if other != file and question_of(typed) == question_of(command)
                ]
            )
        self._plans.pop(file, None)
        self._plans[file] = command, specs  # the last: of two versions of a run it asks for the newer
        self._collect_planned()
        self._forget_superseded()

    def _collect_planned(self) -> None:
        self.planned = {spec.hash: spec for _, specs in self._plans.values() for spec in specs}

    @property
    def wanted(self) -> list[RunSpec]:
        """The runs of the study as it is now: those asked for, and finished ones in their place by other code.

        What was finished for a method that the study no longer names is kept, and counts again once it is asked for.
        Without any plan all finished runs are the study.
        """
        asked = {spec.key for _, specs in self._plans.values() for spec in specs}
        done = [spec for spec, outcome in self.runs.values() if outcome["status"] == "done"]
        instead = {spec.hash: spec for spec in done if spec.key in asked or not self._plans}
        return list((self.planned | instead).values())

    def _forget_plans(self, files: Sequence[Path]) -> None:
        for file in files:
            self._plans.pop(file)
            file.unlink(missing_ok=True)

    def _supersede(self, specs: Sequence[RunSpec]) -> None:
        """Move aside runs that are requested again because other code made them."""
        finished = [spec for spec in specs if spec.hash in self.runs]
        for spec in specs:
            self.planned.pop(spec.hash, None)
        for spec in finished:
            self.runs.pop(spec.hash)
            self._lines.pop(spec.key, None)
            file = self.path / "runs" / f"{spec.hash}.json"
            (self.path / "superseded").mkdir(exist_ok=True)
            file.replace(self.path / "superseded" / file.name)
        if finished:
            makers = _makers(spec.version for spec in finished)
            warnings.warn(
                f"{len(finished)} finished runs were made by {makers}; they are done again by this version, "
                f"the old ones are in {self.path / 'superseded'}",
                stacklevel=4,
            )

    def _forget_superseded(self) -> None:
        """Of runs requested with several versions of the code keep one: the finished one, if there is one."""
        latest = {spec.key: spec for spec in [*self.planned.values(), *(spec for spec, _ in self.runs.values())]}
        self.planned = {spec.hash: spec for spec in self.planned.values() if not latest[spec.key].is_rerun_of(spec)}

    def keep(self, spec: RunSpec, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a run; the tables are written again after every tenth part more of runs.

        After each of n runs it would take time of the order of n^2. `complete_tables` writes what is left.
        """
        write_run(self.path / "runs", spec, outcome)
        self._add(spec, dict(outcome))
        if len(self.runs) >= 1.1 * self._n_written:
            self.write_tables()

    def status(self, spec: RunSpec) -> str:
        """``done``, ``failed`` or ``missing``."""
        return self.runs[spec.hash][1]["status"] if spec.hash in self.runs else "missing"

    def write_tables(self) -> None:
        """Write ``scores.csv`` and ``predictions.csv`` of all finished runs, in the order of their keys."""
        self._n_written = len(self.runs)
        lines = [self._lines[key] for key in sorted(self._lines)]
        for column, (name, header) in enumerate(zip(TABLES, columns_of(self.study), strict=True)):
            write_text(self.path / name, csv_lines([header]) + "".join(of_run[column] for of_run in lines))

    def write_crate(self) -> None:
        """Describe the folder for archives; the date is that of the latest run, so that nothing else changes it."""
        outcomes = [outcome for _, outcome in self.runs.values() if "date" in outcome]
        if not outcomes:
            return
        latest = max(outcomes, key=lambda outcome: outcome["date"])
        sites = self.study["sites"]
        data = {
            "manifest_hash": self.study["manifest_hash"],
            "table_hash": self.study["table_hash"],
            "n_people": sum(site["n"] for site in sites),
            "n_with_the_condition": sum(site["n_cases"] for site in sites),
            "n_sites": len(sites),
            "n_left_out": len(self.study["excluded"]),
            "n_regions": self.study["n_rois"],
        }
        methods = sorted({spec.name for spec, _ in self.runs.values()})
        write_crate(
            self.path,
            "Runs of brainroam",
            f"{len(outcomes)} finished runs of {', '.join(methods)}: every score is of people at a held-out site.",
            data,
            latest["versions"],
            self.commands,
            latest["date"],
            ("study.json", *TABLES, "check.json", "audit.json"),
        )

    def require_plans(self) -> None:
        """An error when it cannot be told whether all that was asked for is done."""
        for error in self.damaged_plans.values():
            raise RunsError(f"{error}; give the command again that began these runs, or delete the file") from error

    def has_changed(self) -> bool:
        """Whether there are other run files than when the folder was read."""
        return self._files() != self._seen

    def _files(self) -> set[tuple[str, int]]:
        """The run files by name and place on disk: a run that is done again is another file."""
        return {(file.name, file.stat().st_ino) for file in (self.path / "runs").glob("*.json")}

    def _load_run(self, file: Path) -> None:
        try:
            spec, outcome = read_run(file)
            if (spec.manifest_hash, spec.table_hash) != (self.study["manifest_hash"], self.study["table_hash"]):
                self._of_others["cohort"] += 1
                return
            if spec.atlas != self.study["atlas_hash"]:
                self._of_others["atlas"] += 1
                return
            with _require_content(file, "a whole run"):
                self._add(spec, outcome)
        except RunsError as error:
            warnings.warn(f"{error}; it is not used, and done again when asked for", stacklevel=4)

    def _add(self, spec: RunSpec, outcome: dict[str, Any]) -> None:
        self._lines.pop(spec.key, None)
        if outcome["status"] == "done":
            scores, predictions = score_rows(spec, outcome), prediction_rows(spec, outcome)
            of_scores, of_predictions = columns_of(self.study)
            require_types(of_scores, scores)
            require_types(of_predictions, predictions)
            self._lines[spec.key] = csv_lines(scores), csv_lines(predictions)
        elif not isinstance(outcome["error"], str):
            raise TypeError("a run that failed says why")
        self.runs[spec.hash] = spec, outcome


def complete_tables(path: str | Path) -> RunsFolder:
    """Write the tables of all that is finished in a folder; should others finish runs meanwhile, of these too.

    Whoever writes the tables last looks once more for runs that it had not seen, so none is left out of them.
    """
    while True:
        folder = RunsFolder(path)
        folder.write_tables()
        if not folder.has_changed():
            folder.write_crate()
            return folder


@contextmanager
def _require_content(file: Path, what: str) -> Iterator[None]:
    """Turn errors of content into a `RunsError`: a checksum cannot tell that a file makes sense."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RunsError(f"{file} does not hold {what}") from error


def _read_study(file: Path) -> dict[str, Any]:
    content = read_run_file(file)
    with _require_content(file, "the facts of a study"):
        texts = [content[name] for name in ("manifest_hash", "table_hash", "cohort", "atlas", "atlas_hash")]
        texts += [site["site"] for site in content["sites"]]
        numbers = [site[name] for site in content["sites"] for name in ("n", "n_cases")]
        texts += content["participants"]["subject"]
        if not (all(isinstance(x, str) for x in texts) and all(isinstance(x, int) for x in numbers)):
            raise TypeError("names are text, counts are numbers")
    return content


def _read_plan(file: Path) -> tuple[str, list[RunSpec]]:
    content = read_run_file(file)
    with _require_content(file, "a plan"):
        return str(content["command"]), [run_spec(spec) for spec in content["runs"]]


def mixed_versions(specs: Iterable[RunSpec]) -> str:
    """A warning that runs were made by different code; empty if they were not."""
    specs = list(specs)
    versions = {spec.version for spec in specs}
    packages = {package_of(version) for version in versions}
    if len(packages) > 1 or len({(spec.name, spec.version) for spec in specs}) > len({spec.name for spec in specs}):
        makers = _makers(packages if len(packages) > 1 else versions)
        return f"runs were made by {makers}: differences between methods may be differences of code"
    return ""


def _makers(versions: Iterable[str]) -> str:
    """Versions that made some runs, in words."""
    return listed([f"brainroam {name}" for name in sorted(set(versions))])


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """What ``study.json`` says of a cohort."""
    return {
        "manifest_hash": cohort.manifest_hash,
        "table_hash": table_hash(cohort),
        "cohort": repr(cohort),
        "atlas": cohort.atlas.name,
        "atlas_hash": atlas_hash(cohort),
        "atlas_citation": cohort.atlas.citation,
        "n_rois": cohort.n_rois,
        "measured": {
            name: {"measure": block.measure, "extent": block.extent, "n": int(cohort.has_block(name).sum())}
            for name, block in (cohort.blocks or {cohort.block_name: cohort}).items()
        },
        "sites": plain([describe_site(str(site), scans) for site, scans in cohort.table.groupby("site")]),
        "excluded": cohort.excluded.to_dict("records"),
        "participants": plain(to_columns(_participants(cohort))),
        "synthetic": cohort.truth is not None,
        "covariates": _describe_covariates(cohort),
        "prepared": list(cohort.prepared),
        **({} if cohort.target == TWO_CLASSES else {"target": cohort.target.described()}),
    }


def _participants(cohort: Cohort) -> pd.DataFrame:
    return cohort.table.assign(head_size=head_sizes(cohort)).reindex(columns=list(PARTICIPANTS))


def _describe_covariates(cohort: Cohort) -> dict[str, dict[str, Any]]:
    """Kind and number of known values of each covariate, and of motion, which the controls read in any case."""
    table, used = people_of(cohort.table, ()), cohort.covariate_names
    columns = set[str]().union(*(b.atlas.labels for b in (cohort.blocks or {"": cohort}).values() if b.atlas.columns))
    return {
        name: {"kind": kind_of(table[name]), "known": int(table[name].notna().sum()), "used": name in used}
        | ({"measure": True} if name in columns else {})
        | ({"projected": True} if name in cohort.nuisance_names else {})
        for name in dict.fromkeys([*used, "mean_fd", *cohort.nuisance_names])
    }


def describe_site(site: str, scans: pd.DataFrame) -> dict[str, Any]:
    """Number of people, scan lengths and known covariates of a site."""
    volumes, people = scans["n_timepoints"].dropna(), people_of(scans)
    facts = {
        "site": site,
        "n": len(people),
        "n_scans": len(scans),
        "n_cases": int((people["label"] == 1).sum()),
    }
    if len(volumes):
        facts |= {f"volumes_{name}": getattr(volumes, name)() for name in ("min", "median", "max")}
    values = {name: people[name].dropna() for name in ("age", "sex", "mean_fd", "tr") if name in people}
    for name in ("age", "mean_fd"):
        if len(values.get(name, ())):
            facts |= {f"{name}_mean": values[name].mean(), f"{name}_sd": values[name].std()}
    if len(values.get("age", ())):
        facts |= {"age_min": values["age"].min(), "age_max": values["age"].max()}
    if len(values.get("sex", ())):
        facts |= {"n_male": int((values["sex"] == 1).sum()), "n_sex_known": len(values["sex"])}
    if len(values.get("tr", ())):
        facts["tr"] = values["tr"].median()
    return facts
