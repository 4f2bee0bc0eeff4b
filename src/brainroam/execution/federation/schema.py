"""What stands in a file between hospital and pool: one table of arrays, with shapes, kinds of numbers and ranges.

A file is refused where an array is missing, has no place in it, has another shape or kind of numbers, or holds numbers
that cannot be: AUCs are from 0 to 1, squares are not negative, scatter is that of people, bins are of as many people as
the hospital discloses at least. NaN stands for what is not known, and only where something may be unknown.

Shapes are told by letters: d covariates, m edges of all, n edges asked for, c counts (2; of several classes their
number k, of a number 1), k rows by class (of a number 2), s hospitals, * any.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brainroam.data.target import CLASSES, KINDS, NUMBER, ORDERED, TWO
from brainroam.errors import CONTROL, listed, visible
from brainroam.utils.model_files import part

if TYPE_CHECKING:
    from brainroam.execution.federation.files import Message

SUMMARY, REQUEST = "site summary", "request"
MEASURED = ("series", "matrices", "table")  # what edges can be of; those of a table are its columns
TOLD_OF_BLOCK = ("atlas", "measure", "withheld")
BUDGET = ("epsilon", "delta", "clip")
LARGE, PEOPLE, REGIONS = 1e18, 10**7, 10**5
EPS = 1e-9  # of sums: rounding


@dataclass(frozen=True)
class Array:
    """The shape of an array, the range of its numbers, their kind, and whether some may be unknown (NaN)."""

    shape: tuple[str | int, ...]
    low: float = -LARGE
    high: float = LARGE
    kind: str = "f"
    unknown: bool = False


COUNTS = Array(("c",), 0, PEOPLE, "i")
SQUARES = LARGE**2
ARRAYS: dict[tuple[str, int], dict[str, Array]] = {
    (SUMMARY, 1): {
        "counts": COUNTS,
        "covariate_mean": Array(("k", "d"), unknown=True),
        "covariate_scatter": Array(("d", "d"), -SQUARES, SQUARES),
        "contrast": Array(("m",), unknown=True),
        "fit.intercept": Array(("m",), unknown=True),
        "fit.coef": Array(("d", "m"), unknown=True),
        "fit.variance": Array(("d", "m"), 0, SQUARES, unknown=True),
        "fit.centre": Array(("d",)),
        "fit.n_people": Array((), 1, PEOPLE, "i"),
    },
    (SUMMARY, 2): {
        "counts": COUNTS,
        "edges": Array(("n",), 0, kind="i"),
        "factor": Array(("*", "n")),
        "with_covariates": Array(("d", "n"), -SQUARES, SQUARES),
        "sums": Array(("k", "n"), unknown=True),
    },
    (SUMMARY, 3): {
        "counts": COUNTS,
        "auc": Array((), 0, 1),
        "mean": Array((2,)),
        "square": Array((2,), 0),
        "bins": Array(("*", 3)),
    },
    (REQUEST, 2): {"edges": Array(("n",), 0, kind="i"), "centre": Array(("n",)), "priority": Array(("n",), 0)},
    (REQUEST, 3): {},
}
#: What is different where the target is a number, an order, or of several classes.
OF_NUMBERS = {
    1: {"target": Array((2,))},
    3: {"counts": COUNTS, "mean": Array((2,)), "moments": Array((2, 2), -SQUARES, SQUARES)},
}
OF_ORDERS = {1: {"steps": Array(("*", 2))}}
OF_CLASSES = {
    1: {"contrast": Array(("k", "m"), unknown=True)},
    3: {
        "counts": COUNTS,
        "auc": Array(("k",), 0, 1),
        "auc_variance": Array((2,), 0, 1),
        "mean": Array(("k", "k")),
        "scatter": Array(("k", "k", "k"), -SQUARES, SQUARES),
    },
}
#: Arrays that are told besides, or otherwise, in round 1; and those of round 3, by kind of target.
FIRST: dict[str, dict[str, Array]] = {
    TWO: {},
    CLASSES: OF_CLASSES[1],
    NUMBER: OF_NUMBERS[1],
    ORDERED: OF_NUMBERS[1] | OF_ORDERS[1],
}
THIRD = {TWO: ARRAYS[SUMMARY, 3], CLASSES: OF_CLASSES[3], NUMBER: OF_NUMBERS[3], ORDERED: OF_NUMBERS[3]}
#: Letters of shapes: k rows by class and c counts, where it is not the number of classes.
ROWS = {TWO: 2, NUMBER: 2, ORDERED: 2}
N_COUNTS = {TWO: 2, NUMBER: 1, ORDERED: 1}
WEIGHTS: dict[str, tuple[str, ...]] = {TWO: ("n",), CLASSES: ("n", "k"), NUMBER: ("n",), ORDERED: ("n",)}
LACKING = {CLASSES}  # sites need not have all classes in later rounds
#: Under masks (`brainroam.execution.federation.masked`) other arrays stand in rounds 2 and 3.
MASKED: dict[tuple[str, int], dict[str, Array]] = {
    (SUMMARY, 2): {"counts": COUNTS, "masked": Array(("*",), 0, np.inf, "u")},
    (REQUEST, 2): {"people": Array(("s",), 1, PEOPLE, "i"), "target_unit": Array((), 1e-300)},
    (REQUEST, 3): {},
}
OPTIONAL = {
    (SUMMARY, 1): re.compile(r"spread|fit\.absorbed\.[0-9]{1,6}\.(columns|kept|dropped|alpha)"),
    (SUMMARY, 3): re.compile("moved"),
    (REQUEST, 3): re.compile(r"[0-9]{1,6}\.(edges|weights|mean_intercept|mean_coef|covariate_mean|covariate_std)"),
}
OPTIONAL_MASKED = {
    (REQUEST, 2): re.compile(r"part\.[0-9]{1,6}\.(edges|unit)|slopes\.[0-9]{1,6}"),
    (REQUEST, 3): re.compile(
        r"[0-9]{1,6}\.(edges|mean_intercept|mean_coef|covariate_mean|covariate_std|sum|unit|counts|penalties|target_unit|"
        r"levels|whole)"
    ),
}
READING: dict[str, Array] = {
    "edges": Array(("n",), 0, kind="i"),
    "mean_intercept": Array(("n",)),
    "mean_coef": Array(("d", "n")),
    "covariate_mean": Array(("d",)),
    "covariate_std": Array(("d",), 1e-300),
}
OPEN_READING = READING | {"weights": Array(("n",))}
MASKED_READING = READING | {
    "sum": Array(("*",), 0, np.inf, "u"),
    "unit": Array(("n",), 1e-300),
    "counts": COUNTS,
    "penalties": Array(("*",), 1e-9),
    "target_unit": Array((), 1e-300),
    "whole": Array(("n",)),
}
LEVELS = Array(("*", "n+1"))


def require_schema(message: "Message", what: str) -> None:
    """A `ValueError` unless names, shapes and numbers are those of a file of this kind and round."""
    if message.blocks:
        _require_header(replace(message, covariates=[*message.blocks], blocks={}))
        if any(set(facts) != set(TOLD_OF_BLOCK) for facts in message.blocks.values()):
            raise ValueError(f"of each block it tells {listed(TOLD_OF_BLOCK)}")
        if (what, message.round) != (SUMMARY, 3):
            parts = message.parts.values()
            if sum(len(own.arrays) for own in parts) != len(message.arrays):
                raise ValueError("it has arrays of a block that it does not name")
            for own in parts:
                require_schema(own, what)
            return
    if message.what != what or (message.what, message.round) not in ARRAYS:
        raise ValueError(f"it is a {visible(message.what)} of round {visible(message.round)}")
    _require_header(message)
    if what == SUMMARY and not message.site:
        raise ValueError("it names no site")
    expected, optional = _expected(message)
    odd = {name for name in message.arrays if name not in expected and not (optional and optional.fullmatch(name))}
    if missing := odd | (set(expected) - set(message.arrays)):
        raise ValueError(f"the arrays {visible(sorted(missing))} are missing, or have no place in it")
    sizes = sizes_of(message)
    for name, array in expected.items():
        _require(name, message.arrays[name], array, sizes)
    _CHECKS[message.what, message.round](message, sizes)


def is_masked(message: "Message") -> bool:
    """Whether a file is of a round under masks."""
    return bool(message.keys) and message.round > 1


def sizes_of(message: "Message") -> dict[str, int]:
    """What the letters of shapes stand for."""
    target, regions = message.predicts, int(message.atlas["n_regions"])
    return {
        "k": ROWS.get(target.kind, len(target.classes)),
        "c": N_COUNTS.get(target.kind, len(target.classes)),
        "d": len(message.covariates),
        "m": regions if message.measure == "table" else regions * (regions - 1) // 2,
        "n": len(np.atleast_1d(message.arrays.get("edges", ()))),
        "s": len(message.sites),
    }


def _expected(message: "Message") -> tuple[dict[str, Array], re.Pattern[str] | None]:
    kind, target = (message.what, message.round), message.predicts
    if is_masked(message) and kind in MASKED:
        return MASKED[kind], OPTIONAL_MASKED.get(kind)
    expected = {
        (SUMMARY, 1): ARRAYS[SUMMARY, 1] | FIRST[target.kind],
        (SUMMARY, 3): THIRD[target.kind],
    }.get(kind, ARRAYS[kind])
    if message.blocks:  # the third summary, of the sum of all blocks
        expected = expected | {"without": Array((len(message.blocks),), -1, 1)}
    return expected, OPTIONAL.get(kind)


def _require(name: str, array: np.ndarray, wanted: Array, sizes: Mapping[str, int]) -> None:
    """Refuse another shape, kind of numbers, or number out of range."""
    if array.dtype.kind != wanted.kind:
        raise ValueError(f"{name} holds {array.dtype} numbers, which have no place in it")
    shape = tuple(sizes["n"] + 1 if at == "n+1" else sizes.get(str(at), at) for at in wanted.shape)
    if array.ndim != len(shape) or any(want not in ("*", have) for want, have in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
    known = array[~np.isnan(array)] if wanted.unknown else array
    # Written so that NaN fails.
    if not ((known >= wanted.low) & (known <= wanted.high)).all():
        raise ValueError(f"{name} holds numbers that are not finite, or not from {wanted.low:g} to {wanted.high:g}")


def _require_first(message: "Message", sizes: Mapping[str, int]) -> None:
    arrays, d = message.arrays, sizes["d"]
    counts = arrays["counts"]
    if counts.min() < 1 or arrays["fit.n_people"] != counts.sum():
        raise ValueError("counts: it needs people of every class, as many as fit.n_people says")
    _require_scatter("covariate_scatter", arrays["covariate_scatter"])
    for name in ("contrast", "spread", "fit.intercept"):
        if name in arrays and np.isnan(arrays[name]).mean() > 0.5:
            raise ValueError(f"{name} is unknown for most edges")
    if "spread" in arrays:
        _require("spread", arrays["spread"], Array(("m",), 0, unknown=True), sizes)
    if "target" in arrays and arrays["target"][1] < 0:
        raise ValueError("target: the spread of a number is below 0")
    if "steps" in arrays:
        _require_steps(arrays, message.min_count)
    groups = {name.split(".")[2] for name in arrays if name.startswith("fit.absorbed.")}
    for group in sorted(groups):
        _require_absorbed(part(arrays, f"fit.absorbed.{group}"), sizes["m"], d)
    if message.keys and set(message.keys) != {message.site}:
        raise ValueError("it holds the key of another hospital")


def _require_absorbed(group: Mapping[str, np.ndarray], m: int, d: int) -> None:
    """Which columns of the design a hospital cannot tell apart, on which edges."""
    if set(group) != {"columns", "kept", "dropped", "alpha"}:
        raise ValueError("it tells of covariates that cannot be told apart, but not whole")
    sizes = {"q": len(np.atleast_1d(group["kept"])), "r": len(np.atleast_1d(group["dropped"]))}
    _require("fit.absorbed.columns", group["columns"], Array(("*",), 0, m - 1, "i"), sizes)
    _require("fit.absorbed.kept", group["kept"], Array(("q",), 0, d, "i"), sizes)
    _require("fit.absorbed.dropped", group["dropped"], Array(("r",), 1, d, "i"), sizes)
    _require("fit.absorbed.alpha", group["alpha"], Array(("q", "r")), sizes)


def _require_second(message: "Message", sizes: Mapping[str, int]) -> None:
    counts = message.arrays["counts"]
    if not counts.any() or (message.predicts.kind not in LACKING and counts.min() < 1):
        raise ValueError("it needs people of every class")
    if is_masked(message):
        return
    _require_edges("edges", message.arrays["edges"], sizes["m"])
    if len(message.arrays["factor"]) > max(int(counts.sum()), sizes["n"]):
        raise ValueError("factor has more components than there are people")


def _require_third(message: "Message", sizes: Mapping[str, int]) -> None:
    arrays = message.arrays
    counts = arrays["counts"]
    if not counts.any() or (message.predicts.kind not in LACKING and counts.min() < 1):
        raise ValueError("it needs people of every class")
    if "moments" in arrays:
        _require_scatter("moments", arrays["moments"])
    for scatter in arrays.get("scatter", ()):
        _require_scatter("scatter", scatter)
    if "moved" in arrays:
        _require("moved", arrays["moved"], Array((), 0), sizes)
    bins = arrays.get("bins", np.zeros((0, 3)))
    if len(bins):
        people = [bins[bins[:, 0] == label, 1].sum() for label in (0, 1)]
        if not np.array_equal(people, counts) or bins[:, 1].min() < message.min_count:
            raise ValueError(f"bins must be of all people, {message.min_count} or more of one class each")


def _require_second_request(message: "Message", sizes: Mapping[str, int]) -> None:
    arrays = message.arrays
    if not is_masked(message):
        _require_edges("edges", arrays["edges"], sizes["m"])
        return
    _require_keys(message)
    for name, array in arrays.items():
        first, _, rest = name.partition(".")
        if first == "part":
            position, n = (
                int(rest.partition(".")[0]),
                len(np.atleast_1d(arrays.get(f"part.{rest.partition('.')[0]}.edges", ()))),
            )
            if position > sizes["s"] or not n:
                raise ValueError(f"there is no site for the part {position}, or it has no edges")
            if name.endswith("edges"):
                _require(name, array, Array(("n",), 0, kind="i"), {"n": n})
                _require_edges(name, array, sizes["m"])
            else:
                _require(name, array, Array(("n",), 1e-300), {"n": n})
        elif first == "slopes":
            _require(name, array, Array(("*",), 0, 255, "u"), sizes)
    if {f"slopes.{k}" for k in range(sizes["s"])} - set(arrays) or "part.0.edges" not in arrays:
        raise ValueError("it lacks what every hospital needs to answer")
    for name in [name for name in arrays if name.startswith("part.") and name.endswith("edges")]:
        if name.removesuffix("edges") + "unit" not in arrays:
            raise ValueError("it lacks the units of some edges")


def _require_third_request(message: "Message", sizes: Mapping[str, int]) -> None:
    """Each site's reading whole: what is read, and what is taken off before."""
    expected = MASKED_READING if is_masked(message) else OPEN_READING
    if is_masked(message):
        _require_keys(message)
    target = message.predicts
    for position in {int(name.partition(".")[0]) for name in message.arrays}:
        if position >= sizes["s"]:
            raise ValueError(f"there is no site for the reading {position}")
        reading = part(message.arrays, str(position))
        wanted = dict(expected)
        wanted["whole" if is_masked(message) else "weights"] = Array(WEIGHTS[target.kind])
        if "levels" in reading:
            wanted["levels"] = LEVELS
        if set(wanted) != set(reading):
            raise ValueError(f"the reading {position} is not whole")
        here = {**sizes, "n": len(np.atleast_1d(reading["edges"]))}
        for name, array in wanted.items():
            _require(f"{position}.{name}", reading[name], array, here)
        _require_edges(f"{position}.edges", reading["edges"], sizes["m"])
        if "sum" in reading:
            n = here["n"]
            if len(reading["sum"]) != n * (n + 1) // 2 + (sizes["k"] + 1) * n:
                raise ValueError(f"{position}.sum has another length than its edges give")


