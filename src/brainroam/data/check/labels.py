"""Rules about labels and covariates: can they be learned from, and what else tells the classes apart?"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from brainroam.data.check.report import Finding
from brainroam.data.columns import REMEDY, levels_of, of_the_condition
from brainroam.data.target import Target
from brainroam.data.target.association import Association, contrast
from brainroam.errors import DataError, counted, listed

LISTED = "listed "  # how the readers begin to say that somebody has several rows
MIN_PEOPLE, MIN_PER_CLASS = 10, 5
SAYS_LITTLE = (
    "the AUC of such a site says little, and weighs little in the mean: read the mean over sites; sites that were "
    "scanned alike may be given one name"
)
MIN_MINORITY = 0.3
MIN_SITES_OF_CLASS = 3  # with so many people of it: one to be held out, two to learn what they have in common
COVARIATES = ("age", "sex", "mean_fd")
PLAUSIBLE: dict[str, tuple[Callable[[pd.Series], pd.Series], str]] = {
    "age": (lambda x: (x > 0) & (x < 105), "give years, not months, and leave unknown ages empty"),
    "sex": (lambda x: x.isin([0, 1]), "code 1 = male, 0 = female, and leave unknown sex empty"),
    "mean_fd": (lambda x: (x >= 0) & (x < 10), "give millimetres, and leave unknown motion empty"),
    "tr": (lambda x: (x > 0) & (x < 20), "give seconds"),
}
# Confounding is reported when it is both certain and large enough to be learned instead of the condition.
MAX_P, MIN_D_COHORT, MIN_D_SITE = 0.01, 0.3, 0.5
NAMES = {"age": "mean age", "sex": "share of men", "mean_fd": "mean displacement", "n_timepoints": "mean volumes"} | {
    "variation": "log variation of DVARS"
}
DIGITS = {"age": 1, "sex": 2, "mean_fd": 2, "n_timepoints": 0, "variation": 2}
CONTRASTS = {
    "age": ("cases are older than controls", "cases are younger than controls"),
    "sex": ("more of the cases are male", "fewer of the cases are male"),
    "mean_fd": ("cases moved more than controls", "cases moved less than controls"),
    "n_timepoints": ("scans of cases are longer than of controls", "scans of cases are shorter than of controls"),
    "variation": tuple(
        f"the signal of cases jumps {how} unevenly than that of controls, as of people who moved {how}"
        for how in ("more", "less")
    ),
}
NOUNS = {
    "age": "age",
    "sex": "sex",
    "mean_fd": "motion",
    "n_timepoints": "the length of the scan",
    "variation": "motion",
}
REMEDIES = {
    name: f"a model can learn {noun} instead of the condition: use it as a covariate (--covariates)"
    for name, noun in NOUNS.items()
} | {
    "n_timepoints": "a model can learn the length of the scan from noise and dynamics: cut all scans alike (--crop)",
    "variation": "a model can learn motion instead of the condition: add a column mean_fd. Until then our methods take "
    "out what goes with motion as estimated from the series",
}


def unusable(table: pd.DataFrame) -> Iterator[Finding]:
    """Reasons why training on some sites and testing on another is impossible."""
    label = table["label"].dropna()
    if table.empty:
        yield Finding("error", "nobody-left", "nobody has signal in enough regions", "check the series and the atlas")
        return
    if table["site"].nunique() == 1:
        message = f"all {len(table)} usable people are from one site"
        yield Finding("error", "one-site", message, "give data of two sites at least", table["site"].iloc[0])
    if label.empty:
        yield Finding("error", "no-labels", "nobody has a label", "name the column and the codes of the diagnosis")
    elif label.nunique() == 1:
        which = "cases" if label.iloc[0] == 1 else "controls"
        message = f"all {len(label)} labelled people are {which}"
        yield Finding("error", "one-class", message, "check the label codes: both classes are needed")
    elif table["site"].nunique() > 1 and not _with_both_classes(table):
        message = f"none of the {table['site'].nunique()} sites has both cases and controls: site and condition are one"
        remedy = "check the column of sites; without controls scanned like the cases, nothing can be learned"
        yield Finding("error", "no-contrast", message, remedy)


def _with_both_classes(table: pd.DataFrame) -> list[str]:
    classes = table.dropna(subset="label").groupby("site")["label"].nunique()
    return list(classes.index[classes > 1])


def unlabelled(table: pd.DataFrame) -> Iterator[Finding]:
    """People who can be predicted but not learned from."""
    people = tuple(table.loc[table["label"].isna(), "subject"])
    if 0 < len(people) < len(table):
        message = f"{counted(len(people), 'person has', 'people have')} no label: {listed(people)}"
        yield Finding("warning", "unlabelled", message, "they can be predicted, not trained on", subjects=people)


def listed_twice(excluded: pd.DataFrame) -> Iterator[Finding]:
    """People with several rows in the table."""
    twice = excluded[excluded["reason"].str.startswith(LISTED)]
    for reason, part in twice.groupby("reason"):
        people = tuple(part["subject"])
        message = f"{counted(len(people), 'person is', 'people are')} {reason}: {listed(people)}"
        yield Finding("warning", "listed-twice", message, "give every person one row", subjects=people)


def class_balance(table: pd.DataFrame) -> Iterator[Finding]:
    """Sites that are small or unbalanced; that all sites have one class is a finding of its own."""
    if not _with_both_classes(table):
        return
    for site, label in table.groupby("site")["label"]:
        cases, controls = int((label == 1).sum()), int((label == 0).sum())
        fewer = min(cases, controls)
        if fewer == 0:
            code, remedy = "one-class-site", "serves deconfounding only: no contrast, and no AUC as test site"
        elif fewer < MIN_PER_CLASS or len(label) < MIN_PEOPLE:
            code, remedy = "small-site", SAYS_LITTLE
        elif fewer < MIN_MINORITY * (cases + controls):
            code, remedy = "imbalance", "judge by AUC or balanced accuracy there, not by accuracy"
        else:
            continue
        message = f"{counted(cases, 'case', 'cases')} and {counted(controls, 'control', 'controls')}"
        yield Finding("warning", code, message, remedy, str(site))


def balance_of_classes(table: pd.DataFrame, classes: Sequence[str]) -> Iterator[Finding]:
    """Sites without two of several classes that have enough people to be told apart there."""
    for site, label in table.groupby("site")["label"]:
        counts = {name: int((label == code).sum()) for code, name in enumerate(classes) if (label == code).any()}
        if sum(count >= MIN_PER_CLASS for count in counts.values()) < 2 and counts:
            code, remedy = "small-site", SAYS_LITTLE
            if len(counts) == 1:
                code, remedy = "one-class-site", "serves deconfounding only: no contrast, and no AUC as test site"
            yield Finding("warning", code, ", ".join(f"{n} {name}" for name, n in counts.items()), remedy, str(site))


def rare_classes(table: pd.DataFrame, classes: Sequence[str]) -> Iterator[Finding]:
    """Of several classes, those that few people or sites have."""
    for code, name in enumerate(classes):
        sites = table.loc[table["label"] == code, "site"].value_counts()
        enough = sites.index[sites >= MIN_PER_CLASS]
        if sites.sum() < MIN_PEOPLE or len(enough) < MIN_SITES_OF_CLASS:
            message = f"{name!r} has {counted(int(sites.sum()), 'person', 'people')} at "
            message += f"{counted(len(sites), 'site', 'sites')}, {MIN_PER_CLASS} or more at {len(enough)}"
            remedy = "little can be said of it at a new site: join it with a similar class, or leave it out"
            yield Finding("warning", "rare-class", message, remedy)


def label_by_site(table: pd.DataFrame) -> Iterator[Finding]:
    """Whether the site alone tells something about the label."""
    counts = pd.crosstab(table["site"], table["label"])
    if min(counts.shape) < 2:
        return
    chi2, p, *_ = stats.chi2_contingency(counts, correction=False)
    if p < MAX_P:
        v = np.sqrt(chi2 / counts.to_numpy().sum())
        share = counts[1] / counts.sum(axis=1)
        message = (
            f"the share of cases differs between sites, from {share.min():.0%} ({share.idxmin()}) to "
            f"{share.max():.0%} ({share.idxmax()}): Cramér's V = {v:.2f}, {p_text(p)}"
        )
        remedy = "a model can learn the site instead of the condition: hold out whole sites, remove site effects"
        yield Finding("warning", "label-by-site", message, remedy)


def label_by_covariates(table: pd.DataFrame, used: Sequence[str] = ()) -> Iterator[Finding]:
    """Whether age, sex, motion, scan length or further covariates of the study (``used``) tell cases from controls.

    Motion is that of `brainroam.data.motion` at sites where the table has a column ``variation``.
    """
    measures = of_the_condition(table, used)
    for reason in measures.values():
        yield Finding("warning", "covariate-of-condition", reason, REMEDY)
    numbers = [name for name in used if pd.api.types.is_numeric_dtype(table[name]) and name not in measures]
    parts = [(None, table, MIN_D_COHORT), *((str(s), part, MIN_D_SITE) for s, part in table.groupby("site"))]
    for name in dict.fromkeys([*(name for name in CONTRASTS if name in table), *numbers]):
        for site, part, least in parts if name in CONTRASTS else parts[:1]:
            cases, controls = (part.loc[part["label"] == y, name].dropna().to_numpy() for y in (1, 0))
            if min(len(cases), len(controls)) < 2 or np.ptp(np.concatenate([cases, controls])) == 0:
                continue
            d, p = contrast(cases, controls)
            if p < MAX_P and abs(d) >= least:
                digits = f".{DIGITS[name]}f" if name in DIGITS else ".4g"
                means = f"{NAMES.get(name, 'mean')} {cases.mean():{digits}} against {controls.mean():{digits}}"
                size = f"d = {d:.2f}" if np.isfinite(d) else "no overlap"
                what = CONTRASTS.get(name, (f"{name} is higher in cases", f"{name} is lower in cases"))[int(d < 0)]
                message = f"{what}: {means}, {size}, {p_text(p)}"
                yield Finding("warning", f"label-by-{name}", message, _remedy(name, used), site)


def _remedy(name: str, used: Sequence[str]) -> str:
    if name not in CONTRASTS:
        return (
            f"if {name} is part of the condition, removing it removes part of what is to be found: leave it out of the "
            "covariates; if it is a nuisance, keep it"
        )
    if name in used:
        return (
            f"a model can learn {NOUNS[name]} instead of the condition; it is a covariate of this study, and "
            "`brainroam compare` says how far each method's scores follow it all the same"
        )
    return REMEDIES[name]


def p_text(p: float) -> str:
    """A p value as it stands in a sentence."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def association(values: np.ndarray, label: np.ndarray, target: Target) -> Association:
    """Association of values with the target: size as a Cohen's d, p value, and the size in words.

    Cases against controls; the correlation with a number, r, as d = 2 r / sqrt(1 - r^2); of several classes the
    correlation ratio eta, likewise. 0 and 1 where there is nothing to test.

    >>> d, p, words = association(np.arange(9.0), np.arange(9.0) % 5, Target.of_kind("score", "number"))
    >>> round(p, 2), words
    (0.39, 'r = 0.33')
    """
    known = np.isfinite(values) & np.isfinite(label)
    return target.association(np.asarray(values, dtype=float)[known], np.asarray(label, dtype=float)[known])


