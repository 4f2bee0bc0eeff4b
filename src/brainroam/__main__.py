"""The ``brainroam`` command, and ``python -m brainroam``: as little as possible before Ctrl-C is looked after."""

import os
import signal
from types import FrameType


def main() -> None:
    """Import the command line and run it; Ctrl-C before it has begun ends the process at once."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where a shell has it ignored, as for jobs in the background
        signal.signal(signal.SIGINT, _end)
    from brainroam.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


def _end(number: int, frame: FrameType | None) -> None:
    """In the middle of an import an exception may be swallowed or printed; there is nothing to tidy up yet."""
    os.write(2, b"interrupted; nothing had begun\n")
    os._exit(130)


if __name__ == "__main__":
    main()
