"""From the runs of a study, or from a fitted model, to pages, figures and tables.

Display objects are here as scikit-learn has them: made from results, predictions or an estimator, drawn by
``plot(ax=)``. Each stands beside the section of the report that shows it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brainroam.report.brain.figures import GateDisplay as GateDisplay
    from brainroam.report.brain.figures import ScaffoldDisplay as ScaffoldDisplay
    from brainroam.report.ledger_page import ForecastDisplay as ForecastDisplay
    from brainroam.report.sections.adaptation import AdaptationDisplay as AdaptationDisplay
    from brainroam.report.sections.calibration import CalibrationBySiteDisplay as CalibrationBySiteDisplay
    from brainroam.report.sections.calibration import DecisionCurveDisplay as DecisionCurveDisplay
    from brainroam.report.sections.confounding import MotionDisplay as MotionDisplay
    from brainroam.report.sections.first import SiteForestDisplay as SiteForestDisplay
    from brainroam.report.sections.groups import GroupDisplay as GroupDisplay
    from brainroam.report.sections.next_site import LearningCurveDisplay as LearningCurveDisplay
    from brainroam.report.sections.site_displays import RocBySiteDisplay as RocBySiteDisplay
    from brainroam.report.sections.site_displays import ScoresBySiteDisplay as ScoresBySiteDisplay

_DISPLAYS = {
    "AdaptationDisplay": "sections.adaptation",
    "CalibrationBySiteDisplay": "sections.calibration",
    "DecisionCurveDisplay": "sections.calibration",
    "ForecastDisplay": "ledger_page",
    "GateDisplay": "brain.figures",
    "GroupDisplay": "sections.groups",
    "LearningCurveDisplay": "sections.next_site",
    "MotionDisplay": "sections.confounding",
    "RocBySiteDisplay": "sections.site_displays",
    "ScaffoldDisplay": "brain.figures",
    "ScoresBySiteDisplay": "sections.site_displays",
    "SiteForestDisplay": "sections.first",
}
__all__ = list(_DISPLAYS)


def __getattr__(name: str) -> Any:
    if name in _DISPLAYS:
        return getattr(importlib.import_module(f"brainroam.report.{_DISPLAYS[name]}"), name)
    raise AttributeError(f"module 'brainroam.report' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_DISPLAYS])
