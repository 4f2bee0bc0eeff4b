"""Do the intervals cover, does the test hold its level?

    python -m tests.evaluation.coverage_study {sites,small,observed,own,groups,trained,halves,paired} [--studies 1000]

Simulated studies, each part a table for docs/reliability.md:

sites    independent sites: the true AUC of a site is g(g^-1(AUC) + tau z), g logistic or normal; scores are binormal
small    the same with sites of one to six people of a class; tau is the standard deviation of the true AUC there
observed forecasts of the AUC to be observed at one more site of 10 to 300 people, 10 to 50 % of them cases
own      each site's own interval, scores of several shapes
groups   a group of few people at independent sites: coverage where there is an interval, and how often there is none
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
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from brainroam.evaluation.splits import folds
from brainroam.evaluation.stats.metrics import site_weights
from brainroam.evaluation.stats.paired import left_out_t
from brainroam.evaluation.stats.verdict import limits, observed_auc, refusal, site_intervals

MIXED = np.array([[3, 5], [8, 4], [12, 20], [40, 35], [6, 6], [25, 10], [18, 40], [4, 9], [30, 30], [10, 16]])
TINY = [[1, 20], [1, 5], [2, 12], [1, 1], [3, 3]]
SMALL = ["10 of 20 + 1 small", "10 of 20 + 3 small", "10 of 20 + 5 small", "4 of 20 + 2 small", "58 of 1-6"]
SHAPES = ("equal", "cases wide", "cases narrow", "half of cases certain", "half of controls certain", "three levels")
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
NEW = ((5, 5), (3, 27), (15, 15), (10, 90), (50, 50), (150, 150))  # cases and controls of a site that is foretold
HALVES = [(repeats, *kind) for repeats in (1, 5, 20) for kind in (TRAINED[i] for i in (0, 1, 3, 5, 7, 8))]
CHUNK = 100  # studies at a time


def independent(k: int, size: int | str, auc: float, tau: float, scale: str, n_studies: int, seed: int = 0) -> dict:
    """Coverage at independent sites; ``site`` is that of each site's own interval."""
    rng = np.random.default_rng(seed)
    sizes = _sizes(k, size)
    truth = _true_aucs(auc, tau, scale, rng.standard_normal((n_studies, len(sizes) + 1)))
    mean = _true_aucs(auc, tau, scale, ndtri((np.arange(4000) + 0.5) / 4000)).mean()
    found = np.stack([_measured(rng, truth[:, i], m, n) for i, (m, n) in enumerate(sizes)], axis=1)
    own = [
        (low <= truth[:, i]) & (truth[:, i] <= high)
        for i, (m, n) in enumerate(sizes[:5])
        for low, high in [site_intervals(found[:, i], np.full(n_studies, m), np.full(n_studies, n))]
    ]
    return {**_coverage(found, sizes, mean, truth[:, -1]), "site": np.mean(own)}


def small(design: str, auc: float, spread: float, n_studies: int) -> dict:
    """Coverage with sites of very few people."""
    return independent(0, design, auc, spread, "spread", n_studies)


def observed(k: int, size: int | str, auc: float, tau: float, n_studies: int, seed: int = 0) -> dict:
    """Coverage of 95 % forecasts at sites of `NEW`, of all their 80 % forecasts, and the mean width at 50 + 50 people.

    ``tau`` is that of the logit of the true AUC.
    """
    rng, sizes = np.random.default_rng(seed), _sizes(k, size)
    truth = _true_aucs(auc, tau, "logit", rng.standard_normal((n_studies, k + 1)))
    found = np.stack([_measured(rng, truth[:, i], m, n) for i, (m, n) in enumerate(sizes)], axis=1)
    seen = np.stack([_measured(rng, truth[:, -1], *new) for new in NEW], axis=1)[:, :, None]
    told = np.array([[observed_auc(areas, *sizes.T, *new) for new in NEW] for areas in found])  # (study, new, level, 2)
    inside = ((told[..., 0] <= seen) & (seen <= told[..., 1])).mean(axis=0)
    row = {f"{m} + {n}": share for (m, n), share in zip(NEW, inside[:, 1], strict=True)}
    width = np.ptp(told[:, NEW.index((50, 50)), 1], axis=-1).mean()
    return {**row, "80 %": inside[:, 0].mean(), "width": width}


