"""How much of the published accuracy can be reached: the threshold decides, and the paper does not state its own."""

import numpy as np
import pandas as pd

from brainroam.report.tables import Column, fixed
from reproduction.page.content import Listing, Part
from reproduction.page.data import PaperData

THRESHOLDS = {
    "acc": "ACC, threshold of inner sites (ours)",
    "half": "at one half",
    "median": "at the site's own median",
    "best": "at the best threshold of each site",
}


def accuracy(data: PaperData) -> Part:
    """Accuracies of the readings of CORE by four thresholds."""
    title = "Accuracy by threshold"
    rows = [_row(data, name) for name in data.paper.readings.values() if name in data.names("loso")]
    if not rows:
        return Part("accuracy", title, ("Not run yet.",))
    points = fixed(1, 100)
    columns = [Column("method", "Ours"), *(Column(key, words, points) for key, words in THRESHOLDS.items())]
    text = (
        "The paper does not say how its threshold is set. That of our tables comes from held-out training sites. One "
        "half is what a network trained by cross-entropy gives by itself. The median of the site that is tested needs "
        "all its people at once, though none of their labels. The best threshold of each site is found with their "
        "labels: nobody can use it, and it says only what the order of the people would allow. Means over sites, "
        "seeds averaged."
    )
    return Part("accuracy", title, (text, Listing(pd.DataFrame(rows), columns, "accuracy", title)))


def _row(data: PaperData, name: str) -> dict[str, object]:
    assert data.results is not None
    people = data.results.predictions
    people = people[(people["protocol"] == "loso") & (people["method"] == name)]
    folds = [_accuracies(fold) for _, fold in people.groupby(["fold", "seed"])]
    return {"method": name, "acc": data.summary("loso").loc[name, "acc"], **pd.DataFrame(folds).mean()}


def _accuracies(people: pd.DataFrame) -> dict[str, float]:
    label, score = people["label"].to_numpy(), people["score"].to_numpy()
    every = [np.mean((score > threshold) == label) for threshold in np.append(score, -np.inf)]
    at = {"half": 0.0, "median": np.median(score)}
    return {key: float(np.mean((score > t) == label)) for key, t in at.items()} | {"best": float(max(every))}
