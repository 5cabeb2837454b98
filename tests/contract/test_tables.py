"""What `Tables` promises, on every store that can hold tables."""

import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from omnigraph.effects import REAL
from omnigraph.errors import (
    ForkExists,
    ForkInUse,
    ForkNotFound,
    GraphRelocated,
    ReplyLost,
    StorageFailure,
    TableCorrupt,
    TableNotFound,
    VersionNotFound,
)
from omnigraph.storage import layout
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_UPDATED,
    BlobMode,
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    LandedLater,
    ManifestSwap,
    Mark,
    Metric,
    Outcome,
    Refused,
    Replacement,
    RowChanges,
    ScanRequest,
    Staged,
    TableRef,
    Tables,
    TableSettings,
    TextQuery,
    TextQueryMode,
    TransactionKind,
    VectorQuery,
)

BUCKET = "tables-contract"
PERSON = TableRef("nodes/40d76f1f51639ec0")


def schema(
    *fields: "pa.Field[Any]", metadata: dict[bytes | str, bytes | str] | None = None
) -> pa.Schema:
    return pa.schema(list(fields), metadata=metadata)


def texts(rows: pa.Table, column: str) -> list[str]:
    return [str(each) for each in rows[column].to_pylist()]


def numbers(rows: pa.Table, column: str) -> list[int]:
    return [int(each) for each in rows[column].to_numpy()]


SCHEMA = schema(pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int64()))


@pytest.fixture(scope="module")
def storage_options() -> Iterator[dict[str, str]]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    create = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
    urllib.request.urlopen(create).close()
    yield {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_endpoint": address,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    server.stop()


@pytest.fixture(params=["local", "s3"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    """For what must hold wherever tables are kept."""
    if request.param == "local":
        return open_stores(str(tmp_path / "g"), REAL, durability=Durability.RELAXED)
    uri = f"s3://{BUCKET}/{REAL.new_id()}"
    options = request.getfixturevalue("storage_options")
    return open_stores(uri, REAL, storage_options=options)


@pytest.fixture
def tables(stores: Stores) -> Tables:
    return stores.tables


@pytest.fixture
def local(tmp_path: Path) -> Stores:
    """For what does not depend on where tables are kept."""
    return open_stores(str(tmp_path / "g"), REAL, durability=Durability.RELAXED)


# --- making changes short -------------------------------------------------------------------


def mark() -> Mark:
    uuid = REAL.new_id()
    return Mark(uuid, {"operation_id": f"op-{uuid}"})


def people(*ids: str, age: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "age": [age] * len(ids)}, schema=SCHEMA)


def landed(outcome: Outcome) -> Handle:
    assert isinstance(outcome, Landed), outcome
    return outcome.handle


def commit(tables: Tables, staged: Staged | None) -> Handle:
    assert staged is not None
    return landed(tables.commit_exact(staged))


def create(tables: Tables, *ids: str, ref: TableRef = PERSON) -> Handle:
    handle = commit(tables, tables.stage_create(ref, SCHEMA, mark()))
    return append(tables, handle, *ids) if ids else handle


def append(tables: Tables, handle: Handle, *ids: str, age: int = 0) -> Handle:
    return commit(tables, tables.stage_append(handle, people(*ids, age=age), mark()))


def content(tables: Tables, handle: Handle) -> dict[str, int]:
    rows = tables.read(handle)
    assert len(set(rows["id"].to_pylist())) == rows.num_rows, "an id appears twice"
    return dict(zip(texts(rows, "id"), numbers(rows, "age"), strict=True))


def row_ids(tables: Tables, handle: Handle) -> dict[str, int]:
    rows = tables.read(handle, ScanRequest(columns=("id",), with_row_id=True))
    return dict(zip(texts(rows, "id"), numbers(rows, "_rowid"), strict=True))


def place(tables: Tables, handle: Handle, *ids: str) -> pa.Table:
    return tables.locate(handle, "id", ids).sort_by("id")


# --- opening and reading --------------------------------------------------------------------


def test_a_new_table_is_empty_at_version_one(tables: Tables) -> None:
    handle = create(tables)
    assert (handle.version, handle.row_count, handle.ref) == (1, 0, PERSON)
    assert handle.schema.equals(SCHEMA)
    assert tables.read(handle).num_rows == 0


def test_a_table_may_be_created_with_rows(tables: Tables) -> None:
    handle = commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), people("a", "b")))
    assert handle.version == 1
    assert content(tables, handle) == {"a": 0, "b": 0}


def test_creating_a_table_twice_is_refused_and_keeps_the_first(tables: Tables) -> None:
    first = tables.stage_create(PERSON, SCHEMA, mark())
    second = tables.stage_create(PERSON, SCHEMA, mark(), people("z"))
    commit(tables, first)
    assert isinstance(tables.commit_exact(second), Refused)
    assert content(tables, tables.open_at(PERSON)) == {}
    third = tables.stage_create(PERSON, SCHEMA, mark())
    assert isinstance(tables.commit_exact(third), Refused)


def test_what_is_missing_is_named(tables: Tables) -> None:
    with pytest.raises(TableNotFound) as table:
        tables.open_at(PERSON)
    with pytest.raises(TableNotFound):
        tables.open_at(PERSON, 3)
    create(tables, "a")
    with pytest.raises(VersionNotFound) as version:
        tables.open_at(PERSON, 99)
    with pytest.raises(TableNotFound) as branch:
        tables.open_at(TableRef(PERSON.path, "nope"))
    assert table.value.path == PERSON.path
    assert version.value.version == 99
    assert branch.value.branch == "nope"


def test_a_handle_shows_its_version_whatever_happens_later(tables: Tables) -> None:
    old = create(tables, "a")
    new = append(tables, old, "b")
    landed(tables.single_step.swap_rows(new, people("a", age=7), key="id", mark=mark()))
    assert content(tables, old) == {"a": 0}
    assert content(tables, new) == {"a": 0, "b": 0}
    assert (old.version, new.version) == (2, 3)
    assert content(tables, tables.open_at(PERSON, 2)) == {"a": 0}
    assert content(tables, tables.open_at(PERSON)) == {"a": 7, "b": 0}


def test_the_probe_sees_what_others_committed(tables: Tables) -> None:
    mine = create(tables, "a")
    assert tables.probe(mine) == 2
    theirs = append(tables, append(tables, tables.open_at(PERSON), "b"), "c")
    assert tables.probe(mine) == theirs.version == 4
    assert tables.probe(theirs) == 4


def test_the_probe_finds_versions_far_ahead(local: Stores) -> None:
    tables = local.tables
    first = handle = create(tables, "a")
    for _ in range(70):
        handle = commit(
            tables, tables.stage_settings(handle, TableSettings(config={"k": "v"}), mark())
        )
    assert tables.probe(first) == handle.version == 72


def test_scans_filter_project_and_limit(local: Stores) -> None:
    tables = local.tables
    handle = append(tables, create(tables, "a", "b"), "c", "d'e", age=5)
    request = ScanRequest(columns=("id",), where="age = 5")
    assert tables.read(handle, request).to_pydict() == {"id": ["c", "d'e"]}
    with tables.scan(handle, ScanRequest(limit=3, offset=1)) as batches:
        assert sum(batch.num_rows for batch in batches) == 3
    assert tables.count(handle, "age < 5") == 2
    assert place(tables, handle, "d'e", "a", "zz")["id"].to_pylist() == ["a", "d'e"]
    assert place(tables, handle).num_rows == 0


def test_a_scan_may_be_confined_to_fragments(local: Stores) -> None:
    tables = local.tables
    handle = append(tables, create(tables, "a"), "b")
    second = tables.inspect(handle).fragments[1].fragment_id
    assert tables.read(handle, ScanRequest(fragment_ids=(second,)))["id"].to_pylist() == ["b"]


