"""Tables 2 to 6: who was scanned where, published and here."""

import numpy as np
import pandas as pd

from brainroam.report.tables import Column
from reproduction.page.content import Block, Listing, Part
from reproduction.page.data import PaperData
from reproduction.page.published import COHORTS, wide

TABLES = {"abide": 3, "rest-meta-mdd": 4, "srpbs": 5, "abcd": 6}
MEASURES = ("n", "n_cases", "age_mean", "n_male", "volumes")
HEADINGS = {"n": "N", "n_cases": "with the condition", "age_mean": "Age", "n_male": "Men", "volumes": "T"}


def cohort(data: PaperData) -> Part:
    """N, classes, age, sex and T of every site."""
    ours = _ours(data)
    number = TABLES.get(data.cohort_name or "")
    theirs = wide(number, data.cohort_name) if number else pd.DataFrame()
    beside = not theirs.empty and bool(set(theirs.index) & set(ours["site"]))
    rows = ours if not beside else ours.merge(_shown(theirs), on="site", how="outer", suffixes=("", "_published"))
    columns = [Column("site", "Site")]
    for key in MEASURES:
        columns.append(Column(key, HEADINGS[key]))
        if f"{key}_published" in rows:
            columns.append(Column(f"{key}_published", "published"))
    total = f"{int(ours['people'].sum())} people, {int(ours['cases'].sum())} with the condition."
    blocks: list[Block] = [total, Listing(rows, columns, "paper-sites", "Sites: people, age (mean ± sd), sex, volumes")]
    if not theirs.empty:
        blocks.append(_agreement(data, ours, theirs))
    title = f"Tables 2 and {number}: the dataset" if number else "Tables 2 to 6: the dataset"
    return Part("tables-2-6", title, tuple(blocks))


def _ours(data: PaperData) -> pd.DataFrame:
    rows = []
    for site in data.study["sites"]:
        age = f"{site['age_mean']:.1f} ± {site['age_sd']:.1f}" if site.get("age_sd") is not None else None
        low, high = site["volumes_min"], site["volumes_max"]
        volumes = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        row = {"site": site["site"], "n": str(site["n"]), "n_cases": str(site["n_cases"]), "age_mean": age}
        male = site.get("n_male")
        row |= {"n_male": None if male is None else str(male), "volumes": volumes}
        rows.append(row | {"people": site["n"], "cases": site["n_cases"]})
    return pd.DataFrame(rows)


def _shown(theirs: pd.DataFrame) -> pd.DataFrame:
    shown = {key: theirs[key].map("{:g}".format) for key in MEASURES if key != "age_mean"}
    age = [f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(theirs["age_mean"], theirs["age_mean_sd"], strict=True)]
    return pd.DataFrame({"site": theirs.index, **shown, "age_mean": age})


def _agreement(data: PaperData, ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    whole = wide(COHORTS, data.cohort_name).loc["all"]
    here = ours.set_index("site")["people"].reindex(theirs.index)
    differing = [
        f"{site} ({int(here[site])} here, {theirs.loc[site, 'n']:g} published)"
        for site in theirs.index
        if np.isfinite(here[site]) and here[site] != theirs.loc[site, "n"]
    ]
    if here.isna().all():
        return f"Published: {whole['n']:g} people at sites that are named otherwise here: not set side by side."
    absent = [site for site in theirs.index if not np.isfinite(here[site])]
    words = f"Published: {whole['n']:g} people, {whole['n_cases']:g} with the condition. "
    if not differing and not absent:
        return words + "Every site has the published number of people."
    parts = [f"other numbers of people at {', '.join(differing)}"] if differing else []
    parts += [f"no people of {', '.join(absent)}"] if absent else []
    return words + "Here: " + "; ".join(parts) + ", so results cannot be expected to be the same."
