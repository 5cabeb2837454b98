"""Writes that wait for each other: one publish, and every writer told its own outcome."""

import json
import signal
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

import omnigraph
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.groups import read_touched
from omnigraph.commit.manifest.publish import Publication, publish
from omnigraph.commit.manifest.records import Commit, RowCounts
from omnigraph.commit.manifest.updates import CommitIntent
from omnigraph.effects import REAL
from omnigraph.engine.graph import Mode
from omnigraph.engine.merge.bases import find_ancestry
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.sources import Pick, PickKind
from omnigraph.engine.opening import open_in
from omnigraph.engine.settings import Settings
from omnigraph.engine.write import group_plan, write_queue
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.engine.write.queued_write import QueuedWrite
from omnigraph.errors import (
    ConstraintViolation,
    ExpectedVersionMismatch,
    HeadMoved,
    KeyConflict,
    KeyReused,
    OutcomeUnknown,
    StorageFailure,
    WriteQueueFull,
)
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, table_key
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.durability import Durability
from omnigraph.storage.stores import open_stores
from omnigraph.testing.failpoints import PUBLISH, SWAP, At, Pause, Trigger, fail
from omnigraph.testing.faults import Recorder, When, watch_stores
from omnigraph.testing.invariants import check_graph
from support.grouping import Busy, run_grouped
from support.mutations import read_tables
from support.serving import running

SCHEMA = """
node Person { name: String @key  age: I32?  mail: String? @unique }
node Other { name: String @key }
edge Knows: Person -> Person @card(0..1)
"""
PERSON = table_key("node", "Person")
OTHER = table_key("node", "Other")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[LocalGraph]:
    made = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    made.insert("Person", [{"name": "ann", "mail": "a@x"}, {"name": "bob"}], actor="before")
    yield made
    assert check_graph(open_stores(str(tmp_path / "g"), REAL)) == []


def put(graph: LocalGraph, name: str, **columns: object) -> Callable[[], MutationResult]:
    return lambda: graph.insert("Person", [{"name": name, **columns}], actor=f"of {name}")


def people(graph: LocalGraph) -> set[str]:
    return set(read_tables(graph.engine, open_stores(graph.uri, REAL))["Person"])


def members(graph: LocalGraph) -> list[Commit]:
    """The members of groups, oldest first."""
    return [each for each in reversed(graph.commits()) if each.extension.group is not None]


def place(commit: Commit) -> tuple[int, int]:
    assert commit.extension.group is not None
    return commit.extension.group.index, commit.extension.group.size


# ── one publish ──────────────────────────────────────────────────────────────────────────────────


def test_writes_that_wait_for_each_other_share_one_version_and_keep_their_commits(
    graph: LocalGraph,
) -> None:
    version = graph.engine.snapshot().manifest_version
    told = run_grouped(graph.engine, [put(graph, each) for each in "cde"])
    assert graph.engine.snapshot().manifest_version == version + 1
    found = members(graph)
    assert [each.actor for each in found] == ["of c", "of d", "of e"]
    assert [place(each) for each in found] == [(0, 3), (1, 3), (2, 3)]
    assert {each.manifest_version for each in found} == {version + 1}
    assert [each.created_at_us for each in found] == sorted({e.created_at_us for e in found})
    assert [each.commit for each in told if isinstance(each, MutationResult)] == found
    assert [each.row_counts for each in found] == [RowCounts(inserted=1)] * 3


def test_a_group_costs_one_sidecar_one_commit_of_each_table_one_swap_and_one_look(
    tmp_path: Path,
) -> None:
    omnigraph.init(tmp_path / "g", SCHEMA).insert("Person", [{"name": "ann", "mail": "a@x"}])
    calls = Recorder()
    stores = watch_stores(open_stores(str(tmp_path / "g"), REAL), calls)
    graph = LocalGraph(open_in(stores, Mode.READ_WRITE, Settings(maintenance=False)))
    calls.calls.clear()
    run_grouped(graph.engine, [put(graph, f"p{each}", mail=f"{each}@x") for each in range(12)])
    assert len(members(graph)) == 12
    assert calls.count("objects.put_over") == 1
    assert calls.count("tables.commit_exact") == 1
    assert calls.count("tables.single_step.swap_rows") == 1
    assert calls.count("tables.read") == 1, "one look at the table for twelve writes"


