"""`/blob`, asked as clients ask it: every status, over a real connection."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Client, Response
from hypothesis import given, settings, strategies as st

import omnigraph
from omnigraph.engine.query.blob import CHUNK_BYTES
from omnigraph.errors import TableCorrupt
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from omnigraph.server.runtime.tokens import INLINE
from support.serving import running

SCHEMA = """
node Letter { ref: String @key  note: String?  scan: Blob? }
edge Answers: Letter -> Letter { copy: Blob? }
"""
DATA = b"0123456789"
LARGE = os.urandom(3 * CHUNK_BYTES + 5)
POLICY = """
version: 1
groups: { readers: [bo] }
protected_branches: [main]
rules:
  - { id: r, allow: { actors: { group: readers }, actions: [read], branch_scope: unprotected } }
"""

WEB = "http://host.example/scan.tif"
"""Lance keeps no such address; other programs may have made it do so."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    made = omnigraph.init(tmp_path_factory.mktemp("served") / "g", SCHEMA)
    made.insert("Letter", [{"ref": "far", "scan": "gs://" + WEB[5:].replace("/", "_")}])
    _forge(Path(made.uri), "gs://" + WEB[5:].replace("/", "_"), WEB)
    rows: list[dict[str, object]] = [
        {"ref": "a", "scan": DATA, "note": "x"},
        {"ref": "large", "scan": LARGE},
        {"ref": "empty", "scan": b""},
        {"ref": "none"},
        {"ref": "file", "scan": "file:///etc/passwd"},
    ]
    made.insert("Letter", rows)
    made.insert("Answers", [{"id": "e", "from": "a", "to": "none", "copy": b"copied"}])
    return made


def _forge(root: Path, old: str, new: str) -> None:
    """Give an address in a data file for another of the same length."""
    assert len(old) == len(new)
    (file,) = [each for each in root.rglob("*.lance") if each.is_file() and "nodes" in str(each)]
    held = file.read_bytes()
    assert held.count(old.encode()) == 1
    file.write_bytes(held.replace(old.encode(), new.encode()))


@pytest.fixture(scope="module")
def client(graph: LocalGraph) -> Iterator[Client]:
    allowed = f"{{ uri: {graph.uri}, external_blobs: {{ allow: [{WEB.rpartition('/')[0]}/] }} }}"
    file = Path(graph.uri).with_name("server.yaml")
    file.write_text(f"version: 1\ngraphs: {{ g: {allowed} }}")
    flags = Flags(file, unauthenticated=True)
    with running(flags) as server, Client(base_url=f"{server.url}/graphs/g") as client:
        yield client


def ask(client: Client, method: str = "GET", **changes: str) -> Response:
    """The scan of letter `a`; what begins with a capital letter is a header."""
    params = {"entity": "node", "type": "Letter", "id": "a", "property": "scan"}
    headers = {key.replace("_", "-"): each for key, each in changes.items() if key[0].isupper()}
    params |= {key: each for key, each in changes.items() if key[0].islower()}
    return client.request(method, "/blob", params=params, headers=headers)


def test_all_of_it_comes_with_its_tag(client: Client, graph: LocalGraph) -> None:
    answer = ask(client)
    assert (answer.status_code, answer.content) == (200, DATA)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == "10"
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Omnigraph-Snapshot-Id"] == graph.commits()[0].id
    assert answer.headers["ETag"] == f'"{graph.blob("node", "Letter", "a", "scan").etag}"'
    about = ask(client, "HEAD")
    assert (about.status_code, about.content) == (200, b"")
    same = ("ETag", "Content-Length", "Content-Type", "Omnigraph-Snapshot-Id", "Accept-Ranges")
    assert [about.headers[each] for each in same] == [answer.headers[each] for each in same]
    copied = ask(client, entity="edge", type="Answers", id="e", property="copy")
    assert copied.content == b"copied"


def test_the_short_address_answers_too(client: Client) -> None:
    params = {"entity": "node", "type": "Letter", "id": "a", "property": "scan"}
    with Client(base_url=str(client.base_url).removesuffix("graphs/g/")) as short:
        assert short.get("/blob", params=params).content == DATA
        refused = short.post("/blob")
        assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


