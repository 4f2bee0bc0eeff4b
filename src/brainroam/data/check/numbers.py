"""Rules about a number as the target: defined differently at sites, confounded with them, outliers, ceilings, codes.

On the scale it is learned on. With m_e and s_e the median and the spread (1.4826 times the median absolute deviation)
of the people of site e, and s the median of the s_e over sites,

    far      |m_e - median of m| > FAR s                                 another test, unit or range
    wide     s_e / s > WIDE or < 1 / WIDE                                another scale
    between  1 - sum of squares within sites / sum of squares over all   confounded with the site
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort
from brainroam.data.columns import REMEDY, of_the_condition
from brainroam.data.people import people_of
from brainroam.data.readers.values import SENTINELS
from brainroam.errors import listed

AGE = "age"  # has one definition everywhere, but sites choose whom they scan
FAR, WIDE = 4.0, 4.0
LEAST = 8  # people of a site, with fewer of whom a spread says little
BETWEEN = 0.5
OUTLYING = 6.0  # spreads from the site's median
PILED = 0.2  # share of people at the largest or the smallest value
FEW = 10  # different values, with fewer of which many people at the ends are no ceiling


def of_a_number(cohort: Cohort) -> Iterator[Finding]:
    """All findings about a number as the target."""
    table = people_of(cohort.table, ()).dropna(subset="label")
    if table.empty:
        return
    values = pd.Series(cohort.target.forward(table["label"].to_numpy(dtype=float)), table.index)
    name, site = cohort.target.name, table["site"].astype(str)
    yield from _definition(name, values, site)
    yield from _constant(name, table["label"], site)
    yield from _compare_sites(name, values, site)
    yield from _outliers(name, values, site, table)
    yield from _ends(name, table["label"], site)
    yield from _codes(name, table)
    for reason in of_the_condition(table, cohort.covariate_names, cohort.target).values():
        yield Finding("error", "covariate-is-target", f"covariate {reason}", REMEDY)


def _definition(name: str, values: pd.Series, site: pd.Series) -> Iterator[Finding]:
    """Sites where the number seems to be measured otherwise."""
    large = {str(one): here for one, here in values.groupby(site) if len(here) >= LEAST and _spread(here) > 0}
    if len(large) < 3:
        return
    medians = {one: float(here.median()) for one, here in large.items()}
    spreads = {one: _spread(here) for one, here in large.items()}
    middle, usual = np.median(list(medians.values())), np.median(list(spreads.values()))
    for one in large:
        far, ratio = abs(medians[one] - middle) / usual, spreads[one] / usual
        if far > FAR or not 1 / WIDE <= ratio <= WIDE:
            seen = f"its median lies {far:.1f} spreads from that of other sites, its spread is {ratio:.2g} of theirs"
            what = f"{name} seems to be defined otherwise"
            advice = "see whether the same test, version and unit was used; convert it, or leave the site out"
            if name == AGE:
                what = "people are of another age"
                advice = "see whether it is in years everywhere; if it is, errors of level there are to be expected"
            yield Finding("warning", "other-definition", f"{what}: {seen}", advice, one)


def _constant(name: str, label: pd.Series, site: pd.Series) -> Iterator[Finding]:
    """Sites where everybody has the same value."""
    for one, here in label.groupby(site):
        if len(here) >= LEAST and here.nunique() == 1:
            message = f"{name} is {here.iloc[0]:g} for all {len(here)} people"
            advice = "see whether it was measured there or filled in; nobody can be ordered at this site"
            yield Finding("warning", "constant-target", message, advice, str(one))


def _compare_sites(name: str, values: pd.Series, site: pd.Series) -> Iterator[Finding]:
    within = float(np.square(values - values.groupby(site).transform("mean")).sum())
    total = float(np.square(values - values.mean()).sum())
    share = 1 - within / total if total > 0 else 0.0
    if share >= BETWEEN:
        message = f"{share:.0%} of the variance of {name} lies between sites"
        advice = "a model that only tells sites apart looks good over all people: read the figures within sites"
        yield Finding("warning", "target-by-site", message, advice)


def _outliers(name: str, values: pd.Series, site: pd.Series, table: pd.DataFrame) -> Iterator[Finding]:
    """People far from the median of their site, by the spread of all sites, or of their own where it is larger."""
    centred = values - values.groupby(site).transform("median")
    spread = np.maximum(centred.groupby(site).transform(_spread), _spread(centred))
    far = centred.abs() > OUTLYING * spread
    if _spread(centred) > 0 and far.any():
        who = listed(f"{row.subject} ({row.label:g})" for row in table[far].itertuples())
        message = f"{name} lies more than {OUTLYING:g} spreads from the median of the site: {who}"
        yield Finding("warning", "target-outlier", message, "see whether these are errors of typing or of units")


def _ends(name: str, label: pd.Series, site: pd.Series) -> Iterator[Finding]:
    """Many people at the end of the scale of their own site, for a site with another scale hides the end of others."""
    label = label[site.map(site.value_counts()) >= LEAST]
    if label.nunique() <= FEW:
        return
    of_site = label.groupby(site[label.index])
    for word, ends in (("largest", of_site.transform("max")), ("smallest", of_site.transform("min"))):
        share = float((label == ends).mean())
        if share >= PILED:
            message = f"{share:.0%} of people have the {word} {name} of their site, mostly {ends.mode()[0]:g}"
            yield Finding("note", "target-ceiling", message, "people beyond the end of a scale cannot be ordered by it")


def _codes(name: str, table: pd.DataFrame) -> Iterator[Finding]:
    """Codes for unknown that lie among the values; those far beyond them are taken as unknown when data are read."""
    code = table["label"].isin([float(value) for value in SENTINELS])
    if code.any() and table["label"].nunique() > FEW:
        values = listed(f"{value:g}" for value in sorted(table.loc[code, "label"].unique()))
        message = f"{name} is {values} for {listed(table.loc[code, 'subject'])}, which often stands for unknown"
        yield Finding("warning", "target-code", message, "leave the cell empty where it is unknown")


def _spread(values: pd.Series) -> float:
    return 1.4826 * float((values - values.median()).abs().median())
