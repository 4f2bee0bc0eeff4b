"""Tasks here and side by side: same results, failures kept, nothing hangs, nothing is left running."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from brainroam.errors import BrainroamError, UsageError
from brainroam.execution import engine
from brainroam.execution.engine import Failure
from brainroam.utils import workers


def divide(shared, task):
    return shared / task


def die_of_two(shared, task):
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def leave_on_two(shared, task):
    if task == 2:
        os._exit(7)
    return task


def threads(shared, task):
    (np.ones((300, 300)) @ np.ones((300, 300))).sum()
    return {library["num_threads"] for library in threadpool_info()}


class Unsendable:
    def __reduce__(self):
        raise TypeError("no")


class Unreadable:
    def __reduce__(self):
        return (os.path.join, (1,))  # fails where it is unpacked


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_comes_back_with_its_result_or_its_failure(jobs):
    done = dict(engine.map(divide, [4, 0, 5, 2], shared=20.0, jobs=jobs))
    failure = done.pop(0)
    assert done == {4: 5.0, 5: 4.0, 2: 10.0}
    assert failure.error.startswith("ZeroDivisionError: ")
    assert "in divide" in failure.traceback


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_task_computes_on_one_core(jobs):
    assert all(found == {1} for _, found in engine.map(threads, range(3), shared=None, jobs=jobs))


def test_no_tasks_give_no_results():
    assert list(engine.map(divide, [], shared=1, jobs=2)) == []


@pytest.mark.parametrize(
    ("function", "words"), [(die_of_two, "memory runs out; try fewer jobs"), (leave_on_two, "ended with exit code 7")]
)
def test_a_worker_that_dies_fails_its_task_only(function, words):
    done = dict(engine.map(function, range(5), shared=None, jobs=2))
    assert words in done.pop(2).error
    assert done == {0: 0, 1: 1, 3: 3, 4: 4}


def test_the_last_task_may_kill_its_worker():
    assert isinstance(dict(engine.map(die_of_two, [1, 2], shared=None, jobs=2))[2], Failure)


def test_what_cannot_be_unpacked_fails_its_task_only():
    (_, failed), (_, fine) = sorted(engine.map(divide, [Unreadable(), 4], 20.0, jobs=2), key=lambda pair: pair[0] == 4)
    assert "TypeError" in failed.error and fine == 5.0


def test_what_cannot_be_sent_is_said_in_words():
    with pytest.raises(UsageError, match="jobs=1"):
        list(engine.map(lambda shared, task: task, [1, 2], None, jobs=2))
    with pytest.raises(UsageError, match="jobs=1"):
        list(engine.map(divide, [Unsendable(), 2], 1.0, jobs=2))


def test_unknown_engines_and_impossible_jobs_are_refused():
    with pytest.raises(UsageError, match="'local'"):
        engine.map(divide, [1], 1, engine="locla")
    with pytest.raises(UsageError, match="jobs"):
        engine.map(divide, [1], 1, jobs=0)


def test_a_script_without_main_guard_is_told_so(tmp_path):
    script = tmp_path / "study.py"
    script.write_text("from brainroam.execution import engine\nprint(list(engine.map(pow, [1, 2], 2, jobs=2)))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "if __name__ == '__main__'" in done.stderr.splitlines()[-1]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def report_and_sleep(folder, task):
    (folder / str(os.getpid())).touch()
    time.sleep(60)


def started(folder, count, deadline=60):
    end = time.monotonic() + deadline
    while len(pids := [int(path.name) for path in folder.iterdir()]) < count:
        assert time.monotonic() < end, "the workers did not start"
        time.sleep(0.05)
    return pids


def gone(pids, deadline=20):
    end = time.monotonic() + deadline
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent(tmp_path, how):
    code = (
        "import sys; from pathlib import Path\n"
        "from brainroam.execution import engine; from test_engine import report_and_sleep\n"
        "list(engine.map(report_and_sleep, [1, 2, 3], Path(sys.argv[1]), jobs=2))"
    )
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    command = [sys.executable, "-c", code, str(tmp_path)]
    parent = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)
    pids = started(tmp_path, 2)
    parent.send_signal(how)
    _, errors = parent.communicate(timeout=120)
    assert gone(pids)
    assert how != signal.SIGINT or errors.rstrip().endswith("KeyboardInterrupt")


def test_leaving_early_ends_the_workers(tmp_path):
    outcomes = engine.map(first_fast_then_slow, [1, 2, 3], tmp_path, jobs=2)
    next(outcomes)
    pids = started(tmp_path, 1)
    outcomes.close()
    assert gone(pids)


def first_fast_then_slow(folder, task):
    if task > 1:
        report_and_sleep(folder, task)


def test_a_worker_that_cannot_start(monkeypatch):
    monkeypatch.setattr(workers, "_work", exit_at_once)
    with pytest.raises(BrainroamError, match="exit code 3"):
        list(engine.map(divide, [1, 2], 1.0, jobs=2))


def exit_at_once(*arguments):
    sys.exit(3)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals as POSIX has them")
def test_ctrl_c_while_workers_start_leaves_no_traceback(tmp_path):
    """It reaches every process of a terminal, those too that are still importing what they need."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "from brainroam.execution import engine\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        list(engine.map(pow, [2, 3], 10, jobs=2))\n"
        "    except KeyboardInterrupt:\n"
        "        raise SystemExit(130)\n"
        "os.write(1, b'born\\n')\n"
        "time.sleep(1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "born\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
