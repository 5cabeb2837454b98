"""The queue of a branch: writes of one process that wait for each other share one attempt (D29).

1. A write that finds its lane idle is carried out at once, by its caller, as if there were no
   queue. It waits for no company.
2. A write that finds its lane busy waits. When the lane is free, a thread of the lane takes every
   waiting write and carries the group out. No caller leads a group, so an interrupted caller never
   stops the writes of others.
3. A lane is a branch. A table that another operation of this process locks, or whose lease another
   process holds for longer than `PATIENCE_MS`, gets a lane of its own for as long as writes wait
   for it, so the writes of other tables go on.
4. The first come are the first served. Groups are bounded in writes, bytes, rows and time. A full
   lane refuses more writes with `WriteQueueFull`. A large write forms no group. While a group waits
   for its turn among processes, later writes of the same tables still join it.
5. A group whose attempt failed because the branch had changed was undone, and is decided again.
"""

import logging
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic
from typing import Final

from omnigraph.commit.attempt.entry import enter
from omnigraph.commit.attempt.locks import acquire_write_locks
from omnigraph.commit.attempt.phases import run
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.write.group_plan import GroupPlan, plan_group
from omnigraph.engine.write.mutate import (
    WriteOutcome,
    WriteRequest,
    WriteTask,
    carry_out,
    pins_of,
)
from omnigraph.engine.write.queued_write import QueuedWrite
from omnigraph.errors import (
    AlreadyDone,
    ConstraintViolation,
    DriftFound,
    ExpectedVersionMismatch,
    HeadMoved,
    LeaseHeld,
    OutcomeUnknown,
    SchemaChanged,
    WriteQueueFull,
)
from omnigraph.ids import BranchName, TableKey

WRITES_MAX: Final = 256
"""How many writes a group takes."""

GROUP_BYTES_MAX: Final = 8 << 20
"""How many bytes of values the writes of a group hold together."""

ALONE_BYTES: Final = 1 << 20
"""A write of more bytes forms no group: it would keep the others waiting."""

WAITING_MAX: Final = 1_024
"""How many writes may wait in one lane."""

WAITING_BYTES_MAX: Final = 64 << 20
"""How many bytes of values they may hold together."""

PATIENCE_MS: Final = 1_000
"""How long the writes of other tables wait for a lease that another process holds."""

GATHER_S: Final = 0.003
"""How long the next group waits for one more of the callers that the last one has answered."""

GATHER_MAX_S: Final = 0.02
"""How long it waits for all of them: by then they have written again, or do something else."""

COMPANY_S: Final = 0.1
"""How long a lane that has answered a group is led although no write waits. A server reads the next
requests after it sent its answers, and the first of them would else be carried out alone."""

RETRIES_MAX: Final = 5
RETRY_AFTER_S: Final = 1

BRANCH_CHANGED: Final = (
    AlreadyDone,
    ConstraintViolation,
    ExpectedVersionMismatch,
    HeadMoved,
    SchemaChanged,
)
"""(5) Why an attempt whose members passed every check is undone: the branch changed since."""

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Lane:
    """(3) The waiting writes of a branch, or of one busy table of it."""

    branch: BranchName
    table: TableKey | None = None
    waiting: deque[QueuedWrite] = field(default_factory=deque)
    waiting_bytes: int = 0
    expected: int = 0
    """How many writes were under way when the last group was answered: its own, and the waiting."""

    def add(self, write: QueuedWrite, *, is_first: bool = False) -> None:
        (self.waiting.appendleft if is_first else self.waiting.append)(write)
        self.waiting_bytes += write.size_bytes

    def take(self) -> QueuedWrite:
        """The write that waits longest."""
        write = self.waiting.popleft()
        self.waiting_bytes -= write.size_bytes
        write.is_taken = True
        return write


