"""Episodes: some people on one set of pathways, as a network reads them.

Arrays are torch tensors; nothing here imports torch, so that a linear reading can be made without it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from brainroam.utils.threads import one_thread


@dataclass(frozen=True)
class Episode:
    """Some people on one set of pathways: features (N, B, C), labels (B,) and the graph."""

    features: Any
    labels: Any
    graph: Any

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, people: Any) -> "Episode":
        """Only these people, by position."""
        return Episode(self.features[:, people], self.labels[people], self.graph)

    def parts(self) -> "Iterator[Episode]":
        """Everybody, as many at a time as memory allows: at once."""
        yield self


@dataclass(frozen=True)
class UnreadEpisode:
    """An episode whose people are read from disk as they are asked for, by position."""

    labels: Any
    read: Callable[[np.ndarray], Episode]
    at_a_time: int = 32

    def __len__(self) -> int:
        return len(self.labels)

    def some(self, people: Any) -> Episode:
        """Read these people."""
        return self.read(as_array(people))

    def parts(self) -> Iterator[Episode]:
        """Read everybody, a few at a time."""
        for start in range(0, len(self), self.at_a_time):
            yield self.read(np.arange(start, min(start + self.at_a_time, len(self))))


AnyEpisode: TypeAlias = Episode | UnreadEpisode


def as_array(values: Any) -> np.ndarray:
    """A tensor of any device, or an array, as an array."""
    return values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()


@one_thread()  # the same logits on any number of cores
def predict_logits(network: Any, episode: AnyEpisode) -> np.ndarray:
    """Logits (B,) of the people of an episode; labels are not used."""
    return np.concatenate([as_array(network.logits(part.features, part.graph)) for part in episode.parts()]).astype(
        float
    )
