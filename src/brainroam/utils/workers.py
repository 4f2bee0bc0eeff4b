"""Processes of this machine that do one task after another, for as long as there is work.

They are started once and serve several rounds of work: a command that reads files, computes edges and fits folds pays
once for their start. What all tasks of a round share is sent to each of them once. A worker that dies fails its task
and is replaced; workers end with their parent, whatever ends it.

Each computes with one thread (`one_thread`): a sum taken by two threads is rounded differently.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import sysconfig
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

import cloudpickle

from brainroam.errors import BrainroamError, UsageError
from brainroam.utils.optional import one_thread

FORK_SERVER = sys.platform == "linux"
#: Where code lies that is not of the author of a method: Python's, of packages, and ours.
INSTALLED = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).resolve().parents[1]) + os.sep,
    "<frozen",
)
SHARED = b"what the next tasks share follows"


@dataclass(frozen=True)
class Failure:
    """A task that raised, or whose process ended: the error in one line, and the traceback where there is one."""

    error: str
    traceback: str = ""


def attempt(function: Callable, *arguments: Any) -> Any:
    """The result or the failure."""
    try:
        return function(*arguments)
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}{place(error)}", traceback.format_exc())


def place(error: BaseException) -> str:
    """The line of the user's own code at which an error was raised, in words; empty where there is none.

    The author of a method finds the line without the traceback.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(INSTALLED)]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""


def on_one_core(function: Callable, shared: Any, task: Any) -> Any:
    """The result, computed with one thread."""
    with one_thread():
        return function(shared, task)


@contextmanager
def sending() -> Iterator[None]:
    """Turn pickling errors into a sentence: what cannot be sent to another process, and what to do."""
    try:
        yield
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(f"not everything can be sent to another process ({error}); use jobs=1") from error


