"""Every named failpoint: the store fails there, the process dies there, is killed there for real.

What must hold afterwards is the same for all of them, and a few have a story of their own.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import sleep

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.recovery import audit
from omnigraph.commit.recovery.audit import Recovery, RecoveryKind, read_audit
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.engine.write.idempotency import parse_key
from omnigraph.engine.write.mutate import WriteRequest
from omnigraph.errors import (
    BranchNotFound,
    Contention,
    OutcomeUnknown,
    StorageFailure,
)
from omnigraph.ids import MAIN, CommitId, OperationId
from omnigraph.storage.tables import IndexKind, IndexScope, IndexSpec, Mark, TableRef
from omnigraph.testing.failpoints import (
    PATIENCE_S,
    PUBLISH,
    SWAP,
    Act,
    At,
    Pause,
    Trigger,
    crash,
    fail,
)
from omnigraph.testing.faults import STRIDE, Crash, Recorder
from support.breaking import (
    COMPANY,
    EVERY,
    KNOWS,
    PAIR,
    SIDE,
    WORKS,
    Ask,
    check_lasting,
    check_whole,
    find_debris,
    find_orphans,
    open_living,
    open_mortal,
    read_content,
    slip_in,
    stores_at,
    with_rival,
)
from support.failpoints import FAILPOINTS, Failpoint, MergeScene, Scene, Story, points_of
from support.processes import Died, launch
from support.scenes import Stage, act, act_for, die, play_to_death, set_stage

CATALOGUE = frozenset(
    {
        "branch_create.after_manifest_branch_create",
        "branch_delete.before_commit_graph_reclaim",
        "branch_delete.before_table_cleanup",
        "fork.before_classify",
        "fork.before_reclaim",
        "classify.fresh_read",
        "mutation.delete_node_pre_primary_delete",
        "mutation.post_finalize_pre_publisher",
        "graph_publish.before_commit_append",
        "graph_publish.after_manifest_commit",
        "publish.load_state_retryable_contention",
        "recovery.sidecar_write",
        "recovery.sidecar_confirm",
        "recovery.sidecar_delete",
        "recovery.sidecar_list",
        "recovery.before_roll_forward_publish",
        "recovery.record_audit",
        "recovery.orphan_discard_audit_append",
        "ensure_indices.post_stage_pre_commit_btree",
        "ensure_indices.after_index_k",
        "ensure_indices.post_phase_b_pre_manifest_commit",
        "optimize.before_compact",
        "optimize.post_phase_b_pre_manifest_commit",
        "fork.after_ref_pre_sidecar",
        "sidecar.after_put_pre_first_commit",
        "sidecar.torn_put",
        "commit.after_table_k",
        "commit.achieved_not_expected",
        "mutation.after_index_build_pre_publish",
        "delete.after_primary_pre_cascade",
        "delete.zero_rows",
        "publish.after_load_pre_merge",
        "publish.lost_ack",
        "publish.contention_exhausted",
        "recovery.after_restore_k",
        "recovery.after_restores_pre_publish",
        "recovery.rollback_publish_conflict",
        "recovery.after_audit_pre_delete",
        "recovery.live_foreign_writer",
        "recovery.lease_expired",
        "optimize.after_rewrite",
        "optimize.after_reindex",
        "branch_delete.with_live_writer",
        "branch.recreated_same_name",
        "audit.create_race",
        "relocate.after_crash",
        "schema_apply.before_staging_write",
        "schema_apply.after_staging_write",
        "schema_apply.after_manifest_commit",
        "schema.after_lock",
        "schema.after_added_table",
        "schema.after_pg_staging",
        "schema.after_ir_staging",
        "schema.after_rename_k",
        "schema.metadata_only_after_staging",
        "schema.after_rename_pre_delete",
        "schema.before_hard_gc",
        "schema.before_lock_release",
        "optimize.after_strip",
        "optimize.inject_reindex_conflict",
        "cleanup.table_gc",
        "cleanup.reconcile_fork",
        "cleanup.resolve_branch_snapshot",
        "cleanup.inherited_branch_pin",
        "cleanup.with_pending_rollback",
        "repair.before_publish",
        "init.after_schema_pg_written",
        "init.after_schema_contract_written",
        "init.after_coordinator_init",
        "migration.v3_to_v4.legacy_open",
        "migration.v4_stamp.force_incompatible",
        "branch_merge.adopt_after_append_pre_upsert",
        "branch_merge.adopt_after_upsert_pre_delete",
        "branch_merge.rewrite_after_merge_pre_delete",
        "branch_merge.rewrite_after_delete_pre_index",
        "branch_merge.post_phase_b_pre_manifest_commit",
        "merge.after_sidecar_pre_fork",
        "merge.after_fork_pre_commit",
        "merge.after_table_k",
        "merge.after_confirm_mixed",
        "merge.pointer_only",
        "merge.target_advanced_by_other_process",
        "merge.net_zero",
        "merge.lost_ack",
    }
)
"""All there have to be. Those of merges are driven in `test_merge_sweep`, those of a story where it
is told."""

TESTS = Path(__file__).parents[1]

GONE_FOR_GOOD = frozenset({Scene.DELETE_BRANCH, Scene.CLEANUP})
"""Nobody writes to the branch again, so its forks are left for the next cleanup."""


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[Scene, Stage]:
    folder = tmp_path_factory.mktemp("scenes")
    return {each: set_stage(each, folder / each.name / "g") for each in Scene}


@pytest.fixture(params=points_of(Scene).values(), ids=list(points_of(Scene)))
def point(request: pytest.FixtureRequest) -> Failpoint:
    found = request.param
    assert isinstance(found, Failpoint)
    return found


def scene_of(stages: dict[Scene, Stage], scene: Scene | MergeScene | Story) -> Stage:
    assert isinstance(scene, Scene)
    stages[scene].reset()
    return stages[scene]


def arrive(point: Failpoint, root: Path, how: Act, times: int = 1) -> Trigger:
    """Act the scene of a failpoint, as a process that counts as dead once it stops."""
    trigger = Trigger(point.at, how, times)
    act_for(point, open_mortal(root, trigger, observe=trigger.observe))
    return trigger


def check_after_death(point: Failpoint, stage: Stage) -> None:
    """The next writer heals; then everything is as before, or as if nothing had happened."""
    open_mortal(stage.root).refresh()
    is_cleaned = point.scene is Scene.CLEANUP
    found = check_whole(stage.root, stage.allowed, is_cleaned=is_cleaned)
    if stage.before != stage.after:
        assert bool(found) is (point.is_done)
    check_lasting(stage.root, is_cleaned=is_cleaned)
    if point.scene not in GONE_FOR_GOOD:
        assert list(find_orphans(stores_at(stage.root))) == []


# ── all of them ──────────────────────────────────────────────────────────────────────────────────


def test_the_registry_holds_the_whole_catalogue_and_nothing_else() -> None:
    assert {re.sub(r"_\d$", "_k", name) for name in FAILPOINTS} == CATALOGUE


def test_every_failpoint_that_is_registered_is_driven_and_none_is_driven_that_is_not() -> None:
    """All of a kind or of a story at once, or one by its name."""
    source = "".join(each.read_text() for each in TESTS.rglob("test_*.py"))
    named = set(re.findall(r'FAILPOINTS\[\s*"([^"]+)"\s*\]', source))
    assert named <= FAILPOINTS.keys()
    swept = set(re.findall(r"points_of\(([\w.]+)\)", source))
    for name, each in FAILPOINTS.items():
        kind = type(each.scene).__name__
        assert swept & {kind, f"{kind}.{each.scene.name}"} or name in named, f"nobody drives {name}"
    assert {*Scene, *MergeScene, *Story} == {each.scene for each in FAILPOINTS.values()}


def test_dying_at_a_failpoint_leaves_the_old_commit_or_the_new_one(
    stages: dict[Scene, Stage], point: Failpoint
) -> None:
    stage = scene_of(stages, point.scene)
    with pytest.raises(Crash):
        arrive(point, stage.root, crash)
    check_after_death(point, stage)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(points_of(Scene))[::STRIDE])
def test_being_killed_at_a_failpoint_leaves_the_old_commit_or_the_new_one(
    stages: dict[Scene, Stage], name: str
) -> None:
    """Some of them by default: a process takes a second to start, and dies as a crash does."""
    point = FAILPOINTS[name]
    stage = scene_of(stages, point.scene)
    victim = launch(play_to_death, stage.root, point.name)
    victim.await_ready()
    victim.begin()
    outcome = victim.finish(300)
    assert isinstance(outcome, Died), outcome
    assert outcome.exit_code == -9, outcome.report
    check_after_death(point, stage)


@pytest.mark.slow
def test_a_store_that_fails_at_a_failpoint_leaves_all_or_nothing_and_a_graph_that_works(
    stages: dict[Scene, Stage], point: Failpoint
) -> None:
    """The process lives on, and so must the very graph that saw the failure."""
    stage = scene_of(stages, point.scene)
    trigger = Trigger(point.at, fail)
    graph = open_living(stage.root, trigger, observe=trigger.observe)
    with suppress(OutcomeUnknown):
        try:
            act_for(point, graph)
        except StorageFailure:
            # A failure that is reported as one is over: nothing is left to be done about it,
            # unless it was about what another had left.
            is_recovery = point.scene in (Scene.FORWARD, Scene.BACK, Scene.DISCARD)
            assert is_recovery or find_sidecars(stores_at(stage.root).objects) == ()
    assert trigger.fired == 1
    recovered = graph.refresh()
    is_cleaned = point.scene is Scene.CLEANUP
    check_whole(stage.root, stage.allowed, is_cleaned=is_cleaned)
    if RecoveryKind.ROLLED_FORWARD in {each.kind for each in recovered}:
        assert read_content(stage.root) == stage.after
    graph.ask(EVERY)
    check_lasting(stage.root, is_cleaned=is_cleaned)
    if point.scene not in GONE_FOR_GOOD:
        assert list(find_orphans(stores_at(stage.root))) == []


# ── the ways to act ──────────────────────────────────────────────────────────────────────────────


def test_a_trigger_acts_so_many_times_and_then_never_again() -> None:
    trigger = Trigger(At("a", 2, since="b"), fail, times=2)

    def survives(call: str) -> bool:
        try:
            trigger.before(call, is_write=False)
        except StorageFailure:
            return False
        return True

    assert [survives(each) for each in "aabaaaaa"] == [*[True] * 4, False, False, True, True]
    assert trigger.fired == 2


def test_a_pause_nobody_arrives_at_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.testing.failpoints.PATIENCE_S", 0.01)
    with pytest.raises(AssertionError, match="no thread arrived"):
        Pause().await_arrival()
    with pytest.raises(AssertionError, match="the test did not release there"):
        Pause()("there")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


# ── stories of their own ─────────────────────────────────────────────────────────────────────────


def test_half_a_sidecar_is_no_sidecar(stages: dict[Scene, Stage]) -> None:
    stage = scene_of(stages, Scene.WRITE)

    def tear(where: str) -> None:
        (stage.root / "__recovery").mkdir(exist_ok=True)
        (stage.root / "__recovery" / "01TORN.json#1").write_bytes(b'{"schema_vers')
        raise Crash(where)

    with pytest.raises(Crash):
        arrive(FAILPOINTS["sidecar.torn_put"], stage.root, tear)
    assert heal(open_mortal(stage.root).context) == ()
    check_whole(stage.root, [stage.before])
    check_lasting(stage.root)


def test_a_living_writer_is_left_alone(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    stage = scene_of(stages, Scene.WRITE)
    pause = Pause()
    trigger = Trigger(FAILPOINTS["recovery.live_foreign_writer"].at, pause)
    writing = threads.submit(open_living(stage.root, trigger).ask, PAIR)
    pause.await_arrival()
    stranger = open_living(stage.root)
    assert stranger.refresh() == ()
    (pending,) = stranger.pending_writes()
    assert pending.is_alive
    # Tables it does not write can be written meanwhile.
    slip_in(stranger.context, KNOWS)
    pause.release()
    assert writing.result(PATIENCE_S).commit is not None
    check_whole(stage.root, [with_rival(stage.after, KNOWS)])
    assert read_audit(stores_at(stage.root)).num_rows == 0


def test_a_living_writer_that_moves_no_table_is_left_alone_too(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    """It holds the tables that it might have moved, and is looked for under its branch."""
    stage = scene_of(stages, Scene.WRITE)
    pause = Pause()
    writer = open_living(stage.root, Trigger(At(SWAP), pause))
    order = WriteRequest(idempotency=parse_key("key", "nothing"))
    writing = threads.submit(writer.remove_rows, "Company", ["nobody"], request=order)
    pause.await_arrival()
    stranger = open_living(stage.root)
    assert stranger.refresh() == ()
    (pending,) = stranger.pending_writes()
    assert pending.is_alive
    pause.release()
    commit = writing.result(PATIENCE_S).commit
    assert commit is not None
    assert next(iter(stranger.commits())).id == commit.id
    assert read_audit(stores_at(stage.root)).num_rows == 0


def test_maintenance_that_slips_in_before_a_commit_is_carried_along(
    stages: dict[Scene, Stage],
) -> None:
    """The only thing that does not conflict with a data commit, and it changes no row."""
    stage = scene_of(stages, Scene.WRITE)
    stores = stores_at(stage.root)

    def build_index(where: str) -> None:  # noqa: ARG001 - an act
        path = Bases(stores).current(MAIN).manifest.paths[COMPANY]
        handle = stores.tables.open_at(TableRef(path))
        spec = [IndexSpec("id", IndexKind.BTREE)]
        staged = stores.tables.stage_indices(handle, spec, IndexScope.UNCOVERED, Mark("by-hand"))
        assert staged is not None
        stores.tables.commit_exact(staged)

    arrive(FAILPOINTS["commit.achieved_not_expected"], stage.root, build_index)
    assert check_whole(stage.root, stage.allowed)
    check_lasting(stage.root)


def test_a_cascade_that_finds_no_edges_moves_no_edge_table(stages: dict[Scene, Stage]) -> None:
    stage = scene_of(stages, Scene.DELETE_LONER)
    before = open_mortal(stage.root).snapshot().pins
    act(Scene.DELETE_LONER, open_mortal(stage.root))
    after = open_mortal(stage.root).snapshot().pins
    assert [after[key] for key in (KNOWS, WORKS)] == [before[key] for key in (KNOWS, WORKS)]
    assert check_whole(stage.root, stage.allowed)


@pytest.mark.parametrize(
    "name", ["publish.after_load_pre_merge", "graph_publish.before_commit_append"]
)
def test_whoever_loses_the_race_to_publish_comes_after_the_winner(
    stages: dict[Scene, Stage], name: str
) -> None:
    stage = scene_of(stages, Scene.WRITE)
    rival = open_mortal(stage.root)
    arrive(FAILPOINTS[name], stage.root, lambda _: slip_in(rival.context, KNOWS))
    check_whole(stage.root, [with_rival(stage.after, KNOWS)])
    newest, second = open_mortal(stage.root).commits()[:2]
    assert (newest.actor, second.actor, newest.parent) == ("writer", "rival", second.id)


def test_losing_every_race_is_a_conflict_and_undone(stages: dict[Scene, Stage]) -> None:
    stage = scene_of(stages, Scene.WRITE)
    rival = open_mortal(stage.root)
    point = FAILPOINTS["publish.contention_exhausted"]
    with pytest.raises(Contention):
        arrive(point, stage.root, lambda _: slip_in(rival.context, KNOWS), times=6)
    check_whole(stage.root, [with_rival(stage.before, KNOWS, times=6)])
    check_lasting(stage.root)


def test_a_lost_reply_is_recognised_and_the_write_acknowledged_once(
    stages: dict[Scene, Stage],
) -> None:
    stage = scene_of(stages, Scene.WRITE)
    arrive(FAILPOINTS["publish.lost_ack"], stage.root, fail)
    assert check_whole(stage.root, stage.allowed)
    assert [each.actor for each in open_mortal(stage.root).commits()].count("writer") == 2
    assert read_audit(stores_at(stage.root)).num_rows == 0


def test_the_second_first_writer_of_a_branch_waits_for_the_first(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    stage = scene_of(stages, Scene.FIRST_WRITE)
    pause = Pause()
    trigger = Trigger(FAILPOINTS["fork.before_classify"].at, pause)
    first = threads.submit(
        open_living(stage.root, trigger, observe=trigger.observe).ask, PAIR, SIDE
    )
    pause.await_arrival()
    second = threads.submit(open_living(stage.root).ask, Ask("pair", {"a": "zoe"}), SIDE)
    pause.release()
    assert first.result(PATIENCE_S).commit is not None
    assert second.result(PATIENCE_S).commit is not None
    content = read_content(stage.root)
    check_whole(stage.root, [content])
    people = content[SIDE]["Person"].keys()
    assert len(people - stage.before[SIDE]["Person"].keys()) == 2
    assert content[MAIN] == stage.before[MAIN]


def test_a_waiter_that_died_in_line_is_in_nobodys_way(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    stage = scene_of(stages, Scene.WRITE)
    pause = Pause()
    trigger = Trigger(At(PUBLISH), pause)
    holding = threads.submit(open_living(stage.root, observe=trigger.observe).ask, PAIR)
    pause.await_arrival()
    # It looks whether there is a line, gets in line, is next, and dies while it looks at the lease.
    waiter = Trigger(At("volatile.read", 6), crash)
    with pytest.raises(Crash):
        open_mortal(stage.root, waiter).ask(PAIR)
    pause.release()
    assert holding.result(PATIENCE_S).commit is not None
    assert len(list(find_debris(stores_at(stage.root)))) == 1
    open_living(stage.root).ask(EVERY)
    assert list(find_debris(stores_at(stage.root))) == []


def test_who_waited_for_a_writer_that_broke_off_finishes_it_first(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    """It gave its leases back and left its note; the one who gets them looked for notes before."""
    stage = scene_of(stages, Scene.WRITE)
    pause = Pause()

    def break_off(where: str) -> None:
        pause(where)
        raise ZeroDivisionError(where)

    trigger = Trigger(At(PUBLISH), break_off)
    breaking = threads.submit(open_living(stage.root, observe=trigger.observe).ask, PAIR)
    pause.await_arrival()
    arrived = Recorder()
    waiting = threads.submit(open_living(stage.root, arrived).ask, Ask("pair", {"a": "zoe"}))
    while not arrived.count("volatile.put_new"):
        sleep(0.005)
    pause.release()
    with pytest.raises(ZeroDivisionError):
        breaking.result(PATIENCE_S)
    assert waiting.result(PATIENCE_S).commit is not None
    content = read_content(stage.root)
    check_whole(stage.root, [content])
    people = content[MAIN]["Person"].keys()
    assert len(people - stage.before[MAIN]["Person"].keys()) == 2, "what had moved whole is there"
    assert read_audit(stores_at(stage.root)).num_rows == 1


def test_a_branch_deleted_under_its_writer_is_a_conflict_and_its_name_can_be_used_again(
    stages: dict[Scene, Stage],
) -> None:
    stage = scene_of(stages, Scene.FIRST_WRITE)
    stranger = open_mortal(stage.root)
    point = FAILPOINTS["branch_delete.with_live_writer"]
    with pytest.raises(BranchNotFound):
        arrive(point, stage.root, lambda _: stranger.delete_branch(SIDE))
    assert check_whole(stage.root, [{MAIN: stage.before[MAIN]}]) == 0
    open_mortal(stage.root).create_branch(SIDE)
    check_whole(stage.root, [stage.before])
    check_lasting(stage.root)
    assert list(find_orphans(stores_at(stage.root))) == []


def test_two_that_resolve_one_sidecar_resolve_it_once(
    stages: dict[Scene, Stage], threads: ThreadPoolExecutor
) -> None:
    stage = scene_of(stages, Scene.FORWARD)
    pause = Pause()
    trigger = Trigger(FAILPOINTS["recovery.before_roll_forward_publish"].at, pause)
    first = threads.submit(heal, open_living(stage.root, trigger).context)
    pause.await_arrival()
    second = threads.submit(open_living(stage.root).refresh)
    pause.release()
    found = [*first.result(PATIENCE_S), *second.result(PATIENCE_S)]
    assert [each.kind for each in found] == [RecoveryKind.ROLLED_FORWARD]
    assert check_whole(stage.root, stage.allowed)


def test_a_recovery_that_loses_the_race_to_publish_buries_nobody(
    stages: dict[Scene, Stage],
) -> None:
    stage = scene_of(stages, Scene.BACK)
    rival = open_mortal(stage.root)
    point = FAILPOINTS["recovery.rollback_publish_conflict"]
    arrive(point, stage.root, lambda _: slip_in(rival.context, COMPANY))
    check_whole(stage.root, [with_rival(stage.before, COMPANY)])
    check_lasting(stage.root)


def test_two_first_rows_of_the_audit_make_one_table(stages: dict[Scene, Stage]) -> None:
    stage = scene_of(stages, Scene.FORWARD)
    other = Recovery(
        OperationId("01OTHER"),
        RecoveryKind.ROLLED_BACK,
        WriterKind.LOAD,
        None,
        CommitId("01COMMIT"),
        (),
        1,
    )
    point = FAILPOINTS["audit.create_race"]
    arrive(point, stage.root, lambda _: audit.record(stores_at(stage.root), other))
    recorded = [row["operation_id"] for row in read_audit(stores_at(stage.root)).to_pylist()]
    assert len(recorded) == 2
    assert "01OTHER" in recorded


def test_an_audit_that_cannot_be_opened_is_not_taken_for_one_that_is_not_there(
    stages: dict[Scene, Stage],
) -> None:
    stage = scene_of(stages, Scene.FORWARD)
    trigger = Trigger(At("tables.open_at", since=SWAP), fail)
    with pytest.raises(StorageFailure):
        heal(open_mortal(stage.root, trigger).context)
    assert len(find_sidecars(stores_at(stage.root).objects)) == 1
    (recovery,) = heal(open_mortal(stage.root).context)
    assert recovery.kind is RecoveryKind.ROLLED_FORWARD
    assert check_whole(stage.root, stage.allowed)


def test_a_graph_that_was_moved_after_a_crash_recovers_where_it_is(
    stages: dict[Scene, Stage],
) -> None:
    stage = scene_of(stages, Scene.WRITE)
    die(stage.root, FAILPOINTS["relocate.after_crash"].at, lambda graph: graph.ask(PAIR))
    moved = stage.root.parent / "moved"
    stage.root.rename(moved)
    open_in(stores_at(moved), Mode.READ_WRITE)  # re-roots the graph, once
    heal(open_mortal(moved).context)
    assert check_whole(moved, stage.allowed)
    assert not stage.root.exists()
    check_lasting(moved)


def test_a_sidecar_without_movement_is_recorded_as_undone_even_if_others_moved_on(
    stages: dict[Scene, Stage],
) -> None:
    """That a table moved on is no proof that this operation did it."""
    stage = scene_of(stages, Scene.WRITE)
    point = FAILPOINTS["sidecar.after_put_pre_first_commit"]
    die(stage.root, point.at, lambda graph: graph.ask(PAIR))
    # Somebody who had healed before the death clears it on the way to the table.
    slip_in(open_mortal(stage.root).context, COMPANY)
    (row,) = read_audit(stores_at(stage.root)).to_pylist()
    assert (row["recovery_kind"], row["per_table_outcomes_json"]) == ("RolledBack", "[]")
    check_whole(stage.root, [with_rival(stage.before, COMPANY)])
