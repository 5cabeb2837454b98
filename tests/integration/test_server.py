"""The server, asked as clients ask it."""

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from httpx import Client

import omnigraph
from omnigraph.effects import REAL
from omnigraph.lang.source import Source
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest
from omnigraph.server.runtime import state
from omnigraph.server.runtime.config_broadcast import ConfigBroadcast
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.state import ServerRuntime
from omnigraph.server.runtime.tokens import INLINE
from omnigraph.testing.faults import Crash, CrashOn
from omnigraph.wire.media import ARROW, JSON, NDJSON
from support.breaking import open_mortal
from support.serving import running

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
            *,
            tokens: bool = False,
            policy: str | None = None,
            also: tuple[str, ...] = (),
            queries: Path | None = None,
            limits: str = "",
            more: str = "",
        ) -> Client:
            policies: tuple[str, ...] = ()
            if policy is not None:
                (tmp_path / "policy.yaml").write_text(policy)
                policies = (f"g={tmp_path / 'policy.yaml'}",)
            (tmp_path / "server.yaml").write_text(f"version: 1\nlimits: {{ {limits} }}\n{more}")
            flags = Flags(
                config=tmp_path / "server.yaml",
                graphs=(f"g={root}", *also),
                policies=policies,
                queries=() if queries is None else (f"g={queries}",),
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


def test_a_read_comes_in_the_form_that_is_accepted(serve: Serve) -> None:
    client = serve()
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Ada"}})
    body = {"query": "query q() { match { $p: Person } return { $p.name, $p.age } }"}
    head = client.get("/graphs/g/commits").json()["commits"][0]["graph_commit_id"]
    plain = client.post("/graphs/g/query", json=body)
    assert plain.headers["content-type"] == "application/json"
    assert plain.json() == {
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name", "p.age"],
        "rows": [{"p.name": "Ada", "p.age": None}],
        "graph_commit_id": head,
    }
    old = client.post("/graphs/g/read", json={"query_source": body["query"], "snapshot": head})
    assert old.json()["target"] == {"branch": None, "snapshot": head}
    assert old.headers["Link"] == '<query>; rel="successor-version"'
    lines = client.post("/graphs/g/query", json=body, headers={"Accept": NDJSON})
    kinds = [json.loads(line) for line in lines.text.splitlines()]
    assert kinds[0]["kind"] == "metadata"
    assert kinds[1:] == [{"p.name": "Ada", "p.age": None}]
    arrow = client.post("/graphs/g/query", json=body, headers={"Accept": ARROW})
    assert pa.ipc.open_stream(arrow.content).read_all().to_pylist() == kinds[1:]
    either = client.post("/graphs/g/query", json=body, headers={"Accept": f"{JSON}, {NDJSON}"})
    assert either.headers["content-type"] == JSON
    assert either.json() == plain.json()
    repeated = [("Accept", f"{JSON};q=0.5"), ("Accept", NDJSON)]
    preferred = client.post("/graphs/g/query", json=body, headers=repeated)
    assert preferred.text == lines.text, "the header may come more than once"
    both = client.post("/graphs/g/query", json={**body, "branch": "main", "snapshot": head})
    assert (both.status_code, both.json()["code"]) == (400, "bad_request")
    wrong = client.post("/graphs/g/query", json={"query": ADD, "params": {"n": "x"}})
    assert wrong.status_code == 400
    assert "/mutate" in wrong.json()["error"]


def test_changes_and_exports_are_streamed(serve: Serve) -> None:
    client = serve()
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Ada"}})
    exported = client.post("/graphs/g/export", json={"type_names": ["Person"]})
    assert exported.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert json.loads(exported.text)["data"]["name"] == "Ada"
    unknown = client.post("/graphs/g/export", json={"type_names": ["Nobody"]})
    assert (unknown.status_code, unknown.json()["code"]) == (400, "bad_request")
    baseline = client.post("/graphs/g/changes/baseline", json={}).text.splitlines()
    cursor = json.loads(baseline[-1])["baseline"]["resume_cursor"]
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Bo"}})
    page = client.get("/graphs/g/changes", params={"cursor": cursor}).json()
    assert [change["id"] for block in page["blocks"] for change in block["changes"]] == ["Bo"]
    assert page["caught_up"] is True
    commits = client.get("/graphs/g/commits").json()["commits"]
    one = client.get(f"/graphs/g/commits/{commits[0]['graph_commit_id']}/changes").json()
    assert [(each["id"], each["op"]) for each in one["changes"]] == [("Bo", "insert")]
    first = client.get(f"/graphs/g/commits/{commits[-1]['graph_commit_id']}/changes")
    assert first.status_code == 409
    assert first.json()["change_diff_refusal"]["reason"] == "parentless_commit"


def test_short_addresses_are_for_a_server_of_one_graph(serve: Serve, tmp_path: Path) -> None:
    assert serve().get("/branches").json() == {"branches": ["main"]}
    other = omnigraph.init(tmp_path / "h.omni", SCHEMA).uri
    two = serve(also=(f"h={other}",))
    assert (two.get("/branches").status_code, two.get("/branches").content) == (404, b"")
    assert two.get("/graphs/h/branches").status_code == 200


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def test_a_row_that_is_there_is_a_conflict_with_the_facts(serve: Serve) -> None:
    client = serve()
    body = {"type": "Person", "rows": [{"name": "Ada"}]}
    assert client.post("/graphs/g/rows", json=body).status_code == 200
    again = client.post("/graphs/g/rows", json=body)
    told = {"entity_kind": "node", "type_name": "Person", "entity_id": "Ada"}
    assert (again.status_code, again.json()["key_conflict"]) == (409, told)


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
        (b"", "application/json", 400),
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


@pytest.mark.parametrize("name", ["..", "../g", "a//b", "a\\b", "%00", "main.lock", " ", "x" * 200])
def test_a_branch_cannot_lead_out_of_the_graph(serve: Serve, name: str) -> None:
    client = serve()
    created = client.post("/graphs/g/branches", json={"name": name})
    assert (created.status_code, created.json()["code"]) == (400, "bad_request")
    read = client.get("/graphs/g/snapshot", params={"branch": name})
    assert read.status_code in (400, 404)


@pytest.mark.parametrize("name", ["x" * 300, "é" * 26, "..%2Fx"])
def test_names_that_no_file_can_have_are_not_found(serve: Serve, name: str) -> None:
    client = serve()
    for address in (f"jobs/{name}", f"commits/{name}", f"snapshot?branch=b-{name[:100]}"):
        assert client.get(f"/graphs/g/{address}").status_code in (400, 404), address
    assert client.post(f"/graphs/g/queries/{name}").status_code == 404
    key = {"Idempotency-Key": "k" * 255}
    made = client.post("/graphs/g/branches", json={"name": "b"}, headers=key)
    assert made.status_code == 200


def test_a_program_that_is_wrong_is_told_with_its_findings(serve: Serve) -> None:
    answer = serve().post(
        "/graphs/g/mutate", json={"query": "query q() { insert Nobody { name: 1 } }"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    finding = answer.json()["cause"]["facts"]["findings"][0]
    assert finding["line"] == 1
    assert "Nobody" in finding["message"]


# ── identity ─────────────────────────────────────────────────────────────────────────────────────


def test_the_log_tells_who_asked_for_what(root: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "omnigraph.server.requests")
    environment = {INLINE: json.dumps(TOKENS)}
    with running(Flags(graphs=(f"g={root}",)), environment) as server:
        address = f"{server.url}/graphs/g/healthz"
        httpx.get(address, headers={**as_("ada"), "X-Request-Id": "one"}, timeout=60)
        odd = {"Authorization": "Bearer nobody-knows", "X-Request-Id": "two"}
        httpx.get(address, headers=odd, timeout=60)
    # A request is logged when its answer is out; the server has drained, so all of them are.
    told = [vars(each)["facts"] for each in caplog.records]
    (known,) = (each for each in told if each["request_id"] == "one")
    (unknown,) = (each for each in told if each["request_id"] == "two")
    assert (known["graph"], known["actor"], known["status"]) == ("g", "ada", 200)
    assert (unknown["status"], "actor" in unknown) == (401, False)
    assert not [each for each in (known, unknown) if "nobody-knows" in str(each)]


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


# ── stored queries ───────────────────────────────────────────────────────────────────────────────

STORED = """
query find($name: String, $tags: [String]?) @description("Look one up") {
  match { $p: Person { name: $name } }
  return { $p.name }
}
query add($name: String) { insert Person { name: $name } }
query broken() { match { $p: Nobody } return { $p.name } }
"""

INVOKERS = """
version: 1
groups: { all: [ada, bo], few: [ada] }
rules:
  - { id: r, allow: { actors: { group: all }, actions: [read] } }
  - { id: c, allow: { actors: { group: few }, actions: [change, invoke_query, admin] } }
"""


def test_stored_queries_are_listed_with_their_types_and_run_by_name(
    serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "people.gq").write_text(STORED)
    client = serve(queries=tmp_path / "queries")
    listed = client.get("/graphs/g/queries").json()
    assert [each["name"] for each in listed["queries"]] == ["add", "find"]
    assert listed["queries"][1] == {
        "name": "find",
        "tool_name": "find",
        "description": "Look one up",
        "mutation": False,
        "params": [
            {"name": "name", "kind": "string", "nullable": False},
            {"name": "tags", "kind": "list", "item_kind": "string", "nullable": True},
        ],
    }
    (kept_back,) = listed["quarantined"]
    assert kept_back["source"].endswith("people.gq:broken")
    assert "Nobody" in kept_back["reason"]
    body = {"params": {"name": "Ada"}}
    added = client.post("/graphs/g/queries/add", json=body)
    assert added.json()["affected_nodes"] == 1
    found = client.post("/graphs/g/queries/find", json=body)
    assert found.json()["rows"] == [{"p.name": "Ada"}]
    for wrong, status in (
        ({**body, "expect_mutation": True}, 400),
        ({**body, "branch": "nowhere"}, 404),
        ({"params": 3}, 400),
        ({}, 400),
    ):
        assert client.post("/graphs/g/queries/find", json=wrong).status_code == status
    past = {**body, "snapshot": "01X"}
    assert client.post("/graphs/g/queries/add", json=past).status_code == 400
    for empty in (b"", b"null", b"{", b"[]"):
        answer = client.post("/graphs/g/queries/find", content=empty)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    for missing in ("broken", "nobody"):
        assert client.post(f"/graphs/g/queries/{missing}", json=body).status_code == 404


def test_a_job_is_its_actors_own_and_nobody_elses(serve: Serve, root: str) -> None:
    policy = """
version: 1
groups: { readers: [ada], some: [bo] }
protected_branches: [main]
rules:
  - { id: r, allow: { actors: { group: readers }, actions: [read] } }
  - id: m
    allow: { actors: { group: some }, actions: [branch_merge], target_branch_scope: unprotected }
"""
    graph = omnigraph.open(root)
    for name in ("one", "two"):
        graph.branches.create(name)
    client = serve(tokens=True, policy=policy)
    taken = client.post(
        "/graphs/g/branches/merge",
        json={"source": "one", "target": "two"},
        headers=as_("bo") | {"Prefer": "respond-async"},
    )
    assert taken.status_code == 202
    place = taken.headers["Location"]

    def asked(actor: str, place: str) -> set[int]:
        found = client.get(place, headers=as_(actor))
        return {
            found.status_code,
            client.post(f"{place}/cancel", headers=as_(actor)).status_code,
        }

    assert asked("bo", place) == {200}
    assert len(client.get("/graphs/g/jobs", headers=as_("bo")).json()["jobs"]) == 1
    assert client.get("/graphs/g/jobs", headers=as_("ada")).json() == {"jobs": []}
    assert asked("ada", place) == asked("ada", "/graphs/g/jobs/01NONE") == {404}
    assert client.get("/graphs/g/jobs", headers=as_("eve")).status_code == 403
    assert asked("eve", place) == asked("eve", "/graphs/g/jobs/01NONE") == {403}


def test_whoever_may_not_invoke_learns_nothing(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "people.gq").write_text(STORED)
    client = serve(tokens=True, policy=INVOKERS, queries=tmp_path / "queries")
    body = {"params": {"name": "Ada"}}

    def ask(actor: str, name: str) -> tuple[int, str]:
        answer = client.post(f"/graphs/g/queries/{name}", json=body, headers=as_(actor))
        return answer.status_code, answer.text.replace(name, "NAME")

    assert ask("bo", "find") == ask("bo", "nobody")
    assert ask("bo", "find")[0] == 404
    assert ask("ada", "find")[0] == 200


# ── reloading ────────────────────────────────────────────────────────────────────────────────────


def test_a_reload_brings_everything_new_and_a_bad_one_brings_nothing(
    serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    client = serve(tokens=True, policy=INVOKERS, queries=folder)
    body = {"query": ADD, "params": {"n": "x"}}
    assert client.post("/graphs/g/mutate", json=body, headers=as_("bo")).status_code == 403
    assert client.post("/admin/reload", headers=as_("bo")).status_code == 403
    (folder / "people.gq").write_text(STORED)
    policy = tmp_path / "policy.yaml"
    policy.write_text(INVOKERS.replace("few: [ada]", "few: [ada, bo]"))
    reloaded = client.post("/admin/reload", headers=as_("ada")).json()
    assert reloaded == {"generation": 2, "graphs": ["g"], "quarantined": {}}
    assert client.post("/graphs/g/mutate", json=body, headers=as_("bo")).status_code == 200
    assert len(client.get("/graphs/g/queries", headers=as_("bo")).json()["queries"]) == 2
    policy.write_text("version: 1\nrules: nothing")
    refused = client.post("/admin/reload", headers=as_("ada"))
    assert (refused.status_code, refused.json()["cause"]["code"]) == (400, "policy_invalid")
    assert client.post("/graphs/g/mutate", json=body, headers=as_("bo")).status_code == 200


def test_workers_take_over_what_one_of_them_read(
    root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, generations = tmp_path / "server.yaml", ConfigBroadcast(tmp_path / "configuration")
    good = f"version: 1\ngraphs: {{ g: {{ uri: {root} }} }}"
    flags = Flags(config=file, unauthenticated=True)
    file.write_text(good)
    one, other = ServerRuntime(flags, {}, generations), ServerRuntime(flags, {}, generations)
    file.write_text(f'{good}\npolicy: "a\\0b"')  # no path can be that, and nobody foresaw it
    one.try_reload()
    assert "the new configuration was refused" in caplog.text
    late = ServerRuntime(flags, {}, generations)
    for body_bytes in (5, 6):
        file.write_text(f"{good}\nlimits: {{ body_bytes: {body_bytes} }}")
        one.reload()
        file.write_text("no longer what was read")
        other.follow()
        late.follow()
        for host in (one, other, late):
            assert host.current.settings.limits.body_bytes == body_bytes
            assert host.current.generation == one.current.generation
    for host in (one, other, late):
        host.jobs.close()


def test_what_is_announced_last_was_read_last(root: str, tmp_path: Path) -> None:
    """One worker reads while another is at it: the files may have changed in between."""
    file, generations = tmp_path / "server.yaml", ConfigBroadcast(tmp_path / "configuration")
    text = f"version: 1\ngraphs: {{ g: {{ uri: {root} }} }}\nlimits: {{ body_bytes: %d }}"
    file.write_text(text % 1)
    host = ServerRuntime(Flags(config=file, unauthenticated=True), {}, generations)
    with ThreadPoolExecutor(1) as other:
        with generations.alone():
            reload = other.submit(host.reload)
            REAL.sleep_ms(200)
            file.write_text(text % 2)
        assert reload.result().settings.limits.body_bytes == 2
    host.jobs.close()


def test_a_worker_that_cannot_follow_tries_again(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "RETRY_MS", 0)
    file, generations = tmp_path / "server.yaml", ConfigBroadcast(tmp_path / "configuration")
    flags = Flags(config=file, unauthenticated=True, require_all_graphs=True)
    file.write_text(f"version: 1\ngraphs: {{ g: {{ uri: {root} }} }}")
    one, other = ServerRuntime(flags, {}, generations), ServerRuntime(flags, {}, generations)
    omnigraph.init(tmp_path / "h", SCHEMA)
    file.write_text(f"version: 1\ngraphs: {{ g: {{ uri: {root} }}, h: {{ uri: h }} }}")
    one.reload()
    (tmp_path / "h").rename(tmp_path / "away")
    other.follow()
    assert set(other.current.graphs) == {"g"}
    (tmp_path / "away").rename(tmp_path / "h")
    other.follow()
    assert set(other.current.graphs) == {"g", "h"}
    generations.path.unlink()  # somebody tidied up; there is nothing to follow then
    other.follow()
    for host in (one, other):
        host.jobs.close()


def test_one_graph_under_two_ids_has_the_policy_of_each(root: str, tmp_path: Path) -> None:
    rule = "version: 1\ngroups: {{ a: [ada] }}\nrules: [{{ id: r, allow: {{ {} }} }}]"
    for name, actions in (("all", "read, change"), ("less", "read")):
        allowed = f"actors: {{ group: a }}, actions: [{actions}]"
        (tmp_path / f"{name}.yaml").write_text(rule.format(allowed))
    for ids in (("all", "less"), ("less", "all")):
        graphs = (f"{{ uri: {root}, policy: {each}.yaml }}" for each in ids)
        lines = [f"  {name}: {each}" for name, each in zip(ids, graphs, strict=True)]
        (tmp_path / "server.yaml").write_text("\n".join(["version: 1", "graphs:", *lines]))
        host = ServerRuntime(Flags(tmp_path / "server.yaml"), {INLINE: json.dumps(TOKENS)})
        host.reload()
        found = host.current.graphs
        question = AccessRequest("ada", Action.CHANGE)
        assert {each: found[each].guard.allows(question) for each in ids} == {
            "all": True,
            "less": False,
        }
        host.jobs.close()


def test_what_workers_hand_on_holds_no_secret_of_the_environment(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_STORE", "hidden")
    file, generations = tmp_path / "server.yaml", ConfigBroadcast(tmp_path / "configuration")
    options = "storage_options: { aws_secret_access_key: $KEY_OF_THE_STORE }"
    file.write_text(f"version: 1\ngraphs: {{ g: {{ uri: {root}, {options} }} }}")
    host = ServerRuntime(Flags(config=file), {INLINE: json.dumps(TOKENS)}, generations)
    host.jobs.close()
    handed = generations.path.read_text()
    assert "hidden" not in handed
    assert not [token for token in TOKENS.values() if token in handed]
    settings = generations.read()[1].settings.graphs["g"]
    assert settings.resolve_options() == {"aws_secret_access_key": "hidden"}


# ── limits and numbers ───────────────────────────────────────────────────────────────────────────


def test_whoever_has_too_much_under_way_is_told_when_to_come_back(serve: Serve) -> None:
    client = serve(limits="inflight_per_actor: 1, bytes_per_actor: 300")
    body = {"query": ADD, "params": {"n": "x" * 400}}
    refused = client.post("/graphs/g/mutate", json=body)
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert int(refused.headers["Retry-After"]) >= 1
    assert client.get("/graphs/g/commits").status_code == 200
    # A job is refused at once: nobody would see it fail for that.
    body = {"source": "main", "resolutions": "x" * 400}
    job = client.post("/graphs/g/branches/merge", json=body, headers={"Prefer": "respond-async"})
    assert job.status_code == 429
    assert client.get("/graphs/g/jobs").json() == {"jobs": []}


def test_a_read_is_held_to_the_memory_the_server_gives_it(serve: Serve) -> None:
    client = serve(limits="query_memory_bytes: 1000")
    rows = [{"name": f"p{at}"} for at in range(500)]
    assert client.post("/graphs/g/rows", json={"type": "Person", "rows": rows}).status_code == 200
    everybody = {"query": "query q() { match { $p: Person } return { $p.name } }"}
    refused = client.post("/graphs/g/query", json=everybody)
    assert (refused.status_code, refused.json()["cause"]["code"]) == (413, "query_memory_exceeded")


def test_memory_that_is_given_anew_is_that_of_the_next_request(root: str, tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    flags = Flags(config=file, unauthenticated=True)
    good = f"version: 1\ngraphs: {{ g: {{ uri: {root} }} }}"
    file.write_text(good)
    host = ServerRuntime(flags, {})
    graph = host.current.find_graph("g").graph
    assert host.reload().find_graph("g").graph is graph
    file.write_text(f"{good}\nlimits: {{ storage_cache_bytes: 1048576 }}")
    assert host.reload().find_graph("g").graph is not graph
    host.jobs.close()


@pytest.mark.parametrize("drip", [b"", b"{"])
def test_a_body_that_does_not_come_or_only_drips_is_not_waited_for(
    serve: Serve, drip: bytes
) -> None:
    client = serve(limits="body_timeout_s: 1")
    host, port = client.base_url.host, client.base_url.port
    with socket.create_connection((host, port or 80), timeout=0.3) as connection:
        connection.sendall(
            b"POST /graphs/g/mutate HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        for _ in range(400):
            connection.sendall(drip)
            with suppress(TimeoutError):
                assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
                return
    pytest.fail("it was waited for")


def test_numbers_tell_what_was_asked_and_written(serve: Serve) -> None:
    client = serve(more="metrics_name_graphs: true")
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Ada"}})
    client.get("/no/such/address")
    client.get("/openapi.json")
    numbers = client.get("/metrics").text
    assert 'omnigraph_commits_total{graph="g"}' in numbers
    assert 'route="/mutate",status="200"' in numbers
    assert 'route="unknown",status="404"' in numbers
    assert 'route="/openapi.json",status="200"' in numbers
    assert "no/such" not in numbers
    assert 'omnigraph_write_wait_seconds_count{graph="g"}' in numbers


def test_numbers_name_graphs_to_those_alone_who_may_list_them(serve: Serve, tmp_path: Path) -> None:
    omnigraph.init(tmp_path / "other", SCHEMA)
    (tmp_path / "lists.yaml").write_text(
        "version: 1\ngroups: { a: [ada] }\n"
        "rules: [{ id: l, allow: { actors: { group: a }, actions: [graph_list] } }]"
    )
    more = "policy: lists.yaml\ngraphs: { h: { uri: other, policy: policy.yaml } }"
    client = serve(policy=POLICY, tokens=True, more=more)
    for graph in ("g", "h", "h"):
        body = {"query": ADD, "params": {"n": REAL.new_id()}}
        answer = client.post(f"/graphs/{graph}/mutate", json=body, headers=as_("ada"))
        assert answer.status_code == 200
    named = read_numbers(client, as_("ada"))
    assert named['omnigraph_commits_total{graph="h"}'] >= 2
    all_commits = add_up(named, "omnigraph_commits_total{")
    all_waits = add_up(named, "omnigraph_write_wait_seconds_count{")
    strangers: tuple[dict[str, str], ...] = ({}, {"Authorization": "Bearer no"}, as_("bo"))
    for stranger in strangers:
        unnamed = read_numbers(client, stranger)
        assert not [each for each in unnamed if "graph=" in each]
        assert unnamed["omnigraph_commits_total"] == all_commits
        began = 'omnigraph_commits_created{graph="'
        assert unnamed["omnigraph_commits_created"] == min(
            value for name, value in named.items() if name.startswith(began)
        )
        assert unnamed['omnigraph_write_wait_seconds_bucket{le="+Inf"}'] == all_waits > 0


def add_up(numbers: dict[str, float], prefix: str) -> float:
    return sum(value for name, value in numbers.items() if name.startswith(prefix))


def read_numbers(client: Client, headers: dict[str, str]) -> dict[str, float]:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    lines = [each for each in answer.text.splitlines() if not each.startswith("#")]
    return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}


@pytest.mark.parametrize("route", ["query", "load", "load/ndjson", "load/files", "queries/q"])
def test_a_body_that_is_encoded_is_refused_with_the_encoding_that_is_not(
    serve: Serve, route: str
) -> None:
    client = serve()
    kind = "multipart/form-data; boundary=b" if route == "load/files" else "application/json"
    headers = {"Content-Type": kind, "Content-Encoding": "gzip"}
    address, body = f"/graphs/g/{route}", gzip.compress(b"{}")
    refused = client.post(address, content=body, headers=headers)
    assert (refused.status_code, refused.headers["Accept-Encoding"]) == (415, "identity")
    assert "Content-Encoding" in refused.text
    headers["Content-Encoding"] = "identity"
    assert client.post(address, content=b"{}", headers=headers).status_code != 415


def test_what_the_dead_left_is_counted_when_it_is_resolved(serve: Serve, root: str) -> None:
    client = serve(more="metrics_name_graphs: true")
    with pytest.raises(Crash):
        open_mortal(Path(root), CrashOn("tables.single_step.swap_rows")).mutate(
            Source("<q>", ADD), params={"n": "Bo"}
        )
    client.post("/graphs/g/mutate", json={"query": ADD, "params": {"n": "Ada"}})
    counted = client.get("/metrics").text
    assert 'omnigraph_recoveries_total{graph="g",kind="Rolled' in counted


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("/graphs/g/branches", "GET, POST"),
        ("/branches", "GET, POST"),
        ("/graphs/g/branches/merge", "POST"),
        ("/graphs/g/branches/a/b", "DELETE"),
        ("/healthz", "GET"),
        ("/openapi.json", "GET"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(serve: Serve, address: str, allowed: str) -> None:
    refused = serve().put(address)
    assert (refused.status_code, refused.headers["Allow"]) == (405, allowed)


def test_what_can_be_got_has_a_head(serve: Serve) -> None:
    client = serve()
    for address in ("/healthz", "/graphs/g/branches", "/graphs/g/snapshot", "/metrics"):
        got, head = client.get(address), client.head(address)
        assert (head.status_code, head.content) == (200, b"")
        if address != "/metrics":
            assert head.headers["content-length"] == got.headers["content-length"]
    assert client.head("/graphs/g/snapshot?branch=no").status_code == 404
    assert client.head("/graphs/g/query").status_code == 405


def test_a_schema_is_applied_and_tables_are_tidied(serve: Serve) -> None:
    client = serve()
    grown = {"schema_source": SCHEMA.replace("age: I32?", "age: I32? born: Date?")}
    applied = client.post("/graphs/g/schema/apply", json=grown).json()
    assert (applied["applied"], applied["supported"], applied["step_count"]) == (True, True, 1)
    assert applied["graph_manifest_version"] == applied["manifest_version"] == 2
    assert client.get("/graphs/g/schema").json() == grown
    wrong = client.post("/graphs/g/schema/apply", json={"schema_source": "node"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "bad_request")
    assert client.post("/graphs/g/optimize").json()["branch"] == "main"
    assert client.post("/graphs/g/optimize?branch=nowhere").status_code == 404
