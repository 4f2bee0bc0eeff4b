"""Checks of a multi-site cohort: all findings at once, before a study costs days."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.check import (
    groups,
    labels,
    measures,
    numbers,
    ranges,
    series,
    shifted,
    site_pattern,
    time_course,
    unlike_series,
)
from brainroam.data.check.column_shapes import column_groups
from brainroam.data.check.duplicates import Duplicate, correlations, find_duplicates
from brainroam.data.check.report import SEVERITIES, CheckReport, Finding, join_findings
from brainroam.data.cohort import Cohort
from brainroam.data.measurements import most_missing
from brainroam.data.motion import motion_of, without_motion
from brainroam.data.people import people_of
from brainroam.data.prepare import kind_of

__all__ = ["CheckReport", "Duplicate", "Finding", "check_cohort", "find_duplicates"]


def check_cohort(
    cohort: Cohort, max_missing_rois: float = 0.2, site_names: Mapping[str, str] | None = None
) -> CheckReport:
    """Run all checks on a cohort.

    Parameters
    ----------
    cohort : Cohort
        Loaded with ``max_missing_rois=1``, so that everybody is seen.
    max_missing_rois : float
        The share of regions without signal above which people will be left out: they are named, and all else is said
        of the others.
    site_names : mapping of str to str, optional
        That of the study file: sites it names twice are known to be several, however alike their names look.

    Returns
    -------
    CheckReport

    Examples
    --------
    >>> from brainroam.data.synthetic import make_cohort
    >>> report = check_cohort(make_cohort(all_male_sites=1, constant_rois=2))
    >>> report.usable
    True
    >>> [(finding.severity, finding.code, finding.site) for finding in report.findings]
    [('warning', 'missing-rois', None), ('note', 'constant-sex', 'S01')]
    >>> check_cohort(make_cohort().select(["S01"])).usable
    False
    """
    measured = (cohort.blocks or {"": cohort}).values()
    lacking = [block.missing_rois.mean(axis=1) > most_missing(block.measure, max_missing_rois) for block in measured]
    over_limit, everybody = np.all(lacking, axis=0), cohort
    if not over_limit.all():
        cohort = cohort.exclude_missing(max_missing_rois)  # the people of the study: nobody else's data are its matter
    table, people = cohort.table, cohort.people
    taken = "predicted from the other blocks" if cohort.blocks else "left out"
    timed = cohort.measure == "series"
    has_regions = {block.measure for block in (cohort.blocks or {"": cohort}).values()} != {"table"}
    course = time_course.measure(cohort) if timed else None
    findings = chain(
        labels.unusable(people_of(everybody.table[~over_limit])),
        labels.unlabelled(table),
        labels.listed_twice(cohort.excluded),
        groups.groups_kept_together(table),
        groups.one_institution(table),
        groups.look_alike_sites(table, site_names or {}),
        () if course is None else _check_series(cohort, course),
        measures.check_measures(cohort),
        series.nearly_same_ids(table),
        measures.each_block(everybody, partial(series.missing_regions, limit=max_missing_rois, taken=taken)),
        measures.each_block(everybody, series.low_coverage),
        series.short_scans(cohort),
        *(
            found
            for _ in cohort.target.diagnoses(people["label"])
            for found in (
                labels.class_balance(people),
                labels.label_by_site(people),
                labels.label_by_covariates(_with_estimated_motion(cohort), cohort.covariate_names),
            )
        ),
        labels.balance_of_classes(people, cohort.target.scored_classes),
        labels.rare_classes(people, cohort.target.scored_classes),
        numbers.doubtful_targets(cohort) if cohort.target.is_number else (),
        labels.unusable_covariates(table, cohort.covariate_names),
        labels.covariate_gaps(table, cohort.covariate_names, cohort.target.name, has_regions),
        labels.unknown_tr(table) if timed else (),
        labels.constant_covariates(people),
        labels.implausible_values(table),
        ranges.outside_all_others(cohort),
        () if course is None else series.weak_regions(cohort, course["weak"].to_numpy()),
    )
    ordered = sorted(join_findings(findings), key=lambda finding: SEVERITIES.index(finding.severity))
    return CheckReport(_totals(cohort), _site_table(cohort), cohort.excluded, tuple(ordered))


def _check_series(cohort: Cohort, course: pd.DataFrame) -> Iterator[Finding]:
    """Findings about time series."""
    edges = correlations(cohort)
    yield from series.identical_series(cohort)
    yield from site_pattern.unlike_sites(cohort, edges)
    read_at = shifted.readings(cohort, edges)
    yield from shifted.shifted_sites(read_at)
    if cohort.target.is_two_classes:
        yield from shifted.exchanged_labels(cohort, read_at)
    yield from unlike_series.global_signal(cohort, edges)
    yield from unlike_series.eight_bits(cohort)
    yield from series.copies(cohort, edges)  # the last to use the edges: it writes over them
    yield from time_course.empty_volumes(cohort)
    yield from time_course.far_values(cohort, course)
    yield from time_course.steps(cohort, course)
    yield from time_course.transients(cohort, course)
    yield from time_course.spectra(cohort, course)


def _with_estimated_motion(cohort: Cohort) -> pd.DataFrame:
    """The people with a column ``variation`` where their site's motion was not measured."""
    unmeasured = without_motion(cohort)
    if not unmeasured.any():
        return cohort.people
    return people_of(cohort.table.assign(variation=np.where(unmeasured, motion_of(cohort)[:, 0], np.nan)))


