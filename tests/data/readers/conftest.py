"""Small trees for the reader tests: every array is drawn here, so that values can be compared, not just shapes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def signal() -> Callable[..., np.ndarray]:
    """``signal(seed, T, P)``: a series with six decimals, as text files hold them."""

    def make(seed: int, n_volumes: int = 40, n_rois: int = 5) -> np.ndarray:
        return np.round(np.random.default_rng(seed).normal(0, 10, (n_volumes, n_rois)), 6)

    return make


@pytest.fixture
def write() -> Callable[..., Path]:
    """``write(path, text)``: a text file with its folders."""

    def make(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return make


@pytest.fixture
def write_rows(write) -> Callable[..., Path]:
    """``write_rows(path, array, header, delimiter)``: a series as text, with the header line given."""

    def make(path: Path, array: np.ndarray, header: str = "", delimiter: str = "\t") -> Path:
        rows = [delimiter.join(f"{value:.6f}" for value in row) for row in array]
        return write(path, "\n".join([*([header] if header else []), *rows]) + "\n")

    return make
