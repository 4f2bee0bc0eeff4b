"""Boosted trees: scikit-learn's own scores from arrays, unknown values, and numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from brainroam.data.atlas import columns_of_table
from brainroam.data.cohort import Cohort
from brainroam.data.target import Number
from brainroam.methods.boosted_trees import LEAF, BoostedTrees
from brainroam.methods.registry import method_info
from brainroam.methods.saving import load_method, save_method
from brainroam.methods.tuning import TunedMethod


def table(number=False, n=240, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    truth = x[:, 0] * x[:, 1] + 0.5 * rng.normal(size=n)  # nothing that adds up over columns tells it
    x[rng.random(x.shape) < 0.1] = np.nan
    people = pd.DataFrame({"subject": [f"p{k}" for k in range(n)], "site": [f"S{k % 6}" for k in range(n)]})
    people["label"] = truth if number else (truth > 0).astype(float)
    target = {"target": Number("score")} if number else {}
    return Cohort(list(x[:, None]), people, columns_of_table(list("abcdefgh")), measure="table", **target)


@pytest.mark.parametrize("number", [False, True])
def test_scores_are_those_of_scikit_learn(number):
    cohort = table(number)
    settings = {"max_leaf_nodes": 6, "max_iter": 150, "learning_rate": 0.05, "min_samples_leaf": LEAF}
    kind = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
    x, other = np.concatenate(cohort.series), table(number, seed=1)
    reference = kind(**settings, early_stopping=False, random_state=0).fit(x, cohort.targets)
    new = np.concatenate(other.series)
    expected = reference.predict(new) if number else reference.decision_function(new)
    np.testing.assert_allclose(BoostedTrees().fit(cohort).score(other), expected, rtol=1e-10, atol=1e-12)


def test_a_product_of_columns_is_read_at_sites_never_seen_and_the_model_is_read_back(tmp_path):
    cohort = table(n=600)
    train = (cohort.table["site"] != "S0").to_numpy()
    model = TunedMethod(method_info("boosted-trees"), "default").fit(cohort.subset(train))
    rest = cohort.subset(~train)
    score, y = model.score(rest), rest.labels
    assert np.mean(score[y == 1][:, None] > score[y == 0]) > 0.7
    again = load_method(save_method(tmp_path / "model", model, cohort.subset(train)), rest)[0]
    np.testing.assert_array_equal(again.score(rest), score)
