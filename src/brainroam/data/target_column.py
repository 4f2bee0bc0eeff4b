"""A column of the table as the target: its kind, its values, and who has none.

Whoever has no value is left out with the reason. Codes such as -9999 stand for unknown where they lie beyond all other
values. The column itself leaves the table, so that no method reads it as a covariate; the diagnosis stays in a column
of that name.
"""

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.names import names_role, words_in
from brainroam.data.people import RENAMED
from brainroam.data.readers.values import SENTINELS, codes, fold, is_empty, one_spelling
from brainroam.data.target import (
    CLASSES,
    MOST_CLASSES,
    NUMBER,
    ORDERED,
    TWO,
    Target,
    TargetRequest,
    is_control,
    two_classes,
)
from brainroam.errors import DataError, UsageError, counted, listed, unknown, warn_user

FEW = 10  # different numbers up to which a column may as well hold classes or steps of an order
DIAGNOSES = {"diagnosis", "dx", "diag", "diagnose", "diagnostic", "diagnostico", "diagnosi", "disease"}
SEXES = {"1": "male", "0": "female"}  # of the column ``sex`` of every table of people
SEX_OF_LETTER = {**dict.fromkeys("fw02", "female"), **dict.fromkeys("mh1", "male")}  # how a case may begin
PROMISED = ("age", "sex", "mean_fd", "tr")  # columns that every table of people has


def guess_kind(values: pd.Series) -> str:
    """What the values of a column are, as text; nothing where numbers are so few that only people can know.

    >>> guess_kind(pd.Series(["1.5", "2", *map(str, range(20))])), guess_kind(pd.Series(["ASD", "TD", "", "ADHD"]))
    ('number', 'classes')
    >>> guess_kind(pd.Series(["1", "2", "3"]))
    ''
    """
    known = one_spelling(values)[~is_empty(values)]
    numbers = pd.to_numeric(known, errors="coerce")
    if numbers.notna().all():
        distinct = set(numbers) - set(map(float, SENTINELS))
        return TWO if len(distinct) == 2 else NUMBER if len(distinct) > FEW else ""
    return TWO if known.nunique() == 2 else CLASSES


def with_target(
    cohort: Cohort, asked: str | Mapping[str, str | Sequence[str]] | TargetRequest, require_label: bool = True
) -> Cohort:
    """The cohort with a column of its table as what is predicted.

    Parameters
    ----------
    cohort : Cohort
    asked : str, mapping or TargetRequest
        The column, and where the values do not show it the kind: see `TargetRequest.of`.
    require_label : bool
        Leave out who has no value; False keeps them, for prediction.

    Examples
    --------
    >>> import brainroam
    >>> cohort = with_target(brainroam.make_cohort(n_sites=2, n_per_site=30, n_rois=8), "age:log")
    >>> cohort.target, cohort.covariate_names, cohort.targets.shape
    (Number(name='age', classes=(), transform='log'), ('sex',), (60,))
    """
    request = TargetRequest.of(asked)
    table = cohort.table
    if request.column == "group" and "group" not in table and RENAMED in table:
        request = replace(request, column=RENAMED)
    column = _find(table, request.column)
    if column is None and not require_label:
        table["label"] = np.nan
        return cohort.predicting(
            Target.of_kind(request.column, request.kind or NUMBER, transform=request.transform), table
        )
    if column is None:
        offered = [name for name in table if name not in ("subject", "site", "label", "n_timepoints")]
        raise unknown("column to predict", request.column, offered)
    if column != "sex" and _tells_the_sex(table, column):
        column = "sex"
    text = _as_text(table[column])
    if column == "sex":
        text = codes(text).replace(SEXES)
        request = replace(request, case=SEX_OF_LETTER.get(request.case[:1].lower(), request.case or "male"))
    _require_two_values(text, column, cohort)
    kind = request.kind or guess_kind(text)
    if not kind and words_in(column) & DIAGNOSES:
        kind = CLASSES
        warn_user(
            f"the target {column!r} is read as classes, by its name; where its codes are steps of a scale or amounts, "
            f"say --target {column}:ordered or {column}:number"
        )
    if not kind:
        distinct = sorted(set(one_spelling(text)[~is_empty(text)]) - set(map(str, SENTINELS)), key=float)
        raise UsageError(
            f"the target {column!r} holds {len(distinct)} different numbers ({listed(distinct, FEW)}): say what they "
            f"are, diagnoses (--target {column}:classes), steps of a scale (:ordered) or amounts (:number)"
        )
    asked_of = replace(request, column=column, kind=kind)
    target, label, reason = _read(asked_of, text, table, require_label)
    if target.is_classes and require_label:
        target, label, reason = _at_several_sites(target, label, reason, table["site"])
    same = _same_columns(table, column, label)
    target = replace(target, name=next((name for name in PROMISED if name in same), column))
    for name in set(same) & set(cohort.covariate_names):
        warnings.warn(f"{name} is what is predicted, so it is no covariate of this study", stacklevel=2)
    table = table.assign(label=label).drop(columns=[name for name in same if name not in PROMISED])
    table = table.assign(**{name: np.nan for name in same if name in PROMISED})
    if column != "label" and "diagnosis" not in table:
        table["diagnosis"] = cohort.table["label"]
    predicting = cohort.predicting(target, table)
    unknown_value = label.isna().to_numpy()
    if require_label and unknown_value.any():
        predicting = predicting.exclude(unknown_value, reason[unknown_value].tolist())
    if len(np.unique(predicting.table["label"].dropna())) < 2 and require_label:
        raise DataError(f"the target {column!r} is the same for everybody; there is nothing to predict")
    return predicting


