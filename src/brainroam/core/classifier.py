"""CORE: learn from several sites, predict at a site never seen. Composes the steps of the other files, nothing else.

    series -> edges (connectivity) -> residuals (deconfound) -> scaffold -> profiles (profile) -> line graph (linegraph)
           -> gated network (gate), trained on episodes (episodes, training) -> calibrated probability (calibration)

Whether the linear reading of the pathways or the gated network is believed, or both (choice), is decided on groups of
training sites that are held out in turn; so are the scaffold thresholds when several are given. The out-of-site scores
of that choice give the decision threshold and the calibration.
"""

from collections.abc import Sequence
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from brainroam.core.auc import auc, sites_with_scores
from brainroam.core.calibration import calibrate
from brainroam.core.choice import Choice, weigh
from brainroam.core.covariates import as_table
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.core.episodes import AnyEpisode, UnreadEpisode, predict_logits
from brainroam.core.inference import Covariates, FrozenCore, Series, Times, refuse_empty
from brainroam.core.pathways import SiteStatistics, profiles_of, site_statistics
from brainroam.core.scaffold import distinct_thresholds
from brainroam.core.site_folds import NOBODY, LeftOut, SiteFolds
from brainroam.data.classes import two_classes
from brainroam.data.cohort import Cohort, anonymous_cohort
from brainroam.data.condition_columns import warn_of_the_condition
from brainroam.data.prepare import without_rare_edges
from brainroam.errors import DataError, EmptyScaffoldError, UsageError, listed
from brainroam.utils.optional import extra, require_device
from brainroam.utils.parameters import Percentile, require_settings
from brainroam.utils.threads import one_thread

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork
    from brainroam.core.training import Schedule, Trial

GATE_BUDGET = 80  # K of the paper, for 6,670 edges and more


