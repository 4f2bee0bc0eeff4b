"""Leak checks: change the held-out people in many ways, and see whether the model or other scores change.

One site is held out. Then, everything else being equal, and each time in a fresh process and an empty folder,

``reproducible``    learned and scored a second time in the same process: not a byte may change
``single-subject``  some people scored alone: each must score as in company
``names``           everybody under another id, every site under another name: no score may change
``test-labels``     their labels flipped: no score may change
``corruption``      half of them get other series, another site and label, and other values in every column: the other
                    half's scores may not change, nor, where a method shows its state, a single byte of what was
                    learned, threshold included
``spoilt``          those who got other series and values may not score as before: a score must come from the person
``nudged``          noise of a thousandth of its spread is added to what was measured of them: scores may not jump. What
                    recognises people by their exact values, and looks their labels up, no longer does, however much
                    noise covers the label
``lengths``         half of them were scanned for shorter or longer than anybody: the other half's scores may not change
``regions``         half of them lack regions that everybody had: the other half's scores may not change
``training-labels`` the labels of everybody trained on flipped, at several held-out sites: a score turns round
                    with them. What stays, the mean of both scores, may not follow the true labels: it would come from a
                    table, a variable, or weights made with these people. Of several classes, two that people of the
                    site have change places, controls never, and the difference of their scores is what turns round
``memory``          scored after another site was held out and scored in the same process: no score may change. A method
                    that keeps something of a person from a fold that trained on them (``lru_cache``, ``joblib.Memory``
                    without the fold in its key, a dictionary, a file) has seen everybody's label by the second fold
``inner-folds``     the labels of training people whom an inner fold holds out flipped: their scores may not
                    change; asked of methods that have an ``out_of_fold`` of their own, which is handed those labels

From ``test-labels`` on everybody has a new id in each run, so nothing kept by id is of use.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from scipy.stats import t as student

from brainroam.audit.candidates import Candidate, MethodCandidate, Outcome
from brainroam.audit.fresh import FreshProcesses, Run
from brainroam.audit.spoiling import (
    of_other_lengths,
    with_corrupted_data,
    with_new_names,
    with_small_noise,
    with_spoilt_labels,
    without_regions,
)
from brainroam.data.cohort import Cohort
from brainroam.data.folds import Fold, hold_out
from brainroam.errors import DataError, counted, listed
from brainroam.evaluation.checks import Check
from brainroam.methods.base import Method

ROUNDING = 1e-6  # of the spread of the scores: batches may be rounded otherwise in single precision
N_ALONE = 3
MOST_SITES = 4  # whose people say whether labels are known from elsewhere
FIXED_RULE = 0.4  # as an AUC of .73: what a rule that learns from no label, a known signature, may honestly reach
JUMP, FEW = 0.1, 0.1  # of the spread of scores; trees and neighbours jump for one person in a hundred, a table for all
TINY = np.finfo(float).tiny
UNRELATED = 0.001  # an honest method's spoilt people resemble themselves by chance once in a thousand audits


CHECKS = (
    *("reproducible", "single-subject", "names", "test-labels", "training-labels", "corruption", "spoilt", "nudged"),
    *("lengths", "regions", "memory", "inner-folds"),
)


def leak_check_names(cohort: Cohort) -> tuple[str, ...]:
    """The checks that `leak_checks` does on such people, in its order; ``inner-folds`` of some methods only."""
    return tuple(name for name in CHECKS if name != "lengths" or cohort.measure == "series")


def leak_checks(
    candidate: Candidate,
    cohort: Cohort,
    processes: FreshProcesses,
    seed: int = 0,
    known: Mapping[str, Check] = MappingProxyType({}),
) -> Iterator[Check]:
    """Hold out one site, drawn by the seed, and change it in every way that must not matter.

    Checks whose outcome is ``known``, by name, are not done again.

    >>> from brainroam.audit.candidates import candidate
    >>> from brainroam.data.synthetic import make_cohort
    >>> cohort = make_cohort(n_sites=3, n_per_site=12, n_rois=10)
    >>> with FreshProcesses() as processes:
    ...     checks = list(leak_checks(candidate("fc-ridge"), cohort, processes))
    >>> tuple(check.name for check in checks) == leak_check_names(cohort)
    True
    >>> all(check.passed for check in checks)
    True
    """
    for names, check in _Leaks(candidate.name, cohort, seed, processes.of(candidate)).steps():
        outcome = [known[name] for name in names] if known.keys() >= set(names) else check()
        yield from [outcome] if isinstance(outcome, Check) else outcome


class Remainder(NamedTuple):
    """Ranks of the mean of a site's scores by both kinds of training labels, true labels, and the classes swapped."""

    ranks: np.ndarray
    label: np.ndarray
    swapped: str


