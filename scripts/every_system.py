"""What each deep method can see: its AUC at unseen sites of synthetic cohorts with one planted effect each.

    python scripts/every_system.py --out every-system [--methods deci,agmgc-proxy]

Three cohorts of the same 160 people: cases differ in the strength of edges (``connectivity``), or in how slowly every
region moves while no edge differs (``rhythm``), or in connectivity with labels permuted within each site
(``permuted``). Leave-one-site-out with ``tuning="fast"``, seed 0. What is finished in the folder is not done again.
Prints the table of docs/results/deep.md.
"""

import argparse
from pathlib import Path

import brainroam
from brainroam.audit.shuffle import permuted_within_site
from brainroam.evaluation.paper.parts import SYSTEMS

SIZE = {"n_sites": 4, "n_per_site": 40, "n_rois": 20, "seed": 0, "volatility": 0.0}
LOOKS_AT = {
    "agmgc-proxy": "graph and band powers learned from series",
    "deci": "each region's series alone",
    "mean-mlp": "every frame",
    "xg-gnn": "connectivity learned from series, and Pearson",
    "core": "a scaffold of edges and their fluctuation",
}


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join([*SYSTEMS.values(), "mean-mlp"]))
    given = parser.parse_args()
    methods = given.methods.split(",")
    columns = {name: aucs(cohort, methods, given.out / name) for name, cohort in cohorts().items()}
    print("| system | looks at | connectivity | rhythm | labels permuted |\n|---|---|---|---|---|")
    for method in methods:
        figures = " | ".join(f"{100 * columns[name][method]:.1f}" for name in columns)
        print(f"| `{method}` | {LOOKS_AT.get(method, 'Pearson connectivity')} | {figures} |")


def cohorts() -> dict[str, brainroam.Cohort]:
    """The three cohorts by name."""
    edges = brainroam.make_cohort(**SIZE, effect=2.0)
    return {
        "connectivity": edges,
        "rhythm": brainroam.make_cohort(**SIZE, effect=0.0, rhythm=1.0),
        "permuted": permuted_within_site(edges, 1),
    }


def aucs(cohort: brainroam.Cohort, methods: list[str], out: Path) -> dict[str, float]:
    """Mean AUC over held-out sites of each method."""
    for method in methods:  # one after the other, so that a table of the finished ones can be had at any time
        brainroam.evaluate(cohort, method, tuning="fast", out=out, partial=True)
    return brainroam.load_runs(out, partial=True).scores.groupby("method")["auc"].mean().to_dict()


if __name__ == "__main__":
    main()
