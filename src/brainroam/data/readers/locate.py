"""Where users keep series they made themselves: one file per person, found by a template.

A template is a path below the data folder with ``{participant_id}`` in it and, if need be, ``*`` (any text) and
``**`` (any folders): ``timeseries/{participant_id}.*``, ``{participant_id}/ses-1/*_aal.csv``; ``{site}`` in it is the
site, as in ``{site}/{participant_id}.csv``. The files on disk are matched against the ids of the table, never a path
made from an id: no id can point outside the folder.

Files below a folder are found through links too, each folder once.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.data.names import SUB, bare_id, unpadded
from brainroam.data.readers.participants import Participants
from brainroam.data.readers.repeats import Chosen, Scan, read_and_join
from brainroam.data.readers.series import read_series, suffix_of
from brainroam.data.readers.text import Series
from brainroam.errors import NothingFoundError, ReaderError, UsageError, in_shell, listed

VOLUMES = "*_bold.nii*"  # as BIDS and fMRIPrep name them
ID = "{participant_id}"
SITE = "{site}"
USUAL = (
    f"timeseries/{ID}.*",
    f"{ID}.*",
    f"timeseries/{ID}_*",
    f"{ID}_*",
    f"derivatives/timeseries/{ID}.*",
    f"derivatives/timeseries/{ID}_*",
)


def files_below(folder: Path, depth: int | None = None) -> list[Path]:
    """Files at most ``depth`` folders below a folder, sorted; nothing hidden; a link that leads back ends there.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "a").mkdir()
    >>> _ = (root / "a" / "x.csv").write_text("1")
    >>> (root / "a" / "back").symlink_to(root)
    >>> [file.relative_to(root).as_posix() for file in files_below(root)]
    ['a/x.csv']
    """
    files: list[Path] = []
    seen: set[str] = set()

    def visit(place: Path, level: int) -> None:
        real = os.path.realpath(place)
        if real in seen:
            return
        seen.add(real)
        for item in sorted(place.iterdir()):
            if item.name.startswith("."):
                continue
            if item.is_file():
                files.append(item)
            elif item.is_dir() and (depth is None or level < depth):
                visit(item, level + 1)

    if folder.is_dir():
        visit(folder, 0)
    return files


def refuse_volumes(folder: Path) -> None:
    """Say how volumes become series, where a folder without series holds volumes."""
    volume = next(iter(folder.rglob(VOLUMES)), None)
    if volume is not None and not volume.name.endswith((".dtseries.nii", ".ptseries.nii")):
        raise ReaderError(
            f"{folder} holds volumes ({volume.name}), no regional series; average them over regions first: "
            f"brainroam extract {in_shell(folder)} --atlas schaefer200 --out series"
        )


@dataclass(frozen=True)
class Files:
    """How to find and read series that users made themselves.

    ``template`` as above; ``transpose`` turns regions x time around (None: look whether that is needed); ``mat_key``
    names the matrix in ``.mat`` files.
    """

    template: str | None = None
    transpose: bool | None = None
    mat_key: str | None = None

    @property
    def search_words(self) -> str:
        """Where series are looked for, in words."""
        return self.template or " or ".join(USUAL[:2])

    @property
    def tells_site(self) -> bool:
        """Whether the site is part of the path."""
        return SITE in (self.template or "")

    def find(self, root: Path, ids: Set[str], tables: Iterable[Path] = ()) -> dict[str, list[Scan]]:
        """Map ids to scans; a file that belongs to no id is listed under its own path. ``tables`` are no series."""
        skipped = {table.resolve() for table in tables}
        strays: list[Path] = []
        for template in USUAL if self.template is None else (self.template,):
            by_person = {
                subject: kept
                for subject, scans in match_template(root, template, ids).items()
                if (kept := [scan for scan in scans if scan.path.resolve() not in skipped])
            }
            if not by_person.keys().isdisjoint(ids):
                return by_person
            strays += [scan.path for scans in by_person.values() for scan in scans]
        if self.template is None:
            refuse_volumes(root)
        seen = f" (there are {listed(path.name for path in strays)})" if strays else ""
        raise NothingFoundError(
            f"no series below {root} match {self.search_words} for any id of the table of people{seen}; "
            f"say where they are with template (--option template=...), such as 'derivatives/**/{ID}_*.csv'; where "
            f"tables or an array of everybody hold the measurement, brainroam init {in_shell(root)} finds them"
        )

    def read(self, path: Path) -> Series:
        """Read one file, time first."""
        series = read_series(path, self.mat_key)
        return replace(series, values=np.ascontiguousarray(series.values.T), names=None) if self.transpose else series

    def cohort(self, roster: Participants, chosen: Chosen) -> Cohort:
        """The cohort of participants whose series were found this way."""
        roster.require_files(chosen.first_files, self.search_words)
        hint = str(next(iter(chosen.files.values()))[0])
        return roster.cohort(
            lambda subject: read_and_join(chosen.files[subject], self.read),
            hint=hint,
            check_axes=self.transpose is None,
        )


USUAL_FILES = Files()


def match_template(root: Path, template: str, ids: Iterable[str]) -> dict[str, list[Scan]]:
    """Files below ``root`` that fit the template, by id, or by their own path where no id fits.

    ``sub-`` (or ``Subject``) and, as spreadsheets drop them, leading zeros may be written on either side or on neither.
    """
    if ID not in template or Path(template).is_absolute() or ".." in Path(template).parts:
        raise UsageError(f"the template {template!r} must be a path below the data folder that contains {ID}")
    ids = sorted(ids)
    key = unpadded if len({unpadded(subject) for subject in ids}) == len(ids) else bare_id
    by_key: dict[str, str] = {}
    for subject in ids:
        if by_key.setdefault(key(subject), subject) != subject:
            raise ReaderError(
                f"the ids {bare_id(subject)} and {subject} differ only in 'sub-'; give one of them another"
            )
    known = "|".join(
        ("0*" if name.isdecimal() else "") + re.escape(name) for name in sorted(by_key, key=len, reverse=True)
    )
    of_person = re.compile(_as_regex(template, f"{SUB}?(?P<id>{known})")) if known else None
    of_anybody = re.compile(_as_regex(template, "(?P<id>[^/]+)"))
    scans: dict[str, list[Scan]] = defaultdict(list)
    for path in files_below(root, None if "**" in template else template.count("/")):
        if not suffix_of(path):
            continue
        place = path.relative_to(root).as_posix()
        match = of_person.fullmatch(place) if of_person else None
        name = by_key.get(key(match["id"])) if match else None
        if match and name is not None:
            scans[name].append(Scan.of(path, place, match.groupdict().get("site") or ""))
        elif of_anybody.fullmatch(place):
            scans[place].append(Scan(path))
    return dict(scans)


def _as_regex(template: str, identity: str) -> str:
    """A glob as a regular expression; the first id is captured and further ones must repeat it.

    A star beside an id matches no further letter or digit of it: 10 is not the beginning of 100.
    """
    marks = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]", SITE: "(?P<site>[^/]+)"}
    template = re.sub(r"\*{2,}(?!/)|\*{3,}", "*", template)  # stars in a row are one, unless they stand for folders
    parts = [part for part in re.split(rf"({re.escape(ID)}|{re.escape(SITE)}|\*\*/|\*|\?)", template) if part]
    regex, same = "", identity
    for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
        if part == ID:
            regex, same = regex + same, f"{SUB}?(?P=id)"
        elif part == "*":
            start = "(?![A-Za-z0-9])" if before == ID else ""
            stop = "(?<![A-Za-z0-9])" if after == ID else ""
            regex += start + marks[part] + stop
        else:
            regex += marks.get(part, re.escape(part))
    return regex
