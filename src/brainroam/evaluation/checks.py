"""The outcome of a leak check, and checks that need nothing but scores.

Whether a site was held out is a fact about a computation, and a file holds none. What a leak leaves in the scores
themselves can be looked for. With s the scores of one method, m_t their mean at site t with n_t people, and v the
variance within site and class:

* *centred*: Q = sum_t n_t (m_t - m)^2 / v is at least as large as chi-square with k - 1 degrees of freedom wherever
  each person was scored alone. A Q in the lower tail means that the people of a site were centred together. The same
  with m + b share_t for m and k - 2: an intercept learned elsewhere differs with the share of cases there, and so do
  the means of sites whose features were centred, to the last digit.
* *follows-site*: the level of a site is the mean of its two class means. A model that knew the site knows its share of
  cases, so levels rise with shares over sites; one that did not know it sees, if anything, the opposite.
* *reversed*: with a the rank of a score within its site, b the label, and S sums of products around the means of sites,

      z = sum_t S_ab / sqrt(sum_t S_aa S_bb / (n_t - 1))

  is standard normal where scores know nothing (van Elteren's test). A z in the lower tail means that scores say the
  opposite of the labels.
* *perfect*, *labels-as-scores*: no brain is that clear, and labels are not predictions.
* *people-twice*, *equal-scores*: the same person at two sites, or under two ids.
* *coarse*, *fold-scale*: predicted classes instead of scores; folds whose scores are on other scales.

Of several classes each is held against the rest by its own score, and the most suspicious is told. Of a number v is the
variance within sites around a common slope on the true values, the mean of these stands for the share of cases, the
correlation within sites for the AUC; *follows-site* is not asked, since a site of older people is predicted older.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm, pearsonr

from brainroam.data.people import people_of, persons
from brainroam.data.target import Target
from brainroam.data.target.order import mean_order
from brainroam.errors import counted, listed
from brainroam.evaluation.results import Results
from brainroam.evaluation.stats.metrics import auc, mean_over_sites, site_weights
from brainroam.utils.html import html_summary

UNKNOWN = (
    "whether each site was really held out",
    "whether scaling, harmonisation, features or settings were chosen with its people in view",
    "who was left out of the file",
)
RARE, SELDOM = 1e-3, 1e-2  # probabilities below which chance is no explanation, or a poor one
PERFECT, NEARLY = 0.99, 0.95  # mean AUC over sites
NEARLY_R = 0.97  # mean correlation: ages from anatomy come near it where people of all ages were scanned
COARSE = 0.5  # share of different scores below which many people are tied
UNIQUE = 0.9  # share above which two people with one score are remarkable
SCALES = 10.0  # ratio of the spread of scores between two folds
LARGE_SHARE = 0.3  # of the variance of a score within classes that belongs to the site
FEWEST_SITES, FEWEST_PEOPLE = 4, 3  # sites for a statement about them, people of a class at a site for its mean
OUTCOMES = {True: "passed", False: "leak", None: "to know"}


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        A fixed name of the kind of check.
    method : str
        The method checked; empty when it is about the data alone.
    passed : bool or None
        False is a leak, or of scores something that no honest computation gives. None is neither: something to know
        before believing a result.
    value, limit : float or None
        What was measured, and where it would have been judged otherwise.
    evidence : str
        What was done and what came of it, in words.
    key : str
        Hash of the data, the method, its settings and its code; empty where these are not known. What was found for
        another key says nothing of this one.
    """

    name: str
    method: str
    passed: bool | None
    value: float | None
    limit: float | None
    evidence: str
    key: str = ""


@dataclass(frozen=True, repr=False)
class Audit:
    """All checks of a cohort and its methods.

    Attributes
    ----------
    checks : tuple of Check
    manifest_hash : str
        Of the cohort.
    cannot_see : tuple of str
        What no check of it can find.
    """

    checks: tuple[Check, ...]
    manifest_hash: str
    cannot_see: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no leak was found."""
        return not any(check.passed is False for check in self.checks)

    def _repr_html_(self) -> str:
        """For notebooks: one row per check."""
        rows = [(check.name, check.method, OUTCOMES[check.passed], check.evidence) for check in self.checks]
        table = pd.DataFrame(rows, columns=["check", "method", "outcome", "evidence"])
        return html_summary(self._outcome(), table, [f"No check can find: {text}" for text in self.cannot_see])

    def __repr__(self) -> str:
        """The outcome and a line per check, for a terminal."""
        lines = [
            f"  {OUTCOMES[check.passed]}: {' of '.join(filter(None, [check.name, check.method]))}: {check.evidence}"
            for check in self.checks
        ]
        return "\n".join([self._outcome(), *lines])

    def _outcome(self) -> str:
        failed = sum(check.passed is False for check in self.checks)
        n = len(self.checks)
        return f"{failed} of {n} checks found a leak" if failed else f"no leak found by {n} checks"

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and text, ready for JSON."""
        checks = [asdict(check) for check in self.checks]
        return {
            "passed": self.passed,
            "manifest_hash": self.manifest_hash,
            "checks": checks,
            "cannot_see": list(self.cannot_see),
        }


