"""What goes into the manuscript: methods text, TRIPOD+AI and PROBAST+AI, model card, filled from the run.

The items of the checklists are in our own short words.
TRIPOD+AI is Collins et al. (2024) BMJ 385:e078378, its wording at https://www.tripod-statement.org; PROBAST+AI is Moons
et al. (2025) BMJ 388:e082505, its wording at https://www.probast.org. The lists say what each question is about.

Its end names the commands, data, seeds and versions that every figure comes from.
"""

from collections.abc import Iterator

import pandas as pd
from markupsafe import Markup

from brainroam.errors import counted, listed
from brainroam.evaluation.stats.compare import WITHOUT_NEXT
from brainroam.evaluation.stats.families import BUDGET, WINDOW, ablations, sweeps
from brainroam.report.concerns import findings
from brainroam.report.data import ReportData
from brainroam.report.facts import PROTOCOL, Facts, covariate_sentences, gather_facts
from brainroam.report.page import Section, render
from brainroam.report.sections.verdict import verdict_sentence
from brainroam.report.tables import Column, number, span, table

STATISTICS = (
    "Newcombe (2006) Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part 2. "
    "Statistics in Medicine 25(4):559-573",
    "Viechtbauer (2007) Confidence intervals for the amount of heterogeneity in meta-analysis. Statistics in Medicine "
    "26(1):37-52",
    "Nagashima, Noma and Furukawa (2019) Prediction intervals for random-effects meta-analysis. Statistical Methods in "
    "Medical Research 28(6):1689-1702",
    "Holm (1979) A simple sequentially rejective multiple test procedure. Scandinavian J. of Statistics 6(2):65-70",
    "Nadeau and Bengio (2003) Inference for the generalization error. Machine Learning 52:239-281",
)
AUTHORS = "For the authors to write."
OPEN = "For you to answer."
ITEMS: tuple[tuple[str, str, str], ...] = (
    ("1", "Title", "Developing or evaluating a prediction model, target population, outcome"),
    ("2", "Abstract", "Structured summary, see TRIPOD+AI for abstracts"),
    ("3a", "Background", "Healthcare context and rationale, existing models"),
    ("3b", "Background", "Target population, purpose and intended users"),
    ("3c", "Background", "Known health inequalities between groups"),
    ("4", "Objectives", "Study objectives: development, evaluation, or both"),
    ("5a", "Data", "Sources of data for development and evaluation, and how representative they are"),
    ("5b", "Data", "Dates of the data"),
    ("6a", "Participants", "Setting, number and location of centres"),
    ("6b", "Participants", "Eligibility criteria"),
    ("6c", "Participants", "Treatments received and how they were handled"),
    ("7", "Data preparation", "Pre-processing and quality checks, also across groups"),
    ("8a", "Outcome", "Outcome and time horizon, how and when assessed"),
    ("8b", "Outcome", "Qualifications of assessors where the outcome needs judgement"),
    ("8c", "Outcome", "Blinding of the assessment"),
    ("9a", "Predictors", "Choice of initial predictors and any selection before modelling"),
    ("9b", "Predictors", "Definition of all predictors, how and when measured"),
    ("9c", "Predictors", "Qualifications of assessors where predictors need judgement"),
    ("10", "Sample size", "How the size was arrived at"),
    ("11", "Missing data", "How missing data were handled"),
    ("12a", "Analysis", "How data were used, partitioned for development and evaluation"),
    ("12b", "Analysis", "How predictors were handled: form, rescaling, transformation"),
    ("12c", "Analysis", "Type of model, all model-building steps, hyper-parameters, internal validation"),
    ("12d", "Analysis", "Heterogeneity between clusters such as sites"),
    ("12e", "Analysis", "Measures and plots of performance, comparison of models"),
    ("12f", "Analysis", "Model updating arising from the evaluation"),
    ("12g", "Analysis", "How predictions were calculated in the evaluation"),
    ("13", "Class imbalance", "Methods used, why and how"),
    ("14", "Fairness", "Approaches used to address model fairness"),
    ("15", "Model output", "Output of the model, classes and thresholds"),
    ("16", "Training and evaluation", "Differences between development and evaluation data"),
    ("17", "Ethics", "Ethical approval and consent"),
    ("18a", "Open science", "Funding and role of the funders"),
    ("18b", "Open science", "Conflicts of interest"),
    ("18c", "Open science", "Where the protocol can be found"),
    ("18d", "Open science", "Registration"),
    ("18e", "Open science", "Availability of the data"),
    ("18f", "Open science", "Availability of the code"),
    ("19", "Involvement", "Patient and public involvement"),
    ("20a", "Participants", "Flow of participants, numbers with and without the outcome"),
    ("20b", "Participants", "Characteristics overall and per centre, missing data"),
    ("20c", "Participants", "Comparison of evaluation with development data"),
    ("21", "Model development", "Numbers of participants and outcome events in each analysis"),
    ("22", "Model specification", "The full model, so that others can predict and evaluate"),
    ("23a", "Model performance", "Performance with intervals, also for key subgroups"),
    ("23b", "Model performance", "Heterogeneity of performance between clusters"),
    ("24", "Model updating", "Results of any updating"),
    ("25", "Interpretation", "Overall interpretation, fairness, objectives and previous studies"),
    ("26", "Limitations", "Limitations and their effect on bias and generalisability"),
    ("27a", "Usability", "How poor-quality or unavailable input is handled"),
    ("27b", "Usability", "Whether users must interact with the input, and their expertise"),
    ("27c", "Usability", "Next steps for research, applicability and generalisability"),
)
#: Key, domain and question; the keys are ours.
RISKS: tuple[tuple[str, str, str], ...] = (
    ("source", "Participants and data", "Were the sources of data right for the question?"),
    ("eligible", "Participants and data", "Were people included and left out for good reasons?"),
    ("alike", "Participants and data", "Were people of both classes recruited and scanned alike?"),
    ("measured", "Predictors", "Were predictors defined and measured alike for everybody?"),
    ("blind", "Predictors", "Were predictors measured without knowing the outcome?"),
    ("available", "Predictors", "Are predictors at hand when the model would be used?"),
    ("outcome", "Outcome", "Was the outcome defined and found alike for everybody?"),
    ("independent", "Outcome", "Was the outcome found without knowing the predictors?"),
    ("size", "Analysis", "Were there enough people with and without the condition?"),
    ("everybody", "Analysis", "Was everybody who was enrolled analysed?"),
    ("missing", "Analysis", "Were missing data handled well?"),
    ("leakage", "Analysis", "Was information of the evaluation kept out of the development?"),
    ("overfitting", "Analysis", "Was optimism accounted for?"),
    ("imbalance", "Analysis", "Was imbalance of the classes handled well?"),
    ("measures", "Analysis", "Were discrimination and calibration both assessed?"),
    ("clusters", "Analysis", "Were sites taken into account?"),
    ("fairness", "Analysis", "Was performance assessed in groups of people?"),
    ("same", "Analysis", "Is the model that is reported the one that was evaluated?"),
)