def test_a_lone_write_is_no_group_and_starts_no_thread(graph: LocalGraph) -> None:
    before = threading.active_count()
    seen: list[threading.Thread] = []
    graph.engine._context.observe = lambda _: seen.append(threading.current_thread())
    graph.insert("Person", [{"name": "cy"}])
    assert members(graph) == []
    assert set(seen) == {threading.current_thread()}
    assert threading.active_count() == before


def test_nothing_waits_for_each_other_if_groups_are_off(graph: LocalGraph) -> None:
    off = omnigraph.open(graph.uri, durability=Durability.RELAXED, group=False)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: put(off, name)(), "cdefgh"))
    assert people(graph) == set("cdefgh") | {"ann", "bob"}
    assert members(graph) == []


def test_parallel_updates_of_different_rows_all_succeed(graph: LocalGraph) -> None:
    graph.insert("Person", [{"name": f"p{each}", "age": 0} for each in range(8)])
    text = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
    told = run_grouped(
        graph.engine,
        [partial(graph.mutate, text, params={"n": f"p{each}", "a": each}) for each in range(8)],
    )
    assert [each.affected_nodes for each in told if isinstance(each, MutationResult)] == [1] * 8
    rows = read_tables(graph.engine, open_stores(graph.uri, REAL))["Person"]
    assert [rows[f"p{each}"]["age"] for each in range(8)] == list(range(8))


# ── members that fail ────────────────────────────────────────────────────────────────────────────


def test_a_member_that_fails_leaves_and_the_others_go_on(graph: LocalGraph) -> None:
    told = run_grouped(
        graph.engine,
        [
            put(graph, "cy", mail="c@x"),
            put(graph, "dee", mail="a@x"),  # held by ann, who was there before
            put(graph, "eve", mail="c@x"),  # held by cy, an earlier member
            put(graph, "ann"),
            put(graph, "fay"),
        ],
    )
    kinds = [type(each) for each in told]
    assert kinds == [
        MutationResult,
        ConstraintViolation,
        ConstraintViolation,
        KeyConflict,
        MutationResult,
    ]
    assert people(graph) == {"ann", "bob", "cy", "fay"}
    assert [place(each) for each in members(graph)] == [(0, 2), (1, 2)]


def test_a_write_of_an_entity_that_an_earlier_member_touched_opens_the_next_group(
    graph: LocalGraph,
) -> None:
    told = run_grouped(
        graph.engine,
        [
            put(graph, "cy"),
            put(graph, "dee"),
            lambda: graph.upsert("Person", [{"name": "cy", "age": 3}]),
            put(graph, "eve"),
        ],
    )
    assert all(isinstance(each, MutationResult) for each in told)
    assert [place(each) for each in members(graph)] == [(0, 2), (1, 2)] * 2
    rows = read_tables(graph.engine, open_stores(graph.uri, REAL))["Person"]
    assert rows["cy"]["age"] == 3


def test_a_cascade_to_an_edge_of_an_earlier_member_opens_the_next_group(graph: LocalGraph) -> None:
    told = run_grouped(
        graph.engine,
        [
            put(graph, "cy"),
            lambda: graph.insert("Knows", [{"from": "cy", "to": "bob"}]),
            lambda: graph.delete("Person", ["bob"]),
        ],
    )
    assert [each.affected_edges for each in told if isinstance(each, MutationResult)] == [0, 1, 1]
    assert [place(each) for each in members(graph)] == [(0, 2), (1, 2)]
    assert read_tables(graph.engine, open_stores(graph.uri, REAL))["Knows"] == {}


def test_a_condition_holds_only_for_the_first_member(graph: LocalGraph) -> None:
    head = graph.commits()[0].id
    told = run_grouped(
        graph.engine,
        [
            lambda: graph.insert("Person", [{"name": "cy"}], if_commit=head),
            put(graph, "dee"),
            lambda: graph.insert("Person", [{"name": "eve"}], if_commit=head),
            put(graph, "fay"),
        ],
    )
    assert [type(each) for each in told] == [
        MutationResult,
        MutationResult,
        HeadMoved,
        MutationResult,
    ]
    assert people(graph) == {"ann", "bob", "cy", "dee", "fay"}


