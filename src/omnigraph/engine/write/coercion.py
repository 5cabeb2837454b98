"""Values that callers give, coerced to cells of a row.

A row maps columns to cells in canonical form (`compiler.ir`): a Date is days, a DateTime is
milliseconds, lists and vectors are tuples, an F32 is rounded as it will be stored. A Blob is bytes,
or the address of external bytes.

Coercion does not guess: `3.0` is not an integer, `"3"` is not a number. A value that does not fit
is a `Violation`, never a null.
"""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from omnigraph.catalog.fitting import (
    INLINE,
    Misfit,
    Misread,
    fit_boolean,
    fit_float,
    fit_moment,
    fit_text,
    spell_kind,
)
from omnigraph.catalog.keys import KeyValue, derive_id
from omnigraph.catalog.model import EdgeType, NodeType, Property
from omnigraph.catalog.precision import to_singles
from omnigraph.catalog.types import INTEGER_BOUNDS, Scalar, ValueType, Vector
from omnigraph.compiler.ir import Scalarish, Value
from omnigraph.compiler.spelling import suggest
from omnigraph.engine.tables.cells import Blob, Cell, Row, find_address_flaw
from omnigraph.engine.write.violations import Violation, ViolationKind, clip

_ENDS = {"from": "src", "to": "dst"}
_STORED = {Scalar.DATE: Scalar.I32, Scalar.DATETIME: Scalar.I64}


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Coerced:
    """A row with the values that fit, and the violations of the others."""

    id: str | None
    """None if the id depends on a value that is missing or does not fit."""
    is_new: bool
    """The id was generated, so no committed row has it."""
    row: Row
    violations: tuple[Violation, ...]


def coerce_row(
    type_: NodeType | EdgeType, given: Mapping[str, object], new_id: Callable[[], str]
) -> Coerced:
    """Coerce one row. An edge has `from` and `to`; an id is optional where allowed."""
    reading = _Reading(type_, given)
    row = reading.cells()
    identity = reading.find_id(row)
    is_new = identity is None and not reading.has_identity
    if is_new:
        identity = new_id()
    if identity is not None:
        row["id"] = identity
    return Coerced(identity, is_new, row, tuple(reading.violations))


class _Reading:
    """Coerces one row."""

    def __init__(self, type_: NodeType | EdgeType, given: Mapping[str, object]) -> None:
        self.type = type_
        self.given = given
        self.violations: list[Violation] = []

    @property
    def has_identity(self) -> bool:
        """Does the row have a key or an explicit id?"""
        return bool(self.type.key) or self.given.get(self.type.id_name) is not None

    def cells(self) -> dict[str, Cell]:
        self._find_unknown()
        row: dict[str, Cell] = {}
        if isinstance(self.type, EdgeType):
            for name, column in _ENDS.items():
                row[column] = self._end(name)
        for each in self.type.properties:
            row[each.name] = self._cell(each)
        return row

    def find_id(self, row: Mapping[str, Cell]) -> str | None:
        """The id from the key or from the caller; None if it is missing or wrong."""
        given = self.given.get(self.type.id_name)
        if given is not None and not isinstance(given, str):
            self._report(ViolationKind.VALUE, self.type.id_name, given, "an id is a string")
            return None
        if not self.type.key:
            return given
        spelled = spell_key(self.type, row)
        if given is not None and spelled is not None and given != spelled:
            reason = f"the id {clip(given)} is not the one the key spells, {clip(spelled)}"
            self._report(ViolationKind.KEY, self.type.id_name, given, reason)
            return None
        return spelled

    def _find_unknown(self) -> None:
        ends = _ENDS if isinstance(self.type, EdgeType) else {}
        known = [self.type.id_name, *ends, *(each.spelling for each in self.type.properties)]
        for name in self.given:
            if name not in known:
                message = f"{self.type.name} has no property {clip(name)}"
                hint = suggest(str(name), known)
                text = message if hint is None else f"{message}; {hint}"
                self.violations.append(
                    Violation(
                        ViolationKind.UNKNOWN_PROPERTY, self.type.name, str(name), (), None, text
                    )
                )

    def _end(self, name: str) -> Cell:
        given = self.given.get(name)
        if given is None:
            message = f"missing required property '{name}' of {self.type.name}"
            self.violations.append(
                Violation(ViolationKind.REQUIRED, self.type.name, name, (), None, message)
            )
            return None
        try:
            return fit_text(given)
        except Misfit as misfit:
            self._report(ViolationKind.VALUE, name, given, str(misfit))
            return None

    def _cell(self, of: Property) -> Cell:
        given = self.given.get(of.spelling)
        if given is None:
            return None
        try:
            return coerce(given, of)
        except Misfit as misfit:
            self._report(ViolationKind.VALUE, of.spelling, given, f"{of.type}: {misfit}")
            return None

    def _report(self, kind: ViolationKind, name: str, value: object, reason: str) -> None:
        message = f"{self.type.name}.{name} is {reason}" if kind is ViolationKind.VALUE else reason
        shown = str(value) if isinstance(value, Misread) else value
        self.violations.append(Violation(kind, self.type.name, name, (), shown, message))


