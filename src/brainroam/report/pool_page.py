"""The page of a pool of summaries: results at each hospital and at the next one, without single people."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from brainroam import __version__
from brainroam.data.target import Classes, Target
from brainroam.errors import SummaryError
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.stats import classes, numbers
from brainroam.evaluation.stats.metrics import RULE, over_sites, site_weights
from brainroam.evaluation.stats.paired import compare_pairs
from brainroam.evaluation.stats.target_comparison import LeftOut, describe_points_added
from brainroam.evaluation.stats.verdict import Verdict, site_intervals, verdict
from brainroam.evaluation.tables import read_table
from brainroam.execution.federation.pool import WITHOUT
from brainroam.report import figures
from brainroam.report.data import Summary
from brainroam.report.figures import draw_forest, drawing
from brainroam.report.page import Drawing, render
from brainroam.report.sections.first import SiteForestDisplay
from brainroam.report.tables import Column, fixed, table
from brainroam.utils.files import write_text

CAPTION = (
    "AUC at each hospital of a model learned from the summaries of the others, with 95 % intervals, their mean, and "
    "where the AUC of the next site is expected."
)
PLAIN = (
    "Each hospital by a model learned from the summaries of the others, with a 95 % interval for that hospital alone."
)


def describe_blocks_added(scores: pd.DataFrame) -> list[str]:
    """What each block adds to the others, which keep the weights that they have in the sum; nothing of one block."""
    without = _without(scores)
    blocks = [name.removeprefix(WITHOUT) for name in without]
    parts = [
        LeftOut("pooled core", name, block, " and ".join(other for other in blocks if other != block))
        for name, block in zip(without, blocks, strict=True)
    ]
    if not parts:
        return []
    is_number = "r" in scores
    values = scores[["r" if is_number else "auc", *without]].set_axis(["pooled core", *without], axis=1)
    pairs = [(part.whole, part.without) for part in parts]
    if is_number:
        rows, say = numbers.compare_orders(values, scores["n"], pairs), numbers.describe_block_order
    else:
        rows, say = compare_pairs(values, _weights(scores), pairs), describe_points_added
    return [say(row, part, "site") for row, part in zip(rows.itertuples(), parts, strict=True)]


def _without(scores: pd.DataFrame) -> list[str]:
    """Columns of results without one block each."""
    return [name for name in scores if name.startswith(WITHOUT)]


def _weights(scores: pd.DataFrame) -> pd.Series:
    """The weight of each site in a mean of AUCs."""
    if "n_cases" in scores:
        cases = scores["n_cases"].to_numpy()
        return pd.Series(site_weights(cases, scores["n"].to_numpy() - cases))
    m = classes.counted_people(scores, _target(scores))
    return pd.Series(site_weights(m, m))


def _target(scores: pd.DataFrame) -> Target:
    """Several classes, as the columns name them."""
    return Classes("class", tuple(name.removeprefix("n_") for name in scores if name.startswith("n_")))


def is_pool(folder: Path) -> bool:
    """Whether a folder is a pool of summaries."""
    return (folder / "pool.json").is_file()


def write_pool_page(folder: Path, out: Path | None = None) -> list[str]:
    """Write ``next_site.json`` and ``report.html`` of a pool whose three rounds are done; returns what they say."""
    try:
        scores = read_table(folder / "scores.csv")
    except OSError as error:
        raise SummaryError(f"{folder} has no scores yet: its third round is not done") from error
    content = (
        _of_number(scores) if "r" in scores else _of_classes(scores) if "n_cases" not in scores else _of_two(scores)
    )
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


def _of_two(scores: pd.DataFrame) -> Content:
    cases = scores["n_cases"].to_numpy()
    controls, auc = (scores["n"] - scores["n_cases"]).to_numpy(), scores["auc"].to_numpy()
    judged, (low, high) = verdict(auc, cases, controls), site_intervals(auc, cases, controls)
    sites = scores[["site", "n", "n_cases", "auc"]].assign(low=low, high=high).sort_values("auc", ascending=False)
    lowest = over_sites(scores)
    worst = f", lowest {lowest['worst_auc']:.3f} ({lowest['worst_site']})" if lowest["worst_site"] else ""
    first = f"mean AUC over {judged.n_sites} held-out sites {judged.mean:.3f}{worst}; {RULE}"
    shown = sites.rename(
        columns={"n": "people", "n_cases": "with the condition", "auc": "AUC", "low": "from", "high": "to"}
    )
    summary = Summary(judged.mean, judged.low, judged.high, judged.next_low, judged.next_high)
    picture = drawing("sites", CAPTION, SiteForestDisplay(sites.reset_index(drop=True), summary))
    return Content(_sentences(first, "AUC", judged), shown, judged, picture)


def _of_classes(scores: pd.DataFrame) -> Content:
    target = _target(scores)
    judged, _ = classes.summary(
        scores.assign(**dict.fromkeys(("acc", "balanced_acc", "brier", "log_loss"), np.nan)), target
    )
    auc, m = scores["auc"].to_numpy(), classes.counted_people(scores, target)
    low, high = site_intervals(auc, m, m)
    untold = ["method", "protocol", "auc_variance", "class_variance", *_without(scores)]
    sites = scores.drop(columns=untold).assign(low=low, high=high)
    sites = sites.sort_values("auc", ascending=False)
    first = f"mean AUC of each class against the rest over {judged.n_sites} held-out sites {judged.mean:.3f}; "
    first += classes.RULE
    shown = sites.rename(columns={"n": "people", "auc": "AUC", "low": "from", "high": "to"})
    picture = _forest(sites, "auc", 0.5, "AUC, mean over classes")
    return Content(_sentences(first, "AUC", judged), shown, judged, picture)


def _of_number(scores: pd.DataFrame) -> Content:
    """Order and level; errors of single people, and so those of a constant, are not known to the pool."""
    z, off = numbers.order_of_sites(scores), numbers.level_off(scores)
    mean, low, high, next_low, next_high = np.tanh([z.mean, z.low, z.high, z.next_low, z.next_high]).tolist()
    judged = Verdict(z.n_sites, mean, low, high, next_low, next_high, z.tau, z.reason)
    low, high = numbers.order_intervals(scores["r"].to_numpy(), scores["n"].to_numpy())
    sites = (
        scores[["site", "n", "r"]].assign(low=low, high=high, level=scores["level"]).sort_values("r", ascending=False)
    )
    first = f"mean correlation within {judged.n_sites} held-out sites {judged.mean:.3f}"
    spread = float(np.average(scores["sd"], weights=scores["n"]))
    lines = _sentences(first, "correlation", judged)
    steps = [name for name in scores if name.startswith("n_")]
    unit, scale = (" steps", "") if steps else ("", ", on the scale that is learned")
    lines.append(
        f"level: expect to be off by {numbers.amount(off)}{unit} at the next site{scale}; people of one site differ by "
        f"{numbers.amount(spread)}{unit} (standard deviation)"
    )
    shown = sites.rename(columns={"n": "people", "low": "from", "high": "to", "level": f"level off by{unit}"})
    shown = shown.join(scores[steps].rename(columns=lambda name: f"at {name.removeprefix('n_')}"))
    return Content(lines, shown, judged, _forest(sites, "r", 0.0, "Correlation within the site"))


def _forest(sites: pd.DataFrame, figure: str, chance: float, label: str) -> Drawing:
    value, ends = sites[figure].to_numpy(), (sites["low"].to_numpy(), sites["high"].to_numpy())
    people = sites["n"].to_numpy()
    return Drawing("sites", PLAIN, lambda: draw_forest(sites["site"].tolist(), value, ends, people, chance, label))


def _sentences(first: str, figure: str, judged: Verdict) -> list[str]:
    lines = [first]
    if judged.low == judged.low:
        lines.append(f"95 % interval of the mean {judged.low:.3f} to {judged.high:.3f}")
    if judged.next_low == judged.next_low:
        lines.append(
            f"the next site's {figure} is expected between {judged.next_low:.3f} and {judged.next_high:.3f} (95 %)"
        )
    return [*lines, *([judged.reason] if judged.reason else [])]
