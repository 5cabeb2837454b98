"""A protected branch of a served graph: only approved proposals with passing checks change it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.engine.proposals.proposal import ProposalState
from omnigraph.errors import Forbidden, ProposalBlocked
from omnigraph.sdk.remote.graph import RemoteGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import Running, running

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
QUERIES = """
query no_minors() { match { $p: Person  $p.age < 18 } return { $p.name } }
query few_people() { match { $p: Person } return { count($p) as n } limit 0 }
query grow() { update Person set { age: 50 } where name = "ann" }
"""
POLICY = """
version: 1
groups:
  all: [dana, lee, agent]
  reviewers: [dana, lee]
protected_branches:
  - { branch: main, approvals: 1, checks: [no_minors] }
  - { branch: release }
  - plain
rules:
  - id: work
    allow: { actors: { group: all }, actions: [read, export, change] }
  - id: branches
    allow: { actors: { group: all }, actions: [branch_create, branch_delete, branch_merge] }
  - id: rest
    allow: { actors: { group: all }, actions: [admin, invoke_query, propose, schema_apply] }
  - id: review
    allow: { actors: { group: reviewers }, actions: [approve] }
"""
TOKENS = {"dana": "token-dana", "lee": "token-lee", "agent": "token-agent"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    graph = omnigraph.init(tmp_path / "g", SCHEMA)
    graph.insert("Person", [{"name": "ann", "age": 40}])
    graph.branches.create("release")
    graph.branches.create("plain")
    graph.branches.create("work")
    graph.insert("Person", [{"name": "bob", "age": 30}], branch="work")
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "q.gq").write_text(QUERIES)
    flags = Flags(
        graphs=(f"g={graph.uri}",),
        policies=(f"g={tmp_path / 'policy.yaml'}",),
        queries=(f"g={tmp_path / 'queries'}",),
    )
    with running(flags, {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}) as server:
        yield server


People = dict[str, RemoteGraph]


@pytest.fixture
def people(server: Running) -> Iterator[People]:
    """The graph, as each actor is connected to it."""
    with ExitStack() as stack:
        yield {
            actor: stack.enter_context(omnigraph.connect(server.url, graph="g", token=token))
            for actor, token in TOKENS.items()
        }


def test_an_approved_proposal_that_passes_its_checks_is_merged(people: People) -> None:
    agent, dana = people["agent"], people["dana"]
    proposal = agent.proposals.open("work", title="Add Bob").proposal.id
    with pytest.raises(ProposalBlocked, match="1 of 1 approvals"):
        dana.proposals.merge(proposal)
    with pytest.raises(Forbidden):
        agent.proposals.approve(proposal)
    dana.proposals.approve(proposal)
    agent.insert("Person", [{"name": "kid", "age": 5}], branch="work")
    with pytest.raises(ProposalBlocked, match="approvals"):
        dana.proposals.merge(proposal)
    shown = dana.proposals.approve(proposal)
    assert (shown.missing_approvals, shown.failing_checks) == (0, ("no_minors",))
    (check,) = dana.proposals.check(proposal).proposal.checks
    assert (check.name, check.row_count, check.passed) == ("no_minors", 1, False)
    with pytest.raises(ProposalBlocked, match="'no_minors' found 1 row"):
        dana.proposals.merge(proposal)
    agent.delete("Person", ["kid"], branch="work")
    dana.proposals.approve(proposal)
    assert dana.proposals.check(proposal).is_mergeable
    merged = dana.proposals.merge(proposal)
    assert merged.commit is not None
    assert agent.proposals.show(proposal).proposal.merged_commit == merged.commit.id
    assert agent.find("Person", "bob") is not None


def test_own_approvals_and_revoked_rights_do_not_count(
    server: Running, people: People, tmp_path: Path
) -> None:
    dana, lee = people["dana"], people["lee"]
    own = dana.proposals.open("work", title="Mine").proposal.id
    with pytest.raises(Forbidden, match="their own proposal"):
        dana.proposals.approve(own)
    assert lee.proposals.approve(own).missing_approvals == 0
    (tmp_path / "policy.yaml").write_text(POLICY.replace("[dana, lee]", "[dana]"))
    server.runtime.reload()
    shown = dana.proposals.show(own)
    assert (shown.missing_approvals, shown.counted) == (1, frozenset())
    with pytest.raises(ProposalBlocked, match="approvals"):
        dana.proposals.merge(own)
    (tmp_path / "policy.yaml").write_text(POLICY.replace("[no_minors]", "[no_minors, gone, grow]"))
    server.runtime.reload()
    with pytest.raises(ProposalBlocked, match=r"no stored query 'gone'.*no stored query 'grow'"):
        dana.proposals.merge(own)
    assert dana.proposals.close(own).proposal.state is ProposalState.CLOSED


def test_every_route_that_writes_is_refused_on_a_protected_branch(
    server: Running, people: People
) -> None:
    head = people["dana"].commits(limit=1)[0].id
    other = people["dana"].commits("work", limit=1)[0].id
    mutation = 'query q() { insert Person { name: "eve" } }'
    record = '{"type": "Person", "data": {"name": "eve"}}'
    refused: dict[str, dict[str, object]] = {
        "POST /mutate": {"json": {"query": mutation}},
        "POST /mutate/if-graph-commit": {
            "json": {"query": mutation},
            "headers": {"Omnigraph-If-Graph-Commit": head},
        },
        "POST /transaction": {
            "json": {"steps": [{"op": "delete", "type": "Person", "ids": ["ann"]}]}
        },
        "POST /rows": {"json": {"type": "Person", "rows": [{"name": "eve"}]}},
        "POST /rows/delete": {"json": {"type": "Person", "ids": ["ann"]}},
        "POST /load": {"json": {"data": record, "mode": "append"}},
        "POST /change": {"json": {"query": mutation}},
        "POST /ingest": {"json": {"data": record, "mode": "append"}},
        "POST /load/ndjson": {"content": record, "params": {"mode": "append"}},
        "POST /load/files": {
            "files": {"files": ("a.jsonl", record)},
            "params": {"mode": "append"},
        },
        "POST /schema/apply": {
            "json": {"schema_source": SCHEMA + "\nnode Town { t: String @key }"}
        },
        "POST /branches/merge": {"json": {"source": "work"}},
        f"POST /commits/{head}/revert": {"json": {}},
        f"POST /commits/{other}/cherry-pick": {"json": {}},
        "POST /queries/grow": {"json": {}},
        "POST /queries/grow/if-graph-commit": {
            "json": {},
            "headers": {"Omnigraph-If-Graph-Commit": head},
        },
        "DELETE /branches/release": {},
    }
    harmless = {
        "POST /query", "POST /read", "POST /explain", "POST /export", "POST /changes/baseline",
        "POST /schema/plan",
        "POST /branches", "POST /tags", "DELETE /tags/{tag}", "POST /optimize",
        "POST /jobs/{job_id}/cancel",
    }  # fmt: skip
    headers = {"Authorization": f"Bearer {TOKENS['dana']}"}
    with httpx.Client(base_url=f"{server.url}/graphs/g", headers=headers, timeout=120) as client:
        for route, request in refused.items():
            method, path = route.split()
            answer = client.request(method, path, **request)  # type: ignore[arg-type]
            assert answer.status_code == 403, (route, answer.text)
            assert "which only approved proposals change" in answer.json()["error"], route
        document = client.get(f"{server.url}/openapi.json").json()
    assert people["dana"].commits(limit=1)[0].id == head
    tried = {route.replace(head, "{commit}").replace(other, "{commit}") for route in refused}
    tried = {route.replace("/queries/grow", "/queries/{name}") for route in tried}
    tried = {route.replace("/branches/release", "/branches/{branch}") for route in tried}
    writing = {
        f"{method.upper()} {path.removeprefix('/graphs/{graph_id}')}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/graphs/{graph_id}/") and method in ("post", "put", "patch", "delete")
    }
    proposals = {each for each in writing if each.startswith("POST /proposals")}
    assert {each.replace(":rest", "") for each in writing - proposals - harmless} == tried


def test_a_branch_with_only_a_scope_and_other_branches_change_as_before(people: People) -> None:
    dana = people["dana"]
    for branch in ("plain", "work"):
        assert dana.insert("Person", [{"name": "eve"}], branch=branch).commit is not None
    assert dana.optimize().branch == "main", "upkeep is exempt"
