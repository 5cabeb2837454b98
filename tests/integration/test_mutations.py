"""Inserts, updates and deletes on real storage: on main, and on a branch that owns nothing yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph.compiler.ir import Value
from omnigraph.effects import REAL
from omnigraph.engine.mutate import MutationResult
from omnigraph.errors import (
    BranchNotFound,
    ConstraintViolation,
    NotAMutation,
    OpenedReadOnly,
    ParameterInvalid,
    QueryInvalid,
    QueryNotFound,
)
from omnigraph.ids import BranchName
from omnigraph.sdk.local import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.invariants import check_graph
from omnigraph.testing.mutations import read_tables

SCHEMA = """
node Artwork {
    ref: String @key
    title: String
    worth: F64?
    small: F32?
    year: I32?
    total: U64?
    made_on: Date?
    seen_at: DateTime?
    days: [DateTime]?
    vec: Vector(2)?
    sold: Bool?
    image: Blob?
    scan: Blob?
}
node Room {
    floor: I32
    wing: String
    note: String?
    @key(floor, wing)
}
node Visit { at: DateTime  who: String? }
node Card { number: U32 @key  label: String? }
edge Hangs: Artwork -> Room { since: Date? }
edge Inspired: Artwork -> Artwork
edge Shows: Room -> Artwork
"""


@dataclass(frozen=True, slots=True)
class World:
    """A populated graph, and the branch the test writes to."""

    graph: LocalGraph
    branch: str
    root: Path

    def run(self, text: str, /, **params: object) -> MutationResult:
        return self.graph.mutate(text, params=params, branch=self.branch)

    def rows(self, type_name: str, branch: str | None = None) -> Mapping[str, Mapping[str, Value]]:
        stores = open_stores(self.graph.uri, REAL, durability=Durability.RELAXED)
        return read_tables(self.graph._graph, stores, BranchName(branch or self.branch))[type_name]

    def ids(self, type_name: str) -> list[str]:
        return sorted(self.rows(type_name))

    def column(self, type_name: str, name: str) -> dict[str, Value]:
        return {key: row[name] for key, row in self.rows(type_name).items()}

    @property
    def head(self) -> str:
        return self.graph.commits(self.branch)[0].id

    def versions(self) -> dict[str, int]:
        return {key: pin.version for key, pin in self.graph.snapshot(self.branch).pins.items()}


POPULATION = """
query populate() {
  insert Artwork { ref: "A-1", title: "Dawn", year: 1900 }
  insert Artwork { ref: "A-2", title: "Dusk", year: 1950 }
  insert Artwork { ref: "A-3", title: "Noon" }
  insert Room { floor: 1, wing: "north" }
  insert Hangs { from: "A-1", to: "[\\"1\\",\\"north\\"]" }
  insert Inspired { from: "A-1", to: "A-2" }
  insert Inspired { from: "A-2", to: "A-2" }
}
"""
NORTH = '["1","north"]'


@pytest.fixture(params=["main", "side"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    graph.mutate(POPULATION)
    if request.param != "main":
        graph.branches.create(request.param)
    before = World(graph, "main", tmp_path).rows("Artwork")
    yield World(graph, request.param, tmp_path)
    stores = open_stores(graph.uri, REAL, durability=Durability.RELAXED)
    assert check_graph(stores) == []
    if request.param != "main":
        assert World(graph, "main", tmp_path).rows("Artwork") == before


# ── inserting ────────────────────────────────────────────────────────────────────────────────────


def test_one_query_is_one_commit_with_its_actor(world: World) -> None:
    parent = world.head
    result = world.graph.mutate(
        """query hang() {
          insert Artwork { ref: "B-1", title: "New" }
          insert Hangs { from: "B-1", to: "[\\"1\\",\\"north\\"]", since: date("2024-05-01") }
        }""",
        branch=world.branch,
        actor="dana",
    )
    assert (result.query_name, result.affected_nodes, result.affected_edges) == ("hang", 1, 1)
    assert result.commit is not None
    assert (result.commit.parent, result.commit.actor) == (parent, "dana")
    assert world.head == result.commit.id
    assert world.rows("Artwork")["B-1"]["title"] == "New"
    assert 19844 in world.column("Hangs", "since").values()


def test_inserting_a_key_that_exists_replaces_the_whole_row(world: World) -> None:
    result = world.run('query q() { insert Artwork { ref: "A-1", title: "Day" } }')
    assert result.affected_nodes == 1
    row = world.rows("Artwork")["A-1"]
    assert (row["title"], row["year"]) == ("Day", None)
    assert len(world.ids("Artwork")) == 3


def test_nodes_without_a_key_and_edges_are_always_new(world: World) -> None:
    text = """query q($at: DateTime) {
      insert Visit { at: $at }
      insert Visit { at: $at }
      insert Inspired { from: "A-3", to: "A-1" }
      insert Inspired { from: "A-3", to: "A-1" }
    }"""
    assert world.run(text, at="2024-05-01").affected_nodes == 2
    assert len(world.ids("Visit")) == 2
    assert len(world.ids("Inspired")) == 4


def test_a_composite_key_spells_the_id(world: World) -> None:
    world.run('query q() { insert Room { floor: 2, wing: "sou\'th" } }')
    assert '["2","sou\'th"]' in world.ids("Room")


def test_an_edge_finds_nodes_that_later_statements_insert(world: World) -> None:
    world.run(
        """query q() {
          insert Inspired { from: "B-1", to: "B-2" }
          insert Artwork { ref: "B-1", title: "x" }
          insert Artwork { ref: "B-2", title: "y" }
        }"""
    )
    assert ("B-1", "B-2") in {(row["src"], row["dst"]) for row in world.rows("Inspired").values()}


def test_now_is_one_instant_of_milliseconds_for_the_whole_query(world: World) -> None:
    before = REAL.now_ms()
    world.run(
        'query q() { insert Visit { at: now() }  insert Visit { at: now(), who: "ann" } }'
    )
    instants = set(world.column("Visit", "at").values())
    assert len(instants) == 1
    (instant,) = instants
    assert isinstance(instant, int)
    assert before <= instant <= REAL.now_ms()


def test_a_caller_may_fix_the_instant(world: World) -> None:
    moment = datetime(2024, 5, 1, 8, 0, 0, 7000, tzinfo=UTC)
    text = "query q() { insert Visit { at: now() } }"
    world.graph.mutate(text, params={"__nanograph_now": moment}, branch=world.branch)
    assert set(world.column("Visit", "at").values()) == {1_714_550_400_007}


def test_every_kind_of_value_comes_back_as_it_was_given(world: World) -> None:
    world.run(
        """query q($small: F32, $total: U64, $days: [DateTime], $v: Vector(2)) {
          insert Artwork { ref: "B-1", title: "", worth: 7, small: $small, year: -5, total: $total,
            made_on: date("1969-12-31"), seen_at: datetime("2024-05-01T08:00:00.5+02:00"),
            days: $days, vec: $v, sold: false }
        }""",
        small=0.1,
        total=2**63 - 1,
        days=["2024-05-01T00:00:00.001Z"],
        v=[1, 0.5],
    )
    row = world.rows("Artwork")["B-1"]
    assert row == {
        "ref": "B-1",
        "title": "",
        "worth": 7.0,
        "small": pytest.approx(0.1, rel=1e-7),
        "year": -5,
        "total": 2**63 - 1,
        "made_on": -1,
        "seen_at": 1_714_543_200_500,
        "days": (1_714_521_600_001,),
        "vec": (1.0, 0.5),
        "sold": False,
    }


def test_a_number_that_the_column_cannot_hold_is_refused(world: World) -> None:
    with pytest.raises(ConstraintViolation) as caught:
        world.run(
            """query q($year: I64, $small: F64, $total: I64) {
              insert Artwork { ref: "B-1", title: "x", year: $year, small: $small, total: $total }
            }""",
            year=2**31,
            small=1e300,
            total=-1,
        )
    assert [each.property_name for each in caught.value.violations] == ["year", "small", "total"]
    assert "B-1" not in world.ids("Artwork")


def test_an_integer_parameter_widens_to_a_float(world: World) -> None:
    world.run('query q($w: I64) { update Artwork set { worth: $w } where ref = "A-1" }', w=3)
    assert world.rows("Artwork")["A-1"]["worth"] == 3.0


def test_a_null_parameter_is_null_where_it_may_be_and_refused_where_not(world: World) -> None:
    text = 'query q($y: I32?) { update Artwork set { year: $y } where ref = "A-1" }'
    world.run(text)
    assert world.rows("Artwork")["A-1"]["year"] is None
    with pytest.raises(ConstraintViolation, match="missing required property 'title'"):
        world.run('query q($t: String?) { update Artwork set { title: $t } where ref = "A-1" }')


def test_a_null_key_or_end_is_refused(world: World) -> None:
    with pytest.raises(ConstraintViolation, match="missing required property 'ref' of Artwork"):
        world.run('query q($r: String?) { insert Artwork { ref: $r, title: "x" } }')
    with pytest.raises(ConstraintViolation, match="missing required property 'to' of Inspired"):
        world.run('query q($r: String?) { insert Inspired { from: "A-1", to: $r } }')


def test_ids_may_hold_anything(world: World) -> None:
    odd = ["o'neil", 'say "hi"', "back\\slash", "new\nline", "100%_`x`", "", "née", "); --"]
    world.graph.insert(
        "Artwork", [{"ref": each, "title": each} for each in odd], branch=world.branch
    )
    for each in odd:
        text = "query q($r: String) { update Artwork set { title: \"seen\" } where ref = $r }"
        assert world.run(text, r=each).affected_nodes == 1
        text = "query q($r: String) { insert Inspired { from: $r, to: $r } }"
        assert world.run(text, r=each).affected_edges == 1
        text = "query q($r: String) { delete Artwork where ref = $r }"
        result = world.run(text, r=each)
        assert (result.affected_nodes, result.affected_edges) == (1, 1)
    assert world.ids("Artwork") == ["A-1", "A-2", "A-3"]


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────


def blobs_of(world: World, ref: str) -> dict[str, object]:
    stores = open_stores(world.graph.uri, REAL, durability=Durability.RELAXED)
    from omnigraph.engine.committed import Committed

    graph = world.graph._graph
    manifest = graph._bases.current(BranchName(world.branch)).manifest
    from omnigraph.commit.snapshot import open_pin

    committed = Committed(stores.tables, manifest, lambda pin: open_pin(stores, pin))
    node = graph.catalog.node("Artwork")
    assert node is not None
    (found,) = committed.find_by_id(node, [ref], ["image", "scan"])
    return {name: found.row[name] for name in ("image", "scan")}
