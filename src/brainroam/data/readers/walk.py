"""All files below a folder, through links too, each folder once."""

import os
from pathlib import Path

from brainroam.errors import ReaderError

VOLUMES = "*_bold.nii*"  # as BIDS and fMRIPrep name them


def files_below(folder: Path, depth: int | None = None) -> list[Path]:
    """Files at most ``depth`` folders below a folder, sorted; nothing hidden; a link that leads back ends there.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "a").mkdir()
    >>> _ = (root / "a" / "x.csv").write_text("1")
    >>> (root / "a" / "back").symlink_to(root)
    >>> [file.relative_to(root).as_posix() for file in files_below(root)]
    ['a/x.csv']
    """
    found: list[Path] = []
    seen: set[str] = set()

    def visit(place: Path, level: int) -> None:
        real = os.path.realpath(place)
        if real in seen:
            return
        seen.add(real)
        for item in sorted(place.iterdir()):
            if item.name.startswith("."):
                continue
            if item.is_file():
                found.append(item)
            elif item.is_dir() and (depth is None or level < depth):
                visit(item, level + 1)

    if folder.is_dir():
        visit(folder, 0)
    return found


def refuse_volumes(folder: Path) -> None:
    """Say how volumes become series, where a folder without series holds volumes."""
    volume = next(iter(folder.rglob(VOLUMES)), None)
    if volume is not None and not volume.name.endswith((".dtseries.nii", ".ptseries.nii")):
        raise ReaderError(
            f"{folder} holds volumes ({volume.name}), no regional series; average them over regions first: "
            f"brainroam extract {folder} --atlas schaefer200 --out series"
        )
