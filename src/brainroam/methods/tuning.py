"""Tuning, the same for every method: inner leave-one-site-out on the training sites.

Each training site that has both classes is held out once; a configuration (a point of the method's grid and, for an
iterative method, a number of epochs) is worth the mean over those sites of its AUC there. The best is refitted on all
training sites. Rule name: ``inner-loso-auc``. How much is tuned (``tuning``):

``full``    the whole grid, every inner site
``fast``    default hyper-parameters; `GROUPS` groups of sites calibrate, one of them gives the epochs of a network and,
            as each costs a training, its calibration (a note says so)
``default`` default hyper-parameters, all inner sites for epochs and threshold; for a number its own grid of penalties
            (``number_grid``), where the method has one

People count, not scans: who has several stands with the mean of their scores. The out-of-site scores of the chosen
configuration also teach what a score means at a site never seen (`brainroam.data.target.readout`), so that nothing of
the held-out site is needed for it. What orders people, the AUC or a correlation, is the target's `merit`. Where they
give
nothing else, because the method has no epochs and one configuration, `GROUPS` groups of sites are held out instead of
single ones: as good a threshold (balanced accuracy within half a point at twenty sites of ABIDE) for a fraction of the
work.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from brainroam.core.connectivity import PEARSON, cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Fold, group_sites, hold_out
from brainroam.data.people import (
    at_one_site,
    group_codes,
    left_out_note,
    mean_of_scans,
    people_of,
    persons,
    shares_of_people,
)
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.readout import Scored
from brainroam.data.target.shifts import ClassShift, SiteShift
from brainroam.errors import DataError, UsageError, listed, unknown
from brainroam.methods.base import (
    ANYTHING,
    Method,
    MethodInfo,
    fit_method,
    naming_errors,
    score_shape,
    scores_of,
)
from brainroam.methods.blocks import BlockSum, can_be_learned, names_of
from brainroam.methods.familiarity import Familiarity, without_rare_edges
from brainroam.methods.registry import STANDARD_TUNING, TUNINGS
from brainroam.utils.model_files import part
from brainroam.utils.optional import one_thread
from brainroam.utils.parameters import settings_of

RULE = "inner-loso-auc"
ONE_GROUP = (
    "tuning fast: epochs and calibration are from one of {n} groups of sites; levels may be off (--tuning default)"
)
FIRST = 50  # columns of a table that tell sites apart
GROUPS = 5  # of sites, where inner folds only scale scores and give a threshold


class TunedMethod(Method):
    """A registered method tuned by the rule above.

    Attributes
    ----------
    model_ : Method
        Refitted on all training people.
    configuration_ : dict
        The chosen parameters.
    inner_scores_ : ndarray
        Out-of-site score of each training person (NaN where their site was not an inner site).
    foretold_scores_ : ndarray
        The same, by the configuration that other inner sites choose: what `inner_sites_` are measured of.
    calibration_ : Calibration
    shifts_ : dict of str to SiteShift
        How far ``controls`` of a new site, or all its people ``unlabelled``, move the threshold there; of several
        classes a `ClassShift`, where controls are people of the first class, if that is one of controls.
    sets_ : PredictionSets
    inner_sites_ : DataFrame
        What was measured at the inner sites (`brainroam.data.target.shifts`).
    familiarity_ : Familiarity or None
        What the training people were like; of a model that is or was saved (`brainroam.methods.saving`).
    """

    familiarity_: Familiarity | None = None
    known_: tuple[np.ndarray, np.ndarray] | None = None  # scores and numbers at a site it is adapted to
    target_: Target = TWO_CLASSES
    model_: Any
    readout_: Any

    def __init__(self, info: MethodInfo, tuning: str = STANDARD_TUNING, /, **fixed: Any) -> None:
        if tuning not in TUNINGS:
            raise unknown("tuning", tuning, TUNINGS)
        self.info, self.tuning, self.fixed = info, tuning, fixed
        info.require(self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return self.info.settings(self.fixed)

    @one_thread()  # the same bytes on any number of cores; on small arrays threads only wait
    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Choose on inner sites, then refit on everybody."""
        _refuse_one_series(cohort)
        self.info.require_target(cohort.target)
        self.target_ = cohort.target
        cohort, self.notes_ = _one_site_each(cohort)
        blocks = self._blocks(cohort)
        if blocks:
            self.model_ = self._sum_of(blocks).fit(cohort, seed)
            self.configuration_ = {"blocks": [[name, one.configuration_] for name, one in self.model_.members.items()]}
            self.inner_scores_ = self.model_.inner_scores_
        else:
            self.info.require_measure(cohort.measure)
            cohort, notes = without_rare_edges(cohort)
            self.notes_ += notes
            with naming_errors(self.info.name):
                self._select_and_refit(cohort, seed)
        self.notes_ += list(self.model_.notes_)
        if self.model_.foretold_scores_ is not None:
            self.foretold_scores_ = self.model_.foretold_scores_
        elif self.foretold_scores_ is None:
            self.foretold_scores_ = self.inner_scores_
        scans = Scored(
            self.inner_scores_, cohort.targets, cohort.table["site"].to_numpy(), shares_of_people(cohort.table)
        )
        people = by_person(scans, cohort)
        foretold = by_person(scans._replace(score=self.foretold_scores_), cohort)
        self.readout_ = cohort.target.learn_readout(scans, people, foretold)
        return self

    @property
    def calibration_(self) -> Any:
        """From scores to probabilities, or to a number."""
        return self.readout_.calibration

    @property
    def sets_(self) -> Any:
        """Answers that hold the truth with a promised probability."""
        return self.readout_.sets

    @property
    def shifts_(self) -> Mapping[str, SiteShift | ClassShift]:
        """How far people of a new site move its level."""
        return self.readout_.shifts

    @property
    def inner_sites_(self) -> pd.DataFrame:
        """What was measured at the inner held-out sites."""
        return self.readout_.inner_sites

    def _blocks(self, cohort: Cohort) -> list[str]:
        """The measurements that are read, where people have several: those asked for, or all the method can read."""
        blocks = cohort.blocks
        if "blocks" in self.fixed:
            chosen = names_of(self.fixed["blocks"])
            if not blocks:
                raise UsageError(f"{self.info.name}[blocks={'+'.join(chosen)}]: these people have one measurement only")
            for name in chosen:
                self.info.require_measure(cohort.block(name).measure)
        elif not blocks or ANYTHING in self.info.reads:
            return []
        else:
            chosen = [name for name, block in blocks.items() if block.measure in self.info.reads]
            if unread := listed(name for name in blocks if name not in chosen):
                self.notes_ = [*self.notes_, f"{unread} not read: {self.info.name} reads {listed(self.info.reads)}"]
        learned = [name for name in chosen if can_be_learned(cohort, name)]
        left = listed(name for name in chosen if name not in learned)
        if chosen and not learned:
            raise DataError(f"too few of the training people have {left} to learn from it: train at more sites")
        if left:
            why = "too few of the training people have it, or of one class only"
            self.notes_ = [*self.notes_, f"{left} left out: {why}"]
        return learned

    def _sum_of(self, blocks: Iterable[str]) -> BlockSum:
        return BlockSum({name: TunedMethod(self.info, self.tuning, **self._settings) for name in blocks})

    def learn_familiarity(self, cohort: Cohort) -> None:
        """Learn the limits within which training people lie, for a model that is saved."""
        self.familiarity_ = Familiarity.of(without_rare_edges(cohort)[0])

    @one_thread()
    def score(self, cohort: Cohort) -> np.ndarray:
        """Scores of the refitted model, which is shown no labels."""
        with naming_errors(self.info.name):
            hidden = cohort.without_labels().batches()
            return np.concatenate([scores_of(self.model_, people, self.target_) for people in hidden])

    def probability(self, cohort: Cohort, prevalence: Any = None) -> np.ndarray:
        """Calibrated probabilities where ``prevalence`` of the people are cases; by default as in training.

        Of several classes (n, K), with a share for each.
        """
        return self.calibration_(self.score(cohort), prevalence)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Those of the refitted model."""
        return self.model_.missing_covariates(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """The model's state, and what was learned on inner held-out sites."""
        return {**{f"model.{name}": value for name, value in self.model_.state().items()}, **self.readout_.state()}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore a fitted model; needs ``configuration_``."""
        self.target_ = Target.of_state(state)
        self.readout_ = self.target_.readout.of_state(self.target_, state)
        self._load_model(part(state, "model"))
        return self

    def _load_model(self, state: dict[str, np.ndarray]) -> None:
        """The fitted method, or one for each block."""
        if "blocks" not in self.configuration_:
            self.model_ = self.info.make_for(self.target_, **self.configuration_).load_state(state)
            return
        self.model_ = self._sum_of(name for name, _ in self.configuration_["blocks"])
        for name, configuration in self.configuration_["blocks"]:
            self.model_.members[name].configuration_ = configuration
            self.model_.members[name].target_ = self.target_
        self.model_.load_state(state)

    def _select_and_refit(self, cohort: Cohort, seed: int) -> None:
        """Choose a configuration on inner sites, unless the method does that itself, and learn from everybody."""
        if self.info.self_selecting:
            self.configuration_ = (self.info.fast if self.tuning == "fast" else {}) | self._settings
        else:
            self._select(cohort, seed)
        self.model_ = fit_method(self.info.make_for(cohort.target, **self.configuration_), cohort, seed)
        if self.info.self_selecting:
            self.inner_scores_ = self.model_.inner_scores_

    def _select(self, cohort: Cohort, seed: int) -> None:
        """Choose a configuration, and keep its out-of-site scores."""
        configurations = list(self._configurations(cohort.target))
        nothing_to_choose = len(configurations) == 1 and "epochs" not in settings_of(self.info.make)
        groups = GROUPS if nothing_to_choose or self.tuning == "fast" else None
        folds = list(inner_folds(cohort, seed, self.info.least_sites, groups))
        if self.tuning == "fast" and not nothing_to_choose:
            self.notes_ = [*self.notes_, ONE_GROUP.format(n=len(folds))] if len(folds) > 1 else self.notes_
            folds = folds[:1]
        target, site = cohort.target, cohort.table["site"].to_numpy()
        person = pd.factorize(persons(cohort.table))[0]

        def merit_of(held_out: np.ndarray, path: np.ndarray) -> np.ndarray:
            who = pd.factorize(pd.Series(list(zip(person[held_out], cohort.targets[held_out], strict=True))))[0]
            scores = np.moveaxis(mean_of_scans(np.moveaxis(path, 1, 0), who), 0, 1)
            first = np.unique(who, return_index=True)[1]
            return target.merit(cohort.targets[held_out][first], site[held_out][first], scores)

        tried: list[tuple[dict[str, Any], list[np.ndarray], np.ndarray]] = []
        for configuration in configurations:
            paths = self.info.make_for(cohort.target, **configuration).out_of_fold(cohort, folds, seed)
            merits = [merit_of(held_out, path) for (_, held_out), path in zip(folds, paths, strict=True)]
            tried.append((configuration, paths, np.array(merits)))

        def best_of(among: Sequence[int]) -> tuple[int, int]:
            """Configuration and epoch with the largest mean merit over some folds; the first of equals."""
            means = [np.mean([merits[k] for k in among], axis=0) for _, _, merits in tried]
            best = int(np.argmax([mean.max() for mean in means]))
            return best, int(np.argmax(means[best]))

        best, epoch = best_of(range(len(folds)))
        chosen, paths, merit = tried[best]
        self.configuration_ = chosen | ({"epochs": epoch + 1} if merit.shape[1] > 1 else {})
        self.inner_scores_, self.foretold_scores_ = np.full((2, *score_shape(len(cohort), cohort.target)), np.nan)
        for k, (_, held_out) in enumerate(folds):
            self.inner_scores_[held_out] = paths[k][epoch]
            others = [j for j in range(len(folds)) if j != k]
            nested, then = best_of(others) if others else (best, epoch)
            self.foretold_scores_[held_out] = tried[nested][1][k][then]

    def _configurations(self, target: Target) -> Iterator[dict[str, Any]]:
        full_grid, is_own = target.grid_of(self.info.grid, self.info.number_grid)
        grid = {name: values for name, values in full_grid.items() if name not in self._settings}
        if self.tuning == "fast" or (self.tuning != "full" and not is_own):
            grid = {name: values[:1] for name, values in grid.items()}
        for values in product(*grid.values()):
            yield self._settings | dict(zip(grid, values, strict=True))


def inner_folds(cohort: Cohort, seed: int, least_sites: int = 0, groups: int | None = None) -> Iterator[Fold]:
    """Train and held-out positions of each inner fold; stratified fifths where too few sites would be left.

    Each site is held out alone, or, with ``groups``, that many groups of sites of about equal size: enough to scale
    scores and to learn a threshold, at a fraction of the cost. Groups follow from the numbers of people and, where
    these are equal, from a hash of what was measured of them: names of sites and the order of rows move nothing.
    """
    site, y, codes = cohort.table["site"].to_numpy(), cohort.targets, group_codes(cohort.table)
    both = cohort.target.ordered_sites(y, site)
    sites = [name for name in both if len(both) > least_sites and len(set(y[site != name])) >= 2]
    if not sites:
        for train, held_out in cohort.target.fifths(y, codes, seed):
            yield Fold(train, held_out)
        return
    if groups is not None and len(sites) > groups:
        sites = _by_content(cohort, sites)
    for left_out in group_sites(sites, site, len(sites) if groups is None else groups):
        if len(set(y[~np.isin(site, left_out)])) >= 2:
            yield hold_out(site, left_out, codes)


def _by_content(cohort: Cohort, sites: Iterable[str]) -> list[str]:
    """Sites in the order of a hash of what was measured of their people, of a table its ranks: units move nothing."""
    site = cohort.table["site"].to_numpy()
    if cohort.own_units:
        some = np.nan_to_num(cohort_edges(cohort, *PEARSON)[:, :FIRST], nan=-np.inf)
        each = np.array([row.tobytes().hex() for row in rankdata(some, method="min", axis=0)])
    else:
        each = np.array(cohort.series_digests)
    content = {name: hashlib.sha256("".join(sorted(each[site == name])).encode()).hexdigest() for name in sites}
    return sorted(sites, key=content.__getitem__)


def by_person(scans: Scored, cohort: Cohort) -> Scored:
    """People with the mean score of their scans, once for each label that these have."""
    if not persons(cohort.table).duplicated().any():
        return scans
    score, shape = scans.score, scans.score.shape[1:]
    names = [f"score_{k}" for k in range(int(np.prod(shape)))]
    scores = pd.DataFrame(score.reshape(len(score), -1), cohort.table.index, names)
    people = people_of(cohort.table[["subject", "person", "site", "label"]].join(scores))
    return Scored(
        people[names].to_numpy().reshape(len(people), *shape),
        cohort.target.forward(people["label"].to_numpy()),
        people["site"].to_numpy(),
        np.ones(len(people)),
    )


def _one_site_each(cohort: Cohort) -> tuple[Cohort, list[str]]:
    """Training people none of whose groups spans two sites, so that holding out a site holds out whole groups."""
    at_own_site = at_one_site(cohort.table)
    if at_own_site.all():
        return cohort, []
    note = left_out_note(int((~at_own_site).sum()), "their group (family or person) has more people elsewhere")
    return cohort.subset(at_own_site), [note]


def _refuse_one_series(cohort: Cohort) -> None:
    """Refuse to learn from people who all have the same series: scores would differ by rounding alone."""
    if cohort.measure == "series" and len(cohort) > 2 and len(set(cohort.series_digests)) == 1:
        raise DataError(
            f"all {len(cohort)} people have the same series; check how files are assigned to people (template)"
        )
