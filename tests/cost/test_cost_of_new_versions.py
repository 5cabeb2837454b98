"""What a read reads of a table that was written since the last one, in fragments. Never in seconds.

A server that is written has a new version of the table many times a second, which differs from the
one before by a few rows.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.engine.settings import Settings
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import EVERYTHING, Handle, Pause, ScanRequest, Tables

SCHEMA = "node Person { name: String @key  age: I32? }"
WITHOUT_AGE = "node Person { name: String @key }"
AGES = "query ages() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"


class Requests:
    """Tables that note what is read of them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.made: list[ScanRequest] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def read(
        self, handle: Handle, request: ScanRequest = EVERYTHING, pause: Pause | None = None
    ) -> pa.Table:
        if handle.ref.path.startswith("nodes"):
            self.made.append(request)
        return self._tables.read(handle, request, pause)


@pytest.fixture
def opened(tmp_path: Path) -> tuple[LocalGraph, Requests]:
    uri = str(tmp_path / "g")
    omnigraph.init(uri, SCHEMA, durability=Durability.RELAXED).close()
    stores = open_stores(uri, REAL, durability=Durability.RELAXED)
    requests = Requests(stores.tables)
    stores = replace(stores, tables=cast("Tables", requests))
    graph = LocalGraph(open_in(stores, Mode.READ_WRITE, Settings(maintenance=False)))
    graph.insert("Person", [{"name": f"p{each:03}", "age": each} for each in range(300)])
    return graph, requests


def ages(graph: LocalGraph) -> dict[str, int | None]:
    return {str(row["p.name"]): cast("int | None", row["p.age"]) for row in graph.query(AGES)}


def test_after_an_insert_only_the_new_rows_are_read(opened: tuple[LocalGraph, Requests]) -> None:
    graph, requests = opened
    known = ages(graph)
    for number in range(3):
        graph.insert("Person", [{"name": f"new{number}", "age": -number}])
        known[f"new{number}"] = -number
        requests.made.clear()
        assert ages(graph) == known
        assert {len(each.fragment_ids or ()) for each in requests.made} == {1}


CHANGES: dict[str, Callable[[LocalGraph], object]] = {
    "update": lambda graph: graph.upsert("Person", [{"name": "p000", "age": 1_000}]),
    "delete": lambda graph: graph.delete("Person", ["p001"]),
    "optimize": lambda graph: graph.optimize(),
    "drop the column": lambda graph: graph.apply_schema(WITHOUT_AGE, allow_data_loss=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_otherwise_is_read_as_it_is_now(
    opened: tuple[LocalGraph, Requests], change: str
) -> None:
    """Also a column that was dropped and declared again: the rows have lost their values."""
    graph, _ = opened
    graph.insert("Person", [{"name": "late", "age": 7}])
    ages(graph)
    CHANGES[change](graph)
    if change == "drop the column":
        graph.apply_schema(SCHEMA)
    graph.insert("Person", [{"name": "later", "age": 8}])
    with omnigraph.open(graph.uri) as other:
        assert ages(graph) == ages(other)


def test_a_name_that_moved_to_another_column_is_read_anew(tmp_path: Path) -> None:
    """A rename changes no file, so the fragments are those of the version before."""
    schema = "node Person { name: String @key  age: I32?  size: I32? }"
    moved = 'node Person { name: String @key  age: I32? @rename_from("size") }'
    graph = omnigraph.init(tmp_path / "g", schema, durability=Durability.RELAXED)
    graph.insert("Person", [{"name": "ann", "age": 30, "size": 170}])
    assert ages(graph) == {"ann": 30}
    graph.apply_schema("node Person { name: String @key  size: I32? }")
    graph.apply_schema(moved)
    graph.insert("Person", [{"name": "bob", "age": 180}])
    assert ages(graph) == {"ann": 170, "bob": 180}
