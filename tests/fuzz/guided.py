"""``python -m tests.fuzz.guided text --runs 100000``: bytes that grow towards code not reached yet.

Random mutations of valid files (`tests.fuzz`) find what is near them; atheris watches which lines of our own parsers an
input reaches and goes on from those that reach new ones. It is optional: pip install atheris.
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

FILES = {"text": "x.csv", "table": "x.tsv", "study": "study.yaml", "run": "run.json"}


def main() -> None:
    """Parse, instrument, fuzz; an exception that is not ours ends it with a traceback and the input."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided")
    parser.add_argument("parser", choices=FILES)
    parser.add_argument("--runs", type=int, default=100_000)
    chosen = parser.parse_args()
    import atheris

    with atheris.instrument_imports(include=["brainroam"]):
        from brainroam.data.readers.tables import read_table
        from brainroam.data.readers.text import read_text
        from brainroam.data.study_file import read_study
        from brainroam.errors import BrainroamError
        from brainroam.evaluation.run_records import read_run
    read = {"text": read_text, "table": read_table, "study": read_study, "run": read_run}[chosen.parser]
    file = Path(tempfile.mkdtemp(prefix="brainroam-guided-")) / FILES[chosen.parser]

    def one(data: bytes) -> None:
        file.write_bytes(data)
        with contextlib.suppress(BrainroamError):
            read(file)

    atheris.Setup([sys.argv[0], f"-atheris_runs={chosen.runs}", "-max_len=400", "-timeout=10"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