def unknown_of(results: Results) -> list[str]:
    """A sentence per file: what it cannot show."""
    files: dict[str, list[str]] = {}
    for method, file in results.study.get("from_files", {}).items():
        files.setdefault(file, []).append(method)
    return [
        f"{listed(methods)} {'comes' if len(methods) == 1 else 'come'} from {file}. A file cannot show "
        f"{', '.join(UNKNOWN[:-1])}, or {UNKNOWN[-1]}. brainroam loso DATA --methods FILE.py:NAME runs a method itself"
        for file, methods in files.items()
    ]


def caveats_of(results: Results) -> list[str]:
    """What to know before believing methods that come from files: what a file cannot show, and what its scores do."""
    lines = unknown_of(results)
    checks = check_files(results)
    for name in results.study.get("from_files", {}):
        mine = [check for check in checks if check.method == name]
        seen = {False: "suspicious", None: "to note"}
        parts = [
            f"{word}: " + "; ".join(f"{check.name} ({check.evidence})" for check in mine if check.passed is passed)
            for passed, word in seen.items()
            if any(check.passed is passed for check in mine)
        ]
        n_good = sum(check.passed is True for check in mine)
        lines.append(
            f"{name}: {n_good} of {len(mine)} checks of the scores show nothing" + "".join(f"; {p}" for p in parts)
        )
    return [f"{line}." for line in lines]


def check_files(results: Results) -> list[Check]:
    """Every check of every method that comes from a file; nothing where none does."""
    names = list(results.study.get("from_files", {}))
    return check_scores(results, names) if names else []


def check_scores(results: Results, names: Sequence[str]) -> list[Check]:
    """Every check of the scores of these methods."""
    views = list(_views(results))
    gravest = []
    for name in names:
        outcomes = [check for view in views for check in _checks(name, names, view)]
        for kind in dict.fromkeys(check.name for check in outcomes):
            gravest.append(min((check for check in outcomes if check.name == kind), key=_suspicion))
    return gravest


def _suspicion(check: Check) -> int:
    """Rank of an outcome: 0 failed, 1 to note, 2 passed."""
    return (False, None, True).index(check.passed)


class View(NamedTuple):
    """People by the scores of every method, whether these are of a number, and the class they speak for, if one."""

    people: dict[str, pd.DataFrame]
    number: bool
    one: str = ""


def _views(results: Results) -> Iterator[View]:
    """The scores as they are, or of several classes those of each against the rest."""
    target, runs = results.target, results.predictions.groupby("method")
    if not target.is_classes:
        yield View({str(name): _people(rows, target) for name, rows in runs}, target.is_number)
        return
    for code, one in enumerate(target.classes):
        table = results.predictions.assign(
            label=(results.predictions["label"] == code).astype(int), score=results.predictions[f"score_{one}"]
        )
        yield View({str(name): _people(rows, target) for name, rows in table.groupby("method")}, False, one)


