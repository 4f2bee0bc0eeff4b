"""Numbers that cannot be are refused when a file is read, in one sentence that names them."""

from dataclasses import replace

import numpy as np
import pytest
from hospital_rounds import round_of

from brainroam.errors import SummaryError
from brainroam.execution.federation import Pool
from brainroam.execution.federation.files import ARRAYS, REQUEST, SUMMARY, read_message
from brainroam.execution.federation.show import describe_file


def spoiled(array, at, value):
    array = array.copy()
    array.flat[at] = value
    return array


IMPOSSIBLE = {
    "an AUC of 5": (3, {"auc": lambda x: np.array(5.0)}),
    "an AUC that is no number": (3, {"auc": lambda x: np.array(np.nan)}),
    "counts of 1e9": (3, {"counts": lambda x: x + 10**9}),
    "counts below 0": (1, {"counts": lambda x: -x}),
    "counts with decimals": (1, {"counts": lambda x: x + 0.5}),
    "other people than in round 1": (1, {"fit.n_people": lambda x: x + 1}),
    "a square below 0": (3, {"square": lambda x: -x}),
    "bins of 7 columns": (3, {"bins": lambda x: np.hstack([x, x, x[:, :1]])}),
    "bins of few people": (3, {"bins": lambda x: spoiled(x, 1, 1.0)}),
    "bins of a third class": (3, {"bins": lambda x: spoiled(x, 0, 2.0)}),
    "a mean of 1e308": (3, {"mean": lambda x: spoiled(x, 0, 1e308)}),
    "an infinite coefficient": (1, {"fit.coef": lambda x: spoiled(x, 0, np.inf)}),
    "a coefficient of 1e308": (1, {"fit.coef": lambda x: spoiled(x, 0, 1e308)}),
    "a variance below 0": (1, {"fit.variance": lambda x: -x}),
    "an unknown centre": (1, {"fit.centre": lambda x: x * np.nan}),
    "a centre of 1e308": (1, {"fit.centre": lambda x: x + 1e308}),
    "a scatter of no people": (1, {"covariate_scatter": lambda x: -x}),
    "a scatter that is not symmetric": (1, {"covariate_scatter": lambda x: x + np.triu(np.full_like(x, x.max()), 1)}),
    "an infinite contrast": (1, {"contrast": lambda x: spoiled(x, 0, np.inf)}),
    "a contrast of the wrong length": (1, {"contrast": lambda x: x[:-1]}),
    "a contrast of whole numbers": (1, {"contrast": lambda x: np.nan_to_num(x).astype(int)}),
    "infinite sums": (2, {"sums": lambda x: spoiled(x, 0, np.inf)}),
    "an unknown factor": (2, {"factor": lambda x: spoiled(x, 0, np.nan)}),
    "more components than people": (2, {"factor": lambda x: np.vstack([x] * 9)}),
    "edges out of range": (2, {"edges": lambda x: x + 10**6}),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_impossible_numbers_are_refused_by_name(hospitals, done, tmp_path, what):
    number, changes = IMPOSSIBLE[what]
    message = read_message(done / f"{hospitals.sites[1]}-{number}.summary", SUMMARY)
    arrays = message.arrays | {name: change(message.arrays[name]) for name, change in changes.items()}
    path = replace(message, arrays=arrays).write(tmp_path / "x.summary")
    with pytest.raises(SummaryError, match=next(iter(changes)).rpartition(".")[2]):
        read_message(path, SUMMARY)


@pytest.mark.parametrize("n_regions", [-15, 0, 15.0, True, 10**9])
def test_a_number_of_regions_that_cannot_be_is_refused(hospitals, done, tmp_path, n_regions):
    message = read_message(done / f"{hospitals.sites[1]}-1.summary", SUMMARY)
    path = replace(message, atlas={**message.atlas, "n_regions": n_regions}).write(tmp_path / "x.summary")
    with pytest.raises(SummaryError, match="regions"):
        read_message(path, SUMMARY)


def test_every_array_of_every_round_has_a_range():
    for arrays in ARRAYS.values():
        for name, array in arrays.items():
            assert np.isfinite([array.low, array.high]).all(), name


def test_counts_are_those_of_round_one(hospitals, done, tmp_path):
    pool, name = Pool(tmp_path / "pool"), hospitals.sites[1]
    pool.receive([done / f"{site}-1.summary" for site in hospitals.sites])
    pool.advance()
    second = read_message(done / f"{name}-2.summary", SUMMARY)
    more = replace(second, arrays=second.arrays | {"counts": second.arrays["counts"] + 1})
    with pytest.raises(SummaryError, match="other people"):
        pool.receive([more.write(tmp_path / "x.summary")])


@pytest.mark.parametrize("where", ["protection", "withheld"])
def test_no_escape_sequence_of_a_file_reaches_the_terminal(hospitals, done, tmp_path, where):
    message = read_message(done / f"{hospitals.sites[1]}-1.summary", SUMMARY)
    forged = {"protection": {"epsilon\x1b[2J": 1.0}, "withheld": {"age\x1b]0;x\x07": "dropped"}}[where]
    path = replace(message, **{where: forged}).write(tmp_path / "x.summary")
    with pytest.raises(SummaryError, match=r"control character|budget") as caught:
        describe_file(path)
    assert "\x1b" not in str(caught.value)


def test_a_hospital_that_moves_the_model_more_than_all_others_is_named(hospitals, tmp_path):
    """Products times 900 in the open; infinite coefficients are refused, and these are not impossible."""
    for number in (1, 2):
        paths = round_of(hospitals, tmp_path, number, tmp_path / "pool")
        if number == 2:
            message = read_message(paths[0], SUMMARY)
            arrays = message.arrays | {"factor": 30 * message.arrays["factor"]}
            replace(message, arrays=arrays).write(paths[0])
        pool = Pool(tmp_path / "pool")
        pool.receive(paths)
        progress = pool.advance()
    assert [text.split(":")[0] for text in progress.warnings if "moves" in text] == [f"site {hospitals.sites[0]}"]


def test_a_request_with_an_infinite_coefficient_is_refused(hospitals, done, tmp_path):
    request = read_message(done / "pool" / "request", REQUEST)
    name = next(name for name in request.arrays if name.endswith("mean_coef"))
    path = replace(request, arrays=request.arrays | {name: request.arrays[name] * np.inf}).write(tmp_path / "request")
    with pytest.raises(SummaryError, match="mean_coef"):
        read_message(path, REQUEST)
