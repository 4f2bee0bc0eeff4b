"""`read_ptseries` returns what nibabel returns, and refuses what is no parcellated series."""

import contextlib
import struct
import zlib

import nibabel as nib
import numpy as np
import pytest
from nibabel import cifti2

from brainroam.data.readers import cifti
from brainroam.errors import ReaderError


def parcels_axis(n_parcels, seed=0, names=None):
    """Parcels of random voxels and vertices, with names that need escaping."""
    rng = np.random.default_rng(seed)
    voxels = [rng.integers(0, 9, (rng.integers(1, 5), 3)) for _ in range(n_parcels)]
    vertices = [{"CIFTI_STRUCTURE_CORTEX_LEFT": np.unique(rng.integers(0, 99, 6))} for _ in range(n_parcels)]
    names = names or [f"L_{i} <&\"'> é" for i in range(n_parcels)]
    nvertices = {"CIFTI_STRUCTURE_CORTEX_LEFT": 100}
    return cifti2.ParcelsAxis(names, voxels, vertices, affine=np.eye(4), volume_shape=(9, 9, 9), nvertices=nvertices)


def write(path, axes, dtype="f4", seed=0, slope=None, order="<", code=3008):
    """A file made by nibabel, with scale factors and byte order of choice."""
    shape = tuple(len(axis) for axis in axes)
    values = (np.random.default_rng(seed).normal(size=shape) * 50 + 60).astype(dtype)
    image = cifti2.Cifti2Image(values, axes)
    image.nifti_header.set_data_dtype(dtype)
    nib.save(image, path)
    content = bytearray(path.read_bytes())
    if slope:
        content[176:192] = struct.pack("<2d", *slope)
    path.write_bytes(swapped(bytes(content), dtype) if order == ">" else content)
    return path


def swapped(content, dtype):
    """The same file in the other byte order."""
    header = nib.Nifti2Header(content[:540]).as_byteswapped(">").binaryblock
    offset = struct.unpack_from("<q", content, 168)[0]
    size, code = struct.unpack_from("<ii", content, 544)
    values = np.frombuffer(content[offset:], dtype).byteswap().tobytes()
    return header + content[540:544] + struct.pack(">ii", size, code) + content[552:offset] + values


def by_nibabel(path):
    image = nib.Cifti2Image.from_bytes(path.read_bytes())
    time, parcels = (image.header.get_axis(i) for i in range(2))
    return np.asarray(image.dataobj, dtype=float), tuple(map(str, parcels.name)), float(time.step)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("slope", [None, (0.1, 0.0), (2.5, -3.0), (0.0, 7.0), (float("nan"), 0.0)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1", "i4", "u2", "i8"])
def test_equals_nibabel(tmp_path, dtype, slope, order):
    n_volumes, n_parcels = 7 + len(dtype), 5
    axes = (cifti2.SeriesAxis(0, 0.72, n_volumes), parcels_axis(n_parcels, zlib.crc32(dtype.encode())))
    path = write(tmp_path / "p.ptseries.nii", axes, dtype, slope=slope, order=order)
    values, names, step = by_nibabel(path)
    ours = cifti.read_ptseries(path)
    np.testing.assert_allclose(ours.values, values, rtol=1e-15, atol=1e-13)
    assert ours.values.shape == (n_volumes, n_parcels) and ours.values.dtype == float and ours.values.flags.writeable
    assert (ours.names, ours.tr) == (names, step)


def test_parcels_first_is_transposed(tmp_path):
    path = write(tmp_path / "p.ptseries.nii", (parcels_axis(5), cifti2.SeriesAxis(0, 2, 9)))
    expected = np.asarray(nib.Cifti2Image.from_bytes(path.read_bytes()).dataobj)
    np.testing.assert_array_equal(cifti.read_ptseries(path).values, expected.T)


def test_files_in_turn_keep_their_own_parcels_and_times(tmp_path):
    for n in range(6):
        axes = (cifti2.SeriesAxis(0, 1 + n, 8 + n), parcels_axis(4, names=[f"{n % 2}{i}" for i in range(4)]))
        series = cifti.read_ptseries(write(tmp_path / f"{n}.ptseries.nii", axes, seed=n))
        assert series.names == tuple(f"{n % 2}{i}" for i in range(4)) and series.tr == 1 + n


def test_tags_in_free_text_do_not_mislead(tmp_path):
    path = tmp_path / "p.ptseries.nii"
    decoy = '<MatrixIndicesMap IndicesMapToDataType="CIFTI_INDEX_TYPE_PARCELS"><Parcel Name="x"/></MatrixIndicesMap>'
    for text in (decoy, "<MatrixIndicesMap>", "</MatrixIndicesMap>", "<Cut/>"):
        axes = (cifti2.SeriesAxis(0, 2, 9), parcels_axis(5))
        header = cifti2.Cifti2Header.from_axes(axes)
        header.matrix.metadata = cifti2.Cifti2MetaData({"Provenance": text})
        nib.save(cifti2.Cifti2Image(np.ones((9, 5), "f4"), header), path)
        raw = path.read_bytes()
        assert cifti.read_ptseries(path).names == by_nibabel(path)[1]
        xml = cifti._extension(path, raw, "<", struct.unpack_from("<q", raw, 168)[0])
        commented = xml.replace(b"<Matrix>", b"<Matrix><!-- " + text.encode() + b" -->", 1)
        assert cifti._parse(path, commented).names == list(by_nibabel(path)[1])


def test_a_series_in_hertz_has_no_tr(tmp_path):
    path = write(tmp_path / "p.ptseries.nii", (cifti2.SeriesAxis(0, 2, 9, unit="HERTZ"), parcels_axis(5)))
    assert np.isnan(cifti.read_ptseries(path).tr)


def brain_models():
    return cifti2.BrainModelAxis.from_mask(np.ones((5, 1, 1)), affine=np.eye(4), name="thalamus_left")


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ((cifti2.SeriesAxis(0, 2, 9), brain_models()), "series x brain_models"),
        ((parcels_axis(5), parcels_axis(5)), "parcels x parcels"),
        ((cifti2.ScalarAxis(["a", "b"]), parcels_axis(5)), "scalars x parcels"),
    ],
)
def test_other_cifti_files_are_refused(tmp_path, axes, said):
    with pytest.raises(ReaderError, match=said):
        cifti.read_ptseries(write(tmp_path / "x.ptseries.nii", axes))


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path = write(tmp_path / "x.ptseries.nii", (cifti2.SeriesAxis(0, 2, 9), parcels_axis(5)))
    content = path.read_bytes()
    for n in [*range(0, len(content), 97), 540, 543, 544, 551, len(content) - 1]:
        path.write_bytes(content[:n])
        with pytest.raises(ReaderError, match=r"x\.ptseries\.nii"):
            cifti.read_ptseries(path)


def test_damaged_bytes_are_read_or_refused(tmp_path):
    path = write(tmp_path / "x.ptseries.nii", (cifti2.SeriesAxis(0, 2, 9), parcels_axis(5)))
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(400):
        damaged = bytearray(content)
        damaged[rng.integers(0, len(content) if rng.random() < 0.5 else 552)] = rng.integers(0, 256)
        path.write_bytes(damaged)
        with contextlib.suppress(ReaderError):
            assert cifti.read_ptseries(path).values.ndim == 2


@pytest.mark.parametrize("content", [b"", b"x" * 600, struct.pack("<i", 348) + bytes(600)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.ptseries.nii"
    path.write_bytes(content)
    with pytest.raises(ReaderError):
        cifti.read_ptseries(path)
