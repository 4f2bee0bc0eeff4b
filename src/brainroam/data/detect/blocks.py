"""Detect further measurements: square files, tables of many measures, and arrays of everybody.

A file that is named by an id is one person's. A group of such files is series or matrices by what three of them hold;
files named after head motion or confounds are neither, where others stand beside them. Which of several groups of
series is the measurement is asked. Other files are of everybody: a table whose rows are the people and that has many
columns of measures, or an array with a row, or a matrix, for each of them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from brainroam.data.detect.files import around_id, readable, series_files, template_of
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.detect.people import LINES
from brainroam.data.measurements import are_matrices, resembles_matrix
from brainroam.data.names import unpadded
from brainroam.data.readers.locate import files_below
from brainroam.data.readers.measures import MOSTLY, read_array, rows_of
from brainroam.data.readers.participants_table import NO_COLUMN, Columns
from brainroam.data.readers.repeats import with_stars
from brainroam.data.readers.series import read_series
from brainroam.data.readers.tables import is_table, read_table, with_people_in_rows
from brainroam.data.readers.values import codes
from brainroam.data.readers.which_columns import is_clinical, measures_of
from brainroam.data.readers.wide_table import sites_in_ids
from brainroam.data.target import TargetRequest
from brainroam.data.triangles import order_of, regions_of, untold
from brainroam.errors import BrainroamError, in_shell, listed

MANY = 10  # measures from which on a table is a block; fewer may be clinical and are only named
FEW = 3
LOOKED_AT = 3  # files of a group that are read to learn what they hold
UNREADABLE = "unreadable"  # files of which none can be read as a series or a matrix
ARRAYS = (".npy", ".npz", ".mat")
FREESURFER = re.compile(
    r"aparc|aseg|freesurfer|thickness|surfarea|grayvol|(^|[_\W])[lr]h[_\W]|EstimatedTotalIntraCranialVol|"
    r"enigma|thickavg|surfavg|^[LR](thal|caud|put|pal|hippo|amyg|accumb|LatVent)$",  # as ENIGMA names its tables
    re.IGNORECASE,
)
NO_BLOCK = "desc-confounds", "predictions.csv", "scores.csv"
#: What stands beside a series, by the name of its file.
NUISANCE = re.compile(
    r"(^|[_\W])(confounds?|regressors?|nuisance|covariates?|motion|movement|fd|framewise\w*|dvars|rp|realign\w*|params?|"
    r"physio\w*|events?|outliers?|scrub|censor\w*|qc|tsnr)([_\W\d]|$)",
    re.IGNORECASE,
)


class Table(NamedTuple):
    """The columns of a table that are measures, how many people have a row, and whether it is of FreeSurfer."""

    measures: frozenset[str]
    n_people: int
    of_anatomy: bool


Tables = dict[Path, Table]


@dataclass
class FilesOfEverybody:
    """Files that hold all people: tables of many measures, tables of few, arrays by shape, tables of other ids.

    ``unfit`` are arrays with more or fewer rows than there are people.
    """

    tables: Tables = field(default_factory=dict)
    small: list[Path] = field(default_factory=list)
    arrays: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    unfit: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    strange: list[Path] = field(default_factory=list)


@dataclass
class Group:
    """Files of one kind, one or more for each of several people."""

    files: list[Path] = field(default_factory=list)
    people: set[str] = field(default_factory=set)
    kind: str = "series"
    name: str = ""  # of its files, with a star for the id

    def pattern(self, folder: Path) -> str:
        """The folder that holds these files and no others, else a pattern that fits them alone."""
        above = {file.parent for file in self.files}
        if len(above) == 1 and set(series_files(next(iter(above)))) == set(self.files):
            return next(iter(above)).as_posix()
        places = [file.relative_to(folder).parts for file in self.files]
        if len({len(parts) for parts in places}) > 1:
            return (folder / "**").as_posix()
        same = [level[0] if len(set(level)) == 1 else "*" for level in zip(*places, strict=True)]
        return (folder / "/".join([*same[:-1], self.name.rpartition("/")[2]])).as_posix()


def groups_of(folder: Path, files: Iterable[Path], ids: Iterable[str]) -> list[Group]:
    """Files that are named by an id, in groups of one kind; the largest first.

    Files with the same text after the id are one group, as in the folders of several sites, unless the same people have
    them in another folder too, or with another text before the id.
    """
    ids = list(ids)
    wanted = {unpadded(name) for name in ids}
    anew = len(wanted) < len(ids)  # ids that begin anew at every site: the same person in two folders is two people
    found = {file: parts for file in files if (parts := around_id(file.relative_to(folder).as_posix(), wanted))}
    people_of = defaultdict[str, set[str]](set)
    for _, before, _, person in found.values():
        people_of[before].add(person)
    by_place: dict[tuple[str, str, str], Group] = defaultdict(Group)
    for file, (above, before, after, person) in found.items():
        place = "/".join("*" if unpadded(part) in wanted else part for part in with_stars(above).split("/"))
        of_most = len(people_of[before]) > MOSTLY * len(wanted)  # what only some people have there is their site
        group = by_place[("", "", after) if anew else (place, before if of_most else "", after)]
        group.name = f"{before if of_most else ''}*{after}"
        group.files.append(file)
        group.people.add(person)
    groups: dict[str, list[Group]] = defaultdict(list)
    for (_, _, after), group in by_place.items():
        twin = next((other for other in groups[after] if not other.people & group.people), None)
        if twin is None:
            groups[after].append(group)
        else:
            twin.files += group.files
            twin.people |= group.people
    several = [group for part in groups.values() for group in part if len(group.people) > 1]
    for group in several:
        group.kind = _kind(group.files)
    return sorted(several, key=lambda group: -len(group.people))


def _kind(files: Sequence[Path]) -> str:
    """What one person's files hold: series, matrices, or something that is not read ("")."""
    some = [one.values for one in readable(files[:: -(-len(files) // LOOKED_AT)])]
    if not some:
        return UNREADABLE
    if are_matrices(some):
        return "matrices"
    return "" if all(x.shape[0] == x.shape[1] for x in some) and len(some) > 1 else "series"


def look_at_blocks(folder: Path, people: pd.DataFrame, guess: Guess, alone: bool = False) -> None:
    """Add to a guess what else was measured of these people, and what the data themselves are.

    ``alone`` leaves other files aside: somebody named one table.
    """
    subject = str(guess.options["subject_col"])
    ids = codes(people[subject if subject != NO_COLUMN else LINES])
    ids = ids[ids != ""]
    tables_of_people = _as_names(guess.options["participants"])
    own_tables = {Path(item).resolve() for item in tables_of_people}
    files = [] if alone else [file for file in series_files(folder) if file.resolve() not in own_tables]
    groups = groups_of(folder, files, ids)
    taken = {file for group in groups for file in group.files}
    roster = pd.DataFrame({"subject": ids.to_numpy()})
    of_all = _sort_files([file for file in files if file not in taken], roster, len(people))
    left = list[str]()
    series = _only_measurements([group for group in groups if group.kind == "series"], left)
    series = series or [group for group in groups if group.kind == UNREADABLE]  # their reader says what is wrong
    series = _without_copies(series, left)
    matrices = _without_copies([group for group in groups if group.kind == "matrices"], left)
    if not series and not matrices:
        _people_and_tables(people, guess, bool(of_all.tables or of_all.arrays), alone)
        _ask_about_squares([group for group in groups if not group.kind], folder, ids.tolist(), guess)
    if of_all.unfit:
        unfit = listed(
            f"{path.name} has {shape[0]} rows for {len(people)} people" for path, shape in of_all.unfit.items()
        )
        left.append(f"{unfit}: which person belongs to which row is not known")
        guess.questions = [_mentioning(unfit, question) for question in guess.questions]
    own = next(iter([*series, *matrices]), None)
    if own is not None:
        guess.files = own.files
    if series[1:]:
        _ask_which_series(series, folder, ids.tolist(), guess)
    if of_all.small:
        small = listed(path.name for path in of_all.small)
        joined = " ".join(f"--table {in_shell(path)}" for path in (*tables_of_people, *of_all.small))
        left.append(f"few measures in {small} (init {joined} reads them with the people)")
    if of_all.strange:
        left.append(
            f"no ids of these people, as {listed(ids, 2)}, in a column of "
            f"{listed(path.name for path in of_all.strange)}, "
            "which measures something"
        )
    made_of_series = [group for group in matrices if _are_correlations_of(group, own)]
    left += [f"{group.name}: the correlations of the series, which are computed anyway" for group in made_of_series]
    further = [group for group in matrices if group is not own and group not in made_of_series]
    _add_matrices(further, own, folder, guess)
    _add_arrays(of_all.arrays, tables_of_people[0], guess)
    _add_tables(of_all.tables, len(ids), guess)
    if left:
        guess.remarks["blocks"] = f"not taken: {'; '.join(left)}"
    _name_the_data(own, further, folder, guess)


def _add_matrices(groups: list[Group], own: Group | None, folder: Path, guess: Guess) -> None:
    """A block for each group of matrices, one file per person."""
    for group in groups:
        name = _name(_distinguish(group, own) if own and own.kind == "matrices" else "connectivity", guess)
        guess.blocks[name] = {"matrices": group.pattern(folder)}
        guess.remarks[name] = f"one matrix of {_size(group.files[0])} regions for each of {len(group.people)} people"


def _add_arrays(arrays: Mapping[Path, tuple[int, ...]], ids: str, guess: Guess) -> None:
    """A block for each array of everybody, whose rows are in the order of the table ``ids``."""
    for path, shape in arrays.items():
        name = _name(path.stem, guess)
        triangles = len(shape) == 2 and order_of(read_array(path)) is not None
        kind = "matrices" if len(shape) == 3 or triangles else "table"
        guess.blocks[name] = {kind: path.as_posix(), "ids": ids}
        guess.remarks[name] = f"an array of {' x '.join(map(str, shape))}: its rows are taken to be those of this table"
        if kind == "table" and regions_of(shape[1]):
            guess.remarks[name] += f"; {untold(shape[1])}"


def _add_tables(tables: Tables, n_people: int, guess: Guess) -> None:
    """A block for anatomy, and one for every other table of measures."""
    anatomy = _take_anatomy(tables, n_people, guess)
    for path in tables:
        if path not in anatomy:
            name = _name(path.name.split(".")[0], guess)
            guess.blocks[name] = {"table": path.as_posix()}
            guess.remarks[name] = _describe_tables(tables, [path], n_people)


def _only_measurements(groups: list[Group], left: list[str]) -> list[Group]:
    """Groups of series without what is named after head motion or confounds, unless nothing else is there."""
    beside = [group for group in groups if NUISANCE.search(group.name)]
    if not beside or len(beside) == len(groups):
        return groups
    left.append(f"{listed(group.name for group in beside)}, which by their names hold no regional series")
    return [group for group in groups if group not in beside]


def _ask_which_series(series: Sequence[Group], folder: Path, ids: list[str], guess: Guess) -> None:
    """Ask which files are the series, where the same people have several kinds of them."""
    also = [group for group in series if 2 * len(group.people & series[0].people) > len(group.people)]
    if also[1:]:
        templates = [template_of([f.relative_to(folder).as_posix() for f in group.files], ids) for group in also]
        shapes = [" x ".join(map(str, read_series(group.files[0]).values.shape)) for group in also]
        kinds = [f"{template} ({shape})" for template, shape in zip(templates, shapes, strict=True)]
        text = f"Each person has several files that may be the series: {listed(kinds)}. Which of them are the series?"
        guess.questions.append(Question("template", text, tuple(map(str, templates))))


def _ask_about_squares(squares: Sequence[Group], folder: Path, ids: list[str], guess: Guess) -> None:
    """Ask whether files of as many rows as columns, which do not look like matrices, are series after all."""
    for group in squares[:1] if guess.questions else ():
        template = template_of([file.relative_to(folder).as_posix() for file in group.files], ids)
        n = _size(group.files[0])
        text = (
            f"Each person's file {template} holds {n} x {n} numbers that do not look like a matrix of edges. If they "
            f"are series of {n} volumes, name them; matrices are named in a study file, under blocks: {{matrices: ...}}"
        )
        guess.questions = [Question("template", text, (str(template),))]


def look_at_anatomy(folder: Path, subjects: Sequence[str], guess: Guess) -> None:
    """Add FreeSurfer tables that stand beside the data of a layout that has its own table of people."""
    files = [file for file in files_below(folder) if is_table(file) and FREESURFER.search(file.name)]
    of_all = _sort_files(files, pd.DataFrame({"subject": list(subjects)}), len(subjects))
    _take_anatomy(of_all.tables, len(subjects), guess)


def _take_anatomy(tables: Tables, n_people: int, guess: Guess) -> list[Path]:
    """Put all FreeSurfer tables into one block."""
    anatomy = [path for path in tables if tables[path].of_anatomy]
    if anatomy:
        name = _name("anatomy", guess)
        guess.blocks[name] = {"table": [path.as_posix() for path in anatomy]}
        guess.remarks[name] = _describe_tables(tables, anatomy, n_people)
    return anatomy


def _describe_tables(tables: Tables, paths: Sequence[Path], n: int) -> str:
    measures = set[str]().union(*(tables[path].measures for path in paths))  # of FreeSurfer some stand in every table
    rows = min(tables[path].n_people for path in paths)
    return f"{len(measures)} columns of measures; {rows} of {n} people have a row"


def _as_names(given: Any) -> list[str]:
    return [str(given)] if isinstance(given, (str, Path)) else [str(item) for item in given]


def _name(word: str, guess: Guess) -> str:
    """A name for a block that none has yet."""
    word = re.sub(r"\W+", "_", word.lower()).strip("_") or "measures"
    word = f"block_{word}" if word[0].isdecimal() else word
    taken = {*guess.blocks, *guess.options}
    return word if word not in taken else next(f"{word}{k}" for k in range(2, 99) if f"{word}{k}" not in taken)


def _size(file: Path) -> int:
    return int(read_series(file).values.shape[1])


def _distinguish(group: Group, other: Group) -> str:
    """A name for one of two groups of files: that of its folder, else the words that the other's files lack.

    >>> one, other = (Group([Path("fc/x.csv")], name=f"*_task-{task}_relmat.tsv") for task in ("rest", "nback"))
    >>> _distinguish(one, other)
    'rest'
    """
    above = group.files[0].parent
    if above != other.files[0].parent:
        return above.name
    words, others = (re.findall(r"[^\W_]+", name) for name in (group.name, other.name))
    return "_".join(word for word in words if word not in others) or "connectivity"


def _without_copies(groups: Sequence[Group], left: list[str]) -> list[Group]:
    """Groups without those whose files hold what those of an earlier one hold, as a .txt beside each .mat."""
    kept = list[Group]()
    for group in groups:
        original = next((other for other in kept if _holds_the_same(group, other)), None)
        if original is None:
            kept.append(group)
        else:
            left.append(f"{group.name}, which holds the same as {original.name}")
    return kept


def _holds_the_same(group: Group, other: Group) -> bool:
    """Whether files of two groups hold the same numbers, beside the diagonal of a matrix."""
    ours, theirs = _by_person(group), _by_person(other)
    shared = sorted(ours.keys() & theirs.keys())[:LOOKED_AT]
    return bool(shared) and all(_same(read_series(ours[who]).values, read_series(theirs[who]).values) for who in shared)


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape:
        return False
    beside = ~np.eye(len(x), dtype=bool) if resembles_matrix(x) else np.full(x.shape, True)
    return np.allclose(x[beside], y[beside], rtol=1e-3, atol=1e-3, equal_nan=True)


def _are_correlations_of(group: Group, own: Group | None) -> bool:
    """Whether matrices are the correlations of the series, which are computed anyway."""
    if own is None or own.kind != "series":
        return False
    of_series = {unpadded(person): file for person, file in _by_person(own).items()}
    for person, file in list(_by_person(group).items())[:LOOKED_AT]:
        if person in of_series:
            x, matrix = read_series(of_series[person]).values, read_series(file).values
            r = np.corrcoef(x.T)
            if r.shape == matrix.shape:
                upper = np.triu_indices(len(r), 1)
                return any(np.allclose(m[upper], matrix[upper], atol=1e-3) for m in (r, np.arctanh(r - np.eye(len(r)))))
    return False


def _by_person(group: Group) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in group.files:
        place = around_id(file.name, group.people) or around_id(file.as_posix(), group.people)
        if place is not None:
            found.setdefault(place[3], file)
    return found


def _sort_files(files: Sequence[Path], roster: pd.DataFrame, n_rows: int) -> FilesOfEverybody:
    """The files that hold all people, by their kind."""
    of_all = FilesOfEverybody()
    for file in files:
        if any(word in file.name for word in NO_BLOCK):
            continue
        try:
            if file.suffix.lower() in ARRAYS:
                shape: tuple[int, ...] = read_array(file).shape
                if len(shape) == 2 or (len(shape) == 3 and shape[1] == shape[2]):
                    (of_all.arrays if shape[0] == n_rows else of_all.unfit)[file] = shape
            elif is_table(file):
                table = with_people_in_rows(read_table(file), roster["subject"])
                match = rows_of(table, roster)
                others = table if match.column is None else table.drop(columns=match.column)
                measures = frozenset(map(str, measures_of(others).columns))
                named = [file.name, *map(str, table.columns[:MANY])]
                of_anatomy = any(FREESURFER.search(name) for name in named)
                if match.column is None or not len(match.rows) > MOSTLY * min(len(roster), len(table)):
                    if len(measures) >= MANY and len(table) >= MANY:
                        of_all.strange.append(file)
                elif len(measures) >= MANY or (of_anatomy and len(measures) >= FEW):
                    of_all.tables[file] = Table(measures, len(match.rows), of_anatomy)
                elif len(measures) >= FEW:
                    of_all.small.append(file)
        except BrainroamError:
            continue  # not a table, or not one of people
    return of_all


def _people_and_tables(people: pd.DataFrame, guess: Guess, has_others: bool, alone: bool) -> None:
    """The guess where no file is one person's: the table of people is the data, with or without measures of its own."""
    tables = _as_names(guess.options.pop("participants"))
    if tables[1:]:
        guess.options["participants"] = tables[1:]  # the data are the first; the reader takes further ones only
    guess.reader, guess.data = "table", Path(tables[0])
    roles = {str(value) for name, value in guess.options.items() if name.endswith("_col")}
    target = TargetRequest.of(guess.target).column if guess.target else ""
    free = [str(name) for name in people if str(name) not in {*roles, target}]
    clinical = alone and is_clinical(free)  # of a folder, a table of few columns tells of people only
    measures = measures_of(people[free], clinical=clinical)
    beside = [role for role in ("age", "sex") if guess.options.get(f"{role}_col", target) != target]
    if clinical and beside and len(measures.columns) >= FEW:
        guess.options.setdefault("measures", ["*", *beside])
        guess.remarks["measures"] = f"{' and '.join(beside)} among what predicts; without, only what the others tell"
    # Beside other tables a phenotype with a dozen numbers among its questionnaires and marks of quality is no block.
    wide = len(measures.columns) >= (max(MANY, people.shape[1] / 2) if has_others else FEW)
    if not wide:
        guess.options["measures"] = NO_COLUMN
        guess.remarks["measures"] = "this table tells of people only; what was measured stands in blocks"
    if not wide and not has_others:
        text = "What was measured of these people? Give the folder with their series, matrices or tables, or the table"
        guess.questions.append(Question("participants", text))


def _mentioning(unfit: str, question: Question) -> Question:
    """The question what was measured, with the arrays that have a row too many or too few."""
    if question.option != "participants":
        return question
    return replace(question, text=f"{question.text}. {unfit}: make their rows one for each person, in the same order")


def site_is_in_ids(people: pd.DataFrame, guess: Guess) -> bool:
    """Whether ids tell the site (``Oslo_sub-012``), where no column does."""
    return sites_in_ids(people, Columns(subject_col=guess.options.get("subject_col"))) is not None


def _name_the_data(own: Group | None, further: Sequence[Group], folder: Path, guess: Guess) -> None:
    """Name the data themselves beside other blocks, and put the table of people where its reader wants it."""
    if guess.reader == "table":
        path = guess.data.as_posix()
        if guess.blocks and guess.options.get("measures") != NO_COLUMN:
            guess.blocks = {_name(Path(path).stem, guess): {"table": path}, **guess.blocks}
    elif guess.blocks and own is not None and own.kind == "matrices":
        name = _name(_distinguish(own, further[0]) if further else "connectivity", guess)  # as rest beside nback
        guess.blocks = {name: {"matrices": guess.data.as_posix()}, **guess.blocks}
    elif guess.blocks:
        guess.blocks = {_name("rest", guess): {"series": folder.as_posix()}, **guess.blocks}