def _people(rows: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Each person once per protocol, site and fold, with the mean score over seeds; numbers on their scale."""
    keys = ["protocol", "site", "fold", "subject"]
    rows = people_of(rows, ("method", "protocol", "site", "fold", "seed")).assign(person=persons(rows))
    how = {"label": ("label", "first"), "score": ("score", "mean"), "person": ("person", "first")}
    people = rows.groupby(keys).agg(**how).reset_index()
    return people.assign(label=target.forward(people["label"])) if target.is_number else people


def _checks(name: str, names: Sequence[str], view: View) -> Iterator[Check]:
    people, number = view.people[name], view.number
    yield _people_twice(name, people)
    yield _labels_as_scores(name, people)
    yield _perfect(name, people, number, view.one)
    turned = _check_direction(name, people, number, view.one)
    yield turned
    yield _check_centring(name, people, number)
    if not number:
        # Levels of honest scores fall where there are more cases, so those of reversed ones seem to follow the site.
        forward = people if turned.passed else people.assign(score=-people["score"])
        others = [rest for other, rest in view.people.items() if other not in names]
        yield _follows_site(name, forward, [_site_share(rest) for rest in others])
    yield _coarse(name, people)
    yield _equal_scores(name, people)
    yield _check_fold_scale(name, people, number)


SITE = ["protocol", "fold", "site"]


def _within(people: pd.DataFrame, number: bool) -> tuple[pd.Series, int]:
    """Residuals of scores given site and class (or site and true value), and their degrees of freedom."""
    if not number:
        cells = people.groupby([*SITE, "label"])["score"]
        return people["score"] - cells.transform("mean"), len(people) - cells.ngroups
    centred = people[["score", "label"]] - people.groupby(SITE)[["score", "label"]].transform("mean")
    size = float((centred["label"] ** 2).sum())
    slope = float((centred["label"] * centred["score"]).sum()) / size if size > 0 else 0.0
    return centred["score"] - slope * centred["label"], len(people) - people.groupby(SITE).ngroups - 1


def _people_twice(name: str, people: pd.DataFrame) -> Check:
    whole = people[people["protocol"] != "halves"]  # where sites are held out repeatedly
    places = whole.groupby("person")["site"].nunique()
    twice = places[places > 1].index
    text = f"{listed(twice)} at several sites, each time trained on as somebody else's site" if len(twice) else ""
    return Check("people-twice", name, not len(twice), len(twice), 0, text or "nobody is held out at two sites")


def _labels_as_scores(name: str, people: pd.DataFrame) -> Check:
    label, score = people["label"].to_numpy(), people["score"].to_numpy()
    same = len(set(label)) > 1 and len(set(score)) > 1 and abs(np.corrcoef(label, score)[0, 1]) > 1 - 1e-6
    text = "the scores are the labels" if same else "the scores are something else than the labels"
    return Check("labels-as-scores", name, not same, None, None, text)


def _perfect(name: str, people: pd.DataFrame, number: bool, one: str) -> Check:
    mean, nearly = _mean_order(people, number), NEARLY_R if number else NEARLY
    passed = False if mean >= PERFECT else None if mean >= nearly else True
    text = _describe_order(mean, number, one)
    text += "" if passed else ", more than brain data have given so far without a leak"
    return Check("perfect", name, passed, mean, nearly, text)


def _mean_order(people: pd.DataFrame, number: bool) -> float:
    """The mean over sites of the AUC, or of the correlation with a number."""
    if number:
        where = people.groupby(SITE).ngroup().to_numpy()
        return float(mean_order(people["label"].to_numpy(), where, people["score"].to_numpy()))
    areas, weights = [], []
    for _, here in people.groupby(SITE):
        label = here["label"].to_numpy()
        areas.append(auc(label, here["score"].to_numpy()))
        weights.append(site_weights((label == 1).sum(), (label == 0).sum()))
    return mean_over_sites(np.array(areas), np.array(weights))


def _describe_order(mean: float, number: bool, one: str) -> str:
    return f"mean {'correlation' if number else 'AUC'}{f' of {one}' if one else ''} {mean:.3f}"


def _check_direction(name: str, people: pd.DataFrame, number: bool, one: str) -> Check:
    place = ["protocol", "site"]
    ranks = people[[*place, "subject", "label"]].assign(score=people.groupby(SITE)["score"].rank(pct=True))
    ranks = ranks.groupby([*place, "subject"]).mean()  # each person once, where sites are held out repeatedly
    centred = ranks - ranks.groupby(place).transform("mean")
    a, b = centred["score"], centred["label"]
    sums = pd.DataFrame({"ab": a * b, "aa": a * a, "bb": b * b, "n": 1}).groupby(place).sum()
    usable = sums[sums["aa"] * sums["bb"] > 0]  # sites where scores and labels differ
    below = usable["ab"] < 0
    mean = _describe_order(_mean_order(people, number), number, one)
    if 2 * below.sum() <= len(usable):
        return Check("reversed", name, True, None, SELDOM, f"not below guessing at most sites, {mean}")
    p = float(norm.cdf(usable["ab"].sum() / np.sqrt((usable["aa"] * usable["bb"] / (usable["n"] - 1)).sum())))
    passed = False if p < RARE else None if p < SELDOM else True
    others = listed(usable.index.get_level_values("site")[~below])
    where = f"{below.sum()} of {len(usable)} sites (not {others})" if others else f"all {len(usable)} sites"
    who = "people with higher true values" if number else f"people {f'of {one}' if one else 'with the condition'}"
    text = f"{who} score lower than others at {where}, {mean}"
    if not passed:
        text += (
            ". Turn the sign of the scores, or write 1 - probability, if a high one means the opposite; else look "
            "whether labels are swapped at some sites"
        )
    return Check("reversed", name, passed, p, SELDOM, text)


def _check_centring(name: str, people: pd.DataFrame, number: bool) -> Check:
    sites = people.groupby(SITE)["score"]
    within, freedom = _within(people, number)
    k = sites.ngroups
    if k < FEWEST_SITES or freedom < k or not within.var() > 0:
        return Check("centred", name, True, None, RARE, "too few sites or people to tell")
    table = sites.agg(["mean", "size"]).assign(share=people.groupby(SITE)["label"].mean())
    root = np.sqrt(table["size"].to_numpy(dtype=float))
    v, means, share = (within**2).sum() / freedom, table["mean"].to_numpy(), table["share"].to_numpy()
    tails = []
    for design in (np.ones((k, 1)), np.column_stack([np.ones(k), share])):
        weighted = design * root[:, None]
        left = means * root - weighted @ np.linalg.lstsq(weighted, means * root)[0]
        tails.append(float(chi2.cdf(left @ left / v, k - np.linalg.matrix_rank(design))))
    p = min(2 * min(tails), 1.0)
    alike = p < RARE
    text = (
        f"the means of {k} sites are more alike than people who were scored one by one can be (p = {p:.1g}): scores or "
        "features were centred with the people who are scored"
        if alike
        else f"the means of {k} sites differ as those of people do who were scored one by one"
    )
    return Check("centred", name, not alike, p, RARE, text)


def _levels(people: pd.DataFrame) -> pd.DataFrame:
    """``level`` (the mean of its class means) and ``share`` of cases of each site that has enough people of both."""
    cells = people.groupby([*SITE, "label"])["score"].agg(["mean", "size"]).unstack("label")
    if {("size", 0), ("size", 1)} - set(cells.columns):
        return pd.DataFrame(columns=["level", "share"])
    cells = cells[(cells["size"] >= FEWEST_PEOPLE).all(axis=1)]
    return pd.DataFrame({"level": cells["mean"].mean(axis=1), "share": cells["size"][1] / cells["size"].sum(axis=1)})


def _site_share(people: pd.DataFrame) -> float:
    """Share of the variance of the scores within classes that lies between sites."""
    centred = people["score"] - people.groupby(["protocol", "label"])["score"].transform("mean")
    within = people["score"] - people.groupby([*SITE, "label"])["score"].transform("mean")
    total = float((centred**2).sum())
    return 1 - float((within**2).sum()) / total if total > 0 else 0.0


def _follows_site(name: str, people: pd.DataFrame, shares: Sequence[float]) -> Check:
    """``shares`` are those of the methods that are not checked."""
    share, levels = _site_share(people), _levels(people)
    text = f"{share:.0%} of the variance within classes lies between sites"
    if shares:
        text += f"; {100 * min(shares):.0f} to {100 * max(shares):.0f} % for the other methods"
    passed: bool | None = True
    if share > max([LARGE_SHARE, *(2 * other for other in shares)]):
        passed, text = None, f"{text}. Scores of different sites are not on one scale"
    if len(levels) >= FEWEST_SITES and levels["level"].std() > 0 and levels["share"].std() > 0:
        trend = pearsonr(levels["share"], levels["level"], alternative="greater")
        if trend.pvalue < SELDOM:
            passed = False if trend.pvalue < RARE else None
            text += (
                f". The level of a site follows its share of cases (r = {trend.statistic:.2f}, {len(levels)} sites): "
                "the model seems to have known the site"
            )
    return Check("follows-site", name, passed, share, LARGE_SHARE, text)


def _coarse(name: str, people: pd.DataFrame) -> Check:
    n, different = len(people), people["score"].nunique()
    coarse = different < COARSE * n
    text = f"{different} different scores of {n} people"
    if coarse:
        text += ": predicted classes or rounded scores, which rank people worse than the scores behind them"
    return Check("coarse", name, None if coarse else True, different / n, COARSE, text)


def _equal_scores(name: str, people: pd.DataFrame) -> Check:
    once = people.drop_duplicates("person")
    same = once[once.duplicated("score", keep=False)].sort_values("score")
    if once["score"].nunique() < UNIQUE * len(once) or same.empty:
        return Check("equal-scores", name, True, None, None, "no two people share a score among different ones")
    groups = [" = ".join(map(str, who)) for _, who in same.groupby("score")["person"]]
    text = (
        f"{counted(len(groups), 'score is', 'scores are')} shared by several people: {listed(groups)}; the same person?"
    )
    return Check("equal-scores", name, None, len(groups), 0, text)


def _check_fold_scale(name: str, people: pd.DataFrame, number: bool) -> Check:
    within, _ = _within(people, number)
    spread = within.groupby([people["protocol"], people["fold"]]).std()
    spread = spread[spread > 0]
    ratio = float(spread.max() / spread.min()) if len(spread) > 1 else 1.0
    wide = ratio > SCALES
    text = f"the spread of scores differs by a factor of {ratio:.1f} between folds"
    if wide:
        text += f" ({spread.idxmax()[1]} against {spread.idxmin()[1]}): one threshold cannot serve all folds"
    return Check("fold-scale", name, None if wide else True, ratio, SCALES, text)
