"""`Guess`: the entries of a study file, remarks on them, and open questions."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Question:
    """Something only the owner of the data knows: the option that answers it, and the answers there are."""

    option: str
    text: str
    choices: tuple[str, ...] = ()


@dataclass
class Guess:
    """A guess how to read a folder: the entries of a study file, remarks on them, and open questions.

    Attributes
    ----------
    reader : str
    data : Path
        The folder of that layout: the one looked at, or one below it.
    atlas : str or None
    options : dict
        Of the reader.
    remarks : dict of str to str
        Why an entry is as it is, by its name.
    questions : list of Question
        Empty when nothing has to be asked.
    target : str or None
        The column that is predicted, where it is not the usual two classes.
    blocks : dict of str to dict
        Several measurements of the same people, as a study file has them; empty where there is one.
    files : list of Path or None
        The files of single people that are the data, where others are blocks; None for all.
    exclude : list of str or None
        Ids, or files of ids, of people who are left out.
    exclude_sites : list of str or None
        Sites that are left out.
    site_names : dict of str to str
        One name for sites that stand under several.
    like : dict
        Options of another study, which hold wherever they fit this one.
    """

    reader: str
    data: Path
    atlas: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    target: str | None = None
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: list[Path] | None = None
    exclude: list[str] | None = None
    exclude_sites: list[str] | None = None
    site_names: dict[str, str] = field(default_factory=dict)
    like: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the study may be called: the folder of the data, or their only file."""
        data = self.data.resolve()
        return data.parent.name if data.is_file() and self.blocks else data.stem if data.is_file() else data.name
