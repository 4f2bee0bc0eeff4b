"""What runs keep for the next site, read again: what a few of its people bring there, and prediction sets.

Each leave-one-site-out run keeps the level of training sites and how far to trust a new one's own, learned without the
held-out site. So any number of its people can be tried afterwards (`brainroam.data.target.adaptation`): n of them are
drawn and are not scored; the others are, strictly and adapted. Repeated and averaged within the site. A site takes part
as long as five of those who may be drawn remain to be scored.

Every row names its protocol: ``strict``, ``controls-20``, ``unlabelled``, ``labelled-20``.

Prediction sets promise to hold the truth of a share of people at a new site: `coverage` counts whether they did.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.adaptation import Adaptation
from brainroam.data.target.shifts import STRICT, UNLABELLED
from brainroam.data.target.weights import JUDGED, mean_over_sites
from brainroam.errors import UsageError
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.stats.paired import left_out_t

CONTROLS = (0, 5, 10, 20, 40)
N_DRAWS = 50
LEAST_LEFT = 5
KEY = ("method", "adaptation", "site", "seed")
COVERAGE = ("method", "level", "site", "seed", "n", "covered_cases", "covered_controls", "covered", "decided", "right")

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
    runs = [(*run, about) for run in left_out(records) if (about := _adaptation(run[1])) is not None]
    rows = [row for each in runs for row in _of_run(*each, controls, n_draws, seed)]
    measured = dict.fromkeys(name for *_, about in runs for name in (*about.counts, *about.measured))
    strict = dict.fromkeys(f"strict_{name}" for *_, about in runs for name in about.measured)
    return pd.DataFrame(rows, columns=[*KEY, "n_used", "n", *measured, *strict]).sort_values(
        list(KEY), ignore_index=True
    )


def _adaptation(result: Mapping[str, Any]) -> Adaptation | None:
    return Target.of_description(result.get("target")).adaptation


def left_out(records: Iterable[Record]) -> Iterator[Record]:
    """The runs that leave one site out."""
    return ((spec, result) for spec, result in records if spec.protocol == "loso")


def kept_next_site(records: Iterable[Record], method: str) -> list[Record]:
    """The leave-one-site-out runs of a method; none where one of them keeps nothing of the next site."""
    runs = [(spec, result) for spec, result in records if (spec.protocol, spec.name) == ("loso", method)]
    return runs if all("next_site" in result for _, result in runs) else []


def adaptation_summary(table: pd.DataFrame, target: Target = TWO_CLASSES) -> pd.DataFrame:
    """One row per method and protocol: means over sites, and the difference to strict at the same sites and people.

    ``gain`` is that of balanced accuracy, of a number of the mean absolute error (below 0 where it is smaller), with
    its 95 % interval over sites (`paired.left_out_t`).
    """
    about, rows = target.adaptation, []
    if about is None:
        return pd.DataFrame()
    for (method, name), runs in table.groupby(["method", "adaptation"]):
        sites = runs.groupby("site").mean(numeric_only=True)
        gain = (sites[about.main] - sites[f"strict_{about.main}"]).dropna()
        weights = pd.Series(about.weights(sites), sites.index)
        gap = left_out_t(gain.to_numpy(), weights[gain.index].to_numpy())
        names = [key for name in about.measured for key in (name, f"strict_{name}")]
        means = {key: mean_over_sites(sites[key], weights) for key in names} | about.other_means(sites)
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


def _of_run(
    spec: RunSpec, result: Mapping[str, Any], about: Adaptation, controls: Sequence[int], n_draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    people, kept = people_of(pd.DataFrame(result["predictions"]), ()), result["next_site"]
    label, score = (people[name].to_numpy(dtype=float) for name in ("label", "score"))
    free, constant = about.free(label), float(result.get("constant", np.nan))

    def row(name: str, used: int, tries: list[dict[str, float]]) -> dict[str, Any]:
        means = pd.DataFrame(tries).mean().to_dict()
        key = dict(zip(KEY, (spec.name, name, spec.fold, spec.seed), strict=True))
        return key | {"n_used": used} | means

    for n in controls:
        if len(free) < n + LEAST_LEFT and n:
            continue
        rng = np.random.default_rng([seed, n, *spec.fold.encode()])  # the same people for every method
        drawn = (rng.choice(free, n, replace=False) for _ in range(n_draws if n else 1))
        yield row(about.protocol(n), n, [about.scored(kept, label, score, taken, constant) for taken in drawn])
    everybody = about.of_everybody(kept, label, score)
    if everybody is not None:
        yield row(UNLABELLED, len(label), [everybody])


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
        about, people = _adaptation(result), pd.DataFrame(result["predictions"])
        sets = None if about is None else about.sets(result["next_site"])
        if sets is None:
            continue
        label, score = people["label"].to_numpy(), people["score"].to_numpy(dtype=float)
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
