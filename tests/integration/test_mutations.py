"""Inserts, updates and deletes on real storage: on main, and on a branch that owns nothing yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.compiler.ir import Value
from omnigraph.effects import REAL
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import (
    BranchNotFound,
    ConstraintViolation,
    NotAMutation,
    OpenedReadOnly,
    ParameterInvalid,
    QueryInvalid,
    QueryNotFound,
)
from omnigraph.ids import BranchName, table_key
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import BlobMode, Handle, Mark, ScanRequest, Staged
from omnigraph.testing.invariants import check_graph
from support.mutations import read_tables

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
    world.run('query q() { insert Visit { at: now() }  insert Visit { at: now(), who: "ann" } }')
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
        text = 'query q($r: String) { update Artwork set { title: "seen" } where ref = $r }'
        assert world.run(text, r=each).affected_nodes == 1
        text = "query q($r: String) { insert Inspired { from: $r, to: $r } }"
        assert world.run(text, r=each).affected_edges == 1
        text = "query q($r: String) { delete Artwork where ref = $r }"
        result = world.run(text, r=each)
        assert (result.affected_nodes, result.affected_edges) == (1, 1)
    assert world.ids("Artwork") == ["A-1", "A-2", "A-3"]


def test_columns_of_a_table_may_stand_in_any_order(world: World) -> None:
    """A column that a migration added stands last, not where the schema would put it."""
    graph = world.graph._graph
    context, key, branch = graph._context, table_key("node", "Room"), BranchName(world.branch)

    def turn_round(handle: Handle, mark: Mark) -> Staged:
        rows = context.stores.tables.read(handle)
        turned = rows.select(list(reversed(rows.column_names)))
        return context.stores.tables.stage_overwrite(handle, turned.schema, mark, turned)

    with acquire_write_locks(context, branch, [key]) as lock:
        write = TableWrite(key, lock.base.manifest.version_of(key), (turn_round,))
        run(lock, Change(WriterKind.LOAD, branch, (write,)))
    world.run(
        """query q() {
          update Room set { note: "seen" } where floor = 1
          insert Room { floor: 2, wing: "south" }
        }"""
    )
    world.run('query q() { update Room set { note: "both" } where floor <= 2 }')
    assert world.rows("Room") == {
        NORTH: {"floor": 1, "wing": "north", "note": "both"},
        '["2","south"]': {"floor": 2, "wing": "south", "note": "both"},
    }


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────


def blobs_of(world: World, ref: str, how: BlobMode) -> Mapping[str, Any]:
    stores = open_stores(world.graph.uri, REAL, durability=Durability.RELAXED)
    graph = world.graph._graph
    table = graph.open_table(graph.snapshot(BranchName(world.branch)), table_key("node", "Artwork"))
    request = ScanRequest(columns=("image", "scan"), where=f"ref = '{ref}'", blobs=how)
    (row,) = stores.tables.read(table, request).to_pylist()
    return row


def test_blobs_are_bytes_or_addresses_and_survive_an_update_of_something_else(
    world: World,
) -> None:
    elsewhere = world.root / "scan.bin"
    elsewhere.write_bytes(b"far away")
    world.run(
        "query q($i: Blob, $s: String) { insert Artwork "
        '{ ref: "B-1", title: "x", image: $i, scan: $s } }',
        i="base64:aGVsbG8=",
        s=elsewhere.as_uri(),
    )
    world.run('query q() { update Artwork set { title: "y" } where title = "x" }')
    assert blobs_of(world, "B-1", BlobMode.BYTES) == {"image": b"hello", "scan": b"far away"}
    described = blobs_of(world, "B-1", BlobMode.DESCRIPTIONS)
    assert described["scan"]["blob_uri"] == elsewhere.as_uri()


def test_an_address_whose_bytes_are_gone_survives_an_update(world: World) -> None:
    """Nobody fetches what is kept elsewhere in order to keep its address."""
    elsewhere = world.root / "scan.bin"
    elsewhere.write_bytes(b"far away")
    row = {"ref": "B-1", "title": "x", "image": b"", "scan": elsewhere.as_uri()}
    world.graph.insert("Artwork", [row], branch=world.branch)
    elsewhere.unlink()
    world.run('query q() { update Artwork set { year: 1 } where ref = "B-1" }')
    described = blobs_of(world, "B-1", BlobMode.DESCRIPTIONS)
    assert described["scan"]["blob_uri"] == elsewhere.as_uri()
    assert described["image"]["size"] == 0


def test_a_blob_can_be_replaced_and_removed(world: World) -> None:
    row = {"ref": "B-1", "title": "x", "image": b"one", "scan": b"two"}
    world.graph.insert("Artwork", [row], branch=world.branch)
    world.run(
        "query q($i: Blob, $s: Blob?) { update Artwork set { image: $i, scan: $s } "
        'where ref = "B-1" }',
        i="base64:b25lIQ==",
    )
    assert blobs_of(world, "B-1", BlobMode.BYTES) == {"image": b"one!", "scan": None}


def test_text_that_is_not_base64_is_refused(world: World) -> None:
    with pytest.raises(ConstraintViolation, match=r"Artwork\.image is Blob\?: .* is not base64"):
        world.run(
            'query q($i: Blob) { update Artwork set { image: $i } where ref = "A-1" }',
            i="base64:not base64",
        )


# ── updating ─────────────────────────────────────────────────────────────────────────────────────


def test_an_update_keeps_what_it_does_not_assign(world: World) -> None:
    result = world.run('query q() { update Artwork set { title: "Day" } where ref = "A-1" }')
    assert result.affected_nodes == 1
    row = world.rows("Artwork")["A-1"]
    assert (row["title"], row["year"]) == ("Day", 1900)


def test_an_update_counts_matches_even_when_nothing_changes(world: World) -> None:
    result = world.run("query q() { update Artwork set { year: 1950 } where year >= 1950 }")
    assert result.affected_nodes == 1


@pytest.mark.parametrize(
    ("predicate", "matched"),
    [
        ("year = 1900", {"A-1"}),
        ("year != 1900", {"A-2"}),
        ("year < 1950", {"A-1"}),
        ("year <= 1950", {"A-1", "A-2"}),
        ("year > 1900", {"A-2"}),
        ("year >= 1900.5", {"A-2"}),
        ("year < 5000000000", {"A-1", "A-2"}),
        ('title > "Dawn"', {"A-2", "A-3"}),
        ('ref != "A-1"', {"A-2", "A-3"}),
    ],
)
def test_predicates_compare_by_value_and_null_never_matches(
    world: World, predicate: str, matched: set[str]
) -> None:
    world.run(f"query q() {{ update Artwork set {{ sold: true }} where {predicate} }}")
    sold = {key for key, value in world.column("Artwork", "sold").items() if value}
    assert sold == matched


def test_a_null_value_to_compare_with_matches_nothing(world: World) -> None:
    text = "query q($y: I32?) { update Artwork set { sold: true } where year = $y }"
    before = world.head
    result = world.run(text)
    assert (result.affected_nodes, result.commit) == (0, None)
    assert world.head == before


def test_a_float_that_equals_an_integer_key_finds_it(world: World) -> None:
    world.graph.insert("Card", [{"number": 2}], branch=world.branch)
    text = 'query q($n: F64) { update Card set { label: "x" } where number = $n }'
    assert world.run(text, n=2.0).affected_nodes == 1
    assert world.run(text, n=2.5).affected_nodes == 0


def test_an_integer_outside_of_the_key_type_matches_nothing(world: World) -> None:
    text = 'query q($n: I64) { update Card set { label: "x" } where number = $n }'
    world.graph.insert("Card", [{"number": 2}], branch=world.branch)
    assert world.run(text, n=-1).affected_nodes == 0


# ── seeing one's own writes ──────────────────────────────────────────────────────────────────────


def test_later_statements_see_the_row_as_the_earlier_ones_left_it(world: World) -> None:
    result = world.run(
        """query q() {
          insert Artwork { ref: "B-1", title: "one", year: 1 }
          update Artwork set { title: "two" } where title = "one"
          update Artwork set { year: 2 } where title = "two"
          update Artwork set { title: "three" } where title = "one"
        }"""
    )
    assert result.affected_nodes == 3
    row = world.rows("Artwork")["B-1"]
    assert (row["title"], row["year"]) == ("two", 2)


def test_three_updates_of_one_committed_row_chain(world: World) -> None:
    """A third update must not find, and bring back, what the second replaced."""
    result = world.run(
        """query q() {
          update Artwork set { title: "b" } where title = "Dawn"
          update Artwork set { title: "c" } where title = "b"
          update Artwork set { year: 7 } where title = "b"
          update Artwork set { year: 8 } where title = "Dawn"
        }"""
    )
    assert result.affected_nodes == 2
    row = world.rows("Artwork")["A-1"]
    assert (row["title"], row["year"]) == ("c", 1900)


def test_an_upsert_in_a_query_hides_the_committed_row_from_its_updates(world: World) -> None:
    result = world.run(
        """query q() {
          insert Artwork { ref: "A-1", title: "fresh" }
          update Artwork set { sold: true } where title = "Dawn"
          update Artwork set { worth: 1.0 } where title = "fresh"
        }"""
    )
    assert result.affected_nodes == 2
    row = world.rows("Artwork")["A-1"]
    assert (row["title"], row["sold"], row["worth"], row["year"]) == ("fresh", None, 1.0, None)


def test_two_writes_of_one_id_count_twice_and_the_last_one_wins(world: World) -> None:
    result = world.run(
        """query q() {
          insert Artwork { ref: "B-1", title: "one", year: 1 }
          insert Artwork { ref: "B-1", title: "two" }
        }"""
    )
    assert result.affected_nodes == 2
    row = world.rows("Artwork")["B-1"]
    assert (row["title"], row["year"]) == ("two", None)


# ── deleting ─────────────────────────────────────────────────────────────────────────────────────


def test_deleting_a_node_takes_its_edges_and_a_loop_counts_once(world: World) -> None:
    result = world.run('query q() { delete Artwork where ref = "A-2" }')
    assert (result.affected_nodes, result.affected_edges) == (1, 2)
    assert world.ids("Artwork") == ["A-1", "A-3"]
    assert world.ids("Inspired") == []
    assert len(world.ids("Hangs")) == 1


def test_an_edge_of_another_type_with_the_same_id_at_its_end_stays(world: World) -> None:
    """Ids are unique within a type only."""
    world.graph.insert(
        "Artwork", [{"ref": NORTH, "title": "named like a room"}], branch=world.branch
    )
    world.graph.insert("Shows", [{"from": NORTH, "to": "A-1"}], branch=world.branch)
    result = world.run("query q($r: String) { delete Artwork where ref = $r }", r=NORTH)
    assert (result.affected_nodes, result.affected_edges) == (1, 0)
    assert len(world.ids("Shows")) == 1
    assert len(world.ids("Hangs")) == 1


def test_edges_are_deleted_by_their_ends_and_properties(world: World) -> None:
    text = 'query q() { delete Inspired where from = "A-2" }'
    assert world.run(text).affected_edges == 1
    text = 'query q() { delete Inspired where to = "A-2" }'
    assert world.run(text).affected_edges == 1
    world.run(
        'query q($r: String) { insert Hangs { from: "A-2", to: $r, since: date("2024-05-01") } }',
        r=NORTH,
    )
    text = 'query q() { delete Hangs where since >= date("2024-05-01") }'
    assert world.run(text).affected_edges == 1
    assert len(world.ids("Hangs")) == 1


def test_overlapping_deletes_count_each_row_once(world: World) -> None:
    result = world.run(
        """query q() {
          delete Inspired where from = "A-1"
          delete Artwork where year >= 1900
          delete Artwork where ref = "A-2"
        }"""
    )
    assert (result.affected_nodes, result.affected_edges) == (2, 3)
    assert world.ids("Artwork") == ["A-3"]


def test_deleting_the_last_row_leaves_a_table_that_takes_rows_again(world: World) -> None:
    world.run('query q() { delete Artwork where title != "nothing" }')
    assert world.ids("Artwork") == []
    assert world.ids("Hangs") == []
    world.run('query q() { insert Artwork { ref: "A-1", title: "back" } }')
    assert world.column("Artwork", "title") == {"A-1": "back"}


# ── nothing half done ────────────────────────────────────────────────────────────────────────────


def test_a_statement_that_fails_leaves_every_table_where_it_was(world: World) -> None:
    before, head = world.versions(), world.head
    with pytest.raises(ConstraintViolation):
        world.run(
            """query q() {
              insert Artwork { ref: "B-1", title: "x" }
              update Room set { note: "y" } where floor = 1
              insert Inspired { from: "B-1", to: "nowhere" }
            }"""
        )
    assert (world.versions(), world.head) == (before, head)


def test_only_tables_with_something_to_write_move(world: World) -> None:
    before = world.versions()
    world.run('query q() { delete Artwork where ref = "A-3" }')
    moved = {key for key, version in world.versions().items() if before[key] != version}
    assert moved == {"node:Artwork"}


def test_what_matches_nothing_moves_nothing(world: World) -> None:
    before, head = world.versions(), world.head
    for text in (
        'query q() { delete Artwork where ref = "nobody" }',
        'query q() { delete Inspired where from = "nobody" }',
        'query q() { update Artwork set { year: 1 } where ref = "nobody" }',
    ):
        result = world.run(text)
        assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert (world.versions(), world.head) == (before, head)


# ── what is refused before anything is read ──────────────────────────────────────────────────────


def test_writes_and_deletes_do_not_mix(world: World) -> None:
    with pytest.raises(QueryInvalid, match="q"):
        world.run(
            'query q() { insert Artwork { ref: "B", title: "x" }  delete Room where floor = 1 }'
        )


def test_a_query_that_reads_is_not_a_mutation(world: World) -> None:
    with pytest.raises(NotAMutation, match="'q'"):
        world.run("query q() { match { $a: Artwork } return { $a.ref } }")


def test_a_missing_parameter_and_an_unknown_query_are_refused(world: World) -> None:
    with pytest.raises(ParameterInvalid, match="r"):
        world.run("query q($r: String) { delete Artwork where ref = $r }")
    with pytest.raises(QueryNotFound):
        world.graph.mutate(POPULATION, name="other", branch=world.branch)


def test_a_branch_that_does_not_exist_is_refused(world: World) -> None:
    with pytest.raises(BranchNotFound):
        world.graph.mutate('query q() { delete Room where wing = "x" }', branch="nowhere")
    with pytest.raises(BranchNotFound):
        world.graph.insert("Card", [{"number": 1}], branch="nowhere")


def test_a_graph_opened_for_reading_is_not_changed(world: World) -> None:
    graph = omnigraph.open(world.graph.uri, read_only=True, durability=Durability.RELAXED)
    with pytest.raises(OpenedReadOnly):
        graph.mutate('query q() { delete Room where wing = "x" }', branch=world.branch)
    with pytest.raises(OpenedReadOnly):
        graph.insert("Card", [{"number": 1}], branch=world.branch)
    with pytest.raises(OpenedReadOnly):
        graph.delete("Card", ["1"], branch=world.branch)
