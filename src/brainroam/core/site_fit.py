"""One site's robust regression of all edges, in the covariates' own units.

Where covariate k is not estimable it is, among the people of the site, a combination of the kept columns,
``q_k = alpha_0 + alpha' q_kept``; its unknown effect sits inside the other coefficients. Given a value for gamma_k
from other sites, ``b - gamma_k alpha_0`` and ``gamma_kept - gamma_k alpha`` are the coefficients it leaves.

The regression is Huber's M-estimation by iteratively reweighted least squares, for all edges at once.
For every column j of ``values`` solve, over the people i whose value is present,

    beta_j = argmin_b  sum_i H(r_ij - x_i' b),   H quadratic up to a threshold t_j and linear beyond,

by repeating weighted least squares with weights ``w_ij = min(1, t_j / |residual_ij|)``. The threshold is
``t_j = k * MAD_j / 0.6745`` with the MAD about zero re-estimated in each iteration (the convention of statsmodels'
``RLM(HuberT(k), scale_est="mad")``), or a fixed ``delta``.
"""

import warnings
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from brainroam.core.connectivity import edge_blocks
from brainroam.errors import listed

MAD_OF_A_STANDARD_NORMAL = 0.6744897501960817
HUBER_K = 1.345
TOLERANCE = 1e-9  # of coefficients between two rounds, in robust standard deviations
BLOCK = 2**17  # numbers at a time: what every round passes over stays in the cache
EFFICIENCY = 0.95  # of Huber's estimate with k = 1.345, where errors are normal
LEAST_WEIGHT = 1e-10  # of somebody far away: with none, those who are left may not tell the covariates apart
FEW = 10  # degrees of freedom below which a robust spread is mostly chance
EXACT = 1e-12  # variances below this share of the usual one are those of lines through all points


def huber_regression(
    design: np.ndarray,
    values: np.ndarray,
    k: float = HUBER_K,
    delta: float | None = None,
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

    At most 50 rounds, as statsmodels has it, so that the rare columns that converge slowly (one in a thousand on ABIDE)
    stop where it stops; a fixed ``delta`` has no such model and gets 1000.

    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(50), rng.normal(size=50)])
    >>> y = x @ [[1.0], [2.0]] + 0.1 * rng.normal(size=(50, 1)); y[0] = 99.0
    >>> coef, weights = huber_regression(x, y)
    >>> coef.ravel().round(1).tolist(), float(weights[0, 0]) < 0.01
    ([1.0, 2.0], True)
    """
    columns = max(1, BLOCK // max(1, len(values)))
    starts = range(0, max(1, values.shape[1]), columns)
    parts = [_some_columns(design, values[:, j : j + columns], k, delta) for j in starts]
    coef, weights = (np.concatenate(part).T for part in zip(*parts, strict=True))
    return coef, weights


def _some_columns(
    design: np.ndarray, values: np.ndarray, k: float, delta: float | None
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
    for _ in range(50 if delta is None else 1000):
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
            w = np.fmax(np.fmin(threshold / residual, 1.0), LEAST_WEIGHT) * here
        # A scale of zero means an exact fit of half the people: there is nothing left to reweight.
        moved = np.abs(new - coef[active]).max(axis=1) > TOLERANCE * np.maximum(scale, 1e-12)
        moved |= np.isnan(coef[active, 0]) & (scale > 0)
        coef[active] = new
        weights[active] = w
        active = active[moved & (scale > 0)]
    return coef, weights


def huber_mean(values: np.ndarray, delta: float | None = None) -> np.ndarray:
    """Robust mean of each column (M,), missing values left out.

    >>> huber_mean(np.array([[1.0], [1.1], [0.9], [1.0], [50.0]])).round(2).tolist()
    [1.03]
    """
    return huber_regression(np.ones((len(values), 1)), values, delta=delta)[0][0]


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


class Line(NamedTuple):
    """Intercept (M,) and slopes (d, M) of every edge at a site, in the covariates' own units; nothing is missing."""

    intercept: np.ndarray
    coef: np.ndarray


class Absorbed(NamedTuple):
    """Covariates that the site cannot estimate on some edges: design columns ``dropped`` = ``kept`` times ``alpha``."""

    columns: np.ndarray  # of the edges
    kept: np.ndarray
    dropped: np.ndarray
    alpha: np.ndarray


class EdgeGroup(NamedTuple):
    """Edges whose people can estimate the same columns of the design, and who (n,) has all of them."""

    columns: np.ndarray  # of the edges
    kept: np.ndarray
    present: np.ndarray


