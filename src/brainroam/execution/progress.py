"""Show on stderr how far a study is: a bar with the times gone and left on a terminal, a line per run elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

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

Advance = Callable[[str], None]
View = Callable[[int], AbstractContextManager[Advance]]
WHOLE_STUDY = float("inf")  # a run may take longer than the half minute over which speed is measured otherwise


def time_columns() -> tuple[ProgressColumn, ...]:
    """Bar, count, time gone and time left, and the latest news as far as there is room."""
    room = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    news = TextColumn("{task.fields[news]}", markup=False, table_column=room)
    return BarColumn(bar_width=16), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), news


@contextmanager
def show_progress(total: int, wanted: bool | View = True) -> Iterator[Advance]:
    """Yield a function to call with one line of text after each of ``total`` runs; ``wanted`` may be a view to use."""
    if callable(wanted):
        with wanted(total) as advance:
            yield advance
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

        yield advance
