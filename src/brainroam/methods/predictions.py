"""The table that ``brainroam predict`` writes: one row per person, with protocol, sets and flags."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import mean_of_scans, persons
from brainroam.data.target.shifts import STRICT
from brainroam.data.target_column import with_target
from brainroam.errors import DataError, listed
from brainroam.methods.blocks import BlockSum
from brainroam.methods.tuning import TunedMethod


def predictions(
    method: TunedMethod,
    cohort: Cohort,
    controls: Collection[str] = (),
    adapt: str = STRICT,
    prevalence: Any = None,
    advise: bool = True,
) -> pd.DataFrame:
    """Predict for people of any site, whatever the target.

    Parameters
    ----------
    method : TunedMethod
        Fitted.
    cohort : Cohort
    controls : collection of str
        Subjects of ``cohort`` who are known controls, where classes are predicted: they move the scores of their site
        and get no row.
    adapt : {"strict", "unlabelled", "labelled"}
        ``unlabelled`` moves the scores of each site by those of all its people. With ``labelled`` people whose number
        is known mend level and scale of their site and get no row.
    prevalence : float or mapping, optional
        The share of cases, or of each class, for which the probabilities hold; by default that of the training people.
    advise : bool
        Warn of sites whose predictions are one-sided, and say how to adapt.

    Returns
    -------
    DataFrame
        ``subject``, ``person`` where somebody has several scans, ``site``, ``label`` where somebody's is known,
        ``protocol`` (what was used of the site), what is said of each person (`Readout.columns` of the target),
        ``imputed`` covariates and blocks, and ``flags``: how somebody differs from those trained on. Sets and intervals
        are empty where something of the site was used: they are promised for a site of which nothing is known.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=5, n_per_site=12, n_rois=10)
    >>> method = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:4]))
    >>> new = cohort.select(["S05"])
    >>> predictions(method, new, controls=new.table["subject"][:5])["protocol"].unique().tolist()
    ['controls-5']
    """
    readout, target = method.readout_, method.target_
    readout.require(adapt, controls, prevalence)
    label = target.known(cohort.table["label"], cohort.target)
    used, unpredicted = readout.use(label, _listed_controls(cohort, controls), adapt)
    score = method.score(cohort)
    truth = pd.to_numeric(label, errors="coerce").to_numpy(dtype=float)
    adapted, protocol = _adapt(method, cohort, score, truth, used, adapt)
    table = cohort.table[["subject", *["person"] * (cohort.n_people < len(cohort)), "site"]].copy()
    if label[~unpredicted].notna().any():
        table["label"] = label
    table = table.assign(protocol=protocol, **readout.columns(score, adapted, protocol == STRICT, prevalence))
    if advise:
        readout.advise(table[~unpredicted], score[~unpredicted])
    table["imputed"], familiarity = _list_imputed(method, cohort), method.familiarity_
    table["flags"] = (
        "" if familiarity is None else [text for part in cohort.batches() for text in familiarity.flags(part)]
    )
    return table[~unpredicted].reset_index(drop=True)


def _adapt(
    method: TunedMethod, cohort: Cohort, score: np.ndarray, truth: np.ndarray, used: np.ndarray, adapt: str
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of each site, moved by those of its people who are used, and the protocol of each row."""
    site, person = cohort.table["site"].to_numpy(), persons(cohort.table).to_numpy()
    nobody = np.zeros(0, dtype=int)
    adapted = method.readout_.adapted(score, score[nobody], truth[nobody], STRICT)
    protocol = np.full(len(score), STRICT, dtype=object)
    for name in np.unique(site[used]):
        here, known = site == name, (site == name) & used
        of_people, of_each = (mean_of_scans(values[known], person[known]) for values in (score, truth))
        adapted[here] = method.readout_.adapted(score[here], of_people, of_each, adapt)
        protocol[here] = method.readout_.protocol(len(of_people), adapt)
    return adapted, protocol


def _listed_controls(cohort: Cohort, controls: Collection[str]) -> np.ndarray:
    """Which people are listed as controls of their site."""
    known = cohort.table["subject"].isin(list(controls)).to_numpy()
    absent = sorted(set(controls) - {*cohort.table["subject"], *cohort.excluded["subject"]})
    if absent:
        raise DataError(f"no person in the data has the id {listed(absent)}, listed as a control of the new site")
    if known.all():
        raise DataError("all people are listed as controls of the new site: there is nobody to predict for")
    return known


def _list_imputed(method: TunedMethod, cohort: Cohort) -> list[str]:
    """Which covariates of each person stood at the training mean, and which blocks were not there to be read."""
    missing = method.missing_covariates(cohort).reset_index(drop=True)
    if isinstance(method.model_, BlockSum):
        for name in method.model_.members:
            missing[f"block {name}"] = ~cohort.has_block(name)
    return ["; ".join(missing.columns[flags]) for flags in missing.to_numpy(dtype=bool)]


def with_target_of(method: TunedMethod, cohort: Cohort) -> Cohort:
    """The cohort with the number that a model predicts, where it has that column; else as it is."""
    request = method.target_.request_in(cohort.table)
    if request is None or cohort.target.name == method.target_.name:
        return cohort
    return with_target(cohort, request, require_label=False)
