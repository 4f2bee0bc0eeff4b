"""Where the gated network pays: cases of several subtypes, each with its own pathways.

    python scripts/gate_map.py [--seeds 2] [--out gate_map.csv]

`make_cohort(subtypes=K)` gives a case the effect on the pathways of one of K subtypes only, so a linear reading, which
has one weight per pathway, cannot follow it; a gate that opens the pathways of the person can. For each number of
sites, people per site and subtypes this prints the mean AUC at four sites never seen of

    linear     core[epochs=0], the linear reading
    network    the gated network alone, trained for a fixed number of epochs (skip="none")
    ungated    the same network with every gate open

The effect grows with the subtypes (1, 1.5, 2), so that the linear reading does not fall to chance.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.methods.core import Core

EFFECTS = {1: 1.0, 2: 1.5, 4: 2.0}
TEST_SITES = 4
SHARED = {"inner_sites": 1, "tau_percentile": 70, "profiles": False, "learning_rate": 3e-3}
TRAINED = {"skip": "none", "epochs": 60}
MODELS = {"linear": {"epochs": 0}, "network": TRAINED, "ungated": TRAINED | {"gated": False}}


def main() -> None:
    """Print one line per cell, averaged over seeds, and keep all of them."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("gate_map.csv"))
    given = parser.parse_args()
    rows = []
    print("| sites | people per site | subtypes | linear | ungated | network | network - linear |")
    print("|---|---|---|---|---|---|---|")
    for subtypes, sites, people in product(EFFECTS, (4, 8, 16), (20, 60)):
        cells = [cell(subtypes, sites, people, seed) for seed in range(given.seeds)]
        mean = pd.DataFrame(cells).mean()
        shown = " | ".join(f"{100 * mean[name]:.1f}" for name in ("linear", "ungated", "network"))
        print(f"| {sites} | {people} | {subtypes} | {shown} | {100 * (mean.network - mean.linear):+.1f} |", flush=True)
        rows += [{"sites": sites, "people": people, "subtypes": subtypes, **found} for found in cells]
        pd.DataFrame(rows).to_csv(given.out, index=False)


def cell(subtypes: int, sites: int, people: int, seed: int) -> dict[str, float]:
    """AUC of every model on one cohort."""
    cohort = brainroam.make_cohort(
        n_sites=sites + TEST_SITES,
        n_per_site=people,
        n_rois=24,
        subtypes=subtypes,
        effect=EFFECTS[subtypes],
        seed=seed,
    )
    unseen = np.isin(cohort.table["site"], cohort.sites[sites:])
    train, test = cohort.subset(~unseen), cohort.subset(unseen)
    return {name: mean_auc(Core(**SHARED, **model).fit(train, seed), test) for name, model in MODELS.items()}


def mean_auc(model: Core, people: Cohort) -> float:
    """Mean over sites."""
    score, site = model.score(people), people.table["site"].to_numpy()
    return float(np.mean([roc_auc_score(people.labels[site == name], score[site == name]) for name in people.sites]))


if __name__ == "__main__":
    main()
