"""A plan: what more sites, or more people at each, would bring, in sentences that name their uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd

from brainroam.data.cohort import Cohort
from brainroam.data.people import people_of, persons
from brainroam.data.target import Target
from brainroam.data.target.orders import Order
from brainroam.errors import BrainroamError, DataError, UsageError, listed, unknown
from brainroam.evaluation.planning.draws import Draw, draws, usable_sites
from brainroam.evaluation.planning.law import Law, fit_law
from brainroam.evaluation.planning.power import Contrast, contrast
from brainroam.evaluation.results import Results
from brainroam.evaluation.stats.families import CONTROLS
from brainroam.execution import engine as engines
from brainroam.execution.progress import View, show_progress
from brainroam.methods.registry import STANDARD_TUNING, method_info, parse_name
from brainroam.methods.tuning import TunedMethod
from brainroam.utils.html import html_summary

FARTHEST = 2  # times as many sites or people as there are: beyond, a curve says nothing


@dataclass(frozen=True)
class Plan:
    """What `make_plan` found.

    Attributes
    ----------
    method : str
    law : Law or None
        The learning curve; None where only finished runs were read.
    table : DataFrame
        One row per draw and test site, see `law.fit_law`.
    contrast : Contrast or None
        What tells two methods apart.
    sentences, notes : list of str
    facts : dict
        The cohort's manifest hash, seed and settings.
    """

    method: str
    law: Law | None
    table: pd.DataFrame = field(repr=False)
    contrast: Contrast | None
    sentences: list[str]
    notes: list[str]
    facts: dict[str, Any]

    def points(self) -> pd.DataFrame:
        """Mean AUC, or r, over sites (`Figure.mean`) for each number of training sites and share of people."""
        if self.law is None:
            return pd.DataFrame()
        figure = self.law.figure
        table = self.table.assign(value=figure.forward(self.table[figure.name].to_numpy()))
        cells = table.groupby(["n_sites", "share", "site"])[["n_people", "value", "weight"]].mean()
        rows = [
            (*key, cell["n_people"].mean(), figure.mean_of(cell["value"], cell["weight"]))
            for key, cell in cells.groupby(["n_sites", "share"])
        ]
        return pd.DataFrame(rows, columns=["n_sites", "share", "n_people", figure.name])

    def _repr_html_(self) -> str:
        """For notebooks: the measured points of the curve, and the answers."""
        return html_summary(f"Plan with {self.method}", self.points(), [*self.sentences, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single draws, as plain values."""
        content: dict[str, Any] = {"method": self.method, **self.facts, "points": [], "curve": []}
        if self.law is not None:
            reach = range(2, FARTHEST * self.law.n_sites + 1)
            content["law"] = {"coef": self.law.coef.tolist(), "people_per_site": self.law.people_per_site}
            content["law"] |= {"n_sites": self.law.n_sites}
            content["points"] = self.points().to_dict("records")
            content["curve"] = [
                {"n_sites": n, self.law.figure.name: self.law.expected(n), "low": low, "high": high}
                for n in reach
                for low, high in [self.law.interval(n)]
            ]
        if self.contrast is not None:
            content["contrast"] = {name: value for name, value in vars(self.contrast).items() if name != "order"}
        return content | {"sentences": self.sentences, "notes": self.notes}


