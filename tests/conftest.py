"""Fixtures shared by all tests; the real cohort is unpacked once per machine, never into the repo."""

import hashlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings
from warm import start

# Cores are shared: how long one example takes says nothing about the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

# A shell lets what it runs in the background ignore Ctrl-C, and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
ABIDE = ROOT.parent / "shared" / "data" / "abide10"
STARTS, TAKEN = ("front", "middle", "back"), b"x"
LONGEST = 300.0  # seconds of one test on a machine that does other things as well


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--from", dest="start", choices=STARTS, help="three processes share the tests: begin here")
    parser.addoption("--ledger", help="an empty file in which they note what is taken")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Three processes walk through the tests until they meet: few files' fixtures are made twice, no core idles."""
    start = session.config.getoption("start")
    if start is None or session.testsfailed or session.config.option.collectonly:
        return None
    mine = _claims(session.items, start, Path(session.config.getoption("--ledger")))
    item = next(mine, None)
    while item is not None:
        following = next(mine, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following
    return True


def _claims(items: list[pytest.Item], start: str, ledger: Path) -> Iterator[pytest.Item]:
    """The next item that no process has taken; the ledger has a byte for each item, behind a hash of the whole list.

    Items are claimed by position, so processes with other lists would leave some out and say nothing.
    """
    import fcntl  # Windows has none, and runs the tests in one process

    names = hashlib.sha256("\n".join(item.nodeid for item in items).encode()).digest()
    positions, half = list(range(len(items))), len(items) // 2
    orders = {"front": positions, "middle": positions[half:] + positions[:half], "back": positions[::-1]}
    for position in orders[start]:
        with ledger.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if (others := file.read(len(names))) not in (b"", names):
                raise pytest.UsageError(
                    f"the process that begins at the {start} collected other tests, or in another order, than one "
                    "before it: parametrise over lists, since the order of a set differs from process to process"
                )
            if not others:
                file.write(names)
            file.seek(len(names) + position)
            taken = file.read(1) == TAKEN
            file.seek(len(names) + position)
            file.write(TAKEN)
        if not taken:
            yield items[position]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _bounded(item):
        return (yield)


@contextmanager
def _bounded(item: pytest.Item) -> Iterator[None]:
    """A test that waits for ever fails by name, and the others go on."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"{item.nodeid}: not done within {LONGEST:.0f} s"))
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without figures, for tests of their words: drawing is most of the time that a report takes."""
    figures = importlib.import_module("brainroam.report.figures")
    monkeypatch.setattr(figures, "_draw_svg", lambda *_: ("", 1.0))


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with ``python`` and ``brainroam`` that start at once (tests/warm.py)."""
    if not hasattr(os, "fork"):
        pytest.skip("needs forks")
    server, folder = start(tmp_path_factory.mktemp("warm"))
    yield folder
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


@pytest.fixture
def warm_python(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts with ``sys.executable -c`` start at once; for tests that send them no signal."""
    monkeypatch.setattr(sys, "executable", str(warm / "python"))


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
