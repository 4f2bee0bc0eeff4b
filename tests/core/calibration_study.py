"""Do probabilities hold at held-out sites, and are they worth more than the share of cases? Figures of reliability.md.

    python -m tests.core.calibration_study synthetic   cohorts with 10, 30 and 50 % cases, six and twelve sites
    python -m tests.core.calibration_study abide DATA --atlas aal   site by site

Each site is held out once and predicted by a model of the others.
"""

import argparse

import numpy as np
import pandas as pd

import brainroam
from brainroam.evaluation.stats.metrics import at_prevalence


def synthetic(method: str, worlds: int) -> pd.DataFrame:
    """Mean predicted probability, share of cases, Brier score, and that of the training share, over all worlds."""
    rows = []
    for n_sites in (6, 12):
        for prevalence in (0.1, 0.3, 0.5):
            for effect in (0.0, 0.5, 1.0):
                cohorts = (
                    brainroam.make_cohort(n_sites, 30, 20, seed, effect=effect, volatility=0, prevalence=prevalence)
                    for seed in range(worlds)
                )
                people = pd.concat([held_out(cohort, method) for cohort in cohorts])
                rows.append({"sites": n_sites, "cases": prevalence, "effect": effect} | worth(people))
    return pd.DataFrame(rows)


def held_out(cohort: brainroam.Cohort, method: str) -> pd.DataFrame:
    """Predictions of everybody by a model of the other sites, with the share of cases it was trained on."""
    results = brainroam.evaluate(cohort, [method], progress=False)
    return results.predictions.merge(results.scores[["site", "seed", "prevalence"]], on=["site", "seed"])


def worth(people: pd.DataFrame) -> dict[str, float]:
    """What these predictions are worth."""
    label, p = people["label"].to_numpy(), people["probability"].to_numpy()
    return {
        "share": label.mean(),
        "mean_probability": p.mean(),
        "brier": ((p - label) ** 2).mean(),
        "brier_of_training_share": ((people["prevalence"] - label) ** 2).mean(),
    }


def abide(data: str, atlas: str, method: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same at each site of ABIDE, and all sites counted as if other shares were cases."""
    people = held_out(brainroam.load_cohort(data, atlas=atlas), method)
    sites = pd.DataFrame([{"site": site, "n": len(here)} | worth(here) for site, here in people.groupby("site")])
    arrays = [people[name].to_numpy() for name in ("label", "probability", "predicted", "prevalence")]
    return sites, pd.DataFrame([at_prevalence(*arrays, share) for share in (0.1, 0.3, 0.5)])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["synthetic", "abide"])
    parser.add_argument("data", nargs="?")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--method", default="ensemble")
    parser.add_argument("--worlds", type=int, default=10)
    options = parser.parse_args()
    if options.what == "synthetic":
        print(synthetic(options.method, options.worlds).round(4).to_string(index=False))
        return
    sites, shares = abide(options.data, options.atlas, options.method)
    print(sites.round(3).to_string(index=False), shares.round(3).to_string(index=False), sep="\n\n")
    worse = sites["brier"] > sites["brier_of_training_share"]
    gap = np.abs(sites["mean_probability"] - sites["share"])
    print(f"\nBrier above the training share's at {worse.sum()} of {len(sites)} sites; mean |gap| {gap.mean():.3f}")


if __name__ == "__main__":
    main()
