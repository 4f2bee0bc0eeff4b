"""What the study is called and how its data are named on a command line, read off the commands that made the runs."""

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from brainroam.data.study_file import is_study, read_study
from brainroam.errors import UsageError

READING = ("--reader", "--atlas", "--sites", "--preset", "--max-missing-rois", "--option")
READERS_OF_DATA = ("loso", "cv", "ablate", "sweep", "run", "audit", "check")


def data_words(commands: Sequence[str]) -> list[str]:
    """DATA as it was typed, with the options that say how to read it; empty where no command tells.

    >>> data_words(["brainroam loso ABIDE_pcp --atlas aal --methods core", "brainroam run study.yaml"])
    ['ABIDE_pcp', '--atlas', 'aal']
    >>> data_words(["brainroam run --open"]), data_words(["ipykernel_launcher.py -f kernel.json"])
    (['study.yaml'], [])
    """
    for command in commands:
        words = shlex.split(command)
        if words[1:2] == ["run"] and (len(words) == 2 or words[2].startswith("-")):
            return ["study.yaml"]  # what the command reads unless told
        if len(words) < 3 or words[1] not in READERS_OF_DATA or words[2].startswith("-"):
            continue
        found = [words[2]]
        for flag, value in pairwise(words[3:]):
            found += [flag, value] if flag in READING else []
        return found
    return []


def study_name(commands: Sequence[str]) -> str:
    """The name that the study file gives, else of the data or of the file's folder; empty where no command tells.

    >>> study_name(["brainroam loso data/ABIDE_pcp --atlas aal"]), study_name(["brainroam run autism/study.yaml"])
    ('ABIDE_pcp', 'autism')
    """
    words = data_words(commands)
    if not words:
        return ""
    path = Path(words[0])
    if is_study(path):
        try:
            if name := read_study(path).name:
                return name
        except UsageError:
            pass  # it is no longer there, or was changed since
        return path.absolute().parent.name if path.stem == "study" else path.stem
    return path.stem if path.suffix else path.name
