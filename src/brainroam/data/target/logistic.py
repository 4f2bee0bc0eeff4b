"""A weighted logistic regression, and probabilities at another prevalence."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from brainroam.errors import UsageError


def fit_logistic(design: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients of a weighted logistic regression."""

    def loss(beta: np.ndarray) -> float:
        return float(weight @ np.logaddexp(0, (1 - 2 * y) * (design @ beta)))

    def gradient(beta: np.ndarray) -> np.ndarray:
        return design.T @ (weight * (expit(design @ beta) - y))

    def hessian(beta: np.ndarray) -> np.ndarray:
        p = expit(design @ beta)
        return (design * (weight * p * (1 - p))[:, None]).T @ design

    start = np.zeros(design.shape[1])
    return minimize(loss, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-8}).x


def to_prevalence(probability: np.ndarray, held: float | np.ndarray, prevalence: float) -> np.ndarray:
    """Probabilities that held where the share of cases was ``held``, for another prevalence.

    >>> to_prevalence(np.array([0.5, 0.9]), held=0.5, prevalence=0.1).round(3).tolist()
    [0.1, 0.5]
    """
    if not 0 < prevalence < 1:
        raise UsageError(f"a prevalence is a share between 0 and 1, such as 0.1 for 10 %; not {prevalence:g}")
    return expit(logit(probability) + logit(prevalence) - logit(held))
