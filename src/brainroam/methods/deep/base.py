"""What every deep baseline shares: one training loop, one way to score, one way to be saved.

A method names its inputs, builds its network and, where it is not plain cross-entropy, its loss. Everything else
stands here once:

* A network returns one logit per person, positive for the condition: two logits matter only through their difference.
  Of a number it returns the number itself, without its mean and over its standard deviation in training, and squared
  error stands for cross-entropy (`People.error`). Several classes are read by one network each, against the rest.
* Everything random (weights, batches, dropout, sampled masks) follows from the seed of `DeepMethod.fit`; the state of
  torch's global generator is left as it was.
* No schedule depends on ``epochs``: the first k epochs of a long fit are those of a short one, so the epoch chosen on
  ``validation_path_`` is the one a refit reaches.
* Scores are computed in evaluation mode, without noise, and in double precision, so that nobody's score depends on who
  else is scored beside them.
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from brainroam.data.cohort import Cohort
from brainroam.errors import DataError, UsageError
from brainroam.methods.base import Method
from brainroam.methods.deep.layers import Head, Network
from brainroam.methods.explanation import mask_explanation
from brainroam.utils.model_files import part
from brainroam.utils.optional import require_device

CHUNK = 32  # people scored at once: bounds memory, changes no score


class People(NamedTuple):
    """People to learn from: the tensors a network takes, their labels (0. or 1.) or numbers, and numbered sites."""

    inputs: tuple[Tensor, ...]
    y: Tensor
    site: Tensor
    number: bool = False

    def take(self, index: Tensor) -> "People":
        """The people at these positions."""
        return People(tuple(tensor[index] for tensor in self.inputs), self.y[index], self.site[index], self.number)

    def error(self, output: Tensor, reduction: str = "mean") -> Tensor:
        """What a network's output costs: cross-entropy of logits, or squared error of numbers."""
        if self.number:
            return F.mse_loss(output, self.y, reduction=reduction)
        return cross_entropy(output, self.y, reduction)


@dataclass(frozen=True)
class Shape:
    """The sizes a network is built from: regions, frames of the shortest series, people and sites in training."""

    rois: int
    frames: int
    people: int
    sites: int

    @classmethod
    def of(cls, cohort: Cohort) -> Self:
        """The sizes of a training cohort."""
        return cls(cohort.n_rois, min(map(len, cohort.series)), len(cohort), len(cohort.sites))


@dataclass(kw_only=True, eq=False)
class DeepMethod(Method):
    """A network trained by Adam on mini-batches.

    Parameters
    ----------
    epochs : int
    learning_rate, weight_decay : float
        Of Adam.
    batch_size : int
        People in a mini-batch, at most.
    device : str
        Where to train; scores are computed on the CPU.
    """

    epochs: NonNegativeInt = 40
    learning_rate: NonNegativeFloat = 1e-3
    weight_decay: NonNegativeFloat = 5e-4
    batch_size: PositiveInt = 64
    device: str = "cpu"

    @abstractmethod
    def inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        """The tensors the network takes, one row per person, each a function of that person alone."""

    @abstractmethod
    def build(self, shape: Shape) -> Network:
        """A fresh network."""

    def optimiser(self, network: Network) -> Any:
        """What `train_epoch` steps with."""
        return torch.optim.Adam(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)

    def loss(self, network: Any, batch: People, epoch: int) -> Tensor:
        """The objective on a mini-batch; cross-entropy or squared error unless a method says otherwise."""
        return batch.error(network(*batch.inputs))

    def batches(self, people: People) -> Iterator[Tensor]:
        """Positions of the people in each mini-batch of an epoch."""
        yield from shuffled_batches(len(people.y), self.batch_size)

    def train_epoch(self, network: Any, optimiser: Any, people: People, epoch: int) -> None:
        """One pass over the training people."""
        for index in self.batches(people):
            optimiser.zero_grad()
            self.loss(network, people.take(index), epoch).backward()
            optimiser.step()

    def set_up(self, network: Any, people: People) -> None:
        """Called before scoring, for what a network must remember of its training people; nothing as a rule."""

    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Learn from the training people; keep the validation people's scores after each epoch."""
        if self.epochs < 1:
            raise UsageError(f"epochs must be at least 1, got {self.epochs}")
        require_device(self.device)
        if len(set(cohort.targets)) < 2:
            raise DataError("all training people have the same label; give people with and without the condition")
        self.shape_ = Shape.of(cohort)
        held_out = None if validation is None else self._check_inputs(validation)
        path = []
        with _seed(seed, self.device):
            people = self._people(cohort)
            network = self.network_ = self.build(self.shape_).to(self.device)
            optimiser = self.optimiser(network)
            for epoch in range(self.epochs):
                network.train()
                self.train_epoch(network, optimiser, people, epoch)
                if held_out is not None or epoch == self.epochs - 1:
                    self.set_up(network, people)
                if held_out is not None:
                    path.append(_evaluate(network, _scores, held_out)["score"])
        self.validation_path_ = None if held_out is None else np.stack(path)
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """Log-odds of the condition, or the standardised number, as the network sees them."""
        return _evaluate(self._fitted_network(), _scores, self._check_inputs(cohort))["score"]

    def explain(self, cohort: Cohort) -> dict[str, np.ndarray]:
        """What the method's paper shows as explanation, one row per person; empty where it shows none."""
        return _evaluate(self._fitted_network(), lambda network, *x: network.explain(*x), self._check_inputs(cohort))

    def explanation(self, cohort: Cohort, top: int = 10) -> dict[str, Any] | None:
        """The matrix over regions, or the value of each region, that `explain` gives."""
        return mask_explanation(cohort.atlas, self.explain(cohort), top)

    def representation(self, cohort: Cohort) -> np.ndarray:
        """What the last linear layers see of each person: those that end in one logit, or else the last one to run."""
        return _evaluate(self._fitted_network(), _last_inputs, self._check_inputs(cohort))["input"]

    def state(self) -> dict[str, np.ndarray]:
        """The sizes and every parameter and buffer of the network."""
        weights = {
            f"network.{name}": value.cpu().numpy().copy() for name, value in self._fitted_network().state_dict().items()
        }
        return {"shape": np.array(astuple(self.shape_)), **weights}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore a fitted network; the parameters must be those it was fitted with."""
        self.shape_ = Shape(*map(int, state["shape"]))
        with _seed(0, self.device):
            self.network_ = self.build(self.shape_).to(self.device)
        weights = {name: torch.from_numpy(np.array(value)) for name, value in part(state, "network").items()}
        self.network_.load_state_dict(weights)
        return self

    def _people(self, cohort: Cohort) -> People:
        site = np.unique(cohort.table["site"].to_numpy(dtype=str), return_inverse=True)[1]
        number = cohort.target.is_number
        y = torch.tensor(
            cohort.target.learned(cohort.targets) if number else cohort.labels, dtype=torch.float32, device=self.device
        )
        inputs = tuple(tensor.to(self.device) for tensor in self._check_inputs(cohort))
        return People(inputs, y, torch.from_numpy(site).to(self.device), number)

    def _check_inputs(self, cohort: Cohort) -> tuple[Tensor, ...]:
        if cohort.n_rois != self.shape_.rois:
            raise DataError(
                f"the model was fitted on {self.shape_.rois} regions but these series have {cohort.n_rois}; "
                "use series of the same atlas"
            )
        return self.inputs(cohort)

    def _fitted_network(self) -> Any:
        if not hasattr(self, "network_"):
            raise UsageError(f"{type(self).__name__} is not fitted yet; call fit or load_state first")
        return self.network_


def cross_entropy(logit: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy of logits against labels, hard or soft."""
    return F.binary_cross_entropy_with_logits(logit, y, reduction=reduction)


