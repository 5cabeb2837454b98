"""Many small commits, then optimize and cleanup: bytes and costs come back, snapshots stay."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Graph
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.ids import TableKey
from omnigraph.lang.source import Source
from omnigraph.storage.durability import Durability

COMMITS = int(os.environ.get("OMNIGRAPH_COMMITS", "120"))
RATIO_MAX = 1.3
IS_SOAK = COMMITS >= 10_000
"""Only then is there enough to time; short runs on a busy machine tell nothing."""

SCHEMA = "node Person { name: String @key  age: I64? @index }\n"
PERSON = TableKey("node:Person")
SETTINGS = Settings(durability=Durability.RELAXED)
CLEAN = CleanupRequest(RetentionPolicy(keep=20), is_confirmed=True, debris_age_ms=-60_000)


def put(graph: Graph, number: int) -> float:
    row = {"name": f"p{number % 500}", "age": number}
    start = time.perf_counter()
    graph.write_rows("Person", [row], existing=Existing.REPLACE)
    return time.perf_counter() - start


LOOK = Source(
    "<look>", "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
)


def ask(graph: Graph, number: int) -> float:
    """Of a graph that was just opened, so that nothing is known of it."""
    opened = open_graph(graph.uri, settings=SETTINGS)
    start = time.perf_counter()
    assert opened.query(LOOK, params={"n": f"p{number}"}).rows()
    return time.perf_counter() - start


def ratio_of(cost: Callable[[Graph, int], float], ours: Graph, fresh: Graph) -> float:
    """Taken in turns, because the machine has other things to do."""
    pairs = [(cost(fresh, number), cost(ours, number)) for number in range(60)]
    return median(ours for _, ours in pairs) / median(theirs for theirs, _ in pairs)


def size_of(root: Path) -> int:
    return sum(each.stat().st_size for each in root.rglob("*") if each.is_file())


@pytest.mark.slow
def test_many_commits_leave_a_graph_that_is_as_good_as_a_fresh_one(tmp_path: Path) -> None:
    graph = create(str(tmp_path / "g"), SCHEMA, settings=SETTINGS)
    for number in range(COMMITS):
        put(graph, number)
    kept = graph.commits()[:15]
    before = {each.id: graph.snapshot_at_commit(each.id).pins[PERSON].row_count for each in kept}
    grown = size_of(tmp_path / "g")
    graph.optimize()
    result = graph.cleanup(CLEAN)
    assert [each.error for each in result.tables if each.error] == []
    assert graph.examine(is_deep=True) == []
    after = {
        each: graph.open_table(graph.snapshot_at_commit(each), PERSON).row_count for each in before
    }
    assert after == before
    folder = tmp_path / "g" / graph.snapshot().pins[PERSON].path
    assert len(list((folder / "_versions").glob("*.manifest"))) <= 30
    assert len(list((tmp_path / "g/__manifest/_versions").glob("*.manifest"))) <= 30
    assert size_of(tmp_path / "g") < grown
    assert len(list((folder / "data").glob("*.lance"))) <= 40
    fresh = create(str(tmp_path / "fresh"), SCHEMA, settings=SETTINGS)
    rows: list[dict[str, object]] = [{"name": f"p{n}", "age": n} for n in range(500)]
    fresh.write_rows("Person", rows, existing=Existing.REPLACE)
    fresh.optimize()
    inserting, asking = ratio_of(put, graph, fresh), ratio_of(ask, graph, fresh)
    assert inserting <= RATIO_MAX or not IS_SOAK, f"an insert costs {inserting:.2f} times as much"
    assert asking <= RATIO_MAX or not IS_SOAK, f"a query costs {asking:.2f} times as much"
