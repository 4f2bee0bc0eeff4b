"""Settings of the extraction: the choices that a methods section has to name.

A folder of series says here that `brainroam extract` made it; readers look here, so nothing here imports them.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brainroam.errors import UsageError, unknown

CONFOUNDS = ("simple", "scrubbing", "compcor", "none")
MADE_BY = "brainroam extract"


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

    def in_words(self) -> str:
        """The settings as sentences for a methods section.

        >>> print(Settings(gsr=True).in_words())  # doctest: +ELLIPSIS
        regional means of volumes ... confounds 'simple' with the global signal, high-pass 0.01 Hz, low-pass 0.1 Hz, ...
        """
        cleaned = f"confounds '{self.confounds}'" if self.confounds != "none" else "no confounds"
        signal = "with" if self.gsr else "without"
        low = "no high-pass but fMRIPrep's cosines" if self.high_pass is None else f"high-pass {self.high_pass:g} Hz"
        high = "no low-pass" if self.low_pass is None else f"low-pass {self.low_pass:g} Hz"
        unit = "unit variance" if self.standardise else "not standardised"
        return (
            f"regional means of volumes preprocessed by fMRIPrep were cleaned with nilearn: {cleaned} {signal} the "
            f"global signal, {low}, {high}, {unit}; a region with less than {self.min_coverage:.0%} of its voxels in "
            "the brain mask was missing"
        )

    def described(self) -> dict[str, Any]:
        """Plain values for the record."""
        return asdict(self)


def describe_extraction(folder: Path) -> str | None:
    """How the series of a folder that we extracted were made, in words; None for any other folder."""
    try:
        content = json.loads((folder / "dataset_description.json").read_text(encoding="utf-8"))
        made_by = content["GeneratedBy"][0]
        return str(made_by["Description"]) if made_by["Name"] == MADE_BY else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
