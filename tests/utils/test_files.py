"""Files and folders that are written: whole, and readable by whom the umask says."""

import os
from contextlib import contextmanager

import pytest

from brainroam.errors import BrainroamError
from brainroam.utils.files import atomic_folder, read_checksummed, write_checksummed, write_text


@contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("mask", "file", "folder"), [(0o077, 0o600, 0o700), (0o022, 0o644, 0o755), (0o027, 0o640, 0o750)]
)
def test_new_files_and_folders_have_the_mode_the_umask_leaves(tmp_path, mask, file, folder):
    with umask(mask):
        assert mode(write_text(tmp_path / "table.csv", "a")) == file
        with atomic_folder(tmp_path / "made") as part:
            assert mode(part) == folder
    assert mode(tmp_path / "made") == folder


@pytest.mark.parametrize("kept", [0o600, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, kept):
    path = write_text(tmp_path / "predictions.csv", "old")
    path.chmod(kept)
    with umask(0o022):
        write_text(path, "new")
    assert (mode(path), path.read_text()) == (kept, "new")
    assert [item.name for item in tmp_path.iterdir()] == ["predictions.csv"]


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_document_that_never_ends_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "run.json"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(BrainroamError, match="regular"):
        read_checksummed(path)


def test_a_link_to_a_document_is_read(tmp_path):
    """git-annex keeps every file behind a link."""
    write_checksummed(tmp_path / "store.json", {"a": 1})
    (tmp_path / "link.json").symlink_to("store.json")
    assert read_checksummed(tmp_path / "link.json") == {"a": 1}
