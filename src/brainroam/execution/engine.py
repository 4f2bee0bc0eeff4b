"""Run many independent tasks, in this process, in local processes or on Dask; the rest of the package calls `map`.

A task computes on one core, whatever the engine: its bytes then do not depend on how many tasks run beside it or on how
many cores a machine has, and cores are never asked to do more than one thing. ``jobs`` is how many cores are used.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from brainroam.errors import UsageError, unknown
from brainroam.utils.workers import Failure as Failure  # what callers tell results from
from brainroam.utils.workers import Workers, attempt, on_one_core

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


def map(
    function: Callable[[Shared, Task], Result],
    tasks: Iterable[Task],
    shared: Shared,
    jobs: int = 1,
    engine: "str | Engine" = "local",
    begin: Callable[[Task], None] = lambda _: None,
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
        Processes of this machine; a Dask cluster on this machine; or `Workers` that are running, or a
        `dask_engine.Dask` that says more.
    begin : callable
        Called with each task when it is begun.

    Examples
    --------
    >>> [(task, result) for task, result in map(pow, [2, 3], shared=10)]
    [(2, 100), (3, 1000)]
    """
    if not callable(engine) and engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if jobs < 1:
        raise UsageError(f"jobs must be at least 1, got {jobs}")
    tasks = list(tasks)
    if is_local(engine) and (jobs == 1 or len(tasks) < 2):
        return _one_by_one(function, tasks, shared, begin)
    run = engine if callable(engine) else ENGINES[engine]
    return run(function, tasks, shared, jobs, begin)


@contextmanager
def open_engine(engine: "str | Engine", jobs: int) -> "Iterator[str | Engine]":
    """An engine that serves several calls of `map`, so that local processes are started once."""
    if engine != "local" or jobs == 1:
        yield engine
        return
    with Workers(jobs) as workers:
        yield workers


def is_local(engine: "str | Engine") -> bool:
    """Whether tasks are done on this machine, by processes that share its files."""
    return engine == "local" or isinstance(engine, Workers)


def _one_by_one(
    function: Callable, tasks: list, shared: Any, begin: Callable[[Any], None]
) -> Generator[tuple[Any, Any], None, None]:
    for task in tasks:
        begin(task)
        yield task, attempt(on_one_core, function, shared, task)


def _local(
    function: Callable, tasks: list, shared: Any, jobs: int, begin: Callable[[Any], None]
) -> Generator[tuple[Any, Any], None, None]:
    with Workers(jobs) as workers:
        yield from workers.map(function, tasks, shared, begin)


def _dask(
    function: Callable, tasks: list, shared: Any, jobs: int, begin: Callable[[Any], None]
) -> Generator[tuple[Any, Any], None, None]:
    from brainroam.execution.dask_engine import Dask

    return Dask()(function, tasks, shared, jobs, begin)


Engine = Callable[[Callable, list, Any, int, Callable[[Any], None]], Generator[tuple[Any, Any], None, None]]
ENGINES: dict[str, Engine] = {"local": _local, "dask": _dask}
