"""Training the gated network.

    L = CE(logit, y) + gamma * mean_i | sum_p g_ip - K |             Adam, weight decay

over a list of episodes; of a number, standardised within sites, (logit - y)^2 stands in the place of CE, and of several
classes CE is that over their logits.
*Joint* training (the paper) is one episode with everybody. *Episodic* training has one episode
per group of training sites: its people, read on the pathways that the other sites gave, exactly as an unseen site will
be read. Where sites and people are few, the pathways of the others hardly hold for the people of a group, and a network
may learn from them that strong pathways speak for controls; so ours has both: the joint episode, in which every pathway
points to cases, keeps the sign, and the others say how far to trust it. Over a number of updates U that is set before,
the rate warms up linearly during the first tenth and then falls to zero,

    rate_u = rate min(1, u / (U / 10)) (1 + cos(pi u / U)) / 2

so that the last weights need no early stopping. A number of epochs has the paper's constant rate instead.
Every choice of order and initial weight comes from the seed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from brainroam.core.gate import GatedNetwork
from brainroam.core.site_folds import AnyEpisode, Episode, predict_logits
from brainroam.data.target import TWO_CLASSES
from brainroam.data.target.coding import Coding

BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam, as torch has them


@dataclass(frozen=True)
class Schedule:
    """How to train: the paper's gamma and K, and the optimiser's settings."""

    budget: float = 80
    budget_weight: float = 5e-4
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    batch_size: int = 32
    updates: int | None = None  # over which the rate falls to zero; None is a constant rate
    coding: Coding = TWO_CLASSES.coding  # which says what the loss is

    def rate(self, update: int, total: int) -> float:
        """The learning rate of one update of ``total``."""
        if self.updates is None:
            return self.learning_rate
        return self.learning_rate * min(1.0, 10 * update / total) * (1 + math.cos(math.pi * update / total)) / 2

    def epochs(self, episodes: Sequence[AnyEpisode]) -> int:
        """Epochs that hold about as many updates as asked for; at least one."""
        return max(1, round((self.updates or 0) / _updates_per_epoch(episodes, self.batch_size)))


@dataclass(frozen=True)
class Trial:
    """A network in training, and the group of sites it is judged on."""

    network: GatedNetwork
    epochs: Iterator[int]
    held_out: AnyEpisode
    label: np.ndarray
    site: np.ndarray
    coding: Coding = TWO_CLASSES.coding


class Adam:
    """Kingma & Ba's optimiser with L2 weight decay, the same numbers as torch's.

    torch's own imports its compiler on first use, which takes longer than many a fit, and steps through the parameters
    one by one; here they lie in one vector.
    """

    def __init__(self, network: torch.nn.Module, learning_rate: float, weight_decay: float) -> None:
        self.learning_rate, self.weight_decay, self.steps = learning_rate, weight_decay, 0
        parameters = list(network.parameters())
        self.values = torch.cat([parameter.detach().flatten() for parameter in parameters])
        self.gradient, self.mean, self.square = (torch.zeros_like(self.values) for _ in range(3))
        start = 0
        for parameter in parameters:
            here = slice(start, start := start + parameter.numel())
            parameter.data = self.values[here].view_as(parameter)
            parameter.grad = self.gradient[here].view_as(parameter)

    @torch.no_grad()
    def step(self) -> None:
        """Take one step along the gradients and set them to zero."""
        self.steps += 1
        gradient = self.gradient.add(self.values, alpha=self.weight_decay)
        self.mean.lerp_(gradient, 1 - BETAS[0])
        self.square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        spread = (self.square.sqrt() / (1 - BETAS[1] ** self.steps) ** 0.5).add_(EPS)
        self.values.addcdiv_(self.mean, spread, value=-self.learning_rate / (1 - BETAS[0] ** self.steps))
        self.gradient.zero_()


def build_network(seed: int, device: str = "cpu", **settings: Any) -> GatedNetwork:
    """A network whose initial weights depend on the seed alone and leave torch's global state untouched."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GatedNetwork(**settings).to(device)


def train_network(
    network: GatedNetwork, episodes: Sequence[AnyEpisode], schedule: Schedule, seed: int = 0, epochs: int | None = None
) -> GatedNetwork:
    """Train in place: for a number of epochs, or for the updates of the schedule."""
    epochs = schedule.epochs(episodes) if epochs is None else epochs
    for epoch in training_epochs(network, episodes, schedule, seed, epochs):
        if epoch == epochs:
            break
    return network


def training_epochs(
    network: GatedNetwork, episodes: Sequence[AnyEpisode], schedule: Schedule, seed: int = 0, epochs: int = 1
) -> Iterator[int]:
    """Train in place for as long as the caller asks: yields 0 before the first step, then the epochs done so far.

    ``epochs`` is how many are planned, for a schedule whose rate falls to zero.
    """
    order = np.random.default_rng(seed)
    optimiser = Adam(network, schedule.learning_rate, schedule.weight_decay)
    total = epochs * _updates_per_epoch(episodes, schedule.batch_size)
    for epoch in count():
        yield epoch
        network.train()
        for episode, people in _batches(episodes, schedule.batch_size, order):
            optimiser.learning_rate = schedule.rate(optimiser.steps + 1, total)
            objective(network, episode.some(people), schedule).backward()
            optimiser.step()


def choose_epochs(trials: Sequence[Trial], limit: int, patience: int) -> tuple[int, list[np.ndarray]]:
    """How long to train at a constant rate, by held-out groups of sites.

    One network for each group is trained on the others, all of them in step. After every epoch t the mean over held-out
    sites of the AUC there is m_t; the largest is chosen, once it was not exceeded for ``patience`` epochs.

    Returns
    -------
    epochs : int
        ``limit`` where no group can be held out.
    logits : list of ndarray
        Of each group's people after these epochs.
    """
    if not trials:
        return limit, []
    logits: list[list[np.ndarray]] = []
    merit: list[float] = []
    for trial in trials:
        next(trial.epochs)
    for _ in range(limit):
        for trial in trials:
            next(trial.epochs)
        logits.append([predict_logits(trial.network, trial.held_out) for trial in trials])
        orders = [
            trial.coding.site_orders(trial.label, trial.site, x) for trial, x in zip(trials, logits[-1], strict=True)
        ]
        merit.append(float(np.mean(np.concatenate(orders))))
        if len(merit) - 1 - int(np.argmax(merit)) >= patience:
            break
    best = int(np.argmax(merit))
    return best + 1, logits[best]


def objective(network: GatedNetwork, batch: Episode, schedule: Schedule) -> Tensor:
    """The loss of the target (`Coding.loss`) plus the gate budget, averaged over a batch."""
    reading = network(batch.features, batch.graph)
    loss = schedule.coding.loss(functional)(reading.logit, batch.labels)
    if not network.gated:
        return loss
    overspent = (reading.gates.sum(dim=0) - schedule.budget).abs().mean()
    return loss + schedule.budget_weight * overspent


def _updates_per_epoch(episodes: Sequence[AnyEpisode], batch_size: int) -> int:
    return sum(-(-len(episode) // batch_size) for episode in episodes)


def _batches(
    episodes: Sequence[AnyEpisode], batch_size: int, order: np.random.Generator
) -> Iterator[tuple[AnyEpisode, Tensor]]:
    """Every person once per epoch, in random order of episodes and people, in batches of about equal size."""
    batches = [
        (episode, torch.as_tensor(part))
        for episode in episodes
        for part in np.array_split(order.permutation(len(episode)), -(-len(episode) // batch_size))
    ]
    for i in order.permutation(len(batches)):
        yield batches[i]
