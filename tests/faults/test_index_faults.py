"""Building indexes may die anywhere, or meet writers: no row changes, and it can be done again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery import heal
from omnigraph.engine.indexes import IndexOrder, IndexState, IndicesResult, ensure_indices
from omnigraph.ids import MAIN
from omnigraph.testing.breaking import (
    PERSON,
    UPDATE,
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


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return set_stage(Scene.INDEX, tmp_path_factory.mktemp("index") / "g")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def build(graph: BreakableGraph) -> IndicesResult:
    return ensure_indices(graph.bench, graph.catalog, ORDER)


def check_found(root: Path) -> None:
    """Everybody is found by key, through whatever index there is, and exactly once."""
    graph, tables = open_mortal(root), stores_at(root).tables
    handle = graph.open_table(graph.snapshot(), PERSON)
    for name in ("ann", "bob", "carl"):
        assert tables.count(handle, f"`name` = '{name}'") == 1


@pytest.mark.parametrize("when", [When.AFTER, pytest.param(When.BEFORE, marks=pytest.mark.slow)])
def test_a_build_that_dies_anywhere_changes_no_row_and_can_be_done_again(
    stage: Stage, when: When
) -> None:
    assert stage.before == stage.after

    def work(fault: CrashAt) -> None:
        stage.reset()
        build(open_mortal(stage.root, fault))

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
                build(open_mortal(stage.root, CrashAt(step, When.AFTER)))
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