def make_plan(
    cohort: Cohort,
    methods: Sequence[str] = ("ensemble", "fc-ridge"),
    *,
    more_sites: int = 5,
    difference: float = 0.02,
    n_draws: int = 20,
    seed: int = 0,
    tuning: str = STANDARD_TUNING,
    jobs: int = 1,
    progress: bool | View = False,
) -> Plan:
    """Measure a learning curve on smaller studies drawn from this one, and say what more data would bring.

    Parameters
    ----------
    cohort : Cohort
        Six sites at least that have both classes; of several, two people of two; of a number, four people.
    methods : sequence of str
        The method to plan for and, if given, one it should be told apart from.
    more_sites : int
        Sites one thinks of adding; a plan for more than twice the sites there are is refused.
    difference : float
        AUC difference, of a number difference in r, that a comparison should be able to find.
    n_draws : int
        Smaller studies for each number of sites and share of people.
    seed, tuning, jobs, progress
        See `brainroam.evaluate`.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=7, n_per_site=16, n_rois=10)
    >>> plan = make_plan(cohort, ["fc-ridge"], n_draws=4)
    >>> print(plan.sentences[1][:70])
    With 5 more sites like these, a model of 12 sites is expected to reach
    """
    order = cohort.target.order
    sites = usable_sites(cohort.table, cohort.target)
    if not 0 < more_sites <= (FARTHEST - 1) * len(sites):
        raise UsageError(
            f"{more_sites} more sites than the {len(sites)} there are: give between 1 and {len(sites)}; beyond twice "
            "the sites that were measured, the curve is a guess"
        )
    parts = _measure(cohort, list(methods), n_draws, seed, tuning, jobs, progress)
    table, figure = _by_site(parts[parts["method"] == methods[0]], cohort.target), order.figure
    full = table[table["n_sites"] == table["n_sites"].max()]
    if figure.mean(full[figure.name], full["weight"]) < figure.least:
        raise DataError(
            f"{methods[0]} has a {figure.words} below {figure.least} at left-out sites: there is no curve to extend; "
            "look at brainroam check and audit first, or choose another method"
        )
    law = fit_law(table, len(sites), seed, weights=table.groupby("site")["weight"].first(), figure=figure)
    last = parts[(parts["n_sites"] == len(sites) - 1) & (parts["share"] == 1)]
    apart = contrast(last, methods, cohort.target) if len(methods) > 1 else None
    facts = {
        "manifest_hash": cohort.manifest_hash,
        "n_sites": len(sites),
        "n_people": cohort.n_people,
        "seed": seed,
        "n_draws": n_draws,
        "tuning": tuning,
    }
    sentences = [*_curve_sentences(methods[0], table, law, more_sites, order)]
    sentences += comparison_sentences(apart, difference, law.people_per_site) if apart else []
    left_out = sorted(set(cohort.sites) - set(sites))
    notes = [f"Sites without {order.needs} took no part: {', '.join(left_out)}."] if left_out else []
    return Plan(methods[0], law, table, apart, sentences, notes, facts)


def plan_of_runs(results: Results, methods: Sequence[str] | None = None, difference: float = 0.02) -> Plan:
    """What it takes to tell two methods apart, from finished leave-one-site-out runs; no learning curve.

    ``methods`` are two names; by default the first two that are no controls.
    """
    rows = results.predictions[results.predictions["protocol"] == "loso"]
    available = sorted(rows["method"].unique())
    chosen = list(methods) if methods else [name for name in available if name not in CONTROLS][:2]
    for name in chosen:
        if name not in available:
            raise unknown("method run under leave-one-site-out", name, available)
    if len(chosen) < 2:
        raise UsageError(
            f"a comparison needs two methods that are no controls, and these runs have {listed(available) or 'none'}; "
            "name two with --methods, or run another method into the same folder"
        )
    apart = contrast(rows, chosen, results.target)
    people = persons(rows).groupby(rows["site"]).nunique().mean()
    notes = ["Finished runs hold one number of sites only; brainroam plan DATA measures the learning curve."]
    facts = {"manifest_hash": results.study["manifest_hash"], "n_sites": apart.n_sites}
    return Plan(chosen[0], None, pd.DataFrame(), apart, comparison_sentences(apart, difference, people), notes, facts)


class _Task(NamedTuple):
    draw: Draw
    method: str
    tuning: str


def _measure(
    cohort: Cohort, methods: Sequence[str], n_draws: int, seed: int, tuning: str, jobs: int, progress: bool | View
) -> pd.DataFrame:
    """Scores of all draws by the first method, and of leave-one-site-out by the second."""
    for name in methods:
        info = method_info(parse_name(name)[0])
        if info.in_distribution_only:
            raise UsageError(f"{name} cannot predict at a site it was not trained on")
    every = list(draws(cohort.table, n_draws, seed, cohort.target))
    largest = max(draw.n_sites for draw in every)
    tasks = [_Task(draw, methods[0], tuning) for draw in every]
    tasks += [
        _Task(draw, name, tuning)
        for name in methods[1:2]
        for draw in every
        if (draw.n_sites, draw.share) == (largest, 1)
    ]
    parts = []
    with show_progress(len(tasks), progress) as advance:
        for task, scored in engines.map(_score, tasks, cohort, jobs):
            if isinstance(scored, engines.Failure):
                raise BrainroamError(f"{task.method} with {task.draw.n_sites} training sites failed: {scored.error}")
            parts.append(scored)
            advance(f"{task.method}, {task.draw.n_sites} sites, {task.draw.share:.0%} of their people")
    return pd.concat(parts, ignore_index=True)


