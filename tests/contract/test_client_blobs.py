"""Blobs, read from an embedded graph and from a served one: the same suite on both."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import omnigraph
from omnigraph.engine.query.blob import CHUNK_BYTES, OpenBlob
from omnigraph.errors import (
    BlobNotFound,
    BlobRangeInvalid,
    BranchNotFound,
    CommitNotFound,
    ConstraintViolation,
    ExternalBlob,
    NotABlob,
    UsageError,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = """
node Letter { ref: String @key  note: String?  scan: Blob? }
edge Answers: Letter -> Letter { copy: Blob? }
"""
LARGE = os.urandom(2 * CHUNK_BYTES + 1)


@pytest.fixture(scope="module", params=["embedded", "served"])
def graph(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GraphClient]:
    folder = tmp_path_factory.mktemp("blobs")
    embedded = omnigraph.init(folder / "g", SCHEMA)
    embedded.insert("Letter", [{"ref": "large", "scan": LARGE}, {"ref": "small", "scan": b"hello"}])
    if request.param == "embedded":
        yield embedded
        return
    (folder / "server.yaml").write_text("version: 1\nlimits: { body_bytes: 33554432 }")
    flags = Flags(
        config=folder / "server.yaml", graphs=(f"g={embedded.uri}",), unauthenticated=True
    )
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        yield remote


def scan_of(graph: GraphClient, ref: str, **moment: str) -> OpenBlob:
    return graph.blob("node", "Letter", ref, "scan", **moment)  # type: ignore[arg-type]


def test_a_blob_tells_what_it_is(graph: GraphClient) -> None:
    found = scan_of(graph, "small")
    assert (found.length, found.uri) == (5, None)
    assert found.etag == hashlib.sha256(b"hello").hexdigest()
    assert found.commit_id == graph.commits()[0].id
    assert found.read() == b"hello"
    assert found == scan_of(graph, "small")


def test_a_large_blob_comes_in_chunks(graph: GraphClient) -> None:
    found = scan_of(graph, "large")
    assert found.length == len(LARGE)
    chunks = list(found.chunks())
    assert [len(each) for each in chunks] == [CHUNK_BYTES, CHUNK_BYTES, 1]
    assert b"".join(chunks) == LARGE
    assert found.etag == scan_of(graph, "large").etag
    assert found.etag != hashlib.sha256(LARGE).hexdigest(), "it was not read for that"


@settings(max_examples=25, deadline=None)
@given(
    ref=st.sampled_from(["small", "large"]),
    offset=st.integers(0, 7) | st.integers(CHUNK_BYTES - 2, CHUNK_BYTES + 2),
    length=st.none() | st.integers(0, 7),
)
def test_a_range_is_a_slice(graph: GraphClient, ref: str, offset: int, length: int | None) -> None:
    data = {"small": b"hello", "large": LARGE}[ref]
    found = scan_of(graph, ref)
    if offset > len(data):
        with pytest.raises(BlobRangeInvalid) as refused:
            found.read(offset, length)
        assert (refused.value.start, refused.value.length) == (offset, len(data))
        return
    end = None if length is None else offset + length
    assert found.read(offset, length) == data[offset:end]


def test_before_the_beginning_there_is_nothing(graph: GraphClient) -> None:
    found = scan_of(graph, "small")
    for offset, length in ((-1, None), (1, -1)):
        with pytest.raises(BlobRangeInvalid):
            found.chunks(offset, length)


def test_an_empty_blob_is_not_a_missing_one(graph: GraphClient) -> None:
    graph.insert("Letter", [{"ref": "empty", "scan": b""}, {"ref": "none"}])
    found = scan_of(graph, "empty")
    assert (found.length, found.read(), list(found.chunks(0, 3))) == (0, b"", [])
    with pytest.raises(BlobNotFound) as refused:
        scan_of(graph, "none")
    assert refused.value.missing == "value"


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        (("node", "Card", "small", "scan"), "type"),
        (("edge", "Letter", "small", "scan"), "type"),
        (("node", "Letter", "small", "skan"), "property"),
        (("node", "Letter", "nobody", "scan"), "entity"),
        (("node", "Letter", "it's \" %20 ?&", "scan"), "entity"),
    ],
)
def test_what_is_missing_is_named(
    graph: GraphClient, name: tuple[str, str, str, str], missing: str
) -> None:
    with pytest.raises(BlobNotFound) as refused:
        graph.blob(*name)
    assert refused.value.missing == missing
    assert refused.value.type_name == name[1]


def test_bytes_are_parameters(graph: GraphClient) -> None:
    add = "query add($r: String, $s: Blob) { insert Letter { ref: $r, scan: $s } }"
    graph.mutate(add, params={"r": "given", "s": b"\x00\xff"})
    assert scan_of(graph, "given").read() == b"\x00\xff"
    graph.mutate(add, params={"r": "given", "s": "base64:AQ=="})
    assert scan_of(graph, "given").read() == b"\x01"


def test_only_blobs_are_read_so(graph: GraphClient) -> None:
    with pytest.raises(NotABlob, match=r"Letter\.note is String\?"):
        graph.blob("node", "Letter", "small", "note")
    with pytest.raises(UsageError, match="a node or an edge"):
        graph.blob("letter", "Letter", "small", "scan")
    with pytest.raises(UsageError):
        scan_of(graph, "small", branch="main", commit=graph.commits()[0].id)
    with pytest.raises(BranchNotFound):
        scan_of(graph, "small", branch="nowhere")
    with pytest.raises(CommitNotFound):
        scan_of(graph, "small", commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_blobs_of_edges_are_read_too(graph: GraphClient) -> None:
    ends = {"from": "small", "to": "large"}
    graph.insert("Answers", [{**ends, "id": "a1", "copy": b"by hand"}])
    assert graph.blob("edge", "Answers", "a1", "copy").read() == b"by hand"


def test_what_is_elsewhere_is_named_and_not_fetched(graph: GraphClient, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"not yours")
    graph.insert("Letter", [{"ref": "far", "scan": secret.as_uri()}])
    found = scan_of(graph, "far")
    assert (found.uri, found.length, found.etag) == (secret.as_uri(), None, None)
    assert found.commit_id == graph.commits()[0].id
    with pytest.raises(ExternalBlob) as refused:
        found.read()
    assert refused.value.uri == secret.as_uri()


def test_an_address_that_cannot_be_kept_is_refused_with_its_row(graph: GraphClient) -> None:
    before = graph.commits()[0].id
    with pytest.raises(ConstraintViolation, match="scheme is none of") as refused:
        graph.insert("Letter", [{"ref": "web", "scan": "https://example.org/a"}])
    (violation,) = refused.value.violations
    assert (violation.type_name, violation.property_name) == ("Letter", "scan")
    assert graph.commits()[0].id == before


def test_an_open_blob_stays_what_it_was(graph: GraphClient) -> None:
    fresh = bytes(len(LARGE))
    graph.insert("Letter", [{"ref": "moving", "scan": LARGE}])
    head = graph.commits()[0].id
    found = scan_of(graph, "moving")
    chunks = found.chunks()
    assert next(chunks) == LARGE[:CHUNK_BYTES]
    graph.upsert("Letter", [{"ref": "moving", "scan": fresh}])
    assert b"".join(chunks) == LARGE[CHUNK_BYTES:]
    assert found.read(10, 5) == LARGE[10:15]
    again = scan_of(graph, "moving")
    assert again.etag != found.etag
    assert again.read(10, 5) == bytes(5)
    assert scan_of(graph, "moving", commit=head).etag == found.etag
    graph.delete("Letter", ["moving"])
    assert scan_of(graph, "moving", snapshot=head).read(0, 4) == LARGE[:4]
