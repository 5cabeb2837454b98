"""What a merge does to every table of the target, decided before anything is locked or written.

`MergePlanner` compares the tables that the source moved since the base, checks that the merged
graph obeys the schema, and collects the conflicts that are left.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Base
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.manifest.updates import Update
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.history.table_diff import count_at_most
from omnigraph.engine.load.bulk import type_of
from omnigraph.engine.merge.bases import Ancestry
from omnigraph.engine.merge.broken_rules import BrokenRules
from omnigraph.engine.merge.check import MergedGraph
from omnigraph.engine.merge.classify import Outcome, TableStep, decide_table, may_point
from omnigraph.engine.merge.conflicts import Conflict, ConflictFile
from omnigraph.engine.merge.plan_rows import apply_rulings, plan_table
from omnigraph.engine.merge.rulings import Rulings
from omnigraph.engine.merge.sources import MergeSource
from omnigraph.engine.merge.table_plan import PlanDraft, Sides, TablePlan
from omnigraph.engine.merge.taken_rows import TakenRows
from omnigraph.engine.merge.workers import MergeWorkers, Workers
from omnigraph.engine.stages import stage
from omnigraph.engine.tables.row_refs import estimate_row_bytes
from omnigraph.engine.write.idempotency import IdempotencyKey
from omnigraph.errors import HeadMoved
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.storage.allocator import freed_memory
from omnigraph.storage.tables import Handle

T = TypeVar("T")
Planned = tuple[TablePlan, tuple[Conflict, ...]]

TOGETHER_ROWS_MAX: Final = 8_192
"""Tables are compared at the same time if so few rows of each may differ."""

HEAVY_BYTES: Final = 64 * 1024 * 1024
"""A merge with more bytes of vectors and blobs returns freed memory to the system at once. Rows
without vectors and blobs are small, and returning their memory is not worth the time."""


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The branches to merge, and the decisions about conflicts."""

    source: BranchName
    into: BranchName = MAIN
    actor: str | None = None
    rulings: Rulings = field(default_factory=Rulings)
    resolved: ConflictFile | None = None
    """The file that the row rulings come from; the heads it names must still be the heads."""
    base: CommitId | None = None
    dry_run: bool = False
    idempotency: IdempotencyKey | None = None
    """A repeated request with this key returns the first result and merges nothing."""
    message: str | None = None
    """Why the merge is made; kept in the commit."""
    proposal: str | None = None
    """The proposal that this merges; kept in the commit."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What a merge does to every table."""

    ancestry: Ancestry
    outcome: Outcome
    target: Base
    plans: Mapping[TableKey, TablePlan]
    pointers: Mapping[TableKey, Update]
    """Tables for which the target will show the source's version instead of a copy (D6)."""
    reads: Mapping[TableKey, Version]
    """Every table of the target that planning read, and its version."""
    conflicts: tuple[Conflict, ...]

    @property
    def counts(self) -> dict[TableKey, RowCounts]:
        return {
            key: RowCounts(each.inserted_count, each.updated_count, len(each.deletes))
            for key, each in sorted(self.plans.items())
        }


