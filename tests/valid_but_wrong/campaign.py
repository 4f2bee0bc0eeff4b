"""Inputs that are readable but wrong, odd or ambiguous: what a case is, how it is run, and the table of all.

A module ``cases_<topic>.py`` in this folder holds a list ``CASES``. `test_campaign` runs each in an empty folder.
"""

import contextlib
import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typer.testing import CliRunner

from brainroam.cli import app
from brainroam.errors import BrainroamError

HERE = Path(__file__).parent
TABLE = HERE / "CASES.md"
PAGE = HERE.parents[1] / "docs" / "results" / "tried.md"


@dataclass(frozen=True)
class Case:
    """One readable input and what has to come of it.

    Attributes
    ----------
    id : str
        Unique and short, with dashes.
    what : str
        The input in a few words, for the table of all cases.
    make : callable
        Writes the input into the folder it is given.
    do : str or callable
        A command line as typed after ``brainroam``, run inside that folder; or a function of the folder.
    outcome : {"right", "refused", "warned"}
    phrase : str
        What has to be part of the refusal (its remedy) or of the warning.
    holds : callable, optional
        Whether what ``do`` returned is right: for a command its result with ``output``, else the value itself.
    """

    id: str
    what: str
    make: Callable[[Path], Any]
    do: str | Callable[[Path], Any]
    outcome: Literal["right", "refused", "warned"]
    phrase: str = ""
    holds: Callable[[Any], bool] | None = None


def topics() -> dict[str, list[Case]]:
    """All cases, by the topic in the name of their module."""
    names = sorted(file.stem for file in HERE.glob("cases_*.py"))
    return {
        name.removeprefix("cases_"): importlib.import_module(f"tests.valid_but_wrong.{name}").CASES for name in names
    }


def run(case: Case, folder: Path) -> None:
    """Run a case in a folder; an AssertionError tells what came of it instead."""
    case.make(folder)
    with contextlib.chdir(folder):
        outcome, said, value = typed(case.do) if isinstance(case.do, str) else _called(case.do, folder)
        assert outcome == ("refused" if case.outcome == "refused" else "done"), f"{outcome}: {said}"
        if case.outcome != "right":
            assert case.phrase, "a case that is refused or warned about needs a phrase"
            assert " ".join(case.phrase.split()) in " ".join(said.split()), f"{case.phrase!r} is not in: {said}"
        if case.holds is not None:
            assert case.holds(value), f"read, but not as it should be: {value!r}: {said}"


def typed(line: str) -> tuple[str, str, Any]:
    import shlex

    result = CliRunner().invoke(app, shlex.split(line))
    if result.exit_code not in (0, 1, 2):
        raise AssertionError(result.output) from result.exception
    return "done" if result.exit_code == 0 else "refused", result.output, result


def _called(do: Callable[[Path], Any], folder: Path) -> tuple[str, str, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = do(folder)
        except BrainroamError as error:
            return "refused", str(error), error
    return "done", "\n".join(str(warning.message) for warning in caught), value


def counts() -> str:
    """How many cases of each topic come out how, as the docs say it."""
    return "; ".join(
        f"{topic}: {len(cases)} cases ({', '.join(f'{_count(cases, outcome)} {outcome}' for outcome in OUTCOMES)})"
        for topic, cases in topics().items()
    )


def table() -> str:
    """All cases as a markdown table, with the number of outcomes above it."""
    rows = [
        f"| {case.what.replace('|', '/')} | {case.outcome} | {case.phrase.replace('|', '/')} |"
        for cases in topics().values()
        for case in cases
    ]
    head = ["# Readable but wrong: all cases", "", "Written by `python -m tests.valid_but_wrong`.", "", f"{counts()}."]
    return "\n".join([*head, "", "| input | outcome | what is said |", "|---|---|---|", *rows]) + "\n"


OUTCOMES = ("right", "refused", "warned")


def _count(cases: list[Case], outcome: str) -> int:
    return sum(case.outcome == outcome for case in cases)
