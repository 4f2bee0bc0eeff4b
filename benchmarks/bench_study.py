"""Whole studies, as a user types them: every site held out in turn, each method tuned on inner sites.

    python benchmarks/bench_study.py [DATA] [--before SRC] [--parts studies,growth,large] [--methods core]
                                     [--atlas aal] [--jobs 2] [--sites 5,10,20,40] [--people 960] [--rois 352]

studies   `loso` on DATA (an ABIDE folder of ten or twenty sites; synthetic people where there is none), once for each
          of --methods; methods joined by + are one command
growth    ensemble and core on synthetic sites of equal size, and on ten sites that grow: exponents of processor time
large     the ensemble on --people of --rois regions from 14 sites, with its memory

SRC is the ``src`` folder of an older checkout: every command then runs with it too, one after the other, and the ratio
is printed. Memory is the most that all processes of a command held together, pages they share counted once (PSS of
/proc/PID/smaps_rollup, looked at four times a second), so it is known on Linux only. In full this takes hours.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import Cost, abide_root, command_cost

from brainroam import make_cohort

LARGE_SITES = 14
PER_SITE = 20
SITE_SIZES = (10, 20, 40)


class Studies:
    """Runs `brainroam loso`, with this code and with the code before where that is given."""

    def __init__(self, scratch: Path, jobs: int, before: Path | None) -> None:
        self.scratch, self.jobs, self.before, self.count = scratch, jobs, before, 0

    def run(self, what: str, data: list[str], methods: str) -> Cost:
        """Print what a study costs; returns the cost with this code."""
        now = self._cost(data, methods, None)
        print(f"{what:52} {now}", flush=True)
        if self.before is not None:
            then = self._cost(data, methods, self.before)
            ratios = then.wall / now.wall, then.processor / now.processor
            print(
                f"{'  before':52} {then} | {ratios[0]:.1f}x on the clock, {ratios[1]:.1f}x of processor time",
                flush=True,
            )
        return now

    def synthetic(self, n_sites: int, n_per_site: int, n_rois: int) -> list[str]:
        """A file of made-up people."""
        path = self.scratch / f"{n_sites}x{n_per_site}x{n_rois}.npz"
        if not path.exists():
            make_cohort(n_sites=n_sites, n_per_site=n_per_site, n_rois=n_rois).save(path)
        return [str(path)]

    def _cost(self, data: list[str], methods: str, source: Path | None) -> Cost:
        self.count += 1
        out = ["--out", str(self.scratch / f"runs-{self.count}")]
        return command_cost(["loso", *data, "--methods", methods, "--jobs", str(self.jobs), "--quiet", *out], source)


def bench_studies(studies: Studies, data: Path | None, atlas: str, groups: list[str]) -> None:
    """One study for each group of methods."""
    if data is not None:
        read = [str(data), "--atlas", atlas, "--max-missing-rois", "1"]
    else:
        print("# no ABIDE here, synthetic stand-in of 430 people, 116 regions", flush=True)
        read = studies.synthetic(10, 43, 116)
    for methods in groups:
        studies.run(f"{methods}, {atlas}", read, methods.replace("+", ","))


def bench_growth(studies: Studies, n_sites: list[int], n_rois: int) -> None:
    """How the cost of a study grows with sites of equal size, and with the people of a site."""

    def exponent(method: str, what: str, sizes: list[int], make: Callable[[int], list[str]]) -> None:
        costs = [studies.run(f"{method}, {size} {what}", make(size), method).processor for size in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
        print(f"{method} grows with {what} to the power {slope:.2f}", flush=True)

    for method in ("ensemble", "core"):
        exponent(method, f"sites of {PER_SITE}", n_sites, lambda n: studies.synthetic(n, PER_SITE, n_rois))
        exponent(method, "people at each of 10 sites", list(SITE_SIZES), lambda n: studies.synthetic(10, n, n_rois))


def bench_large(studies: Studies, n_people: int, n_rois: int) -> None:
    """A large atlas: as many people as a consortium has, on a laptop."""
    per_site = round(n_people / LARGE_SITES)
    data = studies.synthetic(LARGE_SITES, per_site, n_rois)
    studies.run(f"ensemble, {LARGE_SITES} sites of {per_site}, {n_rois} regions", data, "ensemble")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--before", type=Path, metavar="SRC")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["studies"])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=["core"])
    parser.add_argument("--atlas", default="aal")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sites", type=lambda text: [int(n) for n in text.split(",")], default=[5, 10, 20, 40])
    parser.add_argument("--growth-rois", type=int, default=60)
    parser.add_argument("--people", type=int, default=960)
    parser.add_argument("--rois", type=int, default=352)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-study-") as scratch:
        studies = Studies(Path(scratch), options.jobs, options.before)
        for part in options.parts:
            if part == "studies":
                bench_studies(studies, options.data or abide_root(None), options.atlas, options.methods)
            elif part == "growth":
                bench_growth(studies, options.sites, options.growth_rois)
            elif part == "large":
                bench_large(studies, options.people, options.rois)
            else:
                parser.error(f"no part {part!r}; there are studies, growth and large")


if __name__ == "__main__":
    main()
