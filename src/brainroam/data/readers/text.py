"""Numbers from text: the one place where a ``.1D``, ``.csv``, ``.tsv`` or ``.txt`` series becomes an array.

A file is an optional header and one row per volume. What the header may look like in practice:

- ``#2001<TAB>#2002`` (AFNI, ABIDE), or a first line that is not all numbers (most tables): the region names;
- ``0<TAB>1<TAB>2`` (``DataFrame.to_csv``, giga_connectome): numbers, yet a header, and never a volume;
- ``File<TAB>Sub-brick<TAB>Mean_2001`` (AFNI ``3dROIstats``) or an empty first cell (a saved index): columns that
  are no data and are dropped.

``n/a`` and empty cells become NaN. Plain decimals such as ``-12.345678`` take a short cut several times faster than
`numpy.loadtxt` with bit-for-bit the same result; everything else goes through `numpy.loadtxt` itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from brainroam.errors import ReaderError

NOT_DATA = {"", "file", "sub-brick", "index", "unnamed: 0"}


@dataclass(frozen=True)
class Series:
    """One person's series: ``values`` (T, P), the region ``names`` if the file told them, ``tr`` in seconds or NaN."""

    values: np.ndarray
    names: tuple[str, ...] | None = None
    tr: float = float("nan")


def read_text(path: Path) -> Series:
    """Read one text file of time x regions."""
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\0" in data:
        raise ReaderError(f"{path} is not a text file; if it is an image or an array, give it its usual suffix")
    if not data or data.isspace():
        raise ReaderError(f"{path} is empty; make or fetch the file again, or delete it to leave the person out")
    header, body, first_line = _split_header(data)
    if not body or body.isspace():
        raise ReaderError(f"{path} has a header but no volumes: it is truncated; make or fetch it again")
    delimiter = _delimiter(body)
    cells = _cells(header, delimiter)
    body, cells = _without_trailing_delimiter(body, cells, delimiter)
    n_leading = _n_leading(cells)
    if n_leading:
        body = b"\n".join(line.split(delimiter, n_leading)[-1] for line in body.splitlines())
    if not body.endswith(b"\n"):
        body += b"\n"
    values = parse_decimals(body, delimiter)
    if values is None:
        values = _parse_carefully(body.decode("utf-8", "replace"), delimiter, path, first_line, n_leading)
    return Series(values, _names(cells[n_leading:], values.shape[1]))


def _split_header(data: bytes) -> tuple[bytes, bytes, int]:
    """The header line (empty when there is none), the rows below it, and the line number of the first row."""
    header, start, line = b"", 0, 1
    while start < len(data):
        stop = data.find(b"\n", start) + 1 or len(data)
        text = data[start:stop].strip(b"\n")
        if text.strip() and not text.startswith(b"#"):
            if _is_header(text, header):
                return text, data[stop:], line + 1
            break
        header = text if text.strip() else header
        start, line = stop, line + 1
    return header, data[start:], line


def _is_header(line: bytes, comment: bytes) -> bool:
    """Whether the first line below the comments names columns: mostly no numbers, or integers that count or go up."""
    delimiter = _delimiter(line)
    if comment and len(_cells(comment, delimiter)) == len(line.split(delimiter)):
        return False  # the comment names the columns already
    cells = _cells(line, delimiter)
    cells = cells[_n_leading(cells) :]
    n_words = sum(_number(cell) is None for cell in cells)
    codes = [int(cell) for cell in cells if cell.isdecimal()]
    counts = codes in _counts(len(cells))
    goes_up = len(codes) == len(cells) >= 10 and all(a < b for a, b in pairwise(codes))
    return 2 * n_words > len(cells) or counts or goes_up


def _counts(n: int) -> tuple[list[int], list[int]]:
    """How people count n columns: from 0 and from 1."""
    return list(range(n)), list(range(1, n + 1))


def _n_leading(cells: Sequence[str]) -> int:
    """How many first columns of a header are no data."""
    return next((i for i, cell in enumerate(cells) if cell.lower() not in NOT_DATA), 0)


def _delimiter(text: bytes) -> bytes | None:
    """The delimiter of the first line; None stands for any run of blanks."""
    line = _first_line(text)
    return next((mark for mark in (b"\t", b",", b";") if mark in line), None)


def _first_line(text: bytes) -> bytes:
    """The first line that is not blank, without copying what follows it."""
    start = re.search(rb"\S", text)
    if start is None:
        return b""
    stop = text.find(b"\n", start.start())
    return text[text.rfind(b"\n", 0, start.start()) + 1 : stop if stop >= 0 else len(text)]


def _without_trailing_delimiter(
    body: bytes, cells: tuple[str, ...], delimiter: bytes | None
) -> tuple[bytes, tuple[str, ...]]:
    """AFNI ends each row with a tab: that is no empty last cell, unless the header names one."""
    first = _first_line(body)
    n_cells = first.count(delimiter) + 1 if delimiter else 0
    if delimiter and first.endswith(delimiter) and (len(cells) != n_cells or not cells[-1]):
        body = b"\n".join(line.removesuffix(delimiter) for line in body.split(b"\n"))
        cells = cells[: n_cells - 1]
    return body, cells


@lru_cache(maxsize=8)  # everybody in a dataset has the same header
def _cells(line: bytes, delimiter: bytes | None) -> tuple[str, ...]:
    return tuple(cell.decode("utf-8", "replace").strip(' "') for cell in line.split(delimiter))


