"""Commits record how many rows they changed, as their writers know it."""

from pathlib import Path

import pytest

import omnigraph
from omnigraph.commit.manifest.records import Commit, RowCounts, decode_extension
from omnigraph.commit.recovery.heal import heal
from omnigraph.ids import MAIN, TableKey
from omnigraph.sdk.documents import commit_document
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.testing.failpoints import PUBLISH, At
from support.breaking import EVERY, open_living, populate
from support.scenes import die

SCHEMA = """
node Person { name: String @key  age: I64? }
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


def head(graph: LocalGraph, branch: str = "main") -> Commit:
    commit = graph.snapshot(branch).commit
    assert commit is not None
    return commit


def check_against_diff(graph: LocalGraph, commit: Commit | None) -> None:
    assert commit is not None
    assert commit.parent is not None
    assert commit.counts == graph.diff(commit.parent, commit.id).counts


@pytest.mark.parametrize("branch", ["main", "topic"])
def test_every_kind_of_write_counts_what_a_diff_finds(
    graph: LocalGraph, branch: str, tmp_path: Path
) -> None:
    graph.branches.create("topic")
    lines = tmp_path / "people.jsonl"
    lines.write_text(
        "".join(
            f'{{"type": "Person", "data": {{"name": "{name}", "age": {age}}}}}\n'
            for name, age in (("ann", 8), ("new", 9))
        )
    )
    # The first write of a branch forks the table: its rows are counted after the sidecar.
    check_against_diff(graph, graph.load(lines, mode="merge", branch=branch).commit)
    with graph.transaction(branch=branch, message="several") as tx:
        tx.insert("Person", [{"name": "zoe"}, {"name": "gone"}])
        tx.upsert("Person", [{"name": "ann", "age": 2}])
        tx.delete("Person", ["carl", "gone"])
        tx.upsert("Knows", [{"id": "k", "from": "ann", "to": "zoe"}])
        tx.insert("Knows", [{"id": "a", "from": "zoe", "to": "zoe"}])
    assert tx.result is not None
    commit = tx.result.commit
    check_against_diff(graph, commit)
    assert commit is not None
    assert commit.counts == {KNOWS: RowCounts(1, 1, 0), PERSON: RowCounts(1, 1, 1)}
    assert str(commit.row_counts) == "+2 ~2 −1"
    check_against_diff(graph, graph.delete("Person", ["zoe"], branch=branch).commit)


def test_loads_count_rows_by_their_mode(graph: LocalGraph, tmp_path: Path) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text('{"type": "Person", "data": {"name": "new"}}\n')
    check_against_diff(graph, graph.load(lines, mode="append").commit)
    graph.delete("Knows", ["k"])
    replaced = graph.load(lines, mode="overwrite").commit
    assert replaced is not None
    # An overwrite removes what was there and adds what came, equal rows too.
    assert replaced.counts == {PERSON: RowCounts(inserted=1, deleted=4)}


def test_merges_count_what_the_target_gains(graph: LocalGraph) -> None:
    graph.branches.create("topic")
    graph.upsert("Person", [{"name": "ann", "age": 2}, {"name": "zoe"}], branch="topic")
    graph.insert("Knows", [{"id": "z", "from": "ann", "to": "zoe"}], branch="topic")
    graph.insert("Person", [{"name": "mine"}])
    merged = graph.merge("topic")
    check_against_diff(graph, merged.commit)
    assert merged.commit is not None
    assert merged.commit.counts == merged.counts


def test_schema_changes_count_filled_and_hidden_rows(graph: LocalGraph) -> None:
    filled = SCHEMA.replace("age: I64?", "age: I64?  rank: I64 @default(1)")
    commit = graph.apply_schema(filled).commit
    assert commit is not None
    assert commit.counts == {PERSON: RowCounts(updated=3)}
    commit = graph.apply_schema(filled.split("edge")[0]).commit
    assert commit is not None
    assert commit.counts == {KNOWS: RowCounts(deleted=1)}


def test_upkeep_changes_no_row_and_says_so(graph: LocalGraph) -> None:
    for commit in graph.optimize().commits:
        assert commit.counts == {}
        assert commit_document(commit)["row_counts"] == {"inserted": 0, "updated": 0, "deleted": 0}
    assert graph.commits("main", limit=1)[0].counts == {}


def test_a_commit_that_records_no_counts_has_none(graph: LocalGraph) -> None:
    genesis = graph.commits()[-1]
    assert genesis.counts is None
    assert commit_document(genesis)["row_counts"] is None
    foreign = ({"node:Person": [1, 2]}, {"node:Person": "many"}, [1], "3")
    for found in foreign:
        assert decode_extension({"counts": found}, "c").counts is None  # type: ignore[dict-item]


def test_a_write_that_recovery_finishes_keeps_its_counts(tmp_path: Path) -> None:
    populate(tmp_path)
    die(tmp_path, At(PUBLISH), lambda mortal: mortal.ask(EVERY))
    healed = open_living(tmp_path)
    heal(healed.context)
    commits = healed.context.bases.current(MAIN).manifest.log.commits
    intended = commits[-2]
    assert intended.counts is not None
    assert intended.row_counts
    assert commits[-1].counts is None


def test_times_are_exact_and_in_utc(graph: LocalGraph) -> None:
    commit = head(graph)
    assert commit.created_at.utcoffset() is not None
    document = commit_document(commit)
    told = document["created_at_iso"]
    assert isinstance(told, str)
    assert told.endswith("Z")
    assert commit.created_at.isoformat(timespec="microseconds") == told.replace("Z", "+00:00")
    assert round(commit.created_at.timestamp() * 1e6) == commit.created_at_us
