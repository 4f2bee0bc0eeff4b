"""What goes into the manuscript: methods text, TRIPOD+AI checklist and model card, filled from the run."""

from collections.abc import Iterator

import pandas as pd

from brainroam.errors import counted
from brainroam.evaluation.stats.compare import WITHOUT_NEXT
from brainroam.evaluation.stats.families import BUDGET, WINDOW, ablations, sweeps
from brainroam.report.checklist import ITEMS
from brainroam.report.data import ReportData
from brainroam.report.facts import PROTOCOL, Facts, covariate_sentences, gather_facts
from brainroam.report.page import render
from brainroam.report.section import Section
from brainroam.report.sections.verdict import verdict_sentence
from brainroam.report.tables import Column, number, table

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
    html = render(
        "checklist.html",
        table=table(rows, columns, "tripod-ai", "TRIPOD+AI checklist"),
        filled=int((rows["answer"] != AUTHORS).sum()),
        total=len(rows),
    )
    return Section("checklist", "TRIPOD+AI checklist", html)


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
    controls = facts.people - facts.cases
    row, unit = data.headline, data.unit
    yield (
        "5a",
        f"{facts.counted} at {facts.sites} sites, read from the data set named in the command (Provenance).",
    )
    yield "6a", f"{facts.sites} sites; table under Participants."
    left_out = counted(facts.excluded, "person was", "people were")
    yield "6b", f"{left_out} left out; every reason is listed under Participants."
    steps = "".join(f"; {step}" for step in data.study.get("prepared", []))
    yield "7", f"Regional series of the atlas {data.study['atlas']}{steps}. Preprocessing is for the authors to add."
    yield "8a", "Binary label, 1 with the condition and 0 control, as recorded by the sites."
    yield "9a", "Connectivity between regions and its changes over time; per method under Methods text."
    yield "10", f"All {facts.counted} available; precision is shown by intervals, not by a power calculation."
    yield (
        "11",
        (
            "Unknown covariates stand at the training mean, and so do edges of regions without signal; "
            "graph baselines leave such edges out."
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
        "AUC, accuracy, balanced accuracy, sensitivity, specificity, Brier score, calibration slope and intercept.",
    )
    yield "12f", "None: calibration is learned on the training sites and not updated on the held-out one."
    yield "12g", "Scores, calibrated probabilities and thresholds come from the training sites alone."
    yield (
        "13",
        f"{facts.cases} people with the condition and {controls} controls; balanced accuracy and AUC do not "
        f"depend on the balance.",
    )
    by_group = " and by sex, age and motion" if len(data.groups) else "; not by sex or age group"
    yield "14", f"Performance is given per {unit}{by_group}."
    yield "15", "A score, a calibrated probability, and a class at the threshold learned on the training sites."
    yield "16", f"Every {unit} is evaluation data once and training data otherwise; site table under Participants."
    yield (
        "18f",
        f"brainroam {' and '.join(facts.versions.get('brainroam', ['?']))}; commands and seeds under Provenance.",
    )
    yield "20a", "Flow and site table under Participants."
    yield "20b", "Site table under Participants."
    yield "21", f"{facts.counted}, {facts.cases} with the condition; at each fold all but the held-out {unit}."
    yield "22", "brainroam fit writes the model with all its parameters; see also Scaffold."
    yield "23a", verdict_sentence(data)
    yield (
        "23b",
        f"Worst {unit}: AUC {number(row['worst_auc'])} {row['worst_site']}; heterogeneity under Site by site.",
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
