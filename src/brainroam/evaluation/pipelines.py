"""Two versions of the same people, preprocessed by different pipelines: what of a score is person, site, pipeline.

With a_i, b_i the scores of person i of site s in both versions, the spread of a score has four parts:

    person     covariance of a and b within sites: what both versions agree on
    noise      variance of (a - b) within sites / 2: where versions disagree about single people
    site       variance over sites of (mean a + mean b) / 2, beyond what the people of a site explain
    pipeline   mean over sites of (mean b - mean a)^2 / 4, beyond noise: a level that moves with the version

How much of the AUC the new version b keeps of the first, a, follows from r, their correlation within sites. Write
b = beta a + u, where u is what the new version alone has. For binormal scores the probit of the AUC is the difference
between classes in units of the spread, and it is multiplied by

    r                 if u has nothing to do with the diagnosis: beta sd(a) / sd(b) = r
    sd(a) / sd(b)     if the diagnosis lies in what both versions agree on
    1                 if u tells as much of it as a does

Which of them holds cannot be seen without labels, so a forecast for the new version reaches from r times the probit up
to what it was (`PipelineAgreement.widen`). It is too high only where the diagnosis lies in what a alone has. Balanced
accuracy b falls by f (2 b - 1) where a share f changes class whatever their diagnosis. On ten simulated versions of
ABIDE the share kept was r - 0.05 to 1, and far below r in one with much noise: docs/results/backcast.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, UsageError, counted, listed
from brainroam.evaluation.run_records import plain
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.html import html_summary

FEWEST = 10  # people of both versions


@dataclass(frozen=True)
class PipelineAgreement:
    """How far two versions of the same people agree.

    Attributes
    ----------
    shares : dict of str to float
        ``person``, ``site``, ``pipeline`` and ``noise``, of the spread of a score.
    kept : float
        r, the correlation of the two scores within sites, between 0 and 1.
    people : DataFrame
        ``subject``, ``site``, ``score``, ``score_other``, ``probability``, ``probability_other``, ``changed``.
    """

    shares: dict[str, float]
    kept: float
    people: pd.DataFrame

    def _repr_html_(self) -> str:
        """For notebooks: the shares of the spread of a score."""
        return html_summary("Shares of the spread of a score", pd.DataFrame([self.shares]), [self.sentence])

    @property
    def changed(self) -> float:
        """Share of people who are called another class."""
        return float(self.people["changed"].mean())

    @property
    def moved(self) -> float:
        """By how much the mean probability differs, the new version minus the other."""
        return float((self.people["probability"] - self.people["probability_other"]).mean())

    @property
    def sentence(self) -> str:
        """The agreement in a sentence."""
        parts = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        changed = int(self.people["changed"].sum())
        return (
            f"Two versions of {counted(len(self.people), 'person', 'people')}: of the spread of a score, {parts}; "
            f"scores correlate by {self.kept:.2f} within sites; {changed} of them change class, "
            f"and the mean probability moves by {self.moved:+.2f}; intervals are widened accordingly"
        )

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a forecast."""
        people = self.people.loc[self.people["changed"], "subject"].tolist()
        facts = {"shares": self.shares, "kept": self.kept, "changed": people, "moved": self.moved}
        return plain({**facts, "n": len(self.people), "sentence": self.sentence})

    def widen(
        self, expected: Mapping[str, Mapping[str, float]], attenuated: Mapping[str, float]
    ) -> dict[str, dict[str, float]]:
        """Intervals of a forecast (`brainroam.data.target.outlook.expected_areas`) for the new version.

        The AUC may fall to that of r times the probit (``attenuated``); balanced accuracy b by f (2 b - 1), with f the
        share who change class; the level moves by as much as the mean probability, either way, and the Brier score by
        the mean absolute difference of probabilities.
        """
        widened = {name: dict(values) for name, values in expected.items()}
        off = float((self.people["probability"] - self.people["probability_other"]).abs().mean())
        for percent in (80, 95):
            low, high = f"low_{percent}", f"high_{percent}"
            widened["auc"][low] = min(widened["auc"][low], attenuated[low])
            widened["balanced_acc"][low] -= self.changed * max(2 * widened["balanced_acc"][low] - 1, 0)
            widened["level"][low] -= abs(self.moved)
            widened["level"][high] += abs(self.moved)
            widened["brier"][high] += off
        return widened


