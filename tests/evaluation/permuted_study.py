"""How often do intervals cover 0.5, and tests reject, when labels mean nothing?

    python -m tests.evaluation.permuted_study [-n 100] [--methods A,B] [--abide ABIDE_pcp]

Labels are permuted within site, so that every site keeps its share of cases and nothing else of the labels is left.
Every method is fitted by its default settings; tuning changes no AUC on average here, and takes ten times as long.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from brainroam import make_cohort
from brainroam.audit.candidates import candidate
from brainroam.audit.shortcuts import held_out_scores, permuted_within_site
from brainroam.data.cohort import Cohort
from brainroam.data.loading import load_cohort
from brainroam.evaluation.stats.site_scores import SiteScores, gather
from brainroam.methods.registry import split_names

LINEAR = (
    "fc-ridge,fc-logistic,fc-svm,tangent-ridge,tangent-logistic,log-ridge,scaffold-ridge,combat-ridge,confounds,"
    "ensemble"
)
PER_COHORT = 25  # permutations of one synthetic cohort before the next is made


def permutations(n: int, cohort: Cohort | None = None) -> Iterator[Cohort]:
    """Cohorts with permuted labels: of synthetic people, or of the cohort given."""
    for k in range(n):
        if cohort is None or (k % PER_COHORT == 0 and cohort.truth is not None):
            cohort = make_cohort(n_sites=5, n_per_site=30, n_rois=24, seed=k)
        yield permuted_within_site(cohort, k)


def site_scores(cohort: Cohort, methods: Sequence[str]) -> SiteScores:
    """Leave-one-site-out scores of all methods, gathered as a study gathers them."""
    frames = []
    for name in methods:
        for site, test, scores in held_out_scores(candidate(name), cohort):
            people = cohort.table.loc[test, ["subject", "label"]]
            frames.append(people.assign(method=name, protocol="loso", site=site, seed=0, score=scores))
    return gather(pd.concat(frames), "loso")


def intervals(found: SiteScores) -> list[dict]:
    """Per method the mean AUC, and whether each interval covers 0.5."""
    rows = []
    for method in found.methods:
        judged = found.verdict(method)
        rows.append(
            {
                "method": method,
                "auc": judged.mean,
                "mean": judged.low <= 0.5 <= judged.high,
                "next site": judged.next_low <= 0.5 <= judged.next_high,
            }
        )
    return rows


def rejections(found: SiteScores) -> list[dict]:
    """Per pair of methods, whether the test tells them apart; its interval covers 0 exactly when it does not."""
    tested = {(one, two): found.paired(one, two).p for one, two in combinations(found.methods, 2)}
    return [{"pair": f"{one} - {two}", "at 5 %": p <= 0.05, "at 10 %": p <= 0.1} for (one, two), p in tested.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=LINEAR)
    parser.add_argument("-n", type=int, default=100, help="permutations")
    parser.add_argument("--abide", help="ABIDE_pcp; synthetic cohorts when not given")
    options = parser.parse_args()
    cohort = None if options.abide is None else load_cohort(options.abide, atlas="aal", max_missing_rois=1.0)
    of_methods, of_pairs = [], []
    for people in permutations(options.n, cohort):
        found = site_scores(people, split_names(options.methods))
        of_methods += intervals(found)
        of_pairs += rejections(found)
    covers = pd.DataFrame(of_methods).groupby("method", sort=False)
    print(f"{options.n} permutations; simulation error of 0.95: {np.sqrt(0.95 * 0.05 / options.n):.3f}")
    covered = covers[["mean", "next site"]].mean().add_suffix(" covers")
    print(pd.concat([covers["auc"].agg(["mean", "std"]), covered], axis=1).round(3))
    if of_pairs:
        print(pd.DataFrame(of_pairs).groupby("pair", sort=False).mean().round(3).to_string())


if __name__ == "__main__":
    main()
