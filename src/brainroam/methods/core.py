"""CORE and its variants under the contract of all methods.

``core`` is our default; the next four each change one part, as the paper's ablation does; ``core-network`` is the
paper's network on its own, oriented and trained by site folds; ``core-paper`` is the paper: Pearson edges, the positive
ones of the scaffold as in its table and figures, joint training on site residuals at a constant rate, no orientation,
the network alone on all pathways. ``core-paper[sign=both]`` is the letter of its equation.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd

from brainroam.core.choice import describe_decision
from brainroam.core.model import CoreModel
from brainroam.core.recipe import NETWORK, PAPER, Recipe, as_recipe
from brainroam.core.site_flips import flipped_strengths
from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.column_scores import ColumnScores, by_scores
from brainroam.methods.explanation import QUANTILES, TOP_AT_SITES, describe_edges, largest
from brainroam.methods.registry import register
from brainroam.utils.parameters import settings_of

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class Core(Method):
    """A `CoreModel` that reads cohorts.

    Parameters
    ----------
    covariates : tuple of str, optional
        Columns of the cohort's table to remove; those of the study by default.
    recipe : {"ours", "network", "paper"}
        The `Recipe` to start from.
    **settings
        Of the recipe, changed.
    """

    selects_scaffold = True
    __signature__ = inspect.Signature(
        [
            inspect.Parameter("covariates", _KEYWORD, default=None, annotation=Sequence[str] | None),
            inspect.Parameter("recipe", _KEYWORD, default="ours", annotation=str),
            *(setting.replace(kind=_KEYWORD) for setting in settings_of(Recipe).values()),
        ]
    )

    def __init__(self, covariates: Sequence[str] | None = None, recipe: str = "ours", **settings: Any) -> None:
        self.covariates, self.recipe = covariates, replace(as_recipe(recipe), **settings)
        self.edge_kinds = (self.recipe.edge_kind,)

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Fit with this seed."""
        self.columns_, cohort = by_scores(cohort)
        covariates = cohort.covariates(self.covariates)
        if cohort.measure == "table":  # age, where it is a measure itself, would be removed from itself
            covariates = covariates.drop(columns=[name for name in covariates if name in cohort.atlas.labels])
        self.core_ = CoreModel(self.recipe, seed).fit(cohort, covariates)
        self.inner_scores_, self.notes_ = self.core_.inner_scores_, self.core_.notes_
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The logit."""
        return self.core_.score(self.columns_.transform(cohort), cohort.table)

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any]:
        """The scaffold with its evidence, gates and contributions."""
        scaffold, (gates, moved) = self.core_.scaffold_, self.gates_and_contributions(cohort)
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
        }

    @property
    def decision(self) -> str:
        """How far the network is believed."""
        return describe_decision([self.core_.chosen_])

    def _chance(self) -> dict[str, Any]:
        """Whether sites agree more than chance; nothing for a saved model, which keeps no contrasts."""
        chosen, scaffold = self.core_.chosen_, self.core_.scaffold_
        if not len(scaffold.contrast) or self.recipe.bootstrap != "sites" or self.core_.n_outputs_ > 1:
            return {}
        thresholds = {name: chosen[name] for name in ("tau_percentile", "eta", "zeta")}
        strengths = flipped_strengths(scaffold.contrast, scaffold.sites, **thresholds, sign=self.recipe.sign)
        return {"chance": strengths}

    def representation(self, cohort: Cohort) -> np.ndarray:
        """The pathways' contributions (n, M_S), which the linear reading has too, unlike the network's z."""
        moved = self.gates_and_contributions(cohort)[1]
        return moved.reshape(len(moved), -1)

    def gates_and_contributions(self, cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
        """Gates and contributions (n, M_S), in the order of ``scaffold_.edges``; these of K classes (n, M_S, K)."""
        parts = []
        for some in map(self.columns_.transform, cohort.batches()):
            nodes, reading = self.core_.nodes(some, some.table), self.core_.reading_
            parts.append((reading.gates(nodes).T, np.swapaxes(reading.contributions(nodes), 0, 1)))
        return np.concatenate([gates for gates, _ in parts]), np.concatenate([moved for _, moved in parts])

    def missing_covariates(self, cohort: Cohort) -> pd.DataFrame:
        """Covariates that stood at the training mean."""
        return self.core_.deconfounder_.encoder_.missing(cohort.table)

    def state(self) -> dict[str, np.ndarray]:
        """See `CoreModel.state`."""
        return self.core_.state() | self.columns_.state()

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.core_ = CoreModel(self.recipe).load_state(state)
        self.columns_ = ColumnScores().load_state(state)
        return self


_CORE = "When Brain Networks Travel: Learning Beyond Site (2026)"
EVERY, WITH_EDGES = ("series", "matrices", "table"), ("series", "matrices")
for _name, _settings, _reads, _summary in (
    (
        "core",
        {},
        EVERY,
        "cross-site scaffold, read by a ridge, by prior-guided gates, or both, as held-out sites decide",
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
