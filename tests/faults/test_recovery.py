"""Sidecars of every kind and in every state, and stores that fail while they are dealt with."""

import json
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any, cast

import pytest

import omnigraph
from omnigraph.cli.app import run as run_command
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.change import Change, TableWrite, WriterKind
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.recovery.audit import RecoveryKind, read_audit
from omnigraph.commit.recovery.heal import heal
from omnigraph.commit.recovery.recovery_commit import ACTOR, recovery_commit_id
from omnigraph.commit.recovery.sidecar_store import find_sidecars
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import open_in
from omnigraph.errors import (
    ConflictError,
    DriftFound,
    ExpectedVersionMismatch,
    InvariantViolated,
    OutcomeUnknown,
    ReplyLost,
    SidecarCorrupt,
    SidecarTooNew,
    StorageFailure,
)
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, TableKey
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.tables import (
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    Mark,
    Outcome,
    Staged,
    TableRef,
    Tables,
)
from omnigraph.testing.faults import (
    Crash,
    CrashOn,
    FailOn,
    Recorder,
    When,
    watch_stores,
)
from omnigraph.testing.invariants import check_graph
from support.folders import read_folder
from support.writing import (
    BOTH,
    COMPANY,
    PERSON,
    appending,
    mortal_bench,
    names_in,
    new_graph,
    stores_at,
    write,
)

OLD = OperationId("01JZ8Q4T9K6V3M2N7R5W1X0ABC")
SIDE = BranchName("side")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_graph(tmp_path / "g")
    write(mortal_bench(stores_at(tmp_path / "g")), "first")
    return tmp_path / "g"


def head(root: Path, branch: BranchName = MAIN) -> Commit:
    found = Bases(stores_at(root)).current(branch).manifest.head
    assert found is not None
    return found


def move(root: Path, key: object, name: str, branch: str | None = None) -> int:
    """Move a table as the reference would: no sidecar of ours, no name we know."""
    context = mortal_bench(stores_at(root))
    path = Bases(context.stores).current(MAIN).manifest.paths[key]  # type: ignore[index]  # a key
    handle = context.stores.tables.open_at(TableRef(path, branch))
    staged = appending(context, name)(handle, Mark(context.stores.effects.new_id()))
    outcome = context.stores.tables.commit_exact(staged)
    assert isinstance(outcome, Landed)
    return outcome.handle.version


def leave_old_note(
    root: Path, *, version: int = 2, kind: str = "Mutation", **facts: object
) -> None:
    """A sidecar as the reference writes it, for both tables, which are at version 2."""
    tables = [
        {
            "table_key": key,
            "table_path": f"/elsewhere/{key}",
            "expected_version": 2,
            "post_commit_pin": 3,
            **facts,
        }
        for key in BOTH
    ]
    document = {
        "schema_version": version,
        "operation_id": OLD,
        "started_at": "1782400000123456",
        "branch": None,
        "actor_id": "act-old",
        "writer_kind": kind,
        "tables": tables,
    }
    stores_at(root).objects.put_over(f"__recovery/{OLD}.json", json.dumps(document).encode())


# ── what a write was to be on top of ─────────────────────────────────────────────────────────────


def add(
    context: WriteContext,
    key: TableKey,
    name: str,
    on_top_of: CommitId | None = None,
    read: tuple[TableKey, ...] = (),
) -> None:
    """One row, without looking for the sidecars of other writers first."""
    with acquire_write_locks(context, MAIN, [key]) as lock:
        manifest = lock.base.manifest
        writes = (TableWrite(key, manifest.pins[key].version, (appending(context, name),)),)
        reads = {each: manifest.version_of(each) for each in read}
        run(lock, Change(WriterKind.MUTATION, MAIN, writes, reads=reads, on_top_of=on_top_of))


@pytest.mark.parametrize("has_moved", [False, True])
def test_who_finishes_a_write_asks_again_what_it_was_to_be_on_top_of(
    root: Path, *, has_moved: bool
) -> None:
    dying = watch_stores(stores_at(root), CrashOn("tables.single_step.swap_rows"))
    with pytest.raises(Crash):
        add(mortal_bench(dying), PERSON, "guarded", head(root).id)
    if has_moved:
        add(mortal_bench(stores_at(root)), COMPANY, "faster")
    (recovery,) = heal(mortal_bench(stores_at(root)))
    wanted = RecoveryKind.ROLLED_BACK if has_moved else RecoveryKind.ROLLED_FORWARD
    assert recovery.kind is wanted
    assert names_in(root, PERSON) == ({"first"} if has_moved else {"first", "guarded"})
    assert check_graph(stores_at(root)) == []


