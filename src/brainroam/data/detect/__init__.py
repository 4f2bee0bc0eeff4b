"""Detect what is in a folder: guess how to read it, from its files and its table of people.

Nothing is decided here that only the people who made the data can know: what cannot be told from names and values
comes back as a `Question`. Ask, put the answer into ``given``, and look again.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brainroam.data.detect.bids import look_at_acquisitions
from brainroam.data.detect.blocks import look_at_anatomy, look_at_blocks, site_is_in_ids
from brainroam.data.detect.files import look_at_series, series_files
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.detect.people import look_at_people
from brainroam.data.detect.sites import look_at_sites
from brainroam.data.readers import detect
from brainroam.data.readers.locate import files_below, refuse_volumes
from brainroam.data.readers.participants_table import NO_COLUMN
from brainroam.data.readers.srpbs import DISORDERS
from brainroam.data.readers.tables import is_table, read_table
from brainroam.data.readers.values import codes
from brainroam.errors import ReaderError, listed
from brainroam.utils.files import expand_home

__all__ = ["WITH_COLUMNS", "Guess", "Question", "look", "look_at_anatomy"]

WITH_COLUMNS = ("folder", "bids", "table")
MIN_SERIES = 2  # files of people below which volumes are what was measured


def look(folder: str | Path, given: Mapping[str, Any] | None = None, like: Mapping[str, Any] | None = None) -> Guess:
    """Guess how to read a folder.

    Parameters
    ----------
    folder : path
    given : mapping, optional
        What is known already: ``reader``, ``atlas``, ``target``, ``site_names``, and options of the reader such as
        ``label_col`` or ``case``.
    like : mapping, optional
        The same of another study, as an earlier one of the same people: each holds where it fits and is not given.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> study = Path(tempfile.mkdtemp())
    >>> rows = ["Sub ID,Scanner location,Dx (1=patient)", "7,Oslo,1", "8,Rome,2", "9,Rome,1"]
    >>> _ = (study / "people.csv").write_text("\\n".join(rows))
    >>> for name in ("007", "008", "009"):
    ...     np.save(study / f"scan_{name}.npy", np.random.default_rng(0).normal(size=(50, 116)))
    >>> guess = look(study)
    >>> guess.reader, guess.atlas, guess.questions
    ('folder', 'aal', [])
    >>> guess.options["site_col"], guess.options["case"], guess.options["template"]
    ('Scanner location', '1', 'scan_{participant_id}.npy')
    """
    folder, given = expand_home(folder), dict(given or {})
    if not folder.exists():
        raise ReaderError(f"{folder} does not exist; check the spelling, and the folder you are in ({Path.cwd()})")
    named = given.pop("reader", None)
    reader, data = (named, folder) if named else _reader(folder)
    options = {key: value for key, value in given.items() if value is not None}
    guess = Guess(reader, data, options.pop("atlas", None), options, target=options.pop("target", None))
    guess.site_names, guess.like = dict(options.pop("site_names", {})), dict(like or {})
    guess.target = guess.target or guess.like.get("target")
    if reader == "table" and data.is_file():
        options.setdefault("participants", str(data))
        folder = data.parent
    if reader == "bids":
        look_at_acquisitions(data, guess)
    if reader in WITH_COLUMNS:
        _look_inside(folder if reader == "table" else data, guess)
    if reader == "srpbs":
        _look_at_srpbs(guess)
    return guess


def _look_at_srpbs(guess: Guess) -> None:
    """Which disorder is the condition, and where users put their series: the release itself has images only."""
    people = read_table(Path(guess.options.get("participants", guess.data / "participants.tsv")))
    diagnoses = Counter(codes(people["diag"]))
    counts = {name: diagnoses[code] for name, code in DISORDERS.items() if diagnoses[code]}
    if guess.target is None and "case" not in guess.options and counts:
        chosen = "mdd" if "mdd" in counts else max(counts, key=lambda name: counts[name])
        others = listed(f"{name} ({n})" for name, n in counts.items() if name != chosen)
        guess.options["case"] = chosen
        guess.remarks["case"] = f"diag also has {others}: left out" if others else "the only disorder in diag"
    if "template" not in guess.options:
        look_at_series(guess.data, codes(people["participant_id"]).tolist(), [], guess)


def _look_inside(folder: Path, guess: Guess) -> None:
    """The table of people, what was measured of them, and where."""
    alone = guess.reader == "table"
    files = [] if alone else [file.relative_to(folder).as_posix() for file in series_files(folder)]
    people = look_at_people(folder, files, guess)
    if people is None or guess.options.get("subject_col") not in {*people, NO_COLUMN}:
        return
    if site_is_in_ids(people, guess):
        guess.questions = [question for question in guess.questions if question.option != "site_col"]
    if guess.reader != "bids" and "template" not in guess.options:
        look_at_blocks(folder, people, guess, alone)
    if guess.reader == "folder":
        ids = codes(people[guess.options["subject_col"]])
        site_col = guess.options.get("site_col")
        sites = codes(people[site_col])[ids != ""].tolist() if site_col in people else []
        look_at_series(guess.data, ids[ids != ""].tolist(), sites, guess)
    if guess.options.get("site_col") in people:
        look_at_sites(codes(people[guess.options["site_col"]]), guess)


def _reader(folder: Path) -> tuple[str, Path]:
    """The layout that is recognised, and where; a plain folder when none is, for the table may have any name."""
    tables = [file for file in files_below(folder, 0) if is_table(file)]
    files = [file for file in series_files(folder) if file not in tables] if folder.is_dir() else []
    try:
        found = detect(folder)
    except ReaderError:
        if not files and not tables:
            refuse_volumes(folder)
            raise
        found = "folder", folder
    if found[0] == "folder" and len(files) < MIN_SERIES:  # tables of people or labels may be all that is no volume
        refuse_volumes(folder)
    return found
