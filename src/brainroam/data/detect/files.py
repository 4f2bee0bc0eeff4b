"""Detect the series of the people: their paths, number of regions, and whether time runs down or across."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from brainroam.data.atlas import SHIPPED
from brainroam.data.detect.guess import Guess, Question
from brainroam.data.detect.sites import look_at_sites
from brainroam.data.names import canonical, unpadded
from brainroam.data.readers.locate import ID, SITE, files_below, match_template, refuse_volumes
from brainroam.data.readers.repeats import with_stars
from brainroam.data.readers.series import read_series, region_count, suffix_of
from brainroam.data.readers.text import Series
from brainroam.data.target import is_control
from brainroam.errors import BrainroamError, listed

LOOKED_AT = 12  # series that are read to learn their shape
NEARLY_ALL = 0.9
OF_FMRIPREP = re.compile(r"desc-confounds|_xfm\.txt$")
OF_CONN = re.compile(r"_Condition\d+\.mat$|^_list_\w+\.mat$")
MATRIX_OF_CONN = re.compile(r"resultsROI_Subject\d+_Condition\d+\.mat")
# Folders that people sort files into and that are no places: parts of the work, visits, and diagnoses.
NO_SITES = re.compile(
    r"(batch|part|chunk|set|split|fold|group|grp|run|ses|session|visit|wave|scan|time|year|train|test|raw|new|old|"
    r"cases?|patients?|controls?|male|female)s?[ _.-]*\d*|(19|20)\d\d",
    re.IGNORECASE,
)


def series_files(folder: Path) -> list[Path]:
    """Files below a folder, through links too, that may hold series; confounds and transforms of fMRIPrep are none.

    Of a project of CONN only the matrices of single people are: beside them stand its own copies of the data.
    """
    files = [file for file in files_below(folder) if suffix_of(file) and not OF_FMRIPREP.search(file.name)]
    if any(MATRIX_OF_CONN.fullmatch(file.name) for file in files):
        return [file for file in files if not OF_CONN.search(file.name) or MATRIX_OF_CONN.fullmatch(file.name)]
    return files


def look_at_series(folder: Path, ids: list[str], sites: list[str], guess: Guess) -> None:
    """Add ``template``, ``transpose`` and the atlas to a guess; ``sites`` are of the ids, where a column tells them."""
    guessed = "template" not in guess.options
    if guessed:
        given = guess.options.get("participants", [])
        tables = {Path(table).resolve() for table in ([given] if isinstance(given, str) else given)}
        candidates = guess.files if guess.files is not None else series_files(folder)
        others = [file for file in candidates if file.resolve() not in tables]
        files = [file.relative_to(folder).as_posix() for file in others]
        template = template_of(files, ids)
        if template is None:
            refuse_volumes(folder)
            seen = f" (there is {files[0]})" if files else ""
            text = f"Where below {folder} is the series of a person{seen}? Write {ID} in place of the id"
            guess.questions.append(Question("template", text))
            return
        guess.options["template"] = _telling_sites(folder, template, ids, sites) or template
    scans = match_template(folder, str(guess.options["template"]), ids)
    candidates = [scans[name][0].path for name in ids if name in scans]
    if guessed:
        _look_for_sites([path.relative_to(folder).parts for path in candidates], guess)
    if SITE in str(guess.options["template"]):
        scans = match_template(folder, str(guess.options["template"]), ids)
        look_at_sites((scans[name][0].site for name in ids if name in scans), guess)
    step = max(-(-len(candidates) // LOOKED_AT), 1)
    some = candidates[::step]  # all over the table, which may be sorted by site
    series = readable(some, guess.options.get("mat_key"))
    named = any(person.names is not None for person in series)
    _look_at_shapes([person.values.shape for person in series], named, guess)


def readable(files: Iterable[Path], mat_key: str | None = None) -> list[Series]:
    """What is in those of some files that can be read; a damaged one is named when people are read."""
    series = []
    for file in files:
        with suppress(BrainroamError):
            series.append(read_series(file, mat_key))
    return series


def _telling_sites(folder: Path, template: str, ids: list[str], sites: list[str]) -> str | None:
    """The template with the site in it, where ids begin anew at every site and paths tell which."""
    wanted = {(canonical(site), unpadded(name)) for site, name in zip(sites, ids, strict=False)}
    if len(set(ids)) > NEARLY_ALL * len(wanted):
        return None
    scans = match_template(folder, template, ids)
    places = [scan.path.relative_to(folder).parts for name in set(ids) for scan in scans.get(name, ())]
    levels = _levels(places) if template.startswith("**/") else []
    folders = [_with_site_at(levels, k) + template.removeprefix("**/") for k in range(len(levels))]
    names = [template.replace(f"*{ID}", f"{SITE}{mark}{ID}", 1) for mark in "_-"]
    for candidate in [*folders, *names]:
        if SITE in candidate:
            scans = match_template(folder, candidate, ids)
            scanned = {(canonical(scan.site), unpadded(name)) for name, found in scans.items() for scan in found}
            if len(wanted & scanned) >= NEARLY_ALL * len(wanted):
                return candidate
    return None


def _look_for_sites(places: list[tuple[str, ...]], guess: Guess) -> None:
    """Look for the site where no column has it: a level of folders of which each holds several people."""
    open_ = [question for question in guess.questions if question.option == "site_col"]
    if not open_:
        return
    if not str(guess.options["template"]).startswith("**/"):
        _ask_about_prefixes([parts[-1] for parts in places], guess, open_[0])
        return
    levels = _levels(places)
    sites = [k for k, names in enumerate(levels) if 1 < len(set(names)) <= len(names) / 2]
    if len(sites) == 1 and not _no_places(names := sorted(set(levels[sites[0]]))):
        guess.options["template"] = _with_site_at(levels, sites[0]) + str(guess.options["template"]).removeprefix("**/")
        guess.remarks["template"] = f"the folder's name is the site: {listed(names)}"
        guess.questions.remove(open_[0])


def _ask_about_prefixes(names: list[str], guess: Guess, open_: Question) -> None:
    """Ask whether the beginning of the files' names is the site, where it puts several people together.

    The question takes the place of the one for a column, which is asked if the answer is no.
    """
    template = str(guess.options["template"])
    for mark in "_-":
        prefixes = Counter(name.partition(mark)[0] for name in names)
        candidate = template.replace(f"*{ID}", f"{SITE}{mark}{ID}", 1)
        grouped = len(prefixes) > 1 and min(prefixes.values()) > 1 and not _no_places(sorted(prefixes))
        if candidate != template and grouped and all(mark in name for name in names):
            counts = listed(f"{name} ({n} people)" for name, n in sorted(prefixes.items()))
            columns = f" ({listed(open_.choices)})" if open_.choices else ""
            text = (
                f"No column of the table is called like a site. Do file names begin with the site: {counts}? "
                f"If so, take the first of these; if not, the second and the column, --site COLUMN{columns}"
            )
            place = guess.questions.index(open_)
            guess.questions[place] = Question("template", text, (candidate, template))
            return


def _levels(places: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names of folders at each depth, for every file; none where files lie at several depths."""
    return list(zip(*places, strict=True))[:-1] if len({len(parts) for parts in places}) == 1 else []


