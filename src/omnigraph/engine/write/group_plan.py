"""Deciding a group: which of the waiting writes share one attempt, and what each of them does.

The writes are decided in the order of their arrival, each on the branch as the one before it left
it (`group_rows`), so the outcome is that of the same writes one after the other (D29).

1. A write that fails a check leaves the group. The others go on as if it had never come.
2. The group ends before a write that touches an entity of an earlier member, before a write with
   `if_commit` that is not the first, and at its bounds. The rest is the beginning of the next one.
3. A write with the idempotency key of an earlier member gets the answer of that member.
4. A write that was decided behind a member depends on that member. Its answer, success without
   effect or an error, is given only once the members are published (`Verdict`).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import WriteLock
from omnigraph.commit.manifest.change import Change, GroupMember, WriterKind
from omnigraph.commit.manifest.records import Commit
from omnigraph.engine.write.group_rows import AnsweredLookup, GroupRows
from omnigraph.engine.write.mutate import (
    WriteOutcome,
    change_of,
    check_unmoved_elsewhere,
    find_written,
    recheck_ends,
)
from omnigraph.engine.write.pending import Affected, Pending, PendingTable
from omnigraph.engine.write.queued_write import QueuedWrite
from omnigraph.errors import KeyReused
from omnigraph.ids import CommitId

ROWS_MAX: Final = 10_000
"""How many rows a group touches before it ends. A lone write may touch more."""

DECIDE_MS_MAX: Final = 500
"""How long a group decides its writes. The first ones must not wait for slow ones behind them."""

LOOKS_MAX: Final = 4
"""How often look-ups are noted and read: rows, then their edges, then the ends of those."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A member: a write that passed every check."""

    write: QueuedWrite
    pending: Pending
    tables: Sequence[PendingTable]
    """The tables that it changes, in key order."""
    affected: Affected
    member: GroupMember

    def outcome(self, commit: Commit, *, is_last: bool) -> WriteOutcome:
        """The tables are named once in a group, so that one caller runs their upkeep."""
        tables = [each.type.table_key for each in self.tables] if is_last else []
        return WriteOutcome(self.affected, commit, tuple(tables))

    def repeated(self, commit: Commit) -> WriteOutcome:
        """(3) The outcome of a write with the same key."""
        recorded = self.write.task.result_of(self.affected)
        return WriteOutcome(self.affected, commit, recorded=recorded)


@dataclass(frozen=True, slots=True)
class Verdict:
    """(4) The answer of a write that makes no commit."""

    write: QueuedWrite
    answer: WriteOutcome | Exception


@dataclass(frozen=True, slots=True)
class Follower:
    """(3) A write that repeats the key of a member."""

    write: QueuedWrite
    first: Accepted


@dataclass(frozen=True, slots=True)
class Trial:
    """What a write decided while look-ups were noted."""

    pending: Pending
    affected: Affected | None
    """None if the write failed. It then runs again, to be told why."""
    lookups: Sequence[AnsweredLookup]

    def holds(self) -> bool:
        """Would the write decide the same now?"""
        for each in self.lookups:  # noqa: SIM110 - a generator is made once more for each member
            if each.ask() != each.answer:
                return False
        return True


@dataclass(slots=True)
class GroupPlan:
    """The writes that were decided together, under one lock."""

    lock: WriteLock
    rows: GroupRows
    accepted: list[Accepted] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    followers: list[Follower] = field(default_factory=list)
    trials: dict[QueuedWrite, Trial] = field(default_factory=dict)

    @property
    def catalog(self) -> Catalog:
        return self.accepted[0].write.schema.catalog

    def begin(self, write: QueuedWrite) -> Pending:
        """Nothing decided yet, on the branch as the earlier members left it."""
        return Pending(write.schema.catalog, self.rows, self.lock.context.stores.effects.new_id)

    def change(self) -> Change:
        """One commit for each table. A lone member makes the change of a lone write."""
        first = self.accepted[0]
        if len(self.accepted) == 1:
            return change_of(
                self.lock,
                first.write.schema,
                first.write.task,
                first.pending,
                request=first.write.request,
                affected=first.affected,
            )
        joined = Pending(self.catalog, self.rows, self.lock.context.stores.effects.new_id)
        for each in self.accepted:
            joined.adopt(each.tables)
        writes = joined.writes(self.lock.context.stores.tables)
        written = {each.key for each in writes}
        asked = self.rows.asked.items()
        return Change(
            kind=WriterKind.MUTATION,
            branch=first.write.request.branch,
            writes=writes,
            reads={key: version for key, version in asked if key not in written},
            recheck=recheck_ends(self.lock.context, self.catalog, joined.deltas()),
            on_top_of=first.write.request.if_commit,
            schema_hash=first.write.schema.schema_hash,
            group=tuple(each.member for each in self.accepted),
        )

    def answer_all(self, commits: Sequence[Commit]) -> None:
        """Tell every write its answer, once the commits of the members are visible."""
        last = len(self.accepted) - 1
        for at, (each, commit) in enumerate(zip(self.accepted, commits, strict=True)):
            each.write.succeed(each.outcome(commit, is_last=at == last))
        for follower in self.followers:
            commit = commits[self.accepted.index(follower.first)]
            follower.write.succeed(follower.first.repeated(commit))
        self.deliver()

    def deliver(self) -> None:
        """(4) Tell the writes that make no commit."""
        for each in self.verdicts:
            if isinstance(each.answer, WriteOutcome):
                each.write.succeed(each.answer)
            else:
                each.write.fail(each.answer)
        self.verdicts.clear()


