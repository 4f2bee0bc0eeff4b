"""Rows of edges: which triangle of a matrix they are, told by the numbers, and read as the matrices they came from."""

import numpy as np
import pandas as pd
import pytest

from brainroam import load_cohort
from brainroam.data.detect import look
from brainroam.data.triangles import matrices_of, order_of

P = 14
RNG = np.random.default_rng(0)
SHARED = RNG.normal(size=(3, P))
R = np.array(
    [
        np.corrcoef((RNG.normal(size=(40, 3)) @ (SHARED + RNG.normal(size=(3, P))) + RNG.normal(size=(40, P))).T)
        for _ in range(24)
    ]
)
UPPER, LOWER = np.triu_indices(P, 1), np.tril_indices(P, -1)


@pytest.mark.parametrize(
    "change", [lambda r: r, lambda r: np.round(r, 2), lambda r: np.arctanh(np.clip(r, -0.999, 0.999))]
)
@pytest.mark.parametrize("n_people", [1, 24])
def test_the_order_of_correlations_is_told_by_their_eigenvalues(change, n_people):
    made = change(R[:n_people])
    assert order_of(made[:, *UPPER]) == "upper" and order_of(made[:, *LOWER]) == "lower"
    for order, places in (("upper", UPPER), ("lower", LOWER)):
        back = matrices_of(made[:, *places], order)
        np.testing.assert_allclose(back[:, *UPPER], made[:, *UPPER], rtol=1e-12)
        assert (np.diagonal(back, axis1=1, axis2=2) == 1).all()


def test_a_missing_region_does_not_hide_the_order():
    made = R.copy()
    made[:3, 5] = made[:3, :, 5] = np.nan
    assert order_of(made[:, *LOWER]) == "lower"


@pytest.mark.parametrize("diagonal", [1.0, 2**-0.5, np.inf])
def test_the_diagonal_among_the_edges_tells_the_order(diagonal):
    """As nilearn writes them with discard_diagonal=False: divided by the root of 2."""
    made = np.where(np.eye(P, dtype=bool), diagonal, RNG.normal(size=(24, P, P)))
    made = (made + made.transpose(0, 2, 1)) / 2
    for order, places in (("upper", np.triu_indices(P)), ("lower", np.tril_indices(P))):
        assert order_of(made[:, *places]) == order
        np.testing.assert_array_equal(matrices_of(made[:, *places], order), made)


def test_measures_and_edges_without_an_order_of_their_own_are_no_triangles():
    assert order_of(RNG.normal(size=(24, 91))) is None and order_of(RNG.normal(size=(24, 90))) is None
    assert order_of(np.full((24, 91), 0.5)) is None
    assert order_of(0.2 * R[:, *UPPER]) is None


@pytest.fixture
def study(tmp_path):
    people = pd.DataFrame(
        {
            "id": [f"{k:02}" for k in range(24)],
            "site": np.repeat(["Oslo", "Rome"], 12),
            "diagnosis": np.tile(["ASD", "TD"], 12),
            "age": RNG.uniform(10, 40, 24).round(1),
        }
    )
    people.to_csv(tmp_path / "participants.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("places", [UPPER, LOWER], ids=["upper", "lower"])
def test_an_array_of_triangles_is_found_and_read_as_matrices(study, places):
    np.save(study / "edges.npy", R[:, *places])
    guess = look(study, {})
    assert guess.blocks["edges"]["matrices"].endswith("edges.npy")
    cohort = load_cohort(
        study / "participants.csv", "table", measures="none", blocks={"edges": {"matrices": str(study / "edges.npy")}}
    )
    assert cohort.measure == "matrices" and "read as triangles" in cohort.prepared[0]
    np.testing.assert_allclose(cohort.series[7], R[7], atol=1e-12)


def test_edges_without_an_order_stay_a_table_and_it_is_said(study):
    np.save(study / "edges.npy", 0.2 * R[:, *UPPER])
    guess = look(study, {})
    assert "table" in guess.blocks["edges"] and f"people x {P} x {P}" in guess.remarks["edges"]
    with pytest.warns(UserWarning, match=f"edges of {P} regions, but no order"):
        cohort = load_cohort(
            study / "participants.csv",
            "table",
            measures="none",
            blocks={"edges": {"matrices": str(study / "edges.npy")}},
        )
    assert cohort.measure == "table"
