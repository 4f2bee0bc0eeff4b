"""Build the wheel, install it into fresh environments and do a small study there: make versions

Environments: every supported Python with the newest dependencies and, for the oldest Python, the lowest allowed.
The installations are light ones, without torch, whose wheels of every version would be gigabytes. Needs uv
(pip install uv) and a package index. Prints one line per environment.
"""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
STUDY = """
data: synthetic
options: {n_sites: 4, n_per_site: 12, n_rois: 12}
methods: [champion, "core[epochs=0]", tangent-ridge, fc-ridge, confounds]
tuning: fast
"""
SHIPPED = """
from importlib.resources import files
import brainroam
from brainroam.data.atlas import load_atlas
assert (files(brainroam) / "py.typed").is_file()
assert len(load_atlas("aal")) == 116 and len(load_atlas("cc200")) == 200
"""


def main(wanted: list[str]) -> int:
    """Try every environment, or those whose name is given."""
    with tempfile.TemporaryDirectory() as scratch:
        run("uv", "build", "--wheel", "--out-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("*.whl")
        cases = [(python, "highest") for python in PYTHONS] + [(PYTHONS[0], "lowest-direct")]
        chosen = [case for case in cases if not wanted or "-".join(case) in wanted]
        outcomes = [(*case, attempt(Path(scratch), wheel, *case)) for case in chosen]
    for python, resolution, outcome in outcomes:
        print(f"Python {python}, {resolution} dependencies: {outcome}")
    return int(any(outcome != "ok" for *_, outcome in outcomes))


def attempt(scratch: Path, wheel: Path, python: str, resolution: str) -> str:
    """Install and run a study; the word ok, or the last line of what went wrong."""
    home = scratch / f"{python}-{resolution}"
    (home / "study").mkdir(parents=True)
    (home / "study" / "study.yaml").write_text(STUDY)
    command = home / "venv" / "bin" / "brainroam"
    try:
        run("uv", "venv", "--quiet", "--python", python, str(home / "venv"))
        interpreter = str(home / "venv" / "bin" / "python")
        install = ("uv", "pip", "install", "--quiet", "--python", interpreter, "--resolution", resolution)
        run(*install, str(wheel) if resolution == "highest" else requirements(home, wheel))
        run(interpreter, "-c", SHIPPED)
        run(str(command), "--help")
        run(str(command), "run", "--quiet", "study.yaml", cwd=home / "study")
        run(str(command), "fit", "study.yaml", "--method", "fc-ridge", "--out", "model", cwd=home / "study")
        run(str(command), "predict", "model", "study.yaml", cwd=home / "study")
    except (subprocess.CalledProcessError, OSError) as error:
        words = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        return " / ".join(words[-3:])
    return "ok"


def requirements(home: Path, wheel: Path) -> str:
    """A project that wants the wheel and all that the wheel wants: only direct dependencies are taken at the lowest."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    listed = ", ".join(f'"{name}"' for name in [f"brainroam @ {wheel.as_uri()}", *wanted])
    project = home / "project"
    project.mkdir()
    header = '[project]\nname = "lowest"\nversion = "0"\nrequires-python = ">=3.11"\n'
    (project / "pyproject.toml").write_text(f"{header}dependencies = [{listed}]\n[tool.setuptools]\npy-modules = []\n")
    return str(project)


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command and keep what it says for the case that it fails."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=cwd, env=environment, check=True, capture_output=True, text=True, timeout=1800)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
