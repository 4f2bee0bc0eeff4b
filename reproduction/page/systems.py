"""Tables 1 and 7: CORE and the fifteen systems at unseen sites and in-distribution, published and ours."""

from typing import Any

import numpy as np
import pandas as pd

from brainroam.methods.registry import parse_name
from brainroam.report.tables import NOTHING, Column, interval
from reproduction.page.content import Block, Listing, Part
from reproduction.page.data import PaperData
from reproduction.page.published import IN_DISTRIBUTION, OUT_OF_DISTRIBUTION, difference, wide
from reproduction.parts import NETWORK, PAPER, REFERENCES, SYSTEMS

PROXIES = ("cepg-proxy", "agmgc-proxy")
NO_TEST_SITE = (
    "here epochs and threshold come from training sites alone, under the tuning named below; the paper does not say "
    "how its baselines were tuned"
)
SAME_TWICE = (
    "The paper prints the same numbers for all fifteen baselines in its in-distribution and in its leave-one-site-out "
    "table on ABIDE, ABIDE (CC200) and ABCD; only the row of CORE differs. One of the two was evidently not run, so "
    "differences of baselines in one of these tables say nothing."
)


def leave_one_site_out(data: PaperData) -> Part:
    """Table 1."""
    return _part(data, "table-1", "Table 1: leave-one-site-out", OUT_OF_DISTRIBUTION, "loso")


def in_distribution(data: PaperData) -> Part:
    """Table 7."""
    part = _part(data, "table-7", "Table 7: in-distribution folds", IN_DISTRIBUTION, "cv")
    if data.published in ("abide", "abide-cc200", "abcd"):
        return Part(part.id, part.title, (SAME_TWICE, *part.blocks))
    return part


def _part(data: PaperData, id: str, title: str, table: int, protocol: str) -> Part:
    every = _rows(data, table, protocol)
    rows = every[every[["auc", "published"]].notna().any(axis=1)]
    unit = "held-out sites" if protocol == "loso" else "in-distribution folds (stratified by site and label)"
    blocks: list[Block] = [f"Means over {unit}, in points of 100. " + _reading(data)]
    columns = [Column("system", "System"), Column("method", "Ours")]
    if data.published:
        columns.append(Column("published", "Published AUC", lambda row: _with_sd(row, "published"), of_row=True))
    columns += [
        Column("auc", "AUC", lambda row: _with_sd(row, "auc"), of_row=True),
        Column("low", "95 % interval", interval("low", "high", 1), of_row=True),
    ]
    if data.published:
        columns += [
            Column("gap", "Difference", lambda value: f"{value:+.1f}"),
            Column("gap_low", "its 95 % interval", interval("gap_low", "gap_high", 1), of_row=True),
            Column("published_acc", "Published ACC", lambda row: _with_sd(row, "published_acc"), of_row=True),
        ]
    columns += [Column("acc", "ACC", lambda row: _with_sd(row, "acc"), of_row=True), Column("folds", "Folds")]
    columns.append(Column("seeds", "Seeds"))
    name = f"systems-{protocol}"
    if rows.empty:
        return Part(id, title, ("Not run yet.",))
    blocks.append(Listing(rows, columns, name, f"{title.partition(': ')[2].capitalize()}: published and ours"))
    if data.published:
        told = rows[rows["why"] != ""]
        blocks += [f"{row.method}: {row.why}." for row in told.itertuples()]
        agreeing = int((rows["gap_low"].notna() & (rows["why"] == "")).sum())
        blocks.append(f"For {agreeing} of {int(rows['gap_low'].notna().sum())} rows with both, the interval holds 0.")
    missing = every.loc[every["auc"].isna(), "method"].tolist()
    if missing:
        blocks.append(f"Not run yet: {', '.join(missing)}.")
    return Part(id, title, tuple(blocks))


def _rows(data: PaperData, table: int, protocol: str) -> pd.DataFrame:
    theirs, ours = wide(table, data.published), data.summary(protocol)
    core = data.paper.readings
    listed = [(system, name) for system, name in SYSTEMS.items() if system != "CORE"]
    listed += [*core.items(), *(("reference", name) for name in REFERENCES)]
    listed += [("other", name) for name in ours.index if _is_other(name, data)]
    return pd.DataFrame([_row(system, name, theirs, ours, data, protocol) for system, name in listed])


def _row(
    system: str, name: str, theirs: pd.DataFrame, ours: pd.DataFrame, data: PaperData, protocol: str
) -> dict[str, Any]:
    known = system.partition(",")[0]
    row: dict[str, Any] = {"system": system, "method": name, "why": "", "folds": 0, "seeds": 0}
    row |= dict.fromkeys(("published", "published_sd", "published_acc", "published_acc_sd"), np.nan)
    row |= dict.fromkeys(("auc", "auc_sd", "low", "high", "acc", "acc_sd", "gap", "gap_low", "gap_high"), np.nan)
    if known in theirs.index:
        found = theirs.loc[known]
        row |= {"published": found["auc"], "published_sd": found["auc_sd"]}
        row |= {"published_acc": found["acc"], "published_acc_sd": found["acc_sd"]}
    if name in ours.index:
        found = ours.loc[name]
        row |= {"auc": 100 * found["auc"], "low": 100 * found["auc_low"], "high": 100 * found["auc_high"]}
        row |= {"acc": 100 * found["acc"], "folds": int(found["n_sites"])}
        row |= data.spread(name, protocol)
    if np.isfinite([row["published"], row["low"]]).all():
        n_sites = len(data.dataset.sites) if data.dataset else 0
        gap, low, high = difference(row["auc"], row["low"], row["high"], row["published"], row["published_sd"], n_sites)
        row |= {"gap": gap, "gap_low": low, "gap_high": high}
        if low > 0 or high < 0:
            row["why"] = (
                f"{abs(gap):.1f} points {'above' if gap > 0 else 'below'} the published number; {_why(name, gap, data)}"
            )
    return row


def _why(name: str, gap: float, data: PaperData) -> str:
    method = parse_name(name)[0]
    if method in PROXIES:
        return "this is our reading of a paper without public code, and no statement about it"
    if method == "core" and gap > 0:
        return "core reads log edges, and where held-out sites say so a linear reading that the paper does not have"
    if name == data.paper.letter:
        return "with both signs, pathways stronger and weaker in patients cancel in the readout"
    if method == PAPER:
        return "the paper does not state its preprocessing, batches and number of epochs"
    if method == NETWORK:
        return "its epochs are fixed, and the paper's preprocessing and tuning are not stated"
    if method == "deci":
        return "its released code chooses the epoch on the test fold, ours does not"
    return NO_TEST_SITE


def _reading(data: PaperData) -> str:
    if not data.published:
        return "These people are none of the paper's five datasets: there is no published number to stand beside ours."
    return (
        "Published: mean and standard deviation over sites, from the paper. Everything else: this run, seeds averaged "
        "inside a site, ± the standard deviation over sites (n - 1); ACC by a threshold that inner sites gave. The "
        "interval of the difference takes the two as independent, because the paper prints no result by site."
    )


def _with_sd(row: dict[str, Any], key: str) -> str:
    return NOTHING if np.isnan(row[key]) else f"{row[key]:.1f} ± {row[f'{key}_sd']:.1f}"


def _is_other(name: str, data: PaperData) -> bool:
    """A method of the user's own, not one of ours and no variant."""
    ours = {*SYSTEMS.values(), *REFERENCES, *data.paper.readings.values()}
    return name not in ours and not parse_name(name)[0].startswith("core")
