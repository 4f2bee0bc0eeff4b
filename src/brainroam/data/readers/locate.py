"""Where users keep series they made themselves: one file per person, found by a template.

A template is a path below the data folder with ``{participant_id}`` in it and, if need be, ``*`` (any text) and
``**`` (any folders): ``timeseries/{participant_id}.*``, ``{participant_id}/ses-1/*_aal.csv``. The files on disk are
matched against the ids of the table, never a path made from an id: no id can point outside the folder.
"""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from brainroam.data.cohort import Cohort
from brainroam.data.readers.participants import Participants
from brainroam.data.readers.series import read_series, suffix_of
from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError, UsageError, listed

ID = "{participant_id}"
USUAL = (f"timeseries/{ID}.*", f"{ID}.*")


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
    def sought(self) -> str:
        """Where series are looked for, in words."""
        return self.template or " or ".join(USUAL)

    def find(self, root: Path, ids: Set[str], table: Path | None = None) -> dict[str, Path]:
        """Map ids to files; a file that belongs to no id is listed under its own path. ``table`` is no series."""
        strays: list[Path] = []
        for template in USUAL if self.template is None else (self.template,):
            found = match_template(root, template, ids)
            if table is not None:
                found = {subject: path for subject, path in found.items() if path.resolve() != table.resolve()}
            if not found.keys().isdisjoint(ids):
                return found
            strays += found.values()
        seen = f" (there are {listed(path.name for path in strays)})" if strays else ""
        raise ReaderError(
            f"no series below {root} match {self.sought} for any id of the table of people{seen}; "
            f"say where they are with template (--option template=...), such as 'derivatives/**/{ID}_*.csv'"
        )

    def read(self, path: Path) -> Series:
        """Read one file, time first."""
        series = read_series(path, self.mat_key)
        return Series(np.ascontiguousarray(series.values.T)) if self.transpose else series

    def cohort(self, roster: Participants, root: Path, table: Path) -> Cohort:
        """The cohort of a roster whose series are found this way."""
        found = self.find(root, roster.known, table)
        roster.require_files(found, self.sought)
        hint = str(next(iter(found.values())))
        return roster.cohort(lambda subject: self.read(found[subject]), hint=hint, check_axes=self.transpose is None)


USUAL_FILES = Files()


def match_template(root: Path, template: str, ids: Iterable[str]) -> dict[str, Path]:
    """Files below ``root`` that fit the template, by id.

    ``sub-`` and, as spreadsheets drop them, leading zeros may be written on either side or on neither.
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
    pattern = re.compile(_as_regex(template, f"(?:sub-)?(?P<id>{known})"))
    found: dict[str, Path] = {}
    for path in sorted(root.glob(_as_glob(template))):
        if not path.is_file() or not suffix_of(path):
            continue
        place = path.relative_to(root).as_posix()
        match = pattern.fullmatch(place) if known else None
        subject = by_key.get(key(match["id"]), place) if match else place
        if subject in found:
            raise ReaderError(f"two series for subject {subject}: {found[subject]} and {path}; narrow the template")
        found[subject] = path
    return found


def bare_id(subject: str) -> str:
    """An id without the ``sub-`` that some tables write and others leave out.

    >>> bare_id("sub-0042"), bare_id("0042")
    ('0042', '0042')
    """
    return subject.removeprefix("sub-")


def unpadded(subject: str) -> str:
    """A bare id without its leading zeros, if it is a number.

    >>> unpadded("sub-0042"), unpadded("000"), unpadded("0a")
    ('42', '0', '0a')
    """
    bare = bare_id(subject)
    return (bare.lstrip("0") or "0") if bare.isdecimal() else bare


def _as_glob(template: str) -> str:
    """The template with a star for the id; stars in a row are one, unless they stand for folders."""
    parts = template.split("/")
    return "/".join(part if part == "**" else re.sub(r"\*+", "*", part.replace(ID, "*")) for part in parts)


def _as_regex(template: str, identity: str) -> str:
    """A glob as a regular expression; the first id is captured and further ones must repeat it.

    A star beside an id matches no further letter or digit of it: 10 is not the beginning of 100.
    """
    marks = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    parts = [part for part in re.split(rf"({re.escape(ID)}|\*\*/|\*|\?)", template) if part]
    regex, same = "", identity
    for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
        if part == ID:
            regex, same = regex + same, "(?:sub-)?(?P=id)"
        elif part == "*":
            start = "(?![A-Za-z0-9])" if before == ID else ""
            stop = "(?<![A-Za-z0-9])" if after == ID else ""
            regex += start + marks[part] + stop
        else:
            regex += marks.get(part, re.escape(part))
    return regex
