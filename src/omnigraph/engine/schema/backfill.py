"""The values that existing rows get in a new property.

A schema gives them with `@default(literal)`. The request that applies the schema may give them with
an expression over the other columns of a row. A literal is coerced like any value of the property,
the result of an expression is cast. A value that does not fit is refused before anything moves.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type, property_field
from omnigraph.catalog.model import Property
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import build_column
from omnigraph.engine.write.coercion import coerce
from omnigraph.errors import BackfillInvalid
from omnigraph.jsontext import read_json
from omnigraph.storage.tables import ColumnFill


def find_fill(type_name: str, added: Property, backfill: Mapping[str, str]) -> ColumnFill | None:
    """How a new property is filled; None if it is left null. Raises BackfillInvalid."""
    entity = f"{type_name}.{added.spelling}"
    if entity in backfill:
        if added.type.is_blob:
            raise BackfillInvalid(entity, reason="a Blob cannot be computed")

        def convert(given: "pa.Array[Any]", row_count: int) -> "pa.Array[Any]":  # noqa: ARG001
            return _convert(given, added.type, entity)

        return ColumnFill(entity, property_field(added), backfill[entity], convert)
    default = added.annotation("default")
    if default is None:
        return None
    cell = _read_default(default.value, added)

    def repeat(given: "pa.Array[Any]", row_count: int) -> "pa.Array[Any]":  # noqa: ARG001
        return build_column([cell] * row_count, added.type)

    return ColumnFill(entity, property_field(added), None, repeat)


def _read_default(text: str | None, added: Property) -> Cell:
    """Annotations store a literal as text; the type of the property decides how to read it.

    The schema compiler has checked that the literal fits.
    """
    assert text is not None, "@default takes a literal"
    is_text = added.type.base in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME)
    return coerce(text if is_text else read_json(text), added)


def _convert(given: "pa.Array[Any]", wanted: ValueType, entity: str) -> "pa.Array[Any]":
    try:
        if wanted.base is Scalar.DATETIME and not wanted.is_list:
            moments = pc.cast(given, pa.timestamp("ms"))
            cells: pa.Array[Any] = pc.cast(moments, pa.int64()).view(pa.date64())
        else:
            cells = pc.cast(given, arrow_type(wanted))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise BackfillInvalid(entity, reason=f"{wanted}: {error}") from error
    if cells.null_count and not wanted.nullable:
        reason = f"it is required, and {cells.null_count} rows would get nothing"
        raise BackfillInvalid(entity, reason=reason)
    _check_values(cells, wanted, entity)
    return cells


def _check_values(cells: "pa.Array[Any]", wanted: ValueType, entity: str) -> None:
    present = cells.drop_null()
    if wanted.enum_values is not None:
        known = pc.is_in(present, value_set=pa.array(wanted.enum_values, pa.string()))
        if not pc.all(known).as_py() and len(present):
            odd = present.filter(pc.invert(known))[0].as_py()
            allowed = ", ".join(wanted.enum_values)
            raise BackfillInvalid(entity, reason=f"{odd!r} is none of: {allowed}")
    if pa.types.is_floating(present.type) and len(present):
        finite = pc.is_finite(present)
        if not pc.all(finite).as_py():
            odd = present.filter(pc.invert(finite))[0].as_py()
            raise BackfillInvalid(entity, reason=f"{odd!r} is not a finite number")
