"""Detect which acquisition of a BIDS dataset is meant, where there are several with different TRs, and ask."""

from pathlib import Path

from brainroam.data.detect.guess import Guess, Question
from brainroam.data.readers.bids import acquisitions, parcellated_files
from brainroam.errors import listed


def look_at_acquisitions(root: Path, guess: Guess) -> None:
    """Ask which acquisition is read, where there are several of different TRs, such as acq-645 and acq-1400 of NKI."""
    if "acq" in guess.options:
        return
    trs = acquisitions(parcellated_files(root))
    if len(set(trs.values())) > 1:
        each = listed(f"acq-{name} (TR {tr:g} s)" for name, tr in trs.items())
        text = f"The files are of several acquisitions, {each}, whose series cannot be joined. Which is to be read?"
        guess.questions.append(Question("acq", text, tuple(trs)))
