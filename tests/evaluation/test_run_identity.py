"""What makes a result another result: the code that made it, and the atlas."""

import importlib.util
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

import brainroam
from brainroam.data.cohort import Cohort
from brainroam.data.synthetic import make_cohort
from brainroam.errors import RunsError
from brainroam.evaluation import code_version as identity
from brainroam.evaluation import runs_folder
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.results import load_runs
from brainroam.evaluation.run_records import read_run
from brainroam.evaluation.runner import evaluate
from brainroam.methods import registry
from brainroam.methods.base import MethodInfo

OWN = """
from brainroam.methods.controls import Majority
class Own(Majority):
    def score(self, cohort):
        return {} * cohort.table["age"].to_numpy()
"""


@pytest.fixture(scope="module")
def cohort():
    return make_cohort(n_sites=3, n_per_site=8, n_rois=8)


@pytest.fixture
def own_method(monkeypatch):
    """Makes the method "own" of a file of code, which it writes."""
    with ExitStack() as registered:

        def make(path, factor):
            path.write_text(OWN.format(factor))
            spec = importlib.util.spec_from_file_location("own_method", path)
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, "own_method", module)
            spec.loader.exec_module(module)
            info = MethodInfo("own", module.Own, "mine", stochastic=False)
            registered.enter_context(registry.temporarily(info))
            return info

        yield make


def test_a_method_whose_code_changed_is_done_again_and_says_so(cohort, tmp_path, own_method):
    own_method(tmp_path / "own.py", 1)
    runs = tmp_path / "runs"
    before = evaluate(cohort, ["own", "majority"], out=runs).scores.set_index("method")["auc"]
    own_method(tmp_path / "own.py", -1)
    with pytest.warns(UserWarning, match="3 finished"):
        after = evaluate(cohort, ["own", "majority"], out=runs).scores.set_index("method")["auc"]
    assert (after["own"] == 1 - before["own"]).all() and (after["majority"] == before["majority"]).all()
    assert len(list((runs / "superseded").iterdir())) == 3 and len(list((runs / "runs").iterdir())) == 6
    assert len(load_runs(runs).scores) == 6  # nothing is missing, nothing counted twice


def test_another_version_of_the_package_is_done_again(cohort, tmp_path, monkeypatch):
    evaluate(cohort, ["majority"], out=tmp_path)
    monkeypatch.setattr(brainroam, "__version__", "9.9.9")
    with pytest.warns(UserWarning, match=r"brainroam \d+\.\d+\.\d+\+"):
        evaluate(cohort, ["majority"], out=tmp_path)
    specs = [read_run(file)[0] for file in (tmp_path / "runs").iterdir()]
    assert len(specs) == 3 and {spec.version[:6] for spec in specs} == {"9.9.9+"}


def test_methods_of_different_versions_in_one_comparison_are_named(cohort, tmp_path, monkeypatch):
    evaluate(cohort, ["majority"], out=tmp_path)
    monkeypatch.setattr(brainroam, "__version__", "9.9.9")
    evaluate(cohort, ["confounds"], out=tmp_path, tuning="fast")
    with pytest.warns(UserWarning, match=r"brainroam 9\.9\.9"):
        load_runs(tmp_path)


def test_a_method_from_elsewhere_beside_ours_is_no_mixture(cohort, tmp_path, own_method, recwarn):
    own_method(tmp_path / "own.py", 1)
    evaluate(cohort, ["own", "majority"], out=tmp_path / "runs")
    load_runs(tmp_path / "runs")
    assert not recwarn.list


@pytest.mark.parametrize("change", ["name", "labels"])
def test_another_atlas_into_the_same_folder_is_refused(cohort, tmp_path, change):
    evaluate(cohort, ["majority"], out=tmp_path)
    atlas = cohort.atlas
    new = {"name": "other"} if change == "name" else {"labels": tuple(reversed(atlas.labels))}
    other = Cohort(cohort.series, cohort.table, replace(atlas, **new))
    with pytest.raises(RunsError, match="atlas 'custom'"):
        evaluate(other, ["majority"], out=tmp_path)


def test_an_interrupted_second_round_is_finished_by_the_same_command(cohort, tmp_path, monkeypatch):
    evaluate(cohort, ["majority"], out=tmp_path)
    monkeypatch.setattr(brainroam, "__version__", "9.9.9")
    with pytest.warns(UserWarning, match="again"), monkeypatch.context() as patch:
        patch.setattr(runs_folder.RunsFolder, "keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            evaluate(cohort, ["majority"], out=tmp_path)
    with pytest.raises(RunsError, match="3 of 3"):
        load_runs(tmp_path)
    assert len(evaluate(cohort, ["majority"], out=tmp_path).scores) == 3


def test_the_files_that_a_version_names_are_there():
    named = {*identity.USED_BY_EVERY_RUN, *identity.SHOWS_IN_THE_DATA}
    assert {path for path in named if not path.exists()} == set()
    assert {"people.py", "stored_cohort.py"} <= {
        path.name for path in identity.imported_files(identity.USED_BY_EVERY_RUN)
    }


def test_line_ends_do_not_change_the_code(tmp_path, own_method):
    info = own_method(tmp_path / "own.py", 1)
    before = code_version(info)
    (tmp_path / "own.py").write_bytes((tmp_path / "own.py").read_bytes().replace(b"\n", b"\r\n"))
    assert code_version(info) == before
    (tmp_path / "own.py").write_text("other = 1\n")
    assert code_version(info) != before and identity.package_of(code_version(info)) == identity.package_of(before)


CODE = """
from brainroam.evaluation.code_version import PACKAGE, code_version
from brainroam.methods.registry import method_info

NEW = "changed = True"

def DOCSTRING(code):
    return code.replace("Scores of the refitted", "Other words for scores of the refitted")

def versions():
    return [code_version(method_info(name)) for name in ("fc-ridge", "core")]

seen = [versions()]
CHANGES = [("core/gate.py", NEW), ("methods/tuning.py", NEW), ("data/folds.py", NEW), ("report/figures.py", NEW)]
CHANGES += [("methods/tuning.py", "# changed"), ("methods/tuning.py", DOCSTRING), ("data/readers/bids.py", NEW)]
for file, change in CHANGES:
    code = (PACKAGE / file).read_text()
    (PACKAGE / file).write_text(change(code) if callable(change) else code + change)
    seen.append(versions())
print([[before != after for before, after in zip(*pair)] for pair in zip(seen, seen[1:])])
"""


def test_only_methods_that_use_a_changed_file_are_done_again(tmp_path):
    shutil.copytree(identity.PACKAGE, tmp_path / "brainroam", ignore=shutil.ignore_patterns("__pycache__"))
    code = subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert code.stdout.strip() == (
        "[[False, True], [True, True], [True, True], [False, False], [False, False], [False, False], [False, False]]"
    )
