"""Whether the merged graph obeys the schema.

The target obeys it by itself, so only what the plans change can break it: rows that are written,
nodes that go, sources whose edges were counted. Whatever is asked of the target beyond the tables
that are written is remembered, because the answer is part of what was decided.

Columns are read, not rows: of a million new rows with large vectors, only those columns that a rule
is about.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Cardinality, Catalog, Check, EdgeType, NodeType, Range
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.engine.history.images import read_rows
from omnigraph.engine.merge.conflicts import RuleBreach, conflict_of
from omnigraph.engine.merge.table_plan import TablePlan
from omnigraph.engine.merge.writes import choose, dropped_addresses
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import build_table, schema_of
from omnigraph.engine.tables.row_refs import Type, fetch, find_row_refs
from omnigraph.engine.write.base_rows import Committed, uniques_of
from omnigraph.engine.write.validate import (
    check_count,
    find_value_violations,
    missing_end,
    shared_value,
)
from omnigraph.engine.write.violations import Violation, ViolationKind
from omnigraph.ids import TableKey, Version, table_key
from omnigraph.storage.tables import Addresses, Handle, ScanRequest, Tables

RIVALS_SPELLED_MAX: Final = 2_000
"""Values of more rows than this are looked for by reading the whole column."""

ROWS_AT_A_TIME: Final = 32_768
"""Of the few columns that are read here."""

_OF_VALUES: Final = frozenset({ViolationKind.RANGE, ViolationKind.CHECK, ViolationKind.ENUM})


@dataclass
class MergedGraph:
    """The target, and what is about to happen to it."""

    tables: Tables
    catalog: Catalog
    manifest: Manifest
    open_pin: Callable[[Pin], Handle]
    plans: Mapping[TableKey, TablePlan]
    asked: dict[TableKey, Version] = field(default_factory=dict)
    """Tables that were looked at, and the versions they were at."""
    _handles: dict[TableKey, Handle] = field(default_factory=dict)

    def find_breaches(self) -> list[RuleBreach]:
        found: list[RuleBreach] = []
        for key, plan in sorted(self.plans.items()):
            found += [RuleBreach(conflict_of(key, each)) for each in self._find_value_faults(plan)]
            for shared in self._find_shared_values(plan):
                found.append(
                    RuleBreach(conflict_of(key, shared), tuple((key, id_) for id_ in shared.ids))
                )
            if isinstance(plan.sides.type, EdgeType):
                edge = plan.sides.type
                found += [_orphaned(edge, each) for each in self._find_missing_ends(plan, edge)]
                found += self._find_miscounts(plan, edge)
            else:
                found += self._find_orphans(plan, plan.sides.type)
        return found

    def _open(self, key: TableKey) -> Handle | None:
        """A table of the target, unless it has nothing to show."""
        pin = self.manifest.pins[key]
        self.asked[key] = pin.version
        if not pin.row_count:
            return None
        if key not in self._handles:
            self._handles[key] = self.open_pin(pin)
        return self._handles[key]

    # values

    def _find_value_faults(self, plan: TablePlan) -> Iterator[Violation]:
        type_ = plan.sides.type
        for edit in plan.edits:
            # Of rows that tables hold, required columns have been checked by the table.
            found = find_value_violations(type_, edit.row)
            yield from (each for each in found if each.kind is ViolationKind.REQUIRED)
        columns = _checked_columns(type_)
        if not columns:
            return
        for part in written_rows(self.tables, plan, columns):
            for row in read_rows(type_, part):
                found = find_value_violations(type_, row)
                yield from (each for each in found if each.kind in _OF_VALUES)

    # uniqueness

    def _find_shared_values(self, plan: TablePlan) -> Iterator[Violation]:
        type_ = plan.sides.type
        for group in uniques_of(type_):
            parts = [_whole(each, group) for each in written_rows(self.tables, plan, group)]
            written = pa.concat_tables(parts) if parts else None
            if written is None or not written.num_rows:
                continue
            holders: dict[tuple[Cell, ...], list[str]] = {}
            rivals = self._find_rivals(plan, group, written)
            replaced = replaced_ids(plan)
            for values, row_id in rivals:
                if row_id not in replaced:
                    holders.setdefault(values, []).append(row_id)
            for values, row_id in _suspects(type_, group, written, holders):
                holders.setdefault(values, []).append(row_id)
            for values, ids in holders.items():
                if len(ids) > 1:
                    yield shared_value(type_, group, values, tuple(ids))

    def _find_rivals(
        self, plan: TablePlan, group: tuple[str, ...], written: pa.Table
    ) -> Iterator[tuple[tuple[Cell, ...], str]]:
        """Rows of the target that may hold a value that is written."""
        type_ = plan.sides.type
        handle = self._open(type_.table_key)
        if handle is None:
            return
        if written.num_rows <= RIVALS_SPELLED_MAX:
            committed = Committed(self.tables, self.manifest, self.open_pin)
            for found in committed.find_rivals(type_, read_rows(type_, written), ()):
                yield tuple(found.row[name] for name in group), found.id
            return
        first = written[group[0]].combine_chunks()
        # What is looked for is hashed for every batch, so batches are as long.
        request = ScanRequest(columns=("id", *group), batch_rows_max=written.num_rows)
        with self.tables.scan(handle, request) as batches:
            for batch in batches:
                known = batch.filter(pc.is_in(batch[group[0]], value_set=first))
                for row in read_rows(type_, pa.Table.from_batches([known])):
                    yield tuple(row[name] for name in group), str(row["id"])

    # ends of edges

    def _find_missing_ends(self, plan: TablePlan, edge: EdgeType) -> Iterator[Violation]:
        """Ends of written edges that will not be there."""
        for column, node in (("src", edge.source), ("dst", edge.target)):
            ends = _distinct(written_rows(self.tables, plan, (column,)), column)
            missing = self._find_missing(table_key("node", node), ends)
            if not len(missing):
                continue
            for part in written_rows(self.tables, plan, (column,)):
                lost = part.filter(pc.is_in(part[column], value_set=missing))
                for row_id, end in zip(
                    lost["id"].to_pylist(), lost[column].to_pylist(), strict=True
                ):
                    yield missing_end(edge, str(row_id), column, end)

    def _find_missing(self, key: TableKey, ids: "pa.Array[Any]") -> "pa.Array[Any]":
        """Those of the nodes that will not be there."""
        if not len(ids):
            return ids
        plan = self.plans.get(key)
        handle = self._open(key)
        unsure = ids
        if plan is not None:
            unsure = _without(unsure, new_ids(plan))
        if handle is None:
            return unsure
        _, found = find_row_refs(self.tables, handle, "id", unsure)
        known = found.ids if plan is None else _without(found.ids, plan.deletes.ids)
        return _without(unsure, known)

    def _find_orphans(self, plan: TablePlan, node: NodeType) -> Iterator[RuleBreach]:
        """Edges of the target that stay, of nodes that go."""
        if not len(plan.deletes):
            return
        for edge in self.catalog.edges:
            ends = (("src", edge.source), ("dst", edge.target))
            for column in [column for column, name in ends if name == node.name]:
                handle = self._open(edge.table_key)
                if handle is None:
                    continue
                held, refs = find_row_refs(self.tables, handle, column, plan.deletes.ids)
                written = self.plans.get(edge.table_key)
                gone = frozenset[str]() if written is None else replaced_ids(written)
                for row_id, end in zip(refs.ids.to_pylist(), held.to_pylist(), strict=True):
                    if row_id not in gone:
                        yield _orphaned(edge, missing_end(edge, str(row_id), column, end))

    # cardinality

    def _find_miscounts(self, plan: TablePlan, edge: EdgeType) -> Iterator[RuleBreach]:
        if edge.cardinality == Cardinality():
            return
        counts: Counter[str] = Counter()
        for part in written_rows(self.tables, plan, ("src",)):
            counts.update(str(each) for each in part["src"].to_pylist())
        touched = {*counts, *_former_sources(self.tables, plan)}
        sources = self.plans.get(table_key("node", edge.source))
        if sources is not None:
            touched -= set(sources.deletes.ids.to_pylist())
        handle = self._open(edge.table_key)
        if handle is not None and touched:
            replaced = replaced_ids(plan)
            wanted = pa.array(sorted(touched), pa.string())
            held, refs = find_row_refs(self.tables, handle, "src", wanted)
            for row_id, source in zip(refs.ids.to_pylist(), held.to_pylist(), strict=True):
                if row_id not in replaced:
                    counts[str(source)] += 1
        wrong = {
            source: violation
            for source in sorted(touched)
            for violation in check_count(edge, source, counts[source])
        }
        edges = self._find_edges(plan, [*wrong])
        for source, violation in wrong.items():
            rows = tuple((edge.table_key, each) for each in sorted(edges.get(source, ())))
            yield RuleBreach(conflict_of(edge.table_key, violation), rows)

    def _find_edges(self, plan: TablePlan, sources: Sequence[str]) -> dict[str, set[str]]:
        """The edges that leave each of these nodes, on either branch."""
        found: dict[str, set[str]] = {}
        for side in (plan.sides.source, plan.sides.target):
            held, refs = find_row_refs(self.tables, side, "src", pa.array(sources, pa.string()))
            for row_id, source in zip(refs.ids.to_pylist(), held.to_pylist(), strict=True):
                found.setdefault(str(source), set()).add(str(row_id))
        return found


def _orphaned(edge: EdgeType, violation: Violation) -> RuleBreach:
    """An edge and its end are at stake: either both are there, or neither."""
    node = edge.source if violation.property_name == "src" else edge.target
    rows = ((edge.table_key, violation.ids[0]), (table_key("node", node), str(violation.value)))
    return RuleBreach(conflict_of(edge.table_key, violation), rows)


# ── what is written ──────────────────────────────────────────────────────────────────────────────


def written_rows(tables: Tables, plan: TablePlan, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Id and columns of every row that will be new or changed, portion by portion."""
    sides, names = plan.sides, tuple(dict.fromkeys(("id", *columns)))
    whole = np.sort(np.concatenate([plan.inserts.addresses, plan.updates.addresses]))
    for some in _slices(whole):
        yield fetch(tables, sides.type, sides.source, some, names)
    for start in range(0, len(plan.blends), ROWS_AT_A_TIME):
        stop = min(start + ROWS_AT_A_TIME, len(plan.blends))
        ours = fetch(tables, sides.type, sides.target, plan.blended.addresses[start:stop], names)
        theirs = fetch(tables, sides.type, sides.source, plan.blends.addresses[start:stop], names)
        blended = [
            choose(plan.masks[name][start:stop].tolist(), theirs[name], ours[name])
            if name in plan.masks
            else ours[name]
            for name in names
        ]
        yield pa.Table.from_arrays(blended, schema=ours.schema)
    if plan.edits:
        yield build_table(sides.type, [each.row for each in plan.edits]).select(names)


