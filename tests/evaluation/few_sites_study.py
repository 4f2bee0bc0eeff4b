"""Four to eight sites: do the intervals of the mean and of the next site cover, and how wide are they?

    python -m tests.evaluation.few_sites_study [--studies 150]

Made-up people of sites with their own sizes, effects and patterns, read by a ridge that is trained on the other sites,
as a study does; so sites depend on one another as they do there. The mean is held against that of all studies of a
design, the next site against the true AUC of the model of all sites at one more. Beside today's prior on how much sites
differ (`verdict.USUAL`) stand none and others.
"""

import argparse

import numpy as np

from brainroam.data.target.order import auc
from brainroam.evaluation.stats import verdict

FEATURES, NEXT = 150, 600  # numbers of a person, and people of the next site
WORLDS = ((0.0, 0.0), (1.5, 0.3), (2.2, 0.8), (3.5, 0.6))  # size of the effect, and how much its pattern differs
PRIORS = {"none": 100.0, "today": verdict.USUAL, "0.35": 0.35}


def ridge(x: np.ndarray, y: np.ndarray, site: np.ndarray) -> np.ndarray:
    """Weights of a ridge on features without the means of their sites."""
    x = x - np.stack([x[site == name].mean(axis=0) for name in site])
    kernel = x @ x.T
    kernel += np.trace(kernel) / len(kernel) * np.eye(len(kernel))
    target = 2.0 * y - 1
    return x.T @ np.linalg.solve(kernel, target - target.mean())


def draw_study(rng: np.random.Generator, k: int, n: int, effect: float, apart: float) -> tuple[np.ndarray, float]:
    """AUC, cases and controls of each left-out site (3, k), and the AUC at the next."""
    pattern = rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    sites = []
    for people in [*(max(8, int(n * size)) for size in rng.lognormal(0, 0.35, k)), NEXT]:
        y = np.arange(people) % 2
        own = pattern + apart * rng.normal(size=FEATURES) / np.sqrt(FEATURES)
        shift = effect * np.exp(0.25 * rng.normal()) * own
        sites.append((rng.normal(size=(people, FEATURES)) + np.outer(y, shift) + 0.3 * rng.normal(size=FEATURES), y))

    def trained(on: list[int]) -> np.ndarray:
        x, y = (np.concatenate([sites[e][part] for e in on]) for part in (0, 1))
        return ridge(x, y, np.repeat(on, [len(sites[e][1]) for e in on]))

    rows = []
    for e in range(k):
        x, y = sites[e]
        rows.append((auc(y, x @ trained([other for other in range(k) if other != e])), y.sum(), (1 - y).sum()))
    x, y = sites[k]
    return np.transpose(rows), auc(y, x @ trained(list(range(k))))


def main() -> None:
    """A line for each design."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=150)
    studies, rng = parser.parse_args().studies, np.random.default_rng(1)
    for k, n, (effect, apart) in [(k, n, world) for k in (4, 6, 8) for n in (20, 40) for world in WORLDS]:
        drawn = [draw_study(rng, k, n, effect, apart) for _ in range(studies)]
        truth = np.mean([np.average(a, weights=np.minimum(cases, controls)) for (a, cases, controls), _ in drawn])
        text = f"{k} sites of {n}, mean AUC {truth:.2f}:"
        for name, prior in PRIORS.items():
            verdict.USUAL = prior
            found = [(verdict.verdict(*rows), following) for rows, following in drawn]
            told = [(one, following) for one, following in found if np.isfinite(one.next_low)]
            mean = np.mean([one.low <= truth <= one.high for one, _ in told])
            covers = np.mean([one.next_low <= following <= one.next_high for one, following in told])
            wide = np.mean([one.high - one.low for one, _ in told])
            wide_next = np.mean([one.next_high - one.next_low for one, _ in told])
            text += f"  {name}: mean {mean:.2f} (width {wide:.2f}), next {covers:.2f} ({wide_next:.2f})"
        print(text, flush=True)


if __name__ == "__main__":
    main()
