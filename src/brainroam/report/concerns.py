"""Reasons to doubt a result, the gravest first, from check, audit and the runs themselves."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from brainroam.data.check import labels
from brainroam.data.check.report import join_findings
from brainroam.data.people import people_of
from brainroam.errors import listed
from brainroam.evaluation.stats.confounding import confounding_means
from brainroam.report.data import BETTER, CONFOUNDS, NO_DIFFERENCE_FOUND, PLAIN, ReportData
from brainroam.report.tables import span

MOST = 3
FOLLOWS_MOTION = 0.2  # correlation of score and motion within site and class
SAME = 0.005  # AUC that nobody would notice
LOST_TO_MOTION = 0.02  # AUC that goes with motion

#: Reasons for doubt by what they can do to the conclusion, the gravest first: what can make all of it wrong stands
#: before what spoils single sites or people. Codes are those of findings of `check`, or of what audit and runs show;
#: ``label-by``, ``other`` and ``at-sites`` hold findings that are not named here, and those about single sites.
ORDER = (
    "audit",
    "file-check",
    "reversed",
    "confounds",
    "covariate-of-condition",
    "golden-column",
    "known-by-class",
    "motion-unknown",
    "label-by-mean_fd",
    "lost-to-motion",
    "label-by-n_timepoints",
    "label-by",
    "exchanged-labels",
    "turned-signs",
    "global-signal",
    "eight-bits",
    "unlike-site",
    "look-alike-sites",
    "identical-people",
    "alike-people",
    "label-by-age",
    "label-by-sex",
    "label-by-site",
    "plain",
    "one-sided",
    "guessing-at-most",
    "at-sites",
    "follows-motion",
    "sites-apart",
    "guessing",
    "similar-ids",
    "other",
    "one-class-site",
    "small-site",
    "imbalance",
    "short-series",
    "unlabelled",
    "missing-rois",
)
SIZES = ("one-class-site", "small-site", "imbalance")  # of single sites: no worse there than in the whole cohort
UNLIKE = ("exchanged-labels", "turned-signs", "global-signal", "eight-bits", "unlike-site")
WHEREVER = (*UNLIKE, "identical-people", "alike-people")  # as grave at one site as in the whole cohort
TITLES = {
    "look-alike-sites": "Two names may be one site",
    "identical-people": "One person is in the data twice",
    "alike-people": "Two records look like one person",
    "unlike-site": "Regions are probably in another order",
    "exchanged-labels": "Codes of cases and controls are probably exchanged",
    "turned-signs": "Regions with the opposite sign",
    "global-signal": "The global signal was probably removed at some sites only",
    "eight-bits": "Series in 8 bits",
    "exchanged-sides": "Left and right are probably exchanged",
    "shifted-site": "Files and rows of the table probably belong to different people",
    "label-by-spectrum": "People with the condition and controls were probably filtered differently",
    "label-by-empty": "More volumes without signal in one class",
    "step": "Sessions were probably joined without demeaning",
    "far-values": "Numbers that are no signal",
    "transient": "First volumes before the magnetisation is in balance",
    "golden-column": "One column tells nearly all that the table tells",
    "known-by-class": "Who lacks a measure differs between the classes",
    "covariate-of-condition": "A covariate measures the condition itself",
    "label-by-n_timepoints": "Scan length differs between people with the condition and controls",
    "label-by-mean_fd": "Motion differs between people with the condition and controls",
    "label-by-age": "Age differs between people with the condition and controls",
    "label-by-sex": "Sex differs between people with the condition and controls",
    "label-by-site": "The share with the condition differs between sites",
    "similar-ids": "Two people have nearly the same id",
    "one-class-site": "Only people with the condition or only controls",
    "small-site": "Very few people",
    "imbalance": "Few people of one class",
    "short-series": "Very short scans",
    "unlabelled": "People without a label",
    "missing-rois": "Regions without signal",
}


@dataclass(frozen=True)
class Concern:
    """One reason for doubt: its code (of `ORDER`), what it is, the evidence, and where on the page that is."""

    code: str
    title: str
    text: str
    link: str


def concerns(data: ReportData) -> list[Concern]:
    """All reasons for doubt, the gravest first."""
    every = chain(_from_audit(data), _from_check(data), _from_runs(data))
    return sorted((replace(concern, text=_sentence(concern.text)) for concern in every), key=_severity)


def _severity(concern: Concern) -> tuple[int, int]:
    """The place of a concern in `ORDER`, and within a group that of its own code."""
    group, _, code = concern.code.partition("/")
    return ORDER.index(group), ORDER.index(code) if code in ORDER else len(ORDER)


def _sentence(text: str) -> str:
    """The text with a capital letter at its start and a full stop, or its question mark, at its end."""
    return text[:1].upper() + text[1:].rstrip(".") + ("" if text.endswith("?") else ".")


def findings(data: ReportData) -> list[dict]:
    """Findings of `check`, or what can be said from the table of participants alone where nobody checked."""
    if data.check is not None:
        return data.check["findings"]
    table = people_of(data.participants)
    if table.empty:
        return []
    rules: list[Any] = [labels.covariate_gaps]
    if "probability" in data.results.predictions:
        rules = [labels.class_balance, labels.label_by_site, labels.label_by_covariates, *rules]
    return [vars(finding) for finding in join_findings(chain.from_iterable(rule(table) for rule in rules))]


def _from_audit(data: ReportData) -> Iterator[Concern]:
    for searched in data.method_audits:
        if searched.get("leak") or searched.get("suspicious"):
            name = searched.get("method")
            title = f"{name} leaks" if searched.get("leak") else f"The scores of {name} are suspicious"
            yield Concern("audit", title, str(searched.get("verdict")), "audit")
    for one in data.file_checks:
        if one.passed is not True:
            seen = "are suspicious" if one.passed is False else "are odd"
            title = f"The scores of {one.method} {seen}"
            yield Concern("audit" if one.passed is False else "file-check", title, one.evidence, "audit")
    for check in (data.audit or {"checks": []})["checks"]:
        name, method, text = (str(check.get(key) or "") for key in ("name", "method", "evidence"))
        if check.get("passed") is False:
            yield Concern("audit", f"The audit failed: {name}" + (f" of {method}" if method else ""), text, "audit")
        elif check.get("passed") is None and name == "site-decodability":
            yield Concern("sites-apart", "Sites can be told apart", text, "audit")


def _from_check(data: ReportData) -> Iterator[Concern]:
    """One concern per kind of finding; those about the whole cohort before those about single sites."""
    kinds: dict[str, list[dict]] = defaultdict(list)
    for finding in findings(data):
        if finding.get("severity") in ("error", "warning"):
            kinds[str(finding.get("code"))].append(finding)
    for code, findings_of in kinds.items():
        whole = [finding for finding in findings_of if not finding.get("site")]
        title = TITLES.get(code, code.replace("-", " ").capitalize())
        places = sorted({str(finding["site"]) for finding in findings_of if finding.get("site")})
        first = (whole or findings_of)[0]
        if whole or code in WHEREVER:
            also = f" (also at {listed(places)})" if whole and places else ""
            more = also or (f" ({len(findings_of) - 1} more)" if len(findings_of) > 1 else "")
            yield Concern(_of_cohort(code), title, f"{first.get('message')}{more}", "check")
        else:
            where = places[0] if len(places) == 1 else f"{len(places)} sites ({listed(places)})"
            of = "" if len(places) == 1 else f"at {first['site']} "
            rank = code if code in SIZES else f"at-sites/{code}"
            yield Concern(rank, f"{title} at {where}", f"{of}{first.get('message')}", "check")


def _of_cohort(code: str) -> str:
    """The group in `ORDER` of a code of `check` that is not named there."""
    return code if code in ORDER else f"label-by/{code}" if code.startswith("label-by-") else f"other/{code}"


def _from_runs(data: ReportData) -> Iterator[Concern]:
    yield from _covariates_alone(data)
    yield from _motion(data)
    sites = data.site_aucs
    figure = data.figure
    lost = sites[(sites["low"] <= figure.chance) & (sites["high"] >= figure.chance)]
    if len(lost) and len(sites) > 1:
        large = sites[sites["named"]] if 2 * sites["named"].sum() >= len(sites) else sites.iloc[:0]
        title = f"At {len(lost)} of {len(sites)} {data.unit}s guessing cannot be ruled out"
        text = f"most have too few people to tell: read the mean over {data.unit}s"
        if len(large):
            worst = large.iloc[-1]
            text = (
                f"lowest: {worst['site']}, {figure.head} {worst[figure.name]:.2f} ({span(worst['low'], worst['high'])})"
            )
        code = "guessing" if len(lost) < len(sites) / 2 else "guessing-at-most"
        yield Concern(code, title, text, "sites")
    below = data.gathered.reversed_sites(data.method)
    if len(below):
        worst = below.iloc[-1]
        text = (
            f"{figure.head} {worst[figure.name]:.2f} ({span(worst['low'], worst['high'])}) where the median of other "
            f"{data.unit}s is {worst['others']:.2f}: look whether {data.target.exchanged} there"
        )
        yield Concern("reversed", f"Scores are reversed at {listed(sorted(below['site']))}", text, "sites")
    for site, text in data.target.one_sided(data.people):
        yield Concern("one-sided", f"Nearly everybody is called the same at {site}", f"{text} so", "sites")
    if data.references and data.summary.mean < data.references[PLAIN] + SAME:
        text = f"mean {figure.head} {data.summary.mean:.3f} against {data.references[PLAIN]:.3f} of plain ridge"
        yield Concern("plain", f"No better than plain ridge on {data.words.all_features}", text, "comparison")


def _covariates_alone(data: ReportData) -> Iterator[Concern]:
    """The control that reads age, sex, motion and other covariates of the study, and no brain."""
    against = data.against(CONFOUNDS)
    if against in ("", BETTER):
        return
    title = "Cannot be told from covariates alone" if against == NO_DIFFERENCE_FOUND else "Covariates alone are better"
    yield Concern("confounds", title, f"{data.sentence_on(CONFOUNDS)}; confounds sees no brain", "controls")


def _motion(data: ReportData) -> Iterator[Concern]:
    people = data.participants
    if data.words.has_regions and len(people) and not (people["mean_fd"] > 0).any():
        text = (
            f"motion changes {data.words.all_features} and often differs between people with the condition and "
            "controls, so nobody can say whether the scores follow it: add a column mean_fd (mean framewise "
            "displacement in mm)"
        )
        yield Concern("motion-unknown", "Head motion is not known for anybody", text, "confounding")
    if data.confounding.empty:
        return
    mean = confounding_means(data.confounding).set_index("method")
    mine = mean.loc[data.method]
    if not np.isfinite(mine["r_motion"]):
        return
    drop = mine["auc"] - mine["auc_without_motion"]
    if abs(mine["r_motion"]) >= FOLLOWS_MOTION or drop >= LOST_TO_MOTION:
        ridge = f"{mean.loc[PLAIN, 'r_motion']:+.2f}" if PLAIN in mean.index and data.method != PLAIN else ""
        plain = f" ({ridge} for plain ridge)" if ridge else ""
        text = (
            f"correlation with log motion {mine['r_motion']:+.2f} within site and class{plain}; without motion the AUC "
            f"is {mine['auc_without_motion']:.2f} instead of {mine['auc']:.2f}"
        )
        code = "lost-to-motion" if drop >= LOST_TO_MOTION else "follows-motion"
        yield Concern(code, "The scores follow head motion", text, "confounding")
