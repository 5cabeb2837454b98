"""Indexes that are built before their table is held meet writers and compactions.

That building may die anywhere is tried in `test_tidying_faults`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.leases.staging import find_staging
from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.maintain.cleanup import CleanupRequest, cleanup
from omnigraph.engine.maintain.indexes import (
    IndexRequest,
    IndexState,
    IndicesResult,
    ensure_indices,
)
from omnigraph.engine.maintain.optimize import OptimizeRequest, optimize
from omnigraph.ids import MAIN
from omnigraph.testing.failpoints import PATIENCE_S, At, Pause, Trigger
from omnigraph.testing.faults import When
from support.breaking import (
    PERSON,
    UPDATE,
    Ask,
    BreakableGraph,
    check_whole,
    open_living,
    open_mortal,
    read_content,
    stores_at,
)
from support.failpoints import Scene
from support.scenes import Stage, set_stage

ORDER = IndexRequest(actor="ann", totals_rows_min=0)
"""With totals, so that a table takes two commits."""

STAGE = "tables.stage_indices"
TABLES = 4
"""So many have something to index; that of persons is the last."""

AHEAD = replace(ORDER, rows_held_max=0)
"""Built before tables are held, as those of large tables are."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return set_stage(Scene.INDEX, tmp_path_factory.mktemp("index") / "g")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def build(graph: BreakableGraph, order: IndexRequest = ORDER) -> IndicesResult:
    return ensure_indices(graph.context, graph.catalog, order)


def check_found(root: Path) -> None:
    """Everybody is found by key, through whatever index there is, and exactly once."""
    graph, tables = open_mortal(root), stores_at(root).tables
    handle = graph.open_table(graph.snapshot(), PERSON)
    for name in ("ann", "bob", "carl"):
        assert tables.count(handle, f"`name` = '{name}'") == 1


def test_nobody_waits_for_an_index_that_is_being_built(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    """The table is held to attach it, not to build it; what came meanwhile is not covered.

    And whoever cleans up meanwhile leaves its files alone.
    """
    stage.reset()
    pause = Pause()
    builder = open_living(stage.root, Trigger(At(STAGE, TABLES, When.AFTER), pause))
    building = threads.submit(build, builder, AHEAD)
    pause.await_arrival()
    writing = threads.submit(open_living(stage.root).ask, UPDATE)
    assert writing.result(PATIENCE_S).commit is not None, "though the build is not done"
    everything = CleanupRequest(RetentionPolicy(keep=1), is_confirmed=True, debris_age_ms=-10_000)
    cleanup(open_living(stage.root).context, everything)
    pause.release()
    assert building.result(PATIENCE_S).commits
    check_found(stage.root)
    assert not find_staging(stores_at(stage.root).objects), "the record is removed with the work"
    rest = build(open_mortal(stage.root))
    assert rest.commits, "the row that was updated has an index again"
    assert not build(open_mortal(stage.root)).commits
    content = read_content(stage.root)
    check_whole(stage.root, [content], is_cleaned=True)
    check_found(stage.root)
    assert "('bob', [('age', 41), ('name', 'bob')])" in content[MAIN]["Person"]


def test_an_index_of_a_table_that_was_compacted_meanwhile_is_built_again(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    stage.reset()
    for age in range(3):
        open_mortal(stage.root).ask(Ask("put", {"name": f"p{age}", "age": age}))
    pause = Pause()
    builder = open_living(stage.root, Trigger(At(STAGE, when=When.AFTER), pause))
    building = threads.submit(build, builder, AHEAD)
    pause.await_arrival()
    other = open_living(stage.root)
    optimize(other.context, other.catalog, OptimizeRequest())
    pause.release()
    assert building.result(PATIENCE_S).of(IndexState.PENDING) == ()
    assert not build(open_mortal(stage.root)).commits, "all of it is covered"
    check_whole(stage.root, [read_content(stage.root)])
    check_found(stage.root)
