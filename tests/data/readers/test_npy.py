"""BrainNetworkTransformer's pickle: only when asked, and then only arrays."""

import numpy as np
import pytest

from brainroam import load_cohort
from brainroam.errors import ReaderError


def save(path, **changes):
    rng = np.random.default_rng(0)
    content = {
        "timeseires": rng.normal(size=(4, 6, 10)),
        "corr": np.zeros((4, 6, 6)),
        "label": np.array([0, 1, 1, 7]),
        "site": np.array([b"NYU", b"NYU", b"YALE", b"YALE"]),
        **changes,
    }
    np.save(path, {key: value for key, value in content.items() if value is not None}, allow_pickle=True)
    return content


@pytest.mark.filterwarnings("ignore:.*pickle")
def test_regions_by_time_are_turned_and_sites_decoded(tmp_path):
    content = save(tmp_path / "abide.npy")
    cohort = load_cohort(tmp_path / "abide.npy", allow_pickle=True)
    np.testing.assert_array_equal(cohort.series[1], content["timeseires"][1].T)
    assert cohort.table[["subject", "site", "label"]].to_numpy().tolist() == [
        ["0000", "NYU", 0],
        ["0001", "NYU", 1],
        ["0002", "YALE", 1],
    ]
    assert cohort.excluded.to_numpy().tolist() == [["0003", "label is '7': neither condition nor control"]]


def test_a_pickle_is_read_only_with_the_flag_and_a_warning(tmp_path):
    save(tmp_path / "abide.npy", timeseires=None, timeseries=np.ones((4, 6, 10)), site=np.array(list("AABB")))
    with pytest.raises(ReaderError, match="allow_pickle=true"):
        load_cohort(tmp_path / "abide.npy")
    with pytest.warns(UserWarning, match="trust"):
        assert load_cohort(tmp_path / "abide.npy", allow_pickle=True, max_missing_rois=1).sites == ["A", "B"]


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.filterwarnings("ignore:.*pickle")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corr": _Bomb()}, r"abide\.npy"),
        ({"site": None}, "timeseires, corr, label"),
        ({"label": np.zeros(3)}, "3 labels"),
        ({"timeseires": np.zeros((4, 60))}, r"\(4, 60\)"),
        ({"timeseires": np.array([["a"]])}, "numbers"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong_about_it(tmp_path, changes, message):
    save(tmp_path / "abide.npy", **changes)
    with pytest.raises(ReaderError, match=message):
        load_cohort(tmp_path / "abide.npy", allow_pickle=True)


@pytest.mark.filterwarnings("ignore:.*pickle")
def test_npy_files_that_hold_no_people_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((5, 5)))
    with pytest.raises(ReaderError, match="labels"):
        load_cohort(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(ReaderError, match=r"b\.npy"):
        load_cohort(tmp_path / "b.npy", allow_pickle=True)
