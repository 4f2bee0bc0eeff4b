"""Do prediction sets hold what they promise at held-out sites, and how often do they decide?"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.evaluation.adaptation import Record, left_out
from brainroam.methods.prediction_sets import PredictionSets

COLUMNS = ("method", "level", "site", "seed", "n", "covered_cases", "covered_controls", "covered", "decided", "right")


def coverage(records: Iterable[Record]) -> pd.DataFrame:
    """Coverage and set sizes at each held-out site.

    Returns
    -------
    DataFrame
        One row per method, ``level``, ``site`` and ``seed``: people ``n`` (one with several
        scans counts once, each scan for its part), the share whose set holds their label
        (``covered``; of cases and of controls), the share with one label in the set (``decided``), and of these the
        share with the right one (``right``).

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=6, n_per_site=30, n_rois=10)
    >>> found = coverage(brainroam.evaluate(cohort, ["fc-ridge"]).records)
    >>> found["level"].unique().tolist(), bool(found["covered"].mean() > 0.7)
    ([0.8], True)
    """
    rows = []
    for spec, result in left_out(records):
        learned, people = result["next_site"], pd.DataFrame(result["predictions"])
        label, score = people["label"].to_numpy(), people["score"].to_numpy(dtype=float)
        sets = PredictionSets(
            learned["n_sites"], {float(level): tuple(pair) for level, pair in learned["sets"].items()}
        )
        for level in sets.limits:
            words = sets(score, level)
            decided = ((words == "case") | (words == "control")).astype(float)
            held = ((words == "either") | (words == np.where(label == 1, "case", "control"))).astype(float)
            each = people_of(people.assign(held=held, decided=decided, right=held * decided), ())
            of_class = [each.loc[each["label"] == c, "held"].mean() for c in (1, 0)]
            shares = each[["held", "decided", "right"]].mean()
            right = shares["right"] / shares["decided"] if decided.any() else np.nan
            measures = (len(each), *of_class, shares["held"], shares["decided"], right)
            rows.append((spec.name, level, spec.fold, spec.seed, *measures))
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["method", "level", "site", "seed"], ignore_index=True)


def over_sites(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method and level: means over sites, and the worst site's coverage."""
    sites = table.groupby(["method", "level", "site"])[list(COLUMNS[5:])].mean()
    means = sites.groupby(["method", "level"]).mean()
    worst = sites["covered"].groupby(["method", "level"]).agg(worst="min", worst_site=lambda s: s.idxmin()[2])
    return means.join(worst).reset_index()
