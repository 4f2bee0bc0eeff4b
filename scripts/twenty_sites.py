"""Ten sites of ABIDE against the other ten: train on one half, test on the other, both ways.

    python scripts/twenty_sites.py ABIDE_pcp --atlas aal [--methods ensemble,fc-ridge]

Mean AUC over the test sites, balanced accuracy at the threshold learned on the training sites, and the mean correlation
of scores with log mean FD within site and class. The figures of docs/results/abide20.md come from here and from
``brainroam loso``.
"""

import numpy as np
from common import PAPER, data_parser_of
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import brainroam
from brainroam.evaluation.stats.confounding import within_class_correlation
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod


def main() -> None:
    """Print one line per method and direction."""
    parser = data_parser_of(__doc__)
    parser.add_argument("--methods", default="ensemble,fc-ridge,log-ridge,scaffold-ridge")
    given = parser.parse_args()
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    ten = cohort.table["site"].isin(PAPER).to_numpy()
    print(f"{cohort}, manifest {cohort.manifest_hash[:16]}")
    for name in given.methods.split(","):
        for way, train in (("ten -> others", ten), ("others -> ten", ~ten)):
            model = TunedMethod(method_info(name), "default").fit(cohort.subset(train))
            print(f"{name:16} {way:14} {summary(cohort.subset(~train), model)}", flush=True)


def summary(people: brainroam.Cohort, model: TunedMethod) -> str:
    """AUC, balanced accuracy and motion, averaged over sites."""
    score, probability, table = model.score(people), model.probability(people), people.table
    aucs, balanced, motion = [], [], []
    log_fd = np.log(table["mean_fd"].to_numpy())
    for site in people.sites:
        here = (table["site"] == site).to_numpy()
        y = people.labels[here]
        aucs.append(roc_auc_score(y, score[here]))
        balanced.append(balanced_accuracy_score(y, probability[here] >= 0.5))
        known = here & np.isfinite(log_fd)
        motion.append(within_class_correlation(score[known], log_fd[known], people.labels[known]))
    return (
        f"AUC {100 * np.mean(aucs):.1f}  balanced accuracy {100 * np.mean(balanced):.1f}  motion {np.mean(motion):+.2f}"
    )


if __name__ == "__main__":
    main()
