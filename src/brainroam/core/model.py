"""CORE: learn from several sites, predict at a site never seen. Composes the steps of the other files, nothing else.

    series -> edges (connectivity) -> residuals (deconfound) -> scaffold -> profiles (profile) -> line graph (linegraph)
           -> gated network (gate), trained on episodes (site_folds, training) -> logit

Whether the linear reading of the pathways or the gated network is believed, or both (choice), is decided on groups of
training sites that are held out in turn. So are, before, the scaffold thresholds and the penalty of the linear reading
where there are several (tables, numbers): by the linear reading, which costs little, or by a network that stands alone.
The out-of-site scores of that choice give the decision threshold and the calibration (`brainroam.methods.tuning`).

New people are read one at a time by frozen pathways: no site is asked for and no statistic of the people read is taken.
"""

import json
from dataclasses import astuple
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from brainroam.core.candidates import Candidate, best_of, foretold_scores
from brainroam.core.choice import Choice, CoreReading, weigh
from brainroam.core.connectivity import cohort_edges
from brainroam.core.deconfound import SiteDeconfounder
from brainroam.core.pathways import Pathways, require_shapes
from brainroam.core.profile import profiles_of, windows_in_volumes
from brainroam.core.recipe import OURS, Recipe
from brainroam.core.scaffold import Scaffold, are_too_small, distinct_thresholds
from brainroam.core.site_folds import NOBODY, AnyEpisode, LeftOut, SiteFolds, UnreadEpisode, predict_logits
from brainroam.core.site_statistics import SiteStatistics, site_statistics
from brainroam.data.atlas import Atlas
from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, EmptyScaffoldError, MemoryLimitError, UsageError, listed
from brainroam.utils.model_files import part
from brainroam.utils.optional import as_array, extra, one_thread, require_device

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork
    from brainroam.core.training import Schedule, Trial

GATE_BUDGET = 80  # K of the paper, for 6,670 edges and more
NOBODY_HELD_OUT = "too few sites to hold one out: the threshold is learned on the training people"


class Decision(NamedTuple):
    """The chosen reading, its scores of held-out people, facts for `CoreModel.chosen_`, and the network's scores."""

    choice: Choice
    scores: np.ndarray
    facts: dict[str, Any]
    network: np.ndarray | None = None


