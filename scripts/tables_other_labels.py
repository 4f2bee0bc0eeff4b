"""How tables are read at small sites, with labels that nobody's choices were made for.

    brainroam init FOLDER --case 1 --out study.yaml     # FreeSurfer tables and a table of people
    python scripts/tables_other_labels.py study.yaml --methods fc-ridge,ensemble,core

The labels are the diagnosis, sex, and being older than half of the site. People are drawn and their sites cut into
pieces of about so many people; five groups of these sites are held out in turn. Printed are AUCs within sites in
points, sites weighted as in a study, mean over the draws.
"""

import warnings

import numpy as np
import pandas as pd
from common import parser_of

import brainroam
from brainroam.core.targets import auc
from brainroam.data.cohort import Cohort
from brainroam.data.folds import group_sites, hold_out
from brainroam.evaluation.stats.metrics import mean_over_sites, site_weights
from brainroam.methods.registry import method_info, split_names
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.optional import one_thread

DESIGNS = ((1035, None, 1), (663, 11, 2), (350, 8, 2), (200, 20, 2))  # people, people of a site, draws
GROUPS = 5


@one_thread()
def main() -> None:
    """Print a row for each label and design, and the means."""
    warnings.simplefilter("ignore")
    parser = parser_of(__doc__)
    parser.add_argument("study")
    parser.add_argument("--methods", default="fc-ridge,ensemble,core")
    given = parser.parse_args()
    cohort, methods = brainroam.load_cohort(given.study), split_names(given.methods)
    rows = []
    for name in ("diagnosis", "sex", "older"):
        for n, size, draws in DESIGNS:
            aucs = [
                [100 * judged(method, drawn(cohort, name, min(n, len(cohort)), size, draw)) for method in methods]
                for draw in range(draws)
            ]
            rows.append([name, n, *np.mean(aucs, axis=0)])
            print(*rows[-1][:2], *(f"{value:.1f}" for value in rows[-1][2:]), flush=True)
    print(pd.DataFrame(rows, columns=["label", "people", *methods]).groupby("people")[methods].mean().round(1))


def drawn(cohort: Cohort, name: str, n: int, size: int | None, draw: int) -> Cohort:
    """Some people at small sites, with a label; what the label was made of is no covariate."""
    rng, table = np.random.default_rng(100 + draw), cohort.table
    older = table["age"] > table.groupby("site")["age"].transform("median")
    labels = {"diagnosis": table["label"], "sex": table["sex"], "older": older}
    columns = ["subject", "site", *({"age", "sex"} - {"older": {"age"}, "sex": {"sex"}}.get(name, set()))]
    people = np.sort(rng.permutation(len(cohort))[:n])
    made = table[columns].assign(label=labels[name].astype(float)).iloc[people].reset_index(drop=True)
    if size is not None:
        for site, here in list(made.groupby("site").indices.items()):
            pieces = np.array_split(rng.permutation(here), max(1, round(len(here) / size)))
            for k, piece in enumerate(pieces):
                made.loc[piece, "site"] = f"{site}_{k}"
    return Cohort([cohort.series[i] for i in people], made, cohort.atlas, measure=cohort.measure)


def judged(method: str, cohort: Cohort) -> float:
    """Mean AUC at sites that were held out in groups."""
    site, y, score = cohort.table["site"].to_numpy(), cohort.labels, np.full(len(cohort), np.nan)
    for group in group_sites(cohort.sites, site, GROUPS):
        train, test = hold_out(site, group)
        model = TunedMethod(method_info(method)).fit(cohort.subset(train))
        score[test] = model.score(cohort.subset(test))
    here = [(site == name, int(y[site == name].sum())) for name in cohort.sites]
    both = [(auc(y[at], score[at]), m, int(at.sum()) - m) for at, m in here if 0 < m < at.sum()]
    values, cases, controls = np.transpose(both)
    return mean_over_sites(values, site_weights(cases, controls))


if __name__ == "__main__":
    main()