def methods_section(data: ReportData) -> Section:
    """Methods text, ready to paste."""
    facts = gather_facts(data)
    cited = [reference for fact in facts.methods for reference in fact.references]
    atlas = data.study.get("atlas_citation")
    html = render(
        "methods.html",
        facts=facts,
        data=data,
        protocol=PROTOCOL[data.protocol],
        rule=data.target.order.rule.replace("site", data.unit),
        model=data.target.order.model.format(unit=data.unit),
        families=data.comparison.families,
        ablated=[name for family in ablations(data.names) for name in family.values() if name not in data.compared],
        n_settings=sum(len(family) for over in (BUDGET, WINDOW) for family in sweeps(data.names, over)),
        covariates=covariate_sentences(data, facts),
        prepared=data.study.get("prepared", []),
        references=list(dict.fromkeys([*([atlas] if atlas else []), *cited, *STATISTICS])),
    )
    return Section("methods", "Methods text", html)


def checklist_section(data: ReportData) -> Section:
    """TRIPOD+AI, filled where the run knows the answer."""
    answers = _answers(data, gather_facts(data))
    rows = pd.DataFrame(
        {"item": item, "topic": topic, "asks": asks, "answer": answers.get(item, AUTHORS)}
        for item, topic, asks in ITEMS
    )
    columns = [
        Column("item", "Item"),
        Column("topic", "Topic"),
        Column("asks", "What to report"),
        Column("answer", "In this study"),
    ]
    filled = rows["answer"] != AUTHORS
    shown = table(rows, columns, "tripod-ai", "TRIPOD+AI checklist")
    return Section("checklist", "TRIPOD+AI checklist", _render_checklist("checklist.html", shown, filled))


