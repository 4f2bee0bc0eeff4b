"""Results: the finished runs of a study as tables; how folders and files are read, joined and compared.

Two studies can be read as one: the same people by two atlases, two pipelines, before and after a change, or from a
file. The methods of each study get its name in front (``cc200: core``), unless all folders are of the same data and no
two methods share a name. Only people whom all studies scored at the same site are kept, so that every comparison is
paired; the metrics are computed again where somebody falls out.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.data.target import Target
from brainroam.errors import RunsError, UsageError, counted, listed
from brainroam.evaluation.run_records import RunSpec
from brainroam.evaluation.runs_folder import PARTICIPANTS, RunsFolder, mixed_versions
from brainroam.evaluation.splits import TITLES
from brainroam.evaluation.stats.compare import Comparison, compare_methods
from brainroam.evaluation.stats.confounding import KNOWN, confounding
from brainroam.evaluation.stats.number_confounding import number_confounding
from brainroam.evaluation.tables import columns_of, frame, others_mean, people_metrics, prediction_rows, score_rows
from brainroam.methods.registry import SEPARATOR

PERSON = ["protocol", "site", "subject", "label"]
RUN = ["method", "protocol", "site", "seed"]


@dataclass(frozen=True, repr=False)
class Results:
    """Finished runs as tables.

    Attributes
    ----------
    scores : DataFrame
        One row per run and held-out site: ``method``, ``protocol``, ``site`` (the fold, for ``cv``), ``fold`` (the
        same as ``site`` unless a fold holds several), ``seed``, the metrics of `metrics.site_metrics`, ``threshold``,
        ``tuning`` and the chosen ``configuration`` as JSON.
    predictions : DataFrame
        One row per run and held-out scan: ``subject``, ``person`` and ``institution`` (see `tables`), ``label``,
        ``score``, ``probability`` (where the share of cases is that of the training people, column ``prevalence`` of
        the scores) and ``predicted`` class.
    study : dict
        The cohort (``manifest_hash``, ``atlas``, ``sites``, ``excluded``, ``participants``), the ``commands``, and in
        words the runs that are ``missing`` and ``failed``.
    records : tuple of (RunSpec, dict)
        The finished runs themselves, with what they keep of pathways and gates.
    path : Path or None
        The folder of runs, where there is one.
    """

    scores: pd.DataFrame
    predictions: pd.DataFrame
    study: dict[str, Any]
    records: tuple[tuple[RunSpec, dict[str, Any]], ...] = ()
    path: Path | None = None

    def __repr__(self) -> str:
        methods = self.scores["method"].unique()
        return (
            f"Results({counted(len(self.records), 'run', 'runs')} of {listed(methods)}, {self.study.get('cohort', '')})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: what the sites say of every method, without tests."""
        return compare_methods(self.scores, self.predictions, target=self.target)._repr_html_()

    @property
    def target(self) -> Target:
        """What was predicted."""
        return Target.of_description(self.study.get("target"))

    @property
    def participants(self) -> pd.DataFrame:
        """Subject, person, site, institution, label, age, sex, motion, scan length, TR, head size; one row per scan."""
        return pd.DataFrame(self.study.get("participants", {}), columns=list(PARTICIPANTS))


def results_of(folder: RunsFolder, wanted: Iterable[RunSpec], partial: bool, permanent: bool = True) -> Results:
    """The finished runs among ``wanted``, sorted by key; unfinished ones are an error, or a warning when ``partial``.

    ``permanent`` says whether the folder stays when the study is done.
    """
    specs = sorted(wanted, key=lambda spec: spec.key)
    done = [folder.runs[spec.hash] for spec in specs if folder.status(spec) == "done"]
    failed = [(str(spec), folder.runs[spec.hash][1]["error"]) for spec in specs if folder.status(spec) == "failed"]
    missing = [str(spec) for spec in specs if folder.status(spec) == "missing"]
    if missing or failed:
        words = _incomplete(len(specs), missing, failed, permanent)
        if not partial or not done:
            raise RunsError(words)
        warnings.warn(words, stacklevel=3)
    if mixed := mixed_versions(spec for spec, _ in done):
        warnings.warn(mixed, stacklevel=3)
    return Results(
        frame(columns_of(folder.study)[0], (row for run in done for row in score_rows(*run))),
        frame(columns_of(folder.study)[1], (row for run in done for row in prediction_rows(*run))),
        {**folder.study, "commands": folder.commands, "missing": missing, "failed": [": ".join(run) for run in failed]},
        tuple(done),
        folder.path,
    )


