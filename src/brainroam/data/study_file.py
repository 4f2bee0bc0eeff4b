"""``study.yaml``: what a study reads and what it runs, in one file that `brainroam init` writes and people edit.

Paths in it are relative to the file itself, so that a study can be moved as a whole. Everything that is wrong with a
file is said at once, with the line, the key, what was expected and, for an unknown key, the nearest known.
"""

import difflib
import glob
import inspect
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from brainroam.errors import NothingFoundError, ReaderError, UsageError, in_shell, listed, unknown, warn_user
from brainroam.utils.files import expand_home

if TYPE_CHECKING:
    from brainroam.data.cohort import Cohort
    from brainroam.data.prepare import Preparation
    from brainroam.data.site_choice import SiteChoice
    from brainroam.utils.workers import Workers

SUFFIXES = (".yaml", ".yml")
SYNTHETIC = "synthetic"
PREPARING = ("crop", "exclude", "max_fd", "covariates", "nuisance")
RESERVED = frozenset(
    {
        "reader",
        "atlas",
        "sites",
        "exclude_sites",
        "site_names",
        "edges",
        "preset",
        "max_missing_rois",
        "spool",
        "target",
        *PREPARING,
    }
)
OPENING = (
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.FlowSequenceStartToken,
)
CLOSING = yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken
DEEPEST = 20  # a study needs three
Count = Annotated[int, Field(ge=1, le=1000, strict=True)]