@settings(max_examples=30, deadline=None)
@given(
    first=st.none() | st.integers(0, 12),
    last=st.none() | st.integers(0, 12),
    ref=st.sampled_from(["a", "empty"]),
)
def test_a_range_is_the_slice_it_names(
    client: Client, first: int | None, last: int | None, ref: str
) -> None:
    data = {"a": DATA, "empty": b""}[ref]
    answer = ask(client, id=ref, Range=f"bytes={_text(first)}-{_text(last)}")
    if answer.status_code == 416:
        assert answer.headers["Content-Range"] == f"bytes */{len(data)}"
        assert last == 0 if first is None else first >= len(data)
        return
    if answer.status_code == 200:
        is_none = first is None and (last is None or not data)
        assert is_none or (first is not None and last is not None and last < first)
        assert answer.content == data
        return
    expected = data[first:] if last is None else data[first : last + 1]
    if first is None:
        assert last is not None
        expected = data[-last:]
    assert answer.content == expected
    start = len(data) - len(expected) if first is None else first
    span = f"{start}-{start + len(expected) - 1}"
    assert answer.headers["Content-Range"] == f"bytes {span}/{len(data)}"
    assert answer.headers["Content-Length"] == str(len(expected))


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def test_a_range_that_lies_outside_is_told_the_length(client: Client) -> None:
    answer = ask(client, Range="bytes=10-19")
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */10")
    body = answer.json()
    assert body["blob_range"] == {"start": 10, "end": 19, "length": 10}
    assert "code" not in body
    assert ask(client, "HEAD", Range="bytes=10-19").status_code == 200, "only GET has ranges"


def test_whoever_has_it_is_not_sent_it_again(client: Client, graph: LocalGraph) -> None:
    graph.insert("Letter", [{"ref": "moving", "scan": b"one"}])
    tag = ask(client, id="moving").headers["ETag"]
    for method in ("GET", "HEAD"):
        known = ask(client, method, id="moving", If_None_Match=tag)
        assert (known.status_code, known.content, known.headers["ETag"]) == (304, b"", tag)
    assert ask(client, id="moving", If_Match=tag).content == b"one"
    graph.upsert("Letter", [{"ref": "moving", "scan": b"two"}])
    assert ask(client, id="moving", If_None_Match=tag).content == b"two"
    refused = ask(client, id="moving", If_Match=tag)
    assert refused.status_code == 412
    actual = ask(client, "HEAD", id="moving").headers["ETag"]
    assert refused.json()["precondition_failure"] == {"expected": tag, "actual": actual}
    assert "code" not in refused.json()
    # A download that goes on where it stopped, of what is no longer the same.
    resumed = ask(client, id="moving", Range="bytes=1-", If_Range=tag)
    assert (resumed.status_code, resumed.content) == (200, b"two")
    resumed = ask(client, id="moving", Range="bytes=1-", If_Range=actual)
    assert (resumed.status_code, resumed.content) == (206, b"wo")


def test_the_past_and_branches_are_named(client: Client, graph: LocalGraph) -> None:
    graph.insert("Letter", [{"ref": "old", "scan": b"then"}])
    then = graph.commits()[0].id
    graph.branches.create("b")
    graph.upsert("Letter", [{"ref": "old", "scan": b"now"}])
    assert ask(client, id="old").content == b"now"
    assert ask(client, id="old", branch="b").content == b"then"
    past = ask(client, id="old", snapshot=then)
    assert (past.content, past.headers["Omnigraph-Snapshot-Id"]) == (b"then", then)
    refused = ask(client, snapshot=then, branch="b")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


