"""CORE's settings: one frozen recipe for ours, one for the paper's, one between them.

`OURS` is `Recipe()`; what `NETWORK` and `PAPER` change stands below it, and why in docs/fidelity.md. A recipe of your
own is a copy with some settings changed::

    dataclasses.replace(PAPER, hidden=16)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from brainroam.core.connectivity import EdgeKind, readable_kind
from brainroam.core.deconfound import FitOn, SiteDeconfounder, Slopes
from brainroam.errors import unknown
from brainroam.utils.parameters import Percentile, require_settings

TAU_PERCENTILE, ETA, ZETA = 80, 0.75, 0.70  # of the scaffold, as in the paper


@dataclass(frozen=True)
class Recipe:
    """How CORE is computed, but for the seed.

    Parameters
    ----------
    kind : {"log", "pearson", "partial"}
        Edge values of the static channel.
    shrinkage : float
        Shrinkage of the log and partial edges.
    robust : bool
        Spatial-sign instead of Pearson correlations, so that single moments of motion do not dominate.
    window, stride : int
        Sliding windows in volumes.
    stretch : int, optional
        Windows over which volatility and flexibility are taken, averaged over the scan, so that they do not tell how
        long it was; None takes all windows at once.
    window_seconds, stride_seconds : float, optional
        In seconds instead; then every person needs a repetition time.
    tau_percentile, eta, zeta : float, or sequence
        Scaffold thresholds. Where sequences are given, held-out training sites choose, by the linear reading where
        there is one. The paper's grid: tau_percentile 70 to 90, eta and zeta .7, .75, .8, .85 and .9.
    sign : {"both", "positive", "negative"}
        Edges of the scaffold: stronger in cases (positive), weaker, or both. ``PAPER`` takes positive ones, as the
        paper's table and figures show; the letter of its equation is both.
    contrast : {"mean", "huber"}
        Class means whose difference is a site's contrast.
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
        in which pathways stronger and weaker in patients cancel where the scaffold has both signs.
    soft : bool
        The linear reading that stands beside the network is the soft one of all edges (`brainroam.methods.ensemble`);
        False is that of the scaffold alone, as ``skip`` says.
    standardise : bool
        Give each channel of each pathway unit spread over the training people (and the profiles mean 0); False reads
        correlations and logarithms as they are. The paper does not say which.
    skip : {"ridge", "sum", "none"}
        The linear reading of the scaffold, with which the network is compared; ``"none"`` is the network alone.
    penalties : sequence of float, optional
        Of that ridge, whose weights are averaged over them, in units of the mean squared length of the people. By
        default 3, 10 and 30; of a table 1, 3 and 10 or weaker ones, and of a number the one of .1 to 30, as inner
        held-out sites choose.
    train : {"both", "episodic", "joint"}
        Each group of sites read on the pathways of the others (episodic), everybody on the pathways they gave (joint),
        or one after the other in every epoch.
    train_residual : {"agnostic", "site"}
        Train on residuals of the frozen average deconfounder, as at inference, or of each site's own fit.
    project : bool
        Take the directions of nuisance variables, such as head motion, out of the pathways. False leaves them to the
        covariates, as the paper does.
    deconfounding : {"site", "pooled"}
    slopes : {"shrunken", "site"}
        Slopes of the covariates pooled over sites by their precision, or each site's own and their plain mean, see
        `SiteDeconfounder`.
    profiles, gated : bool
        Volatility and flexibility channels; subject-adaptive gates.
    epochs : int, optional
        A fixed number, at a constant learning rate; 0 is without a network, and needs no torch.
    updates : int, optional
        Steps of Adam over which the learning rate falls to zero, where ``epochs`` is not given. None is a constant
        rate, with epochs chosen on held-out groups of sites.
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
    device : str
        A torch device.

    Examples
    --------
    >>> PAPER.hidden, OURS.hidden
    (64, 16)
    >>> Recipe(hidden=0)
    Traceback (most recent call last):
    brainroam.errors.UsageError: core: hidden must be a whole number larger than 0, not 0
    """

    kind: str = "log"
    shrinkage: NonNegativeFloat = 0.7
    robust: bool = True
    window: PositiveInt = 30
    stride: PositiveInt = 5
    stretch: PositiveInt | None = 10
    window_seconds: PositiveFloat | None = None
    stride_seconds: PositiveFloat | None = None
    tau_percentile: Percentile | Sequence[Percentile] = TAU_PERCENTILE
    eta: NonNegativeFloat | Sequence[NonNegativeFloat] = ETA
    zeta: NonNegativeFloat | Sequence[NonNegativeFloat] = ZETA
    sign: Literal["both", "positive", "negative"] = "both"
    contrast: str = "mean"
    bootstrap: str = "sites"
    budget: PositiveFloat | None = None
    budget_weight: NonNegativeFloat = 5e-4
    prior_strength: NonNegativeFloat = 1.0
    temperature: PositiveFloat = 1.0
    hidden: PositiveInt = 16
    layers: PositiveInt = 2
    orient: bool = True
    soft: bool = True
    standardise: bool = True
    skip: str = "ridge"
    penalties: Sequence[PositiveFloat] | None = None
    train: Literal["both", "episodic", "joint"] = "both"
    train_residual: Literal["agnostic", "site"] = "agnostic"
    project: bool = True
    deconfounding: Literal["site", "pooled"] = "site"
    slopes: Slopes = "shrunken"
    profiles: bool = False
    gated: bool = True
    epochs: NonNegativeInt | None = None
    updates: PositiveInt | None = 240
    max_epochs: PositiveInt = 30
    patience: PositiveInt = 10
    trials: PositiveInt | None = None
    max_pathways: PositiveInt | None = 400
    learning_rate: NonNegativeFloat = 1e-2
    weight_decay: NonNegativeFloat = 5e-4
    batch_size: PositiveInt = 32
    huber_k: PositiveFloat = 1.345
    huber_delta: PositiveFloat | None = None
    fit_on: FitOn = "all"
    on_short: Literal["raise", "exclude"] = "raise"
    device: str = "cpu"

    def __post_init__(self) -> None:
        require_settings("core", Recipe, vars(self))
        for name in ("tau_percentile", "eta", "zeta", "penalties"):
            values = np.asarray(getattr(self, name)).tolist()  # a tuple, whatever sequence they came in
            object.__setattr__(self, name, tuple(values) if isinstance(values, list) else values)

    @property
    def edge_kind(self) -> EdgeKind:
        """Edges of the static channel."""
        return EdgeKind(self.kind, self.shrinkage, self.robust)

    def deconfounder(self) -> SiteDeconfounder:
        """A deconfounder with these settings, to be fitted."""
        return SiteDeconfounder(
            huber_k=self.huber_k,
            huber_delta=self.huber_delta,
            pooled=self.deconfounding == "pooled",
            fit_on=self.fit_on,
            slopes=self.slopes,
        )

    def for_study(self, measure: str, own_units: bool, is_wide: bool) -> "Recipe":
        """The recipe for a measure: without steps that need series, with thresholds to choose where much is to be read.

        Matrices have no time course, so no temporal profiles. Columns of a table share no regions, so there is no line
        graph for the network either: the linear reading of the scaffold stands alone.

        Columns are hundreds, not thousands, and at sites of a few people signs hardly agree whatever is true. A number
        goes with edges everywhere, each a little, and so do classes with edges in units of their own. So for these
        (``is_wide``), where the thresholds are ours, held-out sites choose whether everything is read or the fifth with
        the largest consensus, and whether signs must agree.
        """
        recipe = self if measure == "series" else replace(self, profiles=False)
        recipe = replace(recipe, **readable_kind(self.edge_kind, measure, own_units)._asdict())
        if measure == "table":
            recipe = replace(recipe, epochs=0)
        ours = (self.tau_percentile, self.eta, self.zeta) == (OURS.tau_percentile, OURS.eta, OURS.zeta)
        chosen = measure == "table" or (is_wide and self.skip == "ridge")
        if not (ours and chosen):
            return recipe
        return replace(recipe, tau_percentile=(0, TAU_PERCENTILE), eta=(0, ETA), zeta=0.0)

    def changes(self) -> dict[str, Any]:
        """The settings that differ from ours.

        >>> replace(OURS, hidden=8).changes()
        {'hidden': 8}
        """
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value != getattr(OURS, name)}


OURS = Recipe()
#: The paper's network, edges and optimiser, oriented and trained by site folds as ours is.
NETWORK = replace(
    OURS,
    kind="pearson",
    robust=False,
    soft=False,
    skip="none",
    project=False,
    profiles=True,
    train="episodic",
    updates=None,
    learning_rate=1e-3,
)
#: The paper: its text word by word, and edges of the scaffold as its table and figures show them.
PAPER = replace(
    NETWORK,
    sign="positive",
    orient=False,
    train="joint",
    train_residual="site",
    hidden=64,
    stretch=None,
    slopes="site",
    contrast="huber",
    max_pathways=None,
)
RECIPES: Mapping[str, Recipe] = {"ours": OURS, "network": NETWORK, "paper": PAPER}


def as_recipe(recipe: str | Recipe) -> Recipe:
    """A recipe by its name, or as it is.

    >>> as_recipe("paper") is PAPER
    True
    """
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    return RECIPES[recipe]