def _totals(cohort: Cohort) -> dict[str, Any]:
    known = people_of(cohort.table, ())
    label = known["label"]
    return {
        "n_people": cohort.n_people,
        "n_scans": len(cohort),
        "n_sites": len(cohort.sites),
        **cohort.target.class_counts(label, "n_cases", "n_controls"),
        "target": cohort.target_counted,
        "condition": cohort.target.condition,
        "n_unlabelled": int(label.isna().sum()),
        "n_with_missing_rois": int(cohort.missing_rois.any(axis=1).sum()),
        "atlas": cohort.atlas.name,
        "n_rois": cohort.n_rois,
        "measured": {name: block.extent for name, block in (cohort.blocks or {cohort.measure: cohort}).items()},
        "manifest_hash": cohort.manifest_hash,
        "covariates": {
            name: {"kind": kind_of(cohort.table[name]), "known": int(known[name].notna().sum())}
            for name in cohort.covariate_names
        },
        "prepared": list(cohort.prepared),
        "columns": _groups_of_columns(cohort),
    }


def _groups_of_columns(cohort: Cohort) -> list[dict[str, Any]]:
    """The groups of columns of every table, see `column_groups`; of several blocks with the name of the block."""
    groups = []
    for name, block in (cohort.blocks or {"": cohort}).items():
        present = np.flatnonzero(~block.missing_rois.all(axis=1))
        for group in column_groups(block.subset(present)) if block.measure == "table" and len(present) else ():
            named = [f"{name}: {column}" if name else column for column in group["columns"]]
            groups.append(group | {"columns": named})
    return groups


def _site_table(cohort: Cohort) -> pd.DataFrame:
    """One row per site."""
    table = cohort.table.assign(missing=cohort.missing_rois.any(axis=1))
    rows = []
    for site, part in table.groupby("site"):
        people = people_of(part)
        label, age, sex = people["label"], people["age"], people["sex"]
        rows.append(
            {
                "site": str(site),
                "n": len(people),
                "scans": len(part),
                **cohort.target.class_counts(label, "cases", "controls"),
                "unlabelled": int(label.isna().sum()),
                **cohort.target.site_figures(label),
                "age_mean": float(age.mean()),
                "age_std": float(age.std()),
                "age_min": float(age.min()),
                "age_max": float(age.max()),
                "male": int((sex == 1).sum()),
                "female": int((sex == 0).sum()),
                "volumes_min": int(np.nan_to_num(part["n_timepoints"].min())),
                "volumes_max": int(np.nan_to_num(part["n_timepoints"].max())),
                "tr": [float(tr) for tr in np.unique(part["tr"].dropna())],
                "with_missing_rois": int(part["missing"].sum()),
            }
        )
    return pd.DataFrame(rows)
