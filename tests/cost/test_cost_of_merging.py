"""What a merge asks of the store, and how much of a table it holds at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.schema_files import read_schema_files
from omnigraph.effects import REAL
from omnigraph.engine.active_schema import check_schema_files
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from omnigraph.engine.tables import row_refs
from omnigraph.engine.write.batch import Existing
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.ids import BranchName
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.faults import Recorder, watch_stores

SCHEMA = "node Doc { name: String @key  vec: Vector(8)? @index  text: String? @index }"
TOPIC = BranchName("topic")


@pytest.fixture
def watched(tmp_path: Path) -> tuple[Graph, Recorder]:
    uri = str(tmp_path / "g")
    create(uri, SCHEMA, settings=Settings(durability=Durability.RELAXED))
    recorder = Recorder()
    stores = watch_stores(open_stores(uri, REAL, durability=Durability.RELAXED), recorder)
    found = read_schema_files(stores.objects)
    assert found is not None
    settings = Settings(maintenance=False)
    graph = Graph(
        stores, Bases(stores), check_schema_files(found), Mode.READ_WRITE, settings=settings
    )
    put(graph, BranchName("main"), 0, 20)
    graph.create_branch(TOPIC)
    return graph, recorder


def put(graph: Graph, branch: BranchName, start: int, stop: int) -> None:
    rows = [
        {"name": f"d{number}", "vec": [float(start)] * 8, "text": "t"}
        for number in range(start, stop)
    ]
    graph.write_rows("Doc", rows, existing=Existing.REPLACE, request=WriteRequest(branch))


def test_new_rows_are_appended_as_a_stream_and_nothing_is_indexed(
    watched: tuple[Graph, Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, recorder = watched
    put(graph, TOPIC, 20, 60)
    fetched: list[int] = []
    fetch = row_refs.fetch

    def counting(*arguments: object, **keywords: object) -> object:
        rows = fetch(*arguments, **keywords)  # type: ignore[arg-type]
        fetched.append(rows.num_rows)
        return rows

    monkeypatch.setattr(row_refs, "fetch", counting)
    recorder.calls.clear()
    merged = graph.merge(MergeRequest(TOPIC))
    assert merged.outcome == "fast_forward"
    assert recorder.count("tables.stage_append") == 1
    for call in ("stage_upsert", "stage_rows", "stage_overwrite", "stage_indices"):
        assert recorder.count(f"tables.{call}") == 0, call
    assert recorder.count("tables.commit_exact") == 1
    assert fetched == [], "rows pass through in batches, and are never held together"


def test_changed_rows_are_replaced_some_at_a_time(
    watched: tuple[Graph, Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, recorder = watched
    rows = [{"name": f"d{number}", "text": "new"} for number in range(20)]
    graph.write_rows("Doc", rows, existing=Existing.REPLACE, request=WriteRequest(TOPIC))
    monkeypatch.setattr(row_refs, "ROWS_MAX", 8)
    recorder.calls.clear()
    merged = graph.merge(MergeRequest(TOPIC))
    assert merged.counts[merged.tables[0]].updated == 20
    assert recorder.count("tables.stage_rows") == 3
    assert recorder.count("tables.commit_exact") == 3
    assert recorder.count("tables.stage_indices") == 0


def test_a_merge_asks_no_more_of_a_long_history(watched: tuple[Graph, Recorder]) -> None:
    graph, recorder = watched

    def calls_of_a_merge(number: int) -> int:
        put(graph, TOPIC, 1_000 + number, 1_001 + number)
        recorder.calls.clear()
        graph.merge(MergeRequest(TOPIC))
        return sum(each.startswith("tables.") for each in recorder.calls)

    first = [calls_of_a_merge(number) for number in range(3)]
    later = [calls_of_a_merge(number) for number in range(3, 20)]
    assert max(later[-3:]) <= max(first) + 4


MAKE = """
import sys
import numpy as np, pyarrow as pa
import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.ids import BranchName, TableKey
from omnigraph.storage.durability import Durability

SCHEMA = "node Doc { name: String @key  vec: Vector(768)? }"
key = TableKey("node:Doc")

def batches(schema, count):
    for start in range(0, count, 1_000):
        names = pa.array([f"d{number:09}" for number in range(start, start + 1_000)])
        flat = pa.array(np.random.rand(1_000 * 768).astype("f4"))
        vectors = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("vec").type)
        columns = {"id": names, "name": names, "vec": vectors}
        yield pa.RecordBatch.from_arrays([columns[each] for each in schema.names], schema=schema)

def put(context, branch, count):
    def stage(handle, mark):
        rows = pa.RecordBatchReader.from_batches(handle.schema, batches(handle.schema, count))
        return context.stores.tables.stage_overwrite(handle, handle.schema, mark, rows)

    with acquire_write_locks(context, branch, [key]) as lock:
        write = TableWrite(key, lock.base.manifest.pins[key].version, (stage,))
        run(lock, Change(WriterKind.LOAD, branch, (write,)))

folder, what, *counts = sys.argv[1:]
for count in counts:
    graph = omnigraph.init(f"{folder}/{count}", SCHEMA, durability=Durability.RELAXED)
    context = graph._graph._context
    if what == "changed":
        put(context, BranchName("main"), int(count))
    graph.branches.create("topic")
    put(context, BranchName("topic"), int(count))
"""

MEASURE = """
import resource, sys
import omnigraph
from omnigraph.storage.durability import Durability

folder, count = sys.argv[1:]
graph = omnigraph.open(f"{folder}/{count}", durability=Durability.RELAXED, maintenance=False)
(counts,) = graph.merge("topic").counts.values()
assert sorted([counts.inserted, counts.updated]) == [0, int(count)], counts
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def run_script(script: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("what", ["new", "changed"])
def test_memory_does_not_grow_with_what_is_merged(tmp_path: Path, what: str) -> None:
    """Three times the rows of 3 KB, or a million of them under the soak; the peak stays, in
    processes that do nothing but merge.
    """
    counts = (10_000, int(os.environ.get("OMNIGRAPH_MERGE_ROWS", "30000")))
    run_script(MAKE, tmp_path, what, *counts)
    few_mb, many_mb = (int(run_script(MEASURE, tmp_path, each)) for each in counts)
    assert many_mb <= few_mb * 1.2, (few_mb, many_mb)
