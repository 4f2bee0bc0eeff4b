"""Names that may be one site, in spellings that only people can tell: koeln and Köln, 华西医院 and 華西醫院.

`brainroam.data.names.canonical` forgives case, blanks and punctuation, which never tell two sites apart. What is
compared here may tell them apart, so nothing is joined: `brainroam init` asks, ``site_names`` of a study file keeps the
answer, and the check names what nobody has answered. Two names look alike when they are the same words in Latin letters
(`anyascii`: Chinese in either script becomes the same pinyin), where

    ae = ä = a,  oe = ö = ø = o,  ue = ü = u,  aa = å = a,

words stand in any order, and words for "university" do not count (広島大 = 広島大学, Uni Oslo = University of Oslo).
So do names that differ in what stands at their end: a diagnosis (KKI_ADHD) or a long number (Leiden_2180).
"""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress

from anyascii import anyascii

from brainroam.errors import UsageError, listed

LITTLE = {"of", "the", "de", "du", "di", "da", "der", "von", "at", "uni", "univ"} | {
    f"universi{ending}" for ending in ("ty", "te", "tat", "ta", "teit", "tet", "dad", "dade")
}
#: 大 at the end, or before a hospital, is short for 大学; inside a name (大阪) it is not.
UNIVERSITY_UNSPACED = re.compile(r"大[学學]|(?<=.)大(?=$|病院|医院|醫院)|대학교|대학|(?<=.)대$")
LONG_NUMBER = re.compile(r"[\s_.-]+\d{3,}$")
ENDING = re.compile(
    r"[\s_.-]+(?:\d{3,}|adhd|asd|autism|mdd|bd|scz|sz|ocd|ptsd|td|hc|patients?|cases?|controls?)$", re.IGNORECASE
)
DIGRAPHS = re.compile(r"(?<=[aou])e|(?<=a)a")


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Groups of names that may be one site; names of one group stand in the order in which they came.

    >>> look_alikes(["koeln", "Oslo", "Köln", "LMU Muenchen", "München-LMU", "KKI", "KKI_ADHD"])
    [['koeln', 'Köln'], ['LMU Muenchen', 'München-LMU'], ['KKI', 'KKI_ADHD']]
    >>> look_alikes(["Site_1001", "Site_1002", "S01"])
    []
    """
    names = list(dict.fromkeys(map(str, names)))
    numbered = sum(LONG_NUMBER.search(name) is not None for name in names) > len(names) / 2  # sites are, throughout
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        is_whole = numbered and LONG_NUMBER.search(name)
        groups[_letters(name if is_whole else without_ending(name))].append(name)
    return [group for group in groups.values() if len(group) > 1]


def undecided(names: Iterable[str], site_names: Mapping[str, str]) -> list[list[str]]:
    """`look_alikes` after renaming, without the groups of which ``site_names`` says that they are several sites.

    >>> undecided(["koeln", "Köln"], {"koeln": "Köln"}), undecided(["koeln", "Köln"], as_several(["koeln", "Köln"]))
    ([], [])
    """
    groups = look_alikes(site_names.get(name, name) for name in names)
    return [group for group in groups if not {*group} <= {*site_names.values()}]


def common_name(group: Mapping[str, int]) -> str:
    """What one site with these names, each with its number of people, may be called.

    The name without an ending, where endings differ; else the one with accents, then the one of most people.

    >>> common_name({"koeln": 40, "Köln": 9}), common_name({"Leiden_2180": 40, "Leiden_2200": 30})
    ('Köln', 'Leiden')
    """
    if len(set(map(_letters, group))) > 1:
        return without_ending(next(iter(group)))
    return max(group, key=lambda name: (not name.isascii(), group[name]))


def as_one(group: Mapping[str, int]) -> dict[str, str]:
    """``site_names`` that make one site of a group.

    >>> as_one({"koeln": 40, "Köln": 9})
    {'koeln': 'Köln'}
    """
    name = common_name(group)
    return {other: name for other in group if other != name}


def as_several(group: Iterable[str]) -> dict[str, str]:
    """``site_names`` that keep the sites of a group apart.

    >>> as_several(["UM", "UM_ASD"])
    {'UM': 'UM', 'UM_ASD': 'UM_ASD'}
    """
    return {name: name for name in group}


def parse_site_names(text: str) -> dict[str, str]:
    """``koeln=Köln,Oslo 1=Oslo`` as a mapping; names with commas are written as JSON.

    >>> parse_site_names("koeln=Köln, Oslo 1=Oslo"), parse_site_names('{"Paris, Necker": "Paris"}')
    ({'koeln': 'Köln', 'Oslo 1': 'Oslo'}, {'Paris, Necker': 'Paris'})
    """
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            return {str(name): str(other) for name, other in json.loads(text).items()}
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    wrong = [text for name, _, other in pairs if not name.strip() or not other.strip()]
    if wrong or not pairs:
        raise UsageError(f"{text!r} gives no names of sites; write them as NAME=NAME, as in koeln=Köln")
    return {name.strip(): other.strip() for name, _, other in pairs}


def site_names_text(names: Mapping[str, str]) -> str:
    """What `parse_site_names` reads."""
    if any(mark in name for pair in names.items() for name in pair for mark in ",="):
        return json.dumps(dict(names), ensure_ascii=False)
    return ",".join(f"{name}={other}" for name, other in names.items())


def require_present(site_names: Mapping[str, str], present: Iterable[str]) -> None:
    """Refuse names of sites that nobody has."""
    present = sorted({*present} - {""})
    absent = [name for name in site_names if name not in present]
    if absent:
        raise UsageError(
            f"site_names names {listed(absent)}, but no site is called so; there are {listed(present, 20)}"
        )


def without_ending(name: str) -> str:
    """A name without a diagnosis or a long number at its end.

    >>> without_ending("Leiden_2180"), without_ending("2180"), without_ending("KKI_ADHD")
    ('Leiden', '2180', 'KKI')
    """
    return ENDING.sub("", name.strip()) or name


def _letters(name: str) -> str:
    """The words of a name in Latin letters, sorted, and its numbers in their order.

    >>> _letters("Århus Universitet 3T"), _letters("universitet aarhus 3 T")
    ('arhus t 3', 'arhus t 3')
    """
    text = UNIVERSITY_UNSPACED.sub("", unicodedata.normalize("NFKC", name))
    latin = DIGRAPHS.sub("", anyascii(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)).casefold())
    words, numbers = re.findall(r"[a-z]+", latin), re.findall(r"\d+", latin)
    words = [word for word in words if word not in LITTLE] or words
    return " ".join([*sorted(words), *(str(int(number)) for number in numbers)])
