"""What does `brainroam check` say of series that are read but wrong, and what do meaningless labels still reach?

    python scripts/spoiled_series.py ABIDE_pcp --atlas aal

Everybody as they are, then spoiled: left and right exchanged at each site in turn and in 60 people (also in `predict`,
by a model's `Familiarity` of the other sites), files of each site shifted by one person, codes, steps, drift and first
volumes in 200 people, cases filtered. Last, labels drawn by chance with volumes zero-padded or scrubbed in "cases" more
often: the AUC of plain ridge where such volumes are kept and where they are dropped. The figures of
docs/results/tried.md come from here.
"""

import warnings
from collections.abc import Callable

import numpy as np
from common import data_parser_of
from scipy.signal import butter, sosfiltfilt

import brainroam
from brainroam.data.check import check_cohort, shifted, site_pattern, time_course
from brainroam.data.check.duplicates import correlations
from brainroam.data.cohort import Cohort
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.familiarity import Familiarity

CODES = {"exchanged-sides", "shifted-site", "empty-volumes", "label-by-empty", "far-values", "step", "transient"}
CODES |= {"label-by-spectrum", "site-spectrum"}
LEVEL = 50  # of a raw signal, in standard deviations; the series of ABIDE have mean 0
Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def main() -> None:
    """Print one line for each way of spoiling."""
    parser = data_parser_of(__doc__)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    found = [finding.code for finding in check_cohort(cohort).findings if finding.code in CODES]
    print(f"{given.atlas}, {len(cohort)} people as they are: {found or 'nothing'}", flush=True)
    exchanged(cohort)
    moved(cohort)
    some = cohort.subset(np.sort(np.random.default_rng(0).choice(len(cohort), 200, replace=False)))
    for name, change in WAYS.items():
        course = time_course.measure(spoiled(some, change, np.ones(len(some), dtype=bool)))
        early = course["transient"] > time_course.MAX_TRANSIENT
        far, step = course["far"] > time_course.MAX_FAR, course["step"] > time_course.MIN_STEP
        told = {"far": far & ~early, "step": step & ~early, "transient": early}
        print(f"{name}: " + ", ".join(f"{kind} {mask.mean():.3f}" for kind, mask in told.items()), flush=True)
    filters(cohort)
    for name, per_class in (("zero-padded", (0.25, 0.0)), ("scrubbed to 0", (0.08, 0.05))):
        meaningless(cohort, name, per_class)


def exchanged(cohort: Cohort) -> None:
    """Left and right exchanged at one site, in some people, and at a new site in `predict`."""
    pairs, edges, site = cohort.atlas.homologues, correlations(cohort), cohort.table["site"].to_numpy()
    assert pairs is not None
    u, v = np.triu_indices(cohort.n_rois, 1)
    place = np.zeros((cohort.n_rois, cohort.n_rois), dtype=int)
    place[u, v] = place[v, u] = np.arange(len(u))
    mirror = place[pairs[u], pairs[v]]

    def named(people: np.ndarray) -> list:
        turned = edges.copy()
        turned[people] = turned[people][:, mirror]
        return [f for f in site_pattern.unlike_sites(cohort, turned) if f.code == "exchanged-sides"]

    right = wrong = 0
    for name in cohort.sites:
        findings = named(site == name)
        right += any(f.site == name and not f.subjects for f in findings)
        wrong += sum(f.site != name for f in findings)
    print(f"sides exchanged at one site: {right} of {len(cohort.sites)} named, {wrong} others", flush=True)
    who = np.random.default_rng(0).choice(len(cohort), 60, replace=False)
    told = {subject for f in named(who) for subject in f.subjects}
    truth = set(cohort.table["subject"].iloc[who])
    print(f"sides exchanged in 60 people: {len(told & truth)} found, {len(told - truth)} others", flush=True)
    for name in [name for name in ("USM", "YALE") if name in cohort.sites]:
        known = Familiarity.of(cohort.select([other for other in cohort.sites if other != name]))
        new = cohort.select([name])
        turned = Cohort([x[:, pairs] for x in new.series], new.table, new.atlas)
        shares = [np.mean(["exchanged" in flags for flags in known.flags(c)]) for c in (new, turned)]
        print(f"predict at {name}: {shares[0]:.3f} flagged as they are, {shares[1]:.3f} exchanged", flush=True)


def moved(cohort: Cohort) -> None:
    """Files of one site shifted by one person."""
    edges, site, right, wrong = correlations(cohort), cohort.table["site"].to_numpy(), [], 0
    for name in cohort.sites:
        here = np.flatnonzero(site == name)
        for step in (1, -1):
            rows = np.arange(len(cohort))
            rows[here] = np.roll(here, step)
            findings = list(shifted.shifted_sites(cohort, edges[rows]))
            right += [name for f in findings if f.site == name]
            wrong += sum(f.site != name for f in findings)
    print(
        f"files shifted: {len(right)} of {2 * len(cohort.sites)} named, {wrong} others: {sorted(set(right))}",
        flush=True,
    )


