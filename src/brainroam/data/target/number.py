"""A number in its own units, and the steps of an order, which are learned as a number."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.target.base import NUMBER, ORDERED, Target
from brainroam.data.target.turning import mirrored


@dataclass(frozen=True)
class Number(Target):
    """Values in their own units; learned on the scale of ``transform``."""

    kind = NUMBER
    is_number = True

    def forward(self, values: np.ndarray) -> np.ndarray:
        """From its own units to the scale it is learned on."""
        return np.log(values) if self.transform == "log" else np.asarray(values, dtype=float)

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to its own units."""
        return np.exp(values) if self.transform == "log" else np.asarray(values, dtype=float)

    def counted(self, label: pd.Series) -> str:
        """From the least to the most."""
        return f"{self.name} {label.min():.4g} to {label.max():.4g}"

    def spoiled(self, label: np.ndarray) -> np.ndarray:
        """Mirrored on the scale it is learned on, so that what is linear in it turns round."""
        return self.inverse(mirrored(self.forward(label)))


@dataclass(frozen=True)
class Ordered(Number):
    """The steps of an order: their codes are the number, ``classes`` their names."""

    kind = ORDERED

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Back to steps, between the first and the last."""
        return np.clip(super().inverse(values), 0, len(self.classes) - 1)

    def counted(self, label: pd.Series) -> str:
        """How many steps there are."""
        return f"{self.name} of {len(self.classes)} steps" if self.classes else super().counted(label)

    def request(self) -> dict[str, Any] | None:
        """With the steps in their order."""
        return {"column": self.name, "kind": self.kind, "transform": self.transform, "order": list(self.classes)}
