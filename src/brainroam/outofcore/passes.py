"""What a worker does: each function is one part of one pass, and leaves one file or gives back one array."""

import io
import zipfile
from pathlib import Path

import numpy as np

from brainroam.cohort import missing_rois
from brainroam.files import atomic_write
from brainroam.outofcore.plan import Plan
from brainroam.profile import temporal_descriptors
from brainroam.scaffold import site_contrasts, sites_with_both_classes


def write_edges(plan: Plan, k: int) -> None:
    """Pass 1, batch k: series to edge values, and how many regions each person lacks."""
    matrix = plan.matrix
    series = list(plan.store.series(plan.rows[matrix.people(k)]))
    lacking = missing_rois(series).sum(axis=1)
    matrix.write(k, plan.stages.edge_values(series), {"lacking": lacking.tolist()})


def write_contrasts(plan: Plan, j: int) -> None:
    """Pass 2, block j: edge values to the contrast of every site and the frozen deconfounder."""
    values, people = plan.matrix.read(j), plan.people
    if not all(plan.kept):
        values = values[np.array(plan.kept)]
    y, site = people["label"].to_numpy(dtype=int), people["site"].to_numpy().astype(str)
    deconfounder = plan.stages.deconfounder().fit(values, people[list(plan.stages.covariates)], site, y)
    del values
    contrast = site_contrasts(deconfounder.residuals_, y, site, sites_with_both_classes(y, site))
    with atomic_write(plan.result(j)) as file:
        np.savez(
            file,
            contrast=contrast,
            mean_intercept=deconfounder.mean_intercept_,
            mean_coef=deconfounder.mean_coef_,
            lost=(~deconfounder.estimable_).sum(axis=2),
            nobody=np.isnan(deconfounder.intercept_).sum(axis=1),
        )


def read_result(path: Path) -> dict[str, np.ndarray] | None:
    """What a block gave, None where its file is not there or not whole; the archive has a checksum of each array."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def describe_people(shared: tuple[Plan, np.ndarray, np.ndarray, np.ndarray], k: int) -> np.ndarray:
    """Volatility and flexibility (people, pairs, 2) of batch k, one person at a time.

    ``shared`` is the plan, the region pairs, and window and stride of everybody who takes part.
    """
    plan, pairs, windows, strides = shared
    kept, here = np.array(plan.kept), plan.matrix.people(k)
    rows = np.array(plan.rows)[here][kept[here]]
    place = int(kept[: here.start].sum())
    subjects = plan.store.table["subject"].iloc[rows].tolist()
    described = np.empty((len(rows), len(pairs), 2))
    for i, x in enumerate(plan.store.series(rows.tolist())):
        window, stride = windows[place + i], strides[place + i]
        described[i] = temporal_descriptors([x], pairs, window, stride, [subjects[i]])[0]
    return described
