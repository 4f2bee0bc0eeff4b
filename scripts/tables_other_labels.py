"""How tables are read at small sites, with labels that nobody's choices were made for.

    brainroam init FOLDER --case 1 --out study.yaml     # FreeSurfer tables and a table of people
    python scripts/tables_other_labels.py study.yaml --methods fc-ridge,ensemble,core

The labels are the diagnosis, sex, being older than half of the site, and labels drawn by chance whose people were given
an effect: on ten columns (few), on all alike (every), in all directions in which people differ alike (small). People
are drawn and their sites cut into pieces of about so many people; five groups of these sites are held out in turn.
Printed are AUCs within sites in points, sites weighted as in a study, mean over the draws.
"""

import warnings

import numpy as np
import pandas as pd
from common import parser_of

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.data.folds import group_sites, hold_out
from brainroam.data.target.order import auc
from brainroam.data.target.within import within_sites
from brainroam.evaluation.stats.metrics import mean_over_sites, site_weights
from brainroam.methods.registry import method_info, split_names
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.optional import one_thread

DESIGNS = ((1035, None, 1), (663, 11, 2), (350, 8, 2), (200, 20, 2))  # people, people of a site, draws
LABELS, PLANTED = ("diagnosis", "sex", "older"), ("few", "every", "small")
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
    for name in LABELS + PLANTED:
        for n, size, draws in DESIGNS:
            aucs = [
                [100 * judged(method, drawn(cohort, name, min(n, len(cohort)), size, draw)) for method in methods]
                for draw in range(draws)
            ]
            rows.append([name, n, *np.mean(aucs, axis=0)])
            print(*rows[-1][:2], *(f"{value:.1f}" for value in rows[-1][2:]), flush=True)
    table = pd.DataFrame(rows, columns=["label", "people", *methods])
    print(table.groupby([table["label"].isin(PLANTED), "people"])[methods].mean().round(1))


def drawn(cohort: Cohort, name: str, n: int, size: int | None, draw: int) -> Cohort:
    """Some people at small sites, with a label; what the label was made of is no covariate."""
    rng, table = np.random.default_rng(100 + draw), cohort.table
    older = table["age"] > table.groupby("site")["age"].transform("median")
    labels = {"diagnosis": table["label"], "sex": table["sex"], "older": older}
    values = np.concatenate(list(cohort.series))
    if name in PLANTED:
        labels[name] = pd.Series(rng.permutation(len(table)) % 2)
        values = values + np.outer(labels[name], planted_effect(name, values, table["site"].to_numpy(), rng))
    columns = ["subject", "site", *({"age", "sex"} - {"older": {"age"}, "sex": {"sex"}}.get(name, set()))]
    people = np.sort(rng.permutation(len(cohort))[:n])
    made = table[columns].assign(label=labels[name].astype(float)).iloc[people].reset_index(drop=True)
    if size is not None:
        for site, here in list(made.groupby("site").indices.items()):
            pieces = np.array_split(rng.permutation(here), max(1, round(len(here) / size)))
            for k, piece in enumerate(pieces):
                made.loc[piece, "site"] = f"{site}_{k}"
    return Cohort(list(values[people, None]), made, cohort.atlas, measure=cohort.measure)


def planted_effect(name: str, values: np.ndarray, site: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """What the cases get in every column, in its own units."""
    centred = within_sites(values, site)
    spread, n_columns = centred.std(axis=0), values.shape[1]
    if name == "few":
        return spread * rng.permutation(np.repeat([0.45, 0.0], [10, n_columns - 10])) * rng.choice([-1, 1], n_columns)
    if name == "every":
        return spread * rng.normal(0, 0.06, n_columns)
    _, size, axes = np.linalg.svd(centred / spread, full_matrices=False)
    direction = rng.normal(size=len(size))
    return spread * (2.2 * direction / np.linalg.norm(direction) * size / np.sqrt(len(values)) @ axes)


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