def mixed_up(batch: People) -> People:
    """Everybody mixed with somebody else of the batch, inputs and labels alike: share a ~ Beta(1, 1) = uniform."""
    share, other = torch.rand(()).item(), batch.take(torch.randperm(len(batch.y)))
    inputs = tuple(share * one + (1 - share) * two for one, two in zip(batch.inputs, other.inputs, strict=True))
    return People(inputs, share * batch.y + (1 - share) * other.y, batch.site, batch.number)


def shuffled_batches(n_people: int, batch_size: int) -> Iterator[Tensor]:
    """Everybody once, in random order, in batches of nearly equal size: none is too small for batch statistics."""
    yield from torch.randperm(n_people).tensor_split(-(-n_people // batch_size))


def site_balanced_batches(site: Tensor, y: Tensor, per_site: int) -> Iterator[Tensor]:
    """Batches with ``per_site`` people of each site, both classes of a site spread evenly over its batches.

    There are as many batches as the largest site needs; people of smaller sites come again.
    """
    orders = [_stratified_order(torch.nonzero(site == e).flatten(), y) for e in site.unique()]
    for k in range(-(-max(map(len, orders)) // per_site)):
        span = torch.arange(k * per_site, (k + 1) * per_site)
        yield torch.cat([order[span % len(order)] for order in orders])


def _stratified_order(index: Tensor, y: Tensor) -> Tensor:
    """A random order in which every stretch has about the class balance of the whole."""
    position = torch.empty(len(index))
    for label in y[index].unique():
        here = torch.nonzero(y[index] == label).flatten().cpu()
        position[here] = (torch.randperm(len(here)) + torch.rand(len(here))) / len(here)
    return index[position.argsort().to(index.device)]


@contextmanager
def _seed(seed: int, device: str) -> Iterator[None]:
    """Everything drawn inside follows from the seed; the generators outside stay as they were."""
    kind = torch.device(device).type
    with torch.random.fork_rng([] if kind == "cpu" else [torch.device(device)], device_type=kind):
        torch.manual_seed(seed)
        yield


def _scores(network: Network, *inputs: Tensor) -> dict[str, Tensor]:
    return {"score": network(*inputs)}


def _last_inputs(network: Network, *inputs: Tensor) -> dict[str, Tensor]:
    """What the heads of a network are given when it reads these people, side by side."""
    seen: list[tuple[Any, Tensor]] = []
    layers = [layer for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    hooks = [layer.register_forward_pre_hook(lambda layer, x: seen.append((layer, x[0]))) for layer in layers]
    network(*inputs)
    for hook in hooks:
        hook.remove()
    n = len(inputs[0])
    heads = [x[-n:] for layer, x in seen if isinstance(layer, Head)]  # a population graph has its own people first
    return {"input": torch.cat(heads or [x for _, x in seen if x.ndim == 2 and len(x) == n][-1:], dim=1)}


def _evaluate(
    network: Network, function: Callable[..., dict[str, Tensor]], inputs: tuple[Tensor, ...]
) -> dict[str, np.ndarray]:
    """Named results of ``function(network, *inputs)``, one row per person, without noise and in double precision."""
    network = copy.deepcopy(network).cpu().double().eval()
    rows: dict[str, list[np.ndarray]] = {}
    with torch.no_grad():
        for start in range(0, len(inputs[0]), CHUNK):
            chunk = (x[start : start + CHUNK] for x in inputs)
            chunk = (x.double() if x.is_floating_point() else x for x in chunk)
            for name, value in function(network, *chunk).items():
                rows.setdefault(name, []).append(value.numpy())
    return {name: np.concatenate(values) for name, values in rows.items()}