_CHECKS = {
    (SUMMARY, 1): _require_first,
    (SUMMARY, 2): _require_second,
    (SUMMARY, 3): _require_third,
    (REQUEST, 2): _require_second_request,
    (REQUEST, 3): _require_third_request,
}


def _require_header(message: "Message") -> None:
    """Names are text of one line, the sites of a request different ones, and what is withheld is told in words."""
    texts = [message.site, message.request, message.version, message.settings.kind, message.settings.contrast]
    texts += [message.sums, *message.protection, *message.keys, *message.keys.values()]
    texts += [message.atlas["name"], message.atlas["labels_sha256"], *message.withheld, *message.withheld.values()]
    texts += [message.target["name"], message.target["transform"], *message.target["classes"]]
    if message.target["kind"] not in KINDS or len(set(message.target["classes"])) < len(message.target["classes"]):
        raise ValueError(f"its target is no {listed(KINDS)}, or a class stands twice")
    names = [*message.covariates, *message.sites]
    if message.measure not in MEASURED:
        raise ValueError(f"edges are of {listed(MEASURED)}, not of {visible(message.measure)}")
    if not all(isinstance(text, str) for text in [*texts, *names]):
        raise ValueError("names must be text")
    if any(CONTROL.search(text) for text in [*texts, *names]):
        raise ValueError("a line end or another control character stands in a name")
    if set(message.protection) - set(BUDGET):
        raise ValueError(f"a budget is of {listed(BUDGET)}")
    for some in (message.covariates, message.sites):
        if len(set(some)) < len(some):
            raise ValueError(f"{listed(some)}: a name stands twice")
    for what, number, low, high in (
        ("a number of regions", message.atlas["n_regions"], 1, REGIONS),
        ("the smallest count", message.min_count, 0, PEOPLE),
    ):
        if type(number) is not int or not low <= number <= high:
            raise ValueError(f"{what} is a whole number from {low} to {high}, not {visible(number)}")
    if not all(type(number) in (int, float) and 0 < number <= LARGE for number in message.protection.values()):
        raise ValueError("a budget is of numbers above 0")


