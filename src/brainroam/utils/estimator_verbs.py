"""What one types after a fitted classifier in a notebook; the work is done by the public verbs of the package."""

from pathlib import Path
from typing import Any

import numpy as np


class EstimatorVerbs:
    """``clf.score(...)``, ``clf.explain(...)`` and ``clf.save(...)``."""

    def score(self, series: Any, y: Any, sample_weight: Any = None, *, covariates: Any = None, **options: Any) -> float:
        """Accuracy, as every classifier of scikit-learn; options as for ``predict``."""
        predicted = self.predict(series, covariates=covariates, **options)  # type: ignore[attr-defined]
        return float(np.average(predicted == np.asarray(y), weights=sample_weight))

    def explain(self, series: Any, covariates: Any = None, **options: Any) -> Any:
        """Which pathways the model reads, and which contributed most for each person; see `brainroam.explain`."""
        import brainroam

        return brainroam.explain(self, series, covariates, **options)

    def save(self, path: str | Path, atlas: Any = None) -> Path:
        """Write a model folder that `brainroam.load_model` reads; see `brainroam.save_model`."""
        import brainroam

        return brainroam.save_model(self, path, atlas)
