"""Rules about groups: families, scans of one person, sites of one institution."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import yaml

from brainroam.data.check.report import Finding
from brainroam.data.names import shared_institutions
from brainroam.data.people import group_codes, people_of, persons
from brainroam.data.spellings import as_one, as_several, undecided
from brainroam.errors import counted, listed


def one_institution(table: pd.DataFrame) -> Iterator[Finding]:
    """Sites that share an institution, by the column or as their names look."""
    remedy = "leave out whole institutions as well: brainroam evaluate --protocol institutions"
    if "institution" in table:
        sites = table.groupby("institution")["site"].unique()
        shared = {str(name): sorted(group) for name, group in sites.items() if len(group) > 1}
        what = f"{table['site'].nunique()} sites are of {len(sites)} institutions"
    else:
        shared = shared_institutions(sorted(table["site"].unique()))
        what = "sites look like one institution"
        remedy = f"name institutions in a column 'institution' (init --institution COLUMN), or {remedy}"
    if shared:
        each = listed(f"{name} ({', '.join(group)})" for name, group in shared.items())
        yield Finding("note", "one-institution", f"{what}: {each}", remedy)


def look_alike_sites(table: pd.DataFrame, site_names: Mapping[str, str]) -> Iterator[Finding]:
    """Sites whose names may be spellings of one, and of which the study does not say that they are several."""
    people = people_of(table)["site"].value_counts()
    for group in undecided(sorted(table["site"].unique()), site_names):
        message = (
            f"{listed(map(repr, group), 8)} may be one site; if so, the model tested at one was trained at the other"
        )
        one, several = map(_in_yaml, (as_one({name: int(people[name]) for name in group}), as_several(group)))
        remedy = f"in the study file, site_names: {one} makes one site of them, and site_names: {several} keeps several"
        yield Finding("warning", "look-alike-sites", message, remedy)


def groups_kept_together(table: pd.DataFrame) -> Iterator[Finding]:
    """Groups that every split keeps together, groups at several sites, and groups too large to be families."""
    if "study_group" in table and "group" not in table:
        levels = table["study_group"].value_counts()
        message = f"a column 'group' with {len(levels)} values ({listed(levels.index)}) is called 'study_group'"
        remedy = "its groups are too large for families: nobody is kept together; name families in 'group'"
        yield Finding("warning", "no-families", message, remedy)
    codes = group_codes(table)
    if codes is None:
        return
    person = persons(table)
    family = (person.groupby(codes).transform("nunique") > 1).to_numpy()
    if family.any():
        n_groups = len(np.unique(codes[family]))
        message = f"{person[family].nunique()} people belong to {n_groups} groups of two or more (families)"
        people = tuple(table.loc[family, "subject"])
        yield Finding("note", "kept-together", message, "every split keeps them on one side", subjects=people)
    repeated = person.duplicated(keep=False).to_numpy()
    if repeated.any():
        message = f"{person[repeated].nunique()} people have several scans, {int(repeated.sum())} together"
        remedy = "every split keeps a person on one side, who counts once, with the mean of the scores"
        yield Finding("note", "several-scans", message, remedy, subjects=tuple(table.loc[repeated, "subject"]))
    sites = table["site"].groupby(codes).transform("nunique").to_numpy()
    if (sites > 1).any():
        across = tuple(table.loc[sites > 1, "subject"])
        n_groups, rows = len(np.unique(codes[sites > 1])), "scans" if repeated.any() else "people"
        named = counted(n_groups, "person or family is", "people or families are")
        message = f"{named} at several sites, {len(across)} {rows} together: {listed(across)}"
        remedy = "who is related to somebody at the held-out site is left out of training"
        yield Finding("warning", "group-across-sites", message, remedy, subjects=across)


def _in_yaml(names: Mapping[str, str]) -> str:
    return yaml.safe_dump(dict(names), default_flow_style=True, allow_unicode=True, width=10_000).strip()
