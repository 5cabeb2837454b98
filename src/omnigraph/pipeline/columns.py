"""Many lines of one type at once, as long as nothing about them is in doubt.

Lines are read by Arrow's JSON reader, with a schema that leaves it no choice: unknown fields,
repeated names, numbers with a fraction for integers and texts for numbers are errors to it as they
are to us. Where it is more lenient than we are, or where a value needs a closer look, the answer is
`None`: read those lines one by one. So this module never says what is wrong, and whatever it
accepts, `records` would have accepted, and as the same rows. A property test holds it to that.

What it leaves to `records`: blobs, dates given as numbers, instants with an offset, keys of several
members or of floats, and every line that some rule might object to.
"""

import io
import re
from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import Check, EdgeType, NodeType, Property, Range
from omnigraph.catalog.regex import compile_pattern
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS, Scalar, ValueType, Vector
from omnigraph.engine.columns import schema_of
from omnigraph.engine.committed import Type
from omnigraph.pipeline.identities import new_ids

_ENVELOPE: Final = re.compile(rb'\{"(type|edge)":\s?"([^"\\\x00-\x1f]+)"')
"""How most programs begin a record. Others are read one by one."""

_DAY: Final = r"^\d{4}-\d{2}-\d{2}$"
_INSTANT: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,3})?Z?$"
_EXACT_FLOAT_MAX: Final = 2**53

_TEXTUAL: Final = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})
_SPELLED_AS_STORED: Final = frozenset({Scalar.BOOL, *INTEGERS})

Column = Any
"""An Arrow array or chunked array; the compute functions take either and return either."""


class _Doubt(Exception):
    """These lines need a closer look."""


def find_envelope(line: bytes) -> tuple[bytes, bytes] | None:
    """The kind and the name a line begins with, if it is one record and nothing else.

    A line that begins with the brace of an object and ends with one cannot share an object with
    the next line that does, so as many rows as lines means one row for each line.
    """
    found = _ENVELOPE.match(line)
    if found is None or not line.endswith((b"}", b"}\r")):
        return None
    return found[1], found[2]


def read_columns(type_: Type, name: str, lines: Sequence[bytes]) -> tuple[pa.Table, int] | None:
    """The rows of lines that begin with one name, and how many gave their own id."""
    try:
        return _Reading(type_, name).read(lines)
    except (_Doubt, pa.ArrowException):
        return None


class _Reading:
    def __init__(self, type_: Type, name: str) -> None:
        self.type = type_
        self.name = name

    def read(self, lines: Sequence[bytes]) -> tuple[pa.Table, int]:
        envelopes, data = self._parse(lines)
        columns: dict[str, Column] = {}
        if isinstance(self.type, EdgeType):
            columns["src"] = _require(envelopes["from"])
            columns["dst"] = _require(envelopes["to"])
        for each in self.type.properties:
            columns[each.name] = self._column(each, pc.struct_field(data, each.name))
        for constraint in self.type.constraints:
            if isinstance(constraint, Range):
                _check_range(columns[constraint.property], constraint)
            elif isinstance(constraint, Check):
                _check_pattern(columns[constraint.property], constraint)
        given = pc.struct_field(data, "id")
        columns["id"] = self._ids(given, columns)
        schema = schema_of(self.type)
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        is_keyed = isinstance(self.type, NodeType) and bool(self.type.key)
        return table, table.num_rows if is_keyed else table.num_rows - given.null_count

    def _parse(self, lines: Sequence[bytes]) -> tuple[pa.Table, Column]:
        buffer = b"\n".join(lines)
        table = arrow_json.read_json(
            io.BytesIO(buffer),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(buffer) + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=_document_schema(self.type),
                newlines_in_values=False,
                unexpected_field_behavior="error",
            ),
        )
        if table.num_rows != len(lines):
            raise _Doubt
        # Arrow believes that text is UTF-8, and that is for us to find out.
        table.validate(full=True)
        kind = "edge" if isinstance(self.type, EdgeType) else "type"
        _check_all(pc.equal(_require(table[kind]), pa.scalar(self.name)))
        data = table["data"]
        if data.null_count and b'"data"' in buffer:
            # A null and nothing at all look the same to Arrow; only one of them is allowed.
            raise _Doubt
        return table, data

    # identity

    def _ids(self, given: Column, columns: dict[str, Column]) -> Column:
        key = self.type.key if isinstance(self.type, NodeType) else ()
        if key:
            spelled = self._spell(key, columns)
            if given.null_count < len(given):
                agrees = pc.equal(given, spelled)
                if not pc.all(agrees, skip_nulls=True).as_py():
                    raise _Doubt
            return spelled
        if not given.null_count:
            return given
        made = new_ids(len(given))
        return made if given.null_count == len(given) else pc.coalesce(given, made)

    def _spell(self, key: tuple[str, ...], columns: dict[str, Column]) -> Column:
        if len(key) != 1:
            raise _Doubt
        (name,) = key
        member = self.type.find(name)
        assert member is not None, "the members of a key are properties"
        column = _require(columns[name])
        if member.type.base is Scalar.STRING:
            return column
        if member.type.base in _SPELLED_AS_STORED:
            return pc.cast(column, pa.string())
        raise _Doubt

    # values

    def _column(self, of: Property, column: Column) -> Column:
        if not of.type.nullable:
            _require(column)
        whole = _joined(column)
        if isinstance(of.type.base, Vector):
            return _vector(whole, of.type)
        if of.type.is_list:
            return _list(whole, of.type)
        return _scalar(whole, of.type)


