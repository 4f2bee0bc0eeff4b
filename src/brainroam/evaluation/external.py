"""External validation: what a model is worth at new sites whose truth is known, and whether that was foretold.

What is measured and said of each kind of target: `brainroam.data.target.validation`.
"""

from collections.abc import Iterator

import pandas as pd

from brainroam.data.people import people_of
from brainroam.data.target import TWO_CLASSES, Target
from brainroam.evaluation.stats import verdict as models
from brainroam.methods.tuning import TunedMethod


def validate(predictions: pd.DataFrame, target: Target = TWO_CLASSES, calibration: object = None) -> pd.DataFrame:
    """Measure predictions of people whose truth is known, site by site.

    Parameters
    ----------
    predictions : DataFrame
        What `brainroam.methods.predictions` gives; without a column ``label`` nothing is known. Where ``person`` says
        whose scan a row is (``subject``), a person counts once at a site, with the mean of the scans.
    target : Target
    calibration : object
        That of the model; needed of a number.

    Returns
    -------
    DataFrame
        One row per site where the truth of somebody is known, with what `Validation.at_site` measures.

    Examples
    --------
    >>> table = pd.DataFrame({"site": "A", "label": [0, 0, 1, 1], "probability": [0.2, 0.6, 0.4, 0.8],
    ...                       "predicted": [0, 1, 0, 1]})
    >>> validate(table)[["n", "auc", "balanced_acc", "mean_probability"]].values.round(2).tolist()
    [[4.0, 0.75, 0.5, 0.5]]
    """
    if "label" not in predictions:
        return pd.DataFrame()
    measures = target.validation
    people = people_of(measures.coded(predictions))
    rows = [{"site": site, **measures.at_site(here, calibration)} for site, here in people.groupby("site")]
    return measures.with_intervals(pd.DataFrame(rows), models) if rows else pd.DataFrame()


def agreement(sites: pd.DataFrame, method: TunedMethod) -> Iterator[str]:
    """Sentences: what the sites of `validate` say together, and whether they are as training sites foretold."""
    return method.target_.validation.agreement(sites, method.inner_sites_, models)
