"""Tasks on a Dask cluster: on this machine, on one that is running, or on one asked for from SLURM and its like.

Dask moves tasks and results and nothing else. People travel as the path of a store, which each worker process reads
once and checks; whatever must survive is kept by the caller, as results arrive. A worker process does one task at a
time on one core, so the bytes are those of the other engines.

A worker that dies may have been killed by its task or by somebody else. Its task is a suspect: it is tried again once
the others are done, alone, so that if a worker dies again it is known which task it was. After ``retries`` more deaths
the task has failed.
"""

import pickle
import signal
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle

from brainroam.data.cohort import Cohort
from brainroam.data.store import CohortStore, is_store, store_cohort
from brainroam.errors import BrainroamError, ReaderError, UsageError, unknown
from brainroam.utils.files import content_hash
from brainroam.utils.optional import extra
from brainroam.utils.workers import Failure, attempt, on_one_core, sending

CLUSTERS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "sge": "SGECluster",
    "lsf": "LSFCluster",
    "htcondor": "HTCondorCluster",
}
# A worker that is merely asked to pause, with its cohort in memory, would wait for ever; one that is ended is noticed.
MEMORY = {f"distributed.worker.memory.{step}": False for step in ("target", "spill", "pause")}
SETTINGS = {
    # The scheduler's own retries would count against every task a dead worker had been given; ours know the culprit.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.comm.timeouts.connect": "60s",
    # A worker process that takes longer to start again is given up for good, which on a busy machine left none at all.
    "distributed.deploy.lost-worker-timeout": "1h",
    **MEMORY,
}
STARTS = 3  # of a cluster on this machine: a worker that is killed while it starts takes the whole start with it
LOOKING, PATIENCE = 10.0, 60.0  # seconds: how often to look for workers, and how long to wait without a word
LOOPBACK = "127.0.0.1"  # whoever reaches a scheduler or its page can run code as its user, and is asked for no password
PROLOGUE = [
    *(f"export {library}_NUM_THREADS=1" for library in ("OMP", "OPENBLAS", "MKL")),
    *(f"export DASK_{name.upper().replace('.', '__')}=False" for name in MEMORY),
]


