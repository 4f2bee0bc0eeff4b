"""What a shared model tells about the people it was trained on.

python -m benchmarks.privacy /data/ABIDE_pcp        (about ten minutes of one core)

Half of the people of each site and class are members: models are fitted on them. The attacker holds the model and the
scan, age, sex and site of a person, and asks two questions, each answered by an AUC over people:

    membership    was this person in the training set?                    members against everybody else
    diagnosis     does this member have the condition?                    among members; among others for comparison

A model that discloses nothing has membership 0.5, and diagnosis the same among members and others. An attack is a
number per person; the membership attack takes its size (the sign says the diagnosis) about the median of everybody.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from brainroam import Cohort, load_cohort
from brainroam.core.classifier import CoreClassifier
from brainroam.core.connectivity import cohort_edges
from brainroam.methods.core import Core
from brainroam.methods.registry import method_info

Attack = tuple[str, np.ndarray]


def members_of(cohort: Cohort, seed: int = 0) -> np.ndarray:
    """Half of the people of every site and class, as a mask."""
    rng, mask = np.random.default_rng(seed), np.zeros(len(cohort), dtype=bool)
    for positions in cohort.table.groupby(["site", "label"]).indices.values():
        mask[rng.permutation(positions)[: len(positions) // 2]] = True
    return mask


def residuals_of(clf: CoreClassifier, cohort: Cohort) -> np.ndarray:
    """Everybody's residuals as the model itself makes them, without the site's mean over people not in the model."""
    edges = cohort_edges(cohort, clf.kind, clf.shrinkage, clf.robust)
    return np.nan_to_num(clf.deconfounder_.transform(edges, cohort.covariates(["age", "sex"])))


def contrast_attack(clf: CoreClassifier, cohort: Cohort) -> Attack:
    """The contrast of a site is a difference of means over its people: a member is part of it, with the sign of y."""
    residuals, site = residuals_of(clf, cohort), cohort.table["site"].to_numpy()
    contrast, found = np.nan_to_num(clf.scaffold_.contrast), np.zeros(len(cohort))
    for row, name in zip(contrast, clf.scaffold_.sites, strict=True):
        here = site == name
        # What all people of a site share lies along a few directions of the contrast: the site's median answers it.
        found[here] = residuals[here] @ (row - clf.scaffold_.consensus)
        found[here] -= np.median(found[here])
        found[here] /= np.linalg.norm(residuals[here], axis=1) * np.linalg.norm(row)
    return "per-site contrasts", found


def summary_attacks(clf: CoreClassifier, model: Core, cohort: Cohort) -> Iterator[Attack]:
    """What remains in a core model without them: medians over sites, and the weights of the network."""
    residuals, scaffold = residuals_of(clf, cohort), clf.scaffold_
    yield "consensus of all edges", residuals @ np.nan_to_num(scaffold.consensus)
    yield "sign consistency of all edges", residuals @ (scaffold.sign_consistency * np.sign(scaffold.consensus))
    skip = residuals[:, scaffold.edges] * clf.pathways_.orientation / clf.pathways_.scale[:, 0]
    yield "weights of the linear reading", skip @ clf.pathways_.skip
    yield "scores", model.score(cohort)


def report(model: str, attack: Attack, members: np.ndarray, y: np.ndarray) -> None:
    """One line: how well an attack answers both questions."""
    name, value = attack
    value = value - np.median(value)
    known = value * (2 * y - 1)
    print(
        f"{model:<32} {name:<32} membership {roc_auc_score(members, np.abs(value)):.2f}, "
        f"diagnosis known {roc_auc_score(members, known):.2f}; "
        f"diagnosis of a member {roc_auc_score(y[members], value[members]):.2f}, "
        f"of anybody else {roc_auc_score(y[~members], value[~members]):.2f}",
        flush=True,
    )


@threadpool_limits.wrap(limits=1)
def main() -> None:
    """Fit on members, attack everybody."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="an ABIDE_pcp folder")
    cohort = load_cohort(parser.parse_args().root, atlas="aal", max_missing_rois=1)
    members, y = members_of(cohort), cohort.labels
    print(f"# {cohort}, {members.sum()} members", flush=True)
    training = cohort.subset(members)

    for name in ("fc-ridge", "champion"):
        fitted = method_info(name).make().fit(training)
        report(name, ("scores", fitted.score(cohort)), members, y)
    core = Core().fit(training)
    clf = core.classifier_
    report("core with contrasts", contrast_attack(clf, cohort), members, y)
    for attack in summary_attacks(clf, core, cohort):
        report("core as saved", attack, members, y)


if __name__ == "__main__":
    main()