def test_rows_are_read_at_their_addresses_however_many_there_are(local: Stores) -> None:
    """Whole fragments, most of one, and few of one are read in different ways."""
    tables = local.tables
    handle = create(tables)
    for start in (0, 100, 200):
        handle = append(tables, handle, *(f"p{number}" for number in range(start, start + 100)))
    doomed = [f"p{number}" for number in range(0, 100, 10)]
    where = f"id IN ({', '.join(repr(each) for each in doomed)})"
    handle = commit(tables, tables.stage_delete(handle, where, mark()))
    kept = [f"p{number}" for number in range(100) if number % 10] + ["p105", "p107"]
    kept += [f"p{number}" for number in range(200, 290)]
    places = tables.locate(handle, "id", kept)
    addresses = np.sort(np.asarray(numbers(places, ROW_ADDRESS), np.uint64))
    request = ScanRequest(columns=("id",), batch_rows_max=7)
    with tables.scan_at(handle, addresses, request) as batches:
        found = pa.Table.from_batches(list(batches))
    assert numbers(found, ROW_ADDRESS) == addresses.tolist()
    assert sorted(texts(found, "id")) == sorted(kept)
    with tables.scan_at(handle, addresses[:0], request) as batches:
        assert list(batches) == []


def test_versions_share_the_parts_that_did_not_change(tables: Tables) -> None:
    """Across branches too: what was forked is known by the names of its files."""
    first = append(tables, create(tables, "a", "b"), "c")
    fork = tables.fork(first, "side")
    grown = append(tables, fork, "d")
    shrunk = commit(tables, tables.stage_delete(first, "id = 'a'", mark()))
    parts = [tables.find_fragments(each) for each in (first, fork, grown, shrunk)]
    assert [[part.row_count for part in each] for each in parts] == [
        [2, 1],
        [2, 1],
        [2, 1, 1],
        [1, 1],
    ]
    assert parts[0] == parts[1] == parts[2][:2]
    assert [part.files for part in parts[3]] == [part.files for part in parts[0]]
    assert [bool(part.deletions) for part in parts[3]] == [True, False]
    assert parts[3][1] == parts[0][1]


def test_a_row_remembers_the_version_that_gave_it_its_content(tables: Tables) -> None:
    first = create(tables, "a", "b")
    handle = append(tables, first, "c")
    changed = commit(tables, tables.stage_upsert(handle, people("a", age=7), mark(), key="id"))
    moved = tables.stage_compaction(changed)
    assert moved is not None
    outcome = tables.single_step.commit_compaction(moved)
    assert isinstance(outcome, Landed | LandedLater)
    for each in (changed, outcome.handle):
        rows = tables.read(each, ScanRequest(columns=("id", ROW_UPDATED)))
        found = dict(zip(texts(rows, "id"), numbers(rows, ROW_UPDATED), strict=True))
        assert found == {"a": changed.version, "b": first.version, "c": handle.version}


def test_many_keys_are_located_as_few_are(local: Stores) -> None:
    tables = local.tables
    names = [f"n{number}" for number in range(1_500)]
    handle = create(tables, *names)
    found = tables.locate(handle, "id", [*names, "missing"])
    assert sorted(texts(found, "id")) == sorted(names)


def test_a_bad_filter_is_a_typed_failure(local: Stores) -> None:
    handle = create(local.tables, "a")
    with pytest.raises(StorageFailure):
        local.tables.read(handle, ScanRequest(where="nonsense = 1"))
    with (
        pytest.raises(StorageFailure),
        local.tables.scan(handle, ScanRequest(where="(")) as batches,
    ):
        list(batches)


def test_a_missing_data_file_is_corruption(local: Stores) -> None:
    handle = create(local.tables, "a")
    for file in Path(local.root.locate(PERSON.path), "data").iterdir():
        file.unlink()
    with pytest.raises(TableCorrupt):
        local.tables.read(handle)


# --- staging leaves HEAD alone --------------------------------------------------------------


def test_no_staging_moves_head(tables: Tables) -> None:
    handle = append(tables, create(tables, "a", "b"), "c")
    at = place(tables, handle, "a")
    swap = Replacement(people("a", age=1), numbers(at, "_rowid"), numbers(at, "_rowaddr"))
    tables.stage_append(handle, people("x"), mark())
    tables.stage_rows(handle, RowChanges(updates=swap), mark())
    tables.stage_upsert(handle, people("a", "y"), mark(), key="id")
    tables.stage_delete(handle, "id = 'b'", mark())
    tables.stage_overwrite(handle, SCHEMA, mark(), people("q"))
    tables.stage_overwrite(handle, SCHEMA, mark())
    tables.stage_indices(handle, [IndexSpec("id", IndexKind.BTREE)], IndexScope.UNCOVERED, mark())
    tables.stage_settings(handle, TableSettings(config={"a": "b"}), mark())
    assert tables.stage_compaction(handle) is not None
    assert tables.open_at(PERSON).version == handle.version
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0, "c": 0}


# --- rows -----------------------------------------------------------------------------------


def test_one_transaction_inserts_updates_and_deletes(tables: Tables) -> None:
    handle = append(tables, create(tables, "a", "b", "c"), "d", "e")
    before = row_ids(tables, handle)
    at = place(tables, handle, "b", "d")
    staged = tables.stage_rows(
        handle,
        RowChanges(
            inserts=people("new", "newer", age=3),
            updates=Replacement(
                people("b", "d", age=9), numbers(at, "_rowid"), numbers(at, "_rowaddr")
            ),
            deletes=numbers(place(tables, handle, "a", "e"), "_rowaddr"),
        ),
        mark(),
    )
    assert (staged.inserted, staged.updated, staged.deleted) == (2, 2, 2)
    after = commit(tables, staged)
    assert after.version == handle.version + 1
    assert content(tables, after) == {"b": 9, "c": 0, "d": 9, "new": 3, "newer": 3}
    ids = row_ids(tables, after)
    assert {name: ids[name] for name in "bcd"} == {name: before[name] for name in "bcd"}
    assert not {ids["new"], ids["newer"]} & set(before.values())


def test_updates_larger_than_a_file_keep_their_row_ids(local: Stores) -> None:
    tables = local.tables
    names = [f"{number:06}" for number in range(100_010)]
    handle = create(tables, *names)
    before = row_ids(tables, handle)
    changed = people(*names, *(f"new{number}" for number in range(50)), age=1)
    after = commit(tables, tables.stage_upsert(handle, changed, mark(), key="id"))
    assert [each.row_count for each in tables.inspect(after).fragments] == [100_000, 60]
    ids = row_ids(tables, after)
    assert {name: ids[name] for name in names} == before
    assert len(set(ids.values())) == 100_060


def test_upsert_replaces_known_keys_and_inserts_the_rest(tables: Tables) -> None:
    handle = create(tables, "a", "b")
    before = row_ids(tables, handle)
    staged = tables.stage_upsert(handle, people("c", "b", age=4), mark(), key="id")
    assert (staged.inserted, staged.updated) == (1, 1)
    after = commit(tables, staged)
    assert content(tables, after) == {"a": 0, "b": 4, "c": 4}
    assert row_ids(tables, after)["b"] == before["b"]


def test_updates_keep_when_a_row_was_created(local: Stores) -> None:
    tables = local.tables
    handle = create(tables, "a", "b")
    after = commit(tables, tables.stage_upsert(handle, people("a", age=1), mark(), key="id"))
    lineage = ("id", "_row_created_at_version", "_row_last_updated_at_version")
    rows = tables.read(after, ScanRequest(columns=lineage)).to_pylist()
    assert {row["id"]: (row[lineage[1]], row[lineage[2]]) for row in rows} == {
        "a": (2, 3),
        "b": (2, 2),
    }


def test_deleting_every_row_leaves_an_empty_table_that_takes_rows_again(local: Stores) -> None:
    tables = local.tables
    handle = append(tables, create(tables, "a", "b"), "c")
    empty = commit(tables, tables.stage_delete(handle, "true", mark()))
    assert empty.row_count == 0
    used = set(row_ids(tables, handle).values())
    full = append(tables, empty, "d")
    assert content(tables, full) == {"d": 0}
    assert not used & set(row_ids(tables, full).values())


def test_a_delete_that_matches_nothing_changes_nothing(local: Stores) -> None:
    tables = local.tables
    handle = create(tables, "a")
    staged = tables.stage_delete(handle, "id = 'zz'", mark())
    assert staged.deleted == 0
    assert content(tables, commit(tables, staged)) == {"a": 0}