def unusable_covariates(table: pd.DataFrame, used: Sequence[str]) -> Iterator[Finding]:
    """Covariates that no method can use: dates, ids, texts with many levels."""
    for name in used:
        try:
            levels_of(table[name], name)
        except DataError as error:
            message, _, remedy = str(error).partition("; ")
            yield Finding("error", "no-covariate", message, remedy)


def covariate_gaps(
    table: pd.DataFrame, used: Sequence[str] = (), target: str = "", has_regions: bool = True
) -> Iterator[Finding]:
    """Covariates that are missing for everybody, a whole site or some people; ``used`` are those of the study.

    The ``target`` is none: its column has left the table. Of tables alone nobody expects framewise displacement.
    """
    expected = COVARIATES if has_regions else COVARIATES[:2]
    for name in dict.fromkeys(name for name in (*expected, *used) if name != target):
        gap = table[name].isna()
        if gap.all():
            yield Finding("note", f"no-{name}", f"{name} is not known for anybody", f"add a column {name!r} if you can")
            continue
        for site, missing in gap.groupby(table["site"]):
            people = tuple(table.loc[missing[missing].index, "subject"])
            if len(people) == len(missing):
                remedy = "this site is left out where that covariate is estimated"
                yield Finding("warning", f"no-{name}", f"{name} is missing for the whole site", remedy, str(site))
            elif people:
                message = f"{name} is missing for {len(people)}: {listed(people)}"
                remedy = "replaced by the mean of the training people, and flagged"
                yield Finding("note", f"missing-{name}", message, remedy, str(site), people)


