"""What a prompt or a notebook shows of a result fits on a line and names the commit."""

from pathlib import Path

import pytest

import omnigraph


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.LocalGraph:
    schema = "node City { name: String @key }\nedge Road: City -> City"
    return omnigraph.init(str(tmp_path / "g.omni"), schema)


def test_a_write_says_how_much_and_which_commit(graph: omnigraph.LocalGraph) -> None:
    result = graph.insert("City", [{"name": "Faro"}], actor="dana", message="the first city")
    assert result.commit is not None
    assert repr(result) == f"<MutationResult 1 node, 0 edges on main: commit {result.commit.id}>"
    assert repr(result.commit) == f"<Commit {result.commit.id} on main by dana: the first city>"
    assert repr(graph.delete("City", ["Oslo"])).endswith("on main: no commit>")


def test_a_load_says_how_many_rows_and_which_commit(
    graph: omnigraph.LocalGraph, tmp_path: Path
) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text('{"type": "City", "data": {"name": "Faro"}}\n')
    result = graph.load(records, mode="append", engine="local")
    assert result.commit is not None
    assert repr(result) == f"<LoadResult 1 row onto main: commit {result.commit.id}>"


def test_a_diff_and_a_merge_say_what_changes(graph: omnigraph.LocalGraph) -> None:
    review = graph.branch("review", create=True)
    assert repr(graph.diff("main", "review")) == "<GraphDiff no changes>"
    review.insert("City", [{"name": "Faro"}])
    assert repr(graph.diff("main", "review")) == "<GraphDiff node:City +1 ~0 −0>"
    result = graph.merge(review)
    assert result.commit is not None
    outcome = f"fast_forward, 0 conflicts, commit {result.commit.id}"
    assert repr(result) == f"<MergeResult review into main: {outcome}>"
