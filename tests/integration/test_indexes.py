"""Indexes are built on request, beside whatever else goes on, and change no answer."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.effects import REAL
from omnigraph.engine.maintain.indexes import (
    IndexRequest,
    IndexState,
    IndicesResult,
    ensure_indices,
)
from omnigraph.engine.search.texts import read_totals
from omnigraph.errors import OpenedReadOnly, QueryInvalid, SchemaLocked, UsageError
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.stores import Stores, open_stores
from omnigraph.storage.tables import Handle, TableRef
from support.publishing import Place

SCHEMA = """
node Doc {
  slug: String @key
  body: String? @index
  mail: String? @unique
  rank: I32? @index
  kind: enum(a, b)? @index
  place: Vector(4)? @index
  tags: [String]?
}
edge Cites: Doc -> Doc { note: String? }
"""
DOC = TableKey("node:Doc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "g"


@pytest.fixture
def graph(root: Path) -> LocalGraph:
    return omnigraph.init(root, SCHEMA, durability=Durability.RELAXED)


def stores_of(root: Path) -> Stores:
    return open_stores(str(root), REAL, durability=Durability.RELAXED)


def handle_of(root: Path, branch: str = MAIN, key: TableKey = DOC) -> tuple[Stores, Handle]:
    stores = stores_of(root)
    pin = Bases(stores).current(BranchName(branch)).manifest.pins[key]
    return stores, open_pin(stores, pin)


def states(result: IndicesResult) -> dict[tuple[str, str, str], str]:
    return {(each.table, each.column, each.kind): each.state.value for each in result.indexes}


def fill(graph: LocalGraph, count: int = 5, *, branch: str = MAIN, start: int = 0) -> None:
    rows = [
        {"slug": f"d{number}", "body": f"word{number} fox", "rank": number}
        for number in range(start, start + count)
    ]
    graph.insert("Doc", rows, branch=branch)


def test_kinds_follow_the_types_of_the_properties(graph: LocalGraph) -> None:
    fill(graph)
    graph.upsert("Doc", [{"slug": "v", "place": [1.0, 0.0, 0.0, 0.0]}])
    found = states(graph.ensure_indices())
    assert found == {
        ("edge:Cites", "id", "btree"): "pending",
        ("edge:Cites", "src", "btree"): "pending",
        ("edge:Cites", "dst", "btree"): "pending",
        (DOC, "id", "btree"): "built",
        (DOC, "slug", "inverted"): "built",
        (DOC, "slug", "btree"): "built",
        (DOC, "body", "inverted"): "built",
        (DOC, "mail", "btree"): "built",
        (DOC, "rank", "btree"): "built",
        (DOC, "kind", "btree"): "built",
        (DOC, "place", "ivf_flat"): "built",
    }


def test_what_is_built_is_one_commit_and_the_second_time_there_is_nothing_to_do(
    graph: LocalGraph,
) -> None:
    fill(graph)
    graph.insert("Cites", [{"from": "d0", "to": "d1"}])
    before = len(graph.commits())
    result = graph.ensure_indices(actor="ann")
    assert len(graph.commits()) == before + 1
    assert (graph.commits()[0].id, graph.commits()[0].actor) == (result.commits[0].id, "ann")
    again = graph.ensure_indices()
    assert again.commits == ()
    assert again.of(IndexState.BUILT) == ()
    assert len(graph.commits()) == before + 1


def test_vectors_that_are_all_null_are_pending_until_there_is_one(graph: LocalGraph) -> None:
    fill(graph)
    first = graph.ensure_indices()
    (pending,) = (each for each in first.of(IndexState.PENDING) if each.table == DOC)
    assert (pending.column, pending.reason) == ("place", "there are no vectors")
    graph.upsert("Doc", [{"slug": "v", "place": [1.0, 0.0, 0.0, 0.0]}])
    assert states(graph.ensure_indices())[DOC, "place", "ivf_flat"] == "built"
    fill(graph, 2, start=50)  # without vectors: nothing new for that index
    assert states(graph.ensure_indices())[DOC, "place", "ivf_flat"] == "covered"


def test_rows_written_since_are_covered_the_next_time(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    graph.ensure_indices()
    fill(graph, 3, start=10)
    graph.upsert("Doc", [{"slug": "d1", "body": "now about whales"}])
    assert states(graph.ensure_indices())[DOC, "body", "inverted"] == "built"
    stores, handle = handle_of(root)
    anatomy = stores.tables.inspect(handle)
    everything = {each.fragment_id for each in anatomy.fragments}
    assert all(everything <= each.covered for each in anatomy.indices)


def test_an_exact_look_up_of_a_text_key_does_not_scan(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    graph.ensure_indices()
    stores, handle = handle_of(root)
    names = {each.name: each.kind for each in stores.tables.inspect(handle).indices}
    assert (names["slug_idx"], names["slug_btree_idx"]) == ("Inverted", "BTree")
    assert stores.tables.count(handle, "`slug` = 'd3'") == 1


def test_contains_in_a_query_asks_for_an_index_which_then_stays(graph: LocalGraph) -> None:
    fill(graph)
    queries = """
    query q($p: String) {
      match { $d: Doc  not { $d cites $e  $e.mail contains $p }  $d.body contains $p }
      return { $d.slug }
    }
    """
    asked = states(graph.ensure_indices(queries=queries))
    assert asked[DOC, "body", "ngram"] == asked[DOC, "mail", "ngram"] == "built"
    fill(graph, 2, start=20)
    assert states(graph.ensure_indices())[DOC, "body", "ngram"] == "built"


def test_a_query_file_that_is_wrong_is_said_so(graph: LocalGraph) -> None:
    with pytest.raises(QueryInvalid):
        graph.ensure_indices(queries="query q() { match { $x: Nobody } return { $x } }")


def test_on_a_branch_only_its_own_tables_are_indexed(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    graph.branches.create("side")
    first = graph.ensure_indices("side")
    assert first.commits == ()
    assert {each.reason for each in first.of(IndexState.PENDING) if each.table == DOC} == {
        "the branch still shows the table of 'main'"
    }
    fill(graph, 2, branch="side", start=30)
    assert states(graph.ensure_indices("side"))[DOC, "body", "inverted"] == "built"
    stores, handle = handle_of(root)
    assert stores.tables.inspect(handle).indices == ()
    _, theirs = handle_of(root, "side")
    assert stores.tables.count(theirs, "`slug` = 'd30'") == 1


def test_a_branch_that_inherits_an_indexed_table_has_its_indexes(graph: LocalGraph) -> None:
    fill(graph)
    graph.ensure_indices()
    graph.branches.create("side")
    assert states(graph.ensure_indices("side"))[DOC, "body", "inverted"] == "covered"


def test_a_vector_whose_name_is_taken_is_pending_and_searched_all_the_same(tmp_path: Path) -> None:
    schema = "node Doc { slug: String @key  flat: Vector(2)? @index  n: I32? @index }"
    graph = omnigraph.init(tmp_path / "g", schema, durability=Durability.RELAXED)
    graph.insert("Doc", [{"slug": "a", "flat": [1.0, 0.0]}, {"slug": "b", "flat": [0.0, 1.0]}])
    found = states(graph.ensure_indices())
    assert (found[DOC, "flat", "ivf_flat"], found[DOC, "n", "btree"]) == ("pending", "built")
    text = """query q($v: Vector(2)) {
      match { $d: Doc } return { $d.slug } order { nearest($d.flat, $v) } limit 1
    }"""
    rows = graph.query(text, params={"v": [0.0, 0.9]}).rows()
    assert [list(row.values()) for row in rows] == [["b"]]


def test_totals_are_written_down_for_large_tables(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    stores = stores_of(root)
    context = WriteContext(stores, Bases(stores))
    order = IndexRequest(totals_rows_min=0)
    assert len(ensure_indices(context, graph.catalog, order).commits) == 1
    _, handle = handle_of(root)
    (totals,) = read_totals(handle.config, "body").values()
    assert (totals.texts, totals.terms) == (5, 10)
    assert ensure_indices(context, graph.catalog, order).commits == ()


def test_a_large_table_is_done_index_by_index(graph: LocalGraph, root: Path) -> None:
    """Writers get a turn in between; nothing is done twice, and what was built is told."""
    fill(graph)
    graph.insert("Cites", [{"from": "d0", "to": "d1"}])
    stores = stores_of(root)
    context = WriteContext(stores, Bases(stores))
    order = IndexRequest(totals_rows_min=0, rows_together_max=1)
    result = ensure_indices(context, graph.catalog, order)
    # All of the edges, which are small, at once; of the nodes each index that can be built.
    assert len(result.commits) == 1 + 7 + 1  # and the totals
    assert len(result.of(IndexState.BUILT)) == 3 + 7
    assert [each.column for each in result.of(IndexState.PENDING)] == ["place"]
    assert ensure_indices(context, graph.catalog, order).commits == ()
    _, handle = handle_of(root)
    assert read_totals(handle.config, "body")


def test_a_read_only_graph_is_not_indexed(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    with pytest.raises(OpenedReadOnly):
        omnigraph.open(root, read_only=True).ensure_indices()
    with pytest.raises(UsageError):
        graph.ensure_indices(actor="omnigraph:me")


def test_nothing_is_indexed_while_the_schema_changes(graph: LocalGraph, root: Path) -> None:
    fill(graph)
    stores = stores_of(root)
    manifest = stores.tables.open_at(TableRef(MANIFEST))
    stores.tables.fork(manifest, "__schema_apply_lock__")
    with pytest.raises(SchemaLocked):
        graph.ensure_indices()


def test_writers_and_builders_do_not_hurt_each_other(graph: LocalGraph, root: Path) -> None:
    fill(graph)

    def build() -> None:
        builder = omnigraph.open(root, durability=Durability.RELAXED)
        for _ in range(3):
            builder.ensure_indices()

    def write(first: int) -> None:
        writer = omnigraph.open(root, durability=Durability.RELAXED)
        for number in range(first, first + 5):
            writer.insert("Doc", [{"slug": f"d{number}", "body": f"word{number} fox"}])
            writer.upsert("Doc", [{"slug": f"d{first}", "body": f"again {number}"}])

    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(build), pool.submit(write, 100), pool.submit(write, 200)]
        for job in jobs:
            job.result()
    graph.ensure_indices()
    stores, handle = handle_of(root)
    assert handle.row_count == 15
    assert graph.pending_writes() == ()
    for number in (0, 101, 204):
        assert stores.tables.count(handle, f"`slug` = 'd{number}'") == 1


def test_the_command_says_what_it_did(
    graph: LocalGraph, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(graph)
    assert run(["index", str(root), "--json", "--as", "ann"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["branch"] == "main"
    assert {"rank", "body"} <= {each["column"] for each in document["built"]}
    assert [each["reason"] for each in document["pending"] if each["column"] == "place"] == [
        "there are no vectors"
    ]
    assert (document["already_covered"], len(document["commits"])) == ([], 1)
    assert document["actor_id"] == "ann"
    assert run(["index", str(root), "--branch", "main"]) == 0
    printed = capsys.readouterr().out
    assert "covered: node:Doc body inverted" in printed
    assert printed.endswith("nothing to build\n")
    assert run(["index", str(root), "--branch", "nope"]) == 1


def test_a_graph_in_a_bucket_is_indexed_and_searched_too(cloud_place: Place) -> None:
    graph = omnigraph.open(cloud_place.uri, storage_options=cloud_place.storage_options)
    graph.insert("A", [{"name": "red fox"}, {"name": "blue whale"}])
    assert len(graph.ensure_indices().commits) == 1
    graph.insert("A", [{"name": "grey fox"}])
    text = 'query q() { match { $a: A search($a.name, "foxes") } return { $a.name } }'
    rows = graph.query(text).rows()
    assert sorted(str(value) for row in rows for value in row.values()) == ["grey fox", "red fox"]
    assert graph.ensure_indices().commits
    assert not graph.ensure_indices().commits