def test_equal_keys_in_one_group_get_one_answer_or_are_refused(graph: LocalGraph) -> None:
    def keyed(name: str) -> Callable[[], MutationResult]:
        return lambda: graph.insert("Person", [{"name": name}], idempotency_key="k", actor="a")

    told = run_grouped(graph.engine, [put(graph, "cy"), keyed("dee"), keyed("dee"), keyed("eve")])
    first, second = told[1], told[2]
    assert isinstance(first, MutationResult)
    assert isinstance(second, MutationResult)
    assert first.commit == second.commit
    assert isinstance(told[3], KeyReused)
    assert people(graph) == {"ann", "bob", "cy", "dee"}


def test_a_key_without_effect_leaves_one_commit_in_a_group(graph: LocalGraph) -> None:
    absent = partial(graph.delete, "Person", ["zoe"], idempotency_key="k", actor="a")
    told = run_grouped(graph.engine, [put(graph, "cy"), absent, absent])
    assert [each.actor for each in members(graph)] == ["of cy", "a"]
    last = members(graph)[-1]
    assert [each.commit for each in told[1:] if isinstance(each, MutationResult)] == [last, last]


def test_an_update_is_told_when_another_process_moved_its_table_meanwhile(
    graph: LocalGraph,
) -> None:
    elsewhere = omnigraph.open(graph.uri, durability=Durability.RELAXED)
    text = 'query q() { update Person set { age: 1 } where name = "ann" }'
    put(graph, "cy")()
    told = run_grouped(
        graph.engine,
        [put(graph, "dee"), partial(graph.mutate, text), put(graph, "eve")],
        before_leading=put(elsewhere, "foreign"),
    )
    kinds = [type(each) for each in told]
    assert kinds == [MutationResult, ExpectedVersionMismatch, MutationResult]
    assert people(graph) == {"ann", "bob", "cy", "dee", "eve", "foreign"}


# ── when the attempt fails ───────────────────────────────────────────────────────────────────────


def failing(graph: LocalGraph, at: At, times: int = 1) -> LocalGraph:
    trigger = Trigger(at, fail, times=times)
    stores = watch_stores(open_stores(graph.uri, REAL, durability=Durability.RELAXED), trigger)
    return LocalGraph(open_in(stores, Mode.READ_WRITE, Settings(maintenance=False)))


def test_a_group_whose_attempt_fails_is_undone_and_every_member_told(graph: LocalGraph) -> None:
    broken = failing(graph, At("tables.commit_exact"))
    told = run_grouped(broken.engine, [put(broken, each) for each in "cde"])
    assert [type(each) for each in told] == [StorageFailure] * 3
    assert len({id(each) for each in told}) == 3, "each caller raises an exception of its own"
    assert people(graph) == {"ann", "bob"}


def test_a_verdict_that_rests_on_a_member_that_failed_is_decided_again(graph: LocalGraph) -> None:
    broken = failing(graph, At("tables.commit_exact"))
    told = run_grouped(
        broken.engine, [put(broken, "cy", mail="c@x"), put(broken, "dee", mail="c@x")]
    )
    assert [type(each) for each in told] == [StorageFailure, MutationResult]
    assert people(graph) == {"ann", "bob", "dee"}


def test_each_member_is_told_its_own_commit_if_the_outcome_is_unknown(graph: LocalGraph) -> None:
    broken = failing(graph, At(SWAP, when=When.BEFORE), times=100)
    told = run_grouped(broken.engine, [put(broken, each) for each in "cd"])
    unknown = [each for each in told if isinstance(each, OutcomeUnknown)]
    assert len(unknown) == 2
    assert len({each.commit_id for each in unknown}) == 2
    assert len({each.operation_id for each in unknown}) == 1
    graph.insert("Person", [{"name": "next"}])
    landed = [each for each in members(graph) if each.id in {e.commit_id for e in unknown}]
    assert len(landed) in {0, 2}, "recovery takes all or none"
    assert people(graph) >= ({"c", "d"} if landed else set())


