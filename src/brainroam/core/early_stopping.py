"""How long to train, by inner leave-one-site-out.

Training sites are held out one at a time; a network is trained on the others, all of them in step, and after every
epoch t the mean over held-out sites of the AUC there is m_t. Training stops when m has not improved for ``patience``
epochs, and the best t is chosen (`choose_epochs`). A network that starts from a skip connection is already worth
something at t = 0 and has to earn more: t > 0 is chosen only if its mean gain over t = 0 exceeds `EARNED` standard
errors of that gain over the sites, so that chance alone rarely trains a network. After an epoch that leaves no site
better than at t = 0 nobody looks any further.

Few sites are enough to see that training is not worth it. So t is chosen on a few of them, and the others are asked a
few at a time whether they gain from t epochs (`confirm_epochs`), nine at most. Each time the gain of all has to be
earned in this sense; the first time it is not, t = 0 is chosen and the sites that are left are not trained for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from brainroam.core.auc import auc
from brainroam.core.episodes import AnyEpisode, as_array, predict_logits

if TYPE_CHECKING:
    from brainroam.core.gate import GatedNetwork

EARNED = 2.0  # standard errors


@dataclass(frozen=True)
class Trial:
    """A network in training, and the held-out site it is judged on."""

    site: str
    network: "GatedNetwork"
    epochs: Iterator[int]
    held_out: AnyEpisode


@dataclass(frozen=True)
class Choice:
    """The chosen number of epochs, and of each held-out site the logits and AUC then, and the AUC before training."""

    epochs: int
    logits: dict[str, np.ndarray]
    aucs: dict[str, float]
    untrained: dict[str, float]

    @property
    def auc(self) -> float:
        """Mean over the sites."""
        return float(np.mean(list(self.aucs.values())))


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
        aucs.append([auc(y, score) for y, score in zip(labels, logits[-1], strict=True)])
        merit = np.mean(aucs, axis=1)
        if must_earn and not fixed and epoch and np.less_equal(aucs[-1], aucs[0]).all():
            break
        if not fixed and epoch >= first and epoch - (first + int(np.argmax(merit[first:]))) >= patience:
            break
    best = limit if fixed else first + int(np.argmax(merit[first:]))
    if must_earn and not fixed and not _earned(np.subtract(aucs[best], aucs[0])):
        best = 0
    sites = [trial.site for trial in trials]
    return Choice(
        best,
        dict(zip(sites, logits[best], strict=True)),
        dict(zip(sites, aucs[best], strict=True)),
        dict(zip(sites, aucs[0], strict=True)),
    )


def confirm_epochs(choice: Choice, trials: Sequence[Trial]) -> Choice:
    """The choice with further sites, for which the chosen number of epochs is trained; 0 epochs if it is not earned."""
    joined = Choice(choice.epochs, {**choice.logits}, {**choice.aucs}, {**choice.untrained})
    for trial in trials:
        y = trial.held_out.labels.cpu().numpy()
        next(trial.epochs)
        joined.untrained[trial.site] = auc(y, predict_logits(trial.network, trial.held_out))
        for _ in range(choice.epochs):
            next(trial.epochs)
        joined.logits[trial.site] = predict_logits(trial.network, trial.held_out)
        joined.aucs[trial.site] = auc(y, joined.logits[trial.site])
    gain = np.array([joined.aucs[site] - joined.untrained[site] for site in joined.aucs])
    return joined if _earned(gain) else replace(joined, epochs=0)


def _earned(gain: np.ndarray) -> bool:
    return len(gain) > 1 and bool(gain.mean() > EARNED * gain.std(ddof=1) / np.sqrt(len(gain)))
