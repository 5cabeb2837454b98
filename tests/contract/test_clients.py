"""One suite for everything that is a graph to a caller: embedded, and behind a server."""

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import omnigraph
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.effects import REAL
from omnigraph.engine.history.diff import EntityChange
from omnigraph.engine.merge.classify import Outcome
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNameInvalid,
    BranchNotFound,
    ChangesRefused,
    CommitNotFound,
    ConstraintViolation,
    CursorInvalid,
    HeadMoved,
    InputError,
    KeyConflict,
    KeyReused,
    MergeConflicts,
    MigrationUnsupported,
    NotAMutation,
    NotARead,
    NotFoundError,
    NothingYet,
    ParameterInvalid,
    QueryInvalid,
    QueryNotFound,
    SchemaInvalid,
    TypeUnknown,
    UsageError,
    VersionNotFound,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.server.runtime.settings import Flags
from support.awaiting import awaiting
from support.serving import running

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"


@pytest.fixture(params=["embedded", "served", "awaited"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    client = awaiting if request.param == "awaited" else omnigraph.connect
    with running(flags) as server, client(server.url, graph="g") as remote:
        yield remote


def rows_of(graph: GraphClient, branch: str = "main") -> dict[str, int]:
    return {key: pin.row_count for key, pin in graph.snapshot(branch).pins.items()}


def test_a_mutation_tells_what_it_did(graph: GraphClient) -> None:
    done = graph.mutate(ADD, params={"n": "Ada", "a": 36})
    assert (done.branch, done.query_name, done.affected_nodes, done.affected_edges) == (
        "main",
        "add",
        1,
        0,
    )
    assert done.commit is not None
    head = graph.commits()[0]
    assert done.commit.id == head.id
    assert done.commit.parents == head.parents == (graph.commits()[1].id,)
    assert graph.commit(head.id).created_at_us == head.created_at_us
    assert graph.snapshot().commit is not None
    assert graph.snapshot().commit.id == head.id  # type: ignore[union-attr]
    nothing = graph.mutate('query q() { delete Person where name = "nobody" }')
    assert nothing.affected_nodes == 0


def test_a_refusal_brings_its_facts_and_the_valid_program(graph: GraphClient) -> None:
    broken = "query q() { match { $p: Person  $p.nme == 'Ada' } return $p.name }"
    with pytest.raises(QueryInvalid) as refused:
        graph.query(broken)
    first = refused.value.findings[0]
    assert (first.code, first.line, first.expected) == ("P1", 1, ("an expression",))
    repair = refused.value.repair
    assert repair is not None
    assert (
        repair.program == 'query q() { match { $p: Person  $p.name = "Ada" } return { $p.name } }'
    )
    assert list(graph.query(repair.program)) == []
    with pytest.raises(QueryInvalid) as misspelt:
        graph.query("query q() { match { $p: Person } return { $p.nmae } }")
    assert misspelt.value.findings[0].candidates[0] == "name"


def test_rows_of_every_kind_of_value_arrive(graph: GraphClient) -> None:
    full = {
        "name": "Ada",
        "age": 36,
        "born": date(1815, 12, 10),
        "seen": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "tags": ["a", "b"],
    }
    graph.insert("Person", [full, {"name": "Bo"}])
    graph.insert("Knows", [{"from": "Ada", "to": "Bo", "since": 1}])
    assert rows_of(graph) == {"edge:Knows": 1, "node:Person": 2}
    lines = b"".join(graph.export_lines(types=["Person"])).decode().splitlines()
    data = json.loads(lines[0])["data"]
    assert (data["age"], data["tags"], data["seen"]) == (36, ["a", "b"], "2026-01-02T03:04:05.000Z")
    assert graph.upsert("Person", [{"name": "Ada", "age": 37}]).affected_nodes == 1
    assert graph.delete("Person", ["Ada", "nobody"]).affected_nodes == 1
    assert rows_of(graph) == {"edge:Knows": 0, "node:Person": 1}


HALF = "\ud800"
HALVES: list[Callable[[GraphClient], object]] = [
    lambda graph: graph.query(f"query q() {{ match {{ $p: {HALF} }} return {{ $p.name }} }}"),
    lambda graph: graph.mutate(ADD, params={"n": HALF}),
    lambda graph: graph.insert("Person", [{"name": HALF}]),
    lambda graph: graph.insert("Person", [{"name": "Ada"}], idempotency_key=HALF),
    lambda graph: graph.insert("Person", [{"name": "Ada"}], actor=HALF),
    lambda graph: graph.commit(HALF),
    lambda graph: graph.branches.create(HALF),
    lambda graph: list(graph.export_lines(types=[HALF])),
]


MISTAKES: list[Callable[[GraphClient], object]] = [
    lambda graph: graph.commits(limit=-1),
    lambda graph: graph.changes(start="beginning", limit=0),
    lambda graph: graph.changes(start="beginning", kinds=["animal"]),
    lambda graph: graph.delete("Person", "abc"),
    lambda graph: graph.insert("Person", cast("Any", {"name": "Ada"})),
    lambda graph: graph.mutate(ADD, params=cast("Any", ["Ada"])),
    lambda graph: graph.snapshot(version=-1),
    lambda graph: graph.snapshot(version=2**70),
]


def test_a_mistake_of_the_caller_is_told_as_one(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": each} for each in "abc"])
    for ask in MISTAKES:
        with pytest.raises((UsageError, VersionNotFound)):
            ask(graph)
    assert rows_of(graph)["node:Person"] == 3


def test_half_a_character_is_a_mistake_and_no_accident(graph: GraphClient) -> None:
    for ask in HALVES:
        with pytest.raises((InputError, NotFoundError)):
            ask(graph)
    assert len(graph.commits()) == 1


def test_branches_come_and_go(graph: GraphClient) -> None:
    assert graph.branches.create("review/a") == "review/a"
    start = graph.commits()[0].id
    graph.insert("Person", [{"name": "Ada"}], branch="review/a")
    graph.insert("Person", [{"name": "Bo"}])
    assert graph.branches.create("past", commit=start) == "past"
    assert graph.branches.list() == ("main", "past", "review/a")
    assert rows_of(graph, "review/a")["node:Person"] == 1
    assert rows_of(graph, "past")["node:Person"] == 0
    assert graph.commits("review/a")[0].branch == "review/a"
    graph.branches.delete("past")
    assert graph.branches.list() == ("main", "review/a")


def test_the_history_is_listed_newest_first_and_filtered(graph: GraphClient) -> None:
    for name in ("a", "b", "c"):
        graph.insert("Person", [{"name": name}])
    everything = graph.commits()
    assert [each.manifest_version for each in everything] == [4, 3, 2, 1]
    assert graph.commits(limit=2) == everything[:2]
    assert graph.commits(since_us=everything[1].created_at_us)[-1].id in {
        each.id for each in everything[:2]
    }
    assert graph.commits(actor="nobody") == ()
    assert graph.commits(actor="") == everything
    past = graph.snapshot(version=2)
    assert past.pins["node:Person"].row_count == 1  # type: ignore[index]
    assert graph.snapshot(commit=everything[0].id).manifest_version == 4


def test_the_schema_is_the_same(graph: GraphClient) -> None:
    assert graph.schema_source == SCHEMA
    assert [each.name for each in graph.catalog.nodes] == ["Person"]


READ = """
query people($least: I32?) {
  match { $p: Person }
  return { $p.name, $p.age, $p.born, $p.seen, $p.tags }
  order { $p.name }
}
"""


def test_a_read_answers_in_every_form(graph: GraphClient) -> None:
    seen = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    row = {"name": "Ada", "age": 36, "born": date(1815, 12, 10), "seen": seen, "tags": ["a"]}
    graph.insert("Person", [row, {"name": "Bo"}])
    found = graph.query(READ, name="people", params={"least": None})
    assert (found.query_name, found.target.branch, len(found)) == ("people", "main", 2)
    assert found.commit_id == graph.commits()[0].id
    assert found.columns == ("p.name", "p.age", "p.born", "p.seen", "p.tags")
    assert found.rows()[0] == {f"p.{key}": value for key, value in row.items()}
    assert set(found.rows()[1].values()) == {"Bo", None}
    assert found.json_rows()[0]["p.born"] == "1815-12-10"
    assert found.json_rows()[0]["p.seen"] == "2026-01-02T03:04:05.678Z"
    assert found.arrow().num_rows == 2
    assert list(found.pandas()["p.name"]) == ["Ada", "Bo"]
    document = found.document()
    assert document["row_count"] == 2
    assert document["target"] == {"branch": "main", "snapshot": None}
    past = graph.query(READ, commit=graph.commits()[-1].id)
    assert (len(past), past.target.branch) == (0, None)
    with pytest.raises(NotARead):
        graph.query(ADD, params={"n": "x"})


def test_merging_tells_what_came_of_it(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "Ada", "age": 1}])
    graph.branches.create("b")
    graph.upsert("Person", [{"name": "Ada", "age": 2}, {"name": "Bo"}], branch="b")
    graph.insert("Person", [{"name": "Cy"}])
    told = graph.merge("b", dry_run=True)
    assert (told.outcome, told.commit) == (Outcome.MERGED, None)
    done = graph.merge("b", idempotency_key="k")
    assert done.commit is not None
    assert len(done.commit.parents) == 2
    assert done.counts["node:Person"].inserted == 1  # type: ignore[index]
    assert graph.merge("b", idempotency_key="k").commit == done.commit
    assert graph.merge("b").outcome is Outcome.ALREADY_UP_TO_DATE


def test_conflicts_of_a_merge_are_listed(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "Ada", "age": 1}])
    graph.branches.create("b")
    graph.upsert("Person", [{"name": "Ada", "age": 2}], branch="b")
    graph.upsert("Person", [{"name": "Ada", "age": 3}])
    (told,) = graph.merge("b", dry_run=True).conflicts
    with pytest.raises(MergeConflicts) as refused:
        graph.merge("b")
    (conflict,) = refused.value.conflicts
    assert (conflict.table, conflict.row_id, conflict.kind) == (
        "node:Person",
        "Ada",
        "divergent_update",
    )
    assert told == conflict, "with what the base, ours and theirs have"
    sides: list[Any] = [conflict.base, conflict.ours, conflict.theirs]
    assert [each["age"] for each in sides] == [1, 3, 2]
    assert graph.merge("b", on_conflict="theirs").outcome is Outcome.MERGED


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_side_decides_where_an_edge_lost_its_end(graph: GraphClient, side: str) -> None:
    graph.insert("Person", [{"name": "Ada"}, {"name": "Bo"}])
    graph.branches.create("b")
    graph.delete("Person", ["Bo"], branch="b")
    graph.insert("Knows", [{"id": "k", "from": "Ada", "to": "Bo"}])
    assert graph.merge("b", on_conflict=side).outcome is Outcome.MERGED
    found = [graph.find("Person", "Bo"), graph.find("Knows", "k")]
    assert [each is not None for each in found] == [side == "ours"] * 2


