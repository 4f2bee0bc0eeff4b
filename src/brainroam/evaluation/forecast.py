"""Foretell what a model will be worth at new sites before their diagnoses are opened.

A forecast says for each new site what will be *observed* there: the AUC (order), balanced accuracy at the model's
threshold, level and Brier score (`brainroam.data.target.shifts`), each with intervals of 80 and 95 %. They follow
from the same measures at the inner held-out sites of the training, from how many people the new site has and from its
expected share of cases (`brainroam.data.target.outlook`). Of a number it is the correlation within the site and the
mean error, of several classes the mean AUC against the rest and balanced accuracy.

Motion, scan length, age and familiarity of the new people are written down and do not move the forecast; what they
would bring: docs/results/backcast.md. Labels of the new people are never read.

The forecast holds hashes of the model, of the people (ids and series) and of the code, the time, and everybody's score;
the hash of all this is what to commit or to send before labels are opened. `brainroam.evaluation.reveal` holds it
against the diagnoses later.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import persons
from brainroam.data.target import Target
from brainroam.data.target.outlook import LIMITS, Outlook
from brainroam.errors import BrainroamError, DataError, UsageError, counted
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.pipelines import PipelineAgreement, compare_versions
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.stats import verdict as models
from brainroam.methods.familiarity import known_share
from brainroam.methods.predictions import predictions
from brainroam.methods.saving import load_method, prepared_as_in_training
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.files import content_hash, read_checksummed, write_checksummed
from brainroam.utils.html import html_summary

NAMES = {
    **{"auc": "AUC", "balanced_acc": "balanced accuracy", "level": "balanced level"},
    "brier": "balanced Brier score",  # cases and controls count alike; that of `predict` is at the share of cases
    **{"r": "correlation", "mean_error": "mean error"},
}
LOOKS = ("seconds", "volumes", "mean_fd", "age", "distance", "resemblance")
UNLIKE = 0.5  # share of flagged people from which on a site is not like those the forecast was learned on


class ForecastError(BrainroamError):
    """A forecast is damaged, was changed, or is about other people or another model."""


@dataclass(frozen=True)
class Forecast:
    """What was foretold: plain content, its hash, and tables of it.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=7, n_per_site=20, n_rois=10)
    >>> model = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:6]))
    >>> new = cohort.select(["S07"])
    >>> forecast = foretell(model, new)
    >>> forecast.sites["site"].tolist(), len(forecast.people), len(forecast.hash)
    (['S07'], 20, 64)
    >>> found = brainroam.reveal(forecast, new)
    >>> found.table["measure"].tolist()
    ['auc', 'balanced_acc', 'level', 'brier']
    """

    content: dict[str, Any]

    @property
    def hash(self) -> str:
        """SHA-256 of the content: commit this, or send it to somebody, before labels are opened."""
        return content_hash(self.content)

    @property
    def target(self) -> Target:
        """What is predicted."""
        return Target.of_description(self.content.get("predicts"))

    @property
    def order(self) -> str:
        """The measure of the order of people: ``auc``, or ``r`` for a number."""
        return self.target.outlook.figures[0]

    @property
    def sites(self) -> pd.DataFrame:
        """One row per site: how many people, what they look like, and the expected order with its intervals."""
        order = self.order
        rows = [{"site": row["site"], "n": row["n"], **row["looks"], **row["expected"][order]} for row in self._sites]
        return pd.DataFrame(rows)

    @property
    def people(self) -> pd.DataFrame:
        """One row per scan: score, probability, predicted class and flags."""
        return pd.DataFrame(self.content["persons"])

    @property
    def table(self) -> pd.DataFrame:
        """One row per site and measure: ``expected`` and the limits of its intervals."""
        rows = [
            {"site": row["site"], "n": row["n"], "measure": name, **row["expected"][name]}
            for row in self._sites
            for name in row["expected"]
        ]
        return pd.DataFrame(rows, columns=["site", "n", "measure", "expected", *LIMITS]).astype(
            dict.fromkeys(["expected", *LIMITS], float)
        )

    def _repr_html_(self) -> str:
        """For notebooks: what is expected at each site, and the hash."""
        return html_summary("What is expected", self.table, [f"SHA-256 {self.hash}"])

    @property
    def unlike(self) -> list[str]:
        """Sites where at least half of the people are unlike those trained on."""
        return [row["site"] for row in self._sites if row["looks"]["flagged"] >= UNLIKE * row["n"]]

    @property
    def _sites(self) -> list[dict[str, Any]]:
        return self.content["sites"]

    def save(self, path: str | Path) -> Path:
        """Write it as JSON that states its own checksum."""
        write_checksummed(Path(path), self.content)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Forecast":
        """Read what `save` wrote; refuses a file that was changed."""
        content = read_checksummed(Path(path), ForecastError)
        if content.get("kind") != "forecast":
            raise ForecastError(f"{path} is not a forecast; brainroam foretell writes one")
        return cls(content)

    def sentences(self) -> Iterator[str]:
        """What is to be expected at each site, in words."""
        for row in self._sites:
            yield from self._expectations(row)
            yield from self._reservations(row)
        if self.content["pipelines"]:
            yield self.content["pipelines"]["sentence"]

    def _expectations(self, row: Mapping[str, Any]) -> Iterator[str]:
        """The order of people at a site, then all other measures."""
        expected, people, order = row["expected"], counted(row["n"], "person", "people"), NAMES[self.order]
        area = expected[self.order]
        if area["low_95"] is None:
            yield f"{row['site']}, {people}: no forecast of the {order}; {row['reason']}"
        else:
            spans = (f"{area[f'low_{p}']:.2f} to {area[f'high_{p}']:.2f} ({p} %)" for p in (80, 95))
            yield (
                f"{row['site']}, {people}: {order} {area['expected']:.2f} expected, observed within "
                f"{', '.join(spans)}{self.target.outlook.assumed(self.content['prevalence'])}"
            )
        others = [
            f"{NAMES[name]} {round(x['expected'], 2) + 0.0:.2f} ({x['low_95']:.2f} to {x['high_95']:.2f})"
            for name, x in expected.items()
            if name != self.order and x["low_95"] is not None
        ]
        if others:
            yield f"{row['site']}: {'; '.join(others)}, 95 % intervals"

    def _reservations(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Why the forecast may not hold at a site."""
        if row["trained_on"]:
            yield (
                f"{row['site']}: the model was trained on a site of that name; the forecast is for a site that it "
                "has not seen"
            )
        if row.get("odd"):
            yield (
                f"{row['site']}: {row['odd']}; unless that is so, the threshold does not suit this site, and "
                "balanced accuracy, level and Brier score may lie outside. The AUC does not depend on it"
            )
        if row["site"] in self.unlike:
            here = [person["flags"] for person in self.content["persons"] if person["site"] == row["site"]]
            reasons = Counter(reason for flags in here if flags for reason in flags.split("; "))
            yield (
                f"{row['site']}: {row['looks']['flagged']} of {row['n']} people are unlike those trained on (first "
                f"of all: {reasons.most_common(1)[0][0]}); the forecast is for sites like the training sites, and "
                "this one may not be"
            )