def test_a_head_that_moves_before_the_swap_costs_only_the_member_that_named_it(
    graph: LocalGraph,
) -> None:
    head = graph.commits()[0].id
    context = graph.engine._context

    def move(step: str) -> None:
        if step == "publish":
            context.observe = lambda _: None
            intent = CommitIntent(id=CommitId(REAL.new_id()), created_at_us=REAL.now_ms() * 1000)
            publish(context.stores, context.bases, Publication(MAIN, (intent,)))

    context.observe = move
    told = run_grouped(
        graph.engine,
        [
            lambda: graph.insert("Person", [{"name": "cy"}], if_commit=head),
            put(graph, "dee"),
            put(graph, "eve"),
        ],
    )
    assert [type(each) for each in told] == [HeadMoved, MutationResult, MutationResult]
    assert people(graph) == {"ann", "bob", "dee", "eve"}


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


def test_a_full_queue_refuses_more_writes(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "WAITING_MAX", 2)
    told = run_grouped(graph.engine, [put(graph, each) for each in "cde"])
    assert [type(each) for each in told] == [MutationResult, MutationResult, WriteQueueFull]
    assert people(graph) == {"ann", "bob", "c", "d"}


def test_a_queue_that_holds_too_many_bytes_refuses_more_writes(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "WAITING_BYTES_MAX", 200)
    small, large = put(graph, "c"), put(graph, "d" * 300)
    told = run_grouped(graph.engine, [large, small])
    assert [type(each) for each in told] == [WriteQueueFull, MutationResult]


@pytest.mark.parametrize(
    ("module", "bound", "most", "sizes"),
    [
        pytest.param(write_queue, "WRITES_MAX", 2, [2, 2, 1], id="writes"),
        pytest.param(write_queue, "GROUP_BYTES_MAX", 1, [1, 1, 1, 1, 1], id="bytes"),
        pytest.param(group_plan, "ROWS_MAX", 3, [3, 2], id="rows"),
        pytest.param(group_plan, "DECIDE_MS_MAX", -1, [1, 1, 1, 1, 1], id="time"),
    ],
)
def test_a_group_ends_at_its_bounds_and_the_rest_is_served_in_the_order_of_arrival(
    graph: LocalGraph,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    bound: str,
    most: int,
    sizes: list[int],
) -> None:
    monkeypatch.setattr(module, bound, most)
    before = len(graph.commits())
    told = run_grouped(graph.engine, [put(graph, each) for each in "gfedc"])
    assert [type(each) for each in told] == [MutationResult] * 5
    made = list(reversed(graph.commits()[:-before]))
    assert [each.actor for each in made] == [f"of {each}" for each in "gfedc"]
    versions = Counter(each.manifest_version for each in made)
    assert [versions[each] for each in sorted(versions)] == sizes


def test_a_large_write_joins_no_group(graph: LocalGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "ALONE_BYTES", 50)
    run_grouped(graph.engine, [put(graph, "c"), put(graph, "x" * 100), put(graph, "d")])
    assert [each.actor for each in members(graph)] == ["of c", "of d"]
    assert "x" * 100 in people(graph)


def test_a_busy_branch_does_not_hold_up_another_branch(graph: LocalGraph) -> None:
    graph.branches.create("side")
    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None
    assert graph.insert("Person", [{"name": "cy"}], branch="side").commit is not None
    queue._leave(lane)


def test_a_table_that_another_operation_locks_does_not_hold_up_the_others(
    graph: LocalGraph,
) -> None:
    with ThreadPoolExecutor(2) as pool:
        with acquire_write_locks(graph.engine._context, MAIN, [PERSON]):
            waiting = pool.submit(put(graph, "cy"))
            other = pool.submit(lambda: graph.insert("Other", [{"name": "x"}]))
            assert other.result(120).affected_nodes == 1
            assert not waiting.done()
        assert waiting.result(120).affected_nodes == 1


def test_a_lease_that_another_process_holds_does_not_hold_up_other_tables(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "PATIENCE_MS", 50)
    elsewhere = omnigraph.open(graph.uri, durability=Durability.RELAXED).engine._context
    with ThreadPoolExecutor(4) as pool:
        with elsewhere.leases.hold([LockKey(PERSON, MAIN)], OperationId(REAL.new_id())):
            waiting = [pool.submit(put(graph, each)) for each in "cd"]
            other = pool.submit(lambda: graph.insert("Other", [{"name": "x"}]))
            assert other.result(120).affected_nodes == 1
        assert [each.result(120).affected_nodes for each in waiting] == [1, 1]


