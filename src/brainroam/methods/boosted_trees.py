"""Gradient boosting of decision trees on the columns of a table, or the edges: the non-linear reference.

    score(x) = base + sum_m v_m(x),      v_m(x) the value of the leaf of tree m in which x lies

Each tree is fitted to the gradient of the loss (logistic, squared error of a number) at the sum of those before, see
`sklearn.ensemble.HistGradientBoostingClassifier`. An unknown value goes to the side where it costs least. Trees read
values as they are, so logarithms and ranks change nothing; site means are not removed. Only splits and leaves of
`LEAF` training people or more are kept, as arrays.
"""

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from brainroam.core.connectivity import cohort_edges
from brainroam.data.cohort import Cohort
from brainroam.methods.base import EVERY_TARGET, Method, MethodInfo
from brainroam.methods.registry import register

LEAF = 20  # people
FIELDS = ("feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf", "value")
LEAVES = (6, 3, 12)


class BoostedTrees(Method):
    """Boosted trees.

    Parameters
    ----------
    leaves : int
        Of a tree at most.
    trees : int
    learning_rate : float
    """

    def __init__(
        self,
        leaves: Annotated[int, Field(ge=2)] = LEAVES[0],
        trees: PositiveInt = 150,
        learning_rate: PositiveFloat = 0.05,
    ) -> None:
        self.leaves, self.trees, self.learning_rate = leaves, trees, learning_rate

    @threadpool_limits.wrap(limits=1)
    def fit(self, cohort: Cohort, seed: int = 0, validation: Cohort | None = None) -> Self:
        """Grow the trees."""
        settings: dict[str, Any] = {"max_leaf_nodes": self.leaves, "max_iter": self.trees, "min_samples_leaf": LEAF}
        settings |= {"learning_rate": self.learning_rate, "early_stopping": False, "random_state": seed}
        model = cohort.target.coding.boosted_trees()(**settings).fit(cohort_edges(cohort), cohort.targets)
        grown = [tree.nodes for (tree,) in model._predictors]
        self.nodes_ = {name: np.concatenate([nodes[name] for nodes in grown]).astype(float) for name in FIELDS}
        self.starts_ = np.cumsum([0, *map(len, grown[:-1])])
        self.base_ = float(np.ravel(model._baseline_prediction)[0])
        return self

    def score(self, cohort: Cohort) -> np.ndarray:
        """The log odds, or the number."""
        values = cohort_edges(cohort)
        return self.base_ + np.sum([self._values(values, start) for start in self.starts_], axis=0)

    def _values(self, values: np.ndarray, start: int) -> np.ndarray:
        """The value of the leaf of one tree in which each person (n, M) lies."""
        person, place = np.arange(len(values)), np.full(len(values), start)
        while (walking := ~self.nodes_["is_leaf"][place].astype(bool)).any():
            here = place[walking]
            x = values[person[walking], self.nodes_["feature_idx"][here].astype(int)]
            left = np.where(
                np.isnan(x), self.nodes_["missing_go_to_left"][here], x <= self.nodes_["num_threshold"][here]
            )
            following = np.where(left > 0, self.nodes_["left"][here], self.nodes_["right"][here])
            place[walking] = start + following.astype(int)
        return self.nodes_["value"][place]

    def state(self) -> dict[str, np.ndarray]:
        """Splits and leaves of all trees, one after the other."""
        return {**self.nodes_, "starts": self.starts_, "base": np.array([self.base_])}

    def load_state(self, state: dict[str, np.ndarray]) -> Self:
        """Restore what `state` returned."""
        self.nodes_ = {name: state[name] for name in FIELDS}
        self.starts_, self.base_ = state["starts"], float(state["base"][0])
        return self


register(
    MethodInfo(
        "boosted-trees",
        BoostedTrees,
        "gradient boosting of decision trees, columns or edges as they are",
        "Friedman (2001) Annals of Statistics 29:1189-1232; scikit-learn",
        {"leaves": LEAVES},
        stochastic=False,
        reads=("series", "matrices", "table"),
        targets=EVERY_TARGET,
        one_against_rest=True,
    )
)
