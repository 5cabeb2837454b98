"""The judge is judged: each rule of `testing.invariants` is broken once, and must be reported."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from omnigraph.commit.manifest.base import Bases, read_base
from omnigraph.commit.manifest.branches import create_branch
from omnigraph.commit.manifest.model import SCHEMA
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.snapshot import describe_table, open_pin
from omnigraph.commit.manifest.updates import CommitIntent, SetVersion, encode_commits, successor
from omnigraph.effects import REAL
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, Landed, Mark
from omnigraph.testing.invariants import check_graph, check_manifests, check_tables
from support.publishing import Place, lineage_only, new_intent, pin_at

A = TableKey("node:A")
SIDE = BranchName("side")


def append(stores: Stores, name: str) -> Handle:
    """Move a table for real, and publish nothing."""
    pin = read_base(stores, MAIN).manifest.pins[A]
    handle = open_pin(stores, pin)
    rows = pa.table({"id": [name], "name": [name]}, schema=handle.schema)
    staged = stores.tables.stage_append(handle, rows, Mark(REAL.new_id()))
    outcome = stores.tables.commit_exact(staged)
    assert isinstance(outcome, Landed)
    return outcome.handle


def write(stores: Stores, name: str) -> None:
    update = SetVersion(describe_table(stores, A, append(stores, name)))
    publish(stores, Bases(stores), Publication(MAIN, (new_intent(),), (update,)))


def force(stores: Stores, rows: pa.Table) -> None:
    """Append rows to the manifest, as no publisher would."""
    handle = read_base(stores, MAIN).handle
    staged = stores.tables.stage_append(handle, rows, Mark(REAL.new_id()))
    assert isinstance(stores.tables.commit_exact(staged), Landed)


@pytest.fixture
def stores(place: Place) -> Stores:
    """Two real commits on main, and a branch with one of its own."""
    stores = place.open()
    write(stores, "one")
    write(stores, "two")
    create_branch(stores, SIDE, read_base(stores, MAIN).handle)
    publish(stores, Bases(stores), lineage_only(SIDE))
    return stores


def test_nothing_is_found_in_a_graph_that_was_written_properly(stores: Stores) -> None:
    assert check_graph(stores) == []


def repeat_a_row(stores: Stores) -> None:
    rows = stores.tables.read(read_base(stores, MAIN).handle)
    force(stores, rows.slice(0, 1))


def fork_the_history(stores: Stores) -> None:
    """A commit beside the head: as if two publishers had both landed."""
    base = read_base(stores, MAIN).manifest
    stranger = CommitIntent(CommitId(REAL.new_id()), REAL.now_ms() * 1000)
    rows = successor(base, (), [stranger]).rows
    publish(stores, Bases(stores), lineage_only())
    force(stores, rows.slice(0, 1))


def point_the_head_elsewhere(stores: Stores) -> None:
    base = read_base(stores, MAIN)
    genesis = base.manifest.log.commits[0]
    rows = encode_commits([], branch=MAIN, head=genesis)
    swap = stores.tables.single_step.swap_rows
    swap(base.handle, rows, key="object_id", mark=Mark(REAL.new_id()))


def record_another_version(stores: Stores) -> None:
    """The newest commit says that the version before it shows it."""
    base = read_base(stores, MAIN)
    rows = stores.tables.read(base.handle).to_pylist()
    assert base.manifest.head is not None
    (row,) = [each for each in rows if each["object_id"] == base.manifest.head.id]
    row["table_version"] -= 1
    table = pa.Table.from_pylist([row], schema=SCHEMA)
    stores.tables.single_step.swap_rows(
        base.handle, table, key="object_id", mark=Mark(REAL.new_id())
    )


def pin_what_is_not_there(stores: Stores) -> None:
    publish(stores, Bases(stores), Publication(MAIN, (new_intent(),), (pin_at(A, 40),)))


def move_and_do_not_publish(stores: Stores) -> None:
    append(stores, "three")


def miscount(stores: Stores) -> None:
    handle = append(stores, "three")
    update = pin_at(A, handle.version, row_count=7)
    publish(stores, Bases(stores), Publication(MAIN, (new_intent(),), (update,)))


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (repeat_a_row, "stands in 2 rows"),
        (fork_the_history, "and says it follows"),
        (point_the_head_elsewhere, "the head is"),
        (record_another_version, "does not show it"),
    ],
)
def test_harm_to_a_manifest_is_found(
    stores: Stores, harm: Callable[[Stores], None], problem: str
) -> None:
    harm(stores)
    found = check_manifests(stores)
    assert any(problem in each.problem and each.branch == MAIN for each in found), found
    assert all(each.branch == MAIN for each in found), "the branch was left alone"


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (pin_what_is_not_there, "cannot be read"),
        (move_and_do_not_publish, "is at version 4, the manifest shows 3"),
        (miscount, "has 3 rows, the manifest says 7"),
    ],
)
def test_harm_to_a_table_is_found(
    stores: Stores, harm: Callable[[Stores], None], problem: str
) -> None:
    harm(stores)
    assert check_manifests(stores) == []
    (found,) = check_tables(stores)
    assert (found.branch, found.subject) == (MAIN, A)
    assert problem in found.problem
