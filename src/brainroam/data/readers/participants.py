"""From a table of people and their series to a `Cohort`, writing down everybody who is lost on the way.

A reader knows its layout; what happens to a person afterwards is the same for all of them and stands here once:
choose the sites, leave out those without a label or a series, read, name the regions.

Files of many people are read by several processes. Where there are more people than memory holds, each series goes to a
scratch file once it is read, and is mapped back.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from brainroam.data.atlas import SHIPPED, Atlas, anonymous_atlas, load_atlas
from brainroam.data.atlas.known import canonical, recognise_atlas
from brainroam.data.cohort import Cohort
from brainroam.data.edge_values import correlations_at
from brainroam.data.exclusion import People, people_named
from brainroam.data.measurements import are_matrices, empty_measurement
from brainroam.data.readers.series import align_regions, turn_to_time_first
from brainroam.data.readers.text import Series
from brainroam.data.readers.values import fold, is_empty, numbers
from brainroam.data.site_choice import ALL_SITES, SiteChoice
from brainroam.errors import BrainroamError, DataError, ReaderError, UsageError, counted, listed, unknown
from brainroam.utils.workers import Failure, Workers

MUST_AGREE = ("site", "label", "age", "sex")
OWN = "subject", "site", "label", "age", "sex", "mean_fd", "tr", "n_timepoints"
TOGETHER = {
    "person": ("person",),
    "group": ("family_id", "rel_family_id", "family", "group"),
    "institution": ("institution", "institute"),
}
ADDED = "mean_fd", "tr"
MANY = 64  # people; fewer are read before a process could start
AT_A_TIME = 8
SEGMENT = 2**27  # values in one scratch file, 1 GB: few files even for a biobank, because each stays open


class Scratch:
    """Scratch files; `keep` gives back the same series, read-only, on disk instead of in memory.

    >>> import tempfile
    >>> spool = Scratch(Path(tempfile.mkdtemp()))
    >>> spool.keep(Series(np.eye(3))).values.tolist() == np.eye(3).tolist()
    True
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._segments = folder, 0
        self._room: np.ndarray = np.empty(0)
        self._file: IO[bytes]

    def keep(self, series: Series) -> Series:
        """Move the values of one person to disk."""
        size = series.values.size
        try:
            if size > len(self._room):
                self._begin_segment(max(SEGMENT, size))
            # Written as a file: a full disk is then an error, where writing to a map of it would end the process.
            self._file.write(np.ascontiguousarray(series.values, dtype=float).data)
            self._file.flush()
        except OSError as error:
            raise BrainroamError(f"cannot write to {self._folder}: {error.strerror or error}") from error
        place, self._room = self._room[:size].reshape(series.values.shape), self._room[size:]
        return replace(series, values=place)

    def _begin_segment(self, size: int) -> None:
        """A new scratch file, mapped as a whole; it takes up room only as it is filled."""
        path = self._folder / f"{self._segments}.spool"
        self._file = open(path, "wb")  # noqa: SIM115  open as long as it is filled
        self._file.truncate(size * 8)
        self._room = np.memmap(path, float, "r", shape=(size,))
        self._segments += 1


@dataclass(frozen=True)
class Request:
    """What the caller asks of any reader.

    ``sites`` says which sites belong to the study and what they are called. ``atlas`` and ``require_label`` are
    those of `brainroam.load_cohort`. With a ``spool`` series are kept on disk as they are read. ``workers`` read
    files side by side. ``target`` is the column that is predicted instead of the diagnosis; nobody is then left out
    for want of one. ``covariates`` are columns that the study names. With ``keep_unmeasured`` people without a file
    stay, with nothing measured: other blocks may tell of them. Files of the people of ``exclude`` are not opened.
    ``edges`` says of sites whether their matrices hold correlations (``r``) or Fisher's z (``z``).
    """

    atlas: str | Path | Atlas | None = None
    sites: SiteChoice = ALL_SITES
    require_label: bool = True
    spool: Scratch | None = None
    workers: Workers | None = None
    target: str | None = None
    covariates: tuple[str, ...] = ()
    keep_unmeasured: bool = False
    exclude: People | None = None
    edges: Mapping[str, str] = field(default_factory=dict)

    def asked_columns(self, raw: pd.DataFrame) -> dict[str, pd.Series]:
        """What a layout with columns of its own keeps besides them, of those that its table has.

        The target and covariates of the study under their own names, but age and sex, which every layout reads itself;
        ``person``, families and institutions, which belong together; ``mean_fd`` and ``tr``, which people add.

        >>> raw = pd.DataFrame({"Age": ["9"], "IQ": ["99"], "person": ["P1"], "Handedness": ["R"]})
        >>> list(Request(covariates=("age", "IQ")).asked_columns(raw))
        ['IQ', 'person']
        """
        by_word = {fold(str(name)): str(name) for name in reversed(raw.columns)}
        asked = [self.target] if self.target else []
        asked += [name for name in self.covariates if fold(name) not in OWN]
        names = dict.fromkeys(by_word[fold(name)] for name in asked if fold(name) in by_word)
        kept = {name: raw[name] for name in names}
        for role, usual in TOGETHER.items():
            column = next((by_word[name] for name in usual if name in by_word), None)
            if column is not None and role not in kept:
                kept[role] = raw[column].where(~is_empty(raw[column]))
        return kept | {name: numbers(raw[by_word[name]], "the table of people") for name in ADDED if name in by_word}

    @property
    def roi_set(self) -> str | None:
        """The name by which a layout with several ROI sets knows the atlas: its own, or the stem of its table."""
        if self.atlas is None:
            return None
        return self.atlas.name if isinstance(self.atlas, Atlas) else Path(self.atlas).stem


