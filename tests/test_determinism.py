"""Same seed, same bytes: in another process, with other hash seeds, threads and jobs. Another seed differs."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from brainroam.cli import app

DATA = ["synthetic", "--option", "n_sites=3", "--option", "n_per_site=12", "--option", "n_rois=10"]
SMALL = [
    "--set",
    "budget=2",
    "--set",
    "hidden=4",
    "--set",
    "updates=6",
    "--set",
    "skip=none",
    "--set",
    "tau_percentile=50",
    "--set",
    "eta=0.6",
]
CORE = "core[budget=2,hidden=4,updates=6,tau_percentile=50,eta=0.6]"


def study(out, jobs, threads, hash_seed):
    """The tables of a study done by a process of its own."""
    command = [sys.executable, "-c", "from brainroam.cli import main; main()", "loso", *DATA]
    command += ["--methods", f"{CORE},fc-ridge,gcn[epochs=1]", "--tuning", "fast", "--out", str(out), "--jobs", jobs]
    machine = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
    subprocess.run(command, check=True, env=machine, capture_output=True)
    return {name: (out / name).read_bytes() for name in ("scores.csv", "predictions.csv")}


def test_another_process_with_other_threads_and_jobs_gives_the_same_bytes(tmp_path):
    assert study(tmp_path / "one", "1", "1", "1") == study(tmp_path / "two", "2", "2", "2")


FIRST_USE_OF_TORCH = """
import sys
import brainroam
from brainroam.methods.registry import method_info
from brainroam.methods.tuning import TunedMethod

cohort = brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=10)
assert "torch" not in sys.modules
model = TunedMethod(method_info("core"), "fast", epochs=1, budget=2, hidden=4, tau_percentile=50, eta=0.6)
seen = set()

class Watch:  # looks on while the network is imported
    def find_spec(self, name, *_):
        if name == "brainroam.core.training":
            import torch
            from torch import nn
            read = nn.Module.__call__
            nn.Module.__call__ = lambda *given, **more: (seen.add(torch.get_num_threads()), read(*given, **more))[1]

sys.meta_path.insert(0, Watch())
model.fit(cohort)
model.model_.explanation(cohort)
import torch
print(seen, torch.get_num_threads())
"""


def test_the_first_network_of_a_process_is_computed_by_one_thread_like_every_other():
    """Otherwise what was done before in the process, as a study that was resumed, would show in the last digits."""
    machine = {**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FIRST_USE_OF_TORCH], capture_output=True, text=True, env=machine)
    assert done.stdout.strip() == "{1} 2", done.stderr


RESUMED = """
import sys
import brainroam
cohort = brainroam.make_cohort(n_sites=3, n_per_site=30)
method = "core[updates=20,trials=1,skip=none]"
brainroam.evaluate(cohort, [method], seeds=2, held_out=["S01"], out=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_study_killed_between_two_seeds_of_a_fold_ends_in_the_same_bytes(tmp_path):
    told = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    machine = {name: value for name, value in os.environ.items() if name not in told}  # torch counts the cores itself

    def start(out):
        return subprocess.Popen([sys.executable, "-c", RESUMED, str(out)], env=machine)

    def tables(out):
        return {name: (out / name).read_bytes() for name in ("scores.csv", "predictions.csv")}

    assert start(tmp_path / "whole").wait(timeout=120) == 0
    out = tmp_path / "torn"
    killed = start(out)
    while killed.poll() is None and not any((out / "runs").glob("*.json")):
        time.sleep(0.001)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL and len(list((out / "runs").glob("*.json"))) == 1
    assert start(out).wait(timeout=120) == 0
    assert tables(out) == tables(tmp_path / "whole")


@pytest.mark.parametrize("method", ["core", "gcn"])
def test_a_model_is_the_same_bytes_for_the_same_seed_and_others_for_another(tmp_path, method):
    def model(name, seed):
        settings = SMALL if method == "core" else ["--set", "epochs=1"]
        command = ["fit", *DATA, "--method", method, "--seed", seed, "--tuning", "fast", *settings]
        done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        return [(tmp_path / name / file).read_bytes() for file in ("model.json", "model.safetensors")]

    assert model("first", "0") == model("again", "0")
    assert model("other", "1")[1] != model("first", "0")[1]


@pytest.mark.usefixtures("warm_python")
def test_the_audit_is_the_same_for_the_same_seed(tmp_path):
    def audit(name, seed):
        command = ["audit", *DATA, "--permutations", "2", "--methods", "fc-ridge", "--seed", seed]
        CliRunner().invoke(app, [*command, "--out", str(tmp_path / name)])
        return (tmp_path / name).read_text()

    assert audit("a.json", "0") == audit("a.json", "0") != audit("b.json", "1")


@pytest.mark.skipif("not __import__('torch').cuda.is_available()", reason="there is no GPU here")
def test_training_on_a_gpu_scores_within_the_tolerance():
    from brainroam import CoreClassifier, make_cohort

    people = make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    settings = {"budget": 2, "hidden": 4, "updates": 6, "skip": "none", "tau_percentile": 50, "eta": 0.6}
    here, there = (CoreClassifier(**settings, device=where).fit(people) for where in ("cpu", "cuda"))
    scores = [clf.decision_function(people) for clf in (here, there)]
    assert np.abs(scores[0] - scores[1]).max() <= 1e-3 * np.ptp(scores[0])
