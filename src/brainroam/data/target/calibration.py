"""Decision and probability, learned on scores of people whose site was held out.

The decision is ``score >= threshold``. The threshold is the midpoint of the class means, averaged over sites: it treats
both classes alike and does not move with their shares at any site.

The probability holds where a share pi0 of the people are cases, by default the share among the training people:

    logit p(score) = intercept + slope (score - threshold)

At another prevalence pi the same score is seen among other shares of cases and controls (Bayes), so

    logit p(score; pi) = logit p(score) + logit(pi) - logit(pi0)

Intercept and slope are a logistic regression with weights that give the cases the share pi0. Two virtual people, a case
one spread below the threshold and a control one above, keep the slope finite. Few people at few sites tell little about
the slope at the next one, so it is shrunk by what they show within sites (after van Houwelingen and le Cessie 1990):

    slope <- slope max(0, 1 - max(3 f V, 2 W) / U^2),      f = 2 (k - 1) / (k - 2), at most 4

U is the sum over k sites of U_s, the products of centred labels and scores; V is its variance if the labels of a site
are permuted, W that by the scatter of U_s between sites. f is by how much sites that were trained on one another add to
V where there is nothing (`evaluation.stats.paired.left_out_t`). The 3 was chosen in simulation: where labels mean
nothing, the Brier score at a new site is then that of pi0 to four digits (docs/reliability.md). The intercept is found
again, such that the mean probability is pi0. Without evidence everybody gets pi0, up to a slope that keeps the order of
people.

Several classes. With s_k the score of class k, one number per class,

    log p_k(s; pi) = a_k + b_k s_k + log pi_k - log sum        pi_k: the share of class k where the model is used

The decision is the class of the largest a_k + b_k s_k: that at equal shares, so it treats classes alike and does not
move with their shares at any site. Stated shares change probabilities only (Bayes).

    b_k s_k = T z_k,    z_k: log odds of class k against the rest, calibrated as two classes are

Each class has a slope of its own, shrunk there by what sites show of it: a class that cannot be told from the rest
moves no probability. The temperature T and the offsets a_k are a multinomial regression in which classes have equal
weight; a virtual person of each class, called another one, keeps T finite. T is shrunk by its variance v between sites,
to T max(0, 1 - 2 v / T^2), and the offsets are found again, so that at equal shares the mean probability of each class
is 1 / K.

References
----------
van Houwelingen and le Cessie (1990), Predictive value of statistical models, Statistics in Medicine 9(11), 1303-1325.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax, softmax

from brainroam.data.target.logistic import fit_logistic as fit_logistic
from brainroam.data.target.logistic import to_prevalence as to_prevalence
from brainroam.data.target.order import is_constant
from brainroam.errors import DataError, UsageError, listed

LEAST_SLOPE = 1e-3  # per spread of the scores
OF_CHANCE, OF_SITES = 3, 2  # variances of the evidence that are taken off a slope
FAR = 50.0  # log odds beyond this are held there


@dataclass(frozen=True)
class NumberCalibration:
    """A number from a score: ``intercept + slope * score``, on the scale the target is learned on.

    ``mean`` is that of the training people: what a constant would say.

    Examples
    --------
    >>> NumberCalibration(10.0, 2.0, 11.0)(np.array([1.0])).tolist()
    [12.0]
    """

    intercept: float
    slope: float
    mean: float

    def __call__(self, score: np.ndarray) -> np.ndarray:
        """The number for each score."""
        return self.intercept + self.slope * np.asarray(score)


def calibrate_number(score: np.ndarray, t: np.ndarray, count: np.ndarray | None = None) -> NumberCalibration:
    """Least squares of the target on scores by fits without the person's site; people without a score are left out.

    ``count`` is how many people each row stands for, by default one.

    Over the people of all these sites, so that scores whose level differs between sites for no reason count less. The
    slope is at least a thousandth of the spread of the target: the order of people is always the score's.

    >>> calibrate_number(np.array([0.0, 1.0, np.nan]), np.array([5.0, 7.0, 0.0]))
    NumberCalibration(intercept=5.0, slope=2.0, mean=4.0)
    """
    count = np.ones(len(score)) if count is None else count
    known, constant = np.isfinite(score), float(np.average(t, weights=count))
    if not known.any():
        return NumberCalibration(constant, 0.0, constant)
    x, y, n = score[known], t[known], count[known]
    middle, mean = np.average(x, weights=n), np.average(y, weights=n)
    centred, varies = x - middle, not is_constant(x)
    size = float(centred @ (n * centred))
    spread = np.sqrt(np.average((y - mean) ** 2, weights=n))
    least = LEAST_SLOPE * float(spread) / np.sqrt(size / n.sum()) if varies else 0.0
    slope = max(float((n * centred) @ y) / size, least) if varies else 0.0
    return NumberCalibration(float(mean - slope * middle), slope, constant)


@dataclass(frozen=True)
class Calibration:
    """A frozen decision and probability; calling it turns scores into probabilities of the condition.

    Attributes
    ----------
    threshold : float
        A score of at least this is called a case.
    slope : float
    intercept : float
        Log odds of the condition at the threshold.
    prevalence : float
        The share of cases for which they hold.

    Examples
    --------
    >>> calibration = Calibration(threshold=2.0, slope=1.0, intercept=0.0, prevalence=0.5)
    >>> calibration(np.array([2.0])).round(3).tolist(), calibration(np.array([2.0]), prevalence=0.1).round(3).tolist()
    ([0.5], [0.1])
    """

    threshold: float
    slope: float
    intercept: float
    prevalence: float

    def __call__(self, score: np.ndarray, prevalence: float | None = None) -> np.ndarray:
        """Probability of the condition where ``prevalence`` of the people have it; by default as in training."""
        odds = self.intercept + self.slope * (np.asarray(score) - self.threshold)
        p = expit(np.clip(odds, -FAR, FAR))
        return p if prevalence is None else to_prevalence(p, self.prevalence, prevalence)

    def decide(self, score: np.ndarray) -> np.ndarray:
        """1 for people who are called cases, 0 for the others, whatever the prevalence."""
        return (np.asarray(score) >= self.threshold).astype(int)


def calibrate(
    score: np.ndarray,
    y: np.ndarray,
    site: np.ndarray,
    count: np.ndarray | None = None,
    prevalence: float | None = None,
) -> Calibration:
    """Learn decision and probability from scores by fits without the person's site.

    Parameters
    ----------
    score : ndarray of shape (n,)
        NaN for people without one: they only count for the prevalence.
    y, site : ndarray of shape (n,)
    count : ndarray of shape (n,), optional
        How many people each score stands for, by default one.
    prevalence : float, optional
        The share of cases for which probabilities hold, by default that of these people.

    Examples
    --------
    >>> found = calibrate(np.array([0.0, 2.0, 1.0, 3.0, 1.0, 3.0]), np.array([0, 0, 0, 0, 1, 1]), np.array(["A"] * 6))
    >>> found.threshold, round(found.prevalence, 3)
    (1.75, 0.333)
    """
    y, site = np.asarray(y), np.asarray(site)
    count = np.ones(len(score)) if count is None else count
    prevalence = float(np.average(y, weights=count)) if prevalence is None else prevalence
    known = np.isfinite(score)
    score, y, site, count = score[known], y[known], site[known], count[known]
    threshold = _threshold(score, y, site, count)
    spread = float(np.sqrt(np.cov(score, aweights=count, ddof=0))) or 1.0
    x = (score - threshold) / spread
    share = np.average(y, weights=count)
    weight = np.where(y == 1, prevalence / share, (1 - prevalence) / (1 - share))
    slope = max(_shrink_slope(x, y, site, count, weight, prevalence), LEAST_SLOPE)
    total = count * weight

    def excess(intercept: float) -> float:
        return float(total @ (expit(intercept + slope * x) - prevalence))

    return Calibration(threshold, slope / spread, float(brentq(excess, -FAR, FAR, xtol=1e-12)), prevalence)


def _threshold(score: np.ndarray, y: np.ndarray, site: np.ndarray, count: np.ndarray) -> float:
    """Midpoint of the class means, averaged over the sites with both classes."""
    middles = []
    for name in np.unique(site):
        classes = [(site == name) & (y == label) for label in (0, 1)]
        if all(here.any() for here in classes):
            middles.append(np.mean([np.average(score[here], weights=count[here]) for here in classes]))
    if not middles:
        raise DataError(
            "no held-out training site has both classes, so no threshold can be learned; a site is a hospital or a "
            "scanner with several people of both classes: where each class has sites of its own, the class cannot be "
            "told from the site"
        )
    return float(np.mean(middles))


def _shrink_slope(
    x: np.ndarray, y: np.ndarray, site: np.ndarray, count: np.ndarray, weight: np.ndarray, prevalence: float
) -> float:
    """Slope of the weighted logistic regression with virtual people, shrunk by its evidence."""
    design = np.column_stack([np.ones_like(x), x])
    virtual, labels = np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([1.0, 0.0])
    everybody, truth = np.concatenate([design, virtual]), np.concatenate([y, labels])
    total = np.concatenate([count * weight, [2 * prevalence, 2 * (1 - prevalence)]])
    slope = float(fit_logistic(everybody, truth, total)[1])
    return max(slope, 0.0) * _credibility(x, y, site, count)


def _credibility(x: np.ndarray, y: np.ndarray, site: np.ndarray, count: np.ndarray) -> float:
    """The share of a slope that these people show within their sites: max(0, 1 - max(3 f V, 2 W) / U^2).

    >>> y, site = np.tile([0, 1], 40), np.repeat(np.arange(8), 10)
    >>> round(_credibility(y + 0.1 * np.arange(80), y, site, np.ones(80)), 2), _credibility(-y, y, site, np.ones(80))
    (0.88, 0.0)
    """
    sums, permuted = [], 0.0
    for name in np.unique(site):
        here = site == name
        n, c = count[here].sum(), count[here]
        score, label = (values[here] - np.average(values[here], weights=c) for values in (x, y))
        if n > 1 and label.any():
            sums.append(float(c @ (score * label)))
            permuted += float(c @ score**2) * float(c @ label**2) / (n - 1)
    k, total = len(sums), sum(sums)
    if total <= 0:
        return 0.0
    between = k * float(np.var(sums, ddof=1)) if k > 1 else 0.0
    shared = min(2 * (k - 1) / (k - 2), 4.0) if k > 2 else 4.0
    return float(max(0.0, 1 - max(OF_CHANCE * shared * permuted, OF_SITES * between) / total**2))


Shares = Mapping[str, float] | Sequence[float] | np.ndarray


@dataclass(frozen=True, eq=False)
class ClassCalibration:
    """A frozen decision and probabilities; calling it turns scores (n, K) into probabilities (n, K).

    Attributes
    ----------
    offset, slope : ndarray of shape (K,)
        a and b.
    prevalence : ndarray of shape (K,)
        Shares of the classes among the training people, for which probabilities hold unless others are stated.

    Examples
    --------
    >>> found = ClassCalibration(np.zeros(3), np.ones(3), np.array([0.5, 0.25, 0.25]))
    >>> found(np.zeros((1, 3))).tolist(), found(np.zeros((1, 3)), [0.2, 0.2, 0.6]).round(3).tolist()
    ([[0.5, 0.25, 0.25]], [[0.2, 0.2, 0.6]])
    >>> found.decide(np.array([[0.0, 2.0, 1.0]])).tolist()
    [1]
    """

    offset: np.ndarray
    slope: np.ndarray
    prevalence: np.ndarray

    def __call__(self, score: np.ndarray, prevalence: np.ndarray | Sequence[float] | None = None) -> np.ndarray:
        """Probabilities where these shares of people are of each class; by default as in training."""
        shares = self.prevalence if prevalence is None else np.asarray(prevalence, dtype=float)
        return softmax(self._odds(score) + np.log(shares), axis=-1)

    def equal(self, score: np.ndarray) -> np.ndarray:
        """Probabilities where all classes are equally frequent."""
        return softmax(self._odds(score), axis=-1)

    def decide(self, score: np.ndarray) -> np.ndarray:
        """The code of the class that each person is called, whatever the shares."""
        return self._odds(score).argmax(axis=-1)

    def _odds(self, score: np.ndarray) -> np.ndarray:
        return np.clip(self.offset + self.slope * np.asarray(score), -FAR, FAR)


def as_shares(stated: Shares, classes: Sequence[str]) -> np.ndarray:
    """Stated shares of the classes (K,), by name or in their order; they must add up to 1.

    >>> as_shares({"HC": 0.8, "MDD": 0.1, "SCZ": 0.1}, ("HC", "MDD", "SCZ")).tolist()
    [0.8, 0.1, 0.1]
    """
    if isinstance(stated, Mapping):
        if set(stated) != set(classes):
            raise UsageError(f"state a share for each class: {listed(classes, len(classes))}; given: {listed(stated)}")
        stated = [stated[name] for name in classes]
    shares = np.asarray(stated, dtype=float)
    if shares.shape != (len(classes),) or not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise UsageError(
            f"prevalence of {len(classes)} classes ({listed(classes, len(classes))}) is a share above 0 for each, "
            "together 1, as in HC=0.8,MDD=0.1,SCZ=0.1"
        )
    return shares


def calibrate_classes(
    score: np.ndarray, code: np.ndarray, site: np.ndarray, count: np.ndarray | None = None
) -> ClassCalibration:
    """Learn decision and probabilities from scores by fits without the person's site.

    Parameters
    ----------
    score : ndarray of shape (n, K)
        NaN for people without one: they only count for the shares.
    code : ndarray of int, shape (n,)
    site : ndarray of shape (n,)
    count : ndarray of shape (n,), optional
        How many people each row stands for, by default one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> code, site = np.tile([0, 1, 2], 100), np.repeat(np.arange(6), 50)
    >>> score = np.eye(3)[code] * [2.0, 2.0, 0.0] + rng.normal(size=(300, 3))
    >>> found = calibrate_classes(score, code, site)
    >>> bool(found.slope[2] < 0.1 * found.slope[0]), bool(np.allclose(found.equal(score).mean(axis=0), 1 / 3))
    (True, True)
    """
    n_classes = score.shape[1]
    count = np.ones(len(score)) if count is None else count
    people = np.maximum(np.bincount(code, count, minlength=n_classes), 0.5)
    prevalence = people / people.sum()
    known = np.isfinite(score).all(axis=1)
    score, code, site, count = score[known], code[known], site[known], count[known]
    there = np.bincount(code, minlength=n_classes) > 0
    slope, threshold = np.transpose([_against_rest(score[:, k], code == k, site, count) for k in range(n_classes)])
    offset, temperature = _multinomial(slope * (score - threshold), code, site, count, there)
    slope = temperature * slope
    return ClassCalibration(np.where(there, offset, -FAR) - slope * threshold, slope, prevalence)


def _against_rest(score: np.ndarray, y: np.ndarray, site: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """Slope and threshold of one class against the rest at equal shares; no slope where no site has both."""
    both = [name for name in np.unique(site) if 0 < y[site == name].sum() < (site == name).sum()]
    if not both or np.ptp(score) == 0:
        return 0.0, 0.0
    calibration = calibrate(score, y.astype(int), site, count, prevalence=0.5)
    return calibration.slope, calibration.threshold


def _multinomial(
    z: np.ndarray, code: np.ndarray, site: np.ndarray, count: np.ndarray, there: np.ndarray
) -> tuple[np.ndarray, float]:
    """Offsets a (K,) and the shrunken temperature T of log odds z (n, K), over the classes that are there."""
    classes = np.flatnonzero(there)
    z, place = z[:, classes], np.searchsorted(classes, code)
    n_classes = len(classes)
    truth = np.eye(n_classes)[place]
    weight = count * (1 / np.bincount(place, count, minlength=n_classes))[place] * count.sum() / n_classes
    virtual = -np.eye(n_classes)
    design = _design(np.concatenate([z, virtual]))
    everybody, total = np.concatenate([truth, np.eye(n_classes)]), np.concatenate([weight, np.ones(n_classes)])
    theta, information = fit_multinomial(design, everybody, total)
    temperature = float(theta[-1])
    if temperature > 0:
        person = np.einsum("nkp,nk->np", design[: len(z)], truth - softmax(design[: len(z)] @ theta, axis=1))
        person *= weight[:, None]
        names = np.unique(site)
        sums = np.array([person[site == name].sum(axis=0) for name in names])
        by_site = sums.T @ sums * len(names) / max(len(names) - 1, 1)
        inverse = np.linalg.pinv(information, hermitian=True)
        person /= np.sqrt(count)[:, None]  # scans of a person go together: their squares count once
        variance = max(float((inverse @ part @ inverse)[-1, -1]) for part in (person.T @ person, by_site))
        temperature *= max(0.0, 1 - 2 * variance / temperature**2)
    temperature = max(temperature, LEAST_SLOPE)
    fixed = temperature * z
    offsets, _ = fit_multinomial(_design(fixed)[:, :, :-1], truth, weight, fixed)
    every = np.zeros(len(there))
    every[classes] = np.append(0.0, offsets)
    return every, temperature


def _design(z: np.ndarray) -> np.ndarray:
    """Derivative (n, K, K) of the log odds of each class by the offsets of all but the first, and by T."""
    n_people, n_classes = z.shape
    offsets = np.broadcast_to(np.eye(n_classes)[:, 1:], (n_people, n_classes, n_classes - 1))
    return np.concatenate([offsets, z[:, :, None]], axis=2)


def fit_multinomial(
    design: np.ndarray, truth: np.ndarray, weight: np.ndarray, beside: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (P,) of a weighted multinomial regression, and the matrix of second derivatives there.

    ``design`` (n, K, P) times the coefficients, plus ``beside`` (n, K), is the log odds of each class; ``truth`` (n, K)
    is 1 at the class of each person.
    """

    def loss(theta: np.ndarray) -> float:
        return float(-weight @ (truth * log_softmax(design @ theta + beside, axis=1)).sum(axis=1))

    def gradient(theta: np.ndarray) -> np.ndarray:
        return np.einsum("n,nkp,nk->p", weight, design, softmax(design @ theta + beside, axis=1) - truth)

    def hessian(theta: np.ndarray) -> np.ndarray:
        p = softmax(design @ theta + beside, axis=1)
        mean = np.einsum("nk,nkp->np", p, design)
        second = np.einsum("n,nk,nkp,nkq->pq", weight, p, design, design, optimize=True)
        return second - np.einsum("n,np,nq->pq", weight, mean, mean, optimize=True)

    start = np.zeros(design.shape[2])
    fit = minimize(loss, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-8})
    return fit.x, hessian(fit.x)