def own(m: int, n: int, shape: str, auc: float, n_studies: int, seed: int = 0) -> dict:
    """Coverage and width of the interval of one site whose scores have some shape."""
    rng = np.random.default_rng(seed)
    cases, controls = _shaped(rng, shape, auc, (n_studies, m)), _shaped(rng, shape, None, (n_studies, n))
    truth = auc
    if shape.startswith("half"):
        rest = 2 * auc - 1  # AUC of those who are not certain
        cases = rng.standard_normal(cases.shape) + np.sqrt(2) * ndtri(rest)
        certain = cases if "cases" in shape else controls
        certain[rng.random(certain.shape) < 0.5] = 99 if "cases" in shape else -99
    if shape == "three levels":
        level = ndtr(np.array([-0.5, 0.5])[:, None] - np.array([0, np.sqrt(2) * ndtri(auc)]))
        of_controls, of_cases = np.diff(np.vstack([[0, 0], level, [1, 1]]), axis=0).T
        truth = of_cases @ (np.cumsum(of_controls) - of_controls / 2)
    found = ((cases[:, :, None] > controls[:, None]) + 0.5 * (cases[:, :, None] == controls[:, None])).mean(axis=(1, 2))
    low, high = site_intervals(found, np.full(n_studies, m), np.full(n_studies, n))
    return {"covers": np.mean((low <= truth) & (truth <= high)), "width": np.mean(high - low)}


def groups(k: int, people: int, auc: float, spread: float, n_studies: int, seed: int = 0) -> dict:
    """Coverage of a group's interval: so many people who are at k sites, and cases or not, by chance."""
    rng = np.random.default_rng(seed)
    truth = _true_aucs(auc, spread, "spread", rng.standard_normal((n_studies, k)))
    covers, width, n_without = [], [], 0
    for i in range(n_studies):
        counts = rng.multinomial(people, np.full(2 * k, 1 / (2 * k))).reshape(k, 2)
        both = counts.min(axis=1) > 0
        found = np.array([_measured(rng, truth[i, [j]], *counts[j])[0] for j in np.flatnonzero(both)])
        sizes = counts[both].astype(float)
        if refusal(found, *sizes.T):
            n_without += 1
            continue
        low, high = limits(found[None], *sizes.T)[:2, 0]
        covers.append(low <= auc <= high)
        width.append(high - low)
    given = (np.mean(covers), np.median(width)) if covers else (np.nan, np.nan)
    return {"covers": given[0], "width": given[1], "without": n_without / n_studies}


def trained(k: int, signal: float, tau: float, per_class: int, n_features: int, n_studies: int, seed: int = 0) -> dict:
    """Coverage where each site is scored by the class differences of all others."""
    others = _others(k)
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


def level(
    k: int, signal: float, tau: float, per_class: int | str, n_features: int, n_studies: int, seed: int = 0
) -> dict:
    """How often two methods that read different features of the same signal are called different at 5 %."""
    rng, sizes = np.random.default_rng(seed), _sizes(k, per_class)
    learned = _others(len(sizes))
    one, two = (
        np.concatenate([aucs for aucs, _ in _studies(rng, sizes, learned, signal, tau, n_features, n_studies)])
        for _ in range(2)
    )
    tested = [left_out_t(d, site_weights(*sizes.T)) for d in one - two]
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
    rng, sizes = np.random.default_rng(seed), _sizes(k, per_class)
    parts = list(_studies(rng, sizes, learned, signal, tau, n_features, n_studies))
    found, following = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    between = np.corrcoef(found.T)
    mean = 0.5 if signal == tau == 0 else found.mean()
    row = _coverage(found, sizes, mean, following)
    return {"correlation": (between.sum() - k) / (k * (k - 1)), **row}


def _studies(rng, sizes, learned, signal, tau, n_features, n_studies) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """AUCs (studies, k), averaged over repeats, and the true AUC of a next site, averaged over the models.

    Cases differ from controls by delta_s ~ N(delta, tau^2 I / n_features), ``|delta| = signal``, within unit noise.
    """
    k, delta = len(sizes), np.full(n_features, signal / np.sqrt(n_features))
    worth = (sizes.prod(axis=1) / sizes.sum(axis=1)).astype(np.float32)  # a class difference counts by its precision
    for _ in range(0, n_studies, CHUNK):
        own = delta + rng.normal(0, tau / np.sqrt(n_features), (CHUNK, k + 1, n_features))
        cases, controls = (
            [rng.standard_normal((CHUNK, n, n_features), dtype=np.float32) for n in column] for column in sizes.T
        )
        for s in range(k):
            cases[s] += own[:, s, None].astype(np.float32)
        gaps = np.stack([one.mean(axis=1) - two.mean(axis=1) for one, two in zip(cases, controls, strict=True)], axis=1)
        found, following = np.zeros((CHUNK, k)), np.zeros(CHUNK)
        for pattern in learned.astype(np.float32):
            models = np.einsum("ts,csf->ctf", pattern * worth, gaps)
            for s in range(k):
                scores = (np.matmul(people[s], models[:, s, :, None])[..., 0] for people in (cases, controls))
                found[:, s] += _aucs(*scores) / len(learned)
            everywhere = models
            if (pattern.sum(axis=1) == k - 1).all():
                everywhere = np.einsum("s,csf->cf", worth, gaps)[:, None]
            toward = (own[:, -1:] * everywhere).sum(axis=2) / np.linalg.norm(everywhere, axis=2)
            following += ndtr(toward / np.sqrt(2)).mean(axis=1) / len(learned)
        yield found, following


