"""Which of several classes are told from which: pair by pair, among the people of the two classes alone.

The score of a pair is log p_i - log p_j, and its AUC at the sites is judged as that of two classes. Two are told apart
where chance is ruled out after Holm's correction over all pairs: of twelve classes there are 66.
"""

from types import ModuleType

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.data.target.order import auc
from brainroam.data.target.sites_several import SURE
from brainroam.evaluation.stats.paired import holm

ALPHA = 0.05


def class_pairs(predictions: pd.DataFrame, target: Target, models: ModuleType) -> pd.DataFrame:
    """Each pair of classes at held-out sites: the AUC among their people alone, with its verdict over sites.

    Parameters
    ----------
    predictions : DataFrame
        Of one method and protocol: ``site``, ``seed``, ``subject``, ``label`` and ``probability_<class>``, or, where a
        file tells none, ``score_<class>``.
    target : Target
    models : module
        `brainroam.evaluation.stats.verdict`.

    Returns
    -------
    DataFrame
        ``class_1``, ``class_2``, ``n_sites``, ``auc``, ``low``, ``high``, ``next_low``, ``next_high``, ``reason``,
        ``p`` of chance and ``p_holm``, corrected for all pairs, and ``apart``: whether they are told apart.
    """
    means, scores = ([f"{what}_{name}" for name in target.classes] for what in ("probability", "score"))
    scored = predictions[means].isna().any(axis=None)
    means = scores if scored else means
    people = predictions.groupby(["site", "subject"], as_index=False).agg(
        {**dict.fromkeys(means, "mean"), "label": "first", **({"person": "first"} if "person" in predictions else {})}
    )
    people = people_of(people)
    odds, code = people[means].to_numpy(dtype=float), people["label"].to_numpy(dtype=int)
    odds = odds if scored else np.log(np.maximum(odds, SURE))
    site, rows = people["site"].to_numpy(), []
    for i, j in target.pairs_of_classes:
        values = []
        for name in np.unique(site):
            here = (site == name) & np.isin(code, (i, j))
            first = code[here] == i
            if 0 < first.sum() < len(first):
                values.append((auc(first, (odds[:, i] - odds[:, j])[here]), first.sum(), (~first).sum()))
        of_sites = np.array(values).reshape(-1, 3).T
        judged = models.verdict(*of_sites)
        names = {"class_1": target.classes[i], "class_2": target.classes[j], "n_sites": judged.n_sites}
        ends = {name: getattr(judged, name) for name in ("low", "high", "next_low", "next_high", "reason")}
        rows.append(
            {**names, "n_sites": judged.n_sites, "auc": judged.mean, **ends, "p": models.p_of_chance(*of_sites)}
        )
    pairs = pd.DataFrame(rows)
    corrected = holm(pairs["p"].to_numpy(dtype=float))
    return pairs.assign(p_holm=corrected, apart=(corrected < ALPHA) & (pairs["auc"] > 0.5))


def confusion(predictions: pd.DataFrame, target: Target) -> pd.DataFrame:
    """How many scans of each class (rows) were called which (columns), for each site: a row per site and class."""
    names = dict(enumerate(target.classes))
    table = pd.crosstab(
        [predictions["site"], predictions["label"].astype(int).map(names)],
        predictions["predicted"].astype(int).map(names),
        rownames=["site", "label"],
        colnames=["predicted"],
    )
    return table.reindex(columns=list(target.classes), fill_value=0).reset_index()