class _Leaks:
    """The checks of one method at one held-out site."""

    def __init__(self, method: str, cohort: Cohort, seed: int, run: Run) -> None:
        self.method, self.cohort, self.seed, self.run = method, cohort, seed, run
        fold = held_out(cohort, seed)
        self.site, self.train, self.test = fold.name, fold.train, fold.test
        self.people = f"{cohort.subset(self.test).counted} of {self.site}"
        self.draw = 0

    def steps(self) -> Iterator[tuple[tuple[str, ...], Callable[[], Check | Iterator[Check]]]]:
        """The checks one after another: their names, and what does them."""
        half, table = f"one half of the {self.people}", self.cohort.measure == "table"
        yield ("reproducible",), self._reproducible
        yield ("single-subject",), self._single_subject
        yield ("names",), self._names
        yield ("test-labels",), self._test_labels
        yield ("training-labels",), self._training_labels
        yield ("corruption", "spoilt"), self._corruption
        yield ("nudged",), self._check_nudge
        if self.cohort.measure == "series":
            change = f"changed how long {half} were scanned"
            yield ("lengths",), partial(self._of_others, "lengths", of_other_lengths, change)
        change = f"emptied a cell of each of {half}" if table else f"changed with which regions {half} were scanned"
        yield ("regions",), partial(self._of_others, "regions", without_regions, change)
        yield ("memory",), self._memory
        yield ("inner-folds",), self._inner_folds

    @cached_property
    def same(self) -> Cohort:
        """The cohort with nothing remembered."""
        return self.cohort.made_of(self.cohort.series, self.cohort.table)

    @cached_property
    def twice(self) -> list[Outcome]:
        """Learned and scored two times in one process."""
        return self.run(in_turn, self.same, [(self.train, [self.test])] * 2, self.seed)

    @cached_property
    def under_new_names(self) -> Outcome | Exception:
        """A run in which everybody has another id, or the error with which it ends."""
        try:
            return self.run(in_turn, self._with_new_names(), [(self.train, [self.test])], self.seed)[0]
        except Exception as error:
            return error

    @property
    def by_name(self) -> bool:
        """Whether the method cannot do without the old names."""
        return isinstance(self.under_new_names, Exception)

    @property
    def base(self) -> Outcome:
        """What all other runs are compared with."""
        return self.twice[0] if isinstance(self.under_new_names, Exception) else self.under_new_names

    def _run_once(self, change: Callable[[Cohort], Cohort], group: np.ndarray) -> Outcome:
        """One run in a fresh process; under new names, unless the method cannot do without the old ones."""
        return self.run(in_turn, change(self._rename()), [(self.train, [group])], self.seed)[0]

    def _rename(self) -> Cohort:
        return self.cohort if self.by_name else self._with_new_names()

    def _with_new_names(self) -> Cohort:
        self.draw += 1
        return with_new_names(self.cohort, self.seed, self.draw)

    def _reproducible(self) -> Check:
        first, again = self.twice
        moved = gap(again.scores[0], first.scores[0])
        same = moved == 0 and again.state == first.state
        text = f"learned and scored the {self.people} twice: "
        text += "the same bytes" if same else _describe_change(moved, again, first)
        return Check("reproducible", self.method, same, moved, 0.0, text)

    def _single_subject(self) -> Check:
        rng = np.random.default_rng([self.seed, 1])
        alone = rng.choice(len(self.test), min(N_ALONE, len(self.test)), replace=False)
        groups = [self.test, *(self.test[[i]] for i in alone)]
        try:
            first = self.run(in_turn, self.same, [(self.train, groups)], self.seed)[0]
        except Exception as error:
            text = (
                f"one person alone cannot be scored ({type(error).__name__}: {error}); is a network still in training?"
            )
            return Check("single-subject", self.method, False, float("inf"), ROUNDING, text)
        moved = gap(np.concatenate(first.scores[1:]), first.scores[0][alone], first.scores[0])
        text = f"scored {len(alone)} of the {self.people} alone: "
        text += "as in company" if moved <= ROUNDING else f"{_share(moved)}; a score depends on who else is scored"
        return Check("single-subject", self.method, moved <= ROUNDING, moved, ROUNDING, text)

    def _names(self) -> Check:
        text, renamed = "gave everybody another id and every site another name: ", self.under_new_names
        if isinstance(renamed, Exception):
            text += f"nothing can be scored any more ({type(renamed).__name__}: {renamed}); "
            text += "people are looked up by their ids"
            return Check("names", self.method, False, float("inf"), ROUNDING, text)
        moved = gap(renamed.scores[0], self.twice[0].scores[0])
        text += "no score changed" if moved <= ROUNDING else f"{_share(moved)}; scores are read from names"
        return Check("names", self.method, moved <= ROUNDING, moved, ROUNDING, text)

    def _test_labels(self) -> Check:
        base = self.base
        turned = self._run_once(partial(with_spoilt_labels, people=self.test[len(self.test) > 3 :]), self.test)
        moved = gap(turned.scores[0], base.scores[0])
        same = moved == 0 and turned.state == base.state
        text = f"flipped the labels of the {self.people}, except one, so that the share of cases changes, too: "
        text += (
            "nothing changed"
            if same
            else f"{_describe_change(moved, turned, base)}; the labels to be predicted are read"
        )
        return Check("test-labels", self.method, same, moved, 0.0, text)

    def _training_labels(self) -> Check:
        """At up to `MOST_SITES` sites, by default settings: two fits for each, and together many people."""
        folds = (hold_out(self.cohort.table["site"].to_numpy(), [name]) for name in usable_sites(self.cohort))
        remains = [each for fold in islice(folds, MOST_SITES) if (each := self._what_stays(fold)) is not None]
        if not remains:
            text = "no site has two classes that can change places, so this was not checked"
            return Check("training-labels", self.method, None, None, ROUNDING, text)
        stays, labels, swaps = zip(*remains, strict=True)
        n = sum(map(len, labels))
        alike = likeness(*(np.concatenate([x - x.mean() for x in each]) for each in (stays, labels)))
        limit = max(_chance_likeness(n - len(remains) + 1), FIXED_RULE)
        swapped = listed(dict.fromkeys(filter(None, swaps)))
        done = f"{swapped} changed places" if swapped else "flipped the labels of everybody"
        sites = counted(len(remains), "site", "sites")
        text = f"{done} in training, {sites} held out one by one: what stays of the scores of {n} people "
        if alike <= limit:
            text += f"says little of their labels (correlation {alike:.2f})"
        else:
            text += f"follows their true labels (correlation {alike:.2f}), which are known from elsewhere: a table, a "
            text += "variable, or weights made with these people"
        return Check("training-labels", self.method, alike <= limit, alike, limit, text)

    def _what_stays(self, fold: Fold) -> Remainder | None:
        """What stays of a site's scores when the training labels are flipped.

        None of a site without two classes that can change places. Ranks are equal where nothing stays but rounding.
        """
        turning = self.cohort.target.turning(self.cohort.table["label"].to_numpy(dtype=float)[fold.test])
        if turning is None:
            return None
        named = self._rename()
        spoilt = with_spoilt_labels(named, fold.train, turning.spoil)
        both = (self.run(quick, each, fold, self.seed) for each in (named, spoilt))
        scores, turned = (turning.margin(each) for each in both)
        stays = (scores + turned) / 2
        moves = np.ptp(stays) > ROUNDING * np.ptp(scores)
        ranks = rankdata(stays) / len(stays) if moves else np.zeros(len(stays))
        return Remainder(ranks, turning.label, turning.swapped)

    def _corruption(self) -> Iterator[Check]:
        base = self.base
        scores, moved, changed = base.scores[0], 0.0, set[str]()
        spoilt = np.empty(scores.shape)
        for k in (0, 1):
            outcome = self._run_once(partial(with_corrupted_data, people=self.test[k::2], seed=self.seed), self.test)
            moved = max(moved, gap(outcome.scores[0][1 - k :: 2], scores[1 - k :: 2], scores))
            changed |= _changed_arrays(outcome, base)
            spoilt[k::2] = outcome.scores[0][k::2]
        text = f"replaced the data and labels of one half of the {self.people}, then of the other: "
        if moved <= ROUNDING and not changed:
            text += "the scores of the unchanged half stayed the same"
            text += f", nor one byte of the {len(base.state)} arrays learned" if base.state else ""
        else:
            text += f"in the unchanged half {_share(moved)}"
            text += f", and what was learned changed ({', '.join(sorted(changed))})" if changed else ""
            text += "; something is learned from the people to be predicted, such as a scaler fitted on everybody"
        yield Check("corruption", self.method, moved <= ROUNDING and not changed, moved, ROUNDING, text)
        yield self._spoilt(scores, spoilt)

    def _spoilt(self, before: np.ndarray, after: np.ndarray) -> Check:
        in_line = self.cohort.target.in_line
        alike, limit = likeness(in_line(before), in_line(after)), _chance_likeness(len(before))
        text = f"compared the scores of the {self.people} before and after their data were replaced: correlation "
        text += f"{alike:.2f}; "
        if alike <= limit:
            text += "a score comes from the person's own data"
        else:
            text += "other data give the same scores, so these come from elsewhere, such as a file"
        return Check("spoilt", self.method, alike <= limit, alike, limit, text)

    def _check_nudge(self) -> Check:
        base = self.base
        before = base.scores[0]
        after = self._run_once(partial(with_small_noise, people=self.test, seed=self.seed), self.test).scores[0]
        moved = np.abs(after - before).reshape(len(before), -1).max(axis=1) / max(float(np.ptp(before)), TINY)
        usual = float(np.quantile(moved, 1 - FEW))
        text = f"moved what was measured of the {self.people} by a thousandth of its spread: "
        if usual <= JUMP:
            text += "scores hardly moved"
        else:
            text += (
                f"for a tenth of them scores jumped by {usual:.2g} of their spread or more; people are recognised by "
                "their exact values, as in a table of labels, or the method is unstable"
            )
        return Check("nudged", self.method, usual <= JUMP, usual, JUMP, text)

    def _of_others(self, name: str, change: Callable[..., Cohort], changed: str) -> Check:
        """Change one half of the held-out people and score the other half only."""
        base = self.base
        text = f"{changed}: "
        try:
            outcome = self._run_once(partial(change, people=self.test[::2]), self.test[1::2])
        except Exception as error:
            text += f"the procedure stops ({type(error).__name__}: {str(error)[:100]}), so this was not checked"
            return Check(name, self.method, None, None, ROUNDING, text)
        moved = gap(outcome.scores[0], base.scores[0][1::2], base.scores[0])
        learned = "" if outcome.state == base.state else ", and what was learned changed"
        if moved <= ROUNDING and not learned:
            text += "the scores of the other half did not change"
        else:
            text += f"in the other half {_share(moved)}{learned}; data are cut to what everybody has in common"
        return Check(name, self.method, moved <= ROUNDING and not learned, moved, ROUNDING, text)

    def _memory(self) -> Check:
        """Hold out another site first, in the same process; everybody has a new id in each run."""
        others = [name for name in usable_sites(self.cohort) if name != self.site]
        if not others:
            text = "no second site can be held out with both classes in it and elsewhere, so this was not checked"
            return Check("memory", self.method, None, None, ROUNDING, text)
        before = hold_out(self.cohort.table["site"].to_numpy(), others[:1])
        outcome = self.run(after, self._rename(), before, (self.train, [self.test]), self.seed)
        moved = gap(outcome.scores[0], self.base.scores[0])
        text = f"held out and scored {others[0]}, then the {self.people} in the same process: "
        if moved <= ROUNDING:
            text += "as without"
        else:
            text += f"{_share(moved)}; something of a person is kept from a fold that trained on them, such as by "
            text += "lru_cache, joblib.Memory or a dictionary without the fold in its key"
        return Check("memory", self.method, moved <= ROUNDING, moved, ROUNDING, text)

    def _inner_folds(self) -> Iterator[Check]:
        """For a method with inner folds of its own: does it use labels of people whom an inner fold holds out?"""
        training = self.cohort.subset(self.train)
        site = training.table["site"].to_numpy()
        fold = hold_out(site, site[:1])
        if len(set(training.targets[fold.train])) < 2:
            return
        whose = fold.test[:0], fold.test[len(fold.test) > 3 :]  # nobody's, then theirs but for one
        honest, turned = (
            self.run(inner_scores, with_spoilt_labels(training, people), fold, self.seed) for people in whose
        )
        if honest is None or turned is None:
            return
        moved = gap(turned, honest)
        text = f"flipped the labels of the people of {site[0]}, whom an inner fold holds out: "
        text += "no score changed" if moved <= ROUNDING else f"{_share(moved)}; out_of_fold reads labels it must not"
        yield Check("inner-folds", self.method, moved <= ROUNDING, moved, ROUNDING, text)


