"""Predictions that were made elsewhere: a table with one row per person becomes `Results`, judged like runs of ours.

====================  ===================================================================================
column                meaning
====================  ===================================================================================
subject, site, label  who, where, and 1 for cases or 0 for controls; site and label may come from the study
score                 the higher, the more likely a case; not needed where there is a probability
probability           of being a case: gives the calibration, and the predicted class from 0.5 on; or one for each
                      class (``prob_TC``, ``prob_ASD``) where their names tell which is the condition
predicted             the predicted class, where the threshold was another one
method, seed, fold    where the file holds several; a file without methods is one, by the name of the file
age, sex, mean_fd     for groups and motion, where no study says it
====================  ===================================================================================

A number and several classes: `brainroam.evaluation.target_columns`. Other usual names are understood (`USUAL`). Where
every fold holds whole sites, sites were left out, and otherwise folds of people. How the scores were learned cannot be
seen in a file: `brainroam.evaluation.checks` says what can.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.cohort_file import to_columns
from brainroam.data.names import refuse_aliases
from brainroam.data.people import persons
from brainroam.data.readers import roles
from brainroam.data.readers.participants_table import Columns, code_meaning
from brainroam.data.readers.tables import is_table, read_table, same_id
from brainroam.data.readers.values import ages, codes, floats, is_empty, labels, numbers, sex_meaning, sexes
from brainroam.data.target import Target
from brainroam.errors import ReaderError, RunsError, UsageError, counted, listed, unknown
from brainroam.evaluation.results import Results
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.runs_folder import PARTICIPANTS, describe_cohort, describe_site
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.tables import KEY, columns_of, others_mean, people_metrics
from brainroam.evaluation.target_columns import CANNOT_TELL, case_column, plain_name, read_target, target_of_columns
from brainroam.utils.files import content_hash

USUAL: dict[str, tuple[str, ...]] = {
    "subject": (*roles.USUAL["subject"], "participant", "sub"),
    "site": (*roles.USUAL["site"], "domain", "test_site", "held_out_site", "groups"),
    "label": ("label", "y_true", "true_label", "true", "y", "target", "diagnosis", "dx", "dx_group", "group", "diag"),
    "score": ("score", "y_score", "decision_function", "decision", "decision_value", "logit", "margin"),
    "probability": (
        "probability",
        "prob",
        "proba",
        "y_prob",
        "y_proba",
        "p",
        "predict_proba",
        "prob_1",
        "y_pred_proba",
    ),
    "predicted": ("predicted", "y_pred", "prediction", "pred", "predicted_label", "predicted_class"),
    "method": ("method", "model", "pipeline", "classifier", "estimator", "algorithm"),
    "seed": ("seed", "repeat", "repetition", "random_state", "random_seed"),
    "fold": ("fold", "split", "cv_fold", "outer_fold", "test_fold"),
    "protocol": ("protocol",),
    "person": ("person",),
    "institution": roles.USUAL["institution"],
    "age": roles.USUAL["age"],
    "sex": roles.USUAL["sex"],
    "mean_fd": roles.USUAL["mean_fd"],
}
TUNING = "from a file"
RUN = ["method", "protocol", "seed", "fold"]

Study = Cohort | Results | Mapping[str, Any]


def is_predictions_file(path: str | Path) -> bool:
    """Whether this names a table rather than a folder of runs.

    >>> is_predictions_file("mine.tsv"), is_predictions_file("runs")
    (True, False)
    """
    return is_table(Path(path)) and not Path(path).is_dir()


def read_predictions(path: str | Path, study: Study | None = None) -> Results:
    """Read a file of predictions; `brainroam.compare` and `brainroam.report` take what it returns.

    Parameters
    ----------
    path : path
        A csv, tsv or xlsx table with a row per person, method, seed and fold: ``subject``, ``site``, ``score`` or
        ``probability``, ``label``; see the columns above.
    study : Cohort or Results, optional
        Where the people come from: their site and label where the file does not say them, age, sex and head motion.

    Returns
    -------
    Results
        ``study["from_files"]`` names the file of each method.

    Examples
    --------
    >>> import tempfile
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"participant_id": [f"p{i:02}" for i in range(60)], "center": np.repeat(list("ABC"), 20),
    ...     "y_true": np.tile([0, 1], 30), "y_score": rng.normal(size=60) + np.tile([0, 1], 30)})
    >>> file = Path(tempfile.mkdtemp()) / "mine.csv"
    >>> table.to_csv(file, index=False)
    >>> read_predictions(file).scores[["method", "site", "n", "auc"]].round(2)
      method site   n   auc
    0   mine    A  20  0.88
    1   mine    B  20  0.95
    2   mine    C  20  0.80
    """
    path = Path(path)
    if not path.is_file():
        raise RunsError(f"{path} does not exist; name a table of predictions, or a folder of runs")
    facts = _facts(study)
    table, target = _read(path, None if facts is None else Target.of_description(facts.get("target")))
    left_out: list[str] = []
    if facts is not None:
        table, left_out = _join(table, pd.DataFrame(facts["participants"]), target, path)
    for role in ("site", "label"):
        if role not in table:
            raise ReaderError(
                f"{path} has no column for the {role} ({listed(USUAL[role], 20)}), and no study says it: add it, "
                "or name the study beside it (a folder of runs, or --data study.yaml)"
            )
    refuse_aliases(table["site"].unique(), "site")
    table, n_not_shared = _shared_by_methods(table)
    _refuse_people_twice(table, path)
    table = _in_folds(table)
    table = table.sort_values([*KEY, "subject"], ignore_index=True)
    of_scores, of_predictions = columns_of({"target": target.described()})
    scores = pd.DataFrame(list(_score_rows(table, target)))[list(of_scores)]
    predictions = table.reindex(columns=list(of_predictions))
    if facts is None:
        facts = _facts_of_file(table, target)
    return Results(
        scores,
        predictions,
        {
            **facts,
            "commands": [],
            "missing": [],
            "failed": [],
            "not_shared": n_not_shared,
            "excluded": [
                *facts["excluded"],
                *({"subject": name, "reason": f"in {path.name}, but not in the study"} for name in left_out),
            ],
            "from_files": dict.fromkeys(sorted(table["method"].unique()), str(path)),
        },
    )


def _facts(study: Study | None) -> dict[str, Any] | None:
    """What is known of a study, as a folder of runs keeps it."""
    if study is None:
        return None
    if isinstance(study, Cohort):
        return describe_cohort(study)
    return dict(study.study if isinstance(study, Results) else study)


def _facts_of_file(table: pd.DataFrame, target: Target) -> dict[str, Any]:
    """The same of a file that stands alone."""
    people = table.drop_duplicates("subject")
    people = people.assign(site=people["of_site"]).reindex(columns=list(PARTICIPANTS))
    columns = plain(to_columns(people))
    return {
        "manifest_hash": "",
        "table_hash": content_hash(columns),
        "cohort": f"{counted(persons(people).nunique(), 'person', 'people')} of a file of predictions",
        "atlas": "",
        "sites": plain([describe_site(str(site), here) for site, here in people.groupby("site")]),
        "excluded": [],
        "participants": columns,
        **target.entry(),
    }


def _read(path: Path, target: Target | None) -> tuple[pd.DataFrame, Target]:
    """The columns of the file by our names, each as what it is; and what they predict, where no study says it."""
    raw = read_table(path)
    if raw.empty:
        raise ReaderError(f"{path} has no rows; predictions need a header and one row per person")
    raw = raw.map(lambda cell: cell.removeprefix("'"))  # as brainroam writes what a spreadsheet would calculate
    column, known = _columns(raw, path), target is not None
    target = target or target_of_columns(raw, column)
    table = pd.DataFrame({"subject": codes(raw[column["subject"]])})
    for role in ("site", "method", "fold", "protocol", "person", "institution"):
        if role in column:
            table[role] = codes(raw[column[role]])
    nobody = is_empty(table["subject"])
    if nobody.any():
        raise ReaderError(f"{path}, line {nobody.idxmax() + 2} has no id in the column {column['subject']!r}")
    if target.is_two_classes:
        if not {"score", "probability"} & column.keys() and (named := case_column(raw, target, path)):
            column["probability"] = named
        table = table.join(_two_classes(raw, column, table["subject"], known, path))
    else:
        table = table.join(read_target(raw, column, target, table["subject"], path))
    table["seed"] = floats(raw[column["seed"]], path).astype(int) if "seed" in column else 0
    for role, convert in {"age": ages, "mean_fd": numbers}.items():
        if role in column:
            table[role] = convert(raw[column[role]], path)
    if "sex" in column:
        sex = raw[column["sex"]]
        table["sex"] = sexes(sex, path, sex_meaning(sex, None, raw, path))
    if "method" not in table:
        table["method"] = path.name.split(".")[0]
    return table, target


def _columns(raw: pd.DataFrame, path: Path) -> dict[str, str]:
    """Which column plays which role; an error where a needed one is absent."""
    by_name = {plain_name(str(name)): str(name) for name in reversed(raw.columns)}
    column = {
        role: next(by_name[name] for name in names if name in by_name)
        for role, names in USUAL.items()
        if any(name in by_name for name in names)
    }
    if "subject" not in column:
        raise _no_column("subject", USUAL["subject"], raw, path)
    return column


def _no_column(role: str, names: Sequence[str], raw: pd.DataFrame, path: Path) -> ReaderError:
    return ReaderError(
        f"{path} has no column for the {role}: call it {listed(names, 20)}. It has {listed(raw.columns, 20)}; several "
        "methods stand below each other, with a column method"
    )


def _two_classes(
    raw: pd.DataFrame, column: Mapping[str, str], subject: pd.Series, known: bool, path: Path
) -> pd.DataFrame:
    """Scores, probabilities, predicted classes and labels; ``named`` where only a study, if ``known``, tells labels."""
    roles = [role for role in ("score", "probability", "predicted") if role in column]
    if not roles:
        raise _no_column("score", [*USUAL["score"], *USUAL["probability"]], raw, path)
    table = pd.DataFrame({role: _numbers_of(raw[column[role]], role, subject, path) for role in roles})
    table = _with_scores(table.assign(subject=subject), path).drop(columns="subject")
    if "label" in column:
        values = raw[column["label"]]
        try:
            table["label"] = _labels(values, subject, path)
        except UsageError as error:
            if not known or values.nunique() > 2:
                raise ReaderError(
                    f"{path}, column {values.name!r} holds {listed(sorted(set(values)), 10)}, and "
                    f"{CANNOT_TELL}: write 1 for cases and 0 for controls"
                ) from error
            table["named"] = values
    return table


def _numbers_of(values: pd.Series, role: str, subject: pd.Series, path: Path) -> pd.Series:
    """Numbers of a column; a score must be there for everybody."""
    numbers = floats(values, path)
    if role == "score" and not np.isfinite(numbers).all():
        raise ReaderError(
            f"{path} has no finite score for {listed(subject[~np.isfinite(numbers)])}; leave their rows out if nobody "
            "could score them: people not in the file are counted"
        )
    if role == "probability" and not numbers.dropna().between(0, 1).all():
        raise ReaderError(
            f"{path}, column {values.name!r} holds {numbers.min():g} to {numbers.max():g}, which are no probabilities; "
            "call the column score"
        )
    return numbers


def _with_scores(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """With ``score``, ``probability`` and ``predicted``, NaN where the file does not tell."""
    for role in ("probability", "predicted"):
        if role not in table:
            table[role] = np.nan
    if "score" not in table:
        table["score"] = table["probability"] if table["probability"].notna().any() else table["predicted"]
        if table["score"].isna().any():
            raise ReaderError(
                f"{path} has no score or probability for {listed(table['subject'][table['score'].isna()])}"
            )
    if not table["predicted"].dropna().isin([0, 1]).all():
        table["predicted"] = np.nan  # some call a score a prediction
    if table["predicted"].isna().any():
        table["predicted"] = (table["probability"] >= 0.5).astype(float).where(table["probability"].notna())
    return table


def _labels(values: pd.Series, subject: pd.Series, path: Path) -> pd.Series:
    codes = labels(values, code_meaning(values, Columns(), path))["label"]
    if codes.isna().any():
        raise ReaderError(f"{path} has no label for {listed(subject[codes.isna()])}; leave their rows out")
    return codes.astype(int)


def _join(table: pd.DataFrame, people: pd.DataFrame, target: Target, path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The table with what the study knows of its people, and the ids of those whom it does not know."""
    named = _ids_of_study(table["subject"], people["subject"], path)
    left_out = sorted(table["subject"][named.isna()].unique())
    table = table.assign(subject=named)[named.notna()]
    rows = people.set_index("subject").loc[table["subject"]].set_axis(table.index)
    table = _with_sites(_with_labels(table, rows, target, path), rows, path)
    for name in ("person", "institution"):
        if name not in table and name in rows:
            table[name] = rows[name]
    return table, left_out


