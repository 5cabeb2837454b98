"""The evaluator of rules over rows in memory, and the violations that all evaluators report.

`Delta`s describe a write: for each type, the rows after the write and the ids of deleted rows.
`Before` answers questions about the branch before the write. The evaluator asks it only about ids,
values and sources that the deltas name, so the cost follows the write and not the graph.

All violations are found, in the order of the rules (`row_rules`).
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, assert_never

from omnigraph.catalog.model import ENDS, Catalog, Check, EdgeType, Property, Range
from omnigraph.catalog.names import spell_group, spelling_of
from omnigraph.catalog.regex import PatternInvalid, compile_pattern
from omnigraph.catalog.temporal import format_date, format_datetime
from omnigraph.catalog.types import Scalar
from omnigraph.engine.tables.cells import Blob, Cell, Row
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.write.base_rows import Type, text_of
from omnigraph.engine.write.row_rules import (
    EdgeCount,
    Endpoint,
    RowValues,
    UniqueValue,
    WriteRule,
    end_key,
    rules_of_write,
)
from omnigraph.engine.write.violations import Violation, ViolationKind, clip
from omnigraph.ids import TableKey


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes of a write to the rows of one type."""

    type: Type
    rows: Mapping[str, Row] = field(default_factory=dict)
    """By id, the whole rows after the write: new rows, and rows that replace a committed one."""
    gone: Collection[str] = frozenset()
    """The ids of committed rows that the write deletes."""
    left: Collection[str] = frozenset()
    """Of an edge type: the sources of edges that are deleted or get another source."""


class Before(Protocol):
    """What the branch showed before the write."""

    def find_ids(self, node: str, ids: Collection[str]) -> Collection[str]:
        """The ids that nodes of this type have."""
        ...

    def find_holders(self, delta: Delta) -> Iterable[Row]:
        """At least the rows that share a unique value with a row of the delta: id and values."""
        ...

    def find_edges(self, edge: EdgeType, sources: Collection[str]) -> Iterable[tuple[str, str]]:
        """Id and source of every edge that leaves one of the sources."""
        ...


def find_violations(
    catalog: Catalog, deltas: Sequence[Delta], before: Before
) -> tuple[Violation, ...]:
    """Every way in which the graph after the write breaks a rule, in the order of `row_rules`."""
    rules = rules_of_write(catalog, (each.type for each in deltas))
    return evaluate_rules(rules, deltas, before)


def evaluate_rules(
    rules: Iterable[WriteRule], deltas: Collection[Delta], before: Before
) -> tuple[Violation, ...]:
    """The same for some rules. The deltas hold every type that a rule is about; of several pairs
    of ends whose edges count together, at least one.
    """
    evaluation = Evaluation({each.type.table_key: each for each in deltas}, before)
    return tuple(violation for rule in rules for violation in evaluation.find(rule))


@dataclass(slots=True)
class Evaluation:
    """Rules, evaluated over the rows of a write in memory."""

    deltas: Mapping[TableKey, Delta]
    before: Before

    def find(self, rule: WriteRule) -> Iterator[Violation]:
        match rule:
            case RowValues(type_):
                for row in self.deltas[type_.table_key].rows.values():
                    yield from find_value_violations(type_, row)
            case UniqueValue(type_, _, columns):
                yield from _find_shared_values(self.deltas[type_.table_key], columns, self.before)
            case Endpoint(edge, column):
                node = self.deltas.get(rule.node_key)
                yield from find_missing_ends(
                    self.deltas[edge.table_key], edge, column, node, self.before
                )
            case EdgeCount(edge):
                sources = self.deltas.get(end_key(edge, "src"))
                deltas = [self.deltas.get(each.table_key, Delta(each)) for each in rule.edges]
                yield from find_miscounts(deltas, edge, sources, self.before)
            case _:
                assert_never(rule)


# ── values ───────────────────────────────────────────────────────────────────────────────────────


_ENDS_IN_MESSAGES: Final = {"src": "from", "dst": "to"}