def test_a_branch_is_deleted_once_it_is_merged(graph: GraphClient) -> None:
    graph.branches.create("b")
    graph.insert("Person", [{"name": "Ada"}], branch="b")
    dry = graph.merge("b", delete_branch=True, dry_run=True)
    assert (dry.branch_deleted, "b" in graph.branches.list()) == (None, True)
    result = graph.merge("b", delete_branch=True, idempotency_key="k-1")
    assert (result.outcome, result.branch_deleted) == (Outcome.FAST_FORWARD, True)
    assert list(graph.branches.list()) == ["main"]
    again = graph.merge("b", delete_branch=True, idempotency_key="k-1")
    assert (again.commit, again.branch_deleted) == (result.commit, True)


def test_a_branch_that_cannot_be_deleted_is_merged_all_the_same(graph: GraphClient) -> None:
    graph.branches.create("b")
    graph.branches.create("child", source="b")
    graph.insert("Person", [{"name": "Ada"}], branch="b")
    result = graph.merge("b", delete_branch=True)
    assert (result.outcome, result.branch_deleted) == (Outcome.FAST_FORWARD, False)
    assert result.branch_delete_error is not None
    assert "child" in result.branch_delete_error
    assert "b" in graph.branches.list()
    assert graph.find("Person", "Ada") is not None


