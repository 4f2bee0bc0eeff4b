"""Do the intervals cover, does the test hold its level?

    python -m tests.evaluation.coverage_study {sites,trained,halves,paired} [--studies 1000] [--sites 5 10 20 50]

Simulated studies, each part a table for docs/reliability.md:

sites    independent sites: the true AUC of a site is g(g^-1(AUC) + tau z), g logistic or normal; scores are binormal
trained  each site is scored by the summed class differences of the other sites, so that sites depend on one another
halves   the same, but by those of the other half of the sites, averaged over repeats
paired   two methods that are equally good, trained as above: how often the test calls them different

The interval of the mean ought to hold the mean of the true AUC over the population of sites, the prediction interval
the true AUC of one more site. Signal 0 and tau 0 is meaningless labels: the target is 0.5.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtr, ndtri

from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.paired import left_out_t
from brainroam.evaluation.stats.verdict import limits, site_intervals

MIXED = np.array([[3, 5], [8, 4], [12, 20], [40, 35], [6, 6], [25, 10], [18, 40], [4, 9], [30, 30], [10, 16]])
SITES = (5, 10, 20, 50)
KINDS = [  # participants per class and site, AUC at the centre, tau, scale of tau
    (3, 0.5, 0.0, "probit"),
    (3, 0.75, 0.7, "logit"),
    (3, 0.95, 0.0, "probit"),
    (3, 0.95, 0.7, "probit"),
    (5, 0.6, 0.4, "logit"),
    (5, 0.95, 0.0, "probit"),
    (5, 0.95, 0.3, "probit"),
    (5, 0.95, 0.7, "logit"),
    (5, 0.95, 0.7, "probit"),
    (10, 0.9, 0.5, "probit"),
    ("3-40", 0.7, 0.0, "probit"),
    ("3-40", 0.7, 0.7, "probit"),
    ("3-40", 0.9, 0.3, "probit"),
    ("3-40", 0.95, 0.7, "probit"),
    (22, 0.7, 0.0, "logit"),
    (22, 0.7, 0.2, "logit"),
    (22, 0.7, 0.7, "logit"),
    (40, 0.5, 0.0, "probit"),
    (40, 0.8, 0.2, "probit"),
    (40, 0.95, 0.7, "probit"),
]
TRAINED = [  # signal, tau of the class difference, participants per class, features
    (0.0, 0.0, 22, 50),
    (0.0, 0.0, 5, 50),
    (0.5, 0.0, 22, 50),
    (0.5, 0.5, 22, 50),
    (1.0, 0.0, 22, 50),
    (1.0, 1.0, 22, 50),
    (2.0, 0.0, 5, 50),
    (0.5, 1.0, 22, 5),
    (0.0, 1.0, 22, 5),
]
HALVES = [(repeats, *kind) for repeats in (1, 5, 20) for kind in (TRAINED[i] for i in (0, 1, 3, 5, 7, 8))]
CHUNK = 100  # studies at a time


def independent(k: int, size: int | str, auc: float, tau: float, scale: str, n_studies: int, seed: int = 0) -> dict:
    """Coverage at independent sites; ``site`` is that of each site's own interval."""
    rng = np.random.default_rng(seed)
    sizes = np.resize(MIXED, (k, 2)) if size == "3-40" else np.full((k, 2), size)
    truth = _true_aucs(auc, tau, scale, rng.standard_normal((n_studies, k + 1)))
    mean = _true_aucs(auc, tau, scale, ndtri((np.arange(4000) + 0.5) / 4000)).mean()
    found = np.stack([_measured(rng, truth[:, i], m, n) for i, (m, n) in enumerate(sizes)], axis=1)
    own = [
        (low <= truth[:, i]) & (truth[:, i] <= high)
        for i, (m, n) in enumerate(sizes[:5])
        for low, high in [site_intervals(found[:, i], np.full(n_studies, m), np.full(n_studies, n))]
    ]
    return {**_coverage(found, sizes, mean, truth[:, -1]), "site": np.mean(own)}


def trained(k: int, signal: float, tau: float, per_class: int, n_features: int, n_studies: int, seed: int = 0) -> dict:
    """Coverage where each site is scored by the class differences of all others."""
    others = np.ones((1, k, k), dtype=bool) & ~np.eye(k, dtype=bool)
    return _of_trained(k, others, signal, tau, per_class, n_features, n_studies, seed)


