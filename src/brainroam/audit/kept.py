"""Checks that are kept as they are done: an audit that was interrupted goes on, and none is believed of other code.

A check is kept with a key: the hash of the data, the method with its settings, the code and the seed. A later audit
takes over what it finds under its own keys. ``audit.json`` is complete; until then checks stand in ``audit.json.part``.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from brainroam.audit.candidates import Candidate, MethodCandidate
from brainroam.data.cohort import Cohort
from brainroam.evaluation.checks import Audit, Check
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.run_records import atlas_hash, plain, table_hash
from brainroam.utils.crate import command_line
from brainroam.utils.files import content_hash, write_text

AUDITING = 1  # another number when a check means something else than before


def key_of(item: Candidate | None, cohort: Cohort, seed: int) -> str:
    """What a check of a method, or of the data alone, depends on; empty for a function, whose code is not known."""
    if item is not None and not isinstance(item, MethodCandidate):
        return ""
    method = "" if item is None else f"{item.name} {code_version(item.info)}"
    return content_hash([AUDITING, method, cohort.manifest_hash, table_hash(cohort), atlas_hash(cohort), seed])[:24]


class KeptChecks:
    """The checks in a file, and those that are added to it; without a file nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._part = None if file is None else file.with_name(f"{file.name}.part")
        self._done: list[Check] = []
        self._earlier = [check for path in (self._part, file) if path is not None for check in _read(path)]

    def under(self, key: str, method: str) -> dict[str, Check]:
        """The earlier checks of a method under this key, by name."""
        return {check.name: check for check in self._earlier if key and (check.key, check.method) == (key, method)}

    def add(self, checks: Sequence[Check], key: str) -> list[Check]:
        """Keep checks under this key."""
        keyed = [replace(check, key=key) for check in checks]
        self._done += keyed
        if self._part is not None and not all(check in self._earlier for check in keyed):
            self._part.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._part, json.dumps({"checks": [asdict(check) for check in self._done]}))
        return keyed

    def complete(self, audited: Audit) -> None:
        """All is done: write the file, unless it says the same."""
        if self._file is None or self._part is None:
            return
        content = plain(audited.to_dict())
        if _content(self._file) != content:
            sealed = {"command": command_line(), **content}
            write_text(self._file, json.dumps(sealed, indent=1, ensure_ascii=False) + "\n")
        self._part.unlink(missing_ok=True)


def _content(path: Path) -> dict[str, Any]:
    """What a file holds but for the command that made it; nothing where there is none, or it is not ours."""
    try:
        return {
            name: value for name, value in json.loads(path.read_text(encoding="utf-8")).items() if name != "command"
        }
    except (OSError, ValueError, AttributeError):
        return {}


def _read(path: Path) -> list[Check]:
    try:
        return [Check(**check) for check in _content(path).get("checks", [])]
    except (LookupError, TypeError):
        return []
