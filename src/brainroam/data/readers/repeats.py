"""Several scans of one person: which sessions and runs are taken, how runs are joined, and who belongs together.

Runs that are joined are standardised first, region by region: otherwise a shift between runs would look like
correlation. The correlations of joined runs are then the mean of the runs' correlations, weighted by their lengths.

One id at several sites are people who are numbered anew at each, or one person who travelled.
Either way a row of the cohort is the site and the id together, ``Oslo_1``. Label, sex and age tell which it is: where
they contradict each other these are different people, else the column ``person`` names the one whose scans they are.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.measurements import are_matrices
from brainroam.data.names import canonical
from brainroam.data.readers.text import Series
from brainroam.data.readers.values import is_empty
from brainroam.errors import ReaderError, counted, listed, unknown

SESSIONS = ("first", "all", "average")
SESSIONS_OF_ROWS = ("first", "all")  # of a table
RUNS = ("concatenate", "first")
SESSION = re.compile(r"(?:^|[_/.])(?:ses|session|visit|wave|timepoint)(?:-([A-Za-z0-9]+)|_?(\d+))(?=[_/.]|$)", re.I)
RUN = re.compile(r"(?:^|[_/.-])(?:run|rest)[-_]?(\d+)(?=[_/.]|$)", re.I)
EARLY = ("baseline", "bl", "pre", "screening")
MOST = 0.8  # of the ids of a site that stand at others too, where numbering begins anew
FEWEST = 3  # people of such a site
YEARS = 1.0  # between two scans of one person


@dataclass(frozen=True)
class Repeats:
    """What to do with several scans of one person.

    ``sessions`` is ``first`` (the others are left out), ``all`` (each is a row of its own, and column ``person`` says
    whose), or ``average`` (joined, so that correlations are averaged); ``runs`` is
    ``concatenate`` (each standardised, then joined) or ``first``.
    """

    sessions: str = "first"
    runs: str = "concatenate"

    def __post_init__(self) -> None:
        for name, value, choices in (("sessions", self.sessions, SESSIONS), ("runs", self.runs, RUNS)):
            if value not in choices:
                raise unknown(name, value, choices)


USUAL_REPEATS = Repeats()


class Scan(NamedTuple):
    """A file, and the session, run and site that its path tells."""

    path: Path
    session: str = ""
    run: str = ""
    site: str = ""

    @classmethod
    def of(cls, path: Path, place: str, site: str = "") -> "Scan":
        """Look for session and run in a path.

        >>> Scan.of(Path("x"), "sub-01_ses-2_task-rest_run-1_bold.csv")[1:3]
        ('2', '1')
        """
        session, run = SESSION.search(place), RUN.search(place)
        return cls(path, (session[1] or session[2]) if session else "", run[1] if run else "", site)


def with_stars(place: str) -> str:
    """A path with a star for its session and its run.

    >>> with_stars("_ses-2_task-rest_run-1_bold.csv")
    '_ses-*_task-rest_run-*_bold.csv'
    """
    for pattern in (SESSION, RUN):
        place = pattern.sub(lambda found: found[0].removesuffix(next(filter(None, found.groups()))) + "*", place)
    return place


@dataclass
class Chosen:
    """The files of each row of the cohort, by the id it will have, and the person and session they are of."""

    files: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    person: dict[str, str] = field(default_factory=dict)
    session: dict[str, str] = field(default_factory=dict)

    @property
    def first_files(self) -> dict[str, Path]:
        """One file of each row."""
        return {name: paths[0] for name, paths in self.files.items()}


def choose(found: Mapping[str, Sequence[Scan]], repeats: Repeats) -> Chosen:
    """Choose among the scans of each person, and say what was left out or joined."""
    chosen, n_sessions, n_runs = Chosen(), 0, 0
    for person, scans in found.items():
        by_session: dict[str, list[Scan]] = defaultdict(list)
        for scan in scans:
            by_session[scan.session].append(scan)
        sessions = sorted(by_session, key=visit_order)
        runs = {session: _runs(by_session[session], person) for session in sessions}
        n_sessions += len(sessions) > 1
        n_runs += any(len(paths) > 1 for paths in runs.values())
        if repeats.runs == "first":
            runs = {session: paths[:1] for session, paths in runs.items()}
        if repeats.sessions == "average":
            kept = {person: ("", [path for session in sessions for path in runs[session]])}
        elif repeats.sessions == "all" and len(sessions) > 1:
            kept = {f"{person}_ses-{session or 'none'}": (session, runs[session]) for session in sessions}
        else:
            kept = {person: (sessions[0], runs[sessions[0]])}
        for name, (session, paths) in kept.items():
            chosen.files[name], chosen.person[name], chosen.session[name] = tuple(paths), person, session
    if n_sessions:
        done = {"first": "the first is taken", "all": "each is a row of its own", "average": "they are averaged"}
        remark = f"{counted(n_sessions, 'person has', 'people have')} several sessions: {done[repeats.sessions]}"
        warnings.warn(f"{remark} (sessions={repeats.sessions}; or {_others(SESSIONS, repeats.sessions)})", stacklevel=2)
    if n_runs:
        joined = "each is standardised by region, then they are joined; matrices are averaged"
        done = {"first": "the first is taken", "concatenate": joined}
        remark = f"{counted(n_runs, 'person has', 'people have')} several runs: {done[repeats.runs]}"
        warnings.warn(f"{remark} (runs={repeats.runs}; or {_others(RUNS, repeats.runs)})", stacklevel=2)
    return chosen


def _others(known: Sequence[str], value: str) -> str:
    return " or ".join(other for other in known if other != value)


def visit_order(session: str) -> tuple:
    """Baseline first, then by number: 2 before 10."""
    parts = [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", session.lower()) if part]
    return not session.lower().startswith(EARLY), parts


def _runs(scans: Sequence[Scan], person: str) -> list[Path]:
    """The files of one session in order; one without a run beside others with one is already their concatenation."""
    by_run: dict[str, Path] = {}
    for scan in scans:
        if scan.run in by_run:
            raise ReaderError(
                f"two series for subject {person}: {by_run[scan.run]} and {scan.path}, which differ in neither session "
                "nor run; narrow the template (--option template=...)"
            )
        by_run[scan.run] = scan.path
    return [by_run[""]] if "" in by_run else [by_run[run] for run in sorted(by_run, key=visit_order)]


def rows_of_scans(table: pd.DataFrame, chosen: Chosen) -> pd.DataFrame:
    """One row for each scan that was chosen, and one for each person without any; ``person`` says whose scan each is.

    A table with one row per session gives each scan the row of its session.
    """
    rows_of = {str(person): part for person, part in table.groupby("subject", sort=False)}
    scans_of: dict[str, list[str]] = defaultdict(list)
    for name, person in chosen.person.items():
        scans_of[person].append(name)
    rows = []
    for person, part in rows_of.items():
        if "session" not in part:
            rows += [row.assign(subject=name) for name in scans_of.get(person) or [person] for row in [part]]
            continue
        for name in scans_of.get(person) or [person]:
            wanted = chosen.session.get(name, "")
            same = part[part["session"].map(lambda text, wanted=wanted: _same_session(text, wanted))]
            rows.append((same if len(same) else part.iloc[:1]).assign(subject=name))
    made = pd.concat(rows)
    if len(chosen.person) > len(set(chosen.person.values())):
        person = made["subject"].map(lambda name: chosen.person.get(name, name))
        named = made["person"].where(~is_empty(made["person"].fillna(""))) if "person" in made else person
        made["person"] = named.fillna(person)
    return made


def choose_visits(table: pd.DataFrame, sessions: str = "first") -> pd.DataFrame:
    """A table of people with a row for each visit: the first visit of everybody, or ``all`` as rows of their own.

    Rows of one id are visits where they agree in site and sex and differ in ``session``, else in age. All others of an
    id, which are the same or contradict each other, stay as they are.

    >>> table = pd.DataFrame({"subject": ["1", "1", "2"], "site": "A", "session": ["m06", "bl", "bl"]})
    >>> choose_visits(table)["session"].tolist(), choose_visits(table, "all")["subject"].tolist()
    (['bl', 'bl'], ['1_ses-m06', '1_ses-bl', '2'])
    """
    if sessions not in SESSIONS_OF_ROWS:
        raise unknown("sessions", sessions, SESSIONS_OF_ROWS)
    when = next((name for name in ("session", "age") if name in table and table[name].nunique() > 1), None)
    repeated = table["subject"].duplicated(keep=False)
    if when is None or not repeated.any():
        return table
    by_id = table[repeated].groupby("subject")
    agree = pd.concat([by_id[name].nunique() <= 1 for name in ("site", "sex") if name in table], axis=1).all(axis=1)
    visitors = table["subject"].isin(agree.index[agree & (by_id[when].nunique() == by_id.size())])
    if not visitors.any():
        return table
    order = table[when].map(visit_order) if when == "session" else table[when]
    visits = table[visitors].iloc[order[visitors].argsort(kind="stable")]
    n = visits["subject"].nunique()
    done = "the first is taken" if sessions == "first" else "each is a row of its own"
    remark = f"{counted(n, 'person has', 'people have')} several rows, one for each visit: {done}"
    warnings.warn(f"{remark} (sessions={sessions}; or {_others(SESSIONS_OF_ROWS, sessions)})", stacklevel=2)
    if sessions == "first":
        return pd.concat([table[~visitors], visits.drop_duplicates("subject")]).sort_index()
    table = table.assign(person=table["subject"]) if "person" not in table else table
    table.loc[visits.index, "subject"] += "_ses-" + visits[when].astype(str)
    return pd.concat([table[~visitors], table.loc[visits.index]]).sort_index()


def _same_session(text: str, session: str) -> bool:
    bare = re.sub(r"[^a-z0-9]", "", text.lower())
    return bool(session) and bare in (session.lower(), f"ses{session.lower()}", f"session{session.lower()}")


def read_and_join(paths: Sequence[Path], read: Callable[[Path], Series]) -> Series:
    """The series of one person; several are standardised one by one and joined, several matrices are averaged."""
    series = [read(path) for path in paths]
    if len(series) == 1:
        return series[0]
    for path, run in zip(paths, series, strict=True):
        if run.values.shape[1] != series[0].values.shape[1] or run.names != series[0].names:
            raise ReaderError(f"{path} has other regions than {paths[0].name}; runs of one person need the same")
    trs = {run.tr for run in series if np.isfinite(run.tr)}
    if len(trs) > 1:
        raise ReaderError(f"the runs {', '.join(path.name for path in paths)} differ in TR; take one with runs=first")
    if are_matrices([run.values for run in series]) and len({run.values.shape for run in series}) == 1:
        return replace(series[0], values=_mean_of_known([run.values for run in series]))
    return replace(series[0], values=np.concatenate([_standardise(run.values) for run in series]))


def _mean_of_known(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of each edge over the runs that have it.

    >>> _mean_of_known([np.array([1.0, np.nan, np.nan]), np.array([3.0, 4.0, np.nan])]).tolist()
    [2.0, 4.0, nan]
    """
    known = np.isfinite(matrices)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, matrices, 0).sum(axis=0) / known.sum(axis=0)
    return np.where(known.any(axis=0), mean, matrices[0])


