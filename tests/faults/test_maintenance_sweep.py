"""Die at every single write of cleanup, and at one of repair: what is shown never changes.

Optimize is swept with the other ways to tidy up, in `test_tidying_faults`.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.commit.retention import RetentionPolicy
from omnigraph.engine.graph import Graph
from omnigraph.engine.maintain.cleanup import CleanupRequest
from omnigraph.engine.maintain.repair import RepairRequest
from omnigraph.storage.tables import Mark, TableRef, TableSettings
from omnigraph.testing.failpoints import Trigger, crash, fail
from omnigraph.testing.faults import Crash, CrashAt, When, sweep
from support.breaking import (
    PERSON,
    SIDE,
    Ask,
    BreakableGraph,
    open_mortal,
    populate,
    read_content,
    stores_at,
)
from support.failpoints import FAILPOINTS
from support.folders import put_back, read_folder
from support.scenes import die

CLEAN = CleanupRequest(RetentionPolicy(keep=2), is_confirmed=True, debris_age_ms=-60_000)


def prepare(root: Path) -> None:
    """Many small fragments, a branch with rows of its own, and a fork nobody shows."""
    graph = populate(root)
    graph.create_branch(SIDE)
    graph.ask(Ask("put", {"name": "sid", "age": 1}), SIDE)
    for number in range(5):
        graph.ask(Ask("put", {"name": f"p{number}", "age": number}))
    handle = graph.open_table(graph.snapshot(), PERSON)
    graph.context.stores.tables.fork(handle, "nobody")


def clean(graph: BreakableGraph) -> None:
    graph.cleanup(CLEAN)


def test_a_crash_anywhere_changes_nothing_that_is_shown(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare(root)
    files, content = read_folder(root), read_content(root)

    def attempt(fault: CrashAt) -> None:
        put_back(root, files)
        clean(open_mortal(root, fault))

    for fault in sweep(When.BEFORE, attempt):
        graph = open_mortal(root)
        graph.refresh()
        assert read_content(root) == content
        findings = [each for each in graph.examine(is_deep=True) if "fork" not in each.problem]
        assert findings == []
        if fault.step % 3 == 0 or not fault.dead:
            clean(graph)
            graph.ask(Ask("put", {"name": "later", "age": 1}))
            graph.ask(Ask("put", {"name": "later", "age": 1}), SIDE)
            clean(graph)
            assert open_mortal(root).examine(is_deep=True) == []


def test_a_retained_commit_survives_a_cleanup_that_died_anywhere(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare(root)
    files = read_folder(root)
    kept = [each.id for each in open_mortal(root).commits()[:2]]

    def rows(graph: Graph) -> list[int]:
        shown = [graph.snapshot_at_commit(each) for each in kept]
        return [graph.open_table(each, PERSON).row_count for each in shown]

    expected = rows(open_mortal(root))

    def attempt(fault: CrashAt) -> None:
        put_back(root, files)
        clean(open_mortal(root, fault))

    for _ in sweep(When.AFTER, attempt):
        assert rows(open_mortal(root)) == expected


def test_cleanup_leaves_alone_what_an_unfinished_write_needs(tmp_path: Path) -> None:
    """The sidecar is there, its writer has not been resolved yet."""
    root = tmp_path / "g"
    populate(root)
    for number in range(3):
        open_mortal(root).ask(Ask("put", {"name": f"p{number}", "age": number}))
    content = read_content(root)
    point = FAILPOINTS["cleanup.with_pending_rollback"]
    die(root, point.at, lambda graph: graph.ask(Ask("put", {"name": "x", "age": 1})))
    preview = open_mortal(root).cleanup(CleanupRequest(RetentionPolicy(keep=1)))
    assert [each.error for each in preview.tables if each.key == PERSON] == [
        "an unfinished operation names it"
    ]
    clean(open_mortal(root))
    after = read_content(root)
    assert after.keys() == content.keys()
    assert open_mortal(root).examine(is_deep=True) == []


def test_trouble_with_one_table_does_not_keep_cleanup_from_the_others(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare(root)
    trigger = Trigger(FAILPOINTS["cleanup.table_gc"].at, fail)
    result = open_mortal(root, trigger).cleanup(CLEAN)
    assert trigger.fired
    assert sum(each.error is not None for each in result.tables) == 1
    assert sum(each.versions_removed for each in result.tables) > 0
    again = open_mortal(root).cleanup(CLEAN)
    assert [each.error for each in again.tables if each.error] == []


def test_a_fork_that_cannot_be_removed_is_removed_the_next_time(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare(root)
    trigger = Trigger(FAILPOINTS["cleanup.reconcile_fork"].at, fail)
    assert open_mortal(root, trigger).cleanup(CLEAN).forks == ()
    assert len(open_mortal(root).cleanup(CLEAN).forks) == 1
    assert open_mortal(root).examine() == []


def test_if_a_branch_cannot_be_read_nothing_goes(tmp_path: Path) -> None:
    root = tmp_path / "g"
    prepare(root)
    files = read_folder(root)
    trigger = Trigger(FAILPOINTS["cleanup.resolve_branch_snapshot"].at, crash)
    with pytest.raises(Crash):
        open_mortal(root, trigger).cleanup(CLEAN)
    assert {name for name in files if "_versions" in name} <= set(read_folder(root))


def test_rivals_between_planning_and_compaction_are_kept(tmp_path: Path) -> None:
    """By a writer that had the lease before."""
    root = tmp_path / "g"
    prepare(root)
    trigger = Trigger(FAILPOINTS["optimize.before_compact"].at, crash)
    with pytest.raises(Crash):
        open_mortal(root, trigger).optimize()
    graph = open_mortal(root)
    graph.ask(Ask("put", {"name": "rival", "age": 1}))
    graph.optimize()
    assert stores_at(root).objects.list("__recovery") == []
    assert "rival" in str(read_content(root))


@pytest.mark.parametrize("when", When)
def test_a_repair_that_dies_as_it_publishes_is_done_or_can_be_done_again(
    tmp_path: Path, when: When
) -> None:
    root = tmp_path / "g"
    graph = populate(root)
    content = read_content(root)
    tables = graph.context.stores.tables
    head = tables.open_at(TableRef(graph.snapshot().pins[PERSON].path))
    odd = TableSettings(config={"somebody": "was here"})
    tables.commit_exact(tables.stage_settings(head, odd, Mark("odd")))
    assert [each.subject for each in graph.examine()] == [PERSON]
    at = replace(FAILPOINTS["repair.before_publish"].at, when=when)
    die(root, at, lambda graph: graph.repair(RepairRequest(is_confirmed=True)))
    open_mortal(root).refresh()
    assert read_content(root) == content
    open_mortal(root).repair(RepairRequest(is_confirmed=True))
    assert open_mortal(root).examine(is_deep=True) == []
    assert read_content(root) == content
    open_mortal(root).ask(Ask("put", {"name": "later", "age": 1}))
