"""What would more data bring: the plan that `brainroam plan` left beside the runs."""

from markupsafe import Markup

from brainroam.evaluation.planning.draws import MIN_SITES
from brainroam.methods.naming import bare_name
from brainroam.report.data import ReportData
from brainroam.report.displays.axes import drawing
from brainroam.report.displays.learning_curve import CAPTION, LearningCurveDisplay
from brainroam.report.figures import inline
from brainroam.report.page import missing, render
from brainroam.report.section import Drawing, Section

TITLE = "More sites, or more people"


def plan_section(data: ReportData) -> Section:
    """The learning curve and its sentences; where there is no plan, the command that makes one."""
    if data.plan is None:
        if len(data.study["sites"]) < MIN_SITES or data.method in data.from_files:
            return Section("plan", TITLE, Markup())
        command = data.command("plan", f"--methods {bare_name(data.method)}", out=f"{data.shell_path}/plan")
        return missing("plan", TITLE, "What more sites or more people would bring", command)
    drawn: tuple[Drawing, ...] = ()
    if data.plan["curve"]:
        drawn = (drawing("learning_curve", CAPTION, LearningCurveDisplay.from_plan(data.plan)),)
    html = render(
        "plan_section.html",
        plan=data.plan,
        figure=inline(drawn[0]) if drawn else "",
        other_data=data.plan.get("manifest_hash") != data.study["manifest_hash"],
    )
    return Section("plan", TITLE, html, drawn)
