"""One id at several sites: people who are numbered anew at each, or one person who travelled.

Either way a row of the cohort is the site and the id together, ``Oslo_1``. Label, sex and age tell which it is: where
they contradict each other these are different people, else the column ``person`` names the one whose scans they are.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from brainroam.data.names import canonical
from brainroam.data.readers.repeats import Scan
from brainroam.errors import ReaderError, listed

MOST = 0.8  # of the ids of a site that stand at others too, where numbering begins anew
FEWEST = 3  # people of such a site
YEARS = 1.0  # between two scans of one person


def at_several_sites(table: pd.DataFrame) -> pd.Series:
    """Whose id stands at more than one site."""
    return table.groupby("subject")["site"].transform("nunique") > 1


def numbered_by_site(table: pd.DataFrame) -> bool:
    """Whether the ids of a table of people are those of other people at other sites.

    >>> table = pd.DataFrame({"subject": list("123123"), "site": list("AAABBB"), "label": [0, 1, 1, 1, 0, 1]})
    >>> numbered_by_site(table), numbered_by_site(table.assign(label=[0, 1, 1, 0, 1, 1]))
    (True, False)
    """
    by_id, shared = table.groupby("subject"), at_several_sites(table)
    anew = shared.groupby(table["site"]).transform("mean") >= MOST
    enough = table.groupby("site")["subject"].transform("nunique") >= FEWEST
    if not (anew & enough).any():
        return False
    facts = [by_id[name].nunique() > 1 for name in ("label", "sex") if name in table]
    facts += [by_id["age"].agg(lambda age: age.max() - age.min()) > YEARS] if "age" in table else []
    contradict = pd.concat(facts, axis=1).any(axis=1)
    return bool(contradict[table.loc[shared, "subject"].unique()].mean() > 0.5)


def refuse_numbered_by_site(table: pd.DataFrame, source: Path) -> None:
    """An error where nothing tells which file belongs to which site's person of an id."""
    if numbered_by_site(table):
        subject = table.loc[table["subject"].duplicated(), "subject"].iloc[0]
        where = listed(table.loc[table["subject"] == subject, "site"].unique())
        raise ReaderError(
            f"in {source} the ids begin anew at every site: {subject} is somebody else at each of {where}; put "
            "{site} into the template where a path names it (--option template='{site}/{participant_id}.csv'), or give "
            "everybody an id of their own"
        )


def named_with_site(
    table: pd.DataFrame, found: Mapping[str, Sequence[Scan]]
) -> tuple[pd.DataFrame, dict[str, list[Scan]]]:
    """The table and everybody's scans, with ids such as ``Oslo_1``; a scan of a site not in the table stays apart."""
    spelled = {canonical(site): str(site) for site in table["site"]}
    scans_of: dict[str, list[Scan]] = {}
    for subject, scans in found.items():
        for scan in scans:
            site = spelled.get(canonical(scan.site)) if scan.site else None
            name = str(scan.path) if site is None else f"{site}_{subject}"
            scans_of.setdefault(name, []).append(scan)
    named = table.assign(subject=table["site"].astype(str) + "_" + table["subject"])
    if not numbered_by_site(table):
        person = table["subject"].where(at_several_sites(table))
        named["person"] = person.fillna(named["subject"])
    return named, scans_of
