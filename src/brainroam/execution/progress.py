"""Progress of a study: a bar with the current run on a terminal or in a notebook, else a line per run."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from brainroam.errors import visible

View = Callable[[int], AbstractContextManager["Callable[[str], None]"]]
WHOLE_STUDY = float("inf")  # a run may take longer than the half minute over which speed is measured otherwise


class Advance:
    """Call it with one line of text after each run; `now` shows what is running, `say` what holds for all of it.

    Parameters
    ----------
    done : callable
        Takes the line about a run that is done.
    now, say : callable, optional
        Take a text; by default it is not shown.
    """

    def __init__(
        self,
        done: Callable[[str], None],
        now: Callable[[str], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._done, self.now, self.say = done, now, say

    def __call__(self, line: str) -> None:
        """One run is done."""
        self._done(line)


def time_columns() -> tuple[ProgressColumn, ...]:
    """Bar, count, elapsed and remaining time, and the current run as far as there is room."""
    room = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    news = TextColumn("{task.fields[news]}", markup=False, table_column=room)
    return BarColumn(bar_width=16), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), news


@contextmanager
def show_progress(total: int, wanted: bool | View = True) -> Iterator[Advance]:
    """Yield the `Advance` of a view of ``total`` runs; ``wanted`` may be a view to use."""
    if callable(wanted):
        with wanted(total) as advance:
            yield advance if isinstance(advance, Advance) else Advance(advance)
        return
    if wanted and in_notebook():
        yield _notebook_bar(total)
        return
    console = Console(stderr=True, quiet=not wanted, highlight=False)
    on_terminal = console.is_terminal and wanted and total > 0
    with Progress(
        *time_columns(),
        console=console,
        transient=True,
        expand=True,
        disable=not on_terminal,
        speed_estimate_period=WHOLE_STUDY,
    ) as bar:
        task = bar.add_task("", total=total, news="starting")
        done = 0

        def advance(line: str) -> None:
            nonlocal done
            done += 1
            line = visible(line)  # it names sites, methods and errors
            bar.update(task, advance=1, news=line)
            if not on_terminal:
                console.print(f"{done}/{total} {line}", markup=False, soft_wrap=True)

        def say(text: str) -> None:
            console.print(visible(text), markup=False, soft_wrap=True)

        yield Advance(advance, lambda text: bar.update(task, news=visible(text)), say)


def in_notebook() -> bool:
    """Whether this runs in Jupyter, where a bar can be drawn in the cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _notebook_bar(total: int) -> Advance:
    """A bar in the cell, with the last result and what is running now; a failure stays below it."""
    from IPython.display import HTML, display

    start = time.monotonic()
    state: dict[str, Any] = {"done": 0, "now": "starting", "last": "", "said": ""}
    failed: list[str] = []

    def drawn() -> Any:
        done = state["done"]
        elapsed = time.monotonic() - start
        left = f", about {elapsed / done * (total - done):.0f} s left" if 0 < done < total else ""
        lines = [state["said"], f"{done}/{total} runs, {elapsed:.0f} s{left}", state["last"], state["now"], *failed]
        text = "<br>".join(escape(visible(line)) for line in lines if line)
        return HTML(f'<progress value="{done}" max="{max(total, 1)}" style="width:24em"></progress><br>{text}')

    handle = display(drawn(), display_id=True)

    def show(**news: Any) -> None:
        state.update(news)
        handle.update(drawn())

    def advance(line: str) -> None:
        if ": failed, " in line:
            failed.append(line)
        show(done=state["done"] + 1, last=line, now="")

    return Advance(advance, lambda text: show(now=text), lambda text: show(said=text))
