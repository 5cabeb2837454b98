"""Loads over HTTP: in a string, as a stream, as files."""

import gzip
import json
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from httpx import Client

import omnigraph
from omnigraph.errors import FileUnreadable, LoadRejected
from omnigraph.mcp.graph_tools import GraphToolbox
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.remote.graph import RemoteGraph
from omnigraph.server.runtime.settings import Flags
from support.serving import running

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person"


def records(*names: str) -> str:
    return "".join(json.dumps({"type": "Person", "data": {"name": name}}) + "\n" for name in names)


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    return omnigraph.init(tmp_path / "g", SCHEMA)


@pytest.fixture
def url(graph: LocalGraph, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "server.yaml").write_text(
        f"version: 1\ngraphs: {{ g: {{ uri: {graph.uri} }} }}\n"
        "limits: { load_stream_bytes: 4096 }"
    )
    with running(Flags(config=tmp_path / "server.yaml", unauthenticated=True)) as server:
        yield f"{server.url}/graphs/g"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(base_url=url, timeout=120) as client:
        yield client


def test_an_agent_loads_records_by_a_tool(graph: LocalGraph) -> None:
    (ingest,) = (each for each in GraphToolbox(graph).tools() if each.name == "ingest")
    asked = {"data": records("a", "b"), "branch": "rev", "from": "main", "idempotency_key": "k"}
    first = ingest.call(asked)
    assert first["total_entities"] == 2
    assert ingest.call(asked)["commit"] == first["commit"], "repeated, done once"
    with pytest.raises(LoadRejected):
        ingest.call({"data": '{"type": "Nobody", "data": {}}'})


def test_records_are_loaded_however_they_come(client: Client, graph: LocalGraph) -> None:
    text = client.post(
        "/load", json={"branch": "rev", "from": "main", "mode": "merge", "data": records("a", "b")}
    )
    document = text.json()
    assert document["tables"] == [{"table_key": "node:Person", "rows_loaded": 2}]
    assert document["nodes"] == [{"name": "Person", "entities_loaded": 2}]
    assert (document["base_branch"], document["branch_created"]) == ("main", True)
    assert document["commit"]["graph_commit_id"] == graph.commits("rev")[0].id
    stream = client.post(
        "/load/ndjson?mode=append", content=records("c"), headers={"Idempotency-Key": "k"}
    )
    assert stream.json()["total_entities"] == 1
    assert stream.json()["base_branch"] is None
    again = client.post(
        "/load/ndjson?mode=append", content=records("c"), headers={"Idempotency-Key": "k"}
    )
    # How long it took is not part of what was done.
    assert {**again.json(), "timings_ms": None} == {**stream.json(), "timings_ms": None}
    other = client.post(
        "/load/ndjson?mode=append", content=records("d"), headers={"Idempotency-Key": "k"}
    )
    assert (other.status_code, other.json()["cause"]["code"]) == (409, "key_reused")
    spread = json.dumps({"type": "Person", "data": {"name": "e"}}, indent=2)
    old = client.post("/ingest", json={"data": spread})
    assert old.json()["total_entities"] == 1, "a record may be spread over lines"
    assert old.headers["Link"] == '<load>; rel="successor-version"'
    assert graph.snapshot().pins["node:Person"].row_count == 2  # type: ignore[index]


def test_files_are_sent_by_the_remote_client(
    url: str, graph: LocalGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_text(records("a"))
    packed.write_bytes(gzip.compress(records("b", "c").encode()))
    with omnigraph.connect(url) as remote:
        loaded = remote.load([plain, packed], mode="append", branch="new", from_branch="main")
        assert loaded.counts == {"node:Person": 3}
        assert loaded.branch_created
        assert loaded.commit is not None
        assert loaded.commit.id == graph.commits("new")[0].id
        check_faults(remote, tmp_path)
        check_places(remote, tmp_path, monkeypatch)


def check_places(remote: RemoteGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, patterns and standard input go to a server as they go to a graph."""
    folder = tmp_path / "more"
    folder.mkdir()
    for name in ("c", "d"):
        (folder / f"{name}.jsonl").write_text(records(name))
    (folder / "_SUCCESS").write_text("")
    assert remote.load(folder, mode="merge").counts == {"node:Person": 2}
    assert remote.load(str(folder / "*.jsonl"), mode="merge").counts == {"node:Person": 2}
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(records("s").encode())))
    assert remote.load("-", mode="merge").counts == {"node:Person": 1}
    with pytest.raises(FileUnreadable, match="no file matches"):
        remote.load(str(folder / "*.csv"), mode="merge")


def check_faults(remote: RemoteGraph, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(records("x") + '{"type": "Nobody", "data": {}}\n')
    with pytest.raises(LoadRejected) as rejected:
        remote.load(wrong, mode="append")
    assert rejected.value.count == 1
    assert rejected.value.faults[0].line == 2
    assert "Nobody" in rejected.value.faults[0].message
    assert rejected.value.faults[0].file == "wrong.jsonl"
    assert "\nwrong.jsonl:2: " in str(rejected.value)
    table = tmp_path / "odd.parquet"
    table.write_bytes(b"not a table")
    with pytest.raises(FileUnreadable, match=r"cannot read odd\.parquet: ") as unreadable:
        remote.load(table, mode="append", type="Person")
    assert unreadable.value.path == "odd.parquet"


def test_a_load_that_cannot_be_is_told(client: Client, graph: LocalGraph) -> None:
    before = graph.snapshot()
    missing = client.post("/load/ndjson?branch=nowhere", content=records("a"))
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    large = client.post("/load/ndjson", content=records(*map(str, range(200))))
    assert large.status_code == 413
    wrong = client.post("/load", json={"data": '{"type": "Nobody", "data": {}}'})
    assert wrong.status_code == 400
    assert "omnigraph-load" not in wrong.text, "where a body lies here is nobody's business"
    assert wrong.json()["cause"]["facts"]["faults"][0]["rendered"].startswith("the body:1: ")
    assert client.post("/load/ndjson?mode=replace", content=b"").status_code == 422
    assert client.post("/load/files", content=b"x").status_code == 415
    empty = client.post("/load/files", files=[], data={"x": "y"})
    assert empty.status_code in (400, 415, 422)
    assert graph.snapshot() == before