MISSING = [
    {"type": "Card"},
    {"entity": "edge"},
    {"property": "seal"},
    {"id": "nobody"},
    {"id": "none"},
    {"branch": "nowhere"},
    {"snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
]


@pytest.mark.parametrize("changes", MISSING, ids=str)
def test_what_is_not_there_is_not_found(client: Client, changes: dict[str, str]) -> None:
    # What would be asked of a blob does not matter if there is none.
    answer = ask(client, **changes, If_Match='"x"')
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    about = ask(client, "HEAD", **changes)
    assert (about.status_code, about.content) == (404, b"")


def test_other_properties_are_no_blobs(client: Client) -> None:
    answer = ask(client, property="note")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert answer.json()["cause"]["code"] == "not_a_blob"
    assert ask(client, entity="letter").status_code == 422


def test_whoever_wants_what_is_elsewhere_is_sent_there(client: Client, graph: LocalGraph) -> None:
    for method in ("GET", "HEAD"):
        answer = ask(client, method, id="far", Range="bytes=0-9")
        assert (answer.status_code, answer.headers["Location"]) == (302, WEB)
        assert answer.content == b""
        assert answer.headers["Omnigraph-Snapshot-Id"] == graph.commits()[0].id
        assert "ETag" not in answer.headers
    url = str(client.base_url).rstrip("/")
    with omnigraph.connect(url) as remote:
        assert remote.blob("node", "Letter", "far", "scan").uri == WEB


def test_nobody_is_sent_to_places_that_are_not_allowed(graph: LocalGraph) -> None:
    flags = Flags(graphs=(f"g={graph.uri}",), unauthenticated=True)
    with running(flags) as server, Client(base_url=f"{server.url}/graphs/g") as client:
        answer = ask(client, id="far")
        assert (answer.status_code, "Location" in answer.headers) == (424, False)
        assert answer.json()["external_blob_source"]["uri"] == WEB
        with omnigraph.connect(server.url) as remote:
            assert remote.blob("node", "Letter", "far", "scan").uri == WEB


def test_nobody_is_sent_to_files_and_the_server_reads_none(client: Client) -> None:
    answer = ask(client, id="file")
    assert answer.status_code == 424
    told = answer.json()
    assert told["external_blob_source"]["uri"] == "file:///etc/passwd"
    assert "code" not in told
    assert b"root:" not in answer.content
    assert ask(client, "HEAD", id="file").status_code == 424


def test_a_large_blob_is_streamed(client: Client) -> None:
    params = {"entity": "node", "type": "Letter", "id": "large", "property": "scan"}
    with client.stream("GET", "/blob", params=params) as answer:
        assert answer.headers["Content-Length"] == str(len(LARGE))
        assert b"".join(answer.iter_raw()) == LARGE
    start = CHUNK_BYTES - 3
    part = ask(client, id="large", Range=f"bytes={start}-{start + CHUNK_BYTES}")
    assert part.content == LARGE[start : start + CHUNK_BYTES + 1]


def test_a_policy_decides_about_the_branch(graph: LocalGraph, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    flags = Flags(graphs=(f"g={graph.uri}",), policies=(f"g={tmp_path / 'policy.yaml'}",))
    graph.branches.create("drafts")
    head = graph.insert("Letter", [{"ref": "d", "scan": b"draft"}], branch="drafts").commit
    main = graph.commits()[0].id
    assert head is not None
    with (
        running(flags, {INLINE: json.dumps({"bo": "token-of-bo"})}) as server,
        Client(base_url=f"{server.url}/graphs/g") as client,
    ):
        assert ask(client).status_code == 401
        client.headers["Authorization"] = "Bearer token-of-bo"
        assert ask(client).status_code == 403
        assert ask(client, id="nobody").status_code == 403, "nothing is told about what is there"
        assert ask(client, snapshot=main).status_code == 403
        assert ask(client, id="d", branch="drafts").content == b"draft"
        assert ask(client, id="d", snapshot=head.id).content == b"draft"
        # The head of a branch without commits of its own is one of main, which bo may not read.
        graph.branches.create("fresh")
        with omnigraph.connect(server.url, graph="g", token="token-of-bo") as remote:
            assert remote.blob("node", "Letter", "a", "scan", branch="fresh").read(3, 2) == b"34"


def test_what_is_damaged_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    made = omnigraph.init(tmp_path / "g", SCHEMA)
    made.insert("Letter", [{"ref": "a", "scan": LARGE}])
    (file,) = [each for each in Path(made.uri).rglob("*.blob") if each.is_file()]
    file.unlink()
    flags = Flags(graphs=(f"g={made.uri}",), unauthenticated=True)
    with running(flags) as server, Client(base_url=f"{server.url}/graphs/g") as client:
        answer = ask(client)
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.json()["cause"]["code"] == "table_corrupt"
    with pytest.raises(TableCorrupt, match="blob"):
        list(made.export_lines())