class Study(BaseModel):
    """A study: how to read the data, and which methods to judge on them.

    Attributes
    ----------
    data : str
        A file or folder of any known layout, or ``synthetic``.
    name : str, optional
        What the study is called in its report.
    reader, atlas, sites, exclude_sites, site_names, edges, preset, max_missing_rois
    crop, exclude, max_fd, covariates, target, options
        As for `brainroam.load_cohort`; ``options`` are those of the reader.
    nuisance : list of str, optional
        Columns whose directions our methods take out of edges, see `brainroam.data.prepare`.
    blocks : dict of str to dict, optional
        Several measurements of the same people, by name: ``{table: freesurfer/*.tsv, columns: "*"}``,
        ``{matrices: connectomes}``; the one that says ``series``, or whose path is that of ``data``, names the data
        themselves, and their atlas. Of one array of everybody, ``ids`` is the table in whose order its rows are.
    methods : list of str, optional
        Names with parameters to fix in brackets: ``core[budget=20]``.
    protocol : {"leave-one-site-out", "institutions", "halves", "folds"}
        What is held out: every site or institution once, random halves of the sites, or some people of every site.
    repeats : int, optional
        How often ``halves`` (10) or ``folds`` (1) are drawn at random.
    seeds, tuning, jobs
        As for `brainroam.evaluate`.
    out : str
        The folder for runs and report.

    Examples
    --------
    >>> Study(data="synthetic", methods=["fc-ridge"]).seeds
    1
    """

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    data: str
    name: str | None = None
    reader: str = "auto"
    atlas: str | None = None
    sites: list[str] | None = None
    exclude_sites: list[str] | None = None
    site_names: dict[str, str] | None = None
    edges: dict[str, Literal["r", "z"]] | None = None
    preset: str | None = None
    max_missing_rois: Annotated[float, Field(ge=0, le=1)] = 0.2
    crop: str | None = None
    exclude: str | list[str] | None = None
    max_fd: Annotated[float, Field(gt=0)] | None = None
    covariates: list[str] | dict[str, Literal["number", "category"]] | None = None
    nuisance: list[str] | None = None
    target: str | dict[str, str | list[str]] | None = None
    blocks: dict[str, dict[str, Any]] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    methods: Annotated[list[str], Field(min_length=1)] | None = None
    protocol: str = "leave-one-site-out"
    repeats: Count | None = None
    seeds: Count = 1
    tuning: str | None = None
    jobs: Count = 1
    out: str = "results"

    @property
    def preparation(self) -> "Preparation":
        """What is done after reading and before any method."""
        from brainroam.data.prepare import Preparation

        return Preparation(self.crop, self.exclude, self.max_fd, self.covariates, self.nuisance)

    @property
    def site_choice(self) -> "SiteChoice":
        """Which sites belong to the study, and what each is called."""
        from brainroam.data.site_choice import SiteChoice

        keep = tuple(self.sites) if self.sites else None
        return SiteChoice(keep, tuple(self.exclude_sites or ()), self.site_names or {})

    def load(
        self,
        everybody: bool = False,
        require_label: bool = True,
        spool: "str | Path | None" = None,
        workers: "Workers | None" = None,
        apply_target: bool = True,
    ) -> "Cohort":
        """Read and prepare the data; ``everybody`` keeps those who lack signal in too many regions.

        Without ``apply_target`` its column is only kept in the table, as a store keeps it.
        """
        for name in RESERVED.intersection(self.options):
            raise UsageError(f"--option {name}=... has an option of its own: --{name.replace('_', '-')}")
        try:
            cohort = self._make() if self.data == SYNTHETIC else self._read(require_label, spool, workers)
        except NothingFoundError:
            if (guessed := self._guessed()) is None:
                raise
            return guessed.load(everybody, require_label, spool, workers, apply_target)
        cohort = self._with_blocks(cohort)
        if self.edges and all(block.measure != "matrices" for block in (cohort.blocks or {"": cohort}).values()):
            raise UsageError(f"edges says what matrices hold, but these are {cohort.measure}; leave it out")
        if self.target is not None and apply_target:
            from brainroam.data.target_column import with_target

            known = cohort if self.covariates is None else cohort.using(())  # the study says itself which they are
            cohort = with_target(known, self.target, require_label)
        return self.preparation.apply(cohort).exclude_missing(1.0 if everybody else self.max_missing_rois)

    def reading_columns(self, columns: Mapping[str, Sequence[str]]) -> "Study":
        """The study with these columns of its tables, by the name of the block, where it names none itself.

        Which columns of a table are measures is seen in all people of a study; a few new people may show it otherwise.
        The columns of a block that the study does not name are those of its data, where these are a table.

        >>> study = Study(data="rest", blocks={"anatomy": {"table": "aseg.tsv"}})
        >>> study.reading_columns({"anatomy": ["eTIV"]}).blocks
        {'anatomy': {'columns': OfModel(names=('eTIV',)), 'table': 'aseg.tsv'}}
        """
        from brainroam.data.readers.tables import is_table
        from brainroam.data.readers.which_columns import OfModel

        named = {name: OfModel(tuple(of_block)) for name, of_block in columns.items()}
        blocks = {
            name: {"columns": named[name]} | entry if name in named and "table" in entry else entry
            for name, entry in (self.blocks or {}).items()
        }
        own = [of_block for name, of_block in named.items() if name not in blocks]
        path = Path(self.data)
        others = [name for name, entry in blocks.items() if "table" in entry and name not in named]
        if len(own) == len(others) == 1 and not (path.is_file() and is_table(path)):  # by another name than in training
            blocks[others[0]] = {"columns": own[0]} | blocks[others[0]]
        options = {"measures": own[0]} | self.options if own and path.is_file() and is_table(path) else self.options
        return self.model_copy(update={"blocks": blocks or None, "options": options})

    def _with_blocks(self, cohort: "Cohort") -> "Cohort":
        """The cohort with every further measurement that is named."""
        from brainroam.data.exclusion import people_named
        from brainroam.data.readers.measures import read_block

        entries, data = self.blocks or {}, Path(self.data)
        own = next((name for name, entry in entries.items() if _names_the_data(entry, data)), None)
        people_only = self.options.get("measures") == "none"  # of a table of people that holds no measurement itself
        if people_only and not entries:
            raise UsageError(
                "measures: none is for a table of people whose measurements are blocks; name them in blocks"
            )
        left_out = people_named(self.exclude, [*cohort.table["subject"], *cohort.excluded["subject"]]).reasons
        for name, entry in entries.items():
            if name != own:
                homes = [Path(), data, data.parent]
                block = read_block(
                    entry, cohort, homes, self._target_column(), self.covariates or (), left_out, self.edges
                )
                cohort = cohort.with_columns_of(block)
                cohort = cohort.with_block(name, block, own)
                if people_only:
                    cohort, own, people_only = cohort.block(name), name, False
        return cohort

    def _read(self, require_label: bool, spool: "str | Path | None", workers: "Workers | None") -> "Cohort":
        from brainroam.data.readers import read_cohort

        return read_cohort(
            self.data,
            self.reader,
            self.atlas,
            self.site_choice,
            preset=self.preset,
            spool=spool,
            workers=workers,
            target=self._target_column(),
            covariates=[*(self.covariates or ()), *(self.nuisance or ())],
            keep_unmeasured=bool(self.blocks),
            exclude=self.exclude,
            edges=self.edges,
            **{"require_label": require_label, **self.options},
        )

    def _guessed(self) -> "Study | None":
        """The study that `brainroam init` would write of a folder of unknown layout; None where it would ask."""
        from brainroam.data.detect import look

        if self.reader != "auto" or self.blocks or not Path(self.data).is_dir():
            return None
        try:
            known = {"atlas": self.atlas, "target": self._target_column(), "site_names": self.site_names}
            guess = look(self.data, {**known, **self.options})
        except ReaderError:
            return None
        open_questions = [
            question for question in guess.questions if question.option != "site_names"
        ]  # the check warns
        if open_questions or guess.reader not in ("folder", "table"):
            return None
        told = {name: value for name, value in guess.options.items() if name != "participants"}
        told |= {"site_names": guess.site_names} if guess.site_names else {}
        each = ", ".join(f"{name}={value}" for name, value in told.items())
        parts = f"{guess.reader} {guess.data}" + (f" with blocks {listed(guess.blocks)}" if guess.blocks else "")
        warn_user(f"{self.data} is read as brainroam init sees it: {parts}; {each}; a study file says it otherwise")
        changed = {"data": str(guess.data), "reader": guess.reader, "options": guess.options, "atlas": guess.atlas}
        changed["site_names"] = guess.site_names or None
        return self.model_copy(update={**changed, "blocks": guess.blocks or None})

    def _target_column(self) -> str | None:
        from brainroam.data.target import TargetRequest

        return None if self.target is None else TargetRequest.of(self.target).column

    def _make(self) -> "Cohort":
        from brainroam.data.synthetic import make_cohort

        if self.reader != "auto" or self.atlas or self.preset:
            raise UsageError("synthetic data are not read: --reader, --atlas and --preset do not apply")
        parameters = inspect.signature(make_cohort).parameters
        for name, value in self.options.items():
            if name not in parameters:
                raise unknown("option of synthetic data", name, parameters)
            if not isinstance(value, parameters[name].annotation | int) or isinstance(value, bool):
                raise UsageError(f"--option {name}={value}: expected a number")
        return self.site_choice.of(make_cohort(**self.options))


