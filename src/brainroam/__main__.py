"""The ``brainroam`` command, and ``python -m brainroam``: as little as possible before signals are looked after."""

import os
import signal
from types import FrameType


def main() -> None:
    """Import the command line and run it; a signal to end before it has begun ends the process at once."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    if before[0] is signal.default_int_handler:  # not where a shell has it ignored, as for jobs in the background
        signal.signal(signal.SIGINT, _end)
    if before[1] is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    from brainroam.cli import main as run
    from brainroam.cli import terminate

    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, terminate if before[1] is signal.SIG_DFL else before[1])
    run()


def _end(number: int, frame: FrameType | None) -> None:
    """In the middle of an import an exception may be swallowed or printed; there is nothing to tidy up yet."""
    os.write(2, b"interrupted; nothing had begun\n")
    os._exit(128 + number)


if __name__ == "__main__":
    main()