def _slices(addresses: Addresses) -> Iterator[Addresses]:
    for at in range(0, len(addresses), ROWS_AT_A_TIME):
        yield addresses[at : at + ROWS_AT_A_TIME]


def new_ids(plan: TablePlan) -> "pa.Array[Any]":
    """The ids of rows that will be new or changed."""
    edited = [str(each.row["id"]) for each in plan.edits]
    return pa.concat_arrays(
        [plan.inserts.ids, plan.updates.ids, plan.blends.ids, pa.array(edited, pa.string())]
    )


def replaced_ids(plan: TablePlan) -> frozenset[str]:
    """The ids of rows of the target that will be gone, or otherwise."""
    edited = (str(each.row["id"]) for each in plan.edits)
    parts = (plan.updated.ids, plan.blended.ids, plan.deletes.ids)
    return frozenset([*edited, *(str(each) for part in parts for each in part.to_pylist())])


def _former_sources(tables: Tables, plan: TablePlan) -> set[str]:
    """The sources that edges had which are gone, or may now start elsewhere."""
    found: set[str] = set()
    for some in _slices(dropped_addresses(plan)):
        part = fetch(tables, plan.sides.type, plan.sides.target, some, ("src",))
        found.update(str(each) for each in part["src"].to_pylist())
    return found