def test_a_merge_that_is_refused_deletes_nothing(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "Ada", "age": 1}])
    graph.branches.create("b")
    graph.upsert("Person", [{"name": "Ada", "age": 2}], branch="b")
    graph.upsert("Person", [{"name": "Ada", "age": 3}])
    with pytest.raises(MergeConflicts):
        graph.merge("b", delete_branch=True)
    assert "b" in graph.branches.list()


def test_a_key_makes_asking_again_harmless(graph: GraphClient) -> None:
    first = graph.mutate(ADD, params={"n": "Ada"}, idempotency_key="k")
    assert graph.mutate(ADD, params={"n": "Ada"}, idempotency_key="k").commit == first.commit
    with pytest.raises(KeyReused) as refused:
        graph.mutate(ADD, params={"n": "Bo"}, idempotency_key="k")
    assert refused.value.key == "k"
    graph.branches.create("b", idempotency_key="b")
    graph.branches.create("b", idempotency_key="b")
    graph.branches.delete("b", idempotency_key="d")
    graph.branches.delete("b", idempotency_key="d")


def test_a_condition_is_kept_or_told(graph: GraphClient) -> None:
    head = graph.commits()[0].id
    graph.mutate(ADD, params={"n": "Ada"}, if_commit=head)
    writes: list[Callable[[], object]] = [
        lambda: graph.mutate(ADD, params={"n": "Bo"}, if_commit=head),
        lambda: graph.insert("Person", [{"name": "Bo"}], if_commit=head),
        lambda: graph.delete("Person", ["Ada"], if_commit=head),
    ]
    for write in writes:
        with pytest.raises(HeadMoved) as moved:
            write()
        assert moved.value.expected == head
        assert moved.value.actual == graph.commits()[0].id


