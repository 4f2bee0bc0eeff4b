"""What the third summaries of a pool say: calibration, results by site, and what a model keeps of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from brainroam.data.target import Target
from brainroam.data.target.order import equivalent_sizes
from brainroam.execution.federation.scores import (
    calibration_of,
    calibration_of_classes,
    calibration_of_numbers,
    figure_of,
    shifts_of,
    shifts_of_classes,
    shifts_of_numbers,
)


def learn_calibration(parts: Sequence[dict[str, np.ndarray]], target: Target) -> dict[str, Any]:
    """Calibration and shifts from the third summaries."""
    if target.is_number:
        line = calibration_of_numbers(parts)
        return {"calibration": line, "shifts": shifts_of_numbers(parts, line)}
    if target.is_classes:
        return {"calibration": calibration_of_classes(parts), "shifts": shifts_of_classes(parts, target)}
    return {"calibration": calibration_of(parts), "shifts": shifts_of(parts)}


def scores_of_sites(
    sites: Sequence[str], third: Mapping[str, Mapping[str, np.ndarray]], target: Target
) -> pd.DataFrame:
    """One row per site; of a number with the error of its level, on the scale it is learned on."""
    counts = np.stack([third[name]["counts"] for name in sites])
    start = {"method": "core", "protocol": "loso", "site": sites, "n": counts.sum(axis=1)}
    parts = [third[name] for name in sites]
    if target.is_number:
        line = calibration_of_numbers(parts)
        residual = np.array([-line.slope, 1.0])
        return pd.DataFrame(
            {
                **start,
                "r": [figure_of(part, target) for part in parts],
                "level": [float(line(part["mean"][0]) - part["mean"][1]) for part in parts],
                "error_sd": [
                    float(np.sqrt(residual @ part["moments"] @ residual / part["counts"][0])) for part in parts
                ],
                "sd": [float(np.sqrt(part["moments"][1, 1] / part["counts"][0])) for part in parts],
                "score_sd": [float(np.sqrt(part["moments"][0, 0] / part["counts"][0])) for part in parts],
            }
        )
    if target.is_classes:
        present, names = counts > 0, target.classes
        aucs = np.where(present, np.stack([part["auc"] for part in parts]), np.nan)
        of_each = {f"n_{name}": counts[:, k] for k, name in enumerate(names)}
        of_each |= {f"auc_{name}": aucs[:, k] for k, name in enumerate(names)}
        variances = np.stack([part["auc_variance"] for part in parts])
        return pd.DataFrame(
            {
                **start,
                "auc": np.nanmean(aucs, axis=1),
                "auc_variance": variances[:, 0],
                "class_variance": variances[:, 1],
                **of_each,
            }
        )
    return pd.DataFrame(
        {
            **start,
            "n_cases": counts[:, 1],
            "auc": [float(third[name]["auc"]) for name in sites],
            "mean_score_controls": [float(third[name]["mean"][0]) for name in sites],
            "mean_score_cases": [float(third[name]["mean"][1]) for name in sites],
        }
    )


def inner_sites(scores: pd.DataFrame, target: Target) -> list[dict[str, Any]]:
    """What a model keeps of its held-out sites: the columns of `TunedMethod.inner_sites_` that follow.

    How many people are called right, and their probabilities, do not: these take the scores of single people.
    """
    n = scores["n"]
    if target.is_number:
        several = np.maximum(n - 1, 1)
        table = scores[["site", "n", "r", "level"]].assign(
            level_var=scores["error_sd"] ** 2 / several, spread=scores["score_sd"] * np.sqrt(n / several)
        )
        if not target.transform:  # the scale that is learned is that of the units
            table = table.assign(off=scores["level"], off_sd=scores["error_sd"])
    elif target.is_classes:
        m = equivalent_sizes(scores[[f"n_{name}" for name in target.classes]].to_numpy())
        variances = {"auc_var": scores["auc_variance"], "class_var": scores["class_variance"]}
        table = scores[["site", "n", "auc"]].assign(m=m, **variances)
    else:
        table = scores[["site", "n_cases", "auc"]].assign(n_controls=n - scores["n_cases"])
    return table.to_dict("records")
