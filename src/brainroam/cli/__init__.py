"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

import _thread
import errno
import inspect
import io
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from brainroam import __version__
from brainroam.cli import (
    bids_app,
    data,
    federation,
    init,
    model,
    run,
    study,
)
from brainroam.cli.options import verbose, with_verbosity
from brainroam.errors import BrainroamError, Terminated, UsageError, visible

EPILOG = """[bold]Your own data in three commands[/bold]

brainroam init FOLDER

brainroam run study.yaml

brainroam fit study.yaml --out model

[bold]Exit codes[/bold]: 0 done, 1 the data or runs cannot be used, 2 mistyped, 3 a fault of brainroam, 130 interrupted,
143 terminated. Documentation: docs/ beside the source; every command has --help with an example."""


INTERRUPTED = "interrupted; finished work is kept"


class _FlagsWithoutType:
    """Lists flags without the <bool> that typer writes behind them."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)  # type: ignore[misc]  # of the command it is mixed into
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Command(_FlagsWithoutType, TyperCommand):
    pass


class _Commands(_FlagsWithoutType, TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``BIDS_DIR OUT_DIR LEVEL``, the grammar of BIDS-Apps, for the command bids-app."""
        if args[2:] and args[2] in bids_app.LEVELS and not args[0].startswith("-") and args[0] not in self.commands:
            args = bids_app.with_command(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> object:
        with errors_in_words():
            return super().invoke(ctx)


@contextmanager
def errors_in_words() -> Iterator[None]:
    """The one place where errors and warnings written for people become a line on stderr, and errors an exit code."""
    try:
        with warnings.catch_warnings():
            shown: set[str] = set()  # data that are read twice would be warned of twice

            def say_once(message: Warning | str, *_: Any, **__: Any) -> None:
                if str(message) not in shown:
                    shown.add(str(message))
                    _say(f"warning: {message}", "yellow")

            warnings.showwarning = say_once
            yield
    except BrainroamError as error:
        if verbose():
            traceback.print_exc()
        _say(f"error: {error}", "red")
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from error
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # whoever read our output has seen enough
        if verbose():
            traceback.print_exc()
        _say(f"error: {error.filename or 'a file'}: {error.strerror or error}", "red")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        _say(INTERRUPTED, "red")
        raise typer.Exit(_code_of(error)) from error


def _say(message: str, style: str) -> None:
    from rich.console import Console

    console = Console(stderr=True)
    with console.capture() as line:
        console.print(visible(message, keep="\n\t"), style=style, markup=False, highlight=False, soft_wrap=True)
    sys.stderr.write(line.get())  # above the bars, where there are some: what a console prints itself they overwrite
    sys.stderr.flush()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"brainroam {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=EPILOG,
)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Train on your imaging sites, get an honest statement about the next one."""


PANELS = {
    "Start here": (data.demo, data.extract, init.init, run.run),
    "Look at data": (data.check, data.audit, data.fetch, data.atlas, data.convert, data.export, data.scaffold),
    "Judge methods at the next site": (
        study.evaluate,
        study.loso,
        study.cv,
        study.ablate,
        study.sweep,
        study.compare,
        study.report,
        study.plan,
        study.methods,
    ),
    "In a container or on a cluster": (bids_app.bids_app,),
    "Keep and use one model": (model.fit, model.predict, model.explain, model.foretell, model.reveal),
    "Hospitals that cannot share": (federation.site, federation.pool),
}


def _help_of(command: Callable[..., None]) -> str:
    """The docstring with one line per paragraph, which the terminal breaks where it ends."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.__doc__ or "").split("\n\n"))


for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(cls=_Command, rich_help_panel=_panel, help=_help_of(_command))(with_verbosity(_command))


def main() -> None:
    """Run the command that was typed; an error ends it with an exit code and, but for a fault of ours, one line."""
    try:
        sys.unraisablehook = _unraisable
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without arrows or dashes shows ? instead of failing
        app(prog_name="brainroam")
    except KeyboardInterrupt as error:  # before or after a command; `errors_in_words` tells the same during one
        _interrupted(error)
    except Exception as error:
        if (began := _began_with_ctrl_c(error)) is not None:
            _interrupted(began)
        traceback.print_exc()
        _say("This is a fault of brainroam, not yours: please report it with the lines above.", "red")
        sys.exit(3)


def terminate(number: int, frame: FrameType | None) -> NoReturn:
    """What SIGTERM does: the same as Ctrl-C, once; a second one while things are tidied up does nothing."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _code_of(interrupt: KeyboardInterrupt) -> int:
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _interrupted(interrupt: KeyboardInterrupt) -> NoReturn:
    _say(INTERRUPTED, "red")
    sys.exit(_code_of(interrupt))


def _began_with_ctrl_c(error: BaseException | None) -> KeyboardInterrupt | None:
    """Some libraries turn an interrupt during their import into an error of their own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _unraisable(problem: "sys.UnraisableHookArgs") -> None:
    """A signal to end in a callback, where Python can only print and forget it, is raised again where it counts."""
    if issubclass(problem.exc_type, KeyboardInterrupt):
        number = signal.SIGINT
        if issubclass(problem.exc_type, Terminated):
            number = signal.SIGTERM
            signal.signal(number, terminate)
        threading.Timer(0.01, _interrupt_main, [number]).start()  # at once it would be lost here as well
    else:
        sys.__unraisablehook__(problem)


def _interrupt_main(number: signal.Signals) -> None:
    """A signal for the main thread, which wakes it from whatever it waits for; Windows has none for threads."""
    if hasattr(signal, "pthread_kill"):
        main = threading.main_thread().ident
        assert main is not None  # it has begun
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(number)
