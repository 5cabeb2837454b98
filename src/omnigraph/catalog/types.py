"""The types of values, and which types are compatible."""

from dataclasses import dataclass, replace
from enum import StrEnum


class Scalar(StrEnum):
    """The base types, in the spelling of the language."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATETIME = "DateTime"
    DATE = "Date"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS

INTEGER_BOUNDS: dict[Scalar, tuple[int, int]] = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}

VECTOR_DIMENSION_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Vector:
    """A fixed number of 32-bit floats."""

    dimension: int


@dataclass(frozen=True, slots=True)
class Struct:
    """Named values: a node or an edge as a result shows it. No property has such a type."""

    fields: "tuple[tuple[str, ValueType], ...]"


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a property, a parameter or an expression.

    `enum_values` is sorted and only set with base String: an enum is a String with fewer values.
    """

    base: Scalar | Vector | Struct
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None

    @property
    def scalar(self) -> Scalar:
        """The base of a type that is neither a vector nor a struct."""
        assert isinstance(self.base, Scalar), self
        return self.base

    @property
    def is_number(self) -> bool:
        """A scalar number."""
        return not self.is_list and self.base in NUMBERS

    @property
    def is_integer(self) -> bool:
        return not self.is_list and self.base in INTEGERS

    @property
    def is_string(self) -> bool:
        """A scalar String, enums included."""
        return not self.is_list and self.base is Scalar.STRING

    @property
    def is_vector(self) -> bool:
        return isinstance(self.base, Vector)

    @property
    def is_struct(self) -> bool:
        return isinstance(self.base, Struct)

    @property
    def is_blob(self) -> bool:
        return self.base is Scalar.BLOB

    @property
    def item(self) -> "ValueType":
        """The element type of a list, never null."""
        assert self.is_list
        return ValueType(self.base, enum_values=self.enum_values)

    def required(self) -> "ValueType":
        return replace(self, nullable=False)

    def optional(self) -> "ValueType":
        return replace(self, nullable=True)

    def __str__(self) -> str:
        """As the schema language spells it: `[String]?`, `enum(a, b)`, `Vector(3)`."""
        match self.base:
            case Vector(dimension):
                core = f"Vector({dimension})"
            case Struct(fields):
                core = f"{{{', '.join(f'{name}: {each}' for name, each in fields)}}}"
            case Scalar() if self.enum_values is not None:
                core = f"enum({', '.join(self.enum_values)})"
            case Scalar() as scalar:
                core = scalar.value
        return f"{f'[{core}]' if self.is_list else core}{'?' if self.nullable else ''}"


def are_compatible(left: ValueType, right: ValueType) -> bool:
    """May values of the two be compared or assigned? Nullability and enum sets are ignored."""
    if left.is_list != right.is_list:
        return False
    if left.base == right.base:
        return True
    return left.base in NUMBERS and right.base in NUMBERS
