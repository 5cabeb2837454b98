"""Rows of a table → rows of a type, all at once where that is sure, else one by one.

The fast reader converts the columns of a file or frame into the few forms that `values` takes. The
row reader spells each cell as a JSON value, and `engine.write.coercion` decides. A property test
holds both to the same rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType
from omnigraph.catalog.temporal import DAY_MS
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import STRING
from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import fault_of
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.tables.columns import build_table, schema_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.batch import find_faults
from omnigraph.engine.write.coercion import coerce_row
from omnigraph.engine.write.violations import Violation
from omnigraph.pipeline.sources.envelopes import Numbers
from omnigraph.pipeline.sources.mappings import ENDS, ColumnMapping
from omnigraph.pipeline.sources.pair_columns import end_of, pair_of_row, type_targets
from omnigraph.pipeline.sources.parse import Parsed
from omnigraph.pipeline.sources.texts import parse_texts
from omnigraph.pipeline.sources.values import (
    Column,
    RowByRowNeeded,
    check_rules,
    fit_column,
    identify,
    joined,
    require,
)

_UNITS_PER_MS: Final = {"us": 1_000, "ns": 1_000_000}


def read_table(mapping: ColumnMapping, rows: pa.Table | pa.RecordBatch) -> Parsed:
    """The rows of a table; they are numbered from 0."""
    parsed = read_together(mapping, rows, np.arange(rows.num_rows, dtype=np.int64))
    return _read_one_by_one(mapping, rows) if parsed is None else parsed


def read_together(
    mapping: ColumnMapping, rows: pa.Table | pa.RecordBatch, lines: Numbers
) -> Parsed | None:
    """All rows at once, and the line of each; None if the rows must be read one by one."""
    if mapping.pairs:
        return _read_pairs_together(mapping, rows, lines)
    try:
        table, given_ids = _read_columns(mapping, rows)
    except (RowByRowNeeded, pa.ArrowException):
        return None
    parsed = Parsed()
    if table.num_rows:
        parsed.add(mapping.type, table, lines, given_ids)
    return parsed


def _read_pairs_together(
    mapping: ColumnMapping, rows: pa.Table | pa.RecordBatch, lines: Numbers
) -> Parsed | None:
    """The rows of each pair of ends by themselves."""
    try:
        told = {
            target: require(_carry(mapping, target, joined(rows[name]), is_cell=mapping.are_texts))
            for target in type_targets(mapping.type)
            if (name := mapping.columns.get(target)) is not None
        }
    except (RowByRowNeeded, pa.ArrowException):
        return None
    parsed = Parsed()
    count = 0
    for pair in mapping.pairs:
        is_own = np.ones(rows.num_rows, dtype=np.bool_)
        for target, types in told.items():
            is_own &= np.asarray(pc.equal(types, pa.scalar(end_of(pair, target), types.type)))
        own = read_together(mapping.of_pair(pair), rows.filter(pa.array(is_own)), lines[is_own])
        if own is None:
            return None
        parsed.tables += own.tables
        parsed.given_ids |= own.given_ids
        count += int(is_own.sum())
    return parsed if count == rows.num_rows else None


def read_givens(
    mapping: ColumnMapping, givens: Iterable[tuple[int, Mapping[str, object]]]
) -> Parsed:
    """Rows from JSON values, each with its line, by the row reader."""
    parsed = Parsed()
    if not mapping.pairs:
        _read_givens(mapping.type, givens, parsed)
        return parsed
    of_pair: dict[EdgeType, list[tuple[int, Mapping[str, object]]]] = {}
    for line, given in givens:
        picked = pair_of_row(mapping.pairs, given)
        if isinstance(picked, Violation):
            parsed.faults.append((line, fault_of(picked)))
        else:
            of_pair.setdefault(picked[0], []).append((line, picked[1]))
    for pair, own in of_pair.items():
        _read_givens(pair, own, parsed)
    parsed.faults.sort(key=lambda each: each[0])
    return parsed


def _read_givens(
    type_: Type, givens: Iterable[tuple[int, Mapping[str, object]]], parsed: Parsed
) -> None:
    rows: list[Row] = []
    lines: list[int] = []
    given_ids = 0
    for line, given in givens:
        coerced = coerce_row(type_, given, REAL.new_id)
        faults = find_faults(type_, coerced)
        if faults:
            parsed.faults += [(line, fault_of(each)) for each in faults]
            continue
        rows.append(coerced.row)
        lines.append(line)
        given_ids += not coerced.is_new
    if rows:
        numbers = np.array(lines, dtype=np.int64)
        parsed.add(type_, build_table(type_, rows), numbers, given_ids)


# ── together ─────────────────────────────────────────────────────────────────────────────────────


def _read_columns(mapping: ColumnMapping, rows: pa.Table | pa.RecordBatch) -> tuple[pa.Table, int]:
    type_ = mapping.type

    def column(target: str, wanted: ValueType) -> Column:
        if target in mapping.constants:
            cell = pa.array([mapping.constants[target]])
            return _carry(mapping, target, cell, is_cell=True).take(
                pa.array(np.zeros(rows.num_rows, dtype=np.int64))
            )
        name = mapping.columns.get(target)
        if name is None:
            wanted_type: Any = arrow_type(wanted)
            return pa.nulls(rows.num_rows, wanted_type)
        return _carry(mapping, target, joined(rows[name]), is_cell=mapping.are_texts)

    def end(target: str) -> Column:
        lookup = mapping.lookups.get(target)
        if lookup is None:
            return column(target, STRING)
        value = replace(lookup.property, type=lookup.property.type.required())
        return lookup.find(fit_column(value, column(target, value.type)))

    columns: dict[str, Column] = {}
    if isinstance(type_, EdgeType):
        for target, stored in ENDS.items():
            columns[stored] = require(end(target))
    for each in type_.properties:
        given = column(each.spelling, each.type)
        if each.spelling in mapping.columns or each.spelling in mapping.constants:
            columns[each.name] = fit_column(each, given)
        else:
            columns[each.name] = given
            if not each.type.nullable:
                raise RowByRowNeeded
    check_rules(type_, columns)
    columns["id"], given_ids = identify(type_, column(type_.id_name, STRING), columns)
    schema = schema_of(type_)
    return pa.table([columns[name] for name in schema.names], schema=schema), given_ids


def _carry(mapping: ColumnMapping, target: str, column: Column, *, is_cell: bool) -> Column:
    """A column in the form that `values` knows. Raises RowByRowNeeded, or an error of Arrow."""
    wanted = mapping.wanted(target)
    plain = _decoded(column)
    # Arrow believes that text is UTF-8, and that is for us to find out.
    plain.validate(full=True)
    pattern = mapping.patterns.get(target)
    if pattern is not None:
        return pattern.read_column(plain.cast(pa.string()))
    if is_cell and arrow.is_string(plain.type):
        return parse_texts(plain, wanted)
    if mapping.is_identity(target) and arrow.is_integer(plain.type):
        return pc.cast(plain, pa.string())
    if wanted.is_list or wanted.is_vector:
        return _carry_list(plain, wanted)
    return _carry_scalar(plain, wanted.base)


def _decoded(column: Column) -> Column:
    if isinstance(column.type, pa.DictionaryType):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string()) if arrow.is_string_view(column.type) else column


def _carry_list(column: Column, wanted: ValueType) -> Column:
    if arrow.is_null(column.type):
        return column.cast(pa.list_(pa.float64() if wanted.is_vector else pa.string()))
    items = _decoded(column.flatten())
    carried = items if wanted.is_vector else _carry_scalar(items, wanted.base)
    lengths: Column = pc.list_value_length(column)
    # Made anew, because what stands behind a null list is not part of the items.
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(np.asarray(lengths.fill_null(0)), out=offsets[1:])
    mask = joined(pc.is_null(column)) if column.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), joined(carried), mask=mask)


def _carry_scalar(column: Column, base: object) -> Column:
    given = column.type
    match base:
        case Scalar.STRING:
            return column.cast(pa.string())
        case Scalar.DATE if arrow.is_date32(given):
            return column.view(pa.int32())
        case Scalar.DATETIME if arrow.is_date32(given):
            days = column.view(pa.int32()).cast(pa.int64())
            return pc.multiply_checked(days, pa.scalar(DAY_MS, pa.int64()))
        case Scalar.DATETIME if isinstance(given, pa.TimestampType):
            return _milliseconds(column, given.unit)
        case Scalar.DATE | Scalar.DATETIME if not arrow.is_integer(given):
            return column.cast(pa.string())
        case Scalar.BLOB if not arrow.is_string(given) and not arrow.is_large_string(given):
            return column.cast(pa.binary()).cast(pa.large_binary())
        case _ if base in FLOATS and arrow.is_decimal(given):
            # Through its digits, which are read to the nearest double.
            return column.cast(pa.string()).cast(pa.float64())
        case _ if base in INTEGERS and arrow.is_decimal(given):
            assert isinstance(base, Scalar)
            return column.cast(arrow_type(ValueType(base)))
        case _ if arrow.is_null(given):
            assert isinstance(base, Scalar)
            return column.cast(arrow_type(ValueType(base)))
        case _:
            return column


def _milliseconds(column: Column, unit: str) -> Column:
    counts = column.view(pa.int64()) if not column.type.tz else column.cast(pa.int64())
    if unit == "ms":
        return counts
    if unit == "s":
        return pc.multiply_checked(counts, pa.scalar(1_000, pa.int64()))
    # Towards the past, also before 1970: so a text would have been cut off.
    whole = np.floor_divide(np.asarray(pc.fill_null(counts, 0)), _UNITS_PER_MS[unit])
    return pa.array(whole, pa.int64(), mask=np.asarray(pc.is_null(counts)))


# ── one by one ───────────────────────────────────────────────────────────────────────────────────


def _read_one_by_one(mapping: ColumnMapping, rows: pa.Table | pa.RecordBatch) -> Parsed:
    targets = mapping.targets
    columns = [
        _spell_target(mapping, target, joined(rows[name]))
        for target, name in mapping.columns.items()
    ]
    for target, text in mapping.constants.items():
        columns.append([mapping.read_text(target, text)] * rows.num_rows)
    givens = (dict(zip(targets, row, strict=True)) for row in zip(*columns, strict=True))
    return read_givens(mapping, enumerate(givens))


def _spell_target(mapping: ColumnMapping, target: str, column: Column) -> Sequence[object]:
    """A column as JSON values."""
    plain = _decoded(column)
    is_text = arrow.is_string(plain.type) or arrow.is_large_string(plain.type)
    if is_text and (mapping.are_texts or target in mapping.patterns):
        texts = _texts(plain)
        return [
            mapping.read_text(target, each) if isinstance(each, str) else each for each in texts
        ]
    if mapping.is_identity(target) and arrow.is_integer(plain.type):
        return [None if each is None else str(each) for each in plain.to_pylist()]
    return [mapping.look_up(target, each) for each in _spell(plain, mapping.wanted(target))]


def _spell(plain: Column, wanted: ValueType) -> Sequence[object]:
    if not (wanted.is_list or wanted.is_vector) or arrow.is_null(plain.type):
        return _spell_scalars(plain, wanted.base)
    items = iter(_spell_scalars(_decoded(plain.flatten()), wanted.base))
    lengths: list[int | None] = pc.list_value_length(plain).to_pylist()
    return [None if each is None else [next(items) for _ in range(each)] for each in lengths]


def _spell_scalars(column: Column, base: object) -> Sequence[object]:
    given = column.type
    if arrow.is_date32(given):
        days = column.view(pa.int32()).to_pylist()
        factor = DAY_MS if base is Scalar.DATETIME else 1
        return [None if each is None else each * factor for each in days]
    if isinstance(given, pa.TimestampType):
        counts = column.cast(pa.int64()).to_pylist()
        return [None if each is None else _to_ms(each, given.unit) for each in counts]
    if arrow.is_decimal(given):
        number = int if base in INTEGERS else float
        return [None if each is None else number(each) for each in column.to_pylist()]
    if arrow.is_floating(given):
        return _list(column.cast(pa.float64()))
    if arrow.is_string(given) or arrow.is_large_string(given):
        return _texts(column)
    return _list(column)


def _to_ms(count: int, unit: str) -> int:
    if unit == "s":
        return count * 1_000
    return count if unit == "ms" else count // _UNITS_PER_MS[unit]


def _texts(column: Column) -> Sequence[object]:
    """Texts; bytes if they are not UTF-8."""
    whole = column.cast(pa.large_binary()) if arrow.is_large_string(column.type) else column
    return [_decode(each) for each in _list(whole.cast(pa.binary()))]


def _decode(data: Any) -> object:
    if data is None:
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return data


def _list(column: Column) -> list[object]:
    values: list[object] = column.to_pylist()
    return values
