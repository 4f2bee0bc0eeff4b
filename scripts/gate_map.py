"""Where the gated network pays, and whether `core` finds out.

    python scripts/gate_map.py [--seeds 701,702,703] [--sites 4,8,16] [--people 20,60] [--out gate_map.csv]

Two generators. `make_cohort(subtypes=K)` gives a case the effect on the pathways of one of K subtypes only;
`make_cohort(trait=1)` gives it to two sets of pathways, (1 - t) and t of it, where t is a trait of the person. A linear
reading has one weight per pathway for everybody and cannot follow either; a gate that opens the pathways of the person
can. For each design, with a small and a large effect, it prints the mean AUC at eight sites of 60 people never seen of

    linear     the linear reading, core[epochs=0]
    network    the gated network alone, core[skip="none"]
    core       what `core` decides on its training sites
    share      how far it believes the network, from 0 to 1
    regret     core minus the better of the two, in the mean over seeds

all three by the defaults and from one fit. The last lines are the worst and the mean regret, and the worst loss against
the linear reading.
"""

import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import parser_of

import brainroam
from brainroam.core.choice import Choice
from brainroam.core.model import CoreModel
from brainroam.data.cohort import Cohort
from brainroam.data.target.order import auc

EFFECTS = {"1 subtype": (0.6, 1.0), "2 subtypes": (1.0, 1.5), "4 subtypes": (1.4, 2.0), "trait": (1.2, 2.0)}
GENERATORS: dict[str, dict[str, Any]] = {
    "1 subtype": {"subtypes": 1},
    "2 subtypes": {"subtypes": 2},
    "4 subtypes": {"subtypes": 4},
    "trait": {"trait": 1.0},
}
TEST_SITES, TEST_PEOPLE = 8, 60
SHOWN = ["linear", "network", "core"]


class Both(CoreModel):
    """CORE that trains its network on all sites also where it is not believed."""

    def _finish(self, folds, choice):
        self.decided_ = choice
        super()._finish(folds, replace(choice, share=0.5))


def main() -> None:
    """Print one line per design, averaged over seeds, and keep every cohort's figures."""
    warnings.simplefilter("ignore")
    parser = parser_of(__doc__)
    for name, usual in (("seeds", "701,702,703"), ("sites", "4,8,16"), ("people", "20,60")):
        parser.add_argument(f"--{name}", type=lambda text: [int(word) for word in text.split(",")], default=usual)
    parser.add_argument("--out", type=Path, default=Path("gate_map.csv"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("| cases | effect | sites | people per site | linear | network | core | share | regret |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, sites, people in product(GENERATORS, given.sites, given.people):
        for effect in EFFECTS[kind]:
            design = {"cases": kind, "effect": effect, "sites": sites, "people": people}
            found = [{**design, "seed": seed, **cell(seed=seed, **design)} for seed in given.seeds]
            mean = pd.DataFrame(found)[[*SHOWN, "share"]].mean()
            shown = " | ".join(f"{100 * mean[name]:.1f}" for name in SHOWN)
            told = f"{shown} | {mean.share:.2f} | {regret(mean):+.1f}"
            print(f"| {kind} | {effect} | {sites} | {people} | {told} |", flush=True)
            rows += found
            pd.DataFrame(rows).to_csv(given.out, index=False)
    means = pd.DataFrame(rows).groupby(["cases", "effect", "sites", "people"])[SHOWN].mean()
    lost = [regret(design) for _, design in means.iterrows()]
    below = 100 * (means["core"] - means["linear"]).min()
    print(f"regret: worst {min(lost):+.1f}, mean {np.mean(lost):+.1f}; core minus linear at its worst {below:+.1f}")


def regret(mean: pd.Series) -> float:
    """core minus the better of its two readings, in points."""
    return 100 * (mean["core"] - max(mean["linear"], mean["network"]))


def training_and_unseen(cases: str, effect: float, sites: int, people: int, seed: int) -> tuple[Cohort, Cohort]:
    """A made-up cohort: so many training people of each training site, and everybody of the sites never seen."""
    cohort = brainroam.make_cohort(
        n_sites=sites + TEST_SITES, n_per_site=TEST_PEOPLE, n_rois=24, effect=effect, seed=seed, **GENERATORS[cases]
    )
    unseen = np.isin(cohort.table["site"], cohort.sites[sites:])
    first = (cohort.table.groupby("site").cumcount() < people).to_numpy()
    return cohort.subset(~unseen & first), cohort.subset(unseen)


def cell(cases: str, effect: float, sites: int, people: int, seed: int) -> dict[str, float]:
    """AUC of every reading on one cohort, and what was decided."""
    return readings(*training_and_unseen(cases, effect, sites, people, seed), seed)


def readings(train: Cohort, test: Cohort, seed: int) -> dict[str, float]:
    """AUC of every reading at unseen sites, and what was decided at the training sites."""
    clf = Both(seed=seed).fit(train, train.covariates())
    nodes = clf.nodes(test, test.covariates())
    choices = {"linear": Choice(0.0), "network": Choice(1.0), "core": clf.decided_}
    scores = {name: replace(clf.reading_, choice=choice).logits(nodes) for name, choice in choices.items()}
    aucs = {name: mean_auc(test, score) for name, score in scores.items()}
    return {**aucs, "share": clf.decided_.share, "gain": clf.decided_.gain, "gain_error": clf.decided_.error}


def mean_auc(test: brainroam.Cohort, score: np.ndarray) -> float:
    """Mean over sites."""
    site = test.table["site"].to_numpy()
    return float(np.mean([auc(test.labels[site == one], score[site == one]) for one in test.sites]))


if __name__ == "__main__":
    main()