def _names_the_data(entry: Mapping[str, Any], data: Path) -> bool:
    """Whether a block is that of the data themselves: their own path, or series that are not somewhere else."""
    from brainroam.data.readers.measures import paths_of

    paths = [Path(path) for path in paths_of(entry)]
    if "series" not in entry or paths == [data]:
        return paths == [data]
    elsewhere = [
        path.exists() and not (data / path).exists() and not path.resolve().is_relative_to(data.resolve())
        for path in paths
    ]
    return not any(elsewhere)


def is_study(path: str | Path) -> bool:
    """Whether a path is that of a study file, by its suffix.

    >>> is_study("study.yaml"), is_study("ABIDE_pcp")
    (True, False)
    """
    return Path(path).suffix.lower() in SUFFIXES


def plan_of(data: str | Path, given: Mapping[str, Any]) -> Study:
    """How to load data: by a study file, or by a bare path; what is given (not None) goes before what is written.

    >>> plan_of("ABIDE_pcp", {"atlas": "aal", "reader": None}).atlas
    'aal'
    """
    written = read_study(data) if is_study(data) else Study(data=str(data))
    changed = {name: value for name, value in given.items() if value is not None}
    changed["options"] = {**written.options, **changed.get("options", {})}
    return written.model_copy(update=changed)  # an `Atlas` is welcome here, though no file can hold one


