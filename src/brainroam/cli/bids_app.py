"""``brainroam BIDS_DIR OUT_DIR participant|group``: the grammar of BIDS-Apps, for containers and clusters.

``participant`` is `brainroam extract` of some people, ``group`` is `brainroam init` and `brainroam run` of all that
were extracted. Both take the same options, so that one line with two levels is a study from volumes to report.
"""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brainroam.cli.init import STANDARD, init
from brainroam.cli.options import quiet
from brainroam.cli.run import run as run_study
from brainroam.errors import DataError, UsageError, listed, unknown

if TYPE_CHECKING:
    from brainroam.data.extract.runs import BoldRun

LEVELS = ("participant", "group")
COMMAND = "bids-app"
SEVERAL = ("--participant-label", "--participant_label")
#: Entities by the names that pybids gives them in filter files.
ENTITIES = {
    "subject": "sub",
    "session": "ses",
    "task": "task",
    "acquisition": "acq",
    "direction": "dir",
    "run": "run",
    "echo": "echo",
    "space": "space",
    "resolution": "res",
}
COPIES = 3  # of an image in double precision that an extraction holds at a time: read, cleaned, masked
PANEL = "At the level group, as for brainroam init"


def with_command(words: Sequence[str]) -> list[str]:
    """The words of a command line, with the command that the grammar of BIDS-Apps leaves out.

    >>> with_command(["/data", "/out", "participant", "--participant-label", "01", "02", "--n-cpus", "2"])[:4]
    ['bids-app', '/data', '/out', 'participant']
    >>> with_command(["/data", "/out", "group", "--participant_label", "01", "02"])[4:]
    ['--participant_label', '01', '--participant_label', '02']
    """
    command, flag = [COMMAND, *words[:3]], ""
    for before, word in pairwise(words[2:]):
        if word.startswith("-"):
            flag = word if word in SEVERAL else ""
        elif flag and before != flag:
            command.append(flag)  # several labels after one flag, as BIDS-Apps allow
        command.append(word)
    return command


