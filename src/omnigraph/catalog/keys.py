"""The id of a keyed row: a text that depends on the key alone.

A string is its own text, an integer is decimal, a boolean is `true` or `false`, a Date is the days
and a DateTime the milliseconds since the epoch, a float is the shortest decimal that identifies it
at its stored width. The id of several members is a JSON array of their texts, sorted by the names
of the members. The id of a keyed edge is always an array: its ends, `src` and `dst`, stand first.
"""

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite

import numpy as np

from omnigraph.catalog.model import ENDS, EdgeType, NodeType
from omnigraph.catalog.names import spelling_of
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, Scalar, ValueType
from omnigraph.errors import KeyInvalid
from omnigraph.ids import is_encodable

KeyValue = str | int | float | bool | None
"""A member of a key as it is stored: a Date is days, a DateTime milliseconds."""

_END = ValueType(Scalar.STRING)
_STORED_WIDTH = {Scalar.DATE: Scalar.I32, Scalar.DATETIME: Scalar.I64}


def derive_id(type_: NodeType | EdgeType, values: Mapping[str, KeyValue]) -> str:
    """The id of a row of a keyed type. Raises `KeyInvalid` if a member has no key text."""
    assert type_.key, "a type without a key gets its ids from elsewhere"
    if len(type_.key) == 1:
        return _member_text(type_, type_.key[0], values.get(type_.key[0]))
    texts = [_member_text(type_, name, values.get(name)) for name in type_.key]
    return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def key_text(value: KeyValue, value_type: ValueType) -> str:
    """The canonical text of one member. Raises `KeyInvalid` without the name of the property."""
    text = _find_text(value, value_type)
    if text is None:
        raise KeyInvalid(None, declared=str(value_type), value=value)
    return text


def _member_text(type_: NodeType | EdgeType, name: str, value: KeyValue) -> str:
    member = type_.find(name)
    assert member is not None or name in ENDS, "the members of a key are properties or ends"
    declared = _END if member is None else member.type
    if type(value) is str and value.isascii() and declared.is_string:
        return value
    text = _find_text(value, declared)
    if text is None:
        raise KeyInvalid(f"{type_.name}.{spelling_of(name)}", declared=str(declared), value=value)
    return text


def _find_text(value: KeyValue, value_type: ValueType) -> str | None:
    base = value_type.base
    if not isinstance(base, Scalar) or value_type.is_list:
        return None
    match value:
        case bool():
            return str(value).lower() if base is Scalar.BOOL else None
        case str():
            return value if base is Scalar.STRING and is_encodable(value) else None
        case int() if (bounds := INTEGER_BOUNDS.get(_STORED_WIDTH.get(base, base))) is not None:
            return str(value) if bounds[0] <= value <= bounds[1] else None
        case int() | float() if base in FLOATS:
            return _float_text(value, base)
        case _:
            return None


def _float_text(value: float, base: Scalar) -> str | None:
    width = "<f" if base is Scalar.F32 else "<d"
    try:
        (stored,) = struct.unpack(width, struct.pack(width, float(value)))
    except OverflowError:
        return None
    if not isfinite(stored):
        return None
    if stored == 0:
        return "0"
    # numpy prints the shortest digits of a 32-bit float; Python prints those of 64 bits.
    shortest = str(np.float32(stored)) if base is Scalar.F32 else repr(stored)
    text = format(Decimal(shortest), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
