"""Python that starts at once: forks of a process that has imported what commands import and computed nothing.

`start` gives an executable that takes ``-c CODE ARGUMENTS`` like the real interpreter, and hands anything else to it.
A signal reaches the executable and not the fork: tests that kill or interrupt start real processes.
"""

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType

SHIM = """#!{python} -IS
import json, os, socket, sys
if sys.argv[1:2] != ["-c"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
asked = json.dumps([sys.argv[0], sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
server.sendall(asked)
sys.exit(int(server.recv(16) or 1))
"""
COMMAND = """#!/bin/sh
exec {python} -c 'from brainroam.__main__ import main; main()' "$@"
"""


def start(folder: Path) -> tuple[subprocess.Popen, Path]:
    """The process to end afterwards, and a folder with the executables ``python`` and ``brainroam``."""
    address, python = folder / "server", folder / "python"
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    server = subprocess.Popen([sys.executable, __file__, str(address)], env=environment, start_new_session=True)
    for path, text in (
        (python, SHIM.format(python=sys.executable, address=str(address))),
        (folder / "brainroam", COMMAND.format(python=python)),
    ):
        path.write_text(text)
        path.chmod(0o755)
    while not address.exists() and server.poll() is None:
        time.sleep(0.01)
    return server, folder


def serve(address: str) -> None:
    """Answer every connection with a fork."""
    from faults.launcher import warm_up

    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.soon")
        listening.listen(100)
        os.rename(f"{address}.soon", address)
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                listening.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    python, words, folder, environment = json.loads(_received(connection, int.from_bytes(size, "big")))
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(place, mode) for place, mode in enumerate("rww"))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = ["", *paths]  # the folder of this file was first
    sys.argv, sys.executable = ["-c", *words[1:]], python
    sys.modules["__main__"] = main = ModuleType("__main__")
    code = 1
    try:
        exec(compile(words[0], "<string>", "exec"), main.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    connection.sendall(str(code).encode())
    os._exit(code)


def _received(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        content += connection.recv(size - len(content))
    return content


if __name__ == "__main__":
    serve(sys.argv[1])