def _number(cell: str) -> float | None:
    """The value of a cell, NaN when it says there is none, None when it is no number at all."""
    if "_" in cell:  # Python reads 1_1 as a number, nobody else does
        return None
    try:
        return float(cell) if cell not in ("", "n/a", "N/A", "NA") else float("nan")
    except ValueError:
        return None


@lru_cache(maxsize=8)
def _names(cells: tuple[str, ...], n_columns: int) -> tuple[str, ...] | None:
    """The region names of a header; one that merely counts names nothing."""
    names = [cell.lstrip("# ").removeprefix("Mean_") for cell in cells]
    if len(names) != n_columns or [int(name) for name in names if name.isdecimal()] in _counts(n_columns):
        return None
    return tuple(names)


# Eight ASCII digits sit in one 64-bit word; KEEP[n] leaves the values of the last n of them.
_KEEP = np.array([0x0F0F0F0F0F0F0F0F << 8 * (8 - n) & 0x0F0F0F0F0F0F0F0F for n in range(9)], dtype=np.uint64)
_POWERS = 10.0 ** np.arange(8)


def parse_decimals(body: bytes, delimiter: bytes | None) -> np.ndarray | None:
    r"""Parse rows of plain decimals all at once; None when a cell is anything else.

    With at most 8 digits before the point and 7 behind it, both the digits read as one integer and the power of ten
    below are exact floats, so one division rounds exactly as ``strtod`` does.

    >>> parse_decimals(b"1.50\t-0.25\n10.0\t.5\n", b"\t")
    array([[ 1.5 , -0.25],
           [10.  ,  0.5 ]])
    >>> parse_decimals(b"1.5\t2e3\n", b"\t") is None
    True
    """
    separator = delimiter or b" "
    n_columns = body.count(separator, 0, body.index(b"\n")) + 1
    text = np.frombuffer(b" " * 8 + body, dtype=np.uint8)
    chars = text[8:]
    marks = np.flatnonzero((chars < ord("/")) & (chars != ord("-")))  # points and separators must take turns
    if len(marks) % (2 * n_columns):
        return None
    points, ends = marks[0::2], marks[1::2]
    starts = np.concatenate([[0], ends[:-1] + 1])
    negative = chars[starts] == ord("-")
    whole, decimals = points - starts - negative, ends - points - 1
    separators = chars[ends].reshape(-1, n_columns)
    n_digits = np.count_nonzero(chars - np.uint8(ord("0")) < 10)
    plain = (
        (chars[points] == ord(".")).all()
        and (separators[:, :-1] == ord(separator)).all()
        and (separators[:, -1] == ord("\n")).all()
        and whole.min() >= 0
        and whole.max() <= 8
        and decimals.min() >= 1
        and decimals.max() <= 7
        and n_digits == len(chars) - len(marks) - np.count_nonzero(negative)
    )
    if not plain:
        return None
    words = np.ndarray((len(chars) + 1,), dtype="<u8", buffer=text, strides=(1,))  # word i: the 8 bytes before chars[i]
    scale = _POWERS[decimals]
    values = _digits(words[points], whole)
    values *= scale  # in place throughout: fresh memory costs more than the arithmetic
    values += _digits(words[ends], decimals)
    values /= scale
    values *= 1.0 - 2.0 * negative
    return values.reshape(-1, n_columns)


def _digits(words: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The last ``count`` ASCII digits of each word as a number: pairs are joined, then fours, then all eight."""
    words &= _KEEP[count]
    for tens, bits, lanes in (10, 8, 0x00FF00FF00FF00FF), (100, 16, 0x0000FFFF0000FFFF), (10_000, 32, 0xFFFFFFFF):
        words *= np.uint64(tens << bits | 1)
        words >>= np.uint64(bits)
        words &= np.uint64(lanes)
    return words.astype(float)


def _parse_carefully(text: str, delimiter: bytes | None, path: Path, first_line: int, n_leading: int) -> np.ndarray:
    mark = delimiter.decode() if delimiter else None
    edge = re.escape(mark) if mark else r"\s"
    rows = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    missing = re.compile(rf"(?<![^{edge}])(?:n/a|N/A|NA{'|' if mark else ''})(?![^{edge}])")
    try:
        return np.loadtxt([missing.sub("nan", row) for row in rows], delimiter=mark, ndmin=2, comments=None)
    except ValueError as error:
        problem = _first_problem(text, mark, first_line, n_leading) or str(error)
        raise ReaderError(f"{path}, {problem}") from error


def _first_problem(text: str, mark: str | None, first_line: int, n_leading: int) -> str | None:
    """Where the first unreadable row or cell stands, in the line and column numbers an editor shows."""
    width = None
    for line, row in enumerate(text.split("\n"), start=first_line):
        if not row.strip() or row.startswith("#"):
            continue
        cells = row.split(mark)
        width = width or len(cells)
        if len(cells) != width:
            return f"line {line} has {len(cells)} cells where the first row has {width}: truncated, or two files in one"
        for column, cell in enumerate(cells, start=1 + n_leading):
            if _number(cell.strip()) is None:
                return f"line {line}, column {column} holds {cell.strip()!r}, which is no number; correct or delete it"
    return None
