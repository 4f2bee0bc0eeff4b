"""What differs between kinds of targets in a pool: one class per kind, asked by everything that reads summaries.

`Kind.of` gives the one of a target. Its methods are of the three rounds in their order: what counts and classes a first
summary holds, how sums become those of all classes, and what the third summaries say: figures, calibration, results by
site, and what a model keeps of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from brainroam.core.site_summary import SiteProducts, SiteSummary
from brainroam.data.target import CLASSES, MOST_CLASSES, NUMBER, ORDERED, TWO, Target, is_control
from brainroam.data.target.order import equivalent_sizes
from brainroam.errors import SummaryError, listed, visible
from brainroam.execution.federation.files import Message
from brainroam.execution.federation.scores import (
    calibration_of,
    calibration_of_classes,
    calibration_of_numbers,
    class_summary,
    number_summary,
    order_of,
    score_summary,
    shifts_of,
    shifts_of_classes,
    shifts_of_numbers,
)

Arrays = Mapping[str, np.ndarray]


class Kind:
    """Two classes, which the other kinds differ from."""

    rows = 2  # sums by class

    def __init__(self, target: Target) -> None:
        self.target = target

    @staticmethod
    def of(target: Target) -> "Kind":
        """The kind of a target.

        >>> type(Kind.of(Target.of_kind("age", "number"))).__name__
        'NumberKind'
        """
        return _KINDS[target.kind](target)

    # --- rounds 1 and 2 -----------------------------------------------------------------------------------------------

    def common(self, messages: Sequence[Message]) -> Target:
        """The target of all sites."""
        return self.target

    def summary(self, message: Message) -> SiteSummary:
        """The first summary, among all classes that there are."""
        return SiteSummary.from_arrays(dict(message.arrays))

    def products(self, message: Message) -> SiteProducts:
        """The second summary, among all classes that there are."""
        return SiteProducts(**{name: value for name, value in message.arrays.items() if name != "counts"})

    def counts(self, message: Message) -> np.ndarray:
        """People by class, among all classes."""
        return message.arrays["counts"]

    def contrasts(self, first: SiteSummary, second: SiteProducts) -> tuple[np.ndarray, np.ndarray]:
        """The contrast of a first summary, and what the sums of the second make of it."""
        means = second.sums / first.counts[:, None]
        return first.contrast, means[1] - means[0]

    def at_steps(self, firsts: Sequence[Message]) -> pd.DataFrame:
        """How many people of each site are at each step of an order; else no columns."""
        return pd.DataFrame(index=range(len(firsts)))

    # --- round 3 ------------------------------------------------------------------------------------------------------

    def third(self, score: np.ndarray, t: np.ndarray, per_bin: int) -> dict[str, np.ndarray]:
        """The arrays of a third summary."""
        return score_summary(score, t.astype(int), per_bin)

    def from_first_step(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """A third summary whose order is counted as `summary` counts it."""
        return dict(arrays)

    def figure(self, arrays: Arrays) -> float:
        """How well people are ordered: the AUC, its mean over the classes of the site, or the correlation."""
        return float(arrays["auc"])

    def learned(self, parts: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
        """Calibration and shifts from the third summaries."""
        return {"calibration": calibration_of(parts), "shifts": shifts_of(parts)}

    def results(self, sites: Sequence[str], third: Mapping[str, Arrays]) -> pd.DataFrame:
        """One row per site."""
        parts = [third[name] for name in sites]
        counts = np.stack([part["counts"] for part in parts])
        start = {"method": "core", "protocol": "loso", "site": sites, "n": counts.sum(axis=1)}
        return pd.DataFrame({**start, **self._columns(parts, counts)})

    def _columns(self, parts: Sequence[Arrays], counts: np.ndarray) -> dict[str, Any]:
        return {
            "n_cases": counts[:, 1],
            "auc": [float(part["auc"]) for part in parts],
            "mean_score_controls": [float(part["mean"][0]) for part in parts],
            "mean_score_cases": [float(part["mean"][1]) for part in parts],
        }

    def inner_sites(self, scores: pd.DataFrame) -> list[dict[str, Any]]:
        """What a model keeps of its held-out sites: the columns of `TunedMethod.inner_sites_` that follow.

        How many people are called right, and their probabilities, do not: these take the scores of single people.
        """
        return self._kept(scores).to_dict("records")

    def _kept(self, scores: pd.DataFrame) -> pd.DataFrame:
        return scores[["site", "n_cases", "auc"]].assign(n_controls=scores["n"] - scores["n_cases"])

    # --- the model ----------------------------------------------------------------------------------------------------

    @property
    def codes(self) -> list[Any]:
        """What the header of a model calls classes."""
        return [0, 1]


class ClassKind(Kind):
    """Several classes, of which a site may lack some."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.rows = len(target.classes)

    def common(self, messages: Sequence[Message]) -> Target:
        """With the classes of all sites, controls first."""
        names = {name for message in messages for name in message.predicts.classes}
        return replace(self.target, classes=tuple(sorted(names, key=lambda name: (not is_control(name), name))))

    def summary(self, message: Message) -> SiteSummary:
        """The first summary, among all classes that there are."""
        return super().summary(message).for_classes(message.predicts.classes, self.target.classes)

    def products(self, message: Message) -> SiteProducts:
        """The second summary, among all classes that there are."""
        return super().products(message).for_classes(message.predicts.classes, self.target.classes)

    def counts(self, message: Message) -> np.ndarray:
        """People by class, among all classes."""
        by_class = dict(zip(message.predicts.classes, message.arrays["counts"].tolist(), strict=True))
        return np.array([by_class.get(name, 0) for name in self.target.classes])

    def contrasts(self, first: SiteSummary, second: SiteProducts) -> tuple[np.ndarray, np.ndarray]:
        """Of each class that the site has against its first."""
        there = first.counts > 0
        means = second.sums[there] / first.counts[there, None]
        return first.contrast[there][1:], (means - means[0])[1:]

    def third(self, score: np.ndarray, t: np.ndarray, per_bin: int) -> dict[str, np.ndarray]:
        """The arrays of a third summary."""
        return class_summary(score, t.astype(int))

    def figure(self, arrays: Arrays) -> float:
        """The mean AUC of the classes of the site."""
        return float(arrays["auc"][arrays["counts"] > 0].mean())

    def learned(self, parts: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
        """Calibration and shifts from the third summaries."""
        return {"calibration": calibration_of_classes(parts), "shifts": shifts_of_classes(parts, self.target)}

    def _columns(self, parts: Sequence[Arrays], counts: np.ndarray) -> dict[str, Any]:
        names = self.target.classes
        aucs = np.where(counts > 0, np.stack([part["auc"] for part in parts]), np.nan)
        variances = np.stack([part["auc_variance"] for part in parts])
        return {
            "auc": np.nanmean(aucs, axis=1),
            "auc_variance": variances[:, 0],
            "class_variance": variances[:, 1],
            **{f"n_{name}": counts[:, k] for k, name in enumerate(names)},
            **{f"auc_{name}": aucs[:, k] for k, name in enumerate(names)},
        }

    def _kept(self, scores: pd.DataFrame) -> pd.DataFrame:
        m = equivalent_sizes(scores[[f"n_{name}" for name in self.target.classes]].to_numpy())
        return scores[["site", "n", "auc"]].assign(
            m=m, auc_var=scores["auc_variance"], class_var=scores["class_variance"]
        )

    @property
    def codes(self) -> list[Any]:
        """Names of the classes."""
        return list(self.target.classes)


class NumberKind(Kind):
    """A number: sums over everybody and times it, a correlation, and a line in the place of probabilities."""

    def contrasts(self, first: SiteSummary, second: SiteProducts) -> tuple[np.ndarray, np.ndarray]:
        """The slope on the number."""
        squares = 0.0 if first.target is None else float(first.target[1])
        return first.contrast, second.sums[1] / max(squares, 1e-300)

    def third(self, score: np.ndarray, t: np.ndarray, per_bin: int) -> dict[str, np.ndarray]:
        """The arrays of a third summary."""
        return number_summary(score, t)

    def figure(self, arrays: Arrays) -> float:
        """The correlation within the site."""
        return order_of(arrays)

    def learned(self, parts: Sequence[dict[str, np.ndarray]]) -> dict[str, Any]:
        """Calibration and shifts from the third summaries."""
        line = calibration_of_numbers(parts)
        return {"calibration": line, "shifts": shifts_of_numbers(parts, line)}

    def _columns(self, parts: Sequence[Arrays], counts: np.ndarray) -> dict[str, Any]:
        """With the error of the level, on the scale that is learned."""
        line = calibration_of_numbers(parts)
        residual = np.array([-line.slope, 1.0])
        moments, n = np.stack([part["moments"] for part in parts]), counts[:, 0]
        return {
            "r": [order_of(part) for part in parts],
            "level": [float(line(part["mean"][0]) - part["mean"][1]) for part in parts],
            "error_sd": np.sqrt(np.einsum("i,sij,j->s", residual, moments, residual) / n),
            "sd": np.sqrt(moments[:, 1, 1] / n),
            "score_sd": np.sqrt(moments[:, 0, 0] / n),
        }

    def _kept(self, scores: pd.DataFrame) -> pd.DataFrame:
        n = scores["n"]
        several = np.maximum(n - 1, 1)
        table = scores[["site", "n", "r", "level"]].assign(
            level_var=scores["error_sd"] ** 2 / several, spread=scores["score_sd"] * np.sqrt(n / several)
        )
        if not self.target.transform:  # the scale that is learned is that of the units
            table = table.assign(off=scores["level"], off_sd=scores["error_sd"])
        return table


class OrderKind(NumberKind):
    """The steps of an order: a number counted from the first step that any site has."""

    @property
    def first_step(self) -> float:
        """The step that is counted as 0."""
        return float(self.target.classes[0])

    def common(self, messages: Sequence[Message]) -> Target:
        """With every whole number from the lowest step of any site to the highest, so that all number them alike."""
        steps = np.unique([step for m in messages for own in m.parts.values() for step in own.arrays["steps"][:, 0]])
        apart = int(np.gcd.reduce(np.diff(steps).astype(int)))
        if apart > 1 or np.ptp(steps) >= MOST_CLASSES:
            raise SummaryError(
                f"the steps of {visible(self.target.name)} at these sites are "
                f"{listed(f'{step:.0f}' for step in steps)}: they must be up to {MOST_CLASSES} neighbouring whole "
                f"numbers; number them 1, 2, 3, or pool {visible(self.target.name)}:number"
            )
        return replace(self.target, classes=tuple(str(step) for step in range(int(steps[0]), int(steps[-1]) + 1)))

    def summary(self, message: Message) -> SiteSummary:
        """The first summary, counted from the first step."""
        found = super().summary(message)
        if found.target is None:
            return found
        return replace(found, target=found.target - np.array([self.first_step, 0.0]))

    def at_steps(self, firsts: Sequence[Message]) -> pd.DataFrame:
        """How many people of each site are at each step, in the block that most have."""
        rows = []
        for message in firsts:
            steps = max((part.arrays["steps"] for part in message.parts.values()), key=lambda found: found[:, 1].sum())
            rows.append({f"n_{step:.0f}": int(n) for step, n in steps})
        columns = [f"n_{step}" for step in self.target.classes]
        return pd.DataFrame(rows).reindex(columns=columns).fillna(0).astype(int)

    def from_first_step(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """A third summary whose order is counted as `summary` counts it."""
        return {**arrays, "mean": arrays["mean"] - np.array([0.0, self.first_step])}


_KINDS: dict[str, type[Kind]] = {TWO: Kind, CLASSES: ClassKind, NUMBER: NumberKind, ORDERED: OrderKind}
