"""Names that people mean to be one: spelling, case, white space and invisible characters do not make two sites.

One site under two names is the worst leak there is: leaving out "Site 0" then trains on the people of "SITE0". What is
compared is a name's canonical form; what is kept and shown is the name as it was written.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from brainroam.errors import DataError, listed

#: What tells scanners, batches or rooms of one house apart, at the end of a site's name.
ROOM = re.compile(
    r"(?:[\s_.-]*(?:scanner|scan|batch|phase|wave|magnet|sample|mri|mr|unit|part)?[\s_.-]*(?<!\d)\d{1,2}"
    r"|[\s_.-]+(?:[a-d]|i{1,3}|iv|\d(?:\.\d)?t|ge|siemens|philips|prisma|trio|tim ?trio|skyra|verio|allegra|achieva"
    r"|ingenia|signa|discovery|mr\d{3}|long|old|new))$",
    re.IGNORECASE,
)
#: Words that number sites rather than name a house.
NUMBERED = {"site", "center", "centre", "scanner", "hospital", "clinic", "location", "lab", "batch", "cohort", "group"}
WORDS = re.compile(r"\d+|\D+")


def canonical(name: object) -> tuple[str, ...]:
    """What is left of a name without case, punctuation, white space, invisible characters and ways to write a number.

    Letters are joined across what is taken out, numbers are not: "Site 1-1" is not "Site 11".

    >>> canonical("Site 0") == canonical("SITE0") == canonical("site_00 ") == canonical("Site\\u200b0.0")
    True
    >>> canonical("1") == canonical("1.0"), canonical("Site 1-1") == canonical("Site 11")
    (True, False)
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(name)).casefold())
    text = re.sub(r"(?<=\d)\.0+(?!\d)", "", "".join(c for c in text if unicodedata.category(c) != "Cf"))
    words: list[str] = []
    for part in "".join(" " if unicodedata.category(c)[0] in "PZC" else c for c in text).split():
        for word in WORDS.findall(part):
            if words and not word.isdecimal() and not words[-1].isdecimal():
                words[-1] += word
            else:
                words.append(str(int(word)) if word.isdecimal() else word)
    return tuple(words) or (str(name).strip(),)


def refuse_aliases(names: Iterable[object], kind: str) -> None:
    """Refuse names that differ in spelling only.

    >>> refuse_aliases(["NYU", "nyu ", "UM"], "site")
    Traceback (most recent call last):
    brainroam.errors.DataError: one site stands under several names: 'NYU' = 'nyu '; give each site one name ...
    """
    groups = defaultdict(list)
    for name in dict.fromkeys(map(str, names)):
        groups[canonical(name)].append(name)
    aliases = [" = ".join(ascii(name) if _hidden(name) else repr(name) for name in g) for g in groups.values() if g[1:]]
    if aliases:
        raise DataError(
            f"one {kind} stands under several names: {listed(aliases)}; give each {kind} one name in your table, or, "
            f"if they really are different, names that differ in more than case, punctuation and spaces"
        )


def shared_institutions(sites: Iterable[object]) -> dict[str, list[str]]:
    """Sites that look like scanners or batches of one institution, by what they share; nothing is sure about it.

    Sites that are numbered through (``S01`` to ``S20``, ``Site 1``) are not of one institution.

    >>> shared_institutions(["UM_1", "UM_2", "NYU", "UCLA 3T", "UCLA GE", "Site1", "Site2"])
    {'UM': ['UM_1', 'UM_2'], 'UCLA': ['UCLA 3T', 'UCLA GE']}
    >>> shared_institutions(["S01", "S02", "S03"]), shared_institutions(["Oslo1", "Oslo2"])
    ({}, {})
    """
    names = list(dict.fromkeys(map(str, sites)))
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in names:
        found[canonical(_house(name))].append(name)
    return {
        _house(group[0]): group
        for stem, group in found.items()
        if 1 < len(group) < len(names) and len("".join(stem)) > 1 and "".join(stem) not in NUMBERED
    }


def institutions_by_name(sites: Iterable[object]) -> dict[str, str]:
    """The institution of each site: what its name shares with others, else the site itself.

    >>> institutions_by_name(["UM_1", "UM_2", "NYU"])
    {'UM_1': 'UM', 'UM_2': 'UM', 'NYU': 'NYU'}
    """
    shared = {site: house for house, group in shared_institutions(sites).items() for site in group}
    return {site: shared.get(site, site) for site in map(str, sites)}


def _house(name: str) -> str:
    return ROOM.sub("", name.strip()) or name


def site_names(site: Sequence[object] | np.ndarray | pd.Series, n_people: int) -> np.ndarray:
    """The site of everybody as text; an error where one is missing or stands under several names."""
    names = np.asarray(site, dtype=object)
    if names.shape != (n_people,):
        raise DataError(f"there are {n_people} people but {len(names)} sites; give one site name per person")
    missing = np.flatnonzero(pd.isna(names))
    if len(missing):
        raise DataError(f"the site is missing for person {listed(missing)}; give a name, or leave these people out")
    text = names.astype(str)
    refuse_aliases(text, "site")
    return text


def _hidden(name: str) -> bool:
    """Whether two names could look alike in print: combining marks, invisible or compatibility characters."""
    return name != unicodedata.normalize("NFKC", name) or any(unicodedata.category(c) in ("Cf", "Zs") for c in name[1:])
