"""What differs between two states of a graph, told exactly and in one order."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.engine.history import diff as engine_changes
from omnigraph.engine.history.diff import EntityChange, Image
from omnigraph.errors import (
    BranchNotFound,
    ChangesRefused,
    CursorInvalid,
    TypeUnknown,
    UsageError,
)
from omnigraph.ids import TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.reviewing import change_document
from omnigraph.storage.durability import Durability

SCHEMA = """
node Person { name: String @key  age: I64?  born: Date?  seen: DateTime?  tags: [String]? }
node Team { name: String @key  photo: Blob?  vec: Vector(2)? }
edge Knows: Person -> Person { since: I64? }
"""
PERSON = TableKey("node:Person")
KNOWS = TableKey("edge:Knows")


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": name, "age": 1} for name in ("bob", "ann", "carl")])
    made.insert("Knows", [{"id": "k", "from": "ann", "to": "bob"}])
    return made


def told(changes: Iterator[EntityChange]) -> list[tuple[str, str, str]]:
    return [(each.op.value, each.type_name, each.id) for each in changes]


def head(graph: LocalGraph, branch: str = "main") -> str:
    commit = graph.snapshot(branch).commit
    assert commit is not None
    return commit.id


def change_all(graph: LocalGraph, branch: str = "main") -> None:
    graph.upsert("Person", [{"name": "zoe"}, {"name": "ann", "age": 2}], branch=branch)
    graph.delete("Person", ["carl"], branch=branch)
    graph.upsert("Knows", [{"id": "k", "from": "ann", "to": "zoe", "since": 3}], branch=branch)
    graph.insert("Knows", [{"id": "a", "from": "zoe", "to": "zoe"}], branch=branch)


ALL = [
    ("insert", "Knows", "a"),
    ("update", "Knows", "k"),
    ("update", "Person", "ann"),
    ("delete", "Person", "carl"),
    ("insert", "Person", "zoe"),
]


@pytest.mark.parametrize("branch", ["main", "topic"])
def test_changes_come_by_table_and_id_with_exact_images(graph: LocalGraph, branch: str) -> None:
    graph.branches.create("topic")
    before = head(graph)
    change_all(graph, branch)
    diff = graph.diff(before, branch)
    assert diff.counts == {KNOWS: RowCounts(1, 1, 0), PERSON: RowCounts(1, 1, 1)}
    found = list(diff.changes())
    assert told(iter(found)) == ALL
    edge, person = found[1], found[2]
    assert (edge.before, edge.after) == (
        Image({"since": None}, ("ann", "bob")),
        Image({"since": 3}, ("ann", "zoe")),
    )
    nothing = {"born": None, "seen": None, "tags": None}
    assert person.before == Image({"age": 1, "name": "ann", **nothing}, None)
    assert person.after == Image({"age": 2, "name": "ann", **nothing}, None)


def test_the_other_way_round_is_the_inverse(graph: LocalGraph) -> None:
    before = head(graph)
    change_all(graph)
    forth, back = (
        list(graph.diff(*pair).changes()) for pair in ((before, "main"), ("main", before))
    )
    inverse = {"insert": "delete", "update": "update", "delete": "insert"}
    for one, two in zip(forth, back, strict=True):
        assert (one.id, inverse[one.op], one.before, one.after) == (
            two.id,
            two.op,
            two.after,
            two.before,
        )


def test_nothing_differs_from_itself_and_there_and_back_is_nothing(graph: LocalGraph) -> None:
    before = head(graph)
    graph.upsert("Person", [{"name": "ann", "age": 9}])
    graph.upsert("Person", [{"name": "ann", "age": 1}, {"name": "bob", "age": 1}])
    graph.delete("Knows", ["k"])
    graph.insert("Knows", [{"id": "k", "from": "ann", "to": "bob"}])
    assert graph.diff(before, "main").counts == {}
    assert graph.diff("main", "main").counts == {}


def test_equal_rows_of_two_branches_do_not_differ(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    for branch in ("main", "topic"):
        change_all(graph, branch)
    assert graph.diff("main", "topic").counts == {}


def test_a_compaction_changes_nothing(graph: LocalGraph) -> None:
    before = head(graph)
    for number in range(40):
        graph.insert("Person", [{"name": f"p{number:02}"}])
    assert any(each.actor == "omnigraph:upkeep" for each in graph.commits())
    assert graph.diff(before, "main").counts == {PERSON: RowCounts(40, 0, 0)}


def test_filters_choose_kinds_types_and_operations(graph: LocalGraph) -> None:
    before = head(graph)
    change_all(graph)
    chosen: list[tuple[dict[str, Any], list[tuple[str, str, str]]]] = [
        ({"kinds": ["edge"]}, ALL[:2]),
        ({"types": ["Person"]}, ALL[2:]),
        ({"ops": ["delete", "insert"]}, [ALL[0], ALL[3], ALL[4]]),
        ({"types": ["Person"], "ops": ["update"]}, [ALL[2]]),
        ({"types": ["Team"]}, []),
    ]
    for asked, expected in chosen:
        diff = graph.diff(before, "main", **asked)
        assert told(diff.changes()) == expected
        assert len(diff) == len(expected)


def test_a_long_diff_is_read_in_portions_and_from_anywhere(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = head(graph)
    change_all(graph)
    monkeypatch.setattr(engine_changes, "CHANGES_AT_A_TIME", 2)
    diff = graph.diff(before, "main")
    for skip in range(len(ALL) + 2):
        assert told(diff.changes(skip=skip)) == ALL[skip:]


def test_values_are_spelled_for_people(graph: LocalGraph) -> None:
    before = head(graph)
    graph.upsert(
        "Person",
        [{"name": "ann", "born": "2000-02-29", "seen": "2024-01-01T10:00:00Z", "tags": ["x"]}],
    )
    graph.insert("Team", [{"name": "t", "photo": b"abc", "vec": [0.5, 1.0]}])
    documents = [change_document(each) for each in graph.diff(before, "main").changes()]
    assert json.loads(json.dumps(documents)) == documents
    after = [each["after"] for each in documents]
    assert [each["op"] for each in documents] == ["update", "insert"]
    assert isinstance(after[0], dict)
    assert isinstance(after[1], dict)
    ann, team = after[0]["properties"], after[1]["properties"]
    assert isinstance(ann, dict)
    assert isinstance(team, dict)
    assert (ann["born"], ann["tags"]) == ("2000-02-29", ["x"])
    assert team["vec"] == [0.5, 1.0]
    assert isinstance(team["photo"], dict)
    assert team["photo"]["size"] == 3


def test_sides_are_branches_commits_or_versions(graph: LocalGraph) -> None:
    version = graph.snapshot().manifest_version
    graph.upsert("Person", [{"name": "ann", "age": 9}])
    assert told(graph.diff(f"main@{version}", "main").changes()) == [("update", "Person", "ann")]
    with pytest.raises(BranchNotFound):
        graph.diff("nowhere", "main")
    with pytest.raises(TypeUnknown):
        graph.diff("main", "main", types=["Nobody"])
    with pytest.raises(UsageError):
        graph.diff("main", "main", ops=["upsert"])
    with pytest.raises(UsageError):
        graph.diff("main", "main", kinds=["table"])


# ── one commit ───────────────────────────────────────────────────────────────────────────────────


def test_a_commit_tells_what_it_changed_page_by_page(graph: LocalGraph) -> None:
    graph.insert("Person", [{"name": f"p{number}"} for number in range(5)], actor="dana")
    token, seen = None, []
    while True:
        page = graph.commit_changes(head(graph), page_token=token, limit=2)
        assert page.cause.actor == "dana"
        seen += [each.id for each in page.changes]
        token = page.next_page_token
        if token is None:
            break
    assert seen == [f"p{number}" for number in range(5)]
    with pytest.raises(CursorInvalid):
        graph.commit_changes(head(graph), page_token="nonsense")


def test_a_merge_commit_tells_what_it_brought_in(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    change_all(graph, "topic")
    graph.insert("Team", [{"name": "mine"}])
    graph.merge("topic")
    assert told(iter(graph.commit_changes(head(graph)).changes)) == ALL


def test_the_first_commit_has_nothing_to_be_compared_with(graph: LocalGraph) -> None:
    first = graph.commits()[-1]
    with pytest.raises(ChangesRefused) as caught:
        graph.commit_changes(first.id)
    assert caught.value.reason == "parentless_commit"


# ── commands ─────────────────────────────────────────────────────────────────────────────────────


def test_a_diff_is_printed_for_people_and_for_programs(
    graph: LocalGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    graph.branches.create("topic")
    change_all(graph, "topic")
    assert run(["diff", "main..topic", graph.uri]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "edge:Knows: +1 ~1 −0",
        "node:Person: +1 ~1 −1",
        "+ edge:Knows a zoe → zoe",
        "~ edge:Knows k ann → zoe",
    ]
    assert "    age: 1 → 2" in lines
    assert run(["diff", "main..topic", graph.uri, "--json", "--op", "delete"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["from"]["branch"], found["to"]["branch"]) == ("main", "topic")
    assert [each["id"] for each in found["changes"]] == ["carl"]
    assert "after" not in found["changes"][0]
    assert run(["diff", "main..main", graph.uri, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []
    assert run(["diff", "main..topic", graph.uri, "--summary"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run(["diff", "topic", graph.uri]) == 2


def test_a_commit_is_printed_with_its_changes(
    graph: LocalGraph, capsys: pytest.CaptureFixture[str]
) -> None:
    graph.upsert("Person", [{"name": "ann", "age": 9}])
    assert run(["commit", "changes", graph.uri, head(graph)]) == 0
    assert "    age: 1 → 9" in capsys.readouterr().out
    assert run(["commit", "changes", graph.uri, head(graph), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cause"]["graph_commit_id"] == head(graph)
    (change,) = found["changes"]
    assert (change["kind"], change["type"]["name"], change["op"]) == ("node", "Person", "update")
    assert change["before"]["properties"]["age"] == 1
