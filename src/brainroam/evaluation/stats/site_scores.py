"""From tidy predictions to arrays: per-site AUCs, one protocol at a time.

Scores of different folds come from different models and are never ranked against each other.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from brainroam.data.people import persons
from brainroam.errors import RunsError, listed
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats.metrics import aucs, site_weights
from brainroam.evaluation.stats.paired import CorrectedT, left_out_t, nadeau_bengio
from brainroam.evaluation.stats.verdict import site_intervals

COLUMNS = ("method", "protocol", "site", "seed", "subject", "label", "score")
WORKS = 0.6  # AUC of other sites from which one below chance is no chance


@dataclass(frozen=True)
class SiteScores:
    """What one protocol says about every method, site by site; for ``cv`` a fold stands in the place of a site.

    ``auc`` and ``n_folds`` have shape (E sites, M methods): the AUC averaged over the runs that tested the site (seeds;
    for ``halves`` also repeats), NaN where a method has none, and in how many folds that was. ``institutions`` are
    those of the sites, each site its own where none are given; ``unit`` is what a row is.
    """

    protocol: str
    methods: list[str]
    sites: list[str]
    one_class: list[str]
    n_cases: np.ndarray
    n_controls: np.ndarray
    auc: np.ndarray
    n_folds: np.ndarray
    test_over_train: float
    institutions: list[str]
    unit: str
    together: np.ndarray | None = None  # of institutions: the weights of their sites, added up

    def by_institution(self) -> "SiteScores":
        """The same with the sites of one institution as one, as results at two of them are alike.

        Its AUC is the mean of theirs with the weights of sites, its people are theirs together, and so is its weight: a
        mean over institutions is that over sites. Where no two sites share an institution this is what it was.
        """
        names, code = np.unique(self.institutions, return_inverse=True)
        if len(names) == len(self.sites):
            return self
        member = (code == np.arange(len(names))[:, None]).astype(int)
        weight = self.weights[:, None] * np.isfinite(self.auc)
        with np.errstate(invalid="ignore"):
            auc = (member @ (weight * np.nan_to_num(self.auc))) / (member @ weight)
        return replace(
            self,
            sites=names.tolist(),
            n_cases=member @ self.n_cases,
            n_controls=member @ self.n_controls,
            auc=auc,
            n_folds=member @ self.n_folds,
            institutions=names.tolist(),
            unit="institution",
            together=member @ self.weights,
        )

    @property
    def weights(self) -> np.ndarray:
        """The weight of each site in a mean, see `metrics.site_weights`."""
        return site_weights(self.n_cases, self.n_controls) if self.together is None else self.together

    def intervals(self, method: str) -> pd.DataFrame:
        """Sites that have an AUC, best first: ``site``, ``n_cases``, ``n``, ``auc``, ``low`` and ``high``."""
        auc, people = self.auc[:, self.methods.index(method)], self.n_cases + self.n_controls
        known = np.isfinite(auc)
        low, high = site_intervals(auc[known], self.n_cases[known], self.n_controls[known])
        frame = pd.DataFrame({"site": self.sites, "n_cases": self.n_cases, "n": people, "auc": auc})[known]
        ordered = frame.assign(low=low, high=high).sort_values("auc", ascending=False, kind="stable")
        return ordered.reset_index(drop=True)

    def reversed_sites(self, method: str) -> pd.DataFrame:
        """Rows of `intervals` wholly below .5, with the median of the ``others``, where that is at least `WORKS`."""
        sites = self.intervals(method)
        below = sites["high"] < 0.5
        others = sites.loc[~below, "auc"].median()
        return sites[below & (others >= WORKS)].assign(others=others)

    def differences(self, method: str, against: str) -> np.ndarray:
        """AUC of one method minus that of another, NaN at the sites where one of them has none."""
        return self.auc[:, self.methods.index(method)] - self.auc[:, self.methods.index(against)]

    def paired(self, method: str, against: str) -> CorrectedT:
        """Test and interval of these differences, corrected for training people or sites that results share."""
        gap = self.differences(method, against)
        measured = np.isfinite(gap)
        gap, weights = gap[measured], self.weights[measured]
        return nadeau_bengio(gap, self.test_over_train, weights) if self.protocol == "cv" else left_out_t(gap, weights)


def gather(predictions: pd.DataFrame, protocol: str) -> SiteScores:
    """Collect the site scores of one protocol from the predictions table.

    Parameters
    ----------
    predictions : DataFrame
        One row per method, protocol, site, fold (the site where not given), seed and subject, with ``label``, ``score``
        and, where people have several scans, ``person``: each counts once, with the mean score of the scans. At each
        site all methods and runs must have scored the same people; how many seeds a method has is its own affair.

    Examples
    --------
    >>> predictions = pd.DataFrame({"protocol": "loso", "method": "core", "site": list("AAABBB"), "seed": 0,
    ...     "subject": list("123456"), "label": [1, 1, 0, 1, 0, 0], "score": [3.0, 1, 2, 3, 2, 1]})
    >>> gather(predictions, "loso").auc.tolist()
    [[0.5], [1.0]]
    """
    rows = predictions[predictions["protocol"] == protocol]
    if "fold" not in rows:
        rows = rows.assign(fold=rows["site"])
    methods = sorted(rows["method"].unique())
    sites, one_class, cases, controls, means, counts = [], [], [], [], [], []
    for site, people in rows.groupby("site", sort=True):
        label, runs = _scores_of_site(str(site), people)
        m = int((label == 1).sum())
        if m in (0, len(label)):
            one_class.append(str(site))
            continue
        sites.append(str(site))
        cases.append(m)
        controls.append(len(label) - m)
        means.append([aucs(label, runs[name]).mean() if name in runs else np.nan for name in methods])
        counts.append(people.groupby("method")["fold"].nunique().reindex(methods, fill_value=0))
    person = persons(rows)
    n_people, n_test = person.nunique(), person.groupby(rows["site"]).nunique().mean()
    shape = (len(sites), len(methods))
    return SiteScores(
        protocol,
        methods,
        sites,
        one_class,
        np.array(cases, dtype=int),
        np.array(controls, dtype=int),
        np.array(means, dtype=float).reshape(shape),
        np.array(counts, dtype=int).reshape(shape),
        n_test / (n_people - n_test) if n_people > n_test else np.nan,
        [_institution(rows[rows["site"] == site], site) for site in sites],
        UNITS.get(protocol, "site"),
    )


def _institution(people: pd.DataFrame, site: str) -> str:
    """That of a site; the site itself where none is given, or several."""
    named = people["institution"].dropna().unique() if "institution" in people else []
    return str(named[0]) if len(named) == 1 and str(named[0]) else site


def _scores_of_site(site: str, people: pd.DataFrame) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels (N,) and, per method, scores (n_runs, N), everybody once and in the same order."""
    run = ["method", "fold", "seed"]
    if people.duplicated([*run, "subject"]).any():
        raise RunsError(f"site {site}: the predictions hold one person twice for one method and seed; redo the run")
    wide = people.pivot(index="subject", columns=run, values="score")
    holes = wide.columns[wide.isna().any()]
    if len(holes):
        method, _, seed = holes[0]
        who = listed(wide.index[wide[holes[0]].isna()])
        raise RunsError(
            f"site {site}: method {method!r} (seed {seed}) has no score for {who}, who were scored by others; "
            "only methods scored on the same people can be compared: redo that run, or leave the method out"
        )
    labels = people.groupby("subject")["label"]
    if labels.nunique().max() > 1:
        raise RunsError(f"site {site}: runs disagree about the label of a person; they belong to different cohorts")
    label = labels.first().loc[wide.index]
    once = people.drop_duplicates("subject").set_index("subject", drop=False).loc[wide.index]
    person = persons(once)
    if person.duplicated().any():
        wide = wide.groupby([person, label]).mean()
        label = wide.index.to_frame()["label"]
    runs = {str(name): wide[name].to_numpy(dtype=float).T for name in wide.columns.unique("method")}
    return label.to_numpy(dtype=int), runs
