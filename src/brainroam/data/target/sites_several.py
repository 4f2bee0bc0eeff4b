"""What is measured of several classes at a held-out site, and over sites.

At each held-out site, over the K classes found there, each against everybody else of the site:

    auc_k          AUC of the score of class k                            auc: their mean (macro)
    balanced_acc   mean over classes of the share called right            1 / K by chance
    brier          mean over people of sum_k (p_k - [class k])^2          log_loss: mean of -log p of the true class

The model of sites needs cases and controls. At chance the AUC of class k with n_k of n people has the variance
(n + 1) / (12 n_k (n - n_k)), and the mean over classes a share rho of the mean of these: 1 where classes move together,
1 / K where they do not. So a site counts as one with m cases and m controls, where the two are equal:

    (2 m + 1) / (12 m^2) = rho mean_k (n + 1) / (12 n_k (n - n_k))

rho is that of the sites together, from what each person adds to the AUC of every class (`order.added_error`). The
weights of sites are min(m, 20) with rho = 1, so that all methods have the same: a class of one or two people makes m
small, as the rarer of two classes does. Coverage: docs/reliability.md.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from brainroam.data.target.order import class_aucs, equivalent_sizes, macro_variances
from brainroam.data.target.weights import mean_over_sites, site_weights

OVERALL = ("auc", "acc", "balanced_acc", "brier", "log_loss", "auc_variance", "class_variance")
SURE = 1e-12  # probabilities are held this far from 0 before their logarithm is taken


def metric_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Columns of the metrics of one site: over all classes, then the number of people and the AUC of each.

    >>> metric_names(["HC", "MDD"])[len(OVERALL):]
    ('n_HC', 'n_MDD', 'auc_HC', 'auc_MDD')
    """
    return (*OVERALL, *(f"n_{name}" for name in classes), *(f"auc_{name}" for name in classes))


def site_metrics(
    code: np.ndarray, score: np.ndarray, called: np.ndarray, probability: np.ndarray, classes: Sequence[str]
) -> dict[str, float | int]:
    """Every metric of one held-out site; NaN where it has one class only.

    Parameters
    ----------
    code, called : ndarray of int, shape (N,)
        The class of each person, and the one that they are called.
    score, probability : ndarray of shape (N, K)
    classes : sequence of str

    Examples
    --------
    >>> p = np.array([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.3, 0.4, 0.3]])
    >>> found = site_metrics(np.array([0, 1, 2]), p, np.array([0, 1, 1]), p, ["a", "b", "c"])
    >>> found["auc"], round(found["balanced_acc"], 3), round(found["brier"], 3)
    (1.0, 0.667, 0.347)
    """
    count, aucs = np.bincount(code, minlength=len(classes)), class_aucs(code, score)
    recall = [float(np.mean(called[code == k] == k)) for k in np.flatnonzero(count)]
    several, known = len(recall) > 1, aucs[np.isfinite(aucs)]
    return {
        "n": len(code),
        "auc": float(known.mean()) if len(known) else np.nan,
        "acc": float(np.mean(called == code)),
        "balanced_acc": float(np.mean(recall)) if several else np.nan,
        "brier": float(np.square(probability - np.eye(len(classes))[code]).sum(axis=1).mean()),
        "log_loss": float(-np.log(np.maximum(probability[np.arange(len(code)), code], SURE)).mean()),
        **dict(zip(OVERALL[-2:], macro_variances(code, score), strict=True)),
        **{f"n_{name}": int(n) for name, n in zip(classes, count, strict=True)},
        **{f"auc_{name}": float(value) for name, value in zip(classes, aucs, strict=True)},
    }


def over_sites(sites: pd.DataFrame, classes: Sequence[str]) -> dict[str, float]:
    """Means over the sites of one method, a row of `site_metrics` each; of each class by its own people."""
    m = equivalent_sizes(sites[[f"n_{name}" for name in classes]].to_numpy(dtype=float))
    n = sites["n"].to_numpy(dtype=float)
    means = {name: mean_over_sites(sites[name].to_numpy(), site_weights(m, m)) for name in OVERALL[1:-2]}
    for name in classes:
        of_class = sites[f"n_{name}"].to_numpy(dtype=float)
        weight = site_weights(of_class, n - of_class)
        means[f"auc_{name}"] = mean_over_sites(sites[f"auc_{name}"].to_numpy(), weight)
    return means


def one_sided(called: pd.DataFrame, names: Sequence[str]) -> list[tuple[str, str]]:
    """Sites where nine of ten people, ten at least, are called one class that fewer than three quarters of them have.

    >>> rows = pd.DataFrame({"site": "A", "label": [0, 1] * 6, "predicted": 1})
    >>> one_sided(rows, ("controls", "cases"))
    [('A', 'called cases: 12 of 12 people, of whom 6 are')]
    >>> one_sided(rows.assign(predicted=np.nan), ("controls", "cases"))  # scores alone decide nothing
    []
    """
    found = []
    for site, here in called.dropna(subset="predicted").groupby("site"):
        counts = np.bincount(here["predicted"].astype(int), minlength=len(names))
        k, n = int(counts.argmax()), len(here)
        true = int((here["label"] == k).sum())
        if n >= 10 and counts[k] >= 0.9 * n and true < 0.75 * n:
            found.append((str(site), f"called {names[k]}: {counts[k]} of {n} people, of whom {true} are"))
    return found
