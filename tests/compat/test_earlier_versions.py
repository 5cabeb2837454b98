"""Graphs that earlier versions of this program wrote: opened, recovered, read and written.

Each folder was made by `support/release_scene.py` with the sources of its time. No version has been
released yet; the folders are states of the program, three of them before the format gained
something:

| Folder | Does not know |
|---|---|
| `0595e21` | merges, schema changes, identities, groups |
| `a6a61b7` | fences, identities, groups |
| `9cb47e8` | identities, groups of writes, cached leases |
| `deb1bdd` | nothing: it is the newest when this was written |
"""

import json
import tarfile
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

FOLDERS = sorted((Path(__file__).parent / "fixtures").glob("own-*"))


def unpack(folder: Path, here: Path) -> LocalGraph:
    with tarfile.open(folder / "g.tar.gz") as archive:
        archive.extractall(here, filter="data")
    return omnigraph.open(here / "g.omni", durability=Durability.RELAXED)


def rows_in(text: bytes) -> dict[str, Any]:
    """Rows by id. Days and moments are spelled as numbers by some versions, as texts by others."""
    documents = [json.loads(each) for each in text.splitlines()]
    for data in (each["data"] for each in documents):
        if isinstance(data.get("born"), str):
            data["born"] = (date.fromisoformat(data["born"]) - date(1970, 1, 1)).days
        if isinstance(data.get("seen"), str):
            data["seen"] = datetime.fromisoformat(data["seen"]).replace(tzinfo=UTC).timestamp()
    return {each["data"]["id"]: each for each in documents}


def read(graph: LocalGraph, branch: str) -> dict[str, Any]:
    return rows_in(b"".join(graph.export_lines(branch=branch)))


def test_there_is_one_for_every_step_of_the_format() -> None:
    assert len(FOLDERS) == 4


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: each.name)
def test_an_earlier_graph_is_recovered_read_and_written(folder: Path, tmp_path: Path) -> None:
    graph = unpack(folder, tmp_path)

    # The write that died behind its table commits is finished, once and whole.
    told, found = rows_in((folder / "main.jsonl").read_bytes()), read(graph, "main")
    added = [found[each] for each in found.keys() - told.keys()]
    assert {each: found[each] for each in told} == told
    (node,) = (each for each in added if "type" in each)
    (edge,) = (each for each in added if "edge" in each)
    assert (node["data"]["name"], edge["from"], edge["to"]) == ("unfinished", "unfinished", "p0")
    assert (len(graph.recoveries()), list(graph.pending_writes())) == (1, [])

    # Branches and history are what they were.
    assert read(graph, "open/one") == rows_in((folder / "open.jsonl").read_bytes())
    commits = [str(each.id) for each in graph.commits()]
    before = json.loads((folder / "commits.json").read_text())
    assert commits[-len(before) :] == before
    past = {row["data"]["id"] for row in map(json.loads, _lines(graph, before[-2]))}
    assert past == {f"p{each}" for each in range(6)}

    # Everything that changes a graph still does.
    graph.insert("Person", [{"name": "new"}])
    graph.merge("open/one")
    graph.branches.delete("open/one")
    graph.apply_schema(graph.schema_source.replace("age: I32?", "age: I32?  height: F64?"))
    graph.mutate('query u() { update Person set { height: 1.7 } where name = "p1" }')
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    rows = read(graph, "main")
    assert {"new", "only-here", "unfinished", "p0"} <= rows.keys()
    assert (rows["p1"]["data"]["height"], rows["p1"]["data"]["age"]) == (1.7, 77)
    assert graph.doctor(deep=True) == []


def _lines(graph: LocalGraph, commit: str) -> list[bytes]:
    return b"".join(graph.export_lines(commit=commit)).splitlines()