def unknown_tr(table: pd.DataFrame) -> Iterator[Finding]:
    """Sites without repetition times: no method needs them, but lengths in seconds do."""
    gap = table["tr"].isna()
    if gap.any():
        sites = sorted(set(table.loc[gap, "site"]))
        where = "is not known for anybody" if gap.all() else f"is missing at {len(sites)} sites: {listed(sites)}"
        yield Finding("note", "no-tr", f"tr {where}", "needed only for lengths in seconds: add a column 'tr' for these")


def constant_covariates(table: pd.DataFrame) -> Iterator[Finding]:
    """Covariates with one value at a site, whose slope cannot be estimated there, and scans of several kinds."""
    for site, part in table.groupby("site"):
        for name in COVARIATES:
            values = part[name].dropna().unique()
            if len(values) == 1 and len(part) > 1:
                sex = {0: "female", 1: "male"}.get(values[0])
                message = f"everybody is {sex}" if name == "sex" and sex else f"{name} is {values[0]:g} for everybody"
                remedy = f"the effect of {name} is taken from the other sites"
                yield Finding("note", f"constant-{name}", message, remedy, str(site))
        if part["tr"].nunique() > 1:
            message = f"several TR: {listed(f'{tr:g}' for tr in sorted(part['tr'].dropna().unique()))} s"
            yield Finding("note", "mixed-tr", message, "give windows in seconds, not in volumes", str(site))


def implausible_values(table: pd.DataFrame) -> Iterator[Finding]:
    """Codes for 'missing' that were read as numbers, and units or codings that were mistaken."""
    for name, (plausible, remedy) in PLAUSIBLE.items():
        values = table[name]
        wrong = ~(plausible(values) | values.isna())
        if wrong.any():
            people = tuple(table.loc[wrong, "subject"])
            seen = listed(f"{subject} ({value:g})" for subject, value in zip(people, values[wrong], strict=True))
            sites = table.loc[wrong, "site"].value_counts()
            where = listed(f"{site} ({n} of {(table['site'] == site).sum()})" for site, n in sites.items())
            message = f"{name} is implausible for {len(people)}, at {where}: {seen}"
            yield Finding("warning", f"implausible-{name}", message, remedy, subjects=people)