# ── the past ─────────────────────────────────────────────────────────────────────────────────────

NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"


def test_the_past_is_read_in_every_way_it_can_be_named(graph: GraphClient) -> None:
    for name in ("Ada", "Bo"):
        graph.insert("Person", [{"name": name, "age": 1}])
        REAL.sleep_ms(2)
    graph.upsert("Person", [{"name": "Ada", "age": 2}])
    then = graph.commits()[1]
    moment = datetime.fromtimestamp(then.created_at_us / 1e6, UTC)
    ways: list[dict[str, Any]] = [
        {"commit": then.id},
        {"snapshot": then.id},
        {"snapshot": graph.snapshot(commit=then.id)},
        {"version": then.manifest_version},
        {"branch": "main", "version": then.manifest_version},
        {"at": moment},
        {"at": moment.isoformat()},
    ]
    for way in ways:
        found = graph.query(NAMES, **way)
        assert found.rows() == [{"p.name": "Ada"}, {"p.name": "Bo"}], way
        assert found.commit_id == then.id, way
        old = graph.find("Person", "Ada", **way)
        assert old is not None
        assert old["age"] == 1, way
    now = graph.find("Person", "Ada")
    assert now is not None
    assert now["age"] == 2
    assert graph.find("Person", "nobody") is None
    assert graph.look_up("Person", "Ada").json_rows()[0]["name"] == "Ada"
    exported = b"".join(graph.export_lines(version=2)).splitlines()
    assert exported == b"".join(graph.export_lines(commit=graph.commits()[2].id)).splitlines()
    assert len(exported) == 1
    wrong: list[dict[str, Any]] = [
        {"commit": then.id, "version": 2},
        {"branch": "main", "commit": then.id},
        {"at": "yesterday"},
    ]
    for way in wrong:
        with pytest.raises(UsageError):
            graph.query(NAMES, **way)
    with pytest.raises(NothingYet):
        graph.query(NAMES, at="1999-01-01T00:00:00Z")
    with pytest.raises(VersionNotFound):
        graph.find("Person", "Ada", version=99)
    with pytest.raises(TypeUnknown):
        graph.find("Persn", "Ada")


# ── what changed ─────────────────────────────────────────────────────────────────────────────────


def told(changes: Iterable[EntityChange]) -> list[tuple[str, str, str]]:
    return [(str(each.op), each.type_name, each.id) for each in changes]


