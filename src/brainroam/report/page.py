"""Templates: everything a reader sees is escaped here, and only here."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from brainroam.report.section import Section

HERE = Path(__file__).parent


def render(template: str, **values: Any) -> Markup:
    """Fill a template of ``templates/`` or ``brain/templates/``; values are escaped unless they are Markup.

    Inside a ``<script>`` pass values through the filter ``tojson``, which keeps ``</script>`` from ending it.

    >>> render("missing.html", what="No runs of <b>core</b>.", command="brainroam loso DATA")[:43]
    Markup('<p class="missing">No runs of &lt;b&gt;core')
    """
    return Markup(_environment().get_template(template).render(values))


def missing(id: str, title: str, what: str, command: str) -> Section:
    """A section whose runs do not exist: what it would show, and the command that adds it."""
    return Section(id, title, render("missing.html", what=what, command=command))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([HERE / "templates", HERE / "brain" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
