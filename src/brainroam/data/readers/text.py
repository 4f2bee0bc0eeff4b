"""Numbers from text: the one place where a ``.1D``, ``.csv``, ``.tsv`` or ``.txt`` series becomes an array.

A file is an optional header and one row per volume. What the header may look like in practice:

- ``#2001<TAB>#2002`` (AFNI, ABIDE), or a first line that is not all numbers (most tables): the region names;
- ``0<TAB>1<TAB>2`` (``DataFrame.to_csv``, giga_connectome): numbers, yet a header, and never a volume;
- ``File<TAB>Sub-brick<TAB>Mean_2001`` (AFNI ``3dROIstats``) or an empty first cell (a saved index): columns that
  are no data and are dropped;
- one name fewer than there are columns (``write.table`` of R): the first column counts the rows and is dropped;
- rows that are named like the columns (a connectivity matrix, BIDS ``relmat``): these names are dropped.

``n/a`` and empty cells become NaN. Decimal commas are read where another delimiter stands between the cells.

Text files come in the encodings people have: UTF-8, UTF-16, what Windows writes in Europe and East Asia; also gzipped.
A file that is not UTF-8 is decoded in every way that fits. One that gives words such as 诊断 or 年齢 is right; else

    score = share of the letters beyond ASCII that the encoding's language uses often,

which for an encoding of East Asia are its first level of characters and for Latin-1 letters beside letters of ASCII.
"""

import codecs
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from brainroam.data.names import FOREIGN
from brainroam.errors import ReaderError

MAX_UNPACKED = 2_000_000_000
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LOOKED_AT = 20_000  # bytes that tell the encoding
LATIN = "cp1252"
#: The first bytes of characters in daily use: Hangul; kana and kanji of level 1; hanzi of level 1. Korean is tried
#: first, because its syllables are hanzi in Chinese encodings while hardly any Chinese text is all Hangul.
COMMON = {
    "cp949": [(0xB0, 0xC8)],
    "cp932": [(0x82, 0x83), (0x88, 0x97)],
    "euc_jp": [(0xA4, 0xA5), (0xB0, 0xCF)],
    "gb18030": [(0xB0, 0xD7)],
    "big5": [(0xA4, 0xC6)],
}
LANGUAGES = {
    "cp949": "Korean",
    "cp932": "Japanese (Shift-JIS)",
    "euc_jp": "Japanese (EUC)",
    "gb18030": "Chinese (GBK)",
    "big5": "Chinese (Big5)",
    LATIN: "Western European",
}
NOT_DATA = {"", "file", "sub-brick", "index", "unnamed: 0"}