def test_a_group_goes_on_without_the_table_that_another_process_holds(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "PATIENCE_MS", 50)
    elsewhere = omnigraph.open(graph.uri, durability=Durability.RELAXED).engine._context
    is_written = threading.Event()

    def write_other() -> MutationResult:
        written = graph.insert("Other", [{"name": "x"}])
        is_written.set()
        return written

    with ThreadPoolExecutor(1) as pool:
        with elsewhere.leases.hold([LockKey(PERSON, MAIN)], OperationId(REAL.new_id())):
            calls = [put(graph, "c"), put(graph, "d"), write_other]
            told = pool.submit(run_grouped, graph.engine, calls)
            assert is_written.wait(120), "the group waits for the table of other writes"
            assert people(graph) == {"ann", "bob"}
        assert [type(each) for each in told.result(120)] == [MutationResult] * 3
    assert people(graph) == {"ann", "bob", "c", "d"}


def test_writes_of_the_same_table_join_a_group_that_waits_for_its_turn(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "PATIENCE_MS", 20_000)
    elsewhere = omnigraph.open(graph.uri, durability=Durability.RELAXED).engine._context
    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None
    calls = [put(graph, "d"), put(graph, "e"), lambda: graph.insert("Other", [{"name": "x"}])]
    with ThreadPoolExecutor(4) as pool:
        with elsewhere.leases.hold([LockKey(PERSON, MAIN)], OperationId(REAL.new_id())):
            told = [pool.submit(put(graph, "c"))]
            await_length(lane, 1)
            queue._leave(lane)
            await_length(lane, 0)  # the group has begun, and waits for the other process
            for number, each in enumerate(calls, 1):
                told.append(pool.submit(each))
                await_length(lane, number)
        commits = [each.result(120).commit for each in told]
    assert members(graph) == commits[:3]
    assert [place(each) for each in members(graph)] == [(0, 3), (1, 3), (2, 3)]
    assert commits[3] is not None, "a write of a table that is not locked is in the next group"


def await_length(lane: write_queue.Lane, length: int) -> None:
    while len(lane.waiting) != length:
        REAL.sleep_ms(1)


def test_the_first_write_after_a_group_waits_for_company_instead_of_going_alone(
    graph: LocalGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "COMPANY_S", 60)
    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None
    with ThreadPoolExecutor(2) as pool:
        told = [pool.submit(put(graph, each)) for each in "cd"]
        await_length(lane, 2)
        queue._leave(lane)
        assert [each.result(120).affected_nodes for each in told] == [1, 1]
    seen: list[str] = []
    graph.engine._context.observe = lambda _: seen.append(threading.current_thread().name)
    graph.insert("Person", [{"name": "e"}])
    assert set(seen) == {f"group {MAIN}"}
    graph.engine._context.observe = lambda _: None
    while queue._lanes:
        REAL.sleep_ms(1)  # a group of one brings no company
    assert len(members(graph)) == 2


def interrupt_main() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_before_the_group_is_taken_withdraws_the_write(graph: LocalGraph) -> None:
    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None

    def press() -> None:
        while not lane.waiting:
            REAL.sleep_ms(1)
        interrupt_main()

    with ThreadPoolExecutor(1) as pool:
        pressed = pool.submit(press)
        with pytest.raises(KeyboardInterrupt):
            put(graph, "cy")()
        pressed.result()
    queue._leave(lane)
    assert people(graph) == {"ann", "bob"}
    put(graph, "dee")()


@pytest.mark.parametrize("has_joined", [False, True])
def test_ctrl_c_while_a_write_joins_withdraws_it(graph: LocalGraph, *, has_joined: bool) -> None:
    class Interrupted(deque[QueuedWrite]):
        def append(self, write: QueuedWrite) -> None:
            if has_joined:
                super().append(write)
            raise KeyboardInterrupt

    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None
    lane.waiting = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        put(graph, "cy")()
    queue._leave(lane)
    assert people(graph) == {"ann", "bob"}
    put(graph, "dee")()
    assert people(graph) == {"ann", "bob", "dee"}


