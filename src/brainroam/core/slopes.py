"""Partial pooling: each site's slope of an edge, shrunken towards the slope that all sites share.

A slope estimated at one site is unbiased and, with thirty people of about the same age, mostly noise. With g_e the
slope of site e, v_e its sampling variance and t2 the variance of the true slopes between sites (moments, DerSimonian
and Laird), edge by edge and covariate by covariate,

    common  = sum_e w_e g_e / sum_e w_e,             w_e = 1 / (v_e + t2)
    site    = common + (g_e - common) t2 / (t2 + v_e)

Where sites do not differ more than chance, t2 = 0 and all share one slope; where they differ a lot, each keeps its own.
"""

import numpy as np


def shrunken_slopes(own: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of each site (E, ...) and the common slope (...), from estimates and variances that are NaN where absent.

    >>> own = np.array([[1.0], [3.0]])
    >>> shrunken_slopes(own, np.full((2, 1), 1e-6))[0].round(3).tolist()
    [[1.0], [3.0]]
    >>> shrunken_slopes(own, np.full((2, 1), 100.0))[0].tolist()
    [[2.0], [2.0]]
    """
    known = np.isfinite(own) & np.isfinite(variance)
    g, v = np.where(known, own, 0), np.where(known, np.maximum(variance, 1e-300), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        w = known / v
        total = w.sum(axis=0)
        mean = (w * g).sum(axis=0) / total
        excess = (w * (g - mean) ** 2).sum(axis=0) - (known.sum(axis=0) - 1)
        between = np.nan_to_num(np.maximum(excess / (total - (w**2).sum(axis=0) / total), 0), posinf=0)
        w = known / (v + between)
        common = np.nan_to_num((w * g).sum(axis=0) / w.sum(axis=0))
    return np.where(known, common + (g - common) * between / (between + v), np.nan), common