def _incomplete(n_wanted: int, missing: Sequence[str], failed: Sequence[tuple[str, str]], permanent: bool) -> str:
    """Which runs are missing or failed, in words; runs with the same error are listed together."""
    parts = [f"{len(missing) + len(failed)} of {n_wanted} runs are not finished"]
    if missing:
        parts.append(f"not done yet: {listed(missing, 3)}")
    if failed:
        runs: dict[str, list[str]] = {}
        for run, error in failed:
            runs.setdefault(error.rstrip("."), []).append(run)
        alike = [f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {e}" for e, names in runs.items()]
        parts.append(f"failed{', with tracebacks in their files' * permanent}: {listed(alike, 3)}")
    remedy = (
        "The same command does what is missing; --partial (partial=True) accepts what there is"
        if permanent
        else "partial=True returns the others; out=FOLDER keeps them, and tracebacks, and the same call then goes on"
    )
    return "; ".join(parts) + f". {remedy}"


def load_runs(path: str | Path | RunsFolder, partial: bool = False) -> Results:
    """The finished runs of a folder that are asked for; an error when some are not finished, unless ``partial``."""
    folder = path if isinstance(path, RunsFolder) else RunsFolder(path)
    folder.require_plans()
    return results_of(folder, folder.wanted, partial)


def compare(
    runs: str | Path | Results | Sequence[str | Path],
    reference: str | None = None,
    partial: bool = False,
    all_pairs: bool = False,
    data: Cohort | None = None,
) -> Comparison:
    """Compare the methods of a folder of runs, of several folders, of files of predictions, or of results.

    Parameters
    ----------
    runs : path, sequence of paths, or Results
        Folders of runs, and tables of predictions (`brainroam.read_predictions`), side by side.
    reference, all_pairs
        See `compare.compare_methods`.
    partial : bool
        Accept studies of which some runs are not finished.
    data : Cohort, optional
        The people of a file of predictions, where no folder of runs stands beside it.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> results = brainroam.evaluate(cohort, ["fc-ridge", "confounds"], tuning="fast")
    >>> brainroam.compare(results, reference="fc-ridge").paired["method"].tolist()
    ['confounds']
    """
    results = runs if isinstance(runs, Results) else load_studies(runs, partial, data)
    from brainroam.evaluation.checks import caveats_of

    caveats, n_left_out = caveats_of(results), results.study.get("not_shared", 0)
    notes = (
        [f"{counted(n_left_out, 'person is', 'people are')} not in every study and left out here."]
        if n_left_out
        else []
    )
    comparison = compare_methods(results.scores, results.predictions, reference, all_pairs, results.target)
    return replace(comparison, confounding=_confounding(results), notes=[*notes, *comparison.notes], caveats=caveats)


def load_studies(runs: str | Path | Sequence[str | Path], partial: bool = False, data: Cohort | None = None) -> Results:
    """Folders of runs and files of predictions, several as one (`join_results`).

    The people of a file are those of ``data``, or else of the first folder.
    """
    from brainroam.evaluation.predictions_file import is_predictions_file, read_predictions

    if isinstance(runs, Cohort):
        raise UsageError("a cohort has no results yet; give what brainroam.evaluate(cohort, methods) returns")
    paths = [Path(runs)] if isinstance(runs, str | Path) else [Path(path) for path in runs]
    named = dict(zip(study_labels(paths), paths, strict=True))
    studies = {name: load_runs(path, partial) for name, path in named.items() if not is_predictions_file(path)}
    people = data if data is not None else next(iter(studies.values()), None)
    studies |= {name: read_predictions(path, people) for name, path in named.items() if is_predictions_file(path)}
    return join_results(studies) if len(studies) > 1 else studies.popitem()[1]


def study_labels(folders: Sequence[Path]) -> list[str]:
    """A short name for each folder of runs: the part of its path that tells it from the others.

    >>> study_labels([Path("aal/runs"), Path("cc200/runs")]), study_labels([Path("a"), Path("b")])
    (['aal', 'cc200'], ['a', 'b'])
    """
    parts = [folder.absolute().parts for folder in folders]
    for depth in range(1, max(map(len, parts)) + 1):
        names = [part[-depth] if depth <= len(part) else "" for part in parts]
        if len(set(names)) == len(names):
            return names
    raise RunsError("the same study is named twice; name two")


def _confounding(results: Results) -> pd.DataFrame:
    """What motion, age, sex and head size have to do with the scores, for each protocol of whole sites."""
    protocols = [name for name in ("loso", "loio") if name in set(results.predictions["protocol"])]
    target, people = results.target, results.participants
    if people[list(KNOWN)].isna().all(axis=None) or not protocols:
        return pd.DataFrame()
    tables = [
        number_confounding(results.predictions, people, target, name)
        if target.is_number
        else confounding(results.predictions, people, name, target.classes if target.is_classes else ())
        for name in protocols
    ]
    return pd.concat([table.assign(protocol=name) for table, name in zip(tables, protocols, strict=True)])


def join_results(studies: Mapping[str, Results]) -> Results:
    """The results of several studies side by side, by the name of each study.

    Methods of one cohort, and of files beside it, keep their names if no two are called the same.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> results = brainroam.evaluate(cohort, ["fc-ridge"], tuning="fast")
    >>> joined = join_results({"before": results, "after": results})
    >>> sorted(joined.scores["method"].unique())
    ['after: fc-ridge', 'before: fc-ridge']
    """
    targets = {name: results.target for name, results in studies.items()}
    if len(set(targets.values())) > 1:
        raise RunsError(
            f"these studies predict different things: {listed(f'{one.name} ({name})' for name, one in targets.items())}"
        )
    shared = None
    for results in studies.values():
        people = results.predictions[PERSON].drop_duplicates()
        shared = people if shared is None else shared.merge(people)
    assert shared is not None
    if shared.empty:
        held_out = {name: sorted(results.predictions["protocol"].unique()) for name, results in studies.items()}
        what = "; ".join(f"{name}: {listed(TITLES[one] for one in all_)}" for name, all_ in held_out.items())
        raise RunsError(
            f"these studies have nobody in common: people are matched by protocol, site, id and label ({what})"
        )
    parts = [_restrict(results, shared) for results in studies.values()]
    before = _prefixes(studies)
    frames = {
        kind: pd.concat(
            [
                frame.assign(method=before[name] + frame["method"])
                for name, frame in zip(studies, (part[k] for part in parts), strict=True)
            ],
            ignore_index=True,
        )
        for k, kind in enumerate(("scores", "predictions"))
    }
    records = tuple(
        (replace(spec, method=before[name] + spec.method), result)
        for name, results in studies.items()
        for spec, result in results.records
    )
    first = next(iter(studies.values()))
    return Results(frames["scores"], frames["predictions"], _study(studies, shared, before), records, first.path)


def _prefixes(studies: Mapping[str, Results]) -> dict[str, str]:
    """What stands before the methods of each study: its name, or nothing where the folders are of the same data."""
    names = [method for results in studies.values() for method in results.scores["method"].unique()]
    data = {results.study["manifest_hash"] for results in studies.values() if "from_files" not in results.study}
    plain = len(data) <= 1 and len(set(names)) == len(names)
    return {name: "" if plain else name + SEPARATOR for name in studies}


def _restrict(results: Results, shared: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores and predictions of the shared people only."""
    predictions = results.predictions.merge(shared)
    scores = results.scores.merge(predictions[["protocol", "site"]].drop_duplicates())
    if len(predictions) == len(results.predictions):
        return scores, predictions
    runs, target = dict(iter(predictions.groupby(RUN))), results.target
    rows = []
    for row in scores.to_dict("records"):
        mean = others_mean(results.predictions, [row[name] for name in ("method", "protocol", "seed", "fold")], target)
        rows.append(row | people_metrics(runs[tuple(row[name] for name in RUN)], target, {**row, "constant": mean}))
    return pd.DataFrame(rows, columns=scores.columns), predictions


def _study(studies: Mapping[str, Results], shared: pd.DataFrame, before: Mapping[str, str]) -> dict:
    first = next(iter(studies.values())).study
    lists = {
        key: [f"{name}{SEPARATOR}{line}" for name, results in studies.items() for line in results.study[key]]
        for key in ("missing", "failed")
    }
    person = pd.concat([results.predictions for results in studies.values()])
    person = persons(person.drop_duplicates("subject")).set_axis(person["subject"].unique())
    left_out = person.nunique() - person[shared["subject"].unique()].nunique()
    atlases = dict.fromkeys(str(results.study["atlas"]) for results in studies.values() if results.study["atlas"])
    from_files = {
        before[name] + method: file
        for name, results in studies.items()
        for method, file in results.study.get("from_files", {}).items()
    }
    return {
        **first,
        **lists,
        "commands": [command for results in studies.values() for command in results.study["commands"]],
        "atlas": " and ".join(atlases),
        "joined": list(studies),
        "folders": [str(results.path) for results in studies.values() if results.path is not None],
        "not_shared": left_out,
        **({"from_files": from_files} if from_files else {}),
    }
