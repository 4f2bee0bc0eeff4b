"""What a network learns, epoch by epoch: AUC of the people it is trained on and of those of the site held out.

Nothing is chosen by these curves. They show which readings of the paper can order the people they were trained on:
nodes share all weights and the readout is their mean, so pathways that are stronger and pathways that are weaker in
patients cancel, unless the scaffold has one sign or each pathway is multiplied by its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score

from brainroam.core.recipe import PAPER, Recipe
from brainroam.data.cohort import Cohort
from brainroam.utils.optional import extra

EPOCHS = 30
READINGS = {
    "positive edges": PAPER,
    "both signs": replace(PAPER, sign="both"),
    "both signs, oriented": replace(PAPER, sign="both", orient=True),
}


def learning_curves(
    cohort: Cohort, epochs: int = EPOCHS, seed: int = 0, known: Sequence[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """For each site held out and each of `READINGS`: the curves, and the accuracy of three thresholds at their end.

    What is ``known``, as (reading, site), is left out.

    ``training`` and ``held_out`` are AUCs after each epoch. The accuracies at the held-out site call a case who has a
    probability of one half (``acc_half``), a logit above the middle of the means of the classes in training
    (``acc_midpoint``), or above the median of the site itself (``acc_median``, which no single new person has).

    >>> import brainroam
    >>> cohort = brainroam.make_cohort(n_sites=3, n_per_site=12, n_rois=12)
    >>> row = next(learning_curves(cohort, epochs=2))
    >>> row["reading"], len(row["held_out"])
    ('positive edges', 2)
    """
    site = cohort.table["site"].to_numpy()
    for name in cohort.sites:
        training, held_out = cohort.subset(site != name), cohort.subset(site == name)
        if len(set(held_out.labels)) == 2:
            for reading, recipe in READINGS.items():
                if (reading, name) not in known:
                    yield {"reading": reading, "site": name, **_curve(training, held_out, recipe, epochs, seed)}


def _curve(training: Cohort, held_out: Cohort, recipe: Recipe, epochs: int, seed: int) -> dict[str, Any]:
    extra("torch", "torch")

    from brainroam.core.connectivity import cohort_edges
    from brainroam.core.model import GATE_BUDGET
    from brainroam.core.profile import profiles_of
    from brainroam.core.site_folds import SiteFolds, predict_logits
    from brainroam.core.site_statistics import site_statistics
    from brainroam.core.training import Schedule, build_network, training_epochs

    covariates = training.covariates()
    statistics = site_statistics(training, covariates, recipe.deconfounder(), recipe.edge_kind, recipe.contrast)
    thresholds = {name: getattr(recipe, name) for name in ("tau_percentile", "eta", "zeta", "sign")}
    folds = SiteFolds(statistics, thresholds, recipe.train_residual, recipe.orient, skip="none")

    def profiles(cohort: Cohort, edges: np.ndarray) -> Any:
        window, stride = np.full(len(cohort), recipe.window), np.full(len(cohort), recipe.stride)
        return profiles_of(cohort, edges, window, stride, recipe.stretch)

    folds.profiles = profiles(training, folds.needed_edges())
    pathways, edges = folds.pathways(), folds.scaffold().edges
    values = cohort_edges(held_out, *recipe.edge_kind)[:, edges]
    new = pathways.nodes(values, held_out.covariates(), profiles(held_out, edges).of(edges))
    seen = folds.nodes(np.arange(len(training)))
    episodes = folds.joint()
    graph = episodes[0].some(np.arange(1)).graph
    read = [_episode(features, cohort.labels, graph) for features, cohort in ((seen, training), (new, held_out))]
    network = build_network(seed, channels=3, hidden=recipe.hidden, layers=recipe.layers)
    schedule = Schedule(min(GATE_BUDGET, len(edges) / 2), recipe.budget_weight, recipe.learning_rate)
    curves: dict[str, Any] = {"pathways": len(edges), "training": [], "held_out": []}
    for epoch in training_epochs(network, episodes, schedule, seed):
        if epoch:
            ours, theirs = (predict_logits(network, episode) for episode in read)
            curves["training"].append(roc_auc_score(training.labels, ours))
            curves["held_out"].append(roc_auc_score(held_out.labels, theirs))
        if epoch == epochs:
            break
    midpoint = np.mean([ours[training.labels == label].mean() for label in (0, 1)])
    for name, threshold in (("half", 0.0), ("midpoint", midpoint), ("median", np.median(theirs))):
        curves[f"acc_{name}"] = accuracy_score(held_out.labels, theirs > threshold)
    return curves


def _episode(features: np.ndarray, labels: np.ndarray, graph: Any) -> Any:
    from brainroam.core.site_folds import Episode, to_device

    return Episode(to_device(features, "cpu"), to_device(labels, "cpu"), graph)
