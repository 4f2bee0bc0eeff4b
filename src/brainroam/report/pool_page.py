"""The page of a pool of summaries: results at each hospital and at the next one, without single people."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from brainroam import __version__
from brainroam.data.target import TWO_CLASSES, Classes, Number, Target
from brainroam.data.target.figures import amount
from brainroam.data.target.sites_number import level_off
from brainroam.errors import SummaryError
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.blocks_added import LeftOut, describe_added
from brainroam.evaluation.stats.compare import WHOLE_BLOCKS, compare_pairs_of
from brainroam.evaluation.stats.families import Family
from brainroam.evaluation.stats.site_scores import SiteScores
from brainroam.evaluation.stats.verdict import Verdict
from brainroam.evaluation.tables import read_table
from brainroam.execution.federation.pool import WITHOUT
from brainroam.report import figures
from brainroam.report.data import Summary
from brainroam.report.figures import drawing
from brainroam.report.page import Drawing, render
from brainroam.report.sections.first import SiteForestDisplay
from brainroam.report.tables import Column, fixed, table
from brainroam.utils.files import write_text

CAPTION = (
    "{head} at each hospital of a model learned from the summaries of the others, with 95 % intervals, their mean, and "
    "where the {head} of the next site is expected."
)
POOLED = "pooled core"


def describe_blocks_added(scores: pd.DataFrame) -> list[str]:
    """What each block adds to the others, which keep the weights that they have in the sum; nothing of one block."""
    without = _without(scores)
    if not without:
        return []
    target = _target(scores)
    order, counts = target.order, _counts(scores, target)
    columns = scores[[order.figure.name, *without]].to_numpy(dtype=float)
    gathered = SiteScores(
        "loso",
        target,
        [POOLED, *without],
        scores["site"].astype(str).tolist(),
        [],
        counts,
        columns,
        np.zeros((*columns.shape, 0)),
        np.ones(columns.shape, dtype=int),
        np.nan,
        scores["site"].astype(str).tolist(),
        "site",
    )
    blocks = [name.removeprefix(WITHOUT) for name in without]
    parts = [
        LeftOut(POOLED, name, block, " and ".join(other for other in blocks if other != block))
        for name, block in zip(without, blocks, strict=True)
    ]
    rows = compare_pairs_of(gathered, Family(WHOLE_BLOCKS, [(part.whole, part.without) for part in parts]))
    return [
        describe_added(row, part, gathered.place, target) for row, part in zip(rows.itertuples(), parts, strict=True)
    ]


def _without(scores: pd.DataFrame) -> list[str]:
    """Columns of results without one block each."""
    return [name for name in scores if name.startswith(WITHOUT)]


def _target(scores: pd.DataFrame) -> Target:
    """What was predicted, as the columns of a pool's scores tell."""
    if "r" in scores:
        return Number("number")
    if "n_cases" in scores:
        return TWO_CLASSES
    return Classes("class", tuple(name.removeprefix("n_") for name in scores if name.startswith("n_")))


def _counts(scores: pd.DataFrame, target: Target) -> np.ndarray:
    """People of each group at each site."""
    rows = scores.assign(n_controls=scores["n"] - scores["n_cases"]) if "n_cases" in scores else scores
    return rows[list(target.order.counted)].to_numpy()


def is_pool(folder: Path) -> bool:
    """Whether a folder is a pool of summaries."""
    return (folder / "pool.json").is_file()


def write_pool_page(folder: Path, out: Path | None = None) -> list[str]:
    """Write ``next_site.json`` and ``report.html`` of a pool whose three rounds are done; returns what they say."""
    try:
        scores = read_table(folder / "scores.csv")
    except OSError as error:
        raise SummaryError(f"{folder} has no scores yet: its third round is not done") from error
    content = _content(scores, _target(scores))
    lines = [*content.lines, *describe_blocks_added(scores)]
    write_text(folder / "next_site.json", json.dumps(plain(vars(content.verdict)), indent=1) + "\n")
    page = render(
        "pool.html",
        lines=lines,
        sites=table(content.sites, _columns(content.sites), "sites", "Every hospital"),
        n_sites=len(content.sites),
        figure=figures.inline(content.picture),
        version=__version__,
    )
    path = write_text(out or folder / "report.html", page + "\n")
    return [*lines, f"report: {path}"]


def _columns(sites: pd.DataFrame) -> list[Column]:
    """Figures with three digits, everything else as it is."""
    return [
        Column(name, name[:1].upper() + name[1:], fixed(3) if is_float_dtype(sites[name]) else str) for name in sites
    ]


class Content(NamedTuple):
    """What the page says, its table of sites, what is expected of the next one, and the figure."""

    lines: list[str]
    sites: pd.DataFrame
    verdict: Verdict
    picture: Drawing


def _content(scores: pd.DataFrame, target: Target) -> Content:
    """Hospitals and the next one; errors of single people are not known to the pool."""
    order, figure, counts = target.order, target.order.figure, _counts(scores, target)
    values = scores[figure.name].to_numpy(dtype=float)
    own = [name for name in ("auc_variance", "class_variance") if name in scores]
    judged = order.judge(values, counts, scores[own].to_numpy(dtype=float), models)
    low, high = order.intervals(values, counts, models)
    told = [name for name in scores if name not in ("method", "protocol", *own, *_without(scores))]
    sites = scores[told].assign(low=low, high=high).sort_values(figure.name, ascending=False).reset_index(drop=True)
    lines = [f"{order.mean_of.format(judged.n_sites)} {judged.mean:.3f}{_worst(sites, target)}; {order.rule}"]
    if np.isfinite(judged.low):
        lines.append(f"95 % interval of the mean {judged.low:.3f} to {judged.high:.3f}")
    if np.isfinite(judged.next_low):
        expected = f"between {judged.next_low:.3f} and {judged.next_high:.3f} (95 %)"
        lines.append(f"the next site's {order.called} is expected {expected}")
    lines += [judged.reason] if judged.reason else []
    steps = [name for name in scores if name.startswith("n_") and name not in order.counted]
    unit, scale = (" steps", "") if steps else ("", ", on the scale that is learned")
    if "level" in scores:
        off, spread = level_off(scores, models), float(np.average(scores["sd"], weights=scores["n"]))
        lines.append(
            f"level: expect to be off by {amount(off)}{unit} at the next site{scale}; people of one site differ by "
            f"{amount(spread)}{unit} (standard deviation)"
        )
    words = {"n": "people", "n_cases": "with the condition", figure.name: figure.head, "low": "from", "high": "to"}
    words |= {"level": f"level off by{unit}", **{name: f"at {name.removeprefix('n_')}" for name in steps}}
    hidden = [name for name in ("error_sd", "sd", "gain_se") if name in sites]
    summary = Summary(judged.mean, judged.low, judged.high, judged.next_low, judged.next_high)
    picture = drawing("sites", CAPTION.format(head=figure.head), SiteForestDisplay(sites, summary, figure=figure))
    return Content(lines, sites.drop(columns=hidden).rename(columns=words), judged, picture)


def _worst(sites: pd.DataFrame, target: Target) -> str:
    """The site with the lowest figure, of those with people enough."""
    named = sites[target.order.may_be_named(_counts(sites, target))]
    if len(named) < 2:
        return ""
    lowest = named.iloc[-1]
    return f", lowest {lowest[target.order.figure.name]:.3f} ({lowest['site']})"
