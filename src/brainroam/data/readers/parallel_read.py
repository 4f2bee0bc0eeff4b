"""Files of many people, read by several processes."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from brainroam.errors import BrainroamError, ReaderError
from brainroam.utils.workers import Failure, Workers

MANY = 64  # people; fewer are read before a process could start
AT_A_TIME = 8


def read_in_parallel(
    read: Callable[[str], Any], subjects: Sequence[str], workers: Workers | None
) -> Iterator[tuple[str, Any]]:
    """Each person, in this order, with what ``read`` gives, or with the `ReaderError` it raises.

    >>> [(subject, str(found)) for subject, found in read_in_parallel(str.upper, ["a", "b"], None)]
    [('a', 'A'), ('b', 'B')]
    """
    if workers is None or len(subjects) < MANY:
        yield from ((subject, _attempt(read, subject)) for subject in subjects)
        return
    import cloudpickle  # what readers read with is made where it is needed, which pickle alone cannot send

    tasks = [tuple(subjects[start : start + AT_A_TIME]) for start in range(0, len(subjects), AT_A_TIME)]
    found = dict(workers.map(_some, tasks, cloudpickle.dumps(read)))
    for task in tasks:
        if isinstance(found[task], Failure):
            raise BrainroamError(f"subjects {task[0]} to {task[-1]} could not be read: {found[task].error}")
        yield from zip(task, found.pop(task), strict=True)


def _some(packed: bytes, subjects: Sequence[str]) -> list[Any]:
    return [_attempt(_unpacked(packed), subject) for subject in subjects]


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Callable[[str], Any]:
    import cloudpickle

    return cloudpickle.loads(packed)


def _attempt(read: Callable[[str], Any], subject: str) -> Any:
    try:
        return read(subject)
    except ReaderError as error:
        return error
