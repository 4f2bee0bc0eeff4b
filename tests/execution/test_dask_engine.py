"""The Dask engine: the bytes of the other engines, whatever dies on the way. One cluster of two processes for all."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

import brainroam
from brainroam.cli import app
from brainroam.data.store import write_store
from brainroam.errors import BrainroamError, ReaderError, UsageError
from brainroam.evaluation.runner import evaluate
from brainroam.evaluation.runs_folder import RunsFolder
from brainroam.execution import dask_engine, engine
from brainroam.execution.dask_engine import CLUSTERS, Dask, StoredPeople
from brainroam.methods import registry
from brainroam.methods.base import MethodInfo
from brainroam.methods.controls import Majority

SMALL = {"n_sites": 3, "n_per_site": 10, "n_rois": 10}
METHODS = ["fc-ridge", "core[budget=2,hidden=4,updates=4,tau_percentile=50]"]


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        dask_engine.extra("dask", "dask").config.set(dask_engine.SETTINGS),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit="1GB", silence_logs="CRITICAL"
        ) as running,
    ):
        yield running


@pytest.fixture
def dask(cluster):
    return Dask(scheduler=cluster.scheduler_address, retries=1)


@pytest.fixture(scope="module")
def cohort():
    return brainroam.make_cohort(**SMALL)


def divide(shared, task):
    return shared / task


def threads(shared, task):
    (np.ones((300, 300)) @ np.ones((300, 300))).sum()
    return {library["num_threads"] for library in threadpool_info()}


def log_and_sleep(folder, task):
    with open(folder / f"{task}", "a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(1 if task < 2 else 0)
    return task


def exit_on_two(shared, task):
    if task == 2:
        os._exit(7)
    return task


def people_of(cohort, task):
    return cohort.manifest_hash, id(cohort), os.getpid()


def test_every_task_comes_back_with_its_result_or_its_failure(dask):
    done = dict(engine.map(divide, [4, 0, 5, 2], 20.0, jobs=2, engine=dask))
    failure = done.pop(0)
    assert done == {4: 5.0, 5: 4.0, 2: 10.0}
    assert failure.error.startswith("ZeroDivisionError: ") and "in divide" in failure.traceback
    assert list(engine.map(divide, [], 1.0, engine=dask)) == []


def test_a_task_computes_on_one_core(dask):
    assert all(found == {1} for _, found in engine.map(threads, range(3), None, jobs=2, engine=dask))


def test_what_was_defined_in_a_function_is_sent_and_what_cannot_be_is_said_in_words(dask):
    assert list(engine.map(lambda shared, task: shared + task, [1], 2, engine=dask)) == [(1, 3)]
    lock = threading.Lock()
    with pytest.raises(UsageError, match="sent"):
        list(engine.map(lambda shared, task: lock, [1], None, engine=dask))


def test_the_same_scores_from_every_engine(cohort, dask, tmp_path):
    places = {"local": (1, "local"), "dask": (2, dask)}  # two processes of this machine: see test_runner.py
    for name, (jobs, where) in places.items():
        evaluate(cohort, METHODS, tuning="fast", out=tmp_path / name, held_out=["S01"], jobs=jobs, engine=where)
    for table in ("scores.csv", "predictions.csv"):
        assert len({(tmp_path / name / table).read_bytes() for name in places}) == 1


def test_a_killed_worker_costs_only_the_task_it_held(dask, tmp_path):
    outcomes = engine.map(log_and_sleep, range(6), tmp_path, jobs=2, engine=dask)
    results, killed = [], None
    for outcome in outcomes:
        if killed is None:
            busy = [path for path in tmp_path.iterdir() if int(path.name) < 2 and int(path.name) != outcome[0]]
            killed = busy[0].name if busy else None
            if busy:
                os.kill(int(busy[0].read_text()), signal.SIGKILL)
        results.append(outcome)
    starts = {path.name: len(path.read_text().split()) for path in tmp_path.iterdir()}
    assert dict(results) == {task: task for task in range(6)}
    assert killed is not None and starts == {str(task): 2 if str(task) == killed else 1 for task in range(6)}


def test_a_task_that_always_dies_fails_alone(dask):
    done = dict(engine.map(exit_on_two, range(5), None, jobs=2, engine=dask))
    assert "worker process died 2 times" in done.pop(2).error
    assert done == {0: 0, 1: 1, 3: 3, 4: 4}


def test_people_go_by_the_path_of_a_store_and_are_read_once(cohort, dask, tmp_path):
    store = write_store(tmp_path / "own.zarr", cohort.table, cohort.series, cohort.atlas)
    reader = Dask(dask.scheduler, folder=tmp_path / "runs", store=store)
    part = cohort.subset([20, 3, 5])
    found = [result for _, result in engine.map(people_of, range(6), part, jobs=2, engine=reader)]
    assert {manifest for manifest, _, _ in found} == {part.manifest_hash}
    assert len({(cohort_id, process) for _, cohort_id, process in found}) <= 2  # one in each worker process
    assert not (tmp_path / "runs").exists()  # the store that was there served
    with reader._sendable(part) as message:
        assert len(message) < 500 and pickle.loads(message).rows == (20, 3, 5)


def test_another_table_is_another_store(cohort, tmp_path):
    store = write_store(tmp_path / "own.zarr", cohort.table, cohort.series, cohort.atlas)
    older = cohort.with_columns(cohort.table[["age"]] + 1)
    assert StoredPeople.find(store, cohort) is not None and StoredPeople.find(store, older) is None
    reader = Dask(folder=tmp_path / "runs", store=store)
    for _ in range(2):  # the second time it is there already
        with reader._sendable(older) as message:
            people = pickle.loads(message)
        assert people.path.parent == tmp_path / "runs" and people.load().table.equals(older.table)
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_a_store_that_changed_meanwhile_is_refused(cohort, tmp_path):
    store = write_store(tmp_path / "own.zarr", cohort.table, cohort.series, cohort.atlas)
    people = StoredPeople.find(store, cohort)
    store.rename(tmp_path / "old.zarr")
    write_store(store, cohort.table.iloc[::-1], cohort.series, cohort.atlas)
    with pytest.raises(ReaderError, match="changed"):
        people.load()


def listening(pids):
    """Addresses (hex, as the kernel writes them) on which these processes accept connections."""
    inodes = {os.readlink(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}


@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="reads what Linux says of sockets")
def test_nobody_outside_this_machine_can_reach_the_workers():
    before = listening([os.getpid()])  # what other tests of this process left open
    with Dask()._client(1) as client:
        workers = [facts["nanny"] for facts in client.scheduler_info()["workers"].values()]
        pids = [os.getpid(), *client.run(os.getpid).values()]
        assert listening(pids) - before <= {"0100007F"} and len(workers) == 1
        assert client.dashboard_link.startswith("http://127.0.0.1:")


def test_a_worker_killed_while_it_starts_is_one_line(monkeypatch, tmp_path):
    def killed(*arguments, **settings):
        raise RuntimeError("Nanny failed to start.")  # what distributed says then, seen with kill -9

    monkeypatch.setattr("distributed.LocalCluster", killed)
    result = run(*STUDY, "--out", tmp_path, "--engine", "dask", "--jobs", 2)
    assert result.exit_code == 1 and "start the command again, with fewer jobs" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_worker_killed_while_it_starts_is_started_again(monkeypatch):
    distributed = pytest.importorskip("distributed")
    starts, start = [], distributed.LocalCluster

    def killed_once(*arguments, **settings):
        starts.append(settings)
        if len(starts) == 1:
            raise RuntimeError("Nanny failed to start.")
        return start(*arguments, **settings)

    monkeypatch.setattr(distributed, "LocalCluster", killed_once)
    assert sorted(Dask()(pow, [2, 3], 10, 1)) == [(2, 100), (3, 1000)] and len(starts) == 2


def test_a_cluster_without_workers_is_named_while_it_is_waited_for(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(dask_engine, "PATIENCE", 0.2)
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as empty:
        threading.Timer(0.5, empty.scale, [1]).start()
        with pytest.warns(UserWarning, match="worker") as told:
            assert list(engine.map(divide, [2], 1, engine=Dask(scheduler=empty.scheduler_address))) == [(2, 0.5)]
    assert len([warning for warning in told if "no Dask worker" in str(warning.message)]) == 1


def test_workers_of_this_machine_that_do_not_come_back_are_an_error(monkeypatch):
    """It waited for ever: nobody but this process could start them again."""
    monkeypatch.setattr(dask_engine, "PATIENCE", 0.2)
    with Dask()._client(1) as client:
        for nanny in list(client.cluster.workers.values()):
            client.cluster.sync(nanny.close)
        with pytest.raises(BrainroamError, match="start"):
            list(dask_engine._outcomes(client, divide, [2], pickle.dumps(1), 1, 2, lambda task: None))


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setitem(dask_engine.SETTINGS, "distributed.comm.timeouts.connect", "1s")
    with pytest.raises(BrainroamError, match=r"tcp://127\.0\.0\.1:9"):
        list(engine.map(divide, [1], 1.0, engine=Dask(scheduler="tcp://127.0.0.1:9")))


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


STUDY = ["loso", "synthetic", *(f"--option={k}={v}" for k, v in SMALL.items()), "--methods", "majority"]


@pytest.mark.parametrize("module", ["distributed", "dask_jobqueue"])
def test_without_dask_the_line_that_installs_it_is_named(monkeypatch, tmp_path, module):
    monkeypatch.setitem(sys.modules, module, None)
    where = ["--engine", "dask"] if module == "distributed" else ["--cluster", "slurm", "--dry-run"]
    result = run(*STUDY, "--out", tmp_path / "runs", *where)
    assert result.exit_code == 1 and result.stderr.strip().endswith('run: pip install "brainroam[dask]"')
    assert not (tmp_path / "runs").exists()


MARKS = {
    "slurm": ["#SBATCH -p long", "#SBATCH --cpus-per-task=1", "#SBATCH --mem=8G", "#SBATCH -t 04:00:00"],
    "pbs": ["#PBS -q long", "#PBS -l select=1:ncpus=1:mem=7630MB", "#PBS -l walltime=04:00:00"],
    "sge": ["#$ -q long", "#$ -l h_rt=04:00:00"],
    "lsf": ["#BSUB -q long", "#BSUB -n 1", "#BSUB -M 8000", "#BSUB -W 04:00"],
    "htcondor": ["RequestCpus = MY.DaskWorkerCores", "MY.DaskWorkerMemory = 8000000000"],
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_script_for_the_queue_says_what_was_asked_for(tmp_path, name):
    resources = tmp_path / "resources.yaml"
    own = "disk: 1GB" if name == "htcondor" else "queue: long\nwalltime: '04:00:00'"
    resources.write_text(f"memory: 8GB\n{own}\njob_script_prologue: [module load python]\n")
    script = run(
        *STUDY, "--out", tmp_path / "runs", "--cluster", name, "--cluster-config", resources, "--dry-run"
    )  # fmt: skip
    assert script.exit_code == 0, script.output
    for mark in MARKS[name]:
        assert mark in script.stdout
    assert "--nthreads 1 " in script.stdout and "distributed.cli.dask_worker tcp://" in script.stdout
    assert script.stdout.index("export OMP_NUM_THREADS=1") < script.stdout.index("module load python")
    assert not (tmp_path / "runs").exists()


def test_several_workers_share_a_job():
    script = Dask(cluster="slurm", resources={"cores": 16, "memory": "64GB"}).job_script()
    assert "--nworkers 16 " in script and "--nthreads 1 " in script and "--cpus-per-task=16" in script


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster", "slrum", "--dry-run"], "did you mean 'slurm'"),
        (["--cluster", "slurm", "--scheduler", "tcp://a:1"], "give one of them"),
        (["--dry-run"], "name it with --cluster"),
        (["--engine", "dsk"], "did you mean 'dask'"),
        (["--cluster", "slurm", "--dry-run", "--cluster-config", "{}/nowhere.yaml"], "cannot be read: No such file"),
        (["--cluster", "slurm", "--dry-run", "--cluster-config", "{}/list.yaml"], "should be lines like"),
        (["--cluster", "slurm", "--dry-run", "--cluster-config", "{}/typo.yaml"], "unexpected keyword argument 'wall"),
        (["--cluster", "slurm", "--dry-run", "--cluster-config", "{}/two.yaml"], "leave 'processes' out"),
    ],
)
def test_places_that_do_not_exist(tmp_path, options, words):
    for name, text in (("list", "- 1"), ("typo", "walltme: 1"), ("two", "processes: 2")):
        (tmp_path / f"{name}.yaml").write_text(text)
    result = run(*STUDY, "--out", tmp_path / "runs", *(option.format(tmp_path) for option in options))
    assert result.exit_code == 2 and words in result.stderr


def test_a_killed_client_leaves_only_what_is_missing(cluster, tmp_path):
    methods = "fc-ridge,fc-logistic,fc-svm,majority"
    command = [*STUDY[:-1], methods, "--tuning", "fast", "--scheduler", cluster.scheduler_address]
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    assert run(*command, "--out", whole).exit_code == 0

    def written():
        return {path.name: path.stat().st_mtime_ns for path in (torn / "runs").glob("*.json")}

    code = "from brainroam.cli import main; main()"
    client = subprocess.Popen(
        [sys.executable, "-c", code, *command, "--out", str(torn)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len(written()) < 3 and client.poll() is None:
        time.sleep(0.002)
    client.kill()
    client.wait(timeout=60)
    seen = written()
    assert 3 <= len(seen) < 12
    assert run(*command, "--out", torn).exit_code == 0
    assert seen.items() <= written().items() and len(written()) == 12
    assert (torn / "scores.csv").read_bytes() == (whole / "scores.csv").read_bytes()


class Broken(Majority):
    """Cannot be fitted."""

    def fit(self, cohort, seed=0, validation=None):
        raise BrainroamError("no fit")


def test_a_failed_run_is_recorded_with_its_specification(cohort, dask, tmp_path):
    broken = MethodInfo("broken", Broken, "no fit", stochastic=False)
    with registry.temporarily(broken), pytest.raises(BrainroamError, match="3 of 6"):
        evaluate(cohort, ["majority", "broken"], out=tmp_path, jobs=2, engine=dask)
    failed = [spec for spec, outcome in RunsFolder(tmp_path).runs.values() if outcome["status"] == "failed"]
    assert {spec.method for spec in failed} == {"broken"} and {spec.fold for spec in failed} == {"S01", "S02", "S03"}


class Hungry(Majority):
    """Needs more memory than a worker has once it is refitted for S02."""

    def fit(self, cohort, seed=0, validation=None):
        hoard = []
        while cohort.sites == ["S01", "S03"]:
            hoard.append(np.ones(2**22))
            time.sleep(0.005)
        return super().fit(cohort, seed, validation)


def test_a_run_that_always_dies_is_recorded_while_the_others_finish(cohort, dask, tmp_path):
    hungry = MethodInfo("hungry", Hungry, "too much", stochastic=False)
    with registry.temporarily(hungry), pytest.raises(BrainroamError, match=r"1 of 6.*hungry at S02"):
        evaluate(cohort, ["hungry", "majority"], out=tmp_path, jobs=2, engine=dask)
    runs = list(RunsFolder(tmp_path).runs.values())
    ((spec, outcome),) = [(spec, outcome) for spec, outcome in runs if outcome["status"] == "failed"]
    assert (spec.method, spec.fold, spec.manifest_hash) == ("hungry", "S02", cohort.manifest_hash)
    assert "worker process died 2 times" in outcome["error"] and len(runs) == 6
    with registry.temporarily(MethodInfo("hungry", Majority, "cured", stochastic=False)):
        assert len(evaluate(cohort, ["hungry", "majority"], out=tmp_path, jobs=2, engine=dask).scores) == 6


def test_a_study_runs_on_a_cluster_of_its_own(tmp_path):
    result = run(*STUDY, "--out", tmp_path, "--engine", "dask", "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert len(list((tmp_path / "runs").glob("*.json"))) == 3


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="interrupts a group of processes, as a terminal does")
def test_ctrl_c_says_one_line_and_keeps_what_is_finished(tmp_path):
    code = "from brainroam.cli import main; main()"
    command = [*STUDY[:-1], "fc-ridge,fc-logistic,fc-svm,combat-ridge", "--out", str(tmp_path), "--engine", "dask"]
    client = subprocess.Popen(
        [sys.executable, "-c", code, *command], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not list(tmp_path.glob("runs/*.json")) and client.poll() is None:
        time.sleep(0.01)
    os.killpg(client.pid, signal.SIGINT)
    errors = client.communicate(timeout=120)[1]
    assert client.returncode == 130 and "Traceback" not in errors
    assert errors.rstrip().endswith("interrupted; finished work is kept")
