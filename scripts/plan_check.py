"""Does a plan made with 8 or 12 sites foretell what 20 sites give? On ABIDE, and where the truth is known.

    python scripts/plan_check.py ABIDE_pcp --atlas aal --methods fc-ridge --seed 1 --keep tables
    python scripts/plan_check.py ABIDE_pcp --atlas aal --methods champion --draws 6 --seed 1 --keep tables
    python scripts/plan_check.py synthetic --subsets 40 --draws 6 --keep tables

ABIDE: random subsets of 8 and 12 of the sites; each makes a plan of its own, read at 19 training sites. Its AUC is held
against the mean AUC of leaving one of all twenty out. As subsets differ in their test sites, its gain since k - 1 sites
is held against the gain that smaller studies drawn from all twenty show. Synthetic: cohorts of 8 or 12 sites with
settings drawn at random; the truth is the mean AUC of models of k - 1 and of 19 of 25 other sites of that world, all
read at the same 25 sites more. Beside our law: other exponents, and a power law whose exponent is fitted. Learning
curves that are found in the folder ``--keep`` are not measured again. The figures of docs/results/next-site.md come
from here.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import brainroam
from brainroam.evaluation.planning import law as laws
from brainroam.evaluation.planning.draws import draws
from brainroam.evaluation.planning.plan import NEAR_CHANCE, make_plan
from brainroam.evaluation.stats.metrics import auc
from brainroam.methods.registry import method_info

SIZES, END = (8, 12), 19
WORLD = {"n_per_site": (20, 40), "n_rois": (16, 30), "effect": (0.5, 0.8, 1.2), "subtypes": (1, 1, 3)}
POOL, TRUE_DRAWS = 25, 20
OTHER_EXPONENTS = (0.25, 0.75, 1.0)


class Check(NamedTuple):
    """A plan of k sites: its learning curve, and what is true at k - 1 and at 19 sites."""

    k: int
    table: pd.DataFrame
    start: float
    end: float


def main() -> None:
    """Print one line per plan and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--methods", default="fc-ridge")
    parser.add_argument("--subsets", type=int, default=6)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("tables"))
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    for method in given.methods.split(","):
        if given.data == "synthetic":
            found = [world(number, method, given) for number in range(given.subsets)]
            checks = [check for check in found if check is not None]
        else:
            checks = subsets(method, given)
        for k in SIZES:
            summarise(method, k, [check for check in checks if check.k == k], single=given.data != "synthetic")


def subsets(method: str, given: argparse.Namespace) -> list[Check]:
    """Plans of random subsets of the sites of a study."""
    cohort = brainroam.load_cohort(given.data, atlas=given.atlas)
    print(f"{method}, {cohort}, manifest {cohort.manifest_hash[:16]}, seed {given.seed}, {given.draws} draws")
    name = f"{method}-{{}}-d{given.draws}.csv"
    whole = curve(cohort, method, given.draws, 0, given.keep / name.format("whole"))
    points = mean_curve(whole)
    rng, checks = np.random.default_rng(given.seed), []
    for k in SIZES:
        start = float(np.interp(np.log(k - 1), np.log(points.index), points))
        for number in range(given.subsets):
            sites = sorted(rng.choice(cohort.sites, k, replace=False))
            print(k, number, ",".join(sites), flush=True)
            file = given.keep / name.format(f"s{given.seed}-k{k}-{number}")
            checks.append(Check(k, curve(cohort.select(sites), method, given.draws, 1, file), start, points[END]))
    return checks


def world(number: int, method: str, given: argparse.Namespace) -> Check | None:
    """A plan of the first k sites of a synthetic cohort, and the truth from its other sites; None where refused."""
    rng, k = np.random.default_rng([25, number]), SIZES[number % 2]
    settings = {name: rng.choice(values).item() for name, values in WORLD.items()}
    file = given.keep / f"{method}-world{number}-d{given.draws}.csv"
    if not file.is_file():
        cohort = brainroam.make_cohort(n_sites=k + 2 * POOL, seed=number, **settings)
        names = cohort.sites
        table = quick_curve(cohort.select(names[:k]), method, given.draws)
        pool, people = cohort.select(names[k : k + POOL]), cohort.select(names[k + POOL :])
        start, end = (true_auc(pool, people, method, n, rng) for n in (k - 1, END))
        table.assign(start=start, end=end).to_csv(file, index=False)
    table = pd.read_csv(file)
    if mean_curve(table)[k - 1] < NEAR_CHANCE:
        return None
    return Check(k, table, table["start"][0], table["end"][0])


