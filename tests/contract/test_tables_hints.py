"""A hint about what a scan looks for saves work and never rows."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.effects import REAL
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    Handle,
    Landed,
    Mark,
    Replacement,
    RowChanges,
    ScanRequest,
    Staged,
    TableRef,
    Tables,
)

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("word", pa.string())])
REF = TableRef("nodes/t")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "g"


def tables_at(root: Path) -> Tables:
    return open_stores(str(root), REAL, durability=Durability.RELAXED).tables


def rows(**words: str) -> pa.Table:
    return pa.table({"id": list(words), "word": list(words.values())}, schema=SCHEMA)


def mark() -> Mark:
    return Mark(REAL.new_id())


def landed(tables: Tables, staged: Staged) -> Handle:
    outcome = tables.commit_exact(staged)
    assert isinstance(outcome, Landed)
    return outcome.handle


@pytest.fixture
def tables(root: Path) -> Tables:
    return tables_at(root)


@pytest.fixture
def handle(tables: Tables) -> Handle:
    """A table of three fragments, one row in each."""
    handle = landed(tables, tables.stage_create(REF, SCHEMA, mark()))
    for change in (rows(a="red"), rows(b="green"), rows(c="red")):
        handle = landed(tables, tables.stage_rows(handle, RowChanges(inserts=change), mark()))
    return handle


def find(tables: Tables, handle: Handle, column: str, *values: str) -> pa.Table:
    quoted = ", ".join(f"'{each}'" for each in values)
    return tables.read(
        handle,
        ScanRequest(
            where=f"{column} IN ({quoted})",
            among={column: values},
            with_row_id=True,
            with_row_address=True,
        ),
    )


def ids(found: pa.Table) -> list[str]:
    return sorted(map(str, found["id"].to_pylist()))


def numbers(found: pa.Table, column: str) -> list[int]:
    return [int(each) for each in found[column].to_numpy().tolist()]


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("id", ["a"], ["a"]),
        ("id", ["a", "c", "nobody"], ["a", "c"]),
        ("id", ["nobody"], []),
        ("word", ["red"], ["a", "c"]),
        ("word", ["red", "green"], ["a", "b", "c"]),
    ],
)
def test_what_was_written_here_is_found(
    tables: Tables, handle: Handle, column: str, values: list[str], expected: list[str]
) -> None:
    assert ids(find(tables, handle, column, *values)) == expected


def test_what_another_process_wrote_is_found(root: Path, tables: Tables, handle: Handle) -> None:
    other = tables_at(root)
    theirs = other.open_at(REF)
    assert ids(find(other, theirs, "id", "b")) == ["b"]
    landed(other, other.stage_rows(theirs, RowChanges(inserts=rows(d="blue")), mark()))
    assert ids(find(tables, tables.open_at(REF), "id", "a", "d")) == ["a", "d"]
    assert ids(find(tables, handle, "id", "a", "d")) == ["a"]


def test_rows_that_were_replaced_or_deleted_are_found_as_they_are(
    tables: Tables, handle: Handle
) -> None:
    place = find(tables, handle, "id", "a")
    replaced = Replacement(
        rows(a="blue"),
        row_ids=numbers(place, ROW_ID),
        row_addresses=numbers(place, ROW_ADDRESS),
    )
    handle = landed(tables, tables.stage_rows(handle, RowChanges(updates=replaced), mark()))
    assert ids(find(tables, handle, "word", "red")) == ["c"]
    assert find(tables, handle, "id", "a")["word"].to_pylist() == ["blue"]
    doomed = numbers(find(tables, handle, "id", "c"), ROW_ADDRESS)
    handle = landed(tables, tables.stage_rows(handle, RowChanges(deletes=doomed), mark()))
    assert ids(find(tables, handle, "id", "a", "b", "c")) == ["a", "b"]


def test_what_was_restored_is_found(tables: Tables, handle: Handle) -> None:
    """Fragment numbers may come again after a restore; files do not."""
    outcome = tables.restore(handle, to=handle.version - 1, mark=mark())
    assert isinstance(outcome, Landed)
    change = RowChanges(inserts=rows(d="green"))
    again = landed(tables, tables.stage_rows(outcome.handle, change, mark()))
    assert ids(find(tables, again, "id", "a", "b", "c", "d")) == ["a", "b", "d"]
    assert ids(find(tables, again, "word", "green")) == ["b", "d"]


def test_a_large_write_is_found_too(tables: Tables, handle: Handle) -> None:
    many = rows(**{f"m{number}": "many" for number in range(100)})
    handle = landed(tables, tables.stage_rows(handle, RowChanges(inserts=many), mark()))
    assert ids(find(tables, handle, "id", "m7", "a")) == ["a", "m7"]
