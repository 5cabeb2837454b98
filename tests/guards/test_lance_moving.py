"""What we believe of Lance: where a branch records its inherited files, and how it reads them.

Each test is named after the belief that re-rooting rests on. Lance is used here directly.
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset

from omnigraph.storage.lance.version_file import (
    description_of,
    find_bases,
    find_transaction,
    move_bases,
)


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"id": [f"r{each}" for each in range(first, last)]})


@pytest.fixture
def moved(tmp_path: Path) -> tuple[Path, Path]:
    """A table with an index, a branch, and a branch of that branch; moved to another place."""
    old, new = tmp_path / "old" / "t", tmp_path / "another é place" / "t"
    main = lance.write_dataset(rows(0, 20), old, enable_stable_row_ids=True)
    main.create_scalar_index("id", "BTREE")
    lance.dataset(old).create_branch("a/b", 2)
    one = lance.write_dataset(rows(20, 30), lance.dataset(old / "tree/a/b"), mode="append")
    one.delete("id = 'r3'")
    lance.dataset(old / "tree/a/b").create_branch("deep", 4)
    lance.write_dataset(rows(30, 35), lance.dataset(old / "tree/deep"), mode="append")
    new.parent.mkdir()
    old.rename(new)
    return old, new


def version_files(table: Path) -> list[Path]:
    return sorted(table.rglob("tree/**/_versions/*.manifest"))


def number_of(file: Path) -> int:
    return 2**64 - 1 - int(file.stem)


def test_every_version_of_a_branch_records_absolute_paths_and_only_there(
    moved: tuple[Path, Path],
) -> None:
    old, new = moved
    for file in version_files(new):
        bases = find_bases(file.read_bytes())
        assert bases
        assert all(each == str(old) or each == f"{old}/tree/a/b" for each in bases)
        recorded = lance.dataset(file.parents[1], version=number_of(file)).base_paths()
        assert sorted(bases) == sorted(each.path for each in recorded.values())
        assert (
            file.parents[1] / "_transactions" / str(find_transaction(file.read_bytes()))
        ).exists()
    others = [each for each in new.rglob("*") if each.is_file() and each not in version_files(new)]
    holding = {each.suffix for each in others if str(old).encode() in each.read_bytes()}
    assert holding <= {".txn"}, "the transaction of a fork, which no read opens"


def test_a_branch_that_was_moved_opens_and_cannot_be_read(moved: tuple[Path, Path]) -> None:
    dataset = lance.dataset(moved[1] / "tree/deep")
    assert dataset.count_rows() > 0
    with pytest.raises(pa.ArrowInvalid, match="Not found"):
        dataset.to_table()


def test_a_dataset_can_be_opened_with_another_description(moved: tuple[Path, Path]) -> None:
    old, new = moved
    counts = []
    for file in version_files(new):
        data = move_bases(file.read_bytes(), lambda path: path.replace(str(old), str(new)))
        dataset = LanceDataset(
            file.parents[1], version=number_of(file), serialized_manifest=description_of(data)
        )
        counts.append(dataset.to_table().num_rows)
        plan = dataset.scanner(filter="id = 'r7'").explain_plan()
        assert "ScalarIndexQuery" in plan, "the inherited index is found too"
        assert dataset.to_table(filter="id = 'r7'").num_rows == 1
    assert sorted(counts) == [20, 29, 29, 30, 34]


def test_a_version_file_may_be_replaced_by_one_of_another_size(moved: tuple[Path, Path]) -> None:
    old, new = moved
    for file in version_files(new):
        data = move_bases(file.read_bytes(), lambda path: path.replace(str(old), str(new)))
        assert len(data) != file.stat().st_size
        # As an unfinished put leaves it; a listing of versions must not mind.
        file.with_name(f"{file.name}#123").write_bytes(b"unfinished")
        file.write_bytes(data)
    for branch in ("a/b", "deep"):
        dataset = lance.dataset(new / "tree" / branch)
        for each in dataset.versions():
            lance.dataset(new / "tree" / branch, version=each["version"]).to_table()
    assert lance.dataset(new).branches.list()["deep"]["parent_branch"] == "a/b"
    written = lance.write_dataset(rows(40, 41), lance.dataset(new / "tree/deep"), mode="append")
    assert written.to_table().num_rows == 35
    assert all(str(new) in each.path for each in written.base_paths().values())
