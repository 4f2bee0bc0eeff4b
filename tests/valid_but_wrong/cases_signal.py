"""Series that are read but are no signal, or not this person's: padding, codes, steps, filters, sides, shifts."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import butter, sosfiltfilt
from tests.valid_but_wrong.campaign import Case
from tests.valid_but_wrong.cases_validity import check_says

from brainroam import load_cohort, make_cohort
from brainroam.data.atlas import Atlas
from brainroam.data.check import check_cohort
from brainroam.data.cohort import Cohort
from brainroam.methods.familiarity import Familiarity

P = 20
HALF = P // 2  # regions of the left, then their homologues
LEFT_RIGHT = Atlas("sided", tuple(f"Region{k}_{side}" for side in "LR" for k in range(HALF)))
LH_RH = Atlas("halves", tuple(f"{side}h.region{k}" for side in "lr" for k in range(HALF)))
PLACES = Atlas(
    "places",
    tuple(f"r{k}" for k in range(P)),
    np.array([[side * 30, k * 15, 9] for side in (-1, 1) for k in range(HALF)]),
)
Change = Callable[[np.ndarray, int], np.ndarray]


@cache
def cohort() -> Cohort:
    made = make_cohort(n_sites=3, n_per_site=20, n_rois=P, seed=2)
    return Cohort([x[:120] for x in made.series], made.table)


def spoiled(change: Change, who: np.ndarray | None = None, atlas: Atlas | None = None) -> Cohort:
    """The cohort with other series for some people (all by default)."""
    made = cohort()
    chosen = np.ones(len(made), dtype=bool) if who is None else who
    series = [
        change(np.array(x), i) if here else x for i, (x, here) in enumerate(zip(made.series, chosen, strict=True))
    ]
    return Cohort(series, made.table, atlas)


def cases(share: float = 1.0) -> np.ndarray:
    """Which people are cases; of them the first share at each site."""
    table = cohort().table
    order = table.groupby(["site", "label"]).cumcount() / table.groupby(["site", "label"])["label"].transform("size")
    return ((table["label"] == 1) & (order < share)).to_numpy()


def at(site: str) -> np.ndarray:
    return (cohort().table["site"] == site).to_numpy()


def warned(code: str, change: Change, who: Callable[[], np.ndarray | None] = lambda: None, atlas: Any = None) -> Any:
    return lambda _: check_says(spoiled(change, who(), atlas), code)


def silent(change: Change, who: Callable[[], np.ndarray | None] = lambda: None, atlas: Any = None) -> Any:
    """Whether what is harmless is not warned of."""
    return lambda _: _codes(spoiled(change, who(), atlas)) == _codes(cohort())


def _codes(checked: Cohort) -> set[str]:
    return {finding.code for finding in check_cohort(checked).findings}


def scrubbed(value: Any, share: float) -> Change:
    """A share of the volumes replaced by a number, or by what a function makes of the series."""

    def change(x: np.ndarray, i: int) -> np.ndarray:
        here = np.random.default_rng(i).permutation(len(x))[: round(share * len(x))]
        x[here] = value(x) if callable(value) else value
        return x

    return change


def padded(x: np.ndarray, i: int) -> np.ndarray:
    x[90:] = 0
    return x


def last_repeated(x: np.ndarray, i: int) -> np.ndarray:
    x[90:] = x[89]
    return x


def coded(code: float, share: float = 0.0) -> Change:
    """One cell, or a share of all, replaced by a code for missing."""

    def change(x: np.ndarray, i: int) -> np.ndarray:
        if share == 0:
            x[40, 3] = code
        x[np.random.default_rng(i).random(x.shape) < share] = code
        return x

    return change


def joined(size: float, place: int = 60) -> Change:
    """Another level of each region from some volume on, in its standard deviations."""

    def change(x: np.ndarray, i: int) -> np.ndarray:
        x[place:] += size * x.std(axis=0) * np.random.default_rng(i).choice([-1, 1], x.shape[1])
        return x

    return change


def drifting(x: np.ndarray, i: int) -> np.ndarray:
    return x + 4 * x.std(axis=0) * np.linspace(-1, 1, len(x))[:, None] * np.random.default_rng(i).choice([-1, 1], P)


def filtered(low: float, high: float) -> Change:
    """Band-passed, in cycles per volume."""
    kind, band = ("bandpass", (low, high)) if low else ("lowpass", high)
    return lambda x, i: sosfiltfilt(butter(3, 2 * np.array(band), kind, output="sos"), x, axis=0)


def unsaturated(size: float, pace: float = 1.0) -> Change:
    return lambda x, i: x + size * x.std(axis=0) * np.exp(-np.arange(len(x)) / pace)[:, None]


def exchanged(x: np.ndarray, i: int) -> np.ndarray:
    return np.roll(x, HALF, axis=1)


def few(site: str, n: int) -> Callable[[], np.ndarray]:
    return lambda: at(site) & (np.cumsum(at(site)) <= n)


def flagged_at_predict(_: Path) -> bool:
    """A model of two sites flags most people of the third when their sides are exchanged, and hardly one when not."""
    right, turned = spoiled(lambda x, i: x, atlas=LEFT_RIGHT), spoiled(exchanged, atlas=LEFT_RIGHT)
    known = Familiarity.of(right.select(["S01", "S02"]))
    share = [np.mean(["exchanged" in text for text in known.flags(c.select(["S03"]))]) for c in (right, turned)]
    return share[0] < 0.1 and share[1] > 0.9


@cache
def aged() -> Cohort:
    """Three sites whose edges follow age and sex strongly."""
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(8, 40, 90), rng.integers(0, 2, 90)
    series = []
    for a, s in zip((age - 24) / 10, sex - 0.5, strict=True):
        x = rng.normal(size=(150, P))
        shared = rng.normal(size=(150, 2))
        x[:, :6] += (0.8 + 0.35 * a) * shared[:, :1]
        x[:, 10:16] += (0.8 + 0.9 * s) * shared[:, 1:]
        series.append(x)
    label = rng.integers(0, 2, 90)
    site = np.repeat(["A", "B", "C"], 30)
    return Cohort(
        series, pd.DataFrame({"subject": map(str, range(90)), "site": site, "label": label, "age": age, "sex": sex})
    )


def shifted_by(step: int, site: str = "B", table_too: bool = False) -> Cohort:
    made, rows = aged(), np.arange(90)
    here = np.flatnonzero(made.table["site"] == site)
    rows[here] = np.roll(here, step)
    series = [made.series[row] for row in rows]
    return Cohort(series, made.table.iloc[rows].assign(subject=made.table["subject"]) if table_too else made.table)


def half_empty(folder: Path) -> bool:
    """Whoever has no signal in half of the volumes is left out by every command, with the reason."""
    made = cohort()
    series = made.series
    series[0] = np.where(np.arange(120)[:, None] < 50, series[0], 0)
    rows = made.table[["subject", "site", "label"]]
    for subject, x in zip(rows["subject"], series, strict=True):
        np.save(folder / f"{subject}.npy", x)
    rows.rename(columns={"subject": "participant_id", "label": "diagnosis"}).replace(
        {"diagnosis": {0: "HC", 1: "ASD"}}
    ).to_csv(folder / "participants.csv", index=False)
    read = load_cohort(folder)
    return len(read) == 59 and "without signal" in read.excluded["reason"].iloc[0]


def kept(change: Change, n_volumes: int) -> Callable[[Path], bool]:
    """Volumes without signal are dropped and said."""
    return lambda _: set(spoiled(change).table["n_timepoints"]) == {n_volumes}


def region_means(x: np.ndarray) -> np.ndarray:
    """What a tool writes where it scrubs."""
    return x.mean(axis=0)


# fmt: off
_CASES: list[tuple[str, str, Callable[[Path], Any], str, str]] = [
    # --- volumes without signal ---
    ("empty-padded", "series padded with zeros", kept(padded, 90), "warned", "volumes without signal were dropped"),
    ("empty-padded-cases", "series of cases padded with zeros to the length of controls", warned("label-by-empty", padded, cases), "warned", "more volumes of cases"),
    ("empty-padded-length", "the same: what is left is shorter", warned("label-by-n_timepoints", padded, cases), "warned", "shorter"),
    ("empty-padded-last", "series padded with their last volume", kept(last_repeated, 90), "warned", "volumes without signal were dropped"),
    ("empty-scrubbed", "a tenth of the volumes scrubbed to 0", kept(scrubbed(0, 0.1), 108), "warned", "volumes without signal were dropped"),
    ("empty-scrubbed-cases", "scrubbed volumes set to 0, in cases only", warned("label-by-empty", scrubbed(0, 0.05), cases), "warned", "5.0% in cases"),
    ("empty-scrubbed-site", "scrubbed volumes set to 0 at one site", warned("empty-volumes", scrubbed(0, 0.05), lambda: at("S02")), "warned", "by site: S02 (5.0%)"),
    ("empty-constant", "volumes equal in all regions", kept(scrubbed(417.5, 0.1), 108), "warned", "equal in all regions"),
    ("empty-code", "volumes of -9999", kept(scrubbed(-9999, 0.1), 108), "warned", "volumes without signal were dropped"),
    ("empty-nan", "volumes of NaN", kept(scrubbed(np.nan, 0.1), 108), "warned", "volumes without signal were dropped"),
    ("empty-means", "scrubbed volumes set to each region's mean", kept(scrubbed(region_means, 0.1), 109), "warned", "volumes without signal were dropped"),
    ("empty-half", "a person with no signal in half of the volumes", half_empty, "warned", "volumes without signal were dropped"),
    ("empty-none", "series without an empty volume", lambda _: "empty_volumes" not in spoiled(lambda x, i: x).table, "right", ""),
    # --- codes for missing inside a series ---
    *[(f"code{code:g}", f"one cell of {code:g}", warned("far-values", coded(code), few("S02", 2)), "warned", f"({code:g})") for code in (-9999, 9999, -999, 999, -99, 99999, -32768, 1e10)],
    ("code-many", "a fifth of all cells -9999", warned("far-values", coded(-9999, 0.2), few("S01", 3)), "warned", "3 of 60 people"),
    ("code-standardised", "one cell of -9999, standardised afterwards", warned("far-values", lambda x, i: (y := coded(-9999)(x, i)) / y.std(axis=0), few("S01", 1)), "warned", "1 of 60 people"),
    # --- steps and drift ---
    ("step", "two sessions joined without demeaning", warned("step", joined(3), few("S01", 4)), "warned", "after volume 60"),
    ("step-small", "the same with a small step, at a third", warned("step", joined(1.5, 40), few("S03", 4)), "warned", "after volume 40"),
    ("step-cases", "the same in cases only", warned("step", joined(3), cases), "warned", "and 0 controls"),
    ("step-drift", "strong drift is no step", silent(drifting, few("S01", 4)), "right", ""),
    # --- filters ---
    ("filter-cases", "cases band-passed, controls not", warned("label-by-spectrum", filtered(0.02, 0.2), cases), "warned", "filter all scans alike"),
    ("filter-low", "cases low-passed", warned("label-by-spectrum", filtered(0, 0.25), cases), "warned", "less power"),
    ("filter-half", "half of the cases low-passed", warned("label-by-spectrum", filtered(0, 0.25), lambda: cases(0.5)), "warned", "filter all scans alike"),
    ("filter-site", "one site low-passed", warned("site-spectrum", filtered(0, 0.2), lambda: at("S03")), "warned", "than at any other site"),
    ("filter-all", "everybody low-passed", silent(filtered(0, 0.25)), "right", ""),
    # --- first volumes ---
    ("t1", "first volumes before the magnetisation is in balance", warned("transient", unsaturated(30), lambda: at("S02")), "warned", "20 of 60 people"),
    ("t1-slow", "the same, slower", warned("transient", unsaturated(60, 1.5), few("S02", 3)), "warned", "remove the first volumes"),
    # --- left and right ---
    ("sides", "left and right exchanged at one site (_L, _R)", warned("exchanged-sides", exchanged, lambda: at("S02"), LEFT_RIGHT), "warned", "left and right are probably exchanged"),
    ("sides-blocks", "the same with lh. and rh.", warned("exchanged-sides", exchanged, lambda: at("S01"), LH_RH), "warned", "left and right are probably exchanged"),
    ("sides-places", "the same, sides known by coordinates", warned("exchanged-sides", exchanged, lambda: at("S03"), PLACES), "warned", "left and right are probably exchanged"),
    ("sides-few", "left and right exchanged in three people", warned("exchanged-sides", exchanged, few("S02", 3), LEFT_RIGHT), "warned", "in 3 of 20 people"),
    ("sides-right", "nobody exchanged", silent(lambda x, i: x, atlas=LEFT_RIGHT), "right", ""),
    ("sides-predict", "left and right exchanged at a new site, in predict", flagged_at_predict, "right", ""),
    # --- files and rows ---
    ("shift-down", "files of a site shifted by one person", lambda _: check_says(shifted_by(1), "shifted-site"), "warned", "shifted against the table"),
    ("shift-up", "the same, the other way", lambda _: check_says(shifted_by(-1, "C"), "shifted-site"), "warned", "shifted against the table"),
    ("shift-none", "rows in another order, with their files", lambda _: not [f for f in check_cohort(shifted_by(1, table_too=True)).findings if f.code == "shifted-site"], "right", ""),
]
# fmt: on
CASES = [
    Case(name, what, lambda _: None, run, outcome, phrase, bool if outcome != "refused" else None)
    for name, what, run, outcome, phrase in _CASES
]
