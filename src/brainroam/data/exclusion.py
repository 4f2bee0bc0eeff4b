"""People who are left out by name: who is on a list, and whom of those in the data an id means.

Readers ask this before they open a file, because a damaged file is a usual reason to leave somebody out;
`brainroam.data.prepare` asks it of everybody who was read.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from brainroam.data.names import bare_id, unpadded
from brainroam.errors import UsageError, listed
from brainroam.utils.files import expand_home

LISTED = "on the list of people to exclude"
People = str | Path | Sequence[str]


class Named(NamedTuple):
    """Who of the people present is on a list, with the reason for each, and the ids on it that nobody has."""

    reasons: dict[str, str]
    absent: list[str]


def listed_people(people: People, what: str = "people to exclude") -> dict[str, str]:
    """Ids and reasons, from a file with one id in each line or from a sequence of ids and such files.

    >>> listed_people(["S01_0001"])
    {'S01_0001': ''}
    """
    if not isinstance(people, str | Path):
        reasons: dict[str, str] = {}
        for item in map(str, people):
            reasons |= listed_people(item, what) if os.path.isfile(expand_home(item)) else {item: ""}
        return reasons
    path = expand_home(people)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the list of {what}, {path}, cannot be read: {error}") from error
    rows = [re.split(r"[,;\t]", line.strip(), maxsplit=1) for line in lines if line.strip() and line[0] != "#"]
    return {row[0].strip(): (row[1].strip() if len(row) > 1 else "") for row in rows}


def people_named(people: People | None, present: Iterable[str]) -> Named:
    """Whom of those present a list means: by their ids as they stand, else without leading zeros.

    >>> people_named(["7", "09"], ["sub-007", "sub-008"])
    Named(reasons={'sub-007': 'on the list of people to exclude'}, absent=['09'])
    """
    if people is None:
        return Named({}, [])
    by_spelling: list[dict[str, set[str]]] = [{}, {}]
    for subject in present:
        for spelled, subjects in zip((bare_id, unpadded), by_spelling, strict=True):
            subjects.setdefault(spelled(subject), set()).add(subject)
    named = Named({}, [])
    for listed_id, reason in listed_people(people).items():
        matches = by_spelling[0].get(bare_id(listed_id)) or by_spelling[1].get(unpadded(listed_id), set())
        if len(matches) > 1:
            raise UsageError(
                f"{listed_id!r}, listed to be excluded, may be {listed(sorted(matches))}; write the id as there"
            )
        named.reasons.update(dict.fromkeys(matches, f"{LISTED}: {reason}" if reason else LISTED))
        named.absent.extend([] if matches else [listed_id])
    return named
