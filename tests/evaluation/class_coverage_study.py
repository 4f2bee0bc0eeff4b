"""Do the intervals of the macro AUC of several classes cover?

    python -m tests.evaluation.class_coverage_study [--studies 500]

Simulated studies of k sites and three classes. *Independent*: the scores of a person of class c at site s are
e_c (a + tau z_s) + noise, without their mean over classes, as those of a regression on indicator columns are.
*Trained*: people have p features about class means w_c + tau v_sc; site s is scored by the class means of the other
sites, so that sites depend on one another, and the next site by those of all. The interval of the mean ought to hold
the mean true AUC over sites, the prediction interval that of one more site with equal classes, and a forecast
(`brainroam.data.target.outlook.expected_classes`) the macro AUC that is observed at one more site of 10 to 300 people.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import ndtr

from brainroam.data.target.order import equivalent_sizes, macro_auc
from brainroam.data.target.orders import MacroAreas
from brainroam.data.target.outlook import expected_classes
from brainroam.data.target.sites_several import site_metrics
from brainroam.evaluation.stats import verdict as models

K = 3
NEW = {"10": (4, 3, 3), "30": (10, 10, 10), "100": (34, 33, 33), "100 rare": (80, 10, 10), "300": (100, 100, 100)}
KINDS = [(0.0, 0.0), (0.5, 0.0), (0.8, 0.2), (1.2, 0.4)]  # distance of a class from the rest, tau between sites


def counts_of(n_sites: int, equal: bool) -> np.ndarray:
    """People of each class: 15 each, or from none to 60, with classes that some sites lack."""
    if equal:
        return np.full((n_sites, K), 15)
    few = [(3, 2, 1), (30, 20, 8), (60, 30, 30), (6, 6, 0), (12, 0, 10), (20, 15, 3), (5, 4, 4), (40, 10, 20)]
    return np.resize(few, (n_sites, K))


def measured(codes: list[np.ndarray], scores: list[np.ndarray]) -> np.ndarray:
    """Macro AUC and its two variances at each site (sites, 3)."""
    found = [site_metrics(c, s, c, np.full(s.shape, 1 / K), "abc") for c, s in zip(codes, scores, strict=True)]
    return np.array([[one[name] for name in ("auc", "auc_variance", "class_variance")] for one in found])


def judged(found: np.ndarray, counts: np.ndarray):
    """The verdict on these sites."""
    return MacroAreas(classes=tuple("abc")).judge(found[:, 0], counts, found[:, 1:], models)


def foretold(found: np.ndarray, counts: np.ndarray, scores_of: Callable[[np.ndarray], np.ndarray]) -> list[bool]:
    """Whether the macro AUC of new sites (`NEW`) lies in its 95 % interval; ``scores_of`` draws scores of people."""
    names = ("auc", "auc_var", "class_var")
    sites = {**dict(zip(names, found.T, strict=True)), "m": equivalent_sizes(counts)}
    sites |= dict.fromkeys(("balanced_acc", "balanced_acc_var"), np.full(len(found), np.nan))
    inside = []
    for people in NEW.values():
        code, told = (
            np.repeat(np.arange(K), people),
            expected_classes(sites, np.array(people), models)["expected"]["auc"],
        )
        inside.append(told["low_95"] <= macro_auc(code, scores_of(code)) <= told["high_95"])
    return inside


def scores_at(rng: np.random.Generator, distance: float, code: np.ndarray) -> np.ndarray:
    """Scores (n, K) of people of a site where classes are this far from the rest."""
    score = np.eye(K)[code] * distance + rng.normal(size=(len(code), K))
    return score - score.mean(axis=1, keepdims=True)


def read_at(rng: np.random.Generator, means: np.ndarray, learned: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Scores (n, K) by weights (p, K) of people of a site with these class means (K, p)."""
    return (means[code] + rng.normal(size=(len(code), means.shape[1]))) @ learned


