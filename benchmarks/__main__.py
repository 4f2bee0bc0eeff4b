"""`make bench`: every benchmark in turn. Each prints ratios against a named competitor in the same run.

python -m benchmarks [ABIDE_pcp]
"""

import subprocess
import sys
from pathlib import Path

TAKES_ABIDE = ("bench_baselines", "bench_network", "bench_reading", "bench_stages", "bench_study")

for script in sorted(Path(__file__).parent.glob("bench_*.py")):
    print(f"== {script.stem}", flush=True)
    subprocess.run([sys.executable, script, *(sys.argv[1:] if script.stem in TAKES_ABIDE else [])], check=True)
