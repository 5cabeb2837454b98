"""What we believe of Lance about changing columns, about old versions and their hint."""

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction

FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.string(), nullable=False),
    pa.field("age", pa.int64()),
    pa.field("note", pa.string()),
]
SCHEMA = pa.schema(FIELDS)

RENAMING: Any = {"path": "note", "name": "remark"}
"""Declared as a list of these."""


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    rows = pa.table({"id": ["a", "b"], "age": [1, 2], "note": ["x", "y"]}, schema=SCHEMA)
    made = lance.write_dataset(
        rows, tmp_path / "t", enable_stable_row_ids=True, data_storage_version="2.2"
    )
    made.create_scalar_index("age", "BTREE", name="age_idx")
    made.create_scalar_index("note", "BTREE", name="note_idx")
    return lance.dataset(tmp_path / "t")


def commit(dataset: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(dataset, Transaction(dataset.version, operation), max_retries=0)


def data_files(folder: Path) -> set[str]:
    return {each.name for each in folder.rglob("data/*")}


def test_a_shallow_copy_has_no_data_and_can_be_reshaped_alone(
    dataset: LanceDataset, tmp_path: Path
) -> None:
    scratch = dataset.shallow_clone(str(tmp_path / "s"), dataset.version)
    scratch.add_columns(pa.schema([pa.field("more", pa.int32())]))
    scratch.drop_columns(["age"])
    scratch.alter_columns(RENAMING)
    assert data_files(tmp_path / "s") == set()
    assert dataset.schema.names == ["id", "age", "note"]
    assert lance.dataset(tmp_path / "t").version == dataset.version


def test_one_merge_drops_renames_and_adds_and_keeps_the_indices_of_what_stays(
    dataset: LanceDataset, tmp_path: Path
) -> None:
    scratch = dataset.shallow_clone(str(tmp_path / "s"), dataset.version)
    scratch.add_columns(pa.schema([pa.field("more", pa.int32())]))
    scratch.drop_columns(["age"])
    scratch.alter_columns(RENAMING)
    before = data_files(tmp_path / "t")
    fragments = [each.metadata for each in dataset.get_fragments()]
    changed = commit(dataset, LanceOperation.Merge(fragments, scratch.lance_schema))
    assert data_files(tmp_path / "t") == before
    assert changed.version == dataset.version + 1
    assert changed.to_table().to_pylist() == [
        {"id": "a", "remark": "x", "more": None},
        {"id": "b", "remark": "y", "more": None},
    ]
    assert [(each.name, each.field_names) for each in changed.describe_indices()] == [
        ("note_idx", ["remark"])
    ]
    assert changed.to_table(filter="remark = 'y'").num_rows == 1


def test_the_number_of_a_dropped_column_that_no_file_holds_is_taken_again(
    dataset: LanceDataset, tmp_path: Path
) -> None:
    """So columns are added before others are dropped, or one would turn into the other."""
    scratch = dataset.shallow_clone(str(tmp_path / "s"), dataset.version)
    scratch.add_columns(pa.schema([pa.field("first", pa.string())]))
    first = scratch.lance_schema.field("first")
    assert first is not None
    scratch.drop_columns(["first"])
    scratch.add_columns(pa.schema([pa.field("second", pa.int64())]))
    second = scratch.lance_schema.field("second")
    assert second is not None
    assert second.id() == first.id()


def test_a_column_can_be_written_beside_a_fragment_that_lost_rows(
    dataset: LanceDataset,
) -> None:
    dataset.delete("id = 'a'")
    (fragment,) = dataset.get_fragments()
    wanted = pa.schema([pa.field("filled", pa.int64(), nullable=False)])
    given = fragment.scanner(columns={"id": "id", "filled": "age * 10"}).to_table()
    metadata, schema = fragment.merge_columns(
        pa.table([given["filled"]], schema=wanted).to_reader()
    )
    changed = commit(dataset, LanceOperation.Merge([metadata], schema))
    assert changed.to_table(columns=["id", "filled"]).to_pylist() == [{"id": "b", "filled": 20}]
    assert not changed.schema.field("filled").nullable


def test_a_scan_of_a_constant_alone_is_refused(dataset: LanceDataset) -> None:
    (fragment,) = dataset.get_fragments()
    with pytest.raises(ValueError, match="at least one column"):
        fragment.scanner(columns={"filled": "7"}).to_table()


def test_the_hint_names_the_newest_version_after_commits_and_after_a_cleanup(
    dataset: LanceDataset, tmp_path: Path
) -> None:
    for _ in range(4):
        dataset.insert(dataset.to_table())

    def hinted() -> object:
        return json.loads((tmp_path / "t/_versions/latest_version_hint.json").read_text())

    assert hinted() == {"version": dataset.version}
    keep = dataset.version - 3
    doomed = [n for n in range(1, dataset.version) if n != keep]
    assert dataset.cleanup_old_versions(versions=doomed).old_versions == len(doomed)
    assert hinted() == {"version": dataset.version}
    left = sorted(each["version"] for each in lance.dataset(tmp_path / "t").versions())
    assert left == [keep, dataset.version]
