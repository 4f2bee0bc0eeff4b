"""From the runs of a study, or from a fitted model, to pages, figures and tables."""

import importlib
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
