"""Are people whose scan is spoiled flagged, and are they predicted worse? Where what is wrong is known.

    python scripts/spoiled_people.py synthetic
    python scripts/spoiled_people.py ABIDE_pcp --atlas aal

Each site is held out once (of six synthetic cohorts of nine sites, the last site). A model and what its training people
were like (`methods.familiarity`) come from the other sites. The held-out people are read as they are and spoiled in
five ways; for each the table says how many are flagged, for which reason, and how well they are predicted: means over
sites (`metrics.mean_over_sites`). The figures of docs/results/next-site.md come from here.
"""

import numpy as np
import pandas as pd
from common import data_parser_of

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.data.target.sites_two import balanced_metrics
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

STRENGTH = 3  # of what is added, in standard deviations of each region's signal
VOLUMES = 30
REASONS = {"distance": "edges farther", "resemblance": "edges resemble", "length": ("scanned", "volumes, fewer")}


def main() -> None:
    """Print one line for each way of spoiling."""
    parser = data_parser_of(__doc__)
    parser.add_argument("--method", default="fc-ridge")
    given = parser.parse_args()
    if given.data == "synthetic":
        cohorts = [brainroam.make_cohort(n_sites=9, n_per_site=40, n_rois=30, seed=seed) for seed in range(6)]
        folds = [(cohort, cohort.sites[-1]) for cohort in cohorts]
    else:
        cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
        folds = [(cohort, site) for site in cohort.sites]
    found = pd.concat([people_of(given.method, *fold).assign(fold=k) for k, fold in enumerate(folds)])
    for way, people in found.groupby("way", sort=False):
        flagged = people["flags"] != ""
        text = f"{way}\tflagged {flagged.mean():.3f}"
        for name, words in REASONS.items():
            words = words if isinstance(words, tuple) else (words,)
            here = people["flags"].map(lambda flags, words=words: any(word in flags for word in words))
            text += f", {name} {here.mean():.3f}"
        sites = pd.DataFrame([at_site(here) for _, here in people.groupby("fold")])
        means = {name: mean_over_sites(sites[name], sites["weight"]) for name in ("auc", "balanced_acc", "brier")}
        print(text, *(f"{name} {mean:.3f}" for name, mean in means.items()), sep="\t", flush=True)


def at_site(people: pd.DataFrame) -> dict[str, float]:
    """How well the people of a site are predicted, and the weight of the site."""
    label, score, p, called = (people[name].to_numpy() for name in ("label", "score", "probability", "predicted"))
    weight = float(site_weights(label.sum(), len(label) - label.sum()))
    return {"auc": auc(label, score), "weight": weight, **balanced_metrics(label, p, called)}


def people_of(method: str, cohort: Cohort, site: str) -> pd.DataFrame:
    """Flags and predictions of the people of a held-out site, as they are and spoiled."""
    others = cohort.select([name for name in cohort.sites if name != site])
    model, known = TunedMethod(method_info(method)).fit(others), Familiarity.of(others)
    here, rng, parts = cohort.select([site]), np.random.default_rng(0), []
    for way, spoil in spoilers(cohort.n_rois, rng).items():
        people = Cohort([spoil(series) for series in here.series], here.table, cohort.atlas)
        score, calibration = model.score(people), model.calibration_
        parts.append(
            here.table[["subject", "label"]].assign(
                way=way,
                flags=known.flags(people),
                score=score,
                probability=calibration(score, prevalence=0.5),
                predicted=calibration.decide(score),
            )
        )
    return pd.concat(parts)


def spoilers(n_rois: int, rng: np.random.Generator) -> dict:
    """Ways to spoil the series of one person."""
    order = np.random.default_rng(9).permutation(n_rois)

    def added(series: np.ndarray, columns: int) -> np.ndarray:
        return series + STRENGTH * series.std(axis=0) * rng.normal(size=(len(series), columns))

    return {
        "as they are": lambda series: series,
        "regions shuffled, each person otherwise": lambda series: series[:, rng.permutation(n_rois)],
        "regions in another order, the same for all": lambda series: series[:, order],
        "noise in each region": lambda series: added(series, n_rois),
        "one signal in all regions": lambda series: added(series, 1),
        f"{VOLUMES} volumes": lambda series: series[:VOLUMES],
    }


if __name__ == "__main__":
    main()
