"""The table that ``brainroam predict`` writes: one row per person, with protocol, sets and flags."""

import warnings
from collections.abc import Collection

import numpy as np
import pandas as pd

from brainroam.core.calibration import Shares, as_shares
from brainroam.data.cohort import Cohort
from brainroam.data.people import mean_of_scans, persons
from brainroam.data.target import NUMBER, ORDERED, Target, TargetRequest
from brainroam.data.target_column import with_target
from brainroam.errors import DataError, UsageError, listed
from brainroam.methods.blocks import BlockSum
from brainroam.methods.familiarity import Familiarity
from brainroam.methods.site_shift import LABELLED, NOTHING_TO_MEND, STRICT, UNLABELLED, protocol_name
from brainroam.methods.tuning import TunedMethod

OTHER_SHARE = 0.1  # a stated prevalence that differs more from that of training does not go with adapt=unlabelled
ONE_SIDED, LEAST_PEOPLE = 0.1, 10  # of at least so many people of a site at most this share is called case, or control


def predictions(
    method: TunedMethod,
    cohort: Cohort,
    familiarity: Familiarity | None = None,
    controls: Collection[str] = (),
    adapt: str = STRICT,
    prevalence: float | None = None,
    advise: bool = True,
) -> pd.DataFrame:
    """Predict for people of any site.

    Parameters
    ----------
    method : TunedMethod
        Fitted.
    cohort : Cohort
    familiarity : Familiarity, optional
        What the training people were like, for the flags.
    controls : collection of str
        Subjects of ``cohort`` who are known controls: they move the threshold of their site and get no row.
    adapt : {"strict", "unlabelled"}
        ``unlabelled`` moves the threshold of each site by the scores of all its people.
    prevalence : float, optional
        The share of cases for which the probabilities hold, by default that of the training people.
    advise : bool
        Warn of `odd_sites`, and say how to adapt.

    Returns
    -------
    DataFrame
        ``subject``, ``person`` where somebody has several scans, ``site``, ``label`` where somebody's is known,
        ``protocol`` (how the site's threshold was found), ``probability``, the ``prevalence`` it holds for, the
        ``predicted`` class (which does not depend on it), a column ``set_80``, ``set_90`` for each level that can be
        promised (empty where the threshold was moved: the promise is for the strict protocol), ``imputed`` covariates
        and blocks, and ``flags``.

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
    known = _known_controls(cohort, controls, adapt)
    people = _whose(cohort)
    if cohort.table["label"].notna().any():
        people["label"] = cohort.table["label"]
    score = method.score(cohort)
    shift, protocol = _site_shifts(method, cohort, score, known, adapt)
    calibration, moved = method.calibration_, score - shift
    table = people.assign(
        protocol=protocol,
        probability=calibration(moved, prevalence),
        prevalence=calibration.prevalence if prevalence is None else prevalence,
        predicted=calibration.decide(moved),
    )
    if adapt == UNLABELLED and prevalence is not None and abs(prevalence - calibration.prevalence) > OTHER_SHARE:
        warnings.warn(
            f"adapt=unlabelled takes {calibration.prevalence:.0%} of the people at a site for cases, as in training; "
            f"where {prevalence:.0%} are, it moves the level of the site too far: name controls instead",
            stacklevel=2,
        )
    if advise:
        _warn_of_sites(table[~known], score[~known], method)
    for level in method.sets_.limits:
        table[f"set_{100 * level:g}"] = np.where(protocol == STRICT, method.sets_(score, level), "")
    table["imputed"] = _list_imputed(method, cohort)
    table["flags"] = (
        "" if familiarity is None else [text for part in cohort.batches() for text in familiarity.flags(part)]
    )
    return table[~known].reset_index(drop=True)


def _whose(cohort: Cohort) -> pd.DataFrame:
    """``subject``, ``person`` where somebody has several scans, and ``site`` of each scan."""
    several = cohort.n_people < len(cohort)
    return cohort.table[["subject", *["person"] * several, "site"]].copy()


def class_predictions(
    method: TunedMethod,
    cohort: Cohort,
    prevalence: Shares | None = None,
    controls: Collection[str] = (),
    adapt: str = STRICT,
) -> pd.DataFrame:
    """The class of people of any site among several, with probabilities, scores and sets.

    ``controls`` and ``adapt`` are those of `predictions`: people known to be of the first class, or everybody, move the
    scores of their site, never the order of its people in any of them. Sets are then empty.

    Returns ``subject``, ``person`` as in `predictions`, ``site``, ``label`` (the name of a class) where somebody's is
    known and the data name the same target, ``protocol``, ``predicted``, ``probability_<class>``, ``score_<class>``,
    and for each level that can be promised ``set_80``, ...: the classes in the set, by their names; ``imputed``
    covariates and ``flags``.
    """
    target, score = method.target_, method.score(cohort)
    names, calibration = np.array(target.classes), method.calibration_
    table, label = _whose(cohort), cohort.table["label"]
    if len(controls) and not target.has_controls:
        raise UsageError(f"{target.name} has no class of controls ({listed(names)}): use adapt={UNLABELLED}")
    known = _known_controls(cohort, controls, adapt)
    shift, table["protocol"] = _site_shifts(method, cohort, score, known, adapt)
    strict = (table["protocol"] == STRICT).to_numpy()
    if cohort.target.name == target.name and cohort.target.classes and label.notna().any():
        table["label"] = label.map(dict(enumerate(cohort.target.classes)))
    table["predicted"] = names[calibration.decide(score - shift)]
    shares = None if prevalence is None else as_shares(prevalence, target.classes)
    for what, values in {"probability": calibration(score - shift, shares), "score": score}.items():
        table = table.assign(**{f"{what}_{name}": values[:, k] for k, name in enumerate(names)})
    for level in method.sets_.limits:
        inside = method.sets_(calibration.equal(score), level)
        table[f"set_{100 * level:g}"] = np.where(strict, ["; ".join(names[row]) for row in inside], "")
    return _with_remarks(table, method, cohort)[~known].reset_index(drop=True)


def _site_shifts(
    method: TunedMethod, cohort: Cohort, score: np.ndarray, known: np.ndarray, adapt: str
) -> tuple[np.ndarray, np.ndarray]:
    """By how much its known controls, or all its people, move the scores of each site, and the protocol of each row."""
    site, person = cohort.table["site"].to_numpy(), persons(cohort.table).to_numpy()
    shift, protocol = np.zeros(score.shape), np.full(len(score), STRICT, dtype=object)
    of_everybody = adapt == UNLABELLED
    for name in np.unique(site):
        here = site == name
        used = here if of_everybody else here & known
        if not used.any():
            continue
        kind = UNLABELLED if of_everybody else "controls"
        if kind not in method.shifts_:
            raise UsageError("this model was pooled before its third round, or by an older version: it cannot adapt")
        of_people = mean_of_scans(score[used], person[used])
        shift[here] = method.shifts_[kind](of_people)
        protocol[here] = UNLABELLED if of_everybody else protocol_name(len(of_people))
    return shift, protocol


def _known_controls(cohort: Cohort, controls: Collection[str], adapt: str) -> np.ndarray:
    """Which people are known controls of their site; refuses settings that contradict each other."""
    if adapt not in (STRICT, UNLABELLED):
        raise UsageError(f"adapt is {STRICT} or {UNLABELLED}, not {adapt!r}; controls are named one by one")
    if adapt == UNLABELLED and len(controls):
        raise UsageError("controls of the new site and adapt=unlabelled are two ways to move a threshold: choose one")
    known = cohort.table["subject"].isin(list(controls)).to_numpy()
    absent = sorted(set(controls) - {*cohort.table["subject"], *cohort.excluded["subject"]})
    if absent:
        raise DataError(f"no person in the data has the id {listed(absent)}, listed as a control of the new site")
    if known.all():
        raise DataError("all people are listed as controls of the new site: there is nobody to predict for")
    return known


def number_predictions(method: TunedMethod, cohort: Cohort, adapt: str = STRICT) -> pd.DataFrame:
    """The number for people of any site, in its own units, with the interval of each level that can be promised.

    With ``adapt="labelled"`` people whose number is known mend level and scale of their site and get no row; intervals
    are then empty, as they are promised for a site of which nothing is known.

    Returns ``subject``, ``person`` as in `predictions`, ``site``, ``label`` where somebody's number is known,
    ``protocol``, ``predicted``, ``low_80``,
    ``high_80``, ..., ``imputed`` covariates and ``flags``; of an order also ``level``, the nearest step.
    """
    if adapt not in (STRICT, LABELLED):
        raise UsageError(f"for a number adapt is {STRICT} or {LABELLED}, not {adapt!r}")
    target, score = method.target_, method.score(cohort)
    table, truth = _whose(cohort), _known_numbers(cohort, target)
    used = np.isfinite(truth) & (adapt == LABELLED)
    if adapt == LABELLED and (used.all() or not used.any()):
        who = "nobody" if used.any() else "everybody"
        raise DataError(
            f"adapt=labelled mends the predictions of people without a value of {target.name} by others of their site "
            f"who have one; {who} is without"
        )
    if adapt == LABELLED and not any(shift.ratio for shift in method.shifts_.values()):
        warnings.warn(f"known values of {target.name} change no prediction: {NOTHING_TO_MEND}", stacklevel=2)
    if np.isfinite(truth[~used]).any():
        table["label"] = truth
    table["protocol"], predicted = STRICT, method.predict_number(score)
    person = persons(cohort.table).to_numpy()
    for name in np.unique(table["site"][used]):
        here = (table["site"] == name).to_numpy()
        known, numbers = (mean_of_scans(values[here & used], person[here & used]) for values in (score, truth))
        predicted[here] = method.mend(score[here], known, numbers)
        table.loc[here, "protocol"] = protocol_name(len(known), LABELLED)
    table["predicted"] = predicted
    if target.kind == ORDERED:
        table["level"] = np.array(target.classes)[np.rint(predicted).astype(int)]
    strict = (table["protocol"] == STRICT).to_numpy()
    for level in method.sets_.limits:
        for end, values in zip(("low", "high"), method.interval(score, level), strict=True):
            table[f"{end}_{100 * level:g}"] = np.where(strict, target.inverse(values), np.nan)
    return _with_remarks(table, method, cohort)[~used].reset_index(drop=True)


def _with_remarks(table: pd.DataFrame, method: TunedMethod, cohort: Cohort) -> pd.DataFrame:
    """Which covariates stood at the training mean, and how a person differs from those trained on."""
    familiarity = method.familiarity_
    table["imputed"] = _list_imputed(method, cohort)
    table["flags"] = (
        "" if familiarity is None else [text for part in cohort.batches() for text in familiarity.flags(part)]
    )
    return table


def _list_imputed(method: TunedMethod, cohort: Cohort) -> list[str]:
    """Which covariates of each person stood at the training mean, and which blocks were not there to be read."""
    missing = method.missing_covariates(cohort).reset_index(drop=True)
    if isinstance(method.model_, BlockSum):
        for name in method.model_.members:
            missing[f"block {name}"] = ~cohort.has_block(name)
    return ["; ".join(missing.columns[flags]) for flags in missing.to_numpy(dtype=bool)]


def with_target_of(method: TunedMethod, cohort: Cohort) -> Cohort:
    """The cohort with the target of a model, where it has that column and no target was named; else as it is."""
    target = method.target_
    if not cohort.target.is_two_classes or target.name not in cohort.table or target.kind != NUMBER:
        return cohort
    return with_target(cohort, TargetRequest(target.name, target.kind, target.transform), require_label=False)


def _known_numbers(cohort: Cohort, target: Target) -> np.ndarray:
    """The number of each person, NaN where it is unknown or the data name another target."""
    label = cohort.table["label"].astype(float)
    if cohort.target.name != target.name:
        label[:] = np.nan
    elif target.kind == ORDERED and cohort.target.classes:  # new people may lack a step: it is known by its name
        step = {name: k for k, name in enumerate(target.classes)}
        label = label.map({k: step.get(name, np.nan) for k, name in enumerate(cohort.target.classes)})
    return label.to_numpy(dtype=float)


def odd_sites(table: pd.DataFrame, score: np.ndarray, method: TunedMethod) -> dict[str, str]:
    """Sites where nearly all or none are predicted cases, or whose scores lie far from others, with the reason."""
    site, found = table["site"].to_numpy(), {}
    for name in np.unique(site):
        here = site == name
        n, cases = int(here.sum()), int(table["predicted"].to_numpy()[here].sum())
        one_sided = n >= LEAST_PEOPLE and min(cases, n - cases) <= ONE_SIDED * n
        strict = table["protocol"].to_numpy()[here][0] == STRICT
        far = strict and method.shifts_[UNLABELLED].is_far(score[here])
        if one_sided or far:
            lies = ", and its scores lie far from those of the training sites" if far else ""
            found[str(name)] = f"{cases} of {n} people are predicted to have the condition{lies}"
    return found


def _warn_of_sites(table: pd.DataFrame, score: np.ndarray, method: TunedMethod) -> None:
    for name, seen in odd_sites(table, score, method).items():
        share = method.calibration_.prevalence
        advice = (
            f"name controls of the site (--controls), or use --adapt unlabelled if about {share:.0%} of its people are "
            "cases, as in training; or use only the order of its people, which neither changes"
            if (table["protocol"][table["site"].astype(str) == name] == STRICT).all()
            else "use only the order of its people, or check how its scans were made"
        )
        warnings.warn(
            f"site {name}: {seen}. Unless that is so, its class and probability are not to be trusted: {advice}",
            stacklevel=3,
        )
