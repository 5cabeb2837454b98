"""Following what commits change: nothing missed, nothing passed off as something else."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.effects import REAL
from omnigraph.engine.history.feed import FeedPage
from omnigraph.errors import ChangeFeedGap, CommitNotFound, CursorInvalid, UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores

SCHEMA = """
node Person { name: String @key  age: I64? }
edge Knows: Person -> Person
"""

Rows = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "ann", "age": 1}])
    return made


def ids(page: FeedPage) -> list[list[str]]:
    return [[each.id for each in block.changes] for block in page.blocks]


def replay(rows: Rows, page: FeedPage) -> None:
    """Do to a copy what a page tells; dealing with it twice does no harm."""
    for block in page.blocks:
        for change in block.changes:
            place = (change.type_name, change.id)
            if change.after is None:
                rows.pop(place, None)
            else:
                rows[place] = change.after.properties


def drain(graph: LocalGraph, cursor: str, rows: Rows, branch: str = "main", **more: Any) -> str:
    while True:
        page = graph.changes(cursor, branch=branch, **more)
        replay(rows, page)
        cursor = page.cursor or page.next_page_token or ""
        if page.caught_up:
            return cursor


def test_a_reader_sees_every_commit_in_order_and_then_nothing(graph: LocalGraph) -> None:
    start = graph.changes(start="now").cursor
    assert start is not None
    graph.insert("Person", [{"name": "bob"}], actor="dana")
    graph.delete("Person", ["ann"])
    page = graph.changes(start)
    assert ids(page) == [["bob"], ["ann"]]
    assert [each.cause.actor for each in page.blocks] == ["dana", None]
    assert page.caught_up
    again = graph.changes(page.cursor)
    assert (again.blocks, again.caught_up, again.cursor) == ((), True, page.cursor)


def test_from_the_beginning_the_whole_graph_can_be_rebuilt(graph: LocalGraph) -> None:
    for number in range(40):
        graph.upsert("Person", [{"name": f"p{number % 7}", "age": number}])
    graph.insert("Knows", [{"id": "k", "from": "ann", "to": "p1"}])
    graph.delete("Person", ["p1"])
    rows: Rows = {}
    first = graph.changes(start="beginning", commits_max=3)
    replay(rows, first)
    assert not first.caught_up
    drain(graph, first.cursor or "", rows, commits_max=5)
    graph.branches.create("empty", commit=graph.commits()[-1].id)
    expected = {
        (each.type_name, each.id): each.after.properties
        for each in graph.diff("empty", "main").changes()
        if each.after is not None
    }
    assert rows == expected


def test_a_merge_is_told_once_as_one_commit_of_the_target(graph: LocalGraph) -> None:
    start = graph.changes(start="now").cursor
    graph.branches.create("topic")
    for name in ("x", "y"):
        graph.insert("Person", [{"name": name}], branch="topic")
    graph.insert("Person", [{"name": "main"}])
    graph.merge("topic")
    assert ids(graph.changes(start)) == [["main"], ["x", "y"]]
    topic = graph.changes(start="after:" + graph.commits()[-1].id, branch="topic")
    assert ids(topic) == [["ann"], ["x"], ["y"]]


def test_a_commit_that_does_not_fit_is_told_over_pages(graph: LocalGraph) -> None:
    start = graph.changes(start="now").cursor
    graph.insert("Person", [{"name": "a"}])
    graph.insert("Person", [{"name": f"b{number}"} for number in range(5)])
    graph.insert("Person", [{"name": "c"}])
    seen: list[list[str]] = []
    cursors = []
    at = start
    while True:
        page = graph.changes(at, limit=2)
        assert sum(map(len, ids(page))) <= 2
        seen += ids(page)
        cursors.append(page.cursor)
        at = page.cursor or page.next_page_token
        if page.caught_up:
            break
    assert [each for part in seen for each in part] == ["a", "b0", "b1", "b2", "b3", "b4", "c"]
    assert None in cursors, "half a commit has no cursor"


def test_whoever_dies_between_page_and_cursor_sees_the_commit_again(graph: LocalGraph) -> None:
    saved = graph.changes(start="now").cursor or ""
    graph.insert("Person", [{"name": f"b{number}"} for number in range(5)])
    rows: Rows = {}
    replay(rows, graph.changes(saved, limit=3))
    rows_again: Rows = {}
    drain(graph, saved, rows_again, limit=3)
    assert rows.keys() < rows_again.keys()
    assert len(rows_again) == 5


def test_a_filter_leaves_out_commits_and_belongs_to_its_cursor(graph: LocalGraph) -> None:
    start = graph.changes(start="now", types=["Knows"]).cursor
    graph.insert("Person", [{"name": "bob"}])
    graph.insert("Knows", [{"id": "k", "from": "ann", "to": "bob"}])
    page = graph.changes(start, types=["Knows"])
    assert ids(page) == [["k"]]
    assert page.blocks[0].changes[0].ends == ("ann", "bob")
    with pytest.raises(CursorInvalid, match="another filter"):
        graph.changes(start)
    with pytest.raises(CursorInvalid, match="another filter"):
        graph.changes(start, types=["Knows"], ops=["insert"])


def test_a_cursor_is_for_one_graph_and_one_life_of_a_branch(
    graph: LocalGraph, tmp_path: Path
) -> None:
    other = omnigraph.init(tmp_path / "other", SCHEMA, durability=Durability.RELAXED)
    cursor = graph.changes(start="now").cursor
    with pytest.raises(CursorInvalid, match="another graph"):
        other.changes(cursor)
    graph.branches.create("topic")
    topic = graph.changes(start="now", branch="topic").cursor
    with pytest.raises(CursorInvalid, match="branch 'topic'"):
        graph.changes(topic)
    graph.branches.delete("topic")
    graph.branches.create("topic")
    with pytest.raises(CursorInvalid, match="made again"):
        graph.changes(topic, branch="topic")


@pytest.mark.parametrize("text", ["", "x", "AAAA", "bm90IG91cnM", "éé", "=" * 9])
def test_what_is_not_a_cursor_is_refused(graph: LocalGraph, text: str) -> None:
    with pytest.raises(CursorInvalid):
        graph.changes(text)


def test_a_cursor_that_was_tampered_with_is_refused(graph: LocalGraph) -> None:
    cursor = graph.changes(start="now").cursor or ""
    flipped = cursor[:20] + ("A" if cursor[20] != "A" else "B") + cursor[21:]
    with pytest.raises(CursorInvalid):
        graph.changes(flipped)


def test_asking_wrongly_is_told(graph: LocalGraph) -> None:
    cursor = graph.changes(start="now").cursor
    wrong: list[dict[str, Any]] = [
        {},
        {"cursor": cursor, "start": "now"},
        {"start": "yesterday"},
        {"start": "now:x"},
        {"start": "now", "limit": 0},
        {"start": "now", "limit": 100_000},
        {"start": "now", "commits_max": 513},
    ]
    for each in wrong:
        with pytest.raises(UsageError):
            graph.changes(**each)
    with pytest.raises(CommitNotFound):
        graph.changes(start="after:01M7H1G65KW5C1")


def test_commits_that_were_cleaned_up_are_a_gap_and_not_a_silence(graph: LocalGraph) -> None:
    cursor = graph.changes(start="now").cursor
    for age in range(3):
        graph.upsert("Person", [{"name": "ann", "age": age}])
    commits = graph.commits()
    pin = graph.snapshot().pins
    stores = open_stores(graph.uri, REAL, durability=Durability.RELAXED)
    (person,) = (each for each in pin.values() if each.key == "node:Person")
    handle = graph._graph.open_table(graph.snapshot(), person.key)
    stores.tables.single_step.delete_versions(handle, [person.version - 2])
    with pytest.raises(ChangeFeedGap) as caught:
        graph.changes(cursor)
    assert caught.value.first_unreadable == commits[2].id
    baseline = graph.baseline()
    graph.upsert("Person", [{"name": "ann", "age": 9}])
    assert ids(graph.changes(baseline.resume_cursor)) == [["ann"]]


def test_a_baseline_and_its_cursor_are_of_one_moment(graph: LocalGraph) -> None:
    graph.insert("Knows", [{"id": "k", "from": "ann", "to": "ann"}])
    baseline = graph.baseline()
    graph.insert("Person", [{"name": "later"}])
    lines = [json.loads(each) for each in b"".join(baseline.lines()).splitlines()]
    *rows, last = lines
    assert [each.get("type") or each.get("edge") for each in rows] == ["Knows", "Person"]
    assert last == {"baseline": baseline.document()}
    assert ids(graph.changes(last["baseline"]["resume_cursor"])) == [["later"]]


def test_the_feed_is_followed_from_the_command_line(
    graph: LocalGraph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "base.jsonl"
    assert run(["changes", "baseline", graph.uri, "--out", str(out), "--json"]) == 0
    cursor = json.loads(capsys.readouterr().out)["resume_cursor"]
    assert json.loads(out.read_text().splitlines()[-1])["baseline"]["resume_cursor"] == cursor
    assert list(tmp_path.glob(".base*")) == []
    graph.insert("Person", [{"name": "bob"}], actor="dana")
    assert run(["changes", "poll", graph.uri, "--cursor", cursor, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["caught_up"] is True
    (block,) = found["blocks"]
    assert block["cause"]["actor_id"] == "dana"
    assert block["changes"][0]["after"]["properties"]["name"] == "bob"
    assert run(["changes", "poll", graph.uri, "--start", "beginning", "--limit", "1"]) == 0
    printed = capsys.readouterr().out
    assert "+ node:Person ann" in printed
    assert "(there is more)" in printed
    assert run(["changes", "poll", graph.uri]) == 2
    assert run(["changes", "baseline", graph.uri, "--out", str(tmp_path / "no" / "file")]) == 1
    assert run(["changes", "baseline", graph.uri, "--json"]) == 2, "it needs --out"
    capsys.readouterr()
    assert run(["changes", "baseline", graph.uri, "--type", "Person"]) == 0
