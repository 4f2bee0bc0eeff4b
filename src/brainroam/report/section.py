"""A section of the report: a title, what it says as HTML, and the figures in it."""

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure


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
