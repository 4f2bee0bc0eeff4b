"""Tuning, the same for every method: inner leave-one-site-out on the training sites.

Each training site that has both classes is held out once; a configuration (a point of the method's grid and, for an
iterative method, a number of epochs) is worth the mean over those sites of its AUC there. The best is refitted on all
training sites. Rule name: ``inner-loso-auc``. How much is tuned (``tuning``):

``full``    the whole grid, every inner site
``fast``    default hyper-parameters, epochs and threshold from one inner site drawn by the seed
``default`` default hyper-parameters, all inner sites for epochs and threshold; for a number its own grid of penalties
            (``number_grid``), where the method has one

The out-of-site scores of the chosen configuration also give the decision threshold and the calibration, so that
nothing of the held-out site is needed for either. Of a number they give a calibration in its units and intervals
(`NumberCalibration`, `PredictionIntervals`), and the mean correlation within sites stands for the AUC; of several
classes the mean over classes of the AUC against the rest does. Where they give
nothing else, because the method has no epochs and one configuration, `GROUPS` groups of sites are held out instead of
single ones: as good a threshold (balanced accuracy within half a point at twenty sites of ABIDE) for a fraction of the
work.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from itertools import product
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, StratifiedKFold

from brainroam.core.calibration import (
    Calibration,
    ClassCalibration,
    NumberCalibration,
    calibrate,
    calibrate_classes,
    calibrate_number,
)
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Fold, group_sites, hold_out
from brainroam.data.people import at_one_site, group_codes, left_out_note, people_of, persons
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.data.target.order import (
    aucs,
    correlations,
    equivalent_sizes,
    macro_auc,
    macro_variances,
    mean_order,
    sites_with_numbers,
)
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
from brainroam.methods.prediction_sets import (
    LEVELS,
    ClassSets,
    PredictionIntervals,
    PredictionSets,
    calibrate_class_sets,
    calibrate_intervals,
    calibrate_sets,
)
from brainroam.methods.registry import STANDARD_TUNING, TUNINGS
from brainroam.methods.site_shift import (
    LABELLED,
    SCALE,
    UNLABELLED,
    ClassShift,
    SiteShift,
    inner_sites,
    learn_class_shifts,
    learn_scale,
    learn_shift,
    mend,
)
from brainroam.utils.model_files import part
from brainroam.utils.optional import one_thread
from brainroam.utils.parameters import settings_of

RULE = "inner-loso-auc"
INNER_SITES_OF_NUMBERS = ("site", "n", "r", "level", "level_var", "off", "off_sd", "spread")  # off: the level in units
#: m: with how many cases and controls a site compares; the variances of `macro_variances`; people called right.
INNER_SITES_OF_CLASSES = ("site", "n", "auc", "m", "auc_var", "class_var", "balanced_acc", "balanced_acc_var")
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
    calibration_ : Calibration
    shifts_ : dict of str to SiteShift
        How far ``controls`` of a new site, or all its people ``unlabelled``, move the threshold there; of several
        classes a `ClassShift`, where controls are people of the first class, if that is one of controls.
    sets_ : PredictionSets
    inner_sites_ : DataFrame
        What was measured at the inner sites (`brainroam.methods.site_shift`).
    familiarity_ : Familiarity or None
        What the training people were like; of a model that is or was saved (`brainroam.methods.saving`).
    """

    familiarity_: Familiarity | None = None
    known_: tuple[np.ndarray, np.ndarray] | None = None  # scores and numbers at a site it is adapted to
    target_: Target = TWO_CLASSES
    model_: Any
    calibration_: Any
    sets_: Any
    shifts_: dict[str, Any]

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
        if cohort.target.is_number:
            self._learn_number(cohort)
        elif cohort.target.is_classes:
            self._learn_classes(cohort)
        else:
            self._learn_two_classes(cohort)
        return self

    def _people(self, cohort: Cohort) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Out-of-site scores, targets and sites of people: a person counts once, with the mean score of the scans."""
        score, site = self.inner_scores_, cohort.table["site"].to_numpy()
        if not persons(cohort.table).duplicated().any():
            return score, cohort.targets, site
        names = [f"score_{k}" for k in range(score.shape[1] if score.ndim > 1 else 1)]
        scores = pd.DataFrame(score.reshape(len(score), -1), cohort.table.index, names)
        people = people_of(cohort.table[["subject", "person", "site", "label"]].join(scores))
        return (
            people[names].to_numpy().reshape(len(people), *score.shape[1:]),
            cohort.target.forward(people["label"].to_numpy()),
            people["site"].to_numpy(),
        )

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

    def _learn_two_classes(self, cohort: Cohort) -> None:
        """Calibration, sets, and how far sites differ in level, from out-of-site scores."""
        score, y, site = self.inner_scores_, cohort.labels, cohort.table["site"].to_numpy()
        self.calibration_ = calibrate(score, y, site, _shares_of_people(cohort))
        who = {"controls": y == 0, UNLABELLED: np.ones(len(y), dtype=bool)}
        self.shifts_ = {name: learn_shift(score, site, people) for name, people in who.items()}
        self.sets_ = calibrate_sets(score, y, site)
        score, y, site = self._people(cohort)
        self.inner_sites_ = inner_sites(score, y.astype(int), site, self.calibration_)

    def _learn_number(self, cohort: Cohort) -> None:
        """Calibration, intervals, and how far sites differ in level, from out-of-site scores."""
        score, t, site = self.inner_scores_, cohort.targets, cohort.table["site"].to_numpy()
        self.calibration_ = calibrate_number(score, t)
        self.sets_ = calibrate_intervals(score, t, site)
        prediction = self.calibration_(score)
        errors = t - prediction
        level = learn_shift(errors, site, np.ones(len(t), dtype=bool))
        self.shifts_ = {LABELLED: level, SCALE: learn_scale(prediction, t, site)}
        score, t, site = self._people(cohort)
        errors, off = t - self.calibration_(score), self.predict_number(score) - self.target_.inverse(t)
        rows = [
            (
                *(str(site[here[0]]), len(here), float(correlations(t[here], score[here]))),
                *(float(-errors[here].mean()), float(errors[here].var(ddof=1) / len(here))),
                *(float(off[here].mean()), float(off[here].std()), float(score[here].std(ddof=1))),
            )
            for here in sites_with_numbers(t, site, score)
        ]
        self.inner_sites_ = pd.DataFrame(rows, columns=list(INNER_SITES_OF_NUMBERS))

    def _learn_classes(self, cohort: Cohort) -> None:
        """Calibration and sets of several classes, and the macro AUC of inner sites, from out-of-site scores."""
        score, code, site = self.inner_scores_, cohort.targets.astype(int), cohort.table["site"].to_numpy()
        self.calibration_ = calibrate_classes(score, code, site)
        who = {"controls": code == 0, UNLABELLED: np.ones(len(code), dtype=bool)}
        self.shifts_ = {name: learn_class_shifts(score, site, who[name]) for name in class_shift_names(self.target_)}
        self.sets_ = calibrate_class_sets(self.calibration_.equal(score), code, site)
        score, targets, site = self._people(cohort)
        code = targets.astype(int)
        known = np.isfinite(score).all(axis=1)
        sites = [(name, np.flatnonzero(known & (site == name))) for name in np.unique(site[known])]
        rows = [(str(name), len(here), *self._measure_classes(code[here], score[here])) for name, here in sites]
        self.inner_sites_ = pd.DataFrame(rows, columns=list(INNER_SITES_OF_CLASSES)).dropna(ignore_index=True)

    def _measure_classes(self, code: np.ndarray, score: np.ndarray) -> tuple[float, ...]:
        """Measures of an inner site of several classes: the columns after its name and number of people."""
        count = np.bincount(code, minlength=score.shape[1])
        there, called = np.flatnonzero(count), self.calibration_.decide(score)
        recall = np.array([np.mean(called[code == k] == k) for k in there])
        # One person more of a class, called right by half: no class is ever called right for certain.
        shrunken = (recall * count[there] + 0.5) / (count[there] + 1)
        variance = float((shrunken * (1 - shrunken) / count[there]).sum()) / len(there) ** 2
        m, auc = float(equivalent_sizes(count[None])[0]), float(macro_auc(code, score))
        return auc, m, *macro_variances(code, score), float(recall.mean()), variance

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

    def predict_number(self, score: np.ndarray) -> np.ndarray:
        """The number for each score, in the target's own units."""
        return self.target_.inverse(self.calibration_(score))

    def mend(self, score: np.ndarray, known: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """As `predict_number`, with level and scale of the site mended by others there, whose numbers are known."""
        line, target = self.calibration_, self.target_
        prediction = mend(line(score), line(known), target.forward(truth), *self.shifts_.values())
        return target.inverse(prediction)

    def interval(self, score: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the interval of a number for each score, on the scale it was learned on."""
        return self.sets_(self.calibration_(score), level)

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Those of the refitted model."""
        return self.model_.missing_covariates(cohort)

    def state(self) -> dict[str, np.ndarray]:
        """The model's state, and what was learned on inner held-out sites."""
        width = len(self.target_.classes) if self.target_.is_classes else 2
        limits = [self.sets_.limits.get(level, (np.nan,) * width) for level in LEVELS]
        learned = {
            "calibration": np.array(astuple(self.calibration_)),
            "shifts": rows_of_shifts(self.shifts_.values()),
            "sets": np.array([(self.sets_.n_sites, *(np.nan,) * (width - 1)), *limits], dtype=float),
        }
        if not self.target_.is_two_classes:
            learned["target"] = np.frombuffer(json.dumps(self.target_.described()).encode(), dtype=np.uint8)
        return {**{f"model.{name}": value for name, value in self.model_.state().items()}, **learned}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore a fitted model; needs ``configuration_``."""
        self.target_ = Target.of_description(json.loads(state["target"].tobytes()) if "target" in state else None)
        self._load_calibration(state)
        self._load_model(part(state, "model"))
        return self

    def _load_calibration(self, state: dict[str, np.ndarray]) -> None:
        """Calibration, sets and shifts, by the kind of the target."""
        names: tuple[str, ...]
        kind: type[PredictionSets | PredictionIntervals | ClassSets]
        if self.target_.is_classes:
            self.calibration_, kind = ClassCalibration(*state["calibration"]), ClassSets
            names = class_shift_names(self.target_) if len(state["shifts"]) else ()
        elif self.target_.is_number:
            self.calibration_, kind = NumberCalibration(*map(float, state["calibration"])), PredictionIntervals
            names = LABELLED, SCALE
        else:
            self.calibration_, kind = Calibration(*map(float, state["calibration"])), PredictionSets
            names = "controls", UNLABELLED
        self.shifts_ = {name: _shift_of(row) for name, row in zip(names, state["shifts"], strict=True)}
        n_sites, rows = state["sets"][0, 0], state["sets"][1:]
        limits = {level: tuple(map(float, row)) for level, row in zip(LEVELS, rows, strict=True)}
        promised = {level: row for level, row in limits.items() if np.isfinite(row).all()}
        self.sets_ = kind(int(np.nan_to_num(n_sites)), promised)

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
        groups = GROUPS if nothing_to_choose else None
        folds = list(inner_folds(cohort, self.tuning, seed, self.info.least_sites, groups))
        y, site, best = cohort.targets, cohort.table["site"].to_numpy(), -np.inf

        def order(held_out: np.ndarray, path: np.ndarray) -> np.ndarray:
            if cohort.target.is_number:
                return np.nan_to_num(mean_order(y[held_out], site[held_out], path))
            if cohort.target.is_classes:
                return np.nan_to_num(macro_auc(y[held_out], path))
            return aucs(y[held_out], path)

        for configuration in configurations:
            paths = self.info.make_for(cohort.target, **configuration).out_of_fold(cohort, folds, seed)
            held_out_paths = list(zip([held_out for _, held_out in folds], paths, strict=True))
            merit = np.mean([order(held_out, path) for held_out, path in held_out_paths], axis=0)
            epoch = int(np.argmax(merit))
            if merit[epoch] > best:
                best = float(merit[epoch])
                self.configuration_ = configuration | ({"epochs": epoch + 1} if len(merit) > 1 else {})
                self.inner_scores_ = np.full(score_shape(len(cohort), cohort.target), np.nan)
                for held_out, path in held_out_paths:
                    self.inner_scores_[held_out] = path[epoch]

    def _configurations(self, target: Target) -> Iterator[dict[str, Any]]:
        number = target.is_number and bool(self.info.number_grid)
        full_grid = self.info.number_grid if number else self.info.grid
        grid = {name: values for name, values in full_grid.items() if name not in self._settings}
        if self.tuning == "fast" or (self.tuning != "full" and not number):
            grid = {name: values[:1] for name, values in grid.items()}
        for values in product(*grid.values()):
            yield self._settings | dict(zip(grid, values, strict=True))


def class_shift_names(target: Target) -> tuple[str, ...]:
    """Names of the shifts of several classes: by whose scores a new site's level is found."""
    return ("controls", UNLABELLED) if target.has_controls else (UNLABELLED,)


def rows_of_shifts(shifts: Iterable[SiteShift | ClassShift]) -> np.ndarray:
    """Shifts as numbers: a row each, of several classes one for each of them."""
    return np.array(
        [
            [astuple(one) for one in shift.of_class] if isinstance(shift, ClassShift) else astuple(shift)
            for shift in shifts
        ]
    )


def _shift_of(row: np.ndarray) -> SiteShift | ClassShift:
    of_each = tuple(SiteShift.of_row(one.tolist()) for one in np.atleast_2d(row))
    return of_each[0] if row.ndim == 1 else ClassShift(of_each)


def inner_folds(
    cohort: Cohort, tuning: str, seed: int, least_sites: int = 0, groups: int | None = None
) -> Iterator[Fold]:
    """Train and held-out positions of each inner fold; stratified fifths where too few sites would be left.

    Each site is held out alone, or, with ``groups``, that many groups of sites of about equal size: enough to scale
    scores and to learn a threshold, at a fraction of the cost.
    """
    site, y, codes = cohort.table["site"].to_numpy(), cohort.targets, group_codes(cohort.table)
    if cohort.target.is_number:
        both = [site[here[0]] for here in sites_with_numbers(y, site)]
    else:
        both = [name for name in np.unique(site) if len(set(y[site == name])) >= 2]
    sites = [name for name in both if len(both) > least_sites and len(set(y[site != name])) >= 2]
    if not sites:
        yield from _number_fifths(y, codes, seed) if cohort.target.is_number else _fifths(cohort, codes, seed)
        return
    if tuning == "fast":
        sites = [sites[np.random.default_rng(seed).integers(len(sites))]]
    for left_out in group_sites(sites, site, len(sites) if groups is None else groups):
        if len(set(y[~np.isin(site, left_out)])) >= 2:
            yield hold_out(site, left_out, codes)


def _number_fifths(y: np.ndarray, codes: np.ndarray | None, seed: int) -> Iterator[Fold]:
    """Random fifths, whole groups where people belong together."""
    people = np.arange(len(y)) if codes is None else codes
    if len(set(people)) < 5:
        raise DataError(
            f"a number cannot be learned from {len(set(people))} people; give at least five, and more sites"
        )
    for train, held_out in GroupKFold(5, shuffle=True, random_state=seed).split(y, y, people):
        yield Fold(train, held_out)


def _fifths(cohort: Cohort, codes: np.ndarray | None, seed: int) -> Iterator[Fold]:
    """Stratified fifths, fewer where a class is small; whole groups where people belong together."""
    y = cohort.targets.astype(int)
    people = codes if codes is not None else np.arange(len(y))
    smaller = min(len(set(people[y == label])) for label in range(len(cohort.target.classes)))
    if smaller < 2 and cohort.target.is_classes:
        counts = (f"{np.sum(y == k)} {name}" for k, name in enumerate(cohort.target.classes))
        raise DataError(
            f"the training sites hold {', '.join(counts)}; training needs at least two people of each class who are "
            "not of one group: leave the others out, or join classes"
        )
    if smaller < 2:
        raise DataError(
            f"the training sites hold {int(y.sum())} cases and {int((1 - y).sum())} controls; "
            "training needs at least two people of each who are not of one group"
        )
    kind = StratifiedKFold if codes is None else StratifiedGroupKFold
    for train, held_out in kind(min(5, smaller), shuffle=True, random_state=seed).split(y, y, codes):
        if len(set(y[held_out])) >= 2:  # large groups may leave a fold with one class, which has no AUC
            yield Fold(train, held_out)


def _shares_of_people(cohort: Cohort) -> np.ndarray | None:
    """Weight of each scan, so that every person counts once; None where everybody has one scan."""
    person = persons(cohort.table)
    return (1 / person.map(person.value_counts())).to_numpy() if person.duplicated().any() else None


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
