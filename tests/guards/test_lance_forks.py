"""What we believe of Lance: which files make a branch, and that they may be carried to a store.

`storage.lance.fork_files` lets Lance make a branch of a copy of one version file, and puts the
three files elsewhere. They are compared with the branch that Lance makes of the table itself.
"""

import json
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.effects import REAL
from omnigraph.errors import ForkExists
from omnigraph.storage.durability import Durability
from omnigraph.storage.lance import version_file
from omnigraph.storage.lance.fork_files import read_fork, write_fork
from omnigraph.storage.lance.store import LanceStore
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import TableRef

TIMESTAMP = 7
TRANSACTION_FILE = 12
BRANCH = 20


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"id": [f"r{each}" for each in range(first, last)]})


@pytest.fixture
def store(tmp_path: Path) -> LanceStore:
    """A table with two files, an index and a deletion, and a branch with rows of its own."""
    table = tmp_path / "g" / "t"
    main = lance.write_dataset(rows(0, 20), table, enable_stable_row_ids=True)
    main.create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(20, 30), table, mode="append")
    lance.dataset(table).delete("id = 'r3'")
    lance.dataset(table).create_branch("a/b", 4)
    lance.write_dataset(rows(30, 35), lance.dataset(table / "tree/a/b"), mode="append")
    tables = open_stores(str(tmp_path / "g"), REAL, durability=Durability.RELAXED).tables
    assert isinstance(tables, LanceTables)
    return replace(tables.store, is_remote=True)


def described(table: Path, branch: str) -> tuple[list[tuple[int, bytes]], bytes, object]:
    """The version, the transaction and the ref of a new branch, without what always differs."""
    (file,) = (table / "tree" / branch / "_versions").glob("*.manifest")
    (transaction,) = (table / "tree" / branch / "_transactions").iterdir()
    name, uuid = branch.encode(), transaction.stem.partition("-")[2].encode()
    data = file.read_bytes()
    assert version_file.find_transaction(data) == transaction.name
    fields = sorted(
        (each.number, each.content)
        for each in version_file._fields(version_file.description_of(data))
        if each.number not in {TIMESTAMP, TRANSACTION_FILE, BRANCH}
    )
    above = data[: data.index(version_file.description_of(data)) - 4]
    head = above.replace(uuid, b"-" * len(uuid)).replace(name, b"x" * len(name))
    ref = json.loads((table / "_refs/branches" / f"{branch}.json").read_text())
    *inherited, (forked_at, _) = ref["identifier"]["version_mapping"]
    told = (inherited, forked_at, ref["parentBranch"], ref["parentVersion"], ref["manifestSize"])
    message = transaction.read_bytes().replace(uuid, b"-" * len(uuid))
    return fields, head + message.replace(name, b"x" * len(name)), told


@pytest.mark.parametrize("parent", [None, "a/b"])
def test_a_carried_branch_has_the_files_that_lance_writes(
    store: LanceStore, parent: str | None
) -> None:
    source = store.open(TableRef("t", parent))
    store.reopen(source).create_branch("by-lance", source.version)
    forked = write_fork(store, source, "by-hands", read_fork(store, source, "by-hands"))
    table = Path(store.root.uri, "t")
    assert described(table, "by-lance") == described(table, "by-hands")
    assert forked.version == source.version


@pytest.mark.parametrize("parent", [None, "a/b"])
def test_lance_reads_writes_and_deletes_a_carried_branch(
    store: LanceStore, parent: str | None
) -> None:
    table = Path(store.root.uri, "t")
    source = store.open(TableRef("t", parent))
    write_fork(store, source, "new", read_fork(store, source, "new"))
    expected = source.dataset.to_table()
    opened = lance.dataset(table).checkout_version(("new", None))
    assert opened.to_table() == expected
    assert opened.to_table(filter="id = 'r7'").num_rows == 1
    assert "ScalarIndexQuery" in opened.scanner(filter="id = 'r7'").explain_plan()
    lance.write_dataset(rows(50, 52), lance.dataset(table / "tree/new"), mode="append")
    assert lance.dataset(table / "tree/new").count_rows() == expected.num_rows + 2
    assert source.dataset.count_rows() == expected.num_rows
    assert "new" in lance.dataset(table).branches.list()
    assert lance.dataset(table).branches.list()["new"]["parent_branch"] == parent
    lance.dataset(table).branches.delete("new")
    assert "new" not in lance.dataset(table).branches.list()


def test_the_dataset_of_a_carried_branch_can_be_committed_to(store: LanceStore) -> None:
    """It was opened from the bytes that were put, without reading them back."""
    source = store.open(TableRef("t"))
    forked = write_fork(store, source, "new", read_fork(store, source, "new"))
    assert forked.dataset.to_table(filter="id = 'r7'").num_rows == 1
    fragments = lance.fragment.write_fragments(rows(50, 52), forked.dataset)
    change = lance.Transaction(forked.version, lance.LanceOperation.Append(fragments))
    landed = lance.LanceDataset.commit(forked.dataset, change, max_retries=0)
    assert landed.version == forked.version + 1
    assert Path(store.root.uri, "t/tree/new/data").exists()
    assert lance.dataset(Path(store.root.uri, "t/tree/new")).count_rows() == 31


def test_a_branch_that_exists_or_left_versions_is_not_carried(store: LanceStore) -> None:
    source = store.open(TableRef("t"))
    files = read_fork(store, source, "new")
    write_fork(store, source, "new", files)
    with pytest.raises(ForkExists):
        write_fork(store, source, "new", files)
    with pytest.raises(ForkExists):
        read_fork(store, source, "new")
    Path(store.root.uri, files.ref[0]).unlink()
    with pytest.raises(ForkExists):
        read_fork(store, source, "new")
