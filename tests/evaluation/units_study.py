"""Does it hold that the person is the unit, and the institution?

    python tests/evaluation/units_study.py {scans,institutions} [--studies 400]

scans         meaningless labels, several scans of each person: how often p of `brainroam audit` is at most .05, and
              how often a site's own interval holds the true AUC of a person's mean score
institutions  sites of few institutions, whose true AUCs differ between institutions (tau) and between the sites of one
              (within): how often the intervals hold the mean, and the true AUC of a site of one more institution
"""

import argparse

import numpy as np
import pandas as pd
from coverage_study import CHUNK, _measured, _print
from scipy.special import ndtr, ndtri

from brainroam.audit.candidates import ProcedureCandidate
from brainroam.audit.shortcuts import mean_order, permuted_within_site
from brainroam.core.connectivity import pearson_edges
from brainroam.data.cohort import Cohort
from brainroam.data.target import TWO_CLASSES
from brainroam.evaluation.stats.site_scores import SiteScores, gather
from brainroam.evaluation.stats.verdict import limits, site_intervals

PERMUTATIONS = 19
LAYOUTS = ("4+4+4", "8+2+2", "3+3+3+3", "6+3+2+1", "4+3+2+2+1", "12+4+4", "5+5+5+5", "4+4+4+4+4", "10+4+3+2+1")
KINDS = ((0.7, 0.0, 0.0), (0.7, 0.3, 0.0), (0.7, 0.3, 0.2), (0.7, 0.1, 0.4), (0.9, 0.3, 0.1), (0.5, 0.2, 0.2))


def scanned(rng: np.random.Generator, n_scans: int, n_sites: int = 5, per_site: int = 10, n_rois: int = 8) -> Cohort:
    """People with a connectivity of their own, scanned several times, with labels that mean nothing."""
    n, series = n_sites * per_site, []
    for own in rng.normal(size=(n, n_rois, n_rois)):
        series += [rng.normal(size=(60, n_rois)) @ (np.eye(n_rois) + 0.5 * own) for _ in range(n_scans)]
    person = np.repeat(np.arange(n), n_scans)
    label = np.concatenate([rng.permutation(np.arange(per_site) % 2) for _ in range(n_sites)])
    table = {"subject": [f"p{i}-{k}" for k, i in enumerate(person)], "person": [f"p{i}" for i in person]}
    return Cohort(
        series, pd.DataFrame({**table, "site": [f"S{i // per_site}" for i in person], "label": label[person]})
    )


def class_difference(cohort: Cohort, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """Edges along the difference of the classes."""
    edges = cohort.per_person("pearson", pearson_edges)
    cases, controls = (edges[train][cohort.labels[train] == c].mean(axis=0) for c in (1, 0))
    return edges[test] @ (cases - controls)


def null_p(n_scans: int, seed: int) -> float:
    """The permutation p of one cohort with meaningless labels."""
    cohort, method = scanned(np.random.default_rng([n_scans, seed]), n_scans), ProcedureCandidate(class_difference)
    real = mean_order(method, cohort)
    shuffled = [mean_order(method, permuted_within_site(cohort, k)) for k in range(PERMUTATIONS)]
    return (1 + sum(value >= real for value in shuffled)) / (PERMUTATIONS + 1)


def own_intervals(n_scans: int, per_class: int, auc: float, n_sites: int, seed: int = 0) -> float:
    """How often a site's interval holds its true AUC; half of the variance of a scan's score is the person's."""
    rng = np.random.default_rng(seed)
    label = np.tile(np.repeat([0, 1], per_class), n_sites)
    spread = np.sqrt(0.5 + 0.5 / n_scans)  # of a mean over scans
    person = np.sqrt(0.5) * rng.normal(size=len(label)) + spread * np.sqrt(2) * ndtri(auc) * label
    scans = np.repeat(np.arange(len(label)), n_scans)
    rows = pd.DataFrame({"person": scans.astype(str), "label": label[scans], "site": scans // (2 * per_class)})
    rows["score"] = person[scans] + np.sqrt(0.5) * rng.normal(size=len(scans))
    found = gather(rows.assign(subject=rows.index.astype(str), method="m", protocol="loso", seed=0), "loso")
    low, high = site_intervals(found.values[:, 0], *found.counts.T[::-1])
    return float(np.mean((low <= auc) & (auc <= high)))


def institutions(layout: str, auc: float, tau: float, within: float, n_studies: int, seed: int = 0) -> dict[str, float]:
    """Coverage with the institutions given, and of the mean and the next site when sites are taken as independent."""
    rng = np.random.default_rng(seed)
    house = np.repeat(np.arange(layout.count("+") + 1), [int(n) for n in layout.split("+")])
    k, sizes = len(house), np.resize([[20, 20], [12, 15], [30, 25]], (len(house), 2))
    centre = ndtri(auc) + tau * rng.standard_normal((n_studies, house.max() + 2))
    probit = centre[:, [*house, house.max() + 1]] + within * rng.standard_normal((n_studies, k + 1))
    mean, following = ndtr(ndtri(auc) / np.sqrt(1 + tau**2 + within**2)), ndtr(probit[:, -1])
    found = np.stack([_measured(rng, ndtr(probit[:, i]), m, n) for i, (m, n) in enumerate(sizes)])
    names = [f"S{i:02}" for i in range(k)]
    counts = np.ones((k, n_studies), dtype=int)
    houses, parts = [f"H{h}" for h in house], np.zeros((k, n_studies, 0))
    sites = SiteScores("loso", TWO_CLASSES, [], names, [], sizes[:, ::-1], found, parts, counts, 0.1, houses, "site")
    (low, high, next_low, next_high), own = _limits(sites.by_institution()), _limits(sites)
    next_low, next_high = np.minimum(next_low, own[2]), np.maximum(next_high, own[3])
    return {
        "mean": np.mean((low <= mean) & (mean <= high)),
        "width": np.median(high - low),
        "next": np.mean((next_low <= following) & (following <= next_high)),
        "next width": np.median(next_high - next_low),
        "mean, sites": np.mean((own[0] <= mean) & (mean <= own[1])),
        "next, sites": np.mean((own[2] <= following) & (following <= own[3])),
    }


def _limits(scores: SiteScores) -> np.ndarray:
    parts = np.array_split(scores.values.T, max(scores.values.shape[1] // CHUNK, 1))
    return np.concatenate([limits(part, *scores.counts.T[::-1]) for part in parts], axis=1)[:4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("scans", "institutions"))
    parser.add_argument("--studies", type=int, default=400)
    options = parser.parse_args()
    if options.part == "scans":
        print("| scans each | p <= .05 | site's interval covers, AUC .5 | .7 | .9 |\n|---|---|---|---|---|")
        for n_scans in (1, 3, 5):
            p = np.array([null_p(n_scans, seed) for seed in range(options.studies)])
            covers = [own_intervals(n_scans, 10, auc, 1000) for auc in (0.5, 0.7, 0.9)]
            print(
                f"| {n_scans} | {(p <= 0.05).mean():.3f} | " + " | ".join(f"{x:.3f}" for x in covers) + " |", flush=True
            )
        return
    keys = [(layout, *kind) for layout in LAYOUTS for kind in KINDS]
    _print(("sites", "AUC", "tau", "within"), keys, lambda *key: institutions(*key, options.studies))


if __name__ == "__main__":
    main()
