"""Values: what a merge does to the rows of one table, and the rows that need a comparison.

A `TablePlan` holds row refs, never rows. `PlanDraft` collects it. `ConflictCandidates` locates the
rows that both branches may have changed, in the bases, the target and the source.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnigraph.engine.merge.classify import ConflictKind, RowStep, Token, decide_row
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.taken_rows import TakenRows
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.tables.row_refs import RowRefs, Type, concat_row_refs
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class Sides:
    """One table in the source, in the target, and in each merge base."""

    type: Type
    bases: tuple[Handle | None, ...]
    source: Handle
    target: Handle
    taken: TakenRows
    """Rows of the source that were read once."""
    only: frozenset[str] | None = None
    """The ids whose changes count; None for all. A member of a group has only its own (D29)."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A row whose value a person wrote into the conflict file, or that blends both sides."""

    row: Row
    replaced: tuple[int, int] | None
    """Row id and address of the target row that this one replaces; None for a new row."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """What happens to the rows of the target, as row refs."""

    sides: Sides
    inserts: RowRefs
    """Rows of the source."""
    updates: RowRefs
    """Rows of the source..."""
    updated: RowRefs
    """...and the rows of the target they replace, one for one."""
    blends: RowRefs
    """Rows of the source of which the target takes some properties..."""
    blended: RowRefs
    """...the rows of the target that take them..."""
    masks: Mapping[str, "np.ndarray[Any, np.dtype[np.bool_]]"]
    """...and which properties: by column, one flag per row."""
    edits: tuple[Edit, ...]
    deletes: RowRefs
    """Rows of the target."""

    @property
    def is_empty(self) -> bool:
        parts = (self.inserts, self.updates, self.blends, self.deletes)
        return not any(map(len, parts)) and not self.edits

    @property
    def row_count(self) -> int:
        """How many rows the plan writes or deletes."""
        return self.inserted_count + self.updated_count + len(self.deletes)

    @property
    def inserted_count(self) -> int:
        return len(self.inserts) + sum(each.replaced is None for each in self.edits)

    @property
    def updated_count(self) -> int:
        replaced = sum(each.replaced is not None for each in self.edits)
        return len(self.updates) + len(self.blends) + replaced


@dataclass(slots=True)
class Located:
    """Some rows of one version of a table, found by id."""

    handle: Handle | None
    at: Mapping[str, int]
    refs: RowRefs
    tokens: Sequence[bytes]

    def token(self, row_id: str) -> Token:
        place = self.at.get(row_id)
        return None if place is None else self.tokens[place]

    def refs_of(self, ids: Sequence[str]) -> RowRefs:
        """The refs of those ids that exist in this version."""
        return self.refs.take(
            np.asarray([self.at[each] for each in ids if each in self.at], np.int64)
        )


@dataclass(slots=True)
class ConflictCandidates:
    """Rows that both branches may have changed, located on every side."""

    ids: Sequence[str]
    bases: Sequence[Located]
    target: Located
    source: Located

    def decide(self, row_id: str) -> RowStep | ConflictKind:
        bases = [each.token(row_id) for each in self.bases]
        return decide_row(bases, self.target.token(row_id), self.source.token(row_id))


@dataclass(slots=True)
class PlanDraft:
    """Collects a `TablePlan`."""

    conflicts: list[Conflict] = field(default_factory=list)
    inserts: list[RowRefs] = field(default_factory=list)
    updates: list[RowRefs] = field(default_factory=list)
    updated: list[RowRefs] = field(default_factory=list)
    deletes: list[RowRefs] = field(default_factory=list)
    blends: list[RowRefs] = field(default_factory=list)
    blended: list[RowRefs] = field(default_factory=list)
    masks: list[Mapping[str, bool]] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def add(self, other: "PlanDraft") -> None:
        """Add the decisions of another draft about other rows."""
        self.conflicts += other.conflicts
        self.inserts += other.inserts
        self.updates += other.updates
        self.updated += other.updated
        self.deletes += other.deletes
        self.blends += other.blends
        self.blended += other.blended
        self.masks += other.masks
        self.edits += other.edits

    def take(self, ids: Sequence[str], candidates: ConflictCandidates) -> None:
        """Make these rows of the target equal to those of the source."""
        source, target = candidates.source, candidates.target
        self.remove([each for each in ids if each not in source.at], candidates)
        there = [each for each in ids if each in source.at]
        new = [each for each in there if each not in target.at]
        changed = [
            each for each in there if each in target.at and source.token(each) != target.token(each)
        ]
        self.inserts.append(source.refs_of(new))
        self.updates.append(source.refs_of(changed))
        self.updated.append(target.refs_of(changed))

    def remove(self, ids: Sequence[str], candidates: ConflictCandidates) -> None:
        self.deletes.append(candidates.target.refs_of(ids))

    def blend(
        self, masks: Mapping[str, Mapping[str, bool]], candidates: ConflictCandidates
    ) -> None:
        """Take some columns of some rows from the source. Masks are by row id."""
        wanted = [each for each, mask in masks.items() if any(mask.values())]
        self.blends.append(candidates.source.refs_of(wanted))
        self.blended.append(candidates.target.refs_of(wanted))
        self.masks += [masks[each] for each in wanted]

    def edit(self, row_id: str, candidates: ConflictCandidates, row: Row) -> None:
        """Give a row the value that a person wrote."""
        replaced = None
        if row_id in candidates.target.at:
            place = candidates.target.refs_of([row_id])
            replaced = (int(place.row_ids[0]), int(place.addresses[0]))
        self.edits.append(Edit(row, replaced))

    def plan(self, sides: Sides) -> TablePlan:
        names = tuple(self.masks[0]) if self.masks else ()
        return TablePlan(
            sides,
            concat_row_refs(self.inserts),
            concat_row_refs(self.updates),
            concat_row_refs(self.updated),
            concat_row_refs(self.blends),
            concat_row_refs(self.blended),
            {name: np.asarray([each[name] for each in self.masks], np.bool_) for name in names},
            tuple(self.edits),
            concat_row_refs(self.deletes),
        )
