"""What `docs/security.md` claims about strangers, readers and writers, asked of a real server."""

import gzip
import io
import json
import logging
import re
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from httpx import Client

import omnigraph
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.tokens import INLINE
from omnigraph.server.telemetry.logs import JsonLines
from support.serving import running

SCHEMA = "node Letter { ref: String @key  note: String?  scan: Blob? }"

POLICY = """
version: 1
groups: { writers: [ada], readers: [bo], admins: [dana] }
rules:
  - { id: w, allow: { actors: { group: writers }, actions: [read, change], branch_scope: any } }
  - { id: wb, allow: { actors: { group: writers }, actions: [branch_create, branch_delete] } }
  - { id: r, allow: { actors: { group: readers }, actions: [read], branch_scope: any } }
  - { id: a, allow: { actors: { group: admins }, actions: [admin] } }
"""

TOKENS = {"ada": "token-of-ada", "bo": "token-of-bo", "dana": "token-of-dana"}
SECRET = "the bytes of a file beside the graph"
ADD = "query add($r: String) { insert Letter { ref: $r } }"
READ = "query q() { match { $l: Letter } return { $l.ref } }"

LIMITS = "limits: { load_stream_bytes: 100000, failed_logins: 5 }"


def as_(actor: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[actor]}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("security")
    (folder / "secret.txt").write_text(SECRET)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "server.yaml").write_text(f"version: 1\n{LIMITS}\n")
    graph = omnigraph.init(folder / "g.omni", SCHEMA)
    graph.insert("Letter", [{"ref": "far", "scan": f"file://{folder}/secret.txt"}])
    return folder


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Client]:
    """A server with tokens and a policy."""
    flags = Flags(
        folder / "server.yaml",
        (f"g={folder / 'g.omni'}",),
        policies=(f"g={folder / 'policy.yaml'}",),
    )
    with (
        running(flags, {INLINE: json.dumps(TOKENS)}) as server,
        Client(base_url=f"{server.url}/graphs/g/", timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def open_port(folder: Path) -> Iterator[int]:
    """The port of a server without tokens."""
    flags = Flags(folder / "server.yaml", (f"g={folder / 'g.omni'}",), unauthenticated=True)
    with running(flags) as server:
        yield int(server.url.rpartition(":")[2])


# ── who may do what ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "route", "stranger", "reader", "writer", "admin"),
    [
        ("POST", "query", 401, 200, 200, 403),
        ("GET", "schema", 401, 200, 200, 403),
        ("GET", "blob?entity=node&type=Letter&id=far&property=scan", 401, 424, 424, 403),
        ("POST", "mutate", 401, 403, 200, 403),
        ("POST", "load/ndjson", 401, 403, 200, 403),
        ("POST", "export", 401, 403, 403, 403),
        ("POST", "schema/apply", 401, 403, 403, 403),
        ("POST", "optimize", 401, 403, 403, 200),
        ("GET", "/graphs", 401, 403, 403, 403),
        ("GET", "/healthz", 200, 200, 200, 200),
    ],
)
def test_each_actor_does_what_the_threat_model_says(
    guarded: Client, method: str, route: str, stranger: int, reader: int, writer: int, admin: int
) -> None:
    bodies = {
        "query": {"query": READ},
        "mutate": {"query": ADD, "params": {"r": "L-1"}},
        "export": {},
        "schema/apply": {"schema_source": SCHEMA},
        "load/ndjson": {"type": "Letter", "data": {"ref": "L-2"}},
    }
    given = {"json": bodies[route]} if route in bodies else {}
    url = str(guarded.base_url.join(route))
    expected = {"": stranger, "bo": reader, "ada": writer, "dana": admin}
    for actor, status in expected.items():
        headers = as_(actor) if actor else {}
        answer = guarded.request(method, url, headers=headers, **given)  # type: ignore[arg-type]
        assert answer.status_code == status, (actor, answer.text)


def test_an_address_that_guesses_waits_and_learns_nothing(guarded: Client) -> None:
    assert guarded.get("schema", headers=as_("bo")).status_code == 200
    wrong = {"Authorization": "Bearer guess"}
    statuses = [guarded.get("schema", headers=wrong).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    refused = guarded.get("schema", headers={"Authorization": "Bearer token-of-nobody"})
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["cause"]["code"] == "too_many_failed_logins"
    assert "token-of-nobody" not in refused.text
    # A token that worked from this address before still does.
    assert guarded.get("schema", headers=as_("bo")).status_code == 200


def test_no_token_reaches_a_log_or_an_answer(guarded: Client) -> None:
    held = io.StringIO()
    handler = logging.StreamHandler(held)
    handler.setFormatter(JsonLines())
    root = logging.getLogger("omnigraph")
    root.addHandler(handler)
    level = root.level
    root.setLevel(logging.DEBUG)
    try:
        told = [
            guarded.get("schema", headers=as_("ada")),
            guarded.post("mutate", json={"query": "nonsense"}, headers=as_("ada")),
            guarded.get("/nothing", headers=as_("ada")),
            guarded.post("optimize", headers=as_("ada")),
        ]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert '"actor": "ada"' in held.getvalue()
    for text in (held.getvalue(), *(each.text + str(each.headers) for each in told)):
        assert TOKENS["ada"] not in text


# ── names that try to leave the graph ────────────────────────────────────────────────────────────

LEAVING = ["../secret.txt", "../../etc/passwd", "..", "/etc/passwd", "a\\..\\b", "x\x00y", "%2e%2e"]


def _encode(name: str) -> str:
    return "".join(f"%{each:02X}" for each in name.encode())


def test_no_name_leads_out_of_the_graph(guarded: Client, folder: Path) -> None:
    before = _list(folder)
    places = [
        ("GET", "jobs/{}"),
        ("POST", "jobs/{}/cancel"),
        ("GET", "commits/{}"),
        ("GET", "commits/{}/changes"),
        ("POST", "queries/{}"),
        ("GET", "proposals/{}"),
        ("DELETE", "branches/{}"),
        ("DELETE", "tags/{}"),
        ("GET", "snapshot?branch={}"),
        ("GET", "snapshot?commit={}"),
        ("GET", "entity?type={}&id=x"),
        ("GET", "entity?type=Letter&id={}"),
        ("GET", "blob?entity=node&type=Letter&id=far&property={}"),
        ("POST", "load/ndjson?branch={}&from=main"),
        ("GET", "/graphs/{}/schema"),
        ("GET", "/ui/assets/{}"),
    ]
    for (method, place), name in product(places, LEAVING):
        url = str(guarded.base_url.join(place.format(_encode(name))))
        answer = guarded.request(method, url, headers=as_("ada"))
        where = (method, place, name, answer.text[:200])
        # An id that no row has is an empty result.
        assert 400 <= answer.status_code < 500 or "id={}" in place, where
        assert SECRET not in answer.text, where
        assert "root:" not in answer.text, where
    for name in LEAVING:
        for route, body in (("branches", {"name": name}), ("tags", {"tag": name})):
            refused = guarded.post(route, json=body, headers=as_("ada"))
            assert 400 <= refused.status_code < 500, (route, name)
    assert _list(folder) == before


def _list(folder: Path) -> list[str]:
    """Everything beside the graph, and the folders in it."""
    return sorted(
        str(each)
        for each in folder.rglob("*")
        if "g.omni" not in str(each) or each.parent.name == "g.omni"
    )


def test_the_name_of_an_upload_is_no_path(guarded: Client, folder: Path) -> None:
    record = json.dumps({"type": "Letter", "data": {"ref": "L-3"}}).encode()
    name = f"../../../{folder}/stolen.jsonl"
    answer = guarded.post("load/files", files={"files": (name, record)}, headers=as_("ada"))
    assert answer.status_code == 200
    assert not list(folder.rglob("stolen*"))


# ── addresses ────────────────────────────────────────────────────────────────────────────────────


def test_the_bytes_at_an_address_are_never_fetched(guarded: Client, folder: Path) -> None:
    where = "blob?entity=node&type=Letter&id=far&property=scan"
    answer = guarded.get(where, headers=as_("ada"))
    assert answer.status_code == 424
    assert "external_blobs.allow" in answer.json()["error"]
    change = 'query n() { update Letter set { note: "x" } where ref = "far" }'
    assert guarded.post("mutate", json={"query": change}, headers=as_("ada")).status_code == 200
    assert guarded.post("optimize", headers=as_("dana")).status_code == 200
    graph = omnigraph.open(folder / "g.omni")
    assert SECRET not in b"".join(graph.export_lines()).decode()
    held = [each for each in (folder / "g.omni").rglob("*") if each.is_file()]
    assert not [each for each in held if SECRET.encode() in each.read_bytes()]


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest/meta-data/", "https://x/y", "gopher://x", "data:,x"]
)
def test_web_addresses_are_not_stored(guarded: Client, address: str) -> None:
    program = "query a($s: Blob) { insert Letter { ref: 'web', scan: $s } }".replace("'", '"')
    body = {"query": program, "params": {"s": address}}
    refused = guarded.post("mutate", json=body, headers=as_("ada"))
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


# ── what is small and becomes large ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [1, 3])
def test_an_upload_that_unpacks_to_too_much_is_refused(guarded: Client, count: int) -> None:
    bomb = gzip.compress(b"\n" * (150_000 // count))
    files = [("files", (f"{each}.jsonl.gz", bomb)) for each in range(count)]
    refused = guarded.post("load/files", files=files, headers=as_("ada"))
    assert (refused.status_code, refused.headers["content-type"][:10]) == (413, "text/plain")
    assert "when unpacked" in refused.text


def test_a_body_may_be_nested_only_so_deeply(guarded: Client) -> None:
    for text in ("[" * 100_000, '{"query":' * 50_000):
        headers = as_("ada") | {"Content-Type": "application/json"}
        refused = guarded.post("query", content=text, headers=headers)
        assert refused.status_code == 400


def test_a_pattern_takes_linear_time(guarded: Client) -> None:
    program = 'query q($t: String) { match { $l: Letter matches($t, "(a+)+$") } return { $l.ref } }'
    body = {"query": program, "params": {"t": "a" * 5000 + "!"}, "timeout": 5}
    answer = guarded.post("query", json=body, headers=as_("ada"))
    assert (answer.status_code, answer.json()["rows"]) == (200, [])


# ── requests that two servers read differently ───────────────────────────────────────────────────

CHUNKED = "0\r\n\r\nGET /graphs/g/schema HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, identity",
        " Transfer-Encoding: chunked",
        "Content-Length: 5\r\n Transfer-Encoding: chunked",
        "X: a\rTransfer-Encoding: chunked",
    ],
)
def test_a_request_of_two_lengths_is_refused(open_port: int, head: str) -> None:
    request = f"POST /graphs/g/query HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{CHUNKED}"
    with socket.create_connection(("127.0.0.1", open_port), timeout=30) as caller:
        caller.sendall(request.encode())
        heard = b""
        while piece := caller.recv(65_536):
            heard += piece
    assert re.findall(rb"HTTP/1\.1 (\d+)", heard) == [b"400"], heard


# ── pages of other sites ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("host", "origin", "is_own"),
    [
        ("127.0.0.1:1", None, True),
        ("127.0.0.1:1", "http://127.0.0.1:1", True),
        ("localhost:1", "http://localhost:1", True),
        ("[::1]:1", None, True),
        ("127.0.0.1:1", "https://evil.example", False),
        ("127.0.0.1:1", "http://127.0.0.1:2", False),
        ("127.0.0.1:1", "null", False),
        ("evil.example:1", "http://evil.example:1", False),
        ("evil.example", None, False),
        ("[::1", None, False),
        ("127.0.0.1:1", "http://[x", False),
    ],
)
def test_a_server_without_tokens_answers_its_own_page_only(
    open_port: int, host: str, origin: str | None, *, is_own: bool
) -> None:
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    with Client(base_url=f"http://127.0.0.1:{open_port}/graphs/g", timeout=60) as client:
        answer = client.post("/query", json={"query": READ}, headers=headers)
    assert answer.status_code == (200 if is_own else 403)
    if not is_own:
        assert answer.json()["cause"]["code"] == "cross_site"


def test_a_proxy_of_ones_own_is_named_in_the_configuration(folder: Path) -> None:
    file = folder / "proxied.yaml"
    file.write_text("version: 1\nhosts: [Graph.example.org]\n")
    flags = Flags(file, (f"g={folder / 'g.omni'}",), unauthenticated=True)
    with running(flags) as server, Client(base_url=server.url) as client:
        asked = {
            name: client.get("/schema", headers={"Host": name})
            for name in ("x", "graph.example.org")
        }
    assert {name: each.status_code for name, each in asked.items()} == {
        "x": 403,
        "graph.example.org": 200,
    }
