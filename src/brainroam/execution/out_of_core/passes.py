"""What a worker does: each function is one part of one pass, and leaves one file or gives back one array."""

import io
import zipfile
from pathlib import Path

import numpy as np

from brainroam.core.pathways import Profiles
from brainroam.core.scaffold import contrast_delta, site_contrasts, sites_with_both_classes
from brainroam.data.cohort import missing_rois
from brainroam.execution.out_of_core.edge_matrix import EdgeMatrix
from brainroam.execution.out_of_core.plan import Plan
from brainroam.utils.files import atomic_write


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
    deconfounder = plan.stages.deconfounder().fit(values, y, covariates=people[list(plan.stages.covariates)], site=site)
    residuals = deconfounder.site_residuals(values, np.arange(len(values)), slopes="site")
    del values
    both = sites_with_both_classes(y, site)
    contrast = site_contrasts(residuals, y, site, both, huber_delta=contrast_delta(plan.stages.contrast))
    with atomic_write(plan.result(j)) as file:
        np.savez(file, **{"contrast": contrast, **deconfounder.fits()})  # type: ignore[arg-type]


def read_result(path: Path) -> dict[str, np.ndarray] | None:
    """What a block gave, None where its file is not there or not whole; the archive has a checksum of each array."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def write_columns(shared: tuple[Plan, np.ndarray, EdgeMatrix], k: int) -> None:
    """Batch k on the scaffold edges alone, person by person: from the plan's matrix to one of few columns."""
    plan, wanted, narrow = shared
    narrow.write(k, plan.matrix.columns(k, wanted), {})


def write_profiles(shared: tuple[Plan, np.ndarray, np.ndarray, np.ndarray, int | None, EdgeMatrix], k: int) -> None:
    """Log volatility and flexibility of batch k on some edges, one person at a time.

    ``shared`` is the plan, the edges, window and stride of everybody, the windows of a stretch, and a matrix with two
    columns for each edge.
    """
    plan, edges, windows, strides, stretch, narrow = shared
    here = narrow.people(k)
    rows = list(plan.rows[here])
    subjects = plan.store.table["subject"].iloc[rows].tolist()
    people = zip(plan.store.series(rows), windows[here], strides[here], subjects, strict=True)
    found = [
        Profiles.compute([x], edges, window, stride, [subject], stretch).values for x, window, stride, subject in people
    ]
    narrow.write(k, np.concatenate(found).reshape(len(rows), -1), {})


def signal_of(plan: Plan, k: int) -> np.ndarray:
    """Which regions carry no signal in the people of batch k."""
    return missing_rois(list(plan.store.series(plan.rows[plan.matrix.people(k)])))
