"""From the runs of a study, or from a fitted model, to pages, figures and tables.

The room carries the name of the public verb ``brainroam.report(results)``. Importing any of its modules makes Python
set ``brainroam.report`` to this package, so the package itself can be called, and both spellings keep working.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brainroam.report.displays.adaptation import AdaptationDisplay as AdaptationDisplay
    from brainroam.report.displays.calibration_by_site import CalibrationBySiteDisplay as CalibrationBySiteDisplay
    from brainroam.report.displays.decision_curve import DecisionCurveDisplay as DecisionCurveDisplay
    from brainroam.report.displays.forecast import ForecastDisplay as ForecastDisplay
    from brainroam.report.displays.gates import GateDisplay as GateDisplay
    from brainroam.report.displays.groups import GroupDisplay as GroupDisplay
    from brainroam.report.displays.learning_curve import LearningCurveDisplay as LearningCurveDisplay
    from brainroam.report.displays.motion import MotionDisplay as MotionDisplay
    from brainroam.report.displays.roc_by_site import RocBySiteDisplay as RocBySiteDisplay
    from brainroam.report.displays.scaffold import ScaffoldDisplay as ScaffoldDisplay
    from brainroam.report.displays.scores_by_site import ScoresBySiteDisplay as ScoresBySiteDisplay
    from brainroam.report.displays.site_forest import SiteForestDisplay as SiteForestDisplay

_DISPLAYS = {
    "AdaptationDisplay": "adaptation",
    "CalibrationBySiteDisplay": "calibration_by_site",
    "DecisionCurveDisplay": "decision_curve",
    "ForecastDisplay": "forecast",
    "GateDisplay": "gates",
    "GroupDisplay": "groups",
    "LearningCurveDisplay": "learning_curve",
    "MotionDisplay": "motion",
    "RocBySiteDisplay": "roc_by_site",
    "ScaffoldDisplay": "scaffold",
    "ScoresBySiteDisplay": "scores_by_site",
    "SiteForestDisplay": "site_forest",
}
__all__ = list(_DISPLAYS)


def __getattr__(name: str) -> Any:
    if name in _DISPLAYS:
        return getattr(importlib.import_module(f"brainroam.report.displays.{_DISPLAYS[name]}"), name)
    raise AttributeError(f"module 'brainroam.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DISPLAYS])


class _CallableRoom(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from brainroam.report.build import report

        return report(*args, **options)


sys.modules[__name__].__class__ = _CallableRoom
