"""Templates: everything a reader sees is escaped here, and only here."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from brainroam.report.section import Missing, Section

HERE = Path(__file__).parent


def render(template: str, **values: Any) -> Markup:
    """Fill a template of ``templates/`` or ``brain/templates/``; values are escaped unless they are Markup.

    Inside a ``<script>`` pass values through the filter ``tojson``, which keeps ``</script>`` from ending it.

    >>> render("sweep.html", title="No runs of <b>core</b>", figure="")[:31]
    Markup('<h4>No runs of &lt;b&gt;core&lt')
    """
    return Markup(_environment().get_template(template).render(values))


def missing(id: str, title: str, what: str, command: str) -> Section:
    """A section whose runs do not exist: it is not shown, and the end of the page says how to add it."""
    return Section(id, title, Markup(), missing=(Missing(what, command),))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader([HERE / "templates", HERE / "brain" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
