"""Rows and series that belong to different people: all files of a site shifted by one person.

Age and sex can be read from connectivity. Kernel ridge of edges and of each column, both centred by site, is trained on
all other sites and read at this one; with K the inner products of edges, G = (K + I tr K / n)^-1 and h the site,

    f_h = y_h - G_hh^-1 (G y)_h

are the held-out readings. A shift by one moves their correlation r with the column from where it stands to the rows
beside it. With z = sqrt(n - 3) artanh r, summed over the columns, a site is named when rows shifted up or down by one
fit better than its own by `MIN_GAIN`; two such sums of two columns differ by 2 in the standard deviation. Where people
stand in the order of age or class, or where neither column can be read, nothing shows it (docs/results/tried.md).
"""

from collections.abc import Iterator

import numpy as np

from brainroam.data.check.report import Finding
from brainroam.data.cohort import Cohort

COLUMNS = ("age", "sex")
FEWEST, MOST = 10, 5000  # people of a site, and of a cohort (an inverse takes the cube of that)
MIN_GAIN = 5.0
MIN_FIT = 2.5  # z of the shifted rows


def shifted_sites(cohort: Cohort, edges: np.ndarray) -> Iterator[Finding]:
    """Sites whose age and sex fit the connectivity of the person in the next or the previous row better."""
    table, n = cohort.table, len(cohort)
    rows = list(table.groupby("site").indices.items())
    if len(rows) < 3 or n > MOST:
        return
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
        return
    inverse = np.linalg.inv(gram + np.eye(n) * trace / n)
    weights = inverse @ y
    for site, here in rows:
        if len(here) < FEWEST:
            continue
        read = y[here] - np.linalg.solve(inverse[np.ix_(here, here)], weights[here])
        fit = {k: sum(_z(f, np.roll(v, k)) for f, v in zip(read.T, y[here].T, strict=True)) for k in (0, 1, -1)}
        best = max((1, -1), key=fit.__getitem__)
        if fit[best] - fit[0] > MIN_GAIN and fit[best] > MIN_FIT:
            side = "previous" if best == 1 else "next"
            message = (
                f"age and sex fit the connectivity of the {side} person of the table better than their own "
                f"(z = {fit[best]:.1f} against {fit[0]:.1f})"
            )
            remedy = "its files are probably shifted against the table: compare a few of them with the source"
            yield Finding("warning", "shifted-site", message, remedy, str(site))


def _z(read: np.ndarray, values: np.ndarray) -> float:
    """sqrt(n - 3) artanh r; 0 where either is constant."""
    if np.ptp(values) == 0 or np.ptp(read) == 0:
        return 0.0
    r = float(np.clip(np.corrcoef(read, values)[0, 1], -0.999, 0.999))
    return float(np.sqrt(len(read) - 3) * np.arctanh(r))
