"""What is said of predictions: in a few words, and against the truth at new sites where it is known.

At each site where the truth is known its figures are held against what inner held-out sites of the training foretold:
of two classes the AUC against the interval of the *true* AUC of a next site, which the interval of the measured one may
reach; of several classes and of a number what is observed against the interval of what was to be *observed* there, as
in a forecast (`outlook`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from brainroam.data.target.base import Place
from brainroam.data.target.figures import amount, two_digits
from brainroam.data.target.order import auc
from brainroam.data.target.outlook import Models, expected_classes, expected_number
from brainroam.data.target.sites_number import variances_of_means
from brainroam.data.target.sites_two import balanced_metrics, calibration
from brainroam.errors import listed

LEVEL = 0.95
WORKS = 0.6  # AUC of other sites from which one below chance is no chance
NOTHING = "The model foretells nothing of a next site: that needs four inner held-out sites."


@dataclass(frozen=True)
class Validation(ABC):
    """Of one target; rows of `at_site` become lines of a table (`heads`, `cells`, `caption`)."""

    target: Any

    heads: ClassVar[tuple[str, ...]]
    caption: ClassVar[str]

    @property
    def truth(self) -> str:
        """What is known of people."""
        return self.target.name

    @abstractmethod
    def predicted(self, table: pd.DataFrame) -> str:
        """What was predicted of everybody, in words, with what was used of the new site."""

    def shares_learned(self, calibration: Any) -> list[str]:
        """For which shares of cases, or of each class, probabilities of a model hold."""
        return []

    def shares_used(self, table: pd.DataFrame, stated: bool) -> list[str]:
        """For which they hold in a table of predictions."""
        return []

    def coded(self, table: pd.DataFrame) -> pd.DataFrame:
        """The people whose truth is known, as codes or numbers."""
        return table.dropna(subset="label")

    @abstractmethod
    def at_site(self, people: pd.DataFrame, line: Any) -> dict[str, Any]:
        """What predictions of such people of one site are worth, everybody once; ``line`` is the calibration."""

    def with_intervals(self, sites: pd.DataFrame, models: Any) -> pd.DataFrame:
        """Rows of sites with the interval of each by itself."""
        return sites

    @abstractmethod
    def cells(self, row: Any) -> list[str]:
        """A row as it is printed, after the name of the site."""

    @abstractmethod
    def agreement(self, sites: pd.DataFrame, inner_sites: pd.DataFrame, models: Any) -> Iterator[str]:
        """Sentences: what sites say together, and whether they are as was foretold."""


class ValidationOfTwo(Validation):
    """AUC, decisions and calibration."""

    heads = ("site", "people", "AUC", "interval", "BAC", "mean\nprobability", "share\nof cases", "slope", "Brier")
    caption = "95 % intervals; BAC balanced accuracy; slope of calibration, 1 is perfect, less is too extreme"

    @property
    def truth(self) -> str:
        """Whatever the two classes are called."""
        return "diagnosis"

    def predicted(self, table: pd.DataFrame) -> str:
        """How many are predicted to have the condition."""
        cases, flagged = int(table["predicted"].sum()), int((table["flags"] != "").sum())
        unlike = f"; {flagged} unlike the people trained on (column flags)" if flagged else ""
        what = f"with {self.target.condition}" if self.target.condition else "to have the condition"
        return f"{cases} predicted {what} ({_protocols(table)}){unlike}"

    def shares_learned(self, calibration: Any) -> list[str]:
        """The share of cases."""
        share = calibration.prevalence
        return [
            f"Its probabilities hold where {share:.0%} are cases, as here; predict --prevalence states another share."
        ]

    def shares_used(self, table: pd.DataFrame, stated: bool) -> list[str]:
        """The share of cases."""
        whose = "as stated" if stated else "as among the training people"
        return [f"Probabilities hold where {float(table['prevalence'].iloc[0]):.1%} of people are cases, {whose}."]

    def at_site(self, people: pd.DataFrame, line: Any) -> dict[str, Any]:
        """What a site with one class cannot tell is NaN."""
        label, probability = people["label"].to_numpy(dtype=int), people["probability"].to_numpy()
        called = people["predicted"].to_numpy() >= 0.5
        return {
            "n": len(label),
            "n_cases": int(label.sum()),
            "auc": auc(label, probability),
            "low": np.nan,
            "high": np.nan,
            "balanced_acc": balanced_metrics(label, probability, called)["balanced_acc"],
            "mean_probability": float(probability.mean()),
            "share": int(label.sum()) / len(label),
            "calibration_slope": calibration(label, probability)[0],
            "brier": float(((probability - label) ** 2).mean()),
        }

    def with_intervals(self, sites: pd.DataFrame, models: Any) -> pd.DataFrame:
        """Of AUCs."""
        both = sites["auc"].notna()
        if both.any():
            cases = sites.loc[both, "n_cases"].to_numpy()
            sites.loc[both, "low"], sites.loc[both, "high"] = models.site_intervals(
                sites.loc[both, "auc"].to_numpy(), cases, sites.loc[both, "n"].to_numpy() - cases
            )
        return sites

    def cells(self, row: Any) -> list[str]:
        """Two digits."""
        interval = "-" if math.isnan(row.low) else f"{row.low:.2f}-{row.high:.2f}"
        levels = (_shown(value, ".2f") for value in (row.mean_probability, row.share, row.calibration_slope))
        order = [str(row.n), _shown(row.auc, ".2f"), interval, _shown(row.balanced_acc, ".2f")]
        return [*order, *levels, _shown(row.brier, ".3f")]

    def foretold(self, inner_sites: pd.DataFrame, models: Any) -> dict[str, float]:
        """What the AUCs of inner held-out sites say of the true AUC of a next site; nothing where they cannot."""
        expected = models.verdict(*(inner_sites[name].to_numpy() for name in ("auc", "n_cases", "n_controls")))
        if np.isnan(expected.next_low):
            return {}
        return {"n_sites": expected.n_sites, "auc": expected.mean, "low": expected.next_low, "high": expected.next_high}

    def agreement(self, sites: pd.DataFrame, inner_sites: pd.DataFrame, models: Any) -> Iterator[str]:
        """The mean AUC, and where each lies."""
        measured = sites.dropna(subset="auc")
        if measured.empty:
            yield "No AUC: no site has people of both classes whose diagnosis is known."
            return
        if len(measured) > 1:
            judged = models.verdict(measured["auc"], measured["n_cases"], measured["n"] - measured["n_cases"])
            none = judged.reason.partition("; two sites")[
                0
            ]  # which predict each other where they are held out, not here
            interval = none if np.isnan(judged.low) else f"95 % interval {judged.low:.2f} to {judged.high:.2f}"
            yield f"Mean AUC of {len(measured)} sites: {judged.mean:.2f} ({interval})."
        expected = self.foretold(inner_sites, models)
        if not expected:
            yield "The model foretells no AUC at a next site: that needs four inner held-out sites with both classes."
            return
        yield from self.placed(measured, expected)

    def placed(self, measured: pd.DataFrame, expected: Mapping[str, float]) -> Iterator[str]:
        """Sites inside what was `foretold`, below and above, and those whose scores point the other way."""
        low, high, area = expected["low"], expected["high"], measured["auc"]
        places = {
            "Inside": area.between(low, high),
            "Below, but its interval reaches it": (area < low) & (measured["high"] >= low),
            "Below with its whole interval": measured["high"] < low,
            "Above, but its interval reaches it": (area > high) & (measured["low"] <= high),
            "Above with its whole interval": measured["low"] > high,
        }
        by_place = "; ".join(
            f"{place}: {listed(measured['site'][here], 40)}" for place, here in places.items() if here.any()
        )
        n_sites = int(expected["n_sites"])
        yield f"The {n_sites} training sites foretold an AUC of {low:.2f} to {high:.2f} at a next site. {by_place}."
        turned = measured["site"][measured["high"] < 0.5]
        if len(turned) and expected["auc"] >= WORKS:
            swapped = "look whether codes of cases and controls are swapped there"
            yield f"Scores are reversed at {listed(turned)}: {swapped}."


class ValidationOfClasses(Validation):
    """The AUC of classes against the rest, and how many are called right."""

    heads = ("site", "people", "AUC", "BAC", "called\nright", "Brier")
    caption = "AUC of each class against the rest, mean over classes; BAC: mean share of a class called right"

    def predicted(self, table: pd.DataFrame) -> str:
        """How many of each class."""
        counts = ", ".join(f"{n} {name}" for name, n in table["predicted"].value_counts().items())
        return f"predicted ({_protocols(table)}): {counts}"

    def shares_learned(self, calibration: Any) -> list[str]:
        """The share of each class."""
        shares = zip(self.target.classes, calibration.prevalence, strict=True)
        weights = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        return [f"Its probabilities hold for shares as here ({weights}); predict --prevalence states others."]

    def coded(self, table: pd.DataFrame) -> pd.DataFrame:
        """By the codes of classes."""
        code = {name: k for k, name in enumerate(self.target.classes)}
        known = table[table["label"].isin(code)]
        return known.assign(label=known["label"].map(code), predicted=known["predicted"].map(code))

    def at_site(self, people: pd.DataFrame, line: Any) -> dict[str, Any]:
        """As of a held-out site."""
        return self.target.at_site(people, {})

    def cells(self, row: Any) -> list[str]:
        """Two digits."""
        shares = _shown(row.auc, ".2f"), _shown(row.balanced_acc, ".2f"), _shown(row.acc, ".0%")
        return [str(row.n), *shares, _shown(row.brier, ".3f")]

    def agreement(self, sites: pd.DataFrame, inner_sites: pd.DataFrame, models: Models) -> Iterator[str]:
        """The AUC and balanced accuracy of each site against what was to be observed there."""
        counts = sites[[f"n_{name}" for name in self.target.classes]].to_numpy(dtype=float)
        measured = inner_sites.to_dict("list")
        told = [expected_classes(measured, people, models)["expected"] for people in counts]
        words = {
            "auc": f"The {len(inner_sites)} training sites foretold the AUC to be observed at a site (95 % intervals)",
            "balanced_acc": "They foretold the mean share of a class called right",
        }
        for name, text in words.items():
            low, high = ([each[name][end] for each in told] for end in ("low_95", "high_95"))
            if np.isnan(low).all():
                yield NOTHING
                return
            yield f"{text}. {_places(sites['site'], sites[name], low, high, '{:.2f}'.format)}"


class ValidationOfNumber(Validation):
    """Order, level and scale, and the error beside that of a constant."""

    heads = ("site", "people", "r", "level\noff by", "scale", "mean\nerror", "of a\nconstant", "in 90 %\ninterval")
    caption = "r within the site; scale: slope of truth on prediction, 1 is right, less is too extreme"

    def predicted(self, table: pd.DataFrame) -> str:
        """That it is."""
        return f"{self.target.name} predicted ({_protocols(table)})"

    def at_site(self, people: pd.DataFrame, line: Any) -> dict[str, Any]:
        """As of a held-out site, and the ``spread`` of scores: where people differ less, so does r."""
        ends = [f"{end}_{level}" for level in (80, 90) for end in ("low", "high")]
        people = people.reindex(columns=[*people, *(name for name in ends if name not in people)])
        predicted = self.target.forward(people["predicted"].to_numpy(dtype=float))
        spread = np.std(predicted, ddof=1) / line.slope if len(people) > 1 and line.slope > 0 else np.nan
        return {**self.target.at_site(people, {"constant": float(self.target.inverse(line.mean))}), "spread": spread}

    def cells(self, row: Any) -> list[str]:
        """In units of the target."""
        errors = amount(row.mae), amount(row.mae_constant), _shown(row.covered_90, ".0%")
        order = _shown(row.r, ".2f"), amount(row.level, 2, sign=True), _shown(row.scale, ".2f")
        return [str(row.n), *order, *errors]

    def foretold(self, inner_sites: pd.DataFrame, sites: pd.DataFrame, models: Models) -> pd.DataFrame:
        """95 % limits of the order and, in units, the level to be *observed* at each of these sites.

        ``sites`` have people ``n`` and the standard deviation of their scores, ``spread``. NaN where nothing can be
        said.
        """
        measured = inner_sites.to_dict("list")
        people, off = (inner_sites[name].to_numpy(dtype=float) for name in ("n", "off"))
        variances = variances_of_means(people, people * np.square(inner_sites["off_sd"].to_numpy(dtype=float)))
        rows = []
        for n, spread in sites[["n", "spread"]].itertuples(index=False):
            order = expected_number(measured, n, spread, models)["expected"]["r"]
            sampling = float(np.mean(variances * people)) / n if len(people) else np.nan
            ((low, high),) = models.observed_next(off, variances, sampling, (LEVEL,))[1]
            rows.append((order["low_95"], order["high_95"], low, high))
        return pd.DataFrame(rows, sites.index, columns=["r_low", "r_high", "level_low", "level_high"])

    def agreement(self, sites: pd.DataFrame, inner_sites: pd.DataFrame, models: Any) -> Iterator[str]:
        """The verdict over sites, then order and level of each against what was to be observed."""
        if sites["r"].notna().sum() > 1:
            yield self._together(sites.dropna(subset="r"), models)
        told = self.foretold(inner_sites, sites, models)
        if told["level_low"].isna().all():
            yield NOTHING
            return
        order = f"The {len(inner_sites)} training sites foretold the correlation to be observed at a site"
        places = _places(sites["site"], sites["r"], told["r_low"], told["r_high"], two_digits)
        yield f"{order} (95 % intervals). {places}"
        show = partial(amount, digits=2, sign=True)
        places = _places(sites["site"], sites["level"], told["level_low"], told["level_high"], show)
        yield f"They foretold by how much the mean prediction is off ({self.target.name}). {places}"

    def _together(self, sites: pd.DataFrame, models: Any) -> str:
        """The verdict over these sites."""
        values, counts = sites["r"].to_numpy(), sites[["n"]].to_numpy()
        judged = vars(self.target.order.judge(values, counts, np.empty((len(sites), 0)), models))
        row = {**judged, "r": judged["mean"], **self.target.over_sites(sites, models)}
        return " ".join(self.target.verdict(row, pd.DataFrame(), Place("a new site", "the next site", "site")))


def _protocols(table: pd.DataFrame) -> str:
    return ", ".join(dict.fromkeys(table["protocol"]))


def _shown(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)


def _places(site: Any, value: Any, low: Any, high: Any, show: Callable[[float], str]) -> str:
    """Where each site lies: inside, below or above what was foretold of it, or that nothing was."""
    places: dict[str, list[str]] = {"Inside": [], "Below": [], "Above": [], "Nothing foretold": []}
    for name, found, least, most in zip(site, value, low, high, strict=True):
        if np.isnan(least) or np.isnan(found):
            places["Nothing foretold"].append(str(name))
            continue
        place = "Below" if found < least else "Above" if found > most else "Inside"
        places[place].append(f"{name} ({show(found)}, foretold {show(least)} to {show(most)})")
    return "; ".join(f"{place}: {listed(here, 40)}" for place, here in places.items() if here) + "."
