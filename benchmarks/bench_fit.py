"""`brainroam fit` with and without --memory: processor time, peak memory, and how far the two models are apart.

    python benchmarks/bench_fit.py [--people 1000] [--rois 200] [--volumes 120] [--memory 1GB] [--jobs 1] [--alone]
                                   [--set KEY=VALUE ...]

A synthetic store of ten sites is written, then core is fitted on it with the fast tuning and two epochs, as a user
would type it; the resident memory of all processes together is looked at four times a second. --alone leaves the fit in
memory out.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from bench_scale import make_store
from common import command_cost

from brainroam.utils.model_files import load_model


def fit(store: Path, out: Path, options: list[str]) -> None:
    """Run the command and print what it cost."""
    arguments = ["fit", str(store), "--out", str(out), "--method", "core", "--tuning", "fast", "--set", "epochs=2"]
    print(f"{out.name}: {command_cost([*arguments, *options])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--rois", type=int, default=100)
    parser.add_argument("--volumes", type=int, default=120)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    options = parser.parse_args()
    settings = [f"--set={text}" for text in options.settings]
    with tempfile.TemporaryDirectory(prefix="bench-fit-") as scratch:
        store = make_store(Path(scratch) / "c.zarr", options.people, options.rois, options.volumes)
        bounded, plain = Path(scratch) / f"within {options.memory}", Path(scratch) / "in memory"
        fit(store, bounded, [*settings, "--memory", options.memory, "--jobs", options.jobs])
        found = load_model(bounded)[1]
        print(f"{len(found['model.scaffold.edges'])} pathways")
        if options.alone:
            return
        fit(store, plain, settings)
        expected = load_model(plain)[1]
        numbers = [name for name, value in expected.items() if value.dtype.kind == "f" and value.size]
        apart = max(float(np.nanmax(np.abs(expected[name] - found[name]))) for name in numbers)
        rest = all(np.array_equal(found[name], value) for name, value in expected.items() if name not in numbers)
        print(f"numbers in the models differ by at most {apart:.1e}; the rest is {'equal' if rest else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