class NotInFile(ReaderError):
    """This person's file lacks what was asked for; the person is left out, the others are read."""


class Participants:
    """The people a reader found.

    Parameters
    ----------
    table : DataFrame
        ``subject``, ``site``, ``label``, ``unlabelled`` (why the label is missing, where it is) and anything else.
    request : Request
        Its sites are chosen here, before anything else is asked of a person.
    source : object
        The file the table came from, for messages.
    """

    def __init__(self, table: pd.DataFrame, request: Request, source: object) -> None:
        nameless = is_empty(table["subject"])
        if nameless.any():
            raise ReaderError(f"{source}, line {int(nameless.idxmax()) + 2} has no subject id; every row needs one")
        self.request = request
        self.known = set(table["subject"])
        table, twice = one_row_each(table.assign(site=request.sites.rename(table["site"])))
        left_out = request.sites.excluded(table)  # before others are chosen: their names must exist as well
        self.table = table[request.sites.kept(table) & ~left_out].reset_index(drop=True)
        excluded = table[left_out]
        self.excluded: list[tuple[str, str]] = [
            *twice,
            *zip(excluded["subject"], request.sites.reasons(excluded), strict=True),
        ]
        self.unmeasured: set[str] = set()  # whose files are not read, though they stay in the table
        self.exclude(is_empty(self.table["site"]), f"no site in {source}")

    def exclude(self, mask: Sequence[bool] | pd.Series, reason: str | pd.Series) -> None:
        """Leave out the people where ``mask`` is true, for one reason or for one each."""
        mask = np.asarray(mask, dtype=bool)
        subjects = self.table.loc[mask, "subject"]
        reasons = [reason] * len(subjects) if isinstance(reason, str) else list(reason[mask])
        self.excluded += zip(subjects, reasons, strict=True)
        self.table = self.table[~mask].reset_index(drop=True)

    def require_files(self, files: Mapping[str, Path], sought: str) -> None:
        """Leave out rows without a file and record files without a row. ``sought`` says what was looked for.

        Who is left out by name goes before any file is opened; where there are other blocks, after these are read:
        the rows of an array of everybody are counted with them.
        """
        named = people_named(self.request.exclude, [*self.table["subject"], *(who for who, _ in self.excluded)]).reasons
        absent = ~self.table["subject"].isin(files)
        if self.request.keep_unmeasured:
            self.unmeasured = set(self.table.loc[absent | self.table["subject"].isin(named), "subject"])
        else:
            self.exclude(absent, f"no series found ({sought})")
            self.exclude(self.table["subject"].isin(named), self.table["subject"].map(named))
        self.excluded += [
            (subject, "no row in the table of people") for subject in sorted(files) if subject not in self.known
        ]

    def cohort(
        self,
        read: Callable[[str], Series],
        roi_set: str | None = None,
        hint: str = "",
        check_axes: bool = False,
        from_files: bool = True,
    ) -> Cohort:
        """Read each person's series and make the cohort.

        ``roi_set`` is the layout's own name for the regions, ``hint`` a path whose words may tell it; ``check_axes``
        looks for swapped axes, for series that users made themselves; ``from_files`` says that ``read`` opens a file,
        which other processes can do as well.
        """
        if self.request.require_label and self.request.target is None:
            self.exclude(self.table["label"].isna(), self.table["unlabelled"])
        one_by_one = self.request.spool is not None or not from_files
        series = self._read(read, None if one_by_one else self.request.workers)
        for note, n in Counter(note for person in series for note in person.notes).items():
            warnings.warn(f"{n} of {len(series)} series: {note}", stacklevel=2)
        keep = self.request.spool.keep if self.request.spool else None
        measured = self.table[~self.table["subject"].isin(self.unmeasured)].reset_index(drop=True)
        series, moved = align_regions(series, measured, keep)
        if moved:
            warnings.warn(moved, stacklevel=2)
        if check_axes:
            atlas = known_atlas(self.request, roi_set)
            series, turned = turn_to_time_first(series, measured, None if atlas is None else len(atlas), keep)
            if turned:
                warnings.warn(turned, stacklevel=2)
        _check_names(measured["subject"], series)
        example = next((person for person in series if person.names), series[0])
        atlas = name_regions(self.request, roi_set, example, hint)
        table = self.table.drop(columns="unlabelled")
        if "tr" not in table:
            trs = dict(zip(measured["subject"], (person.tr for person in series), strict=True))
            table["tr"] = [trs.get(name) for name in table["subject"]]
        excluded = pd.DataFrame(self.excluded, columns=["subject", "reason"])
        for person in series:
            person.values.setflags(write=False)  # nobody else has them: the cohort need not copy what it was given
        values = [person.values for person in series]
        measure, prepared = _measure(values, measured["subject"]), list[str]()
        if measure == "matrices" and self.request.edges:
            values, prepared = correlations_at(values, measured["site"].tolist(), self.request.edges)
        nothing = empty_measurement(measure, values[0].shape[1])
        of_subject = dict(zip(measured["subject"], values, strict=True))
        values = [of_subject.get(name, nothing) for name in table["subject"]]
        return Cohort(values, table, atlas, excluded, prepared=prepared, measure=measure)

    def _read(self, read: Callable[[str], Series], workers: Workers | None) -> list[Series]:
        series, absent = [], {}
        with_file = [subject for subject in self.table["subject"] if subject not in self.unmeasured]
        for subject, one in read_in_parallel(read, with_file, workers):
            if isinstance(one, NotInFile):
                absent[subject] = str(one)
            elif isinstance(one, ReaderError):
                remedy = f"to go on without this person, exclude {subject} (--exclude {subject})"
                raise ReaderError(f"subject {subject}: {one}; {remedy}") from one
            else:
                series.append(self.request.spool.keep(one) if self.request.spool else one)
        self.exclude(self.table["subject"].isin(absent), self.table["subject"].map(absent))
        if not series:
            reasons = Counter(reason for _, reason in self.excluded).most_common(3)
            counts = "; ".join(f"{reason} ({counted(n, 'person', 'people')})" for reason, n in reasons)
            raise ReaderError(f"no participants remain after exclusions: {counts or 'the table of people is empty'}")
        return series


