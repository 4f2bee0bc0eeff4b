"""Fixtures shared by all tests; the real cohort is unpacked once per machine, never into the repo."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# Cores are shared: how long one example takes says nothing about the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# A shell lets what it runs in the background ignore Ctrl-C, and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
ABIDE = ROOT.parent / "shared" / "data" / "abide10"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", default="1/1", help="run only a share of the tests: 1/2 or 2/2 for two processes")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal the tests out one by one: neighbours, such as the cases of one test, take about the same time."""
    share, shares = map(int, config.getoption("--share").split("/"))
    items[:] = items[share - 1 :: shares]


@pytest.fixture(scope="session")
def abide_root() -> Path:
    """The ABIDE tree as nilearn lays it out, unpacked into the machine's temporary folder on first use."""
    if not (ABIDE / "unpack").is_file():
        pytest.skip(f"the real ABIDE cohort is not beside the project ({ABIDE}): tests on it are skipped")
    version = hashlib.sha256((ABIDE / "unpack").read_bytes()).hexdigest()[:12]
    target = Path(tempfile.gettempdir()) / f"brainroam-abide10-{version}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            subprocess.run([sys.executable, ABIDE / "unpack", scratch], check=True, capture_output=True)
            try:
                os.rename(scratch, target)  # atomic: a parallel worker either wins or finds it done
                os.mkdir(scratch)
            except OSError:
                pass
    return target / "ABIDE_pcp"