def _others(k: int) -> np.ndarray:
    """Each site is scored by a model of all others, as one pattern [repeat, tested site, training site]."""
    return np.ones((1, k, k), dtype=bool) & ~np.eye(k, dtype=bool)


def _sizes(k: int, size: int | str) -> np.ndarray:
    """Cases and controls of each site (k, 2); a design with small sites has its own number of sites."""
    if size == "58 of 1-6":
        return np.random.default_rng(0).integers(1, 7, (58, 2))
    if isinstance(size, str) and size.endswith("small"):
        full, few = int(size.split()[0]), int(size.split()[-2])
        return np.vstack([np.full((full, 2), 20), TINY[:few]])
    return np.resize(MIXED, (k, 2)) if size == "3-40" else np.full((k, 2), size)


def _shaped(rng: np.random.Generator, shape: str, auc: float | None, size: tuple[int, int]) -> np.ndarray:
    """Scores of controls (no AUC) or of cases with this AUC."""
    z = rng.standard_normal(size)
    if auc is not None:
        spread = {"cases wide": 3, "cases narrow": 1 / 3}.get(shape, 1)
        z = spread * z + np.sqrt(1 + spread**2) * ndtri(auc)
    return np.clip(np.round(z), -1, 1) if shape == "three levels" else z


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
    if scale == "spread":  # mean and standard deviation of the true AUC, itself probit-normal
        nodes = ndtri((np.arange(2000) + 0.5) / 2000)

        def aucs(t: float, z: np.ndarray) -> np.ndarray:
            return ndtr(ndtri(auc) * np.sqrt(1 + t**2) + t * z)

        return aucs(brentq(lambda t: aucs(t, nodes).std() - tau, 0, 5) if tau else 0.0, z)
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
    parser.add_argument("part", choices=("sites", "small", "observed", "own", "groups", "trained", "halves", "paired"))
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--sites", type=int, nargs="*")
    options = parser.parse_args()
    n, sites = options.studies, options.sites
    print(f"{n} studies a row; simulation error of 0.95: {np.sqrt(0.95 * 0.05 / n):.3f}\n")
    people = ("signal", "tau", "per class", "features")
    if options.part == "sites":
        keys = [(k, *kind) for k in sites or SITES for kind in KINDS]
        _print(("sites", "per class", "AUC", "tau", "scale"), keys, lambda *key: independent(*key, n))
    elif options.part == "small":
        keys = [(design, auc, spread) for design in SMALL for auc in (0.5, 0.7, 0.9) for spread in (0.0, 0.1)]
        _print(("sites", "AUC", "spread"), keys, lambda *key: small(*key, n))
    elif options.part == "observed":
        sizes = (10, "3-40", 100)
        keys = [(k, size, 0.75, tau) for k in sites or (4, 6, 10, 20) for size in sizes for tau in (0.0, 0.2, 0.4)]
        _print(("sites", "per class", "AUC", "tau"), keys, lambda *key: observed(*key, n))
    elif options.part == "own":
        sizes = ((5, 45), (45, 5), (5, 5), (10, 40), (20, 20), (60, 60))
        keys = [(*size, shape, auc) for size in sizes for shape in SHAPES for auc in (0.6, 0.75, 0.9, 0.97)]
        keys = [key for key in keys if not (key[2].startswith("half") and key[3] < 0.75)]
        _print(("cases", "controls", "scores", "AUC"), keys, lambda *key: own(*key, n))
    elif options.part == "groups":
        keys = [
            (k, people, auc, spread)
            for k in sites or (2, 3, 6, 12, 20)
            for people in (10, 22, 60, 200)
            for auc in (0.5, 0.7, 0.9)
            for spread in (0.0, 0.1)
        ]
        _print(("sites", "people", "AUC", "spread"), keys, lambda *key: groups(*key, n))
    elif options.part == "trained":
        keys = [(k, *kind) for k in sites or (5, 10, 20) for kind in TRAINED]
        _print(("sites", *people), keys, lambda *key: trained(*key, n))
    elif options.part == "halves":
        keys = [(k, *kind) for k in sites or (4, 6, 10, 20) for kind in HALVES]
        _print(("sites", "repeats", *people), keys, lambda *key: halves(*key, n))
    else:
        keys = [(k, *kind) for k in sites or (4, 6, 10, 20) for kind in TRAINED]
        keys += [(0, *kind[:2], design, *kind[3:]) for design in SMALL[2:] for kind in TRAINED[::2]]
        _print(("sites", *people), keys, lambda *key: level(*key, n))
        print("\nIndependent sites:\n")
        keys = [(k, tau, gap) for k in sites or (6, 10, 20) for tau, gap in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.4))]
        _print(("sites", "tau", "gap of logit AUC"), keys, lambda *key: power(*key, n))


if __name__ == "__main__":
    main()
