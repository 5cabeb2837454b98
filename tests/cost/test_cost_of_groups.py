"""What a member more adds to the work of a group, in calls of our functions. Never in seconds.

Sixty-four writers wait for one thread that decides and encodes for all of them, and share one lock
of the interpreter: what each member adds there limits how many writes a process makes.
"""

import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import omnigraph
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.faults import Recorder, watch_stores
from support.grouping import run_grouped

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
OURS = str(Path(omnigraph.__file__).parent)
FEW, MANY = 8, 40
PEOPLE = 64

WRITES = {
    "insert": "query w($a: String) { insert Person { name: $a, age: 1 } }",
    "update": "query w($a: String) { update Person set { age: 2 } where name = $a }",
    "edge": "query w($a: String) { insert Knows { from: $a, to: $a } }",
}
CALLS_MAX = {"insert": 245, "update": 355, "edge": 435}
"""Of a member more, in its own thread and in the thread that leads the group."""


@pytest.fixture
def graph(tmp_path: Path) -> LocalGraph:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": f"p{each}", "age": 0} for each in range(PEOPLE)])
    made.close()
    return omnigraph.open(tmp_path / "g", durability=Durability.RELAXED, maintenance=False)


@pytest.mark.parametrize("kind", WRITES)
def test_a_member_more_adds_few_calls(graph: LocalGraph, kind: str) -> None:
    def writes(count: int) -> list[Callable[[], MutationResult]]:
        prefix = f"new {count} " if kind == "insert" else "p"
        names = [f"{prefix}{each}" for each in range(count)]
        return [partial(graph.mutate, WRITES[kind], {"a": each}) for each in names]

    run_grouped(graph.engine, writes(2))
    few, many = (count_calls(graph, writes(each)) for each in (FEW, MANY))
    assert (many - few) / (MANY - FEW) <= CALLS_MAX[kind]


def count_calls(graph: LocalGraph, writes: list[Callable[[], MutationResult]]) -> int:
    """How many of our functions run in all threads while these writes form one group."""
    made: list[None] = []

    def watch(frame: FrameType, event: str, _what: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            made.append(None)

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        told = run_grouped(graph.engine, writes)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    commits = [each.commit for each in told if isinstance(each, MutationResult)]
    places = [None if each is None else each.extension.group for each in commits]
    assert [None if each is None else each.size for each in places] == [len(writes)] * len(writes)
    return len(made)


def test_a_write_looks_for_another_schema_only_where_it_is_refused(graph: LocalGraph) -> None:
    calls = Recorder()
    stores = watch_stores(open_stores(graph.engine.uri, REAL), calls)
    opened = LocalGraph(open_in(stores, Mode.READ_WRITE, Settings(maintenance=False)))
    opened.insert("Person", [{"name": "new 1"}])
    calls.calls.clear()
    opened.insert("Person", [{"name": "new 2"}])
    assert calls.count("tables.probe") == 3, "branch and table under the lease, branch at the swap"
