"""Computes what a merge does to the rows of one table.

Row refs alone decide most rows. A row is a *conflict candidate* if the target changed it too, if
several bases may differ in it, or if a ruling names it. Only conflict candidates are read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.history.table_diff import (
    EVERY_ID,
    Difference,
    NamedIds,
    Share,
    digest_at,
    find_difference,
    find_shared_version,
)
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.resolve import resolve_conflicts, spell_sides
from omnigraph.engine.merge.rulings import RowRuling, Rulings, Side
from omnigraph.engine.merge.table_plan import (
    ConflictCandidates,
    Located,
    PlanDraft,
    Sides,
    TablePlan,
)
from omnigraph.engine.tables.row_refs import (
    RowRefs,
    Type,
    concat_row_refs,
    find_row_refs,
    no_row_refs,
    portions,
)
from omnigraph.storage.tables import Handle, Tables

CONTESTED_AT_A_TIME: Final = 2_048


def plan_table(
    tables: Tables, sides: Sides, rulings: Rulings
) -> tuple[TablePlan, tuple[Conflict, ...]]:
    """Apply to the target what the source changed since the base."""
    share = EVERY_ID if sides.only is None else NamedIds(sides.only)
    draft = draft_share(tables, sides, rulings, share)
    apply_rulings(tables, sides, rulings, draft)
    return draft.plan(sides), tuple(draft.conflicts)


def draft_share(
    tables: Tables, sides: Sides, rulings: Rulings, share: Share | NamedIds
) -> PlanDraft:
    """Plan the ids of one share, except those that a ruling names."""
    draft = PlanDraft()
    ruled = rulings.rows.get(sides.type.table_key, {})
    differences = [
        find_difference(tables, sides.type, each, sides.source, share) for each in sides.bases
    ]
    if len(differences) == 1:
        contested = _apply_uncontested(tables, sides, differences[0], ruled, draft)
    else:
        contested = _every_id(differences)
    _resolve_conflicts(
        tables, sides, rulings, {*map(str, contested.to_pylist())} - ruled.keys(), draft
    )
    return draft


def apply_rulings(tables: Tables, sides: Sides, rulings: Rulings, draft: PlanDraft) -> None:
    """Plan the rows that a ruling names."""
    _resolve_conflicts(tables, sides, rulings, rulings.rows.get(sides.type.table_key, {}), draft)


def amend(tables: Tables, plan: TablePlan, decided: Mapping[str, Side]) -> TablePlan:
    """The same plan, with some rows set to one side."""
    rows = {row_id: RowRuling(side) for row_id, side in decided.items()}
    draft = PlanDraft()
    apply_rulings(tables, plan.sides, Rulings(rows={plan.sides.type.table_key: rows}), draft)
    added = draft.plan(plan.sides)
    parts = (plan.inserts, plan.updates, plan.blends, plan.deletes)
    inserts, updates, blends, deletes = (~_among(each.ids, decided) for each in parts)
    return replace(
        plan,
        inserts=concat_row_refs([plan.inserts.take(inserts), added.inserts]),
        updates=concat_row_refs([plan.updates.take(updates), added.updates]),
        updated=concat_row_refs([plan.updated.take(updates), added.updated]),
        blends=plan.blends.take(blends),
        blended=plan.blended.take(blends),
        masks={name: mask[blends] for name, mask in plan.masks.items()},
        deletes=concat_row_refs([plan.deletes.take(deletes), added.deletes]),
    )


def show_sides(tables: Tables, sides: Sides, conflicts: Sequence[Conflict]) -> Iterator[Conflict]:
    """The same conflicts, each with its row in the base, the target and the source."""
    for at in range(0, len(conflicts), CONTESTED_AT_A_TIME):
        some = conflicts[at : at + CONTESTED_AT_A_TIME]
        ids = sorted({str(each.row_id) for each in some})
        shown = spell_sides(tables, sides.type, _locate(tables, sides, ids))
        for each in some:
            base, ours, theirs = shown[str(each.row_id)]
            yield replace(each, base=base, ours=ours, theirs=theirs)


def _resolve_conflicts(
    tables: Tables, sides: Sides, rulings: Rulings, ids: Collection[str], draft: PlanDraft
) -> None:
    listed = sorted(ids)
    for at in range(0, len(listed), CONTESTED_AT_A_TIME):
        some = listed[at : at + CONTESTED_AT_A_TIME]
        resolve_conflicts(tables, sides, rulings, _locate(tables, sides, some), draft)


# ── decided by row refs ──────────────────────────────────────────────────────────────────────────


def _apply_uncontested(
    tables: Tables,
    sides: Sides,
    difference: Difference,
    ruled: Mapping[str, RowRuling],
    draft: PlanDraft,
) -> "pa.Array[Any]":
    """Apply what the target cannot have changed; return the ids of the rest."""
    base, target = difference.before, sides.target
    inserted, replaced, deleted = difference.inserted, difference.replaced, difference.deleted

    def find_in_target() -> RowRefs:
        if base is not None and (base.ref, base.version) == (target.ref, target.version):
            return concat_row_refs([replaced, deleted])
        changed = pa.concat_arrays([inserted.ids, replaced.ids, deleted.ids])
        return find_row_refs(tables, target, "id", changed)[1]

    def take_from_source() -> RowRefs:
        taken = concat_row_refs([inserted, difference.replacing])
        sides.taken.keep(tables, taken.addresses)
        return taken

    found, _ = tables.together([find_in_target, take_from_source])
    shared = 0 if base is None else find_shared_version(tables, base, target)

    rest = []
    if len(found) or ruled:
        at = _places(inserted.ids, found.ids)
        is_free = (at < 0) & ~_among(inserted.ids, ruled)
        draft.inserts.append(inserted.take(is_free))
        rest.append(_left_out(inserted, is_free))
    else:
        draft.inserts.append(inserted)

    at = _places(replaced.ids, found.ids)
    is_free = _is_untouched(replaced, found, at, shared) & ~_among(replaced.ids, ruled)
    draft.updates.append(difference.replacing.take(is_free))
    draft.updated.append(found.take(at[is_free]))
    rest.append(_left_out(replaced, is_free))

    at = _places(deleted.ids, found.ids)
    is_free = _is_untouched(deleted, found, at, shared) & ~_among(deleted.ids, ruled)
    draft.deletes.append(found.take(at[is_free]))
    # A row that both sides deleted needs no decision either.
    rest.append(_left_out(deleted, is_free | (at < 0)))
    return pa.concat_arrays(rest)


def _left_out(refs: RowRefs, decided: "np.ndarray[Any, Any]") -> "pa.Array[Any]":
    return refs.ids.filter(pa.array(~decided))


def _every_id(differences: Sequence[Difference]) -> "pa.Array[Any]":
    parts = [
        refs.ids for each in differences for refs in (each.inserted, each.replaced, each.deleted)
    ]
    return pc.unique(pa.concat_arrays(parts))


def _places(ids: "pa.Array[Any]", among: "pa.Array[Any]") -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The index of each id in the other array; -1 if it is missing there."""
    at = pc.index_in(ids, value_set=among)
    return np.asarray(at.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _among(ids: "pa.Array[Any]", ruled: Collection[str]) -> "np.ndarray[Any, Any]":
    if not ruled:
        return np.zeros(len(ids), np.bool_)
    return pc.is_in(ids, value_set=pa.array(list(ruled), pa.string())).to_numpy(
        zero_copy_only=False
    )


def _is_untouched(
    base: RowRefs, found: RowRefs, at: "np.ndarray[Any, Any]", shared: int
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which rows no writer of the target changed since the base."""
    untouched = at >= 0
    there = at[untouched]
    untouched[untouched] = (
        (found.row_ids[there] == base.row_ids[untouched])
        & (found.updated[there] == base.updated[untouched])
        & (found.updated[there] <= shared)
    )
    return untouched


# ── decided by content ───────────────────────────────────────────────────────────────────────────


def _locate(tables: Tables, sides: Sides, ids: Sequence[str]) -> ConflictCandidates:
    wanted = pa.array(ids, pa.string())
    *bases, target, source = tables.together(
        [
            partial(_located, tables, sides.type, each, wanted)
            for each in (*sides.bases, sides.target, sides.source)
        ]
    )
    return ConflictCandidates(ids, bases, target, source)


def _located(
    tables: Tables, type_: Type, handle: Handle | None, wanted: "pa.Array[Any]"
) -> Located:
    if handle is None:
        return Located(None, {}, no_row_refs(), ())
    _, refs = find_row_refs(tables, handle, "id", wanted)
    tokens: list[bytes] = []
    for start, stop in portions(tables, type_, handle, refs.addresses):
        tokens += digest_at(tables, type_, handle, refs.addresses[start:stop])
    at = {str(each): place for place, each in enumerate(refs.ids.to_pylist())}
    return Located(handle, at, refs, tokens)
