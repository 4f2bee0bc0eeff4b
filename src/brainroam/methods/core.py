"""CORE and its variants under the contract of all methods: the flagship.

``core`` reads people twice, and believes the network as far as training sites that were held out say it gains:

    score = (1 - w) soft / s_soft + w network / s_network

soft       all edges, weighted by their contrast: a scaffold without a threshold (`brainroam.methods.ensemble`)
network    gates on the cross-site scaffold (`brainroam.core.model`), which is also what is shown
w          from the network's gain over a linear reading of the same scaffold (`brainroam.core.choice`)
s          spread of either score within held-out training sites

What moves with head motion is projected out of both, so that nothing of it is needed of a new person. With w = 0, where
torch is not installed, or where training sites agree on no scaffold, ``core`` is ``ensemble`` to the last byte. Against
the linear reading of the same pathways the network's gain is known twice as well as against the soft one, and with 80
people that decides: docs/results/gate.md.

The next four each change one part, as the paper's ablation does; ``core-network`` is the paper's network on its own,
oriented and trained by site folds; ``core-paper`` is the paper: Pearson edges, the positive ones of the scaffold as in
its table and figures, joint training on site residuals at a constant rate, no orientation, the network alone on all
pathways. ``core-paper[sign=both]`` is the letter of its equation.
"""