def test_overwrite_replaces_rows_and_schema_perhaps_by_nothing(local: Stores) -> None:
    tables = local.tables
    handle = create(tables, "a", "b")
    used = set(row_ids(tables, handle).values())
    wider = SCHEMA.append(pa.field("city", pa.string()))
    rows = pa.table({"id": ["x"], "age": [1], "city": ["Ulm"]}, schema=wider)
    replaced = commit(tables, tables.stage_overwrite(handle, wider, mark(), rows))
    assert tables.read(replaced).to_pylist() == [{"id": "x", "age": 1, "city": "Ulm"}]
    assert not used & set(row_ids(tables, replaced).values())
    empty = commit(tables, tables.stage_overwrite(replaced, wider, mark()))
    assert (empty.row_count, empty.schema.names) == (0, ["id", "age", "city"])
    assert append_wide(tables, empty, wider).row_count == 1


def append_wide(tables: Tables, handle: Handle, schema: pa.Schema) -> Handle:
    rows = pa.table({"id": ["y"], "age": [2], "city": [None]}, schema=schema)
    return commit(tables, tables.stage_append(handle, rows, mark()))


def test_rows_may_arrive_as_a_stream(local: Stores) -> None:
    tables = local.tables
    handle = create(tables)
    stream = pa.RecordBatchReader.from_batches(
        SCHEMA, (people(f"n{number}").to_batches()[0] for number in range(20))
    )
    staged = tables.stage_append(handle, stream, mark())
    assert staged.inserted == 20
    assert commit(tables, staged).row_count == 20


def test_receipts_of_an_append_may_be_staged_again_on_a_later_version(tables: Tables) -> None:
    handle = create(tables, "a")
    staged = tables.stage_append(handle, people("mine"), mark())
    theirs = append(tables, handle, "theirs")
    assert isinstance(tables.commit_exact(staged), Refused)
    again = commit(tables, tables.stage_receipts(theirs, staged.receipts, mark()))
    assert content(tables, again) == {"a": 0, "theirs": 0, "mine": 0}


def test_pieces_written_apart_become_one_transaction_that_keeps_row_ids(tables: Tables) -> None:
    handle = commit(tables, tables.stage_append(create(tables, "a", "b"), people("c"), mark()))
    places = tables.locate(handle, "id", ["b", "c"])
    ids = dict(zip(texts(places, "id"), numbers(places, ROW_ID), strict=True))
    written = tables.stage_rows(
        handle,
        RowChanges(
            inserts=people("new"),
            updates=Replacement(people("c", "b", age=7), [ids["c"], ids["b"]], ()),
        ),
        mark(),
    )
    dropped = [
        tables.stage_rows(handle, RowChanges(deletes=[address]), mark())
        for address in numbers(places, ROW_ADDRESS)
    ]
    pieces = [tables.to_pieces(each) for each in (written, *dropped)]
    staged = tables.stage_pieces(handle, pieces, mark())
    assert (staged.inserted, staged.updated, staged.deleted) == (1, 2, 0)
    after = commit(tables, staged)
    assert content(tables, after) == {"a": 0, "b": 7, "c": 7, "new": 0}
    again = tables.locate(after, "id", ["b", "c"])
    assert dict(zip(texts(again, "id"), numbers(again, ROW_ID), strict=True)) == ids


def test_pieces_of_a_version_that_is_not_the_newest_are_refused(tables: Tables) -> None:
    handle = create(tables, "a")
    pieces = tables.to_pieces(tables.stage_append(handle, people("mine"), mark()))
    append(tables, handle, "theirs")
    assert isinstance(tables.commit_exact(tables.stage_pieces(handle, [pieces], mark())), Refused)


def test_discarded_files_are_gone_and_the_table_is_as_it_was(local: Stores) -> None:
    tables = local.tables
    handle = create(tables, "a", "b")
    before = sorted(each.key for each in local.objects.list(PERSON.path))
    address = numbers(tables.locate(handle, "id", ["a"]), ROW_ADDRESS)
    changes = RowChanges(inserts=people("c"), deletes=address)
    pieces = tables.to_pieces(tables.stage_rows(handle, changes, mark()))
    assert len(local.objects.list(PERSON.path)) == len(before) + 2
    for _ in range(2):
        tables.discard(PERSON, pieces)
        assert sorted(each.key for each in local.objects.list(PERSON.path)) == before
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0}


BLOB = pa.field(
    "picture",
    pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())]),
    metadata={"ARROW:extension:name": "lance.blob.v2"},
)
WIDE = schema(
    pa.field("id", pa.string(), nullable=False),
    pa.field("big", pa.uint64()),
    pa.field("at", pa.date64()),
    pa.field("day", pa.date32()),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("vector", pa.list_(pa.float32(), 3)),
    BLOB,
)


def wide_rows(*ids: str, blob_bytes: int = 10) -> pa.Table:
    size = len(ids)
    return pa.table(
        {
            "id": list(ids),
            "big": pa.array([2**64 - 1] * size, pa.uint64()),
            "at": pa.array([1_234_567_890_123] * size, pa.int64()).view(pa.date64()),
            "day": pa.array([20_000] * size, pa.int32()).view(pa.date32()),
            "tags": [["x", None]] * size,
            "vector": pa.array([[1.0, 2.0, 3.0]] * size, WIDE.field("vector").type),
            "picture": pa.array([{"data": b"p" * blob_bytes, "uri": None}] * size, BLOB.type),
        },
        schema=WIDE,
    )


def test_wide_integers_times_lists_vectors_and_blobs_survive_every_change(local: Stores) -> None:
    tables = local.tables
    handle = commit(tables, tables.stage_create(PERSON, WIDE, mark()))
    handle = commit(tables, tables.stage_append(handle, wide_rows("a", "b"), mark()))
    changed = wide_rows("a", "c", blob_bytes=300_000)
    handle = commit(tables, tables.stage_upsert(handle, changed, mark(), key="id"))
    rows = tables.read(handle, ScanRequest(blobs=BlobMode.BYTES)).sort_by("id")
    assert rows["id"].to_pylist() == ["a", "b", "c"]
    assert rows["big"].to_pylist() == [2**64 - 1] * 3
    assert rows["at"].combine_chunks().view(pa.int64()).to_pylist() == [1_234_567_890_123] * 3
    assert rows["tags"].to_pylist() == [["x", None]] * 3
    assert rows["vector"].to_pylist() == [[1.0, 2.0, 3.0]] * 3
    assert [len(blob or b"") for blob in rows["picture"].to_pylist()] == [300_000, 10, 300_000]


def test_a_part_of_a_blob_is_read_wherever_it_is_kept(tables: Tables) -> None:
    handle = commit(tables, tables.stage_create(PERSON, WIDE, mark()))
    for name, size in (("a", 10), ("b", 70_000), ("c", 300_000)):
        staged = tables.stage_append(handle, wide_rows(name, blob_bytes=size), mark())
        handle = commit(tables, staged)
    placed = place(tables, handle, "a", "b", "c")
    addresses = numbers(placed, "_rowaddr")
    found = [tables.open_blob(handle, "picture", each) for each in addresses]
    assert [each.length for each in found] == [10, 70_000, 300_000]
    assert [each.read(each.length - 3, 3) for each in found] == [b"ppp"] * 3
    assert found[0].read(4, 0) == b""
    assert len({each.place for each in found}) == 3
    later = commit(tables, tables.stage_append(handle, wide_rows("d"), mark()))
    assert tables.open_blob(later, "picture", addresses[2]).place == found[2].place
    changed = tables.stage_upsert(later, wide_rows("c", blob_bytes=300_000), mark(), key="id")
    moved = commit(tables, changed)
    (address,) = numbers(place(tables, moved, "c"), "_rowaddr")
    assert tables.open_blob(moved, "picture", address).place != found[2].place


