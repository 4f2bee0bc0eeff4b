"""brainroam commands as real processes, forked from one that has imported everything, so that a start costs little.

A child is the leader of a session of its own: whatever it starts is found by that, and Ctrl-C reaches all of it as from
a terminal. Faults that cannot come from outside are set up in the child before the command begins.
"""

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod"}
LOGS = Path(tempfile.gettempdir()) / f"brainroam-faults-logs-{os.getpid()}"
PATIENCE = 300.0  # seconds on a machine that does other things as well


def warm_up() -> None:
    """Import what the commands import, and compute nothing: a fork of a process with threads may hang."""
    # F401: they are imported to be there.
    import matplotlib.figure  # noqa: F401
    import torch  # noqa: F401
    import zarr  # noqa: F401

    import brainroam.cli
    import brainroam.data.check
    import brainroam.execution.out_of_core
    import brainroam.methods.saving
    import brainroam.report.build  # noqa: F401
    from brainroam.methods.registry import method_info, method_names

    for name in method_names():
        method_info(name)


def start(arguments: Sequence[str], folder: Path, before: Callable[[], None] | None = None) -> int:
    """Start a command in a folder; gives the process id. What it says goes elsewhere: the folder's disk may be full."""
    sys.stdout.flush()
    LOGS.mkdir(exist_ok=True)
    pid = os.fork()
    if pid:
        return pid
    code, begun = 3, False
    try:
        os.setsid()
        os.chdir(folder)
        log = os.open(_log(folder), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["brainroam", *map(str, arguments)]
        if before is not None:
            before()
        from brainroam.cli import main

        begun = True
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        if begun:
            traceback.print_exc()
        else:  # no fault of the command: it was interrupted before it began
            code = 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def finish(pid: int, seconds: float = PATIENCE) -> int:
    """Wait for the end: the exit code, or minus the signal. A process that does not end is killed, and an error."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"process {pid} did not end within {seconds:.0f} s")


def run(arguments: Sequence[str], folder: Path, before: Callable[[], None] | None = None) -> tuple[int, str]:
    """Run a command to its end: exit code, and what it said."""
    code = finish(start(arguments, folder, before))
    return code, said(folder)


def said(folder: Path) -> str:
    """What the last command in a folder said."""
    log = _log(folder)
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""


def _log(folder: Path) -> Path:
    return LOGS / f"{folder.name}.log"


def strike(pid: int, after: float, number: int = signal.SIGKILL) -> int:
    """Send a signal after so many seconds, if the process still lives; its exit code. A kill spares its workers."""
    stop = time.monotonic() + after
    while (left := stop - time.monotonic()) > 0:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(left, 0.005))
    if number == signal.SIGKILL:
        os.kill(pid, number)
    else:
        os.killpg(pid, number)
    return finish(pid)


def orphans(pid: int, seconds: float = 60.0) -> list[int]:
    """Processes of a session that are still there after so many seconds; they are ended then."""
    stop = time.monotonic() + seconds
    while (left := _session(pid)) and time.monotonic() < stop:
        time.sleep(0.05)
    for one in left:
        os.kill(one, signal.SIGKILL)
    return left


def _session(leader: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


def die_at_change(number: int) -> Callable[[], None]:
    """Let the process kill itself just before it changes the file system for the so-manieth time."""

    def change(count: int) -> None:
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: _at_changes(change)


def count_changes() -> None:
    """Leave a file ``.changes`` with one byte for each change of the file system."""
    file = os.open(".changes", os.O_WRONLY | os.O_CREAT)
    _at_changes(lambda _: os.write(file, b"."))


def _at_changes(act: Callable[[int], object]) -> None:
    count = 0

    def hook(event: str, details: tuple) -> None:
        nonlocal count
        if event in CHANGES and (event != "open" or _writes(details)):
            count += 1
            act(count)

    sys.addaudithook(hook)


def _writes(details: tuple) -> bool:
    flags = details[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def clock_backwards() -> None:
    """Every look at the clock finds it an hour earlier."""
    now = [time.time()]

    def earlier() -> float:
        now[0] -= 3600.0
        return now[0]

    time.time = earlier
    time.monotonic = earlier
    time.perf_counter = earlier
    time.time_ns = lambda: int(earlier() * 1e9)


def small_files(limit: int) -> Callable[[], None]:
    """No file may grow beyond so many bytes: a full disk where nobody may mount one."""

    def before() -> None:
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return before
