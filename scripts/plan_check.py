"""Does a plan made with 8 or 12 sites of ABIDE foretell what 20 sites give?

    python scripts/plan_check.py ABIDE_pcp --atlas aal --methods fc-ridge --seed 1 --keep tables
    python scripts/plan_check.py ABIDE_pcp --atlas aal --methods ensemble --draws 6 --seed 1 --keep tables

Random subsets of 8 and 12 of the sites; each makes a plan of its own, read at 19 training sites. Its AUC is held
against the mean AUC of leaving one of all twenty out. As subsets differ in their test sites, its gain since k - 1 sites
is held against the gain that smaller studies drawn from all twenty show. Beside our law: other exponents, and a power
law whose exponent is fitted. Learning curves that are found in the folder ``--keep`` are not measured again. Where the
truth is known: scripts/plan_worlds.py.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from common import data_parser_of
from scipy.optimize import least_squares

import brainroam
from brainroam.evaluation.planning import law as laws
from brainroam.evaluation.planning.plan import make_plan
from brainroam.evaluation.stats.metrics import mean_over_sites

SIZES, END = (8, 12), 19
OTHER_EXPONENTS = (0.0, 0.5, 1.0)


class Check(NamedTuple):
    """A plan of k sites: its learning curve, and what is true at k - 1 and at 19 sites."""

    k: int
    table: pd.DataFrame
    start: float
    end: float


def main() -> None:
    """Print one line per plan and a summary."""
    parser = data_parser_of(__doc__)
    parser.add_argument("--methods", default="fc-ridge")
    parser.add_argument("--subsets", type=int, default=6)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("tables"))
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    for method in given.methods.split(","):
        checks = subsets(method, given)
        for k in SIZES:
            summarise(method, k, [check for check in checks if check.k == k])


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


def curve(cohort: brainroam.Cohort, method: str, n_draws: int, seed: int, file: Path) -> pd.DataFrame:
    """The learning curve of a plan, measured or read."""
    if not file.is_file():
        make_plan(cohort, [method], n_draws=n_draws, seed=seed).table.to_csv(file, index=False)
    return pd.read_csv(file)


def mean_curve(table: pd.DataFrame) -> pd.Series:
    """Mean AUC over sites (`metrics.mean_over_sites`) for each number of complete training sites."""
    cells = table[table["share"] == 1].groupby(["n_sites", "site"])[["auc", "weight"]].mean()
    return pd.Series({n: mean_over_sites(cell["auc"], cell["weight"]) for n, cell in cells.groupby("n_sites")})


def fit_law(table: pd.DataFrame, k: int, **options) -> laws.Law:
    """The law as `plan` fits it."""
    return laws.fit_law(table, k, weights=table.groupby("site")["weight"].first(), **options)


def summarise(method: str, k: int, checks: list[Check]) -> None:
    """What plans of k sites foretold at 19 training sites, what was found, and the error of other laws."""
    rows = []
    for table, start, end in (check[1:] for check in checks):
        law = fit_law(table, k)
        rows.append([law.expected(END), *law.interval(END), end, *law.gain(END, from_sites=k - 1), end - start])
    names = ["auc", "low", "high", "found", "gain", "gain_low", "gain_high", "gain_found"]
    found = 100 * pd.DataFrame(rows, columns=names)
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
    found = fit_law(table, k, n_boot=1)
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