def spoiled(cohort: Cohort, change: Change, who: np.ndarray) -> Cohort:
    """The cohort with other series for some people."""
    series = [
        change(np.array(x), np.random.default_rng(i)) if here else x
        for i, (x, here) in enumerate(zip(cohort.series, who, strict=True))
    ]
    return Cohort(series, cohort.table, cohort.atlas)


def standardised(x: np.ndarray) -> np.ndarray:
    """Each region with mean 0 and standard deviation 1."""
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def cell(x: np.ndarray, code: float) -> np.ndarray:
    """One cell replaced by a code."""
    x[50, 10] = code
    return x


def joined(x: np.ndarray, rng: np.random.Generator, size: float) -> np.ndarray:
    """Another level of each region from a third of the scan on."""
    x[len(x) // 3 :] += size * x.std(axis=0) * rng.choice([-1, 1], x.shape[1])
    return x


def early(x: np.ndarray, size: float, pace: float) -> np.ndarray:
    """First volumes that are too bright."""
    return x + size * x.std(axis=0) * np.exp(-np.arange(len(x)) / pace)[:, None]


WAYS: dict[str, Change] = {
    **{f"one cell of {code}": lambda x, rng, c=code: cell(x, c) for code in (-9999, 9999, 99999, -32768, -999, -99)},
    **{
        f"1 % of cells {code}, standardised": lambda x, rng, c=code: np.where(
            rng.random(x.shape) < 0.01, c, standardised(x)
        )
        for code in (-9999, -999, 99, -99)
    },
    "30 % of cells -9999": lambda x, rng: np.where(rng.random(x.shape) < 0.3, -9999, x),
    "one cell of -9999, standardised afterwards": lambda x, rng: standardised(cell(x, -9999)),
    **{f"a step of {size} sd": lambda x, rng, s=size: joined(x, rng, s) for size in (0.5, 1, 2, 5)},
    "linear drift of 5 sd": lambda x, rng: x + x.std(axis=0) * np.linspace(0, 5, len(x))[:, None],
    "exponential drift of 5 sd": lambda x, rng: early(x, 5, 60),
    **{f"first volumes {size} sd": lambda x, rng, s=size: early(x, s, 1) for size in (5, 20)},
}


def filters(cohort: Cohort) -> None:
    """Meaningless labels; "cases" low-passed below a frequency that all scans have."""
    label = np.random.default_rng(1).integers(0, 2, len(cohort))
    cohort = cohort.with_columns(cohort.table[["label"]].assign(label=label))
    low = butter(3, 2 * 0.12, output="sos")
    for share in (1.0, 0.5, 0.25):
        who = (label == 1) & (np.random.default_rng(2).random(len(label)) < share)
        dirty = spoiled(cohort, lambda x, rng: sosfiltfilt(low, x, axis=0), who)
        findings = list(time_course.spectra(dirty, time_course.measure(dirty)))
        sites = sum(f.site is not None for f in findings)
        whole = any(f.site is None for f in findings)
        print(f"{share:.0%} of cases filtered: cohort {'named' if whole else 'not named'}, {sites} sites", flush=True)


def meaningless(cohort: Cohort, name: str, shares: tuple[float, float]) -> None:
    """AUC over sites of plain ridge where labels mean nothing and volumes of a raw signal are 0 more often in cases."""
    label = np.random.default_rng(1).integers(0, 2, len(cohort))
    cohort = cohort.with_columns(cohort.table[["label"]].assign(label=label))

    def emptied(value: float) -> list[np.ndarray]:
        series = []
        for i, (x, y) in enumerate(zip(cohort.series, label, strict=True)):
            x, n = LEVEL * x.std(axis=0) + x, round(shares[0 if y else 1] * len(x))
            rows = (
                np.arange(len(x))[len(x) - n :]
                if "padded" in name
                else np.random.default_rng(i).permutation(len(x))[:n]
            )
            x[rows] = value + (0 if value == 0 else 1e-9 * np.random.default_rng(i).normal(size=(n, x.shape[1])))
            series.append(x)
        return series

    for told, value in (("kept", 1e-6), ("dropped", 0.0)):  # numbers that only nearly are zero are not dropped
        dirty = Cohort(emptied(value), cohort.table, cohort.atlas)
        predictions = brainroam.evaluate(dirty, ["fc-ridge"]).predictions
        aucs = [auc(part["label"].to_numpy(), part["score"].to_numpy()) for _, part in predictions.groupby("site")]
        print(f"{name}, {shares}: volumes {told}: AUC {np.mean(aucs):.3f}", flush=True)


if __name__ == "__main__":
    main()
