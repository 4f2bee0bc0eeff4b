"""Command lines that nobody would type, for every command that needs no network and does not take minutes."""

import io
import os
import random
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import NAMES, NUMBERS, TOKENS, mutated

RIGHT = {
    "data": "cohort.npz",
    "runs": "runs",
    "model": "model",
    "study": "study.yaml",
    "folder": ".",
    "name": "core",
    "image": "schaefer200",
    "bids_dir": ".",
    "out_dir": "out",
    "level": "group",
    "files": "one.summary",
}
LEFT_OUT = ("demo", "fetch", "paper")
SHORT = {  # given after everything else: then a command that gets through to the end is soon there
    "loso": ["--methods", "majority", "--tuning", "fast"],
    "cv": ["--methods", "majority", "--tuning", "fast"],
    "audit": ["--methods", "majority", "--permutations", "1"],
    "fit": ["--method", "majority"],
    "ablate": ["--dry-run"],
    "sweep": ["--dry-run"],
}
NOT_GIVEN = ("--out", "--open", "--help", "--figures")
VALUES = [
    *("cohort.npz", "broken.npz", "study.yaml", "synthetic", "runs", "model", "out", "/dev/null", "nowhere"),
    *("n_sites=2", "n_sites=-1", "n_rois=1e9", "seed=x", "a=b=c", "=", "budget=[", "template={participant_id}"),
    *("core", "fc-ridge", "core[budget=2]", "majority,", "aal", "S01,S02", "1", "0.5", "1GB", "dask", "json"),
    *NAMES,
    *NUMBERS,
    *TOKENS,
]


def build_home(root: Path) -> None:
    """A cohort, a damaged one, a study file, a finished study, a model, and a place for output."""
    from tests.fuzz.targets import build_model, build_npz, build_runs

    build_npz(root)
    build_runs(root)
    build_model(root)
    (root / "broken.npz").write_bytes((root / "cohort.npz").read_bytes()[:500])
    (root / "study.yaml").write_text("data: cohort.npz\nmethods: [majority]\ntuning: fast\nout: out/study\n")


def spoil_data(file: Path, rng: random.Random) -> None:
    """Sometimes the data is bad as well."""
    if file.suffix == ".npz" and rng.random() < 0.3:
        file.write_bytes(mutated(file.read_bytes(), rng))


def command_line(rng: random.Random) -> list[str]:
    """A command, its arguments, right or wrong, some of its options and some of no command, and where to write."""
    commands = program().commands
    name = rng.choice([*sorted(set(commands) - set(LEFT_OUT)), "nonsense"])
    parameters = commands[name].params if name in commands else []
    words, options = [name], {"--nonsense": False}
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            words += [RIGHT[parameter.name]] if rng.random() < 0.6 else rng.choices(VALUES, k=rng.randrange(3))
        elif parameter.opts[0] not in NOT_GIVEN:
            options[parameter.opts[0]] = parameter.is_flag
    for option in rng.sample(sorted(options), rng.randrange(min(4, len(options) + 1))):
        words += [option] if options[option] else [option, rng.choice(VALUES)]
    words += SHORT.get(name, []) if rng.random() < 0.9 else []
    writes = any("--out" in parameter.opts for parameter in parameters)
    return words + (["--out", f"out/{rng.choice(['result', 'a b.csv', 'ü', 'x' * 300])}"] if writes else [])


def run_command(root: Path, rng: random.Random) -> object:
    """Run it as if typed in that folder; an exit code other than 0 is a refusal, anything but words a fault."""
    from brainroam.errors import BrainroamError

    os.chdir(root)
    words, said, code = command_line(rng), io.StringIO(), None
    with redirect_stdout(said), redirect_stderr(said):
        try:
            program().main(words, "brainroam")
        except SystemExit as end:
            code = end.code
        except Exception as error:
            raise RuntimeError(f"{words}: {error!r}") from error
        finally:
            shutil.rmtree(root / "out", ignore_errors=True)
    if code not in (0, 1, 2) or (code and not said.getvalue().strip()):
        raise RuntimeError(f"{words}: exit code {code}, {said.getvalue()!r}")
    if code:
        raise BrainroamError(said.getvalue())
    return said


@cache
def program() -> Any:
    """The command line, put together once."""
    from typer.main import get_command

    from brainroam.cli import app

    return get_command(app)
