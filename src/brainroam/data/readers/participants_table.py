"""A ``participants.tsv`` as people write it: columns of any name, codes of any kind, found or told."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from brainroam.data.readers.tables import ages, codes, is_empty, labels, nearest, numbers, read_table, sexes
from brainroam.errors import ReaderError, UsageError, listed, unknown

USUAL = {
    "subject": ("participant_id", "subject", "subject_id", "sub_id", "id"),
    "site": ("site", "site_id", "center", "centre", "scanner"),
    "label": ("diagnosis", "label", "dx", "dx_group", "group", "diag"),
    "age": ("age", "age_at_scan"),
    "sex": ("sex", "gender"),
    "mean_fd": ("mean_fd", "func_mean_fd"),
    "tr": ("tr", "repetition_time"),
}
CONTROL_WORDS = {"0", "control", "controls", "hc", "td", "tc", "nc", "cn", "healthy", "typical"}
PATTERNS = ("participants.tsv", "participants.csv", "participants.xlsx")


@dataclass(frozen=True)
class Columns:
    """Which column is what, and what its codes mean.

    ``subject_col``, ``site_col``, ``label_col``, ``age_col``, ``sex_col`` and ``mean_fd_col`` are names of columns
    (None: look for the usual ones); ``case`` and ``control`` are the codes, one or several, of the condition and of the
    controls (None: 0 and words such as HC or control stand for controls, and a single other code for the condition).
    """

    subject_col: str | None = None
    site_col: str | None = None
    label_col: str | None = None
    age_col: str | None = None
    sex_col: str | None = None
    mean_fd_col: str | None = None
    case: str | Sequence[str] | None = None
    control: str | Sequence[str] | None = None


USUAL_COLUMNS = Columns()


def find_participants(folder: Path, given: str | Path | None, levels: int = 0) -> Path:
    """The table of people: the one given, else the one in the folder or up to ``levels`` above it."""
    path = nearest(folder, PATTERNS, levels) if given is None else Path(given)
    if path is None or not path.is_file():
        where = f"{given} does not exist" if given else f"no participants.tsv in {folder}"
        raise ReaderError(f"{where}; give the table of people with participants (--option participants=FILE)")
    return path


def read_participants(path: Path, columns: Columns, require_label: bool = True) -> pd.DataFrame:
    """The table of people as a roster needs it, with every further column kept as text."""
    raw = read_table(path)
    needed = {"subject", "site", *(["label"] if require_label else [])}
    named = {role: _find(raw, role, getattr(columns, f"{role}_col", None), role in needed, path) for role in USUAL}
    table = pd.DataFrame({"subject": raw[named["subject"]], "site": raw[named["site"]]})
    if named["label"] is None:
        table = table.assign(label=float("nan"), unlabelled="")
    else:
        table = table.assign(**labels(raw[named["label"]], code_meaning(raw[named["label"]], columns, path)))
    for role, convert in {"age": ages, "mean_fd": numbers, "tr": numbers}.items():
        if named[role] is not None:
            table[role] = convert(raw[named[role]], path)
    if named["sex"] is not None:
        table["sex"] = sexes(raw[named["sex"]])
    rest = raw.drop(columns=[name for name in named.values() if name is not None])
    return table.join(rest[[name for name in rest.columns if name not in table]])


def is_motion(name: str) -> bool:
    """Whether a column is named like mean framewise displacement, not like a share or number of volumes above some.

    >>> [is_motion(name) for name in ("mean FD", "fd_mean", "meanFD_Jenkinson", "func_mean_fd", "FD", "func_perc_fd")]
    [True, True, True, True, True, False]
    """
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    displacement = words & {"fd", "displacement", "meanfd", "fdmean"}
    mean = words & {"mean", "avg", "average", "meanfd", "fdmean"}
    return bool(displacement) and bool(mean or words <= {"fd", "framewise", "displacement", "mm", "power", "jenkinson"})


def _find(table: pd.DataFrame, role: str, given: str | None, needed: bool, path: Path) -> str | None:
    if given is not None:
        if given not in table:
            raise unknown(f"column in {path}:", given, table.columns)
        return given
    by_lower = {str(name).lower(): str(name) for name in reversed(table.columns)}
    found = next((by_lower[name] for name in USUAL[role] if name in by_lower), None)
    if found is None and role == "mean_fd":
        found = next((str(name) for name in table.columns if is_motion(str(name))), None)
    if found is None and needed:
        raise ReaderError(
            f"{path} has no column named {' or '.join(USUAL[role])}; it has {listed(table.columns, limit=20)}: "
            f"say which holds the {role} with {role}_col (--option {role}_col=NAME)"
        )
    return found


def code_meaning(values: pd.Series, columns: Columns, path: Path) -> dict[str, int]:
    """What each code stands for; without a known word for the controls nothing is guessed."""
    present = sorted(set(codes(values)[~is_empty(values)]))
    case, control = _as_codes(columns.case), _as_codes(columns.control)
    for code in [*case, *control]:
        if code not in present:
            raise unknown(f"code in column {values.name!r} of {path}:", code, present)
    control = control or [code for code in present if code.lower() in CONTROL_WORDS and code not in case]
    others = [code for code in present if code not in control and code not in case]
    if case and not control and len(others) == 1:
        control = others
    elif not case and (control or present == ["1"]) and len(others) == 1:
        case = others
    if set(case) & set(control) or (set(present) - {*case, *control} and not (case and control)):
        raise UsageError(
            f"column {values.name!r} of {path} holds {listed(present, limit=10)}; say which is the condition and which "
            "the controls with case and control (--option case=..., --option control=...)"
        )
    return {**dict.fromkeys(control, 0), **dict.fromkeys(case, 1)}


def _as_codes(given: object) -> list[str]:
    """Codes given as one text with commas, as a number, or one by one."""
    if given is None:
        return []
    parts = given if isinstance(given, (list, tuple, set)) else str(given).split(",")
    return codes(pd.Series([str(part).strip() for part in parts])).tolist()
