"""What runs keep for the next site, read again: what a few of its people bring there, and prediction sets.

Each leave-one-site-out run keeps the level of training sites and how far to trust a new one's own (`site_shift`),
learned without the held-out site. So any number of its people can be tried afterwards: n of them are drawn, move the
threshold, and are not scored; the others are, strictly and adapted, the same people both ways. Repeated and averaged
within the site. Of two classes they are controls; of a number, people whose value is known, who mend level and scale.
A site takes part as long as five of those who may be drawn remain to be scored.

Every row names its protocol: ``strict``, ``controls-20``, ``unlabelled``, ``labelled-20``.

Prediction sets promise to hold the truth of a share of people at a new site: `coverage` counts whether they did.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.data.target.calibration import Calibration, NumberCalibration
from brainroam.data.target.sets import PredictionSets
from brainroam.data.target.shifts import LABELLED, SCALE, STRICT, UNLABELLED, SiteShift, mend, protocol_name
from brainroam.data.target.sites_two import BALANCED, balanced_metrics
from brainroam.errors import UsageError
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.stats import numbers
from brainroam.evaluation.stats.metrics import JUDGED, auc, mean_over_sites, site_weights
from brainroam.evaluation.stats.paired import left_out_t

CONTROLS = (0, 5, 10, 20, 40)
N_DRAWS = 50
LEAST_LEFT = 5
KEY = ("method", "adaptation", "site", "seed")
COVERAGE = ("method", "level", "site", "seed", "n", "covered_cases", "covered_controls", "covered", "decided", "right")
MEASURED = ("auc", *BALANCED)
MENDED = ("r", "mae", "off", "scale")

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
        How many controls of the held-out site move the threshold, or how many of its people with a known number mend
        level and scale; 0 is strict.
    n_draws, seed : int
        How often they are drawn.

    Returns
    -------
    DataFrame
        One row per method, ``adaptation``, site and seed: ``n_used`` of the site, people ``n`` who are scored, and of
        these ``auc``, ``balanced_acc``, ``sensitivity``, ``specificity``, ``brier`` (mean of both classes, so that
        their share does not move it) and ``calibration_in_the_large``: by how much the mean probability, both classes
        counting alike, is off one half. Probabilities are those for a prevalence of one half. Of a number ``r``, the
        mean absolute error ``mae``, ``off``, by how much the mean prediction is off the mean truth whatever the sign,
        and ``scale`` (`numbers.site_metrics`). The same with ``strict_`` before the name: the same people by what the
        training sites say.

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
    runs = list(left_out(records))
    rows = [row for spec, result in runs for row in _of_run(spec, result, controls, n_draws, seed)]
    of_number = any(_target(result).is_number for _, result in runs)
    measured = MENDED if of_number else ("n_cases", *MEASURED)
    strict = (f"strict_{name}" for name in (MENDED if of_number else MEASURED))
    return pd.DataFrame(rows, columns=[*KEY, "n_used", "n", *measured, *strict]).sort_values(
        list(KEY), ignore_index=True
    )


def _target(result: Mapping[str, Any]) -> Target:
    return Target.of_description(result.get("target"))


def left_out(records: Iterable[Record]) -> Iterator[Record]:
    """The runs that leave one site out."""
    return ((spec, result) for spec, result in records if spec.protocol == "loso")


def kept_next_site(records: Iterable[Record], method: str) -> list[Record]:
    """The leave-one-site-out runs of a method; none where one of them keeps nothing of the next site."""
    runs = [(spec, result) for spec, result in records if (spec.protocol, spec.name) == ("loso", method)]
    return runs if all("next_site" in result for _, result in runs) else []


def adaptation_summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method and protocol: means over sites, and the difference to strict at the same sites and people.

    ``gain`` is that of balanced accuracy, of a number of the mean absolute error (below 0 where it is smaller), with
    its 95 % interval over sites (`paired.left_out_t`).
    """
    rows, of_number = [], "mae" in table
    main, measured = ("mae", MENDED) if of_number else ("balanced_acc", MEASURED)
    for (method, name), runs in table.groupby(["method", "adaptation"]):
        sites = runs.groupby("site").mean(numeric_only=True)
        gain = (sites[main] - sites[f"strict_{main}"]).dropna()
        n = sites["n"]
        of_sites = numbers.weights_of(n) if of_number else site_weights(sites["n_cases"], n - sites["n_cases"])
        weights = pd.Series(of_sites, sites.index)
        gap = left_out_t(gain.to_numpy(), weights[gain.index].to_numpy())
        means = {key: mean_over_sites(sites[key], weights) for name in measured for key in (name, f"strict_{name}")}
        if of_number:  # as in a verdict: the slope of a single site may be far from the others
            means |= {key: float(sites[key].median()) for key in ("scale", "strict_scale")}
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
    return column.map(lambda name: ends[name] if name in ends else int(name.rpartition("-")[2]))


