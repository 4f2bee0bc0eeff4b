"""Which column of a table is the id, the site, the diagnosis, age, sex or motion: by its name and by what it holds.

Usual names go first, then names that hold a word for the role in one of nine languages (`brainroam.data.names`), or the
number of its field in UK Biobank. Where no name speaks of a diagnosis, a column whose values name controls does.
"""

import re
from collections.abc import Callable

import pandas as pd

from brainroam.data.names import ABSENT_WORDS, MEASURE_WORDS, names_role, plain, visit_of_field, words_in
from brainroam.data.readers.participants import TOGETHER
from brainroam.data.readers.values import is_empty, middle_of_ranges
from brainroam.data.target import MOST_CLASSES, is_control

USUAL = {
    "subject": ("participant_id", "subject", "subject_id", "sub_id", "id", "subjid", "src_subject_id", "eid"),
    "site": ("site", "site_id", "center", "centre", "scanner"),
    "label": ("diagnosis", "label", "dx", "dx_group", "group", "diag"),
    "age": ("age", "age_at_scan"),
    "sex": ("sex", "gender", "ptgender"),
    "mean_fd": ("mean_fd", "func_mean_fd"),
    "tr": ("tr", "repetition_time"),
    "group": TOGETHER["group"],
    "institution": TOGETHER["institution"],
    "session": ("session_id", "session", "ses", "visit", "viscode", "timepoint", "wave", "eventname", "timedays"),
}
GUESSED = ("subject", "age", "sex", "mean_fd", "site", "label")
CALLED = {"mean_fd": "motion (mean framewise displacement)", "subject": "person's id", "label": "diagnosis"}
#: Years, but not of life at the scan.
NOT_AGE = re.compile(
    "onset|beginn|debut|inicio|esordio|发病|首发|發病|発症|발병|educ|school|illness|duration|smok|mother|father|parent|bildung",
    re.IGNORECASE,
)
NUMBERED = re.compile(r"(.*?)[_ .-]?\d+")
IMAGING_VISIT = "2"  # of UK Biobank
MOST_FD = 5.0  # mm: what most people of a cohort moved less than
UNIQUE = 0.9  # of a column of ids


def no_files(ids: pd.Series) -> float:
    """The share of ids that stand in names of files, where there are none."""
    return 0.0


def columns_for(table: pd.DataFrame, role: str, in_files: Callable[[pd.Series], float] = no_files) -> list[str]:
    """Columns that may play a role, the likeliest first; ``in_files`` gives the share of ids in names of files.

    >>> table = pd.DataFrame({"Proband": ["a", "b", "c", "d"], "Standort": [*"KKMM"], "disease": ["AD", "CN"] * 2})
    >>> [columns_for(table, role) for role in ("subject", "site", "label")]
    [['Proband'], ['Standort'], ['disease']]
    """
    usual = {name: rank for rank, name in enumerate(USUAL[role])}
    scored, dummies = [], coded_together(table) if role == "site" else set()
    for place, name in enumerate(map(str, table.columns)):
        if (role == "age" and NOT_AGE.search(name)) or (role == "subject" and words_in(name) & MEASURE_WORDS):
            continue
        if name in dummies:
            continue
        named = names_role(name, role) or name.lower() in usual or (role == "mean_fd" and is_motion(name))
        named = named or (role == "sex" and words_in(name) == {"m", "f"})
        share = in_files(table[name]) if role == "subject" else 0.0
        leads = role == "subject" and place == 0 and _are_words(table[name])
        visits = role == "subject" and named and _ids_of_visits(table, name)
        if (named or leads or share > 0.5) and (
            fits_role(table[name], role) or visits or (role == "subject" and _ids_of_sites(table, name))
        ):
            rank = usual.get(name.lower(), len(usual) + (role == "mean_fd" and not is_motion(name)))
            last = _is_weak(name, role) + (visit_of_field(name, role) not in ("", IMAGING_VISIT))
            scored.append((-round(share, 2), not visits, rank, last, not named, place, name))
    if role == "label" and not scored:
        return [str(name) for name in table if _names_controls(table[name])]
    return [name for *_, name in sorted(scored)]