def test_what_differs_is_counted_and_told(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": name, "age": 1} for name in ("Ada", "Bo", "Cy")])
    graph.branches.create("b")
    graph.upsert("Person", [{"name": "Ada", "age": 2}, {"name": "Di"}], branch="b")
    graph.delete("Person", ["Bo"], branch="b")
    graph.insert("Knows", [{"id": "k", "from": "Ada", "to": "Cy", "since": 7}], branch="b")
    found = graph.diff("main", "b")
    graph.delete("Person", ["Cy"])  # what comes later is not in it
    assert len(found) == 4
    counts = found.counts["node:Person"]  # type: ignore[index]
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 1, 1)
    expected = [
        ("insert", "Knows", "k"),
        ("update", "Person", "Ada"),
        ("delete", "Person", "Bo"),
        ("insert", "Person", "Di"),
    ]
    changes = list(found.changes())
    assert told(changes) == expected
    assert told(found.changes(skip=2)) == expected[2:]
    edge, updated = changes[:2]
    assert edge.ends == ("Ada", "Cy")
    assert edge.after is not None
    assert edge.after.properties == {"since": 7}
    assert updated.before is not None
    assert updated.before.properties["age"] == 1
    assert (found.before.branch, found.after.branch) == ("main", "b")
    assert found.after.commit is not None
    assert found.after.commit.id == graph.commits("b")[0].id
    only = graph.diff("b", "main@2", kinds=["node"], types=["Person"], ops=["insert"])
    assert told(only.changes()) == [("insert", "Person", "Bo")]
    assert len(graph.diff("main", graph.commits()[0].id)) == 0
    with pytest.raises(BranchNotFound):
        graph.diff("main", "nowhere")
    with pytest.raises(TypeUnknown):
        graph.diff("main", "b", types=["Persn"])


def test_the_feed_is_followed_page_by_page(graph: GraphClient) -> None:
    beginning = graph.baseline(types=["Person"])
    lines = b"".join(beginning.lines()).splitlines()
    assert json.loads(lines[-1]) == {"baseline": beginning.document()}
    head = graph.commits()[0]
    assert beginning.snapshot.commit is not None
    assert beginning.snapshot.commit.id == head.id == beginning.document()["snapshot_commit_id"]
    graph.insert("Person", [{"name": name} for name in "abc"])
    graph.mutate(ADD, params={"n": "d"})
    cursor: str | None = beginning.resume_cursor
    seen = []
    for _ in range(9):
        page = graph.changes(cursor, types=["Person"], limit=2)
        seen += [(each.cause, change) for each in page.blocks for change in each.changes]
        cursor = page.next_page_token or page.cursor
        if page.caught_up:
            break
    assert [change.id for _, change in seen] == ["a", "b", "c", "d"]
    newest = graph.commits()
    assert [cause.id for cause, _ in seen] == [newest[1].id] * 3 + [newest[0].id]
    assert seen[-1][0].manifest_version == newest[0].manifest_version
    assert seen[-1][0].parents == newest[0].parents
    assert graph.changes(cursor, types=["Person"]).blocks == ()
    first = graph.commit_changes(newest[1].id, limit=2)
    rest = graph.commit_changes(newest[1].id, limit=2, page_token=first.next_page_token)
    assert told((*first.changes, *rest.changes)) == [("insert", "Person", each) for each in "abc"]
    assert rest.next_page_token is None
    with pytest.raises(CursorInvalid):
        graph.changes(cursor, types=["Knows"])
    with pytest.raises(CursorInvalid):
        graph.changes("nonsense")
    with pytest.raises(UsageError):
        graph.changes()
    with pytest.raises(ChangesRefused):
        graph.commit_changes(newest[-1].id)


# ── another schema, and upkeep ───────────────────────────────────────────────────────────────────

WIDER = SCHEMA.replace("age: I32?", "age: I32?  nick: String?") + "node City { name: String @key }"


