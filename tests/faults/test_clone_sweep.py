"""Die at every write of a clone: nothing opens as a graph, and a repetition completes it."""

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Durability
from omnigraph.commit.leases.lease import Timing
from omnigraph.engine.maintain.clone import clone
from omnigraph.engine.maintain.clone_plan import CloneRequest
from omnigraph.errors import GraphExists, GraphIncomplete, GraphNotFound
from omnigraph.storage.layout import CLONE_CLAIM, LEASES
from omnigraph.testing.failpoints import At, Trigger
from omnigraph.testing.faults import Crash, CrashAt, Recorder, Watch, When, sweep, watch_stores
from support.breaking import SIDE, stores_at
from support.folders import read_folder
from support.moving import open_relaxed, read_all

STEADY = Timing(ttl_ms=600_000, heartbeat_ms=600_000)
"""No lease is renewed, so a clone is the same sequence of writes every time."""

RELAXED = Durability.RELAXED
REPEAT_EVERY = 8


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "g"
    graph = omnigraph.init(root, "node Person { name: String @key }", durability=RELAXED)
    graph.insert("Person", [{"name": "ann"}])
    graph.branch(SIDE, create=True).insert("Person", [{"name": "sid"}])
    return root


def run(source: Path, target: Path, watch: Watch) -> None:
    # The process that died here is itself alive, so its lease would be waited for.
    shutil.rmtree(target / LEASES, ignore_errors=True)
    clone(stores_at(source), watch_stores(stores_at(target), watch), CloneRequest(), STEADY)


def is_graph(root: Path) -> bool:
    try:
        open_relaxed(root, read_only=True)
    except (GraphIncomplete, GraphNotFound):
        return False
    return True


@pytest.mark.parametrize("when", list(When))
def test_a_clone_that_died_anywhere_is_no_graph_and_can_be_repeated(
    source: Path, tmp_path: Path, when: When
) -> None:
    shown = read_all(open_relaxed(source, read_only=True))
    target = tmp_path / "clone"

    def attempt(fault: CrashAt) -> None:
        shutil.rmtree(target, ignore_errors=True)
        run(source, target, fault)

    wholes = 0
    for fault in sweep(when, attempt):
        if is_graph(target):
            # It died after its last file, or not at all.
            wholes += 1
            assert read_all(open_relaxed(target, read_only=True)) == shown
            if fault.dead:
                with pytest.raises(GraphExists):
                    run(source, target, Recorder())
                assert not (target / CLONE_CLAIM).exists()
        elif fault.step % REPEAT_EVERY == 0:
            run(source, target, Recorder())
            assert read_all(open_relaxed(target)) == shown
            assert open_relaxed(target).doctor() == []
    assert 1 < wholes < 5


def test_a_repetition_after_the_source_moved_on_shows_the_new_state(
    source: Path, tmp_path: Path
) -> None:
    """Files of the first plan that the second does not name are gone."""
    old, target = tmp_path / "old", tmp_path / "clone"
    shutil.copytree(source, old)
    open_relaxed(old)
    fault = CrashAt(20, When.AFTER)
    with pytest.raises(Crash):
        run(old, target, fault)
    graph = open_relaxed(old)
    graph.branches.delete(SIDE)
    graph.insert("Person", [{"name": "new"}])
    run(old, target, Recorder())
    assert read_all(open_relaxed(target)) == read_all(open_relaxed(old))
    assert not any("tree" in name for name in read_folder(target))


def test_a_branch_that_is_deleted_meanwhile_makes_the_clone_plan_again(
    source: Path, tmp_path: Path
) -> None:
    old, target = tmp_path / "old", tmp_path / "clone"
    shutil.copytree(source, old)
    open_relaxed(old)
    trigger = Trigger(At("objects.put_over", 10), lambda _: open_relaxed(old).branches.delete(SIDE))
    run(old, target, trigger)
    assert trigger.fired
    graph = open_relaxed(target)
    assert graph.branches.list() == ("main",)
    assert read_all(graph) == read_all(open_relaxed(old))
    assert graph.doctor(deep=True) == []
