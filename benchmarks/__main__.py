"""`make bench`: every benchmark in turn, in about twelve minutes, each with ratios against a named competitor.

python -m benchmarks [ABIDE_pcp]

The long ones are shortened here; each script says at its head how to run it in full.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

TAKES_ABIDE = ("bench_baselines", "bench_network", "bench_reading", "bench_stages", "bench_study", "bench_tangent")
SHORTER = {
    "bench_baselines": ["--epochs", "1", "--methods", "core,gcn,brainnettf,brainood"],
    "bench_cost_model": ["--quick", "--check", "600,160,100"],
    "bench_engine": ["--repeats", "1"],
    "bench_fit": ["--people", "150", "--rois", "80"],
    "bench_memory": ["300", "200"],
    "bench_scale": ["--people", "125,250", "--rois", "100", "--methods", "fc-ridge,ensemble"],
}

HERE = Path(__file__).parent
PATHS = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])  # for reproduction/

start = time.perf_counter()
for script in sorted(HERE.glob("bench_*.py")):
    print(f"== {script.stem}", flush=True)
    abide = sys.argv[1:] if script.stem in TAKES_ABIDE else []
    began = time.perf_counter()
    command = [sys.executable, script, *abide, *SHORTER.get(script.stem, [])]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": PATHS})
    print(f"== {script.stem} took {time.perf_counter() - began:.0f} s on the clock", flush=True)
print(f"== all took {(time.perf_counter() - start) / 60:.1f} min on the clock")
