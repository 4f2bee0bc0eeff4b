"""Train on your imaging sites, get an honest statement about the next one.

The public verbs are imported on first use, so that ``import brainroam`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brainroam.baselines.champion import ChampionClassifier as ChampionClassifier
    from brainroam.cohort import Cohort as Cohort
    from brainroam.core import CoreClassifier as CoreClassifier
    from brainroam.evaluation.runner import compare as compare
    from brainroam.evaluation.runner import evaluate as evaluate
    from brainroam.readers import load_cohort as load_cohort
    from brainroam.reporting.build import report as report
    from brainroam.synthetic import make_cohort as make_cohort

__version__ = "0.1.0"

_HOME = {
    "ChampionClassifier": "baselines.champion",
    "Cohort": "cohort",
    "CoreClassifier": "core",
    "compare": "evaluation.runner",
    "evaluate": "evaluation.runner",
    "load_cohort": "readers",
    "make_cohort": "synthetic",
    "report": "reporting.build",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"brainroam.{_HOME[name]}"), name)
    raise AttributeError(f"module 'brainroam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