def test_ctrl_c_after_arming_is_raised_with_the_outcome_and_stops_no_other_member(
    graph: LocalGraph,
) -> None:
    pause = Pause()
    trigger = Trigger(At(PUBLISH), pause)
    graph.engine._context.observe = trigger.observe
    told: list[object] = []

    def press() -> None:
        pause.await_arrival()
        interrupt_main()
        REAL.sleep_ms(20)
        pause.release()

    queue = graph.engine._queue
    assert queue is not None
    lane = queue._enter(MAIN, (), None)
    assert lane is not None

    def release() -> None:
        while len(lane.waiting) < 2:
            REAL.sleep_ms(1)
        queue._leave(lane)

    with ThreadPoolExecutor(3) as pool:
        other = pool.submit(put(graph, "dee"))
        pool.submit(press)
        pool.submit(release)
        with pytest.raises(KeyboardInterrupt):
            told.append(put(graph, "cy")())
        assert other.result().affected_nodes == 1
    assert people(graph) == {"ann", "bob", "cy", "dee"}, "it was armed, so it is there"


# ── history ──────────────────────────────────────────────────────────────────────────────────────


def test_each_member_has_its_own_changes_and_the_state_is_that_of_the_last(
    graph: LocalGraph,
) -> None:
    run_grouped(graph.engine, [put(graph, each) for each in "cde"])
    found = members(graph)
    for each, name in zip(found, "cde", strict=True):
        changes = graph.commit_changes(each.id).changes
        assert [(change.id, change.op) for change in changes] == [(name, "insert")]
    shown = graph.engine.snapshot_at_commit(found[0].id)
    assert shown.commit == found[-1]
    asked = graph.query("query q() { match { $p: Person } return { $p.name } }", commit=found[0].id)
    assert len(asked.rows()) == 5
    assert asked.target.snapshot == found[-1].id, "it says which commit it shows"
    graph.branches.create("side", commit=found[1].id)
    assert graph.commits("side")[0] == found[-1]


def test_a_feed_that_stops_within_a_group_goes_on_with_its_next_member(graph: LocalGraph) -> None:
    run_grouped(graph.engine, [put(graph, each) for each in "cde"])
    page = graph.changes(start=f"after:{members(graph)[0].parent}", commits_max=2)
    assert [[change.id for change in each.changes] for each in page.blocks] == [["c"], ["d"]]
    rest = graph.changes(page.cursor)
    assert [[change.id for change in each.changes] for each in rest.blocks] == [["e"]]
    assert rest.caught_up


def test_what_a_member_touched_lies_beside_the_graph_if_it_is_long(graph: LocalGraph) -> None:
    def many(letter: str) -> Callable[[], MutationResult]:
        rows = [{"name": f"{letter}{each:04}"} for each in range(300)]
        return lambda: graph.insert("Person", rows)

    run_grouped(graph.engine, [many("c"), put(graph, "dee"), many("e")])
    first, second, third = members(graph)
    objects = graph.objects
    assert [each.key.partition("/")[0] for each in objects.list("__groups")] == ["__groups"]
    touched = [read_touched(objects, each) for each in (first, second, third)]
    assert [len(each[PERSON]) for each in touched if each is not None] == [300, 1, 300]
    assert len(graph.commit_changes(third.id, limit=1000).changes) == 300


