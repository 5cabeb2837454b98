"""The manifest: the worked example of the format, row by row, and every refusal."""

from dataclasses import replace

import pyarrow as pa
import pytest

from omnigraph.commit.manifest.model import SCHEMA, Manifest, TableVersion, read_manifest
from omnigraph.commit.manifest.records import Extension, Idempotency, VersionFile
from omnigraph.commit.manifest.updates import (
    CommitIntent,
    DropTable,
    RegisterTable,
    SetVersion,
    Successor,
    Update,
    successor,
)
from omnigraph.errors import ExpectedVersionMismatch, ManifestCorrupt, UpdateRefused
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey, Version

PERSON, COMPANY, WORKS_AT = (
    TableKey("node:Person"),
    TableKey("node:Company"),
    TableKey("edge:WorksAt"),
)
FEATURE = BranchName("feature")
PATHS = {
    PERSON: "nodes/40d76f1f51639ec0",
    COMPANY: "nodes/7cb4e55c59663b1c",
    WORKS_AT: "edges/844eefbe5068b644",
}


def empty(branch: BranchName = MAIN, version: int = 0) -> Manifest:
    return read_manifest(SCHEMA.empty_table(), branch=branch, version=Version(version))


def at(
    key: TableKey, version: int, rows: int, owner: BranchName = MAIN, path: str = "p"
) -> SetVersion:
    return SetVersion(TableVersion(key, Version(version), owner, rows, VersionFile(path)))


def intent(commit_id: str, *, time: int = 0, **facts: object) -> CommitIntent:
    return CommitIntent(CommitId(commit_id), time, **facts)  # type: ignore[arg-type]  # checked by use


def follow(base: Manifest, commit: CommitIntent, *updates: Update) -> Successor:
    return successor(base, updates, [commit])


def on_branch(base: Manifest, branch: BranchName) -> Manifest:
    """A branch starts with its parent's rows and version."""
    return Manifest(branch, base.version, base.paths, base.latest, base.tombstones, base.log)


def initialised() -> Manifest:
    updates: list[Update] = []
    for key, path in PATHS.items():
        updates += [RegisterTable(key, path), at(key, 1, 0)]
    return successor(empty(), updates, [intent("G0", time=10)]).manifest


