"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

import warnings

import typer
from typer.core import TyperGroup

from brainroam import __version__
from brainroam.cli import audit, data, model, report, scale, study
from brainroam.errors import BrainroamError, UsageError

EXAMPLES = """[bold]Examples[/bold]

brainroam demo --out demo

brainroam check ABIDE_pcp --atlas aal --preset paper

brainroam fit ABIDE_pcp --atlas aal --preset paper --out model

brainroam loso ABIDE_pcp --atlas aal --methods core,tangent-ridge --out runs

brainroam compare runs"""


class _Commands(TyperGroup):
    """The one place where errors and warnings written for people become a line on stderr, and errors an exit code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: _say(f"warning: {message}", "yellow")
                return super().invoke(ctx)
        except BrainroamError as error:
            _say(f"error: {error}", "red")
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from error
        except KeyboardInterrupt as error:
            _say("interrupted; finished work is kept", "red")
            raise typer.Exit(130) from error


def _say(message: str, style: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(message, style=style, markup=False, highlight=False, soft_wrap=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"brainroam {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=EXAMPLES,
)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Train on your imaging sites, get an honest statement about the next one."""


for _command in (
    data.demo,
    data.check,
    data.fetch,
    scale.convert,
    model.fit,
    model.predict,
    model.explain,
    study.loso,
    study.cv,
    study.ablate,
    study.sweep,
    study.compare,
    report.report,
    study.methods,
    audit.audit,
):
    app.command()(_command)


def main() -> None:
    """Entry point of the ``brainroam`` command."""
    app(prog_name="brainroam")
