"""Checks that the merged graph obeys the schema.

The target obeys the schema by itself, so only the plans can break it: rows they write, nodes they
delete, and the edge counts of sources they touch. Every table that the check reads is recorded with
its version, because the plan depends on its content.

The check reads only the columns that a rule names, not whole rows: new rows may hold large vectors.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, Check, EdgeType, Range
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.engine.history.images import read_rows
from omnigraph.engine.merge.conflicts import RuleBreach, conflict_of
from omnigraph.engine.merge.table_plan import TablePlan
from omnigraph.engine.merge.writes import blended_rows, dropped_addresses
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import build_table, schema_of
from omnigraph.engine.tables.row_refs import Type, fetch, find_row_refs
from omnigraph.engine.write.base_rows import BaseRows
from omnigraph.engine.write.row_rules import (
    EdgeCount,
    Endpoint,
    MergeRule,
    OrphanedEdge,
    RowValues,
    UniqueValue,
    rules_of_merge,
)
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
"""For more written rows than this, the check reads the whole column instead of a filter."""

CHECKED_TOGETHER_MAX: Final = 256
"""Rules are checked at the same time if each table writes or deletes so few rows."""

ROWS_AT_A_TIME: Final = 32_768
"""How many rows of the few checked columns are read at a time."""

_OF_VALUES: Final = frozenset({ViolationKind.RANGE, ViolationKind.CHECK, ViolationKind.ENUM})


@dataclass
class MergedGraph:
    """The target with the plans of a merge applied."""

    tables: Tables
    catalog: Catalog
    manifest: Manifest
    open_pin: Callable[[Pin], Handle]
    plans: Mapping[TableKey, TablePlan]
    asked: dict[TableKey, Version] = field(default_factory=dict)
    """The tables that the check read, and their versions."""
    _handles: dict[TableKey, Handle] = field(default_factory=dict)

    def find_breaches(self) -> list[RuleBreach]:
        checks: list[Callable[[], list[RuleBreach]]] = []
        counted: set[TableKey] = set()
        for key, plan in sorted(self.plans.items()):
            rules = rules_of_merge(self.catalog, plan.sides.type, counted)
            checks += [partial(self._find_all, rule, plan) for rule in rules]
            counted.add(key)
        is_small = all(each.row_count <= CHECKED_TOGETHER_MAX for each in self.plans.values())
        found = self.tables.together(checks) if is_small else [check() for check in checks]
        return list(chain.from_iterable(found))

    def _find_all(self, rule: MergeRule, plan: TablePlan) -> list[RuleBreach]:
        return list(self._find(rule, plan))

    def _find(self, rule: MergeRule, plan: TablePlan) -> Iterator[RuleBreach]:
        key = plan.sides.type.table_key
        match rule:
            case RowValues():
                for violation in self._find_value_faults(plan):
                    yield RuleBreach(conflict_of(key, violation))
            case UniqueValue(_, _, columns):
                for violation in self._find_shared_values(plan, columns):
                    rows = tuple((key, each) for each in violation.ids)
                    yield RuleBreach(conflict_of(key, violation), rows)
            case Endpoint(edge):
                for violation in self._find_missing_ends(plan, rule):
                    yield _orphaned(edge, violation)
            case EdgeCount():
                yield from self._find_miscounts(rule)
            case OrphanedEdge(edge):
                for violation in self._find_orphans(plan, rule):
                    yield _orphaned(edge, violation)
            case _:
                assert_never(rule)

    def _open(self, key: TableKey) -> Handle | None:
        """A table of the target; None if it has no rows."""
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
            # Rows that a table holds were checked for required columns when they were written.
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

    def _find_shared_values(self, plan: TablePlan, group: tuple[str, ...]) -> Iterator[Violation]:
        type_ = plan.sides.type
        parts = [_whole(each, group) for each in written_rows(self.tables, plan, group)]
        written = pa.concat_tables(parts) if parts else None
        if written is None or not written.num_rows:
            return
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
        """Rows of the target that may hold a unique value of a written row."""
        type_ = plan.sides.type
        handle = self._open(type_.table_key)
        if handle is None:
            return
        if written.num_rows <= RIVALS_SPELLED_MAX:
            committed = BaseRows(self.tables, self.manifest, self.open_pin)
            for found in committed.find_rivals(type_, read_rows(type_, written), ()):
                yield tuple(found.row[name] for name in group), found.id
            return
        first = written[group[0]].combine_chunks()
        # Each batch builds a hash table of the written values, so batches are as long as those.
        request = ScanRequest(columns=("id", *group), batch_rows_max=written.num_rows)
        with self.tables.scan(handle, request) as batches:
            for batch in batches:
                known = batch.filter(pc.is_in(batch[group[0]], value_set=first))
                for row in read_rows(type_, pa.Table.from_batches([known])):
                    yield tuple(row[name] for name in group), str(row["id"])

    # ends of edges

    def _find_missing_ends(self, plan: TablePlan, rule: Endpoint) -> Iterator[Violation]:
        """Written edges whose node at one end will not exist."""
        edge, column = rule.edge, rule.column
        ends = _distinct(written_rows(self.tables, plan, (column,)), column)
        missing = self._find_missing(rule.node_key, ends)
        if not len(missing):
            return
        for part in written_rows(self.tables, plan, (column,)):
            lost = part.filter(pc.is_in(part[column], value_set=missing))
            for row_id, end in zip(lost["id"].to_pylist(), lost[column].to_pylist(), strict=True):
                yield missing_end(edge, str(row_id), column, end)

    def _find_missing(self, key: TableKey, ids: "pa.Array[Any]") -> "pa.Array[Any]":
        """Those of the node ids that will not exist."""
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

    def _find_orphans(self, plan: TablePlan, rule: OrphanedEdge) -> Iterator[Violation]:
        """Edges of the target that stay although the plan deletes the node at one end."""
        edge, column = rule.edge, rule.column
        handle = self._open(edge.table_key) if len(plan.deletes) else None
        if handle is None:
            return
        held, refs = find_row_refs(self.tables, handle, column, plan.deletes.ids)
        written = self.plans.get(edge.table_key)
        gone = frozenset[str]() if written is None else replaced_ids(written)
        for row_id, end in zip(refs.ids.to_pylist(), held.to_pylist(), strict=True):
            if row_id not in gone:
                yield missing_end(edge, str(row_id), column, end)

    # cardinality

    def _find_miscounts(self, rule: EdgeCount) -> Iterator[RuleBreach]:
        edge = rule.edge
        plans = {each: self.plans.get(each.table_key) for each in rule.edges}
        counts: Counter[str] = Counter()
        touched: set[str] = set()
        for plan in filter(None, plans.values()):
            for part in written_rows(self.tables, plan, ("src",)):
                counts.update(str(each) for each in part["src"].to_pylist())
            touched |= _former_sources(self.tables, plan)
        touched |= counts.keys()
        sources = self.plans.get(table_key("node", edge.source))
        if sources is not None:
            touched -= set(sources.deletes.ids.to_pylist())
        for each, written in plans.items():
            replaced = frozenset[str]() if written is None else replaced_ids(written)
            for row_id, source in self._leaving(each, sorted(touched)):
                if row_id not in replaced:
                    counts[source] += 1
        wrong = {
            source: violation
            for source in sorted(touched)
            for violation in check_count(edge, source, counts[source])
        }
        edges = self._find_edges(plans, [*wrong])
        for source, violation in wrong.items():
            rows = tuple(sorted(edges.get(source, ())))
            yield RuleBreach(conflict_of(edge.table_key, violation), rows)

    def _leaving(self, edge: EdgeType, sources: Sequence[str]) -> list[tuple[str, str]]:
        """Id and source of the edges of the target that leave these nodes."""
        handle = self._open(edge.table_key)
        return [] if handle is None or not sources else self._edges_at(handle, sources)

    def _edges_at(self, handle: Handle, sources: Sequence[str]) -> list[tuple[str, str]]:
        held, refs = find_row_refs(self.tables, handle, "src", pa.array(sources, pa.string()))
        pairs = zip(refs.ids.to_pylist(), held.to_pylist(), strict=True)
        return [(str(row_id), str(source)) for row_id, source in pairs]

    def _find_edges(
        self, plans: Mapping[EdgeType, TablePlan | None], sources: Sequence[str]
    ) -> dict[str, set[tuple[TableKey, str]]]:
        """The edges that leave each of these nodes, on either branch."""
        found: dict[str, set[tuple[TableKey, str]]] = {}
        for edge, plan in plans.items():
            if plan is None:
                held = self._leaving(edge, sources)
            else:
                sides = (plan.sides.source, plan.sides.target)
                held = [each for side in sides for each in self._edges_at(side, sources)]
            for row_id, source in held:
                found.setdefault(source, set()).add((edge.table_key, row_id))
        return found


def _orphaned(edge: EdgeType, violation: Violation) -> RuleBreach:
    """The breach concerns an edge and its end: both must exist, or neither."""
    node = edge.source if violation.property_name == "src" else edge.target
    rows = ((edge.table_key, violation.ids[0]), (table_key("node", node), str(violation.value)))
    return RuleBreach(conflict_of(edge.table_key, violation), rows)


# ── the rows that the plans write ────────────────────────────────────────────────────────────────


def written_rows(tables: Tables, plan: TablePlan, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Id and columns of every new or changed row, in portions."""
    sides, names = plan.sides, tuple(dict.fromkeys(("id", *columns)))
    whole = np.sort(np.concatenate([plan.inserts.addresses, plan.updates.addresses]))
    for some in _slices(whole):
        yield sides.taken.fetch(tables, some, names)
    for start in range(0, len(plan.blends), ROWS_AT_A_TIME):
        yield blended_rows(tables, plan, slice(start, start + ROWS_AT_A_TIME), names)
    if plan.edits:
        yield build_table(sides.type, [each.row for each in plan.edits]).select(names)


