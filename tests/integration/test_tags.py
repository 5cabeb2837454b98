"""Tags: names for commits, which cleanup keeps and reads accept."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.graph import Graph
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    CommitNotFound,
    TagExists,
    TagNotFound,
    UsageError,
    VersionNotFound,
)
from omnigraph.ids import CommitId
from omnigraph.storage.durability import Durability

SCHEMA = "node Person { name: String @key  age: I32? }"
AGES = "query q() { match { $p: Person } return { $p.age as age } }"


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    for age in range(6):
        made.upsert("Person", [{"name": "ann", "age": age}], actor="dana")
    return made


def engine(graph: omnigraph.LocalGraph) -> Graph:
    return graph._graph


def ages(graph: omnigraph.LocalGraph, commit: str) -> list[object]:
    return [row["age"] for row in graph.at(commit=commit).query(AGES).rows()]


def test_cleanup_keeps_what_a_tag_names_and_nothing_else(graph: omnigraph.LocalGraph) -> None:
    newest_first = graph.commits()
    engine(graph).create_tag("release/1", newest_first[3].id, actor="dana", message="first")
    graph.cleanup(keep=1, confirm=True)
    assert ages(graph, "release/1") == [2]
    with pytest.raises(VersionNotFound):
        ages(graph, newest_first[2].id)
    engine(graph).delete_tag("release/1")
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(VersionNotFound):
        ages(graph, newest_first[3].id)


def test_a_tag_never_moves(graph: omnigraph.LocalGraph) -> None:
    newest, older = graph.commits()[:2]
    engine(graph).create_tag("v1", older.id)
    with pytest.raises(TagExists) as caught:
        engine(graph).create_tag("v1", newest.id)
    assert caught.value.commit_id == older.id
    assert [(each.name, each.commit_id) for each in engine(graph).tags()] == [("v1", older.id)]


@pytest.mark.parametrize("name", ["main", "work", "", "a//b", "01M7P6P1M2C0C369ENATH492W7"])
def test_a_tag_has_a_name_that_nothing_else_can_have(
    graph: omnigraph.LocalGraph, name: str
) -> None:
    graph.branches.create("work")
    with pytest.raises((UsageError, BranchExists)):
        engine(graph).create_tag(name, graph.commits()[0].id)
    assert engine(graph).tags() == []


@pytest.mark.parametrize("name", ["a" * 300, "\u8a9e" * 40, "a\udc80", "a b"])
def test_a_name_that_no_tag_can_have_names_no_tag(graph: omnigraph.LocalGraph, name: str) -> None:
    engine(graph).create_tag("v1", graph.commits()[0].id)
    with pytest.raises(TagNotFound):
        engine(graph).delete_tag(name)
    with pytest.raises(CommitNotFound):
        graph.commit(name)


def test_a_commit_that_was_cleaned_up_cannot_be_tagged(graph: omnigraph.LocalGraph) -> None:
    gone = graph.commits()[3].id
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(VersionNotFound):
        engine(graph).create_tag("late", gone)
    with pytest.raises(CommitNotFound):
        engine(graph).create_tag("never", CommitId("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    assert engine(graph).tags() == []
    with pytest.raises(TagNotFound):
        engine(graph).delete_tag("late")


def test_a_branch_whose_commit_has_a_tag_cannot_be_deleted(graph: omnigraph.LocalGraph) -> None:
    work = graph.branch("work", create=True)
    commit = work.upsert("Person", [{"name": "bob", "age": 1}]).commit
    assert commit is not None
    engine(graph).create_tag("v2", commit.id)
    with pytest.raises(BranchInUse) as caught:
        graph.branches.delete("work")
    assert caught.value.users == ("tag v2",)
    engine(graph).delete_tag("v2")
    graph.branches.delete("work")


def test_reads_diffs_and_branches_take_a_tag_for_a_commit(graph: omnigraph.LocalGraph) -> None:
    engine(graph).create_tag("v1", graph.commits()[2].id)
    assert ages(graph, "v1") == [3]
    (change,) = graph.diff("v1", "main").changes()
    assert change.after is not None
    assert change.after.properties["age"] == 5
