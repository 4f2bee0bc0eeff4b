"""What each method does with the covariates of a study, in the words of `brainroam check` and of the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from brainroam.data.people import COVARIATES
from brainroam.methods.base import MethodInfo
from brainroam.methods.controls import confounds_of
from brainroam.utils.parameters import settings_of

USE = {
    "removed": "{methods} removed {names} from the edges",
    "projected": "{methods} projected what moves with {names} within site and class out of the edges",
    "kept": "{methods} removed differences between sites and kept the effects of {names}",
    "read": "{methods} read {names} and nothing of the brain",
    "linked": "{methods} linked people of like {names}",
    "": "{methods} used {names}",
}


def covariates_used(info: MethodInfo, fixed: Mapping[str, Any], of_study: Sequence[str]) -> tuple[str, ...]:
    """The covariates a method uses: those of its name, else of its recipe, else of the study.

    >>> from brainroam.methods.registry import method_info
    >>> covariates_used(method_info("scaffold-ridge"), {}, ["age", "iq"])
    ('age', 'iq')
    >>> covariates_used(method_info("fc-ridge"), {}, ["age", "iq"])
    ()
    """
    own = settings_of(info.make).get("covariates")
    if own is None:
        return COVARIATES if info.covariate_use == "linked" else ()  # by its paper, whatever a study removes
    told = fixed.get("covariates", own.default)
    if told is not None:
        return tuple(told)
    return confounds_of(of_study) if info.covariate_use == "read" else tuple(of_study)


def in_words(use: str, methods: Sequence[str], names: Sequence[str]) -> str:
    """One sentence, in the past tense of a report.

    >>> in_words("removed", ["core"], ["age", "sex"])
    'core removed age and sex from the edges'
    """
    if not names:
        return f"{join_names(methods)} used no covariates"
    return USE.get(use, USE[""]).format(methods=join_names(methods), names=join_names(names))


def join_names(names: Sequence[str]) -> str:
    """Names with commas and an 'and'."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