import inspect
from collections.abc import Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.core.choice import Choice, describe_decision, spread_of_scores
from brainroam.core.model import NOBODY_HELD_OUT, CoreModel
from brainroam.core.nuisance import note_of_motion, split_covariates
from brainroam.core.recipe import NETWORK, OURS, PAPER, Recipe, as_recipe
from brainroam.core.site_flips import flipped_strengths
from brainroam.data.cohort import Cohort
from brainroam.errors import EmptyScaffoldError, MemoryLimitError
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.column_scores import ColumnScores, by_scores
from brainroam.methods.ensemble import Ensemble
from brainroam.methods.explanation import QUANTILES, TOP_AT_SITES, describe_edges, largest
from brainroam.methods.registry import register
from brainroam.utils.model_files import part
from brainroam.utils.optional import installed, one_thread
from brainroam.utils.parameters import settings_of

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class Core(Method):
    """CORE: the soft reading of all edges and a gated network on the scaffold, as held-out sites decide.

    Parameters
    ----------
    covariates : sequence of str, optional
        Columns of the cohort's table to remove from the pathways by regression; those of the study by default, without
        the nuisance variables.
    nuisance : sequence of str, optional
        Columns whose directions are projected out; those of the study by default (motion).
    recipe : {"ours", "network", "paper"}
        The `Recipe` to start from.
    **settings
        Of the recipe, changed.

    Attributes
    ----------
    soft_ : Ensemble or None
        None where the recipe does without.
    core_ : CoreModel or None
        Scaffold and network; None where training sites agree on no scaffold and the soft reading stands alone.
    choice_ : Choice
        How far the network is believed, in the place of the soft reading.
    """

    selects_scaffold = True
    soft_: Any
    core_: Any
    choice_: Choice
    __signature__ = inspect.Signature(
        [
            inspect.Parameter("covariates", _KEYWORD, default=None, annotation=Sequence[str] | None),
            inspect.Parameter("nuisance", _KEYWORD, default=None, annotation=Sequence[str] | None),
            inspect.Parameter("recipe", _KEYWORD, default="ours", annotation=str),
            *(setting.replace(kind=_KEYWORD) for setting in settings_of(Recipe).values()),
        ]
    )

    def __init__(
        self,
        covariates: Sequence[str] | None = None,
        nuisance: Sequence[str] | None = None,
        recipe: str = "ours",
        **settings: Any,
    ) -> None:
        self.covariates, self.nuisance = covariates, nuisance
        self.recipe = replace(as_recipe(recipe), **settings)
        self.edge_kinds = (self.recipe.edge_kind,)
        if self._is_soft:
            self.edge_kinds = tuple(dict.fromkeys([*Ensemble().edge_kinds, self.recipe.edge_kind]))

    @property
    def _is_soft(self) -> bool:
        """Whether the soft reading stands beside the network."""
        return self.recipe.soft and self.recipe.skip == "ridge"

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Read everybody softly, find the scaffold, and learn how far its network is believed."""
        self.soft_, recipe = None, self.recipe
        self.notes_ = note_of_motion(cohort, self.nuisance) if recipe.project else []
        if self._is_soft:
            self.soft_ = Ensemble(self.nuisance).fit(cohort, seed)
            if recipe.epochs is None and not installed("torch"):
                recipe = replace(recipe, epochs=0)
                self.notes_ += ["torch is not installed: without the network, which is the method ensemble"]
        try:
            self.core_ = self._fit_scaffold(recipe, cohort, seed)
        except (EmptyScaffoldError, MemoryLimitError) as error:
            if self.soft_ is None or _thresholds(recipe) != _thresholds(OURS):  # what was asked for cannot be had
                raise
            self.core_, self.choice_ = None, Choice(0.0)
            self.inner_scores_, self.foretold_scores_ = self.soft_.inner_scores_, self.soft_.foretold_scores_
            self.notes_.append(f"all edges alone, without a scaffold: {error}")
            return self
        self.choice_ = self.core_.reading_.choice
        if self.soft_ is None:
            self.notes_, self.inner_scores_ = self.notes_ + self.core_.notes_, self.core_.inner_scores_
            self.foretold_scores_ = self.core_.foretold_scores_
        else:  # which holds out people of two sites, too
            self.notes_ += [note for note in self.core_.notes_ if note != NOBODY_HELD_OUT]
            soft, network = self.soft_.inner_scores_, self.core_.inner_network_scores_
            spread = spread_of_scores(soft, cohort.table["site"].to_numpy())
            self.choice_ = replace(self.choice_, linear_spread=spread)
            self.inner_scores_ = self.choice_.combine(soft, network)
            nested = soft if self.soft_.foretold_scores_ is None else self.soft_.foretold_scores_
            self.foretold_scores_ = self.choice_.combine(nested, network)
        return self

    def _fit_scaffold(self, recipe: Recipe, cohort: Cohort, seed: int) -> CoreModel:
        """Scaffold and network, without covariates and nuisance variables."""
        self.columns_, cohort = by_scores(cohort)
        removed, nuisance = split_covariates(cohort, self.covariates, self.nuisance if recipe.project else ())
        if cohort.measure == "table":  # age, where it is a measure itself, would be removed from itself
            removed = removed.drop(columns=[name for name in removed if name in cohort.atlas.labels])
        return CoreModel(recipe, seed).fit(cohort, removed, nuisance)

    @one_thread()
    def score(self, cohort: Cohort) -> np.ndarray:
        """The logit."""
        if self.soft_ is None:
            return self.core_.score(self.columns_.transform(cohort), cohort.table)
        soft = self.soft_.score(cohort)
        if self.choice_.share == 0:
            return soft
        network = self.core_.reading_.network_logits(self.core_.nodes(cohort, cohort.table))  # never of a table
        return self.choice_.combine(soft, network)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The scaffold with its evidence, gates and contributions."""
        if self.core_ is None:
            return self.soft_.explanation(cohort, top)
        scaffold, (gates, moved) = self.core_.scaffold_, self.gates_and_contributions(cohort)
        carried = _share_carried(moved.sum(axis=1), self.score(cohort))
        if moved.ndim == 3:  # of several classes, what speaks for the class with the highest score
            highest = moved.sum(axis=1).argmax(axis=1)
            moved = np.take_along_axis(moved, highest[:, None, None], axis=2)[..., 0]
        edges = {
            "edge": scaffold.edges,
            "d_com": scaffold.consensus[scaffold.edges],
            "kappa": scaffold.sign_consistency[scaffold.edges],
            "pi": scaffold.stability[scaffold.edges],
            "mean_gate": gates.mean(axis=0),
            "mean_size_of_contribution": np.abs(moved).mean(axis=0),
        }
        content = describe_edges("scaffold", "d_com", cohort.atlas, edges)
        strongest = content["edges"]["edge"][:TOP_AT_SITES]
        people = largest(scaffold.edges, top, "contribution", gate=gates, contribution=moved)
        sites = {"site": list(scaffold.sites), "edge": strongest, "contrast": scaffold.contrast[:, strongest]}
        return content | {
            **({"sites": sites} if len(scaffold.contrast) else {}),
            **self._chance(),
            "people": people | {"gate_quantiles": np.quantile(gates, QUANTILES, axis=1).T},
            "choice": self.core_.chosen_,
            "carried": carried,
        }

    @property
    def decision(self) -> str:
        """How far the network is believed."""
        return "" if self.core_ is None else describe_decision([self.core_.chosen_])

    def _chance(self) -> dict[str, Any]:
        """Whether sites agree more than chance; nothing for a saved model, which keeps no contrasts."""
        chosen, scaffold = self.core_.chosen_, self.core_.scaffold_
        if not len(scaffold.contrast) or self.recipe.bootstrap != "sites" or self.core_.outputs_ > 1:
            return {}
        thresholds = {name: chosen[name] for name in ("tau_percentile", "eta", "zeta")}
        strengths = flipped_strengths(scaffold.contrast, scaffold.sites, **thresholds, sign=self.recipe.sign)
        return {"chance": strengths}

    def representation(self, cohort: Cohort) -> np.ndarray | None:
        """The pathways' contributions (n, M_S), which the linear reading has too, unlike the network's z."""
        if self.core_ is None:
            return self.soft_.representation(cohort)
        moved = self.gates_and_contributions(cohort)[1]
        return moved.reshape(len(moved), -1)

    def gates_and_contributions(self, cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
        """Gates and contributions (n, M_S), in the order of ``scaffold_.edges``; these of K classes (n, M_S, K)."""
        parts = []
        for some in cohort.batches():
            nodes, reading = self.core_.nodes(self.columns_.transform(some), some.table), self.core_.reading_
            parts.append((reading.gates(nodes).T, self._contributions(some, nodes)))
        return np.concatenate([gates for gates, _ in parts]), np.concatenate([moved for _, moved in parts])

    def _contributions(self, cohort: Cohort, nodes: np.ndarray) -> np.ndarray:
        """What each pathway adds to the score of each person (n, M_S), or (n, M_S, K), by both readings."""
        reading, edges = self.core_.reading_, self.core_.scaffold_.edges
        if self.soft_ is None:
            return np.swapaxes(reading.contributions(nodes), 0, 1)
        soft = self.soft_.contributions(cohort, edges)
        if self.choice_.share == 0:
            return soft
        return self.choice_.combine(soft, np.swapaxes(reading.network_contributions(nodes), 0, 1))

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean, where anything is read that they are taken out of."""
        if self.soft_ is not None and self.choice_.share == 0:
            return super().missing_covariates(cohort)
        return self.core_.deconfounder_.encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """That of scaffold and network (`CoreModel.state`), beside that of the soft reading."""
        scaffold = {} if self.core_ is None else self.core_.state() | self.columns_.state()
        if self.soft_ is None:
            return scaffold
        soft = {f"soft.{name}": value for name, value in self.soft_.state().items()}
        return {**scaffold, **soft, "mixture": np.array(astuple(self.choice_))}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned; a model pooled from summaries of hospitals has no soft reading."""
        soft = part(state, "soft")
        self.soft_ = Ensemble(self.nuisance).load_state(soft) if soft else None
        scaffold = {name: value for name, value in state.items() if name != "mixture" and not name.startswith("soft.")}
        self.core_ = CoreModel(self.recipe).load_state(scaffold) if scaffold else None
        self.columns_ = ColumnScores().load_state(state)
        self.choice_ = Choice(*map(float, state["mixture"])) if soft else self.core_.reading_.choice
        return self


def _thresholds(recipe: Recipe) -> tuple[Any, ...]:
    return recipe.tau_percentile, recipe.eta, recipe.zeta, recipe.budget


def _share_carried(part: np.ndarray, score: np.ndarray) -> float:
    """The share of the variance of scores that a part of them carries: cov(part, score) / var(score), over people.

    Of several classes (n, K) over people and classes. The shares of parts that add up to the score add up to 1.

    >>> _share_carried(np.array([1.0, 2.0, 3.0]), np.array([4.0, 8.0, 12.0]))
    0.25
    """
    part, score = part - part.mean(axis=0), score - score.mean(axis=0)
    return float((part * score).sum() / max(float((score**2).sum()), 1e-300))


_CORE = "When Brain Networks Travel: Learning Beyond Site (2026)"
EVERY, WITH_EDGES = ("series", "matrices", "table"), ("series", "matrices")
for _name, _settings, _reads, _summary in (
    (
        "core",
        {},
        EVERY,
        "all edges softly, and prior-guided gates on the cross-site scaffold as far as held-out sites believe them",
    ),
    ("core-no-cd", {"deconfounding": "pooled"}, EVERY, "core without site-aware deconfounding (pooled instead)"),
    ("core-tp", {"profiles": True}, ("series",), "core with temporal profiles: volatility and flexibility"),
    ("core-no-pg", {"prior_strength": 0.0}, WITH_EDGES, "core without the prior in the gate"),
    ("core-no-sg", {"gated": False}, WITH_EDGES, "core without subject-adaptive gates"),
    (
        "core-network",
        NETWORK.changes(),
        WITH_EDGES,
        "the paper's network and Pearson edges, oriented, trained by site folds",
    ),
    (
        "core-paper",
        PAPER.changes(),
        WITH_EDGES,
        "the paper word by word, on the positive edges that its table and figures show",
    ),
):
    register(
        MethodInfo(
            _name,
            partial(Core, **_settings),
            _summary,
            _CORE,
            needs=("site", "covariates"),
            covariate_use="removed",
            self_selecting=True,
            fast={"trials": 1},
            reads=_reads,
            targets=EVERY_TARGET,
        )
    )