def _slices(addresses: Addresses) -> Iterator[Addresses]:
    for at in range(0, len(addresses), ROWS_AT_A_TIME):
        yield addresses[at : at + ROWS_AT_A_TIME]


def new_ids(plan: TablePlan) -> "pa.Array[Any]":
    """The ids of new and changed rows."""
    edited = [str(each.row["id"]) for each in plan.edits]
    return pa.concat_arrays(
        [plan.inserts.ids, plan.updates.ids, plan.blends.ids, pa.array(edited, pa.string())]
    )


def replaced_ids(plan: TablePlan) -> frozenset[str]:
    """The ids of target rows that the plan changes or deletes."""
    edited = (str(each.row["id"]) for each in plan.edits)
    parts = (plan.updated.ids, plan.blended.ids, plan.deletes.ids)
    return frozenset([*edited, *(str(each) for part in parts for each in part.to_pylist())])


def _former_sources(tables: Tables, plan: TablePlan) -> set[str]:
    """The sources of target edges that the plan deletes or replaces."""
    found: set[str] = set()
    for some in _slices(dropped_addresses(plan)):
        part = fetch(tables, plan.sides.type, plan.sides.target, some, ("src",))
        found.update(str(each) for each in part["src"].to_pylist())
    return found


def _checked_columns(type_: Type) -> tuple[str, ...]:
    """The columns that a rule about single values names."""
    ruled = [each.property for each in type_.constraints if isinstance(each, Range | Check)]
    enums = [each.name for each in type_.properties if each.type.enum_values is not None]
    wanted = {*ruled, *enums}
    return tuple(name for name in schema_of(type_).names if name in wanted)


def _whole(rows: pa.Table, group: tuple[str, ...]) -> pa.Table:
    """Rows with a value in every column of the group. A null is never a shared value."""
    for name in group:
        rows = rows.filter(pc.is_valid(rows[name]))
    return rows


def _suspects(
    type_: Type,
    group: tuple[str, ...],
    written: pa.Table,
    holders: Mapping[tuple[Cell, ...], list[str]],
) -> Iterator[tuple[tuple[Cell, ...], str]]:
    """Written rows that share a value with each other or with a holder."""
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
