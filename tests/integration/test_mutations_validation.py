"""What the schema forbids, on real storage: against the write itself and against what is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.write.violations import ViolationKind
from omnigraph.errors import ConstraintViolation
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph

SCHEMA = """
node Person {
    name: String @key
    mail: String? @unique
    age: I64?
    ratio: F64?
    code: String?
    mood: enum(glad, sad)?
    born: Date?
    shelf: I32?
    slot: F32?
    @range(age, 0..150)
    @range(ratio, ..1.5)
    @check(code, "^[A-Z]+$")
    @unique(born)
    @unique(shelf, slot)
}
node Team { name: String @key }
edge Knows: Person -> Person @card(0..2) { since: I32?  mood: enum(glad, sad)? }
edge Joined: Person -> Team @card(1..2) { @unique(src, dst) }
edge Pairs: Person -> Person @card(2..) { role: String? @unique }
"""


@pytest.fixture(params=["main", "side"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["Writer"]:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": each} for each in ("ann", "bob", "cy")])
    made.insert("Team", [{"name": "t1"}, {"name": "t2"}, {"name": "t3"}])
    if request.param != "main":
        made.branches.create(request.param)
    yield Writer(made, request.param)
    assert check_graph(open_stores(made.uri, REAL, durability=Durability.RELAXED)) == []


class Writer:
    def __init__(self, graph: LocalGraph, branch: str) -> None:
        self.graph = graph
        self.branch = branch

    def run(self, statements: str, /, **params: object) -> None:
        declared = {str: "String", int: "I64", float: "F64"}
        listed = ", ".join(f"${name}: {declared[type(each)]}" for name, each in params.items())
        text = f"query q({listed}) {{ {statements} }}"
        self.graph.mutate(text, params=params, branch=self.branch)

    def refused(self, statements: str, /, **params: object) -> ConstraintViolation:
        head = self.graph.commits(self.branch)[0].id
        with pytest.raises(ConstraintViolation) as caught:
            self.run(statements, **params)
        assert self.graph.commits(self.branch)[0].id == head
        return caught.value


# ── values ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("age", [-1, 151, 2**62])
def test_a_range_names_the_value_and_its_bounds(graph: Writer, age: int) -> None:
    refused = graph.refused('update Person set { age: $age } where name = "ann"', age=age)
    assert f"@range violation on Person.age 'ann': {age} is not in 0..150" in str(refused)


def test_the_bounds_of_a_range_belong_to_it(graph: Writer) -> None:
    graph.run('insert Person { name: "x", age: 0, ratio: 1.5 }')
    graph.run('insert Person { name: "y", age: 150, ratio: -1000.0 }')


def test_a_check_names_the_value_and_the_pattern(graph: Writer) -> None:
    refused = graph.refused('insert Person { name: "x", code: "Ab" }')
    assert "@check violation on Person.code 'x': 'Ab' does not match '^[A-Z]+$'" in str(refused)


def test_an_enum_lists_what_is_allowed_also_of_edges(graph: Writer) -> None:
    graph.run('insert Person { name: "x", mood: "sad" }')
    refused = graph.refused('update Person set { mood: $m } where name = "x"', m="odd")
    assert "invalid enum value 'odd' for Person.mood 'x'; allowed: glad, sad" in str(refused)
    refused = graph.refused('insert Knows { from: "ann", to: "bob", mood: $m }', m="odd")
    assert "invalid enum value 'odd' for Knows.mood" in str(refused)


def test_every_violation_is_reported_in_one_order(graph: Writer) -> None:
    refused = graph.refused(
        """insert Knows { from: "ann", to: "nobody" }
        insert Person { name: "x", code: "b", age: 200, mail: "m" }
        insert Person { name: "y", mail: "m" }
        insert Joined { from: "ann", to: "t9" }
        update Person set { mood: $m } where name = "x" """,
        m="odd",
    )
    assert [(each.kind, each.type_name) for each in refused.violations] == [
        (ViolationKind.RANGE, "Person"),
        (ViolationKind.CHECK, "Person"),
        (ViolationKind.ENUM, "Person"),
        (ViolationKind.UNIQUE, "Person"),
        (ViolationKind.ENDPOINT, "Joined"),
        (ViolationKind.ENDPOINT, "Knows"),
    ]
    assert str(refused).endswith("and 1 more")


# ── uniqueness ───────────────────────────────────────────────────────────────────────────────────


def test_two_rows_of_one_write_may_not_share_a_unique_value(graph: Writer) -> None:
    refused = graph.refused(
        'insert Person { name: "x", mail: "m" }  insert Person { name: "y", mail: "m" }'
    )
    (violation,) = refused.violations
    assert (violation.ids, violation.value) == (("x", "y"), "m")
    assert "@unique violation on Person.mail: 'm' is held by 'x' and by 'y'" in str(refused)


def test_a_committed_row_holds_its_unique_value(graph: Writer) -> None:
    graph.run('update Person set { mail: "it\'s" } where name = "ann"')
    refused = graph.refused('insert Person { name: "x", mail: "it\'s" }')
    assert refused.violations[0].ids == ("ann", "x")
    refused = graph.refused('update Person set { mail: "it\'s" } where name = "bob"')
    assert refused.violations[0].ids == ("ann", "bob")


def test_updating_several_rows_to_one_unique_value_is_refused(graph: Writer) -> None:
    graph.refused('update Person set { mail: "m" } where name != "ann"')


def test_a_value_given_up_in_the_same_write_is_free(graph: Writer) -> None:
    graph.run('update Person set { mail: "m" } where name = "ann"')
    graph.run(
        """update Person set { mail: "other" } where name = "ann"
        insert Person { name: "x", mail: "m" }"""
    )
    graph.run('delete Person where name = "x"')
    graph.run('insert Person { name: "y", mail: "m" }')


def test_two_rows_can_swap_their_unique_values(graph: Writer) -> None:
    graph.run('update Person set { mail: "a" } where name = "ann"')
    graph.run('update Person set { mail: "b" } where name = "bob"')
    graph.run(
        """update Person set { mail: "b" } where name = "ann"
        update Person set { mail: "a" } where name = "bob" """
    )
    graph.refused('insert Person { name: "x", mail: "a" }')


def test_a_row_may_be_replaced_with_the_value_it_holds(graph: Writer) -> None:
    graph.run('update Person set { mail: "m" } where name = "ann"')
    graph.run('insert Person { name: "ann", mail: "m" }')
    graph.run('update Person set { mail: "m" } where mail = "m"')


def test_null_exempts_a_row_also_in_a_part_of_a_composite(graph: Writer) -> None:
    graph.run(
        """insert Person { name: "x", shelf: 1 }
        insert Person { name: "y", shelf: 1 }
        insert Person { name: "z", shelf: 1, slot: 0.1 }"""
    )
    graph.run('insert Person { name: "w", shelf: 2, slot: 0.1 }')
    refused = graph.refused('insert Person { name: "v", shelf: 1, slot: 0.1 }')
    assert "@unique violation on Person.(shelf, slot): (1, 0.1" in str(refused)
    assert refused.violations[0].ids == ("z", "v")


def test_both_zeros_are_one_value(graph: Writer) -> None:
    graph.graph.insert("Person", [{"name": "x", "shelf": 1, "slot": 0.0}], branch=graph.branch)
    with pytest.raises(ConstraintViolation):
        graph.graph.insert("Person", [{"name": "y", "shelf": 1, "slot": -0.0}], branch=graph.branch)


def test_a_unique_date_is_shown_as_people_write_it(graph: Writer) -> None:
    graph.run('insert Person { name: "x", born: date("1969-12-31") }')
    refused = graph.refused('insert Person { name: "y", born: date("1969-12-31") }')
    assert "@unique violation on Person.born: 1969-12-31 is held by" in str(refused)


def test_an_edge_can_be_unique_by_its_ends_or_by_a_property(graph: Writer) -> None:
    graph.run('insert Joined { from: "ann", to: "t1" }  insert Joined { from: "ann", to: "t2" }')
    refused = graph.refused('insert Joined { from: "ann", to: "t1" }')
    assert "@unique violation on Joined.(dst, src): ('t1', 'ann')" in str(refused)
    graph.run(
        'insert Pairs { from: "ann", to: "bob", role: "r" }  insert Pairs { from: "ann", to: "cy" }'
    )
    refused = graph.refused('insert Pairs { from: "ann", to: "cy", role: "r" }')
    assert refused.violations[0].kind == ViolationKind.UNIQUE


def test_uniqueness_is_kept_among_many_rows(graph: Writer) -> None:
    """More values than fit in one filter."""
    rows = [{"name": f"p{n}", "mail": f"m{n}"} for n in range(1200)]
    graph.graph.insert("Person", rows, branch=graph.branch)
    clash = [{"name": f"q{n}", "mail": f"m{n}" if n == 1100 else f"n{n}"} for n in range(1200)]
    with pytest.raises(ConstraintViolation) as caught:
        graph.graph.insert("Person", clash, branch=graph.branch)
    assert [each.ids for each in caught.value.violations] == [("p1100", "q1100")]


# ── edges ────────────────────────────────────────────────────────────────────────────────────────


def test_missing_ends_name_the_edge_the_end_and_the_type(graph: Writer) -> None:
    refused = graph.refused('insert Joined { from: "nobody", to: "t9" }')
    assert "src 'nobody' not found in Person" in str(refused)
    assert "dst 't9' not found in Team" in str(refused)
    assert all("edge Joined" in each.message for each in refused.violations)


def test_too_many_edges_of_one_source_are_refused(graph: Writer) -> None:
    graph.run('insert Knows { from: "ann", to: "bob" }  insert Knows { from: "ann", to: "cy" }')
    refused = graph.refused('insert Knows { from: "ann", to: "ann" }')
    assert "@card violation on edge Knows: 'ann' has 3 (max 2)" in str(refused)
    graph.run('insert Knows { from: "bob", to: "ann" }')


def test_a_minimum_is_asked_for_at_the_end_of_the_query(graph: Writer) -> None:
    refused = graph.refused('insert Pairs { from: "ann", to: "bob" }')
    assert "@card violation on edge Pairs: 'ann' has 1 (min 2)" in str(refused)
    graph.run('insert Pairs { from: "ann", to: "bob" }  insert Pairs { from: "ann", to: "cy" }')


def test_the_last_required_edge_of_a_node_that_stays_cannot_be_deleted(graph: Writer) -> None:
    graph.run('insert Joined { from: "ann", to: "t1" }')
    refused = graph.refused('delete Joined where from = "ann"')
    assert "@card violation on edge Joined: 'ann' has 0 (min 1)" in str(refused)
    graph.refused('delete Team where name = "t1"')
    graph.run('delete Joined where from = "ann"  delete Person where name = "ann"')


def test_a_node_that_goes_takes_its_required_edges(graph: Writer) -> None:
    graph.run('insert Joined { from: "ann", to: "t1" }')
    graph.run('delete Person where name = "ann"')


def test_a_node_without_edges_is_never_short_of_them(graph: Writer) -> None:
    graph.run('insert Person { name: "lonely" }')
    graph.run('update Person set { age: 3 } where name = "lonely"')


def test_moving_an_edge_counts_for_the_source_it_leaves(graph: Writer) -> None:
    graph.graph.insert("Joined", [{"id": "j", "from": "ann", "to": "t1"}], branch=graph.branch)
    with pytest.raises(ConstraintViolation, match="'ann' has 0"):
        graph.graph.upsert("Joined", [{"id": "j", "from": "bob", "to": "t1"}], branch=graph.branch)
    graph.graph.upsert(
        "Joined",
        [{"id": "j", "from": "bob", "to": "t1"}, {"id": "k", "from": "ann", "to": "t1"}],
        branch=graph.branch,
    )