class CoreClassifier(FrozenCore):
    """Cross-site OOD robust brain network classifier.

    Parameters
    ----------
    kind : {"log", "pearson", "partial"}
        Edge values of the static channel; ``"pearson"`` is the paper's.
    shrinkage : float
        Shrinkage of the log and partial edges.
    robust : bool
        Spatial-sign instead of Pearson correlations, so that single moments of motion do not dominate.
    window, stride : int
        Sliding windows in volumes.
    stretch : int, optional
        Windows over which volatility and flexibility are taken, averaged over the scan, so that they do not tell how
        long it was; None takes all windows at once, as the paper does.
    window_seconds, stride_seconds : float, optional
        In seconds instead; then `fit` and `predict_proba` need ``tr``.
    tau_percentile, eta, zeta : float, or sequence for tau_percentile and eta
        Scaffold thresholds. Where a sequence is given, inner leave-one-site-out chooses.
    contrast : {"mean", "huber"}
        Class means whose difference is a site's contrast; the robust ones are the paper's.
    bootstrap : {"sites", "hierarchical"}
        What the stability pi resamples.
    budget : float, optional
        K of the gate budget. By default the paper's 80, or half the scaffold where it has fewer than 160 edges.
    budget_weight : float
        gamma of the gate budget.
    prior_strength, temperature : float
        lambda and the gate's temperature.
    hidden, layers : int
        Width and depth of the network.
    orient : bool
        Multiply each pathway's static channel by the sign of its consensus contrast; False is the literal reading,
        in which pathways stronger and weaker in patients cancel.
    skip : {"ridge", "sum", "none"}
        The linear reading that stands beside the network; ``"none"`` is the network alone.
    train : {"episodic", "joint"}
        Each site read on the pathways of the others, or everybody on the pathways they gave (the paper).
    train_residual : {"agnostic", "site"}
        Train on residuals of the frozen average deconfounder, as at inference, or of each site's own fit (the paper).
    deconfounding : {"site", "pooled"}
    slopes : {"shrunken", "site"}
        Slopes of the covariates pooled over sites by their precision, or each site's own and their plain mean (the
        paper), see `SiteDeconfounder`.
    profiles, gated : bool
        Volatility and flexibility channels; subject-adaptive gates.
    epochs : int, optional
        A fixed number, at a constant learning rate; 0 is the linear reading alone, and needs no torch.
    updates : int, optional
        Steps of Adam over which the learning rate falls to zero, where ``epochs`` is not given. None is the paper's
        constant rate, with epochs chosen on held-out groups of sites.
    max_epochs, patience : int
        Of that choice: epochs at most, and epochs without improvement after which to stop looking.
    trials : int, optional
        Hold out only so many of the four groups of training sites (without a network: of the sites) to choose and to
        calibrate; by default each once.
    max_pathways : int, optional
        How many pathways the network reads: its cost grows with them, and the weakest of a large atlas say least. The
        linear reading reads all.
    learning_rate, weight_decay, batch_size
        Of Adam.
    huber_k, huber_delta : float
        Of the deconfounder.
    fit_on : {"all", "controls"}
        Whom the deconfounder learns from.
    on_short : {"raise", "exclude"}
        What to do with people of fewer volumes than a window: an error that names them, or leave them out of training
        and read them later with their profiles at the training mean.
    adapt : {None, "unlabelled"}
        Centre the people of one call at their robust mean, as one new site. Transductive: a person's prediction then
        depends on the others given with them, so never mix such results with strict ones.
    device : str
        A torch device.
    random_state : int

    Attributes
    ----------
    scaffold_, deconfounder_, pathways_
        Steps 1 to 5 as learned from all training sites.
    reading_ : CoreReading
        The linear reading, the network, or both, as held-out sites decided.
    calibration_ : Calibration
        Decision and probability, learned on inner held-out sites.
    inner_scores_ : ndarray of shape (n,)
        Out-of-site logit of each training person, NaN where their site was not or could not be held out.
    chosen_ : dict
        ``network``: how far the network is believed, from 0 (the linear reading alone) to 1 (the network alone);
        ``gain`` and ``gain_error``: by how much it ordered people of held-out sites better than the linear reading, and
        the standard error of that, where both were tried; ``epochs``, where they were chosen or given; the thresholds;
        the inner ``auc`` of the choice, where a group of sites could be held out.
    notes_ : list of str
        Every fallback that was taken.
    classes_ : ndarray

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = CoreClassifier(budget=4, tau_percentile=60)
    >>> clf = clf.fit(cohort.series, people["label"], site=people["site"], covariates=people[["age", "sex"]])
    >>> clf.predict_proba(cohort.series[:2], covariates=people[["age", "sex"]][:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        kind: str = "log",
        shrinkage: NonNegativeFloat = 0.7,
        robust: bool = True,
        window: PositiveInt = 30,
        stride: PositiveInt = 5,
        stretch: PositiveInt | None = 10,
        window_seconds: PositiveFloat | None = None,
        stride_seconds: PositiveFloat | None = None,
        tau_percentile: Percentile | Sequence[Percentile] = 80,
        eta: NonNegativeFloat | Sequence[NonNegativeFloat] = 0.75,
        zeta: NonNegativeFloat = 0.70,
        contrast: str = "mean",
        bootstrap: str = "sites",
        budget: PositiveFloat | None = None,
        budget_weight: NonNegativeFloat = 5e-4,
        prior_strength: NonNegativeFloat = 1.0,
        temperature: PositiveFloat = 1.0,
        hidden: PositiveInt = 16,
        layers: PositiveInt = 2,
        orient: bool = True,
        skip: str = "ridge",
        train: Literal["episodic", "joint"] = "episodic",
        train_residual: Literal["agnostic", "site"] = "agnostic",
        deconfounding: Literal["site", "pooled"] = "site",
        slopes: Slopes = "shrunken",
        profiles: bool = False,
        gated: bool = True,
        epochs: NonNegativeInt | None = None,
        updates: PositiveInt | None = 240,
        max_epochs: PositiveInt = 30,
        patience: PositiveInt = 10,
        trials: PositiveInt | None = None,
        max_pathways: PositiveInt | None = 400,
        learning_rate: NonNegativeFloat = 1e-2,
        weight_decay: NonNegativeFloat = 5e-4,
        batch_size: PositiveInt = 32,
        huber_k: PositiveFloat = 1.345,
        huber_delta: PositiveFloat | None = None,
        fit_on: FitOn = "all",
        on_short: Literal["raise", "exclude"] = "raise",
        adapt: Literal["unlabelled"] | None = None,
        device: str = "cpu",
        random_state: int = 0,
    ) -> None:
        self.kind = kind
        self.shrinkage = shrinkage
        self.robust = robust
        self.window = window
        self.stride = stride
        self.stretch = stretch
        self.window_seconds = window_seconds
        self.stride_seconds = stride_seconds
        self.tau_percentile = tau_percentile
        self.eta = eta
        self.zeta = zeta
        self.contrast = contrast
        self.bootstrap = bootstrap
        self.budget = budget
        self.budget_weight = budget_weight
        self.prior_strength = prior_strength
        self.temperature = temperature
        self.hidden = hidden
        self.layers = layers
        self.orient = orient
        self.skip = skip
        self.train = train
        self.train_residual = train_residual
        self.deconfounding = deconfounding
        self.slopes = slopes
        self.profiles = profiles
        self.gated = gated
        self.epochs = epochs
        self.updates = updates
        self.max_epochs = max_epochs
        self.patience = patience
        self.trials = trials
        self.max_pathways = max_pathways
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.huber_k = huber_k
        self.huber_delta = huber_delta
        self.fit_on = fit_on
        self.on_short = on_short
        self.adapt = adapt
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        series: Series,
        y: Sequence,
        *,
        site: Sequence[str] | None = None,
        covariates: Covariates = None,
        tr: Times = None,
        positive: Any = None,
    ) -> Self:
        """Learn from labelled people of several sites.

        Parameters
        ----------
        series : sequence of ndarray of shape (T_i, P)
        y : sequence of n labels of two classes
            1 of 0/1 and -1/1 is the condition, and so is what stands against a usual word for controls (TD, HC, ...).
        site : sequence of n site names
        covariates : DataFrame or ndarray with n rows, optional
        tr : sequence of n repetition times in seconds, needed with ``window_seconds``
        positive : label, optional
            The value of ``y`` that is the condition; needed for other labels.
        """
        if site is None:
            raise DataError("CoreClassifier.fit needs the site of every person: fit(series, y, site=...)")
        classes, labels = two_classes(y, positive)
        cohort, _ = without_rare_edges(anonymous_cohort(series, labels, site, tr))
        table = as_table(covariates, len(cohort))
        warn_of_the_condition(table.assign(label=labels, site=cohort.table["site"]), table)
        self.fit_cohort(cohort, table)
        self.classes_ = classes
        return self

    def fit_cohort(self, cohort: Cohort, covariates: pd.DataFrame) -> Self:
        """As `fit`, for a cohort labelled 0 and 1; its subsets share what was computed for one person or site."""
        self._check_parameters()  # which imports torch, if it is needed: its threads can be told only then
        with one_thread():
            return self._fit_cohort(cohort, covariates)

    def _fit_cohort(self, cohort: Cohort, covariates: pd.DataFrame) -> Self:
        self.classes_, self.n_rois_ = np.array([0, 1]), cohort.n_rois
        self.notes_: list[str] = []
        kept = self._usable(cohort)
        cohort, covariates = cohort.subset(kept), covariates[kept].reset_index(drop=True)
        y, site = cohort.labels, cohort.table["site"].to_numpy().astype(str)
        pooled = self.deconfounding == "pooled"
        deconfounder = SiteDeconfounder(self.huber_k, self.huber_delta, pooled, self.fit_on, self.slopes)
        evidence = site_statistics(
            cohort, covariates, deconfounder, self.kind, self.shrinkage, self.robust, self.contrast
        )
        one_class = sorted(set(site) - set(evidence.sites))
        if one_class:
            self.notes_.append(f"without both classes, so without a contrast: {listed(one_class)}")

        best: tuple[SiteFolds, np.ndarray, Choice, dict[str, Any]] | None = None
        grid = self._grid(len(evidence.sites))
        for tau_percentile, eta in grid:
            try:
                folds = self._site_folds(evidence, cohort, tau_percentile, eta)
            except EmptyScaffoldError as error:
                if best is None and (tau_percentile, eta) == grid[-1]:
                    raise
                self.notes_.append(f"tau_percentile {tau_percentile:g} with eta {eta:g} passed over: {error}")
                continue
            scores, choice, facts = self._judge(folds)
            if best is None or facts.get("auc", 0) > best[3].get("auc", 0):
                best = folds, scores, choice, {"tau_percentile": tau_percentile, "eta": eta, **facts}
        if best is None:
            raise DataError("tau_percentile and eta need at least one value each")
        folds, scores, choice, self.chosen_ = best
        self._finish(folds, choice)
        if not np.isfinite(scores).any():
            self.notes_.append("too few sites to hold one out: the threshold is learned on the training people")
            everybody = folds.evidence.batches(np.arange(len(y)))
            scores = np.concatenate([self.reading_.logits(folds.nodes(some)) for some in everybody])
        self.calibration_ = calibrate(scores, y, site)
        self.inner_scores_ = np.full(len(kept), np.nan)
        self.inner_scores_[kept] = scores
        return self

    def _judge(self, folds: SiteFolds) -> tuple[np.ndarray, Choice, dict[str, Any]]:
        """Read held-out groups of sites and decide: scores (NaN where not held out), the choice, and its facts."""
        y, site = folds.evidence.y, folds.evidence.site
        groups = folds.held_out_groups()[: self.trials]
        if self.skip == "none":
            choice, (scores, epochs) = Choice(1.0), self._network_scores(folds, groups)
        elif self.epochs == 0:
            choice, scores, epochs = Choice(0.0), self._linear_scores(folds, groups), 0
        else:
            linear, (network, epochs) = self._linear_scores(folds, groups), self._network_scores(folds, groups)
            choice = weigh(linear, network, y, site)
            scores = choice.combine(linear, network)
        facts: dict[str, Any] = {"network": choice.share}
        if np.isfinite(choice.gain):
            facts |= {"gain": choice.gain, "gain_error": choice.error}
        if epochs is not None:
            facts["epochs"] = epochs
        if sites := sites_with_scores(y, site, scores):
            facts["auc"] = float(np.mean([auc(y[here], scores[here]) for here in sites]))
        return scores, choice, facts

    def _linear_scores(self, folds: SiteFolds, groups: Sequence[LeftOut]) -> np.ndarray:
        """The linear reading (n,) of the people of each group, by the weights of the other sites."""
        scores = np.full(len(folds.evidence.y), np.nan)
        for group in groups:
            for some in folds.evidence.batches(folds.people(group)):
                scores[some] = folds.pathways(group).contributions(folds.nodes(some, group)).sum(axis=0)
        return scores

    def _network_scores(self, folds: SiteFolds, groups: Sequence[LeftOut]) -> tuple[np.ndarray, int | None]:
        """Logits (n,) of the people of each group by a network trained without it; the epochs, if chosen or given."""
        scores, epochs = np.full(len(folds.evidence.y), np.nan), self.epochs
        if self.updates is None and self.epochs is None:
            trials = [self._trial(folds, group) for group in groups]
            epochs, logits = _training().choose_epochs(trials, self.max_epochs, self.patience)
        else:
            logits = [predict_logits(self._trained(folds, group, epochs), folds.held_out(group)) for group in groups]
        for group, found in zip(groups, logits, strict=True):
            scores[folds.people(group)] = found
        return scores, epochs

    def _trained(self, folds: SiteFolds, left_out: LeftOut, epochs: int | None) -> "GatedNetwork":
        """A network trained without these sites: for so many epochs, or for the updates of the schedule."""
        network, schedule = self._drawn_network(self.device), self._schedule(folds, left_out)
        episodes = self._episodes(folds, left_out)
        return _training().train_network(network, episodes, schedule, self.random_state, epochs)

    def _trial(self, folds: SiteFolds, group: LeftOut) -> "Trial":
        network, schedule = self._drawn_network(self.device), self._schedule(folds, group)
        epochs = _training().training_epochs(network, self._episodes(folds, group), schedule, self.random_state)
        people, evidence = folds.people(group), folds.evidence
        return _training().Trial(network, epochs, folds.held_out(group), evidence.y[people], evidence.site[people])

    def _finish(self, folds: SiteFolds, choice: Choice) -> None:
        """Train on all sites where the network is believed, and freeze the reading."""
        network = self._trained(folds, NOBODY, self.chosen_.get("epochs")) if choice.share > 0 else None
        self.set_reading(folds.pathways(), choice, network)
        self.notes_ = self.deconfounder_.notes_ + self.notes_
        alone = sorted(set().union(*folds.groups) - set().union(*folds.held_out_groups()))
        if alone and folds.held_out_groups():
            self.notes_.append(f"never held out, because without them the scaffold is empty: {listed(alone)}")

    def _site_folds(self, evidence: SiteStatistics, cohort: Cohort, tau_percentile: float, eta: float) -> SiteFolds:
        thresholds = {"tau_percentile": tau_percentile, "eta": eta, "zeta": self.zeta, "bootstrap": self.bootstrap}
        folds = SiteFolds(
            evidence,
            thresholds | {"seed": self.random_state},
            self.train_residual,
            self.orient,
            self.skip,
            self.device if self._trains() else None,
            self.max_pathways,
        )
        size = self._read_by_network(folds)
        if self.gated and self.budget is not None and self.budget > size:
            raise EmptyScaffoldError(
                f"the gate budget K = {self.budget:g} exceeds the {size} edges of the scaffold that the network reads; "
                f"set budget to at most {size}, or lower tau_percentile ({tau_percentile:g}) or eta ({eta:g})"
            )
        n_trained = min(folds.size, self.max_pathways or folds.size) if self._trains() else 0
        evidence.require_memory(folds.size, n_trained, self.hidden * max(self.batch_size, UnreadEpisode.at_a_time))
        if self.profiles and self._trains():
            window, stride = self._windows(cohort)
            folds.profiles = profiles_of(cohort, folds.needed_edges(), window, stride, self.stretch)
        return folds

    def _episodes(self, folds: SiteFolds, left_out: LeftOut) -> list[AnyEpisode]:
        episodes = folds.training(left_out) if self.train == "episodic" else []
        if not episodes:
            if self.train == "episodic" and left_out == NOBODY:
                self.notes_.append("too few sites for episodic training: trained jointly")
            episodes = folds.joint(left_out)
        return episodes

    def _trains(self) -> bool:
        """Whether a network is trained at all, which needs torch."""
        return self.epochs != 0

    def _drawn_network(self, device: str) -> "GatedNetwork":
        return _training().build_network(
            self.random_state,
            device,
            channels=3 if self.profiles else 1,
            hidden=self.hidden,
            layers=self.layers,
            temperature=self.temperature,
            prior_strength=self.prior_strength,
            gated=self.gated,
        )

    def _read_by_network(self, folds: SiteFolds, left_out: LeftOut = NOBODY) -> int:
        """How many pathways of a fold the network reads."""
        size = len(folds.scaffold(left_out))
        return size if self.max_pathways is None else min(size, self.max_pathways)

    def _schedule(self, folds: SiteFolds, left_out: LeftOut) -> "Schedule":
        half = self._read_by_network(folds, left_out) / 2
        return _training().Schedule(
            min(GATE_BUDGET, half) if self.budget is None else self.budget,
            self.budget_weight,
            self.learning_rate,
            self.weight_decay,
            self.batch_size,
            self.updates if self.epochs is None else None,
        )

    def _grid(self, n_sites: int) -> list[tuple[float, float]]:
        """Threshold pairs that differ in effect."""
        etas = distinct_thresholds(n_sites, np.atleast_1d(self.eta).tolist())
        return list(product(sorted(set(np.atleast_1d(self.tau_percentile).tolist())), etas))

    def _usable(self, cohort: Cohort) -> np.ndarray:
        """Which people to learn from."""
        refuse_empty(cohort)
        short = self._short(cohort, self._windows(cohort)[0]) & self.profiles
        if short.any():
            people = listed(cohort.table["subject"][short])
            self.notes_.append(f"left out of training, fewer volumes than a window: {people}")
        return ~short

    def _check_parameters(self) -> None:
        require_settings(type(self).__name__, type(self), self.get_params(deep=False))
        if self.skip == "none" and self.epochs == 0:
            raise UsageError('skip="none" with epochs=0 leaves nothing to read with; choose one of them')
        if self._trains():
            require_device(self.device)


def _training() -> ModuleType:
    """`brainroam.core.training`, which needs torch; where that is missing, an error with the line that installs it."""
    extra("torch", "torch")
    from brainroam.core import training

    return training
