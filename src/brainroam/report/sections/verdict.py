"""The verdict in the words of the field: one sentence, five figures, and the comparisons a reader asks for first."""

import math

from brainroam.errors import counted
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.data import BETTER, CONFOUNDS, NO_DIFFERENCE_FOUND, PLAIN, WORSE, ReportData
from brainroam.report.page import Section, render
from brainroam.report.tables import number, span


def verdict_section(data: ReportData) -> Section:
    """The result in figures."""
    html = render(
        "verdict.html",
        sentence=verdict_sentence(data),
        against=_against(data),
        facts=list(_facts(data, data.headline)),
        meaning=data.target.shown[0].meaning,
        chosen=_method_note(data),
    )
    gist = " ".join([verdict_sentence(data), *(f"{text}." for text in data.comparison.added)])
    return Section("figures", "In figures", html, gist=gist)


def verdict_sentence(data: ReportData) -> str:
    """Did it work, and what will happen at the next site."""
    row, head, n = data.headline, data.figure.head, int(data.headline["n_sites"])
    where = {
        "loso": "At a site it has never seen",
        "loio": "At an institution it has never seen",
        "halves": "At a site it has never seen, trained on half of the sites",
        "cv": "For new people at sites it knows",
    }[data.protocol]
    if n == 0:
        return (
            f"At every {data.unit} everybody {data.target.order.lacking}, so no {head} of {data.method} can be given."
        )
    summary = data.summary
    text = f"{where}, {data.method} has a mean {head} of {summary.mean:.2f}"
    measured = f"over {n} held-out {data.unit}{'s' * (n != 1)}"
    if row["n_institutions"] < n:
        measured += f" of {counted(int(row['n_institutions']), 'institution', 'institutions')}"
    if math.isnan(summary.low):
        return f"{text} {measured}; {row['reason']}."
    text += f" (95 % interval {span(summary.low, summary.high)}, {measured})"
    if math.isnan(summary.next_low):
        return f"{text}; {row['reason']}."
    expected = f"{summary.next_low:.2f} and {summary.next_high:.2f}"
    return f"{text}; its true {head} at {data.next_place} is expected between {expected} (95 % prediction interval)."


def judge_result(data: ReportData) -> str:
    """What the interval allows to be said, no more."""
    summary, chance = data.summary, data.figure.chance
    if math.isnan(summary.low):
        return ""
    if summary.low <= chance:
        return f"These data do not show that it is better than guessing. {_beside_others(data)}".strip()
    text = "It is better than guessing on average"
    if summary.next_low <= chance:
        text += f", but at {data.next_place} it may be no better than guessing"
    elif summary.next_low > chance:
        text += f", and is expected to be so at {data.next_place}"
    return f"{text}. {_beside_others(data)}".strip()


def _beside_others(data: ReportData) -> str:
    """Whether it is better than covariates alone and than plain ridge, a sentence each; nothing of what was not run."""
    read_too = [name for name, seen in data.study.get("covariates", {}).items() if seen.get("measure")]
    alone = f"{' and '.join(read_too)} alone" if read_too else "covariates alone"
    names = {CONFOUNDS: f"{alone} (confounds)", PLAIN: "plain ridge"}
    results = {name: data.against(name) for name in names}
    better, worse, unclear = (
        [names[name] for name, against in results.items() if against == outcome]
        for outcome in (BETTER, WORSE, NO_DIFFERENCE_FOUND)
    )
    sentences = [f"It is worse than {' and '.join(worse)}."] if worse else []
    sentences += [f"These data cannot tell it from {' or '.join(unclear)}."] if unclear else []
    sentences += [f"It is better than {' and '.join(better)}."] if better else []
    if read_too and results[CONFOUNDS]:  # covariates that are measures as well: what the other columns tell beside them
        row = data.comparison.paired.set_index("method").loc[data.beside(CONFOUNDS)]
        gain, low, high = (-100 * row[name] for name in ("difference", "high", "low"))
        verb = "add" if gain > 0 else "take"
        to = "to" if gain > 0 else "from"
        sentences.append(f"The other columns {verb} {abs(gain):.1f} points ({low:.1f} to {high:.1f}) {to} {alone}.")
    return " ".join(sentences)


def _against(data: ReportData) -> list[str]:
    """What each block adds; then the best other method, the plain ridge, and the controls that see no brain."""
    real = [name for name in data.comparison.table["method"] if name not in (data.method, *CONTROLS)]
    others = dict.fromkeys([*real[:1], *(name for name in (PLAIN, "confounds", "site-only") if name in data.compared)])
    sentences = data.comparison.against
    return [f"{text}." for text in (*data.comparison.added, *(sentences[n] for n in others if n in sentences))]


def _facts(data: ReportData, row: dict):
    summary, head = data.summary, data.figure.head
    interval = "" if math.isnan(summary.low) else f"95 % interval {span(summary.low, summary.high)}"
    yield f"Mean {head}", number(summary.mean), interval
    if not math.isnan(summary.next_low):
        following = span(summary.next_low, summary.next_high)
        yield f"Next {data.unit}", following, f"95 % prediction interval of the {head}"
    if row.get("worst_site"):
        yield f"Worst {data.unit}", number(row["worst_auc"]), row["worst_site"]
    for column in data.target.shown:
        if column.names[0] in data.target.headlines:
            yield column.head.capitalize(), column.form(row[column.names[0]]), f"in units of {data.target.name}"
    if "balanced_acc" in row:
        yield "Balanced accuracy", number(row["balanced_acc"]), "at the threshold learned elsewhere"
    scans = f"{len(data.participants)} scans, " if len(data.participants) > len(data.everybody) else ""
    yield "People", str(len(data.everybody)), f"{scans}{len(data.study['sites'])} sites"


def _method_note(data: ReportData) -> str:
    if len(data.compared) == 1:
        return ""
    return f"The report is about {data.method}, chosen by its name and not by its result; --method names another."
