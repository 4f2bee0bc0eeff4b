"""Many independent tasks, one after another or side by side; `map` is all that the rest of the package knows of it.

A task computes on one core, whatever the engine: its bytes then do not depend on how many tasks run beside it or on how
many cores a machine has, and cores are never asked to do more than one thing. ``jobs`` is how many cores are used.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from brainroam.errors import BrainroamError, UsageError, unknown

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Failure:
    """A task that raised, or whose process ended: the error in one line, and the traceback where there is one."""

    error: str
    traceback: str = ""


def map(
    function: Callable[[Shared, Task], Result],
    tasks: Iterable[Task],
    shared: Shared,
    jobs: int = 1,
    engine: "str | Engine" = "local",
) -> Generator[tuple[Task, Result | Failure], None, None]:
    """Yield each task with ``function(shared, task)``, or with its `Failure`, as they are completed.

    Parameters
    ----------
    function : callable
        Defined in a module when ``jobs > 1``: it is sent to other processes.
    tasks : iterable
    shared : object
        What all tasks read, such as the cohort; sent to each worker process once.
    jobs : int
        Tasks at a time; 1 works in this process. A worker that is killed fails its task and is replaced.
    engine : {"local", "dask"} or callable
        Processes of this machine; a Dask cluster on this machine; or a `dask_engine.Dask` that says more.

    Examples
    --------
    >>> [(task, result) for task, result in map(pow, [2, 3], shared=10)]
    [(2, 100), (3, 1000)]
    """
    if not callable(engine) and engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}")
    run = engine if callable(engine) else ENGINES[engine]
    return run(function, list(tasks), shared, jobs)


def _local(function: Callable, tasks: list, shared: Any, jobs: int) -> Generator[tuple[Any, Any], None, None]:
    if jobs > 1 and len(tasks) > 1:
        yield from _side_by_side(function, deque(tasks), shared, min(jobs, len(tasks)))
        return
    for task in tasks:
        yield task, attempt(on_one_core, function, shared, task)


def _dask(function: Callable, tasks: list, shared: Any, jobs: int) -> Generator[tuple[Any, Any], None, None]:
    from brainroam.execution.dask_engine import Dask

    return Dask()(function, tasks, shared, jobs)


Engine = Callable[[Callable, list, Any, int], Generator[tuple[Any, Any], None, None]]
ENGINES: dict[str, Engine] = {"local": _local, "dask": _dask}


def attempt(function: Callable, *arguments: Any) -> Any:
    """The result or the failure."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


def on_one_core(function: Callable, shared: Any, task: Any) -> Any:
    """The result, computed without any second thread."""
    with threadpool_limits(1):
        return function(shared, task)


def _side_by_side(function: Callable, waiting: deque, shared: Any, jobs: int) -> Generator[tuple[Any, Any], None, None]:
    workers: dict[Connection, _Worker] = {}
    try:
        for _ in range(jobs):
            worker = _Worker()
            workers[worker.connection] = worker
        while workers:
            for connection in wait(list(workers)):
                worker = workers.pop(connection)  # type: ignore[call-overload]
                answered = worker.answer()
                if waiting:
                    if worker.ended:
                        worker = _Worker()
                    elif worker.ready:
                        worker.give(waiting.popleft())
                    else:
                        worker.prepare(function, shared)
                    workers[worker.connection] = worker
                else:
                    worker.dismiss()
                yield from answered
    finally:
        for worker in workers.values():
            worker.process.kill()
            worker.process.join()


class _Worker:
    """A process that says when it has started, takes what all tasks share, and then answers one task after another.

    What they share is sent once it can be taken: several processes then start at the same time.
    """

    # A fork of a process that has computed on several threads may hang; a fresh process cannot.
    CONTEXT = multiprocessing.get_context("spawn")

    def __init__(self) -> None:
        self.connection, other = self.CONTEXT.Pipe()
        self.process = self.CONTEXT.Process(target=_work, args=(other,), daemon=True)
        self.hand: list[Any] = []
        self.ready = self.ended = False
        with sending(), _interrupts_wait():
            self.process.start()
        other.close()  # so that the end of the process is the end of the pipe

    def prepare(self, function: Callable, shared: Any) -> None:
        """Hand over what all tasks share."""
        self.ready = True
        with suppress(OSError), sending():
            self.connection.send((function, shared))

    def give(self, task: Any) -> None:
        """Hand over the next task; should the process have ended just now, `answer` will say so."""
        self.hand = [task]
        with suppress(OSError), sending():
            self.connection.send(task)

    def answer(self) -> list[tuple[Any, Any]]:
        """The task in hand and its outcome; nothing from a process that has just started or become ready."""
        try:
            outcome = self.connection.recv()
        except (EOFError, OSError):
            self.ended = True
            self.process.join()
            outcome = Failure(_last_words(self.process.exitcode or 0))
            if not self.hand:
                raise BrainroamError(
                    f"no task could be started: {outcome.error}; in a script of your own, call from under "
                    "if __name__ == '__main__', or use jobs=1"
                ) from None
        return [(task, outcome) for task in self.hand]

    def dismiss(self) -> None:
        """Let the process end."""
        self.connection.close()
        self.process.join()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Ctrl-C waits, and a process started now does not hear it: it would die in the middle of its imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # a process of Python's own, which would be started now and end the waiting
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def sending() -> Iterator[None]:
    """Say in words that something cannot be sent to another process."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(f"not everything can be sent to another process ({error}); use jobs=1") from error


def _last_words(exit_code: int) -> str:
    if exit_code == -9:
        return "the worker process was killed, as the system does when memory runs out; try fewer jobs"
    return f"the worker process ended with exit code {exit_code}"


def _work(connection: Connection) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # the parent has ended
        connection.send(None)
        function, shared = connection.recv()
        connection.send(None)
        while True:
            connection.send(attempt(_unpacked, function, shared, connection.recv_bytes()))


def _unpacked(function: Callable, shared: Any, message: bytes) -> Any:
    """Unpack first: only libraries that are loaded by then can be held to one core."""
    return on_one_core(function, shared, pickle.loads(message))


def _end_with_parent() -> None:
    """A killed parent cannot end its workers; they see to it themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