def _document_schema(type_: Type) -> pa.Schema:
    fields: list[pa.Field[Any]] = [pa.field("id", pa.string())]
    fields += [pa.field(each.name, _json_type(each.type)) for each in type_.properties]
    data = pa.field("data", pa.struct(fields))
    if isinstance(type_, EdgeType):
        names = ("edge", "from", "to")
        return pa.schema([*(pa.field(name, pa.string()) for name in names), data])
    return pa.schema([pa.field("type", pa.string()), data])


def _json_type(value_type: ValueType) -> pa.DataType:
    """As what a property is read, before it becomes what it is stored as."""
    base = value_type.base
    if base is Scalar.BLOB:
        raise _Doubt
    if isinstance(base, Vector):
        return pa.list_(pa.float64())
    core: pa.DataType = pa.string() if base in _TEXTUAL else arrow_type(ValueType(base))
    if base in FLOATS:
        core = pa.float64()
    return pa.list_(core) if value_type.is_list else core


def _joined(column: Column) -> Column:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _require(column: Column) -> Column:
    if column.null_count:
        raise _Doubt
    return column


def _scalar(column: Column, value_type: ValueType) -> Column:
    match value_type.base:
        case Scalar.F32 | Scalar.F64:
            stored: Column = pc.cast(column, arrow_type(ValueType(value_type.base)), safe=False)
            _check_all(pc.is_finite(stored))
            return stored
        case Scalar.DATE:
            _check_all(pc.match_substring_regex(column, _DAY))
            return pc.cast(column, pa.date32())
        case Scalar.DATETIME:
            _check_all(pc.match_substring_regex(column, _INSTANT))
            instants = pc.cast(pc.utf8_rtrim(column, characters="Z"), pa.timestamp("ms"))
            return _joined(pc.cast(instants, pa.int64())).view(pa.date64())
        case _ if value_type.enum_values is not None:
            known = pc.is_in(column, value_set=pa.array(value_type.enum_values, pa.string()))
            _check_all(pc.or_(known, pc.is_null(column)))
            return column
        case _:
            return column


def _list(column: Column, value_type: ValueType) -> Column:
    items = _require(column.flatten())
    # An enum limits single values; the items of a list are plain texts to every other writer too.
    stored = _scalar(items, ValueType(value_type.base))
    offsets = pc.subtract(column.offsets, column.offsets[0])
    wanted = arrow_type(value_type)
    assert isinstance(wanted, pa.ListType)
    if column.null_count:
        return pa.ListArray.from_arrays(
            _joined(offsets), stored, type=wanted, mask=_joined(pc.is_null(column))
        )
    return pa.ListArray.from_arrays(_joined(offsets), stored, type=wanted)


def _vector(column: Column, value_type: ValueType) -> Column:
    assert isinstance(value_type.base, Vector)
    _check_all(pc.equal(pc.list_value_length(column), pa.scalar(value_type.base.dimension)))
    items = _require(column.flatten())
    _check_all(pc.is_finite(pc.cast(items, pa.float32(), safe=False)))
    singles = pc.cast(column, pa.list_(pa.float32()), safe=False)
    return pc.cast(singles, arrow_type(value_type))


def _check_all(truths: Column) -> None:
    """True wherever it is not null."""
    if not pc.all(truths, skip_nulls=True, min_count=0).as_py():
        raise _Doubt


# ── rules ────────────────────────────────────────────────────────────────────────────────────────


def _check_range(column: Column, bounds: Range) -> None:
    for bound, compare, is_low in (
        (bounds.low, pc.greater_equal, True),
        (bounds.high, pc.less_equal, False),
    ):
        if bound is None:
            continue
        limit = _limit(bound, column.type, is_low=is_low)
        _check_all(compare(column, limit))


def _limit(bound: float, of: pa.DataType, *, is_low: bool) -> "pa.Scalar[Any]":
    """A bound as a value of the column's own type, so that comparing is exact."""
    if pa.types.is_floating(of):
        if isinstance(bound, int) and abs(bound) > _EXACT_FLOAT_MAX:
            raise _Doubt
        return pa.scalar(float(bound), pa.float64())
    whole = ceil(bound) if is_low else floor(bound)
    low, high = INTEGER_BOUNDS[Scalar[_NAMES[str(of)]]]
    if not low <= whole <= high:
        raise _Doubt
    return pa.scalar(whole, of)


_NAMES: Final = {"int32": "I32", "int64": "I64", "uint32": "U32", "uint64": "U64"}


def _check_pattern(column: Column, check: Check) -> None:
    pattern = compile_pattern(check.pattern)
    if not all(pattern.search(text) for text in _texts(column)):
        raise _Doubt


def _texts(column: Column) -> Iterator[str]:
    return (text for text in column.to_pylist() if text is not None)