def _require_two_values(text: pd.Series, column: str, cohort: Cohort) -> None:
    """An error where everybody who was read has one value; why others were not is the likeliest reason."""
    known = one_spelling(text)[~is_empty(text)].unique()
    if len(known) > 1 or cohort.labels_hidden or not len(cohort.excluded):
        return
    reason = cohort.excluded["reason"].mode().iloc[0]
    raise DataError(
        f"the target {column!r} is the same for everybody who was read ({listed(known) or 'not known'}); "
        f"{counted(len(cohort.excluded), 'person was', 'people were')} left out, as: {reason}"
    )


def _tells_the_sex(table: pd.DataFrame, column: str) -> bool:
    """Whether a column says of everybody what ``sex`` says, in other words or codes."""
    if not names_role(column, "sex") or "sex" not in table or table["sex"].nunique() != 2:
        return False
    pairs = pd.DataFrame({"text": codes(_as_text(table[column])), "sex": table["sex"]})
    pairs = pairs[~is_empty(pairs["text"]) & pairs["sex"].notna()].drop_duplicates()
    return len(pairs) == 2 and pairs["text"].is_unique and pairs["sex"].is_unique


def _find(table: pd.DataFrame, asked: str) -> str | None:
    by_word = {fold(str(name)): str(name) for name in reversed(table.columns)}
    column = asked if asked in table else by_word.get(fold(asked))
    if column in ("subject", "site", "n_timepoints", "person", "group"):
        raise UsageError(f"{column!r} cannot be the target: it is no property of a person that edges could tell")
    return column


def _same_columns(table: pd.DataFrame, column: str, label: pd.Series) -> list[str]:
    """The column itself, and others with the same numbers, as ``age`` beside ``AGE_AT_SCAN``."""
    known = label.notna()
    others = [
        str(name)
        for name in table.select_dtypes("number")
        if name not in ("label", "n_timepoints", column)
        and known.any()
        and np.allclose(table[name][known], label[known])
    ]
    return [name for name in (column, *others) if name != "label"]


def _as_text(values: pd.Series) -> pd.Series:
    """Cells as people write them, empty where nothing is known."""
    return values.astype(object).where(values.notna(), "").astype(str).str.strip()


def _at_several_sites(
    target: Target, label: pd.Series, reason: pd.Series, site: pd.Series
) -> tuple[Target, pd.Series, pd.Series]:
    """Without classes that one site alone has: whatever tells them apart may as well be that site."""
    where = {code: sorted(set(site[label == code].astype(str))) for code in range(len(target.classes))}
    alone = [code for code, sites in where.items() if len(sites) < 2]
    if not alone or site.nunique() < 2:
        return target, label, reason
    for code in alone:
        people = counted(int((label == code).sum()), "person", "people")
        problem = f"the class {target.classes[code]!r} is found at one site only ({listed(where[code])}, {people})"
        warnings.warn(f"target {target.name}: {problem}: left out, since it cannot be told from the site", stacklevel=3)
        reason = reason.where(label != code, f"{problem}, so it cannot be told from the site")
    codes = [code for code in where if code not in alone]
    if len(codes) < 3:
        names = listed([target.classes[code] for code in codes]) or "none"
        raise DataError(
            f"of the target {target.name!r} fewer than three classes are found at two sites or more ({names}): keep "
            "two in a column of their own, and predict these"
        )
    label = label.map({float(code): float(place) for place, code in enumerate(codes)})
    return replace(target, classes=tuple(target.classes[code] for code in codes)), label, reason


