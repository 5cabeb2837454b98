"""Reverts, cherry-picks, blame, revisions and tags, of an embedded graph and of a served one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.history.diff import ChangeOp
from omnigraph.engine.merge.classify import Outcome
from omnigraph.errors import (
    ChangesRefused,
    CommitNotFound,
    KeyReused,
    MergeConflicts,
    ResolutionsInvalid,
    TagExists,
    TagNotFound,
    TypeUnknown,
    UsageError,
)
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.embedded.merging import conflict_file
from omnigraph.server.runtime.settings import Flags
from support.serving import running

SCHEMA = "node Person { name: String @key  age: I32?  town: String? }\nedge Knows: Person -> Person"
READ = "query q() { match { $p: Person } return { $p.name as n, $p.age as a } order { n } }"


@pytest.fixture(params=["embedded", "served"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphClient]:
    embedded = omnigraph.init(tmp_path / "g", SCHEMA)
    embedded.insert("Person", [{"name": "ann", "age": 1}, {"name": "bob", "age": 2}])
    if request.param == "embedded":
        yield embedded
        return
    flags = Flags(graphs=(f"g={embedded.uri}",), unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        yield remote


def ages(graph: GraphClient, branch: str = "main") -> dict[str, int]:
    return {row["n"]: row["a"] for row in graph.query(READ, branch=branch).rows()}  # type: ignore[misc]


def write(graph: GraphClient, branch: str = "main", **people: int | None) -> str:
    rows = [{"name": name, "age": age} for name, age in people.items()]
    commit = graph.upsert("Person", rows, branch=branch).commit
    assert commit is not None
    return commit.id


def test_a_revert_undoes_one_commit_and_keeps_what_came_later(graph: GraphClient) -> None:
    bad = write(graph, ann=99, eve=66)
    write(graph, bob=3)
    told = graph.revert(bad, dry_run=True)
    assert (told.commit, ages(graph)["ann"]) == (None, 99)
    done = graph.revert(bad, message="wrong file", idempotency_key="k1")
    assert ages(graph) == {"ann": 1, "bob": 3}
    assert done.commit is not None
    assert (done.commit.message, done.commit.merged_parent) == ("wrong file", None)
    assert graph.revert(bad, idempotency_key="k1").commit == done.commit
    with pytest.raises(KeyReused):
        graph.revert(done.commit.id, idempotency_key="k1")
    assert graph.revert(bad).outcome is Outcome.ALREADY_UP_TO_DATE
    redone = graph.revert(done.commit.id)
    assert redone.commit is not None
    assert redone.commit.message == f"revert {done.commit.id}: wrong file"
    assert ages(graph) == {"ann": 99, "bob": 3, "eve": 66}


def test_rows_that_changed_again_are_conflicts_that_can_be_resolved(
    graph: GraphClient, tmp_path: Path
) -> None:
    bad = write(graph, ann=99, bob=98)
    write(graph, ann=50)
    with pytest.raises(MergeConflicts) as caught:
        graph.revert(bad)
    assert [(each.table, each.row_id) for each in caught.value.conflicts] == [
        ("node:Person", "ann")
    ]
    assert ages(graph) == {"ann": 50, "bob": 98}
    document = json.loads(conflict_file(graph.revert(bad, dry_run=True), "row"))
    document["conflicts"][0]["resolution"] = "ours"
    file = tmp_path / "conflicts.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ResolutionsInvalid):
        graph.cherry_pick(bad, resolutions=file)
    graph.revert(bad, resolutions=file)
    assert ages(graph) == {"ann": 50, "bob": 2}


def test_a_cherry_pick_takes_one_commit_of_a_branch(graph: GraphClient) -> None:
    graph.branches.create("work")
    wanted = write(graph, "work", ann=7)
    write(graph, "work", bob=8)
    picked = graph.cherry_pick(wanted)
    assert ages(graph) == {"ann": 7, "bob": 2}
    assert picked.commit is not None
    assert picked.commit.parents == (graph.commits()[1].id,)
    assert graph.merge("work").outcome is Outcome.MERGED
    assert ages(graph) == {"ann": 7, "bob": 8}


def test_a_merge_is_reverted_from_the_side_that_is_named(graph: GraphClient) -> None:
    graph.branches.create("work")
    write(graph, "work", ann=7)
    write(graph, bob=3)
    merge = graph.merge("work").commit
    assert merge is not None
    with pytest.raises(UsageError, match="mainline 1"):
        graph.revert(merge.id)
    graph.revert(merge.id, mainline=1)
    assert ages(graph) == {"ann": 1, "bob": 3}


def test_commits_that_cannot_be_reverted_are_told_apart(graph: GraphClient) -> None:
    with pytest.raises(CommitNotFound):
        graph.revert("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    with pytest.raises(ChangesRefused):
        graph.revert(graph.commits()[-1].id)
    last = graph.commits()[0].id
    graph.apply_schema(SCHEMA.replace("town: String?", "town: String?  zip: String?"))
    with pytest.raises(ChangesRefused):
        graph.revert(last)


def test_blame_and_revisions_name_commits_through_a_merge(graph: GraphClient) -> None:
    first = graph.commits()[0].id
    graph.branches.create("work")
    there = write(graph, "work", ann=7)
    write(graph, bob=3)
    merge = graph.merge("work").commit
    assert merge is not None
    origins = {each.name: each for each in graph.blame("Person", "ann")}
    assert {name: each.commit and each.commit.id for name, each in origins.items()} == {
        "name": first,
        "age": there,
        "town": first,
    }
    assert origins["age"].merged_by is not None
    assert origins["age"].merged_by.id == merge.id
    newest, oldest = graph.revisions("Person", "ann")
    assert (newest.commit.id, newest.op, newest.changed) == (merge.id, ChangeOp.UPDATE, ("age",))
    assert (oldest.commit.id, oldest.op, oldest.before) == (first, ChangeOp.INSERT, None)
    assert graph.revisions("Person", "ann", limit=1) == (newest,)
    assert graph.blame("Person", "nobody") == ()
    with pytest.raises(TypeUnknown):
        graph.blame("Nothing", "ann")


def test_a_tag_names_a_commit_wherever_one_is_asked_for(graph: GraphClient) -> None:
    then = graph.commits()[0].id
    bad = write(graph, ann=99)
    tag = graph.tags.create("release/1", then, message="as delivered", idempotency_key="t1")
    assert graph.tags.create("release/1", then, idempotency_key="t1").commit_id == then
    assert [each.name for each in graph.tags.list()] == ["release/1"]
    assert (tag.commit_id, tag.message) == (then, "as delivered")
    assert graph.at(commit="release/1").query(READ).rows()[0]["a"] == 1
    with pytest.raises(TagExists):
        graph.tags.create("release/1", bad)
    graph.tags.create("bad", bad)
    graph.revert("bad")
    assert ages(graph) == {"ann": 1, "bob": 2}
    graph.tags.delete("release/1")
    with pytest.raises(TagNotFound):
        graph.tags.delete("release/1")


def test_describe_tells_the_schema_in_few_words(graph: GraphClient) -> None:
    whole = graph.describe()
    assert whole.types == ("Person", "Knows")
    assert whole.text.startswith("node Person { age: I32?  name: String @key")
    assert graph.describe(types=["Person"]).types == ("Person", "Knows")
    shown = graph.describe(question="how old are persons", samples=1)
    assert "/* e.g. ann */" in shown.text
    assert graph.describe(budget=12).omitted == ("Knows",)
    graph.apply_schema(SCHEMA.replace("Person -> Person", "Person -> Person { since: I32? }"))
    graph.insert("Knows", [{"from": "ann", "to": "bob", "since": 1999}])
    assert "since: I32? /* e.g. 1999 */" in graph.describe(samples=1).text
    with pytest.raises(TypeUnknown):
        graph.describe(types=["Persn"])
    with pytest.raises(UsageError):
        graph.describe(samples=21)
