"""Do gates tell who is of which subtype?

    python scripts/gate_subtypes.py [--seeds 821,822]

Trains the network alone on the cohorts of `gate_map.py` with 2 and 4 subtypes. The cases of the unseen sites are sorted
into as many clusters as there are subtypes (k-means), by four descriptions of each of them. Prints the adjusted Rand
index against the planted subtypes (1 is perfect, 0 chance), mean and standard error over cohorts.
"""

import warnings
from itertools import product

import numpy as np
import pandas as pd
from common import parser_of
from gate_ablation import NetworkAlone
from gate_map import EFFECTS, training_and_unseen
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from brainroam.core.connectivity import cohort_edges

KINDS = {"2 subtypes": 2, "4 subtypes": 4}


def main() -> None:
    """Print one line per description."""
    warnings.simplefilter("ignore")
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default="821,822")
    rows = []
    for cases, sites, people, seed in product(KINDS, (4, 8, 16), (20, 60), parser.parse_args().seeds):
        rows += [{"cases": cases, **agreement(cases, effect, sites, people, seed)} for effect in EFFECTS[cases]]
    found = pd.DataFrame(rows).groupby("cases")
    print(f"| clustered | {' | '.join(KINDS)} |")
    print("|---|---|---|")
    for name, mean in found.mean().items():
        told = [f"{mean[cases]:.2f} ± {found[name].sem()[cases]:.2f}" for cases in KINDS]
        print(f"| {name} | {' | '.join(told)} |")


def agreement(cases: str, effect: float, sites: int, people: int, seed: int) -> dict[str, float]:
    """Adjusted Rand index of clusters of cases at unseen sites with their subtypes, by each description of them."""
    train, test = training_and_unseen(cases, effect, sites, people, seed)
    clf = NetworkAlone(seed=seed).fit(train, train.covariates())
    patients = test.subset(test.labels == 1)
    planted = [test.truth.subtypes[subject] for subject in patients.table["subject"]]
    nodes, how = clf.nodes(patients, patients.covariates()), clf.recipe
    edges = pd.DataFrame(cohort_edges(patients, how.kind, how.shrinkage, how.robust))
    read = clf.reading_.nodes
    described = {
        "all edges, site means removed": edges - edges.groupby(patients.table["site"]).transform("mean"),
        "strengths of the pathways that the network reads": nodes[read, :, 0].T,
        "gates": clf.reading_.gates(nodes)[read].T,
        "contributions of pathways to the network's score": clf.reading_.contributions(nodes)[read].T,
    }
    kmeans = KMeans(KINDS[cases], n_init=10, random_state=0)
    return {name: adjusted_rand_score(planted, kmeans.fit_predict(np.asarray(x))) for name, x in described.items()}


if __name__ == "__main__":
    main()
