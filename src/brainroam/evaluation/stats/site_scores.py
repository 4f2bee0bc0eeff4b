"""From tidy predictions to arrays: per-site AUCs, their variances and resamples, one protocol at a time.

Scores of different folds come from different models and are never ranked against each other.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from brainroam.errors import RunsError, listed
from brainroam.evaluation.stats.metrics import delong_covariance
from brainroam.evaluation.stats.paired import bootstrap_limits, kernel, nadeau_bengio, two_level_bootstrap

COLUMNS = ("method", "protocol", "site", "seed", "subject", "label", "score")


@dataclass(frozen=True)
class Evidence:
    """What one protocol says about every method, site by site; for ``cv`` a fold stands in the place of a site.

    ``auc`` and ``variance`` have shape (E sites, M methods), seeds averaged, NaN where a method has no result.
    ``resampled`` has shape (B, E, M), see `two_level_bootstrap`; empty for ``cv``.
    """

    protocol: str
    methods: list[str]
    sites: list[str]
    one_class: list[str]
    n_cases: np.ndarray
    n_controls: np.ndarray
    auc: np.ndarray
    variance: np.ndarray
    resampled: np.ndarray
    test_over_train: float

    def interval(self, contrast: np.ndarray) -> tuple[float, float]:
        """95 % interval of a contrast of the methods' mean AUCs, over the sites where all of them have one.

        Sites are drawn, then people, for protocols that speak of the next site; folds share training people, so their
        interval is Nadeau and Bengio's. Fewer than three sites (two folds) have no interval.
        """
        used = np.flatnonzero(contrast)
        weights = contrast[used]
        per_site = self.auc[:, used] @ weights
        k = int(np.isfinite(per_site).sum())
        if k < 2:
            return np.nan, np.nan
        if self.protocol == "cv":
            corrected = nadeau_bengio(per_site[np.isfinite(per_site)], self.test_over_train)
            return corrected.low, corrected.high
        possible = weights[weights < 0].sum(), weights[weights > 0].sum()
        low, high = np.clip(bootstrap_limits(self.resampled[:, :, used] @ weights, k), *possible)
        return float(low), float(high)


def gather(predictions: pd.DataFrame, protocol: str, n_boot: int = 2000, random_state: int = 0) -> Evidence:
    """Collect the evidence of one protocol from the predictions table.

    Parameters
    ----------
    predictions : DataFrame
        One row per method, protocol, site, seed and subject, with ``label`` and ``score``. At each site all methods
        and seeds must have scored the same people; how many seeds a method has is its own affair.

    Examples
    --------
    >>> predictions = pd.DataFrame({"protocol": "loso", "method": "core", "site": list("AAABBB"), "seed": 0,
    ...     "subject": list("123456"), "label": [1, 1, 0, 1, 0, 0], "score": [3.0, 1, 2, 3, 2, 1]})
    >>> gather(predictions, "loso").auc.tolist()
    [[0.5], [1.0]]
    """
    rows = predictions[predictions["protocol"] == protocol]
    methods = sorted(rows["method"].unique())
    sites, one_class, cases, controls, kernels, variances = [], [], [], [], [], []
    for site, people in rows.groupby("site", sort=True):
        label, runs = _scores_of_site(str(site), people)
        m = int((label == 1).sum())
        if m in (0, len(label)):
            one_class.append(str(site))
            continue
        sites.append(str(site))
        cases.append(m)
        controls.append(len(label) - m)
        absent = np.full((m, len(label) - m), np.nan)
        kernels.append(np.stack([kernel(label, runs[name]) if name in runs else absent for name in methods]))
        # The mean of the covariance matrix over seeds is the variance of the seed-averaged AUC.
        variances.append([delong_covariance(label, runs[name]).mean() if name in runs else np.nan for name in methods])
    n_people, n_test = rows["subject"].nunique(), rows.groupby("site")["subject"].nunique().mean()
    shape = (len(sites), len(methods))
    draws = n_boot if sites and protocol != "cv" else 0
    return Evidence(
        protocol,
        methods,
        sites,
        one_class,
        np.array(cases, dtype=int),
        np.array(controls, dtype=int),
        np.array([k.mean(axis=(1, 2)) for k in kernels]).reshape(shape),
        np.array(variances).reshape(shape),
        two_level_bootstrap(kernels, draws, random_state) if draws else np.empty((0, *shape)),
        n_test / (n_people - n_test) if n_people > n_test else np.nan,
    )


def _scores_of_site(site: str, people: pd.DataFrame) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels (N,) and, per method, scores (n_seeds, N), everybody in the same order."""
    if people.duplicated(["method", "seed", "subject"]).any():
        raise RunsError(f"site {site}: the predictions hold one person twice for one method and seed; redo the run")
    wide = people.pivot(index="subject", columns=["method", "seed"], values="score")
    holes = wide.columns[wide.isna().any()]
    if len(holes):
        method, seed = holes[0]
        who = listed(wide.index[wide[holes[0]].isna()])
        raise RunsError(
            f"site {site}: method {method!r} (seed {seed}) has no score for {who}, who were scored by others; "
            "only methods scored on the same people can be compared: redo that run, or leave the method out"
        )
    labels = people.groupby("subject")["label"]
    if labels.nunique().max() > 1:
        raise RunsError(f"site {site}: runs disagree about the label of a person; they belong to different cohorts")
    runs = {str(name): wide[name].to_numpy(dtype=float).T for name in wide.columns.unique("method")}
    return labels.first().loc[wide.index].to_numpy(dtype=int), runs