def independent_coverage(n_sites: int, equal: bool, distance: float, tau: float, n_studies: int):
    """Coverage of the mean, of the next site, and of what is observed there (`NEW`), at independent sites."""
    rng, counts = np.random.default_rng([n_sites, equal, int(100 * distance)]), counts_of(n_sites, equal)
    codes, inside, newcomers = [np.repeat(np.arange(K), n) for n in counts], [], np.random.default_rng(n_sites)
    spread = np.sqrt(2 * (1 - 1 / K))
    mean = ndtr(distance / spread / np.sqrt(1 + (tau / spread) ** 2))
    for _ in range(n_studies):
        true = distance + tau * rng.normal(size=n_sites + 1)
        sites = measured(codes, [scores_at(rng, a, c) for c, a in zip(codes, true, strict=False)])
        found = judged(sites, counts)
        holds = found.low <= mean <= found.high, found.next_low <= ndtr(true[-1] / spread) <= found.next_high
        inside.append((*holds, *foretold(sites, counts, partial(scores_at, newcomers, true[-1]))))
    return tuple(np.mean(inside, axis=0))


def trained_coverage(n_sites: int, equal: bool, distance: float, tau: float, n_studies: int, p: int = 30):
    """Coverage of the next site, and of what is observed there, where every site is scored by the others."""
    rng, counts = np.random.default_rng([n_sites, equal, int(100 * distance), 1]), counts_of(n_sites, equal)
    codes, inside, newcomers = [np.repeat(np.arange(K), n) for n in counts], [], np.random.default_rng(n_sites)
    for _ in range(n_studies):
        w = distance * rng.normal(size=(K, p)) / np.sqrt(p)
        own = w + tau * rng.normal(size=(n_sites + 1, K, p)) / np.sqrt(p)
        x = [m[c] + rng.normal(size=(len(c), p)) for m, c in zip(own, codes, strict=False)]
        sums = np.stack([np.stack([a[c == k].sum(axis=0) for k in range(K)]) for a, c in zip(x, codes, strict=True)])
        everybody = counts.sum(axis=0)[:, None]

        def weights(total: np.ndarray, count: np.ndarray) -> np.ndarray:
            means = total / np.maximum(count, 1)
            return (means - means.mean(axis=0)).T  # (p, K)

        scores = [a @ weights(sums.sum(axis=0) - sums[s], everybody - counts[s][:, None]) for s, a in enumerate(x)]
        learned = weights(sums.sum(axis=0), everybody)
        at = own[-1] @ learned  # mean score (class, score)
        size = np.sqrt(2) * np.linalg.norm(learned, axis=0)
        others = [[ndtr((at[k, k] - at[j, k]) / size[k]) for j in range(K) if j != k] for k in range(K)]
        sites = measured(codes, scores)
        found, drawn = judged(sites, counts), partial(read_at, newcomers, own[-1], learned)
        inside.append((found.next_low <= np.mean(others) <= found.next_high, *foretold(sites, counts, drawn)))
    return tuple(np.mean(inside, axis=0))


def main() -> None:
    """Print one row per number of sites, sizes and kind."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=500)
    n_studies = parser.parse_args().studies
    print(f"sites  sizes    distance  tau   kind         mean   next   observed: {', '.join(NEW)}")
    for n_sites in (4, 6, 12, 40):
        for equal in (True, False):
            for distance, tau in KINDS:
                rows = {
                    "independent": independent_coverage(n_sites, equal, distance, tau, n_studies),
                    "trained": (np.nan, *trained_coverage(n_sites, equal, distance, tau, n_studies)),
                }
                sizes = "equal" if equal else "unequal"
                for kind, row in rows.items():
                    design = f"{n_sites:5d}  {sizes:8s} {distance:7.1f} {tau:6.2f}  {kind:11s}"
                    print(design, *(f"{share:.3f}" for share in row), flush=True)


if __name__ == "__main__":
    main()