@dataclass(frozen=True)
class Dask:
    """Where and how tasks are run; an engine for `brainroam.execution.engine.map`.

    Attributes
    ----------
    scheduler : str, optional
        Address of a running cluster, such as ``tcp://node1:8786``.
    cluster : {"slurm", "pbs", "sge", "lsf", "htcondor"}, optional
        Ask this queue for workers. Without it and a scheduler, workers are processes of this machine.
    resources : dict
        Keywords of the dask-jobqueue cluster: ``memory``, ``walltime``, ``queue``, ``account``, ... ``cores`` is the
        number of workers in one job, 1 by default.
    folder : Path, optional
        Where workers can read a cohort that is written for them; a temporary folder by default.
    store : Path, optional
        A store that may hold the cohort already.
    memory_limit : str
        Of each worker on this machine; one that exceeds it is killed.
    retries : int
        How often a task may be tried again after its worker died.
    """

    scheduler: str | None = None
    cluster: str | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    store: Path | None = None
    memory_limit: str = "auto"
    retries: int = 2

    def __call__(
        self, function: Callable, tasks: list, shared: Any, jobs: int, begin: Callable[[Any], None] = lambda _: None
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each task with its outcome, see `brainroam.execution.engine.map`."""
        extra("dask", "distributed")
        if tasks:
            with self._sendable(shared) as reference, self._client(jobs) as client:
                yield from _outcomes(client, function, tasks, reference, jobs, self.retries, begin)

    def job_script(self) -> str:
        """The script that is submitted to the queue for one job."""
        with self._queue() as cluster:
            return cluster.job_script()

    @contextmanager
    def _client(self, jobs: int) -> Iterator[Any]:
        distributed = extra("dask", "distributed")
        with extra("dask", "dask").config.set(SETTINGS), self._workers(jobs) as where:
            try:
                client = distributed.Client(where, set_as_default=False)
            except (OSError, ValueError) as error:
                raise BrainroamError(f"no Dask scheduler answers at {self.scheduler}: {error}") from error
            with client:
                yield client

    @contextmanager
    def _workers(self, jobs: int) -> Iterator[Any]:
        """A cluster, or the address of one."""
        if self.scheduler is not None:
            yield self.scheduler
        elif self.cluster is not None:
            with self._queue() as cluster:
                cluster.scale(jobs)
                yield cluster
        else:
            with self._processes(jobs) as cluster:
                yield cluster

    def _processes(self, jobs: int) -> Any:
        """Workers on this machine that nobody outside it can reach."""
        distributed = extra("dask", "distributed")
        for starts_left in reversed(range(STARTS)):
            try:
                with _leaving_ctrl_c_to_us():
                    return distributed.LocalCluster(
                        n_workers=jobs,
                        threads_per_worker=1,
                        processes=True,
                        host=LOOPBACK,
                        memory_limit=self.memory_limit,
                        dashboard_address=f"{LOOPBACK}:0",
                        worker_dashboard_address=f"{LOOPBACK}:0",
                        silence_logs="CRITICAL",
                    )
            except (RuntimeError, OSError, TimeoutError) as error:
                if not starts_left:
                    raise BrainroamError(
                        f"Dask could not start its worker processes, {STARTS} times ({error}): one of them was ended "
                        "while it started, or there is too little memory; finished work is kept: start the command "
                        "again, with fewer jobs"
                    ) from error
        raise AssertionError("the last start ends in a cluster or in an error")

    @contextmanager
    def _queue(self) -> Iterator[Any]:
        if self.cluster not in CLUSTERS:
            raise unknown("cluster", self.cluster, CLUSTERS)
        if "processes" in self.resources:
            raise UsageError("leave 'processes' out: every worker has one core, and cores says how many a job holds")
        settings = {"cores": 1, "memory": "4GB", **self.resources}
        settings["job_script_prologue"] = [*PROLOGUE, *settings.get("job_script_prologue", [])]
        settings["scheduler_options"] = {"dashboard_address": f"{LOOPBACK}:0", **settings.get("scheduler_options", {})}
        make = getattr(extra("dask", "dask_jobqueue"), CLUSTERS[self.cluster])
        try:
            cluster = make(processes=settings["cores"], **settings)
        except (TypeError, ValueError) as error:
            reason = str(error).split(". Very likely")[0]
            raise UsageError(f"a {self.cluster} cluster cannot be described like that: {reason}") from error
        with cluster:
            yield cluster

    @contextmanager
    def _sendable(self, shared: Any) -> Iterator[bytes]:
        """What all tasks share, as a short message; a cohort in memory as a reference to a store."""
        if not isinstance(shared, Cohort) or shared.on_disk:
            with sending():
                yield pickle.dumps(shared)
            return
        with tempfile.TemporaryDirectory(prefix="brainroam-") as scratch:
            yield pickle.dumps(self._store(shared, self.folder or Path(scratch)))

    def _store(self, cohort: Cohort, folder: Path) -> "StoredPeople":
        people = None if self.store is None else StoredPeople.find(self.store, cohort)
        if people is None:
            name = content_hash([cohort.manifest_hash, cohort.table.to_csv()])[:16]
            path = folder / f"cohort-{name}.zarr"
            if not is_store(path):
                store_cohort(path, cohort)
            people = StoredPeople.find(path, cohort)
        if people is None:
            raise ReaderError(f"{path} does not hold this cohort; delete it, and it is written again")
        return people


@dataclass(frozen=True)
class StoredPeople:
    """Some people of a store, by place; small enough to be sent to every worker."""

    path: Path
    rows: tuple[int, ...]
    manifest_hash: str
    covariates: tuple[str, ...]
    nuisance: tuple[str, ...]

    @classmethod
    def find(cls, path: Path, cohort: Cohort) -> "StoredPeople | None":
        """The people of a cohort in a store, if it holds the same series and the same table for them."""
        store = CohortStore(path)
        rows = store.places(cohort.table["subject"]).tolist()
        if -1 in rows or not store.table.iloc[rows].reset_index(drop=True).equals(cohort.table):
            return None
        blocks = cohort.blocks or {cohort.block_name: cohort}
        stores = {store.name: store, **store.further}
        if list(blocks) != list(stores) or not all(stores[name].holds(block) for name, block in blocks.items()):
            return None
        return cls(path.absolute(), tuple(rows), cohort.manifest_hash, cohort.covariate_names, cohort.nuisance_names)

    def load(self) -> Cohort:
        """Read them, and make sure that they are the same people still."""
        cohort = CohortStore(self.path).cohort(self.rows)
        if cohort.manifest_hash != self.manifest_hash:
            raise ReaderError(f"{self.path} has changed since the work began; start the command again")
        return cohort.using(self.covariates, self.nuisance)


@contextmanager
def _leaving_ctrl_c_to_us() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; those started here ignore it, and this one ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _outcomes(
    client: Any,
    function: Callable,
    tasks: list,
    shared: bytes,
    jobs: int,
    retries: int,
    begin: Callable[[Any], None],
) -> Generator[tuple[Any, Any], None, None]:
    distributed = extra("dask", "distributed")
    waiting, suspects, deaths = deque(range(len(tasks))), deque[int](), Counter[int]()
    running: dict[str, int] = {}
    completed = distributed.as_completed(loop=client.loop)

    def start(number: int) -> None:
        with sending():
            message = cloudpickle.dumps((function, tasks[number]))  # also what a file or a notebook defines
        future = client.submit(_work, shared, message, pure=False)
        running[future.key] = number
        completed.add(future)
        begin(tasks[number])

    while True:
        # Not more at a time than there are workers: what a dead worker held is then what it was doing.
        while waiting and len(running) < max(jobs, len(client.nthreads())):
            start(waiting.popleft())
        if not running and suspects:
            start(suspects.popleft())
        if not running:
            return
        future = _next_done(client, completed)
        number = running.pop(future.key)
        if future.status == "cancelled" or future.status == "lost":
            raise BrainroamError("the Dask scheduler went away; finished work is kept: start the command again")
        error = future.exception()
        if error is None:
            yield tasks[number], future.result()
        elif isinstance(error, distributed.KilledWorker):
            deaths[number] += 1
            if deaths[number] <= retries:
                suspects.append(number)
            else:
                yield tasks[number], Failure(_last_words(deaths[number]))
        else:
            yield tasks[number], Failure(f"{type(error).__name__}: {error}")
        future.release()


def _next_done(client: Any, completed: Any) -> Any:
    """The next future that is done. Without any worker: an error on this machine, elsewhere a warning, once."""
    while not completed.has_ready():
        if _any_workers(client):
            _wait(completed, LOOKING)
            continue
        _wait(completed, PATIENCE)
        if not completed.has_ready() and not _any_workers(client):
            if isinstance(client.cluster, extra("dask", "distributed").LocalCluster):
                raise BrainroamError(
                    f"Dask's worker processes ended and did not start again within {PATIENCE:.0f} seconds; finished "
                    "work is kept: start the command again, with fewer jobs"
                )
            warnings.warn(
                f"no Dask worker has been there for {PATIENCE:.0f} seconds; waiting for one. Finished work is kept: if "
                "none comes, stop with Ctrl-C, see to the workers, and start the command again",
                stacklevel=2,
            )
            return next(completed)
    return next(completed)


def _any_workers(client: Any) -> bool:
    try:
        return bool(client.nthreads())
    except OSError:  # the scheduler does not answer; Dask tells by itself, through the futures, when it gives up
        return True


def _wait(completed: Any, seconds: float) -> None:
    """Wait until a future is done, at most so long."""
    until = time.monotonic() + seconds
    while not completed.has_ready() and time.monotonic() < until:
        time.sleep(0.02)


def _last_words(deaths: int) -> str:
    return (
        f"its worker process died {deaths} times, at last with nothing else running: it needs more memory than a "
        "worker has, or ends its process; try fewer jobs, or more memory for each"
    )


_ONE_AT_A_TIME = threading.Lock()  # a worker with several threads would share out cores that a task counts as its own


def _work(shared: bytes, message: bytes) -> Any:
    """What a worker does with one task."""
    with _ONE_AT_A_TIME:
        return attempt(_unpack_and_run, shared, message)


def _unpack_and_run(shared: bytes, message: bytes) -> Any:
    function, task = pickle.loads(message)  # from the client that started the study, as all that Dask moves
    return on_one_core(function, _open_cohort(shared), task)


@lru_cache(maxsize=1)
def _open_cohort(shared: bytes) -> Any:
    """What all tasks share, read once by each worker process."""
    content = pickle.loads(shared)  # as above
    return content.load() if isinstance(content, StoredPeople) else content
