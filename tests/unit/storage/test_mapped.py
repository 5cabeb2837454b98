"""Files that a process maps: whole, or not there."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.storage.layout import MAPPED, version_file
from omnigraph.storage.mapped import MappedFiles

ARRAYS: "dict[str, pa.Array[Any]]" = {
    "order": pa.array([2, 0, 1], pa.int32()),
    "id": pa.array(["a", "b", None, "ö"]),
}


@pytest.fixture
def files(tmp_path: Path) -> MappedFiles:
    (tmp_path / "nodes/x/_versions").mkdir(parents=True)
    (tmp_path / "nodes/x" / version_file(3)).write_bytes(b"third")
    return MappedFiles(tmp_path)


def only_file(files: MappedFiles) -> Path:
    (found,) = (files.root / MAPPED).rglob("*.arrow")
    return found


def test_arrays_come_back_as_they_were(files: MappedFiles) -> None:
    folder = files.folder_of("nodes/x", None, 3)
    assert not files.has(folder, "of/any name")
    files.write(folder, "of/any name", ARRAYS)
    assert files.has(folder, "of/any name")
    found = files.read(folder, "of/any name")
    assert found is not None
    assert dict(found) == ARRAYS
    assert list((files.root / MAPPED / folder).iterdir()) == [only_file(files)]


@pytest.mark.parametrize("kept", [0, 10, 200, -1])
def test_a_cut_file_is_passed_over(files: MappedFiles, kept: int) -> None:
    folder = files.folder_of("nodes/x", None, 3)
    files.write(folder, "order", ARRAYS)
    only_file(files).write_bytes(only_file(files).read_bytes()[:kept])
    assert files.read(folder, "order") is None


def test_a_damaged_file_is_passed_over(files: MappedFiles) -> None:
    folder = files.folder_of("nodes/x", None, 3)
    files.write(folder, "order", {"order": pa.array(range(1000), pa.int32())})
    data = bytearray(only_file(files).read_bytes())
    data[len(data) // 2] ^= 1
    only_file(files).write_bytes(data)
    assert files.read(folder, "order") is None


def test_a_version_that_was_made_again_has_another_folder(files: MappedFiles) -> None:
    before = files.folder_of("nodes/x", None, 3)
    path = files.root / "nodes/x" / version_file(3)
    os.utime(path, ns=(0, 0))
    assert files.folder_of("nodes/x", None, 3) not in ("", before)


def test_a_version_that_is_not_here_has_no_folder_and_no_files(files: MappedFiles) -> None:
    folder = files.folder_of("nodes/x", "other", 3)
    assert folder == ""
    files.write(folder, "order", ARRAYS)
    assert not (files.root / MAPPED).exists()
    assert not files.has(folder, "order")
    assert files.read(folder, "order") is None


def test_what_cannot_be_written_is_not_there(files: MappedFiles) -> None:
    (files.root / MAPPED).write_text("a file, so no folder can be made")
    folder = files.folder_of("nodes/x", None, 3)
    files.write(folder, "order", ARRAYS)
    assert not files.has(folder, "order")


def test_folders_of_no_state_are_stale(files: MappedFiles) -> None:
    folder = files.folder_of("nodes/x", None, 3)
    files.write(folder, "order", ARRAYS)
    assert files.find_stale({folder}) == {}
    assert files.find_stale(set()) == {folder: only_file(files).stat().st_size}
    files.remove([folder])
    assert not files.has(folder, "order")
    assert files.find_stale(set()) == {}
