"""Files whose blocks are checked as far as they are read."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.storage.block_file import BLOCK, BlockDamaged, BlockFile, BlockWriter, texts_of
from omnigraph.storage.layout import MAPPED
from omnigraph.storage.mapped import MappedFiles

MANY = np.arange(100_000) % 60_000
TEXTS = pa.array(["", "ö", "a longer text", "z"])
FOLDER = "some rows"


@pytest.fixture
def files(tmp_path: Path) -> MappedFiles:
    found = MappedFiles(tmp_path)
    found.write_blocks(FOLDER, "all", fill)
    return found


def fill(writer: BlockWriter) -> Mapping[str, str]:
    writer.add("few", np.array([7, 0, 255]))
    writer.add("many", MANY)
    writer.add("none", np.empty(0, np.int64))
    writer.add_texts("texts", TEXTS)
    return {"who": "ö"}


def path_of(files: MappedFiles) -> Path:
    (found,) = (files.root / MAPPED).rglob("*.blocks")
    return found


def opened(files: MappedFiles) -> BlockFile:
    found = files.map_blocks(FOLDER, "all")
    assert found is not None
    return found


def damage(files: MappedFiles, at: int) -> None:
    data = bytearray(path_of(files).read_bytes())
    data[at] ^= 1
    path_of(files).write_bytes(data)


def test_arrays_come_back_in_the_fewest_bytes(files: MappedFiles) -> None:
    file = opened(files)
    assert file.facts == {"who": "ö"}
    assert file.array("few")[:].tolist() == [7, 0, 255]
    assert file.array("few")[:].dtype == np.uint8
    many = file.array("many")
    assert np.array_equal(many[:], MANY)
    assert many[:].dtype == np.uint16
    places = np.array([99_999, 0, 40_000])
    assert many[places].tolist() == MANY[places].tolist()
    assert [many.at(each) for each in places.tolist()] == MANY[places].tolist()
    assert len(file.array("none")[:]) == 0
    assert "none" in file
    assert "nothing" not in file
    assert file.is_whole()


def test_texts_come_back(files: MappedFiles) -> None:
    texts = texts_of(opened(files), "texts")
    assert len(texts) == len(TEXTS)
    assert texts.all() == TEXTS
    assert texts.at(1) == "ö".encode()
    assert texts.take(np.array([2, 0, 2])).to_pylist() == ["a longer text", "", "a longer text"]
    assert texts.take(np.empty(0, np.int64)).to_pylist() == []


@pytest.mark.parametrize("kept", [0, 10, BLOCK, -1, -30])
def test_a_cut_file_is_passed_over(files: MappedFiles, kept: int) -> None:
    path_of(files).write_bytes(path_of(files).read_bytes()[:kept])
    assert files.map_blocks(FOLDER, "all") is None


def test_a_damaged_footer_is_noticed_at_once(files: MappedFiles) -> None:
    damage(files, path_of(files).stat().st_size - 36)
    assert files.map_blocks(FOLDER, "all") is None


def test_a_damaged_block_is_noticed_by_those_who_read_it(files: MappedFiles) -> None:
    damage(files, BLOCK + 100)
    file = opened(files)
    many = file.array("many")
    assert many[:1_000].tolist() == MANY[:1_000].tolist()
    assert many[np.array([3, 99_999])].tolist() == [3, MANY[99_999]]
    assert texts_of(file, "texts").at(3) == b"z"
    with pytest.raises(BlockDamaged):
        many[:]
    with pytest.raises(BlockDamaged):
        many[np.array([3, 40_000])]
    with pytest.raises(BlockDamaged):
        many.at(40_000)
    assert not file.is_whole()


def test_what_its_writer_gives_up_leaves_nothing(tmp_path: Path) -> None:
    def give_up(writer: BlockWriter) -> Mapping[str, str]:
        writer.add("many", MANY)
        raise KeyError("a reason")

    with pytest.raises(KeyError):
        MappedFiles(tmp_path).write_blocks(FOLDER, "all", give_up)
    assert list((tmp_path / MAPPED).rglob("*")) == [tmp_path / MAPPED / FOLDER]


def test_what_cannot_be_written_is_not_there(tmp_path: Path) -> None:
    (tmp_path / MAPPED).write_text("a file, so no folder can be made")
    files = MappedFiles(tmp_path)
    files.write_blocks(FOLDER, "all", fill)
    assert files.map_blocks(FOLDER, "all") is None