def _with_site_at(levels: list[tuple[str, ...]], depth: int) -> str:
    """The folders of a template, of which one is the site.

    >>> _with_site_at([("ts", "ts"), ("Oslo", "Rome"), ("p1", "p2")], 1)
    'ts/{site}/*/'
    """
    names = [f"{level[0]}/" if len(set(level)) == 1 else "*/" for level in levels]
    return "".join([*names[:depth], f"{SITE}/", *names[depth + 1 :]])


def _no_places(names: list[str]) -> bool:
    """Whether folders are called like parts of the work or like diagnoses rather than like sites.

    >>> _no_places(["batch1", "batch2"]), _no_places(["ASD", "TD"]), _no_places(["Oslo", "Rome"])
    (True, True, False)
    """
    return all(NO_SITES.fullmatch(name) for name in names) or any(is_control(name) for name in names)


def _look_at_shapes(shapes: list[tuple[int, ...]], named: bool, guess: Guess) -> None:
    """Find the axis of regions: its length is the same for everybody, or that of a known atlas."""
    if not shapes:
        return
    n_rois, turned = region_count(shapes)
    if "transpose" not in guess.options and turned.all():
        guess.options["transpose"] = True
        guess.remarks["transpose"] = "the files have a row for each region, not for each volume"
    elif "transpose" not in guess.options and turned.any():
        guess.remarks["transpose"] = "some files have a row for each region and are turned as they are read"
    regions = {height if flip else width for (height, width), flip in zip(shapes, turned, strict=True)}
    if guess.atlas is not None or len(regions) != 1:
        return
    fitting = [name for name, size in SHIPPED.items() if size == n_rois]
    if fitting == ["aal"] and not named:
        guess.atlas, guess.remarks["atlas"] = "aal", "116 regions"
    elif fitting:
        guess.remarks["atlas"] = f"{n_rois} regions: write {fitting[0]} if they are its regions"
    else:
        guess.remarks["atlas"] = f"{n_rois} regions: a csv with their names (name, x, y, z) can stand here"