def coded_together(table: pd.DataFrame) -> set[str]:
    """Columns that code one variable together, as ``Site1`` to ``Site5`` of 0 and 1: none of them alone is the site."""
    stems: dict[str, list[str]] = {}
    for name in map(str, table.columns):
        if (numbered := NUMBERED.fullmatch(name)) and set(table[name].unique()) <= {"0", "1", "0.0", "1.0", ""}:
            stems.setdefault(numbered[1].lower(), []).append(name)
    return {name for names in stems.values() if len(names) > 1 for name in names}


def _is_weak(name: str, role: str) -> bool:
    """Whether a name may as well mean something else: ComBat's batch is the site where nothing else is."""
    return role == "site" and "batch" in words_in(name)


def _names_controls(values: pd.Series) -> bool:
    """Whether a column of few words has one for controls among them, and one for others."""
    known = values[~is_empty(values)]
    if not len(known) or known.iloc[0][:1].isdecimal() or known.nunique() > MOST_CLASSES:
        return False
    controls = [is_control(word) and plain(word) not in ABSENT_WORDS for word in known.unique()]
    return any(controls) and not all(controls)


def _are_words(values: pd.Series) -> bool:
    """Whether no value is a number: a first column of such, each another, is one of ids whatever it is called."""
    return bool(pd.to_numeric(values, errors="coerce").isna().all())


def _ids_of_sites(table: pd.DataFrame, name: str) -> bool:
    """Whether a column holds ids that begin anew at every site: with a column of sites it tells people apart."""
    sites = [str(other) for other in table.columns if other != name and names_role(str(other), "site")]
    return any(
        fits_role(table[site], "site") and len(table[[site, name]].drop_duplicates()) > UNIQUE * len(table)
        for site in sites
    )


def _ids_of_visits(table: pd.DataFrame, name: str) -> bool:
    """Whether a column holds ids of people with a row for each visit: beside them numbers of rows are no ids."""
    known = ~is_empty(table[name])
    if table.loc[known, name].nunique() > UNIQUE * len(table) or known.mean() < UNIQUE:
        return False
    sessions = [str(other) for other in table.columns if str(other).lower() in USUAL["session"]]
    return any(len(table[[name, session]].drop_duplicates()) > UNIQUE * len(table) for session in sessions)


def fits_role(values: pd.Series, role: str) -> bool:
    """Whether the values of a column could be what the role asks for."""
    known = values[~is_empty(values)]
    distinct = known.nunique()
    if role == "subject":
        return len(known) > 0 and distinct > UNIQUE * len(values) and not _are_measured(known)
    if role == "age":
        known = middle_of_ranges(known)
        plain = known.str.removesuffix("+").str.replace(",", ".")
        return len(known) > 0 and pd.to_numeric(plain, errors="coerce").notna().mean() > 0.9
    if role == "mean_fd":
        moved = pd.to_numeric(known.str.replace(",", "."), errors="coerce")
        return len(known) > 0 and moved.notna().mean() > 0.9 and moved.min() >= 0 and moved.median() < MOST_FD
    if role == "sex":
        return 1 <= distinct <= 6
    return 1 <= distinct <= max(2, len(known) // 2) and not _are_measured(known)


def _are_measured(known: pd.Series) -> bool:
    """Whether most values are numbers with decimals, which no site and no diagnosis is called."""
    numbers = pd.to_numeric(known.str.replace(",", "."), errors="coerce")
    return bool((numbers % 1 != 0).where(numbers.notna(), False).mean() > 0.5)


def is_motion(name: str) -> bool:
    """Whether a column is named like mean framewise displacement, not like a share or number of volumes above some.

    >>> [is_motion(name) for name in ("mean FD", "fd_mean", "meanFD_Jenkinson", "func_mean_fd", "FD", "func_perc_fd")]
    [True, True, True, True, True, False]
    """
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    displacement = words & {"fd", "displacement", "meanfd", "fdmean"}
    mean = words & {"mean", "avg", "average", "meanfd", "fdmean", "mittel", "moyen", "moyenne", "medio", "media"}
    return bool(displacement) and bool(mean or words <= {"fd", "framewise", "displacement", "mm", "power", "jenkinson"})
