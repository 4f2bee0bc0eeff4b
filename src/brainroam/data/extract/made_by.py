"""How a folder of series says that `brainroam extract` made it; readers look here, so it imports none of them."""

import json
from pathlib import Path

MADE_BY = "brainroam extract"


def how_made(folder: Path) -> str | None:
    """How the series of a folder that we extracted were made, in words; None for any other folder."""
    try:
        found = json.loads((folder / "dataset_description.json").read_text(encoding="utf-8"))
        made_by = found["GeneratedBy"][0]
        return str(made_by["Description"]) if made_by["Name"] == MADE_BY else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