def _standardise(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def at_several_sites(table: pd.DataFrame) -> pd.Series:
    """Whose id stands at more than one site."""
    return table.groupby("subject")["site"].transform("nunique") > 1


def numbered_by_site(table: pd.DataFrame) -> bool:
    """Whether the ids of a table of people are those of other people at other sites.

    >>> table = pd.DataFrame({"subject": list("123123"), "site": list("AAABBB"), "label": [0, 1, 1, 1, 0, 1]})
    >>> numbered_by_site(table), numbered_by_site(table.assign(label=[0, 1, 1, 0, 1, 1]))
    (True, False)
    """
    by_id, shared = table.groupby("subject"), at_several_sites(table)
    anew = shared.groupby(table["site"]).transform("mean") >= MOST
    enough = table.groupby("site")["subject"].transform("nunique") >= FEWEST
    if not (anew & enough).any():
        return False
    facts = [by_id[name].nunique() > 1 for name in ("label", "sex") if name in table]
    facts += [by_id["age"].agg(lambda age: age.max() - age.min()) > YEARS] if "age" in table else []
    contradict = pd.concat(facts, axis=1).any(axis=1)
    return bool(contradict[table.loc[shared, "subject"].unique()].mean() > 0.5)


def refuse_numbered_by_site(table: pd.DataFrame, source: Path) -> None:
    """An error where nothing tells which file belongs to which site's person of an id."""
    if numbered_by_site(table):
        subject = table.loc[table["subject"].duplicated(), "subject"].iloc[0]
        where = listed(table.loc[table["subject"] == subject, "site"].unique())
        raise ReaderError(
            f"in {source} the ids begin anew at every site: {subject} is somebody else at each of {where}; put "
            "{site} into the template where a path names it (--option template='{site}/{participant_id}.csv'), or give "
            "everybody an id of their own"
        )


def named_with_site(
    table: pd.DataFrame, found: Mapping[str, Sequence[Scan]]
) -> tuple[pd.DataFrame, dict[str, list[Scan]]]:
    """The table and everybody's scans, with ids such as ``Oslo_1``; a scan of a site not in the table stays apart."""
    spelled = {canonical(site): str(site) for site in table["site"]}
    scans_of: dict[str, list[Scan]] = {}
    for subject, scans in found.items():
        for scan in scans:
            site = spelled.get(canonical(scan.site)) if scan.site else None
            name = str(scan.path) if site is None else f"{site}_{subject}"
            scans_of.setdefault(name, []).append(scan)
    named = table.assign(subject=table["site"].astype(str) + "_" + table["subject"])
    if not numbered_by_site(table):
        person = table["subject"].where(at_several_sites(table))
        named["person"] = person.fillna(named["subject"])
    return named, scans_of