def in_turn(
    candidate: Candidate, cohort: Cohort, folds: Sequence[tuple[np.ndarray, Sequence[np.ndarray]]], seed: int
) -> list[Outcome]:
    """The outcome of each fold (people to learn from, groups to score), one after another in one process."""
    return [candidate.run(cohort, train, groups, seed) for train, groups in folds]


def quick(candidate: Candidate, cohort: Cohort, fold: Fold, seed: int) -> np.ndarray:
    """The scores of a fold by default settings."""
    return candidate.quick_scores(cohort, fold.train, fold.test, seed)


def after(
    candidate: Candidate,
    cohort: Cohort,
    before: Fold,
    fold: tuple[np.ndarray, Sequence[np.ndarray]],
    seed: int,
) -> Outcome:
    """The outcome of a fold after another one in the same process.

    The first is fitted without tuning, whose inner folds would score people before anything is learned from them: what
    is kept of a person is often what the first look at them gave.
    """
    candidate.quick_scores(cohort, before.train, before.test, seed)
    return candidate.run(cohort, *fold, seed)


def inner_scores(candidate: Candidate, cohort: Cohort, fold: Fold, seed: int) -> np.ndarray | None:
    """Scores of the people an inner fold holds out, by the method's own ``out_of_fold``; None if it has none."""
    if not isinstance(candidate, MethodCandidate) or candidate.info.self_selecting:
        return None
    settings = candidate.info.settings(candidate.fixed)
    if type(candidate.info.make(**settings)).out_of_fold is Method.out_of_fold:
        return None
    return candidate.info.make_for(cohort.target, **settings).out_of_fold(cohort, [fold], seed)[0][-1]


