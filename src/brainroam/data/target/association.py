"""What goes with a target: the size of an association as Cohen's d, its p value, and the size in words."""

import numpy as np
import pandas as pd
from scipy import stats

Association = tuple[float, float, str]
NOTHING: Association = 0.0, 1.0, ""


def contrast(cases: np.ndarray | pd.Series, controls: np.ndarray | pd.Series) -> tuple[float, float]:
    """Cohen's d of cases against controls, and the p value of their difference; 0 and 1 where there is none to test.

    Two values (sex) are compared by Fisher's exact test, others by the t test, the larger p of Student's and Welch's:
    with three cases of nearly one age Welch's takes their spread for known, with many of them Student's is as wrong.

    >>> d, p = contrast(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    >>> round(d, 2), round(p, 2)
    (-1.22, 0.29)
    """
    a, b = (np.asarray(x, dtype=float)[np.isfinite(x)] for x in (cases, controls))
    if min(len(a), len(b)) < 2 or np.ptp(np.concatenate([a, b])) == 0:
        return 0.0, 1.0
    gap, spread = a.mean() - b.mean(), np.sqrt((a.var() + b.var()) / 2)
    d = gap / spread if spread > 0 else np.copysign(np.inf, gap)
    first, *others = np.unique(np.concatenate([a, b]))
    if len(others) == 1:
        counts = [[int((x == first).sum()), int((x != first).sum())] for x in (a, b)]
        return float(d), float(stats.fisher_exact(counts).pvalue)
    # From summaries, as one of the groups may be constant.
    summaries = [number for x in (a, b) for number in (x.mean(), x.std(ddof=1), len(x))]
    tests = [stats.ttest_ind_from_stats(*summaries, equal_var=equal).pvalue for equal in (True, False)]
    return float(d), float(max(tests))


def with_classes(x: np.ndarray, y: np.ndarray) -> Association:
    """Of several classes the correlation ratio eta, as d = 2 eta / sqrt(1 - eta^2)."""
    groups = [x[y == code] for code in np.unique(y) if (y == code).sum() > 1]
    if not _vary(x, y) or len(groups) < 2:
        return NOTHING
    everybody = np.concatenate(groups)
    within = sum(float(np.square(group - group.mean()).sum()) for group in groups)
    total = float(np.square(everybody - everybody.mean()).sum())
    eta = np.sqrt(max(1 - within / total, 0.0))
    return _as_d(eta), float(stats.f_oneway(*groups).pvalue), f"eta = {eta:.2f}"


def with_number(x: np.ndarray, y: np.ndarray) -> Association:
    """The correlation r, as d = 2 r / sqrt(1 - r^2)."""
    if not _vary(x, y):
        return NOTHING
    r, p = stats.pearsonr(x, y)
    return _as_d(r), float(p), f"r = {r:.2f}"


def _vary(x: np.ndarray, y: np.ndarray) -> bool:
    return len(x) >= 4 and np.ptp(x) > 0 and np.ptp(y) > 0


def _as_d(size: float) -> float:
    size = float(np.clip(size, -0.9999, 0.9999))
    return 2 * size / np.sqrt(1 - size**2)
