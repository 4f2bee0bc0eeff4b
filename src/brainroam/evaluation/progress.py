"""Show on stderr how far a study is: a bar with the time left on a terminal, a line per run elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[str], None]


@contextmanager
def show_progress(total: int, wanted: bool = True) -> Iterator[Advance]:
    """Yield a function to call with one line of text after each of ``total`` runs."""
    console = Console(stderr=True, quiet=not wanted, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    on_terminal = console.is_terminal and wanted and total > 0
    whole_study = float("inf")  # a run may take longer than the half minute over which speed is measured otherwise
    with Progress(
        *columns, console=console, transient=True, disable=not on_terminal, speed_estimate_period=whole_study
    ) as bar:
        task = bar.add_task("starting", total=total)
        done = 0

        def advance(line: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, advance=1, description=line)
            if not on_terminal:
                console.print(f"{done}/{total} {line}", markup=False, soft_wrap=True)

        yield advance
