"""A plan as commits of bounded size.

New rows are appended as a stream, changed rows are replaced in portions, and deleted rows are
deleted by address. All pieces that workers write become one commit.

Row addresses stay valid from one of these commits to the next: each commit only adds fragments and
deletes rows that no later commit touches, and the table is locked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.manifest.change import Stage
from omnigraph.engine.merge.table_plan import Edit, TablePlan
from omnigraph.engine.merge.workers import Workers
from omnigraph.engine.tables.columns import build_table
from omnigraph.engine.tables.row_refs import fetch, portions, stream
from omnigraph.storage.tables import (
    Addresses,
    Handle,
    Mark,
    Replacement,
    RowChanges,
    Staged,
    Tables,
)


def stages_of(tables: Tables, plan: TablePlan) -> tuple[Stage, ...]:
    return tuple(_stages(tables, plan))


def stages_by(workers: Workers, tables: Tables, plan: TablePlan) -> tuple[Stage, ...]:
    def stage(handle: Handle, mark: Mark) -> Staged:
        pieces = workers.write(plan, handle)
        if plan.edits:
            pieces += (tables.to_pieces(_stage_edits(tables, plan, handle, mark)),)
        return tables.stage_pieces(handle, pieces, mark)

    return (stage,)


def dropped_addresses(plan: TablePlan) -> Addresses:
    """The addresses of target rows that the plan deletes or replaces, ascending."""
    edited = [each.replaced[1] for each in plan.edits if each.replaced is not None]
    places = (plan.updated.addresses, plan.blended.addresses, plan.deletes.addresses)
    return np.sort(np.concatenate([*places, np.asarray(edited, np.uint64)]))


def _stages(tables: Tables, plan: TablePlan) -> Iterator[Stage]:
    sides = plan.sides
    if len(plan.inserts):
        yield partial(_append, tables, plan)
    for start, stop in portions(tables, sides.type, sides.source, plan.updates.addresses):
        yield partial(_replace, tables, plan, slice(start, stop))
    for start, stop in portions(tables, sides.type, sides.source, plan.blends.addresses):
        yield partial(_blend, tables, plan, slice(start, stop))
    if plan.edits:
        yield partial(_edit, tables, plan)
    if len(plan.deletes):
        yield partial(_delete, tables, plan)


def _append(tables: Tables, plan: TablePlan, handle: Handle, mark: Mark) -> Staged:
    sides = plan.sides
    addresses = plan.inserts.addresses
    kept = sides.taken.find(addresses)
    rows = stream(tables, sides.type, sides.source, addresses) if kept is None else kept.to_reader()
    return tables.stage_append(handle, rows, mark)


def _replace(tables: Tables, plan: TablePlan, some: slice, handle: Handle, mark: Mark) -> Staged:
    sides, old = plan.sides, plan.updated
    replacement = Replacement(
        sides.taken.fetch(tables, plan.updates.addresses[some]),
        row_ids=old.row_ids[some].tolist(),
        row_addresses=old.addresses[some].tolist(),
    )
    return tables.stage_rows(handle, RowChanges(updates=replacement), mark)


def _blend(tables: Tables, plan: TablePlan, some: slice, handle: Handle, mark: Mark) -> Staged:
    old = plan.blended
    replacement = Replacement(
        blended_rows(tables, plan, some),
        row_ids=old.row_ids[some].tolist(),
        row_addresses=old.addresses[some].tolist(),
    )
    return tables.stage_rows(handle, RowChanges(updates=replacement), mark)


def blended_rows(
    tables: Tables, plan: TablePlan, some: slice, names: Sequence[str] | None = None
) -> pa.Table:
    """Rows of the target with those properties that the source changed; all columns or some."""
    sides = plan.sides
    ours = fetch(tables, sides.type, sides.target, plan.blended.addresses[some], names)
    theirs = sides.taken.fetch(tables, plan.blends.addresses[some], names)
    columns = [
        _choose(plan.masks[name][some].tolist(), theirs[name], ours[name])
        if name in plan.masks
        else ours[name]
        for name in ours.column_names
    ]
    return pa.Table.from_arrays(columns, schema=ours.schema)


def _choose(
    mask: list[bool], left: "pa.ChunkedArray[Any]", right: "pa.ChunkedArray[Any]"
) -> "pa.ChunkedArray[Any]":
    """From the left where the mask is set, else from the right; for any type of column."""
    both = pa.chunked_array([*left.chunks, *right.chunks], left.type)
    places = [at if taken else at + len(mask) for at, taken in enumerate(mask)]
    return pc.take(both, pa.array(places, pa.int64()))


def _edit(tables: Tables, plan: TablePlan, handle: Handle, mark: Mark) -> Staged:
    return tables.stage_rows(handle, _edited(plan), mark)


def _stage_edits(tables: Tables, plan: TablePlan, handle: Handle, mark: Mark) -> Staged:
    """The edited rows; other pieces mark the rows that they replace as deleted."""
    changes = _edited(plan)
    if changes.updates is not None:
        changes = replace(changes, updates=replace(changes.updates, row_addresses=()))
    return tables.stage_rows(handle, changes, mark)


def _edited(plan: TablePlan) -> RowChanges:
    type_ = plan.sides.type
    new = [each.row for each in plan.edits if each.replaced is None]
    changed = [each for each in plan.edits if each.replaced is not None]
    return RowChanges(
        inserts=build_table(type_, new) if new else None,
        updates=_replacement(plan, changed) if changed else None,
    )


def _replacement(plan: TablePlan, edits: list[Edit]) -> Replacement:
    refs = [each.replaced for each in edits if each.replaced is not None]
    return Replacement(
        build_table(plan.sides.type, [each.row for each in edits]),
        row_ids=[row_id for row_id, _ in refs],
        row_addresses=[address for _, address in refs],
    )


def _delete(tables: Tables, plan: TablePlan, handle: Handle, mark: Mark) -> Staged:
    return tables.stage_rows(handle, RowChanges(deletes=plan.deletes.addresses.tolist()), mark)