def test_a_schema_is_planned_and_applied(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "Ada", "age": 7}])
    fill = {"Person.nick": "upper(name)"}
    plan = graph.plan_schema(WIDER, backfill=fill)
    assert plan.migration.supported
    assert graph.schema_source == SCHEMA
    done = graph.apply_schema(WIDER, backfill=fill, idempotency_key="k")
    assert done.applied
    assert done.plan == plan
    assert [(each.key, each.effect.value) for each in plan.effects] == [
        ("node:City", "created"),
        ("node:Person", "filled"),
    ]
    assert done.commit is not None
    assert done.commit.id == graph.commits()[0].id
    assert done.manifest_version == graph.snapshot().manifest_version
    again = graph.apply_schema(WIDER, backfill=fill, idempotency_key="k")
    assert (again.plan, again.applied, again.commit) == (done.plan, True, done.commit)
    row = graph.find("Person", "Ada")
    assert row is not None
    assert row["nick"] == "ADA"
    assert graph.plan_schema(WIDER).migration.steps == ()
    unfit = WIDER.replace("age: I32?", "age: String?")
    assert not graph.plan_schema(unfit).migration.supported
    with pytest.raises(MigrationUnsupported) as refused:
        graph.apply_schema(unfit)
    assert refused.value.entity == "node:Person.age"
    keyed = WIDER.replace("Person -> Person", "Person -> Person @key(src, dst)")
    before = graph.commits()[0].id
    with pytest.raises(UsageError, match=r"not portable: .* edge:Knows: @key\(src, dst\)"):
        graph.apply_schema(keyed, portable=True)
    assert (graph.schema_source, graph.commits()[0].id) == (WIDER, before)
    assert not graph.apply_schema(WIDER, portable=True).applied
    assert graph.apply_schema(keyed).applied
    with pytest.raises(SchemaInvalid) as wrong:
        graph.plan_schema("node {")
    assert wrong.value.findings[0].line == 1


def test_tidying_up_tells_what_it_did(graph: GraphClient) -> None:
    for name in "abc":
        graph.insert("Person", [{"name": name}])
    done = graph.optimize(idempotency_key="k")
    tables = {each.key: each for each in done.tables}
    assert tables["node:Person"].fragments_removed >= 2  # type: ignore[index]
    assert [each.id for each in graph.commits()[1 : 1 + len(done.commits)]][::-1] == [
        each.id for each in done.commits
    ]
    again = graph.optimize(idempotency_key="k")
    assert again.tables == done.tables
    assert [each.id for each in again.commits] == [each.id for each in done.commits]


# ── errors are the same, with the same facts ─────────────────────────────────────────────────────


def test_what_is_not_there_is_told(graph: GraphClient) -> None:
    with pytest.raises(BranchNotFound) as missing:
        graph.insert("Person", [{"name": "x"}], branch="nowhere")
    assert missing.value.branch == "nowhere"
    with pytest.raises(BranchNotFound):
        graph.snapshot("nowhere")
    with pytest.raises(BranchNotFound):
        graph.branches.delete("nowhere")
    with pytest.raises(CommitNotFound, match="01NONE"):
        graph.commit("01NONE")
    with pytest.raises(CommitNotFound):
        graph.snapshot(commit="01NONE")


def test_what_breaks_the_schema_is_told_completely(graph: GraphClient) -> None:
    with pytest.raises(ConstraintViolation) as broken:
        graph.insert("Person", [{"name": "a", "age": "old"}, {"name": "b", "born": "never"}])
    assert sorted((each.type_name, each.property_name) for each in broken.value.violations) == [
        ("Person", "age"),
        ("Person", "born"),
    ]
    graph.insert("Person", [{"name": "a"}])
    with pytest.raises(KeyConflict) as taken:
        graph.insert("Person", [{"name": "a"}])
    assert taken.value.ids == ("a",)
    with pytest.raises(TypeUnknown, match="Persn"):
        graph.insert("Persn", [{"name": "a"}])


def test_programs_that_are_wrong_are_told_with_places(graph: GraphClient) -> None:
    with pytest.raises(QueryInvalid) as wrong:
        graph.mutate("query q() { insert Nobody { name: 1 } }")
    assert wrong.value.findings[0].line == 1
    assert "Nobody" in wrong.value.findings[0].render()
    with pytest.raises(ParameterInvalid) as unfit:
        graph.mutate(ADD, params={"n": 7})
    assert unfit.value.name == "n"
    with pytest.raises(QueryNotFound) as several:
        graph.mutate(ADD, name="other")
    assert several.value.available == ("add",)
    with pytest.raises(NotAMutation):
        graph.mutate("query q() { match { $p: Person } return { $p.name } }")


def test_branches_that_cannot_be_are_told(graph: GraphClient) -> None:
    graph.branches.create("b")
    with pytest.raises(BranchExists):
        graph.branches.create("b")
    with pytest.raises(BranchNameInvalid):
        graph.branches.create("a..b")
    with pytest.raises(BranchNameInvalid):
        graph.branches.delete("main")
    graph.insert("Person", [{"name": "x"}], branch="b")
    graph.branches.create("c", source="b")
    with pytest.raises(BranchInUse) as used:
        graph.branches.delete("b")
    assert used.value.users == ("c",)
    with pytest.raises(UsageError):
        graph.snapshot("b", commit=graph.commits()[0].id)


