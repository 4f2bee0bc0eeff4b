"""The one way to data: what every command and every script loads, from a path, a study file or ``synthetic``."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.data.study_file import plan_of
from brainroam.utils.workers import Workers


def load_cohort(
    path: str | Path,
    reader: str | None = None,
    atlas: str | Path | Atlas | None = None,
    sites: Iterable[str] | None = None,
    *,
    exclude_sites: Iterable[str] | None = None,
    site_names: Mapping[str, str] | None = None,
    edges: Mapping[str, str] | None = None,
    preset: str | None = None,
    require_label: bool = True,
    max_missing_rois: float | None = None,
    crop: str | int | None = None,
    exclude: str | Path | Sequence[str] | None = None,
    max_fd: float | None = None,
    covariates: Sequence[str] | Mapping[str, str] | None = None,
    target: str | Mapping[str, str | Sequence[str]] | None = None,
    blocks: Mapping[str, Mapping[str, Any]] | None = None,
    spool: str | Path | None = None,
    jobs: int = 1,
    **options: Any,
) -> Cohort:
    """Load people from any layout brainroam knows.

    Parameters
    ----------
    path : str or Path
        The dataset's folder, a file that holds all of it, a ``study.yaml`` (what is given here goes before what is
        written there), or ``"synthetic"``.
    reader : str, optional
        ``"auto"``, the default, tries all; or one of ``store``, ``npy``, ``abide``, ``rest-meta-mdd``, ``adhd200``,
        ``abcd``, ``srpbs``, ``bids``, ``folder``.
    atlas : str, Path or Atlas, optional
        Which ROI set to read where there are several (default ``"aal"``), and what its regions are called: a name such
        as ``"aal"`` or ``"cc400"``, the path of a table, or an `Atlas`.
    sites : iterable of str, optional
        The sites to keep; all by default.
    exclude_sites : iterable of str, optional
        Sites to leave out; their people stand in ``excluded``.
    site_names : mapping of str to str, optional
        One name for a site that the data call by several: ``{"koeln": "Köln"}``.
    preset : str, optional
        ``"paper"`` keeps the sites of the paper's cohort (abide, rest-meta-mdd, srpbs, abcd), unless ``sites`` says
        otherwise, and sets the options that belong to it.
    edges : mapping of str to str, optional
        What matrices of a site hold, where their numbers do not tell: ``{"Oslo": "z"}`` for Fisher's z, ``"r"`` for
        correlations.
    require_label : bool
        Leave out people without a known label; False keeps them, with a missing label, for prediction, and needs
        neither a column of sites nor, in a plain folder, a table.
    max_missing_rois : float, optional
        Leave out people with more than this share of regions without signal (0.2).
    crop, exclude, max_fd, covariates
        What is done before any method sees the data, see `brainroam.data.prepare.Preparation`.
    target : str or mapping, optional
        The column to predict instead of the diagnosis: ``"FIQ"``, ``"age:log"``, ``"ADOS:ordered"``, or a mapping with
        ``column``, ``kind``, ``transform`` and ``order``, see `brainroam.data.target`. Who has no value is left out.
    blocks : mapping of str to mapping, optional
        Further measurements of the same people, as in a study file: ``{"anatomy": {"table": "freesurfer/*.tsv"}}``.
    spool : str or Path, optional
        A folder for series that memory cannot hold: each person's goes to a scratch file there as it is read, and
        must stay there as long as the cohort is used.
    jobs : int
        Processes that read files side by side; with more than one, call from under ``if __name__ == "__main__"``.
    **options
        What the reader itself takes, see `brainroam.data.readers.reader_options`. None stands for its default.

    Returns
    -------
    Cohort
        Everybody who was left out stands in its ``excluded``, with the reason.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> study = Path(tempfile.mkdtemp())
    >>> _ = (study / "participants.tsv").write_text(
    ...     "participant_id\\tsite\\tdiagnosis\\n01\\tA\\tcontrol\\n02\\tB\\tASD\\n03\\tB\\tASD\\n")
    >>> for name in ("01", "02"):
    ...     np.save(study / f"{name}.npy", np.random.default_rng(0).normal(size=(50, 4)))
    >>> cohort = load_cohort(study)
    >>> cohort
    Cohort(2 people, 2 sites, 1 with the condition, 4 regions of 'custom')
    >>> cohort.excluded["subject"].tolist()
    ['03']
    """
    given = {
        "reader": reader,
        "atlas": atlas,
        "sites": _as_list(sites),
        "exclude_sites": _as_list(exclude_sites),
        "edges": None if edges is None else dict(edges),
        "site_names": None if site_names is None else dict(site_names),
        "preset": preset,
        "max_missing_rois": max_missing_rois,
        "crop": crop,
        "exclude": exclude,
        "max_fd": max_fd,
        "covariates": covariates,
        "target": target,
        "blocks": None if blocks is None else {name: dict(told) for name, told in blocks.items()},
        "options": options,
    }
    plan = plan_of(path, given)
    if jobs == 1:
        return plan.load(require_label=require_label, spool=spool)
    with Workers(jobs) as workers:
        return plan.load(require_label=require_label, spool=spool, workers=workers)


def _as_list(names: Iterable[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(map(str, names))
