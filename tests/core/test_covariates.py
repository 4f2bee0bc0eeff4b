import numpy as np
import pandas as pd
import pytest

from brainroam.core.covariates import CovariateEncoder, as_table
from brainroam.errors import DataError

TRAIN = pd.DataFrame(
    {
        "age": [10.0, 20.0, np.nan, 30.0, 25.0],
        "scanner": ["GE", "Siemens", "Philips", None, "GE"],
        "sex": [1, 0, 1, 1, 0],
    }
)


def test_numbers_are_standardised_over_the_training_people_who_have_them():
    encoder = CovariateEncoder().fit(TRAIN)
    known = TRAIN["age"].dropna()
    expected = (TRAIN["age"] - known.mean()) / known.std(ddof=0)
    np.testing.assert_allclose(encoder.transform(TRAIN)[:, 0], expected.fillna(0), atol=1e-12)


def test_levels_are_indicators_of_all_but_the_first():
    encoder = CovariateEncoder().fit(TRAIN)
    assert encoder.names_ == ["age", "scanner=Philips", "scanner=Siemens", "sex"]
    known = TRAIN["scanner"].notna()
    expected = pd.get_dummies(TRAIN.loc[known, "scanner"], drop_first=True).astype(float)
    np.testing.assert_array_equal(encoder.impute(TRAIN)[known, 1:3], expected)
    np.testing.assert_allclose(encoder.impute(TRAIN)[~known, 1:3], expected.mean().to_numpy()[None])


def test_missing_values_and_unseen_levels_stand_at_the_training_mean_and_are_flagged():
    encoder = CovariateEncoder().fit(TRAIN)
    new = pd.DataFrame({"age": [np.nan, 22.0], "scanner": ["Toshiba", None], "sex": [1, np.nan]})
    q, missing = encoder.transform(new), encoder.missing(new)
    assert missing.to_numpy().tolist() == [[True, True, False], [False, True, True]]
    assert (q[0, :3] == 0).all()
    assert (q[1, 1:] == 0).all()
    assert q[1, 0] != 0


def test_one_person_is_encoded_as_in_a_batch():
    encoder = CovariateEncoder().fit(TRAIN)
    for i in range(len(TRAIN)):
        np.testing.assert_array_equal(encoder.transform(TRAIN[i : i + 1])[0], encoder.transform(TRAIN)[i])


def test_the_order_of_columns_and_further_columns_do_not_matter():
    encoder = CovariateEncoder().fit(TRAIN)
    shuffled = TRAIN.assign(weight=1.0)[["sex", "weight", "scanner", "age"]]
    np.testing.assert_array_equal(encoder.transform(shuffled), encoder.transform(TRAIN))


@pytest.mark.parametrize("column", [[5.0] * 5, [np.nan] * 5, ["same"] * 5])
def test_a_column_that_says_nothing_encodes_to_zeros(column):
    encoder = CovariateEncoder().fit(pd.DataFrame({"q": column}))
    assert (encoder.transform(pd.DataFrame({"q": column})) == 0).all()


def test_booleans_and_pandas_types_are_understood():
    table = pd.DataFrame(
        {
            "left": [True, False, True],
            "age": pd.array([10, None, 20], dtype="Int64"),
            "site": pd.Categorical(list("aba")),
        }
    )
    encoder = CovariateEncoder().fit(table)
    assert encoder.names_ == ["left", "age", "site=b"]
    assert encoder.missing(table).to_numpy().sum() == 1
    assert np.isfinite(encoder.transform(table)).all()


def test_state_round_trips():
    encoder = CovariateEncoder().fit(TRAIN)
    again = CovariateEncoder().load_state(encoder.state())
    np.testing.assert_array_equal(again.transform(TRAIN), encoder.transform(TRAIN))
    assert again.names_ == encoder.names_


def test_a_missing_column_is_named():
    encoder = CovariateEncoder().fit(TRAIN)
    with pytest.raises(DataError, match="scanner"):
        encoder.transform(TRAIN[["age", "sex"]])


def test_text_where_training_had_numbers_is_named():
    encoder = CovariateEncoder().fit(TRAIN)
    with pytest.raises(DataError, match="'age'"):
        encoder.transform(TRAIN.assign(age="old"))


def test_infinite_values_are_refused_in_training():
    with pytest.raises(DataError, match="age"):
        CovariateEncoder().fit(TRAIN.assign(age=np.inf))


def test_arrays_become_columns_by_number_and_wrong_lengths_are_refused():
    assert as_table(np.arange(3.0), 3).columns.tolist() == ["q1"]
    assert as_table(np.ones((3, 2)), 3).columns.tolist() == ["q1", "q2"]
    assert as_table(None, 4).shape == (4, 0)
    with pytest.raises(DataError, match=r"4 people .*3"):
        as_table(TRAIN[:3], 4)
