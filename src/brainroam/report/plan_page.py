"""A plan on disk: numbers, sentences and a picture."""

import json
from pathlib import Path

from brainroam import __version__
from brainroam.evaluation.planning.plan import Plan
from brainroam.evaluation.run_records import plain
from brainroam.report import figures
from brainroam.report.figures import drawing
from brainroam.report.page import render
from brainroam.report.sections.next_site import CAPTION, LearningCurveDisplay
from brainroam.utils.files import write_csv, write_text


def write_plan(plan: Plan, folder: Path, command: str = "") -> list[Path]:
    """Write ``plan.json``, ``plan.md``, ``plan.html`` and, of a learning curve, its draws and picture."""
    content = plain({"command": command, "version": __version__, **plan.to_dict()})
    paths = [write_text(folder / "plan.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")]
    picture = None
    if plan.law is not None:
        paths.append(write_csv(folder / "learning_curve.csv", plan.table))
        picture = drawing("learning_curve", CAPTION, LearningCurveDisplay.from_plan(plan))
        paths += figures.write(picture, folder)
    lines = [f"# Plan for {plan.method}", "", *(f"- {line}" for line in [*plan.sentences, *plan.notes])]
    if picture is not None:
        lines += ["", f"![{CAPTION}](learning_curve.png)"]
    lines += ["", *(f"{name}: {value}  " for name, value in {"command": command, **plan.facts}.items() if value != "")]
    paths.append(write_text(folder / "plan.md", "\n".join(lines) + "\n"))
    page = render(
        "plan.html",
        plan=plan,
        command=command,
        version=__version__,
        figure=figures.inline(picture) if picture is not None else "",
    )
    return [*paths, write_text(folder / "plan.html", page + "\n")]