def utf8(path: Path) -> bytes:
    """The content of a text file without its byte order mark; UTF-16 becomes UTF-8, other encodings stay as they are.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.txt"
    >>> _ = file.write_bytes("id;größe".encode("utf-16"))
    >>> utf8(file).decode()
    'id;größe'
    """
    data = _unpack(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    return _without_mark(data)


def head(path: Path) -> str:
    """The beginning of a text file."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        data = _without_mark(file.read(20_000))
    return data.decode(encoding_of(data[: data.rfind(b"\n") + 1] or data), "replace")


def decode(path: Path) -> str:
    """The content of a text file as text, whatever its encoding."""
    data = utf8(path)
    return data.decode(encoding_of(data), "replace")


def language_of(path: Path) -> str | None:
    """In which encoding a text file is read, in words; None for UTF-8, which is never in doubt."""
    return LANGUAGES.get(encoding_of(utf8(path)))


def encoding_of(data: bytes) -> str:
    """The encoding of some text.

    >>> encoding_of("编号,诊断,年龄".encode("gbk")), encoding_of("被験者,年齢".encode("cp932"))
    ('gb18030', 'cp932')
    >>> encoding_of("번호,성별,나이".encode("euc-kr")), encoding_of("id;Größe".encode("latin-1"))
    ('cp949', 'cp1252')
    """
    try:
        data.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError:
        pass
    data = data[: data.rfind(b"\n", 0, LOOKED_AT) + 1] or data
    texts = {name: text for name in COMMON if (text := _strictly(data, name)) is not None}
    n_words = {name: sum(word in text for word in FOREIGN) for name, text in texts.items()}
    best = max(texts, key=lambda name: (n_words[name], _share_common(texts[name], name)), default=None)
    if best is not None and (n_words[best] or _share_common(texts[best], best) > _share_latin(data)):
        return best
    return LATIN


def _strictly(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except UnicodeDecodeError:
        return None


def _share_common(text: str, name: str) -> float:
    letters = [c.encode(name) for c in text if not c.isascii() and c.isalpha()]
    common = [len(c) == 2 and any(low <= c[0] <= high for low, high in COMMON[name]) for c in letters]
    return sum(common) / len(common) if common else 0.0


def _share_latin(data: bytes) -> float:
    """Share of the letters beyond ASCII that stand beside a letter of ASCII, as in Größe."""
    text = data.decode(LATIN, "replace")
    letters = [c for c in text if not c.isascii()]
    beside = re.findall(r"(?<=[A-Za-z])[À-ÿ]{1,2}(?![À-ÿ])|(?<![À-ÿ])[À-ÿ]{1,2}(?=[A-Za-z])", text)
    return sum(map(len, beside)) / len(letters) if letters else 0.0


def _without_mark(data: bytes) -> bytes:
    if data.startswith(UTF16):
        return data.decode("utf-16", "replace").encode()
    half = data[1:LOOKED_AT:2]
    if len(half) > 8 and half.count(0) > 0.3 * len(half) and 0 not in data[0:LOOKED_AT:2]:
        return data.decode("utf-16-le", "replace").encode()  # without the mark: every second byte of ASCII is 0
    return data.removeprefix(codecs.BOM_UTF8)


def _unpack(path: Path) -> bytes:
    with gzip.open(path) as file:
        data = file.read(MAX_UNPACKED + 1)
    if len(data) > MAX_UNPACKED:
        raise ReaderError(f"{path} unpacks to more than {MAX_UNPACKED / 1e9:.0f} GB; it was not read")
    return data


@dataclass(frozen=True)
class Series:
    """One person's series.

    ``values`` (T, P), the region ``names`` if the file told them, ``tr`` in seconds or NaN, and ``notes`` on what was
    done to them that people should know.
    """

    values: np.ndarray
    names: tuple[str, ...] | None = None
    tr: float = float("nan")
    notes: tuple[str, ...] = ()


def read_text(path: Path) -> Series:
    """Read one text file of time x regions."""
    data = utf8(path)
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
    n_columns = len(_first_line(body).split(delimiter))
    n_leading = _n_leading(cells)
    one_fewer = len(cells) == n_columns - 1 and not header.startswith(b"#")
    if one_fewer and (_counts_rows(body, delimiter) or _names_rows(body, delimiter, cells)):
        n_leading, cells = 1, ("", *cells)
    elif len(cells) == n_columns and _names_rows(body, delimiter, cells[1:]):
        n_leading = 1
    elif header and not header.startswith(b"#") and len(cells) != n_columns:
        raise ReaderError(
            f"{path}: the header names {len(cells)} columns but the first row has {n_columns} cells; "
            "correct the header, and use one delimiter in the whole file"
        )
    if n_leading:
        body = b"\n".join(line.split(delimiter, n_leading)[-1] for line in body.splitlines())
    values = _parse(body.decode("utf-8", "replace"), delimiter, path, first_line, n_leading)
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
    n_words = sum(_parsed(cell.replace(",", ".")) is None for cell in cells)
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
    return next((mark for mark in (b"\t", b";", b",") if mark in line), None)


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


def _parsed(cell: str) -> float | None:
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


def _counts_rows(body: bytes, delimiter: bytes | None) -> bool:
    """Whether the first cells are 1, 2, 3, ... or 0, 1, 2, ..., with or without quotes."""
    first = [line.split(delimiter)[0].strip(b' "') for line in body.split(b"\n") if line.strip()]
    return any(first == [b"%d" % k for k in range(start, start + len(first))] for start in (0, 1))


def _names_rows(body: bytes, delimiter: bytes | None, names: tuple[str, ...]) -> bool:
    """Whether the first cells are the names of the columns, as in a matrix of regions x regions."""
    if _parsed(_cells(_first_line(body), delimiter)[0].replace(",", ".")) is not None:
        return False  # as in nearly every file: no need to look at all rows
    first = [line.split(delimiter)[0] for line in body.split(b"\n") if line.strip()]
    return tuple(cell.decode("utf-8", "replace").strip(' "') for cell in first) == names


def _parse(text: str, delimiter: bytes | None, path: Path, first_line: int, n_leading: int) -> np.ndarray:
    mark = delimiter.decode() if delimiter else None
    if mark != "," and "," in text and "." not in text:
        text = text.replace(",", ".")
    rows = _rows(text, mark)
    try:
        return _numbers(rows, mark)
    except ValueError:
        pass  # some cells may be missing
    edge = re.escape(mark) if mark else r"\s"
    missing = re.compile(rf"(?<![^{edge}])(?:n/a|N/A|NA{'|' if mark else ''})(?![^{edge}])")
    try:
        return _numbers([missing.sub("nan", row) for row in rows], mark)
    except ValueError as error:
        problem = _first_problem(text, mark, first_line, n_leading) or str(error)
        raise ReaderError(f"{path}, {problem}") from error


def _rows(text: str, mark: str | None) -> list[str]:
    """The rows; those of empty cells only where they make a square: the regions that somebody lacks in a matrix.

    >>> _rows("1,,0.2\\n,,\\n0.2,,1", ","), _rows("1,2\\n,\\n3,4\\n5,6", ",")
    (['1,,0.2', ',,', '0.2,,1'], ['1,2', '3,4', '5,6'])
    """
    rows = [row for row in text.split("\n") if row.strip(" ") and not row.startswith("#")]
    filled = [row for row in rows if row.strip(f"{mark or ''} ")]
    return rows if filled and len(rows) == len(filled[0].split(mark)) else filled


def _numbers(rows: list[str], mark: str | None) -> np.ndarray:
    return np.loadtxt(rows, delimiter=mark, ndmin=2, comments=None, quotechar='"')


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
            if _parsed(cell.strip()) is None:
                return f"line {line}, column {column} holds {cell.strip()!r}, not a number; correct or delete it"
    return None