def plan_group(lock: WriteLock, writes: Sequence[QueuedWrite]) -> GroupPlan:
    """Decide the writes in order. Those that the plan does not name belong to the next group."""
    context, base = lock.context, lock.base
    rows = GroupRows(context.stores.tables, base.manifest, lambda pin: context.open_pin(pin, base))
    plan = GroupPlan(lock, rows)
    if len(writes) > 1:
        _record_lookups(plan, writes)
    touched_count = 0
    monotonic_ms = context.stores.effects.monotonic_ms
    until_ms = monotonic_ms() + DECIDE_MS_MAX
    for write in writes:
        if plan.accepted and monotonic_ms() > until_ms:
            break
        if write.is_withdrawn:
            plan.verdicts.append(Verdict(write, WriteOutcome(Affected())))
            continue
        try:
            decided = _decide(plan, write)
        except Exception as error:  # noqa: BLE001 - (1) its caller raises it
            decided = Verdict(write, error)
        match decided:
            case None:
                break
            case Verdict():
                plan.verdicts.append(decided)
            case Follower():
                plan.followers.append(decided)
            case Accepted():
                touched_count += sum(map(len, decided.member.touched.values()))
                if plan.accepted and touched_count > ROWS_MAX:
                    break
                rows.absorb(decided.tables)
                plan.accepted.append(decided)
        if not plan.accepted:
            plan.deliver()
    return plan


def _record_lookups(plan: GroupPlan, writes: Sequence[QueuedWrite]) -> None:
    """Read what the writes will look up, each as if it were alone, in one look per table."""
    rows = plan.rows
    rows.is_recording = True
    for _ in range(LOOKS_MAX):
        for write in writes:
            known = plan.trials.get(write)
            if known is None or not known.holds():
                plan.trials[write] = _try_out(plan, write)
        if not rows.fetch():
            break
    rows.is_recording = False


def _try_out(plan: GroupPlan, write: QueuedWrite) -> Trial:
    """Run a write as if it were alone."""
    pending = plan.begin(write)
    affected: Affected | None = None
    lookups = plan.rows.begin_trace()
    # A mistake is found again, and told, when the write is decided.
    with suppress(Exception):
        found = write.task.run(pending)
        write.task.check(pending)
        affected = found
    plan.rows.end_trace()
    return Trial(pending, affected, lookups)


def _decide(plan: GroupPlan, write: QueuedWrite) -> Accepted | Verdict | Follower | None:
    """A member, or an answer without one; None if the group ends before this write (2)."""
    manifest, request = plan.lock.base.manifest, write.request
    twin = _find_twin(plan, write)
    if twin is not None:
        return Follower(write, twin)
    done = find_written(manifest, request)
    if done is not None:
        return Verdict(write, done)
    manifest.check_schema(write.schema.schema_hash)
    if request.if_commit is not None:
        if plan.accepted:
            return None
        manifest.check_head(request.if_commit)
    check_unmoved_elsewhere(plan.lock, write.seen)
    effects = plan.lock.context.stores.effects
    trial = plan.trials.get(write)
    if trial is not None and trial.affected is not None and trial.holds():
        pending, affected, is_checked = trial.pending, trial.affected, True
    else:
        pending, is_checked = plan.begin(write), False
        affected = write.task.run(pending)
    tables = pending.tables()
    if plan.rows.is_touched(tables):
        return None
    if not is_checked:
        write.task.check(pending)
    if not tables and request.idempotency is None:
        return Verdict(write, WriteOutcome(affected))
    member = GroupMember(
        commit_id=CommitId(effects.new_id()),
        created_at_us=effects.now_ms() * 1000,
        touched={each.type.table_key: (*each.rows, *each.gone) for each in tables},
        counts={each.type.table_key: each.counts for each in tables},
        actor=request.actor,
        message=request.message,
        idempotency=None
        if request.idempotency is None
        else request.idempotency.record(write.task.result_of(affected)),
    )
    return Accepted(write, pending, tables, affected, member)


def _find_twin(plan: GroupPlan, write: QueuedWrite) -> Accepted | None:
    """(3) The member with the same key and actor. Raises KeyReused."""
    wanted = write.request.idempotency
    if wanted is None:
        return None
    for each in plan.accepted:
        request = each.write.request
        key = request.idempotency
        if key is not None and (key.key, request.actor) == (wanted.key, write.request.actor):
            if key.body_hash != wanted.body_hash:
                raise KeyReused(wanted.key)
            return each
    return None