def held_out(cohort: Cohort, seed: int) -> Fold:
    """The fold of a site with both classes, drawn by the seed."""
    usable = usable_sites(cohort)
    if not usable:
        raise DataError(f"no site can be held out with {cohort.target.order.differ}")
    name = usable[np.random.default_rng(seed).integers(len(usable))]
    return hold_out(cohort.table["site"].to_numpy(), [name])


def usable_sites(cohort: Cohort) -> list[str]:
    """The sites with both classes in them and both classes elsewhere; of a number, with people who differ in it."""
    site, truth = cohort.table["site"].to_numpy(), cohort.targets
    return [str(name) for name in cohort.target.ordered_sites(truth, site) if len(set(truth[site != name])) >= 2]


def gap(ours: np.ndarray, theirs: np.ndarray, among: np.ndarray | None = None) -> float:
    """The largest difference, as a share of the spread of the scores; infinite where a score came or went.

    >>> gap(np.array([1.0, 3.5]), np.array([1.0, 3.0]))
    0.25
    """
    if np.array_equal(ours, theirs, equal_nan=True):
        return 0.0
    spread = float(np.ptp(theirs if among is None else among))
    difference = float(np.abs(ours - theirs).max())
    return difference / spread if np.isfinite(difference) and spread > 0 else float("inf")


