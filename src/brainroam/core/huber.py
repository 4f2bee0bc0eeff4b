"""Huber M-estimation by iteratively reweighted least squares, for all edges at once.

For every column j of ``values`` solve, over the people i whose value is present,

    beta_j = argmin_b  sum_i H(r_ij - x_i' b),   H quadratic up to a threshold t_j and linear beyond,

by repeating weighted least squares with weights ``w_ij = min(1, t_j / |residual_ij|)``. The threshold is
``t_j = k * MAD_j / 0.6745`` with the MAD about zero re-estimated in each iteration (the convention of statsmodels'
``RLM(HuberT(k), scale_est="mad")``), or a fixed ``delta``.
"""

import numpy as np

MAD_OF_A_STANDARD_NORMAL = 0.6744897501960817
HUBER_K = 1.345
BLOCK = 2**17  # numbers at a time: what every round passes over stays in the cache


def huber_regression(
    design: np.ndarray,
    values: np.ndarray,
    k: float = HUBER_K,
    delta: float | None = None,
    max_iter: int | None = None,
    tol: float = 1e-9,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (p, M) and final weights (n, M) of one robust regression per column.

    Parameters
    ----------
    design : ndarray of shape (n, p)
        Full column rank on the people present in each column.
    values : ndarray of shape (n, M)
        NaN where missing; such people get weight 0. A column with nobody present gets NaN coefficients.
    k, delta : float
        Threshold in robust standard deviations, or, when ``delta`` is given, in the units of ``values``.
    max_iter : int, optional
        Solves per column at most. The default is statsmodels' own 50, so that the rare columns that converge slowly
        (one in a thousand on ABIDE) stop where it stops; a fixed ``delta`` has no such model and gets 1000.

    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(50), rng.normal(size=50)])
    >>> y = x @ [[1.0], [2.0]] + 0.1 * rng.normal(size=(50, 1)); y[0] = 99.0
    >>> coef, weights = huber_regression(x, y)
    >>> coef.ravel().round(1).tolist(), float(weights[0, 0]) < 0.01
    ([1.0, 2.0], True)
    """
    if max_iter is None:
        max_iter = 50 if delta is None else 1000
    columns = max(1, BLOCK // max(1, len(values)))
    starts = range(0, max(1, values.shape[1]), columns)
    parts = [_some_columns(design, values[:, j : j + columns], k, delta, max_iter, tol) for j in starts]
    coef, weights = (np.concatenate(part).T for part in zip(*parts, strict=True))
    return coef, weights


def _some_columns(
    design: np.ndarray, values: np.ndarray, k: float, delta: float | None, max_iter: int, tol: float
) -> tuple[np.ndarray, np.ndarray]:
    """`huber_regression` of a few columns, transposed: coefficients (M, p) and weights (M, n)."""
    rows = np.ascontiguousarray(values.T)  # edges x people: medians and products run along memory
    present = np.isfinite(rows)
    rows = np.where(present, rows, 0.0)
    count = present.sum(axis=1)
    coef = np.full((len(rows), design.shape[1]), np.nan)
    weights = present.astype(float)
    upper = np.triu_indices(design.shape[1])
    products = design[:, upper[0]] * design[:, upper[1]]

    active = np.flatnonzero(count)
    for _ in range(max_iter):
        if len(active) == 0:
            break
        whole = len(active) == len(rows)  # then nothing has to be copied
        y, here, w = (rows, present, weights) if whole else (rows[active], present[active], weights[active])
        new = _weighted_least_squares(design, products, upper, y, w)
        residual = np.abs(y - new @ design.T)
        if delta is None:
            scale = median_present(residual, here, count[active]) / MAD_OF_A_STANDARD_NORMAL
        else:
            scale = np.full(len(active), delta / k)
        threshold = k * scale[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.fmin(threshold / residual, 1.0) * here
        # A scale of zero means an exact fit of half the people: there is nothing left to reweight.
        moved = np.abs(new - coef[active]).max(axis=1) > tol * np.maximum(scale, 1e-12)
        moved |= np.isnan(coef[active, 0]) & (scale > 0)
        coef[active] = new
        weights[active] = w
        active = active[moved & (scale > 0)]
    return coef, weights


def huber_mean(values: np.ndarray, k: float = HUBER_K, delta: float | None = None) -> np.ndarray:
    """Robust mean of each column (M,), missing values left out.

    >>> huber_mean(np.array([[1.0], [1.1], [0.9], [1.0], [50.0]])).round(2).tolist()
    [1.03]
    """
    return huber_regression(np.ones((len(values), 1)), values, k, delta)[0][0]


def _weighted_least_squares(
    design: np.ndarray, products: np.ndarray, upper: tuple, y: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Solve the normal equations of every edge; the p x p matrices come from one product with all weights."""
    p = design.shape[1]
    normal = np.empty((len(y), p, p))
    normal[:, upper[0], upper[1]] = normal[:, upper[1], upper[0]] = w @ products
    target = (w * y) @ design
    if p == 1:
        return target / normal[:, 0]
    return np.linalg.solve(normal, target[..., None])[..., 0]


def median_present(values: np.ndarray, present: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Median of each row over the present entries only, which are as many as ``count`` says.

    >>> median_present(np.array([[3.0, 1.0, 9.0]]), np.array([[True, True, False]]), np.array([2])).tolist()
    [2.0]
    """
    ordered = np.where(present, values, np.inf)
    ordered.sort(axis=1)
    row = np.arange(len(values))
    return 0.5 * (ordered[row, (count - 1) // 2] + ordered[row, count // 2])
