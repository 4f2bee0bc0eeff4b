"""Whether `core` finds out if its network is worth believing where the target is a number.

    python scripts/gate_number.py [--seeds 901,902,903]

Sites and people are those of `make_cohort`; their number is made of their own edges, z within sites, and of noise with
half the spread of that:

    few edges     the sum of 8 edges
    all edges     a sum of all edges with weights drawn once
    two kinds     the sum of one set of 8 edges for half of the people and of another for the others; who is of which
                  kind shows in a third set

and its level differs between sites. For each design it prints the mean correlation within six sites of 60 people never
seen, of the linear reading, of the network alone and of what `core` decides, from one fit; as in `gate_map.py`. The
last line is the mean of core minus linear over all cohorts, its standard error, and the worst cohort.
"""

import argparse
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from gate_map import Both

import brainroam
from brainroam.core.choice import Choice
from brainroam.core.connectivity import edges
from brainroam.data.cohort import Cohort
from brainroam.data.target.order import mean_order
from brainroam.data.target_column import with_target

KINDS = ("few edges", "all edges", "two kinds")
SIZES = ((4, 40), (8, 20), (8, 60))  # training sites, people of each
TEST_SITES, TEST_PEOPLE = 6, 60
SHOWN = ["linear", "network", "core"]


def main() -> None:
    """Print one line per design, averaged over seeds, and what all cohorts say."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default="901,902,903")
    seeds, rows = parser.parse_args().seeds, []
    print("| number | sites | people per site | linear | network | core | share | core minus linear |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        for sites, people in SIZES:
            found = pd.DataFrame([readings(kind, sites, people, seed) for seed in seeds])
            mean = found.mean()
            told = " | ".join(f"{mean[name]:.3f}" for name in SHOWN)
            gained = f"{mean['core'] - mean['linear']:+.3f}"
            print(f"| {kind} | {sites} | {people} | {told} | {mean['share']:.2f} | {gained} |", flush=True)
            rows.append(found["core"] - found["linear"])
    every = pd.concat(rows)
    print(f"core minus linear: {every.mean():+.3f}, standard error {every.sem():.3f}, worst cohort {every.min():+.3f}")


def made_up(kind: str, sites: int, seed: int) -> Cohort:
    """People of training sites and of those never seen, with their number."""
    made = brainroam.make_cohort(n_sites=sites + TEST_SITES, n_per_site=TEST_PEOPLE, n_rois=24, effect=0.0, seed=seed)
    rng, site = np.random.default_rng(seed), made.table["site"].to_numpy()
    table = pd.DataFrame(edges(made.series)).groupby(site)
    x = ((pd.DataFrame(edges(made.series)) - table.transform("mean")) / table.transform("std")).to_numpy()
    one, other, marker = rng.permutation(x.shape[1])[:24].reshape(3, 8)
    if kind == "few edges":
        signal = x[:, one].sum(axis=1)
    elif kind == "all edges":
        signal = x @ rng.normal(size=x.shape[1])
    else:
        signal = np.where(x[:, marker].sum(axis=1) > 0, x[:, one].sum(axis=1), x[:, other].sum(axis=1))
    level = pd.Series(site).map({name: rng.normal() for name in made.sites}).to_numpy()
    number = signal / signal.std() + 0.5 * rng.normal(size=len(x)) + level
    return with_target(made.with_columns(pd.DataFrame({"score": number})), "score:number")


def readings(kind: str, sites: int, people: int, seed: int) -> dict[str, float]:
    """Mean correlation within unseen sites by every reading, and how far the network is believed."""
    cohort = made_up(kind, sites, seed)
    unseen = np.isin(cohort.table["site"], cohort.sites[sites:])
    first = (cohort.table.groupby("site").cumcount() < people).to_numpy()
    train, test = cohort.subset(~unseen & first), cohort.subset(unseen)
    model = Both(seed=seed).fit(train, train.covariates())
    nodes, place = model.nodes(test, test.covariates()), test.table["site"].to_numpy()
    choices = {"linear": Choice(0.0), "network": Choice(1.0), "core": model.decided_}
    scores = {name: replace(model.reading_, choice=choice).logits(nodes) for name, choice in choices.items()}
    found = {name: float(mean_order(test.targets, place, score)) for name, score in scores.items()}
    return found | {"share": model.decided_.share}


if __name__ == "__main__":
    main()
