"""The deterministic stages of CORE against the code people use for them, on the same ABIDE people in one process.

    python benchmarks/bench_stages.py [ABIDE_pcp]

Results are asserted equal before anything is timed. Seconds are processor time on one core. The tangent space has a
benchmark of its own, `bench_tangent`.
"""

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from common import growth, people, race, training_people
from nilearn.connectome import ConnectivityMeasure
from sklearn.covariance import EmpiricalCovariance
from statsmodels.api import RLM
from statsmodels.robust.norms import HuberT

from brainroam.core.connectivity import cohort_edges, edge_pairs, nilearn_order, pearson_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.profile import temporal_descriptors
from brainroam.core.scaffold import (
    extract_scaffold,
    median_over_sites,
    site_contrasts,
    site_stability,
    sites_with_contrast,
)
from brainroam.core.site_fit import huber_regression

DATA = Path(sys.argv[1]) if len(sys.argv) > 1 else None
WINDOW, STRIDE = 30, 5


def bench_huber(n_sampled: int = 60) -> None:
    """Site-wise Huber regression of all edges of a fold."""
    cohort = training_people(root=DATA)
    edges = cohort_edges(cohort)
    covariates, site = cohort.covariates(["age", "sex"]), cohort.table["site"].to_numpy()
    raw = covariates.assign(sex=(covariates["sex"] == covariates["sex"].iloc[0]).astype(float)).to_numpy(dtype=float)
    rng = np.random.default_rng(0)
    sampled = rng.choice(edges.shape[1], n_sampled, replace=False)
    designs = {}
    for name in cohort.sites:
        covariate = raw[site == name]
        varies = covariate.std(axis=0) > 0
        designs[name] = np.column_stack([np.ones(len(covariate)), covariate[:, varies]])

    def statsmodels_loop(check: bool = False) -> None:
        for name, design in designs.items():
            values = edges[site == name]
            ours = huber_regression(design, values[:, sampled])[0] if check else None
            for k, j in enumerate(sampled):
                known = np.isfinite(values[:, j])
                fit = RLM(values[known, j], design[known], HuberT(1.345)).fit(scale_est="mad", tol=1e-10)
                if ours is not None:
                    np.testing.assert_allclose(fit.params, ours[:, k], atol=1e-6)

    statsmodels_loop(check=True)
    race(
        f"Huber, {len(designs)} sites x {edges.shape[1]} edges",
        lambda: SiteDeconfounder().fit(edges, covariates=covariates, site=site),
        {f"statsmodels RLM ({n_sampled} edges, scaled)": statsmodels_loop},
        repeats=3,
        share=n_sampled / edges.shape[1],
    )
    half = site_halves(cohort)
    calls = [
        partial(SiteDeconfounder().fit, edges[:, :m], covariates=covariates, site=site)
        for m in (1600, 3200, edges.shape[1])
    ]
    growth("Huber", "edges", [1600, 3200, edges.shape[1]], calls)
    calls = [partial(SiteDeconfounder().fit, edges[h], covariates=covariates[h], site=site[h]) for h in half]
    growth("Huber", "subjects", [h.sum() for h in half], calls)


def site_halves(cohort) -> list[np.ndarray]:
    """Masks that keep about half, three quarters and all of every site."""
    rank = cohort.table.groupby("site").cumcount().to_numpy()
    return [rank % 4 < k for k in (2, 3, 4)]