class SiteFit:
    """Intercept (M,) and slopes (d, M) of every edge, NaN where they are not the site's own.

    ``variance`` (d, M) of the slopes is that of the residuals times ``leverage`` (d,), which covariates alone give.
    """

    def __init__(self, n_edges: int, n_covariates: int, n_people: int) -> None:
        self.n_people = n_people
        self.intercept = np.full(n_edges, np.nan)
        self.coef = np.full((n_covariates, n_edges), np.nan)
        self.variance = np.full((n_covariates, n_edges), np.nan)
        self.centre = np.zeros(n_covariates)
        self.leverage = np.zeros(n_covariates)
        self._absorbed: list[Absorbed] = []

    def record(
        self,
        columns: np.ndarray,
        kept: np.ndarray,
        intercept: np.ndarray,
        slope: np.ndarray,
        variance: np.ndarray,
        design: np.ndarray,
    ) -> None:
        """Store the fit of some edges on the kept columns of the design."""
        self.intercept[columns] = intercept
        self.coef[np.ix_(kept[1:] - 1, columns)] = slope
        self.variance[np.ix_(kept[1:] - 1, columns)] = variance
        dropped = np.setdiff1d(np.arange(1, design.shape[1]), kept)
        if len(dropped):
            alpha = np.linalg.lstsq(design[:, kept], design[:, dropped], rcond=None)[0]
            self._absorbed.append(Absorbed(columns, kept, dropped, alpha))

    def on(self, columns: np.ndarray) -> "SiteFit":
        """The same fit of some edges (by position) alone."""
        part = copy(self)
        part.intercept = self.intercept[columns]
        part.coef, part.variance = self.coef[:, columns], self.variance[:, columns]
        part._absorbed = [
            group._replace(columns=np.flatnonzero(np.isin(columns, group.columns))) for group in self._absorbed
        ]
        return part

    def with_constants(self, columns: np.ndarray, value: np.ndarray) -> "SiteFit":
        """The same fit, where everybody has these values (d,) of some covariates (a mask) that were 0 for everybody."""
        moved = copy(self)
        moved.centre = np.where(columns, value, self.centre)
        moved._absorbed = []
        for group in self._absorbed:
            covariates = group.dropped - 1
            first = np.where(columns[covariates], value[covariates], group.alpha[0])
            moved._absorbed.append(group._replace(alpha=np.vstack([first, group.alpha[1:]])))
        return moved

    def fill(self, usual: np.ndarray) -> Line:
        """The line with the ``usual`` slopes (d, M) in the place of those that are not the site's own."""
        intercept, coef = self.intercept.copy(), np.where(np.isfinite(self.coef), self.coef, usual)
        for columns, kept, dropped, alpha in self._absorbed:
            moved = alpha @ usual[np.ix_(dropped - 1, columns)]
            intercept[columns] -= moved[0]
            coef[np.ix_(kept[1:] - 1, columns)] -= moved[1:]
        return Line(intercept, coef)

    def pool(self, shrunken: np.ndarray, common: np.ndarray) -> Line:
        """The line with ``shrunken`` slopes in the place of its own; the fit at the mean covariates stays."""
        intercept, coef = self.fill(common)
        own = np.isfinite(shrunken)
        change = np.where(own, coef - shrunken, 0)
        return Line(intercept + self.centre @ change, np.where(own, shrunken, coef))

    def notes(self, site: str, names: list[str]) -> list[str]:
        """What this site could not estimate, in words: one note for each cause, however many covariates it is about."""
        notes, n_edges = [], len(self.intercept)
        counts = np.isnan(self.coef).sum(axis=1)
        instead = "the mean slope of the other sites is used"
        whole = [name for name, count in zip(names, counts, strict=True) if count == n_edges]
        if whole:
            notes.append(f"site {site} ({self.n_people} people) cannot estimate {listed(whole)}: {instead}")
        partly = [f"{name} for {n} edges" for name, n in zip(names, counts, strict=True) if 0 < n < n_edges]
        if partly:
            notes.append(f"site {site} ({self.n_people} people) cannot estimate {listed(partly)}: {instead}")
        nobody = int(np.isnan(self.intercept).sum())
        if nobody:
            notes.append(f"site {site}: nobody has a value for {nobody} edges, which are averaged over the other sites")
        return notes

    def state(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        absorbed = {
            f"absorbed.{g}.{name}": value
            for g, group in enumerate(self._absorbed)
            for name, value in group._asdict().items()
        }
        return {
            "intercept": self.intercept,
            "coef": self.coef,
            "variance": self.variance,
            "centre": self.centre,
            "leverage": self.leverage,
            "n_people": np.array(self.n_people),
            **absorbed,
        }

    @classmethod
    def concatenate(cls, blocks: Sequence[dict[str, np.ndarray]]) -> "SiteFit":
        """One fit from the states of consecutive blocks of edges.

        >>> fit = SiteFit(3, 1, 20)
        >>> fit.record(np.arange(3), np.array([0]), np.ones(3), np.empty((0, 3)), np.empty((0, 3)), np.ones((20, 2)))
        >>> twice = SiteFit.concatenate([fit.state(), fit.state()])
        >>> twice.fill(np.full((1, 6), 0.25))[0].tolist()
        [0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
        """
        whole = cls(0, 0, int(blocks[0]["n_people"]))
        for name in ("intercept", "coef", "variance"):
            parts = [block[name] for block in blocks]
            setattr(whole, name, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))
        whole.centre, whole.leverage = blocks[0]["centre"], blocks[0]["leverage"]
        start = 0
        for block in blocks:
            for g in range(sum(name.endswith(".columns") for name in block)):
                group = Absorbed(*(block[f"absorbed.{g}.{name}"] for name in Absorbed._fields))
                whole._absorbed.append(group._replace(columns=group.columns + start))
            start += len(block["intercept"])
        return whole


