"""Sidecars as bytes: ours round-trip, old ones keep their meaning, damage is named."""

import json
from dataclasses import replace

import pytest

from omnigraph.commit.compat.old_sidecar import OldMode, OldSidecar
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.model import TableVersion
from omnigraph.commit.manifest.records import (
    Commit,
    Extension,
    GroupPlace,
    Idempotency,
    VersionFile,
)
from omnigraph.commit.manifest.updates import CommitIntent, DropTable, RegisterTable, SetVersion
from omnigraph.commit.recovery.sidecar import PinnedWrite, Sidecar
from omnigraph.commit.recovery.sidecar_store import (
    find_sidecars,
    lock_keys_of,
    read_sidecar,
    remove_sidecar,
    write_sidecar,
)
from omnigraph.effects import REAL
from omnigraph.errors import SidecarCorrupt, SidecarTooNew
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey, Version
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import open_objects

PERSON = TableKey("node:Person")
SIDE = BranchName("side")
OPERATION = OperationId("01JZ8Q4T9K6V3M2N7R5W1X0ABC")

CARRIED = Commit(CommitId("S1"), SIDE, Version(3), CommitId("G0"), None, "bo", 7)
WHOLE = Sidecar(
    operation_id=OPERATION,
    kind=WriterKind.BRANCH_MERGE,
    branch=SIDE,
    branch_identifier="abc",
    started_at_us=1782400000123456,
    writes=(
        PinnedWrite(PERSON, "nodes/x", SIDE, Version(5), is_fork=True, transactions=("u1", "u2")),
        PinnedWrite(
            TableKey("node:Company"),
            "nodes/y",
            SIDE,
            Version(2),
            is_fork=False,
            transactions=(),
            confirmed=Version(4),
        ),
    ),
    updates=(
        RegisterTable(TableKey("node:New"), "nodes/z"),
        SetVersion(TableVersion(TableKey("node:New"), Version(1), MAIN, 0, VersionFile("p"))),
        DropTable(TableKey("node:Old"), Version(9)),
    ),
    reads={TableKey("node:Read"): Version(3)},
    intents=(
        CommitIntent(
            CommitId("C1"),
            1782400000123456,
            "act-m",
            CommitId("S1"),
            Extension(OPERATION, Idempotency("k", "h", {"n": 1}), "sha256:0"),
            (CARRIED,),
        ),
    ),
)


@pytest.fixture
def objects() -> Objects:
    return open_objects("memory://", REAL)


def put(objects: Objects, document: object, name: str = OPERATION) -> None:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    objects.put_over(f"__recovery/{name}.json", data)


def test_ours_is_read_as_it_was_written(objects: Objects) -> None:
    write_sidecar(objects, WHOLE)
    assert read_sidecar(objects, OPERATION) == WHOLE
    remove_sidecar(objects, OPERATION)
    assert read_sidecar(objects, OPERATION) is None


def test_ours_holds_no_absolute_path(objects: Objects) -> None:
    write_sidecar(objects, WHOLE)
    document = json.loads(objects.read(f"__recovery/{OPERATION}.json").data)
    assert document["schema_version"] == 3
    assert [each["table_path"] for each in document["tables"]] == ["nodes/x", "nodes/y"]


def test_confirming_adds_what_was_reached_to_every_table() -> None:
    reached = {PERSON: Version(7), TableKey("node:Company"): Version(4)}
    assert [each.confirmed for each in WHOLE.confirm(reached).writes] == [7, 4]


def test_sidecars_are_found_oldest_first_and_nothing_else_is(objects: Objects) -> None:
    assert find_sidecars(objects) == ()
    for name in ("01B.json", "01A.json", "note.txt", "deep/01C.json"):
        objects.put_over(f"__recovery/{name}", b"{}")
    assert find_sidecars(objects) == ("01A", "01B")


OLD = {
    "schema_version": 2,
    "operation_id": OPERATION,
    "started_at": "1782400000123456",
    "branch": None,
    "actor_id": "act-m",
    "writer_kind": "BranchMerge",
    "tables": [
        {
            "table_key": "node:Person",
            "table_path": "s3://bucket/kb/nodes/40d76f1f51639ec0",
            "expected_version": 5,
            "post_commit_pin": 6,
            "confirmed_version": 6,
        }
    ],
    "merge_source_commit_id": "01JZ8Q3F0H2D9C8B7A6Z5Y4XWV",
}


