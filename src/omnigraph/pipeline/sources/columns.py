"""The fast reader of JSON lines: many lines of one type at once.

Arrow's JSON reader reads the lines with an explicit schema, so unknown fields, repeated names,
fractions in integers and texts for numbers are errors. Where Arrow accepts more than `records`, or
where a value needs a closer look, the result is `None`, and the caller reads these lines one by
one. This module reports no faults. Whatever it accepts, `records` accepts with the same rows; a
property test holds it to that.

It leaves to `records`: blobs, dates as numbers, instants with an offset, keys that are floats, and
every line that may break a rule.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import EdgeType
from omnigraph.catalog.types import FLOATS, Scalar, ValueType, Vector
from omnigraph.engine.tables.columns import schema_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.pipeline.sources.envelopes import Numbers
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


def read_pairs(
    pairs: Sequence[EdgeType], name: str, text: pa.Buffer, line_count: int
) -> list[tuple[EdgeType, Numbers, pa.Table, int]] | None:
    """The same for an edge over several ends, where each end of a line says its type.

    Of each pair that occurs: which of the lines are its own, and what `read_columns` says of them.
    """
    try:
        lines = _parse(pairs[0], name, _pairs_schema(pairs), text, line_count)
        _check_no_null_ends(pairs, text.to_pybytes())
        return [
            (pair, own, *_Reading(pair, name).read_lines(of_pair))
            for pair, own, of_pair in _split(pairs, lines)
        ]
    except (RowByRowNeeded, pa.ArrowException):
        return None


def _check_no_null_ends(pairs: Sequence[EdgeType], text: bytes) -> None:
    """`{"Person": null, "City": "x"}` is to Arrow an end of one type; to `records` it has two."""
    types = {each for pair in pairs for each in (pair.source, pair.target)}
    if any(re.search(rb'"%s"\s*:\s*null' % each.encode(), text) for each in types):
        raise RowByRowNeeded


def _split(
    pairs: Sequence[EdgeType], lines: pa.Table
) -> Iterator[tuple[EdgeType, Numbers, pa.Table]]:
    """The lines of each pair, with plain ends; each end of a line has exactly one type."""
    ends = {
        name: {each: pc.struct_field(lines[name], each) for each in sorted(types)}
        for name, types in (
            ("from", {each.source for each in pairs}),
            ("to", {each.target for each in pairs}),
        )
    }
    for typed in ends.values():
        given = sum(pc.is_valid(each).to_numpy().astype(np.int8) for each in typed.values())
        if not np.all(given == 1):
            raise RowByRowNeeded
    for pair in pairs:
        source, target = ends["from"][pair.source], ends["to"][pair.target]
        is_own = pc.and_(pc.is_valid(source), pc.is_valid(target))
        plain = lines.set_column(lines.schema.get_field_index("from"), "from", source)
        plain = plain.set_column(lines.schema.get_field_index("to"), "to", target)
        own = np.flatnonzero(is_own.to_numpy())
        if len(own):
            yield pair, own, plain.filter(is_own)


class _Reading:
    def __init__(self, type_: Type, name: str) -> None:
        self.type = type_
        self.name = name

    def read(self, text: pa.Buffer, line_count: int) -> tuple[pa.Table, int]:
        schema = _document_schema(self.type)
        return self.read_lines(_parse(self.type, self.name, schema, text, line_count))

    def read_lines(self, envelopes: pa.Table) -> tuple[pa.Table, int]:
        data = envelopes["data"]
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


def _parse(type_: Type, name: str, schema: pa.Schema, text: pa.Buffer, line_count: int) -> pa.Table:
    table = arrow_json.read_json(
        pa.BufferReader(text),  # type: ignore[arg-type] # it reads like a file
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=schema,
            newlines_in_values=False,
            unexpected_field_behavior="error",
        ),
    )
    if table.num_rows != line_count:
        raise RowByRowNeeded
    # Arrow believes that text is UTF-8, and that is for us to find out.
    table.validate(full=True)
    kind = "edge" if isinstance(type_, EdgeType) else "type"
    check_all(pc.equal(require(table[kind]), pa.scalar(name)))
    if table["data"].null_count and b'"data"' in text.to_pybytes():
        # A null and nothing at all look the same to Arrow; only one of them is allowed.
        raise RowByRowNeeded
    return table


def _document_schema(type_: Type) -> pa.Schema:
    fields: list[pa.Field[Any]] = [pa.field(type_.id_name, pa.string())]
    fields += [pa.field(each.spelling, _json_type(each.type)) for each in type_.properties]
    data = pa.field("data", pa.struct(fields))
    if isinstance(type_, EdgeType):
        names = ("edge", "from", "to")
        return pa.schema([*(pa.field(name, pa.string()) for name in names), data])
    return pa.schema([pa.field("type", pa.string()), data])


def _pairs_schema(pairs: Sequence[EdgeType]) -> pa.Schema:
    schema = _document_schema(pairs[0])
    for name, types in (
        ("from", {each.source for each in pairs}),
        ("to", {each.target for each in pairs}),
    ):
        end = pa.struct([pa.field(each, pa.string()) for each in sorted(types)])
        schema = schema.set(schema.get_field_index(name), pa.field(name, end))
    return schema


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
