"""What a site's summary tells about its people, with and without clipping and noise.

python benchmarks/privacy_summaries.py /data/ABIDE_pcp        (about five minutes of one core)

As in privacy.py, half of the people of each site and class are members: summaries are made of them. The attacker holds
the summary of a site and the scan, age and sex of a person, and asks whether that person took part, and with which
diagnosis. Against the first summary the attack is the person's residual along the site's contrast; against the second,
the residuals of the people who took part span what the products are made of:

    membership    |r - projection of r on the products' range| / |r|          0 for who took part, where people < edges
    diagnosis     r' P^+ (sum of cases - sum of controls)                  1 for a case who took part, -1 for a control

What clipping and noise cost is the mean AUC at unseen sites of models learned from the summaries of everybody.
"""

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
from privacy import members_of
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam import Cohort, load_cohort
from brainroam.core.connectivity import cohort_edges
from brainroam.core.scaffold import edges_of
from brainroam.core.site_summary import SiteProducts, SiteSummary, SummaryStatistics
from brainroam.execution.federation import Protection
from brainroam.execution.federation.model import reading
from brainroam.execution.federation.site import read_scores

THRESHOLDS = 80, 0.75, 0.7
BUDGETS = (None, 1e6, 1000.0, 100.0, 30.0, 10.0)  # 1e6: clipped, hardly any noise


def summaries(
    cohort: Cohort, members: np.ndarray, edges: np.ndarray, budget: Protection | None, each: bool = False
) -> SummaryStatistics:
    """First and second summaries of the members of each site; ``each``: ready to leave each site out."""
    site, y, rng = cohort.table["site"].to_numpy(), cohort.labels, np.random.default_rng(0)
    covariates = cohort.covariates()
    first, second, here = {}, {}, {name: members & (site == name) for name in cohort.sites}
    for name, who in here.items():
        table = covariates[who].reset_index(drop=True)
        plain = SiteSummary.of(edges[who], y[who], table, 1.345, "mean") if budget is None else None
        first[name] = plain or budget.summary(edges[who], y[who], rng)
    statistics = SummaryStatistics(first, list(covariates.columns))
    folds = [cohort.sites, *(without(cohort.sites, name) for name in cohort.sites if each)]
    asked = edges_of([statistics.scaffold(sites, *THRESHOLDS) for sites in folds])
    centre = statistics.deconfounder.mean_intercept_[asked]
    for name, who in here.items():
        values, table = edges[np.ix_(who, asked)], covariates[who].reset_index(drop=True)
        plain = SiteProducts.of(asked, values, y[who], table, 1.345) if budget is None else None
        second[name] = plain or budget.products(asked, values, centre, y[who], rng)
    return SummaryStatistics(first, list(covariates.columns), second)


def without(sites: Sequence[str], name: str) -> list[str]:
    """The other sites."""
    return [site for site in sites if site != name]


def at_unseen_sites(cohort: Cohort, edges: np.ndarray, budget: Protection | None) -> float:
    """Mean AUC over sites of what the summaries of all people of the others give."""
    site, y, found = cohort.table["site"].to_numpy(), cohort.labels, []
    statistics = summaries(cohort, np.ones(len(cohort), dtype=bool), edges, budget, each=True)
    for name in cohort.sites:
        here, rest = site == name, without(cohort.sites, name)
        learned = reading(statistics.pathways(rest, statistics.scaffold(rest, *THRESHOLDS)))
        table = cohort.covariates()[here].reset_index(drop=True)
        found.append(roc_auc_score(y[here], read_scores(learned, edges[here], table)))
    return float(np.mean(found))


def residuals(summary: SiteSummary, edges: np.ndarray, raw: np.ndarray) -> np.ndarray:
    """Anybody's residuals by the regression that the site has sent."""
    return np.nan_to_num(edges - summary.fit.intercept - raw @ np.nan_to_num(summary.fit.coef))


def attacks(
    cohort: Cohort, edges: np.ndarray, statistics: SummaryStatistics
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """A name, evidence for membership and evidence for the condition of each person."""
    site, raw = cohort.table["site"].to_numpy(), cohort.covariates().to_numpy(dtype=float)
    first, second = statistics.summaries, statistics._products
    along, outside, told = (np.zeros(len(cohort)) for _ in range(3))
    others = np.median([np.nan_to_num(summary.contrast) for summary in first.values()], axis=0)
    for name, summary in first.items():
        here = np.flatnonzero(site == name)
        r = residuals(summary, edges[here], raw[here])
        along[here] = r @ (np.nan_to_num(summary.contrast) - others) / np.linalg.norm(r, axis=1)
        along[here] -= np.median(along[here])
        products = second[name]
        r = r[:, products.edges]
        r -= r.mean(axis=0)
        values, vectors = np.linalg.eigh(products.products)
        kept = np.argsort(values)[::-1][: int(summary.counts.sum()) - 1]
        kept = kept[values[kept] > 1e-9 * values.max()]
        inside = r @ vectors[:, kept]
        outside[here] = -np.linalg.norm(r - inside @ vectors[:, kept].T, axis=1) / np.linalg.norm(r, axis=1)
        told[here] = (inside / values[kept]) @ (vectors[:, kept].T @ (products.sums[1] - products.sums[0]))
    yield "first summary", np.abs(along), along
    yield "second summary", outside, told


@threadpool_limits.wrap(limits=1)
def main() -> None:
    """Summarise members, attack everybody."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="an ABIDE_pcp folder")
    cohort = load_cohort(parser.parse_args().root, atlas="aal")
    members, y = members_of(cohort), cohort.labels
    edges = cohort_edges(cohort, "log", 0.7, True)
    print(f"# {cohort}, {members.sum()} members", flush=True)
    for epsilon, people in [(None, cohort), *((epsilon, cohort.using([])) for epsilon in BUDGETS)]:
        budget = None if epsilon is None else Protection(epsilon)
        print(f"epsilon {epsilon}: AUC at unseen sites {at_unseen_sites(people, edges, budget):.4f}", flush=True)
        found = summaries(people, members, edges, budget)
        for name, membership, diagnosis in attacks(people, edges, found):
            print(
                f"    {name:<16} membership {roc_auc_score(members, membership):.2f}   diagnosis of a member "
                f"{roc_auc_score(y[members], diagnosis[members]):.2f}, of anybody else "
                f"{roc_auc_score(y[~members], diagnosis[~members]):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
