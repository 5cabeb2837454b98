"""The values of CSV cells: numbers as JSON writes them, arrays as JSON, the rest as text.

`true` and `false` are booleans. A number has no leading zeros, no plus sign and no blanks; dates
and instants are read as everywhere. `parse_texts` reads a column, `read_text` one cell; a cell that
does not spell its type stays a text, and the check of the type reports it.
"""

import io
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.jsontext import read_json
from omnigraph.pipeline.sources.values import Column, RowByRowNeeded, check_all, require

_INTEGER: Final = r"-?(?:0|[1-9][0-9]*)"
_NUMBER: Final = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_DIGITS_MAX: Final = 40
"""More than any integer has that a property can hold."""

_TEXTUAL: Final = frozenset({Scalar.STRING, Scalar.DATE, Scalar.DATETIME})


def parse_texts(column: Column, wanted: ValueType) -> Column:
    """A column of cells in the form that `values` knows. Raises RowByRowNeeded, Arrow errors."""
    base = wanted.base
    if wanted.is_list or wanted.is_vector:
        return _parse_arrays(column, wanted)
    assert isinstance(base, Scalar)
    if base in INTEGERS:
        check_all(pc.match_substring_regex(column, f"^{_INTEGER}$"))
        return pc.cast(column, arrow_type(ValueType(base)))
    if base in FLOATS:
        check_all(pc.match_substring_regex(column, f"^{_NUMBER}$"))
        return pc.cast(column, pa.float64())
    if base is Scalar.BOOL:
        is_true = pc.equal(column, pa.scalar("true"))
        check_all(pc.or_(is_true, pc.equal(column, pa.scalar("false"))))
        return is_true
    return column


def _parse_arrays(column: Column, wanted: ValueType) -> Column:
    """Arrays are read by Arrow's JSON reader, one object a line, as records are."""
    base = wanted.base
    if wanted.is_vector or base in FLOATS:
        item: pa.DataType = pa.float64()
    else:
        assert isinstance(base, Scalar)
        item = pa.string() if base in _TEXTUAL else arrow_type(ValueType(base))
    check_all(pc.match_substring_regex(column, r"^\[[^\n\r]*\]$"))
    whole = pc.fill_null(column, "null")
    lines = require(pc.binary_join_element_wise('{"v":', whole, "}", ""))
    buffer = b"\n".join(lines.cast(pa.binary()).to_pylist())
    table = arrow_json.read_json(
        io.BytesIO(buffer),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(buffer) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema([pa.field("v", pa.list_(item))]),
            newlines_in_values=False,
            unexpected_field_behavior="error",
        ),
    )
    if table.num_rows != len(column):
        raise RowByRowNeeded
    table.validate(full=True)
    return table["v"]


def read_text(text: str, wanted: ValueType) -> object:
    """The value of one cell, as JSON would have it."""
    base = wanted.base
    if wanted.is_list or wanted.is_vector:
        return _read_array(text)
    if base in INTEGERS and len(text) <= _DIGITS_MAX and re.fullmatch(_INTEGER, text):
        return int(text)
    if base in FLOATS and re.fullmatch(_NUMBER, text):
        return float(text)
    if base is Scalar.BOOL and text in ("true", "false"):
        return text == "true"
    return text


def _read_array(text: str) -> object:
    try:
        value = read_json(text, parse_constant=_refuse)
    except ValueError:
        return text
    return value if isinstance(value, list) else text


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not a number")