class WriteQueue:
    """The lanes of one open graph; safe to share among threads."""

    def __init__(self, context: WriteContext) -> None:
        self.context = context
        self._lanes: dict[tuple[BranchName, TableKey | None], Lane] = {}
        """The lanes that are led, by a caller or by a thread."""
        self._changed = Condition()

    def write(self, schema: ActiveSchema, task: WriteTask, request: WriteRequest) -> WriteOutcome:
        """Carry a write out, alone or in a group. Raises what `carry_out` raises, WriteQueueFull.

        Returns after the write is visible and durable.
        """
        size_bytes, tables = task.size_bytes, task.tables
        if not self.context.is_grouping or size_bytes > ALONE_BYTES:
            return carry_out(self.context, schema, task, request)
        busy: TableKey | None = None
        while True:
            lane = self._enter(request.branch, tables, busy)
            if lane is None:
                seen = pins_of(self.context, request.branch, task.strict)
                queued = QueuedWrite(schema, task, tables, request, seen, size_bytes)
                outcome = self._wait(queued)
                if outcome is None:
                    continue
                return outcome
            try:
                return carry_out(
                    self.context, schema, task, request, patience_ms=self._patience(lane)
                )
            except LeaseHeld as held:
                can_move = lane.table is None and held.table_key in tables
                if not can_move or not self._can_wait:
                    raise
                busy = TableKey(held.table_key)
            finally:
                self._leave(lane)

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────

    def _enter(
        self, branch: BranchName, tables: Collection[TableKey], busy: TableKey | None
    ) -> Lane | None:
        """(1) The idle lane of a write, now led by its caller; None if the lane is led."""
        with self._changed:
            if self._find(branch, tables) is not None:
                return None
            if busy is None:
                busy = self._find_locked(branch, tables)
            if busy is None and (branch, None) in self._lanes:
                return None
            lane = Lane(branch, busy)
            self._lanes[branch, busy] = lane
            return lane

    def _find(self, branch: BranchName, tables: Iterable[TableKey]) -> Lane | None:
        """The lane of a busy table that a write wants."""
        found = (self._lanes.get((branch, each)) for each in sorted(tables))
        return next((each for each in found if each is not None), None)

    def _find_locked(self, branch: BranchName, tables: Iterable[TableKey]) -> TableKey | None:
        """A table that another operation of this process locks. No lane of the branch is led."""
        if (branch, None) in self._lanes:
            return None
        free = self.context.queues.is_free
        return next((each for each in sorted(tables) if not free(LockKey(each, branch))), None)

    def _join(self, queued: QueuedWrite) -> bool:
        """(2) Wait in a lane that is led; False if it is idle by now. Raises WriteQueueFull."""
        branch = queued.request.branch
        with self._changed:
            lane = self._find(branch, queued.tables) or self._lanes.get((branch, None))
            if lane is None:
                return False
            is_long = len(lane.waiting) >= WAITING_MAX
            if is_long or lane.waiting_bytes + queued.size_bytes > WAITING_BYTES_MAX:
                raise WriteQueueFull(branch, waiting=len(lane.waiting), retry_after_s=RETRY_AFTER_S)
            lane.add(queued)
            if len(lane.waiting) in (1, lane.expected):
                self._changed.notify_all()
            return True

    def _wait(self, queued: QueuedWrite) -> WriteOutcome | None:
        """(2) The answer of a group; None if the lane is idle by now. Raises WriteQueueFull."""
        try:
            return queued.wait() if self._join(queued) else None
        except KeyboardInterrupt:
            if not self._withdraw(queued):
                # It may be armed. The interrupt is raised once the outcome is certain (D25).
                queued.wait()
            raise

    def _withdraw(self, queued: QueuedWrite) -> bool:
        """Give a write up; False if a group has taken it."""
        with self._changed:
            queued.is_withdrawn = True
            for lane in self._lanes.values():
                if queued in lane.waiting:
                    lane.waiting.remove(queued)
                    lane.waiting_bytes -= queued.size_bytes
                    return True
            return not queued.is_taken

    def _leave(self, lane: Lane) -> None:
        """The caller that led a lane is done: a thread leads those who wait."""
        with self._changed:
            if lane.waiting:
                self._start(lane)
            else:
                del self._lanes[lane.branch, lane.table]

    def _start(self, lane: Lane) -> None:
        Thread(target=self._lead, args=(lane,), name=f"group {lane.branch}").start()

    @property
    def _can_wait(self) -> bool:
        return self.context.leases.timing.wait_ms_max > PATIENCE_MS

    def _patience(self, lane: Lane) -> int | None:
        """(3) How long a lane waits for a lease; None as long as the settings say."""
        return PATIENCE_MS if lane.table is None and self._can_wait else None

    # ── groups ───────────────────────────────────────────────────────────────────────────────────

    def _lead(self, lane: Lane) -> None:
        """(2) Carry out group after group, until no write waits."""
        while batch := self._take(lane):
            try:
                self._carry_out(lane, batch)
            except BaseException as failure:  # noqa: BLE001 - every caller raises it
                for each in batch:
                    if not each.is_answered:
                        each.fail(_copy(failure))
            left = [each for each in batch if not each.is_answered]
            self._put_back(lane, left, len(batch) - len(left))

    def _take(self, lane: Lane) -> list[QueuedWrite]:
        """(4) The writes of the next group; none if the lane is idle from now on."""
        with self._changed:
            self._gather(lane)
            batch: list[QueuedWrite] = []
            _fill(batch, lane)
            if not batch:
                del self._lanes[lane.branch, lane.table]
            return batch

    def _gather(self, lane: Lane) -> None:
        """Wait for callers that were answered just now, as long as they keep coming."""
        until = monotonic() + COMPANY_S
        while lane.expected > 1 and not lane.waiting and (left := until - monotonic()) > 0:
            self._changed.wait(left)
        until, seen = monotonic() + GATHER_MAX_S, 0
        while 1 < lane.expected > len(lane.waiting) > seen and monotonic() < until:
            seen = len(lane.waiting)
            self._changed.wait(GATHER_S)

    def _put_back(self, lane: Lane, writes: Sequence[QueuedWrite], answered: int) -> None:
        """Writes that the group left over are the first of the next one."""
        with self._changed:
            for each in reversed(writes):
                lane.add(each, is_first=True)
            lane.expected = len(lane.waiting) + answered

    def _carry_out(self, lane: Lane, batch: list[QueuedWrite]) -> None:
        """One group: of its writes, those without an answer afterwards wait for the next one."""
        if lane.table is None and self._move_locked(lane, batch):
            return
        context = self.context
        tables = frozenset(key for each in batch for key in each.tables)
        plan: GroupPlan | None = None
        try:
            entry = enter(context, lane.branch, tables)
            with acquire_write_locks(
                context,
                lane.branch,
                tables,
                wait_ms_max=self._patience(lane),
                queue_ms_max=self._patience(lane),
                entry=entry,
            ) as lock:
                with self._changed:
                    _fill(batch, lane, tables)
                plan = plan_group(lock, batch)
                if plan.accepted:
                    commits = run(lock, plan.change()).commits
                    context.meter.grouped(len(commits))
                    plan.answer_all(commits)
                plan.deliver()
        except LeaseHeld as held:
            if plan is None and lane.table is None and self._can_wait:
                self._move(lane, batch, TableKey(held.table_key))
            else:
                _fail(held, batch, plan)
        except BRANCH_CHANGED as changed:
            _retry(changed, batch, plan)
        except Exception as failure:  # noqa: BLE001 - the callers raise it
            _fail(failure, batch, plan)

    def _move_locked(self, lane: Lane, batch: list[QueuedWrite]) -> bool:
        """(3) Move the writes of tables that another operation locks to lanes of those tables."""
        free = self.context.queues.is_free
        tables = {key for each in batch for key in each.tables}
        locked = [key for key in sorted(tables) if not free(LockKey(key, lane.branch))]
        for key in locked:
            self._move(lane, batch, key)
        return bool(locked)

    def _move(self, lane: Lane, batch: list[QueuedWrite], table: TableKey) -> None:
        """Move the writes of a busy table from a batch to the lane of the table."""
        moved = [each for each in batch if table in each.tables]
        batch[:] = [each for each in batch if table not in each.tables]
        with self._changed:
            target = self._lanes.get((lane.branch, table))
            if target is None:
                target = Lane(lane.branch, table)
                self._lanes[lane.branch, table] = target
                self._start(target)
            for each in moved:
                target.add(each)


