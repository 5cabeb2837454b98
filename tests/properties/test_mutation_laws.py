"""Whatever is written in whatever order, the graph holds what a graph of dicts would hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, note, settings, strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.compile import compile_query
from omnigraph.compiler.ir import Mutation, Value
from omnigraph.compiler.parameters import bind
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import ConstraintViolation
from omnigraph.ids import MAIN, BranchName
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.invariants import check_graph
from support.mutations import (
    Outcome,
    Rejected,
    Tables,
    apply,
    comparable,
    read_tables,
)

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    mail: String? @unique
    mood: enum(glad, sad)?
    @range(age, 0..3)
}
node Team {
    floor: I32
    open: Bool
    vec: Vector(2)?
    days: [Date]?
    @key(floor, open)
}
node Note {
    text: String
    at: DateTime?
    size: F64?
    @unique(text, size)
}
edge Knows: Person -> Person @card(0..2) { since: I32? }
edge Joined: Person -> Team @card(1..2) { @unique(src, dst) }
"""

PEOPLE = ("ann", "bob", "cy'd")
TEAMS = ('["0","true"]', '["1","true"]', '["1","false"]')

Json = str | int | float | bool | None | list[str] | list[float]


def maybe(values: SearchStrategy[Json]) -> SearchStrategy[Json]:
    return st.one_of(values, values, st.none())


