"""A number in its own units, and the steps of an order, which are learned as a number."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from brainroam.data.target import sites_number
from brainroam.data.target.adaptation import AdaptationOfNumber
from brainroam.data.target.association import Association, with_number
from brainroam.data.target.base import Place, Target
from brainroam.data.target.coding import NumberCoded
from brainroam.data.target.figures import INTERVAL, NEXT, Shown, amount, span_of_r, two_digits
from brainroam.data.target.number_readout import ReadoutOfNumber
from brainroam.data.target.order import mean_order, sites_with_numbers
from brainroam.data.target.orders import Correlation
from brainroam.data.target.outlook import OutlookOfNumber
from brainroam.data.target.request import NUMBER, ORDERED, TargetRequest
from brainroam.data.target.turning import mirrored
from brainroam.data.target.validation import ValidationOfNumber
from brainroam.data.target.within import Coded, coded_number
from brainroam.errors import DataError

if TYPE_CHECKING:
    from brainroam.data.target.orders import Models

FEWEST = 5  # people with a number, to hold some of them out
LEVELS = ("80", "90")  # of intervals of persons


@dataclass(frozen=True)
class Number(Target):
    """Values in their own units; learned on the scale of ``transform``."""

    kind = NUMBER
    is_number = True
    readout = ReadoutOfNumber
    label_type = float
    coding = NumberCoded()

    def association(self, values: np.ndarray, label: np.ndarray) -> Association:
        """The correlation, on the scale it is learned on."""
        return with_number(values, self.forward(label))

    @property
    def words_of_codes(self) -> dict[int, str]:
        """None."""
        return {}

    def site_figures(self, label: pd.Series) -> dict[str, float]:
        """Mean and standard deviation."""
        return {"target_mean": label.mean(), "target_std": label.std()}

    def as_condition(self, label: pd.Series) -> pd.Series | None:
        """None."""
        return None

    def is_learnable(self, values: np.ndarray) -> bool:
        """Five, to hold some of them out."""
        return len(values) >= FEWEST

    @property
    def number(self) -> str:
        """Its name."""
        return self.name

    def code(self, values: np.ndarray, site: np.ndarray) -> Coded:
        """Without the means of the sites, over its spread within them."""
        return coded_number(values, site)

    def forward(self, values: np.ndarray) -> np.ndarray:
        """From its own units to the scale it is learned on."""
        return np.log(values) if self.transform == "log" else np.asarray(values, dtype=float)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to its own units."""
        return np.exp(values) if self.transform == "log" else np.asarray(values, dtype=float)

    def merit(self, truth: np.ndarray, site: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """The mean correlation within sites."""
        return np.nan_to_num(mean_order(truth, site, scores))

    def ordered_sites(self, truth: np.ndarray, site: np.ndarray) -> list[str]:
        """Sites with people enough for a correlation, who differ."""
        return [site[here[0]] for here in sites_with_numbers(truth, site)]

    def fifths(self, truth: np.ndarray, codes: np.ndarray | None, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Random."""
        from sklearn.model_selection import GroupKFold  # slow to import

        people = np.arange(len(truth)) if codes is None else codes
        if len(set(people)) < 5:
            raise DataError(
                f"a number cannot be learned from {len(set(people))} people; give at least five, and more sites"
            )
        yield from GroupKFold(5, shuffle=True, random_state=seed).split(truth, truth, people)

    def grid_of(self, grid: Mapping[str, tuple], of_numbers: Mapping[str, tuple]) -> tuple[Mapping[str, tuple], bool]:
        """Its own grid, where a method has one."""
        return of_numbers or grid, bool(of_numbers)

    def known(self, label: pd.Series, of: Target) -> pd.Series:
        """Numbers of the same name."""
        return label.astype(float) if of.name == self.name else pd.Series(np.nan, label.index)

    def request_in(self, table: pd.DataFrame) -> TargetRequest | None:
        """Its column; steps of an order have to be named."""
        return TargetRequest(self.name, self.kind, self.transform) if self.name in table else None

    def nearest(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Of an order, the step nearest to each value."""
        return {}

    def counted(self, label: pd.Series) -> str:
        """From the least to the most."""
        return f"{self.name} {label.min():.4g} to {label.max():.4g}"

    @property
    def adaptation(self) -> AdaptationOfNumber:
        """What a few people of a held-out site bring."""
        return AdaptationOfNumber(self)

    @property
    def validation(self) -> ValidationOfNumber:
        """What is said of predictions, and against the truth."""
        return ValidationOfNumber(self)

    @property
    def outlook(self) -> OutlookOfNumber:
        """The correlation and the mean error."""
        return OutlookOfNumber(self)

    def spoiled(self, label: np.ndarray) -> np.ndarray:
        """Mirrored on the scale it is learned on, so that what is linear in it turns round."""
        return self.inverse(mirrored(self.forward(label)))

    @property
    def order(self) -> Correlation:
        """The correlation within sites."""
        return Correlation(self)

    exchanged = "the column is turned round"

    @property
    def shown(self) -> list[Shown]:
        """The correlation with its intervals, level, scale and error."""
        off, slope = (
            "By how much the mean prediction of a next site is to be expected off.",
            "Slope of truth on prediction.",
        )
        constant = "Of a constant: the mean of the training people."
        return [
            Shown(("r",), "r", two_digits, "Correlation of prediction and truth among the people of a site."),
            Shown(("low", "high"), "interval", span_of_r, INTERVAL),
            Shown(("next_low", "next_high"), "next {unit}*", span_of_r, NEXT),
            Shown(("off",), "level off by", amount, off),
            Shown(("scale",), "scale", two_digits, slope),
            Shown(("mae",), "error", amount, f"Mean absolute error, in units of {self.name}."),
            Shown(("mae_constant",), "constant", amount, constant),
            Shown(("r2",), "R2", two_digits, "Within sites, about their own mean, which nobody knows."),
        ]

    @property
    def shown_at_site(self) -> list[Shown]:
        """Level, scale and error."""
        level = f"Mean prediction minus mean truth, in units of {self.name}."
        scale = "Slope of truth on prediction: 1 is right; a dash where predictions differ too little for a slope."
        within = (
            "1 less the squared errors over those of the site's own mean, which nobody knows: below 0 where an error "
        )
        within += "of level costs more than order gains."
        return [
            Shown(("level",), "Level off by", amount, level),
            Shown(("scale",), "Scale", two_digits, scale),
            Shown(("mae",), "Error", amount, f"Mean absolute error, in units of {self.name}."),
            Shown(("mae_constant",), "Error of a constant", amount, "Of the mean of the training people."),
            Shown(("r2",), "R2 within", two_digits, within),
        ]

    headlines = ("off", "mae", "mae_constant")
    pictures = ("predicted",)
    answers = "A number in its own units, and an interval where enough sites promise one."
    metrics_in_words = (
        "Correlation within each {unit} (primary), error of level, slope, mean absolute error beside a constant"
    )

    outcome = "A number in its own units"
    balance = "There are no classes; correlations within sites depend on the range of the number there."

    def describe(self, people: pd.DataFrame) -> pd.DataFrame:
        """Mean and range."""
        label = people.groupby("site")["label"]
        named = {"mean": label.mean(), "from": label.min(), "to": label.max()}
        return pd.DataFrame({f"{self.name}, {word}": values for word, values in named.items()})

    def plainly(self, value: float) -> str:
        """The correlation."""
        return f"r {two_digits(value)}"

    def caption(self, unit: str) -> str:
        """What the columns mean, for a terminal."""
        return (
            f"r: correlation within {unit}s{' of the logarithm' if self.transform else ''}; level, error (mean "
            f"absolute) and that of a constant in units of {self.name}; scale: slope of truth on prediction; R2 "
            f"within {unit}s; intervals 95 %"
        )

    @property
    def measured(self) -> tuple[str, ...]:
        """The number of people and the metrics of `sites_number`."""
        return ("n", *sites_number.METRICS)

    @property
    def told(self) -> tuple[str, ...]:
        """Score, prediction in own units, and the ends of intervals where promised."""
        return ("label", "score", "predicted", *(f"{end}_{level}" for level in LEVELS for end in ("low", "high")))

    @property
    def ranked_by(self) -> list[str]:
        """The prediction."""
        return ["predicted"]

    def ranked(self, people: pd.DataFrame) -> np.ndarray:
        """The prediction, on the scale it is learned on."""
        return self.forward(people["predicted"].to_numpy(dtype=float))

    def scored(self, model: Any, label: np.ndarray, score: np.ndarray) -> dict[str, np.ndarray]:
        """Predictions in own units, and the ends of intervals, NaN where none can be promised."""
        columns = {"label": label, "score": score, "predicted": model.readout_.predict(score)}
        for level in LEVELS:
            promised = int(level) / 100 in model.sets_.limits
            nothing = np.full(len(score), np.nan)
            low, high = model.readout_.interval(score, int(level) / 100) if promised else (nothing, nothing)
            columns |= {f"low_{level}": low, f"high_{level}": high}
        return columns

    def facts(self, model: Any, label: np.ndarray) -> dict[str, Any]:
        """The target, and what a constant says that has seen the training people."""
        return {"target": self.described(), "constant": self.constant(label)}

    def at_site(self, people: pd.DataFrame, facts: Mapping[str, Any]) -> dict[str, Any]:
        """See `sites_number.site_metrics`."""
        label, predicted = (people[name].to_numpy(dtype=float) for name in ("label", "predicted"))
        inside = {
            f"covered_{name}": float(np.mean((people[f"low_{name}"] <= label) & (label <= people[f"high_{name}"])))
            for name in LEVELS
            if people[f"low_{name}"].notna().all()
        }
        return sites_number.site_metrics(label, predicted, facts["constant"], self, inside)

    def constant(self, label: np.ndarray) -> float:
        """Their mean on the scale it is learned on."""
        return float(self.inverse(np.array([self.forward(label).mean()]))[0])

    def over_sites(self, sites: pd.DataFrame, models: "Models") -> dict[str, Any]:
        """See `sites_number.over_sites`."""
        return sites_number.over_sites(sites, models)

    def verdict(self, row: Mapping[str, Any], pairs: pd.DataFrame, place: Place) -> list[str]:
        """On order, then on level and against a constant.

        >>> row = {"r": .48, "low": .4, "high": .55, "next_low": .2, "next_high": .7, "off": 4.0, "spread": 6.0,
        ...        "mae": 3.0, "mae_constant": 5.0, "better": 14, "worse": 1, "gain_low": .9, "n_sites": 20}
        >>> for text in Number("age").verdict(row, pd.DataFrame(), Place("", "the next site", "site")): print(text)
        Order travels (r .48 within sites, next site .20 to .70).
        Level does not travel: expect to be off by 4 (age); better than a constant (mean error 3 against 5; clearly in \
14 of 20 sites, clearly worse in 1).
        """
        r, following, sites = two_digits(row["r"]), place.following.removeprefix("the "), f"{place.unit}s"
        span = f"{two_digits(row['low'])} to {two_digits(row['high'])}"
        after = f"{two_digits(row['next_low'])} to {two_digits(row['next_high'])}"
        if math.isnan(row["low"]):
            order = f"Order: r {r} within {sites}; {row['reason']}"
        elif row["low"] <= 0:
            order = f"Order cannot be told from none (r {r} within {sites}, {span})"
        elif math.isnan(row["next_low"]):
            order = f"Order: r {r} within {sites} ({span}); {row['reason']}"
        elif row["next_low"] > 0:
            more = self.with_more(row, place, two_digits)
            order = f"Order travels (r {r} within {sites}, {following} {after}{more})"
        else:
            order = f"Order travels on average (r {r} within {sites}, {span}) but not to every {place.unit}"
            order += f" ({following} {after}{self.with_more(row, place, two_digits)})"
        small = row["off"] <= sites_number.SMALL * row["spread"]
        # The level of a constant may be right everywhere: it says something of predictions that order people.
        level = "Level does not travel" if not small else "Level travels" if row["next_low"] > 0 else "Level"
        size = f"{amount(row['off'], 2)} ({self.name})"
        level = f"Level is off by {size}" if math.isnan(row["next_low"]) else f"{level}: expect to be off by {size}"
        sure = row["gain_low"] > 0 if math.isfinite(row["gain_low"]) else row["better"] > row["n_sites"] / 2
        better = "better than a constant" if sure else "not surely better than a constant"
        if row["mae"] > (1 - sites_number.VISIBLE) * row["mae_constant"]:
            sure, better = False, "no better than a constant"
        errors = f"mean error {amount(row['mae'])} against {amount(row['mae_constant'])}"
        clearly = f"clearly {'better ' * (not sure)}in {row['better']} of {row['n_sites']} {sites}, clearly worse in "
        return [f"{order}.", f"{level}; {better} ({errors}; {clearly}{row['worse']})."]


@dataclass(frozen=True)
class Ordered(Number):
    """The steps of an order: their codes are the number, ``classes`` their names."""

    kind = ORDERED

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to steps, between the first and the last."""
        return np.clip(super().inverse(values), 0, len(self.classes) - 1)

    def known(self, label: pd.Series, of: Target) -> pd.Series:
        """Steps by their names: new people may lack one."""
        if of.name == self.name and of.classes:
            step = {name: k for k, name in enumerate(self.classes)}
            return label.astype(float).map({k: step.get(name, np.nan) for k, name in enumerate(of.classes)})
        return super().known(label, of)

    def request_in(self, table: pd.DataFrame) -> TargetRequest | None:
        """Nothing: which steps there are has to be asked for."""
        return None

    def nearest(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """The name of the step nearest to each value."""
        return {"level": np.array(self.classes)[np.rint(values).astype(int)]}

    def counted(self, label: pd.Series) -> str:
        """How many steps there are."""
        return f"{self.name} of {len(self.classes)} steps" if self.classes else super().counted(label)

    def request(self) -> dict[str, Any] | None:
        """With the steps in their order."""
        return {"column": self.name, "kind": self.kind, "transform": self.transform, "order": list(self.classes)}
