"""What each deep method can see: its AUC at unseen sites of synthetic cohorts with one planted effect each.

    python scripts/every_system.py --out every-system [--methods deci,agmgc-proxy]

Two cohorts of 160 people at four sites: cases differ in the strength of edges (``connectivity``), or in how slowly
every region moves, while no edge differs (``rhythm``). Methods that read series are tried on both, the others on
the first; then on the effect they are made for with labels permuted within each site. Leave-one-site-out with
``tuning="fast"``, seed 0. What is finished in the folder is not done again. Prints the table of docs/results/deep.md.
"""

from pathlib import Path

from common import parser_of
from reproduction.parts import SYSTEMS

import brainroam
from brainroam.audit.shortcuts import permuted_within_site

SIZE = {"n_sites": 4, "n_per_site": 40, "n_rois": 20, "seed": 0, "volatility": 0.0}
CONNECTIVITY, RHYTHM = "connectivity", "rhythm"
READ_SERIES = {
    "agmgc-proxy": "graph and band powers learned from series; Pearson",
    "deci": "each region's series alone",
    "mean-mlp": "every frame",
    "xg-gnn": "connectivity learned from series; Pearson",
}


def main() -> None:
    """Run what is missing and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join([*SYSTEMS.values(), "mean-mlp"]))
    given = parser.parse_args()
    edges = brainroam.make_cohort(**SIZE, effect=2.0)
    slow = brainroam.make_cohort(**SIZE, effect=0.0, rhythm=1.0)
    cohorts = {CONNECTIVITY: edges, RHYTHM: slow}
    print("| system | looks at | connectivity | rhythm | labels permuted |\n|---|---|---|---|---|")
    for method in given.methods.split(","):
        own = RHYTHM if method == "deci" else CONNECTIVITY
        found = [auc(method, edges, given.out / CONNECTIVITY)]
        found += [auc(method, slow, given.out / RHYTHM) if method in READ_SERIES else ""]
        found += [auc(method, permuted_within_site(cohorts[own], 1), given.out / f"{own}-permuted")]
        print(f"| `{method}` | {looks_at(method)} | {' | '.join(found)} |", flush=True)


def looks_at(method: str) -> str:
    """What a method is given, in words."""
    return "scaffold of edges" if method == "core" else READ_SERIES.get(method, "Pearson edges")


def auc(method: str, cohort: brainroam.Cohort, out: Path) -> str:
    """Mean AUC over held-out sites, in points."""
    scores = brainroam.evaluate(cohort, method, tuning="fast", out=out, partial=True).scores
    return f"{100 * scores.loc[scores['method'] == method, 'auc'].mean():.1f}"


if __name__ == "__main__":
    main()