def probast_section(data: ReportData) -> Section:
    """PROBAST+AI, filled where the run knows the answer."""
    answers = dict(_risks(data, gather_facts(data)))
    rows = pd.DataFrame(
        {"domain": domain, "asks": asks, "answer": answers.get(key, OPEN)} for key, domain, asks in RISKS
    )
    columns = [
        Column("asks", "Question"),
        Column("domain", "Domain"),
        Column("answer", "In this study"),
    ]
    shown = table(rows, columns, "probast-ai", "PROBAST+AI: where bias may come from")
    return Section(
        "probast", "PROBAST+AI: risk of bias", _render_checklist("probast.html", shown, rows["answer"] != OPEN)
    )


def _render_checklist(template: str, shown: Markup, filled: pd.Series) -> Markup:
    """A checklist with the number of rows that the run could fill in."""
    return render(template, table=shown, filled=int(filled.sum()), total=len(filled))


def _risks(data: ReportData, facts: Facts) -> Iterator[tuple[str, str]]:
    """Key and answer, for every question that the run can say something about."""
    unit = data.unit
    shortcuts = [item for item in findings(data) if str(item.get("code", "")).startswith("label-by-")]
    yield "eligible", _left_out(facts)
    if data.check is not None:
        messages = listed([str(item.get("message")) for item in shortcuts], 3)
        yield "alike", f"Differences between the classes that check found: {messages or 'none'}."
    site_table = "; the site table shows scan length and TR" if data.words.has_time else ""
    yield "measured", f"The same for all: {data.words.inputs}{site_table}."
    yield (
        "size",
        f"{facts.flow} of {facts.sites} sites; 95 % interval of the {data.figure.head} "
        f"{span(data.summary.low, data.summary.high)}.",
    )
    yield "everybody", f"{_left_out(facts)} No reason depends on the result." if facts.excluded else _left_out(facts)
    absent = f"{data.words.feature}s that somebody lacks"
    yield "missing", f"Unknown covariates and {absent} stand at the mean of the training people."
    if data.audit_verdict.n_checks:
        found = data.audit_verdict.sentence
        yield "leakage", f"Held-out data were corrupted, and effects of that were looked for. {found}"
    held = {"cv": "New people of known sites were held out"}.get(data.protocol, f"Every {unit} was held out once")
    yield "overfitting", f"{held}; tuning and thresholds use inner folds of the training sites."
    yield "imbalance", data.target.balance
    yield "measures", f"{data.target.metrics_in_words.format(unit=data.unit)}, each with its place above."
    if data.protocol != "cv":
        yield "clusters", f"Results are per {unit}, and intervals take {unit}s as the unit."
    if len(data.groups):
        yield "fairness", "By sex, age and motion, with tests that take sites as the unit: For whom."
    yield "same", "brainroam fit makes the model of all sites; what is reported are models of all sites but one."


def _left_out(facts: Facts) -> str:
    if not facts.excluded:
        return "Nobody was left out."
    return (
        f"{counted(facts.excluded, 'person was', 'people were')} left out; every reason is listed under Participants."
    )