def foretell(
    model: Any,
    cohort: Cohort,
    *,
    prevalence: Any = None,
    other: Cohort | None = None,
    after: str = "",
    time: str | None = None,
) -> Forecast:
    """Foretell what a model will be worth at the sites of new people, whose labels are not read.

    Parameters
    ----------
    model : path of a model folder, TunedMethod, or a fitted SiteClassifier
    cohort : Cohort
        The new people; labels in it are ignored.
    prevalence : float, optional
        The share of cases to expect there; by default that among the training people. Of several classes a share for
        each, by name or in their order.
    other : Cohort, optional
        The same people by another pipeline (`brainroam.evaluation.pipelines`): intervals are widened by how much the
        scores differ.
    after : str, optional
        What the ledger ended with (`brainroam.evaluation.ledger.end_of`), to be hashed with the rest.
    time : str, optional
        By default now, in UTC.

    Examples
    --------
    >>> import brainroam
    >>> from brainroam.methods.registry import method_info
    >>> cohort = brainroam.make_cohort(n_sites=7, n_per_site=20, n_rois=10)
    >>> model = TunedMethod(method_info("fc-ridge"), "default").fit(cohort.select(cohort.sites[:6]))
    >>> print(next(foretell(model, cohort.select(["S07"])).sentences()))  # doctest: +ELLIPSIS
    S07, 20 people: AUC 0... expected, observed within 0... to ... (80 %), 0... to ... (95 %) if ...% are cases, ...
    """
    cohort = cohort.without_labels(telling=False)
    digests = cohort.block_digests  # as they came, before they are prepared as in training
    method, header = fitted_model(model, cohort)
    target, outlook = method.target_, method.target_.outlook
    if target.name in cohort.table:  # where nobody said that this column is the target
        cohort = cohort.with_columns(pd.DataFrame({target.name: np.full(len(cohort), np.nan)}))
    if other is not None:
        target.require_two_classes("another pipeline belongs to forecasts of")
    share = outlook.share(prevalence, method.calibration_)
    cohort = prepared_as_in_training(header, cohort) if header else cohort
    known = known_share(header["training"], cohort) if header else 0.0
    if known > 0:
        raise DataError(
            f"about {known:.0%} of these people were in the training of this model: a forecast is about people it has "
            "never seen; leave them out (--exclude)"
        )
    agreement = None if other is None else compare_versions(method, cohort, other.without_labels(telling=False))
    measured = method.inner_sites_.to_dict("list")
    table, scores = predictions(method, cohort, prevalence=prevalence, advise=False), method.score(cohort)
    rows = table.assign(
        person=persons(cohort.table).to_numpy(),
        digest=digests,
        site=table["site"].astype(str),
        **target.score_table(scores),
    )
    looks, odd = _looks(method, cohort), method.readout_.odd_sites(rows, scores)
    sites = [
        {
            "site": str(name),
            **_expected_at(outlook, here, measured, share, agreement),
            "trained_on": str(name) in map(str, measured["site"]),
            "odd": odd.get(str(name), ""),
            "looks": {**looks.loc[here.index, list(LOOKS)].mean(), "flagged": int((here["flags"] != "").sum())},
        }
        for name, here in rows.groupby("site", sort=True)
    ]
    columns = ["subject", "person", "site", *target.score_columns, "probability", "predicted", "flags", "digest"]
    content = {
        "kind": "forecast",
        "target": target.called,
        **target.entry("predicts"),
        "made": {"time": time or datetime.now(UTC).isoformat(timespec="seconds"), "code": code_version(method.info)},
        "model": {
            "digest": model_digest(method),
            "method": method.info.name,
            "threshold": outlook.threshold(method.calibration_),
            "n_sites": len(measured["site"]),
        },
        "people": people_digest(rows["subject"], digests),
        "after": after,
        "prevalence": None if share is None else {"value": share, "stated": prevalence is not None},
        "pipelines": None if agreement is None else agreement.content,
        "sites": sites,
        "persons": rows[[name for name in columns if name in rows]].sort_values("subject").to_dict("records"),
    }
    return Forecast(plain(content))


