"""The site lists of the paper, by reader."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Preset:
    """The sites of a published cohort, the options that go with them, and what to know before using it."""

    sites: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    caution: str = ""


PRESETS = {
    "paper": {
        "abide": Preset(
            ("CALTECH", "KKI", "MAX_MUN", "OLIN", "PITT", "SBL", "SDSU", "STANFORD", "TRINITY", "YALE"),
            {"quality_checked": False},
        ),
        "rest-meta-mdd": Preset(("S1", "S7", "S8", "S9", "S10", "S15", "S19", "S20", "S21", "S25")),
        "srpbs": Preset(
            (
                *("HUH", "HRC", "HKH", "COI", "KUT", "UTO"),
                *("Univ. of Tokyo", "Hiroshima Univ. Hospital", "COI Hiroshima Univ.", "Hiroshima Kajikawa Hospital"),
            ),
            caution="the paper's ten SRPBS environments name four hospitals twice (HUH, HKH, COI and UTO, by code and "
            "in words) with the same lengths and nearly the same people: look for duplicated people before trusting "
            "a result on an unseen site",
        ),
        "abcd": Preset(
            tuple(f"site{number}" for number in ("02", "06", "07", "09", "11", "14", "15", "16", "20", "21")),
            {"volumes": 383},
        ),
    }
}