def find_value_violations(type_: Type, row: Row) -> Iterator[Violation]:
    """The rules that one row breaks by itself: required, range, check, enum."""
    identity = row.get("id")
    ids = (identity,) if isinstance(identity, str) else ()
    required = (*ENDS, *type_.required) if isinstance(type_, EdgeType) else type_.required
    for column in required:
        if row.get(column) is None:
            name = _ENDS_IN_MESSAGES.get(column) or spelling_of(column)
            message = (
                f"missing required property '{name}' of {type_.name}{_of_row(ids)}: "
                f"null in non-nullable property '{name}'"
            )
            yield Violation(ViolationKind.REQUIRED, type_.name, name, ids, None, message)
    for constraint in type_.constraints:
        if isinstance(constraint, Range):
            yield from _find_out_of_range(type_, constraint, row, ids)
    for constraint in type_.constraints:
        if isinstance(constraint, Check):
            yield from _find_mismatch(type_, constraint, row, ids)
    for each in type_.enums:
        yield from _find_foreign_value(type_, each, row, ids)


def _of_row(ids: tuple[str, ...]) -> str:
    return "".join(f" {clip(each)}" for each in ids)


def _find_out_of_range(
    type_: Type, bounds: Range, row: Row, ids: tuple[str, ...]
) -> Iterator[Violation]:
    value = row.get(bounds.property)
    if value is None:
        return
    assert isinstance(value, int | float)
    # Written so that a NaN, which compares as false with everything, is out of range.
    above = bounds.low is None or value >= bounds.low
    below = bounds.high is None or value <= bounds.high
    if not (above and below):
        low = "" if bounds.low is None else bounds.low
        high = "" if bounds.high is None else bounds.high
        name = spelling_of(bounds.property)
        message = (
            f"@range violation on {type_.name}.{name}{_of_row(ids)}: "
            f"{value} is not in {low}..{high}"
        )
        yield Violation(ViolationKind.RANGE, type_.name, name, ids, value, message)


def _find_mismatch(
    type_: Type, check: Check, row: Row, ids: tuple[str, ...]
) -> Iterator[Violation]:
    value = row.get(check.property)
    if value is None:
        return
    assert isinstance(value, str)
    fault = _check_pattern(check.pattern, value)
    if fault is not None:
        name = spelling_of(check.property)
        place = f"{type_.name}.{name}{_of_row(ids)}"
        message = f"@check violation on {place}: {clip(value)} {fault}"
        yield Violation(ViolationKind.CHECK, type_.name, name, ids, value, message)


def _check_pattern(written: str, value: str) -> str | None:
    """Why a value breaks a pattern, in words that follow the value; None if it does not."""
    try:
        pattern = compile_pattern(written)
    except PatternInvalid as invalid:
        # Only the schema of a graph that another program made can hold such a pattern.
        return (
            f"cannot be checked against {clip(written)}: {invalid}; to write here, export the "
            "graph and load it under a schema with another pattern"
        )
    if pattern.is_too_long(value):
        return (
            f"is too long: {len(value.encode()):,} bytes, and against {clip(written)} values "
            f"of up to {pattern.length_max:,} bytes are checked"
        )
    return None if pattern.is_found_in(value) else f"does not match {clip(written)}"


def _find_foreign_value(
    type_: Type, of: Property, row: Row, ids: tuple[str, ...]
) -> Iterator[Violation]:
    allowed, value = of.type.enum_values, row.get(of.name)
    if allowed is not None and value is not None and value not in allowed:
        message = (
            f"invalid enum value {clip(value)} for {type_.name}.{of.spelling}{_of_row(ids)}; "
            f"allowed: {', '.join(allowed)}"
        )
        yield Violation(ViolationKind.ENUM, type_.name, of.spelling, ids, value, message)


# ── uniqueness ───────────────────────────────────────────────────────────────────────────────────


def _find_shared_values(
    delta: Delta, columns: tuple[str, ...], before: Before
) -> Iterator[Violation]:
    """Values that several rows hold after the write, at least one of them written."""
    if not delta.rows:
        return
    replaced = delta.rows.keys() | set(delta.gone)
    rivals = [row for row in before.find_holders(delta) if row["id"] not in replaced]
    holders: defaultdict[tuple[Cell, ...], list[str]] = defaultdict(list)
    for row in (*rivals, *delta.rows.values()):
        values = tuple(row.get(name) for name in columns)
        if None not in values:
            holders[values].append(text_of(row, "id"))
    written = {tuple(row.get(name) for name in columns) for row in delta.rows.values()}
    for values, ids in holders.items():
        if len(ids) > 1 and values in written:
            yield shared_value(delta.type, columns, values, tuple(ids))


