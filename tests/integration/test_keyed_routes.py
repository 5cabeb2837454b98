"""Every route that writes takes a key, and does what it is asked for once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from httpx import Client, Response

import omnigraph
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"
ADD = "query add($n: String) { insert Person { name: $n } }"

READS = {
    "cluster_query",
    "cluster_explain",
    "cluster_read",
    "cluster_planSchema",
    "cluster_export",
    "cluster_changesBaseline",
}
"""They are asked with a body, and change nothing."""

NOT_OF_A_GRAPH = {"reload", "cluster_cancelJob"}
"""Asked twice they come to the same by themselves."""

REPEATABLE = {"cluster_approveProposal", "cluster_checkProposal", "cluster_closeProposal"}
"""They take no key either: a repeated request leaves what the first one left."""

PROPOSALS = {"cluster_openProposal", "cluster_commentProposal", "cluster_mergeProposal"}
"""Their answers show the heads of branches, which move; they have a test of their own below."""

LOADS = {"cluster_load", "cluster_ingest", "cluster_loadNdjson", "cluster_loadFiles"}
"""`tests/pipeline/test_served_loads.py` asks these twice: they need Spark."""


@dataclass(frozen=True, slots=True)
class Case:
    method: str
    path: str
    body: JsonObject | None
    other: JsonObject | None
    """What must not be asked for with the same key."""
    is_conditional: bool = False


CASES = {
    "cluster_mutate": Case(
        "POST",
        "/mutate",
        {"query": ADD, "params": {"n": "a"}},
        {"query": ADD, "params": {"n": "b"}},
    ),
    "cluster_change": Case(
        "POST",
        "/change",
        {"query_source": ADD, "params": {"n": "c"}},
        {"query_source": ADD, "params": {"n": "d"}},
    ),
    "cluster_mutateIfGraphCommit": Case(
        "POST",
        "/mutate/if-graph-commit",
        {"query": ADD, "params": {"n": "e"}},
        {"query": ADD, "params": {"n": "f"}},
        is_conditional=True,
    ),
    "cluster_invoke_query": Case(
        "POST", "/queries/add", {"params": {"n": "g"}}, {"params": {"n": "h"}}
    ),
    "cluster_invokeIfGraphCommit": Case(
        "POST",
        "/queries/add/if-graph-commit",
        {"params": {"n": "i"}},
        {"params": {"n": "j"}},
        is_conditional=True,
    ),
    "cluster_writeRows": Case(
        "POST",
        "/rows",
        {"type": "Person", "rows": [{"name": "k"}]},
        {"type": "Person", "rows": [{"name": "l"}]},
    ),
    "cluster_deleteRows": Case(
        "POST",
        "/rows/delete",
        {"type": "Person", "ids": ["old"]},
        {"type": "Person", "ids": ["older"]},
    ),
    "cluster_transaction": Case(
        "POST",
        "/transaction",
        {"steps": [{"op": "insert", "type": "Person", "rows": [{"name": "m"}]}]},
        {"steps": [{"op": "insert", "type": "Person", "rows": [{"name": "n"}]}]},
    ),
    "cluster_createBranch": Case("POST", "/branches", {"name": "made"}, {"name": "unmade"}),
    "cluster_deleteBranch": Case("DELETE", "/branches/doomed", None, None),
    "cluster_mergeBranches": Case(
        "POST", "/branches/merge", {"source": "side"}, {"source": "side", "on_conflict": "ours"}
    ),
    "cluster_revertCommit": Case("POST", "/commits/bad/revert", {}, {"detect": "property"}),
    "cluster_cherryPickCommit": Case(
        "POST", "/commits/bad/cherry-pick", {}, {"detect": "property"}
    ),
    "cluster_createTag": Case(
        "POST", "/tags", {"name": "t", "commit": "bad"}, {"name": "u", "commit": "bad"}
    ),
    "cluster_deleteTag": Case("DELETE", "/tags/bad", None, None),
    "cluster_applySchema": Case(
        "POST",
        "/schema/apply",
        {"schema_source": SCHEMA + "\nnode Added { x: I32? }"},
        {"schema_source": SCHEMA},
    ),
    "cluster_optimize": Case("POST", "/optimize", None, None),
}


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def client(graph: LocalGraph, tmp_path: Path) -> Iterator[Client]:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "add.gq").write_text(ADD)
    flags = Flags(
        graphs=(f"g={graph.uri}",), queries=(f"g={tmp_path / 'queries'}",), unauthenticated=True
    )
    with running(flags) as server, Client(base_url=server.url, timeout=60) as client:
        yield client


def test_every_route_that_writes_says_that_it_takes_a_key(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    writes = {
        operation["operationId"]: {each["name"] for each in operation.get("parameters", [])}
        for operations in paths.values()
        for method, operation in operations.items()
        if method != "get" and method != "head"
    }
    keyed = {name for name, parameters in writes.items() if "Idempotency-Key" in parameters}
    assert writes.keys() - keyed == READS | NOT_OF_A_GRAPH | REPEATABLE
    assert keyed == CASES.keys() | LOADS | PROPOSALS, "a route that writes needs a case here"


def ask(client: Client, case: Case, body: JsonObject | None, headers: dict[str, str]) -> Response:
    return client.request(case.method, f"/graphs/g{case.path}", headers=headers, json=body)


@pytest.mark.parametrize("name", CASES)
def test_asked_three_times_it_is_done_once(name: str, client: Client, graph: LocalGraph) -> None:
    case = CASES[name]
    graph.insert("Person", [{"name": "old"}])
    graph.tags.create("bad", graph.commits()[0].id)
    if name in ("cluster_mergeBranches", "cluster_deleteBranch"):
        graph.branches.create("side" if "merge" in name else "doomed")
    if name == "cluster_mergeBranches":
        graph.insert("Person", [{"name": "theirs"}], branch="side")
    headers = {"Idempotency-Key": "k"}
    if case.is_conditional:
        headers["Omnigraph-If-Graph-Commit"] = graph.commits()[0].id
    before = len(graph.commits())
    first = ask(client, case, case.body, headers)
    assert first.status_code == 200, first.text
    after = len(graph.commits())
    # Somebody else goes on in between, and the answer must still be the old one.
    graph.insert("Person", [{"name": "between"}])
    for _ in range(2):
        again = ask(client, case, case.body, headers)
        assert (again.status_code, again.json()) == (200, first.json())
    assert len(graph.commits()) == after + 1
    if ("Branch" not in name and "Tag" not in name) or "merge" in name:
        assert after > before, "what came of it is kept in a commit"
    if case.other is not None:
        refused = ask(client, case, case.other, headers)
        assert (refused.status_code, refused.json()["cause"]["code"]) == (409, "key_reused")
        assert refused.json()["retryable"] is False


def test_a_schema_that_changes_nothing_is_remembered_too(client: Client, graph: LocalGraph) -> None:
    case = Case("POST", "/schema/apply", {"schema_source": SCHEMA}, None)
    first = ask(client, case, case.body, {"Idempotency-Key": "k"})
    assert first.json()["applied"] is False
    assert first.json()["commit"]["graph_commit_id"] == graph.commits()[0].id
    graph.apply_schema(SCHEMA + "\nnode Added { x: I32? }")
    assert ask(client, case, case.body, {"Idempotency-Key": "k"}).json() == first.json()
    assert [each.name for each in graph.catalog.nodes] == ["Added", "Person"]


def test_requests_about_a_proposal_are_done_once(client: Client, graph: LocalGraph) -> None:
    graph.branches.create("side")
    graph.insert("Person", [{"name": "theirs"}], branch="side")

    def thrice(key: str, path: str, body: JsonObject, other: JsonObject) -> list[JsonObject]:
        headers = {"Idempotency-Key": key}
        answers = [ask(client, Case("POST", path, None, None), body, headers) for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 200], answers[-1].text
        refused = ask(client, Case("POST", path, None, None), other, headers)
        assert (refused.status_code, refused.json()["cause"]["code"]) == (409, "key_reused")
        return [each.json() for each in answers]

    wanted: JsonObject = {"title": "t", "source": "side"}
    opened = thrice("k1", "/proposals", wanted, {"title": "u", "source": "side"})
    assert len({each["id"] for each in opened}) == 1
    one = f"/proposals/{opened[0]['id']}"
    commented = thrice("k2", f"{one}/comments", {"text": "yes"}, {"text": "no"})
    assert [each["comment_count"] for each in commented] == [1, 1, 1]
    for path, body in (("approvals", {}), ("checks", None)):
        for _ in range(2):
            again = ask(client, Case("POST", f"{one}/{path}", None, None), body, {})
            assert (again.status_code, again.json()["approval_count"]) == (200, 1), again.text
    merged = thrice("k3", f"{one}/merge", {}, {"detect": "property"})
    assert merged[0] == merged[1] == merged[2]
    assert [each.merged_parent is not None for each in graph.commits()].count(True) == 1