@pytest.mark.parametrize("has_moved", [False, True])
def test_a_write_is_finished_only_if_the_tables_it_had_read_are_as_they_were(
    root: Path, *, has_moved: bool
) -> None:
    """Its checks cannot be made again: of an edge, the node at its end may be gone by now."""
    dying = watch_stores(stores_at(root), CrashOn("tables.single_step.swap_rows"))
    with pytest.raises(Crash):
        add(mortal_bench(dying), PERSON, "checked", read=(COMPANY,))
    if has_moved:
        add(mortal_bench(stores_at(root)), COMPANY, "faster")
    (recovery,) = heal(mortal_bench(stores_at(root)))
    wanted = RecoveryKind.ROLLED_BACK if has_moved else RecoveryKind.ROLLED_FORWARD
    assert recovery.kind is wanted
    assert names_in(root, PERSON) == ({"first"} if has_moved else {"first", "checked"})
    assert check_graph(stores_at(root)) == []


# ── clocks ───────────────────────────────────────────────────────────────────────────────────────

HOUR_MS = 3_600_000


def test_a_write_whose_clock_was_ahead_does_not_stay_the_head_once_it_is_finished(
    root: Path,
) -> None:
    """Both commits are of one version of the manifest, and the later one is the head (D29)."""
    stores = stores_at(root)
    ahead = replace(stores.effects, now_ms=lambda: stores.effects.now_ms() + HOUR_MS)
    dying = watch_stores(replace(stores, effects=ahead), CrashOn("tables.single_step.swap_rows"))
    with pytest.raises(Crash):
        write(mortal_bench(dying), "early")
    (recovery,) = heal(mortal_bench(stores_at(root)))
    assert recovery.kind is RecoveryKind.ROLLED_FORWARD
    found = head(root)
    assert found.id == recovery.commit_id
    assert found.created_at_us == recovery.created_at_us
    (row,) = read_audit(stores_at(root)).to_pylist()
    assert round(row["created_at"].replace(tzinfo=UTC).timestamp() * 1e6) == found.created_at_us

    (commit,) = write(mortal_bench(stores_at(root)), "next").commits
    assert commit.parent == recovery.commit_id
    assert commit.created_at_us < found.created_at_us, "its own clock is right"
    assert head(root).id == commit.id
    assert check_graph(stores_at(root)) == []


# ── sidecars of the reference ────────────────────────────────────────────────────────────────────


def test_an_old_write_that_finished_its_tables_goes_forward(root: Path) -> None:
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
    before = head(root)
    (recovery,) = heal(mortal_bench(stores_at(root)))
    assert recovery.kind is RecoveryKind.ROLLED_FORWARD
    assert [(each.before, each.after) for each in recovery.outcomes] == [(2, 3), (2, 3)]
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first", "old"}
    assert (head(root).actor, head(root).parent) == (ACTOR, before.id)
    check_recovered(root, "RolledForward")


def test_an_old_write_that_moved_one_table_of_two_goes_back(root: Path) -> None:
    leave_old_note(root)
    move(root, PERSON, "old")
    (recovery,) = heal(mortal_bench(stores_at(root)))
    assert recovery.kind is RecoveryKind.ROLLED_BACK
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first"}
    check_recovered(root, "RolledBack")


def test_an_old_write_that_went_too_far_goes_back(root: Path) -> None:
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
        move(root, key, "older")
    heal(mortal_bench(stores_at(root)))
    assert names_in(root, PERSON) == {"first"}
    check_recovered(root, "RolledBack")


def test_an_old_sidecar_that_moved_nothing_is_only_recorded(root: Path) -> None:
    leave_old_note(root)
    versions = Bases(stores_at(root)).current(MAIN).manifest.pins
    heal(mortal_bench(stores_at(root)))
    assert Bases(stores_at(root)).current(MAIN).manifest.pins == versions
    check_recovered(root, "RolledBack")


def test_an_old_sidecar_whose_work_is_visible_is_recorded_as_forward(root: Path) -> None:
    leave_old_note(root, expected_version=1, post_commit_pin=2)
    heal(mortal_bench(stores_at(root)))
    check_recovered(root, "RolledForward")