@dataclass(frozen=True, slots=True)
class MergePlanner:
    context: WriteContext
    schema: ActiveSchema
    request: MergeRequest
    source: MergeSource
    workers: MergeWorkers

    def plan(self, target: Base) -> MergePlan:
        """Plan every table against this version of the target."""
        ancestry = self.source.find_ancestry(target.manifest)
        self._check_heads(ancestry)
        outcome = ancestry.outcome if self.source.is_branch else Outcome.MERGED
        if outcome is Outcome.ALREADY_UP_TO_DATE:
            return MergePlan(ancestry, outcome, target, {}, {}, {}, ())
        plans: dict[TableKey, TablePlan] = {}
        conflicts: list[Conflict] = []
        reads: dict[TableKey, Version] = {}
        keys = self._find_tables(ancestry, target)
        opened = self._together([partial(self._sides_of, ancestry, target, key) for key in keys])
        for key, (plan, found) in zip(keys, self._plan_tables(opened), strict=True):
            reads[key] = target.manifest.pins[key].version
            conflicts += found
            if not plan.is_empty:  # a table that was changed and changed back is not written
                plans[key] = plan
        merged = MergedGraph(
            self.context.stores.tables,
            self.schema.catalog,
            target.manifest,
            lambda pin: self.context.open_pin(pin, target),
            plans,
        )
        broken = BrokenRules(
            merged, plans, self.request.rulings, partial(self._sides_of, ancestry, target)
        )
        with stage("checking"):
            conflicts += broken.resolve()
        pointers = {
            key: pointer
            for key, plan in plans.items()
            if key not in broken.decided
            and self._may_point(ancestry, target.manifest.pins[key], plan)
            and (pointer := self.source.pointer(key)) is not None
        }
        if not (plans or conflicts or self.source.is_branch):
            outcome = Outcome.ALREADY_UP_TO_DATE  # the target has all of it, and no parent to gain
        ordered = tuple(sorted(conflicts, key=lambda each: each.place))
        return MergePlan(
            ancestry, outcome, target, plans, pointers, {**reads, **broken.reads}, ordered
        )

    def _plan_tables(self, every: Sequence[Sides]) -> list[Planned]:
        """Small differences together; large ones take memory, and go one after the other."""
        calls = [partial(self._plan_table, each) for each in every]
        if all(map(self._is_small, every)):
            return self._together(calls)
        return [call() for call in calls]

    def _is_small(self, sides: Sides) -> bool:
        return self._count_at_most(sides) <= TOGETHER_ROWS_MAX and not self._find_workers(sides)

    def _together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        return self.context.stores.together(calls)

    def _count_at_most(self, sides: Sides) -> int:
        tables = self.context.stores.tables
        return sum(count_at_most(tables, each, sides.source) for each in sides.bases)

    def _find_workers(self, sides: Sides) -> Workers | None:
        # The ids of a member of a group are few, and workers share out all ids.
        return None if sides.only is not None else self.workers.find_for_planning(sides)

    def _plan_table(self, sides: Sides) -> Planned:
        with stage(f"comparing {sides.type.table_key}"):
            return self._compare(sides)

    def _compare(self, sides: Sides) -> Planned:
        tables, rulings = self.context.stores.tables, self.request.rulings
        workers = self._find_workers(sides)
        if workers is None:
            with release_memory((self._count_at_most(sides), sides)):
                return plan_table(tables, sides, rulings)
        draft = PlanDraft()
        for each in workers.draft(sides):
            draft.add(each)
        apply_rulings(tables, sides, rulings, draft)
        return draft.plan(sides), tuple(draft.conflicts)

    def _check_heads(self, ancestry: Ancestry) -> None:
        """A conflict file resolves the conflicts of two heads only. Raises HeadMoved."""
        resolved = self.request.resolved
        if resolved is None:
            return
        pairs = (
            (self.request.source, resolved.source_commit, ancestry.source.id),
            (self.request.into, resolved.target_commit, ancestry.target.id),
        )
        for branch, expected, actual in pairs:
            if expected != actual:
                raise HeadMoved(branch, expected=expected, actual=actual)

    def _find_tables(self, ancestry: Ancestry, target: Base) -> list[TableKey]:
        """Every table that the source moved or a ruling names, in key order."""
        sources, targets = self.source.pins, target.manifest.pins
        ruled = self.request.rulings.rows
        return [
            key
            for key in sorted(sources.keys() & targets.keys())
            if key in ruled
            or decide_table(ancestry.pins_of(key), targets[key], sources[key]) is not TableStep.KEEP
        ]

    def _sides_of(self, ancestry: Ancestry, target: Base, key: TableKey) -> Sides:
        type_, source = type_of(self.schema.catalog, key), self.source.open(key)
        return Sides(
            type_,
            tuple(self._open_all(ancestry.pins_of(key), target)),
            source,
            self.context.open_pin(target.manifest.pins[key], target),
            TakenRows(type_, source),
            self.source.find_touched(key),
        )

    def _open_all(self, pins: Collection[Pin | None], target: Base) -> Iterator[Handle | None]:
        for pin in pins:
            if pin is None:
                yield None
            elif pin.owner == MAIN:  # every branch shows the same versions of main
                yield self.context.open_pin(pin, target)
            else:
                yield open_pin(self.context.stores, pin)

    def _may_point(self, ancestry: Ancestry, pin: Pin, plan: TablePlan) -> bool:
        """(D6) Only if the source alone moved the table and no ruling changed a row of it."""
        source = self.source.pins[pin.key]
        is_adopted = decide_table(ancestry.pins_of(pin.key), pin, source) is TableStep.ADOPT
        is_plain = pin.key not in self.request.rulings.rows and not plan.edits
        return is_adopted and is_plain and may_point(pin, source, self.request.into)


def release_memory(*parts: tuple[int, Sides]) -> AbstractContextManager[None]:
    """Return freed memory at once if so many rows of each table are heavy."""
    is_heavy = sum(rows * estimate_row_bytes(sides.type) for rows, sides in parts) > HEAVY_BYTES
    return freed_memory.returned() if is_heavy else nullcontext()
