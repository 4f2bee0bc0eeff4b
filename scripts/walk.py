"""Count the files that one fit of CORE, and one leave-one-site-out study, run through: how far a reader has to follow.

    python scripts/walk.py

Counted are files of the package whose functions are called, in this process and once everything is imported.
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import brainroam
from brainroam.cli import main

PACKAGE = Path(brainroam.__file__).parent


def files_of(action: Callable[[], object]) -> list[str]:
    """The files of the package whose functions are called."""
    files: set[str] = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(str(PACKAGE)):
            files.add(str(Path(code.co_filename).relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return sorted(files)


def study(path: Path, out: Path) -> None:
    """Leave-one-site-out of CORE on a saved cohort."""
    command = ["brainroam", "loso", str(path), "--methods", "core", "--out", str(out), "--quiet"]
    with patch.object(sys, "argv", command):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise


def show(name: str, files: list[str]) -> None:
    """One line for each room."""
    print(f"{name}: {len(files)} files")
    for room in dict.fromkeys(file.split("/")[0] for file in files):
        print("   ", room, "-", ", ".join(file.partition("/")[2] for file in files if file.split("/")[0] == room))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cohort = brainroam.make_cohort(n_sites=4, n_per_site=20, n_rois=12, seed=0)
    people = cohort.series, cohort.labels

    def fit() -> None:
        """One fit of CORE."""
        brainroam.CoreClassifier().fit(*people, site=cohort.table["site"])

    fit()  # imports everything
    show("CoreClassifier.fit", files_of(fit))
    with tempfile.TemporaryDirectory() as folder:
        saved = cohort.save(Path(folder) / "cohort.npz")
        study(saved, Path(folder) / "first")
        show("brainroam loso --methods core", files_of(lambda: study(saved, Path(folder) / "second")))
