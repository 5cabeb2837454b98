"""Violations: every way in which rows of a write break the schema, as a value."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.errors import ConstraintViolation


class ViolationKind(StrEnum):
    VALUE = "value"
    """A value that the property's type cannot hold."""
    UNKNOWN_PROPERTY = "unknown_property"
    REQUIRED = "required"
    RANGE = "range"
    CHECK = "check"
    ENUM = "enum"
    UNIQUE = "unique"
    KEY = "key"
    """Two rows of a write with one id, or an id that differs from the one its key spells."""
    ENDPOINT = "endpoint"
    """An edge whose node at one end does not exist."""
    CARDINALITY = "cardinality"


@dataclass(frozen=True, slots=True)
class Violation:
    kind: ViolationKind
    type_name: str
    property_name: str | None
    """The property, or several as `(a, b)`; None when the row as a whole is at fault."""
    ids: tuple[str, ...]
    """The rows at fault, as far as they have ids."""
    value: object
    message: str


def check_none(violations: Sequence[Violation]) -> None:
    """Raises ConstraintViolation with all violations, if there are any."""
    if violations:
        raise ConstraintViolation(violations)


def clip(value: object) -> str:
    """A value as messages show it: quoted if it is text, and never longer than a line."""
    shown = f"'{value}'" if isinstance(value, str) else str(value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
