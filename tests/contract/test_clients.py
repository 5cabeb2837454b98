"""One suite for everything that is a graph to a caller: embedded, and behind a server."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.merge.classify import Outcome
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    BranchNameInvalid,
    BranchNotFound,
    CommitNotFound,
    ConstraintViolation,
    HeadMoved,
    KeyConflict,
    KeyReused,
    MergeConflicts,
    NotAMutation,
    NotARead,
    ParameterInvalid,
    QueryInvalid,
    QueryNotFound,
    TypeUnknown,
    UsageError,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.server.settings import Flags
from omnigraph.testing.serving import running

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  seen: DateTime?  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"


@pytest.fixture(params=["embedded", "served"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
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
    assert (data["age"], data["tags"], data["seen"]) == (36, ["a", "b"], "2026-01-02T03:04:05")
    assert graph.upsert("Person", [{"name": "Ada", "age": 37}]).affected_nodes == 1
    assert graph.delete("Person", ["Ada", "nobody"]).affected_nodes == 1
    assert rows_of(graph) == {"edge:Knows": 0, "node:Person": 1}


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
    assert (told.row_id, told.message) == (conflict.row_id, conflict.message)
    assert graph.merge("b", on_conflict="theirs").outcome is Outcome.MERGED


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
