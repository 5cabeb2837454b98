"""Blobs through everything that is done to a graph."""

import hashlib
import json
import os
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.query.blob import CHUNK_BYTES, BlobName
from omnigraph.engine.query.target import Target
from omnigraph.errors import BlobNotFound, TableCorrupt
from omnigraph.ids import CommitId
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = "node Letter { ref: String @key  note: String?  scan: Blob? }"
LARGE = os.urandom(CHUNK_BYTES + 3)
NOTE = 'query q($r: String) { update Letter set { note: "seen" } where ref = $r }'
FAR = "file:///nowhere/at/all"


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert(
        "Letter",
        [
            {"ref": "small", "scan": b"hello"},
            {"ref": "middle", "scan": LARGE[:200_000]},
            {"ref": "large", "scan": LARGE},
            {"ref": "empty", "scan": b""},
            {"ref": "far", "scan": FAR},
            {"ref": "none"},
        ],
    )
    return made


def tags(graph: LocalGraph, branch: str = "main") -> dict[str, str | None]:
    names = ("small", "middle", "large", "empty")
    found = {ref: graph.blob("node", "Letter", ref, "scan", branch=branch) for ref in names}
    return {ref: each.etag for ref, each in found.items()}


def check_everything_is_there(graph: LocalGraph, branch: str = "main") -> None:
    expected = {"small": b"hello", "middle": LARGE[:200_000], "large": LARGE, "empty": b""}
    for ref, data in expected.items():
        assert graph.blob("node", "Letter", ref, "scan", branch=branch).read() == data, ref
    assert graph.blob("node", "Letter", "far", "scan", branch=branch).uri == FAR
    with pytest.raises(BlobNotFound, match="is null"):
        graph.blob("node", "Letter", "none", "scan", branch=branch)


def test_blobs_survive_updates_merges_and_upkeep(graph: LocalGraph) -> None:
    first = tags(graph)
    graph.branches.create("b")
    assert tags(graph, "b") == first, "the same bytes on another branch are the same"
    for ref in ("large", "far", "none", "small"):
        graph.mutate(NOTE, params={"r": ref}, branch="b")
        graph.insert("Letter", [{"ref": f"new-{ref}"}])
    check_everything_is_there(graph, "b")
    graph.merge("b")
    check_everything_is_there(graph)
    assert any(each.fragments_removed for each in graph.optimize().tables)
    check_everything_is_there(graph)
    small = {"small", "middle", "empty"}
    after = tags(graph)
    assert {ref: after[ref] for ref in small} == {ref: first[ref] for ref in small}
    graph.branches.delete("b")
    graph.apply_schema(SCHEMA.replace("note: String?", "note: String?  page: I64?"))
    assert tags(graph) == after, "a new column leaves blobs where they are"
    check_everything_is_there(graph)


def test_the_past_shows_what_it_showed(graph: LocalGraph) -> None:
    before = graph.commits()[0].id
    tag = tags(graph)["small"]
    graph.upsert("Letter", [{"ref": "small", "scan": b"HELLO"}, {"ref": "large"}])
    graph.delete("Letter", ["middle"])
    now = graph.blob("node", "Letter", "small", "scan")
    assert (now.read(), now.etag) == (b"HELLO", hashlib.sha256(b"HELLO").hexdigest())
    with pytest.raises(BlobNotFound, match="is null"):
        graph.blob("node", "Letter", "large", "scan")
    then = graph.blob("node", "Letter", "small", "scan", commit=before)
    assert (then.read(), then.etag, then.commit_id) == (b"hello", tag, before)
    assert graph.blob("node", "Letter", "large", "scan", commit=before).read() == LARGE
    version = graph.snapshot(commit=before).manifest_version
    assert graph.blob("node", "Letter", "middle", "scan", version=version).length == 200_000


def test_a_property_that_is_younger_than_the_past_was_not_there(graph: LocalGraph) -> None:
    before = graph.commits()[0].id
    graph.apply_schema(SCHEMA.replace("scan: Blob?", "scan: Blob?  seal: Blob?"))
    with pytest.raises(BlobNotFound) as refused:
        graph.blob("node", "Letter", "small", "seal")
    assert refused.value.missing == "value"
    with pytest.raises(BlobNotFound) as refused:
        graph.blob("node", "Letter", "small", "seal", commit=before)
    assert refused.value.missing == "property"
    # Of commits that do not say which schema was theirs, the one in force is believed.
    inner = graph._graph
    letter = inner.catalog.node("Letter")
    seen = inner._targets.view(Target(commit_id=CommitId(before)))
    assert letter is not None
    with pytest.raises(BlobNotFound) as refused:
        inner._reader.open_blob(letter, BlobName("node", "Letter", "small", "seal"), seen)
    assert refused.value.missing == "value"


def test_two_writes_of_the_same_large_bytes_are_told_apart_and_of_small_ones_are_not(
    graph: LocalGraph,
) -> None:
    """A tag may change too often. It must never stay when the bytes do not."""
    first = tags(graph)
    graph.upsert("Letter", [{"ref": "small", "scan": b"hello"}, {"ref": "large", "scan": LARGE}])
    again = tags(graph)
    assert again["small"] == first["small"]
    assert again["large"] != first["large"]
    other = bytes([LARGE[0] ^ 1]) + LARGE[1:]
    graph.upsert("Letter", [{"ref": "large", "scan": other}])
    assert tags(graph)["large"] not in (first["large"], again["large"])


def test_a_row_that_replaced_another_at_its_place_has_another_tag(graph: LocalGraph) -> None:
    """Deleted, and inserted again with as many bytes: the number of the row may be the same."""
    first = tags(graph)["large"]
    graph.delete("Letter", ["large"])
    graph.insert("Letter", [{"ref": "large", "scan": LARGE[::-1]}])
    assert tags(graph)["large"] != first


def test_blobs_that_are_lost_or_cut_short_are_found(graph: LocalGraph) -> None:
    graph.branches.create("b")
    assert graph.doctor(deep=True) == []
    held = {each.stat().st_size: each for each in Path(graph.uri).rglob("*.blob")}
    assert sorted(held) == [200_000, len(LARGE)]
    whole = held[len(LARGE)].read_bytes()
    held[len(LARGE)].write_bytes(whole[:-1])
    with pytest.raises(TableCorrupt):
        graph.blob("node", "Letter", "large", "scan").read(len(LARGE) - 1)
    found = graph.doctor(deep=True)
    assert [(each.branch, each.subject) for each in found] == [
        ("main", "node:Letter"),
        ("b", "node:Letter"),
    ]
    assert "blobs in 'scan' that cannot be read" in found[0].problem
    held[len(LARGE)].write_bytes(whole)
    held[200_000].unlink()
    assert len(graph.doctor(deep=True)) == 2
    assert graph.doctor() == [], "only who asks pays for it"


def test_records_of_blobs_load_back(graph: LocalGraph, tmp_path: Path) -> None:
    lines = b"".join(graph.export_lines())
    copy = omnigraph.init(tmp_path / "copy", SCHEMA, durability=Durability.RELAXED)
    copy.insert("Letter", [json.loads(line)["data"] for line in lines.splitlines()])
    check_everything_is_there(copy)
    assert b"".join(copy.export_lines()) == lines
