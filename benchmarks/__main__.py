"""`make bench`: every benchmark in turn. Each prints ratios against a named competitor in the same run.

python -m benchmarks [ABIDE_pcp]

The long ones are shortened here; each script says at its head how to run it in full.
"""

import subprocess
import sys
from pathlib import Path

TAKES_ABIDE = ("bench_baselines", "bench_network", "bench_reading", "bench_stages", "bench_study")
SHORTER = {
    "bench_baselines": ["--epochs", "1"],
    "bench_cost_model": ["--quick"],
    "bench_engine": ["--repeats", "1"],
    "bench_fit": ["--people", "300", "--rois", "116"],
    "bench_scale": ["--people", "250,500,1000", "--rois", "200"],
}

for script in sorted(Path(__file__).parent.glob("bench_*.py")):
    print(f"== {script.stem}", flush=True)
    abide = sys.argv[1:] if script.stem in TAKES_ABIDE else []
    subprocess.run([sys.executable, script, *abide, *SHORTER.get(script.stem, [])], check=True)
