"""CORE: learn from several sites, predict at a site never seen. Composes the steps of the other files, nothing else.

    series -> edges (connectivity) -> residuals (deconfound) -> scaffold -> profiles (profile) -> line graph (linegraph)
           -> gated network (gate), trained on episodes (episodes, training) -> calibrated probability (calibration)

Epochs, and the scaffold thresholds when several are given, are chosen by inner leave-one-site-out over the training
sites; the out-of-site scores of that choice give the decision threshold and the calibration.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from brainroam.core.auc import auc
from brainroam.core.calibration import calibrate
from brainroam.core.covariates import as_table
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.core.early_stopping import Choice, Trial, choose_epochs, confirm_epochs
from brainroam.core.episodes import AnyEpisode, UnreadEpisode, as_array, predict_logits
from brainroam.core.inference import Covariates, FrozenCore, Series, Times, refuse_empty
from brainroam.core.linear_reading import LinearReading
from brainroam.core.pathways import Evidence, evidence_of, profiles_of
from brainroam.core.scaffold import distinct_thresholds
from brainroam.core.site_folds import NOBODY, SiteFolds
from brainroam.data.classes import two_classes
from brainroam.data.cohort import Cohort, anonymous_cohort
from brainroam.data.condition_columns import warn_of_the_condition
from brainroam.data.prepare import without_rare_edges
from brainroam.errors import DataError, EmptyScaffoldError, listed
from brainroam.utils.optional import extra, require_device
from brainroam.utils.parameters import Percentile, require_settings
from brainroam.utils.threads import one_thread

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork
    from brainroam.core.training import Schedule

GATE_BUDGET = 80  # K of the paper, for 6,670 edges and more
MOST_ASKED = 9  # inner sites, in groups of ``trial_sites``, whether they gain from training


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
        The linear reading that the network starts from.
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
        A fixed number; by default chosen by inner leave-one-site-out, see `brainroam.core.early_stopping`. 0 is the
        linear reading of the skip connection, and needs no torch.
    max_epochs, patience : int
        Epochs at most, and epochs without improvement after which to stop looking.
    inner_sites : int, optional
        Hold out only so many training sites, drawn by the seed, to choose epochs and threshold; by default each once.
    trial_sites : int
        Of these, so many at a time are trained for, drawn by the seed: the first choose the epochs, the others are
        asked whether they gain from them, until some do not or nine do, see `brainroam.core.early_stopping`. Without a
        skip connection all of them are trained for at once.
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
    network_ : GatedNetwork, or LinearReading of the skip connection where no epoch was worth it
    calibration_ : Calibration
        Decision and probability, learned on inner held-out sites.
    inner_scores_ : ndarray of shape (n,)
        Out-of-site logit of each training person, NaN where their site was not or could not be held out.
    chosen_ : dict
        Epochs and thresholds chosen, and the inner AUC of the choice.
    notes_ : list of str
        Every fallback that was taken.
    classes_ : ndarray

    Examples
    --------
    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=4, n_per_site=16, n_rois=12, seed=0)
    >>> people = cohort.table
    >>> clf = CoreClassifier(hidden=8, budget=4, max_epochs=2, tau_percentile=60)
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
        profiles: bool = True,
        gated: bool = True,
        epochs: NonNegativeInt | None = None,
        max_epochs: NonNegativeInt = 15,
        patience: PositiveInt = 2,
        inner_sites: PositiveInt | None = None,
        trial_sites: PositiveInt = 3,
        learning_rate: NonNegativeFloat = 1e-3,
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
        self.max_epochs = max_epochs
        self.patience = patience
        self.inner_sites = inner_sites
        self.trial_sites = trial_sites
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
        evidence = evidence_of(cohort, covariates, deconfounder, self.kind, self.shrinkage, self.robust, self.contrast)
        one_class = sorted(set(site) - set(evidence.sites))
        if one_class:
            self.notes_.append(f"without both classes, so without a contrast: {listed(one_class)}")

        best: tuple[SiteFolds, Choice | None] | None = None
        grid = self._grid(len(evidence.sites))
        for tau_percentile, eta in grid:
            try:
                folds, choice = self._tried(evidence, cohort, tau_percentile, eta)
            except EmptyScaffoldError as error:
                if best is None and (tau_percentile, eta) == grid[-1]:
                    raise
                self.notes_.append(f"tau_percentile {tau_percentile:g} with eta {eta:g} passed over: {error}")
                continue
            if best is None or (choice and (best[1] is None or choice.auc > best[1].auc)):
                best = folds, choice
                self.chosen_ = {"tau_percentile": tau_percentile, "eta": eta, "epochs": self._most_epochs()}
                self.chosen_ |= {"epochs": choice.epochs, "auc": choice.auc} if choice else {}
        if best is None:
            raise DataError("tau_percentile and eta need at least one value each")
        self.inner_scores_ = np.full(len(kept), np.nan)
        self.inner_scores_[kept] = self._finish(*best, y, site)
        return self

    def _tried(
        self, evidence: Evidence, cohort: Cohort, tau_percentile: float, eta: float
    ) -> tuple[SiteFolds, Choice | None]:
        """Train without a few inner sites first, and without further ones for as long as that is worth it."""
        inner = self._drawn(evidence.sites, self.inner_sites)
        if self._untrained(self._most_epochs()):
            folds = self._site_folds(evidence, cohort, tau_percentile, eta, ())
            return folds, self._no_epochs(folds, inner)
        first, *further = self._groups(inner)[: -(-MOST_ASKED // self.trial_sites)] if self._must_earn() else [inner]
        folds = self._site_folds(evidence, cohort, tau_percentile, eta, first)
        trials = self._trials(folds, first)
        if not trials:
            return folds, None
        choice = choose_epochs(trials, self._most_epochs(), self.patience, self._must_earn(), self.epochs is not None)
        for sites in further:
            if choice.epochs == 0:
                return folds, self._no_epochs(folds, inner)
            folds.train_without(sites)
            self._prepare(folds, cohort)
            choice = confirm_epochs(choice, self._trials(folds, sites))
        return folds, choice if choice.epochs or not further else self._no_epochs(folds, inner)

    def _groups(self, sites: Sequence[str]) -> list[list[str]]:
        """The inner sites, ``trial_sites`` at a time, drawn by the seed."""
        groups, left = [], list(sites)
        while left:
            groups.append(self._drawn(left, self.trial_sites))
            left = [site for site in left if site not in groups[-1]]
        return groups

    def _site_folds(
        self, evidence: Evidence, cohort: Cohort, tau_percentile: float, eta: float, trained: Sequence[str]
    ) -> SiteFolds:
        thresholds = {"tau_percentile": tau_percentile, "eta": eta, "zeta": self.zeta, "bootstrap": self.bootstrap}
        folds = SiteFolds(
            evidence,
            thresholds | {"seed": self.random_state},
            self.train_residual,
            self.orient,
            self.skip,
            None if self._untrained(self._most_epochs()) else self.device,
            trained,
            self._linear_reading().opened,
        )
        size = len(folds.scaffold())
        if self.gated and self.budget is not None and self.budget > size:
            raise EmptyScaffoldError(
                f"the gate budget K = {self.budget:g} exceeds the {size} edges of the scaffold; "
                f"set budget to at most {size}, or lower tau_percentile ({tau_percentile:g}) or eta ({eta:g})"
            )
        self._prepare(folds, cohort)
        return folds

    def _prepare(self, folds: SiteFolds, cohort: Cohort) -> None:
        """See that memory is enough for the scaffolds of the folds, and describe their edges."""
        folds.evidence.require_memory(folds.size, self.hidden * max(self.batch_size, UnreadEpisode.at_a_time))
        if self.profiles:
            window, stride = self._windows(cohort)
            folds.profiles = profiles_of(cohort, folds.needed_edges(), window, stride, self.stretch)

    def _trials(self, folds: SiteFolds, sites: Sequence[str]) -> list[Trial]:
        """A network to be trained without each of these sites that can be held out."""
        return [
            Trial(name, network := self._drawn_network(), self._epochs(network, folds, name), held_out)
            for name, held_out in folds.held_out(sites)
        ]

    def _no_epochs(self, folds: SiteFolds, sites: Sequence[str]) -> Choice | None:
        """No epoch was worth it: what an untrained network says of all inner sites; None where none can be held out."""
        reading, held_out = self._linear_reading(), folds.held_out(sites, static=True)
        logits = {name: predict_logits(reading, episode) for name, episode in held_out}
        aucs = {name: auc(as_array(episode.labels), logits[name]) for name, episode in held_out}
        return Choice(0, logits, aucs, aucs) if logits else None

    def _must_earn(self) -> bool:
        return self.skip != "none" and self.epochs is None

    def _drawn(self, sites: Sequence[str], number: int | None) -> list[str]:
        if number is None or number >= len(sites):
            return list(sites)
        drawn = np.random.default_rng(self.random_state).choice(len(sites), number, replace=False)
        return [sites[k] for k in sorted(drawn)]

    def _finish(self, folds: SiteFolds, choice: Choice | None, y: np.ndarray, site: np.ndarray) -> np.ndarray:
        """Train on all sites with the chosen settings and calibrate on the inner out-of-site scores, returned."""
        epochs = choice.epochs if choice else self._most_epochs()
        self.network_ = self._linear_reading() if self._untrained(epochs) else self._drawn_network()
        if epochs:
            episodes, train = self._episodes(folds, NOBODY), _training().train_network
            train(self.network_, episodes, epochs, self._schedule(folds), self.random_state)
        if not isinstance(self.network_, LinearReading):
            self.network_.eval().requires_grad_(False)  # it is only read from now on
        self.set_pathways(folds.pathways())
        self.notes_ = self.deconfounder_.notes_ + self.notes_
        if choice is None:
            self.notes_.append("too few sites to hold one out: the threshold is learned on the training people")
            scores = predict_logits(self.network_, folds.joint()[0])
        else:
            scores = np.full(len(y), np.nan)
            for name, logits in choice.logits.items():
                scores[site == name] = logits
            alone = [name for name in self._drawn(folds.sites, self.inner_sites) if not folds.can_hold_out(name)]
            if alone:
                self.notes_.append(f"never held out, because without them the scaffold is empty: {listed(alone)}")
        self.calibration_ = calibrate(scores, y, site)
        return scores

    def _epochs(self, network: "GatedNetwork", folds: SiteFolds, held_out: str) -> Iterator[int]:
        """Training without one site, an epoch at a time."""
        episodes = self._episodes(folds, frozenset({held_out}))
        return _training().training_epochs(network, episodes, self._schedule(folds), self.random_state)

    def _episodes(self, folds: SiteFolds, left_out: frozenset) -> list[AnyEpisode]:
        episodes = folds.training(left_out) if self.train == "episodic" else []
        if not episodes:
            if self.train == "episodic" and left_out == NOBODY:
                self.notes_.append("too few sites for episodic training: trained jointly")
            episodes = folds.joint(left_out)
        return episodes

    def _untrained(self, epochs: int) -> bool:
        """Whether the network stays the linear reading it starts from."""
        return epochs == 0 and self.skip != "none"

    def _linear_reading(self) -> LinearReading:
        return LinearReading(self.prior_strength, self.temperature, self.gated)

    def _drawn_network(self) -> "GatedNetwork":
        return _training().build_network(
            self.random_state,
            self.device,
            channels=3 if self.profiles else 1,
            hidden=self.hidden,
            layers=self.layers,
            temperature=self.temperature,
            prior_strength=self.prior_strength,
            gated=self.gated,
            skip=self.skip != "none",
        )

    def _gate_budget(self, folds: SiteFolds) -> float:
        return min(GATE_BUDGET, len(folds.scaffold()) / 2) if self.budget is None else self.budget

    def _schedule(self, folds: SiteFolds) -> "Schedule":
        return _training().Schedule(
            self._gate_budget(folds), self.budget_weight, self.learning_rate, self.weight_decay, self.batch_size
        )

    def _most_epochs(self) -> int:
        return self.max_epochs if self.epochs is None else self.epochs

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
        if not self._untrained(self._most_epochs()):
            require_device(self.device)


def _training() -> ModuleType:
    """`brainroam.core.training`, which needs torch; where that is missing, an error with the line that installs it."""
    extra("torch", "torch")
    from brainroam.core import training

    return training
