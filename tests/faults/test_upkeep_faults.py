"""Tidying up that dies anywhere, or meets writers: the rows stay what they were, and are found."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.recovery import heal
from omnigraph.engine.upkeep import ACTOR, needs_upkeep, write_indexes
from omnigraph.errors import LeaseHeld
from omnigraph.ids import MAIN
from omnigraph.testing.breaking import (
    PERSON,
    UPDATE,
    Ask,
    check_lasting,
    check_whole,
    open_living,
    open_mortal,
    read_content,
    stores_at,
)
from omnigraph.testing.failpoints import COMPACT, PATIENCE_S, PUBLISH, At, Pause, Scene, Trigger
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, When, sweep
from omnigraph.testing.scenes import Stage, set_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return set_stage(Scene.UPKEEP, tmp_path_factory.mktemp("upkeep") / "g")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def is_tidy(root: Path) -> bool:
    graph = open_mortal(root)
    anatomy = graph.bench.stores.tables.inspect(graph.open_table(graph.snapshot(), PERSON))
    return not needs_upkeep(anatomy, write_indexes(graph.catalog, PERSON))


def check_found(root: Path) -> None:
    """Everybody is found by id, through whatever index there is, and exactly once."""
    graph, tables = open_mortal(root), stores_at(root).tables
    handle = graph.open_table(graph.snapshot(), PERSON)
    ids = sorted(str(row["id"]) for row in tables.read(handle).to_pylist())
    found = tables.locate(handle, "id", ids)
    assert sorted(map(str, found["id"].to_pylist())) == ids


@pytest.mark.parametrize("when", [When.AFTER, pytest.param(When.BEFORE, marks=pytest.mark.slow)])
def test_upkeep_that_dies_anywhere_changes_no_row_and_can_be_done_again(
    stage: Stage, when: When
) -> None:
    assert stage.before == stage.after

    def work(fault: CrashAt) -> None:
        stage.reset()
        open_mortal(stage.root, fault).tidy(PERSON)

    outcomes = []
    for fault in sweep(when, work):
        heal(open_mortal(stage.root).bench)
        check_whole(stage.root, stage.allowed)
        check_found(stage.root)
        outcomes.append(is_tidy(stage.root))
        assert open_mortal(stage.root).tidy(PERSON) is not outcomes[-1]
        assert is_tidy(stage.root)
        if not fault.dead:
            assert open_mortal(stage.root).commits()[0].actor == ACTOR
            check_lasting(stage.root)
    assert set(outcomes) == {False, True}


@pytest.mark.slow
def test_the_recovery_of_upkeep_may_die_anywhere_too(stage: Stage) -> None:
    for step in count(1, STRIDE):
        for again in count(1, STRIDE):
            stage.reset()
            with suppress(Crash):
                open_mortal(stage.root, CrashAt(step, When.AFTER)).tidy(PERSON)
                return
            fault = CrashAt(again, When.AFTER)
            with suppress(Crash):
                heal(open_mortal(stage.root, fault).bench)
            heal(open_mortal(stage.root).bench)
            check_whole(stage.root, stage.allowed)
            check_found(stage.root)
            if not fault.dead:
                break


def test_a_writer_that_meets_upkeep_waits_and_is_not_refused(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    """An update must find its table unmoved; that it was tidied up meanwhile is no movement."""
    stage.reset()
    pause = Pause()
    trigger = Trigger(At(COMPACT), pause)
    tidying = threads.submit(open_living(stage.root, trigger).tidy, PERSON)
    pause.await_arrival()
    writing = threads.submit(open_living(stage.root).ask, UPDATE)
    pause.release()
    assert tidying.result(PATIENCE_S)
    assert writing.result(PATIENCE_S).commit is not None
    check_whole(stage.root, [read_content(stage.root)])
    check_found(stage.root)
    assert "('bob', [('age', 41), ('name', 'bob')])" in read_content(stage.root)[MAIN]["Person"]


def test_upkeep_that_meets_a_writer_leaves_the_table_to_it(
    stage: Stage, threads: ThreadPoolExecutor
) -> None:
    stage.reset()
    pause = Pause()
    trigger = Trigger(At(PUBLISH), pause)
    graph = open_living(stage.root, observe=trigger.observe)
    writing = threads.submit(graph.ask, Ask("put", {"name": "new", "age": 1}))
    pause.await_arrival()
    with pytest.raises(LeaseHeld):
        open_living(stage.root).tidy(PERSON)
    pause.release()
    assert writing.result(PATIENCE_S).commit is not None
    assert not is_tidy(stage.root)
    open_living(stage.root).tidy(PERSON)
    content = read_content(stage.root)
    check_whole(stage.root, [content])
    check_found(stage.root)
    assert len(content) == 1
    assert is_tidy(stage.root)