def _ids_of_study(subjects: pd.Series, known: pd.Series, path: Path) -> pd.Series:
    """Each person's id as the study writes it, NaN of those whom it does not know."""
    by_id = {str(name): str(name) for name in known}
    named = subjects.map(by_id)
    if named.isna().all():  # with and without sub-, zeros in front
        by_id = {same_id(str(name)): str(name) for name in known}
        if len(by_id) < len(known):
            raise ReaderError(f"{path}: ids such as {listed(subjects, 3)} name several people of the study")
        named = subjects.map(same_id).map(by_id)
    if named.isna().all():
        raise ReaderError(
            f"nobody in {path} is in the study: ids such as {listed(subjects.unique(), 3)} there, "
            f"{listed(known, 3)} in the study"
        )
    return named


def _with_labels(table: pd.DataFrame, rows: pd.DataFrame, target: Target, path: Path) -> pd.DataFrame:
    """With the labels of the study (``rows``), which those of the file may not contradict."""
    unlabelled = rows["label"].isna()
    if unlabelled.any() and "label" not in table:
        raise ReaderError(f"the study has no label for {listed(table['subject'][unlabelled])}; leave their rows out")
    if "named" in table:  # 1 and 2, or words: the study knows which is the condition
        named = table.pop("named")
        table["label"] = named.map(_meanings(named, rows["label"]))
    if "label" in table:
        differ = ~np.isclose(table["label"], rows["label"], rtol=1e-6) & ~unlabelled
        if differ.any():
            why = target.doubt
            raise ReaderError(
                f"{path} and the study disagree about the label of {counted(int(differ.sum()), 'row', 'rows')}: "
                f"{listed(table['subject'][differ].unique())}; {why}?"
            )
    label = rows["label"].where(~unlabelled, table.get("label", np.nan))  # numbers may be rounded in the file
    return table.assign(label=label.astype(target.label_type))


