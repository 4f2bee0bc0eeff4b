"""Runs of a method that share nothing: each in a process of its own, in an empty folder.

What a method keeps in a module, or in a file beside it, would otherwise make the second run look like the first. One
process computes nothing, and every run is a fork of it; it imports the packages that earlier runs had to import, which
takes a network of torch a second. Where there is no fork, every run starts a process anew. Files that a run makes
anywhere else (a cache on disk) are removed when it ends: the next run does not find them, nor does a study later find
what was learned from spoilt data. What was there before stays.
"""

import os
import pickle
import signal
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import cloudpickle

import brainroam
from brainroam.audit.candidates import Candidate
from brainroam.data.cohort import Cohort
from brainroam.errors import BrainroamError, UsageError
from brainroam.utils.optional import one_thread

FORKS = hasattr(os, "fork")
PIPE = 2**16  # bytes that a pipe holds
SERVE = "from brainroam.audit.fresh import serve; serve()"


Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Run(Protocol):
    """A function that calls another one on a candidate in a fresh process."""

    def __call__(
        self,
        function: Callable[Concatenate[Candidate, Cohort, Given], Answer],
        cohort: Cohort,
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Answer:
        """What ``function(candidate, cohort, ...)`` returns there."""


class FreshProcesses:
    """A context in which candidates are run in fresh processes, all of which end with it."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="brainroam-audit-")
        self._server: subprocess.Popen | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """A folder for what all runs share; it is deleted with this context."""
        return Path(self._folder.name)

    def of(self, candidate: Candidate) -> Run:
        """A function that runs a candidate in the state that it has now."""
        try:
            packed = cloudpickle.dumps(candidate)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UsageError(f"{candidate.name} cannot be sent to a fresh process: {error}") from error

        def run(
            function: Callable[Concatenate[Candidate, Cohort, Given], Answer],
            cohort: Cohort,
            *args: Given.args,
            **kwargs: Given.kwargs,
        ) -> Answer:
            answer = self._ask(pickle.dumps((packed, function, cohort, args, kwargs)))
            if isinstance(answer, Exception):
                raise answer
            return answer

        return run

    def _ask(self, message: bytes) -> Any:
        if self._server is None:
            self._server = _start_process(self._folder.name)
        assert self._server.stdin is not None and self._server.stdout is not None
        try:
            _send(self._server.stdin, message)
            answer = _read_message(self._server.stdout)
        except (EOFError, BrokenPipeError):
            self._end()
            raise BrainroamError("the process in which a method is audited has died; is there enough memory?") from None
        if not FORKS:
            self._end()
        return pickle.loads(answer)  # of a process that we started, by a pipe of our own; so are all below

    def _end(self) -> None:
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGKILL) if FORKS else self._server.kill()
            self._server.communicate()
        self._server = None


def _start_process(folder: str) -> subprocess.Popen:
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=FORKS,  # Ctrl-C of a terminal reaches this process only, which ends the others
    )


def serve() -> None:
    """Answer one message after another, each in a fork of this process, until whoever asks is gone."""
    with suppress(BrokenPipeError):
        _serve()


def _serve() -> None:
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a method prints is no answer, and is printed in the study
    while True:
        try:
            message = _read_message(questions)
        except EOFError:
            return
        if not FORKS:
            _send(answers, _answer(message))
            return
        with suppress(Exception):  # the fork will say what is wrong
            pickle.loads(pickle.loads(message)[0])  # imports where the method is from
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            before = set(sys.modules)
            answer = _answer(message)
            with suppress(BrokenPipeError):
                _send(answers, answer)
            os.write(writer, " ".join(_packages(set(sys.modules) - before)).encode()[:PIPE])
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            _send(answers, pickle.dumps(BrainroamError(f"a method ended its process with exit code {code}")))
        os.close(writer)
        os.set_blocking(reader, False)  # a process that the run left behind may hold the other end
        with suppress(BlockingIOError):
            for name in os.read(reader, PIPE).decode().split():
                with suppress(Exception):
                    import_module(name)
        os.close(reader)


def _packages(modules: Iterable[str]) -> list[str]:
    """The modules of brainroam and of installed packages: importing a script of the user may have side effects.

    >>> _packages(["numpy.linalg", "my_methods"])
    ['numpy.linalg']
    """
    homes = tuple({*map(sysconfig.get_path, ("purelib", "platlib")), str(Path(brainroam.__file__).parent)})
    files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in modules}
    return sorted(name for name, file in files.items() if file.startswith(homes))


def _answer(message: bytes) -> bytes:
    """The pickled result, or error, of a request that is run in an empty folder."""
    shared = os.getcwd()
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        os.chdir(folder)
        made: list[str] = []
        try:
            packed, function, cohort, args, kwargs = pickle.loads(message)
            candidate = pickle.loads(packed)
            sys.addaudithook(partial(_watch, made, [shared, *filter(None, [cohort.features.folder])]))
            with one_thread(), warnings.catch_warnings(action="ignore"):  # they are shown in the study
                return pickle.dumps(function(candidate, cohort, *args, **kwargs))
        except Exception as error:
            error.add_note(traceback.format_exc())
            with suppress(Exception):
                content = cloudpickle.dumps(error)
                pickle.loads(content)
                return content
            return pickle.dumps(BrainroamError(f"{type(error).__name__}: {error}"))
        finally:
            os.chdir(shared)
            _remove(made)


def _watch(made: list[str], ours: Sequence[str | Path], event: str, args: tuple) -> None:
    """An audit hook that notes files and folders which are about to be made elsewhere than in folders of ours."""
    opened = event == "open" and isinstance(args[0], str | bytes | os.PathLike) and args[2] & os.O_CREAT
    if opened or event in ("os.mkdir", "sqlite3.connect"):
        new = args[0]
    elif event == "os.rename":
        new = args[1]
    else:
        return
    path = Path(os.path.abspath(os.fsdecode(new)))
    if not path.exists() and not any(path.is_relative_to(folder) for folder in ours):
        made.append(str(path))


def _remove(made: Sequence[str]) -> None:
    for path in reversed(made):
        with suppress(OSError):  # gone already, or a folder in which somebody else has put something
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def _send(stream: IO[bytes], content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "big"))
    stream.write(content)
    stream.flush()


def _read_message(stream: IO[bytes]) -> bytes:
    size = stream.read(8)
    if len(size) < 8:
        raise EOFError
    content = stream.read(int.from_bytes(size, "big"))
    if len(content) < int.from_bytes(size, "big"):
        raise EOFError
    return content
