"""Large tables are written anew by tasks, and nobody can tell by the outcome."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Graph
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.schema.rewriting import Rewriter, RewriterFactory, TableAt, in_process
from omnigraph.engine.settings import Settings
from omnigraph.engine.write.batch import Existing
from omnigraph.errors import BackfillInvalid, JobFailed, SparkUnusable, UsageError
from omnigraph.ids import TableKey
from omnigraph.pipeline import rewrite
from omnigraph.pipeline.rewrite import SparkRewriter, open_rewriter
from omnigraph.pipeline.settings import REWRITE_ROWS
from omnigraph.storage.durability import Durability
from omnigraph.storage.tables import ColumnFill
from support.loading import SETTINGS as SPARK

SCHEMA = """
node Doc { slug: String @key  body: String? @index  rank: I64? }
node Small { name: String @key }
"""
FILLED = SCHEMA.replace("rank: I64?", 'rank: I64?  kind: String @default("plain")  twice: I64')
TWICE = {"Doc.twice": "coalesce(rank, 0) * 2"}
DROPPED = SCHEMA.replace("  rank: I64?", "")
DOC = TableKey("node:Doc")
SETTINGS = Settings(durability=Durability.RELAXED, maintenance=False)
LARGE = 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of several small fragments, with rows that were deleted and updated."""
    root = tmp_path_factory.mktemp("made") / "g"
    graph = create(str(root), SCHEMA, settings=SETTINGS)
    for start in range(0, 20, 4):
        numbers = range(start, start + 4)
        rows = [{"slug": f"d{n:02}", "body": f"fox {n}", "rank": n} for n in numbers]
        graph.write_rows("Doc", rows, existing=Existing.REFUSE)
        graph.write_rows("Small", [{"name": f"s{start}"}], existing=Existing.REFUSE)
    graph.remove_rows("Doc", ["d03", "d04"])
    changed = {"slug": "d07", "body": "now about whales", "rank": None}
    graph.write_rows("Doc", [changed], existing=Existing.REPLACE)
    return root


