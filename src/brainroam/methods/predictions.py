"""The table that ``brainroam predict`` writes: one row per person, with how it was made and how far to trust it."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, UsageError, listed
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.site_shift import STRICT, UNLABELLED, protocol_name
from brainroam.methods.tuning import Selected


def predictions(
    method: Selected,
    cohort: Cohort,
    familiarity: Familiarity | None = None,
    controls: Collection[str] = (),
    adapt: str = STRICT,
) -> pd.DataFrame:
    """Predict for people of any site.

    Parameters
    ----------
    method : Selected
        Fitted.
    cohort : Cohort
    familiarity : Familiarity, optional
        What the training people were like, for the flags.
    controls : collection of str
        Subjects of ``cohort`` who are known controls: they move the threshold of their site and get no row.
    adapt : {"strict", "unlabelled"}
        ``unlabelled`` moves the threshold of each site by the scores of all its people.

    Returns
    -------
    DataFrame
        ``subject``, ``site``, ``protocol`` (how the site's threshold was found), ``probability``, ``predicted``, a
        column ``set_80``, ``set_90`` for each level that can be promised (empty where the threshold was moved: the
        promise is for the strict protocol), ``imputed`` covariates and ``flags``.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=5, n_per_site=12, n_rois=10)
    >>> method = Selected(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:4]))
    >>> new = cohort.select(["S05"])
    >>> predictions(method, new, controls=new.table["subject"][:5])["protocol"].unique().tolist()
    ['controls-5']
    """
    if adapt not in (STRICT, UNLABELLED):
        raise UsageError(f"adapt is {STRICT} or {UNLABELLED}, not {adapt!r}; controls are named one by one")
    if adapt == UNLABELLED and len(controls):
        raise UsageError("controls of the new site and adapt=unlabelled are two ways to move a threshold: choose one")
    people = cohort.table[["subject", "site"]]
    known = people["subject"].isin(list(controls)).to_numpy()
    absent = sorted(set(controls) - {*people["subject"], *cohort.excluded["subject"]})
    if absent:
        raise DataError(f"no person in the data has the id {listed(absent)}, listed as a control of the new site")
    if known.all():
        raise DataError("all people are listed as controls of the new site: there is nobody to predict for")
    score, site = method.score(cohort), people["site"].to_numpy()
    shift, protocol = np.zeros(len(score)), np.full(len(score), STRICT, dtype=object)
    for name in np.unique(site):
        here = site == name
        if adapt == UNLABELLED:
            shift[here], protocol[here] = method.shifts_[UNLABELLED](score[here]), UNLABELLED
        elif (here & known).any():
            shift[here] = method.shifts_["controls"](score[here & known])
            protocol[here] = protocol_name(int((here & known).sum()))
    table = people.assign(protocol=protocol, probability=method.calibration_(score - shift))
    table["predicted"] = (table["probability"] >= 0.5).astype(int)
    for level in method.sets_.limits:
        table[f"set_{100 * level:g}"] = np.where(protocol == STRICT, method.sets_(score, level), "")
    missing = method.missing_covariates(cohort)
    table["imputed"] = ["; ".join(missing.columns[flags]) for flags in missing.to_numpy(dtype=bool)]
    table["flags"] = (
        "" if familiarity is None else [text for part in cohort.batches() for text in familiarity.flags(part)]
    )
    return table[~known].reset_index(drop=True)