def likeness(before: np.ndarray, after: np.ndarray) -> float:
    """Correlation of two scores of the same people; 0 where one of them is the same for everybody.

    >>> likeness(np.array([0.0, 1, 2]), np.array([1.0, 3, 5])), likeness(np.ones(3), np.arange(3.0))
    (1.0, 0.0)
    """
    if not (np.isfinite(before).all() and np.isfinite(after).all()) or not (np.ptp(before) and np.ptp(after)):
        return 0.0
    return float(np.corrcoef(before, after)[0, 1])


def _chance_likeness(n: int) -> float:
    """The correlation that unrelated scores of n people exceed once in a thousand times."""
    if n < 3:
        return 1.0
    value = student.ppf(1 - UNRELATED, n - 2)
    return float(value / np.sqrt(n - 2 + value**2))


def _changed_arrays(ours: Outcome, theirs: Outcome) -> set[str]:
    """Names of the learned arrays that differ."""
    return {name for name in ours.state.keys() | theirs.state.keys() if ours.state.get(name) != theirs.state.get(name)}


def _share(moved: float) -> str:
    return f"scores moved by up to {moved:.2g} of their spread" if np.isfinite(moved) else "scores came or went"


def _describe_change(moved: float, ours: Outcome, theirs: Outcome) -> str:
    changed = sorted(_changed_arrays(ours, theirs))
    learned = [f"what was learned changed ({', '.join(changed)})"] if changed else []
    return ", and ".join([_share(moved)] * (moved > 0) + learned)
