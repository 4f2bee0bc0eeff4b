"""Tables that can be sorted, read aloud and downloaded as CSV, with an explanation of each column."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from brainroam.data.target.figures import Shown, amount, points, span_of_r, two_digits
from brainroam.data.target.figures import span as span_of_points
from brainroam.evaluation.stats.compare import count_of_sites
from brainroam.report.page import render

MEANING = {
    "acc": "Share of people classified right, at the threshold learned on the training sites.",
    "age_mean": "Mean age in years, with the standard deviation between people.",
    "age_min": "Youngest and oldest person.",
    "age_sex_alone": "AUC of age and sex alone: a logistic model of the other sites that never sees the brain.",
    "auc": "Probability that a randomly chosen person with the condition scores higher than a randomly chosen "
    "control of the same site: "
    "0.5 is guessing, 1 is perfect.",
    "concordance": "AUC over all pairs of a person with the condition and a control of the same site, each pair "
    "counting once: large sites "
    "count for more than in the mean over sites.",
    "auc_low": "95 % interval of the mean over sites.",
    "auc_without_all": "AUC after log motion, age and sex are taken out of the score, within site and class.",
    "auc_without_age_sex": "AUC after age and sex are taken out of the score, within site and class.",
    "auc_without_motion": "AUC after log motion (mean framewise displacement) is taken out of the score, within site "
    "and class.",
    "balanced_acc": "Mean of sensitivity and specificity, at the threshold learned on the training sites: 0.5 is "
    "guessing, whatever the share with the condition.",
    "brier_constant": "Brier score of giving everybody the share with the condition as probability: a model "
    "should lie below it.",
    "brier": "Mean squared difference between predicted probability and what was true: 0 is perfect, 0.25 is "
    "saying 50 % to everybody.",
    "calibration_intercept": "0 is perfect; below 0 too many people are predicted to have the condition, above 0 "
    "too few.",
    "calibration_slope": "1 is perfect; below 1 the probabilities are too extreme, above 1 too timid.",
    "d_com": "Consensus contrast: the median over training sites of the difference between people with and without the "
    "condition, or of the slope on a number. Positive: a stronger edge, or a larger value of a table, with the "
    "condition or where the number is higher.",
    "d_site": "The same at this site alone.",
    "covered": "Share of people whose answer contains their true class; 'either' contains both.",
    "decided": "Share of people for whom the answer is one class, not 'either'.",
    "difference": "Mean over sites, weighted as the AUC is, of the difference in AUC, in points of 0.01; positive: "
    "better than the reference.",
    "effect": "Mean size of what the edge or column adds to the score; negative where a stronger edge, or a larger "
    "value, speaks against the condition.",
    "gap": "The last group minus the first, all sites together.",
    "kappa": "Sign consistency: the share of training sites whose contrast has the sign of d_com.",
    "limit": "Where the check would have been judged otherwise.",
    "calibration_in_the_large": "How far the mean probability, classes counting alike, is off one half: 0 is perfect.",
    "low": "Where the true value lies in 95 of 100 such studies; a dash where sites or people are too few.",
    "male": "Share of men and boys among those whose sex is known.",
    "mean_fd_mean": "Mean framewise displacement, a measure of head motion, in mm.",
    "mean_gate": "Mean over held-out people of how open the pathway's gate is: 0 shut, 1 open.",
    "mean_probability": "Mean predicted probability of the condition.",
    "mean_size_of_contribution": "Mean over held-out people of how much the pathway moved the logit, either way.",
    "motion_alone": "AUC of head motion alone: a logistic model of the other sites that never sees the brain.",
    "npv": "Share of people without the condition among those not predicted to have it (negative predictive value).",
    "n": "People counted in this row.",
    "next_low": "95 % prediction interval: where the AUC of a next site like these is to be expected.",
    "nu": "Share of the folds whose scaffold contains the edge or column. Folds share most of their training sites.",
    "p": "Two-sided p of the mean difference, with the site as the unit.",
    "p_holm": "The same, corrected for the number of comparisons in this table (Holm).",
    "pi": "Stability: the share of bootstraps of the training sites in which the consensus d_com keeps its sign.",
    "ppv": "Share of people with the condition among those predicted to have it (positive predictive value).",
    "r_motion": "Correlation of score and log motion within site and class: 0 means that the score does not follow "
    "motion.",
    "right": "Of the people whose answer is one class, the share for whom it is the right one.",
    "sensitivity": "Share of people with the condition who are found.",
    "share": "Share of people with the condition.",
    "specificity": "Share of people without the condition who are left alone.",
    "tr": "Repetition time of the scan, in seconds.",
    "volumes_median": "Length of the scan in volumes: median, and range where it differs.",
    "won": "At how many sites the method is better than the reference.",
    "worst_auc": "The site with the lowest AUC, of those with at least five people of each class.",
}


NOTHING = "\N{EN DASH}"
SENTENCE = 40  # characters; anything shorter is a name


@dataclass(frozen=True)
class Column:
    """One column: the key of its values, its heading, and how a value is shown.

    ``show`` may also take the whole row, by ``of_row``; the column is sorted by its value all the same. ``meaning`` is
    said where the key means something else than in reports on two classes.
    """

    key: str
    heading: str
    show: Callable[[Any], str] = str
    of_row: bool = False
    meaning: str | None = None


OVER = Column("n_sites", "Sites", lambda row: count_of_sites(row["n_sites"], row["of_sites"]), of_row=True)


def column_of(shown: Shown) -> Column:
    """A column that the target shows, with two digits everywhere."""
    first, head = shown.names[0], shown.head.replace("{unit}*", "site").replace("{unit}", "site")
    head = head[:1].upper() + head[1:] if head != "r" else head
    if shown.form in (span_of_points, span_of_r):
        return Column(first, head, interval(first, shown.names[-1]), of_row=True, meaning=shown.meaning)
    if len(shown.names) > 1:
        return Column(first, head, lambda row: f"{row[first]:.2f} {row[shown.names[1]]}", True, shown.meaning)
    form = number if shown.form in (points, two_digits) else amount if shown.form is amount else fixed(3)
    return Column(first, head, form, meaning=shown.meaning)


def lack_sites(rows: pd.DataFrame) -> bool:
    """Whether rows are over different sites, as of a study that is not finished."""
    return bool((rows["n_sites"] < rows["of_sites"]).any())


def table(rows: pd.DataFrame, columns: Sequence[Column], name: str, caption: str) -> Markup:
    """A table with this caption; the first column heads the rows, and ``name`` is that of the CSV file.

    >>> frame = pd.DataFrame({"site": ["<b>"], "auc": [0.71234]})
    >>> "&lt;b&gt;" in table(frame, [Column("site", "Site"), Column("auc", "AUC", fixed(2))], "sites", "AUC by site")
    True
    """
    body = [[cell(row, column) for column in columns] for row in rows.to_dict("records")]
    looks = [_look(rows[column.key], [row[i][1] for row in body]) for i, column in enumerate(columns)]
    meanings = [MEANING.get(column.key, "") if column.meaning is None else column.meaning for column in columns]
    return render("table.html", columns=columns, looks=looks, body=body, name=name, caption=caption, meanings=meanings)


def fixed(digits: int, scale: float = 1.0) -> Callable[[float], str]:
    """How a number is shown.

    >>> fixed(1, 100)(0.7125)
    '71.2'
    """
    return lambda value: f"{scale * value:.{digits}f}"


def number(value: float, digits: int = 2) -> str:
    """A number in a sentence, or a dash where there is none.

    >>> number(0.7125), number(float("nan"))
    ('0.71', '–')
    """
    return NOTHING if math.isnan(value) else f"{value:.{digits}f}"


def p_value(value: float) -> str:
    """A p value as journals print it.

    >>> p_value(0.00012), p_value(0.04321)
    ('< 0.001', '0.043')
    """
    return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def span(low: float, high: float, digits: int = 2) -> str:
    """An interval in words, or a dash where there is none.

    >>> span(0.581, 0.8)
    '0.58 to 0.80'
    """
    return NOTHING if math.isnan(low) or math.isnan(high) else f"{low:.{digits}f} to {high:.{digits}f}"


def interval(low: str, high: str, digits: int = 2) -> Callable[[dict[str, Any]], str]:
    """Show the interval that a row has under these two keys."""
    return lambda row: span(row[low], row[high], digits)


def _look(values: pd.Series, texts: list[str]) -> str:
    """The class of a column: numbers stand right, sentences get room."""
    if pd.api.types.is_numeric_dtype(values):
        return "number"
    return "prose" if max(map(len, texts), default=0) > SENTENCE else "word"


def cell(row: dict[str, Any], column: Column) -> tuple[str, str]:
    """The value to sort by and export, and the text to read: a dash where there is none."""
    value = row[column.key]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "", NOTHING
    return str(value), column.show(row if column.of_row else value)
