"""Foretell what a model will be worth at new sites before their diagnoses are opened.

A forecast says for each new site what will be *observed* there: the AUC (order), balanced accuracy at the model's
threshold, level and Brier score (`brainroam.data.target.shifts`), each with intervals of 80 and 95 %. They follow
from the same measures at the inner held-out sites of the training, from how many people the new site has and from its
expected share of cases:

    AUC      true AUC of a next site (`verdict`), then sampling of m cases and n controls (`observed_auc`)
    others   A ~ N(mu, tau^2 + v),   v = mean_s(v_s h_s) / h,   1/h = 1/m + 1/n (`observed_next`)

For a number (age, a score) the order is the correlation r of scores and values within the site, on Fisher's scale, and
the level is the mean of predicted minus true values on the scale it was learned on:

    atanh r      ~ N(mu + b (x - mean x), tau^2 + 1 / (n - 3)),   x = log sd of the site's scores (`observed_on_line`)
    mean error   ~ N(mu, tau^2 + mean_s(v_s n_s) / n)   (`observed_next`)

Where the people of a site differ more in what is predicted, scores spread further, and a correlation is easier to have:
with score = beta t + e, r^2 = 1 - var(e) / var(score). The spread of scores is known without the number.

Of several classes the order is the mean over classes of the AUC against the rest, and balanced accuracy the mean share
of a class called right; a site counts as one of m cases and m controls (`targets.equivalent_sizes`), by the shares of
the classes that are expected there.

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
from brainroam.data.target.calibration import as_shares
from brainroam.data.target.order import equivalent_sizes, shared_error
from brainroam.data.target.shifts import MEASURES
from brainroam.errors import BrainroamError, DataError, UsageError, counted
from brainroam.evaluation.code_version import code_version
from brainroam.evaluation.pipelines import PipelineAgreement, compare_versions
from brainroam.evaluation.run_records import plain
from brainroam.evaluation.stats.metrics import mean_over_sites, site_weights
from brainroam.evaluation.stats.numbers import variances_of_means
from brainroam.evaluation.stats.verdict import (
    MIN_SITES_NEXT,
    observed_auc,
    observed_next,
    observed_on_line,
    verdict,
)
from brainroam.methods.familiarity import known_share
from brainroam.methods.predictions import predictions
from brainroam.methods.saving import load_method, prepared_as_in_training
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.files import content_hash, read_checksummed, write_checksummed
from brainroam.utils.html import html_summary

LEVELS = (0.8, 0.95)
LIMITS = tuple(f"{side}_{100 * level:.0f}" for level in LEVELS for side in ("low", "high"))
NAMES = {
    **{"auc": "AUC", "balanced_acc": "balanced accuracy", "level": "balanced level"},
    "brier": "balanced Brier score",  # cases and controls count alike; that of `predict` is at the share of cases
    **{"r": "correlation", "mean_error": "mean error"},
}
RANGE = {"auc": (0.0, 1.0), "balanced_acc": (0.0, 1.0), "level": (-0.5, 0.5), "brier": (0.0, 1.0)}
ONE_PERSON = "one person has no AUC"
LEAST_FOR_R = 5  # people of a site below which nothing is foretold of a correlation
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
        return Target.of_description(self.content.get("number") or self.content.get("classes"))

    @property
    def order(self) -> str:
        """The measure of the order of people: ``auc``, or ``r`` for a number."""
        return "r" if self.target.is_number else "auc"

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
                f"{', '.join(spans)}{self._assumed_shares()}"
            )
        others = [
            f"{NAMES[name]} {round(x['expected'], 2) + 0.0:.2f} ({x['low_95']:.2f} to {x['high_95']:.2f})"
            for name, x in expected.items()
            if name != self.order and x["low_95"] is not None
        ]
        if others:
            yield f"{row['site']}: {'; '.join(others)}, 95 % intervals"

    def _assumed_shares(self) -> str:
        """For which shares of cases, or classes, the forecast is made, in words; nothing for a number."""
        share = self.content["prevalence"]
        if share is None:
            return ""
        if self.target.is_classes:
            return f" if classes are as frequent as {'stated' if share['stated'] else 'in training'}"
        return f" if {share['value']:.0%} are cases, {'as stated' if share['stated'] else 'as in training'}"

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
    target = method.target_
    if target.name in cohort.table:  # where nobody said that this column is the target
        cohort = cohort.with_columns(pd.DataFrame({target.name: np.full(len(cohort), np.nan)}))
    _require_possible(target, prevalence, other)
    cohort = prepared_as_in_training(header, cohort) if header else cohort
    share = known_share(header["training"], cohort) if header else 0.0
    if share > 0:
        raise DataError(
            f"about {share:.0%} of these people were in the training of this model: a forecast is about people it has "
            "never seen; leave them out (--exclude)"
        )
    agreement = None if other is None else compare_versions(method, cohort, other.without_labels(telling=False))
    measured = method.inner_sites_.to_dict("list")
    (table, expected_share), scores = _predict(method, cohort, prevalence), method.score(cohort)
    rows = table.assign(
        person=persons(cohort.table).to_numpy(),
        digest=digests,
        site=table["site"].astype(str),
        **({} if target.is_classes else {"score": scores}),
    )
    looks = _looks(method, cohort)
    odd = method.readout_.odd_sites(rows, scores)
    sites = [
        {
            "site": str(name),
            **_expected_at(target, here, measured, expected_share, agreement),
            "trained_on": str(name) in map(str, measured["site"]),
            "odd": odd.get(str(name), ""),
            "looks": {**looks.loc[here.index, list(LOOKS)].mean(), "flagged": int((here["flags"] != "").sum())},
        }
        for name, here in rows.groupby("site", sort=True)
    ]
    of_classes = [f"score_{name}" for name in target.classes] if target.is_classes else []
    columns = ["subject", "person", "site", "score", *of_classes, "probability", "predicted", "flags", "digest"]
    content = {
        "kind": "forecast",
        "target": "two classes" if target.is_two_classes else target.name,
        **({} if target.is_two_classes else {"number" if target.is_number else "classes": target.described()}),
        "made": {"time": time or datetime.now(UTC).isoformat(timespec="seconds"), "code": code_version(method.info)},
        "model": {
            "digest": model_digest(method),
            "method": method.info.name,
            "threshold": method.calibration_.threshold if target.is_two_classes else None,
            "n_sites": len(measured["site"]),
        },
        "people": people_digest(rows["subject"], digests),
        "after": after,
        "prevalence": None if target.is_number else {"value": expected_share, "stated": prevalence is not None},
        "pipelines": None if agreement is None else agreement.content,
        "sites": sites,
        "persons": rows[[name for name in columns if name in rows]].sort_values("subject").to_dict("records"),
    }
    return Forecast(plain(content))


def _require_possible(target: Target, prevalence: Any, other: Cohort | None) -> None:
    """Refuse a prevalence or another pipeline that a forecast of this target cannot use."""
    if target.is_number and prevalence is not None:
        raise UsageError(f"a share of cases belongs to forecasts of classes; {target.name} is a number")
    if target.is_two_classes and isinstance(prevalence, Mapping):
        raise UsageError("a forecast of two classes takes one prevalence: the share of cases, such as 0.3")
    if other is not None and not target.is_two_classes:
        raise UsageError(f"another pipeline belongs to forecasts of two classes; {target.name} is: {target.kind}")


def _predict(method: TunedMethod, cohort: Cohort, prevalence: Any) -> tuple[pd.DataFrame, Any]:
    """Predictions of everybody, and the share of cases, or of each class, to be expected there."""
    target = method.target_
    if target.is_number:
        return predictions(method, cohort), None
    if target.is_classes:
        shares = method.calibration_.prevalence if prevalence is None else as_shares(prevalence, target.classes)
        return predictions(method, cohort, prevalence=prevalence), shares.tolist()
    table = predictions(method, cohort, prevalence=prevalence, advise=False)
    return table, float(table["prevalence"].iloc[0])


def _expected_at(
    target: Target,
    people: pd.DataFrame,
    measured: Mapping[str, list[float]],
    share: Any,
    agreement: PipelineAgreement | None,
) -> dict[str, Any]:
    """How many people a site has, and what to expect of each measure there."""
    n = int(people["person"].nunique())
    if target.is_classes:
        return {"n": n, **expected_classes(measured, n * np.array(share))}
    if target.is_number:
        spread = float(people.groupby("person")["score"].mean().std())
        return {"n": n, "spread": spread, **expected_number(measured, n, spread)}
    return {"n": n, **expected_two_classes(measured, n, share, agreement)}


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


def expected_two_classes(
    measured: Mapping[str, list[float]], n: int, share: float, agreement: PipelineAgreement | None
) -> dict[str, Any]:
    """Each measure at a site of n people, with its limits; None where nothing can be promised, with the reason."""
    cases = min(max(n * share, 1.0), max(n - 1.0, 1.0))
    expected = expected_measures(measured, cases, n - cases)
    if agreement is not None:
        expected = agreement.widen(expected, expected_measures(measured, cases, n - cases, agreement.kept)["auc"])
    reason = ""
    if expected["auc"]["low_95"] != expected["auc"]["low_95"]:
        reason = ONE_PERSON if n < 2 else _refusal(*(measured[name] for name in ("auc", "n_cases", "n_controls")))
    return {"expected": expected, "reason": reason}


def _refusal(*sites: Any) -> str:
    """Why inner held-out sites allow no forecast, in the words of `verdict`."""
    if not len(sites[0]):
        return "the model keeps no results of held-out sites; a pooled one does after its third round"
    if len(sites[0]) < MIN_SITES_NEXT:
        return f"fewer than {MIN_SITES_NEXT} inner held-out sites have both classes"
    return verdict(*sites).reason.partition(": ")[2]


def expected_number(measured: Mapping[str, Any], n: int, spread: float) -> dict[str, Any]:
    """As `expected_two_classes`, of a number at a site of n people whose scores have this standard deviation."""
    names = ("r", "level", "level_var", "n", "spread")
    r, level, level_var, people, spreads = (np.asarray(measured[name], dtype=float) for name in names)
    level_var = variances_of_means(people, level_var * people * (people - 1)) if len(people) else level_var
    enough = n >= LEAST_FOR_R
    left = 1 / np.maximum(people - 3, 1)
    with np.errstate(divide="ignore"):
        looks, look = np.log(spreads), float(np.log(spread))
    blur = max(1 / (2 * max(n - 1, 1)) - float(np.mean(1 / (2 * np.maximum(people - 1, 1)))), 0) if len(people) else 0
    z = np.arctanh(np.clip(r, -0.999, 0.999))
    mean, spans = observed_on_line(z, left, 1 / max(n - 3, 1), looks, look, blur, LEVELS)
    order = np.tanh([mean, *(limit for span in spans for limit in span)]) if enough else np.full(5, np.nan)
    expected = {"r": dict(zip(("expected", *LIMITS), order.tolist(), strict=True))}
    mean, spans = observed_next(level, level_var, float(np.mean(level_var * people)) / n, LEVELS)
    expected["mean_error"] = dict(
        zip(("expected", *LIMITS), [mean, *(limit for span in spans for limit in span)], strict=True)
    )
    too_few = "it takes four inner held-out sites with enough people"
    reason = "" if np.isfinite(order[1]) else too_few if enough else "there are fewer than five people"
    return {"expected": expected, "reason": reason}


def expected_classes(measured: Mapping[str, Any], people: np.ndarray) -> dict[str, Any]:
    """As `expected_two_classes`, of several classes at a site with so many people of each (K,)."""
    names = ("auc", "m", "auc_var", "class_var", "balanced_acc", "balanced_acc_var")
    auc, m, together, alone, called, called_var = (np.asarray(measured[name], dtype=float) for name in names)
    expected = {name: dict.fromkeys(("expected", *LIMITS), np.nan) for name in ("auc", "balanced_acc")}
    here = float(equivalent_sizes(people[None])[0])
    if len(auc) and here > 0 and people.sum() >= 2:
        rho = shared_error(m, np.column_stack([together, alone]), len(people))
        counted = m / rho  # nearly `equivalent_sizes` with this share
        areas = observed_auc(auc, counted, counted, here / rho, here / rho, LEVELS)
        expected["auc"] = _with_limits("auc", mean_over_sites(auc, site_weights(m, m)), areas)
        variance = float(np.mean(called_var * m)) / here
        expected["balanced_acc"] = _with_limits("balanced_acc", *observed_next(called, called_var, variance, LEVELS))
    reason = ""
    if not np.isfinite(expected["auc"]["low_95"]):
        reason = ONE_PERSON if people.sum() < 2 else _refusal(auc, m, m)
    return {"expected": expected, "reason": reason}


def expected_measures(
    measured: Mapping[str, Any], m: float, n: float, kept: float = 1.0
) -> dict[str, dict[str, float]]:
    """``expected`` and limits of each measure at a site of m cases and n controls.

    ``measured`` are columns of `brainroam.data.target.shifts.inner_sites`, ``kept`` is that of `observed_auc`.

    >>> sites = {"auc": [0.6, 0.7, 0.65, 0.8, 0.75], "n_cases": [20] * 5, "n_controls": [20] * 5}
    >>> sites |= {name: [0.6, 0.7, 0.6, 0.7, 0.7] for name in MEASURES}
    >>> sites |= {f"{name}_var": [0.005] * 5 for name in MEASURES}
    >>> found = expected_measures(sites, 20, 20)
    >>> round(found["auc"]["expected"], 2), round(found["balanced_acc"]["low_95"], 2)
    (0.7, 0.44)
    """
    nothing = dict.fromkeys(("expected", *LIMITS), np.nan)
    if not measured or not len(measured["auc"]) or min(m, n) <= 0:
        return {name: dict(nothing) for name in ("auc", *MEASURES)}
    cases, controls = (np.asarray(measured[name], dtype=float) for name in ("n_cases", "n_controls"))
    areas = observed_auc(measured["auc"], cases, controls, m, n, LEVELS, kept)
    mean = mean_over_sites(measured["auc"], site_weights(cases, controls))
    expected = {"auc": _with_limits("auc", mean, areas)}
    people, here = 1 / (1 / cases + 1 / controls), 1 / (1 / m + 1 / n)
    for name in MEASURES:
        values, variances = (np.asarray(measured[f"{name}{end}"], dtype=float) for end in ("", "_var"))
        variance = float(np.mean(variances * people)) / here
        expected[name] = _with_limits(name, *observed_next(values, variances, variance, LEVELS))
    return expected


def _with_limits(name: str, mean: float, intervals: list[tuple[float, float]]) -> dict[str, float]:
    limits = np.clip([limit for pair in intervals for limit in pair], *RANGE[name])
    return {"expected": mean, **dict(zip(LIMITS, limits.tolist(), strict=True))}


def model_digest(method: TunedMethod) -> str:
    """SHA-256 of a fitted model: its name, settings and every array it learned."""
    digest = hashlib.sha256(content_hash(plain([method.info.name, method.configuration_])).encode())
    for name, array in sorted(method.state().items()):
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def people_digest(subjects: Any, digests: Any) -> str:
    """SHA-256 of ids and the digests of their series, in any order."""
    return content_hash(sorted([str(subject), digest] for subject, digest in zip(subjects, digests, strict=True)))
