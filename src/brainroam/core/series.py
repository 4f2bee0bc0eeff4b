"""Series as input: one array (T, P) per person, refused in words where they are none."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils import Tags

from brainroam.data.measurements import check_is_series, missing_rois
from brainroam.errors import DataError, listed


class TakesSeries:
    """Tells scikit-learn that X is a series for each person: a list of arrays, or one array of three dimensions."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array, tags.input_tags.three_d_array, tags.input_tags.allow_nan = False, True, True
        return tags


def without_signal(series: Sequence[np.ndarray]) -> np.ndarray:
    """Regions without signal (n, P), of what really are series.

    >>> without_signal([np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])]).tolist()
    [[False, True]]
    """
    if not len(series):
        raise DataError("no people were given")
    for i, x in enumerate(series):
        check_is_series(np.asarray(x), f"person {i}")
    widths = {np.shape(x)[1] for x in series}
    if len(widths) > 1:
        raise DataError(f"series of {listed(sorted(widths))} regions cannot be compared: all must come from one atlas")
    return missing_rois(series)
