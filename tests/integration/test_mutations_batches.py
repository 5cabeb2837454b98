"""Writing rows from Python without a query: insert, upsert, delete."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.write.violations import ViolationKind
from omnigraph.errors import (
    ConstraintViolation,
    KeyConflict,
    TypeUnknown,
    UsageError,
)
from omnigraph.ids import BranchName
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from support.mutations import Tables, read_tables

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    born: Date?
    seen: DateTime?
    tags: [String]?
    vec: Vector(2)?
}
node Visit { at: DateTime  note: String? }
node Shelf { row: I32  open: Bool  label: String?  @key(row, open) }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture(params=["main", "side"])
def branch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def graph(tmp_path: Path, branch: str) -> Iterator[LocalGraph]:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "ann", "age": 1}, {"name": "bob"}])
    made.insert("Knows", [{"id": "k1", "from": "ann", "to": "bob"}])
    if branch != "main":
        made.branches.create(branch)
    yield made
    assert check_graph(open_stores(made.uri, REAL, durability=Durability.RELAXED)) == []


def tables(graph: LocalGraph, branch: str) -> Tables:
    stores = open_stores(graph.uri, REAL, durability=Durability.RELAXED)
    return read_tables(graph._graph, stores, BranchName(branch))


def test_rows_come_as_json_or_as_python_values(graph: LocalGraph, branch: str) -> None:
    paris = timezone(timedelta(hours=2))
    result = graph.insert(
        "Person",
        [
            {"name": "a", "born": "2024-05-01", "seen": "2024-05-01T08:00:00Z", "vec": [1, 2]},
            {"name": "b", "born": date(2024, 5, 1), "seen": datetime(2024, 5, 1, 8, tzinfo=UTC)},
            {"name": "c", "born": 19844, "seen": datetime(2024, 5, 1, 10, tzinfo=paris)},
            {"name": "d", "seen": 1_714_550_400_000, "tags": ["x"], "age": None},
        ],
        branch=branch,
        actor="dana",
    )
    assert (result.affected_nodes, result.query_name, result.actor) == (4, None, "dana")
    people = tables(graph, branch)["Person"]
    assert [people[each]["born"] for each in "abc"] == [19844] * 3
    assert [people[each]["seen"] for each in "abcd"] == [1_714_550_400_000] * 4
    assert (people["a"]["vec"], people["d"]["tags"]) == ((1.0, 2.0), ("x",))


def test_insert_refuses_rows_that_exist_and_writes_none(graph: LocalGraph, branch: str) -> None:
    with pytest.raises(KeyConflict) as caught:
        graph.insert("Person", [{"name": "new"}, {"name": "bob"}, {"name": "ann"}], branch=branch)
    assert (caught.value.type_name, caught.value.ids) == ("Person", ("ann", "bob"))
    with pytest.raises(KeyConflict):
        graph.insert("Knows", [{"id": "k1", "from": "bob", "to": "bob"}], branch=branch)
    assert set(tables(graph, branch)["Person"]) == {"ann", "bob"}


def test_upsert_replaces_whole_rows_and_keeps_their_place(graph: LocalGraph, branch: str) -> None:
    result = graph.upsert(
        "Person", [{"name": "ann", "born": "2000-01-01"}, {"name": "new"}], branch=branch
    )
    assert result.affected_nodes == 2
    people = tables(graph, branch)["Person"]
    assert set(people) == {"ann", "bob", "new"}
    assert (people["ann"]["age"], people["ann"]["born"]) == (None, 10957)


def test_nodes_without_a_key_take_an_id_or_get_one(graph: LocalGraph, branch: str) -> None:
    graph.insert("Visit", [{"at": 0}, {"at": 1, "id": "v1"}], branch=branch)
    graph.upsert("Visit", [{"at": 2, "id": "v1"}, {"at": 3}], branch=branch)
    visits = tables(graph, branch)["Visit"]
    assert sorted(str(row["at"]) for row in visits.values()) == ["0", "2", "3"]
    assert visits["v1"]["at"] == 2


def test_a_given_id_must_be_the_one_the_key_spells(graph: LocalGraph, branch: str) -> None:
    graph.insert("Shelf", [{"row": 1, "open": True, "id": '["true","1"]'}], branch=branch)
    with pytest.raises(ConstraintViolation) as caught:
        graph.insert("Shelf", [{"row": 1, "open": False, "id": "mine"}], branch=branch)
    assert caught.value.violations[0].kind == ViolationKind.KEY


def test_delete_by_id_takes_edges_along_and_ignores_strangers(
    graph: LocalGraph, branch: str
) -> None:
    result = graph.delete("Person", ["bob", "stranger", "bob"], branch=branch)
    assert (result.affected_nodes, result.affected_edges) == (1, 1)
    shown = tables(graph, branch)
    assert (set(shown["Person"]), shown["Knows"]) == ({"ann"}, {})
    assert graph.delete("Person", ["stranger"], branch=branch).commit is None


def test_edges_are_deleted_by_id(graph: LocalGraph, branch: str) -> None:
    result = graph.delete("Knows", ["k1"], branch=branch)
    assert (result.affected_nodes, result.affected_edges) == (0, 1)


def test_nothing_to_write_is_nothing_written(graph: LocalGraph, branch: str) -> None:
    before = graph.commits(branch)[0].id
    assert graph.insert("Person", [], branch=branch).commit is None
    assert graph.upsert("Person", [], branch=branch).commit is None
    assert graph.delete("Person", [], branch=branch).commit is None
    assert graph.commits(branch)[0].id == before


def test_everything_wrong_with_the_rows_is_told_at_once(graph: LocalGraph, branch: str) -> None:
    with pytest.raises(ConstraintViolation) as caught:
        graph.insert(
            "Person",
            [
                {"name": "x", "age": "3"},
                {"name": "y", "agee": 3, "tags": ["a", None]},
                {"age": 3},
                {"name": "x"},
            ],
            branch=branch,
        )
    told = [(each.kind, each.message) for each in caught.value.violations]
    assert [kind for kind, _ in told] == [
        ViolationKind.VALUE,
        ViolationKind.UNKNOWN_PROPERTY,
        ViolationKind.VALUE,
        ViolationKind.REQUIRED,
        ViolationKind.KEY,
    ]
    messages = [message for _, message in told]
    assert messages[0] == "row 1: Person.age is I32?: expected an integer, got a string"
    assert "did you mean 'age'?" in messages[1]
    assert "element 2: expected a string, got null" in messages[2]
    assert messages[3].startswith("row 3: missing required property 'name' of Person")
    assert messages[4] == "@unique violation on Person.name: 'x' is given by rows 1 and 4"


def test_an_edge_needs_both_ends(graph: LocalGraph, branch: str) -> None:
    with pytest.raises(ConstraintViolation) as caught:
        graph.insert("Knows", [{"from": "ann"}, {"from": 3, "to": "bob"}], branch=branch)
    assert [(each.kind, each.property_name) for each in caught.value.violations] == [
        (ViolationKind.REQUIRED, "to"),
        (ViolationKind.VALUE, "from"),
    ]


def test_wrong_calls_are_told_apart(graph: LocalGraph, branch: str) -> None:
    with pytest.raises(TypeUnknown, match="did you mean 'Person'"):
        graph.insert("person", [], branch=branch)
    with pytest.raises(TypeUnknown):
        graph.delete("Nobody", ["x"], branch=branch)
    with pytest.raises(UsageError):
        graph.delete("Person", "ann", branch=branch)
    with pytest.raises(UsageError):
        graph.insert("Person", ["ann"], branch=branch)


def test_more_rows_than_one_filter_can_name(graph: LocalGraph, branch: str) -> None:
    names = [f"p{n:04}" for n in range(1300)]
    graph.insert("Person", [{"name": each, "age": 1} for each in names], branch=branch)
    again = [{"name": each, "age": 2} for each in names[::2]]
    assert graph.upsert("Person", again, branch=branch).affected_nodes == 650
    ages = Counter(row["age"] for row in tables(graph, branch)["Person"].values())
    assert (ages[1], ages[2]) == (651, 650)
    assert graph.delete("Person", names, branch=branch).affected_nodes == 1300