def _with_sites(table: pd.DataFrame, rows: pd.DataFrame, path: Path) -> pd.DataFrame:
    """With the sites of the study (``rows``), where the column of the file is of sites and not of what was held out."""
    held_out_otherwise = "protocol" in table and table["protocol"].isin(["cv", "loio"]).any()
    if "site" not in table:
        return table.assign(site=rows["site"])
    if held_out_otherwise:
        return table
    pairs = pd.DataFrame({"file": table["site"], "study": rows["site"]}).drop_duplicates()
    mixed = pairs[pairs["file"].duplicated(keep=False) | pairs["study"].duplicated(keep=False)]
    if len(mixed):
        first = mixed.index[0]
        raise ReaderError(
            f"{path} has other sites than the study: {table['subject'][first]} is at {table['site'][first]} there, "
            f"at {rows['site'][first]} in the study. Take the column out to use the sites of the study"
        )
    return table.assign(site=rows["site"])


def _meanings(values: pd.Series, label: pd.Series) -> dict[str, float]:
    """What each of a file's labels means to the study: the commonest of its people; others then disagree."""
    return {str(value): float(known.mode().iloc[0]) for value, known in label.dropna().groupby(values)}


def _shared_by_methods(table: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows of people whom every method scored, so that methods can be compared, and how many others there are."""
    n_methods = table.groupby("subject")["method"].transform("nunique")
    shared = n_methods == table["method"].nunique()
    if not shared.any():
        raise RunsError("the methods of the file have nobody in common: their scores cannot be compared")
    return table[shared], int(table["subject"][~shared].nunique())


def _refuse_people_twice(table: pd.DataFrame, path: Path) -> None:
    run = [name for name in ("method", "seed", "fold", "protocol", "site") if name in table]
    twice = table["subject"][table.duplicated([*run, "subject"])].unique()
    if len(twice):
        raise ReaderError(
            f"{path} holds {listed(twice)} more than once for one method, seed, fold and site; say what tells the rows "
            "apart (columns method, seed, fold), or for several scans of one person give each its own subject and a "
            "column person"
        )


def _in_folds(table: pd.DataFrame) -> pd.DataFrame:
    """With ``protocol``, ``fold`` and as ``site`` what was held out and measured; ``of_site`` stays the site."""
    table = table.assign(of_site=table["site"])
    if "protocol" in table:
        for name in table["protocol"].unique():
            if name not in UNITS:
                raise unknown("protocol", name, UNITS)
        return table if "fold" in table else table.assign(fold=table["site"])
    if "fold" not in table:
        return table.assign(protocol="loso", fold=table["site"])
    everybody = table.groupby(["method", "seed", "site"])["subject"].transform("nunique")
    here = table.groupby(["method", "seed", "fold", "site"])["subject"].transform("nunique")
    if (everybody != here).any():  # some people of a site were held out, others trained on
        return table.assign(protocol="cv", site=table["fold"])
    n_folds = table.groupby(["method", "seed", "site"])["fold"].nunique()
    return table.assign(protocol="loso" if (n_folds == 1).all() else "halves")


def _score_rows(table: pd.DataFrame, target: Target) -> Iterator[dict[str, Any]]:
    """The rows of `Results.scores`: the metrics of each run at each site."""
    for key, run in table.groupby(RUN, sort=True):
        method, protocol, seed, fold = key
        threshold = _threshold(run) if "probability" in run else np.nan  # of a number and of several classes none
        mean = others_mean(table, key, target)
        for site, scans in run.groupby("site", sort=True):
            yield {
                **{"method": method, "protocol": protocol, "site": site, "fold": fold, "seed": seed},
                **people_metrics(scans, target, {"threshold": threshold, "constant": mean}),
                **{"threshold": threshold, "prevalence": mean, "tuning": TUNING, "configuration": "{}"},
            }


def _threshold(run: pd.DataFrame) -> float:
    """The score from which on people are predicted cases; NaN where that is not told, or no score does it."""
    score, called = run["score"], run["predicted"]
    if called.isna().any():
        return float("nan")
    lowest, highest = score[called == 1].min(), score[called == 0].max()
    if np.isnan(lowest):
        return float(np.nextafter(highest, np.inf))
    return float(lowest) if np.isnan(highest) or highest < lowest else float("nan")
