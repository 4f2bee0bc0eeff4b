"""How long to train, by inner leave-one-site-out.

Each training site is held out once; a network is trained on the others, all of them in step, and after every epoch t
the mean over held-out sites of the AUC there is m_t. Training stops when m has not improved for ``patience`` epochs,
and the best t is chosen. A network that starts from a skip connection is already worth something at t = 0 and has to
earn more: t > 0 is chosen only if its mean gain over t = 0 exceeds the standard error of that gain over the sites.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import roc_auc_score

from brainroam.core.episodes import AnyEpisode, as_array, predict_logits

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork


@dataclass(frozen=True)
class Trial:
    """A network in training, and the held-out site it is judged on."""

    site: str
    network: "GatedNetwork"
    epochs: Iterator[int]
    held_out: AnyEpisode


@dataclass(frozen=True)
class Choice:
    """The chosen number of epochs, its mean AUC, and the held-out logits of each site at that point."""

    epochs: int
    auc: float
    logits: dict[str, np.ndarray]


def choose_epochs(
    trials: Sequence[Trial], limit: int, patience: int, must_earn: bool = True, fixed: bool = False
) -> Choice:
    """Advance all trials together and choose.

    Parameters
    ----------
    trials : sequence of Trial
    limit : int
        Epochs at most; with ``fixed`` exactly.
    patience : int
        Epochs without improvement after which to stop.
    must_earn : bool
        Whether epoch 0 is a candidate that later ones have to beat; otherwise training starts to count at epoch 1.
    """
    logits: list[list[np.ndarray]] = []
    aucs: list[list[float]] = []
    first = 0 if must_earn or limit == 0 else 1
    for epoch in range(limit + 1):
        for trial in trials:
            next(trial.epochs)
        logits.append([predict_logits(trial.network, trial.held_out) for trial in trials])
        labels = [as_array(trial.held_out.labels) for trial in trials]
        aucs.append([float(roc_auc_score(y, score)) for y, score in zip(labels, logits[-1], strict=True)])
        merit = np.mean(aucs, axis=1)
        if not fixed and epoch >= first and epoch - (first + int(np.argmax(merit[first:]))) >= patience:
            break
    best = limit if fixed else first + int(np.argmax(merit[first:]))
    if must_earn and not fixed and not _earned(np.array(aucs), best):
        best = 0
    found = {trial.site: score for trial, score in zip(trials, logits[best], strict=True)}
    return Choice(best, float(merit[best]), found)


def _earned(aucs: np.ndarray, epoch: int) -> bool:
    gain = aucs[epoch] - aucs[0]
    return len(gain) > 1 and gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain))
