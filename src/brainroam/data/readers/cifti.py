"""Parcellated series (``.ptseries.nii``) without the cost of the parcels' vertex lists.

A CIFTI-2 file is a NIfTI-2 header (540 bytes), an extension with code 32 that holds XML, and the values:

    offset 0  sizeof_hdr = 540     12  data type      168  vox_offset              540  is there an extension?
           4  magic "n+2"          16  dim[0..7]      176  scl_slope, scl_inter    544  size, code, XML, ...

``dim[5]`` and ``dim[6]`` are the matrix dimensions 0 and 1; dimension 0 runs fastest. Of the XML only this is needed:

    CIFTI/Matrix/MatrixIndicesMap(AppliesToMatrixDimension, IndicesMapToDataType)
        ... of type SERIES:   SeriesStep, SeriesExponent, SeriesUnit, NumberOfSeriesPoints;  TR = step 10^exponent
        ... of type PARCELS:  Parcel(Name), ..., each with the vertices and voxels it covers

Nearly all of the text is those vertices and voxels, equal in every file of a study, while what stands around them
(number of volumes, provenance) differs. The map of parcels is therefore cut out and parsed once for all files that
share it, and the short rest is parsed for every file.
"""

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NoReturn
from xml.parsers.expat import ExpatError, ParserCreate

import numpy as np

from brainroam.data.readers.text import Series
from brainroam.errors import ReaderError

CIFTI_CODE = 32
TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"}
START, END = b"<MatrixIndicesMap", b"</MatrixIndicesMap>"
PARCELS, SERIES = "CIFTI_INDEX_TYPE_PARCELS", "CIFTI_INDEX_TYPE_SERIES"
CUT_OUT = b"<Cut/>"  # what stands in the XML for the map of parcels


