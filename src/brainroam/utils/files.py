"""Writing files so that an interruption leaves the old file or the new one, never half of one.

JSON documents state their own checksum, so that one cut short or changed is never taken for whole.

CSV text is such that no spreadsheet executes it: what would be taken for a formula (text beginning with ``= + - @``, a
tab or a line end) is written behind an apostrophe, as is text that begins with one. Numbers read back exactly.
"""

import ctypes
import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from brainroam.errors import BrainroamError

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
LARGEST_DOCUMENT = 2**30  # bytes of a JSON file that is read at once
ACTIVE = frozenset("=+-@\t\r\n'")
QUOTED = frozenset(',"\r\n')


@contextmanager
def atomic_write(path: str | Path, text: bool = False) -> Iterator[IO]:
    """Open a temporary file beside ``path`` and move it there once it is complete and on disk.

    Text is UTF-8 with ``\\n`` line ends on every platform, so the bytes do not depend on where they were written. The
    umask says who may read a new file; a file that is replaced keeps its mode.
    """
    path = Path(path)
    temporary = part_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _create(temporary, like=path)
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") if text else open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def part_beside(path: Path) -> Path:
    """A hidden name beside ``path`` that nobody else uses, for what is not complete yet."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(6)}.part")


def clear_parts(*folders: Path, of: str = "") -> None:
    """Delete incomplete files that a killed process left in these folders; no other process may be writing them.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = write_text(part_beside(folder / "model"), "half of")
    >>> clear_parts(folder)
    >>> list(folder.iterdir())
    []
    """
    for folder in folders:
        for path in folder.glob(f".{glob.escape(of[:40])}*.part"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def _create(new: Path, like: Path) -> int:
    """Open a new file with the mode of the file it will replace, or the mode that the umask gives."""
    try:
        mode = stat.S_IMODE(like.stat().st_mode)
    except FileNotFoundError:
        return os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    new.chmod(mode)
    return handle


def read_regular(path: Path, limit: int = LARGEST_DOCUMENT) -> bytes:
    """The bytes of a file; an `OSError` for a pipe or device, which may never end, and beyond ``limit`` bytes."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if facts.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {facts.st_size:,} bytes, more than the {limit:,} allowed", str(path))
        return file.read(facts.st_size)  # not the limit, for which memory would be set aside


def expand_home(path: str | Path) -> Path:
    """A path in which ``~`` and ``~name`` stand for home folders."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise BrainroamError(f"{path}: there is no such home folder; write the path without ~") from error


def write_text(path: str | Path, content: str) -> Path:
    """Write a text file atomically; one that says the same already is left alone, also where nothing can be written."""
    path = Path(path)
    if not _says(path, content.encode()):
        with atomic_write(path, text=True) as file:
            file.write(content)
    return path


def _says(path: Path, content: bytes) -> bool:
    """Whether a file has this content."""
    try:
        facts = path.stat()
        return stat.S_ISREG(facts.st_mode) and facts.st_size == len(content) and path.read_bytes() == content
    except OSError:
        return False


def exchange(one: Path, other: Path) -> bool:
    """Exchange two files or folders in one atomic step; False where the system cannot.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> one, other = write_text(folder / "one", "1"), write_text(folder / "other", "2")
    >>> exchange(one, other) == (one.read_text() == "2")
    True
    """
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux; other systems have no renameat2
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    return renameat2 is not None and renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """A new folder beside ``path`` that is moved there once it is complete; an error where something stands already."""
    path = expand_home(path)
    refuse_existing(path)
    part = part_beside(path)
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        yield part
        part.rename(path)
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def refuse_existing(path: Path) -> None:
    """An error where something stands already."""
    if path.exists():
        raise BrainroamError(f"{path} exists and was left as it is; choose another name, or delete it first")


@contextmanager
def working_dir(path: Path) -> Iterator[tuple[Path, bool]]:
    """An empty hidden folder beside ``path`` for one process to make it in, gone afterwards.

    Yields it and whether a process that was killed had left one behind, which is cleared away; a process that is still
    at work there is an error.
    """
    folder = path.parent / f".{path.name[:200]}.making"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _hold(folder) as mine:
            if not mine:
                raise BrainroamError(f"another command is making {path}; wait for it, or choose another name")
            content = list(folder.iterdir())
            for item in content:
                shutil.rmtree(item) if item.is_dir() else item.unlink()
            try:
                yield folder, bool(content)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Wait until no other process changes files of this folder under this rule, then keep others waiting."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _hold(path.parent, wait=True):
            yield
    except OSError as error:
        raise BrainroamError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def _hold(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Lock a folder: yields whether nobody else has it; the system frees it when the process ends."""
    if sys.platform == "win32":
        yield True
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        mine = True
    except BlockingIOError:
        mine = False
    try:
        yield mine
    finally:
        os.close(descriptor)


def write_checksummed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON document with schema and checksum, atomically."""
    sealed = {"schema": SCHEMA, "checksum": content_hash(content), **content}
    write_text(path, json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_checksummed(path: Path, error_class: type[BrainroamError] = BrainroamError) -> dict[str, Any]:
    """Read what `write_checksummed` wrote; anything else is an error that says what is wrong with it."""
    try:
        content = json.loads(read_regular(path).decode("utf-8"))
        schema, checksum = content.pop("schema"), content.pop("checksum")
        digest = content_hash(content)
    except OSError as error:
        raise error_class(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise error_class(f"{path} is cut short, or not a file of brainroam") from error
    if schema != SCHEMA:
        raise error_class(f"{path} has schema {schema!r}; this version of brainroam reads {SCHEMA}")
    if checksum != digest:
        raise error_class(f"{path} was changed after it was written: its checksum does not match")
    return content


def content_hash(content: Any) -> str:
    """SHA-256 of plain values, the same on every machine.

    >>> content_hash({"a": 1, "b": [0.5]}) == content_hash({"b": [0.5], "a": 1})
    True
    """
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def csv_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV text.

    >>> print(csv_lines([("=1+1", "A, B", 0.1, None)]), end="")
    '=1+1,"A, B",0.1,
    """
    return "".join(",".join(map(_cell, row)) + "\n" for row in rows)


def write_csv(path: str | Path, table: "pd.DataFrame") -> Path:
    """Write a table with its header, and without its index."""
    return write_text(path, csv_lines([table.columns, *table.itertuples(index=False)]))


def escape_formula(text: str) -> str:
    """Text with a leading apostrophe where a spreadsheet would take it for a formula.

    >>> escape_formula("=1+1"), escape_formula("S01")
    ("'=1+1", 'S01')
    """
    return f"'{text}" if text[:1] in ACTIVE else text


def _cell(value: Any) -> str:
    """One cell; Python's own csv module leaves a carriage return unquoted before 3.13."""
    text = "" if value is None else escape_formula(value) if isinstance(value, str) else str(value)
    return '"' + text.replace('"', '""') + '"' if QUOTED & set(text) else text