def read_study(path: str | Path) -> Study:
    """Read and validate a study file; its paths come back absolute or relative to where you are.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "study.yaml"
    >>> _ = file.write_text("data: synthetic\\nmethds: [core]\\n")
    >>> read_study(file)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    brainroam.errors.UsageError: .../study.yaml, line 2: unknown key 'methds'; did you mean 'methods'? ...
    """
    path = expand_home(path)
    if not os.path.isfile(path):  # unlike the path's own method it never raises, however long the name
        if os.path.isdir(path):
            raise UsageError(f"{path} is a folder, not a study file; write one with: brainroam init {in_shell(path)}")
        there = [file for file in (path.with_suffix(suffix) for suffix in SUFFIXES) if os.path.isfile(file)]
        hint = f"did you mean {there[0]}?" if there else "brainroam init FOLDER writes one"
        raise UsageError(f"{path} does not exist; {hint}")
    if not is_study(path):
        raise UsageError(
            f"{path} is no study file (study.yaml); write one with: brainroam init {in_shell(path.parent)}"
        )
    content, lines = read_yaml(path, "lines of 'key: value', beginning with data: FOLDER")
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        problems = [_in_words(item, lines) for item in error.errors()]
        raise UsageError("\n".join(f"{path}{words}" for words in problems)) from error
    for name in study.methods or ():
        if ".py:" in name:  # whoever opens somebody else's study file must not run their code by it
            raise UsageError(
                f"{path}, line {lines['methods']}: {name} would run code; a study file names registered methods, and "
                f"files of code are named on the command line: brainroam loso {path.name} --methods {name}"
            )
    return study.model_copy(update=_resolve_paths(study, path.parent))


def read_yaml(path: Path, expected: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The content of a file made by people, and the line on which each key stands; ``expected`` says what it holds."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        repeats = _repeats(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError) as error:  # also dates and numbers that are none
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error)
        raise UsageError(f"{path}{where} is not YAML ({reason}); text with : or # in it needs quotes") from error
    if repeats:  # a few lines of aliases of aliases stand for more text than fits into memory
        raise UsageError(f"{path} uses * to repeat something; write it out, or put quotes around it if it is text")
    if not isinstance(content, dict):
        raise UsageError(f"{path} should be {expected}")
    return content, {str(key.value): key.start_mark.line + 1 for key, _ in node.value}


def _repeats(text: str) -> bool:
    """Whether an alias is used; refuses very deep nesting, for which the parser takes quadratic time."""
    depth, repeats = 0, False
    for token in yaml.scan(text):
        depth += isinstance(token, OPENING) - isinstance(token, CLOSING)
        if depth > DEEPEST:
            raise ValueError(f"nested more than {DEEPEST} deep")
        repeats |= isinstance(token, yaml.AliasToken)
    return repeats


def _in_words(error: Any, lines: dict[str, int]) -> str:
    """One error of validation as text that follows the name of the file."""
    key, *inside = error["loc"]
    where = f", line {lines[key]}" if key in lines else ""
    name = ".".join(map(str, (key, *inside)))
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(key), Study.model_fields, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        return f"{where}: unknown key {name!r}{hint} Known: {', '.join(Study.model_fields)}"
    if error["type"] == "missing":
        return f": {name!r} is missing: say where the data are, as in data: FOLDER"
    expected = error["msg"].removeprefix("Input should be ").replace("a valid string", "text")
    quotes = "; put quotes around it if it is a name" if isinstance(error["input"], bool) else ""
    return f"{where}: {name!r} should be {expected}, not {error['input']!r}{quotes}"


def _resolve_paths(study: Study, home: Path) -> dict[str, Any]:
    """Paths of the study file, relative to the current folder."""
    update: dict[str, Any] = {"out": str(home / expand_home(study.out))}
    if study.data != SYNTHETIC:
        update["data"] = str(home / expand_home(study.data))
    if study.atlas is not None and os.path.isfile(home / study.atlas):
        update["atlas"] = str(home / study.atlas)
    if isinstance(study.exclude, str):
        update["exclude"] = str(home / expand_home(study.exclude))
    if study.blocks:
        update["blocks"] = {name: _block_seen_from(home, entry) for name, entry in study.blocks.items()}
        own = next((entry for entry in study.blocks.values() if "series" in entry), {})
        update |= {"atlas": str(own["atlas"])} if "atlas" in own and study.atlas is None else {}
    if "participants" in study.options:
        named = study.options["participants"]
        tables = [str(home / str(table)) for table in (named if isinstance(named, list) else [named])]
        update["options"] = {**study.options, "participants": tables if isinstance(named, list) else tables[0]}
    return update


def _block_seen_from(home: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """A block whose paths, where they are relative to the study file, are as seen from here."""
    seen = dict(entry)
    for kind in ("table", "matrices"):
        if kind in entry:
            paths = [entry[kind]] if isinstance(entry[kind], str) else list(entry[kind])
            seen[kind] = [str(home / path) if glob.glob(str(home / path)) else str(path) for path in paths]
    if "ids" in entry and (home / str(entry["ids"])).is_file():
        seen["ids"] = str(home / str(entry["ids"]))
    return seen