def fit_site(values: np.ndarray, raw: np.ndarray, huber_k: float, huber_delta: float | None) -> SiteFit:
    """Huber regression of all edges (n, M) of one site on its covariates (n, d) in their own units.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> fit_site(3 + 2 * x, x, 1.345, None).coef.round(6).tolist()
    [[2.0]]
    """
    # Any scaling of the covariates gives the same fit; the site's own keeps it independent of the other sites.
    centre, scale = raw.mean(axis=0), raw.std(axis=0)
    scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(centre)), scale, 1.0)
    design = np.column_stack([np.ones(len(raw)), (raw - centre) / scale])
    result = SiteFit(values.shape[1], raw.shape[1], len(raw))
    for columns, kept, present in _estimable_groups(values, design):
        coef, _ = huber_regression(design[:, kept], values[:, columns], huber_k, huber_delta)
        slope = coef[1:] / scale[kept[1:] - 1, None]
        intercept = coef[0] - centre[kept[1:] - 1] @ slope
        variance = _slope_variance(design[:, kept], values[:, columns], coef) / scale[kept[1:] - 1, None] ** 2
        plain = np.column_stack([np.ones(len(raw)), raw])[present]
        result.record(columns, kept, intercept, slope, variance, plain)
    result.centre, result.leverage = centre, leverage_of(scatter_of(raw))
    return result


def scatter_of(raw: np.ndarray) -> np.ndarray:
    """sum q q' (d, d) of covariates (n, d) about their mean."""
    centred = raw - raw.mean(axis=0)
    return centred.T @ centred


def leverage_of(scatter: np.ndarray) -> np.ndarray:
    """Variances (d,) of slopes where residuals have variance 1, from the covariates' scatter (d, d) about their mean.

    >>> leverage_of(np.array([[4.0]])).tolist()
    [0.25]
    """
    return np.diag(np.linalg.pinv(scatter))


