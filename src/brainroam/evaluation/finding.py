"""What one check of a method, of data or of predictions found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        A fixed name of the kind of check.
    method : str
        The method checked; empty when it is about the data alone.
    passed : bool or None
        False is a leak. None is neither: something to know before believing a result.
    value, limit : float or None
        What was measured, and where it would have been judged otherwise.
    evidence : str
        What was done and what came of it, in words.
    """

    name: str
    method: str
    passed: bool | None
    value: float | None
    limit: float | None
    evidence: str
