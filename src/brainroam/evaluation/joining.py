"""Two studies as one: the same people read by two atlases, two pipelines, before and after a change, or from a file.

The methods of each study get its name in front (``cc200: core``), unless all folders are of the same data and no two
methods share a name. Only people whom all studies scored at the same site are kept, so that every comparison is paired;
the metrics are computed again where somebody falls out.
"""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from brainroam.data.people import people_of, persons
from brainroam.errors import RunsError
from brainroam.evaluation.runner import Results
from brainroam.evaluation.stats.metrics import site_metrics
from brainroam.methods.registry import SEPARATOR

PERSON = ["protocol", "site", "subject", "label"]
RUN = ["method", "protocol", "site", "seed"]


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
    shared = None
    for results in studies.values():
        people = results.predictions[PERSON].drop_duplicates()
        shared = people if shared is None else shared.merge(people)
    assert shared is not None
    if shared.empty:
        raise RunsError("these studies have nobody in common: people are matched by protocol, site, id and label")
    parts = [_restricted(results, shared) for results in studies.values()]
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


def _restricted(results: Results, shared: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores and predictions of the shared people only."""
    predictions = results.predictions.merge(shared)
    scores = results.scores.merge(predictions[["protocol", "site"]].drop_duplicates())
    if len(predictions) == len(results.predictions):
        return scores, predictions
    runs = dict(iter(predictions.groupby(RUN)))
    rows = []
    for row in scores.to_dict("records"):
        people = people_of(runs[tuple(row[name] for name in RUN)], ())
        label, score, probability = (people[name].to_numpy() for name in ("label", "score", "probability"))
        rows.append(row | site_metrics(label, score, row["threshold"], probability))
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