def spell_key(type_: NodeType | EdgeType, row: Row) -> str | None:
    """The id of a row of a keyed type; None if a member of the key is missing."""
    members: dict[str, KeyValue] = {}
    for name in type_.key:
        cell = row[name]
        if cell is None:
            return None
        assert not isinstance(cell, tuple | Blob), "a member of a key is a single value"
        members[name] = cell
    return derive_id(type_, members)


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def coerce(value: object, of: Property) -> Cell:
    """A non-null value as a cell of its property. Raises Misfit."""
    wanted = of.type
    if isinstance(wanted.base, Vector):
        return _coerce_vector(value, wanted.base.dimension, of.spelling)
    if wanted.is_blob:
        return coerce_blob(value)
    if not wanted.is_list:
        return _coerce_scalar(value, wanted.scalar)
    items: list[Scalarish] = []
    for item in _as_array(value):
        try:
            items.append(_coerce_scalar(item, wanted.scalar))
        except Misfit as misfit:
            raise Misfit(f"element {len(items) + 1}: {misfit}") from None
    return tuple(items)


def _as_array(value: object) -> Sequence[object]:
    if isinstance(value, list | tuple):
        return value
    raise Misfit(f"expected an array, got {spell_kind(value)}")


def _coerce_vector(value: object, dimension: int, name: str) -> tuple[float, ...]:
    items = _as_array(value)
    if len(items) != dimension:
        count = len(items)
        raise Misfit(f"vector property '{name}' expects {dimension} dimensions, got {count}")
    singles = to_singles([fit_float(item, Scalar.F64) for item in items])
    if singles is None:
        raise Misfit(f"an element of vector property '{name}' lies beyond the range of F32")
    return singles


def _coerce_scalar(value: object, wanted: Scalar) -> Scalarish:
    match wanted:
        case Scalar.STRING:
            return fit_text(value)
        case Scalar.BOOL:
            return fit_boolean(value)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _coerce_integer(value, wanted)
        case Scalar.F32 | Scalar.F64:
            return fit_float(value, wanted)
        case Scalar.DATE | Scalar.DATETIME:
            # The stored number is accepted too.
            if isinstance(value, str | date):
                return fit_moment(value, wanted)
            return _coerce_integer(value, wanted)
        case Scalar.BLOB:
            raise AssertionError("there are no lists of blobs")
        case _:
            assert_never(wanted)


def _coerce_integer(value: object, wanted: Scalar) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misfit(f"expected an integer, got {spell_kind(value)}")
    low, high = INTEGER_BOUNDS[_STORED.get(wanted, wanted)]
    if not low <= value <= high:
        raise Misfit(f"{clip(value)} is out of range, {low} to {high}")
    return value


def coerce_blob(value: object) -> Blob:
    """A Blob from bytes, base64 text or an address. Raises Misfit."""
    if isinstance(value, bytes | bytearray | memoryview):
        return Blob(data=bytes(value))
    text = fit_text(value)
    if not text.startswith(INLINE):
        if (flaw := find_address_flaw(text)) is not None:
            raise Misfit(
                f"{clip(text)} is neither '{INLINE}…' nor the address of something: {flaw}"
            )
        return Blob(uri=text)
    try:
        return Blob(data=base64.b64decode(text[len(INLINE) :], validate=True))
    except (binascii.Error, ValueError):
        raise Misfit(f"the text after '{INLINE}' is not base64") from None


def fit_bound(value: Value, of: Property | None, wanted: ValueType) -> Cell:
    """A parameter or constant as a cell of the assigned column. Raises Misfit.

    The value was checked against its declared type; the column may be narrower. Without a property
    the column is an end of an edge.
    """
    if value is None:
        return None
    if of is None:
        assert wanted.is_string
        return fit_text(value)
    return coerce(value, of)
