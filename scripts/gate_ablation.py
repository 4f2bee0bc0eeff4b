"""What each part of the gated network is worth where the network matters.

    python scripts/gate_ablation.py [--seeds 801,802,803]

Trains the network alone on cohorts of `gate_map.py` and takes one part away at a time (profiles are added: the default
has none). Prints, for each design, the mean AUC of the whole network at unseen sites, and the difference without each
part, in points; the last line has the mean over all cohorts with its 95 % interval, paired by cohort.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from common import parser_of
from gate_map import mean_auc, training_and_unseen
from scipy.stats import t

from brainroam.core import gate
from brainroam.core.choice import Choice
from brainroam.core.model import CoreModel, Decision
from brainroam.core.recipe import OURS

DESIGNS = (
    ("1 subtype", 0.6, 8, 20),
    ("2 subtypes", 1.0, 8, 20),
    ("2 subtypes", 1.5, 8, 60),
    ("4 subtypes", 1.4, 8, 60),
    ("4 subtypes", 2.0, 16, 20),
    ("trait", 1.2, 8, 60),
)
PARTS = {
    "prior guidance": {"prior_strength": 0.0},
    "gates": {"gated": False},
    "propagation": {},
    "deconfounding by site": {"deconfounding": "pooled"},
    "profiles (added)": {"profiles": True},
    "episodes of other sites": {"train": "joint"},
    "joint episode": {"train": "episodic"},
}


class NetworkAlone(CoreModel):
    """CORE's network, trained on all sites and not judged."""

    def _judge(self, best):
        return Decision(Choice(1.0), np.full(len(best.scores), np.nan), {"network": 1.0})


@contextmanager
def without_propagation() -> Iterator[None]:
    """Messages between pathways are zero."""
    usual, gate.propagate = gate.propagate, lambda _, nodes: torch.zeros_like(nodes)
    try:
        yield
    finally:
        gate.propagate = usual


def main() -> None:
    """Print one line per design and the mean of all."""
    warnings.simplefilter("ignore")
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default="801,802,803")
    seeds, rows = parser.parse_args().seeds, []
    print(f"| cases | effect | sites | people per site | network | {' | '.join(PARTS)} |")
    print("|" + "---|" * (5 + len(PARTS)))
    for design in DESIGNS:
        found = pd.DataFrame([changes(*design, seed) for seed in seeds])
        whole, *lost = found.mean()
        told = " | ".join(f"{value:+.1f}" for value in lost)
        print(f"| {' | '.join(map(str, design))} | {whole:.1f} | {told} |", flush=True)
        rows.append(found)
    every = pd.concat(rows).drop(columns="network")
    width = t.ppf(0.975, len(every) - 1) * every.std() / np.sqrt(len(every))
    told = " | ".join(f"{every[part].mean():+.1f} ± {width[part]:.1f}" for part in every)
    print(f"| all | | | | | {told} |")


def changes(cases: str, effect: float, sites: int, people: int, seed: int) -> dict[str, float]:
    """AUC of the network, and what it changes by without each part, in points."""
    train, test = training_and_unseen(cases, effect, sites, people, seed)

    def network(settings: dict) -> float:
        clf = NetworkAlone(replace(OURS, **settings), seed=seed).fit(train, train.covariates())
        return 100 * mean_auc(test, clf.score(test, test.covariates()))

    whole = network({})
    lost = {part: network(settings) - whole for part, settings in PARTS.items() if settings}
    with without_propagation():
        lost["propagation"] = network({}) - whole
    return {"network": whole} | {part: lost[part] for part in PARTS}


if __name__ == "__main__":
    main()