def _measure(values: Sequence[np.ndarray], subjects: pd.Series) -> str:
    """Whether files hold series or matrices, of which a few may not be symmetric; the check tells whose.

    Among matrices one that is not square is refused: its file was cut, or is another one.
    """
    if not are_matrices(values):
        return "series"
    shapes = [(who, x.shape) for who, x in zip(subjects, values, strict=True) if x.shape[0] != x.shape[1]]
    if shapes:
        odd = listed(f"{who} ({rows} x {columns})" for who, (rows, columns) in shapes)
        raise ReaderError(
            f"most people have square matrices of regions, but not {odd}; mend these files, or move them away, and "
            "their people are left out"
        )
    return "matrices"


def _check_names(subjects: pd.Series, series: list[Series]) -> None:
    """One order of regions for all: columns that change places between people would be compared as if alike."""
    named = [(subject, x.names) for subject, x in zip(subjects, series, strict=True) if x.names]
    for subject, names in named[1:]:
        other, expected = named[0]
        if names != expected and len(names) == len(expected):
            place = next(i for i, (a, b) in enumerate(zip(names, expected, strict=True)) if a != b)
            raise ReaderError(
                f"subject {subject}: column {place + 1} is named {names[place]!r} but {expected[place]!r} for "
                f"subject {other}; all series need the same regions in the same order"
            )


def one_row_each(table: pd.DataFrame) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """One row for each id, and what was left out: the same row again; everybody whose rows contradict each other.

    >>> table = pd.DataFrame({"subject": ["1", "1", "2", "2"], "site": ["A", "A", "A", "B"], "label": [0, 0, 1, 1]})
    >>> kept, left_out = one_row_each(table)
    >>> kept["subject"].tolist(), [subject for subject, _ in left_out]
    (['1'], ['1 (again)', '2'])
    """
    left_out, contradictory = [], set()
    for subject, rows in table[table["subject"].duplicated(keep=False)].groupby("subject", sort=False):
        differ = [name for name in MUST_AGREE if name in rows and rows[name].nunique(dropna=False) > 1]
        if differ:
            contradictory.add(subject)
            reason = f"listed {len(rows)} times in the table with different {' and '.join(differ)}; keep the right row"
            left_out.append((str(subject), reason))
        else:
            reason = f"listed {len(rows)} times in the table; the first row is used"
            left_out.append((f"{subject} (again)", reason))
    kept = table[~table["subject"].duplicated() & ~table["subject"].isin(contradictory)]
    return kept, left_out