def bids_app(
    bids_dir: Annotated[Path, typer.Argument(help="The BIDS folder, or that of fMRIPrep.", metavar="BIDS_DIR")],
    out_dir: Annotated[Path, typer.Argument(help="The folder for series, study and report.", metavar="OUT_DIR")],
    level: Annotated[str, typer.Argument(help="participant (extract) or group (study).", metavar="LEVEL")],
    atlas: Annotated[
        str, typer.Option(help="power264, schaefer200, ..., or a label image (.nii.gz) in MNI space.", metavar="NAME")
    ],
    names: Annotated[
        Path | None, typer.Option(help="Names of the regions of a label image: index, name.", metavar="FILE")
    ] = None,
    participant_label: Annotated[
        list[str] | None,
        typer.Option(*SEVERAL, help="Only these people, with or without sub-; may be repeated.", metavar="LABEL"),
    ] = None,
    bids_filter_file: Annotated[
        Path | None,
        typer.Option(
            "--bids-filter-file", "--bids_filter_file", help='JSON as {"bold": {"task": "rest"}}.', metavar="FILE"
        ),
    ] = None,
    n_cpus: Annotated[int, typer.Option("--n-cpus", "--n_cpus", help="Cores to use.", min=1, metavar="N")] = 1,
    mem: Annotated[
        float | None, typer.Option(help="Gigabytes at most; fewer volumes are then read at a time.", metavar="GB")
    ] = None,
    methods: Annotated[str, typer.Option(help="What to run.", metavar="A,B", rich_help_panel=PANEL)] = STANDARD,
    site: Annotated[str | None, typer.Option(help="Column of sites.", metavar="COLUMN", rich_help_panel=PANEL)] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of diagnoses.", metavar="COLUMN", rich_help_panel=PANEL)
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="Diagnosis of the condition.", metavar="VALUE", rich_help_panel=PANEL)
    ] = None,
    control: Annotated[
        str | None, typer.Option(help="Diagnosis of controls.", metavar="VALUE", rich_help_panel=PANEL)
    ] = None,
) -> None:
    """Volumes of fMRIPrep to a report, as a BIDS-App: first the level participant, then group.

    The word bids-app may be left out. Jobs of single people may run side by side; group reads all that they made.

    [bold]Example:[/bold] brainroam /data /out participant --atlas power264 --participant-label 01 02
    """
    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    from brainroam.data.extract.output import asked_for, record_of
    from brainroam.data.extract.parcellation import load_parcellation
    from brainroam.data.extract.runs import find_runs
    from brainroam.data.extract.settings import Settings
    from brainroam.execution.extraction import extract

    filters = _filters(bids_filter_file)
    parcellation, settings = load_parcellation(atlas, names), Settings()
    runs = find_runs(bids_dir, filters.get("task", [None])[0], filters.get("space", [None])[0])
    runs = [run for run in runs if _passes(run, filters)]
    selected = _with_labels(runs, participant_label)
    finished = {
        run for run in runs if record_of(run, out_dir, parcellation.name, asked_for(run, parcellation, settings))
    }
    # Jobs of single people share a folder: each writes its tables of all that is there.
    chosen = [run for run in runs if run in finished or (level == "participant" and run in selected)]
    if level == "group":
        chosen = [run for run in chosen if run in selected]
    if not chosen:
        raise DataError(f"{out_dir} holds no series of {bids_dir} with these options; do the level participant first")
    jobs = n_cpus if mem is None else min(n_cpus, max(1, int(mem * 1e9 / max(map(_bytes, selected)))))
    done = extract(chosen, bids_dir, out_dir, parcellation, settings, None, jobs, progress=not quiet())
    failed = done.runs[done.runs["error"] != ""]
    for row in failed.itertuples():
        typer.echo(f"failed: {row.run}: {row.error}", err=True)
    typer.echo(f"{len(done.runs) - len(failed)} runs in {out_dir}, {done.n_before} of them before")
    if len(failed):
        raise typer.Exit(1)
    if level == "group":
        study = out_dir / "study.yaml"
        if study.exists():
            typer.echo(f"{study} is there and is used; delete it to have it written again")
        else:
            init(str(out_dir), study, site=site, label=label, case=case, control=control, methods=methods, jobs=n_cpus)
        run_study(data=str(study))


def _filters(file: Path | None) -> dict[str, list[str]]:
    """What the ``bold`` query of a filter file asks for, by entity; queries of other images are not ours."""
    if file is None:
        return {}
    try:
        query = json.loads(file.read_text(encoding="utf-8")).get("bold", {})
        asked = {name: values if isinstance(values, list) else [values] for name, values in query.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f'{file} is no filter file, which is as {{"bold": {{"task": "rest"}}}}: {error}') from error
    for name in asked:
        if name not in (*ENTITIES, "datatype", "suffix", "desc"):
            raise unknown("entity in a filter file", name, ENTITIES)
    return {ENTITIES[name]: list(map(str, values)) for name, values in asked.items() if name in ENTITIES}


def _passes(run: "BoldRun", filters: dict[str, list[str]]) -> bool:
    from brainroam.data.readers.bids import entities

    parts = entities(run.bold)
    return all(parts.get(entity, "") in values for entity, values in filters.items())


def _with_labels(runs: "list[BoldRun]", labels: Sequence[str] | None) -> "list[BoldRun]":
    if not labels:
        return runs
    asked = {f"sub-{label.removeprefix('sub-')}" for label in labels}
    absent = asked - {run.subject for run in runs}
    if absent:
        raise DataError(f"there are no volumes of {listed(sorted(absent))} with these options")
    return [run for run in runs if run.subject in asked]


def _bytes(run: "BoldRun") -> float:
    """Memory that the extraction of a run needs at most."""
    import nibabel as nib

    image: Any = nib.load(run.bold)  # nibabel types it as a file of any kind, which need not have a shape
    return COPIES * 8.0 * math.prod(image.shape)