def pipeline_agreement(model: Any, cohort: Cohort, other: Cohort) -> PipelineAgreement:
    """Read two versions of the same people with one model.

    Parameters
    ----------
    model : TunedMethod, or a fitted SiteClassifier
    cohort, other : Cohort
        The same people (by ``subject``) by two pipelines; people of one of them only are left out. Labels are not read.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=5, n_per_site=16, n_rois=10)
    >>> model = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:4]))
    >>> new = cohort.select(["S05"])
    >>> shorter = brainroam.Cohort([x[: len(x) // 2] for x in new.series], new.table, new.atlas)
    >>> found = pipeline_agreement(model, shorter, new)
    >>> round(sum(found.shares.values()), 6), 0 < found.kept < 1
    (1.0, True)
    """
    method = model if isinstance(model, TunedMethod) else getattr(model, "model_", None)
    if not isinstance(method, TunedMethod):
        raise UsageError("versions are compared by a fitted model of brainroam")
    return compare_versions(method, cohort.without_labels(telling=False), other.without_labels(telling=False))


def compare_versions(method: TunedMethod, cohort: Cohort, other: Cohort) -> PipelineAgreement:
    """As `pipeline_agreement`, of cohorts without labels."""
    if cohort.atlas != other.atlas:
        raise DataError(
            f"the versions have different atlases ({cohort.atlas.name!r} and {other.atlas.name!r}); one model reads one"
        )
    first, second = (_read(method, version) for version in (cohort, other))
    people = first.merge(second.drop(columns="site"), on="subject", suffixes=("", "_other"))
    if len(people) < FEWEST:
        alone = listed(sorted(set(first["subject"]) ^ set(second["subject"])))
        raise DataError(
            f"the two versions have {counted(len(people), 'person', 'people')} in common, {FEWEST} are needed; "
            f"ids in one of them only: {alone}"
        )
    people["changed"] = people.pop("called") != people.pop("called_other")
    a, b = people["score"].to_numpy(), people["score_other"].to_numpy()
    return PipelineAgreement(*score_parts(a, b, people["site"].to_numpy()), people)


def score_parts(a: np.ndarray, b: np.ndarray, site: np.ndarray) -> tuple[dict[str, float], float]:
    """Shares of the spread of a score, and the correlation within sites.

    >>> shares, kept = score_parts(np.array([0.0, 1, 2, 3]), np.array([1.0, 2, 3, 4]), np.array(list("AABB")))
    >>> round(kept, 3), shares["noise"]
    (1.0, 0.0)
    """
    table = pd.DataFrame({"a": a, "b": b})
    means = table.groupby(site).transform("mean")
    sites, counts = table.groupby(site).mean(), table.groupby(site).size().to_numpy()
    freedom = max(len(table) - len(sites), 1)
    left = (table - means).to_numpy()
    (var_a, both), (_, var_b) = left.T @ left / freedom
    noise = max((var_a + var_b) / 2 - both, 0.0)
    middle, gap = sites.mean(axis=1), (sites["b"] - sites["a"]).to_numpy()
    between = float(middle.var(ddof=1)) if len(sites) > 1 else 0.0
    parts = {
        "person": max(both, 0.0),
        "site": max(between - float(((both + noise / 2) / counts).mean()), 0.0),
        "pipeline": max(float((gap**2 / 4 - noise / (2 * counts)).mean()), 0.0),
        "noise": noise,
    }
    total = sum(parts.values()) or 1.0
    kept = float(np.clip(both / np.sqrt(var_a * var_b), 0, 1)) if var_a * var_b > 0 else 0.0
    return {name: float(value / total) for name, value in parts.items()}, kept


def _read(method: TunedMethod, cohort: Cohort) -> pd.DataFrame:
    score = method.score(cohort)
    calibration = method.calibration_
    table = cohort.table[["subject", "site"]].astype(str)
    return table.assign(score=score, probability=calibration(score), called=calibration.decide(score))
