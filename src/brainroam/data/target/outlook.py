"""What is to be observed at a site that nobody has seen, and what is then observed there.

The figures of a new site follow from the same figures at inner held-out sites of the training, from how many people
the new site has and, where classes are predicted, from the shares of them that are expected there:

    AUC      true AUC of a next site, then sampling of m cases and n controls (`Models.observed_auc`)
    others   A ~ N(mu, tau^2 + v),   v = mean_s(v_s h_s) / h,   1/h = 1/m + 1/n (`Models.observed_next`)

Of several classes the order is the mean over classes of the AUC against the rest, and balanced accuracy the mean share
of a class called right; a site counts as one of m cases and m controls (`order.equivalent_sizes`).

For a number the order is the correlation r of scores and values within the site, on Fisher's scale, and the level is
the mean of predicted minus true values on the scale it was learned on:

    atanh r      ~ N(mu + b (x - mean x), tau^2 + 1 / (n - 3)),   x = log sd of the site's scores
    mean error   ~ N(mu, tau^2 + mean_s(v_s n_s) / n)

Where the people of a site differ more in what is predicted, scores spread further, and a correlation is easier to have:
with score = beta t + e, r^2 = 1 - var(e) / var(score). The spread of scores is known without the number.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pandas as pd

from brainroam.data.target.calibration import as_shares, to_prevalence
from brainroam.data.target.order import correlations, equivalent_sizes, is_constant, macro_auc, shared_error
from brainroam.data.target.shifts import MEASURES, site_measures
from brainroam.data.target.sites_number import variances_of_means
from brainroam.data.target.weights import mean_over_sites, site_weights
from brainroam.errors import UsageError

LEVELS = (0.8, 0.95)
LIMITS = tuple(f"{side}_{100 * level:.0f}" for level in LEVELS for side in ("low", "high"))
RANGE = {"auc": (0.0, 1.0), "balanced_acc": (0.0, 1.0), "level": (-0.5, 0.5), "brier": (0.0, 1.0)}
ONE_PERSON = "one person has no AUC"
LEAST_FOR_R = 5  # people of a site below which nothing is foretold of a correlation

Spans = list[tuple[float, float]]


class Models(Protocol):
    """The models of sites that `brainroam.evaluation.stats.verdict` has."""

    @property
    def MIN_SITES_NEXT(self) -> int:
        """Sites below which nothing is said of the next one."""

    def verdict(self, auc: Any, n_cases: Any, n_controls: Any) -> Any:
        """Of AUCs; ``reason`` says why they allow no intervals."""

    def observed_auc(
        self, auc: Any, n_cases: Any, n_controls: Any, m: float, n: float, levels: Sequence[float], kept: float = 1.0
    ) -> Spans:
        """An interval of each level for the AUC of m cases and n controls."""

    def observed_next(
        self, values: Any, variances: Any, variance: float, levels: Sequence[float]
    ) -> tuple[float, Spans]:
        """Mean and intervals of any other figure."""

    def observed_on_line(
        self,
        values: Any,
        variances: Any,
        variance: float,
        looks: Any,
        look: float,
        blur: float,
        levels: Sequence[float],
    ) -> tuple[float, Spans]:
        """Of one that follows what a site looks like."""


class Observed(NamedTuple):
    """A figure that was observed at a site; ``n_cases`` of two classes."""

    site: str
    measure: str
    n_cases: float
    observed: float


@dataclass(frozen=True)
class Outlook(ABC):
    """What is foretold of a target."""

    target: Any

    figures: ClassVar[tuple[str, ...]]  # the order of people first
    rest: ClassVar[str]  # the others in words, as a sentence begins
    alike: ClassVar[str]  # people whom no score can put in order

    def share(self, stated: Any, calibration: Any) -> Any:
        """The share of cases, or of each class, to be expected: the stated one, or that of training; none of a number.

        Refuses one that the target cannot use.
        """
        return calibration.prevalence if stated is None else stated

    def threshold(self, calibration: Any) -> float | None:
        """The score from which on people are called cases, of two classes."""
        return None

    @abstractmethod
    def assumed(self, share: Mapping[str, Any] | None) -> str:
        """For which shares a forecast is made, in words; ``share`` has ``value`` and ``stated``."""

    @abstractmethod
    def expected(
        self, measured: Mapping[str, Any], people: pd.DataFrame, share: Any, models: Models, kept: float = 1.0
    ) -> dict[str, Any]:
        """``n`` people of a site, what is ``expected`` of each figure, and for which ``reason`` there is no interval.

        Parameters
        ----------
        measured : mapping
            Columns of what inner held-out sites showed (`Readout.inner_sites`).
        people : DataFrame
            Rows of the site: ``person`` and `Target.score_columns`.
        share : as of `share`
        models : Models
        kept : float
            Of scores by another pipeline: see `observed_auc` of `brainroam.evaluation.stats.verdict`.
        """

    @abstractmethod
    def observed(self, people: pd.DataFrame, threshold: float | None, share: Any) -> Iterator[Observed]:
        """Each figure at each site, from scans whose ``label`` is known; a person counts once."""

    def doubts(self, observed: pd.DataFrame, n_judged: pd.Series, share: Any) -> Iterator[str]:
        """Sites where a figure says much less than it was foretold to say."""
        return iter(())


class OutlookOfTwo(Outlook):
    """AUC, balanced accuracy at the threshold, level and Brier score, both classes counting alike."""

    figures = ("auc", *MEASURES)
    rest = "Balanced accuracy, level and Brier score"
    alike = "of one class"

    def share(self, stated: Any, calibration: Any) -> float:
        """One share, of cases."""
        if isinstance(stated, Mapping):
            raise UsageError("a forecast of two classes takes one prevalence: the share of cases, such as 0.3")
        return super().share(stated, calibration)

    def threshold(self, calibration: Any) -> float | None:
        """That of the calibration."""
        return calibration.threshold

    def assumed(self, share: Mapping[str, Any] | None) -> str:
        """The share of cases."""
        known = share or {}
        return f" if {known['value']:.0%} are cases, {'as stated' if known['stated'] else 'as in training'}"

    def expected(
        self, measured: Mapping[str, Any], people: pd.DataFrame, share: Any, models: Models, kept: float = 1.0
    ) -> dict[str, Any]:
        """See `expected_areas`."""
        n = int(people["person"].nunique())
        cases = min(max(n * share, 1.0), max(n - 1.0, 1.0))
        expected, reason = expected_areas(measured, cases, n - cases, models, kept), ""
        if np.isnan(expected["auc"]["low_95"]):
            sites = (measured[name] for name in ("auc", "n_cases", "n_controls"))
            reason = ONE_PERSON if n < 2 else _refusal(models, *sites)
        return {"n": n, "expected": expected, "reason": reason}

    def observed(self, people: pd.DataFrame, threshold: float | None, share: Any) -> Iterator[Observed]:
        """By probabilities for a prevalence of one half."""
        half = to_prevalence(people["probability"].to_numpy(), share, 0.5)
        each = people.assign(half=half).groupby(["site", "person"])[["score", "half", "label"]].mean().reset_index()
        for site, here in each.groupby("site"):
            y, score = here["label"].to_numpy().round().astype(int), here["score"].to_numpy()
            measures = site_measures(y, score, (score >= threshold).astype(int), here["half"].to_numpy())
            for name in self.figures:
                yield Observed(str(site), name, measures["n_cases"], measures[name])

    def doubts(self, observed: pd.DataFrame, n_judged: pd.Series, share: Any) -> Iterator[str]:
        """Where an AUC says less than half of what it was foretold to say, by 1 / (1 / cases + 1 / controls)."""
        for row in observed[observed["measure"] == "auc"].dropna(subset="observed").itertuples():
            n = int(n_judged[row.site])
            if row.n_cases * (n - row.n_cases) < share * (1 - share) * n**2 / 2:
                yield (
                    f"{row.site}: {row.n_cases:.0f} of {n} people are cases, foretold with {share:.0%}: with so few of "
                    "one class the AUC scatters more than its interval allows for"
                )


class OutlookOfClasses(Outlook):
    """The mean AUC of classes against the rest, and the mean share of a class called right."""

    figures = ("auc", "balanced_acc")
    rest = "Balanced accuracy"
    alike = "of one class"

    def share(self, stated: Any, calibration: Any) -> list[float]:
        """A share of each class."""
        known = calibration.prevalence if stated is None else as_shares(stated, self.target.classes)
        return np.asarray(known).tolist()

    def assumed(self, share: Mapping[str, Any] | None) -> str:
        """That classes are as frequent as stated, or as in training."""
        return f" if classes are as frequent as {'stated' if share and share['stated'] else 'in training'}"

    def expected(
        self, measured: Mapping[str, Any], people: pd.DataFrame, share: Any, models: Models, kept: float = 1.0
    ) -> dict[str, Any]:
        """See `expected_classes`."""
        n = int(people["person"].nunique())
        return {"n": n, **expected_classes(measured, n * np.array(share), models)}

    def observed(self, people: pd.DataFrame, threshold: float | None, share: Any) -> Iterator[Observed]:
        """Somebody with several scans is called what most of them are, the first of these in the order of classes."""
        names, codes = self.target.score_columns, {name: k for k, name in enumerate(self.target.classes)}
        people = people.assign(called=people["predicted"].map(codes))
        how: dict[str, Any] = {
            **dict.fromkeys(names, "mean"),
            "label": "first",
            "called": lambda one: one.mode().iloc[0],
        }
        each = people.groupby(["site", "person"]).agg(how).reset_index()
        for site, here in each.groupby("site"):
            code, called = here["label"].to_numpy().astype(int), here["called"].to_numpy()
            right = [float(np.mean(called[code == k] == k)) for k in np.unique(code)]
            differ = len(right) > 1
            auc = float(macro_auc(code, here[names].to_numpy(dtype=float))) if differ else np.nan
            yield Observed(str(site), "auc", np.nan, auc)
            yield Observed(str(site), "balanced_acc", np.nan, float(np.mean(right)) if differ else np.nan)


class OutlookOfNumber(Outlook):
    """The correlation within a site, and the mean of predicted minus true values."""

    figures = ("r", "mean_error")
    rest = "Mean error"
    alike = "with one value"

    def share(self, stated: Any, calibration: Any) -> None:
        """None."""
        if stated is not None:
            raise UsageError(f"a share of cases belongs to forecasts of classes; {self.target.name} is a number")

    def assumed(self, share: Mapping[str, Any] | None) -> str:
        """Nothing."""
        return ""

    def expected(
        self, measured: Mapping[str, Any], people: pd.DataFrame, share: Any, models: Models, kept: float = 1.0
    ) -> dict[str, Any]:
        """See `expected_number`."""
        n, spread = int(people["person"].nunique()), float(people.groupby("person")["score"].mean().std())
        return {"n": n, "spread": spread, **expected_number(measured, n, spread, models)}

    def observed(self, people: pd.DataFrame, threshold: float | None, share: Any) -> Iterator[Observed]:
        """On the scale that was learned on."""
        each = people.groupby(["site", "person"])[["score", "predicted", "label"]].mean().reset_index()
        for site, here in each.groupby("site"):
            true = self.target.forward(here["label"].to_numpy(dtype=float))
            error = self.target.forward(here["predicted"].to_numpy(dtype=float)) - true
            r = np.nan if is_constant(true) else float(correlations(true, here["score"].to_numpy()))
            yield Observed(str(site), "r", np.nan, r)
            yield Observed(str(site), "mean_error", np.nan, float(error.mean()))


def expected_areas(
    measured: Mapping[str, Any], m: float, n: float, models: Models, kept: float = 1.0
) -> dict[str, dict[str, float]]:
    """Of two classes: ``expected`` and limits of each figure at a site of m cases and n controls.

    >>> from brainroam.evaluation.stats import verdict
    >>> sites = {"auc": [0.6, 0.7, 0.65, 0.8, 0.75], "n_cases": [20] * 5, "n_controls": [20] * 5}
    >>> sites |= {name: [0.6, 0.7, 0.6, 0.7, 0.7] for name in MEASURES}
    >>> sites |= {f"{name}_var": [0.005] * 5 for name in MEASURES}
    >>> found = expected_areas(sites, 20, 20, verdict)
    >>> round(found["auc"]["expected"], 2), round(found["balanced_acc"]["low_95"], 2)
    (0.7, 0.44)
    """
    nothing = dict.fromkeys(("expected", *LIMITS), np.nan)
    if not measured or not len(measured["auc"]) or min(m, n) <= 0:
        return {name: dict(nothing) for name in ("auc", *MEASURES)}
    cases, controls = (np.asarray(measured[name], dtype=float) for name in ("n_cases", "n_controls"))
    areas = models.observed_auc(measured["auc"], cases, controls, m, n, LEVELS, kept)
    expected = {"auc": _with_limits("auc", mean_over_sites(measured["auc"], site_weights(cases, controls)), areas)}
    people, here = 1 / (1 / cases + 1 / controls), 1 / (1 / m + 1 / n)
    for name in MEASURES:
        values, variances = (np.asarray(measured[f"{name}{end}"], dtype=float) for end in ("", "_var"))
        variance = float(np.mean(variances * people)) / here
        expected[name] = _with_limits(name, *models.observed_next(values, variances, variance, LEVELS))
    return expected


def expected_classes(measured: Mapping[str, Any], people: np.ndarray, models: Models) -> dict[str, Any]:
    """Of several classes: ``expected`` and ``reason`` at a site with so many people of each (K,)."""
    names = ("auc", "m", "auc_var", "class_var", "balanced_acc", "balanced_acc_var")
    auc, m, together, alone, called, called_var = (np.asarray(measured[name], dtype=float) for name in names)
    expected = {name: dict.fromkeys(("expected", *LIMITS), np.nan) for name in ("auc", "balanced_acc")}
    here = float(equivalent_sizes(people[None])[0])
    if len(auc) and here > 0 and people.sum() >= 2:
        rho = shared_error(m, np.column_stack([together, alone]), len(people))
        counted = m / rho  # nearly `equivalent_sizes` with this share
        areas = models.observed_auc(auc, counted, counted, here / rho, here / rho, LEVELS)
        expected["auc"] = _with_limits("auc", mean_over_sites(auc, site_weights(m, m)), areas)
        variance = float(np.mean(called_var * m)) / here
        foretold = models.observed_next(called, called_var, variance, LEVELS)
        expected["balanced_acc"] = _with_limits("balanced_acc", *foretold)
    reason = ""
    if not np.isfinite(expected["auc"]["low_95"]):
        reason = ONE_PERSON if people.sum() < 2 else _refusal(models, auc, m, m)
    return {"expected": expected, "reason": reason}


def expected_number(measured: Mapping[str, Any], n: int, spread: float, models: Models) -> dict[str, Any]:
    """Of a number: ``expected`` and ``reason`` at a site of n people whose scores have this standard deviation."""
    names = ("r", "level", "level_var", "n", "spread")
    r, level, level_var, people, spreads = (np.asarray(measured[name], dtype=float) for name in names)
    level_var = variances_of_means(people, level_var * people * (people - 1)) if len(people) else level_var
    enough = n >= LEAST_FOR_R
    left = 1 / np.maximum(people - 3, 1)
    with np.errstate(divide="ignore"):
        looks, look = np.log(spreads), float(np.log(spread))
    blur = max(1 / (2 * max(n - 1, 1)) - float(np.mean(1 / (2 * np.maximum(people - 1, 1)))), 0) if len(people) else 0
    z = np.arctanh(np.clip(r, -0.999, 0.999))
    mean, spans = models.observed_on_line(z, left, 1 / max(n - 3, 1), looks, look, blur, LEVELS)
    order = np.tanh([mean, *(limit for span in spans for limit in span)]) if enough else np.full(5, np.nan)
    error, error_spans = models.observed_next(level, level_var, float(np.mean(level_var * people)) / n, LEVELS)
    limits = {"r": order.tolist(), "mean_error": [error, *(limit for span in error_spans for limit in span)]}
    too_few = "it takes four inner held-out sites with enough people"
    reason = "" if np.isfinite(order[1]) else too_few if enough else "there are fewer than five people"
    expected = {name: dict(zip(("expected", *LIMITS), values, strict=True)) for name, values in limits.items()}
    return {"expected": expected, "reason": reason}


def _with_limits(name: str, mean: float, intervals: Spans) -> dict[str, float]:
    limits = np.clip([limit for pair in intervals for limit in pair], *RANGE[name])
    return {"expected": mean, **dict(zip(LIMITS, limits.tolist(), strict=True))}


def _refusal(models: Models, *sites: Any) -> str:
    """Why inner held-out sites allow no forecast, in the words of the model of AUCs."""
    if not len(sites[0]):
        return "the model keeps no results of held-out sites; a pooled one does after its third round"
    if len(sites[0]) < models.MIN_SITES_NEXT:
        return f"fewer than {models.MIN_SITES_NEXT} inner held-out sites have both classes"
    return models.verdict(*sites).reason.partition(": ")[2]