class CoreModel:
    """Cross-site OOD robust brain network classifier, on cohorts.

    Parameters
    ----------
    recipe : Recipe
    seed : int
        Random seed.

    Attributes
    ----------
    scaffold_, deconfounder_, pathways_
        Steps 1 to 5 as learned from all training sites.
    reading_ : CoreReading
        The linear reading, the network, or both, as held-out sites decided.
    inner_scores_ : ndarray of shape (n,) or (n, K)
        Out-of-site logit of each training person, NaN where their site was not or could not be held out.
    inner_network_scores_ : ndarray of shape (n,) or (n, K)
        The same of the network alone; all NaN where none was trained.
    foretold_scores_ : ndarray
        The same, each by choices that were made without the person's site (`brainroam.core.candidates`).
    chosen_ : dict
        ``network``: how far the network is believed, from 0 (the linear reading alone) to 1 (the network alone);
        ``gain``, ``gain_error`` and ``gain_expected``: by how much it ordered people of held-out sites better than the
        linear reading, the standard error of that and what was expected, where both were tried; ``epochs``, where they
        were chosen or given; the thresholds; ``penalty`` of the linear reading, where it was chosen; the inner ``auc``
        of the choice, or ``r`` of a number, where a group of sites could be held out.
    notes_ : list of str
        Every fallback that was taken.

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> model = CoreModel(Recipe(epochs=0, tau_percentile=60)).fit(cohort, cohort.covariates())
    >>> model.score(cohort, cohort.table).shape
    (64,)
    """

    pathways_: Pathways
    scaffold_: Scaffold
    deconfounder_: SiteDeconfounder
    reading_: CoreReading

    def __init__(self, recipe: Recipe = OURS, seed: int = 0) -> None:
        self.recipe, self.seed = recipe, seed

    def fit(self, cohort: Cohort, covariates: pd.DataFrame, nuisance: np.ndarray | None = None) -> Self:
        """Learn from labelled people of several sites, without ``covariates`` and ``nuisance`` variables (n, k)."""
        self.own_units_ = cohort.own_units
        target, site = cohort.target, cohort.table["site"].to_numpy()
        is_small = are_too_small(target.columns(cohort.targets), site, target.coding)
        is_wide = target.coding.widespread or self.own_units_ or is_small
        self.recipe = self.recipe.for_study(cohort.measure, self.own_units_, is_wide)
        if self.recipe.skip == "none" and self.recipe.epochs == 0:
            raise UsageError('skip="none" with epochs=0 leaves nothing to read with; choose one of them')
        if self._trains():
            require_device(self.recipe.device)  # which imports torch: its threads can be told only then
        with one_thread():
            return self._fit(cohort, covariates, np.zeros((len(cohort), 0)) if nuisance is None else nuisance)

    def _fit(self, cohort: Cohort, covariates: pd.DataFrame, nuisance: np.ndarray) -> Self:
        self.n_rois_, self.measure_ = cohort.n_rois, cohort.measure
        self.outputs_ = int(np.prod(cohort.target.score_shape, dtype=int))
        self.notes_: list[str] = []
        if cohort.measure == "table":
            self.notes_.append("columns of a table share no regions: the linear reading alone, without a network")
        usable = self._usable(cohort)
        cohort, covariates = cohort.subset(usable), covariates[usable].reset_index(drop=True)
        recipe = self.recipe
        how = recipe.deconfounder(), recipe.edge_kind, recipe.contrast
        statistics = site_statistics(cohort, covariates, *how, nuisance[usable])
        self._note_sites_without_contrast(statistics, cohort)

        candidates = self._candidates(statistics, cohort)
        best = candidates[best_of(candidates)]
        decision = self._judge(best)
        self.chosen_ = {**best.settings, **decision.facts}
        self._finish(best.folds, decision.choice)
        scores, groups = decision.scores, self._trial_groups(best.folds)
        foretold = foretold_scores(candidates, groups, decision.network)
        if not np.isfinite(scores).any():
            self.notes_.append(NOBODY_HELD_OUT)
            everybody = statistics.features.batches(np.arange(len(cohort)))
            scores = np.concatenate([self.reading_.logits(best.folds.nodes(some)) for some in everybody])
        self.inner_scores_, self.foretold_scores_ = np.full((2, len(usable), *scores.shape[1:]), np.nan)
        self.inner_network_scores_ = self.inner_scores_.copy()
        self.inner_scores_[usable], self.foretold_scores_[usable] = scores, foretold
        if decision.network is not None:
            self.inner_network_scores_[usable] = decision.network
        return self

    def _note_sites_without_contrast(self, statistics: SiteStatistics, cohort: Cohort) -> None:
        names = sorted(set(cohort.table["site"].astype(str)) - set(statistics.sites))
        if names:
            what = cohort.target.coding.needs(cohort.target.name)
            self.notes_.append(f"without {what}, so without a contrast: {listed(names)}")

    def _candidates(self, statistics: SiteStatistics, cohort: Cohort) -> list[Candidate]:
        """Thresholds and penalties to choose from, by how they order held-out people.

        A number goes with edges everywhere, and columns of a table are few, so for both the widest scaffold is kept
        unless another is clearly better: held-out sites often prefer a narrower one by chance.
        """
        candidates: list[Candidate] = []
        grid, seen = self._grid(len(statistics.sites)), set[bytes]()
        for thresholds in grid:
            try:
                folds = self._site_folds(statistics, cohort, thresholds)
            except (EmptyScaffoldError, MemoryLimitError) as error:
                if not candidates and thresholds == grid[-1]:
                    raise
                settings = ", ".join(f"{name} {value:g}" for name, value in thresholds.items())
                self.notes_.append(f"{settings} passed over: {error}")
                continue
            if folds.selected() in seen:  # the same edges in every fold
                continue
            seen.add(folds.selected())
            if self.recipe.skip == "none":
                network, epochs = self._network_scores(folds)
                candidates.append(Candidate.of(folds, thresholds, network[None], epochs))
                continue
            epochs = 0 if self.recipe.epochs == 0 else None
            candidates.append(Candidate.of(folds, thresholds, self._linear_scores(folds), epochs))
        if not candidates:
            raise DataError("tau_percentile, eta and zeta need at least one value each")
        return candidates

    def _judge(self, best: Candidate) -> Decision:
        """Choose the linear reading, the network or a mixture of both, by their scores of held-out people."""
        folds, scores, epochs = best.folds, best.scores, best.epochs
        y, site, n_edges = folds.statistics.y, folds.statistics.site, len(folds.scaffold().consensus)
        coding = folds.statistics.coding
        choice, network = Choice(1.0 if self.recipe.skip == "none" else 0.0), None
        if self.recipe.skip != "none" and self._trains():
            network, epochs = self._network_scores(folds)
            choice = weigh(scores, network, y, site, n_edges, coding)
            scores = choice.combine(scores, network)
        facts: dict[str, Any] = {"network": choice.share}
        if np.isfinite(choice.gain):
            expected, _ = coding.expectation(n_edges)
            facts |= {"gain": choice.gain, "gain_error": choice.error, "gain_expected": expected}
        if epochs is not None:
            facts["epochs"] = epochs
        order = folds.order(scores)
        if order is not None:
            facts[coding.measure] = order
        return Decision(choice, scores, facts, network)

    def _trial_groups(self, folds: SiteFolds) -> list[LeftOut]:
        """The groups of sites that are held out to choose."""
        return folds.held_out_groups()[: self.recipe.trials]

    def _linear_scores(self, folds: SiteFolds) -> np.ndarray:
        """The linear reading by each candidate (C, n), or (C, n, K), of held-out people, by the other sites."""
        scores = np.full((len(folds.candidates), *folds.statistics.y.shape), np.nan)
        for group in self._trial_groups(folds):
            for some in folds.statistics.features.batches(folds.people(group)):
                nodes = folds.nodes(some, group)
                for of_candidate, pathways in zip(scores, folds.pathways_by_candidate(group), strict=True):
                    of_candidate[some] = pathways.contributions(nodes).sum(axis=0)
        return scores

    def _network_scores(self, folds: SiteFolds) -> tuple[np.ndarray, int | None]:
        """Logits (n,) of the people of each group by a network trained without it; the epochs, if chosen or given."""
        scores, epochs = np.full(folds.statistics.y.shape, np.nan), self.recipe.epochs
        groups = self._trial_groups(folds)
        if self.recipe.updates is None and self.recipe.epochs is None:
            trials = [self._trial(folds, group) for group in groups]
            epochs, logits = _training().choose_epochs(trials, self.recipe.max_epochs, self.recipe.patience)
        else:
            logits = [predict_logits(self._train(folds, group, epochs), folds.held_out(group)) for group in groups]
        for group, of_group in zip(groups, logits, strict=True):
            scores[folds.people(group)] = of_group
        return scores, epochs

    def _train(self, folds: SiteFolds, left_out: LeftOut, epochs: int | None) -> "GatedNetwork":
        """A network trained without these sites: for so many epochs, or for the updates of the schedule."""
        network, schedule = self._draw_network(self.recipe.device), self._schedule(folds, left_out)
        episodes = self._episodes(folds, left_out)
        return _training().train_network(network, episodes, schedule, self.seed, epochs)

    def _trial(self, folds: SiteFolds, group: LeftOut) -> "Trial":
        network, schedule = self._draw_network(self.recipe.device), self._schedule(folds, group)
        epochs = _training().training_epochs(network, self._episodes(folds, group), schedule, self.seed)
        people, statistics = folds.people(group), folds.statistics
        label, site = statistics.y[people], statistics.site[people]
        return _training().Trial(network, epochs, folds.held_out(group), label, site, statistics.coding)

    def _finish(self, folds: SiteFolds, choice: Choice) -> None:
        """Train the network on all sites if it is used, and freeze the reading."""
        network = self._train(folds, NOBODY, self.chosen_.get("epochs")) if choice.share > 0 else None
        self.set_reading(folds.pathways(), choice, network)
        self.notes_ = self.deconfounder_.notes_ + self.notes_
        alone = sorted(set().union(*folds.groups) - set().union(*folds.held_out_groups()))
        if alone and folds.held_out_groups():
            self.notes_.append(f"never held out, because without them the scaffold is empty: {listed(alone)}")

    def _site_folds(self, statistics: SiteStatistics, cohort: Cohort, thresholds: dict[str, float]) -> SiteFolds:
        folds = SiteFolds(
            statistics,
            {**thresholds, "sign": self.recipe.sign, "bootstrap": self.recipe.bootstrap, "seed": self.seed},
            residual=self.recipe.train_residual,
            orient=self.recipe.orient,
            skip=self.recipe.skip,
            device=self.recipe.device if self._trains() else None,
            max_pathways=self.recipe.max_pathways,
            standardise=self.recipe.standardise,
            penalties=self.recipe.penalties,
        )
        size = self._read_by_network(folds)
        budget = self.recipe.budget
        if self.recipe.gated and budget is not None and budget > size:
            raise EmptyScaffoldError(
                f"the gate budget K = {budget:g} exceeds the {size} edges of the scaffold that the network reads; "
                f"set budget to at most {size}, or lower tau_percentile ({thresholds['tau_percentile']:g}) or "
                f"eta ({thresholds['eta']:g})"
            )
        n_trained = min(folds.size, self.recipe.max_pathways or folds.size) if self._trains() else 0
        at_a_time = max(self.recipe.batch_size, UnreadEpisode.at_a_time)
        statistics.require_memory(folds.size, n_trained, self.recipe.hidden * at_a_time)
        if self.recipe.profiles and self._trains():
            window, stride = self._windows(cohort)
            folds.profiles = profiles_of(cohort, folds.needed_edges(), window, stride, self.recipe.stretch)
        return folds

    def _episodes(self, folds: SiteFolds, left_out: LeftOut) -> list[AnyEpisode]:
        if self.recipe.train == "joint":
            return folds.joint(left_out)
        episodes = folds.training(left_out)
        if not episodes and left_out == NOBODY:
            self.notes_.append("too few sites for episodic training: trained jointly")
        return episodes + folds.joint(left_out) if self.recipe.train == "both" or not episodes else episodes

    def _trains(self) -> bool:
        """Whether a network is trained at all, which needs torch."""
        return self.recipe.epochs != 0

    def _draw_network(self, device: str) -> "GatedNetwork":
        return _training().build_network(
            self.seed,
            device,
            channels=3 if self.recipe.profiles else 1,
            hidden=self.recipe.hidden,
            layers=self.recipe.layers,
            temperature=self.recipe.temperature,
            prior_strength=self.recipe.prior_strength,
            gated=self.recipe.gated,
            outputs=self.outputs_,
        )

    def _read_by_network(self, folds: SiteFolds, left_out: LeftOut = NOBODY) -> int:
        """How many pathways of a fold the network reads."""
        size = len(folds.scaffold(left_out))
        return size if self.recipe.max_pathways is None else min(size, self.recipe.max_pathways)

    def _schedule(self, folds: SiteFolds, left_out: LeftOut) -> "Schedule":
        half = self._read_by_network(folds, left_out) / 2
        return _training().Schedule(
            budget=min(GATE_BUDGET, half) if self.recipe.budget is None else self.recipe.budget,
            budget_weight=self.recipe.budget_weight,
            learning_rate=self.recipe.learning_rate,
            weight_decay=self.recipe.weight_decay,
            batch_size=self.recipe.batch_size,
            updates=self.recipe.updates if self.recipe.epochs is None else None,
            coding=folds.statistics.coding,
        )

    def _grid(self, n_sites: int) -> list[dict[str, float]]:
        """Every choice of thresholds; of eta those that differ in effect."""
        names = ("tau_percentile", "eta", "zeta")
        values = {name: sorted(set(np.atleast_1d(getattr(self.recipe, name)).tolist())) for name in names}
        values["eta"] = distinct_thresholds(n_sites, values["eta"])
        return [dict(zip(names, point, strict=True)) for point in product(*values.values())]

    def _usable(self, cohort: Cohort) -> np.ndarray:
        """Which people to learn from."""
        refuse_empty(cohort)
        short = self._short(cohort, self._windows(cohort)[0]) & self.recipe.profiles
        if short.any():
            people = listed(cohort.table["subject"][short])
            self.notes_.append(f"left out of training, fewer volumes than a window: {people}")
        return ~short

    # --- reading new people ---------------------------------------------------------------------------------------

    def score(self, cohort: Cohort, covariates: pd.DataFrame) -> np.ndarray:
        """The logit (n,) of each person, or (n, K) of several classes, each on their own."""
        return self.reading_.logits(self.nodes(cohort, covariates))

    def nodes(self, cohort: Cohort, covariates: pd.DataFrame) -> np.ndarray:
        """Node features (M_S, n, channels) of the people of a cohort; labels and sites are not looked at."""
        if cohort.n_rois != self.n_rois_:
            raise DataError(
                f"the model was fitted on {self.n_rois_} regions but these people have {cohort.n_rois}: another atlas?"
            )
        refuse_empty(cohort)
        edges = self.scaffold_.edges
        values = cohort_edges(cohort, *self.recipe.edge_kind)[:, edges]
        # The linear reading looks at the static channel alone.
        needs_profiles = self.recipe.profiles and self.reading_.network is not None
        return self.pathways_.nodes(values, covariates, self._profiles(cohort, edges) if needs_profiles else None)

    def _profiles(self, cohort: Cohort, edges: np.ndarray) -> np.ndarray:
        """Log profiles (n, N, 2) of people on some edges; NaN for those whose scan is shorter than a window."""
        window, stride = self._windows(cohort)
        profiles = np.full((len(cohort), len(edges), 2), np.nan)
        long = ~self._short(cohort, window)
        if long.any():
            of_long = profiles_of(cohort.subset(long), edges, window[long], stride[long], self.recipe.stretch)
            profiles[long] = of_long.of(edges)
        return profiles

    def set_reading(self, pathways: Pathways, choice: Choice, network: "GatedNetwork | None") -> None:
        """Hold the frozen steps 1 to 5 and the chosen reading, which is in double precision, on the processor."""
        self.pathways_, self.scaffold_, self.deconfounder_ = pathways, pathways.scaffold, pathways.deconfounder
        nodes, graph = pathways.scaffold.strongest(self.recipe.max_pathways), None
        if network is not None:
            import torch

            from brainroam.core.gate import PathwayGraph

            network = network.cpu().double().eval().requires_grad_(False)
            graph = PathwayGraph.of(pathways.on(nodes).graph, dtype=torch.float64)
        self.reading_ = CoreReading(choice, pathways, nodes, network, graph)

    def _windows(self, cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
        """Window and stride of each person, in volumes."""
        how, tr = self.recipe, cohort.table["tr"].to_numpy()
        window, stride = np.full(len(cohort), how.window), np.full(len(cohort), how.stride)
        if how.window_seconds is not None:
            window = np.maximum(windows_in_volumes(how.window_seconds, tr), 3)
        if how.stride_seconds is not None:
            stride = windows_in_volumes(how.stride_seconds, tr)
        return window, stride

    def _short(self, cohort: Cohort, window: np.ndarray) -> np.ndarray:
        """Whose (n,) scan is shorter than a window; nobody's with ``on_short="raise"``: then the profile raises."""
        short = cohort.table["n_timepoints"].to_numpy() < window
        return short if self.recipe.on_short == "exclude" else np.zeros(len(cohort), dtype=bool)

    # --- as arrays ------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Everything that was learned, as arrays; names and notes are JSON bytes.

        What follows from other parts is not stored: the line graph from the scaffold, the orientation from its signs.
        No series and no score of a training person is stored either, nor the contrast of each site: it is a mean over
        few people, and tells who was one of them, and with which diagnosis (docs/security.md). A model that was loaded
        has none.
        """
        scaffold, network = self.scaffold_, self.reading_.network
        facts = {
            "n_rois": self.n_rois_,
            "measure": self.measure_,
            "own_units": self.own_units_,
            "chosen": self.chosen_,
            "notes": self.notes_,
            "sites": scaffold.sites,
            "tau": scaffold.tau,
        }
        learned = {} if network is None else network.state_dict()
        return {
            "facts": np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
            "choice": np.array(astuple(self.reading_.choice)),
            **self.pathways_.state(),
            **{f"network.{name}": as_array(value) for name, value in learned.items()},
        }

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned: the same scores, gates and contributions, bit for bit."""
        facts, directions = json.loads(state["facts"].tobytes()), np.zeros((state["scaffold.edges"].size, 0))
        state = {"pathways.directions": directions} | state  # models of brainroam 0.2 have none
        self.measure_, self.own_units_ = facts["measure"], facts["own_units"]
        # Thresholds are chosen: they stay.
        self.recipe = self.recipe.for_study(self.measure_, self.own_units_, is_wide=False)
        pairs = Atlas("", ("",) * facts["n_rois"], columns=self.measure_ == "table").pairs
        require_shapes(state, len(pairs), len(facts["sites"]), channels=3 if self.recipe.profiles else 1)
        stored = {"contrast": np.empty((0, len(pairs))), **part(state, "scaffold")}
        scaffold = Scaffold(**stored, tau=facts["tau"], sites=tuple(facts["sites"]))
        self.n_rois_, self.chosen_, self.notes_ = facts["n_rois"], facts["chosen"], facts["notes"]
        pathways = Pathways(
            deconfounder=SiteDeconfounder().load_state(part(state, "deconfounder")),
            scaffold=scaffold,
            orientation=scaffold.signs if self.recipe.orient else np.ones(len(scaffold)),
            **part(state, "pathways"),
        )
        self.outputs_ = int(np.prod(pathways.skip.shape[1:], dtype=int))
        choice, network = Choice(*map(float, state["choice"])), None
        if choice.share:
            network, torch = self._draw_network("cpu").double(), extra("torch", "torch")
            weights = {name: torch.as_tensor(value) for name, value in part(state, "network").items()}
            network.load_state_dict(weights)
        self.set_reading(pathways, choice, network)
        return self


def refuse_empty(cohort: Cohort) -> None:
    """Refuse people without a signal in any region: they have no edges."""
    least = 1 if cohort.measure == "table" else 2
    empty = cohort.missing_rois.sum(axis=1) > cohort.n_rois - least
    if empty.any():
        raise DataError(f"no region has a signal in {listed(cohort.table['subject'][empty])}; leave them out")


def _training() -> ModuleType:
    """`brainroam.core.training`, which needs torch; where that is missing, an error with the line that installs it."""
    extra("torch", "torch")
    from brainroam.core import training

    return training