def bench_static() -> None:
    """Pearson edges of everybody."""
    series = list(people(root=DATA).series)
    order = nilearn_order(series[0].shape[1])
    measures = {
        "nilearn correlation (Ledoit-Wolf)": ConnectivityMeasure(
            kind="correlation", vectorize=True, discard_diagonal=True
        ),
        "nilearn correlation (empirical)": ConnectivityMeasure(
            EmpiricalCovariance(), kind="correlation", vectorize=True, discard_diagonal=True
        ),
    }
    whole = ~people(root=DATA).missing_rois.any(axis=1)
    found = measures["nilearn correlation (empirical)"].fit_transform(series)[:, order]
    np.testing.assert_allclose(pearson_edges(series)[whole], found[whole], atol=1e-6)
    race(
        f"static FC, {len(series)} people",
        lambda: pearson_edges(series),
        {name: partial(measure.fit_transform, series) for name, measure in measures.items()},
    )
    parts = [series[: len(series) // k] for k in (4, 2, 1)]
    growth("static FC", "subjects", [len(p) for p in parts], [partial(pearson_edges, p) for p in parts])
    widths = [29, 58, 116]
    calls = [partial(pearson_edges, [np.ascontiguousarray(x[:, :w]) for x in series]) for w in widths]
    growth("static FC", "edges", [w * (w - 1) / 2 for w in widths], calls)


def bench_descriptors(n_people: int = 60, n_pairs: int = 800) -> None:
    """Volatility and flexibility of a scaffold's pairs."""
    cohort = people(root=DATA)
    series = cohort.subset(~cohort.missing_rois.any(axis=1)).series[:n_people]
    rng = np.random.default_rng(0)
    pairs = edge_pairs(series[0].shape[1])
    pairs = pairs[np.sort(rng.choice(len(pairs), n_pairs, replace=False))]
    u, v = pairs.T

    def described(z: np.ndarray) -> np.ndarray:
        return np.stack([z.std(axis=0), np.ptp(z, axis=0)], axis=1)

    def starts(x: np.ndarray) -> range:
        return range(0, len(x) - WINDOW + 1, STRIDE)

    def per_window() -> np.ndarray:
        return np.stack(
            [
                described(np.arctanh(np.stack([np.corrcoef(x[s : s + WINDOW].T)[u, v] for s in starts(x)])))
                for x in series
            ]
        )

    def per_pair_and_window() -> np.ndarray:
        columns, found = series[0].T.copy(), []
        for a, b in pairs:
            z = [
                np.arctanh(np.corrcoef(columns[a, s : s + WINDOW], columns[b, s : s + WINDOW])[0, 1])
                for s in starts(series[0])
            ]
            found.append((np.std(z), np.ptp(z)))
        return np.array(found)

    ours = partial(temporal_descriptors, series, pairs, WINDOW, STRIDE)
    np.testing.assert_allclose(ours(), per_window(), atol=1e-6)
    np.testing.assert_allclose(ours()[0], per_pair_and_window(), atol=1e-6)
    stage = f"descriptors, {n_people} people x {n_pairs} pairs"
    race(stage, ours, {"numpy.corrcoef per window (matrix)": per_window} | pydfc_sliding_window(series))
    race(
        "descriptors, 1 person",
        partial(temporal_descriptors, series[:1], pairs, WINDOW, STRIDE),
        {"numpy.corrcoef per pair and window": per_pair_and_window},
        repeats=3,
    )
    every = edge_pairs(series[0].shape[1])
    sizes = [400, 800, 1600, 3200]
    growth("descriptors", "pairs", sizes, [partial(temporal_descriptors, series[:20], every[:m]) for m in sizes])
    growth(
        "descriptors (stride 1, windows)",
        "window length",
        [20, 40, 80],
        [partial(temporal_descriptors, series[:20], pairs, w, 1) for w in (20, 40, 80)],
    )


def pydfc_sliding_window(series: list[np.ndarray]) -> dict:
    """pydfc's sliding-window correlations of the same people, where it is installed."""
    try:
        from pydfc.dfc_methods import SLIDING_WINDOW
    except ImportError:
        print("# pydfc is not installed: not compared")
        return {}
    method = SLIDING_WINDOW(sw_method="pear_corr", tapered_window=False)
    overlap = 1 - STRIDE / WINDOW - 1e-9  # pydfc rounds the stride down
    columns = [x.T.copy() for x in series]
    matrices = method.dFC(columns[0], W=WINDOW, n_overlap=overlap)[0]
    starts = range(0, len(series[0]) - WINDOW + 1, STRIDE)
    np.testing.assert_allclose(matrices, [np.corrcoef(columns[0][:, s : s + WINDOW]) for s in starts], atol=1e-6)
    return {"pydfc sliding window": lambda: [method.dFC(x, W=WINDOW, n_overlap=overlap) for x in columns]}


def bench_bootstrap(n_boot: int = 1000, n_timed: int = 50) -> None:
    """Stability of the consensus sign over resampled sites; ours is the exact limit of infinitely many resamples."""
    cohort = training_people(root=DATA)
    site = cohort.table["site"].to_numpy()
    deconfounder = SiteDeconfounder().fit(cohort_edges(cohort), covariates=cohort.covariates(["age", "sex"]), site=site)
    sites = sites_with_contrast(cohort.labels, site)
    contrast = site_contrasts(deconfounder.residuals_, cohort.labels, site, sites)
    consensus = median_over_sites(contrast)

    def loop(n: int) -> np.ndarray:
        rng = np.random.default_rng(0)
        kept = np.zeros(contrast.shape[1])
        for _ in range(n):
            drawn = contrast[rng.integers(len(contrast), size=len(contrast))]
            kept += np.sign(np.median(drawn, axis=0)) == np.sign(consensus)
        return kept / n

    whole = np.isfinite(contrast).all(axis=0)
    assert np.abs(site_stability(contrast, consensus) - loop(n_boot))[whole].max() < 5 * np.sqrt(0.25 / n_boot)
    race(
        f"site bootstrap, {contrast.shape[1]} edges",
        lambda: site_stability(contrast, consensus),
        {f"loop of numpy.median, B = {n_boot}": lambda: loop(n_timed)},
        share=n_timed / n_boot,
    )
    sizes = [3, 5, 7, 9]
    calls = [partial(extract_scaffold, *_first_sites(deconfounder.residuals_, cohort.labels, site, n)) for n in sizes]
    growth("scaffold", "sites", sizes, calls)


def _first_sites(residuals: np.ndarray, y: np.ndarray, site: np.ndarray, n: int) -> tuple:
    here = np.isin(site, np.unique(site)[:n])
    return residuals[here], y[here], site[here]


if __name__ == "__main__":
    warnings.filterwarnings("ignore", module="nilearn")  # regions without signal, in every repeat
    bench_huber()
    bench_static()
    bench_descriptors()
    bench_bootstrap()
