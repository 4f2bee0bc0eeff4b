"""What can be had without looking at the brain: the controls among the runs."""

from brainroam.evaluation.stats.families import CONTROLS
from brainroam.report.data import ReportData
from brainroam.report.page import render
from brainroam.report.section import Missing, Section

CONTROL_MEANING = {
    "majority": "The same score for everybody: what an empty method gets",
    "confounds": "Age, sex and motion only: what can be had without looking at the brain",
    "site-only": "The share with the condition at each site: what knowing the site alone gives",
}


def controls_section(data: ReportData) -> Section:
    """Each control that was run, against the method of the report."""
    sentences = data.comparison.against
    if "site-only" in data.names_under("cv"):
        scores = data.results.scores
        cv = scores[(scores["protocol"] == "cv") & (scores["method"] == "site-only")]
        sentences.setdefault("site-only", f"Mean AUC {cv['auc'].mean():.3f} in in-distribution folds")
    run = [name for name in CONTROLS if name in sentences]
    gaps = [
        Missing(meaning, data.command("cv" if name == "site-only" else "loso", f"--methods {name}"))
        for name, meaning in CONTROL_MEANING.items()
        if name not in sentences and name != data.method
    ]
    found = [{"name": name, "meaning": CONTROL_MEANING[name], "sentence": sentences[name]} for name in run]
    return Section("controls", "Controls that see no brain", render("controls.html", controls=found), (), tuple(gaps))