def as_found(step: Successor) -> list[dict[str, object]]:
    """The rows without their nulls, as the worked example prints them."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in step.rows.to_pylist()
    ]


def version_json(path: str) -> str:
    return f'{{"manifest_path":"{path}","manifest_size":null,"e_tag":null,"naming_scheme":"V2"}}'


def test_the_worked_example_of_the_format_row_by_row() -> None:
    base = replace(initialised(), version=Version(3))
    load = follow(
        base,
        intent("C1", time=11, actor="act-a"),
        at(PERSON, 5, 2, path="P5"),
        at(COMPANY, 4, 1, path="C4"),
    )
    assert as_found(load) == [
        {
            "object_id": "node:Company$00000000000000000004",
            "object_type": "table_version",
            "metadata": version_json("C4"),
            "table_key": "node:Company",
            "table_version": 4,
            "row_count": 1,
        },
        {
            "object_id": "node:Person$00000000000000000005",
            "object_type": "table_version",
            "metadata": version_json("P5"),
            "table_key": "node:Person",
            "table_version": 5,
            "row_count": 2,
        },
        {
            "object_id": "C1",
            "object_type": "graph_commit",
            "metadata": '{"parent_commit_id":"G0","actor_id":"act-a","created_at":11}',
            "table_key": "",
            "table_version": 4,
        },
        {
            "object_id": "graph_head:main",
            "object_type": "graph_head",
            "metadata": '{"head_commit_id":"C1","parent_commit_id":"G0"}',
            "table_key": "",
        },
    ]

    branched = follow(
        on_branch(load.manifest, FEATURE),
        intent("C2", time=12, actor="act-b"),
        at(PERSON, 6, 3, owner=FEATURE),
    )
    assert as_found(branched) == [
        {
            "object_id": "node:Person$00000000000000000006",
            "object_type": "table_version",
            "metadata": version_json("p"),
            "table_key": "node:Person",
            "table_version": 6,
            "table_branch": "feature",
            "row_count": 3,
        },
        {
            "object_id": "C2",
            "object_type": "graph_commit",
            "metadata": '{"parent_commit_id":"C1","actor_id":"act-b","created_at":12}',
            "table_key": "",
            "table_version": 5,
            "table_branch": "feature",
        },
        {
            "object_id": "graph_head:feature",
            "object_type": "graph_head",
            "metadata": '{"head_commit_id":"C2","parent_commit_id":"C1"}',
            "table_key": "",
        },
    ]

    merged = follow(
        load.manifest,
        intent("C3", time=13, actor="act-m", merged_parent=CommitId("C2")),
        at(PERSON, 6, 3),
    )
    assert as_found(merged)[1] == {
        "object_id": "C3",
        "object_type": "graph_commit",
        "metadata": '{"parent_commit_id":"C1","merged_parent_commit_id":"C2",'
        '"actor_id":"act-m","created_at":13}',
        "table_key": "",
        "table_version": 5,
    }


def test_the_first_commit_has_no_parent_and_pins_the_version_it_is_written_in() -> None:
    head = initialised().head
    assert head is not None
    assert (head.id, head.parent, head.manifest_version) == ("G0", None, 1)
    assert head.encode() == '{"created_at":10}'


def test_reading_the_rows_back_gives_the_manifest_that_wrote_them() -> None:
    first = successor(
        empty(),
        [step for key, path in PATHS.items() for step in (RegisterTable(key, path), at(key, 1, 0))],
        [intent("G0")],
    )
    second = follow(
        first.manifest, intent("C1", time=1), at(PERSON, 2, 7), DropTable(COMPANY, Version(2))
    )
    kept = [row for row in first.rows.to_pylist() if row["object_type"] != "graph_head"]
    rows = pa.Table.from_pylist([*kept, *second.rows.to_pylist()], schema=SCHEMA)
    found = read_manifest(rows, branch=MAIN, version=Version(2))
    assert found.pins == second.manifest.pins
    assert found.paths == second.manifest.paths
    assert found.tombstones == second.manifest.tombstones
    assert found.log.commits == second.manifest.log.commits
    assert found.head == second.manifest.head


def test_a_tombstone_hides_its_own_version_and_older_ones_only() -> None:
    dropped = follow(initialised(), intent("C1"), DropTable(PERSON, Version(1))).manifest
    assert PERSON not in dropped.pins
    assert dropped.version_of(PERSON) == 1
    revived = follow(dropped, intent("C2"), at(PERSON, 2, 0)).manifest
    assert revived.pins[PERSON].version == 2


def test_the_greatest_version_wins_whatever_branch_owns_it() -> None:
    rows = pa.Table.from_pylist(
        [
            *successor(
                empty(), [RegisterTable(PERSON, "nodes/x"), at(PERSON, 9, 1)], [intent("G0")]
            ).rows.to_pylist(),
            {
                "object_id": "node:Person$00000000000000000003",
                "object_type": "table_version",
                "metadata": VersionFile("q").encode(),
                "table_key": PERSON,
                "table_version": 3,
                "table_branch": "feature",
                "row_count": 5,
            },
        ],
        schema=SCHEMA,
    )
    pin = read_manifest(rows, branch=MAIN, version=Version(1)).pins[PERSON]
    assert (pin.version, pin.owner) == (9, MAIN)


def test_the_head_is_the_newest_by_version_then_time_then_id() -> None:
    def commit_row(name: str, version: int, time: int) -> dict[str, object]:
        return {
            "object_id": name,
            "object_type": "graph_commit",
            "metadata": f'{{"created_at":{time}}}',
            "table_key": "",
            "table_version": version,
        }

    rows = pa.Table.from_pylist(
        [
            commit_row("Z", 1, 99),
            commit_row("A", 2, 5),
            commit_row("B", 2, 6),
            commit_row("C", 2, 6),
            commit_row("D", 2, 1),
        ],
        schema=SCHEMA,
    )
    manifest = read_manifest(rows, branch=MAIN, version=Version(2))
    assert manifest.head is not None
    assert manifest.head.id == "C"
    assert [each.id for each in manifest.log.commits] == ["Z", "D", "A", "B", "C"]


def test_two_commits_of_one_publish_stand_on_each_other() -> None:
    step = successor(
        initialised(),
        [],
        [intent("C1", time=11), intent("R1", time=12, actor="omnigraph:recovery")],
    )
    assert [(each.id, each.parent) for each in step.commits] == [("C1", "G0"), ("R1", "C1")]
    assert {each.manifest_version for each in step.commits} == {2}
    assert step.manifest.head == step.commits[1]
    assert [row["object_id"] for row in step.rows.to_pylist()].count("graph_head:main") == 1


def test_rows_of_unknown_types_are_skipped() -> None:
    rows = pa.Table.from_pylist(
        [
            *follow(
                empty(), intent("G0"), RegisterTable(PERSON, "nodes/x"), at(PERSON, 1, 0)
            ).rows.to_pylist(),
            {"object_id": "future", "object_type": "graph_weather", "table_key": ""},
        ],
        schema=SCHEMA,
    )
    assert list(read_manifest(rows, branch=MAIN, version=Version(1)).pins) == [PERSON]


def test_carried_ancestors_are_found_but_never_become_the_head() -> None:
    side = follow(on_branch(initialised(), FEATURE), intent("S1", time=99)).commits[0]
    merge = follow(
        initialised(), intent("M1", time=20, merged_parent=CommitId("S1"), carried=(side,))
    )
    (row,) = [row for row in merge.rows.to_pylist() if row["object_type"] == "graph_ancestor"]
    assert row["object_id"] == "ancestor:S1"
    read_back = read_manifest(merge.rows, branch=MAIN, version=Version(2))
    for manifest in (merge.manifest, read_back):
        assert manifest.log.ancestors == (side,)
        assert manifest.head is not None
        assert manifest.head.id == "M1"


def test_what_we_say_beyond_the_format_survives_and_comes_last() -> None:
    extension = Extension(
        operation_id=OperationId("01OP"),
        idempotency=Idempotency("k", "h", {"affected": 1}),
        schema_hash="sha256:00",
        recovery={"kind": "RolledBack"},
    )
    step = follow(initialised(), intent("C1", extension=extension))
    metadata = step.rows.to_pylist()[0]["metadata"]
    assert metadata.startswith('{"parent_commit_id":"G0","created_at":0,"ext":{')
    found = read_manifest(step.rows, branch=MAIN, version=Version(2)).log.find(CommitId("C1"))
    assert found is not None
    assert found.extension == extension


def test_a_reader_ignores_keys_it_does_not_know() -> None:
    row = {
        "object_id": "C9",
        "object_type": "graph_commit",
        "metadata": '{"created_at":1,"mood":"good","ext":{"operation_id":"o","more":[1]}}',
        "table_key": "",
        "table_version": 1,
    }
    rows = pa.Table.from_pylist([row], schema=SCHEMA)
    head = read_manifest(rows, branch=MAIN, version=Version(1)).head
    assert head is not None
    assert head.extension == Extension(operation_id=OperationId("o"))


@pytest.mark.parametrize(
    ("updates", "reason"),
    [
        ([RegisterTable(PERSON, "elsewhere")], "registered at"),
        ([at(TableKey("node:Ghost"), 1, 0)], "not registered"),
        ([DropTable(TableKey("node:Ghost"), Version(1))], "not registered"),
        ([at(PERSON, 1, 0)], "published already"),
        ([at(PERSON, 1, 5, owner=FEATURE)], "published already"),
        ([at(PERSON, 2, 0), at(PERSON, 3, 0)], "two versions"),
    ],
)
def test_what_the_manifest_excludes_is_refused(updates: list[Update], reason: str) -> None:
    with pytest.raises(UpdateRefused, match=reason):
        successor(initialised(), updates, [intent("C1")])


def test_a_lower_version_is_never_published() -> None:
    base = follow(initialised(), intent("C1"), at(PERSON, 7, 1)).manifest
    with pytest.raises(UpdateRefused, match="hidden behind version 7"):
        follow(base, intent("C2"), at(PERSON, 6, 1, owner=FEATURE))


def test_a_version_may_change_hands_when_nothing_else_changes() -> None:
    after = follow(initialised(), intent("C1"), at(PERSON, 1, 0, owner=FEATURE)).manifest
    assert after.pins[PERSON].owner == FEATURE


def test_a_table_is_dropped_once() -> None:
    dropped = follow(initialised(), intent("C1"), DropTable(PERSON, Version(2))).manifest
    with pytest.raises(UpdateRefused, match="dropped already"):
        follow(dropped, intent("C2"), DropTable(PERSON, Version(2)))


def test_registering_a_table_again_at_its_path_is_allowed() -> None:
    assert follow(initialised(), intent("C1"), RegisterTable(PERSON, PATHS[PERSON])).manifest.pins


def test_an_expectation_that_fails_carries_the_facts() -> None:
    base = follow(initialised(), intent("C1"), DropTable(COMPANY, Version(2))).manifest
    base.check_expected({PERSON: Version(1), COMPANY: Version(2), TableKey("node:New"): Version(0)})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        base.check_expected({PERSON: Version(4)})
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == (PERSON, 4, 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"object_id": "t", "object_type": "table", "table_key": "t"}, "location"),
        (
            {
                "object_id": "t$1",
                "object_type": "table_version",
                "table_key": "t",
                "table_version": 1,
                "row_count": 0,
                "metadata": VersionFile("p").encode(),
            },
            "not registered",
        ),
    ],
)
def test_rows_that_contradict_themselves_are_named(row: dict[str, object], reason: str) -> None:
    rows = pa.Table.from_pylist([row], schema=SCHEMA)
    with pytest.raises(ManifestCorrupt, match=reason):
        read_manifest(rows, branch=MAIN, version=Version(1))


@pytest.mark.parametrize(
    "metadata", [None, "", "[]", "{", '{"created_at":"x"}', '{"created_at":true}', "{}"]
)
def test_a_commit_that_cannot_be_decoded_is_named(metadata: str | None) -> None:
    row = {
        "object_id": "C7",
        "object_type": "graph_commit",
        "table_key": "",
        "table_version": 1,
        "metadata": metadata,
    }
    manifest = read_manifest(
        pa.Table.from_pylist([row], schema=SCHEMA), branch=MAIN, version=Version(1)
    )
    with pytest.raises(ManifestCorrupt, match="C7"):
        _ = manifest.head
