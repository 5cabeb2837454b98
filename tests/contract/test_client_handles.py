"""Branches, snapshots, transactions and results, of an embedded graph and of a served one."""

import io
from collections.abc import Iterator
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import (
    BranchNotFound,
    ConstraintViolation,
    GraphClosed,
    KeyReused,
    NotARead,
    OmnigraphError,
    ParameterInvalid,
    QueryInvalid,
    UsageError,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.server.runtime.settings import Flags
from support.awaiting import awaiting
from support.serving import running

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
READ = "query q($least: I32?) { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"


@pytest.fixture(params=["embedded", "served", "awaited"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    embedded.insert("Person", [{"name": "Ada", "age": 36}])
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    client = awaiting if request.param == "awaited" else omnigraph.connect
    with running(flags) as server, client(server.url, graph="g") as remote:
        yield remote


def names(of: GraphClient | omnigraph.Branch | omnigraph.Snapshot) -> list[object]:
    return [row["p.name"] for row in of.query(READ)]


def test_a_snapshot_shows_the_same_rows_whatever_is_written(graph: GraphClient) -> None:
    before = graph.at()
    graph.insert("Person", [{"name": "Bo"}])
    assert (names(before), names(graph)) == (["Ada"], ["Ada", "Bo"])
    assert before.commit is not None
    assert before.entity("Person", "Bo") is None
    assert graph.entity("Person", "Bo") == {"id": "Bo", "name": "Bo", "age": None}
    for again in (
        graph.at(commit=before.commit.id),
        graph.at(version=before.version),
        graph.at(branch="main", version=before.version),
    ):
        assert names(again) == ["Ada"]
    later = graph.commits()[0].created_at_us / 1_000_000
    when = pd.Timestamp(later, unit="s", tz="UTC").ceil("s").isoformat()
    assert names(graph.at(time=when)) == ["Ada", "Bo"]
    with pytest.raises(UsageError):
        graph.at(branch="main", commit=before.commit.id)
    found = before.diff(graph.at())
    assert {key: each.inserted for key, each in found.counts.items()} == {"node:Person": 1}
    sink = io.BytesIO()
    assert before.export(sink).counts["node:Person"] == 1  # type: ignore[index]
    assert sink.getvalue().count(b"\n") == 1
    assert before.schema == SCHEMA
    assert repr(before).startswith(f"Snapshot({graph.uri!r}, main @ 01")


def test_parameters_follow_the_program_wherever_it_is_asked(graph: GraphClient) -> None:
    program = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
    for of in (graph, graph.branch("main"), graph.at()):
        assert of.query(program, {"n": "Ada"}).rows() == [{"age": 36}]


def test_a_snapshot_keeps_the_schema_it_was_committed_under(graph: GraphClient) -> None:
    before = graph.at()
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  city: String?"))
    assert before.schema == SCHEMA
    assert "city" in graph.at().schema


def test_a_branch_reads_and_writes(graph: GraphClient) -> None:
    with pytest.raises(BranchNotFound):
        graph.branch("review/a")
    review = graph.branch("review/a", create=True)
    assert graph.branch("review/a", create=True).name == "review/a"
    review.upsert("Person", pd.DataFrame({"name": ["Bo", "Cy"], "age": [1, None]}), message="two")
    review.insert("Person", pa.table({"name": ["Di"]}))
    review.delete("Person", ["Cy"])
    review.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "Ed"})
    assert (names(review), names(graph)) == (["Ada", "Bo", "Di", "Ed"], ["Ada"])
    assert review.head is not None
    assert review.head.id == review.commits(limit=1)[0].id
    assert [each.message for each in review.commits()][3] == "two"
    assert len(graph.at().diff(review)) == 3
    assert names(review.at(version=review.at().version - 1)) == ["Ada", "Bo", "Di"]
    with pytest.raises(UsageError):
        review.insert("Person", [{"name": "x"}], branch="main")
    merged = graph.merge(review, message="autumn", delete_branch=True)
    assert merged.branch_deleted
    assert names(graph) == ["Ada", "Bo", "Di", "Ed"]


def test_a_transaction_is_one_commit_or_nothing(graph: GraphClient) -> None:
    review = graph.branch("b", create=True)
    with review.transaction(message="several") as tx:
        tx.insert("Person", [{"name": "Bo"}, {"name": "Cy"}])
        tx.insert("Knows", [{"from": "Ada", "to": "Bo"}])
        tx.mutate('query q() { update Person set { age: 5 } where name = "Bo" }')
        tx.delete("Person", ["Cy"])
    assert tx.result is not None
    assert tx.result.commit is not None
    assert (review.commits()[0].id, review.commits()[0].message) == (
        tx.result.commit.id,
        "several",
    )
    assert len(review.commits()) == len(graph.commits()) + 1
    assert review.entity("Person", "Bo") == {"id": "Bo", "name": "Bo", "age": 5}
    assert names(review) == ["Ada", "Bo"]

    def divide() -> None:
        with review.transaction() as tx:
            tx.insert("Person", [{"name": "Di"}])
            raise ZeroDivisionError

    def dangle() -> None:
        with review.transaction() as tx:
            tx.insert("Person", [{"name": "Di"}])
            tx.insert("Knows", [{"from": "Di", "to": "nobody"}])

    with pytest.raises(ZeroDivisionError):
        divide()
    with pytest.raises(ConstraintViolation):
        dangle()
    with pytest.raises(UsageError):
        tx.insert("Person", [{"name": "Di"}])
    assert names(review) == ["Ada", "Bo"]
    assert names(graph) == ["Ada"]


def test_a_transaction_with_a_key_happens_once(graph: GraphClient) -> None:
    for _ in range(2):
        with graph.transaction(idempotency_key="k") as tx:
            tx.insert("Person", [{"name": "Bo"}])
            tx.insert("Knows", [{"from": "Ada", "to": "Bo"}])
        assert tx.result is not None
        assert (tx.result.affected_nodes, tx.result.affected_edges) == (1, 1)

    def reuse() -> None:
        with graph.transaction(idempotency_key="k") as tx:
            tx.insert("Person", [{"name": "Cy"}])
            tx.delete("Person", ["Bo"])

    with pytest.raises(KeyReused):
        reuse()


def test_a_result_is_what_notebooks_and_libraries_expect(graph: GraphClient) -> None:
    graph.insert("Person", [{"name": f"<b>{number:02}"} for number in range(60)])
    found = graph.at().query(READ, least=3)
    assert len(found) == len(list(found)) == 61
    assert pa.table(found).column_names == ["p.name", "p.age"]
    assert found.pandas().shape == (61, 2)
    html = found._repr_html_()
    assert html.count("<tr>") == 51
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "11 more rows" in html


def test_a_plan_is_explained_and_analyzed(graph: GraphClient) -> None:
    plan = graph.at().explain(READ)
    assert (plan.query_name, plan.row_count) == ("q", None)
    assert "Person" in str(plan)
    ran = graph.branch("main").explain(READ, {"least": 1}, analyze=True)
    assert ran.row_count == 1
    assert ran.steps


def test_a_closed_graph_says_so(graph: GraphClient) -> None:
    snapshot, branch = graph.at(), graph.branch("main")
    with graph as same:
        assert same is graph
    graph.close()
    for ask in (lambda: names(snapshot), lambda: names(graph), lambda: branch.head, graph.at):
        with pytest.raises(GraphClosed):
            ask()
    assert "closed" in repr(graph) or "RemoteGraph" in repr(graph)


def test_an_embedded_graph_says_where_it_is(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    head = graph.commits()[0].id
    assert repr(graph) == f"Graph({graph.uri!r}, main @ {head}, 2 types, 1 branch)"


def test_the_package_lists_its_names() -> None:
    assert set(omnigraph.__all__) <= set(dir(omnigraph))
    for name in omnigraph.__all__:
        assert getattr(omnigraph, name) is not None
    assert issubclass(GraphClosed, OmnigraphError)


def test_a_prepared_read_is_checked_once_and_runs_often(graph: GraphClient) -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
    statement = graph.prepare(text)
    assert statement.name == "q"
    assert [row["p.age"] for row in statement({"n": "Ada"})] == [36]
    graph.insert("Person", [{"name": "Bo", "age": 7}])
    graph.branches.create("old")
    graph.insert("Person", [{"name": "Cy", "age": 8}])
    assert [row["p.age"] for row in statement(n="Bo")] == [7]
    assert [len(statement({"n": "Cy"}, branch=each)) for each in ("main", "old")] == [1, 0]
    with pytest.raises(ParameterInvalid, match="n"):
        statement()
    graph.branches.delete("old")
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    assert [row["p.age"] for row in statement(n="Bo")] == [7]


def test_a_program_that_cannot_run_cannot_be_prepared(graph: GraphClient) -> None:
    with pytest.raises(QueryInvalid, match="Persn"):
        graph.prepare("query q() { match { $p: Persn } return { $p.name } }")
    with pytest.raises(NotARead, match="grow"):
        graph.prepare('query grow() { insert Person { name: "Eve" } }')
