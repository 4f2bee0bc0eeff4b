"""Leave-one-site-out of cohorts larger than memory: time and memory against people, and equality with memory.

    python benchmarks/bench_scale.py [--people 500,1000,2000,4000] [--methods fc-ridge,ensemble,core] [--rois 360]
                                     [--volumes 120] [--memory 2GB] [--tuning default] [--held-out S00] [--jobs 1]
                                     [--engine local] [--work DIR] [--check] [--kill]

For each number of people a synthetic store of twelve sites is written in a stream, then `brainroam loso` runs on it as
a user would type it, and the most that all its processes held together is measured. Seconds are processor time of all
of them, so that what else runs on the machine does not count; wall time stands beside them. The exponent is that of
seconds against people, 1 where twice the people take twice the time. With --check the smallest study is done in memory
too, and scores are compared; with --kill the largest is also killed after two runs and started again.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from common import Cost, command_cost

from brainroam.data.store import write_store

N_SITES = 12
N_NETWORKS = 12


def make_store(path: Path, n_people: int, n_rois: int, n_volumes: int, seed: int = 0) -> Path:
    """People of twelve sites with networks, site effects, age effects and a diagnostic pattern, drawn one at a time."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n_people)
    site = np.arange(n_people) % N_SITES
    age = rng.normal(40, 10, n_people)
    table = pd.DataFrame(
        {
            "subject": [f"P{i:06d}" for i in range(n_people)],
            "site": [f"S{e:02d}" for e in site],
            "label": label,
            "age": age,
            "sex": rng.integers(0, 2, n_people).astype(float),
            "mean_fd": rng.lognormal(-2, 0.4, n_people),
        }
    )
    shared = rng.normal(0, 0.35, (N_NETWORKS, n_rois))
    own = rng.normal(0, 0.15, (N_SITES, N_NETWORKS, n_rois))
    of_age, of_label = rng.normal(0, 0.08, (2, N_NETWORKS, n_rois))

    def people() -> Iterator[np.ndarray]:
        for i in range(n_people):
            draw = np.random.default_rng([seed, i])
            loading = shared + own[site[i]] + (age[i] - 40) / 10 * of_age + label[i] * of_label
            signal_part = draw.normal(size=(n_volumes, N_NETWORKS)) @ loading
            yield (signal_part + draw.normal(size=(n_volumes, n_rois))).astype(np.float32)

    return write_store(path, table, people())


def loso(store: Path, out: Path, method: str, options: argparse.Namespace, kill_after: int | None = None) -> Cost:
    """Run the study as typed, within ``--memory`` or, with None, in memory; kill it after some runs if asked."""
    command = ["loso", str(store), "--methods", method, "--out", str(out), "--quiet"]
    command += ["--jobs", str(options.jobs), "--engine", options.engine, "--tuning", options.tuning]
    command += ["--memory", options.memory] if options.memory else []
    command += ["--held-out", options.held_out] if options.held_out else []
    if kill_after is None:
        return command_cost(command)
    return command_cost(command, kill_when=lambda: len(list(out.glob("runs/*.json"))) >= kill_after)


def scores(out: Path) -> pd.DataFrame:
    """Everybody's score of a finished study."""
    return pd.read_csv(out / "predictions.csv", dtype={"subject": str}).sort_values("subject")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=lambda text: [int(n) for n in text.split(",")], default=[240, 480])
    parser.add_argument("--methods", default="fc-ridge,ensemble,core")
    parser.add_argument("--rois", type=int, default=60)
    parser.add_argument("--volumes", type=int, default=120)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--tuning", default="default")
    parser.add_argument("--held-out", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--work", type=Path, default=None)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-scale-", dir=options.work))
    edges = options.rois * (options.rois - 1) // 2
    print(f"{edges} edges, {options.volumes} volumes, {options.jobs} job(s), limit {options.memory}", flush=True)
    print(f"{'method':>16} {'people':>7} {'cpu s':>8} {'wall s':>8} {'peak MB':>8}", flush=True)
    in_memory = argparse.Namespace(**{**vars(options), "memory": None})
    stores: dict[int, Path] = {}
    try:
        for method in options.methods.split(","):
            costs = []
            for n in options.people:
                if n not in stores:
                    stores[n] = make_store(scratch / f"{n}.zarr", n, options.rois, options.volumes)
                out = scratch / f"{method}-{n}"
                cost = loso(stores[n], out, method, options)
                costs.append(cost.processor)
                line = f"{method:>16} {n:7d} {cost.processor:8.1f} {cost.wall:8.1f} {cost.megabytes:8.0f}"
                if options.check and n == options.people[0]:
                    other = scratch / f"{method}-{n}-in-memory"
                    cost = loso(stores[n], other, method, in_memory)
                    gap = np.abs(scores(out)["score"].to_numpy() - scores(other)["score"].to_numpy()).max()
                    line += f"   in memory {cost.processor:.1f} s, {cost.megabytes:.0f} MB, scores differ by {gap:.1e}"
                print(line, flush=True)
            if options.kill:
                torn = scratch / f"{method}-torn"
                loso(stores[n], torn, method, options, kill_after=2)
                again = loso(stores[n], torn, method, options)
                same = scores(torn)["score"].equals(scores(out)["score"])
                words = "equal" if same else "DIFFERENT"
                print(
                    f"{method:>16} killed after 2 runs, went on for {again.processor:.1f} s; scores {words}", flush=True
                )
            if len(costs) > 1:
                exponent = np.polyfit(np.log(options.people), np.log(costs), 1)[0]
                print(f"{method:>16} exponent of processor seconds against people: {exponent:.2f}", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