def test_no_two_blobs_are_at_one_place(local: Stores) -> None:
    """Of the same length, in one file, beside and below each other."""
    tables = local.tables
    fields = [pa.field("id", pa.string(), nullable=False), BLOB, BLOB.with_name("negative")]
    values = pa.array([{"data": each, "uri": None} for each in (b"1", b"2")], BLOB.type)
    rows = pa.table([pa.array(["a", "b"]), values, values.take([1, 0])], schema=schema(*fields))
    handle = commit(tables, tables.stage_create(PERSON, rows.schema, mark()))
    handle = commit(tables, tables.stage_append(handle, rows, mark()))
    addresses = numbers(place(tables, handle, "a", "b"), "_rowaddr")
    found = [
        tables.open_blob(handle, column, address)
        for column in ("picture", "negative")
        for address in addresses
    ]
    assert [each.read(0, 1) for each in found] == [b"1", b"2", b"2", b"1"]
    assert len({each.place for each in found}) == 4


# --- exactness ------------------------------------------------------------------------------


def every_change(tables: Tables, handle: Handle) -> dict[str, Staged]:
    return {
        "append": tables.stage_append(handle, people("mine"), mark()),
        "update": tables.stage_upsert(handle, people("c", age=1), mark(), key="id"),
        "upsert": tables.stage_upsert(handle, people("c", "new", age=2), mark(), key="id"),
        "delete": tables.stage_delete(handle, "id = 'c'", mark()),
        "delete all": tables.stage_delete(handle, "true", mark()),
        "overwrite": tables.stage_overwrite(handle, SCHEMA, mark(), people("only")),
        "truncate": tables.stage_overwrite(handle, SCHEMA, mark()),
    }


CHANGES = ("append", "update", "upsert", "delete", "delete all", "overwrite", "truncate")


@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", CHANGES)
def test_of_two_changes_staged_on_one_version_the_second_is_refused(
    local: Stores, first: str, second: str
) -> None:
    tables = local.tables
    handle = append(tables, append(tables, create(tables, "a"), "b"), "c")
    winner = every_change(tables, handle)[first]
    loser = every_change(tables, handle)[second]
    after = commit(tables, winner)
    assert isinstance(tables.commit_exact(loser), Refused)
    assert tables.open_at(PERSON).version == after.version


def test_the_first_rows_of_an_empty_table_are_guarded_too(tables: Tables) -> None:
    handle = create(tables)
    first = tables.stage_append(handle, people("a"), mark())
    second = tables.stage_append(handle, people("a"), mark())
    commit(tables, first)
    assert isinstance(tables.commit_exact(second), Refused)
    assert content(tables, tables.open_at(PERSON)) == {"a": 0}


def test_racing_writers_have_one_winner_each_round(tables: Tables) -> None:
    handle = create(tables, "start")
    for attempt in range(3):
        gate = threading.Barrier(4)
        staged = [
            tables.stage_append(handle, people(f"{attempt}-{number}"), mark())
            for number in range(4)
        ]

        def race(change: Staged, gate: threading.Barrier = gate) -> Outcome:
            gate.wait()
            return tables.commit_exact(change)

        with ThreadPoolExecutor(4) as pool:
            outcomes = list(pool.map(race, staged))
        winners = [outcome for outcome in outcomes if isinstance(outcome, Landed)]
        assert len(winners) == 1, outcomes
        handle = winners[0].handle
    assert handle.version == 5
    assert len(content(tables, handle)) == 4


def test_a_commit_that_something_harmless_slipped_before_lands_elsewhere(tables: Tables) -> None:
    handle = create(tables, "a")
    staged = tables.stage_append(handle, people("b"), mark())
    commit(tables, tables.stage_settings(handle, TableSettings(config={"k": "v"}), mark()))
    outcome = tables.commit_exact(staged)
    assert isinstance(outcome, LandedLater)
    assert outcome.handle.version == handle.version + 2
    assert content(tables, outcome.handle) == {"a": 0, "b": 0}


def test_committing_the_same_staged_change_twice_lands_once(tables: Tables) -> None:
    handle = create(tables, "a")
    staged = tables.stage_append(handle, people("b"), mark())
    first = commit(tables, staged)
    again = tables.commit_exact(staged)
    assert isinstance(again, Landed)
    assert again.handle.version == first.version
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0}