def _score(cohort: Cohort, task: _Task) -> pd.DataFrame:
    draw, (name, fixed) = task.draw, parse_name(task.method)
    model = TunedMethod(method_info(name), task.tuning, **fixed).fit(cohort.subset(draw.train), 0)
    people = cohort.subset(draw.test)
    about = {"method": task.method, "n_sites": draw.n_sites, "share": draw.share, "draw": draw.number}
    scores = cohort.target.score_table(model.score(people))
    rows = people_of(people.table.assign(**scores))[["site", "subject", "label", *scores]]
    return rows.assign(n_people=cohort.subset(draw.train).n_people, seed=0, **about)


def _by_site(parts: pd.DataFrame, target: Target) -> pd.DataFrame:
    """One row per draw and test site: the figure, its weight, and how many people."""
    keys, order = ["n_sites", "share", "draw", "n_people", "site"], target.order
    rows = []
    for key, here in parts.groupby(keys):
        label = here["label"].to_numpy()
        value, weight = order.at_site(label, target.scores_of(here))
        about = dict(zip(keys, key, strict=True))
        rows.append({**about, order.figure.name: value, "weight": weight, **target.how_many(label)})
    return pd.DataFrame(rows)


def _curve_sentences(method: str, table: pd.DataFrame, law: Law, more: int, order: Order) -> list[str]:
    now, people, figure = law.n_sites, law.people_per_site, law.figure
    whole = table[(table["n_sites"] == now - 1) & (table["share"] == 1)]
    measured = figure.mean(whole[figure.name], whole["weight"])
    after, (low, high), gain = law.expected(now + more), law.interval(now + more), law.gain(now + more)
    fuller = people * (now + more) / now
    people_gain = law.gain(now, fuller)
    apart = law.gain(now + more, people, now, fuller)
    if apart.low > 0:
        which = "new sites help more than more people at the present ones"
    elif apart.high < 0:
        which = "more people at the present sites help more than new ones"
    else:
        which = "these data cannot tell which helps more"
    return [
        f"{method}, trained on {now - 1} of these {now} sites ({people:.0f} people each, on average), reaches a "
        f"{figure.words} of {figure.form(measured)} at the site left out ({order.rule}).",
        f"With {more} more sites like these, a model of {now + more} sites is expected to reach {figure.form(after)} "
        f"at a new one (95 % interval {figure.form(low)} to {figure.form(high)}): {figure.form_change(gain)} more "
        f"than a model of the {now}.",
        f"The same {more * people:.0f} people, scanned at the present {now} sites ({fuller:.0f} at each), would bring "
        f"{figure.form_change(people_gain)}. New sites minus more people: {figure.form_change(apart)}; {which}.",
    ]


def comparison_sentences(apart: Contrast, difference: float, people: float) -> list[str]:
    """What it takes to tell two methods apart by so much."""
    figure, groups, now = apart.order.figure, apart.order.groups, apart.n_sites
    points, chance = figure.form_size(difference), apart.power(now, people, difference)
    sentences = [
        f"{apart.method} and {apart.against} differ by {figure.form_difference(apart.difference)} here. A true "
        f"difference of {points} would be found with {now} sites of {people:.0f} people{groups and f'{groups},'} in "
        f"{chance:.0%} of such studies."
    ]
    needed, sites = apart.people_needed(difference), apart.sites_needed(difference, people)
    goal = f"To find {points} in 80 % of studies"
    if needed is None:
        sentences.append(f"{goal}, no number of people per site is enough with {now} sites: sites differ too much.")
    else:
        sentences.append(f"{goal}, {now} sites need {max(needed, 4)} people each{groups}.")
    if sites is None:
        sentences.append(f"With {people:.0f} people per site, not even 500 sites would do.")
    else:
        sentences.append(f"With {people:.0f} people per site, it takes {sites} sites.")
    return sentences
