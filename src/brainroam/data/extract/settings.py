"""What is done to the signals: the choices a methods section has to name."""

from dataclasses import asdict, dataclass
from typing import Any

from brainroam.errors import UsageError, unknown

CONFOUNDS = ("simple", "scrubbing", "compcor", "none")


@dataclass(frozen=True)
class Settings:
    """How signals are cleaned.

    Attributes
    ----------
    confounds : {"simple", "scrubbing", "compcor", "none"}
        nilearn's presets for fMRIPrep: 24 motion parameters with mean white-matter and CSF signals; the same with
        volumes of much motion left out; or 24 motion parameters with anatomical CompCor.
    gsr : bool
        Also regress out the global signal.
    high_pass, low_pass : float or None
        Band to keep, in Hz. fMRIPrep's cosines do the high-pass when ``high_pass`` is None.
    standardise : bool
        Every region to mean 0 and variance 1.
    min_coverage : float
        A region with a smaller share of its voxels inside the brain mask is missing.

    Examples
    --------
    >>> Settings(confounds="compcor").low_pass
    0.1
    """

    confounds: str = "simple"
    gsr: bool = False
    high_pass: float | None = 0.01
    low_pass: float | None = 0.1
    standardise: bool = True
    min_coverage: float = 0.5

    def __post_init__(self) -> None:
        if self.confounds not in CONFOUNDS:
            raise unknown("set of confounds", self.confounds, CONFOUNDS)
        if self.gsr and self.confounds == "none":
            raise UsageError("the global signal is one of the confounds: --gsr needs --confounds simple or another")
        if self.high_pass is not None and self.low_pass is not None and self.high_pass >= self.low_pass:
            raise UsageError(f"the band from {self.high_pass:g} to {self.low_pass:g} Hz is empty")

    def described(self) -> dict[str, Any]:
        """Plain values for the record."""
        return asdict(self)
