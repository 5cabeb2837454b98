"""Graphs whose bytes the reference program wrote, release 0.8.0, on an older Lance.

What it says of them itself lies beside them: exports and commits, in its spelling. Branches record
the path they were made under, `branched.omni`, so they are read from the folder that holds it.
"""

import json
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph
from omnigraph.errors import BlobNotFound
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

FIXTURES = Path(__file__).parent / "fixtures" / "reference-0.8.0"
NAMES = ("plain", "branched", "evolved")
BRANCHES = (
    ("plain", "main", "plain"),
    ("evolved", "main", "evolved"),
    ("branched", "main", "branched.main"),
    ("branched", "open", "branched.open"),
    ("branched", "review/one", "branched.review-one"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unpack(name: str, here: Path) -> LocalGraph:
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(here, filter="data")
    return omnigraph.open(here / f"{name}.omni", durability=Durability.RELAXED)


# ── what they say ────────────────────────────────────────────────────────────────────────────────


def plain_value(key: str, value: Any) -> Any:
    """The same for both spellings: days and moments as numbers, small floats as they are kept."""
    match key, value:
        case (("day" | "since"), str()):
            return (date.fromisoformat(value) - date(1970, 1, 1)).days
        case "moment", str():
            read = datetime.fromisoformat(value)
            return read.replace(tzinfo=UTC).timestamp() * 1_000
        case (("f32" | "weight"), float()):
            return float(np.float32(value))
        case "vec", list():
            return [float(np.float32(each)) for each in value]
        case _:
            return value


def told(lines: bytes) -> Iterator[Mapping[str, Any]]:
    for line in lines.splitlines():
        record = json.loads(line)
        data = {key: plain_value(key, value) for key, value in record["data"].items()}
        yield {**record, "data": data}


def export(graph: LocalGraph, branch: str = "main") -> list[Mapping[str, Any]]:
    return list(told(b"".join(graph.export_lines(branch=branch))))


@pytest.mark.parametrize(("name", "branch", "file"), BRANCHES)
def test_an_export_says_what_the_reference_says(
    here: Path, name: str, branch: str, file: str
) -> None:
    wanted = list(told((FIXTURES / f"{file}.export.jsonl").read_bytes()))
    found = export(unpack(name, here), branch)
    assert len(found) == len(wanted)
    for each in wanted:
        assert each in found


@pytest.mark.parametrize(("name", "branch", "file"), BRANCHES)
def test_the_history_is_the_one_the_reference_tells(
    here: Path, name: str, branch: str, file: str
) -> None:
    kept = FIXTURES / f"{file}.commits.json"
    graph = unpack(name, here)
    commits = list(reversed(graph.commits(branch)))
    if not kept.exists():
        assert commits
        return
    wanted = json.loads(kept.read_text())["commits"]
    found = [
        {
            "graph_commit_id": each.id,
            "manifest_branch": None if each.branch == "main" else each.branch,
            "manifest_version": each.manifest_version,
            "parent_commit_id": each.parent,
            "merged_parent_commit_id": each.merged_parent,
            "actor_id": each.actor,
            "created_at": each.created_at_us,
        }
        for each in commits
    ]
    assert sorted(found, key=str) == sorted(wanted, key=str)


# ── Blobs ────────────────────────────────────────────────────────────────────────────────────────


def blobs(graph: LocalGraph, branch: str = "main") -> dict[str, str | None]:
    return {
        each["data"]["id"]: each["data"]["data"]
        for each in export(graph, branch)
        if each.get("type") == "Thing"
    }


def test_a_null_blob_is_not_an_empty_one(here: Path) -> None:
    graph = unpack("plain", here)
    assert blobs(graph) == {
        "empty": "base64:",
        "full": "base64:aGVsbG8=",
        "later": None,
        "null": None,
        'quoted "key" / % é': None,
    }
    assert graph.blob("node", "Thing", "empty", "data").length == 0
    with pytest.raises(BlobNotFound):
        graph.blob("node", "Thing", "null", "data")


def test_a_copy_of_a_graph_is_the_same_graph(here: Path) -> None:
    graph = unpack("plain", here)
    lines = b"".join(graph.export_lines())
    (here / "copy.jsonl").write_bytes(lines)
    copy = omnigraph.init(here / "copy", graph.schema_source, durability=Durability.RELAXED)
    copy.load(here / "copy.jsonl", mode="append")
    assert sorted(b"".join(copy.export_lines()).splitlines()) == sorted(lines.splitlines())


def test_a_null_blob_stays_null_whatever_is_done_to_its_row(here: Path) -> None:
    graph = unpack("plain", here)
    before = blobs(graph)
    graph.mutate('query q() { update Thing set { title: "new" } where key = "null" }')
    graph.upsert("Thing", [{"key": "later", "small": 7}])
    assert blobs(graph) == before
    graph.branches.create("side")
    graph.mutate('query q() { update Thing set { small: 3 } where key = "empty" }', branch="side")
    assert blobs(graph, "side") == before
    graph.merge("side")
    assert blobs(graph) == before
    for number in range(8):
        graph.insert("Thing", [{"key": f"new {number}", "data": "base64:" if number % 2 else None}])
    wanted = blobs(graph)
    assert (wanted["new 0"], wanted["new 1"]) == (None, "base64:")
    graph.optimize()
    assert blobs(graph) == wanted
    graph.branches.delete("side")
    graph.apply_schema(graph.schema_source.replace("flag: Bool?", "flag: Bool?\n    more: I32?"))
    assert blobs(graph) == wanted
    assert graph.doctor(deep=True) == []


# ── a life of their own ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_they_can_be_worked_with(here: Path, name: str) -> None:
    graph = unpack(name, here)
    wanted = {json.dumps(each, sort_keys=True) for each in export(graph)}
    graph.mutate('query q() { insert Place { name: "east", floor: 4 } }')
    graph.branches.create("side")
    graph.insert("Thing", [{"key": "on side"}], branch="side")
    graph.insert("At", [{"from": "on side", "to": "east"}], branch="side")
    graph.mutate('query q() { update Place set { floor: 5 } where name = "east" }')
    graph.merge("side")
    graph.ensure_indices()
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    for branch in ("side", "open", "review/one"):
        if branch in graph.branches.list():
            graph.branches.delete(branch)
    graph.apply_schema(graph.schema_source.replace("kind: enum", "more: String?\n    kind: enum"))
    graph.delete("Thing", ["on side"])
    graph.delete("Place", ["east"])
    graph.optimize()
    assert graph.doctor(deep=True) == []
    found = export(graph)
    for each in found:
        each["data"].pop("more", None)
    assert {json.dumps(each, sort_keys=True) for each in found} == wanted


@pytest.mark.parametrize("name", NAMES)
def test_an_index_of_an_older_lance_is_rebuilt_whole_when_rows_were_added(
    here: Path, name: str
) -> None:
    graph = unpack(name, here)
    graph.insert("Thing", [{"key": "new", "title": "something new"}])
    graph.insert("At", [{"from": "new", "to": "north"}])
    graph.insert("Near", [{"from": "south", "to": "north"}])
    result = graph.ensure_indices()
    assert {each.state.value for each in result.indexes} <= {"built", "covered", "pending"}
    again = graph.ensure_indices()
    assert not again.commits
    found = graph.query(
        'query q() { match { $t: Thing search($t.title, "new") } return { $t.key } }'
    )
    assert [row["t.key"] for row in found.rows()] == ["new"]
    assert graph.find("Thing", "new") is not None
    assert graph.doctor(deep=True) == []