@dataclass
class _Maps:
    """What the XML says: attributes of the map of each matrix dimension, and the parcels' names."""

    version: str = ""
    maps: dict[int, dict[str, str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    cut: int = 0


def read_ptseries(path: Path) -> Series:
    """Read a parcellated series: values (time, parcels), the parcels' names, the TR in seconds.

    Equal to nibabel's ``Cifti2Image`` (``dataobj``, ``ParcelsAxis.name``, ``SeriesAxis.step``); a file with parcels
    first is transposed. The TR is NaN when the series is not in seconds.

    Raises
    ------
    ReaderError
        Of a file that is truncated or no parcellated series.
    """
    content = path.read_bytes()  # never more memory than the file has bytes, whatever its header declares
    if len(content) < 544:
        _refuse(path, "is truncated: it ends within its header; fetch it again")
    order = next((o for o in "<>" if struct.unpack_from(o + "i", content) == (540,)), None)
    if order is None or content[4:7] != b"n+2":
        _refuse(path, "has no NIfTI-2 header, so it is no CIFTI-2 file; convert it with wb_command -file-convert")
    dims = struct.unpack_from(order + "8q", content, 16)
    offset = struct.unpack_from(order + "q", content, 168)[0]
    maps = _parse(path, _extension(path, content, order, offset))
    shape = tuple(dims[5 : dims[0] + 1]) if dims[1:5] == (1, 1, 1, 1) else ()
    series, names = _axes(path, maps, shape)
    values = _values(path, content, order, offset, shape)
    seconds = maps.maps[series].get("SeriesUnit") == "SECOND"
    return Series(values.T if series else values, names, _step(path, maps.maps[series]) if seconds else float("nan"))


def _refuse(path: Path, why: str) -> NoReturn:
    raise ReaderError(f"{path} {why}")


def _extension(path: Path, content: bytes, order: str, offset: int) -> bytes:
    """The XML: the first extension with the code of CIFTI."""
    start = 544
    while content[540] and start + 8 <= min(offset, len(content)):
        size, code = struct.unpack_from(order + "ii", content, start)
        if size < 8 or start + size > len(content):
            _refuse(path, f"has a header extension of {size} bytes, which the file does not hold; fetch it again")
        if code == CIFTI_CODE:
            return content[start + 8 : start + size].rstrip(b"\0")
        start += size
    _refuse(path, "has no CIFTI header extension, so nothing names its parcels; make or fetch it again")


def _values(path: Path, content: bytes, order: str, offset: int, shape: tuple[int, ...]) -> np.ndarray:
    """The matrix as floats: ``slope * stored + intercept`` unless the slope is 0 or not finite."""
    code = struct.unpack_from(order + "h", content, 12)[0]
    slope, intercept = struct.unpack_from(order + "2d", content, 176)
    if code not in TYPES:
        _refuse(path, f"holds values of NIfTI type {code}, which are no real numbers")
    kind, count = np.dtype(order + TYPES[code]), shape[0] * shape[1]
    if offset < 544 or offset + count * kind.itemsize > len(content):
        _refuse(path, "is shorter than its header says: it is truncated; fetch it again")
    values = np.frombuffer(content, kind, count, offset).reshape(shape, order="F").astype(float, order="C")
    if slope == 0 or not np.isfinite(slope):
        return values
    if not np.isfinite(intercept):
        _refuse(path, f"has the scale factors {slope:g} and {intercept:g}; make it again")
    return values if (slope, intercept) == (1, 0) else values * slope + intercept


def _axes(path: Path, maps: _Maps, shape: tuple[int, ...]) -> tuple[int, tuple[str, ...]]:
    """Which matrix dimension is time, and the names of the parcels along the other."""
    kinds = {dim: each.get("IndicesMapToDataType") for dim, each in maps.maps.items()}
    if len(shape) != 2 or min(shape) < 0 or sorted(kinds) != [0, 1] or set(kinds.values()) != {PARCELS, SERIES}:
        axes = " x ".join(str(kinds[dim]).removeprefix("CIFTI_INDEX_TYPE_").lower() for dim in sorted(kinds))
        _refuse(path, f"is no parcellated series (series x parcels) but {axes or 'without axes'}")
    series = 0 if kinds[0] == SERIES else 1
    points = maps.maps[series].get("NumberOfSeriesPoints", "")
    if points != str(shape[series]) or len(maps.names) != shape[1 - series]:
        _refuse(path, f"names {len(maps.names)} parcels and {points} volumes, but its matrix is {shape}; make it again")
    return series, tuple(maps.names)


def _step(path: Path, attributes: dict[str, str]) -> float:
    try:
        return float(attributes["SeriesStep"]) * 10.0 ** int(attributes["SeriesExponent"])
    except (KeyError, ValueError, OverflowError):
        _refuse(path, "does not tell the time between volumes (SeriesStep, SeriesExponent); make it again")


def _parse(path: Path, xml: bytes) -> _Maps:
    """Axes and names; the map of parcels from the cache if another file had the same."""
    try:
        first, last = _parcels_block(xml)
        try:
            rest = _parse_xml(xml[:first] + CUT_OUT + xml[last:]) if last else _Maps()
        except ExpatError:  # the tag stands in a comment or in free text
            rest = _Maps()
        if rest.cut == 1 and rest.version:
            declaration = xml[: xml.find(b"?>") + 2] if xml.startswith(b"<?xml") else b""  # it names the encoding
            attributes, names = _parse_parcels(declaration, xml[first:last])
            rest.maps.update(attributes)
            rest.names += names
        else:
            rest = _parse_xml(xml)
    except (ExpatError, ValueError, LookupError) as error:
        raise ReaderError(f"{path} has a damaged CIFTI header ({error}); make or fetch it again") from error
    if not rest.version.startswith("2"):
        _refuse(path, "is no CIFTI-2 file; convert it with wb_command -file-convert")
    return rest


def _parcels_block(xml: bytes) -> tuple[int, int]:
    """From where to where the map of parcels reaches; (0, 0) if there is none.

    >>> _parcels_block(b'<M><MatrixIndicesMap IndicesMapToDataType="CIFTI_INDEX_TYPE_PARCELS"></MatrixIndicesMap></M>')
    (3, 88)
    """
    first = xml.find(START)
    while first >= 0:
        last = xml.find(END, first) + len(END)
        if last < len(END):
            break
        if PARCELS.encode() in xml[first : xml.find(b">", first)]:
            return first, last
        first = xml.find(START, first + 1)
    return 0, 0


@lru_cache(maxsize=16)  # each entry keeps its text, a megabyte or so
def _parse_parcels(declaration: bytes, block: bytes) -> tuple[dict[int, dict[str, str]], tuple[str, ...]]:
    parsed = _parse_xml(declaration + block)
    return parsed.maps, tuple(parsed.names)


def _parse_xml(xml: bytes) -> _Maps:
    maps, parser = _Maps(), ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == "CIFTI":
            maps.version = attributes.get("Version", "")
        elif tag == "MatrixIndicesMap":
            maps.maps.update({int(dim): attributes for dim in attributes["AppliesToMatrixDimension"].split(",")})
        elif tag == "Parcel":
            maps.names.append(attributes["Name"])
        elif tag == "Cut":
            maps.cut += 1

    parser.StartElementHandler = start
    parser.Parse(xml, True)
    return maps
