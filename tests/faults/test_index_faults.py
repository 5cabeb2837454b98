"""Building indexes may die anywhere, or meet writers: no row changes, and it can be done again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery import heal
from omnigraph.commit.staging import find_notes
from omnigraph.engine.indexes import IndexOrder, IndexState, IndicesResult, ensure_indices
from omnigraph.engine.optimize import OptimizeOrder, optimize
from omnigraph.ids import MAIN
from omnigraph.testing.breaking import (
    PERSON,
    UPDATE,
    Ask,
    BreakableGraph,
    check_lasting,
    check_whole,
    open_living,
    open_mortal,
    read_content,
    stores_at,
)
from omnigraph.testing.failpoints import COMMIT, PATIENCE_S, At, Pause, Scene, Trigger
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, When, sweep
from omnigraph.testing.scenes import Stage, set_stage

ORDER = IndexOrder(actor="ann", totals_rows_min=0)
"""With totals, so that a table takes two commits."""

STAGE = "tables.stage_indices"

AHEAD = replace(ORDER, rows_held_max=0)
"""Built before tables are held, as those of large tables are."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return set_stage(Scene.INDEX, tmp_path_factory.mktemp("index") / "g")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def build(graph: BreakableGraph, order: IndexOrder = ORDER) -> IndicesResult:
    return ensure_indices(graph.bench, graph.catalog, order)


def check_found(root: Path) -> None:
    """Everybody is found by key, through whatever index there is, and exactly once."""
    graph, tables = open_mortal(root), stores_at(root).tables
    handle = graph.open_table(graph.snapshot(), PERSON)
    for name in ("ann", "bob", "carl"):
        assert tables.count(handle, f"`name` = '{name}'") == 1


@pytest.mark.parametrize(
    ("when", "order"),
    [
        (When.AFTER, AHEAD),
        pytest.param(When.BEFORE, ORDER, marks=pytest.mark.slow),
    ],
)
def test_a_build_that_dies_anywhere_changes_no_row_and_can_be_done_again(
    stage: Stage, when: When, order: IndexOrder
) -> None:
    assert stage.before == stage.after

    def work(fault: CrashAt) -> None:
        stage.reset()
        build(open_mortal(stage.root, fault), order)

    outcomes = set()
    for fault in sweep(when, work):
        heal(open_mortal(stage.root).bench)
        check_whole(stage.root, stage.allowed)
        check_found(stage.root)
        again = build(open_mortal(stage.root))
        outcomes.add(bool(again.commits))
        assert not build(open_mortal(stage.root)).commits
        assert again.of(IndexState.PENDING) == ()
        if not fault.dead:
            assert open_mortal(stage.root).commits()[0].actor == "ann"
            check_lasting(stage.root)
    assert outcomes == {False, True}


@pytest.mark.slow
def test_the_recovery_of_a_build_may_die_anywhere_too(stage: Stage) -> None:
    for step in count(1, STRIDE):
        for again in count(1, STRIDE):
            stage.reset()
            with suppress(Crash):
                build(open_mortal(stage.root, CrashAt(step, When.AFTER)), AHEAD)
                return
            fault = CrashAt(again, When.AFTER)
            with suppress(Crash):
                heal(open_mortal(stage.root, fault).bench)
            heal(open_mortal(stage.root).bench)
            check_whole(stage.root, stage.allowed)
            check_found(stage.root)
            if not fault.dead:
                break


def test_a_writer_that_meets_a_build_waits_and_is_not_refused(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    """An update must find its table unmoved; that it was indexed meanwhile is no movement."""
    stage.reset()
    pause = Pause()
    building = threads.submit(build, open_living(stage.root, Trigger(At(COMMIT), pause)))
    pause.await_arrival()
    writing = threads.submit(open_living(stage.root).ask, UPDATE)
    pause.release()
    assert building.result(PATIENCE_S).commits
    assert writing.result(PATIENCE_S).commit is not None
    content = read_content(stage.root)
    check_whole(stage.root, [content])
    check_found(stage.root)
    assert "('bob', [('age', 41), ('name', 'bob')])" in content[MAIN]["Person"]


def test_a_build_that_was_planned_before_a_write_builds_over_what_was_written(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    """What is to be done is decided again under the lease, from what the branch shows then."""
    stage.reset()
    pause = Pause()
    writer = open_living(stage.root, Trigger(At(COMMIT), pause))
    writing = threads.submit(writer.ask, UPDATE)
    pause.await_arrival()
    building = threads.submit(build, open_living(stage.root))
    pause.release()
    assert writing.result(PATIENCE_S).commit is not None
    assert building.result(PATIENCE_S).commits
    assert not build(open_mortal(stage.root)).commits
    check_whole(stage.root, [read_content(stage.root)])
    check_found(stage.root)


def test_nobody_waits_for_an_index_that_is_being_built(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    """The table is held to attach it, not to build it; what came meanwhile is not covered."""
    stage.reset()
    pause = Pause()
    builder = open_living(stage.root, Trigger(At(STAGE, when=When.AFTER), pause))
    building = threads.submit(build, builder, AHEAD)
    pause.await_arrival()
    writing = threads.submit(open_living(stage.root).ask, UPDATE)
    assert writing.result(PATIENCE_S).commit is not None, "though the build is not done"
    pause.release()
    assert building.result(PATIENCE_S).commits
    check_found(stage.root)
    assert not find_notes(stores_at(stage.root).objects), "the note is gone with the work"
    rest = build(open_mortal(stage.root))
    assert rest.commits, "the row that was updated has an index again"
    assert not build(open_mortal(stage.root)).commits
    content = read_content(stage.root)
    check_whole(stage.root, [content])
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
    optimize(other.bench, other.catalog, OptimizeOrder())
    pause.release()
    assert building.result(PATIENCE_S).of(IndexState.PENDING) == ()
    assert not build(open_mortal(stage.root)).commits, "all of it is covered"
    check_whole(stage.root, [read_content(stage.root)])
    check_found(stage.root)