class Workers:
    """A pool of processes, started when they are first needed, or earlier with `start`.

    Parameters
    ----------
    jobs : int
    preload : sequence of str
        Modules that each process imports when it starts, while others still do something else.

    Examples
    --------
    >>> with Workers(2) as workers:
    ...     sorted(workers.map(pow, [2, 3], shared=10)), sorted(workers.map(pow, [4, 5], shared=2))
    ([(2, 100), (3, 1000)], [(4, 16), (5, 32)])
    """

    def __init__(self, jobs: int, preload: Sequence[str] = ()) -> None:
        self.jobs, self.preload = jobs, tuple(preload)
        self._idle: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().dismiss()

    def start(self) -> None:
        """Start processes early, so that they import what they need during other work."""
        if FORK_SERVER:
            with _interrupts_wait():
                forkserver.set_forkserver_preload(list(self.preload))
                forkserver.ensure_running()
        else:
            self._idle += [_Worker(self.preload) for _ in range(self.jobs - len(self._idle))]

    def map(
        self, function: Callable, tasks: Iterable, shared: Any, begin: Callable[[Any], None] = lambda _: None
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with ``function(shared, task)``, or with its `Failure`, as they are completed.

        ``begin`` is called with each task when a process gets it.
        """
        waiting, busy = deque(tasks), dict[Any, _Worker]()  # by connection, or whatever else `wait` may return

        def enlist() -> None:
            worker = self._idle_worker()
            busy[worker.connection] = worker
            if worker.started:
                worker.share(function, shared)

        try:
            for _ in range(min(self.jobs, len(waiting))):
                enlist()
            while busy:
                for connection in wait(list(busy)):
                    worker = busy[connection]
                    answered = worker.answer()
                    if not worker.ready:  # it has just started; several then do so at the same time
                        worker.share(function, shared)
                    elif waiting and not worker.ended:
                        task = waiting.popleft()
                        worker.give(task)
                        begin(task)
                    else:
                        del busy[connection]
                        self._release(worker)
                        if waiting:
                            enlist()
                    yield from answered
        finally:
            for worker in busy.values():
                worker.process.kill()
                worker.process.join()

    def __call__(
        self, function: Callable, tasks: list, shared: Any, jobs: int, begin: Callable[[Any], None]
    ) -> Generator[tuple[Any, Any], None, None]:
        """As an engine of `brainroam.execution.engine.map`."""
        return self.map(function, tasks, shared, begin)

    def _idle_worker(self) -> "_Worker":
        """An idle worker that is still alive, or a new one."""
        while self._idle:
            worker = self._idle.pop()
            if worker.process.is_alive():
                return worker
        return _Worker(self.preload)

    def _release(self, worker: "_Worker") -> None:
        worker.ready = False
        if not worker.ended:
            self._idle.append(worker)


class _Worker:
    """A process that says when it has started, takes what tasks share, and then answers one task after another."""

    # A fork of a process that has computed on several threads may hang; a fresh process cannot, nor can the fork of a
    # server that has imported what all need, once for all, and computes nothing.
    CONTEXT: Any = multiprocessing.get_context("forkserver" if FORK_SERVER else "spawn")

    def __init__(self, preload: tuple[str, ...]) -> None:
        self.connection, other = self.CONTEXT.Pipe()
        self.process = self.CONTEXT.Process(target=_work, args=(other, preload), daemon=True)
        self.hand: list[Any] = []
        self.started = self.ready = self.ended = False
        with sending(), _interrupts_wait():
            self.process.start()
        other.close()  # so that the end of the process is the end of the pipe

    def share(self, function: Callable, shared: Any) -> None:
        """Hand over what all tasks share."""
        self.ready = True
        with suppress(OSError), sending():
            self.connection.send_bytes(SHARED)
            self.connection.send((function, shared))

    def give(self, task: Any) -> None:
        """Hand over the next task; should the process have ended just now, `answer` will say so."""
        self.hand = [task]
        with suppress(OSError), sending():
            self.connection.send_bytes(cloudpickle.dumps(task))  # also what was typed in a notebook

    def answer(self) -> list[tuple[Any, Any]]:
        """The current task and its outcome; empty for a process that has just started or become ready."""
        try:
            outcome = self.connection.recv()
            self.started = True
        except (EOFError, OSError):
            self.ended = self.ready = True
            self.process.join()
            outcome = Failure(_last_words(self.process.exitcode or 0))
            if not self.hand:
                raise BrainroamError(
                    f"no task could be started: {outcome.error}; in a script of your own, call from under "
                    "if __name__ == '__main__', or use jobs=1"
                ) from None
        hand, self.hand = self.hand, []
        return [(task, outcome) for task in hand]

    def dismiss(self) -> None:
        """Kill the idle process: an orderly exit would take a second to free its memory."""
        self.process.kill()
        self.connection.close()
        self.process.join()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C, and hide it from a process started now: it would die in the middle of its imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # a process of Python's own, which would be started now and end the waiting
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _last_words(exit_code: int) -> str:
    if exit_code == -9:
        return "the worker process was killed, as the system does when memory runs out; try fewer jobs"
    return f"the worker process ended with exit code {exit_code}"


def _work(connection: Connection, preload: tuple[str, ...]) -> None:
    """The loop of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function = shared = None
    with suppress(EOFError, OSError):  # the parent has ended
        for module in preload:
            import_module(module)
        connection.send(None)
        while True:
            message = connection.recv_bytes()
            if message == SHARED:
                function = shared = None  # of the last round; both may be large
                function, shared = connection.recv()
                connection.send(None)
            else:
                connection.send(attempt(_unpack_and_run, function, shared, message))


def _unpack_and_run(function: Callable, shared: Any, message: bytes) -> Any:
    """Unpack the task and run it on one core; unpacking first loads the libraries whose threads are limited."""
    return on_one_core(function, shared, pickle.loads(message))  # from our parent, by a pipe of our own


def _end_with_parent() -> None:
    """End this worker when its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
