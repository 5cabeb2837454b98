"""The server, asked as clients ask it."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from httpx import Client

import omnigraph
from omnigraph.server.settings import Flags
from omnigraph.server.tokens import INLINE
from omnigraph.testing.serving import running

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"

POLICY = """
version: 1
groups: { writers: [ada], readers: [bo] }
protected_branches: [main]
rules:
  - { id: w, allow: { actors: { group: writers }, actions: [read, change], branch_scope: any } }
  - id: wb
    allow: { actors: { group: writers }, actions: [branch_create, branch_delete] }
  - { id: r, allow: { actors: { group: readers }, actions: [read], branch_scope: unprotected } }
"""

TOKENS = {"ada": "token-of-ada", "bo": "token-of-bo", "eve": "token-of-eve"}


def as_(actor: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[actor]}"}


ADD = "query add($n: String) { insert Person { name: $n } }"

Serve = Callable[..., Client]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return omnigraph.init(tmp_path / "g.omni", SCHEMA).uri


@pytest.fixture
def serve(root: str, tmp_path: Path) -> Iterator[Serve]:
    """A server of one graph `g`; open unless tokens or a policy are given."""
    with ExitStack() as stack:

        def start(
            *, tokens: bool = False, policy: str | None = None, also: tuple[str, ...] = ()
        ) -> Client:
            policies: tuple[str, ...] = ()
            if policy is not None:
                (tmp_path / "policy.yaml").write_text(policy)
                policies = (f"g={tmp_path / 'policy.yaml'}",)
            flags = Flags(
                graphs=(f"g={root}", *also),
                policies=policies,
                unauthenticated=not tokens,
            )
            environment = {INLINE: json.dumps(TOKENS)} if tokens else {}
            url = stack.enter_context(running(flags, environment)).url
            return stack.enter_context(Client(base_url=url, timeout=60))

        yield start


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────


def test_health_needs_no_token(serve: Serve) -> None:
    client = serve(tokens=True)
    body = client.get("/healthz").json()
    assert body == {"status": "ok", "version": omnigraph.__version__, "internal_schema_version": 4}
    assert client.get("/graphs/g/healthz").status_code == 401
    assert client.get("/graphs/g/healthz", headers=as_("bo")).json() == body


def test_a_mutation_answers_in_both_generations(serve: Serve, root: str) -> None:
    client = serve()
    new = {"query": ADD, "name": "add", "params": {"n": "Ada"}}
    old = {"query_source": ADD, "query_name": "add", "params": {"n": "Bo"}, "branch": None}
    for route, body in (("mutate", new), ("mutate", old), ("change", old)):
        answer = client.post(f"/graphs/g/{route}", json=body)
        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert document["affected_nodes"] == 1
        assert document["query_name"] == "add"
        assert document["actor_id"] is None
        head = omnigraph.open(root).commits()[0]
        assert document["commit"]["graph_commit_id"] == head.id
        assert document["commit"]["manifest_version"] == head.manifest_version
    assert answer.headers["Deprecation"] == "true"
    assert answer.headers["Link"] == '<mutate>; rel="successor-version"'
    assert "Deprecation" not in client.post("/graphs/g/mutate", json=new).headers


def test_branches_with_slashes_come_and_go(serve: Serve, root: str) -> None:
    client = serve()
    created = client.post("/graphs/g/branches", json={"name": "review/b1"})
    expected = {"uri": root, "from": "main", "name": "review/b1", "actor_id": None}
    assert created.json() == expected
    listed = client.get("/graphs/g/branches").json()
    assert listed == {"branches": ["main", "review/b1"]}
    again = client.post("/graphs/g/branches", json={"name": "review/b1"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    deleted = client.delete("/graphs/g/branches/review%2Fb1")
    assert deleted.json() == {"uri": root, "name": "review/b1", "actor_id": None}
    assert client.delete("/graphs/g/branches/review/b1").status_code == 404
    assert client.delete("/graphs/g/branches/main").status_code == 400


def test_a_snapshot_and_the_history_are_what_the_graph_says(serve: Serve, root: str) -> None:
    client = serve()
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Ada"}})
    graph = omnigraph.open(root)
    shown = client.get("/graphs/g/snapshot").json()
    assert shown["graph_manifest_version"] == shown["manifest_version"] == 2
    assert shown["graph_commit_id"] == graph.commits()[0].id
    commits = client.get("/graphs/g/commits").json()["commits"]
    assert [each["graph_commit_id"] for each in commits] == [each.id for each in graph.commits()]
    one = client.get(f"/graphs/g/commits/{commits[1]['graph_commit_id']}").json()
    assert one == commits[1]
    assert one["actor_id"] is one["parent_commit_id"] is None
    past = client.get("/graphs/g/snapshot", params={"commit": one["graph_commit_id"]}).json()
    assert past["manifest_version"] == 1
    missing = client.get("/graphs/g/commits/01ABSENT")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert client.get("/graphs/g/schema").json() == {"schema_source": SCHEMA}


def test_short_addresses_are_for_a_server_of_one_graph(serve: Serve, tmp_path: Path) -> None:
    assert serve().get("/branches").json() == {"branches": ["main"]}
    other = omnigraph.init(tmp_path / "h.omni", SCHEMA).uri
    two = serve(also=(f"h={other}",))
    assert (two.get("/branches").status_code, two.get("/branches").content) == (404, b"")
    assert two.get("/graphs/h/branches").status_code == 200


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def test_a_moved_table_is_a_conflict_with_the_facts(serve: Serve) -> None:
    client = serve()
    head = client.get("/graphs/g/commits").json()["commits"][0]["graph_commit_id"]
    condition = {"Omnigraph-If-Graph-Commit": head}
    body = {"query": ADD, "params": {"n": "Ada"}}
    address = "/graphs/g/mutate/if-graph-commit"
    assert client.post(address, json=body, headers=condition).status_code == 200
    lost = client.post(address, json=body, headers=condition)
    assert lost.status_code == 412
    assert lost.json()["precondition_failure"]["expected"] == head
    assert "code" not in lost.json()
    refused = client.post("/graphs/g/mutate", json=body, headers=condition)
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"query": "\\ud800"}', "application/json", 400),
        (b'{"query": 1}', "application/json", 422),
        (b"{}", "application/json", 422),
        (b"null", "application/json", 422),
        (b"", "application/json", 422),
        (b'{"query": "x"}', "text/plain", 415),
        (b'{"query": "' + b"x" * 2**20 + b'"}', "application/json", 413),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_a_body_that_cannot_be_read_is_answered_in_plain_text(
    serve: Serve, body: bytes, content_type: str, status: int
) -> None:
    answer = serve().post("/graphs/g/mutate", content=body, headers={"content-type": content_type})
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/plain")
    assert b"detail" not in answer.content


def test_the_limit_counts_what_arrives_and_not_what_was_announced(serve: Serve) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"query": "'
        for _ in range(40):
            yield b"x" * 2**16

    headers = {"content-type": "application/json"}
    answer = serve().post("/graphs/g/mutate", content=pieces(), headers=headers)
    assert answer.status_code == 413


def test_unknown_routes_and_methods_have_no_body(serve: Serve) -> None:
    client = serve()
    for address in ("/nothing", "/graphs/g/nothing", "/docs", "/graphs/g/branches/"):
        found = client.get(address)
        assert (found.status_code in (404, 405), found.content) == (True, b""), address
    wrong = client.put("/graphs/g/mutate")
    assert (wrong.status_code, wrong.content) == (405, b"")


@pytest.mark.parametrize(
    ("graph_id", "status"),
    [("x", 404), ("a_b", 400), ("..%2Fg", 404), ("%2E%2E", 400), ("g" * 65, 400), ("graphs", 400)],
)
def test_only_a_served_graph_answers(serve: Serve, graph_id: str, status: int) -> None:
    assert serve().get(f"/graphs/{graph_id}/branches").status_code == status


@pytest.mark.parametrize("name", ["..", "../g", "a//b", "a\\b", "%00", "main.lock", " "])
def test_a_branch_cannot_lead_out_of_the_graph(serve: Serve, name: str) -> None:
    client = serve()
    created = client.post("/graphs/g/branches", json={"name": name})
    assert (created.status_code, created.json()["code"]) == (400, "bad_request")
    read = client.get("/graphs/g/snapshot", params={"branch": name})
    assert read.status_code in (400, 404)


def test_a_program_that_is_wrong_is_told_with_its_findings(serve: Serve) -> None:
    answer = serve().post(
        "/graphs/g/mutate", json={"query": "query q() { insert Nobody { name: 1 } }"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    finding = answer.json()["cause"]["facts"]["findings"][0]
    assert finding["line"] == 1
    assert "Nobody" in finding["message"]


# ── identity ─────────────────────────────────────────────────────────────────────────────────────


def test_the_actor_is_the_tokens_and_nothing_can_change_it(serve: Serve, root: str) -> None:
    client = serve(tokens=True, policy=POLICY)
    forged = {"X-Actor": "dana", "X-Omnigraph-Actor": "dana", "Actor": "dana", "From": "dana"}
    body = {"query": ADD, "params": {"n": "Ada"}, "actor": "dana", "actor_id": "dana"}
    answer = client.post(
        "/graphs/g/mutate?actor=dana&as=dana", json=body, headers=as_("ada") | forged
    )
    assert answer.json()["actor_id"] == "ada"
    assert omnigraph.open(root).commits()[0].actor == "ada"


def test_without_a_token_nothing_is_read_not_even_the_body(serve: Serve) -> None:
    client = serve(tokens=True, policy=POLICY)
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "bearer token-of-ada"}):
        answer = client.post("/graphs/g/mutate", content=b"{", headers=header)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


def test_policies_decide_at_the_boundary(serve: Serve, root: str) -> None:
    client = serve(tokens=True, policy=POLICY)
    body = {"query": ADD, "params": {"n": "Ada"}}
    assert client.get("/graphs/g/snapshot", headers=as_("bo")).status_code == 403
    padded = client.get("/graphs/g/snapshot", params={"branch": " main "}, headers=as_("bo"))
    assert padded.status_code == 403
    made = client.post("/graphs/g/branches", json={"name": "open"}, headers=as_("ada"))
    assert made.status_code == 200
    seen = client.get("/graphs/g/snapshot", params={"branch": "open"}, headers=as_("bo"))
    assert seen.status_code == 200
    for actor in ("bo", "eve"):
        denied = client.post("/graphs/g/mutate", json=body, headers=as_(actor))
        assert (denied.status_code, denied.json()["code"]) == (403, "forbidden")
    assert len(omnigraph.open(root).commits()) == 1
    assert client.post("/graphs/g/mutate", json=body, headers=as_("ada")).status_code == 200


def test_without_a_policy_a_token_allows_reading_and_no_more(serve: Serve) -> None:
    client = serve(tokens=True)
    assert client.get("/graphs/g/commits", headers=as_("eve")).status_code == 200
    denied = client.post("/graphs/g/branches", json={"name": "b"}, headers=as_("eve"))
    assert denied.status_code == 403


def test_the_list_of_graphs_needs_a_policy_of_the_server(serve: Serve) -> None:
    assert serve().get("/graphs").status_code == 403
    assert serve(tokens=True).get("/graphs").status_code == 401


# ── every answer ─────────────────────────────────────────────────────────────────────────────────


def test_every_answer_carries_the_id_of_its_request(serve: Serve) -> None:
    client = serve()
    assert client.get("/healthz", headers={"X-Request-Id": "mine-1"}).headers["X-Request-Id"] == (
        "mine-1"
    )
    for given in ("", "a b", "x" * 200):
        answered = client.get("/nothing", headers={"X-Request-Id": given}).headers["X-Request-Id"]
        assert len(answered) == 26


def test_operations_have_the_names_that_generated_clients_use(serve: Serve) -> None:
    document = serve(tokens=True).get("/openapi.json").json()
    named = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert {"health", "listGraphs", "cluster_getSnapshot", "cluster_mutate", "cluster_change"} <= (
        named
    )
    assert document["openapi"] == "3.1.0"
    assert "bearer_token" in document["components"]["securitySchemes"]
    assert document["paths"]["/graphs/{graph_id}/change"]["post"]["deprecated"] is True
    assert "HTTPValidationError" not in json.dumps(document)
    opened = serve().get("/openapi.json").json()
    assert "securitySchemes" not in opened["components"]
