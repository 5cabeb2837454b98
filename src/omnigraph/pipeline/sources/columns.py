"""The fast reader of JSON lines: many lines of one type at once.

Arrow's JSON reader reads the lines with an explicit schema, so unknown fields, repeated names,
fractions in integers and texts for numbers are errors. Where Arrow accepts more than `records`, or
where a value needs a closer look, the result is `None`, and the caller reads these lines one by
one. This module reports no faults. Whatever it accepts, `records` accepts with the same rows; a
property test holds it to that.

It leaves to `records`: blobs, dates as numbers, instants with an offset, keys that are floats, and
every line that may break a rule.
"""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType
from omnigraph.catalog.types import FLOATS, Scalar, ValueType, Vector
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.pipeline.sources.values import (
    Column,
    RowByRowNeeded,
    check_all,
    check_rules,
    fit_column,
    identify,
    require,
)

_TEXTUAL: Final = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


def read_columns(
    type_: Type, name: str, text: pa.Buffer, line_count: int
) -> tuple[pa.Table, int] | None:
    """The rows of lines of one type, and how many state their id or key."""
    try:
        return _Reading(type_, name).read(text, line_count)
    except (RowByRowNeeded, pa.ArrowException):
        return None


class _Reading:
    def __init__(self, type_: Type, name: str) -> None:
        self.type = type_
        self.name = name

    def read(self, text: pa.Buffer, line_count: int) -> tuple[pa.Table, int]:
        envelopes, data = self._parse(text, line_count)
        columns: dict[str, Column] = {}
        if isinstance(self.type, EdgeType):
            columns["src"] = require(envelopes["from"])
            columns["dst"] = require(envelopes["to"])
        for each in self.type.properties:
            columns[each.name] = fit_column(each, pc.struct_field(data, each.spelling))
        check_rules(self.type, columns)
        own = pc.struct_field(data, self.type.id_name)
        columns["id"], given_ids = identify(self.type, own, columns)
        schema = schema_of(self.type)
        return pa.table([columns[name] for name in schema.names], schema=schema), given_ids

    def _parse(self, text: pa.Buffer, line_count: int) -> tuple[pa.Table, Column]:
        table = arrow_json.read_json(
            pa.BufferReader(text),  # type: ignore[arg-type] # it reads like a file
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=_document_schema(self.type),
                newlines_in_values=False,
                unexpected_field_behavior="error",
            ),
        )
        if table.num_rows != line_count:
            raise RowByRowNeeded
        # Arrow believes that text is UTF-8, and that is for us to find out.
        table.validate(full=True)
        kind = "edge" if isinstance(self.type, EdgeType) else "type"
        check_all(pc.equal(require(table[kind]), pa.scalar(self.name)))
        data = table["data"]
        if data.null_count and b'"data"' in text.to_pybytes():
            # A null and nothing at all look the same to Arrow; only one of them is allowed.
            raise RowByRowNeeded
        return table, data


def _document_schema(type_: Type) -> pa.Schema:
    fields: list[pa.Field[Any]] = [pa.field(type_.id_name, pa.string())]
    fields += [pa.field(each.spelling, _json_type(each.type)) for each in type_.properties]
    data = pa.field("data", pa.struct(fields))
    if isinstance(type_, EdgeType):
        names = ("edge", "from", "to")
        return pa.schema([*(pa.field(name, pa.string()) for name in names), data])
    return pa.schema([pa.field("type", pa.string()), data])


def _json_type(value_type: ValueType) -> pa.DataType:
    """The Arrow type in which a property is read, before it is converted for storage."""
    base = value_type.base
    if base is Scalar.BLOB:
        raise RowByRowNeeded
    if isinstance(base, Vector):
        return pa.list_(pa.float64())
    core: pa.DataType = pa.string() if base in _TEXTUAL else arrow_type(ValueType(base))
    if base in FLOATS:
        core = pa.float64()
    return pa.list_(core) if value_type.is_list else core
