"""What was measured, in the words of a report: edges and connectivity of series and matrices, measures of a table."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from brainroam.errors import listed

UNNAMED = " of 'custom'"  # regions that nobody described
INPUT = {
    "series": "Regional fMRI time series",
    "matrices": "Connectivity matrices",
    "table": "Measures of a table",
}


class Words(NamedTuple):
    """How a report speaks of what was measured.

    Attributes
    ----------
    feature : str
        One number of a person: "edge", "measure", or "feature" where there are both.
    all_features : str
        All of them: "connectivity", "measures" or "features".
    stronger : str
        What an edge, or a measure, is in people with the condition.
    inputs : str
        What methods read, for a methods section.
    has_time, has_regions : bool
        Whether something measured is a time course, or of regions that edges join.
    kinds : dict of str to str
        What each block is: "series", "matrices" or "table".
    """

    feature: str
    all_features: str
    stronger: str
    inputs: str
    has_time: bool
    has_regions: bool
    kinds: Mapping[str, str]


def words_of(study: Mapping[str, Any]) -> Words:
    """The words that suit a study; runs of earlier versions are of series.

    >>> words_of({"measured": {"table": {"measure": "table", "extent": "30 columns of 'wide'"}}})[:4]
    ('measure', 'measures', 'larger', "Measures of a table (30 columns of 'wide')")
    """
    regions = f"{study['n_rois']} regions of {study['atlas']!r}" if study.get("n_rois") else repr(study.get("atlas"))
    measured = study.get("measured") or {"series": {"measure": "series", "extent": regions}}
    of_each = {name: str(block["measure"]) for name, block in measured.items()}
    kinds = set(of_each.values())
    named = len(measured) > 1
    inputs = [
        f"{name + ': ' if named else ''}{INPUT[block['measure']]} ({block['extent'].removesuffix(UNNAMED)})"
        for name, block in measured.items()
    ]
    if kinds == {"table"}:
        names = "measure", "measures", "larger"
    elif "table" in kinds:
        names = "feature", "features", "larger"
    else:
        names = "edge", "connectivity", "stronger"
    return Words(*names, listed(inputs), "series" in kinds, kinds != {"table"}, of_each)
