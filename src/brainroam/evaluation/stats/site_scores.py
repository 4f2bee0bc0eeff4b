"""From tidy predictions to arrays: the order of people at each site, one protocol at a time.

Scores of different folds come from different models and are never ranked against each other.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from brainroam.data.people import persons
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.base import Place
from brainroam.errors import RunsError, listed
from brainroam.evaluation.splits import UNITS
from brainroam.evaluation.stats import verdict as models
from brainroam.evaluation.stats.paired import CorrectedT, left_out_t, nadeau_bengio
from brainroam.evaluation.stats.verdict import Verdict

COLUMNS = ("method", "protocol", "site", "seed", "subject", "label")
FEW_SITES = 12  # below which a verdict says what more sites would bring
WORKS = 0.6  # AUC of other sites from which one below chance is no chance
#: Why a protocol does not predict the next site, whatever the data and whatever is predicted.
WITHOUT_NEXT = {
    "halves": "no prediction for the next site: an average over models of random halves differs less between sites "
    "than one model does; leave-one-site-out predicts it",
    "cv": "in-distribution folds say nothing about the next site",
}
WHERE = {
    "loso": "a site it has never seen",
    "loio": "a site of an unseen institution",
    "halves": "a site it has never seen",
    "cv": "a site it knows",
}


@dataclass(frozen=True)
class SiteScores:
    """What one protocol says about every method, site by site; for ``cv`` a fold stands in the place of a site.

    ``values`` and ``n_folds`` have shape (E sites, M methods): the figure of the target's order (an AUC, a correlation)
    averaged over the runs that tested the site (seeds; for ``halves`` also repeats), NaN where a method has none, and
    in how many folds that was. ``counts`` (E, groups) are the people, ``parts`` (E, M, P) what else tells how uncertain
    a value is. ``without`` are sites that have no figure, such as those of one class. ``institutions`` are those of the
    sites, each site its own where none are given; ``unit`` is what a row is.
    """

    protocol: str
    target: Target
    methods: list[str]
    sites: list[str]
    without: list[str]
    counts: np.ndarray
    values: np.ndarray
    parts: np.ndarray
    n_folds: np.ndarray
    test_over_train: float
    institutions: list[str]
    unit: str
    together: np.ndarray | None = None  # of institutions: the weights of their sites, added up

    @cached_property
    def averaged(self) -> np.ndarray:
        """The values (E, M) on the scale on which they are averaged and compared."""
        return self.target.order.figure.forward(self.values)

    @cached_property
    def _by_institution(self) -> "SiteScores":
        names, code = np.unique(self.institutions, return_inverse=True)
        if len(names) == len(self.sites):
            return self
        member = (code == np.arange(len(names))[:, None]).astype(float)
        weight = self.weights[:, None] * np.isfinite(self.values)
        with np.errstate(invalid="ignore"):
            share = weight / (member.T @ (member @ weight))
            values = self.target.order.figure.back(member @ (share * np.nan_to_num(self.averaged)))
        values = np.where(member @ weight > 0, values, np.nan)
        return replace(
            self,
            sites=names.tolist(),
            counts=(member @ self.counts).astype(self.counts.dtype),
            values=values,
            parts=np.einsum("is,sm,smp->imp", member, np.nan_to_num(share) ** 2, np.nan_to_num(self.parts)),
            n_folds=(member @ self.n_folds).astype(int),
            institutions=names.tolist(),
            unit="institution",
            together=member @ self.weights,
        )

    def by_institution(self) -> "SiteScores":
        """The same with the sites of one institution as one, as results at two of them are alike.

        Its value is the mean of theirs with the weights of sites, its people are theirs together, and so is its weight:
        a mean over institutions is that over sites. Where no two sites share an institution this is what it was.
        """
        return self._by_institution

    @property
    def place(self) -> Place:
        """Where people were held out, in words."""
        shared = self.by_institution() is not self
        following = "a site of another institution" if shared else f"the next {self.unit}"
        return Place(WHERE[self.protocol], following, self.unit)

    @property
    def weights(self) -> np.ndarray:
        """The weight of each site in a mean."""
        return self.target.order.weights(self.counts) if self.together is None else self.together

    def verdict(self, method: str) -> Verdict:
        """The mean of a method with its interval; of protocols that predict it, the next site.

        The next site is one of another institution where some share one. It differs from these by what institutions
        differ by, and by what the sites of one do, which a mean over its sites hides: the wider of both predictions
        holds.
        """
        if self.protocol == "cv":
            return self._over_folds(method)
        units = self.by_institution()
        judged = self._judge(method)
        if units is not self:
            wider = units._judge(method)
            low, high = min(wider.next_low, judged.next_low), max(wider.next_high, judged.next_high)  # NaN stays
            reason = wider.reason.replace("sites", "institutions")
            judged = replace(wider, mean=judged.mean, next_low=low, next_high=high, reason=reason)
        if self.protocol in WITHOUT_NEXT and not np.isnan(judged.low):
            reason = WITHOUT_NEXT[self.protocol]
            return replace(judged, next_low=np.nan, next_high=np.nan, tau=np.nan, reason=reason)
        return judged

    def _judge(self, method: str, times: int = 1) -> Verdict:
        j = self.methods.index(method)
        values, counts, parts = (
            np.concatenate([part] * times) for part in (self.values[:, j], self.counts, self.parts[:, j])
        )
        return self.target.order.judge(values, counts, parts, models)

    def of_more(self, method: str) -> tuple[float, float]:
        """The interval of the next site that twice as many sites like these would leave; NaN where none is given.

        What few sites leave open is mostly how much sites differ: had twice as many the results of these, that would
        be known better, and so would the mean.
        """
        if len(self.sites) >= FEW_SITES or np.isnan(self.verdict(method).next_low):
            return np.nan, np.nan
        more = self.by_institution()._judge(method, 2)
        return more.next_low, more.next_high

    def _over_folds(self, method: str) -> Verdict:
        """Mean and interval over in-distribution folds, which share training people; nothing of the next site."""
        figure, values = self.target.order.figure, self.averaged[:, self.methods.index(method)]
        measured = np.isfinite(values)
        corrected = nadeau_bengio(values[measured], self.test_over_train, self.weights[measured])
        ends = figure.back(np.array([corrected.mean, corrected.low, corrected.high]))
        mean, low, high = np.clip(ends, *figure.span).tolist()
        return Verdict(int(measured.sum()), mean, low, high, reason=WITHOUT_NEXT["cv"])

    def intervals(self, method: str) -> pd.DataFrame:
        """Sites that have a value, best first: ``site``, people, the figure, ``low`` and ``high``."""
        values, order = self.values[:, self.methods.index(method)], self.target.order
        known = np.isfinite(values)
        low, high = order.intervals(values[known], self.counts[known], models)
        people = pd.DataFrame({name: self.counts[:, k] for k, name in enumerate(order.counted)})
        frame = pd.DataFrame({"site": self.sites, **people, "n": self.counts.sum(axis=1), order.figure.name: values})
        frame = frame.assign(named=order.may_be_named(self.counts))[known]
        ordered = frame.assign(low=low, high=high).sort_values(order.figure.name, ascending=False, kind="stable")
        return ordered.reset_index(drop=True)

    def reversed_sites(self, method: str) -> pd.DataFrame:
        """Rows of `intervals` wholly below chance, with the median of the ``others``, where that is well above it."""
        sites, figure = self.intervals(method), self.target.order.figure
        below = sites["high"] < figure.chance
        others = sites.loc[~below, figure.name].median()
        return sites[below & (others >= figure.chance + WORKS - 0.5)].assign(others=others)

    def differences(self, method: str, against: str) -> np.ndarray:
        """One method minus another, on the scale that is averaged; NaN at the sites where one of them has none."""
        return self.averaged[:, self.methods.index(method)] - self.averaged[:, self.methods.index(against)]

    def paired(self, method: str, against: str) -> CorrectedT:
        """Test and interval of these differences, corrected for training people or sites that results share."""
        gap = self.differences(method, against)
        measured = np.isfinite(gap) & (self.weights > 0)
        gap, weights = gap[measured], self.weights[measured]
        return nadeau_bengio(gap, self.test_over_train, weights) if self.protocol == "cv" else left_out_t(gap, weights)

    def mean(self, method: str, beside: str) -> float:
        """The mean figure of a method over the sites that another has, too."""
        both = np.isfinite(self.differences(method, beside))
        values = np.where(both, self.values[:, self.methods.index(method)], np.nan)
        return self.target.order.figure.mean(values, self.weights)


def gather(predictions: pd.DataFrame, protocol: str, target: Target = TWO_CLASSES) -> SiteScores:
    """Collect what sites say under one protocol from the predictions table.

    Parameters
    ----------
    predictions : DataFrame
        One row per method, protocol, site, fold (the site where not given), seed and subject, with ``label``, what the
        target ranks people by (``score`` of two classes) and, where people have several scans, ``person``: each counts
        once, with the mean over the scans. At each site all methods and runs must have scored the same people; how many
        seeds a method has is its own affair.
    protocol : str
    target : Target

    Examples
    --------
    >>> predictions = pd.DataFrame({"protocol": "loso", "method": "core", "site": list("AAABBB"), "seed": 0,
    ...     "subject": list("123456"), "label": [1, 1, 0, 1, 0, 0], "score": [3.0, 1, 2, 3, 2, 1]})
    >>> gather(predictions, "loso").values.tolist()
    [[0.5], [1.0]]
    """
    rows, order = predictions[predictions["protocol"] == protocol], target.order
    if "fold" not in rows:
        rows = rows.assign(fold=rows["site"])
    methods = sorted(rows["method"].unique())
    sites, without, counts, values, parts, folds = [], [], [], [], [], []
    for site, people in rows.groupby("site", sort=True):
        label, runs = _scores_of_site(str(site), people, target)
        found = {
            name: [(order.value(label, score), *order.parts(label, score)) for score in runs[name]] for name in runs
        }
        nothing = np.full(len(next(iter(found.values()))[0]), np.nan)
        means = np.array([np.mean(found[name], axis=0) if name in found else nothing for name in methods])
        if np.isnan(means[:, 0]).all():
            without.append(str(site))
            continue
        sites.append(str(site))
        counts.append(order.counts(label))
        values.append(means[:, 0])
        parts.append(means[:, 1:])
        folds.append(people.groupby("method")["fold"].nunique().reindex(methods, fill_value=0))
    person = persons(rows)
    n_people, n_test = person.nunique(), person.groupby(rows["site"]).nunique().mean()
    shape = (len(sites), len(methods))
    return SiteScores(
        protocol,
        target,
        methods,
        sites,
        without,
        np.array(counts, dtype=int).reshape(len(sites), -1) if sites else np.zeros((0, len(order.counted)), dtype=int),
        np.array(values, dtype=float).reshape(shape),
        np.array(parts, dtype=float).reshape(*shape, -1) if sites else np.zeros((*shape, 0)),
        np.array(folds, dtype=int).reshape(shape),
        n_test / (n_people - n_test) if n_people > n_test else np.nan,
        [_institution(rows[rows["site"] == site], site) for site in sites],
        UNITS.get(protocol, "site"),
    )


def _institution(people: pd.DataFrame, site: str) -> str:
    """That of a site; the site itself where none is given, or several."""
    named = people["institution"].dropna().unique() if "institution" in people else []
    return str(named[0]) if len(named) == 1 and str(named[0]) else site


def _scores_of_site(site: str, people: pd.DataFrame, target: Target) -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
    """Labels (N,) and, per method, what its runs rank people by, everybody once and in the same order."""
    run = ["method", "fold", "seed"]
    if people.duplicated([*run, "subject"]).any():
        raise RunsError(f"site {site}: the predictions hold one person twice for one method and seed; redo the run")
    labels = people.groupby("subject")["label"]
    if labels.nunique().max() > 1:
        raise RunsError(f"site {site}: runs disagree about the label of a person; they belong to different cohorts")
    label = labels.first()
    once = people.drop_duplicates("subject").set_index("subject", drop=False).loc[label.index]
    person = persons(once).to_numpy()
    runs: dict[str, list[np.ndarray]] = {}
    for (method, _, seed), rows in people.groupby(run, sort=True):
        scores = rows.set_index("subject")[target.ranked_by].reindex(label.index)
        holes = scores.isna().any(axis=1)
        if holes.any():
            raise RunsError(
                f"site {site}: method {method!r} (seed {seed}) has no score for {listed(label.index[holes])}, who were "
                "scored by others; only methods scored on the same people can be compared: redo that run, or leave the "
                "method out"
            )
        means = scores.groupby([person, label.to_numpy()]).mean() if len(set(person)) < len(person) else scores
        runs.setdefault(str(method), []).append(target.ranked(means))
    if len(set(person)) < len(person):
        label = label.groupby([person, label.to_numpy()]).first()
    return label.to_numpy(dtype=float), runs
