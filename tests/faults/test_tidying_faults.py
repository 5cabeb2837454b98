"""Upkeep, optimize and building indexes may die anywhere, or meet writers.

No row ever changes, every row is found, and what was left undone can be done again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from omnigraph.commit.manifest.records import UPKEEP
from omnigraph.commit.recovery.heal import heal
from omnigraph.engine.maintain.indexes import IndexRequest, ensure_indices
from omnigraph.engine.write.upkeep import needs_upkeep, write_indexes
from omnigraph.errors import LeaseHeld
from omnigraph.ids import MAIN
from omnigraph.testing.failpoints import COMMIT, COMPACT, PATIENCE_S, PUBLISH, At, Pause, Trigger
from omnigraph.testing.faults import STRIDE, Crash, CrashAt, When, sweep
from support.breaking import (
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
from support.failpoints import Scene
from support.scenes import Stage, set_stage

IS_SOAK = STRIDE == 1
"""Dying before a write leaves what dying after the one before it leaves, or should; and optimize
builds indexes as well. So both are tried only when there is time."""


@dataclass(frozen=True, slots=True)
class Tidying:
    """One way to tidy up: what it does, and where it makes its first table commit."""

    scene: Scene
    tidy: Callable[[BreakableGraph], bool]
    """True if there was something to do."""
    begins: str
    actor: str


HELD = IndexRequest(actor="ann", totals_rows_min=0)
"""With totals, so that a table takes two commits."""

AHEAD = replace(HELD, rows_held_max=0)
"""Built before tables are held, as the indexes of large tables are."""


def build(graph: BreakableGraph, order: IndexRequest = AHEAD) -> bool:
    return bool(ensure_indices(graph.context, graph.catalog, order).commits)


def optimize(graph: BreakableGraph) -> bool:
    return bool(graph.optimize(actor="ann").commits)


KINDS = {
    "upkeep": Tidying(Scene.UPKEEP, lambda graph: graph.tidy(PERSON), COMPACT, UPKEEP),
    "indexes": Tidying(Scene.INDEX, build, COMMIT, "ann"),
    "optimize": Tidying(Scene.OPTIMIZE, optimize, COMPACT, "ann"),
}
Set = tuple[Tidying, Stage]


@pytest.fixture(scope="module", params=KINDS)
def set_up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Set:
    kind = KINDS[request.param]
    return kind, set_stage(kind.scene, tmp_path_factory.mktemp(request.param) / "g")


@pytest.fixture(scope="module")
def upkeep(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return set_stage(Scene.UPKEEP, tmp_path_factory.mktemp("met") / "g")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def check_found(root: Path) -> None:
    """Everybody is found by id and by key, through whatever index there is, and exactly once."""
    graph, tables = open_mortal(root), stores_at(root).tables
    handle = graph.open_table(graph.snapshot(), PERSON)
    ids = sorted(str(row["id"]) for row in tables.read(handle).to_pylist())
    found = tables.locate(handle, "id", ids)
    assert sorted(map(str, found["id"].to_pylist())) == ids
    assert tables.count(handle, "`name` IN ('ann', 'bob', 'carl')") == 3


@pytest.mark.parametrize("when", list(When) if IS_SOAK else [When.AFTER])
def test_tidying_that_dies_anywhere_changes_no_row_and_can_be_done_again(
    set_up: Set, when: When
) -> None:
    kind, stage = set_up
    assert stage.before == stage.after

    def work(fault: CrashAt) -> None:
        stage.reset()
        kind.tidy(open_mortal(stage.root, fault))

    outcomes = set()
    for fault in sweep(when, work):
        heal(open_mortal(stage.root).context)
        check_whole(stage.root, stage.allowed)
        check_found(stage.root)
        outcomes.add(kind.tidy(open_mortal(stage.root)))
        assert not kind.tidy(open_mortal(stage.root)), "once done, it is done"
        if not fault.dead:
            assert open_mortal(stage.root).commits()[0].actor == kind.actor
            check_lasting(stage.root)
    assert outcomes == {False, True}


@pytest.mark.slow
@pytest.mark.parametrize("set_up", KINDS if IS_SOAK else ["upkeep", "optimize"], indirect=True)
def test_the_recovery_of_tidying_may_die_anywhere_too(set_up: Set) -> None:
    kind, stage = set_up
    for step in count(1, STRIDE):
        for again in count(1, STRIDE):
            stage.reset()
            with suppress(Crash):
                kind.tidy(open_mortal(stage.root, CrashAt(step, When.AFTER)))
                return
            fault = CrashAt(again, When.AFTER)
            with suppress(Crash):
                heal(open_mortal(stage.root, fault).context)
            heal(open_mortal(stage.root).context)
            check_whole(stage.root, stage.allowed)
            check_found(stage.root)
            if not fault.dead:
                break


def test_a_writer_that_meets_tidying_waits_and_is_not_refused(
    set_up: Set, threads: ThreadPoolExecutor
) -> None:
    """An update must find its table unmoved; that it was tidied up meanwhile is no movement."""
    kind, stage = set_up
    stage.reset()
    pause = Pause()
    tidying = threads.submit(kind.tidy, open_living(stage.root, Trigger(At(kind.begins), pause)))
    pause.await_arrival()
    writing = threads.submit(open_living(stage.root).ask, UPDATE)
    pause.release()
    assert tidying.result(PATIENCE_S)
    assert writing.result(PATIENCE_S).commit is not None
    content = read_content(stage.root)
    check_whole(stage.root, [content])
    check_found(stage.root)
    assert "('bob', [('age', 41), ('name', 'bob')])" in content[MAIN]["Person"]


@pytest.mark.parametrize(
    ("scene", "tidy"), [(Scene.INDEX, partial(build, order=HELD)), (Scene.OPTIMIZE, optimize)]
)
def test_what_was_planned_before_a_write_is_done_to_what_was_written(
    tmp_path: Path,
    threads: ThreadPoolExecutor,
    scene: Scene,
    tidy: Callable[[BreakableGraph], bool],
) -> None:
    """What is to be done is decided again under the lease, from what the branch shows then."""
    root = tmp_path / "g"
    set_stage(scene, root).reset()
    pause = Pause()
    writing = threads.submit(open_living(root, Trigger(At(COMMIT), pause)).ask, UPDATE)
    pause.await_arrival()
    tidying = threads.submit(tidy, open_living(root))
    pause.release()
    assert writing.result(PATIENCE_S).commit is not None
    assert tidying.result(PATIENCE_S)
    assert not tidy(open_mortal(root))
    check_whole(root, [read_content(root)])
    check_found(root)


def is_tidy(root: Path) -> bool:
    graph = open_mortal(root)
    anatomy = graph.context.stores.tables.inspect(graph.open_table(graph.snapshot(), PERSON))
    return not needs_upkeep(anatomy, write_indexes(graph.catalog, PERSON))


def test_upkeep_that_meets_a_writer_leaves_the_table_to_it(
    upkeep: Stage, threads: ThreadPoolExecutor
) -> None:
    upkeep.reset()
    pause = Pause()
    trigger = Trigger(At(PUBLISH), pause)
    graph = open_living(upkeep.root, observe=trigger.observe)
    writing = threads.submit(graph.ask, Ask("put", {"name": "new", "age": 1}))
    pause.await_arrival()
    with pytest.raises(LeaseHeld):
        open_living(upkeep.root).tidy(PERSON)
    pause.release()
    assert writing.result(PATIENCE_S).commit is not None
    assert not is_tidy(upkeep.root)
    open_living(upkeep.root).tidy(PERSON)
    content = read_content(upkeep.root)
    check_whole(upkeep.root, [content])
    check_found(upkeep.root)
    assert is_tidy(upkeep.root)
