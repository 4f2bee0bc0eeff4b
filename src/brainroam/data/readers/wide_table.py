"""One wide table: a row per person with id, site, diagnosis, age, sex, and the measures themselves.

::

    cohort.csv     id, site, diagnosis, age, sex, lh_bankssts_thickness, ...     (also .tsv, .xlsx)

Where no column tells the site, ids such as ``Oslo_sub-012`` do: what stands before ``_sub``.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.data.columns import columns_named
from brainroam.data.measurements import READ_AS
from brainroam.data.names import plain
from brainroam.data.readers.clinical import columns_as_in_training
from brainroam.data.readers.participants import Participants, Request
from brainroam.data.readers.participants_table import (
    NO_COLUMN,
    USUAL_COLUMNS,
    Columns,
    read_participants,
)
from brainroam.data.readers.repeats import choose_visits, numbered_by_site
from brainroam.data.readers.roles import USUAL, columns_for, fits_role
from brainroam.data.readers.tables import is_table, read_table
from brainroam.data.readers.values import codes, fold
from brainroam.data.readers.which_columns import (
    OfModel,
    Wanted,
    choose_measures,
    class_codes,
    described,
    left_out,
    numbers_of,
    strange_cells,
)
from brainroam.errors import ReaderError, listed, warn_user

LOOKS_FOR = "one table (csv, tsv, xlsx) with a row per person: id, site, diagnosis, and columns of measures"
SITE_IN_ID = re.compile(r"(.+?)[_-]+sub", re.IGNORECASE)
LEAST = 3  # measures
ROLES = ("subject", "site", "label", "unlabelled", "age", "sex", "mean_fd", "tr", "group", "institution", "session")


def recognises(path: Path) -> bool:
    """Whether it is a table at all."""
    return path.is_file() and is_table(path)


def read(
    path: Path,
    request: Request,
    *,
    participants: str | Sequence[str] | None = None,
    columns: Columns = USUAL_COLUMNS,
    measures: Wanted = "*",
    sessions: str = "first",
) -> Cohort:
    """Read a wide table.

    ``measures`` are patterns of the columns that are read, as ``*_thickness``; all by default. ``age`` and ``sex``
    among them are measures and stay covariates, by which the reference ``confounds`` predicts. ``none`` is for a table
    that tells of people only, whose measurements are blocks of the study. ``participants`` are further tables of the
    same people. Of several rows of a person, one for each visit, ``sessions`` takes the ``first`` or ``all``.
    """
    raw = read_table(path, columns.sheet)
    sites = sites_in_ids(raw, columns, 2 if request.require_label else 1)
    if columns.subject_col is None and not _columns_of(raw, "subject"):
        leads = fits_role(raw.iloc[:, 0], "subject")
        columns = replace(columns, subject_col=str(raw.columns[0]) if leads else NO_COLUMN)
        if not leads:
            warn_user(f"{path} has no column of ids (subject_col): people are called by their lines, as line2")
    further = [] if participants is None else [participants] if isinstance(participants, str) else participants
    people = read_participants(
        [path, *map(Path, further)], columns, request.require_label, sites is not None, request.target
    )
    if sites is not None:
        people["site"] = sites
    if numbered_by_site(people):
        people["subject"] = people["site"] + "_" + people["subject"]
    people = choose_visits(people, sessions).reset_index(drop=True)
    told = {fold(name) for name in (request.target or "", *request.covariates)}
    free = [name for name in people if name not in ROLES and fold(str(name)) not in told]
    people_only, left = measures == NO_COLUMN, dict[str, str]()
    if people_only:
        values = people[[]].assign(none=np.nan)
    elif isinstance(measures, OfModel):
        own = _of_people(people, measures.names)
        named = [name for name in measures.names if name not in own]
        found = columns_named(columns_as_in_training(people[free], named), named, path)
        numbers = pd.DataFrame(numbers_of(found.astype(object).fillna("")), index=people.index)
        values = numbers.assign(**own)[list(measures.names)]
    else:
        coded = people.assign(label=class_codes(people, request.target))
        values, left = choose_measures(people[free], measures, coded)
        values = values.assign(**_of_people(people, [measures] if isinstance(measures, str) else measures))
    if len(values.columns) < LEAST and not people_only:
        raise ReaderError(
            f"{path} has {len(values.columns)} columns of measures ({listed(values.columns)}); name them with measures "
            "(--option measures=PATTERN, or measures=none where --block has the measurements), or give the folder in "
            "which the series of these people are"
        )
    read = {plain(str(name)) for name in values}
    others = people.drop(columns=[name for name in free if plain(str(name)) in read])
    roster = Participants(others.assign(row=range(len(people))), request, path)
    if request.require_label and request.target is None:
        roster.exclude(roster.table["label"].isna(), roster.table["unlabelled"])
    if not len(roster.table):
        raise ReaderError(f"{path}: no participants remain after exclusions; say which codes are case and control")
    rows = values.to_numpy(dtype=float)[roster.table["row"].to_numpy(dtype=int)]
    table, excluded = roster.table.drop(columns=["unlabelled", "row"]), roster.excluded
    step = f"{len(values.columns)} columns of {path.name} {READ_AS}: {described(values)}{left_out(left, 'measures')}"
    step += "" if people_only else strange_cells(people, [name for name in values if name in people])
    return Cohort(
        list(rows[:, None]),
        table,
        columns_of_table(values.columns, path.name.split(".")[0]),
        pd.DataFrame(excluded, columns=["subject", "reason"]),
        prepared=[] if people_only else [step],
        measure="table",
    )


def _of_people(people: pd.DataFrame, wanted: Sequence[str]) -> dict[str, pd.Series]:
    """Age and sex, where they are wanted as measures by these names."""
    return {role: people[role] for role in ("age", "sex") if role in wanted and role in people}


def sites_in_ids(raw: pd.DataFrame, columns: Columns, fewest: int = 2) -> pd.Series | None:
    """The part of every id before ``_sub``, where no column tells the site; None where one does, or ids do not.

    A study has two sites or more; new people may be of one (``fewest``).

    >>> sites_in_ids(pd.DataFrame({"id": ["Oslo_sub-1", "Oslo_sub-2", "Rome_sub-1"]}), USUAL_COLUMNS).tolist()
    ['Oslo', 'Oslo', 'Rome']
    """
    if columns.site_col is not None or _columns_of(raw, "site"):
        return None
    told = [columns.subject_col] if columns.subject_col in raw else []
    for name in [*told, *_columns_of(raw, "subject"), *raw.columns[:1]]:
        ids = codes(raw[name])
        matched = ids.str.extract(SITE_IN_ID, expand=False)
        if matched.notna().all() and fewest <= matched.nunique() <= max(len(matched) - 1, fewest):
            return matched
    return None


def _columns_of(table: pd.DataFrame, role: str) -> list[str]:
    """Columns with a usual name for the role, whatever they hold, then those that may play it."""
    return [*(str(name) for name in table if str(name).lower() in USUAL[role]), *columns_for(table, role)]