def _checked_columns(type_: Type) -> tuple[str, ...]:
    """The columns whose values a rule is about, whatever other rows there are."""
    ruled = [each.property for each in type_.constraints if isinstance(each, Range | Check)]
    enums = [each.name for each in type_.properties if each.type.enum_values is not None]
    wanted = {*ruled, *enums}
    return tuple(name for name in schema_of(type_).names if name in wanted)


def _whole(rows: pa.Table, group: tuple[str, ...]) -> pa.Table:
    """Rows that have a value in every column of the group; others share with nobody."""
    for name in group:
        rows = rows.filter(pc.is_valid(rows[name]))
    return rows


def _suspects(
    type_: Type,
    group: tuple[str, ...],
    written: pa.Table,
    holders: Mapping[tuple[Cell, ...], list[str]],
) -> Iterator[tuple[tuple[Cell, ...], str]]:
    """Written rows that share a value with each other, or with a holder."""
    counts = written.group_by(list(group)).aggregate([("id", "count")])
    repeated = counts.filter(pc.greater(counts["id_count"], pa.scalar(1))).select(list(group))
    doubtful = {
        *(tuple(row[name] for name in group) for row in read_rows(type_, repeated)),
        *holders,
    }
    if not doubtful:
        return
    for row in read_rows(type_, written):
        values = tuple(row[name] for name in group)
        if values in doubtful:
            yield values, str(row["id"])


def _distinct(parts: Iterator[pa.Table], column: str) -> "pa.Array[Any]":
    found: pa.Array[Any] = pa.array([], pa.string())
    for part in parts:
        found = pc.unique(pa.concat_arrays([found, part[column].combine_chunks()]))
    return found


def _without(ids: "pa.Array[Any]", others: "pa.Array[Any]") -> "pa.Array[Any]":
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))
