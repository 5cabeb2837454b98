"""`omnigraph branch merge`, as people and scripts meet it."""

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.app import run

SCHEMA = "node Person { name: String @key  age: I64?  city: String? }"

Streams = pytest.CaptureFixture[str]


@pytest.fixture
def graph(tmp_path: Path, capsys: Streams, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    schema = tmp_path / "schema.pg"
    schema.write_text(SCHEMA)
    root = str(tmp_path / "g")
    assert run(["init", root, "--schema", str(schema)]) == 0
    put(root, "ann", 1)
    assert run(["branch", "create", "topic", root]) == 0
    capsys.readouterr()
    return root


def put(root: str, name: str, age: int, branch: str = "main") -> None:
    text = f'query q() {{ insert Person {{ name: "{name}", age: {age} }} }}'
    assert run(["mutate", "--store", root, "--branch", branch, "-e", text, "--quiet"]) == 0


def printed(capsys: Streams) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_merge_is_told_in_a_line_and_counts(graph: str, capsys: Streams) -> None:
    put(graph, "bob", 2, "topic")
    capsys.readouterr()
    assert run(["branch", "merge", "topic", graph, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "would merge topic into main (fast-forward)",
        "  node:Person: +1 ~0 −0",
    ]
    assert run(["branch", "merge", "topic", "--uri", graph, "--delete-branch"]) == 0
    assert capsys.readouterr().out.startswith("merged topic into main (fast-forward): commit 01")
    assert run(["branch", "list", graph, "--json"]) == 0
    assert printed(capsys)["branches"] == ["main"]


def test_a_merge_as_json_has_the_fields_clients_know(graph: str, capsys: Streams) -> None:
    put(graph, "bob", 2, "topic")
    capsys.readouterr()
    assert run(["branch", "merge", "topic", graph, "--as", "dana", "--json"]) == 0
    found = printed(capsys)
    assert {key: found[key] for key in ("source", "target", "outcome", "actor_id")} == {
        "source": "topic",
        "target": "main",
        "outcome": "fast_forward",
        "actor_id": "dana",
    }
    assert found["tables"] == [
        {"table_key": "node:Person", "inserted": 1, "updated": 0, "deleted": 0}
    ]
    assert run(["branch", "merge", "topic", graph, "--json", "--delete-branch"]) == 0
    found = printed(capsys)
    assert (found["outcome"], found["commit"]) == ("already_up_to_date", None)
    assert (found["branch_deleted"], found["branch_delete_error"]) == (True, None)


def test_a_branch_that_others_came_from_is_merged_and_kept(graph: str, capsys: Streams) -> None:
    put(graph, "bob", 2, "topic")
    assert run(["branch", "create", "child", graph, "--from", "topic"]) == 0
    capsys.readouterr()
    assert run(["branch", "merge", "topic", graph, "--json", "--delete-branch"]) == 0
    found = printed(capsys)
    assert found["outcome"] == "fast_forward"
    assert found["branch_deleted"] is False
    assert "child" in found["branch_delete_error"]


def test_conflicts_go_to_a_file_and_come_back_resolved(
    graph: str, tmp_path: Path, capsys: Streams
) -> None:
    put(graph, "ann", 5, "topic")
    put(graph, "ann", 6)
    assert run(["branch", "merge", "topic", graph]) == 1
    assert "both branches changed it" in capsys.readouterr().err
    file = str(tmp_path / "conflicts.json")
    ask = ["branch", "merge", "topic", graph, "--detect", "property"]
    assert run([*ask, "--dry-run", "--conflicts", file, "--json"]) == 1
    (conflict,) = printed(capsys)["merge_conflicts"]
    assert (conflict["property"], conflict["ours"], conflict["theirs"]) == ("age", 6, 5)
    assert (conflict["table_key"], conflict["row_id"]) == ("node:Person", "ann")
    later = (conflict["entity_kind"], conflict["type_name"], conflict["entity_id"])
    assert later == ("node", "Person", "ann")
    assert run([*ask, "--resolutions", file]) == 1, "nothing is decided yet"
    filled = json.loads(Path(file).read_text())
    filled["conflicts"][0]["resolution"] = {"value": 7}
    Path(file).write_text(json.dumps(filled))
    assert run([*ask, "--resolutions", file]) == 0
    assert "merged topic into main: commit 01" in capsys.readouterr().out
    assert run([*ask, "--resolutions", file]) == 4, "the heads are others now"


def test_a_strategy_is_given_for_all_or_for_a_type(graph: str, capsys: Streams) -> None:
    put(graph, "ann", 5, "topic")
    put(graph, "ann", 6)
    ask = ["branch", "merge", "topic", graph, "--on-conflict"]
    assert run([*ask, "Nobody=ours"]) == 1
    assert "no type 'Nobody'" in capsys.readouterr().err
    assert run([*ask, "mine"]) == 2
    assert run([*ask, "Person=theirs", "--on-conflict", "ours"]) == 0


def test_progress_is_told_when_it_is_asked_for(graph: str, capsys: Streams) -> None:
    put(graph, "bob", 2, "topic")
    capsys.readouterr()
    assert run(["branch", "merge", "topic", graph, "--progress", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["outcome"] == "fast_forward"
    said = [line for line in told.err.splitlines() if line.endswith("…")]
    assert said == ["comparing node:Person …", "checking …", "committing …"]


def test_flags_that_make_no_sense_together_are_refused(graph: str, tmp_path: Path) -> None:
    ask = ["branch", "merge", "topic", graph]
    assert run([*ask, "--conflicts", str(tmp_path / "c.json")]) == 2
    assert run([*ask, "--detect", "cell"]) == 2
    assert run([*ask, "--into", "topic"]) == 2
    put(graph, "bob", 1, "topic")
    assert run([*ask, "--base", "01M7H1G65KW5C1"]) == 1


def test_conflicts_are_told_to_programs_too(graph: str, capsys: Streams) -> None:
    put(graph, "ann", 5, "topic")
    put(graph, "ann", 6)
    capsys.readouterr()
    assert run(["branch", "merge", "topic", graph, "--quiet", "--errors", "json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert told["code"] == "merge_conflicts"
    assert [(each["row_id"], each["kind"]) for each in told["merge_conflicts"]] == [
        ("ann", "divergent_update")
    ]
