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
        chosen=_method_note(data),
    )
    gist = " ".join([verdict_sentence(data), *(f"{text}." for text in data.comparison.added)])
    return Section("figures", "In figures", html, gist=gist)


def verdict_sentence(data: ReportData) -> str:
    """Did it work, and what will happen at the next site."""
    row = data.headline
    where = {
        "loso": "At a site it has never seen",
        "loio": "At an institution it has never seen",
        "halves": "At a site it has never seen, trained on half of the sites",
        "cv": "For new people at sites it knows",
    }[data.protocol]
    n = int(row["n_sites"])
    if n == 0:
        return (
            f"No {data.unit} has both people with the condition and controls, so no AUC of {data.method} can be given."
        )
    text = f"{where}, {data.method} has a mean AUC of {row['auc']:.2f}"
    measured = f"over {n} held-out {data.unit}{'s' * (n != 1)}"
    if row["n_institutions"] < n:
        measured += f" of {counted(int(row['n_institutions']), 'institution', 'institutions')}"
    if math.isnan(row["auc_low"]):
        return f"{text} {measured}; {row['reason']}."
    text += f" (95 % interval {span(row['auc_low'], row['auc_high'])}, {measured})"
    if math.isnan(row["next_low"]):
        return f"{text}; {row['reason']}."
    expected = f"{row['next_low']:.2f} and {row['next_high']:.2f}"
    return f"{text}; its true AUC at {data.next_place} is expected between {expected} (95 % prediction interval)."


def judge_result(data: ReportData) -> str:
    """What the interval allows to be said, no more."""
    row = data.headline
    if math.isnan(row["auc_low"]):
        return ""
    if row["auc_low"] <= 0.5:
        return f"These data do not show that it is better than guessing. {_beside_others(data)}".strip()
    text = "It is better than guessing on average"
    if row["next_low"] <= 0.5:
        text += f", but at {data.next_place} it may be no better than guessing"
    elif row["next_low"] > 0.5:
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
    has_interval, following = not math.isnan(row["auc_low"]), not math.isnan(row["next_low"])
    yield (
        "Mean AUC",
        number(row["auc"]),
        f"95 % interval {span(row['auc_low'], row['auc_high'])}" if has_interval else "",
    )
    if following:
        yield f"Next {data.unit}", span(row["next_low"], row["next_high"]), "95 % prediction interval of the AUC"
    if row["worst_site"]:
        yield f"Worst {data.unit}", number(row["worst_auc"]), row["worst_site"]
    yield "Balanced accuracy", number(row["balanced_acc"]), "at the threshold learned elsewhere"
    scans = f"{len(data.participants)} scans, " if len(data.participants) > len(data.everybody) else ""
    yield "People", str(len(data.everybody)), f"{scans}{len(data.study['sites'])} sites"


def _method_note(data: ReportData) -> str:
    if len(data.compared) == 1:
        return ""
    return f"The report is about {data.method}, chosen by its name and not by its result; --method names another."
