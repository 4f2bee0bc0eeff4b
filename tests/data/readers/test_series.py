"""Single files: arrays, MATLAB, CIFTI, and what is refused before it is opened."""

import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from brainroam.data.readers.series import align_regions, check_archive, read_mat, read_series
from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError


def test_npy_is_read_and_truncated_or_absurd_ones_are_refused(tmp_path, signal):
    path = tmp_path / "a.npy"
    np.save(path, signal(0).astype("f4"))
    np.testing.assert_array_equal(read_series(path).values, signal(0).astype("f4"))
    data = path.read_bytes()
    path.write_bytes(data[:-40])
    with pytest.raises(ReaderError, match=r"a\.npy"):
        read_series(path)


def test_a_header_that_claims_terabytes_allocates_nothing(tmp_path):
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**6)})
    with pytest.raises(ReaderError, match=r"a\.npy"):
        read_series(path)


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def test_pickled_arrays_are_never_opened(tmp_path):
    np.save(tmp_path / "a.npy", np.array([_Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(ReaderError, match=r"a\.npy"):
        read_series(tmp_path / "a.npy")
    (tmp_path / "b.npy").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(ReaderError, match=r"b\.npy"):
        read_series(tmp_path / "b.npy")


@pytest.mark.parametrize(
    "array", [np.array([["a", "b"], ["c", "d"]]), np.ones((3, 3), complex), np.ones(4), np.ones((2, 3, 4))]
)
def test_what_is_no_time_by_regions_is_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ReaderError, match=r"numbers|shape"):
        read_series(tmp_path / "a.npy")


def test_mat_by_key_and_by_being_alone(tmp_path, signal):
    savemat(tmp_path / "one.mat", {"x": signal(0)})
    savemat(tmp_path / "two.mat", {"x": signal(0), "y": signal(1)}, do_compression=True)
    np.testing.assert_array_equal(read_mat(tmp_path / "one.mat"), signal(0))
    np.testing.assert_array_equal(read_mat(tmp_path / "two.mat", "y"), signal(1))
    with pytest.raises(ReaderError, match="x, y"):
        read_mat(tmp_path / "two.mat")
    with pytest.raises(ReaderError, match="'z'"):
        read_mat(tmp_path / "two.mat", "z")


def test_the_matrix_among_names_and_numbers_is_found(tmp_path, signal):
    """As toolboxes write it: names, coordinates and degrees of freedom beside the matrix, or r beside Fisher's z."""
    r = np.corrcoef(signal(0).T)
    z = np.arctanh(r - np.diag(np.diag(r)))
    words = np.array([f"region{k}" for k in range(len(r))], dtype=object)
    savemat(tmp_path / "conn.mat", {"Z": z, "names": words, "xyz": np.ones((len(r), 3)), "DOF": 140.0})
    np.testing.assert_array_equal(read_mat(tmp_path / "conn.mat"), z)
    savemat(tmp_path / "dpabi.mat", {"FisherZ": z, "R": r, "TR": 2.0})
    np.testing.assert_array_equal(read_mat(tmp_path / "dpabi.mat"), r)
    np.savez(tmp_path / "both.npz", ids=np.array(["a", "b"]), fc=r, age=np.arange(2.0))
    np.testing.assert_array_equal(read_series(tmp_path / "both.npz").values, r)
    savemat(tmp_path / "two.mat", {"R": r, "partial": r**2})
    with pytest.raises(ReaderError, match="R, partial"):
        read_mat(tmp_path / "two.mat")


def test_mat_files_that_cannot_be_series(tmp_path, signal):
    savemat(tmp_path / "struct.mat", {"x": {"field": signal(0)}})
    with pytest.raises(ReaderError, match="numbers"):
        read_mat(tmp_path / "struct.mat")
    (tmp_path / "junk.mat").write_bytes(b"this is no MATLAB file" * 20)
    with pytest.raises(ReaderError, match=r"junk\.mat"):
        read_mat(tmp_path / "junk.mat")
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n" * 9)
    with pytest.raises(ReaderError, match=r"new\.mat"):  # HDF5 by its first bytes alone
        read_mat(tmp_path / "new.mat")


def test_an_unknown_suffix_names_the_known_ones(tmp_path):
    with pytest.raises(ReaderError, match=r"\.csv, \.tsv"):
        read_series(tmp_path / "a.docx")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(ReaderError, match=r"gone\.csv"):
        read_series(tmp_path / "gone.csv")


def test_zip_bombs_are_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr("brainroam.data.readers.series.MAX_UNPACKED", 10**6)
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet", bytes(10**7))
    with pytest.raises(ReaderError, match="GB"):
        check_archive(path)


def test_regions_are_put_in_one_order_by_their_names():
    """One person in another order, one without a region; of merely numbered columns the fewer stay as they are."""
    rng = np.random.default_rng(0)
    full, names = rng.normal(size=(9, 4)), ("V1_L", "V1_R", "PFC_L", "PFC_R")
    series = [Series(full, names), Series(full[:, ::-1], names[::-1]), Series(full[:, [0, 3]], ("V1_L", "PFC_R"))]
    people = pd.DataFrame({"subject": ["a", "b", "c"], "site": ["A", "B", "B"]})
    aligned, told = align_regions(series, people)
    np.testing.assert_array_equal(aligned[1].values, full)
    np.testing.assert_array_equal(aligned[2].values[:, [0, 3]], full[:, [0, 3]])
    assert np.isnan(aligned[2].values[:, [1, 2]]).all() and "2 at B" in told
    numbers = ("r1", "r2", "r3", "r4")
    fewer = [Series(full, numbers), Series(full[:, :3], numbers[:3])]
    assert align_regions(fewer, people[:2]) == (fewer, "")
    other = [Series(full, names), Series(full, ("V1_L", "V1_R", "PFC_L", "Insula"))]
    assert align_regions(other, people[:2])[1] == ""