def _fill(batch: list[QueuedWrite], lane: Lane, tables: Collection[TableKey] | None = None) -> None:
    """(4) Add waiting writes to a batch, up to its bounds; of `tables` only, if they are locked."""
    size = sum([each.size_bytes for each in batch])
    while lane.waiting and len(batch) < WRITES_MAX:
        first = lane.waiting[0]
        size += first.size_bytes
        if batch and size > GROUP_BYTES_MAX:
            return
        if tables is not None and not set(first.tables) <= set(tables):
            return
        batch.append(lane.take())


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


def _fail(failure: Exception, batch: Sequence[QueuedWrite], plan: GroupPlan | None) -> None:
    """Tell the writes that an attempt failed for; the others were not part of it."""
    concerned = list(batch) if plan is None else [each.write for each in plan.accepted]
    if isinstance(failure, DriftFound | LeaseHeld):
        touching = [each for each in concerned if failure.table_key in each.tables]
        concerned = touching or concerned
    ids = {} if plan is None else {each.write: each.member.commit_id for each in plan.accepted}
    for write in concerned:
        if isinstance(failure, OutcomeUnknown) and len(ids) > 1:
            unknown = OutcomeUnknown(
                failure.branch, commit_id=ids[write], operation_id=failure.operation_id
            )
            unknown.__cause__ = failure
            write.fail(unknown)
        else:
            write.fail(_copy(failure))


def _retry(changed: Exception, batch: Sequence[QueuedWrite], plan: GroupPlan | None) -> None:
    """(5) Let the members be decided again, at most `RETRIES_MAX` times."""
    for each in batch if plan is None else [each.write for each in plan.accepted]:
        each.retries += 1
        if each.retries > RETRIES_MAX:
            each.fail(_copy(changed))


def _copy(failure: BaseException) -> BaseException:
    """An exception of one's own for every caller: raising one adds to its traceback."""
    try:
        own = copy(failure)
    except Exception:  # noqa: BLE001 - an exception that cannot be copied is shared
        return failure
    own.__cause__ = failure
    return own
