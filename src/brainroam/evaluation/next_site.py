"""What runs keep for the next site, read again: a threshold shifted by a few of its people, and prediction sets.

Each leave-one-site-out run keeps the level of training sites and how far to trust a new one's own (`site_shift`),
learned without the held-out site. So any number of its controls can be tried afterwards: n of them are drawn, move the
threshold, and are not scored; the others are, strictly and adapted, the same people both ways. Repeated and averaged
within the site. A site takes part as long as five controls remain to be scored.

Every row names its protocol: ``strict``, ``controls-20``, ``unlabelled``.

Prediction sets promise to hold the truth of a share of people at a new site: `coverage` counts whether they did.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.calibration import Calibration
from brainroam.data.people import people_of
from brainroam.errors import UsageError
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.stats.metrics import JUDGED, auc, mean_over_sites, site_weights
from brainroam.evaluation.stats.paired import left_out_t
from brainroam.methods.prediction_sets import PredictionSets
from brainroam.methods.site_shift import STRICT, UNLABELLED, SiteShift, protocol_name

CONTROLS = (0, 5, 10, 20, 40)
N_DRAWS = 50
LEAST_LEFT = 5
KEY = ("method", "adaptation", "site", "seed")
COVERAGE = ("method", "level", "site", "seed", "n", "covered_cases", "covered_controls", "covered", "decided", "right")
MEASURED = ("auc", "balanced_acc", "sensitivity", "specificity", "brier", "calibration_in_the_large")

Record = tuple[RunSpec, Mapping[str, Any]]


def adapted(
    records: Iterable[Record], controls: Sequence[int] = CONTROLS, n_draws: int = N_DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Metrics of each run under each protocol.

    Parameters
    ----------
    records : iterable of (RunSpec, dict)
        Of `Results`; those that leave one site out are used.
    controls : sequence of int
        How many controls of the held-out site move the threshold; 0 is strict.
    n_draws, seed : int
        How often they are drawn.

    Returns
    -------
    DataFrame
        One row per method, ``adaptation``, site and seed: ``n_used`` of the site, people scored, and of these
        ``auc``, ``balanced_acc``, ``sensitivity``, ``specificity``, ``brier`` (mean of both classes, so that their
        share does not move it) and ``calibration_in_the_large``: by how much the mean probability, both classes
        counting alike, is off one half. Probabilities are those for a prevalence of one half. The same with
        ``strict_`` before the name: the same people at the threshold of the training sites.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=30, n_rois=10)
    >>> results = brainroam.evaluate(cohort, ["fc-ridge"])
    >>> adapted(results.records, [0, 5], n_draws=2)["adaptation"].unique().tolist()
    ['controls-5', 'strict', 'unlabelled']
    """
    if any(n < 0 for n in controls):
        raise UsageError("a number of controls cannot be negative")
    rows = [row for spec, result in left_out(records) for row in _of_run(spec, result, controls, n_draws, seed)]
    columns = [*KEY, "n_used", "n", "n_cases", *MEASURED, *(f"strict_{name}" for name in MEASURED)]
    return pd.DataFrame(rows, columns=columns).sort_values(list(KEY), ignore_index=True)


def left_out(records: Iterable[Record]) -> Iterator[Record]:
    """The runs that leave one site out."""
    return ((spec, result) for spec, result in records if spec.protocol == "loso")


def kept_next_site(records: Iterable[Record], method: str) -> list[Record]:
    """The leave-one-site-out runs of a method; none where one of them keeps nothing of the next site."""
    runs = [(spec, result) for spec, result in records if (spec.protocol, spec.name) == ("loso", method)]
    return runs if all("next_site" in result for _, result in runs) else []