@pytest.fixture(autouse=True)
def several_tasks(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    assert spark is not None
    monkeypatch.setattr(rewrite, "FRAGMENTS_PER_TASK", 2)


class Workers:
    """`RewriterFactory` of real workers for tables of ten rows, that remembers for which."""

    def __init__(self, root: Path) -> None:
        self._graph = open_graph(str(root), settings=SETTINGS)
        self.hired: list[int] = []

    def __call__(self, row_count: int) -> SparkRewriter | None:
        if row_count < LARGE:
            return None
        self.hired.append(row_count)
        return open_rewriter(self._graph.root, self._graph.settings, SPARK)


def look(root: Path) -> tuple[object, ...]:
    """Rows in their order, what indexes cover of them, and how many versions there were.

    Where one fragment ends and the next begins is up to whoever writes them.
    """
    graph = open_graph(str(root), settings=SETTINGS)
    handle = graph.open_table(graph.snapshot(), DOC)
    anatomy = graph.tables.inspect(handle)
    sizes = {each.fragment_id: each.row_count for each in anatomy.fragments}
    indices = {
        each.name: sum(sizes.get(number, 0) for number in each.covered) for each in anatomy.indices
    }
    assert graph.examine(is_deep=True) == []
    return graph.tables.read(handle).to_pylist(), indices, handle.version


def optimize(graph: Graph, hire: RewriterFactory) -> None:
    assert graph.optimize(rewriter_for=hire).commits


def fill(graph: Graph, hire: RewriterFactory) -> None:
    assert graph.apply_schema(SchemaRequest(FILLED, backfill=TWICE), hire).applied


def drop(graph: Graph, hire: RewriterFactory) -> None:
    assert graph.apply_schema(SchemaRequest(DROPPED, allow_data_loss=True), hire).applied


@pytest.mark.parametrize("work", [optimize, fill, drop])
def test_workers_leave_the_table_that_one_process_leaves(
    made: Path, tmp_path: Path, work: Callable[[Graph, RewriterFactory], None]
) -> None:
    found = []
    for name in ("here", "there"):
        root = tmp_path / name
        shutil.copytree(made, root)
        workers = Workers(root)
        work(open_graph(str(root), settings=SETTINGS), workers if name == "there" else in_process)
        assert bool(workers.hired) is (name == "there")
        found.append(look(root))
    assert found[0] == found[1]
    assert found[0] != look(made)


def test_what_does_not_fit_is_refused_in_the_same_words_and_nothing_moves(
    made: Path, tmp_path: Path
) -> None:
    """Only the row of a later fragment does not fit."""
    root = tmp_path / "g"
    shutil.copytree(made, root)
    order = SchemaRequest(
        FILLED, backfill={"Doc.twice": "CASE WHEN rank = 18 THEN null ELSE 1 END"}
    )
    reasons = []
    for hire in (in_process, Workers(root)):
        with pytest.raises(BackfillInvalid) as refused:
            open_graph(str(root), settings=SETTINGS).apply_schema(order, hire)
        reasons.append(str(refused.value))
    assert reasons[0] == reasons[1]
    assert look(root) == look(made)


class Broken:
    """A `Rewriter` whose workers all die after they wrote something."""

    def __init__(self, real: Rewriter) -> None:
        self._real = real

    def run_compaction_task(self, at: TableAt, tasks: tuple[str, ...]) -> tuple[str, ...]:
        self._real.run_compaction_task(at, tasks)
        raise JobFailed("putting fragments together", reason="the test said so")

    def fill(
        self, at: TableAt, fills: tuple[ColumnFill, ...], fragment_ids: list[int]
    ) -> tuple[str, ...]:
        self._real.fill(at, fills, fragment_ids)
        raise JobFailed("filling columns", reason="the test said so")


@pytest.mark.parametrize("work", [optimize, fill])
def test_a_job_that_fails_leaves_nothing_but_files_that_cleanup_finds(
    made: Path, tmp_path: Path, work: Callable[[Graph, RewriterFactory], None]
) -> None:
    root = tmp_path / "g"
    shutil.copytree(made, root)
    workers = Workers(root)

    def hire(row_count: int) -> Rewriter | None:
        real = workers(row_count)
        return None if real is None else Broken(real)  # type: ignore[return-value] # as far as it goes

    graph = open_graph(str(root), settings=SETTINGS)
    with pytest.raises(JobFailed):
        work(graph, hire)
    assert look(root) == look(made)
    assert list(graph._stores.objects.list("__staging")) == []
    path = graph.snapshot().pins[DOC].path
    before = len(list((root / path / "data").iterdir()))
    graph.cleanup(
        CleanupRequest(RetentionPolicy(keep=99), is_confirmed=True, debris_age_ms=-60_000)
    )
    assert len(list((root / path / "data").iterdir())) < before
    work(graph, in_process)


class Absent:
    """A `Rewriter` that is not there."""

    def run_compaction_task(self, *_: object) -> tuple[str, ...]:
        raise SparkUnusable("the test said so")

    fill = copy = run_compaction_task


@pytest.mark.parametrize("work", [optimize, fill, drop])
def test_without_a_spark_that_works_this_process_does_it(
    made: Path, tmp_path: Path, work: Callable[[Graph, RewriterFactory], None]
) -> None:
    found = []
    for name, hire in (("here", in_process), ("nowhere", lambda _: Absent())):
        root = tmp_path / name
        shutil.copytree(made, root)
        work(open_graph(str(root), settings=SETTINGS), cast("RewriterFactory", hire))
        found.append(look(root))
    assert found[0] == found[1]


def test_a_setting_says_which_tables_are_large(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "g"
    shutil.copytree(made, root)
    graph = omnigraph.open(root, maintenance=False)
    monkeypatch.setenv(REWRITE_ROWS.name, "many")
    with pytest.raises(UsageError):
        graph.optimize()
    monkeypatch.setenv(REWRITE_ROWS.name, str(LARGE))
    assert graph.optimize(spark=SPARK).commits
    assert graph.apply_schema(FILLED, backfill=TWICE, spark=SPARK).applied
    rows = graph.query("query q() { match { $d: Doc } return { sum($d.twice) as s } }").rows()
    assert rows == [{"s": 2 * (sum(range(20)) - 3 - 4 - 7)}]
