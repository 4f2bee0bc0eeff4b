"""Templates and sections of a page; all text is escaped here, and only here."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn again at any resolution.

    Attributes
    ----------
    name : str
        Of its files, as in ``forest.png``.
    caption : str
        What to see in it; also its alternative text.
    draw : callable
        Makes the matplotlib figure.
    narrow : Drawing, optional
        The same for a phone, where the figure would be too small to read.
    """

    name: str
    caption: str
    draw: Callable[[], Figure]
    narrow: "Drawing | None" = None


@dataclass(frozen=True)
class Missing:
    """What could be added to the report, and the command that adds it."""

    what: str
    command: str


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes
    ----------
    id, title : str
        Anchor and heading.
    html : Markup
        Escaped already: made by a template with autoescape, never by joining strings. A section that says nothing is
        not shown.
    drawings : tuple of Drawing
        The static figures it shows, for ``--figures``.
    missing : tuple of Missing
        What it could show if it had been run; listed at the end of the page.
    gist : str
        Its answer in a sentence, shown while it is folded and among the four answers at the top.
    """

    id: str
    title: str
    html: Markup
    drawings: tuple[Drawing, ...] = ()
    missing: tuple[Missing, ...] = ()
    gist: str = ""


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


def may_break(text: object) -> Markup:
    """Text in which a name such as ``core[blocks=rest+anatomy]`` may go on in the next line, behind its marks.

    >>> may_break("core[blocks=a+b]"), may_break("0 to 1")
    (Markup('core[<wbr>blocks=<wbr>a+<wbr>b]'), Markup('0 to 1'))
    """
    if isinstance(text, Markup) or "[" not in str(text):
        return escape(text)
    return Markup("<wbr>").join(re.split(r"(?<=[\[=+,])", str(text)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([HERE / "templates", HERE / "brain" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["may_break"] = may_break
    return environment
