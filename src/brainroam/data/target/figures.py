"""A figure that a held-out site has: its name, its scale, and how it is written."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from brainroam.data.target.weights import mean_over_sites

INTERVAL = "Where the true mean over sites lies in 95 of 100 such studies; a dash where people are too few."
NEXT = "95 % prediction interval: where the true value at a next site like these is to be expected."
EDGE = 0.9999  # correlations are held this far from 1 before Fisher's z is taken
PROBIT = ndtri([0.01, 0.999])  # of an AUC that a mean of finite sites may exceed


class Change(NamedTuple):
    """The difference of two means of a figure, with its 95 % interval."""

    size: float
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """A figure, and the scales on which it is averaged over sites and follows a law.

    Attributes
    ----------
    name, head, words : str
        Its column, the head of a table, and what a mean of it is called.
    least : float
        A mean below which there is no curve to extend.
    chance : float
        Of a score that knows nothing.
    span : tuple of float
        Its least and its largest value.
    forward, back : callable
        From a site's figure to what is averaged, and back.
    straight, curved : callable
        From such a mean to the scale of the law, and from there to the figure.
    slope : callable
        How much the figure changes with what is averaged, at a figure.
    form, form_size, form_difference, form_change : callable
        How a value is written, a difference that one would like to find, one that was found, and one with its interval.
    axis : str
        Beside the axis of a picture.
    """

    name: str
    head: str
    words: str
    least: float
    chance: float
    span: tuple[float, float]
    forward: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray], np.ndarray]
    straight: Callable[[np.ndarray], np.ndarray]
    curved: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[float], float]
    axis: str
    form: Callable[[float], str]
    form_size: Callable[[float], str]
    form_difference: Callable[[float], str]
    form_change: Callable[[Change], str]

    def mean(self, values: np.ndarray, weights: np.ndarray) -> float:
        """Mean over sites, as a figure."""
        return self.mean_of(self.forward(np.asarray(values, dtype=float)), weights)

    def mean_of(self, averaged: ArrayLike, weights: ArrayLike) -> float:
        """The same of values on the scale that is averaged."""
        return float(self.back(np.array(mean_over_sites(averaged, weights))))


class Shown(NamedTuple):
    """A column of a table of methods: the values it shows, its head, how they are written, and what they mean."""

    names: tuple[str, ...]
    head: str
    form: Callable[..., str]
    meaning: str


def two_digits(value: float) -> str:
    """A correlation, a slope or R2 as it is written: .48, -.05, -10.07.

    >>> two_digits(0.482), two_digits(-0.05), two_digits(-10.07)
    ('.48', '-.05', '-10.07')
    """
    return "-" if np.isnan(value) else re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")


def points(value: float) -> str:
    """An AUC or a share in points of 100.

    >>> points(0.7634), points(float("nan"))
    ('76.3', '-')
    """
    return "-" if np.isnan(value) else f"{100 * value:.1f}"


def span(low: float, high: float) -> str:
    """An interval of AUCs in points.

    >>> span(0.55, 0.8), span(float("nan"), 0.8)
    ('55.0-80.0', '-')
    """
    return "-" if np.isnan(low) else f"{points(low)}-{points(high)}"


def span_of_r(low: float, high: float) -> str:
    """An interval of correlations."""
    return "-" if np.isnan(low) else f"{two_digits(low)} to {two_digits(high)}"


def amount(value: float, digits: int = 3, sign: bool = False) -> str:
    """A value in the units of the target with so many significant digits, never as a power of ten.

    >>> amount(0.04931), amount(4.0), amount(65012.0, 2), amount(0.57, sign=True)
    ('0.0493', '4', '65000', '+0.57')
    """
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-", sign=sign)


def fisher_z(r: np.ndarray) -> np.ndarray:
    """Fisher's z of correlations, which are held a little from 1."""
    return np.arctanh(np.clip(r, -EDGE, EDGE))


def _probit(mean: np.ndarray) -> np.ndarray:
    return np.clip(ndtri(np.clip(mean, 0, 1)), *PROBIT)


def _same(value):
    return value


def _change_in_points(change: Change) -> str:
    size, low, high = (100 * value for value in change)
    return f"{size:+.1f} points ({low:+.1f} to {high:+.1f})"


AREA = Figure(
    name="auc",
    head="AUC",
    words="mean AUC",
    least=0.55,
    chance=0.5,
    span=(0.0, 1.0),
    forward=_same,
    back=_same,
    straight=_probit,
    curved=ndtr,
    slope=lambda auc: 1.0,
    axis="AUC (0.5 is guessing, 1 is perfect)",
    form=points,
    form_size=lambda difference: f"{100 * difference:g} AUC points",
    form_difference=lambda difference: f"{100 * difference:+.1f} points",
    form_change=_change_in_points,
)
CORRELATION = Figure(
    name="r",
    head="r",
    words="mean correlation within sites",
    least=0.1,
    chance=0.0,
    span=(-1.0, 1.0),
    forward=fisher_z,
    back=np.tanh,
    straight=_same,
    curved=np.tanh,
    slope=lambda r: 1 - r**2,
    axis="r within the site (0 is guessing, 1 is perfect)",
    form=two_digits,
    form_size=lambda difference: f"{difference:.3g} in r".replace("0.", ".", 1),
    form_difference=lambda difference: f"{difference:+.3f} in r",
    form_change=lambda change: f"{change.size:+.3f} ({change.low:+.3f} to {change.high:+.3f})",
)