def test_a_commit_whose_reply_was_lost_is_found_and_reported_landed(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = local.tables
    handle = create(tables, "a")
    staged = tables.stage_append(handle, people("b"), mark())

    from omnigraph.storage.lance import commit  # noqa: PLC0415 - the seam under test

    real = commit._send

    def send_and_stumble(*arguments: object) -> object:
        real(*arguments)  # type: ignore[arg-type]
        raise OSError("connection reset by peer")

    monkeypatch.setattr(commit, "_send", send_and_stumble)
    assert landed(tables.commit_exact(staged)).version == handle.version + 1


def test_a_commit_that_is_answered_with_the_version_of_another_is_not_taken_for_ours(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only an answer that is not clear is read back: the version is not the next one (D30)."""
    tables = local.tables
    handle = create(tables, "a")
    ours, theirs = (tables.stage_append(handle, people(each), mark()) for each in "bc")
    settings = TableSettings(config={"a": "b"})

    from omnigraph.storage.lance import commit  # noqa: PLC0415 - the seam under test

    real = commit._send

    def send_theirs(store: object, *_: object) -> object:
        slipped = tables.stage_settings(handle, settings, mark())
        real(store, slipped, slipped.payload)  # type: ignore[arg-type]
        return real(store, theirs, theirs.payload)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "_send", send_theirs)
    with pytest.raises(ReplyLost, match=f"{theirs.mark.uuid}, not {ours.mark.uuid}"):
        tables.commit_exact(ours)


def test_a_commit_that_failed_on_its_way_there_is_a_lost_reply_and_no_refusal(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still arrive, so nobody may say that it did not happen."""
    tables = local.tables
    staged = tables.stage_append(create(tables, "a"), people("b"), mark())

    from omnigraph.storage.lance import commit  # noqa: PLC0415 - the seam under test

    def stumble(*_: object) -> object:
        raise OSError("connection reset by peer")

    monkeypatch.setattr(commit, "_send", stumble)
    with pytest.raises(ReplyLost, match="connection reset"):
        tables.commit_exact(staged)


def test_marks_and_kinds_of_transactions_can_be_read_back(tables: Tables) -> None:
    handle = create(tables, "a", "b")
    marks = [mark() for _ in range(4)]
    first = commit(tables, tables.stage_append(handle, people("c"), marks[0]))
    index = [IndexSpec("id", IndexKind.BTREE)]
    second = commit(tables, tables.stage_indices(first, index, IndexScope.UNCOVERED, marks[1]))
    third = commit(
        tables, tables.stage_settings(second, TableSettings(config={"k": "v"}), marks[2])
    )
    fourth = landed(tables.restore(third, to=first.version, mark=marks[3]))
    seen = tables.find_transactions(fourth, after=handle.version)
    assert [each.version for each in seen] == [3, 4, 5, 6]
    assert [each.uuid for each in seen] == [each.uuid for each in marks]
    assert [each.properties for each in seen] == [each.properties for each in marks]
    assert [each.kind for each in seen] == [
        TransactionKind.DATA,
        TransactionKind.INDEX,
        TransactionKind.CONFIG,
        TransactionKind.RESTORE,
    ]
    assert tables.find_transactions(fourth, after=fourth.version) == ()
    assert [each.version for each in tables.find_versions(fourth)] == [1, 2, 3, 4, 5, 6]


def test_versions_are_dated_now(local: Stores) -> None:
    handle = create(local.tables)
    created_ms = local.tables.find_versions(handle)[0].created_ms
    assert abs(REAL.now_ms() - created_ms) < 60_000


# --- restore --------------------------------------------------------------------------------


def test_restore_brings_old_content_back_as_a_new_version(tables: Tables) -> None:
    old = create(tables, "a")
    head = commit(tables, tables.stage_upsert(old, people("a", "b", age=5), mark(), key="id"))
    restored = landed(tables.restore(head, to=old.version, mark=mark()))
    assert restored.version == head.version + 1
    assert content(tables, restored) == {"a": 0}
    assert content(tables, append(tables, restored, "c")) == {"a": 0, "c": 0}


def test_restore_is_refused_when_head_is_not_the_one_that_was_seen(tables: Tables) -> None:
    old = create(tables, "a")
    seen = append(tables, old, "b")
    newer = append(tables, seen, "c")
    assert isinstance(tables.restore(seen, to=old.version, mark=mark()), Refused)
    assert tables.open_at(PERSON).version == newer.version


def test_a_commit_that_a_restore_buried_is_put_back(
    local: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = local.tables
    old = create(tables, "a")
    head = append(tables, old, "b")

    from omnigraph.storage.lance import commit  # noqa: PLC0415 - the seam under test

    real = commit.commit_exact
    intruders = count()

    def slip_in_first(store: object, staged: Staged) -> Outcome:
        if next(intruders) == 0:
            landed(real(store, tables.stage_append(head, people("theirs"), mark())))  # type: ignore[arg-type]
        return real(store, staged)  # type: ignore[arg-type]

    monkeypatch.setattr(commit, "commit_exact", slip_in_first)
    outcome = tables.restore(head, to=old.version, mark=mark())
    monkeypatch.undo()
    assert isinstance(outcome, LandedLater)
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0, "theirs": 0}


# --- the swap -------------------------------------------------------------------------------

KEYED = schema(
    pa.field(
        "object_id",
        pa.string(),
        nullable=False,
        metadata={"lance-schema:unenforced-primary-key": "true"},
    ),
    pa.field("value", pa.int64()),
    pa.field("base_objects", pa.list_(pa.string())),
    metadata={"omnigraph:internal_schema_version": "4"},
)
MANIFEST = TableRef(layout.MANIFEST)


def entries(*ids: str, value: int = 0) -> pa.Table:
    empty = pa.nulls(len(ids), pa.list_(pa.string()))
    columns = {"object_id": list(ids), "value": [value] * len(ids), "base_objects": empty}
    return pa.table(columns, schema=KEYED)


def swap(tables: Tables, handle: Handle, rows: pa.Table) -> Outcome:
    return tables.single_step.swap_rows(handle, rows, key="object_id", mark=mark())


@pytest.fixture(params=list(ManifestSwap), ids=lambda form: form.value)
def form(request: pytest.FixtureRequest) -> ManifestSwap:
    assert isinstance(request.param, ManifestSwap)
    return request.param


@pytest.fixture(params=["local", "s3"])
def swapping(request: pytest.FixtureRequest, tmp_path: Path, form: ManifestSwap) -> Tables:
    """Tables whose swaps have one form, wherever they are kept."""
    if request.param == "local":
        return open_swapping(tmp_path, form)
    uri = f"s3://{BUCKET}/{REAL.new_id()}"
    options = request.getfixturevalue("storage_options")
    return open_stores(uri, REAL, storage_options=options, swap=form).tables


def open_swapping(folder: Path, form: ManifestSwap) -> Tables:
    uri = str(folder / "g")
    return open_stores(uri, REAL, durability=Durability.RELAXED, swap=form).tables


def new_manifest(tables: Tables) -> Handle:
    staged = tables.stage_create(MANIFEST, KEYED, mark(), entries("graph_head:main"))
    return commit(tables, staged)


def values(tables: Tables, handle: Handle) -> dict[str, int]:
    rows = tables.read(handle)
    assert len(set(rows["object_id"].to_pylist())) == rows.num_rows, "a key appears twice"
    return dict(zip(texts(rows, "object_id"), numbers(rows, "value"), strict=True))


def test_a_swap_inserts_and_replaces_at_the_next_version(swapping: Tables) -> None:
    tables = swapping
    handle = new_manifest(tables)
    after = landed(swap(tables, handle, entries("graph_head:main", "c1", value=1)))
    assert after.version == handle.version + 1
    assert values(tables, after) == {"graph_head:main": 1, "c1": 1}


def test_swaps_that_share_a_key_contend(swapping: Tables) -> None:
    tables = swapping
    handle = new_manifest(tables)
    landed(swap(tables, handle, entries("graph_head:main", "c1", value=1)))
    assert isinstance(swap(tables, handle, entries("graph_head:main", "c2", value=2)), Refused)
    assert isinstance(swap(tables, handle, entries("c1", value=3)), Refused)
    assert values(tables, tables.open_at(MANIFEST)) == {"graph_head:main": 1, "c1": 1}


def test_swaps_contend_even_if_somebody_indexed_the_key(swapping: Tables) -> None:
    tables = swapping
    specs = [IndexSpec("object_id", IndexKind.BTREE)]
    staged = tables.stage_indices(new_manifest(tables), specs, IndexScope.UNCOVERED, mark())
    handle = commit(tables, staged)
    landed(swap(tables, handle, entries("graph_head:feature", value=1)))
    assert isinstance(swap(tables, handle, entries("graph_head:feature", value=2)), Refused)
    assert values(tables, tables.open_at(MANIFEST))["graph_head:feature"] == 1


def test_a_manifest_stays_in_few_fragments_and_keeps_what_it_is(
    tmp_path: Path, form: ManifestSwap
) -> None:
    tables = open_swapping(tmp_path, form)
    handle = new_manifest(tables)
    counts = []
    for number in range(40):
        added = [f"c{number}-{each}" for each in range(10)]
        handle = landed(swap(tables, handle, entries("graph_head:main", *added, value=number)))
        assert handle.version == number + 2
        counts.append(len(tables.inspect(handle).fragments))
    assert 2 < max(counts) <= 16
    expected = {f"c{n}-{each}": n for n in range(40) for each in range(10)}
    assert values(tables, handle) == {"graph_head:main": 39} | expected
    assert handle.schema.equals(KEYED, check_metadata=True)
    assert values(tables, tables.open_at(MANIFEST, 20)) == {"graph_head:main": 18} | {
        key: n for key, n in expected.items() if n < 19
    }


def grow(tables: Tables, handle: Handle, *, swaps: int, rows: int) -> Handle:
    for _ in range(swaps):
        added = [f"r{handle.version}-{each}" for each in range(rows - 1)]
        handle = landed(swap(tables, handle, entries("graph_head:main", *added)))
    return handle


def test_the_fragments_of_a_manifest_grow_with_the_logarithm_of_its_history(tmp_path: Path) -> None:
    tables = open_swapping(tmp_path, ManifestSwap.REWRITE_TAIL)
    handle = new_manifest(tables)
    counts = []
    for _ in range(90):
        handle = grow(tables, handle, swaps=1, rows=130)
        counts.append(len(tables.inspect(handle).fragments))
    assert handle.row_count == 1 + 90 * 129
    # Seven of each of two sizes, one of the third, and the tail.
    assert max(counts) <= 16
    assert counts[-1] > 2, "few publishes write everything again"


def test_a_swap_writes_again_only_what_is_not_sealed(tmp_path: Path) -> None:
    tables = open_swapping(tmp_path, ManifestSwap.REWRITE_TAIL)
    handle = grow(tables, new_manifest(tables), swaps=4, rows=130)
    files = {each.files for each in tables.find_fragments(handle)}
    after = grow(tables, handle, swaps=1, rows=2)
    kept = {each.files for each in tables.find_fragments(after)}
    assert len(files - kept) == 1, "the tail"
    assert len(files & kept) >= 2


def test_a_key_that_was_sealed_is_replaced_and_not_repeated(
    tmp_path: Path, form: ManifestSwap
) -> None:
    tables = open_swapping(tmp_path, form)
    handle = grow(tables, new_manifest(tables), swaps=4, rows=130)
    for opened in (handle, tables.open_at(MANIFEST)):
        before = values(tables, opened)
        assert "r2-5" in before
    # Somebody who did not write the files, and so does not know what they hold.
    stranger = open_swapping(tmp_path, form)
    there = stranger.open_at(MANIFEST)
    after = landed(swap(stranger, there, entries("graph_head:main", "r2-5", value=9)))
    assert values(stranger, after) == before | {"graph_head:main": 9, "r2-5": 9}


@pytest.mark.parametrize("first", list(ManifestSwap))
@pytest.mark.parametrize("then", list(ManifestSwap))
def test_swaps_of_either_form_contend_whichever_lands_first(
    tmp_path: Path, first: ManifestSwap, then: ManifestSwap
) -> None:
    quick, slow = open_swapping(tmp_path, first), open_swapping(tmp_path, then)
    grow(quick, new_manifest(quick), swaps=2, rows=130)
    seen = slow.open_at(MANIFEST)
    landed(swap(quick, quick.open_at(MANIFEST), entries("graph_head:main", "quick", value=1)))
    assert isinstance(swap(slow, seen, entries("graph_head:main", "slow", value=2)), Refused)
    again = landed(swap(slow, slow.open_at(MANIFEST), entries("graph_head:main", "slow", value=3)))
    found = values(slow, again)
    assert (found["graph_head:main"], found["quick"], found["slow"]) == (3, 1, 3)


@pytest.mark.parametrize("folds_first", [True, False])
def test_a_fold_and_a_merge_contend_whichever_lands_first(
    tmp_path: Path, *, folds_first: bool
) -> None:
    tables = open_swapping(tmp_path, ManifestSwap.MERGE)
    handle = new_manifest(tables)
    while len(tables.inspect(handle).fragments) < 15:
        handle = landed(swap(tables, handle, entries(f"c{handle.version}")))
    older = handle
    newer = landed(swap(tables, handle, entries("last")))
    assert len(tables.inspect(newer).fragments) == 16
    if folds_first:
        folded = landed(swap(tables, newer, entries("folded")))
        assert len(tables.inspect(folded).fragments) == 1
        # The older handle still merges, and must notice the overwrite.
        assert isinstance(swap(tables, older, entries("stale")), Refused)
    else:
        other = tables.stage_append(newer, entries("between"), mark())
        commit(tables, other)
        assert isinstance(swap(tables, newer, entries("folded")), Refused)


def test_a_swap_is_refused_by_whatever_moved_the_table(local: Stores) -> None:
    tables = local.tables
    handle = new_manifest(tables)
    commit(tables, tables.stage_append(handle, entries("between"), mark()))
    assert isinstance(swap(tables, handle, entries("graph_head:main", "late")), Refused)


def test_swaps_on_a_branch_leave_main_alone(tmp_path: Path) -> None:
    tables = open_swapping(tmp_path, ManifestSwap.REWRITE_TAIL)
    main = grow(tables, new_manifest(tables), swaps=3, rows=130)
    side = tables.fork(main, "side")
    before = values(tables, main)
    for number in range(3):
        side = landed(swap(tables, side, entries("graph_head:side", f"s{number}", value=number)))
    assert values(tables, side) == before | {"graph_head:side": 2, "s0": 0, "s1": 1, "s2": 2}
    assert values(tables, tables.open_at(MANIFEST)) == before
    replaced = landed(swap(tables, side, entries("graph_head:side", "r2-5", value=7)))
    assert values(tables, replaced)["r2-5"] == 7, "what was inherited can be replaced"
    main = landed(swap(tables, main, entries("graph_head:main", "r2-5", value=8)))
    assert values(tables, main)["r2-5"] == 8


def test_old_versions_can_go_and_swaps_go_on(tmp_path: Path) -> None:
    tables = open_swapping(tmp_path, ManifestSwap.REWRITE_TAIL)
    handle = grow(tables, new_manifest(tables), swaps=12, rows=130)
    before = values(tables, handle)
    tables.single_step.delete_versions(handle, range(1, handle.version))
    stranger = open_swapping(tmp_path, ManifestSwap.REWRITE_TAIL)
    opened = stranger.open_at(MANIFEST)
    assert values(stranger, opened) == before
    after = landed(swap(stranger, opened, entries("graph_head:main", "r3-5", value=4)))
    assert values(stranger, after) == before | {"graph_head:main": 4, "r3-5": 4}


def test_racing_publishers_build_one_chain(tmp_path: Path, form: ManifestSwap) -> None:
    tables = open_swapping(tmp_path, form)
    new_manifest(tables)

    def publish(writer: int) -> None:
        for step in range(8):
            while True:
                handle = tables.open_at(MANIFEST)
                rows = entries("graph_head:main", f"{writer}-{step}", value=handle.version + 1)
                outcome = swap(tables, handle, rows)
                if isinstance(outcome, Landed):
                    assert outcome.handle.version == handle.version + 1
                    break
                assert isinstance(outcome, Refused)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(publish, range(3)))
    final = tables.open_at(MANIFEST)
    seen = values(tables, final)
    assert final.version == 25
    assert sorted(value for key, value in seen.items() if "-" in key) == list(range(2, 26))


# --- branches -------------------------------------------------------------------------------


def test_a_branch_starts_as_its_source_and_goes_its_own_way(tables: Tables) -> None:
    main = create(tables, "a")
    branch = tables.fork(main, "team/feature")
    assert (branch.ref, branch.version) == (TableRef(PERSON.path, "team/feature"), main.version)
    theirs = append(tables, branch, "b")
    ours = append(tables, main, "c")
    assert theirs.version == ours.version == 3
    assert content(tables, tables.open_at(TableRef(PERSON.path, "team/feature"))) == {
        "a": 0,
        "b": 0,
    }
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "c": 0}