def model_card_section(data: ReportData) -> Section:
    """The model card of the method of the report."""
    facts = gather_facts(data)
    method = next(fact for fact in facts.methods if fact.name == data.method)
    html = render("model_card.html", data=data, facts=facts, method=method, verdict=verdict_sentence(data))
    return Section("model-card", "Model card", html)


def _answers(data: ReportData, facts: Facts) -> dict[str, str]:
    return dict(_filled(data, facts))


def _filled(data: ReportData, facts: Facts) -> Iterator[tuple[str, str]]:
    """Item and answer, for every item the run can answer."""
    row, unit = data.headline, data.unit
    yield (
        "5a",
        f"{facts.counted} at {facts.sites} sites, read from the data set named in the command (Provenance).",
    )
    yield "6a", f"{facts.sites} sites; table under Participants."
    yield "6b", _left_out(facts)
    steps = "".join(f"; {step}" for step in data.study.get("prepared", []))
    yield "7", f"{data.words.inputs}{steps}. Preprocessing is for the authors to add."
    yield "8a", f"{data.target.outcome}, as recorded by the sites."
    over_time = " and its changes over time" if data.words.has_time else ""
    read = [f"connectivity between regions{over_time}"] if data.words.has_regions else []
    read += ["the columns of tables"] if "table" in data.words.kinds.values() else []
    yield "9a", f"{', and '.join(read).capitalize()}; per method under Methods text."
    yield "10", f"All {facts.counted} available; precision is shown by intervals, not by a power calculation."
    yield (
        "11",
        (
            f"Unknown covariates stand at the training mean, and so do {data.words.feature}s that somebody lacks"
            + ("; graph baselines leave such edges out." if data.words.has_regions else ".")
        ),
    )
    yield "12a", f"{PROTOCOL[data.protocol].capitalize()}."
    yield "12b", "Learned within the training sites only; nothing of a held-out site touches fit, threshold or scaling."
    yield "12c", f"{', '.join(fact.name for fact in facts.methods)}; tuning: {facts.tuning}."
    if data.protocol != "cv":
        following = "" if data.protocol in WITHOUT_NEXT else f", prediction interval of the next {unit}"
        yield "12d", f"Random-effects model over {unit}s, forest plot{following}."
    yield (
        "12e",
        f"{data.target.metrics_in_words.format(unit=unit)}.",
    )
    yield "12f", "None: calibration is learned on the training sites and not updated on the held-out one."
    yield "12g", "Scores, calibrated probabilities and thresholds come from the training sites alone."
    yield (
        "13",
        f"{facts.flow}. {data.target.balance}",
    )
    by_group = " and by sex, age and motion" if len(data.groups) else "; not by sex or age group"
    yield "14", f"Performance is given per {unit}{by_group}."
    yield "15", data.target.answers
    yield "16", f"Every {unit} is evaluation data once and training data otherwise; site table under Participants."
    yield (
        "18f",
        f"brainroam {' and '.join(facts.versions.get('brainroam', ['?']))}; commands and seeds under Provenance.",
    )
    yield "20a", "Flow and site table under Participants."
    yield "20b", "Site table under Participants."
    yield "21", f"{facts.counted}, {facts.flow}; at each fold all but the held-out {unit}."
    yield "22", "brainroam fit writes the model with all its parameters; see also Scaffold."
    yield "23a", verdict_sentence(data)
    worst = f"Worst {unit}: AUC {number(row['worst_auc'])} {row['worst_site']}. " if row.get("worst_site") else ""
    yield (
        "23b",
        f"{worst}Heterogeneity under Site by site.",
    )
    yield "24", "The model was not updated."
    yield (
        "26",
        "Limits that the data themselves show: first screen, notes under Comparison of methods, Checks of the data.",
    )
    yield (
        "27a",
        "Regions without signal and unknown covariates are accepted and reported; a scan that is too short is refused.",
    )


def provenance_section(data: ReportData) -> Section:
    """Commands, data, seeds and versions, with which the report can be made again."""
    html = render(
        "provenance.html", data=data, study=data.study, facts=gather_facts(data), n_finished=len(data.finished)
    )
    return Section("provenance", "Provenance", html)