def test_cleanup_keeps_a_group_whole_with_the_state_before_it(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", SCHEMA, durability=Durability.RELAXED)
    rows = [{"name": f"x{each:04}"} for each in range(300)]
    run_grouped(graph.engine, [put(graph, "c"), lambda: graph.insert("Person", rows)])
    run_grouped(graph.engine, [put(graph, "d"), lambda: graph.delete("Person", ["x0001"])])
    graph.cleanup(keep=1, confirm=True)
    *_, first, second = members(graph)
    for each, changed in ((first, "d"), (second, "x0001")):
        assert [change.id for change in graph.commit_changes(each.id).changes] == [changed]


def test_a_tag_on_a_member_names_the_last_one(graph: LocalGraph) -> None:
    run_grouped(graph.engine, [put(graph, each) for each in "cd"])
    first, last = members(graph)
    assert graph.engine.create_tag("v1", first.id).commit_id == last.id


def test_a_merge_base_within_a_group_is_its_last_member(graph: LocalGraph) -> None:
    run_grouped(graph.engine, [put(graph, each) for each in "cd"])
    first, last = members(graph)
    graph.branches.create("side")
    graph.insert("Person", [{"name": "on side"}], branch="side")
    graph.insert("Person", [{"name": "on main"}])
    source, target = (graph.engine._bases.current(BranchName(each)) for each in ("side", "main"))
    stores = open_stores(graph.uri, REAL)
    found = find_ancestry(stores, source.manifest, target.manifest, base=first.id)
    assert [each.id for each in found.bases] == [last.id]


def test_the_history_of_an_entity_names_the_member_that_touched_it(graph: LocalGraph) -> None:
    run_grouped(graph.engine, [put(graph, each) for each in "cde"])
    graph.upsert("Person", [{"name": "d", "age": 4}], actor="later")
    revisions = list(graph.engine.revisions("Person", "d"))
    assert [each.commit.actor for each in revisions] == ["later", "of d"]
    origins = {
        each.name: each.commit and each.commit.actor for each in graph.engine.blame("Person", "d")
    }
    assert origins == {"name": "of d", "age": "later", "mail": "of d"}


@pytest.mark.parametrize("kind", PickKind)
def test_one_member_is_reverted_or_picked_without_the_others(
    graph: LocalGraph, kind: PickKind
) -> None:
    graph.branches.create("side")
    run_grouped(
        graph.engine,
        [put(graph, "c"), put(graph, "d"), lambda: graph.delete("Person", ["bob"])],
    )
    second = members(graph)[1]
    into = MAIN if kind is PickKind.REVERT else BranchName("side")
    pick = Pick(kind, second.id)
    graph.engine.pick(pick, MergeRequest(pick.label, into))
    rows = read_tables(graph.engine, open_stores(graph.uri, REAL), into)["Person"]
    expected = {"ann", "c"} if kind is PickKind.REVERT else {"ann", "bob", "d"}
    assert set(rows) == expected


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────────


def send(url: str, name: str) -> socket.socket:
    """A connection on which a write was asked for, and not answered yet."""
    body = json.dumps({"query": f'query w() {{ insert Person {{ name: "{name}" }} }}'}).encode()
    head = f"POST /graphs/g/mutate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    place = url.removeprefix("http://").partition(":")
    caller = socket.create_connection((place[0], int(place[2])), timeout=60)
    caller.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return caller


@pytest.mark.parametrize("moment", ["waiting", "arm", "publish", "disarm"])
def test_a_connection_that_closes_inside_a_group_leaves_the_others_alone(
    tmp_path: Path, moment: str
) -> None:
    root = tmp_path / "g"
    omnigraph.init(root, SCHEMA).insert("Other", [{"name": "before"}])
    with running(Flags(graphs=(f"g={root}",), unauthenticated=True)) as server:
        engine = server.runtime.current.graphs["g"].graph.engine
        opened: dict[str, socket.socket] = {}

        def write(name: str) -> bytes:
            opened[name] = send(server.url, name)
            with suppress(OSError):
                return opened[name].recv(65_536)
            return b""

        def leave(step: str = "waiting") -> None:
            if step == moment:
                opened["d"].shutdown(socket.SHUT_RDWR)
                opened["d"].close()
                REAL.sleep_ms(50)

        engine._context.observe = leave
        told = Busy(engine).run([partial(write, each) for each in "cde"], before_leading=leave)
        for caller in opened.values():
            caller.close()
    answers = [each.result() for each in told]
    assert [each[:12] for each in answers] == [b"HTTP/1.1 200", b"", b"HTTP/1.1 200"]
    graph = omnigraph.open(root)
    assert people(graph) == {"c", "d", "e"}, "nobody takes back what its group wrote"
    assert [place(each) for each in members(graph)] == [(0, 3), (1, 3), (2, 3)]
    assert check_graph(open_stores(str(root), REAL)) == []