def test_every_change_works_on_a_branch_of_a_branch(tables: Tables) -> None:
    main = append(tables, create(tables, "a", "b"), "c")
    outer = append(tables, tables.fork(main, "outer"), "d")
    inner = tables.fork(outer, "inner")
    inner = commit(tables, tables.stage_upsert(inner, people("a", "e", age=2), mark(), key="id"))
    inner = commit(tables, tables.stage_delete(inner, "id IN ('b', 'd')", mark()))
    assert content(tables, inner) == {"a": 2, "c": 0, "e": 2}
    restored = landed(tables.restore(inner, to=outer.version, mark=mark()))
    assert content(tables, restored) == {"a": 0, "b": 0, "c": 0, "d": 0}
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0, "c": 0}
    assert {each.name: each.parent for each in tables.find_branches(PERSON.path)} == {
        "inner": "outer",
        "outer": None,
    }


def test_one_branch_is_found_as_all_are(tables: Tables) -> None:
    main = create(tables, "a")
    tables.fork(tables.fork(main, "outer"), "team/größe")
    for branch in tables.find_branches(PERSON.path):
        assert tables.find_branch(PERSON.path, branch.name) == branch
    assert tables.find_branch(PERSON.path, "team") is None


def test_forking_an_existing_branch_is_a_conflict(tables: Tables) -> None:
    main = create(tables, "a")
    tables.fork(main, "feature")
    with pytest.raises(ForkExists) as caught:
        tables.fork(main, "feature")
    assert caught.value.branch == "feature"


def test_racing_forks_have_one_winner(tables: Tables) -> None:
    main = create(tables, "a")
    gate = threading.Barrier(4)

    def race(_: int) -> bool:
        gate.wait()
        try:
            tables.fork(main, "feature")
        except ForkExists:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(race, range(4))).count(True) == 1
    assert [each.name for each in tables.find_branches(PERSON.path)] == ["feature"]


def test_a_branch_made_again_is_another_branch(tables: Tables) -> None:
    main = create(tables, "a")
    append(tables, tables.fork(main, "feature"), "old")
    (first,) = tables.find_branches(PERSON.path)
    tables.delete_branch(PERSON.path, "feature")
    assert tables.find_branches(PERSON.path) == ()
    with pytest.raises(TableNotFound):
        tables.open_at(TableRef(PERSON.path, "feature"))
    append(tables, tables.fork(main, "feature"), "new")
    (second,) = tables.find_branches(PERSON.path)
    assert first.identifier != second.identifier
    assert content(tables, tables.open_at(TableRef(PERSON.path, "feature"))) == {"a": 0, "new": 0}


def test_a_branch_with_children_or_without_existence_is_not_deleted(tables: Tables) -> None:
    main = create(tables, "a")
    tables.fork(tables.fork(main, "outer"), "inner")
    with pytest.raises(ForkInUse) as caught:
        tables.delete_branch(PERSON.path, "outer")
    assert caught.value.children == ("inner",)
    with pytest.raises(ForkInUse):
        tables.clear_branch(PERSON.path, "outer")
    with pytest.raises(ForkNotFound):
        tables.delete_branch(PERSON.path, "nope")
    tables.delete_branch(PERSON.path, "inner")
    tables.delete_branch(PERSON.path, "outer")


