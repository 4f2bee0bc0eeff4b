"""One thread: a sum taken by two threads is rounded differently from the same sum taken by one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, so that results are the same bytes on any number of cores; also a decorator.

    torch counts its threads itself, from the cores it found at its first product, and `threadpoolctl` does not reach
    the MKL inside it. So where torch is imported late, this has to be entered once more after the import.

    >>> with one_thread():
    ...     pass
    """
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else 0
    with threadpool_limits(1):
        if torch:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch:
                torch.set_num_threads(before)
