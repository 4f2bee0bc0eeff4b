"""Can averaged small networks improve the linear reading of `core` at a site never seen?

    python scripts/network_average.py ABIDE_pcp --atlas aal --sites NYU,UM_1 --networks 5 --epochs 10 --out curve.csv

For each held-out site, ``--networks`` gated networks of 8 hidden units, each from its own seed, are trained on the
out-of-site residual of the linear reading: they start as that reading (skip connection), and every training site is
read on pathways and weights that the other sites gave. After every epoch t this prints the AUC at the held-out site of

    last       the mean logit of the networks after t epochs
    averaged   the same, with each network's weights averaged over epochs 1 to t

for every t, so that nothing is chosen there; t = 0 is the linear reading.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

import brainroam
from brainroam import CoreClassifier
from brainroam.core.episodes import predict_logits
from brainroam.core.training import build_network, training_epochs


class Opened(CoreClassifier):
    """CORE that keeps its site folds, so that further networks can be trained on them."""

    def _finish(self, folds, choice, y, site):
        self.folds_ = folds
        return super()._finish(folds, choice, y, site)


def main() -> None:
    """One line per held-out site and epoch."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--sites", default="")
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("network_average.csv"))
    given = parser.parse_args()
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    rows = []
    for name in given.sites.split(",") if given.sites else sorted(set(cohort.table["site"])):
        rows += curve(cohort, name, given.networks, given.epochs)
        table = pd.DataFrame(rows)
        table.to_csv(given.out, index=False)
        print(table[table.site == name].round(4).to_string(index=False), flush=True)
    print(table.drop(columns="site").groupby("epoch").mean().round(4))


def curve(cohort, held_out: str, networks: int, epochs: int) -> list[dict]:
    """AUC at one site after every epoch."""
    there = (cohort.table["site"] == held_out).to_numpy()
    covariates = cohort.table[["age", "sex"]]
    train, test = cohort.subset(~there), cohort.subset(there)
    model = Opened(epochs=1, inner_sites=1, hidden=8)
    model.fit_cohort(train, covariates[~there].reset_index(drop=True))
    episodes = model.folds_.training(frozenset())
    people = model._episode(test.series, covariates[there].reset_index(drop=True), None)
    last, averaged = np.zeros((2, epochs + 1, len(test)))
    for seed in range(networks):
        network = build_network(seed, hidden=8, skip=True)
        mean = build_network(seed, hidden=8, skip=True)
        for epoch in training_epochs(network, episodes, model._schedule(model.folds_), seed):
            average_into(mean, network, epoch)
            last[epoch] += predict_logits(network, people)
            averaged[epoch] += predict_logits(mean, people)
            if epoch == epochs:
                break
    return [
        {
            "site": held_out,
            "epoch": epoch,
            "last": roc_auc_score(test.labels, last[epoch]),
            "averaged": roc_auc_score(test.labels, averaged[epoch]),
        }
        for epoch in range(epochs + 1)
    ]


@torch.no_grad()
def average_into(mean: torch.nn.Module, network: torch.nn.Module, epoch: int) -> None:
    """The mean of the weights after epochs 1 to ``epoch``."""
    for kept, new in zip(mean.parameters(), network.parameters(), strict=True):
        kept += (new - kept) / max(epoch, 1)


if __name__ == "__main__":
    main()