def test_clearing_removes_a_branch_its_remains_or_nothing(stores: Stores) -> None:
    tables, objects = stores.tables, stores.objects
    main = create(tables, "a")
    append(tables, tables.fork(main, "team/ghost"), "b")
    objects.delete(f"{PERSON.path}/{layout.branch_ref_file('team/ghost')}")
    with pytest.raises(ForkExists):
        tables.fork(main, "team/ghost")
    tables.clear_branch(PERSON.path, "team/ghost")
    assert not objects.exists(f"{PERSON.path}/tree/team/ghost")
    assert content(tables, append(tables, tables.fork(main, "team/ghost"), "c")) == {"a": 0, "c": 0}
    tables.clear_branch(PERSON.path, "team/ghost")
    tables.clear_branch(PERSON.path, "team/ghost")
    assert tables.find_branches(PERSON.path) == ()
    assert content(tables, tables.open_at(PERSON)) == {"a": 0}


def test_a_moved_graph_is_noticed_and_never_read_from_the_old_place(local: Stores) -> None:
    main = create(local.tables, "a")
    append(local.tables, local.tables.fork(main, "feature"), "b")
    old, new = Path(local.root.uri), Path(local.root.uri).with_name("moved")
    old.rename(new)
    moved = open_stores(str(new), REAL).tables
    assert content(moved, moved.open_at(PERSON)) == {"a": 0}
    with pytest.raises(GraphRelocated) as caught:
        moved.open_at(TableRef(PERSON.path, "feature"))
    assert caught.value.recorded == f"{old}/{PERSON.path}"
    assert caught.value.actual == f"{new}/{PERSON.path}"


def test_a_reader_maps_the_branches_of_a_moved_graph(local: Stores) -> None:
    main = create(local.tables, "a")
    first = append(local.tables, local.tables.fork(main, "feature"), "b")
    deep = append(local.tables, local.tables.fork(first, "nodes/deep"), "c")
    old, new = Path(local.root.uri), Path(local.root.uri).with_name("moved")
    old.rename(new)
    moved = open_stores(str(new), REAL, maps_bases=True).tables
    assert content(moved, moved.open_at(deep.ref)) == {"a": 0, "b": 0, "c": 0}
    assert content(moved, moved.open_at(deep.ref, first.version)) == {"a": 0, "b": 0}
    assert content(moved, moved.open_at(first.ref, main.version)) == {"a": 0}
    with pytest.raises(VersionNotFound):
        moved.open_at(first.ref, 99)


def test_a_version_file_is_re_rooted_and_stays_a_version(local: Stores) -> None:
    main = create(local.tables, "a")
    forked = append(local.tables, local.tables.fork(main, "feature"), "b")
    old, new = Path(local.root.uri), Path(local.root.uri).with_name("a longer name")
    old.rename(new)
    moved = open_stores(str(new), REAL)
    key = f"{PERSON.path}/tree/feature/{layout.version_file(forked.version)}"
    stored = moved.objects.read(key)
    data = moved.tables.reroot(PERSON.path, stored.data)
    assert data != stored.data
    assert moved.tables.reroot(PERSON.path, data) == data
    moved.objects.put_if_match(key, data, tag=stored.tag)
    assert content(moved.tables, moved.tables.open_at(forked.ref)) == {"a": 0, "b": 0}
    with pytest.raises(GraphRelocated):
        moved.tables.reroot("nodes/another", stored.data)
    for damage in (b"", b"LANC", stored.data[:-1], stored.data[40:], b"\0" * 99 + b"LANC"):
        with pytest.raises(TableCorrupt):
            moved.tables.reroot(PERSON.path, damage)


def test_the_same_place_through_a_symbolic_link_is_the_same_place(local: Stores) -> None:
    main = create(local.tables, "a")
    local.tables.fork(main, "feature")
    link = Path(local.root.uri).with_name("link")
    link.symlink_to(local.root.uri)
    through = open_stores(str(link), REAL).tables
    assert content(through, through.open_at(TableRef(PERSON.path, "feature"))) == {"a": 0}


# --- indices, compaction, versions ----------------------------------------------------------

DOCUMENT = schema(
    pa.field("id", pa.string(), nullable=False),
    pa.field("text", pa.string()),
    pa.field("vector", pa.list_(pa.float32(), 2)),
)
SPECS = [
    IndexSpec("id", IndexKind.BTREE),
    IndexSpec("text", IndexKind.INVERTED, {"with_position": True}),
    IndexSpec("vector", IndexKind.IVF_FLAT, {"num_partitions": 1}),
]


def documents(**texts: str) -> pa.Table:
    vectors = pa.array([[float(len(text)), 0.0] for text in texts.values()], DOCUMENT.field(2).type)
    columns = {"id": list(texts), "text": list(texts.values()), "vector": vectors}
    return pa.table(columns, schema=DOCUMENT)


def search(
    tables: Tables, handle: Handle, text: str, match: TextQueryMode = TextQueryMode.ANY
) -> set[str]:
    query = ScanRequest(columns=("id",), text=TextQuery("text", text, match))
    return set(texts(tables.read(handle, query), "id"))


def test_a_handle_is_readable_while_an_index_is_built_on_it(tables: Tables) -> None:
    names = [f"p{number:05}" for number in range(20_000)]
    handle = commit(tables, tables.stage_create(PERSON, SCHEMA, mark(), people(*names)))
    spec = IndexSpec("id", IndexKind.BTREE)
    with ThreadPoolExecutor(1) as builder:
        built = builder.submit(tables.stage_indices, handle, [spec], IndexScope.UNCOVERED, mark())
        while not built.done():
            tables.read(handle, ScanRequest(columns=("id",), where="id = 'p00007'"))
        assert built.result() is not None


def test_a_handle_is_readable_while_its_transactions_are_read(tables: Tables) -> None:
    handle = create(tables, "a", "b")
    reads = ScanRequest(columns=("id",), where="id = 'a'")
    with ThreadPoolExecutor(4) as readers:
        reading = [readers.submit(tables.read, handle, reads) for _ in range(200)]
        for _ in range(200):
            found = tables.find_transactions(handle, after=0)
            assert found
            assert TransactionKind.UNREADABLE not in {each.kind for each in found}
        assert {each.result().num_rows for each in reading} == {1}


def test_staged_indices_are_attached_extended_and_rebuilt(tables: Tables) -> None:
    handle = commit(
        tables,
        tables.stage_create(PERSON, DOCUMENT, mark(), documents(a="red fox", b="blue whale")),
    )
    handle = commit(tables, tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()))
    assert {index.name for index in tables.inspect(handle).indices} == {
        "id_idx",
        "text_idx",
        "vector_idx",
    }
    assert tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()) is None
    handle = commit(tables, tables.stage_append(handle, documents(c="green fox"), mark()))
    handle = commit(tables, tables.stage_upsert(handle, documents(a="grey wolf"), mark(), key="id"))
    expected = {"fox": {"c"}, "wolf": {"a"}, "whale": {"b"}, "red": set[str]()}
    assert {word: search(tables, handle, word) for word in expected} == expected
    handle = commit(tables, tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()))
    fragments = {each.fragment_id for each in tables.inspect(handle).fragments}
    assert all(fragments <= index.covered for index in tables.inspect(handle).indices)
    assert [index.segment_count for index in tables.inspect(handle).indices] == [2, 1, 2]
    assert {word: search(tables, handle, word) for word in expected} == expected
    handle = commit(tables, tables.stage_indices(handle, SPECS, IndexScope.REBUILD, mark()))
    assert [index.segment_count for index in tables.inspect(handle).indices] == [1, 1, 1]
    assert {word: search(tables, handle, word) for word in expected} == expected
    assert tables.read(handle, ScanRequest(where="id = 'c'")).num_rows == 1


NAMES = [each.name for each in SPECS]