def halves(
    k: int, repeats: int, signal: float, tau: float, per_class: int, n_features: int, n_studies: int, seed: int = 0
) -> dict:
    """Coverage where each site is scored by the other half of the sites, averaged over the repeats.

    ``next if given`` is why no next site is predicted there: the averages scatter less than the AUCs of one model.
    """
    table = pd.DataFrame({"site": np.repeat(np.arange(k), 2).astype(str), "label": np.tile([0, 1], k)})
    learned = np.zeros((repeats, k, k), dtype=bool)  # [repeat, tested site, training site]
    for i, fold in enumerate(folds(table, "halves", n_repeats=repeats)):
        site = table["site"].astype(int).to_numpy()
        learned[i // 2][np.ix_(np.unique(site[fold.test]), np.unique(site[fold.train]))] = True
    found = _of_trained(k, learned, signal, tau, per_class, n_features, n_studies, seed)
    return {"next if given" if name == "next" else name: x for name, x in found.items() if name != "next width"}


def level(k: int, signal: float, tau: float, per_class: int, n_features: int, n_studies: int, seed: int = 0) -> dict:
    """How often two methods that read different features of the same signal are called different at 5 %."""
    learned = np.ones((1, k, k), dtype=bool) & ~np.eye(k, dtype=bool)
    rng = np.random.default_rng(seed)
    one, two = (
        np.concatenate([aucs for aucs, _ in _studies(rng, k, learned, signal, tau, per_class, n_features, n_studies)])
        for _ in range(2)
    )
    tested = [left_out_t(d) for d in one - two]
    return {
        "different at 5 %": np.mean([x.p <= 0.05 for x in tested]),
        "interval covers 0": np.mean([not (x.low > 0 or x.high < 0) for x in tested]),
        "width": np.median([x.high - x.low for x in tested]),
    }


def power(k: int, tau: float, gap: float, n_studies: int, per_class: int = 22, seed: int = 0) -> dict:
    """Two methods at independent sites around AUC 0.7, half of the noise of their scores shared.

    Each method's logit AUC deviates at every site by its own N(0, tau^2); ``gap`` is the difference of the means.
    """
    rng = np.random.default_rng(seed)
    nodes = logit(0.7) + tau * ndtri((np.arange(2000) + 0.5) / 2000)
    truth = np.mean(expit(nodes + gap) - expit(nodes))
    shift = np.sqrt(2) * ndtri(expit(logit(0.7) + np.array([gap, 0]) + rng.normal(0, tau, (n_studies, k, 2))))
    people = np.sqrt(0.5) * (
        rng.standard_normal((n_studies, k, 1, 2 * per_class)) + rng.standard_normal((n_studies, k, 2, 2 * per_class))
    )
    people[..., :per_class] += shift[..., None]
    tested = [left_out_t(d[:, 0] - d[:, 1]) for d in _aucs(people[..., :per_class], people[..., per_class:])]
    return {
        "different at 5 %": np.mean([x.p <= 0.05 for x in tested]),
        "interval covers": np.mean([x.low <= truth <= x.high for x in tested]),
    }


def _of_trained(k, learned, signal, tau, per_class, n_features, n_studies, seed) -> dict:
    rng = np.random.default_rng(seed)
    parts = list(_studies(rng, k, learned, signal, tau, per_class, n_features, n_studies))
    found, following = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    between = np.corrcoef(found.T)
    mean = 0.5 if signal == tau == 0 else found.mean()
    row = _coverage(found, np.full((k, 2), per_class), mean, following)
    return {"correlation": (between.sum() - k) / (k * (k - 1)), **row}


def _studies(rng, k, learned, signal, tau, per_class, n_features, n_studies) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """AUCs (studies, k), averaged over repeats, and the true AUC of a next site, averaged over the models.

    Cases differ from controls by delta_s ~ N(delta, tau^2 I / n_features), ``|delta| = signal``, within unit noise.
    """
    delta = np.full(n_features, signal / np.sqrt(n_features))
    for _ in range(0, n_studies, CHUNK):
        own = delta + rng.normal(0, tau / np.sqrt(n_features), (CHUNK, k + 1, n_features))
        cases, controls = rng.standard_normal((2, CHUNK, k, per_class, n_features), dtype=np.float32)
        cases += own[:, :-1, None].astype(np.float32)
        gaps = cases.mean(axis=2) - controls.mean(axis=2)
        found, following = np.zeros((CHUNK, k)), np.zeros(CHUNK)
        for pattern in learned.astype(np.float32):
            models = np.einsum("ts,csf->ctf", pattern, gaps)
            scores = (np.matmul(people, models[..., None])[..., 0] for people in (cases, controls))
            found += _aucs(*scores) / len(learned)
            everywhere = gaps.sum(axis=1, keepdims=True) if (pattern.sum(axis=1) == k - 1).all() else models
            toward = (own[:, -1:] * everywhere).sum(axis=2) / np.linalg.norm(everywhere, axis=2)
            following += ndtr(toward / np.sqrt(2)).mean(axis=1) / len(learned)
        yield found, following


def _aucs(cases: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """AUC along the last axis; continuous scores have no ties."""
    m, n = cases.shape[-1], controls.shape[-1]
    place = np.concatenate([cases, controls], axis=-1).argsort(axis=-1).argsort(axis=-1)[..., :m].sum(axis=-1)
    return (place - m * (m - 1) / 2) / (m * n)


def _measured(rng: np.random.Generator, truth: np.ndarray, m: int, n: int) -> np.ndarray:
    """Measured AUCs of one site in many studies."""
    cases = rng.standard_normal((len(truth), m)) + np.sqrt(2) * ndtri(np.clip(truth, 1e-12, 1 - 1e-12))[:, None]
    return _aucs(cases, rng.standard_normal((len(truth), n)))


def _true_aucs(auc: float, tau: float, scale: str, z: np.ndarray) -> np.ndarray:
    return ndtr(ndtri(auc) + tau * z) if scale == "probit" else expit(logit(auc) + tau * z)


def _coverage(found: np.ndarray, sizes: np.ndarray, mean: float, following: np.ndarray) -> dict:
    parts = [limits(found[i : i + CHUNK], *sizes.T.astype(float)) for i in range(0, len(found), CHUNK)]
    low, high, next_low, next_high, _ = np.concatenate(parts, axis=1)
    assert np.all((next_low <= low) & (low < high) & (high <= next_high))
    return {
        "target": mean,
        "mean": np.mean((low <= mean) & (mean <= high)),
        "mean width": np.median(high - low),
        "next": np.mean((next_low <= following) & (following <= next_high)),
        "next width": np.median(next_high - next_low),
    }


def _print(head: tuple[str, ...], keys: list[tuple], row: Callable[..., dict]) -> None:
    """A markdown table, row by row as it comes."""
    for i, key in enumerate(keys):
        found = row(*key)
        if i == 0:
            print("| " + " | ".join([*head, *found]) + " |\n|" + "---|" * (len(head) + len(found)))
        print("| " + " | ".join([*map(str, key), *(f"{x:.3f}" for x in found.values())]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("sites", "trained", "halves", "paired"))
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--sites", type=int, nargs="*")
    options = parser.parse_args()
    n, sites = options.studies, options.sites
    print(f"{n} studies a row; simulation error of 0.95: {np.sqrt(0.95 * 0.05 / n):.3f}\n")
    people = ("signal", "tau", "per class", "features")
    if options.part == "sites":
        keys = [(k, *kind) for k in sites or SITES for kind in KINDS]
        _print(("sites", "per class", "AUC", "tau", "scale"), keys, lambda *key: independent(*key, n))
    elif options.part == "trained":
        keys = [(k, *kind) for k in sites or (5, 10, 20) for kind in TRAINED]
        _print(("sites", *people), keys, lambda *key: trained(*key, n))
    elif options.part == "halves":
        keys = [(k, *kind) for k in sites or (4, 6, 10, 20) for kind in HALVES]
        _print(("sites", "repeats", *people), keys, lambda *key: halves(*key, n))
    else:
        keys = [(k, *kind) for k in sites or (4, 6, 10, 20) for kind in TRAINED]
        _print(("sites", *people), keys, lambda *key: level(*key, n))
        print("\nIndependent sites:\n")
        keys = [(k, tau, gap) for k in sites or (6, 10, 20) for tau, gap in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.4))]
        _print(("sites", "tau", "gap of logit AUC"), keys, lambda *key: power(*key, n))


if __name__ == "__main__":
    main()