def _require_keys(message: "Message") -> None:
    """The keys of all hospitals and of the pool, each of 32 bytes."""
    keys: dict[str, Any] = message.keys
    if set(keys) != {"", *message.sites} or not all(re.fullmatch("[0-9a-f]{64}", key) for key in keys.values()):
        raise ValueError("it needs one key of each hospital that it asks")


def _require_edges(name: str, edges: np.ndarray, n_edges: int) -> None:
    if edges.ndim != 1 or not len(edges) or edges[0] < 0 or edges[-1] >= n_edges or (np.diff(edges) <= 0).any():
        raise ValueError(f"{name} must be different edges from 0 to {n_edges - 1}, ascending")


def _require_scatter(name: str, scatter: np.ndarray) -> None:
    """Sums of squares and products are symmetric and have no negative direction."""
    size = max(float(np.abs(scatter).max(initial=0)), 1e-300)
    if np.abs(scatter - scatter.T).max(initial=0) > EPS * size or (
        scatter.size and np.linalg.eigvalsh(scatter / size).min() < -1e-6
    ):
        raise ValueError(f"{name} are no sums of squares and products of people")


def _require_steps(arrays: Mapping[str, np.ndarray], min_count: int) -> None:
    """Whole numbers, each of enough people, that give the mean and spread which stand beside them."""
    steps, people = arrays["steps"].T
    if (steps != np.rint(steps)).any() or (np.diff(steps) <= 0).any() or people.min(initial=np.inf) < min_count:
        raise ValueError(f"steps must be different whole numbers, ascending, of at least {min_count} people each")
    mean = people @ steps / people.sum()
    moments = np.array([mean, people @ np.square(steps - mean)])
    if people.sum() != arrays["counts"][0] or not np.allclose(moments, arrays["target"]):
        raise ValueError("the people at each step are not those of its counts, or of its target")


def require_counts(third: np.ndarray, firsts: list[np.ndarray]) -> None:
    """A `ValueError` unless a later summary is of as many people as the first ones of its blocks."""
    several = np.stack(firsts)
    if third.shape != several.shape[1:] or (third < several.max(axis=0)).any() or (third > several.sum(axis=0)).any():
        raise ValueError("it is of another number of people than its first summary")