def shared_value(
    type_: Type, group: tuple[str, ...], values: tuple[Cell, ...], ids: tuple[str, ...]
) -> Violation:
    """A value of unique columns that several rows hold."""
    name = spell_group(group)
    shown = ", ".join(
        _show(type_, column, value) for column, value in zip(group, values, strict=True)
    )
    text = shown if len(group) == 1 else f"({shown})"
    message = (
        f"@unique violation on {type_.name}.{name}: {text} is held by "
        f"{' and by '.join(clip(each) for each in ids)}"
    )
    value = values[0] if len(group) == 1 else values
    return Violation(ViolationKind.UNIQUE, type_.name, name, ids, value, message)


def _show(type_: Type, column: str, cell: Cell) -> str:
    """A value as people write it."""
    assert not isinstance(cell, Blob)
    base = column_type(type_, column).base
    if isinstance(cell, int) and base is Scalar.DATE:
        return format_date(cell)
    if isinstance(cell, int) and base is Scalar.DATETIME:
        return format_datetime(cell)
    return clip(cell)


# ── edges ────────────────────────────────────────────────────────────────────────────────────────


def find_missing_ends(
    delta: Delta, edge: EdgeType, column: str, nodes: Delta | None, before: Before
) -> Iterator[Violation]:
    """Written edges whose node at one end is neither written nor committed, or is deleted."""
    name = edge.source if column == "src" else edge.target
    wanted = {text_of(row, column) for row in delta.rows.values() if row[column] is not None}
    missing = find_missing_nodes(wanted, name, nodes, before)
    for identity, row in delta.rows.items():
        end = row[column]
        if end in missing:
            yield missing_end(edge, identity, column, end)


def missing_end(edge: EdgeType, identity: str, column: str, end: Cell) -> Violation:
    """An edge whose node at one end does not exist."""
    name = edge.source if column == "src" else edge.target
    message = f"edge {edge.name} {clip(identity)}: {column} {clip(end)} not found in {name}"
    return Violation(ViolationKind.ENDPOINT, edge.name, column, (identity,), end, message)


def find_missing_nodes(
    wanted: Collection[str], node: str, delta: Delta | None, before: Before
) -> set[str]:
    """The wanted nodes that do not exist after the write."""
    written = delta.rows.keys() if delta is not None else frozenset[str]()
    gone = set(delta.gone) if delta is not None else set[str]()
    unsure = {each for each in wanted if each not in written and each not in gone}
    known = set(before.find_ids(node, sorted(unsure))) if unsure else set[str]()
    return {each for each in wanted if each not in written and each not in known}


def find_miscounts(
    deltas: Sequence[Delta], edge: EdgeType, sources: Delta | None, before: Before
) -> Iterator[Violation]:
    """Sources that the write touches and keeps, and that then have too few or too many edges.

    The deltas are those of all pairs whose edges count together; without several ends, of one.
    """
    counts = Counter(
        text_of(row, "src")
        for delta in deltas
        for row in delta.rows.values()
        if row["src"] is not None
    )
    touched = {*counts, *(source for delta in deltas for source in delta.left)}
    if sources is not None:
        touched -= set(sources.gone)
    for delta in deltas:
        replaced = delta.rows.keys() | set(delta.gone)
        assert isinstance(delta.type, EdgeType)
        counts.update(
            source
            for identity, source in before.find_edges(delta.type, sorted(touched))
            if identity not in replaced
        )
    for source in sorted(touched):
        yield from check_count(edge, source, counts[source])


def check_count(edge: EdgeType, source: str, count: int) -> Iterator[Violation]:
    """The violation, if any, of a source that so many edges leave."""
    low, high = edge.cardinality.low, edge.cardinality.high
    bound = f"(min {low})" if count < low else None
    if high is not None and count > high:
        bound = f"(max {high})"
    if bound is not None:
        message = f"@card violation on edge {edge.family}: {clip(source)} has {count} {bound}"
        yield Violation(ViolationKind.CARDINALITY, edge.name, None, (source,), count, message)
