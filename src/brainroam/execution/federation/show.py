"""What a file contains, in plain words, before it leaves the hospital."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from brainroam.data.target import CLASSES, NUMBER, ORDERED, TWO
from brainroam.errors import listed, visible
from brainroam.execution.federation.disclosure import AT_EDGE
from brainroam.execution.federation.dominance import ONE
from brainroam.execution.federation.files import MAGIC, Message, read_message
from brainroam.execution.federation.schema import REQUEST, SUMMARY, is_masked
from brainroam.utils.files import expand_home

MEANING = {
    "counts": "how many controls and cases",
    "covariate_mean": "mean {covariates} of the controls and of the cases",
    "covariate_scatter": "sums of squares and products of {covariates} about their means, over everybody",
    "fit.centre": "mean {covariates} of everybody",
    "fit.n_people": "how many people",
    "fit.intercept": "for every {edge} its level at this site",
    "fit.coef": "for every {edge} its slopes over {covariates}",
    "fit.variance": "for every {edge} how uncertain those slopes are",
    "contrast": "for every {edge} the mean difference between cases and controls",
    "spread": "for every {edge} how much people differ (standard deviation of the residuals)",
    "edges": "which {edge}s were asked for",
    "factor": "for every pair of these {edge}s the sum over everybody of the product of their residuals, as components",
    "with_covariates": "for each of these {edge}s the sum over everybody of its residual times {covariates}",
    "sums": "for each of these {edge}s the sum of its residuals over the controls and over the cases",
    "auc": "how well a model that never saw this site orders its people (AUC)",
    "mean": "mean score of the controls and of the cases",
    "square": "spread of the scores of the controls and of the cases",
    "bins": "class, number and mean score of groups of people of one class",
    "centre": "for each of these {edge}s its mean level over the sites",
    "without": "how well the scores without each block ({blocks}) order the same people",
    "steps": "the steps, and how many people are at each",
    "target": "mean of the number that is predicted, and its spread",
    "moments": "spread of the scores and of the number, and how they go together",
    "auc_variance": "how uncertain these AUCs are",
    "scatter": "for each class the sums of squares and products of its people's scores about their means",
    "masked": "the sums that the models need, under masks: as noise, until those of all hospitals are added",
    "moved": "how far the model with this site differs from that without it",
    "people": "how many people each site has",
    "target_unit": "the unit of the number that is predicted",
    "priority": "for each of these {edge}s how much it is wanted, where a site may not tell all",
}
OF_NUMBERS = {
    "counts": "how many people",
    "covariate_mean": "mean {covariates} of everybody, and their slopes on the number",
    "contrast": "for every {edge} its slope on the number",
    "sums": "for each of these {edge}s the sum of its residuals over everybody, and of these times the number",
    "mean": "mean score and mean of the number",
}
OF_CLASSES = {
    "counts": "how many people of each class",
    "covariate_mean": "mean {covariates} of each class",
    "contrast": "for every {edge} the difference of each class from the first",
    "sums": "for each of these {edge}s the sum of its residuals over each class",
    "auc": "how well a model that never saw this site tells each class from the rest (AUC)",
    "mean": "mean scores of each class",
}
#: What arrays say otherwise, and who there is, by kind of target.
OTHERWISE = {TWO: {}, CLASSES: OF_CLASSES, NUMBER: OF_NUMBERS, ORDERED: OF_NUMBERS}
PEOPLE: dict[str, Callable[[list[int], str, list[str]], str]] = {
    TWO: lambda counts, name, classes: f"{counts[0]} controls and {counts[1]} cases",
    CLASSES: lambda counts, name, classes: ", ".join(f"{n} {one}" for one, n in zip(classes, counts, strict=True) if n),
    NUMBER: lambda counts, name, classes: f"{counts[0]} people; {name} is predicted, a number",
    ORDERED: lambda counts, name, classes: f"{counts[0]} people; {name} is predicted, the steps of an order",
}
NOT_INSIDE = (
    "Not in it: ids, dates, file names or paths, series, edges, ages or scores of single people. At least {k} people "
    "share every level, class, step and edge that it tells of. Nobody has more than {share:.0%} of the weight in what "
    "it says about them, or bears more than a third of what people differ by on any edge (docs/federation.md)."
)
NOISY = "Not in it: ids, dates, file names or paths, series, edges, ages or scores of single people."
STILL = (
    "It is still personal data: whoever has it and a person's scan can tell whether that person took part, and with "
    "which diagnosis or number (docs/federation.md). Send it to those only who may know."
)


def describe_file(path: str | Path) -> list[str]:
    """Lines about a summary or a request."""
    kind = REQUEST if _is_request(expand_home(path)) else SUMMARY
    message = read_message(path, kind)
    whose = f"of site {visible(message.site)}" if kind == SUMMARY else f"to {len(message.sites)} sites"
    settings = ", ".join(f"{name}={value}" for name, value in vars(message.settings).items())
    lines = [
        f"{kind} {whose}, round {message.round}, {expand_home(path).stat().st_size:,} bytes, whole (checksum matches)",
        f"{'; '.join(_measurement(part, name) for name, part in message.parts.items())}; "
        f"{settings}; covariates {', '.join(map(visible, message.covariates)) or 'none'}; "
        f"brainroam {visible(message.version)}",
    ]
    if is_masked(message):
        lines.append("sums under masks: nobody sees the part of one hospital; compare keys before you send")
    if is_masked(message) and kind == SUMMARY:
        lines.append(f"in the open (--plain) it would tell {MEANING['factor'].format(edge=message.unit_of_reading)}")
    lines += [f"key of {visible(name) or 'the pool'}: {key[:16]}" for name, key in message.keys.items()]
    if message.blocks and (kind, message.round) == (SUMMARY, 3):
        lines += ["the scores of all blocks, added:", *_content(message, kind)]
    for name, part in message.parts.items():
        lines += [f"block {visible(name)}:"] if name and part.arrays else []
        lines += _content(part, kind) if part.arrays else []
        lines += [f"withheld: {visible(what)} {visible(why)}" for what, why in part.withheld.items()]
    noise = ", ".join(f"{visible(name)} {value:g}" for name, value in message.protection.items())
    if kind == SUMMARY:
        plain = NOT_INSIDE.format(k=message.min_count, share=min(ONE, AT_EDGE / max(message.min_count, 1)))
        lines += [f"noise: {noise}" if noise else "noise: none was added", NOISY if noise else plain, STILL]
    return lines


def _content(message: Message, kind: str) -> list[str]:
    """The arrays of one block."""
    lines = [_people_line(message)] if "counts" in message.arrays else []
    lines += [
        f"  {_line(name, value, message)}" for name, value in sorted(message.arrays.items()) if _has_meaning(name)
    ]
    special = sum(not _has_meaning(name) for name in message.arrays)
    if special and is_masked(message):
        what = "edges and units of each sum" if message.round == 2 else "the sum of the others, which it alone reads"
        lines.append(f"  {special} arrays: for each site {what}, and what is taken off values before")
    elif special and kind == SUMMARY:
        lines.append(
            f"  {special} arrays: which covariates this site cannot tell apart (everybody of one sex), for which "
            f"{message.unit_of_reading}s"
        )
    elif special:
        lines.append(f"  {special} arrays: for each site, the linear model learned without it")
    return lines


def _people_line(message: Message) -> str:
    counts, target = message.arrays["counts"].tolist(), message.predicts
    return PEOPLE[target.kind](counts, visible(target.name), list(map(visible, target.classes)))


def _line(name: str, value: np.ndarray, message: Message) -> str:
    covariates = " and ".join(map(visible, message.covariates)) or "no covariates"
    size = " x ".join(map(str, value.shape)) or "1"
    meaning = (MEANING | OTHERWISE[message.predicts.kind])[name]
    words = {"covariates": covariates, "edge": message.unit_of_reading, "blocks": listed(map(visible, message.blocks))}
    return f"{name:<18} {size:>12} numbers: {meaning.format(**words)}"


def _measurement(message: Message, block: str) -> str:
    n, name, own = message.atlas["n_regions"], visible(message.atlas["name"]), f"{visible(block)}: " if block else ""
    if message.measure == "table":
        return f"{own}{n} columns of a table"
    return f"{own}edges of {message.measure}, {n} regions of atlas {name}"


def _has_meaning(name: str) -> bool:
    return name in MEANING


def _is_request(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(2**16)
    except OSError:
        return False
    return start.startswith(MAGIC) and b'\\"what\\": \\"request\\"' in start