def choose_roi_set(request: Request, present: Iterable[str], root: Path) -> str:
    """The ROI set asked for, among those on disk, whatever its case; without a request ``aal``, or the only one."""
    present = sorted(set(present))
    if not present:
        raise ReaderError(f"{root} holds no ROI series")
    named = isinstance(request.atlas, str) and not Path(request.atlas).is_file()
    if len(present) == 1 and not named:
        return present[0]
    asked = request.roi_set or "aal"
    names = [name for name in present if name.lower() == asked.lower()]
    names = names or [name for name in present if canonical(name) is not None and canonical(name) == canonical(asked)]
    if names:
        return names[0]
    if request.atlas is None:
        raise UsageError(f"{root} holds several ROI sets; choose one with atlas (--atlas): {', '.join(present)}")
    raise unknown("atlas", asked, present)


def known_atlas(request: Request, roi_set: str | None) -> Atlas | None:
    """The atlas if there is a table of it: the caller's own, or a shipped one."""
    if request.atlas is not None and _has_own_regions(request):
        return load_atlas(request.atlas)
    name = canonical(roi_set or request.roi_set or "")
    return None if name is None else load_atlas(name)


def _has_own_regions(request: Request) -> bool:
    """Whether the caller gave the regions themselves, as an `Atlas` or a table."""
    atlas = request.atlas
    return isinstance(atlas, Atlas) or (atlas is not None and bool(Path(atlas).is_file() or Path(atlas).suffix))


def name_regions(request: Request, roi_set: str | None, series: Series, hint: str = "") -> Atlas:
    """The atlas of a series: the one asked for, the one its header names, one that fits, else the names in the file.

    A layout's own name for its regions is only believed where their number agrees; one that was asked for must fit.
    """
    n_rois = series.values.shape[1]
    atlas = known_atlas(request, roi_set)
    if atlas is not None and _has_own_regions(request):
        return atlas
    named = recognise_atlas(series.names or ())
    if named is not None and (atlas is None or roi_set is not None or atlas.name == named.name):
        return named
    if named is not None and atlas is not None:
        raise DataError(
            f"the headers name the {len(named)} regions of {named.name!r}, not the {len(atlas)} of {atlas.name!r}; "
            "leave the atlas out (--atlas), or give the table of your own"
        )
    if atlas is not None and (roi_set is None or atlas.name in SHIPPED or len(atlas) == n_rois):
        return atlas
    regions = anonymous_atlas(n_rois, series.names)
    name = roi_set or request.roi_set
    if name is not None:
        return Atlas(name, regions.labels)
    # 116 regions that a file names in words are another atlas of the same size; 200 are not always Craddock's.
    unnamed = all(label.isdigit() for label in series.names or ())
    fitting = [name for name, size in SHIPPED.items() if size == n_rois and (name == "aal" or name in hint.lower())]
    return load_atlas(fitting[0]) if fitting and unnamed else regions


def read_in_parallel(
    read: Callable[[str], Any], subjects: Sequence[str], workers: Workers | None
) -> Iterator[tuple[str, Any]]:
    """Each person, in this order, with what ``read`` gives, or with the `ReaderError` it raises.

    >>> [(subject, str(found)) for subject, found in read_in_parallel(str.upper, ["a", "b"], None)]
    [('a', 'A'), ('b', 'B')]
    """
    if workers is None or len(subjects) < MANY:
        yield from ((subject, _attempt(read, subject)) for subject in subjects)
        return
    import cloudpickle  # what readers read with is made where it is needed, which pickle alone cannot send

    tasks = [tuple(subjects[start : start + AT_A_TIME]) for start in range(0, len(subjects), AT_A_TIME)]
    results = dict(workers.map(_read_batch, tasks, cloudpickle.dumps(read)))
    for task in tasks:
        if isinstance(results[task], Failure):
            raise BrainroamError(f"subjects {task[0]} to {task[-1]} could not be read: {results[task].error}")
        yield from zip(task, results.pop(task), strict=True)


def _read_batch(packed: bytes, subjects: Sequence[str]) -> list[Any]:
    return [_attempt(_unpack(packed), subject) for subject in subjects]


@lru_cache(maxsize=1)
def _unpack(packed: bytes) -> Callable[[str], Any]:
    import cloudpickle

    return cloudpickle.loads(packed)  # what `read_in_parallel` packed, by the pipe of a worker


def _attempt(read: Callable[[str], Any], subject: str) -> Any:
    try:
        return read(subject)
    except ReaderError as error:
        return error
