"""Text files in the encodings people have: UTF-8, UTF-16 of Excel, Latin-1, and any of them compressed by gzip."""

import codecs
import gzip
from pathlib import Path

from brainroam.errors import ReaderError

MAX_UNPACKED = 2_000_000_000
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def utf8(path: Path) -> bytes:
    """The content of a text file without its byte order mark; UTF-16 becomes UTF-8, other encodings stay as they are.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.txt"
    >>> _ = file.write_bytes("id;größe".encode("utf-16"))
    >>> utf8(file).decode()
    'id;größe'
    """
    data = _unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    if data.startswith(UTF16):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def head(path: Path, size: int = 20_000) -> str:
    """The beginning of a text file."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        data = file.read(size)
    return data.decode("utf-16" if data.startswith(UTF16) else "utf-8-sig", "replace")


def decoded(path: Path) -> str:
    """The content of a text file as text: UTF-8, or else Latin-1, which Excel on Windows writes."""
    data = utf8(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        data = file.read(MAX_UNPACKED + 1)
    if len(data) > MAX_UNPACKED:
        raise ReaderError(f"{path} unpacks to more than {MAX_UNPACKED / 1e9:.0f} GB; it was not read")
    return data
