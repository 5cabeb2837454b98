"""One value of a row, in the form its table stores it, and the row."""

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.compiler.ir import Value


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes, or where they are: exactly one of the two."""

    data: bytes | None = None
    uri: str | None = None


Cell = Value | Blob
Row = Mapping[str, Cell]