@pytest.mark.parametrize(
    ("version", "confirmed", "kind"),
    [
        (1, {}, "RolledForward"),
        (2, {}, "RolledBack"),
        (2, {"confirmed_version": 4}, "RolledForward"),
    ],
)
def test_an_old_merge_goes_forward_only_where_it_said_how_far_it_got(
    root: Path, version: int, confirmed: dict[str, int], kind: str
) -> None:
    leave_old_note(root, version=version, kind="BranchMerge", **confirmed)
    for key in BOTH:
        move(root, key, "merged")
        move(root, key, "too")
    heal(mortal_bench(stores_at(root)))
    check_recovered(root, kind)


def check_recovered(root: Path, kind: str) -> None:
    """What must hold after any recovery."""
    stores = stores_at(root)
    assert find_sidecars(stores.objects) == ()
    (row,) = read_audit(stores).to_pylist()
    assert (row["recovery_kind"], row["operation_id"]) == (kind, OLD)
    assert row["recovery_for_actor"] == "act-old"
    assert row["graph_commit_id"] == head(root).id == recovery_commit_id(OLD)
    assert check_graph(stores) == []
    files = read_folder(root)
    open_in(stores_at(root), Mode.READ_WRITE)
    assert read_folder(root) == files, "an immediate reopen changes something"
    write(mortal_bench(stores_at(root)), "next")
    assert "next" in names_in(root, PERSON)


# ── sidecars that cannot be used ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", SidecarCorrupt),
        (b'{"schema_version": 3', SidecarCorrupt),
        (b'{"schema_version": 9}', SidecarTooNew),
    ],
)
def test_a_sidecar_nobody_understands_stops_writers_and_stays(
    root: Path, data: bytes, error: type[Exception]
) -> None:
    stores = stores_at(root)
    stores.objects.put_over(f"__recovery/{OLD}.json", data)
    with pytest.raises(error, match=OLD):
        write(mortal_bench(stores), "blocked")
    with pytest.raises(error):
        open_in(stores_at(root), Mode.READ_WRITE)
    assert open_in(stores_at(root), Mode.READ_ONLY).snapshot().pins
    assert find_sidecars(stores.objects) == (OLD,)


