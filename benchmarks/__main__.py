"""`make bench`: every benchmark in turn. Each prints ratios against a named competitor in the same run."""

import subprocess
import sys
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("bench_*.py")):
    print(f"== {script.stem}", flush=True)
    subprocess.run([sys.executable, script], check=True)
