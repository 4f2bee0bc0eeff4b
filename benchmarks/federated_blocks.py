"""What weights of blocks across hospitals cost: pooled models against the same people in one place.

Made-up people of six hospitals, 40 each, with edges of 14 regions and a table; both are read at three hospitals never
seen. Printed is the mean AUC there, over cohorts: all people in one place (weights by least squares), the pool (weights
that take blocks to go together through the diagnosis only), equal shares, and the better block alone; before these how
far the scores of the two blocks go together among people of one class.

    python benchmarks/federated_blocks.py --cohorts 12
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.execution.federation import Pool, answer
from brainroam.execution.federation.files import REQUEST, read_message
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method
from brainroam.methods.tuning import TunedMethod

SETTINGS = {"epochs": 0, "tau_percentile": (80,)}
#: Effect of the diagnosis on the table, and how much the table repeats what edges err by.
CASES = {"both speak": (0.35, 0.0), "both, and err together": (0.35, 1.0), "table is noise": (0.0, 0.0)}


def people(effect: float, shared: float, seed: int) -> Cohort:
    """Nine sites of people with two blocks."""
    cohort = brainroam.make_cohort(n_sites=9, n_per_site=40, n_rois=14, seed=seed).using([])
    rng, y = np.random.default_rng(seed), cohort.labels
    place = pd.factorize(cohort.table["site"])[0]
    values = rng.normal(size=(len(y), 30)) + rng.normal(size=(9, 30))[place]
    values[:, :8] += effect * y[:, None]
    if shared:
        score = TunedMethod(method_info("core"), "default", **SETTINGS).fit(cohort).score(cohort)
        score = score - pd.Series(score).groupby([place, y]).transform("mean").to_numpy()
        values[:, :8] += shared * (score / score.std())[:, None]
    table = Cohort(list((5 + values)[:, None]), cohort.table, measure="table", covariates=())
    return cohort.with_block("table", table, "edges")


def pooled(cohort: Cohort, folder: Path) -> TunedMethod:
    """The model of three rounds."""
    for number in (1, 2, 3):
        request = None if number == 1 else read_message(folder / "pool" / "request", REQUEST)
        files = [answer(cohort.select([s]), request).write(folder / f"{s}-{number}") for s in cohort.sites]
        pool = Pool(folder / "pool")
        pool.receive(files)
        pool.advance()
    return load_method(folder / "pool" / "model", cohort)[0]


def aucs(cohort: Cohort) -> dict[str, float]:
    """Mean AUC at the last three sites by each way to weigh."""
    train, new = cohort.select(cohort.sites[:6]), cohort.select(cohort.sites[6:])
    with tempfile.TemporaryDirectory() as folder:
        pool = pooled(train, Path(folder))
    central = TunedMethod(method_info("core"), "default", **SETTINGS).fit(train)
    site = new.table["site"].to_numpy()

    def auc(score: np.ndarray) -> float:
        return float(np.mean([roc_auc_score(new.labels[site == s], score[site == s]) for s in new.sites]))

    alone = [member.score(new.block(name)) for name, member in central.model_.members.items()]
    within = [score - pd.Series(score).groupby([site, new.labels]).transform("mean").to_numpy() for score in alone]
    return {
        "correlation of the scores within class": float(np.corrcoef(*within)[0, 1]),
        "one place": auc(central.score(new)),
        "pool": auc(pool.score(new)),
        "equal shares": auc(sum(score / score.std() for score in alone)),
        "better block": max(map(auc, alone)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=12)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, (effect, shared) in CASES.items():
        found = pd.DataFrame([aucs(people(effect, shared, seed)) for seed in range(asked.cohorts)])
        lost = 100 * (found["pool"] - found["one place"])
        shown = ", ".join(f"{key} {100 * value:.1f}" for key, value in found.mean().items())  # in points of 100
        print(f"{name}: {shown}; pool minus one place {lost.mean():+.2f} (s.e. {lost.sem():.2f})", flush=True)


if __name__ == "__main__":
    main()