def test_a_message_is_kept_in_the_commit(graph: GraphClient) -> None:
    done = graph.insert("Person", [{"name": "Ada"}], message="für Ada: 100 %")
    assert done.commit is not None
    assert graph.commit(done.commit.id).message == "für Ada: 100 %"
    graph.branches.create("b")
    graph.insert("Person", [{"name": "Bo"}], branch="b")
    assert graph.commits("b")[0].message is None
    merged = graph.merge("b", message="autumn")
    assert merged.commit is not None
    assert [each.message for each in graph.commits(limit=2)] == ["autumn", "für Ada: 100 %"]


def test_branches_are_told_with_their_heads_and_their_distance_to_main(graph: GraphClient) -> None:
    graph.branches.create("topic")
    graph.insert("Person", [{"name": "mine"}])
    for name in ("one", "two"):
        graph.insert("Person", [{"name": name}], branch="topic", message=name)
    main, topic = graph.branches.summaries()
    assert (main.name, main.ahead, main.behind) == ("main", 0, 0)
    assert (topic.name, topic.ahead, topic.behind) == ("topic", 2, 1)
    assert main.head is not None
    assert topic.head is not None
    assert main.head.id == graph.commits(limit=1)[0].id
    assert topic.head.message == "two"
    graph.merge("topic")
    main, topic = graph.branches.summaries()
    assert (topic.ahead, topic.behind) == (0, 2)  # main's own commit, and the merge


def test_commits_tell_their_rows_and_times(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "a"}, {"name": "b"}])
    graph.upsert("Person", [{"name": "a", "age": 1}, {"name": "c"}])
    changed, inserted, genesis = graph.commits()
    assert str(changed.row_counts) == "+1 ~1 −0"
    assert inserted.counts == {"node:Person": RowCounts(inserted=2)}
    assert genesis.counts is None
    assert (datetime.now(UTC) - changed.created_at).total_seconds() < 600  # noqa: TID251 - ours
    assert graph.commit(changed.id).counts == changed.counts


def test_the_commits_of_merged_branches_are_listed_on_request(graph: GraphClient) -> None:
    graph.branches.create("topic")
    side = graph.insert("Person", [{"name": "side"}], branch="topic").commit
    graph.insert("Person", [{"name": "mine"}])
    merged = graph.merge("topic").commit
    assert side is not None
    assert merged is not None
    assert side.id not in {each.id for each in graph.commits()}
    listed = [each.id for each in graph.commits(merged=True)]
    assert len(listed) == len(graph.commits()) + 1
    assert listed.index(merged.id) < listed.index(side.id)


def test_a_branch_is_compared_with_the_state_at_which_it_parted(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "old"}])
    graph.branches.create("topic")
    graph.insert("Person", [{"name": "mine"}])
    graph.insert("Person", [{"name": "theirs"}], branch="topic")
    whole = graph.diff("main", "topic")
    assert whole.counts == {"node:Person": RowCounts(inserted=1, deleted=1)}
    parted = graph.diff("main", "topic", since_merge_base=True)
    assert parted.counts == {"node:Person": RowCounts(inserted=1)}
    assert [each.id for each in parted.changes()] == ["theirs"]
    graph.merge("topic")
    assert graph.diff("main", "topic", since_merge_base=True).counts == {}
    assert graph.at().diff(graph.branch("topic"), since_merge_base=True).counts == {}


def test_maintenance_keeps_a_message_too(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": "a"}])
    commits = graph.optimize(message="monthly").commits
    assert [each.message for each in commits] == ["monthly"] * len(commits)


def test_a_load_runs_on_the_engine_it_names(graph: GraphClient, tmp_path: Path) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text('{"type": "Person", "data": {"name": "new"}}\n')
    loaded = graph.load(lines, mode="append", engine="local", message="ten lines")
    assert loaded.engine == "local"
    assert loaded.commit is not None
    assert loaded.commit.message == "ten lines"
    with pytest.raises(UsageError):
        graph.load(lines, mode="append", engine="abacus")