def test_a_sidecar_that_cannot_be_read_is_listed_beside_the_others(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_old_note(root)
    torn, newer = "01JZ8Q4T9K6V3M2N7R5W1X0ABD", "01JZ8Q4T9K6V3M2N7R5W1X0ABE"
    objects = stores_at(root).objects
    objects.put_over(f"__recovery/{torn}.json", b'{"schema_version": 3')
    objects.put_over(f"__recovery/{newer}.json", b'{"schema_version": 9}')
    assert run_command(["recovery", "list", str(root), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["pending"]
    assert [(each["operation_id"], each["state"]) for each in listed] == [
        (OLD, "unresolved"),
        (torn, "corrupt"),
        (newer, "too_new"),
    ]
    assert run_command(["recovery", "list", str(root)]) == 0
    assert f"{torn} corrupt: sidecar" in capsys.readouterr().out
    assert run_command(["recovery", "show", torn, str(root)]) == 0
    assert "delete it" in capsys.readouterr().out
    pending = omnigraph.open(str(root), read_only=True).pending_writes()
    assert [each.state.value for each in pending] == ["unresolved", "corrupt", "too_new"]
    with pytest.raises(SidecarCorrupt, match="what its write had begun is then undone"):
        heal(mortal_bench(stores_at(root)))


def test_half_a_put_is_invisible(root: Path) -> None:
    folder = root / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / f"{OLD}.json#123").write_bytes(b'{"schema_ver')
    write(mortal_bench(stores_at(root)), "second")
    assert names_in(root, PERSON) == {"first", "second"}


def test_a_table_behind_what_its_branch_shows_stops_everything(root: Path) -> None:
    leave_old_note(root)
    pin = Bases(stores_at(root)).current(MAIN).manifest.pins[PERSON]
    newest = max((root / pin.path / "_versions").glob("*.manifest"), key=lambda p: -int(p.stem))
    newest.unlink()
    (root / pin.path / "_versions" / "latest_version_hint.json").unlink(missing_ok=True)
    with pytest.raises((InvariantViolated, StorageFailure)):
        heal(mortal_bench(stores_at(root)))
    assert find_sidecars(stores_at(root).objects) == (OLD,)


# ── branches that went away ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("again", [False, True])
def test_a_sidecar_of_a_deleted_branch_is_discarded_even_if_the_name_is_back(
    root: Path, *, again: bool
) -> None:
    graph = open_in(stores_at(root), Mode.READ_WRITE)
    graph.create_branch("side")
    # Armed, both tables moved on the branch's own forks, not published.
    stores = watch_stores(stores_at(root), CrashOn("tables.single_step.swap_rows"))
    with pytest.raises(Crash):
        write(mortal_bench(stores), "lost", branch=SIDE)
    stores_at(root).tables.clear_branch("__manifest", "side")
    if again:
        main = stores_at(root).tables.open_at(TableRef("__manifest"))
        stores_at(root).tables.fork(main, "side")
    (recovery,) = heal(mortal_bench(stores_at(root)))
    assert recovery.kind is RecoveryKind.ORPHANED
    assert head(root).id == recovery.commit_id
    if again:
        assert names_in(root, PERSON, SIDE) == {"first"}
        write(mortal_bench(stores_at(root)), "second", branch=SIDE)
        assert names_in(root, PERSON, SIDE) == {"first", "second"}
    assert heal(mortal_bench(stores_at(root))) == ()


# ── stores that fail ─────────────────────────────────────────────────────────────────────────────


def test_a_sidecar_that_cannot_be_written_stops_the_write_before_anything_moved(root: Path) -> None:
    before = names_in(root, PERSON), head(root)
    stores = watch_stores(stores_at(root), FailOn("objects.put_over"))
    with pytest.raises(StorageFailure):
        write(mortal_bench(stores), "lost")
    assert (names_in(root, PERSON), head(root)) == before
    assert check_graph(stores_at(root)) == []
    write(mortal_bench(stores_at(root)), "second")
    assert names_in(root, PERSON) == {"first", "second"}


def test_a_sidecar_that_cannot_be_removed_does_not_fail_the_write(root: Path) -> None:
    stores = watch_stores(stores_at(root), FailOn("objects.delete"))
    write(mortal_bench(stores), "second")
    assert len(find_sidecars(stores.objects)) == 1
    write(mortal_bench(stores_at(root)), "third")
    assert find_sidecars(stores.objects) == ()
    assert names_in(root, PERSON) == {"first", "second", "third"}
    assert read_audit(stores_at(root)).num_rows == 0, "nothing was left to recover (D31)"
    assert ACTOR not in {
        each.actor for each in Bases(stores_at(root)).current(MAIN).manifest.log.commits
    }


def test_a_listing_that_fails_is_never_taken_for_an_empty_one(root: Path) -> None:
    stores = watch_stores(stores_at(root), FailOn("objects.list"))
    with pytest.raises(StorageFailure):
        write(mortal_bench(stores), "second")
    with pytest.raises(StorageFailure):
        open_in(watch_stores(stores_at(root), FailOn("objects.list")), Mode.READ_WRITE)
    assert names_in(root, PERSON) == {"first"}


@pytest.mark.parametrize(
    "call",
    ["tables.commit_exact", "tables.single_step.swap_rows", "tables.stage_append"],
)
@pytest.mark.parametrize("when", When)
def test_a_failing_table_or_manifest_leaves_all_or_nothing_and_no_drift(
    root: Path, call: str, when: When
) -> None:
    """An error is not a death: the writer is there to take its own work back."""
    stores = watch_stores(stores_at(root), FailOn(call, when=when))
    try:
        write(mortal_bench(stores), "second")
    except (StorageFailure, ConflictError):
        expected = {"first"}
    except OutcomeUnknown:
        # It might have become visible any moment; now it is made so, and known.
        assert (call, when) == ("tables.single_step.swap_rows", When.BEFORE)
        heal(mortal_bench(stores_at(root)))
        expected = {"first", "second"}
    else:
        expected = {"first", "second"}
    assert names_in(root, PERSON) == names_in(root, COMPANY) == expected
    assert find_sidecars(stores_at(root).objects) == ()
    assert check_graph(stores_at(root)) == []


class LoseReply:
    """The n-th table commit is sent and never answered. It lands, at once or when it is let."""

    def __init__(self, tables: Tables, nth: int, *, lands_late: bool) -> None:
        self._tables = tables
        self._left = nth
        self._lands_late = lands_late
        self.sent: Staged | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def commit_exact(self, staged: Staged, waves: FlushWaves | None = None) -> Outcome:
        self._left -= 1
        if self._left:
            return self._tables.commit_exact(staged, waves)
        self.sent = staged
        if not self._lands_late:
            self.land()
        raise ReplyLost("commit to", subject=staged.ref.path, reason="connection reset")

    def land(self) -> None:
        assert self.sent is not None
        self._tables.commit_exact(self.sent)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("lands_late", [False, True])
def test_a_commit_whose_reply_is_lost_is_undone_whenever_it_lands(
    root: Path, nth: int, *, lands_late: bool
) -> None:
    """The writer says that it failed, so nothing of it may ever show (D4)."""
    stores = stores_at(root)
    lossy = LoseReply(stores.tables, nth, lands_late=lands_late)
    with pytest.raises(ReplyLost):
        write(mortal_bench(replace(stores, tables=cast("Tables", lossy))), "lost")
    assert find_sidecars(stores.objects) == ()
    if lands_late:
        lossy.land()
        assert open_in(stores_at(root), Mode.READ_WRITE).examine() == [], "doctor undid it"
    assert check_graph(stores_at(root)) == []
    write(mortal_bench(stores_at(root)), "next")
    assert names_in(root, PERSON) == names_in(root, COMPANY) == {"first", "next"}
    assert check_graph(stores_at(root)) == []


def test_a_failing_audit_is_made_up_for_and_recorded_once(root: Path) -> None:
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
    with pytest.raises(StorageFailure):
        heal(mortal_bench(watch_stores(stores_at(root), FailOn("tables.stage_create"))))
    assert len(find_sidecars(stores_at(root).objects)) == 1
    heal(mortal_bench(stores_at(root)))
    check_recovered(root, "RolledForward")


def test_a_refused_table_commit_is_a_conflict_and_undone(root: Path) -> None:
    """Somebody moved the second table, without a lease, after the first had moved."""

    class Intruder:
        left = 2

        def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - the protocol's
            if call == "tables.commit_exact":
                self.left -= 1
                if self.left == 0:
                    move(root, PERSON, "intruder")

        def after(self, call: str, *, is_write: bool) -> None:
            pass

    with pytest.raises(ExpectedVersionMismatch) as caught:
        write(mortal_bench(watch_stores(stores_at(root), Intruder())), "second")
    assert caught.value.table_key == PERSON
    assert names_in(root, COMPANY) == {"first"}
    assert find_sidecars(stores_at(root).objects) == (), "the writer undid it, not a recovery"
    with pytest.raises(DriftFound, match="repair"):
        write(mortal_bench(stores_at(root)), "third")


def test_maintenance_by_another_tool_is_shown_and_not_undone(root: Path) -> None:
    stores = stores_at(root)
    pin = Bases(stores).current(MAIN).manifest.pins[PERSON]
    handle = stores.tables.open_at(TableRef(pin.path))
    spec = IndexSpec("id", IndexKind.BTREE)
    staged = stores.tables.stage_indices(handle, [spec], IndexScope.UNCOVERED, Mark("by-hand"))
    assert staged is not None
    stores.tables.commit_exact(staged)
    write(mortal_bench(stores_at(root)), "second")
    assert names_in(root, PERSON) == {"first", "second"}
    assert check_graph(stores_at(root)) == []


def test_a_reader_resolves_nothing(root: Path) -> None:
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
    calls = Recorder()
    graph = open_in(watch_stores(stores_at(root), calls), Mode.READ_ONLY)
    assert graph.snapshot().pins[PERSON].version == 2
    assert calls.writes == []


def test_opening_for_writing_resolves_everything(root: Path) -> None:
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
    open_in(stores_at(root), Mode.READ_WRITE)
    check_recovered(root, "RolledForward")


def test_the_commit_of_a_recovery_follows_from_its_operation() -> None:
    first = recovery_commit_id(OLD)
    assert first == recovery_commit_id(OLD)
    assert len(first) == 26
    assert first[:10] == OLD[:10]
    assert first != recovery_commit_id(OperationId(OLD[:-1] + "D"))


def test_unfinished_writes_and_their_recoveries_can_be_looked_at(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["recovery", "list", str(root)]) == 0
    assert capsys.readouterr().out == "no write ever failed to finish\n"
    leave_old_note(root)
    for key in BOTH:
        move(root, key, "old")
    assert run_command(["recovery", "show", OLD, str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "operation_id": OLD,
        "state": "unresolved",
        "writer_kind": "Mutation",
        "branch": "main",
        "actor_id": "act-old",
        "tables": list(BOTH),
        "problem": None,
    }
    open_in(stores_at(root), Mode.READ_WRITE)
    assert run_command(["recovery", "list", str(root), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["pending"] == []
    assert listed["recoveries"][0]["recovery_kind"] == "RolledForward"
    assert listed["recoveries"][0]["graph_commit_id"] == head(root).id
    assert run_command(["commit", "list", str(root), "--filter", f"actor={ACTOR}"]) == 0
    assert head(root).id in capsys.readouterr().out
    assert run_command(["recovery", "show", "01NONE", str(root)]) == 1
