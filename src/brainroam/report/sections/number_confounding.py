"""Is the order of a number's predictions motion, age, sex, scan length or the size of the head?"""

from typing import Any

from brainroam.data.target.figures import two_digits
from brainroam.errors import listed
from brainroam.evaluation.stats.number_confounding import (
    COVARIATE_WORDS,
    EVERY,
    FOLLOWED,
    names_known,
    number_confounding_by_site,
    number_confounding_means,
    taken_out,
)
from brainroam.report.data import ReportData
from brainroam.report.page import Section, missing, render
from brainroam.report.tables import OVER, Column, number, table


def number_confounding_section(data: ReportData) -> Section:
    """What is left of the order without each covariate that is known, of every method and at every site."""
    rows, target = data.results.predictions, data.results.target
    sites = number_confounding_by_site(
        rows[rows["method"].isin(data.compared)], data.participants, target, data.protocol
    )
    names = names_known(sites)
    if data.protocol == "cv" or not names:
        command = data.command("loso", f"--methods {data.method}")
        return missing("confounding", "Motion, age and sex", "What motion, age and sex have to do with it", command)
    methods, mine = number_confounding_means(sites), sites[sites["method"] == data.method]
    columns, row = _columns(names, target.name), methods.set_index("method").loc[data.method]
    html = render(
        "number_confounding.html",
        sentence=_sentence(row, names, data),
        methods=table(
            methods,
            [Column("method", "Method"), OVER, *columns],
            "confounding",
            f"Means over held-out {data.unit}s, the best order first",
        ),
        sites=table(
            mine,
            [Column("site", data.unit.capitalize()), Column("n", "People"), *columns],
            "confounding-by-site",
            f"{data.method} at every held-out {data.unit}",
        ),
        unknown=listed(word for name, word in COVARIATE_WORDS.items() if name not in (*names, EVERY)),
        target=target,
        unit=data.unit,
    )
    gist = f"r {two_digits(row['r'])}; {two_digits(row[f'r_without_{taken_out(names)[-1]}'])} where they are taken out"
    return Section("confounding", listed(COVARIATE_WORDS[name] for name in names).capitalize(), html, gist=gist)


def _columns(names: list[str], target: str) -> list[Column]:
    """r, then r without each covariate and without all, then whether predictions follow motion and head size."""
    left = "Correlation within the site of what {0} does not explain of prediction and truth."
    follows = f"Correlation of prediction and {{0}} within the site, of what {target} explains of neither."
    shown = [(f"r_without_{name}", "Without", left, COVARIATE_WORDS[name]) for name in taken_out(names)]
    shown += [(f"r_{name}", "Follows", follows, COVARIATE_WORDS[name]) for name in FOLLOWED if name in names]
    return [
        Column("r", "r", number, meaning="Correlation of prediction and truth within the site."),
        *(Column(key, f"{verb} {word}", number, meaning=text.format(word)) for key, verb, text, word in shown),
    ]


def _sentence(row: Any, names: list[str], data: ReportData) -> str:
    """What is left of the order of the method of the report."""
    left = ", ".join(
        f"{two_digits(row[f'r_without_{name}'])} without {COVARIATE_WORDS[name]}" for name in taken_out(names)
    )
    where = f"{row['n_sites']:.0f} of {row['of_sites']:.0f} {data.unit}s and {row['n_people']:.0f} people"
    text = f"Within {data.unit}s the predictions of {data.method} correlate with {data.results.target.name} by "
    text += f"{two_digits(row['r'])}; {left} ({where} of whom all of these are known)."
    if "motion" in names:
        text += f" Of people of the same {data.results.target.name} they correlate with log motion by "
        text += f"{two_digits(row['r_motion'])}."
    return text