def _slope_variance(design: np.ndarray, values: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Sampling variance (p - 1, M) of the slopes of a Huber regression: s^2 (X'X)^-1 / efficiency, s robust."""
    spread = _median_of_columns(np.abs(values - design @ coef)) / MAD_OF_A_STANDARD_NORMAL
    freedom = len(design) / max(len(design) - design.shape[1], 1)
    return np.diag(np.linalg.inv(design.T @ design))[1:, None] * spread**2 * freedom / EFFICIENCY


def _median_of_columns(values: np.ndarray) -> np.ndarray:
    """Median (M,) of what is present in each column, NaN where nothing is."""
    medians = np.empty(values.shape[1])
    for block in edge_blocks(values.shape[1]):
        rows = np.ascontiguousarray(values[:, block].T)
        present = np.isfinite(rows)
        medians[block] = median_present(rows, present, present.sum(axis=1))
    medians[np.isinf(medians)] = np.nan
    return medians


def _estimable_groups(values: np.ndarray, design: np.ndarray) -> list[EdgeGroup]:
    """Group the edges by the design columns their people can estimate."""
    missing = np.packbits(np.isnan(values), axis=0)
    some = missing.any(axis=0)  # few, as a rule: sorting every column would take longer than the regression
    patterns, which = np.unique(missing[:, some], axis=1, return_inverse=True)
    patterns, member = np.insert(patterns, 0, 0, axis=1), np.zeros(values.shape[1], dtype=int)
    member[some] = which + 1
    groups: dict[tuple, list[int]] = {}
    kept_of: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
    everybody = _independent_columns(design)
    for pattern in range(patterns.shape[1]):
        present = ~np.unpackbits(patterns[:, pattern], count=len(values)).astype(bool)
        if not present.any():
            continue
        kept = _independent_columns(design[present])
        # Edges that lose no covariate by their missing people share one batched fit; the others stand apart.
        whole = np.array_equal(kept, everybody)
        key = ("all",) if whole else (pattern,)
        groups.setdefault(key, []).append(pattern)
        kept_of[key] = (kept, np.ones(len(values), dtype=bool) if whole else present)
    return [EdgeGroup(np.flatnonzero(np.isin(member, of)), *kept_of[key]) for key, of in groups.items()]


def _independent_columns(design: np.ndarray) -> np.ndarray:
    """The intercept and each column the ones before do not determine; the intercept alone below d + 3 people."""
    n, p = design.shape
    kept = [0]
    if n < p + 2:  # p = d + 1
        return np.array(kept)
    for k in range(1, p):
        basis, _ = np.linalg.qr(design[:, kept])
        rest = design[:, k] - basis @ (basis.T @ design[:, k])
        if np.linalg.norm(rest) > 1e-8 * max(1.0, float(np.linalg.norm(design[:, k]))):
            kept.append(k)
    return np.array(kept)


def slope_variances(fits: Sequence[SiteFit]) -> np.ndarray:
    """Sampling variances (E, d, M) of the slopes of sites, NaN where a slope is not a site's own.

    v_e = s_e^2 c_e with s_e^2 the variance of the site's residuals and c_e its leverage. The s_e^2 of a handful of
    people can be small by chance, and slopes weighted by their precision would then be those of a few such sites.
    So a site with fewer than ten degrees of freedom f_e takes sum_e f_e s_e^2 / sum_e f_e, edge by edge.
    """
    variance = np.stack([fit.variance for fit in fits])
    known = np.isfinite(variance)
    freedom = np.array([fit.n_people - 1 for fit in fits])[:, None, None] - known.sum(axis=1, keepdims=True)
    few = known & (freedom < FEW)
    if not few.any():
        return variance
    leverage = np.stack([fit.leverage for fit in fits])[:, :, None]
    weight = np.where(known, np.maximum(freedom, 1), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_residuals = np.where(known, variance / leverage, 0)
        usual = (weight * of_residuals).sum(axis=(0, 1)) / weight.sum(axis=(0, 1))
    return np.where(few, usual * leverage, variance)


def shrunken_slopes(own: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of each site (E, ...) and the common slope (...), from estimates and variances that are NaN where absent.

    Partial pooling: each site's slope of an edge, shrunken towards the slope that all sites share. A slope estimated at
    one site is unbiased and, with thirty people of about the same age, mostly noise. With g_e the slope of site e, v_e
    its sampling variance and t2 the variance of the true slopes between sites (moments, DerSimonian and Laird), edge by
    edge and covariate by covariate,

        common  = sum_e w_e g_e / sum_e w_e,             w_e = 1 / (v_e + t2)
        site    = common + (g_e - common) t2 / (t2 + v_e)

    Where sites do not differ more than chance, t2 = 0 and all share one slope; where they differ a lot, each keeps its
    own. A site so small that a line runs through its people has v_e = 0 and knows nothing: it gets the common slope.

    >>> own = np.array([[1.0], [3.0]])
    >>> shrunken_slopes(own, np.full((2, 1), 1e-6))[0].round(3).tolist()
    [[1.0], [3.0]]
    >>> shrunken_slopes(own, np.full((2, 1), 100.0))[0].tolist()
    [[2.0], [2.0]]
    """
    estimated = usable = np.isfinite(own) & np.isfinite(variance)
    if (variance[usable] < EXACT).any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of columns that no site knows
            usual = np.nanmedian(np.where(usable, variance, np.nan), axis=0)
        usable = estimated & ((variance >= EXACT * usual) | (usual == 0))
    g, v = np.where(usable, own, 0), np.where(usable, np.maximum(variance, 1e-300), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        w = usable / v
        total = w.sum(axis=0)
        mean = (w * g).sum(axis=0) / total
        excess = (w * (g - mean) ** 2).sum(axis=0) - (usable.sum(axis=0) - 1)
        between = np.nan_to_num(np.maximum(excess / (total - (w**2).sum(axis=0) / total), 0), posinf=0)
        w = usable / (v + between)
        common = np.nan_to_num((w * g).sum(axis=0) / w.sum(axis=0))
    shrunken = np.where(usable, common + (g - common) * between / (between + v), common)
    return np.where(estimated, shrunken, np.nan), common