# A mail drawn from so few makes people collide and swap; an age of 4 is one too many.
COLUMNS: Mapping[str, Mapping[str, tuple[str, SearchStrategy[Json]]]] = {
    "Person": {
        "name": ("String", st.sampled_from(PEOPLE)),
        "age": ("I32?", maybe(st.integers(0, 4))),
        "mail": ("String?", maybe(st.sampled_from(("a@x", "b@x", "")))),
        "mood": ("String?", maybe(st.sampled_from(("glad", "sad", "sad", "glad", "odd")))),
    },
    "Team": {
        "floor": ("I32", st.integers(0, 1)),
        "open": ("Bool", st.booleans()),
        "vec": ("Vector(2)?", maybe(st.sampled_from(([0.5, 1.0], [0.0, -1.0])))),
        "days": ("[Date]?", maybe(st.sampled_from(([], ["2024-05-01", "1969-12-31"])))),
    },
    "Note": {
        "text": ("String", st.sampled_from(("x", "y"))),
        "at": ("DateTime?", maybe(st.sampled_from(("2024-05-01T08:00:00.001Z", "1969-12-31")))),
        "size": ("F64?", maybe(st.sampled_from((0.0, -0.0, 1.5, 2)))),
    },
    "Knows": {
        "from": ("String", st.sampled_from(PEOPLE)),
        "to": ("String", st.sampled_from(PEOPLE)),
        "since": ("I32?", maybe(st.integers(0, 2))),
    },
    "Joined": {
        "from": ("String", st.sampled_from(PEOPLE)),
        "to": ("String", st.sampled_from(TEAMS)),
    },
}
KEYS = {"Person": ("name",), "Team": ("floor", "open")}
REQUIRED = {
    "Person": ("name",),
    "Team": ("floor", "open"),
    "Note": ("text",),
    "Knows": ("from", "to"),
    "Joined": ("from", "to"),
}
COMPARABLE = {
    "Person": ("name", "age", "mail", "mood"),
    "Team": ("floor", "open"),
    "Note": ("text", "at", "size"),
    "Knows": ("from", "to", "since"),
    "Joined": ("from", "to"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A mutation as text, and the values of its parameters."""

    text: str
    params: Mapping[str, Json]


class _Writer:
    """Draws statements whose every value is a parameter."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.params: dict[str, Json] = {}
        self.declared: list[str] = []

    def parameter(self, type_name: str, column: str) -> str:
        declared, values = COLUMNS[type_name][column]
        name = f"p{len(self.params)}"
        self.params[name] = self.draw(values)
        self.declared.append(f"${name}: {declared}")
        return f"${name}"

    def assignments(self, type_name: str, columns: tuple[str, ...]) -> str:
        return ", ".join(f"{each}: {self.parameter(type_name, each)}" for each in columns)

    def predicate(self, type_name: str) -> str:
        column = self.draw(st.sampled_from(COMPARABLE[type_name]))
        comparator = self.draw(st.sampled_from(("=", "=", "=", "!=", "<", "<=", ">", ">=")))
        return f"{column} {comparator} {self.parameter(type_name, column)}"

    def insert(self) -> str:
        # People and their edges most often, or hardly anything would ever meet.
        type_name = self.draw(st.sampled_from(("Person", "Person", "Knows", "Joined", *COLUMNS)))
        optional = [each for each in COLUMNS[type_name] if each not in REQUIRED[type_name]]
        chosen = self.draw(st.sets(st.sampled_from(optional))) if optional else set()
        columns = (*REQUIRED[type_name], *sorted(chosen))
        return f"insert {type_name} {{ {self.assignments(type_name, columns)} }}"

    def update(self) -> str:
        type_name = self.draw(st.sampled_from(("Person", "Person", "Note", "Team")))
        free = [each for each in COLUMNS[type_name] if each not in KEYS.get(type_name, ())]
        chosen = self.draw(st.sets(st.sampled_from(free), min_size=1))
        assigned = self.assignments(type_name, tuple(sorted(chosen)))
        return f"update {type_name} set {{ {assigned} }} where {self.predicate(type_name)}"

    def delete(self) -> str:
        type_name = self.draw(st.sampled_from(tuple(COLUMNS)))
        return f"delete {type_name} where {self.predicate(type_name)}"


@st.composite
def calls(draw: DrawFn) -> Call:
    writer = _Writer(draw)
    if draw(st.integers(0, 3)) == 0:
        statements = [writer.delete() for _ in range(draw(st.integers(1, 3)))]
    else:
        kinds = draw(st.lists(st.booleans(), min_size=1, max_size=6))
        statements = [writer.update() if each else writer.insert() for each in kinds]
    body = "\n  ".join(statements)
    return Call(f"query q({', '.join(writer.declared)}) {{\n  {body}\n}}", writer.params)


def _foresee(
    catalog: Catalog, tables: Tables, mutation: Mutation, values: Mapping[str, Value]
) -> Outcome | Rejected:
    try:
        return apply(catalog, tables, mutation, values)
    except Rejected as rejected:
        return rejected


POPULATION = Source(
    "<population>",
    """
    query q() {
      insert Person { name: "ann", age: 1, mail: "a@x" }
      insert Person { name: "bob", mood: "sad" }
      insert Team { floor: 1, open: true, vec: [0.5, 1.0] }
      insert Knows { from: "ann", to: "bob", since: 1 }
      insert Knows { from: "bob", to: "bob" }
      insert Joined { from: "bob", to: "[\\"1\\",\\"true\\"]" }
      insert Note { text: "x", size: 1.5 }
    }
    """,
)
"""Somebody to meet, or most of what is drawn would miss."""


class _Twin:
    """A graph on disk, and the graph of dicts that should be its equal."""

    def __init__(self, root: Path) -> None:
        uri = str(root / REAL.new_id())
        fast = Settings(durability=Durability.RELAXED)
        self.graph: Graph = create(uri, SCHEMA, settings=fast)
        self.stores: Stores = open_stores(uri, REAL, durability=Durability.RELAXED)
        self.graph.mutate(POPULATION)
        self.tables: dict[BranchName, Tables] = {MAIN: read_tables(self.graph, self.stores)}

    def run(self, call: Call, branch: BranchName) -> None:
        source = Source("<law>", call.text)
        catalog = self.graph.catalog
        compiled = compile_query(source, catalog)
        assert isinstance(compiled.ir, Mutation)
        values = bind(compiled.parameters, call.params)
        head = self.graph.commits(branch)[0].id
        expected = _foresee(catalog, self.tables[branch], compiled.ir, values)
        if isinstance(expected, Rejected):
            event("rejected")
            with pytest.raises(ConstraintViolation) as caught:
                self.graph.mutate(source, params=call.params, request=WriteRequest(branch))
            faults = {(each.kind, each.type_name) for each in caught.value.violations}
            assert faults == expected.faults
            assert self.graph.commits(branch)[0].id == head
            return
        result = self.graph.mutate(source, params=call.params, request=WriteRequest(branch))
        event("accepted" if result.commit else "without effect")
        counts = (result.affected_nodes, result.affected_edges)
        assert counts == (expected.affected_nodes, expected.affected_edges)
        now = self.graph.commits(branch)[0].id
        assert now == (head if result.commit is None else result.commit.id)
        assert (result.commit is None) == (counts == (0, 0))
        stored = read_tables(self.graph, self.stores, branch)
        assert comparable(catalog, stored) == comparable(catalog, expected.tables)
        self.tables[branch] = stored


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    first=st.lists(calls(), min_size=1, max_size=4),
    then=st.lists(st.tuples(calls(), st.booleans()), max_size=4),
)
def test_a_graph_under_mutations_equals_a_graph_of_dicts(
    tmp_path: Path, first: list[Call], then: list[tuple[Call, bool]]
) -> None:
    """Some on main, then some on main and some on a branch that started there."""
    twin = _Twin(tmp_path)
    for call in first:
        note(f"{call.text}\n{call.params}")
        twin.run(call, MAIN)
    branch = twin.graph.create_branch("side")
    twin.tables[branch] = twin.tables[MAIN]
    for call, is_main in then:
        note(f"{'main' if is_main else 'side'}: {call.text}\n{call.params}")
        twin.run(call, MAIN if is_main else branch)
    assert check_graph(twin.stores) == []
