"""How `core` chooses on large atlases: made-up cohorts, real scans with planted effects, real scans with other labels.

    python scripts/gate_wide.py made-up --draws 902
    python scripts/gate_wide.py planted --draws 2 --data ABIDE_pcp
    python scripts/gate_wide.py labels --draws 1 --data ABIDE_pcp

The cohorts of `gate_map.py` have 24 regions; these have 100 to 200. Trained at some sites and read at all others:

    made-up    `make_cohort` of 100 and 200 regions, 5 to 20 training sites of 40 people, six unseen sites of 50
    planted    controls of ABIDE, half of each site called cases at random, couplings of 1, 2 or 4 subtypes or by a
               trait added to their series; 6 and 12 training sites drawn from twenty
    labels     people of ABIDE, labelled not by diagnosis but by age, motion or IQ (above the median of their site) or
               sex; 5, 10 and 15 training sites drawn from twenty

Prints for each cohort the AUC of the linear reading at unseen sites, and by how many points the network alone and
`core` differ from it, with what the training sites said; then the means.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
from common import parser_of
from gate_map import EFFECTS, GENERATORS, readings

import brainroam
from brainroam.data.cohort import Cohort

SIZES = ((100, 5), (200, 5), (100, 10), (200, 10), (100, 20))  # regions, training sites
ATLASES = ("aal", "cc200")
PLANTED = {"1 subtype": 0.12, "2 subtypes": 0.2, "4 subtypes": 0.3, "trait": 0.25}
LABELS = {"age": "age", "sex": "sex", "motion": "mean_fd", "IQ": "fiq"}
INDIVIDUALITY = 0.6  # as in make_cohort
Cell = tuple[str, Cohort, Cohort, int]


def main() -> None:
    """Print a line for each cohort, and their mean."""
    warnings.simplefilter("ignore")
    families: dict[str, Callable[..., Iterator[Cell]]] = {
        "made-up": made_up,
        "planted": planted,
        "labels": other_labels,
    }
    parser = parser_of(__doc__)
    parser.add_argument("family", choices=families)
    parser.add_argument("--draws", type=lambda text: [int(word) for word in text.split(",")], required=True)
    parser.add_argument("--data", help="ABIDE_pcp, for planted and labels")
    given = parser.parse_args()
    load = partial(brainroam.load_cohort, given.data)
    print("| cohort | linear | network | core | share | inner gain | its error |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for name, train, test, seed in families[given.family](given.draws, load):
        found = pd.Series(readings(train, test, seed))
        found[["network", "core"]] -= found["linear"]
        rows.append(found * [100, 100, 100, 1, 100, 100])
        print(told(name, rows[-1]), flush=True)
    print(told("mean", pd.DataFrame(rows).mean()))


def told(name: str, found: pd.Series) -> str:
    """One line of the table."""
    points = "{:.1f} | {:+.1f} | {:+.1f} | {:.2f} | {:+.1f} | {:.1f}".format(*found)
    return f"| {name} | {points} |"


def made_up(draws: list[int], _: Callable[..., Cohort]) -> Iterator[Cell]:
    """Cohorts of `make_cohort`, with the smaller effect of the map."""
    for seed in draws:
        for cases, (small, _large) in EFFECTS.items():
            for n_rois, sites in SIZES:
                cohort = brainroam.make_cohort(sites + 6, 50, n_rois, seed, effect=small, **GENERATORS[cases])
                seen = np.isin(cohort.table["site"], cohort.sites[:sites])
                first = (cohort.table.groupby("site").cumcount() < 40).to_numpy()
                name = f"{cases}, {n_rois} regions, {sites} sites, {seed}"
                yield name, cohort.subset(seen & first), cohort.subset(~seen), seed


def planted(draws: list[int], load: Callable[..., Cohort]) -> Iterator[Cell]:
    """Real controls with planted effects."""
    for atlas in ATLASES:
        cohort = load(atlas=atlas)
        controls = cohort.subset(cohort.labels == 0)
        for draw in draws:
            for cases in PLANTED:
                for sites in (6, 12):
                    rng = np.random.default_rng([draw, sites, len(atlas), list(PLANTED).index(cases)])
                    name = f"{cases}, {atlas}, {sites} sites, {draw}"
                    yield name, *split(plant(controls, cases, rng), sites, rng), draw


def other_labels(draws: list[int], load: Callable[..., Cohort]) -> Iterator[Cell]:
    """Real people, labelled by something else than a diagnosis."""
    for atlas in ATLASES:
        cohort = load(atlas=atlas)
        for draw in draws:
            for label, column in LABELS.items():
                for sites in (5, 10) if label == "sex" else (5, 10, 15):
                    rng = np.random.default_rng([draw, sites, len(atlas), list(LABELS).index(label)])
                    name = f"{label}, {atlas}, {sites} sites, {draw}"
                    yield name, *split(labelled(cohort, column), sites, rng), draw


def split(cohort: Cohort, sites: int, rng: np.random.Generator) -> tuple[Cohort, Cohort]:
    """So many sites to train on, drawn at random, and all others."""
    seen = np.isin(cohort.table["site"], rng.permutation(cohort.sites)[:sites])
    return cohort.subset(seen), cohort.subset(~seen)


def labelled(cohort: Cohort, column: str) -> Cohort:
    """People above the median of their site are cases; of sex, women of sites that have four."""
    value, site = cohort.table[column].astype(float), cohort.table["site"]
    if column == "sex":
        label, kept = 1 - value, value.notna() & ((1 - value).groupby(site).transform("sum") >= 4)
    else:
        label, kept = value > value.groupby(site).transform("median"), value.notna()
    covariates = [name for name in ("age", "sex") if name != column]
    table = cohort.table[["subject", "site", *covariates, "tr"]].assign(label=label.fillna(0).astype(int))
    people = np.flatnonzero(kept)
    series = [cohort.series[i] for i in people]
    return Cohort(series, table.iloc[people].reset_index(drop=True)).using(covariates)


def plant(controls: Cohort, cases: str, rng: np.random.Generator) -> Cohort:
    """Half of each site become cases; x_v grows by a z x_u on the pathways (u, v), with a of the case and of everybody.

    The pathways of several subtypes, and of both ends of a trait, are around one region each, as in `make_cohort`.
    """
    table, n_rois = controls.table[["subject", "site", "age", "sex", "tr"]].copy(), controls.n_rois
    order = pd.Series(rng.permutation(len(table))).groupby(table["site"].to_numpy())
    table["label"] = (order.rank(pct=True) <= 0.5).astype(int)
    kinds = 2 if cases == "trait" else int(cases[0])
    if kinds == 1:
        ends = [np.array([rng.choice(n_rois, 2, replace=False) for _ in range(n_rois)])]
    else:
        hubs = rng.choice(n_rois, kinds, replace=False)
        ends = [
            np.column_stack([np.full(n_rois // kinds, hub), away(hub, n_rois // kinds, n_rois, rng)]) for hub in hubs
        ]
    signs = [rng.choice([-1, 1], len(pairs)) for pairs in ends]
    shown_at = away(hub_of_trait := rng.integers(n_rois), n_rois // 4, n_rois, rng)
    series = []
    for x, label in zip(controls.series, table["label"], strict=True):
        z = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
        trait, new = rng.uniform(), z.copy()
        belongs = np.array([1 - trait, trait]) if cases == "trait" else np.arange(kinds) == rng.integers(kinds)
        if cases == "trait":
            new[:, shown_at] += 0.3 * np.sqrt(12) * (trait - 0.5) * z[:, [hub_of_trait]]
        for pairs, sign, own in zip(ends, signs, belongs, strict=True):
            size = PLANTED[cases] * (label * own + INDIVIDUALITY * rng.normal())
            np.add.at(new.T, pairs[:, 1], size * (sign * z[:, pairs[:, 0]]).T)
        series.append(new)
    return Cohort(series, table)


def away(hub: int, count: int, n_rois: int, rng: np.random.Generator) -> np.ndarray:
    """So many regions other than one."""
    return rng.choice(np.delete(np.arange(n_rois), hub), count, replace=False)


if __name__ == "__main__":
    main()
