"""Meeting other tools half way: scikit-learn's scorers, nilearn's bunches, BIDS relationship matrices."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.metrics import roc_auc_score

from brainroam import __version__
from brainroam.atlas import load_atlas
from brainroam.cohort import Cohort
from brainroam.connectivity import cohort_edges, edges_to_matrix
from brainroam.errors import DataError, listed
from brainroam.files import write_text
from brainroam.readers.abide import TR
from brainroam.readers.tables import SENTINELS


class AucScorer(BaseEstimator):
    """AUC at a held-out site, with the covariates of its people: a scorer for scikit-learn.

    scikit-learn's own scorers cannot pass covariates on to the estimator, so that people would be read at the mean
    covariates of the training people. This one does, when metadata routing is on.

    Examples
    --------
    >>> import sklearn, brainroam
    >>> from sklearn.model_selection import LeaveOneGroupOut, cross_validate
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=12, n_rois=10)
    >>> people = cohort.table
    >>> known = {"site": people["site"], "covariates": people[["age", "sex"]], "groups": people["site"]}
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scores = cross_validate(brainroam.ChampionClassifier(), cohort.series, people["label"],
    ...                             cv=LeaveOneGroupOut(), params=known, scoring=AucScorer())
    >>> scores["test_score"].shape
    (4,)
    """

    __metadata_request__score: ClassVar = {"covariates": True}

    def score(self, estimator: Any, X: Any, y: Any, covariates: Any = None) -> float:
        """Area under the ROC curve of the estimator's decision function, or of its probability."""
        known = {} if covariates is None else {"covariates": covariates}
        if hasattr(estimator, "decision_function"):
            return float(roc_auc_score(y, estimator.decision_function(X, **known)))
        return float(roc_auc_score(y, estimator.predict_proba(X, **known)[:, 1]))

    __call__ = score


def cohort_from_bunch(bunch: Mapping[str, Any], atlas: str = "aal") -> Cohort:
    """A cohort from what ``nilearn.datasets.fetch_abide_pcp(derivatives="rois_aal")`` returns.

    Parameters
    ----------
    bunch : Bunch
        With ``rois_<atlas>``, a list of series, and ``phenotypic``, a table.
    atlas : str
        Which of its ROI sets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"SUB_ID": [50002, 50003], "SITE_ID": ["PITT", "PITT"], "DX_GROUP": [1, 2],
    ...                        "AGE_AT_SCAN": [16.8, -9999], "SEX": [1, 2]})
    >>> cohort_from_bunch({"rois_aal": [rng.normal(size=(50, 116)) for _ in range(2)], "phenotypic": people})
    Cohort(2 people, 1 sites, 1 with the condition, 116 regions of 'aal')
    """
    name = f"rois_{atlas}"
    if name not in bunch or "phenotypic" not in bunch:
        raise DataError(f"the bunch holds {listed(sorted(bunch), 20)}; fetch it with derivatives={name!r}")
    people = pd.DataFrame(bunch["phenotypic"]).reset_index(drop=True)
    absent = [column for column in ("SUB_ID", "SITE_ID", "DX_GROUP") if column not in people]
    if absent:
        raise DataError(f"the phenotypic table of the bunch lacks {', '.join(absent)}")
    table = pd.DataFrame(
        {
            "subject": people.get("FILE_ID", people["SUB_ID"]).astype(str),
            "site": people["SITE_ID"].astype(str),
            "label": people["DX_GROUP"].astype(int).map({1: 1, 2: 0}),
            "tr": people["SITE_ID"].map(TR).astype(float),
        }
    )
    for ours, theirs in {"age": "AGE_AT_SCAN", "mean_fd": "func_mean_fd"}.items():
        if theirs in people:
            table[ours] = people[theirs].astype(float).replace(dict.fromkeys(map(float, SENTINELS), np.nan))
    if "SEX" in people:
        table["sex"] = people["SEX"].astype(int).map({1: 1.0, 2: 0.0})
    series = list(bunch[name])
    known = load_atlas(atlas) if atlas in ("aal", "cc200") else None
    return Cohort(series, table, known)


def write_relmats(cohort: Cohort, out: str | Path, kind: str = "pearson", robust: bool = False) -> Path:
    """Write everybody's edges as BIDS relationship matrices (as the draft extension BEP017 has them).

    ::

        out/dataset_description.json
        out/participants.tsv
        out/sub-<id>/func/sub-<id>_atlas-<atlas>_meas-<kind>_relmat.dense.tsv     P x P, n/a for missing edges
        out/sub-<id>/func/sub-<id>_atlas-<atlas>_meas-<kind>_relmat.json          what it holds

    Examples
    --------
    >>> import tempfile, brainroam
    >>> cohort = brainroam.make_cohort(n_sites=2, n_per_site=4, n_rois=8)
    >>> out = write_relmats(cohort, tempfile.mkdtemp())
    >>> sorted(file.name for file in (out / "sub-S010001" / "func").iterdir())
    ['sub-S010001_atlas-custom_meas-pearson_relmat.dense.tsv', 'sub-S010001_atlas-custom_meas-pearson_relmat.json']
    """
    out, labels = Path(out), [_label(name) for name in cohort.table["subject"]]
    if len(set(labels)) < len(labels):
        twice = sorted({label for label in labels if labels.count(label) > 1})
        raise DataError(f"BIDS allows only letters and digits in ids, and {listed(twice)} would stand twice")
    sidecar = {
        "RelationshipMeasure": kind,
        "MeasureDescription": f"{'spatial-sign ' if robust else ''}{kind} edges of brainroam.connectivity",
        "Weighted": True,
        "Directed": kind == "lag",
        "ValidDiagonal": False,
        "NonNegative": "No",
        "StorageFormat": "Full",
        "NodeLabels": list(cohort.atlas.labels),
    }
    entities = f"atlas-{_label(cohort.atlas.name)}_meas-{kind}_relmat"
    for label, vector in zip(labels, cohort_edges(cohort, kind, robust=robust), strict=True):
        stem = out / f"sub-{label}" / "func" / f"sub-{label}_{entities}"
        matrix = edges_to_matrix(vector)
        if kind == "lag":
            matrix = np.triu(matrix) - np.tril(matrix)  # what leads in one direction follows in the other
        rows = ("\t".join("n/a" if np.isnan(x) else f"{x:.6g}" for x in row) for row in matrix)
        write_text(f"{stem}.dense.tsv", "\n".join(rows) + "\n")
        write_text(f"{stem}.json", json.dumps(sidecar, indent=2) + "\n")
    people = cohort.table.assign(participant_id=[f"sub-{label}" for label in labels])
    columns = ["participant_id", "site", "label", "age", "sex"]
    table = people[columns].to_csv(sep="\t", index=False, na_rep="n/a", lineterminator="\n")
    write_text(out / "participants.tsv", table)
    generated = {"Name": "brainroam", "Version": __version__}
    description = {"Name": "Relationship matrices", "BIDSVersion": "1.10.0", "DatasetType": "derivative"}
    write_text(
        out / "dataset_description.json", json.dumps(description | {"GeneratedBy": [generated]}, indent=2) + "\n"
    )
    return out


def _label(name: str) -> str:
    """A name as BIDS allows it: letters and digits."""
    return re.sub(r"[^A-Za-z0-9]", "", name.removeprefix("sub-"))
