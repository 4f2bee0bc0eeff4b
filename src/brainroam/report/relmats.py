"""Edges of a cohort as BIDS relationship matrices or as one table, for other tools.

They are written as they are, or without the effects of site and covariates, for people who want harmonised data.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from brainroam import __version__
from brainroam.core.connectivity import cohort_edges, edge_pairs, edges_to_matrix
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, listed, unknown
from brainroam.utils.files import escape_formula, write_text


@dataclass(frozen=True)
class Residuals:
    """Deconfounded edges, and how each person's were made.

    Attributes
    ----------
    values : ndarray of shape (n, M)
    by : ndarray of shape (n,)
        ``"site"`` for people whose own site was learned from, ``"frozen"`` for all others.
    description : str
        In words, for the record.
    """

    values: np.ndarray
    by: np.ndarray
    description: str


def write_edge_table(
    cohort: Cohort, out: str | Path, kind: str = "pearson", residuals: Residuals | None = None
) -> Path:
    """Write everybody's edges as one table: ``participant_id``, ``site``, ``label``, then a column per edge."""
    path = Path(out) / "edges.tsv"
    values = cohort_edges(cohort, kind) if residuals is None else residuals.values
    names = np.array(cohort.atlas.labels, dtype=object)[edge_pairs(cohort.n_rois)]
    columns = [escape_formula(f"{first}--{second}") for first, second in names]
    subject, site = (cohort.table[name].map(escape_formula) for name in ("subject", "site"))
    people = pd.DataFrame({"participant_id": subject, "site": site, "label": cohort.table["label"]})
    if residuals is not None:
        people["deconfounded"] = residuals.by
        write_text(
            path.with_suffix(".json"), json.dumps({"MeasureDescription": residuals.description}, indent=2) + "\n"
        )
    table = pd.concat([people, pd.DataFrame(values, columns=columns)], axis=1)
    text = table.to_csv(sep="\t", index=False, na_rep="n/a", float_format="%.6g", lineterminator="\n")
    return write_text(path, text)


def write_relmats(
    cohort: Cohort,
    out: str | Path,
    kind: str = "pearson",
    residuals: Residuals | None = None,
) -> Path:
    """Write everybody's edges as BIDS relationship matrices (as the draft extension BEP017 has them).

    ::

        out/dataset_description.json
        out/participants.tsv                                                      source_id is the id as it was read
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
        raise DataError(f"BIDS allows only letters and digits in ids, and {listed(twice)} would occur twice")
    as_read = cohort.measure == "matrices" and kind == "pearson"  # whatever they are
    measured = "edges of matrices as they were read" if as_read else f"{kind} edges of brainroam.core.connectivity"
    sidecar = {
        "RelationshipMeasure": kind,
        "MeasureDescription": measured + ("" if residuals is None else f": {residuals.description}"),
        "Weighted": True,
        "Directed": kind == "lag",
        "ValidDiagonal": False,
        "NonNegative": "No",
        "StorageFormat": "Full",
        "NodeLabels": list(cohort.atlas.labels),
    }
    entities = f"atlas-{_label(cohort.atlas.name)}_meas-{kind}_relmat"
    values = cohort_edges(cohort, kind) if residuals is None else residuals.values
    for label, vector in zip(labels, values, strict=True):
        stem = out / f"sub-{label}" / "func" / f"sub-{label}_{entities}"
        matrix = edges_to_matrix(vector)
        if kind == "lag":
            matrix = np.triu(matrix) - np.tril(matrix)  # what leads in one direction follows in the other
        rows = ("\t".join("n/a" if np.isnan(x) else f"{x:.6g}" for x in row) for row in matrix)
        write_text(f"{stem}.dense.tsv", "\n".join(rows) + "\n")
        write_text(f"{stem}.json", json.dumps(sidecar, indent=2) + "\n")
    _write_people(cohort, out, labels, residuals)
    generated = {"Name": "brainroam", "Version": __version__}
    description = {"Name": "Relationship matrices", "BIDSVersion": "1.10.0", "DatasetType": "derivative"}
    write_text(
        out / "dataset_description.json", json.dumps(description | {"GeneratedBy": [generated]}, indent=2) + "\n"
    )
    return out


def _write_people(cohort: Cohort, out: Path, labels: Sequence[str], residuals: Residuals | None) -> None:
    people = cohort.table.assign(
        participant_id=[f"sub-{label}" for label in labels],
        source_id=cohort.table["subject"].map(escape_formula),
        site=cohort.table["site"].map(escape_formula),
    )
    columns = list(
        dict.fromkeys(["participant_id", "source_id", "site", "label", "age", "sex", *cohort.covariate_names])
    )
    if residuals is not None:
        people["deconfounded"] = residuals.by
        columns.append("deconfounded")
    table = people[columns].to_csv(sep="\t", index=False, na_rep="n/a", lineterminator="\n")
    write_text(out / "participants.tsv", table)


def _label(name: str) -> str:
    """A name as BIDS allows it: letters and digits of ASCII, and a few more that stand for letters it does not allow.

    >>> _label("sub-NYU_0051"), _label("Мария"), _label("Мария 2")
    ('NYU0051', 'e7012497', '2bba0845e')
    """
    name = name.removeprefix("sub-")
    letters = re.sub(r"[^A-Za-z0-9]", "", name)
    return letters if letters and name.isascii() else letters + hashlib.sha256(name.encode()).hexdigest()[:8]


def deconfounded_edges(cohort: Cohort, kind: str = "pearson", held_out: Sequence[str] = ()) -> Residuals:
    """Edges without the effects of site and covariates.

    People of the training sites get the residuals of their own site's regression. People of the ``held_out`` sites
    take no part in any of it: theirs are of the frozen average of the training sites, as at a site never seen.

    >>> import brainroam
    >>> found = deconfounded_edges(brainroam.make_cohort(n_sites=3, n_per_site=10, n_rois=8), held_out=["S03"])
    >>> found.values.shape, found.by.tolist().count("frozen")
    ((30, 28), 10)
    """
    for name in held_out:
        if name not in cohort.sites:
            raise unknown("site to hold out", name, cohort.sites)
    site, q = cohort.table["site"].to_numpy(), cohort.covariates()
    train = ~np.isin(site, list(held_out))
    if not train.any():
        raise DataError("every site is held out: none is left to learn the effects of site and covariates from")
    edges = cohort_edges(cohort, kind)
    fitted = SiteDeconfounder().fit(edges[train], covariates=q[train], site=site[train])
    values = np.empty_like(edges)
    values[train] = fitted.residuals_
    if not train.all():
        values[~train] = fitted.transform(edges[~train], covariates=q[~train])
    learned = sorted(set(site[train]))
    description = (
        f"residuals of site-wise Huber regressions on {', '.join(cohort.covariate_names) or 'no covariates'}, learned "
        f"on {len(learned)} sites ({', '.join(learned)}); people of other sites by the mean of these regressions"
    )
    return Residuals(values, np.where(train, "site", "frozen"), description)
