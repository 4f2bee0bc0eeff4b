"""Every code block of README and docs runs, or is at least parsed where it needs a network, a queue or an hour.

Blocks of a page run one after another in one folder, as a reader would type them. ``<!-- check: parse -->`` above a
block says that it is only parsed: commands of brainroam by their own parser, shell by bash, Python by the compiler.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import typer
import yaml
from fmriprep_tree import write_tree

from brainroam.cli import app
from brainroam.data.study_file import Study
from brainroam.data.synthetic import make_cohort

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"(?ms)^(<!-- check: parse -->\s*\n)?```(python|bash|yaml)\n(.*?)^```$")
# Pages whose commands ran for their figures, for hours or on many cores: they are parsed.
LONG = ("docs/results/", "docs/performance.md", "docs/scale.md", "docs/reliability.md", "docs/security.md")


class Block(NamedTuple):
    page: str
    number: int
    language: str
    code: str
    only_parse: bool


def blocks(page: Path) -> list[Block]:
    name = page.relative_to(ROOT).as_posix()
    long = name.startswith(LONG)
    return [
        Block(name, k, match[2], textwrap.dedent(match[3]), long or match[1] is not None)
        for k, match in enumerate(FENCE.finditer(page.read_text(encoding="utf-8")), start=1)
    ]


BLOCKS = [block for page in PAGES for block in blocks(page)]
TO_RUN = {
    page: [block for block in BLOCKS if block.page == page and not block.only_parse and block.language != "yaml"]
    for page in dict.fromkeys(block.page for block in BLOCKS)
}


def test_no_block_is_overlooked():
    fences = sum(len(re.findall(r"(?m)^\s*```(?:python|bash|yaml)\b", page.read_text("utf-8"))) for page in PAGES)
    assert len(BLOCKS) == fences
    run = sum(len(found) for found in TO_RUN.values())
    parsed = [block for block in BLOCKS if block.only_parse or block.language == "yaml"]
    assert run + len(parsed) == fences and run >= 25


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """What the pages talk about: a messy folder, BIDS derivatives, and ABIDE as far as a small stand-in goes."""
    root = tmp_path_factory.mktemp("world")
    cohort = make_cohort(n_sites=4, n_per_site=10, n_rois=12, seed=1)
    people = cohort.table
    _messy(root / "my_data", cohort, people)
    _derivatives(root / "xcp_d", cohort, people)
    _abide(root / "ABIDE_pcp")
    _volumes(root / "my_study")
    return root


def _messy(root, cohort, people):
    (root / "timeseries_final").mkdir(parents=True)
    cities = dict(zip(cohort.sites, ("Oslo", "Rome", "São Paulo", "Kyoto"), strict=True))
    for k, x in enumerate(cohort.series, start=1):
        np.savetxt(root / "timeseries_final" / f"X{k % 3}_{k:04d}_rest.csv", x, fmt="%.4f", delimiter=",")
    table = pd.DataFrame(
        {
            "Sub ID": range(1, len(people) + 1),
            "Scanner location": people["site"].map(cities),
            "Dx (1=patient)": people["label"].map({1: 1, 0: 2}),
            "Age at visit": people["age"].round(1),
            "Gender": people["sex"].map({1: "M", 0: "F"}),
        }
    )
    table.to_excel(root / "people.xlsx", index=False)


def _derivatives(root, cohort, people):
    for k, x in enumerate(cohort.series):
        name = f"sub-{k:02d}"
        folder = root / name / "func"
        folder.mkdir(parents=True)
        file = folder / f"{name}_task-rest_space-MNI_seg-4S12Parcels_stat-mean_timeseries.tsv"
        pd.DataFrame(x, columns=[f"region-{c}" for c in "abcdefghijkl"]).to_csv(file, sep="\t", index=False)
    rows = {"participant_id": [f"sub-{k:02d}" for k in range(len(people))], "site": people["site"]}
    rows |= {"diagnosis": people["label"].map({1: "patient", 0: "control"}), "age": people["age"]}
    pd.DataFrame(rows).to_csv(root / "participants.tsv", sep="\t", index=False)


def _volumes(root):
    n = 18
    people = pd.DataFrame({"participant_id": [f"sub-{k:02d}" for k in range(1, n + 1)]})
    people["site"] = np.tile(["Oslo", "Rome", "Kyoto"], n // 3)
    people["diagnosis"] = np.tile(np.repeat(["control", "patient"], 3), n // 6)
    people["age"], people["sex"] = np.arange(20, 20 + n), np.tile(["M", "F"], n // 2)
    write_tree(root, people, np.linspace(0.05, 0.4, n).round(2))


def _abide(root):
    rng, rows = np.random.default_rng(0), []
    folder = root / "cpac" / "filt_global"
    folder.mkdir(parents=True)
    for k in range(24):
        site, number = ("PITT", "OLIN", "YALE")[k % 3], 50000 + k
        name = f"{site.title()}_{number:07d}"
        header = "\t".join(f"#{2001 + roi}" for roi in range(116))
        lines = ["\t".join(f"{value:.4f}" for value in row) for row in rng.normal(size=(60, 116))]
        (folder / f"{name}_rois_aal.1D").write_text("\n".join([header, *lines]) + "\n")
        rows.append((number, name, site, 1 + k // 3 % 2, 10 + k, 1 + k % 2, 0.1, 100))
    columns = ["SUB_ID", "FILE_ID", "SITE_ID", "DX_GROUP", "AGE_AT_SCAN", "SEX", "func_mean_fd", "FIQ"]
    pd.DataFrame(rows, columns=columns).to_csv(root / "Phenotypic_V1_0b_preprocessed1.csv", index=False)


@pytest.mark.parametrize("page", [page for page, found in TO_RUN.items() if found])
def test_the_blocks_of_a_page_run(page, world, tmp_path):
    for name in ("my_data", "xcp_d", "ABIDE_pcp", "my_study"):
        (tmp_path / name).symlink_to(world / name)
    (tmp_path / "NEW_DATA").symlink_to(world / "my_data")
    found = TO_RUN[page]
    python = [block.code for block in found if block.language == "python"]
    shell = [block.code for block in found if block.language == "bash"]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "80",
    }
    for command in (["bash", "-euc", "\n".join(shell)], [sys.executable, "-c", "\n".join(python)]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=3600)
        assert done.returncode == 0, f"{page}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}-{block.number}")
def test_every_block_can_be_parsed(block):
    if block.language == "python":
        compile(block.code, block.page, "exec")
    elif block.language == "yaml":
        Study.model_validate(yaml.safe_load(block.code))
    else:
        assert subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True).stderr == ""
        for words in commands(block.code):
            parse(words)


def commands(code: str) -> list[list[str]]:
    """The commands of brainroam in a piece of shell, one line each, without what is piped or appended."""
    lines = re.sub(r"\\\n\s*", " ", code).splitlines()
    found = []
    for line in lines:
        for part in re.split(r"&&|\|\||[|;]|>", line.partition(" #")[0]):
            words = shlex.split(part)
            while words and ("=" in words[0] or words[0] in ("nohup", "time", "srun")):
                words = words[1:]
            if words and Path(words[0]).name == "brainroam":
                found.append(words[1:])
    return found


def parse(words: list[str]) -> None:
    """Let the command line's own parser read a command, without doing it."""
    group = typer.main.get_command(app)
    if words[0].startswith("--"):
        assert any(words[0] in parameter.opts for parameter in group.params), words
        return
    assert words[0] in group.commands, f"no such command: brainroam {words[0]}"
    if "--help" not in words:
        group.commands[words[0]].make_context(words[0], list(words[1:]))