def _expected_at(
    outlook: Outlook,
    people: pd.DataFrame,
    measured: Mapping[str, list[float]],
    share: Any,
    agreement: PipelineAgreement | None,
) -> dict[str, Any]:
    """How many people a site has, and what to expect of each figure there, also by another pipeline."""
    here = outlook.expected(measured, people, share, models)
    if agreement is not None:
        attenuated = outlook.expected(measured, people, share, models, agreement.kept)["expected"][outlook.figures[0]]
        here["expected"] = agreement.widen(here["expected"], attenuated)
    return here


def fitted_model(model: Any, cohort: Cohort | None) -> tuple[TunedMethod, dict[str, Any]]:
    """The fitted method, and the header of its model folder."""
    if isinstance(model, str | Path):
        return load_method(model, cohort)
    method = model if isinstance(model, TunedMethod) else getattr(model, "model_", None)
    if not isinstance(method, TunedMethod) or not hasattr(method, "calibration_"):
        raise UsageError("a forecast needs a fitted model of brainroam, or the folder it was saved in")
    return method, getattr(model, "header_", {})


def _looks(method: TunedMethod, cohort: Cohort) -> pd.DataFrame:
    """What the people look like, one row each; NaN where unknown."""
    if method.familiarity_ is None:
        return pd.DataFrame(np.nan, index=range(len(cohort)), columns=list(LOOKS))
    familiarity = method.familiarity_
    return pd.concat([familiarity.measure(part) for part in cohort.batches()], ignore_index=True)


def model_digest(method: TunedMethod) -> str:
    """SHA-256 of a fitted model: its name, settings and every array it learned."""
    digest = hashlib.sha256(content_hash(plain([method.info.name, method.configuration_])).encode())
    for name, array in sorted(method.state().items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def people_digest(subjects: Any, digests: Any) -> str:
    """SHA-256 of ids and the digests of their series, in any order."""
    return content_hash(sorted([str(subject), digest] for subject, digest in zip(subjects, digests, strict=True)))
