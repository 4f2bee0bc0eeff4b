"""Rows and series that belong to different people: all files of a site shifted by one person, or labels exchanged.

Age, sex and the condition can be read from connectivity. Kernel ridge of edges and of each column, both centred by
site, is trained on all other sites and read at this one; with K the inner products of edges, G = (K + I tr K / n)^-1
and h the site,

    f_h = y_h - G_hh^-1 (G y)_h

are the held-out readings. A shift by one moves their correlation r with the column from where it stands to the rows
beside it. With z = sqrt(n - 3) artanh r, summed over age and sex, a site is named when rows shifted up or down by one
fit better than its own by `MIN_GAIN`; two such sums of two columns differ by 2 in the standard deviation. Where people
stand in the order of age or class, or where neither column can be read, nothing shows it (docs/results/tried.md).

Labels of a site that are exchanged turn its AUC A round. With m cases and n controls

    z = (A - 1/2) / sqrt((m + n + 1) / (12 m n))

is standard normal where nothing can be read; a site is named whose z lies in the lower `CHANCE` of all sites' while
those of the others together are above `MIN_TOGETHER`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort

COLUMNS = ("age", "sex", "label")
FEWEST, MOST = 10, 5000  # people of a site, and of a cohort (an inverse takes the cube of that)
MIN_GAIN = 5.0
MIN_FIT = 2.5  # z of the shifted rows
FEWEST_OF_A_CLASS, CHANCE, MIN_TOGETHER = 3, 0.05, 1.5


class Reading(NamedTuple):
    """What is read of the `COLUMNS` at one held-out site: its people, their centred values, readings."""

    site: str
    here: np.ndarray
    values: np.ndarray
    read: np.ndarray


def readings(cohort: Cohort, edges: np.ndarray) -> list[Reading]:
    """A reading of each site; none of fewer than three sites, or of too many people."""
    table, n = cohort.table, len(cohort)
    rows = list(table.groupby("site").indices.items())
    if len(rows) < 3 or n > MOST:
        return []
    filled = np.where(np.isfinite(edges), edges, 0)
    filled -= filled.mean(axis=0)
    gram = (filled @ filled.T).astype(float)
    columns = table[list(COLUMNS)].to_numpy(dtype=float)
    y = np.zeros_like(columns)
    for _, here in rows:
        gram[here] -= gram[here].mean(axis=0)
        known = np.isfinite(columns[here])
        mean = np.where(known, columns[here], 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        y[here] = np.where(known, columns[here] - mean, 0)
    for _, here in rows:
        gram[:, here] -= gram[:, here].mean(axis=1, keepdims=True)
    trace = np.trace(gram)
    if trace <= 0:
        return []
    inverse = np.linalg.inv(gram + np.eye(n) * trace / n)
    weights = inverse @ y
    return [
        Reading(str(site), here, y[here], y[here] - np.linalg.solve(inverse[np.ix_(here, here)], weights[here]))
        for site, here in rows
    ]


def shifted_sites(read_at: list[Reading]) -> Iterator[Finding]:
    """Sites whose age and sex fit the connectivity of the person in the next or the previous row better."""
    for site, here, values, read in read_at:
        if len(here) < FEWEST:
            continue
        of_people = list(zip(read.T[:2], values.T[:2], strict=True))
        fit = {k: sum(_z(f, np.roll(v, k)) for f, v in of_people) for k in (0, 1, -1)}
        best = max((1, -1), key=fit.__getitem__)
        if fit[best] - fit[0] > MIN_GAIN and fit[best] > MIN_FIT:
            side = "previous" if best == 1 else "next"
            message = (
                f"age and sex fit the connectivity of the {side} person of the table better than their own "
                f"(z = {fit[best]:.1f} against {fit[0]:.1f})"
            )
            remedy = "its files are probably shifted against the table: compare a few of them with the source"
            yield Finding("warning", "shifted-site", message, remedy, site)


def exchanged_labels(cohort: Cohort, read_at: list[Reading]) -> Iterator[Finding]:
    """Sites where people called cases look like the controls of the other sites."""
    label, found = cohort.table["label"].to_numpy(dtype=float), dict[str, tuple[float, float]]()
    for site, here, _, read in read_at:
        cases, controls = (read[label[here] == code, 2] for code in (1, 0))
        m, n = len(cases), len(controls)
        if min(m, n) >= FEWEST_OF_A_CLASS:
            auc = (rankdata([*cases, *controls])[:m].sum() - m * (m + 1) / 2) / (m * n)
            found[site] = float(auc), float((auc - 0.5) / np.sqrt((m + n + 1) / (12 * m * n)))
    for site, (auc, z) in found.items():
        others = [other for name, (_, other) in found.items() if name != site]
        if len(others) > 1 and z < -norm.isf(CHANCE / len(found)) and sum(others) / np.sqrt(len(others)) > MIN_TOGETHER:
            message = (
                f"people called cases look like the controls of other sites (AUC {auc:.2f} by plain ridge of the other "
                f"sites, z = {z:.1f})"
            )
            remedy = "the codes of cases and controls are probably exchanged there: compare a few with the source"
            yield Finding("warning", "exchanged-labels", message, remedy, site)


def _z(read: np.ndarray, values: np.ndarray) -> float:
    """sqrt(n - 3) artanh r; 0 where either is constant."""
    if np.ptp(values) == 0 or np.ptp(read) == 0:
        return 0.0
    r = float(np.clip(np.corrcoef(read, values)[0, 1], -0.999, 0.999))
    return float(np.sqrt(len(read) - 3) * np.arctanh(r))
