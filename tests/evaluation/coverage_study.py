"""Do the intervals cover, does the test hold its level? ``python tests/evaluation/coverage_study.py`` says so.

Each simulated study has sites whose true logit AUC is normal around logit(0.7) with standard deviation tau. Scores are
binormal: controls N(0, 1), cases N(d, 1) with d = sqrt(2) Phi^-1(AUC).
"""

import numpy as np
from scipy.special import expit, logit
from scipy.stats import norm, t

from brainroam.evaluation.meta import pool_auc, tau2_reml
from brainroam.evaluation.metrics import auc, delong_variance
from brainroam.evaluation.paired import kernel, sign_flip_test, two_level_bootstrap

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
    """How often the next site's true AUC lies in our prediction interval and in the textbook's, and the mean in its."""
    rng = np.random.default_rng(seed)
    hits = []
    for _ in range(n_studies):
        truth = expit(rng.normal(MEAN, tau, n_sites + 1))
        sizes = rng.integers(per_class // 2, per_class * 3 // 2 + 1, size=(n_sites, 2))
        sites = [site_scores(rng, a, (m, n)) for a, (m, n) in zip(truth, sizes, strict=False)]
        a, v = np.array([auc(*site) for site in sites]), np.array([delong_variance(*site) for site in sites])
        pooled = pool_auc(a, v, sizes[:, 0], sizes[:, 1])
        plain = (v > 0) & (a < 1)
        low, high = textbook_interval(logit(a[plain]), v[plain] / (a[plain] * (1 - a[plain])) ** 2)
        following = truth[-1]
        hits.append(
            (
                pooled.next_low <= following <= pooled.next_high,
                low <= logit(following) <= high,
                pooled.low <= expit(MEAN) <= pooled.high,
            )
        )
    return dict(zip(["next_site", "textbook", "mean"], np.mean(hits, axis=0).tolist(), strict=True))


def paired_behaviour(
    n_studies: int, n_sites: int, tau: float, gap: float = 0.0, per_class: int = 22, seed: int = 0, n_boot: int = 400
) -> dict:
    """Rejection rate at 5 % of the sign-flip test and coverage of the bootstrap interval of a paired difference.

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
        rejected.append(sign_flip_test(difference) <= 0.05)
        resampled = two_level_bootstrap(kernels, n_boot, int(rng.integers(2**31)))
        low, high = np.quantile((resampled[:, :, 0] - resampled[:, :, 1]).mean(axis=1), [0.025, 0.975])
        covered.append(low <= truth <= high)
    return {"rejected": float(np.mean(rejected)), "covered": float(np.mean(covered))}


def main(n_studies: int = 1000) -> None:
    print(f"{n_studies} studies per row, about 22 people per class and site")
    print("sites   tau   next site  textbook  mean (Hartung-Knapp)")
    for n_sites in (5, 10, 20):
        for tau in (0.0, 0.2, 0.4, 0.7):
            c = next_site_coverage(n_studies, n_sites, tau)
            print(f"{n_sites:5d}  {tau:4.1f}  {c['next_site']:10.3f}{c['textbook']:10.3f}{c['mean']:10.3f}", flush=True)
    print("sites   tau   gap   rejected at 5 %   bootstrap interval covers")
    for n_sites in (6, 10, 20):
        for tau, gap in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.4)):
            r = paired_behaviour(n_studies, n_sites, tau, gap)
            print(f"{n_sites:5d}  {tau:4.1f}  {gap:4.1f}  {r['rejected']:12.3f}{r['covered']:20.3f}", flush=True)


if __name__ == "__main__":
    main()