class _Site(NamedTuple):
    """A held-out site: who may be drawn, what those of them who are taken bring to the others, and their protocol."""

    free: np.ndarray
    measure: Callable[[np.ndarray], dict[str, float]]
    who: str


def _of_run(
    spec: RunSpec, result: Mapping[str, Any], controls: Sequence[int], n_draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    target, people = _target(result), people_of(pd.DataFrame(result["predictions"]), ())
    label, score = (people[name].to_numpy(dtype=float) for name in ("label", "score"))

    def row(name: str, used: int, tries: list[dict[str, float]]) -> dict[str, Any]:
        means = pd.DataFrame(tries).mean().to_dict()
        key = dict(zip(KEY, (spec.name, name, spec.fold, spec.seed), strict=True))
        return key | {"n_used": used} | means

    site = _site_of_number(target, result, label, score) if target.is_number else _site_of_two(result, label, score)
    for n in controls:
        if len(site.free) < n + LEAST_LEFT and n:
            continue
        rng = np.random.default_rng([seed, n, *spec.fold.encode()])  # the same people for every method
        tries = [site.measure(rng.choice(site.free, n, replace=False)) for _ in range(n_draws if n else 1)]
        yield row(protocol_name(n, site.who), n, tries)
    if not target.is_number:
        calibration, shift = _calibration(result), _shifts(result)[UNLABELLED](score)
        yield row(UNLABELLED, len(label), [_metrics(label, score, calibration, shift)])


def _calibration(result: Mapping[str, Any]) -> Calibration:
    return Calibration(**result["next_site"]["calibration"])


def _shifts(result: Mapping[str, Any]) -> dict[str, SiteShift]:
    return {name: SiteShift.of_row(values) for name, values in result["next_site"]["shifts"].items()}


def _site_of_two(result: Mapping[str, Any], label: np.ndarray, score: np.ndarray) -> _Site:
    """Of two classes, some of its controls move the threshold."""
    calibration, shift = _calibration(result), _shifts(result)["controls"]

    def measure(taken: np.ndarray) -> dict[str, float]:
        left = np.delete(np.arange(len(label)), taken)
        return _metrics(label[left], score[left], calibration, shift(score[taken]))

    return _Site(np.flatnonzero(label == 0), measure, "controls")


def _site_of_number(target: Target, result: Mapping[str, Any], label: np.ndarray, score: np.ndarray) -> _Site:
    """Of a number, some of its people mend level and scale of the others' predictions, as `TunedMethod.mend` does."""
    line, shifts = NumberCalibration(**result["next_site"]["calibration"]), _shifts(result)
    prediction, constant = line(score), float(result["constant"])

    def measure(taken: np.ndarray) -> dict[str, float]:
        left, truth = np.delete(np.arange(len(label)), taken), target.forward(label[taken])
        mended = mend(prediction[left], prediction[taken], truth, shifts[LABELLED], shifts[SCALE])
        metrics: dict[str, float] = {"n": len(left)}
        for prefix, values in (("", mended), ("strict_", prediction[left])):
            found = numbers.site_metrics(label[left], target.inverse(values), constant, target)
            found["off"] = abs(found["level"])
            metrics |= {f"{prefix}{name}": found[name] for name in MENDED}
        return metrics

    return _Site(np.arange(len(label)), measure, LABELLED)


def _metrics(label: np.ndarray, score: np.ndarray, strict: Calibration, shift: float) -> dict[str, float]:
    """Of the people who are scored, at the shifted threshold and at that of the training sites."""
    metrics: dict[str, float] = {"n": len(label), "n_cases": int(label.sum())}
    order = auc(label, score)  # the same people are moved by the same shift
    for prefix, moved in (("", score - shift), ("strict_", score)):
        measured = {"auc": order, **balanced_metrics(label, strict(moved, prevalence=0.5), strict.decide(moved))}
        metrics |= {f"{prefix}{name}": measured[name] for name in MEASURED}
    return metrics


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
