"""External validation: what a model is worth at new sites whose diagnoses are known, and whether that was foretold.

The inner held-out sites of a model say where its AUC at a next site is to be expected (`verdict`): the prediction
interval is for the true AUC of that site, and is compared with the interval of what is then found. Of a number the
correlation within a site and its level are held against the interval of what is to be *observed* there, as in a
forecast.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import Target
from brainroam.errors import listed
from brainroam.evaluation.forecast import expected_number
from brainroam.evaluation.next_site import balanced_metrics
from brainroam.evaluation.stats import numbers
from brainroam.evaluation.stats.metrics import auc, calibration
from brainroam.evaluation.stats.numbers import amount, two_digits, variances_of_means
from brainroam.evaluation.stats.site_scores import WORKS
from brainroam.evaluation.stats.verdict import LEVEL, observed_next, site_intervals, verdict

COLUMNS = (
    "site",
    "n",
    "n_cases",
    "auc",
    "low",
    "high",
    "balanced_acc",
    "mean_probability",
    "share",
    "calibration_slope",
    "brier",
)


def foretold(inner_sites: pd.DataFrame) -> dict[str, float]:
    """What the AUCs of inner held-out sites (`TunedMethod.inner_sites_`) say of a next site; nothing where they cannot.

    >>> sites = pd.DataFrame({"auc": [0.6, 0.7, 0.65, 0.8, 0.75], "n_cases": 20, "n_controls": 20})
    >>> {name: round(value, 2) for name, value in foretold(sites).items()}
    {'n_sites': 5, 'auc': 0.7, 'low': 0.37, 'high': 0.94}
    """
    expected = verdict(*(inner_sites[name].to_numpy() for name in ("auc", "n_cases", "n_controls")))
    if np.isnan(expected.next_low):
        return {}
    return {"n_sites": expected.n_sites, "auc": expected.mean, "low": expected.next_low, "high": expected.next_high}


def validate(predictions: pd.DataFrame) -> pd.DataFrame:
    """Measure predictions of people whose diagnosis is known, site by site.

    Parameters
    ----------
    predictions : DataFrame
        ``site``, ``label`` (NaN where unknown), ``probability`` and ``predicted``; without a column ``label`` nothing
        is known. Where ``person`` says whose scan a row is (``subject``), a person counts once at a site, with the
        mean probability and the class of most scans.

    Returns
    -------
    DataFrame
        One row per site with a known diagnosis: ``n``, ``n_cases``, ``auc`` with its 95 % interval (``low``, ``high``),
        ``balanced_acc``, ``mean_probability`` against the ``share`` of cases (calibration in the large),
        ``calibration_slope`` and ``brier``. What a site with one class cannot tell is NaN.

    Examples
    --------
    >>> table = pd.DataFrame({"site": "A", "label": [0, 0, 1, 1], "probability": [0.2, 0.6, 0.4, 0.8],
    ...                       "predicted": [0, 1, 0, 1]})
    >>> validate(table)[["n", "auc", "balanced_acc", "mean_probability"]].values.round(2).tolist()
    [[4.0, 0.75, 0.5, 0.5]]
    """
    if "label" not in predictions:
        return pd.DataFrame(columns=list(COLUMNS))
    rows = []
    for site, people in people_of(predictions.dropna(subset="label")).groupby("site"):
        label, probability = people["label"].to_numpy(dtype=int), people["probability"].to_numpy()
        n, n_cases = len(label), int(label.sum())
        area, called = auc(label, probability), people["predicted"].to_numpy() >= 0.5
        rows.append(
            {
                "site": site,
                "n": n,
                "n_cases": n_cases,
                "auc": area,
                "low": np.nan,
                "high": np.nan,
                "balanced_acc": balanced_metrics(label, probability, called)["balanced_acc"],
                "mean_probability": float(probability.mean()),
                "share": n_cases / n,
                "calibration_slope": calibration(label, probability)[0],
                "brier": float(((probability - label) ** 2).mean()),
            }
        )
    sites = pd.DataFrame(rows, columns=list(COLUMNS))
    both = sites["auc"].notna()
    if both.any():
        measured = sites[both]
        cases = measured["n_cases"].to_numpy()
        sites.loc[both, "low"], sites.loc[both, "high"] = site_intervals(
            measured["auc"].to_numpy(), cases, measured["n"].to_numpy() - cases
        )
    return sites


def agreement(sites: pd.DataFrame, expected: Mapping[str, float]) -> Iterator[str]:
    """Sentences: the mean over the sites of `validate`, and whether their AUCs are as `foretold`.

    >>> sites = pd.DataFrame({"site": ["A"], "n": [40], "n_cases": [20], "auc": [0.5], "low": [0.3], "high": [0.7]})
    >>> next(agreement(sites, {"n_sites": 5, "auc": 0.8, "low": 0.6, "high": 0.9}))
    'The 5 training sites foretold an AUC of 0.60 to 0.90 at a next site. Below, but its interval reaches it: A.'
    """
    measured = sites.dropna(subset="auc")
    if measured.empty:
        yield "No AUC: no site has people of both classes whose diagnosis is known."
        return
    if len(measured) > 1:
        judged = verdict(measured["auc"], measured["n_cases"], measured["n"] - measured["n_cases"])
        none = judged.reason.partition("; two sites")[0]  # which predict each other where they are held out, not here
        span = none if np.isnan(judged.low) else f"95 % interval {judged.low:.2f} to {judged.high:.2f}"
        yield f"Mean AUC of {len(measured)} sites: {judged.mean:.2f} ({span})."
    if not expected:
        yield "The model foretells no AUC at a next site: that needs four inner held-out sites with both classes."
        return
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
        yield f"Scores are reversed at {listed(turned)}: look whether codes of cases and controls are swapped there."


def foretold_number(inner_sites: pd.DataFrame, sites: pd.DataFrame) -> pd.DataFrame:
    """What inner held-out sites say of the order and level to be *observed* at each of these sites, 95 % limits.

    Parameters
    ----------
    inner_sites : DataFrame
        `TunedMethod.inner_sites_`.
    sites : DataFrame
        ``site``, how many people it has (``n``), and the standard deviation of their scores (``spread``). Fewer people
        scatter more, and where scores spread further a correlation is easier to have (`brainroam.evaluation.forecast`).

    Returns
    -------
    DataFrame
        ``site``, ``r_low``, ``r_high``, and in units of the target ``level_low``, ``level_high``; NaN where nothing can
        be said.

    Examples
    --------
    >>> inner = pd.DataFrame({"site": list("ABCDE"), "n": 40, "r": [0.5, 0.6, 0.4, 0.5, 0.55], "level": 0.0,
    ...     "level_var": 0.2, "off": [-2.0, 1, 0, 2, -1], "off_sd": 3.0, "spread": 1.0})
    >>> new = pd.DataFrame({"site": ["few", "many"], "n": [10, 400], "spread": 1.0})
    >>> foretold_number(inner, new).round(2).to_numpy().tolist()
    [['few', -0.23, 0.88, -6.55, 6.55], ['many', 0.25, 0.7, -6.32, 6.32]]
    """
    measured = inner_sites.to_dict("list")
    people, off = (inner_sites[name].to_numpy(dtype=float) for name in ("n", "off"))
    variances = variances_of_means(people, people * np.square(inner_sites["off_sd"].to_numpy(dtype=float)))
    rows = []
    for site, n, spread in sites[["site", "n", "spread"]].itertuples(index=False):
        order = expected_number(measured, n, spread)["expected"]["r"]
        sampling = float(np.mean(variances * people)) / n if len(people) else np.nan
        ((low, high),) = observed_next(off, variances, sampling, (LEVEL,))[1]
        rows.append((site, order["low_95"], order["high_95"], low, high))
    return pd.DataFrame(rows, columns=["site", "r_low", "r_high", "level_low", "level_high"])


def validate_number(predictions: pd.DataFrame, target: Target, constant: float, slope: float = 1.0) -> pd.DataFrame:
    """Measure predictions of people whose number is known, site by site (`numbers.site_metrics`).

    ``constant`` is the mean of the training people, ``slope`` that of predictions on scores, which gives the
    ``spread`` of scores. The table has ``site``, ``label`` (NaN where unknown), ``predicted`` and, where there are
    intervals, ``low_80``, ``high_80``, ``low_90``, ``high_90``; a person with several scans counts once, as in
    `validate`.
    """
    if "label" not in predictions:
        return pd.DataFrame()
    rows = []
    for site, people in people_of(predictions.dropna(subset="label")).groupby("site"):
        truth, predicted = (people[name].to_numpy(dtype=float) for name in ("label", "predicted"))
        inside = {
            f"covered_{level}": float(np.mean((people[f"low_{level}"] <= truth) & (truth <= people[f"high_{level}"])))
            for level in (80, 90)
            if f"low_{level}" in people and people[f"low_{level}"].notna().all()
        }
        spread = np.std(target.forward(predicted), ddof=1) / slope if len(people) > 1 and slope > 0 else np.nan
        metrics = numbers.site_metrics(truth, predicted, constant, target, inside)
        rows.append({"site": site, **metrics, "spread": float(spread)})
    return pd.DataFrame(rows)


def number_agreement(sites: pd.DataFrame, target: Target, inner_sites: pd.DataFrame) -> Iterator[str]:
    """Sentences: the verdict over the sites of `validate_number`, and whether order and level are as foretold.

    >>> sites = pd.DataFrame({"site": ["A"], "n": [40], "spread": [1.0], "r": [0.1], "level": [4.0]})
    >>> inner = pd.DataFrame({"site": list("BCDEF"), "n": 40, "r": [0.5, 0.6, 0.4, 0.5, 0.55], "level": 0.0,
    ...     "level_var": 0.2, "off": [-2.0, 1, 0, 2, -1], "off_sd": 3.0, "spread": 1.0})
    >>> list(number_agreement(sites, Target.of_kind("age", "number"), inner))
    ['The 5 training sites foretold the correlation to be observed at a site (95 % intervals). Below: A (.10, foretold \
.13 to .76).', 'They foretold by how much the mean prediction is off (age). Inside: A (+4, foretold -6.4 to +6.4).']
    """
    measured = sites.dropna(subset="r")
    if len(measured) > 1:
        yield numbers.verdict(measured).sentence(target)
    foretold = sites[["site", "r", "level"]].merge(foretold_number(inner_sites, sites), on="site")
    if foretold["level_low"].isna().all():
        yield "The model foretells nothing of a next site: that needs four inner held-out sites."
        return
    n_sites = len(inner_sites)
    order = f"The {n_sites} training sites foretold the correlation to be observed at a site (95 % intervals)"
    yield f"{order}. {_places(foretold, 'r', two_digits)}"
    level = f"They foretold by how much the mean prediction is off ({target.name})"
    yield f"{level}. {_places(foretold, 'level', partial(amount, digits=2, sign=True))}"


def _places(sites: pd.DataFrame, name: str, show: Callable[[float], str]) -> str:
    """Where each site lies: inside, below or above what was foretold of it, or that nothing was."""
    places: dict[str, list[str]] = {"Inside": [], "Below": [], "Above": [], "Nothing foretold": []}
    for site, value, low, high in sites[["site", name, f"{name}_low", f"{name}_high"]].itertuples(index=False):
        if np.isnan(low) or np.isnan(value):
            places["Nothing foretold"].append(str(site))
            continue
        place = "Below" if value < low else "Above" if value > high else "Inside"
        places[place].append(f"{site} ({show(value)}, foretold {show(low)} to {show(high)})")
    return "; ".join(f"{place}: {listed(here, 40)}" for place, here in places.items() if here) + "."