def test_a_sidecar_of_version_2_is_read_with_its_own_meaning(objects: Objects) -> None:
    put(objects, OLD)
    found = read_sidecar(objects, OPERATION)
    assert isinstance(found, OldSidecar)
    assert (found.version, found.kind, found.branch) == (2, WriterKind.BRANCH_MERGE, MAIN)
    assert found.pins[0].confirmed == 6
    assert found.merge_source == "01JZ8Q3F0H2D9C8B7A6Z5Y4XWV"
    assert lock_keys_of(found) == [("node:Person", "main")]


@pytest.mark.parametrize(
    ("version", "kind", "mode"),
    [
        (1, "Mutation", OldMode.STRICT),
        (2, "Load", OldMode.STRICT),
        (1, "BranchMerge", OldMode.LOOSE),
        (2, "BranchMerge", OldMode.CONFIRMED),
        (2, "SchemaApply", OldMode.LOOSE),
        (2, "EnsureIndices", OldMode.LOOSE),
        (2, "Optimize", OldMode.LOOSE),
    ],
)
def test_the_writer_and_the_version_say_how_strictly_numbers_count(
    objects: Objects, version: int, kind: str, mode: OldMode
) -> None:
    put(objects, {**OLD, "schema_version": version, "writer_kind": kind})
    found = read_sidecar(objects, OPERATION)
    assert isinstance(found, OldSidecar)
    assert found.mode is mode


def test_the_oldest_sidecars_lack_everything_that_came_later(objects: Objects) -> None:
    pin = {
        "table_key": "node:Person",
        "table_path": "/g/nodes/x",
        "expected_version": 1,
        "post_commit_pin": 2,
    }
    put(
        objects,
        {
            "schema_version": 1,
            "operation_id": OPERATION,
            "started_at": "1",
            "writer_kind": "Load",
            "tables": [pin],
        },
    )
    found = read_sidecar(objects, OPERATION)
    assert isinstance(found, OldSidecar)
    assert (found.actor, found.merge_source, found.registrations) == (None, None, ())
    assert found.pins[0].branch == MAIN


def test_a_newer_sidecar_is_refused_by_its_number(objects: Objects) -> None:
    put(objects, {"schema_version": 5, "whatever": True})
    with pytest.raises(SidecarTooNew, match="upgrade"):
        read_sidecar(objects, OPERATION)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xff",
        [],
        {},
        {"schema_version": "2"},
        {**OLD, "writer_kind": "Weather"},
        {**OLD, "started_at": 5},
        {**OLD, "tables": {}},
        {**OLD, "tables": [5]},
        {**OLD, "tables": [{"table_key": "node:Person"}]},
        {**OLD, "operation_id": "01ANOTHER"},
        {"schema_version": 3},
        {**json.loads(WHOLE.encode()), "lineage": None},
        {**json.loads(WHOLE.encode()), "read_set": {"t": "x"}},
        {**json.loads(WHOLE.encode()), "manifest_delta": [{"kind": "?", "table_key": "t"}]},
    ],
)
def test_damage_is_named_with_its_file(objects: Objects, damage: object) -> None:
    put(objects, damage)
    with pytest.raises(SidecarCorrupt, match=OPERATION):
        read_sidecar(objects, OPERATION)


def test_a_group_is_version_4_and_lists_every_member_with_its_actor(objects: Objects) -> None:
    group = replace(
        WHOLE,
        intents=(
            CommitIntent(
                CommitId("M1"),
                5,
                "act-a",
                extension=Extension(OPERATION, group=GroupPlace("G", 0, 2, {PERSON: ("p",)})),
            ),
            CommitIntent(
                CommitId("M2"),
                6,
                None,
                extension=Extension(OPERATION, group=GroupPlace("G", 1, 2)),
                touched={PERSON: ("q" * 2_000,)},
            ),
        ),
    )
    write_sidecar(objects, group)
    assert read_sidecar(objects, OPERATION) == group
    written = json.loads(objects.read(f"__recovery/{OPERATION}.json").data)
    assert written["schema_version"] == 4
    assert [each["actor_id"] for each in written["lineage"]] == ["act-a", None]
    assert json.loads(WHOLE.encode())["schema_version"] == 3, "a lone write stays as it was"


def test_a_group_without_members_is_refused(objects: Objects) -> None:
    put(objects, {"schema_version": 4, "operation_id": OPERATION, "lineage": []})
    with pytest.raises(SidecarCorrupt, match="names no commit"):
        read_sidecar(objects, OPERATION)
