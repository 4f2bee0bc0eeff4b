"""Do the intervals of the order of a number cover?

    python -m tests.evaluation.number_coverage_study [--studies 500]

Simulated studies of k sites. *Independent*: the correlation of site s is tanh(z + tau e_s) and its people are bivariate
normal. *Trained*: people have p features x and the number t = x'(w + tau v_s) + noise; site s is scored by the summed
x't of the other sites, so that sites depend on one another, and the next site by that of all. The interval of the mean
ought to hold tanh of the mean of Fisher's z over sites, the prediction interval the true correlation at one more site.
"""

import argparse

import numpy as np

from brainroam.data.target.order import correlations
from brainroam.evaluation.stats.verdict import next_site

KINDS = [(0.0, 0.0), (0.2, 0.0), (0.4, 0.15), (0.6, 0.3)]  # correlation at the centre, tau on Fisher's z


def sizes_of(n_sites: int, equal: bool) -> np.ndarray:
    """People of each site: 40 each, or from 8 to 180."""
    return np.full(n_sites, 40) if equal else np.resize([8, 40, 180, 15, 25, 60, 12, 100], n_sites)


def number_coverage(n_sites: int, equal: bool, r: float = 0.4, tau: float = 0.15, n_studies: int = 500):
    """Coverage of the mean and of the next site at independent sites."""
    rng, n = np.random.default_rng([n_sites, equal, int(100 * r)]), sizes_of(n_sites, equal)
    centre, inside = np.arctanh(r), []
    for _ in range(n_studies):
        true = np.tanh(centre + tau * rng.normal(size=n_sites + 1))
        t = [rng.normal(size=size) for size in n]
        found = [
            correlations(x, c * x + np.sqrt(1 - c**2) * rng.normal(size=len(x))) for x, c in zip(t, true, strict=False)
        ]
        result = next_site(np.arctanh(found), 1 / (n - 3))
        inside.append(
            (result.low <= centre <= result.high, result.next_low <= np.arctanh(true[-1]) <= result.next_high)
        )
    return tuple(np.mean(inside, axis=0))


def trained_coverage(n_sites: int, equal: bool, signal: float, tau: float, n_studies: int = 500, p: int = 30):
    """Coverage of the next site where every site is scored by the others."""
    rng, n = np.random.default_rng([n_sites, equal, int(100 * signal), 1]), sizes_of(n_sites, equal)
    inside = []
    for _ in range(n_studies):
        w = signal * rng.normal(size=p) / np.sqrt(p) + tau * rng.normal(size=(n_sites + 1, p)) / np.sqrt(p)
        x = [rng.normal(size=(size, p)) for size in n]
        t = [a @ b + rng.normal(size=len(a)) for a, b in zip(x, w, strict=False)]
        products = np.stack([a.T @ b for a, b in zip(x, t, strict=True)])
        found = [correlations(t[s], x[s] @ (products.sum(axis=0) - products[s])) for s in range(n_sites)]
        learned = products.sum(axis=0)
        true = learned @ w[-1] / (np.linalg.norm(learned) * np.sqrt(w[-1] @ w[-1] + 1))
        result = next_site(np.arctanh(found), 1 / (n - 3))
        inside.append(result.next_low <= np.arctanh(true) <= result.next_high)
    return float(np.mean(inside))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=500)
    n_studies = parser.parse_args().studies
    print("sites  people   r    tau   mean   next")
    lowest = [1.0, 1.0, 1.0]
    for k in (4, 6, 12, 40):
        for equal in (True, False):
            for r, tau in KINDS:
                mean, following = number_coverage(k, equal, r, tau, n_studies)
                lowest[:2] = min(lowest[0], mean), min(lowest[1], following)
                print(f"{k:5d}  {'40' if equal else '8-180':6s} {r:.1f}  {tau:.2f}  {mean:.3f}  {following:.3f}")
    print("sites  people  signal  tau   next (trained on one another)")
    for k in (4, 6, 12, 40):
        for equal in (True, False):
            for signal, tau in ((0.0, 0.0), (0.5, 0.0), (0.8, 0.4)):
                following = trained_coverage(k, equal, signal, tau, n_studies)
                lowest[2] = min(lowest[2], following)
                print(f"{k:5d}  {'40' if equal else '8-180':6s} {signal:.1f}  {tau:.2f}  {following:.3f}")
    print("lowest: mean {:.3f}, next {:.3f}, next (trained) {:.3f}".format(*lowest))


if __name__ == "__main__":
    main()
