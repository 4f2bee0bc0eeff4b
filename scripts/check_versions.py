"""Build the wheel, install it into fresh environments and do a small study there: make versions

Environments: every supported Python with the newest dependencies (``3.12-highest``) and with the lowest allowed that
have a wheel for it (``3.12-lowest-direct``); names on the command line choose. The installations are light ones,
without torch, whose wheels of every version would be gigabytes. ``--tests`` then runs the tests of TESTS on the wheel,
with the tools that they need and the torch of ``constraints.txt``. Needs uv (pip install uv) and a package index.
Prints one line per environment.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
STUDY = """
data: synthetic
options: {n_sites: 4, n_per_site: 12, n_rois: 12}
methods: [ensemble, "core[epochs=0]", tangent-ridge, fc-ridge, confounds]
tuning: fast
"""
# Rooms whose code meets the dependencies. Tests of the browser, the docs and faults of the machine are left out.
TESTS = ("utils", "data", "core", "methods", "evaluation", "cli")
TOOLS = ("pytest", "hypothesis", "networkx", "statsmodels", "lxml", "zarr", "rocrate")
SHIPPED = """
from importlib.resources import files
import brainroam
from brainroam.data.atlas import load_atlas
assert (files(brainroam) / "py.typed").is_file()
assert len(load_atlas("aal")) == 116 and len(load_atlas("cc200")) == 200
"""


def main(words: list[str]) -> int:
    """Try every environment, or those whose name is given."""
    wanted = [word for word in words if word != "--tests"]
    cases = [(python, resolution) for python in PYTHONS for resolution in ("highest", "lowest-direct")]
    chosen = [case for case in cases if not wanted or "-".join(case) in wanted]
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        run("uv", "build", "--quiet", "--wheel", "--out-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("*.whl")
        for python, resolution in chosen:
            outcome = attempt(Path(scratch), wheel, python, resolution, "--tests" in words)
            failed |= outcome != "ok"
            print(f"Python {python}, {resolution} dependencies: {outcome}", flush=True)
    return int(failed)


def attempt(scratch: Path, wheel: Path, python: str, resolution: str, tests: bool) -> str:
    """Install and run a study, then the tests if asked for; the word ok, or the last lines of what went wrong."""
    home = scratch / f"{python}-{resolution}"
    (home / "study").mkdir(parents=True)
    (home / "study" / "study.yaml").write_text(STUDY)
    command = home / "venv" / "bin" / "brainroam"
    interpreter = str(home / "venv" / "bin" / "python")
    install = ("uv", "pip", "install", "--quiet", "--only-binary", ":all:", "--python", interpreter)
    try:
        run("uv", "venv", "--quiet", "--python", python, str(home / "venv"))
        # What is named is taken at its lowest, what it needs in turn at its newest.
        run(*install, "--resolution", resolution, str(wheel), *named(tests))
        run(interpreter, "-c", SHIPPED)
        run(str(command), "--help")
        run(str(command), "run", "--quiet", "study.yaml", cwd=home / "study")
        run(str(command), "fit", "study.yaml", "--method", "fc-ridge", "--out", "model", cwd=home / "study")
        run(str(command), "predict", "model", "study.yaml", cwd=home / "study")
        if tests:
            run(*install, "--constraint", str(ROOT / "constraints.txt"), "torch")
            folders = [f"tests/{room}" for room in TESTS]
            run(interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders, cwd=ROOT)
    except (subprocess.CalledProcessError, OSError) as error:
        said = (getattr(error, "stderr", "") or getattr(error, "stdout", "") or str(error)).strip().splitlines()
        return " / ".join(said[-12:])
    return "ok"


def named(tests: bool) -> list[str]:
    """What pyproject.toml asks for, as it stands there: the dependencies, and the tools of the tests."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = content["project"]
    optional = [*project["optional-dependencies"].values(), *content["dependency-groups"].values()]
    listed = [wanted for some in optional for wanted in some if isinstance(wanted, str)]
    tools = [wanted for wanted in listed if wanted.split(">")[0] in TOOLS]
    return [*project["dependencies"], *(tools if tests else [])]


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command and keep what it says for the case that it fails."""
    # uv does not know of pip's folder of wheels, where a CPU build of torch may lie.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True, timeout=1800)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
