"""Cutting files: every line is read once, by one split, and knows its number."""

import gzip
import io
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.engine.load.inputs import Input
from omnigraph.errors import FileUnreadable, UsageError
from omnigraph.pipeline.local_load import choose_split
from omnigraph.pipeline.sources import splits
from omnigraph.pipeline.sources.delimited import read_record_blocks
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.sources.splits import (
    SPLIT_BYTES,
    Cells,
    LineNumbers,
    Split,
    count_lines,
    cut_records,
    ordinal_of,
    read_blocks,
)
from omnigraph.pipeline.stage.input_plan import InputSurvey, RecordFile
from omnigraph.storage.inputs import InputFile, find_inputs

LINES = st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b"")), max_size=12)


def splits_of(*paths: Path, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    splits: list[Split] = []
    for path in paths:
        file = InputFile(str(path), path.name, path.stat().st_size)
        splits += cut_records(file, len(splits), split_bytes)
    return splits


def lines_in(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def numbered(splits: list[Split], block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Every line with its ordinal, as workers read them."""
    for split in splits:
        line = 0
        for block in read_blocks(split, {}, block_bytes):
            for each in lines_in(block):
                yield ordinal_of(split.number, line), each
                line += 1


def count_all(splits: list[Split], block_bytes: int = 100) -> list[int]:
    return [sum(map(count_lines, read_blocks(each, {}, block_bytes))) for each in splits]


@settings(max_examples=200, deadline=None)
@given(LINES, st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_any_cut_gives_the_same_lines_with_the_same_numbers(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    split_bytes: int,
    block_bytes: int,
    ends: bool,  # noqa: FBT001 - drawn
) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.jsonl"
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    path.write_bytes(text)
    splits = splits_of(path, split_bytes=split_bytes)
    numbers = LineNumbers(splits, count_all(splits, block_bytes))
    found = [(numbers.place_of(at).line, line) for at, line in numbered(splits, block_bytes)]
    assert found == list(enumerate(lines_in(text), start=1)) if text else found == []


def test_lines_are_counted_from_one_in_every_file(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(b"1\n22\n333\n")
    splits = splits_of(*paths, split_bytes=4)
    numbers = LineNumbers(splits, count_all(splits))
    shown = [str(numbers.place_of(at)) for at, _ in numbered(splits, 100)]
    assert shown == ["a:1", "a:2", "a:3", "b:1", "b:2", "b:3"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_is_one_split_with_the_same_lines(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    text = b"".join(b"%d\n" % number for number in range(1000)) + b"last"
    if suffix == ".gz":
        path.write_bytes(gzip.compress(text))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(text)
    (split,) = splits_of(path, split_bytes=10)
    assert b"".join(read_blocks(split, {}, 64)) == text


@pytest.mark.parametrize(
    ("size_mb", "slots", "split_mb"),
    [(1, 2, 16), (600, 2, 37.5), (600, 32, 16), (100_000, 2, 64)],
)
def test_large_input_is_cut_into_large_splits_but_enough_of_them(
    size_mb: int, slots: int, split_mb: float
) -> None:
    halves = [InputFile("a", "a", size_mb * 2**19), InputFile("b", "b", size_mb * 2**19)]
    items = [RecordFile(Input(each.path), each) for each in halves]
    assert choose_split(items, slots) == split_mb * 2**20


def test_a_damaged_compressed_file_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"this is not gzip")
    (split,) = splits_of(path)
    with pytest.raises(FileUnreadable, match=r"cannot read a\.jsonl\.gz"):
        list(read_blocks(split, {}))


def test_folders_and_patterns_stand_for_their_files_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl", "_SUCCESS", ".a.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = [Path(each.shown).name for each in find_inputs(str(tmp_path), {})]
    assert found == ["a.jsonl", "b.jsonl", "c.jsonl"]
    found = [Path(each.shown).name for each in find_inputs(f"{tmp_path}/*.jsonl", {})]
    assert found == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize("source", ["nowhere.jsonl", "*.nothing"])
def test_a_source_without_files_is_told(tmp_path: Path, source: str) -> None:
    with pytest.raises(FileUnreadable, match="no such file"):
        find_inputs(str(tmp_path / source), {})


def test_no_source_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        InputSurvey(Catalog(), {}, tmp_path).look([])


def test_standard_input_is_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    (item,) = InputSurvey(Catalog(), {}, tmp_path).look([Input("-")])
    assert isinstance(item, RecordFile)
    assert (Path(item.file.path).read_bytes(), item.file.shown) == (b"{}\n", "<stdin>")


@pytest.mark.parametrize("name", ["long.jsonl", "long.jsonl.gz", "long.csv", "long.csv.gz"])
def test_a_record_without_an_end_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(splits, "RECORD_BYTES_MAX", 1000)
    text = b'a\n"' + b"x" * 5000
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    file = InputFile(str(path), name, path.stat().st_size)
    pieces = cut_records(file, 0, 100)
    read = read_blocks
    if ".csv" in name:
        content = Cells(ColumnMapping(NodeType("A", ()), {}), ("a",), ",", "", 2)
        pieces = [replace(pieces[0], content=content)]
        read = read_record_blocks
    with pytest.raises(FileUnreadable, match="more than 1000 bytes"):
        list(chain.from_iterable(read(each, {}, 64) for each in pieces))