def nearest_to(tables: Tables, handle: Handle, place: float) -> str:
    near = ScanRequest(columns=("id",), nearest=VectorQuery("vector", (place, 0.0), limit=1))
    return str(tables.read(handle, near)["id"][0])


def test_indices_that_were_built_on_an_earlier_version_fit_a_later_one(tables: Tables) -> None:
    rows = documents(a="red fox", b="blue whale", d="a red whale")
    first = commit(tables, tables.stage_create(PERSON, DOCUMENT, mark(), rows))
    built = tables.stage_indices(first, SPECS, IndexScope.UNCOVERED, mark())
    assert built is not None
    later = commit(tables, tables.stage_append(first, documents(c="green fox"), mark()))
    later = commit(
        tables, tables.stage_upsert(later, documents(a="one grey wolf"), mark(), key="id")
    )
    later = commit(tables, tables.stage_delete(later, "id = 'd'", mark()))
    handle = commit(tables, tables.restage_indices(built, later, NAMES, mark()))
    expected = {"fox": {"c"}, "wolf": {"a"}, "whale": {"b"}, "red": set[str]()}
    covered = [len(index.covered) for index in tables.inspect(handle).indices]
    assert covered == [1, 1, 1], "what came later is not known to them"
    extended = commit(tables, tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()))
    for each in (handle, extended):
        assert {word: search(tables, each, word) for word in expected} == expected
        assert [nearest_to(tables, each, place) for place in (13.0, 9.0, 7.0)] == ["a", "c", "c"]
        assert [tables.count(each, f"id = '{key}'") for key in "abcd"] == [1, 1, 1, 0]


def test_indices_that_no_longer_fit_are_not_attached(local: Stores) -> None:
    tables = local.tables
    first = commit(tables, tables.stage_create(PERSON, DOCUMENT, mark(), documents(a="red fox")))
    first = commit(tables, tables.stage_append(first, documents(b="blue whale"), mark()))
    built = tables.stage_indices(first, SPECS, IndexScope.UNCOVERED, mark())
    other = tables.stage_indices(first, SPECS[:1], IndexScope.UNCOVERED, mark())
    assert built is not None
    indexed = commit(tables, other)
    assert tables.restage_indices(built, indexed, NAMES, mark()) is None, "somebody was faster"
    rest = tables.restage_indices(built, indexed, NAMES[1:], mark())
    assert rest is not None, "but not with these"
    compaction = tables.stage_compaction(indexed)
    assert compaction is not None
    compacted = landed(tables.single_step.commit_compaction(compaction))
    assert tables.restage_indices(built, compacted, NAMES[1:], mark()) is None
    emptied = commit(tables, tables.stage_overwrite(compacted, DOCUMENT, mark()))
    assert tables.restage_indices(built, emptied, NAMES, mark()) is None


def test_searches_rank_and_filter_before_they_cut_off(local: Stores) -> None:
    tables = local.tables
    rows = documents(a="one fox", b="one fox two foxes", c="a whale", d="fox one")
    handle = commit(tables, tables.stage_create(PERSON, DOCUMENT, mark(), rows))
    handle = commit(tables, tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()))
    assert search(tables, handle, "one whale") == {"a", "b", "c", "d"}
    assert search(tables, handle, "one fox", TextQueryMode.ALL) == {"a", "b", "d"}
    assert search(tables, handle, "one fox", TextQueryMode.PHRASE) == {"a", "b"}
    nearest = VectorQuery("vector", (16.0, 0.0), limit=2, metric=Metric.L2)
    request = ScanRequest(columns=("id", "_distance"), nearest=nearest, where="id <> 'a'")
    found = tables.read(handle, request)
    assert found["id"].to_pylist()[0] == "b"
    assert found.num_rows == 2


def test_an_empty_table_has_nothing_to_index(local: Stores) -> None:
    tables = local.tables
    handle = commit(tables, tables.stage_create(PERSON, DOCUMENT, mark()))
    assert tables.stage_indices(handle, SPECS, IndexScope.UNCOVERED, mark()) is None


def test_compaction_takes_two_versions_and_keeps_rows_ids_and_indices(tables: Tables) -> None:
    handle = append(tables, append(tables, create(tables, "a"), "b"), "c")
    specs = [IndexSpec("id", IndexKind.BTREE)]
    handle = commit(tables, tables.stage_indices(handle, specs, IndexScope.UNCOVERED, mark()))
    before = row_ids(tables, handle)
    staged = tables.stage_compaction(handle)
    assert staged is not None
    assert staged.fragments_before == 3
    after = landed(tables.single_step.commit_compaction(staged))
    assert after.version == handle.version + 2
    assert row_ids(tables, after) == before
    anatomy = tables.inspect(after)
    assert len(anatomy.fragments) == 1
    assert anatomy.indices[0].covered == {anatomy.fragments[0].fragment_id}
    kinds = [each.kind for each in tables.find_transactions(after, after=handle.version)]
    assert kinds == [TransactionKind.COMPACTION, TransactionKind.COMPACTION]
    assert tables.stage_compaction(after) is None


def test_a_branch_compacts_no_fragment_that_an_inherited_index_covers(tables: Tables) -> None:
    """Lance would write the index into the branch and look for it in main."""
    main = append(tables, create(tables, "a", "b", "c", "d"), "e")
    specs = [IndexSpec("id", IndexKind.BTREE)]
    staged = tables.stage_indices(main, specs, IndexScope.UNCOVERED, mark())
    assert staged is not None
    indexed = landed(tables.commit_exact(staged))
    branch = tables.fork(indexed, "feature")
    for each in ("f", "g"):
        branch = append(tables, branch, each)
    branch = landed(tables.commit_exact(tables.stage_delete(branch, "id in ('a', 'b')", mark())))
    compaction = tables.stage_compaction(branch)
    assert compaction is not None
    assert sorted(each for group in compaction.groups for each in group.before) == [2, 3]
    after = landed(tables.single_step.commit_compaction(compaction))
    assert tables.count(after, "id = 'c'") == tables.count(after, "id = 'f'") == 1
    assert sorted(content(tables, after)) == ["c", "d", "e", "f", "g"]


def test_compaction_of_rows_that_changed_meanwhile_is_refused(local: Stores) -> None:
    tables = local.tables
    handle = append(tables, create(tables, "a"), "b")
    staged = tables.stage_compaction(handle)
    assert staged is not None
    commit(tables, tables.stage_upsert(handle, people("a", age=3), mark(), key="id"))
    assert isinstance(tables.single_step.commit_compaction(staged), Refused)
    assert content(tables, tables.open_at(PERSON)) == {"a": 3, "b": 0}


def test_versions_are_deleted_by_number_and_no_others(local: Stores) -> None:
    tables = local.tables
    handle = append(tables, append(tables, create(tables, "a"), "b"), "c")
    tables.single_step.delete_versions(handle, [2])
    assert [each.version for each in tables.find_versions(handle)] == [1, 3, 4]
    with pytest.raises(VersionNotFound):
        open_stores(local.root.uri, REAL).tables.open_at(PERSON, 2)
    seen = tables.find_transactions(tables.open_at(PERSON), after=1)
    assert [each.kind for each in seen] == [
        TransactionKind.UNREADABLE,
        TransactionKind.DATA,
        TransactionKind.DATA,
    ]
    assert content(tables, tables.open_at(PERSON)) == {"a": 0, "b": 0, "c": 0}


def test_settings_are_set_and_removed(tables: Tables) -> None:
    handle = create(tables)
    settings = TableSettings(
        config={"table_version_management": "true"},
        schema_metadata={"omnigraph:internal_schema_version": "4"},
        field_metadata={"id": {"lance-schema:unenforced-primary-key": "true"}},
    )
    handle = commit(tables, tables.stage_settings(handle, settings, mark()))
    assert tables.inspect(handle).config["table_version_management"] == "true"
    assert handle.schema.metadata == {b"omnigraph:internal_schema_version": b"4"}
    assert handle.schema.field("id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
    gone = TableSettings(config={"table_version_management": None})
    handle = commit(tables, tables.stage_settings(handle, gone, mark()))
    assert "table_version_management" not in tables.inspect(handle).config
