"""Do the intervals cover, does the test hold its level?

    python -m tests.evaluation.coverage_study [N_STUDIES [N_SITES ...]]

Two kinds of simulated studies. In the first, sites are independent: their true logit AUC is normal around logit(0.7)
with standard deviation tau, and scores are binormal, controls N(0, 1), cases N(d, 1) with d = sqrt(2) Phi^-1(AUC). In
the second, a classifier is really trained on the other sites, so that what happens at one site moves the others too.
"""

import sys

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm, t

from brainroam.evaluation.stats.meta import logit_auc, pool_auc, tau2_reml
from brainroam.evaluation.stats.paired import (
    bootstrap_limits,
    kernel,
    left_out_test,
    sign_flip_test,
    two_level_bootstrap,
)

MEAN = logit(0.7)


def site_scores(rng: np.random.Generator, true_auc: float, sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and binormal scores of one site."""
    label = np.repeat([1, 0], sizes)
    return label, rng.normal(label * np.sqrt(2) * norm.ppf(true_auc))


def textbook_interval(y: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """mu +- t(k - 2) sqrt(tau^2 + se^2) with the REML tau^2 and the Hartung-Knapp se."""
    tau2 = tau2_reml(y, v)
    w = 1 / (v + tau2)
    mu = (w * y).sum() / w.sum()
    se2 = (w * (y - mu) ** 2).sum() / (len(y) - 1) / w.sum()
    half = t.ppf(0.975, len(y) - 2) * np.sqrt(tau2 + se2)
    return mu - half, mu + half


def next_site_coverage(n_studies: int, n_sites: int, tau: float, per_class: int = 22, seed: int = 0) -> dict:
    """How often each interval holds what it is about: independent sites.

    ``next_site``: the next site's true AUC, ours and the ``textbook``'s; ``pooled``: the mean of the logit AUCs;
    ``bootstrap``: the mean AUC; ``site``: a site's own true AUC.
    """
    rng = np.random.default_rng(seed)
    mean_auc = expit(MEAN + tau * norm.ppf((np.arange(2000) + 0.5) / 2000)).mean()
    hits = []
    for _ in range(n_studies):
        truth = expit(rng.normal(MEAN, tau, n_sites + 1))
        sizes = rng.integers(per_class // 2, per_class * 3 // 2 + 1, size=(n_sites, 2))
        sites = [site_scores(rng, a, (m, n)) for a, (m, n) in zip(truth, sizes, strict=False)]
        kernels = [kernel(*site)[None] for site in sites]
        a, v = np.array([auc_and_variance(k[0]) for k in kernels]).T
        pooled = pool_auc(a, v, sizes[:, 0], sizes[:, 1])
        effect, variance = logit_auc(a, v, sizes[:, 0], sizes[:, 1])
        low, high = textbook_interval(effect, variance)
        following = truth[-1]
        hits.append(
            {
                "next_site": pooled.next_low <= following <= pooled.next_high,
                "textbook": low <= logit(following) <= high,
                "pooled": pooled.low <= expit(MEAN) <= pooled.high,
                "bootstrap": _holds(bootstrap_interval(kernels, rng), mean_auc),
                "site": np.mean(np.abs(effect - logit(truth[:-1])) <= norm.ppf(0.975) * np.sqrt(variance)),
            }
        )
    return _means(hits)


def trained_coverage(
    n_studies: int,
    n_sites: int,
    signal: float,
    tau: float = 0.0,
    per_class: int = 22,
    n_features: int = 50,
    seed: int = 0,
) -> dict:
    """The same when each site is predicted by the class difference of the others, in ``n_features`` dimensions.

    At site e cases differ from controls by delta_e ~ N(delta, tau^2 I / n_features), ``|delta| = signal``, within unit
    noise. ``auc`` is the mean over all studies, which the intervals of the mean ought to hold; the next site is a new
    one, predicted by a model of all the others.
    """
    rng = np.random.default_rng(seed)
    delta = np.full(n_features, signal / np.sqrt(n_features))
    studies = []
    for _ in range(n_studies):
        own = delta + rng.normal(0, tau / np.sqrt(n_features), (n_sites + 1, n_features))
        label = np.repeat([1, 0], per_class)
        people = rng.normal(size=(n_sites, 2 * per_class, n_features)) + label[:, None] * own[:-1, None]
        gaps = people[:, label == 1].mean(axis=1) - people[:, label == 0].mean(axis=1)
        sites = [(label, people[e] @ (gaps.sum(axis=0) - gaps[e])) for e in range(n_sites)]
        kernels = [kernel(*site)[None] for site in sites]
        a, v = np.array([auc_and_variance(k[0]) for k in kernels]).T
        pooled = pool_auc(a, v, [per_class] * n_sites, [per_class] * n_sites)
        model = gaps.sum(axis=0)
        following = norm.cdf(own[-1] @ model / np.linalg.norm(model) / np.sqrt(2))
        studies.append((a, pooled, bootstrap_interval(kernels, rng), following))
    truth = np.mean([a for a, *_ in studies])
    hits = [
        {
            "auc": a.mean(),
            "pooled": pooled.low <= truth <= pooled.high,
            "bootstrap": _holds(interval, truth),
            "next_site": pooled.next_low <= following <= pooled.next_high,
        }
        for a, pooled, interval, following in studies
    ]
    between = np.corrcoef(np.array([a for a, *_ in studies]).T)
    return {**_means(hits), "correlation": float((between.sum() - n_sites) / (n_sites * (n_sites - 1)))}


def auc_and_variance(k: np.ndarray) -> tuple[float, float]:
    """AUC and DeLong's variance from the kernel, which for small sites is quicker than from ranks."""
    m, n = k.shape
    return k.mean(), k.mean(axis=1).var(ddof=1) / m + k.mean(axis=0).var(ddof=1) / n


def bootstrap_interval(kernels: list[np.ndarray], rng: np.random.Generator) -> tuple[float, float]:
    """The interval of the mean AUC that studies print."""
    drawn = two_level_bootstrap(kernels, 200, int(rng.integers(2**31)))[:, :, 0]
    return bootstrap_limits(drawn, len(kernels))


def _holds(interval: tuple[float, float], truth: float) -> bool:
    return interval[0] <= truth <= interval[1]


def _means(hits: list[dict]) -> dict:
    return {name: float(np.mean([hit[name] for hit in hits])) for name in hits[0]}


def paired_behaviour(
    n_studies: int, n_sites: int, tau: float, gap: float = 0.0, per_class: int = 22, seed: int = 0, n_boot: int = 200
) -> dict:
    """Rejection rate at 5 % of `left_out_test` and coverage of the bootstrap interval of a paired difference.

    Two methods share half of the variance of their scores; at every site each method's logit AUC deviates by its own
    N(0, tau^2). ``gap`` is the difference of their mean logit AUCs; 0 is the null hypothesis.
    """
    rng = np.random.default_rng(seed)
    nodes = norm.ppf((np.arange(2000) + 0.5) / 2000)
    truth = np.mean(expit(MEAN + gap + tau * nodes) - expit(MEAN + tau * nodes))
    rejected, covered = [], []
    for _ in range(n_studies):
        kernels = []
        for _ in range(n_sites):
            label = np.repeat([1, 0], rng.integers(per_class // 2, per_class * 3 // 2 + 1, size=2))
            shared = rng.normal(size=len(label))
            true = expit(MEAN + np.array([gap, 0.0]) + rng.normal(0, tau, 2))
            noise = np.sqrt(0.5) * (shared + rng.normal(size=(2, len(label))))
            scores = label * (np.sqrt(2) * norm.ppf(true))[:, None] + noise
            kernels.append(np.stack([kernel(label, s) for s in scores]))
        difference = np.array([k[0].mean() - k[1].mean() for k in kernels])
        rejected.append(left_out_test(difference) <= 0.05)
        resampled = two_level_bootstrap(kernels, n_boot, int(rng.integers(2**31)))
        covered.append(_holds(bootstrap_limits(resampled[:, :, 0] - resampled[:, :, 1], n_sites), truth))
    return {"rejected": float(np.mean(rejected)), "covered": float(np.mean(covered))}


def trained_level(n_studies: int, n_sites: int, signal: float, n_features: int = 50, seed: int = 0) -> dict:
    """Rejection rates at 5 % where two methods are equally good and each site is predicted from the others.

    The methods read different features of the same number and the same ``signal``; else as in `trained_coverage`.
    """
    rng = np.random.default_rng(seed)
    differences = [
        trained_aucs(rng, n_sites, signal, n_features) - trained_aucs(rng, n_sites, signal, n_features)
        for _ in range(n_studies)
    ]
    tests = {"sign_flip": sign_flip_test, "left_out": left_out_test}
    return {name: float(np.mean([test(d) <= 0.05 for d in differences])) for name, test in tests.items()}


def trained_aucs(
    rng: np.random.Generator, n_sites: int, signal: float, n_features: int, per_class: int = 22
) -> np.ndarray:
    """AUC at each site by the class difference of the others."""
    people = rng.normal(size=(2, n_sites, per_class, n_features))
    people[1, :, :, 0] += signal
    gaps = people[1].mean(axis=1) - people[0].mean(axis=1)
    controls, cases = np.einsum("csif,sf->csi", people, gaps.sum(axis=0) - gaps)
    return np.array([np.mean(a[:, None] > b) for a, b in zip(cases, controls, strict=True)])


def main(n_studies: int = 1000, *sites: int) -> None:
    sites = sites or (5, 10, 20)
    print(f"{n_studies} studies per row, about 22 people per class and site; simulation error of 0.95: ", end="")
    print(f"{np.sqrt(0.95 * 0.05 / n_studies):.3f}\n\nindependent sites: coverage of 95 % intervals")
    print("sites   tau  next site  textbook  pooled  bootstrap  site's own")
    for n_sites in sites:
        for tau in (0.0, 0.2, 0.4, 0.7):
            c = next_site_coverage(n_studies, n_sites, tau)
            print(f"{n_sites:5d}  {tau:4.1f}  {c['next_site']:9.3f} {c['textbook']:9.3f} {c['pooled']:7.3f}", end="")
            print(f"  {c['bootstrap']:9.3f}  {c['site']:10.3f}", flush=True)
    print("\ntrained on the other sites: coverage of 95 % intervals")
    print("sites  signal   tau  mean AUC  correlation of sites  next site  pooled  bootstrap")
    for n_sites in sites:
        for signal, tau in ((0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (1.0, 0.0), (1.0, 1.0)):
            c = trained_coverage(n_studies, n_sites, signal, tau)
            print(f"{n_sites:5d}  {signal:6.1f}  {tau:4.1f}  {c['auc']:8.3f}  {c['correlation']:20.3f}", end="")
            print(f"  {c['next_site']:9.3f} {c['pooled']:7.3f}  {c['bootstrap']:9.3f}", flush=True)
    print("\ntwo methods, trained on the other sites, equally good: rejection at 5 %")
    print("sites  signal  features  sign flips alone  left_out_test")
    for n_sites in sites:
        for signal, n_features in ((0.0, 50), (0.5, 50), (1.0, 50), (0.0, 5), (0.5, 5)):
            r = trained_level(n_studies, n_sites, signal, n_features)
            print(
                f"{n_sites:5d}  {signal:6.1f}  {n_features:8d}  {r['sign_flip']:16.3f}  {r['left_out']:13.3f}",
                flush=True,
            )
    print("\ntwo methods at independent sites: rejection at 5 %, coverage of the interval of their difference")
    print("sites   tau   gap  rejected  bootstrap")
    for n_sites in sites:
        for tau, gap in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.4)):
            r = paired_behaviour(n_studies, n_sites, tau, gap)
            print(f"{n_sites:5d}  {tau:4.1f}  {gap:4.1f}  {r['rejected']:8.3f}  {r['covered']:9.3f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