def quick_curve(cohort: brainroam.Cohort, method: str, n_draws: int) -> pd.DataFrame:
    """The learning curve of a plan without thresholds and calibration, which it does not need."""
    rows = []
    for draw in draws(cohort.table, n_draws, 0):
        people = cohort.subset(draw.test)
        score = method_info(method).make().fit(cohort.subset(draw.train)).score(people)
        for site, value in site_aucs(people, score).items():
            rows.append((draw.n_sites, draw.share, draw.number, len(draw.train), site, value))
    return pd.DataFrame(rows, columns=["n_sites", "share", "draw", "n_people", "site", "auc"])


def site_aucs(people: brainroam.Cohort, score: np.ndarray) -> dict[str, float]:
    """AUC at each site."""
    site = people.table["site"].to_numpy()
    return {name: auc(people.labels[site == name], score[site == name]) for name in people.sites}


def true_auc(pool: brainroam.Cohort, people: brainroam.Cohort, method: str, n: int, rng: np.random.Generator) -> float:
    """Mean AUC at other sites of models of n sites."""
    found = []
    for _ in range(TRUE_DRAWS):
        chosen = sorted(rng.choice(pool.sites, n, replace=False))
        score = method_info(method).make().fit(pool.select(chosen)).score(people)
        found.append(np.mean(list(site_aucs(people, score).values())))
    return float(np.mean(found))


def curve(cohort: brainroam.Cohort, method: str, n_draws: int, seed: int, file: Path) -> pd.DataFrame:
    """The learning curve of a plan, measured or read."""
    if not file.is_file():
        make_plan(cohort, [method], n_draws=n_draws, seed=seed).table.to_csv(file, index=False)
    return pd.read_csv(file)


def mean_curve(table: pd.DataFrame) -> pd.Series:
    """Mean AUC over sites for each number of complete training sites."""
    return table[table["share"] == 1].groupby(["n_sites", "site"])["auc"].mean().groupby("n_sites").mean()


def summarise(method: str, k: int, checks: list[Check], single: bool) -> None:
    """What plans of k sites foretold at 19 training sites, what was found, and the error of other laws."""
    rows = []
    for table, start, end in (check[1:] for check in checks):
        law = laws.fit_law(table, k)
        rows.append([law.auc(END), *law.interval(END), end, *law.gain(END, from_sites=k - 1), end - start])
    names = ["auc", "low", "high", "found", "gain", "gain_low", "gain_high", "gain_found"]
    found = 100 * pd.DataFrame(rows, columns=names)
    if single:
        print(found.round(1).to_string(), flush=True)
    held = found["found"].between(found["low"], found["high"])
    gain_held = found["gain_found"].between(found["gain_low"], found["gain_high"])
    print(f"{method}, {len(found)} plans of {k} sites: AUC inside {held.sum()}, gain inside {gain_held.sum()}")
    print("   means:", found.mean().round(2).to_dict())
    show("ours", checks, lambda table: with_exponent(table, k, laws.EXPONENT))
    for exponent in OTHER_EXPONENTS:
        show(f"exponent {exponent}", checks, lambda table, c=exponent: with_exponent(table, k, c))
    show("power law", checks, power_law)
    show("no curve", checks, lambda table: lambda n: mean_curve(table)[k - 1])


def show(name: str, checks: list[Check], fit) -> None:
    """Error of another law."""
    off, gains_off = [], []
    for k, table, start, end in checks:
        at = fit(table)
        off.append(100 * (at(END) - end))
        gains_off.append(100 * (at(END) - at(k - 1) - (end - start)))
    print(f"   {name}: rms of AUC {rms(off)}, of gain {rms(gains_off)} (mean {np.mean(gains_off):+.2f})", flush=True)


def with_exponent(table: pd.DataFrame, k: int, exponent: float):
    """Our law with another exponent."""
    kept, laws.EXPONENT = laws.EXPONENT, exponent
    found = laws.fit_law(table, k, n_boot=1)
    laws.EXPONENT = kept
    return found.auc


def power_law(table: pd.DataFrame):
    """a - b n^-c, all three fitted to the points of complete sites."""
    points = mean_curve(table)
    x, y = points.index.to_numpy(dtype=float), points.to_numpy()
    fit = least_squares(lambda v: v[0] - v[1] * x ** -v[2] - y, (y.max(), 0.2, 0.5), bounds=([0.5, 0, 0.1], [1, 1, 2]))
    a, b, c = fit.x
    return lambda n: a - b * n**-c


def rms(off) -> str:
    """Root mean square."""
    return f"{np.sqrt(np.mean(np.square(off))):.2f}"


if __name__ == "__main__":
    main()
