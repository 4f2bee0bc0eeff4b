"""Train on your imaging sites, get an honest statement about the next one.

The public verbs are imported on first use, so that ``import brainroam`` costs nothing.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brainroam.audit import audit as audit
    from brainroam.audit.gate import evaluate as evaluate
    from brainroam.core.deconfound import SiteDeconfounder as SiteDeconfounder
    from brainroam.data.cohort import Cohort as Cohort
    from brainroam.data.loading import load_cohort as load_cohort
    from brainroam.data.motion import estimate_motion as estimate_motion
    from brainroam.data.synthetic import make_cohort as make_cohort
    from brainroam.evaluation.forecast import foretell as foretell
    from brainroam.evaluation.pipelines import pipeline_agreement as pipeline_agreement
    from brainroam.evaluation.predictions_file import read_predictions as read_predictions
    from brainroam.evaluation.results import compare as compare
    from brainroam.evaluation.reveal import reveal as reveal
    from brainroam.evaluation.scorer import SiteScorer as SiteScorer
    from brainroam.evaluation.splits import LeaveOneInstitutionOut as LeaveOneInstitutionOut
    from brainroam.evaluation.splits import LeaveOneSiteOut as LeaveOneSiteOut
    from brainroam.evaluation.splits import SiteHalves as SiteHalves
    from brainroam.evaluation.stats.paired import compare_sites as compare_sites
    from brainroam.evaluation.stats.verdict import next_site as next_site
    from brainroam.methods.adapter import EstimatorMethod as EstimatorMethod
    from brainroam.methods.site_classifier import CoreClassifier as CoreClassifier
    from brainroam.methods.site_classifier import EnsembleClassifier as EnsembleClassifier
    from brainroam.methods.site_classifier import SiteClassifier as SiteClassifier
    from brainroam.methods.site_classifier import explain as explain
    from brainroam.methods.site_classifier import load_model as load_model
    from brainroam.methods.site_classifier import save_model as save_model
    from brainroam.methods.site_regressor import SiteRegressor as SiteRegressor
    from brainroam.report.build import write_report as write_report

__version__ = "0.2.0"

_HOME = {
    "Cohort": "data.cohort",
    "CoreClassifier": "methods.site_classifier",
    "EnsembleClassifier": "methods.site_classifier",
    "EstimatorMethod": "methods.adapter",
    "LeaveOneInstitutionOut": "evaluation.splits",
    "LeaveOneSiteOut": "evaluation.splits",
    "SiteClassifier": "methods.site_classifier",
    "SiteDeconfounder": "core.deconfound",
    "SiteHalves": "evaluation.splits",
    "SiteRegressor": "methods.site_regressor",
    "SiteScorer": "evaluation.scorer",
    "compare": "evaluation.results",
    "compare_sites": "evaluation.stats.paired",
    "estimate_motion": "data.motion",
    "evaluate": "audit.gate",
    "explain": "methods.site_classifier",
    "foretell": "evaluation.forecast",
    "load_cohort": "data.loading",
    "load_model": "methods.site_classifier",
    "make_cohort": "data.synthetic",
    "next_site": "evaluation.stats.verdict",
    "pipeline_agreement": "evaluation.pipelines",
    "read_predictions": "evaluation.predictions_file",
    "reveal": "evaluation.reveal",
    "save_model": "methods.site_classifier",
    "write_report": "report.build",
}
__all__ = [*_HOME, "audit"]


_ALIASES = {"ChampionClassifier": "EnsembleClassifier"}  # earlier names, which scripts may hold


def __getattr__(name: str) -> Any:
    name = _ALIASES.get(name, name)
    if name == "audit":  # a room that can be called, see its last lines
        return importlib.import_module("brainroam.audit")
    if name in _HOME:
        return getattr(importlib.import_module(f"brainroam.{_HOME[name]}"), name)
    raise AttributeError(f"module 'brainroam' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