def adaptation_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method and protocol: means over sites, and the difference to strict at the same sites and people.

    ``gain`` is that of balanced accuracy, with its 95 % interval over sites (`paired.left_out_t`).
    """
    rows = []
    for (method, name), runs in table.groupby(["method", "adaptation"]):
        sites = runs.groupby("site").mean(numeric_only=True)
        gain = (sites["balanced_acc"] - sites["strict_balanced_acc"]).dropna()
        weights = pd.Series(site_weights(sites["n_cases"], sites["n"] - sites["n_cases"]), sites.index)
        gap = left_out_t(gain.to_numpy(), weights[gain.index].to_numpy())
        means = {key: mean_over_sites(sites[key], weights) for name in MEASURED for key in (name, f"strict_{name}")}
        rows.append(
            {"method": method, "adaptation": name, "n_sites": len(sites)}
            | means
            | {"gain": gap.mean, "gain_low": gap.low, "gain_high": gap.high}
        )
    return pd.DataFrame(rows).sort_values(["method", "adaptation"], key=_order, ignore_index=True)


def _order(column: pd.Series) -> pd.Series:
    """Protocols by how much they take of the new site."""
    if column.name != "adaptation":
        return column
    ends = {STRICT: 0, UNLABELLED: np.inf}
    return column.map(lambda name: ends[name] if name in ends else int(name.removeprefix("controls-")))


def _of_run(
    spec: RunSpec, result: Mapping[str, Any], controls: Sequence[int], n_draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    learned, people = result["next_site"], people_of(pd.DataFrame(result["predictions"]), ())
    label, score = people["label"].to_numpy(), people["score"].to_numpy(dtype=float)
    calibration = Calibration(**learned["calibration"])
    shifts = {name: SiteShift.of_row(values) for name, values in learned["shifts"].items()}

    def row(name: str, used: int, tries: list[dict[str, float]]) -> dict[str, Any]:
        means = pd.DataFrame(tries).mean().to_dict()
        key = dict(zip(KEY, (spec.name, name, spec.fold, spec.seed), strict=True))
        return key | {"n_used": used} | means

    everybody = np.ones(len(label), dtype=bool)
    free = np.flatnonzero(label == 0)
    for n in controls:
        if len(free) < n + LEAST_LEFT and n:
            continue
        rng = np.random.default_rng([seed, n, *spec.fold.encode()])  # the same people for every method
        tries = []
        for _ in range(n_draws if n else 1):
            taken = rng.choice(free, n, replace=False)
            scored = everybody.copy()
            scored[taken] = False
            tries.append(_metrics(label, score, scored, calibration, shifts["controls"](score[taken])))
        yield row(protocol_name(n), n, tries)
    yield row(UNLABELLED, len(label), [_metrics(label, score, everybody, calibration, shifts[UNLABELLED](score))])


def _metrics(
    label: np.ndarray, score: np.ndarray, scored: np.ndarray, strict: Calibration, shift: float
) -> dict[str, float]:
    """Of the people who are scored, at the shifted threshold and at that of the training sites."""
    y, s = label[scored], score[scored]
    metrics: dict[str, float] = {"n": len(y), "n_cases": int(y.sum())}
    order = auc(y, s)  # the same people are moved by the same shift
    for prefix, moved in (("", s - shift), ("strict_", s)):
        measured = {"auc": order, **balanced_metrics(y, strict(moved, prevalence=0.5), strict.decide(moved))}
        metrics |= {f"{prefix}{name}": measured[name] for name in MEASURED}
    return metrics


def balanced_metrics(label: np.ndarray, probability: np.ndarray, called: np.ndarray) -> dict[str, float]:
    """What does not move with the share of cases, both classes counting alike; NaN when a class is absent.

    ``balanced_acc``, ``sensitivity``, ``specificity`` of the people called cases (1) or not (0), and of probabilities
    for a prevalence of one half ``brier`` and ``calibration_in_the_large``, by how much the mean is off one half.

    >>> probability = np.array([0.2, 0.2, 0.8, 0.6])
    >>> balanced_metrics(np.array([0, 0, 0, 1]), probability, probability >= 0.5)["calibration_in_the_large"]
    0.0
    """
    cases, controls = probability[label == 1], probability[label == 0]
    if not (len(cases) and len(controls)):
        return dict.fromkeys(MEASURED[1:], float("nan"))
    sensitivity, specificity = float(np.mean(called[label == 1])), 1 - float(np.mean(called[label == 0]))
    return {
        "balanced_acc": (sensitivity + specificity) / 2,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "brier": float(((1 - cases) ** 2).mean() + (controls**2).mean()) / 2,
        "calibration_in_the_large": float(abs((cases.mean() + controls.mean()) / 2 - 0.5)),
    }


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
    return pd.DataFrame(rows, columns=list(COVERAGE)).sort_values(
        ["method", "level", "site", "seed"], ignore_index=True
    )


def coverage_over_sites(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method and level: means over sites, and the worst of sites with ten people or more."""
    by = ["method", "level"]
    means = table.groupby([*by, "site"])[list(COVERAGE[5:])].mean().groupby(by).mean()
    large = table[table["n"] >= 2 * JUDGED].groupby([*by, "site"])["covered"].mean()
    worst = large.loc[large.groupby(by).idxmin()].reset_index("site").set_axis(["worst_site", "worst"], axis=1)
    joined = means.join(worst).reset_index()
    return joined.assign(worst_site=joined["worst_site"].astype(object).fillna(""))