def id_words(stem: str) -> Iterable[str]:
    """Everything in a path that may be an id: runs of letters and digits, also several joined by ``_`` or ``-``."""
    for part in stem.split("/"):
        pieces = re.split(r"([_.-])", part)
        for start in range(0, len(pieces), 2):
            for stop in range(start + 1, min(len(pieces), start + 8) + 1, 2):
                yield "".join(pieces[start:stop])


def template_of(files: Iterable[str], ids: Iterable[str]) -> str | None:
    """The path of the files with the id taken out; what differs besides it becomes a star.

    >>> template_of(["ts/A_01_roi.csv", "ts/B_02_roi.csv", "ts/notes.csv"], ["1", "2"])
    'ts/*{participant_id}_roi.csv'
    >>> template_of(["sub-01/rest.csv", "sub-02/rest.csv"], ["01", "02"])
    '{participant_id}/rest.csv'
    """
    wanted = {unpadded(name) for name in ids}
    places = [place for file in files if (place := around_id(file, wanted))]
    if not places:
        return None
    people_of: dict[str, set[str]] = defaultdict(set)
    for _, _, after, person in places:
        people_of[after].add(person)
    after = max(sorted(people_of), key=lambda text: len(people_of[text]))
    if len(people_of[after]) >= NEARLY_ALL * len(set().union(*people_of.values())):
        places = [place for place in places if place[2] == after]
    else:
        endings = {suffix_of(Path(text)) for text in people_of}
        after = f"*{endings.pop()}" if len(endings) == 1 else "*"
    above, before = ({place[k] for place in places} for k in (0, 1))
    return f"{above.pop() if len(above) == 1 else '**/'}{before.pop() if len(before) == 1 else '*'}{ID}{after}"


def around_id(file: str, wanted: set[str]) -> tuple[str, str, str, str] | None:
    """Folder, text before the id, text after it, and the id; in the file's name, else in that of a folder."""
    folder, slash, name = file.rpartition("/")
    inside = [word for word in id_words(name) if unpadded(word) in wanted]
    if inside:
        word = max(inside, key=len)
        before, _, after = name.partition(word)
        return folder + slash, before.removesuffix("sub-"), with_stars(after), unpadded(word)
    parts = file.split("/")
    for k, part in enumerate(parts[:-1]):
        if unpadded(part) in wanted:
            return "".join(f"{p}/" for p in parts[:k]), "", "/" + with_stars("/".join(parts[k + 1 :])), unpadded(part)
    return None
