"""What a shared model tells about the people it was trained on.

python benchmarks/privacy.py /data/ABIDE_pcp        (about five minutes of one core)

Half of the people of each site and class are members: models are fitted on them. The attacker holds the model and the
scan, age, sex and site of a person, and asks two questions, each answered by an AUC over people:

    membership    was this person in the training set?                    members against everybody else
    diagnosis     does this member have the condition?                    among members; among others for comparison

A model that discloses nothing has membership 0.5, and diagnosis the same among members and others. An attack is a
number per person; the membership attack takes its size (the sign says the diagnosis) about the median of everybody, or
its sign and size where the attacker knows the diagnosis ("diagnosis known").

Before that, mechanisms that might disclose less, on static connectivity, each with its AUC at unseen sites.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam import Cohort, load_cohort
from brainroam.core.connectivity import cohort_edges, edge_pairs
from brainroam.core.model import CoreModel
from brainroam.data.atlas.anatomy import lobes_of
from brainroam.methods.core import Core
from brainroam.methods.registry import method_info

Attack = tuple[str, np.ndarray]


def members_of(cohort: Cohort, seed: int = 0) -> np.ndarray:
    """Half of the people of every site and class, as a mask."""
    rng, mask = np.random.default_rng(seed), np.zeros(len(cohort), dtype=bool)
    for positions in cohort.table.groupby(["site", "label"]).indices.values():
        mask[rng.permutation(positions)[: len(positions) // 2]] = True
    return mask


def residuals_of(core: CoreModel, cohort: Cohort) -> np.ndarray:
    """Everybody's residuals as the model itself makes them, without the site's mean over people not in the model."""
    edges = cohort_edges(cohort, core.recipe.kind, core.recipe.shrinkage, core.recipe.robust)
    return np.nan_to_num(core.deconfounder_.transform(edges, covariates=cohort.covariates(["age", "sex"])))


def contrast_attack(core: CoreModel, cohort: Cohort) -> Attack:
    """The contrast of a site is a difference of means over its people: a member is part of it, with the sign of y."""
    residuals, site = residuals_of(core, cohort), cohort.table["site"].to_numpy()
    contrast, found = np.nan_to_num(core.scaffold_.contrast), np.zeros(len(cohort))
    for row, name in zip(contrast, core.scaffold_.sites, strict=True):
        here = site == name
        # What all people of a site share lies along a few directions of the contrast: the site's median answers it.
        found[here] = residuals[here] @ (row - core.scaffold_.consensus)
        found[here] -= np.median(found[here])
        found[here] /= np.linalg.norm(residuals[here], axis=1) * np.linalg.norm(row)
    return "per-site contrasts", found


def summary_attacks(core: CoreModel, model: Core, cohort: Cohort) -> Iterator[Attack]:
    """What remains in a core model without them: medians over sites, and the weights of the network."""
    residuals, scaffold = residuals_of(core, cohort), core.scaffold_
    yield "consensus of all edges", residuals @ np.nan_to_num(scaffold.consensus)
    yield "sign consistency of all edges", residuals @ (scaffold.sign_consistency * np.sign(scaffold.consensus))
    skip = residuals[:, scaffold.edges] * core.pathways_.orientation / core.pathways_.scale[:, 0]
    yield "weights of the linear reading", skip @ core.pathways_.skip
    yield "scores", model.score(cohort)


def report(model: str, attack: Attack, members: np.ndarray, y: np.ndarray) -> None:
    """One line: how well an attack answers both questions."""
    name, value = attack
    value = value - np.median(value)
    known = value * (2 * y - 1)
    print(
        f"{model:<44} {name:<30} membership {roc_auc_score(members, np.abs(value)):.2f}, "
        f"diagnosis known {roc_auc_score(members, known):.2f}; "
        f"diagnosis of a member {roc_auc_score(y[members], value[members]):.2f}, "
        f"of anybody else {roc_auc_score(y[~members], value[~members]):.2f}",
        flush=True,
    )


Fit = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # positions to train on -> weights, centre


def mechanisms(edges: np.ndarray, cohort: Cohort, others: np.ndarray) -> Iterator[tuple[str, np.ndarray, Fit]]:
    """What was tried to make a linear model disclose less: a name, the features, and how it is fitted."""
    target = 2.0 * cohort.labels - 1
    site = cohort.table["site"].to_numpy()

    def ridge(x: np.ndarray, penalty: float, train: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centre = x[train].mean(axis=0)
        z = x[train] - centre
        return z.T @ np.linalg.solve(z @ z.T + penalty * np.eye(len(z)), wanted - wanted.mean()), centre

    def noisy(train: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        weights, centre = ridge(edges, 500, train, target[train])
        noise = np.random.default_rng(1).normal(size=weights.shape)
        return weights + share * np.linalg.norm(weights) * noise / np.linalg.norm(noise), centre

    def clipped(train: np.ndarray, epsilon: float, delta: float = 1e-5) -> tuple[np.ndarray, np.ndarray]:
        length = np.linalg.norm(edges[train], axis=1)
        most = np.median(length)
        rows = edges[train] * np.minimum(1, most / length)[:, None]
        spread = 2 * most * np.sqrt(2 * np.log(1.25 / delta)) / epsilon
        noise = np.random.default_rng(2).normal(0, spread, edges.shape[1])
        return target[train] @ rows + noise, edges[train].mean(axis=0)

    def distilled(train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights, centre = ridge(edges, 500, train, target[train])
        pupils = np.flatnonzero(others & np.isin(site, site[train]))
        return ridge(edges, 500, pupils, (edges[pupils] - centre) @ weights)

    for penalty in (50, 500, 5000, 50000):
        yield f"fc-ridge[strength={penalty}]", edges, lambda t, p=penalty: ridge(edges, p, t, target[t])
    for share in (1, 4):
        yield f"noise of {share} x |w| on the weights", edges, lambda t, share=share: noisy(t, share)
    for epsilon in (16, 8, 4):
        yield f"clipped mean, noise of epsilon {epsilon}", edges, lambda t, e=epsilon: clipped(t, e)
    yield "distilled on other people", edges, distilled
    coarse = means_by_lobe(edges, cohort)
    yield "means over pairs of lobes", coarse, lambda t: ridge(coarse, 10, t, target[t])


def means_by_lobe(edges: np.ndarray, cohort: Cohort) -> np.ndarray:
    """Mean edge between and within lobes of each hemisphere (n, pairs)."""
    lobes = zip(lobes_of(cohort.atlas) or (), cohort.atlas.labels, strict=True)
    sides = np.array([f"{lobe}{name[-1]}" for lobe, name in lobes])  # AAL ends a name with its side
    ends = np.sort(sides[edge_pairs(cohort.n_rois)], axis=1)
    _, block = np.unique([f"{a}-{b}" for a, b in ends], return_inverse=True)
    return np.stack([edges[:, block == k].mean(axis=1) for k in range(block.max() + 1)], axis=1)


def at_unseen_sites(cohort: Cohort, members: np.ndarray, features: np.ndarray, fit: Fit) -> float:
    """Mean AUC over sites of models fitted on the members of all other sites: what a mechanism costs."""
    site, y, found = cohort.table["site"].to_numpy(), cohort.labels, []
    for name in cohort.sites:
        here = site == name
        weights, centre = fit(np.flatnonzero(members & ~here))
        found.append(roc_auc_score(y[here], (features[here] - centre) @ weights))
    return float(np.mean(found))


@threadpool_limits.wrap(limits=1)
def main() -> None:
    """Fit on members, attack everybody."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="an ABIDE_pcp folder")
    parser.add_argument("--models", action="store_true", help="only attack models, try no mechanisms")
    arguments = parser.parse_args()
    cohort = load_cohort(arguments.root, atlas="aal", max_missing_rois=1)
    members, y = members_of(cohort), cohort.labels
    print(f"# {cohort}, {members.sum()} members", flush=True)
    training = cohort.subset(members)

    if not arguments.models:
        edges = np.nan_to_num(cohort_edges(cohort, "pearson"))
        others = ~members & (np.random.default_rng(3).random(len(cohort)) < 0.5)
        for name, features, fit in mechanisms(edges, cohort, others):
            weights, centre = fit(np.flatnonzero(members))
            cost = at_unseen_sites(cohort, members, features, fit)
            report(f"{name}: {cost:.3f}", ("scores", (features - centre) @ weights), members, y)
    for name in ("fc-ridge", "ensemble"):
        fitted = method_info(name).make().fit(training)
        report(name, ("scores", fitted.score(cohort)), members, y)
    method = Core().fit(training)
    core = method.core_
    report("core with contrasts", contrast_attack(core, cohort), members, y)
    for attack in summary_attacks(core, method, cohort):
        report("core as saved", attack, members, y)


if __name__ == "__main__":
    main()