def _read(
    request: TargetRequest, text: pd.Series, table: pd.DataFrame, whole: bool = True
) -> tuple[Target, pd.Series, pd.Series]:
    """The target with its classes, the label of each person (NaN where unknown), and why it is unknown."""
    target = Target.of_kind(request.column, request.kind, transform=request.transform)
    empty = is_empty(text)
    reason = pd.Series(f"no value of the target {target.name}", index=text.index)
    if target.kind == NUMBER:
        label = pd.to_numeric(text.where(~empty), errors="coerce").astype(float)
        strange = label.isna() & ~empty
        if strange.any():
            raise DataError(
                f"the target {target.name!r} is no number for {listed(table.loc[strange, 'subject'])}: "
                f"{listed(text[strange].unique())}; correct it, leave it empty, or say --target {target.name}:classes"
            )
        code = _codes_of_unknown(label)
        reason = reason.where(~code, f"the target {target.name} is " + text + ", a code for unknown")
        label = label.mask(code)
        if target.transform == "log" and (label <= 0).any():
            who = listed(table.loc[label <= 0, "subject"])
            raise DataError(
                f"the target {target.name!r} has no logarithm for {who}: it must be larger than 0; predict it without "
                f":log, or a column of your own, such as log(1 + {target.name})"
            )
        return target, label, reason
    words = one_spelling(text)
    words = words.where(~_codes_of_unknown(pd.to_numeric(words, errors="coerce")), "")
    if request.order:
        words = _spelled_as(words, request, table if whole else None)
    empty = is_empty(words) & ~words.isin(request.order)
    if target.is_two_classes:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what scikit-learn's scorers make of words: these become 0 and 1
                order, coded = two_classes(words[~empty].to_numpy(), request.case or None)
        except DataError as error:
            values = listed(sorted(set(words[~empty])))
            raise UsageError(
                f"the target {target.name!r} holds {values}: say which is the condition, as in "
                f"--target {target.name}:case={words[~empty].iloc[0]}"
            ) from error
        label = pd.Series(np.nan, index=text.index)
        label[~empty] = coded
        return replace(target, classes=tuple(map(str, order))), label, reason
    least = 0 if not whole else 2 if table["site"].nunique() < 2 else 3
    names = _class_names(words[~empty], target, least, request.order)
    return replace(target, classes=names), words.map({name: float(k) for k, name in enumerate(names)}), reason


def _spelled_as(words: pd.Series, request: TargetRequest, table: pd.DataFrame | None) -> pd.Series:
    """Words as the steps of the order are written; others are refused, or unknown where there is no table."""
    by_word = {fold(step): step for step in request.order}
    steps = words.map(fold).map(by_word)
    strange = steps.isna() & ~is_empty(words)
    if strange.any() and table is not None:
        raise DataError(
            f"the target {request.column!r} is {listed(words[strange].unique())} for "
            f"{listed(table.loc[strange, 'subject'])}, which is no step of the order {', '.join(request.order)}: name "
            "all steps, or leave the cell empty"
        )
    return steps.fillna("")


def _class_names(words: pd.Series, target: Target, least: int, order: Sequence[str] = ()) -> tuple[str, ...]:
    """The classes: in the order given, ordered as numbers, or by name, controls first."""
    present = sorted(words.unique())
    numbers = pd.to_numeric(pd.Series(present), errors="coerce")
    if len(present) > MOST_CLASSES:
        raise DataError(
            f"the target {target.name!r} has {len(present)} different values ({listed(present, 3)}): is it a number "
            f"(--target {target.name}:number) or an id? Up to {MOST_CLASSES} classes can be told apart"
        )
    if len(present) < least:
        raise DataError(f"the target {target.name!r} has {counted(len(present), 'class', 'classes')}: 3 or more can be")
    if order:
        return tuple(step for step in order if step in present)
    if numbers.notna().all():
        return tuple(name for _, name in sorted(zip(numbers, present, strict=True)))
    if target.kind == ORDERED:
        steps = ",".join(present)
        raise DataError(
            f"the target {target.name!r} holds words ({listed(present)}), whose order cannot be known: name the steps "
            f"from the least to the most, as in --target {shlex.quote(f'{target.name}:ordered={steps}')}"
        )
    return tuple(sorted(present, key=lambda name: (not is_control(name), name)))


def _codes_of_unknown(values: pd.Series) -> pd.Series:
    """Which numbers are codes such as -9999: they lie beyond all values that are none, by more than these span."""
    code = values.isin(SENTINELS)
    others = values[~code].dropna()
    if not code.any() or others.empty:
        return code
    low, high = others.min(), others.max()
    span = max(high - low, 1e-12)
    return code & ((values < low - span) | (values > high + span))
