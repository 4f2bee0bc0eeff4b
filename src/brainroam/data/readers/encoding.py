"""Text files in the encodings people have: UTF-8, UTF-16, what Windows writes in Europe and East Asia; also gzipped.

A file that is not UTF-8 is decoded in every way that fits. One that gives words such as 诊断 or 年齢 is right; else

    score = share of the letters beyond ASCII that the encoding's language uses often,

which for an encoding of East Asia are its first level of characters and for Latin-1 letters beside letters of ASCII.
"""

import codecs
import gzip
import re
from pathlib import Path

from brainroam.data.vocabulary import FOREIGN
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


def utf8(path: Path) -> bytes:
    """The content of a text file without its byte order mark; UTF-16 becomes UTF-8, other encodings stay as they are.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.txt"
    >>> _ = file.write_bytes("id;größe".encode("utf-16"))
    >>> utf8(file).decode()
    'id;größe'
    """
    data = _unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    return _without_mark(data)


def head(path: Path, size: int = 20_000) -> str:
    """The beginning of a text file."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        data = _without_mark(file.read(size))
    return data.decode(encoding_of(data[: data.rfind(b"\n") + 1] or data), "replace")


def decoded(path: Path) -> str:
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


def _unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        data = file.read(MAX_UNPACKED + 1)
    if len(data) > MAX_UNPACKED:
        raise ReaderError(f"{path} unpacks to more than {MAX_UNPACKED / 1e9:.0f} GB; it was not read")
    return data
