"""Turn a valid file into a bad one: damage, hostile numbers, hostile names."""

import random
from collections.abc import Callable

NAMES = [
    "../../x",
    "/etc/passwd",
    "..",
    "a/b",
    "\0",
    "x" * 300,
    "ü" * 200,
    "北京",
    "\u202e",
    "=1+1",
    "",
    " ",
    "CON",
    "sub-",
]
NUMBERS = [
    "1e999",
    "-inf",
    "nan",
    "1_0",
    "0x10",
    "9" * 400,
    "-9999",
    "1e-400",
    "٣",
    "²",
    "1,5",
    "+-1",
    "1.2.3",
    "{}",
    "[[[",
]
TOKENS = [*NAMES, *NUMBERS, '"', "'", "\r", "\n", "\t", ",", ";", "#", ":", "- ", "&a *a", "!!python/object:os.system"]
LIMITS = [0, 1, -1, 255, 2**15, 2**31 - 1, -(2**31), 10**9, 2**32 - 1, 2**40, 2**63 - 1]

Mutation = Callable[[bytes, random.Random], bytes]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """A few bits turned."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Cut short, anywhere or near the beginning."""
    return data[: rng.randrange(rng.choice([len(data), min(len(data), 200)]))]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A part removed, doubled, or written over another."""
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return rng.choice([data[:a] + data[b:], data[:b] + data[a:], data[:a] + data[b:c] + data[a:b] + data[c:]])


def overwrite_number(data: bytes, rng: random.Random) -> bytes:
    """A binary number replaced by one at the edge of its type, where headers are."""
    size = rng.choice([1, 2, 4, 8])
    at = rng.randrange(rng.choice([len(data), min(len(data), 400)]))
    value = rng.choice(LIMITS) % 2 ** (8 * size)
    return data[:at] + value.to_bytes(size, rng.choice(["little", "big"])) + data[at + size :]


def insert_token(data: bytes, rng: random.Random) -> bytes:
    """A hostile name, number or mark put in."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + _token(rng) + data[at + rng.choice([0, 0, 1, 5]) :]


def replace_cell(data: bytes, rng: random.Random) -> bytes:
    """A cell of a table replaced."""
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    mark = next((mark for mark in (b"\t", b",", b";", b":", b" ") if mark in lines[i]), b"\t")
    cells = lines[i].split(mark)
    cells[rng.randrange(len(cells))] = _token(rng)
    lines[i] = mark.join(cells)
    return b"\n".join(lines)


def shuffle_lines(data: bytes, rng: random.Random) -> bytes:
    """Lines dropped, doubled, exchanged or joined."""
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(4)
    if how == 0:
        del lines[i]
    elif how == 1:
        lines.insert(j, lines[i])
    elif how == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        lines[i] += lines[j]
        del lines[j]
    return b"\n".join(lines)


def long_line(data: bytes, rng: random.Random) -> bytes:
    """One line without an end."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"1.5\t", b"9", b"a,", b'"', b"[", b"{"]) * rng.choice([1_000, 20_000]) + data[at:]


def anything(data: bytes, rng: random.Random) -> bytes:
    """Nothing, noise, or a table of random cells."""
    how = rng.randrange(3)
    if how == 0:
        return b""
    if how == 1:
        return rng.randbytes(rng.randrange(1, 300))
    rows = [b"\t".join(_token(rng) for _ in range(rng.randrange(1, 6))) for _ in range(rng.randrange(1, 6))]
    return b"\n".join(rows)


def _token(rng: random.Random) -> bytes:
    token = rng.choice(TOKENS) if rng.random() < 0.7 else str(rng.choice([rng.gauss(0, 1), rng.randrange(10)]))
    return token.encode()


MUTATIONS: list[Mutation] = [
    flip_bits,
    truncate,
    splice,
    overwrite_number,
    insert_token,
    replace_cell,
    shuffle_lines,
    long_line,
    anything,
]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to three mutations; long lines only now and then, because they are slow to read."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        mutation = rng.choice(MUTATIONS)
        if data and (mutation is not long_line or rng.random() < 0.2):
            data = mutation(data, rng)
    return data


def mutated_values(content: object, rng: random.Random) -> object:
    """JSON with one value, key or item changed: for files whose checksum is made right again."""
    if isinstance(content, dict) and content and rng.random() < 0.9:
        key = rng.choice(list(content))
        if rng.random() < 0.15:
            return {k: v for k, v in content.items() if k != key}
        return {**content, key: mutated_values(content[key], rng)}
    if isinstance(content, list) and content and rng.random() < 0.8:
        i = rng.randrange(len(content))
        return [*content[:i], mutated_values(content[i], rng), *content[i + (rng.random() < 0.8) :]]
    return rng.choice(
        [None, True, 0, -1, 10**9, 2**70, 0.5, 1e308, "", "../../x", "\0", "x" * 999, [], [[1]], {}, {"a": 1}]
    )
