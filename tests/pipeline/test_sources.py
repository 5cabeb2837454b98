"""Cutting files: every line is read once, by one split, and knows its number."""

import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import FileUnreadable, UsageError
from omnigraph.pipeline.parse import split_lines
from omnigraph.pipeline.sources import (
    LineNumbers,
    Plan,
    count_lines,
    find_files,
    ordinal_of,
    plan_splits,
    read_blocks,
)

LINES = st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b"")), max_size=12)


def numbered(plan: Plan, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Every line with its ordinal, as workers read them."""
    for split in plan.splits:
        line = 0
        for block in read_blocks(split, block_bytes):
            for each in split_lines(block):
                yield ordinal_of(split, line), each
                line += 1


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
    plan = plan_splits([(str(path), "a")], split_bytes)
    counts = [sum(map(count_lines, read_blocks(each, block_bytes))) for each in plan.splits]
    numbers = LineNumbers(plan.splits, counts)
    found = [(numbers.place_of(at).line, line) for at, line in numbered(plan, block_bytes)]
    assert found == list(enumerate(split_lines(text), start=1)) if text else found == []


def test_lines_are_counted_from_one_in_every_file(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"1\n22\n333\n")
        files.append((str(path), name))
    plan = plan_splits(files, 4)
    counts = [sum(map(count_lines, read_blocks(each))) for each in plan.splits]
    numbers = LineNumbers(plan.splits, counts)
    shown = [str(numbers.place_of(at)) for at, _ in numbered(plan, 100)]
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
    plan = plan_splits([(str(path), "a")], 10)
    assert len(plan.splits) == 1
    assert b"".join(read_blocks(plan.splits[0], 64)) == text


def test_a_damaged_compressed_file_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"this is not gzip")
    (split,) = plan_splits([(str(path), "a.gz")]).splits
    with pytest.raises(FileUnreadable, match=r"cannot read a\.gz"):
        list(read_blocks(split))


def test_folders_and_patterns_stand_for_their_files_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "deep/c.jsonl", "_SUCCESS", ".a.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    found = [Path(shown).name for _, shown in find_files([str(tmp_path)], tmp_path)]
    assert found == ["a.jsonl", "b.jsonl", "c.jsonl"]
    found = [Path(shown).name for _, shown in find_files([f"{tmp_path}/*.jsonl"], tmp_path)]
    assert found == ["a.jsonl", "b.jsonl"]


@pytest.mark.parametrize("source", ["nowhere.jsonl", "*.nothing"])
def test_a_source_without_files_is_told(tmp_path: Path, source: str) -> None:
    with pytest.raises(FileUnreadable, match="no such file"):
        find_files([str(tmp_path / source)], tmp_path)


def test_no_source_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        find_files([], tmp_path)


def test_standard_input_is_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    ((path, shown),) = find_files(["-"], tmp_path)
    assert (Path(path).read_bytes(), shown) == (b"{}\n", "<stdin>")
