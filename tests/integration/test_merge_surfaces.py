"""A merge that is refused says the same wherever it was asked for."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.errors import MergeConflicts
from omnigraph.sdk.client import GraphClient
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = """
node Person { name: String @key  age: I64?  mail: String? @unique }
edge Knows: Person -> Person
"""

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A graph whose branch `topic` cannot be merged, for four reasons."""
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.insert("Person", [{"name": each, "age": 1} for each in ("ann", "bob", "cy")])
    graph.branches.create("topic")
    for branch, age in (("main", 6), ("topic", 5)):
        graph.upsert("Person", [{"name": "ann", "age": age}], branch=branch)
        graph.insert("Person", [{"name": f"of {branch}", "mail": "one@x"}], branch=branch)
    graph.insert("Knows", [{"from": "bob", "to": "ann"}], branch="main")
    graph.delete("Person", ["bob"], branch="topic")
    graph.delete("Person", ["cy"], branch="main")
    graph.upsert("Person", [{"name": "cy", "age": 9}], branch="topic")
    return graph.uri


@pytest.fixture
def url(root: str) -> Iterator[str]:
    with running(Flags(graphs=(f"g={root}",), unauthenticated=True)) as served:
        yield served.url


def refused(graph: GraphClient) -> MergeConflicts:
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("topic")
    return caught.value


def test_conflicts_are_the_same_on_every_surface(root: str, url: str, capsys: Streams) -> None:
    embedded = refused(omnigraph.open(root))
    with omnigraph.connect(url, graph="g") as graph:
        remote = refused(graph)
    assert [str(each.kind) for each in embedded.conflicts] == [
        "orphan_edge",
        "divergent_update",
        "delete_vs_update",
        "unique_violation",
    ]
    assert all(isinstance(each, Conflict) for each in remote.conflicts)
    assert remote.conflicts == embedded.conflicts
    assert vars(remote) == vars(embedded)
    assert str(remote) == str(embedded)

    answer = httpx.post(f"{url}/graphs/g/branches/merge", json={"source": "topic"}, timeout=60)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    listed = answer.json()["merge_conflicts"]
    (update,) = [each for each in listed if each["kind"] == "divergent_update"]
    assert update == {
        "table_key": "node:Person",
        "row_id": "ann",
        "property": None,
        "kind": "divergent_update",
        "message": "node:Person 'ann': both branches changed it, and not alike",
        "base": {"name": "ann", "age": 1, "mail": None},
        "ours": {"name": "ann", "age": 6, "mail": None},
        "theirs": {"name": "ann", "age": 5, "mail": None},
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "ann",
    }

    for addressed in (["--store", root], ["--server", url, "--graph", "g"]):
        assert run(["branch", "merge", "topic", *addressed, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["merge_conflicts"] == listed
        assert (document["code"], document["error"]) == ("merge_conflicts", str(embedded))
        assert (document["retryable"], document["facts"]) == (
            False,
            {"source": "topic", "target": "main"},
        )
        assert "--on-conflict" in document["hint"]
        assert "--conflicts FILE" in document["hint"]

    dry = omnigraph.open(root).merge("topic", dry_run=True)
    assert dry.conflicts == embedded.conflicts


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["for real", "dry run"])
def test_people_see_kind_and_values(root: str, capsys: Streams, more: tuple[str, ...]) -> None:
    assert run(["branch", "merge", "topic", root, *more]) == 1
    streams = capsys.readouterr()
    lines = (streams.out if more else streams.err).splitlines()
    at = lines.index(
        "  divergent_update: node:Person 'ann': both branches changed it, and not alike"
    )
    assert [json.loads(each.partition(": ")[2])["age"] for each in lines[at + 1 : at + 4]] == [
        1,
        6,
        5,
    ]
    assert [each.split(":")[0].strip() for each in lines[at + 1 : at + 4]] == [
        "base",
        "ours",
        "theirs",
    ]
    hints = [each for each in streams.err.splitlines() if each.startswith("  hint:")]
    assert more or "--resolutions FILE" in hints[0]


def in_process(*words: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_process_that_fails_leaves_one_object_on_stdout(root: str, tmp_path: Path) -> None:
    code, document, text = in_process("branch", "merge", "topic", root, "--json")
    assert (code, document["code"], len(document["merge_conflicts"])) == (1, "merge_conflicts", 4)
    assert "Traceback" not in text
    head = ["mutate", "--store", root, "-e", 'query q() { delete Person where name = "ann" }']
    code, document, _ = in_process(*head, "--if-commit", "01X", "--json")
    assert (code, document["code"]) == (4, "head_moved")
    assert document["precondition_failure"]["expected"] == "01X"
    code, document, _ = in_process("branch", "merge", "topic", root, "--json", "--no-such")
    assert (code, document["code"], document["retryable"]) == (2, "usage", False)
    lines = tmp_path / "bad.jsonl"
    lines.write_text('{"type": "Person", "data": {"name": "x", "age": "old"}}\n')
    code, document, _ = in_process("load", root, "--data", str(lines), "--mode", "append", "--json")
    assert (code, document["code"], document["facts"]["count"]) == (1, "load_rejected", 1)
    assert document["facts"]["faults"][0]["property_name"] == "age"
