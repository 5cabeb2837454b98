"""Merging branches: outcomes, what is applied, what is in the way."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.merge.classify import ConflictKind, Outcome
from omnigraph.errors import (
    BranchNotFound,
    HeadMoved,
    MergeBaseUnavailable,
    MergeConflicts,
    OpenedReadOnly,
    ResolutionsInvalid,
    UsageError,
)
from omnigraph.ids import BranchName, TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.embedded.merging import conflict_file
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.testing.invariants import check_graph
from support.folders import read_folder
from support.mutations import read_tables

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  mail: String? @unique
  mood: enum(good, bad)?
  @range(age, 0..150)
}
node Team { name: String @key  photo: Blob?  tags: [String]? }
edge Knows: Person -> Person { since: I64? }
edge Leads: Person -> Team @card(0..1)
"""
PERSON = TableKey("node:Person")
KNOWS = TableKey("edge:Knows")
LEADS = TableKey("edge:Leads")
TEAM = TableKey("node:Team")


def stores_of(graph: LocalGraph) -> Stores:
    return open_stores(graph.uri, REAL, durability=Durability.RELAXED)


def rows(graph: LocalGraph, branch: str = "main") -> Mapping[str, Mapping[str, Any]]:
    return read_tables(graph._graph, stores_of(graph), BranchName(branch))


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small graph, to be copied: without branches it may be moved."""
    root = tmp_path_factory.mktemp("merging") / "g"
    made = omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": name, "age": 1} for name in ("Alice", "Bob", "Carol")])
    made.insert("Team", [{"name": "red"}])
    made.insert("Knows", [{"id": "bc", "from": "Bob", "to": "Carol"}])
    return root


def copy(seeded: Path, to: Path) -> LocalGraph:
    shutil.copytree(seeded, to)
    return omnigraph.open(to, durability=Durability.RELAXED)


@pytest.fixture
def graph(seeded: Path, tmp_path: Path) -> Iterator[LocalGraph]:
    made = copy(seeded, tmp_path / "g")
    yield made
    assert check_graph(stores_of(made)) == []


def kinds(error: MergeConflicts) -> list[tuple[str, str | None]]:
    return [(each.kind, each.row_id) for each in error.conflicts]


# ── the operation matrix ─────────────────────────────────────────────────────────────────────────

Act = Callable[[LocalGraph, str], object]


def _no_op(graph: LocalGraph, branch: str) -> None:
    pass


def _add_node(age: int) -> Act:
    return lambda graph, branch: graph.insert(
        "Person", [{"name": "Eve", "age": age}], branch=branch
    )


def _net_zero(graph: LocalGraph, branch: str) -> None:
    graph.insert("Knows", [{"id": "gone", "from": "Bob", "to": "Bob"}], branch=branch)
    graph.delete("Knows", ["gone"], branch=branch)


def _acts(age: int) -> dict[str, Act]:
    return {
        "noop": _no_op,
        "addNode": _add_node(age),
        "removeNode": lambda graph, branch: graph.delete("Person", ["Alice"], branch=branch),
        "addEdge": lambda graph, branch: graph.insert(
            "Knows", [{"id": f"new-{age}", "from": "Alice", "to": "Bob"}], branch=branch
        ),
        "removeEdge": lambda graph, branch: graph.delete("Knows", ["bc"], branch=branch),
        "setProperty": lambda graph, branch: graph.upsert(
            "Person", [{"name": "Alice", "age": age}], branch=branch
        ),
        "netZero": _net_zero,
    }


U, F, M = Outcome.ALREADY_UP_TO_DATE, Outcome.FAST_FORWARD, Outcome.MERGED
DI, DU = ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE
DV, OE = ConflictKind.DELETE_VS_UPDATE, ConflictKind.ORPHAN_EDGE
TARGETS = ("noop", "addNode", "removeNode", "addEdge", "removeEdge", "setProperty", "netZero")
MATRIX: dict[str, tuple[Outcome | ConflictKind, ...]] = {
    "noop": (U, U, U, U, U, U, U),
    "addNode": (F, DI, M, M, M, M, M),
    "removeNode": (F, M, M, OE, M, DV, M),
    "addEdge": (F, M, OE, M, M, M, M),
    "removeEdge": (F, M, M, M, M, M, M),
    "setProperty": (F, M, DV, M, M, DU, M),
    "netZero": (F, M, M, M, M, M, M),
}


@pytest.mark.parametrize("into", ["main", "work"])
@pytest.mark.parametrize("source_op", MATRIX)
def test_every_operation_meets_every_other_as_the_matrix_says(
    seeded: Path, tmp_path: Path, source_op: str, into: str
) -> None:
    for target_op, expected in zip(TARGETS, MATRIX[source_op], strict=True):
        graph = copy(seeded, tmp_path / target_op)
        if into != "main":
            graph.branches.create(into)
        graph.branches.create("topic", source=into)
        _acts(2)[source_op](graph, "topic")
        _acts(3)[target_op](graph, into)
        before, wanted = rows(graph, into), rows(graph, "topic")
        if isinstance(expected, ConflictKind):
            with pytest.raises(MergeConflicts) as caught:
                graph.merge("topic", into)
            assert [each.kind for each in caught.value.conflicts] == [expected], target_op
            assert rows(graph, into) == before, "a refused merge changes nothing"
        else:
            result = graph.merge("topic", into, actor="dana")
            assert result.outcome is expected, (source_op, target_op)
            after = rows(graph, into)
            if expected is F:
                assert after == wanted
            if expected is U:
                assert (after, result.commit) == (before, None)
            else:
                assert result.commit is not None
                assert result.commit.parents == (result.target_commit, result.source_commit)
                assert result.commit.actor == "dana"
            assert graph.merge("topic", into).outcome is U, "twice is once"
        assert check_graph(stores_of(graph)) == []


def test_both_parallel_edges_are_kept(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    for branch in ("topic", "main"):
        graph.insert("Knows", [{"from": "Alice", "to": "Bob"}], branch=branch)
    assert graph.merge("topic").outcome is M
    assert len(rows(graph)["Knows"]) == 3


# ── what moves ───────────────────────────────────────────────────────────────────────────────────


def test_a_net_zero_branch_merges_and_moves_no_table(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    _net_zero(graph, "topic")
    before = graph.snapshot().pins
    result = graph.merge("topic")
    assert (result.outcome, result.counts, result.tables) == (F, {}, ())
    assert graph.snapshot().pins == before
    assert graph.merge("topic").outcome is U


def test_a_row_written_again_with_the_same_content_is_no_change(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 1}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 9}])
    result = graph.merge("topic")
    assert (result.outcome, result.counts) == (M, {})
    assert rows(graph)["Person"]["Alice"]["age"] == 9


def test_a_branch_that_has_not_touched_a_table_is_pointed_at_mains_version(
    graph: LocalGraph,
) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 9}])
    graph.insert("Team", [{"name": "blue"}], branch="topic")
    result = graph.merge("main", "topic")
    pins = graph.snapshot("topic").pins
    assert result.outcome is M
    assert (pins[PERSON].owner, pins[PERSON].version) == (
        "main",
        graph.snapshot().pins[PERSON].version,
    )
    assert pins[TEAM].owner == "topic"
    assert rows(graph, "topic")["Person"] == rows(graph)["Person"]


def test_a_branch_with_higher_numbers_takes_mains_rows_nonetheless(graph: LocalGraph) -> None:
    """Each branch of a table counts its versions for itself; a pointer to a lower one is hidden."""
    graph.branches.create("topic")
    for age in range(5):
        graph.upsert("Person", [{"name": "Bob", "age": age}], branch="topic")
    graph.merge("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 77}])
    assert graph.snapshot().pins[PERSON].version < graph.snapshot("topic").pins[PERSON].version
    graph.merge("main", "topic")
    assert rows(graph, "topic") == rows(graph)


def test_a_branch_of_a_branch_can_be_deleted_once_it_is_merged(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.branches.create("detail", source="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 9}], branch="detail")
    graph.merge("detail", "topic")
    assert graph.snapshot("topic").pins[PERSON].owner == "topic"
    graph.branches.delete("detail")
    assert graph.merge("topic").outcome is F
    assert rows(graph)["Person"]["Alice"]["age"] == 9


def test_lists_and_blobs_are_merged_by_content(graph: LocalGraph, tmp_path: Path) -> None:
    elsewhere = tmp_path / "photo"
    elsewhere.write_bytes(b"kept by somebody else")
    photo = b"\x00" * 300_000
    graph.upsert("Team", [{"name": "red", "photo": photo, "tags": ["a", "b"]}])
    graph.branches.create("topic")
    graph.upsert("Team", [{"name": "red", "photo": photo, "tags": ["a", "b"]}], branch="topic")
    assert graph.merge("topic", dry_run=True).counts == {}, "the same bytes, kept elsewhere"
    graph.upsert(
        "Team", [{"name": "red", "photo": photo[:-1] + b"!", "tags": ["a,b"]}], branch="topic"
    )
    graph.insert("Team", [{"name": "blue", "photo": b"b"}, {"name": "none"}], branch="topic")
    graph.upsert("Team", [{"name": "red", "photo": f"file://{elsewhere}", "tags": []}])
    result = graph.merge("topic", on_conflict="theirs")
    assert (result.counts[TEAM].inserted, result.counts[TEAM].updated) == (2, 1)
    assert rows(graph)["Team"].keys() == {"red", "blue", "none"}
    graph.insert("Team", [{"name": "far", "photo": f"file://{elsewhere}"}], branch="topic")
    assert graph.merge("topic").counts[TEAM].inserted == 1
    assert graph.merge("main", "topic", dry_run=True).counts == {}, "both hold the same bytes now"


def test_rows_moved_by_a_compaction_are_no_change(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    for number in range(40):
        graph.insert("Person", [{"name": f"p{number}"}], branch="topic")
    result = graph.merge("topic")
    assert result.counts[PERSON].inserted == 40
    assert result.counts[PERSON].updated == 0
    for number in range(40):
        graph.upsert("Person", [{"name": f"p{number}", "age": 2}])
    assert graph.merge("main", "topic").counts[PERSON].updated == 40
    assert rows(graph) == rows(graph, "topic")


# ── conflicts ────────────────────────────────────────────────────────────────────────────────────


def test_all_conflicts_of_all_tables_are_told_at_once(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert(
        "Person", [{"name": "Alice", "age": 5}, {"name": "Eve", "mail": "e"}], branch="topic"
    )
    graph.delete("Knows", ["bc"], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 6}, {"name": "Dan", "mail": "e"}])
    graph.upsert("Knows", [{"id": "bc", "from": "Bob", "to": "Carol", "since": 4}])
    graph.insert("Leads", [{"id": "one", "from": "Bob", "to": "red"}], branch="topic")
    graph.insert("Leads", [{"id": "two", "from": "Bob", "to": "red"}])
    before = rows(graph)
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic")
    assert kinds(caught.value) == [
        ("delete_vs_update", "bc"),
        ("cardinality_violation", "Bob"),
        ("divergent_update", "Alice"),
        ("unique_violation", "Dan"),
    ]
    update = caught.value.conflicts[2]
    assert (update.base, update.ours, update.theirs) == tuple(
        {"age": age, "mail": None, "mood": None, "name": "Alice"} for age in (1, 6, 5)
    )
    assert "and 1 more" in str(caught.value)
    assert rows(graph) == before


def test_an_edge_to_a_node_that_the_other_side_removed_is_an_orphan(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.delete("Person", ["Carol", "Bob"], branch="topic")
    graph.insert("Knows", [{"id": "cb", "from": "Carol", "to": "Bob"}])
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic")
    assert kinds(caught.value) == [("orphan_edge", "cb"), ("orphan_edge", "cb")]


def test_property_by_property_both_sides_keep_what_they_changed(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 5}, {"name": "Bob", "age": 8}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 1, "mail": "a@x"}])
    with pytest.raises(MergeConflicts):
        graph.merge("topic")
    result = graph.merge("topic", detect="property")
    assert result.counts[PERSON].updated == 2
    assert rows(graph)["Person"]["Alice"] == {
        "name": "Alice",
        "age": 5,
        "mail": "a@x",
        "mood": None,
    }
    assert rows(graph)["Person"]["Bob"]["age"] == 8


def test_a_property_that_both_sides_set_is_named_with_its_three_values(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 5, "mood": "good"}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 6, "mood": "good"}])
    conflicts = graph.merge("topic", detect="property", dry_run=True).conflicts
    assert [(each.property_name, each.base, each.ours, each.theirs) for each in conflicts] == [
        ("age", 1, 6, 5)
    ]


def test_blended_rows_are_validated(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 1, "mail": "m"}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 2}, {"name": "Dan", "mail": "m"}])
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", detect="property")
    assert kinds(caught.value) == [("unique_violation", "Dan")]


@pytest.mark.parametrize(("side", "age"), [("ours", 6), ("theirs", 5)])
@pytest.mark.parametrize("detect", ["row", "property"])
def test_a_strategy_decides_every_row_both_want(
    graph: LocalGraph, side: str, age: int, detect: str
) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 5}, {"name": "Eve", "age": 5}], branch="topic")
    graph.delete("Person", ["Bob"], branch="topic")
    graph.upsert("Person", [{"name": name, "age": 6} for name in ("Alice", "Eve")])
    graph.upsert("Knows", [{"id": "bc", "from": "Bob", "to": "Carol", "since": 3}])
    result = graph.merge("topic", detect=detect, on_conflict={"Person": side, "Knows": "theirs"})
    assert result.outcome is M
    found = rows(graph)
    assert [found["Person"][name]["age"] for name in ("Alice", "Eve")] == [age, age]
    assert "Bob" not in found["Person"]
    assert found["Knows"] == {}


def test_a_strategy_for_one_type_leaves_the_others_in_conflict(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 5}], branch="topic")
    graph.upsert("Team", [{"name": "red", "tags": ["t"]}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 6}])
    graph.upsert("Team", [{"name": "red", "tags": ["m"]}])
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", on_conflict={"Person": "theirs"})
    assert kinds(caught.value) == [("divergent_update", "red")]


def break_orphan_by_source(graph: LocalGraph) -> None:
    graph.delete("Person", ["Alice"], branch="topic")
    graph.insert("Knows", [{"id": "ab", "from": "Alice", "to": "Bob"}])


def break_orphan_by_target(graph: LocalGraph) -> None:
    graph.insert("Knows", [{"id": "ab", "from": "Alice", "to": "Bob"}], branch="topic")
    graph.delete("Person", ["Alice"])


def break_unique(graph: LocalGraph) -> None:
    graph.insert("Person", [{"name": "Eve", "mail": "e"}], branch="topic")
    graph.insert("Knows", [{"id": "eb", "from": "Eve", "to": "Bob"}], branch="topic")
    graph.upsert("Person", [{"name": "Bob", "age": 2, "mail": "e"}])
    graph.insert("Person", [{"name": "Dan", "mail": "d"}])


def break_unique_of_a_new_row(graph: LocalGraph) -> None:
    graph.upsert("Person", [{"name": "Bob", "age": 2, "mail": "e"}], branch="topic")
    graph.insert("Person", [{"name": "Eve", "mail": "e"}])
    graph.insert("Knows", [{"id": "eb", "from": "Eve", "to": "Bob"}])


def break_cardinality(graph: LocalGraph) -> None:
    graph.insert("Leads", [{"id": "one", "from": "Bob", "to": "red"}], branch="topic")
    graph.insert("Leads", [{"id": "two", "from": "Bob", "to": "red"}])


BROKEN: Mapping[str, tuple[Callable[[LocalGraph], None], str, Mapping[str, str], Mapping[str, str]]]
BROKEN = {
    "a node the source removed": (
        break_orphan_by_source,
        "orphan_edge",
        {"people": "Alice Bob Carol", "knows": "ab bc", "leads": ""},
        {"people": "Bob Carol", "knows": "bc", "leads": ""},
    ),
    "a node the target removed": (
        break_orphan_by_target,
        "orphan_edge",
        {"people": "Bob Carol", "knows": "bc", "leads": ""},
        {"people": "Alice Bob Carol", "knows": "ab bc", "leads": ""},
    ),
    "a value of a new row of the source": (
        break_unique,
        "unique_violation",
        {"people": "Bob=e Carol Alice Dan=d", "knows": "bc", "leads": ""},
        {"people": "Alice Bob Carol Dan=d Eve=e", "knows": "bc eb", "leads": ""},
    ),
    "a value of a new row of the target": (
        break_unique_of_a_new_row,
        "unique_violation",
        {"people": "Alice Bob Carol Eve=e", "knows": "bc eb", "leads": ""},
        {"people": "Alice Bob=e Carol", "knows": "bc", "leads": ""},
    ),
    "too many edges": (
        break_cardinality,
        "cardinality_violation",
        {"people": "Alice Bob Carol", "knows": "bc", "leads": "two"},
        {"people": "Alice Bob Carol", "knows": "bc", "leads": "one"},
    ),
}
"""How it comes about, what it is called, and what there is if ours wins, and if theirs does."""


def shown(graph: LocalGraph) -> dict[str, set[str]]:
    found = rows(graph)
    people = {
        name + (f"={row['mail']}" if row["mail"] else "") for name, row in found["Person"].items()
    }
    return {"people": people, "knows": {*found["Knows"]}, "leads": {*found["Leads"]}}


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("detect", ["row", "property"])
@pytest.mark.parametrize("case", BROKEN)
def test_where_a_rule_is_broken_the_rows_of_one_side_stand(
    graph: LocalGraph, case: str, detect: str, side: str
) -> None:
    breaks, kind, ours, theirs = BROKEN[case]
    graph.branches.create("topic")
    breaks(graph)
    assert kind in {each.kind for each in graph.merge("topic", dry_run=True).conflicts}
    told = graph.merge("topic", detect=detect, on_conflict=side, dry_run=True)
    merged = graph.merge("topic", detect=detect, on_conflict=side)
    assert (merged.outcome, merged.counts) == (M, told.counts)
    wanted = ours if side == "ours" else theirs
    assert shown(graph) == {name: {*text.split()} for name, text in wanted.items()}
    assert graph.merge("topic").outcome is U


@pytest.mark.parametrize(
    ("case", "side"),
    [
        ("a node the source removed", "ours"),
        ("a node the source removed", "theirs"),
        ("a node the target removed", "ours"),
        ("a node the target removed", "theirs"),
        ("a value of a new row of the source", "theirs"),
        ("a value of a new row of the target", "ours"),
        ("too many edges", "ours"),
        ("too many edges", "theirs"),
    ],
)
def test_a_broken_rule_is_resolved_in_a_file_as_by_a_strategy(
    graph: LocalGraph, case: str, side: str
) -> None:
    breaks, _, ours, theirs = BROKEN[case]
    graph.branches.create("topic")
    breaks(graph)
    (conflict,) = graph.merge("topic", dry_run=True).conflicts
    filled = resolve(graph, "row", {str(conflict.row_id): f'"{side}"'})
    graph.merge("topic", resolutions=filled)
    wanted = ours if side == "ours" else theirs
    assert shown(graph) == {name: {*text.split()} for name, text in wanted.items()}


def test_a_row_that_goes_by_a_file_may_leave_edges_behind(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    break_unique(graph)
    filled = resolve(graph, "row", {"Bob": '"ours"'})
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", resolutions=filled)
    assert kinds(caught.value) == [("orphan_edge", "eb")], "nobody was asked about the edge"
    graph.merge("topic", resolutions=filled, on_conflict="ours")
    assert "Eve" not in rows(graph)["Person"]


def test_the_number_of_edges_is_no_value_that_can_be_written(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    break_cardinality(graph)
    with pytest.raises(ResolutionsInvalid, match='not as "ours" or "theirs"'):
        graph.merge("topic", resolutions=resolve(graph, "row", {"Bob": '{"value": null}'}))


def test_a_table_of_which_rows_were_kept_is_not_shown_as_the_source_has_it(
    graph: LocalGraph,
) -> None:
    graph.branches.create("topic")
    graph.insert("Knows", [{"id": "ab", "from": "Alice", "to": "Bob"}], branch="topic")
    graph.delete("Person", ["Alice"])
    graph.upsert("Person", [{"name": "Carol", "age": 9}])
    graph.merge("main", "topic", on_conflict="ours")
    people = rows(graph, "topic")["Person"]
    assert {name: row["age"] for name, row in people.items()} == {"Alice": 1, "Bob": 1, "Carol": 9}


def test_a_strategy_for_one_type_leaves_the_broken_rules_of_others(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    break_orphan_by_source(graph)
    break_cardinality(graph)
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", on_conflict={"Person": "theirs", "Knows": "theirs"})
    assert kinds(caught.value) == [("cardinality_violation", "Bob")]


def test_what_somebody_decided_about_a_row_is_not_undone_by_a_strategy(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 5}], branch="topic")
    graph.upsert("Person", [{"name": "Alice", "age": 6}])
    graph.upsert("Person", [{"name": "Bob", "mail": "b"}], branch="topic")
    filled = resolve(graph, "row", {"Alice": '{"value": {"name": "Alice", "mail": "b"}}'})
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", resolutions=filled, on_conflict="theirs")
    assert kinds(caught.value) == [("unique_violation", "Bob")]
    graph.merge("topic", resolutions=filled, on_conflict="ours")
    assert shown(graph)["people"] == {"Alice=b", "Bob", "Carol"}


def test_a_broken_rule_shows_the_row_on_every_side(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    break_orphan_by_target(graph)
    (orphan,) = graph.merge("topic", dry_run=True).conflicts
    assert (orphan.base, orphan.ours) == (None, None)
    assert orphan.theirs == {"from": "Alice", "to": "Bob", "since": None}


# ── resolutions ──────────────────────────────────────────────────────────────────────────────────


def resolve(graph: LocalGraph, detect: str, choices: Mapping[str, str]) -> str:
    """The file of conflicts, with what somebody wrote in place of each open resolution."""
    text = conflict_file(graph.merge("topic", detect=detect, dry_run=True), detect)
    lines = text.splitlines()
    row_id = ""
    for at, line in enumerate(lines):
        if '"row_id"' in line:
            row_id = line.split('"')[3]
        if '"resolution": null' in line:
            lines[at] = line.replace("null", choices[row_id])
    return "\n".join(lines)


def diverge(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    for branch, age in (("topic", 5), ("main", 6)):
        people = [{"name": name, "age": age} for name in ("Alice", "Bob", "Carol")]
        graph.upsert("Person", people, branch=branch)


@pytest.mark.parametrize("detect", ["row", "property"])
def test_each_conflict_is_resolved_as_somebody_decided(graph: LocalGraph, detect: str) -> None:
    diverge(graph)
    value = '{"value": 44}' if detect == "property" else '{"value": {"name": "Carol", "age": 44}}'
    filled = resolve(graph, detect, {"Alice": '"ours"', "Bob": '"theirs"', "Carol": value})
    result = graph.merge("topic", resolutions=filled)
    assert result.outcome is M
    ages = {name: row["age"] for name, row in rows(graph)["Person"].items()}
    assert ages == {"Alice": 6, "Bob": 5, "Carol": 44}
    assert graph.merge("topic").outcome is U


def test_an_orphan_is_resolved_by_giving_its_edge_up(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.insert("Knows", [{"id": "ab", "from": "Alice", "to": "Bob"}], branch="topic")
    graph.delete("Person", ["Alice"])
    filled = resolve(graph, "row", {"ab": '"ours"'})
    assert graph.merge("topic", resolutions=filled).counts == {}
    assert rows(graph)["Knows"].keys() == {"bc"}


def test_resolutions_are_for_two_heads_and_no_others(graph: LocalGraph) -> None:
    diverge(graph)
    choices = dict.fromkeys(("Alice", "Bob", "Carol"), '"theirs"')
    filled = resolve(graph, "row", choices)
    graph.insert("Team", [{"name": "late"}])
    with pytest.raises(HeadMoved):
        graph.merge("topic", resolutions=filled)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("null", "is not resolved"),
        ('"mine"', "resolved as 'mine'"),
        ('{"value": 3}', "not an object of properties"),
        ('{"value": {"name": "Alice", "age": "old"}}', "Person.age"),
        ('{"value": {"name": "Other"}}', "not the one the key spells"),
    ],
)
def test_a_resolution_that_makes_no_sense_is_refused(
    graph: LocalGraph, choice: str, reason: str
) -> None:
    diverge(graph)
    filled = resolve(graph, "row", dict.fromkeys(("Alice", "Bob", "Carol"), choice))
    with pytest.raises(ResolutionsInvalid, match=reason):
        graph.merge("topic", resolutions=filled)


def test_a_value_somebody_wrote_is_validated(graph: LocalGraph) -> None:
    diverge(graph)
    choices = {
        "Alice": '{"value": {"name": "Alice", "age": 900}}',
        "Bob": '"ours"',
        "Carol": '"ours"',
    }
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic", resolutions=resolve(graph, "row", choices))
    assert kinds(caught.value) == [("value_constraint_violation", "Alice")]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": 1}', '{"format": 1, "conflicts": [1]}']
)
def test_a_file_that_is_none_is_refused(graph: LocalGraph, text: str) -> None:
    graph.branches.create("topic")
    with pytest.raises(ResolutionsInvalid):
        graph.merge("topic", resolutions=text)


# ── bases ────────────────────────────────────────────────────────────────────────────────────────


def test_a_deleted_branch_that_was_the_base_is_never_quietly_passed_over(
    graph: LocalGraph,
) -> None:
    """Both sides took its rows; from an older base they would conflict, or come back."""
    graph.branches.create("shared")
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 9}], branch="shared")
    for into in ("main", "topic"):
        graph.merge("shared", into)
    graph.branches.delete("shared")
    graph.upsert("Person", [{"name": "Bob", "age": 3}], branch="topic")
    with pytest.raises(MergeBaseUnavailable) as caught:
        graph.merge("topic")
    assert len(caught.value.bases) == 1
    assert caught.value.candidates
    result = graph.merge("topic", base=caught.value.candidates[0])
    assert result.counts[PERSON].updated == 1
    assert rows(graph) == rows(graph, "topic")


def test_a_base_must_be_common(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Bob", "age": 3}], branch="topic")
    graph.upsert("Person", [{"name": "Carol", "age": 3}])
    own = graph.snapshot("topic").commit
    assert own is not None
    with pytest.raises(UsageError, match="history of both"):
        graph.merge("topic", base=own.id)


def test_criss_cross_histories_agree_on_what_both_bases_say(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 2}], branch="topic")
    graph.upsert("Person", [{"name": "Bob", "age": 2}])
    graph.branches.create("left")
    graph.branches.create("right", source="topic")
    graph.merge("topic", "left")
    graph.merge("main", "right")
    graph.upsert("Person", [{"name": "Carol", "age": 7}], branch="right")
    result = graph.merge("right", "left")
    assert len(result.base_commits) == 2
    assert result.counts[PERSON].updated == 1
    assert {name: row["age"] for name, row in rows(graph, "left")["Person"].items()} == {
        "Alice": 2,
        "Bob": 2,
        "Carol": 7,
    }
    graph.upsert("Person", [{"name": "Alice", "age": 3}], branch="right")
    assert len(graph.merge("right", "left").base_commits) == 1, "the merge made one of two"
    assert rows(graph, "left") == rows(graph, "right")


def test_a_row_the_bases_disagree_on_is_nobodys_guess(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "Alice", "age": 2}], branch="topic")
    graph.upsert("Person", [{"name": "Bob", "age": 2}])
    graph.branches.create("left")
    graph.branches.create("right", source="topic")
    graph.merge("topic", "left")
    graph.merge("main", "right")
    graph.upsert("Person", [{"name": "Alice", "age": 7}], branch="right")
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("right", "left")
    assert kinds(caught.value) == [("ambiguous_base", "Alice")]
    graph.merge("right", "left", on_conflict="theirs")
    assert rows(graph, "left") == rows(graph, "right")


def test_a_deletion_does_not_come_back_through_an_older_common_commit(graph: LocalGraph) -> None:
    """The history in which the shortest way leads to a base that is too old."""
    graph.branches.create("side")
    graph.branches.create("uncle")
    graph.insert("Team", [{"name": "u"}], branch="uncle")
    graph.insert("Person", [{"name": "Eve"}])
    graph.branches.create("topic")
    graph.delete("Person", ["Eve"], branch="topic")
    graph.merge("uncle", "topic")
    graph.insert("Team", [{"name": "s"}], branch="side")
    graph.insert("Team", [{"name": "m"}])
    graph.merge("main", "side")
    graph.merge("topic", "side")
    assert "Eve" not in rows(graph, "side")["Person"]
    assert rows(graph, "side")["Team"].keys() == {"red", "u", "s", "m"}


# ── asking wrongly ───────────────────────────────────────────────────────────────────────────────


def test_a_merge_that_cannot_be_meant_is_refused(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    with pytest.raises(UsageError):
        graph.merge("main", "main")
    with pytest.raises(BranchNotFound):
        graph.merge("nowhere")
    for bad in ({"detect": "cell"}, {"on_conflict": "mine"}, {"on_conflict": {"Person": "x"}}):
        with pytest.raises(UsageError):
            graph.merge("topic", **bad)


def test_a_dry_run_needs_no_right_to_write(graph: LocalGraph) -> None:
    diverge(graph)
    reader = omnigraph.open(graph.uri, read_only=True)
    before = read_folder(Path(graph.uri))
    assert len(reader.merge("topic", dry_run=True).conflicts) == 3
    assert read_folder(Path(graph.uri)) == before, "nothing was written"
    with pytest.raises(OpenedReadOnly):
        reader.merge("topic")
