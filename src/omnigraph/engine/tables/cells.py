"""One value of a row in the form that its table stores, and the row.

The table format stores the address of an external blob only if it could open it, and refuses others
when rows are staged. `find_address_flaw` refuses them earlier, when the row of the value is known.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from omnigraph.compiler.ir import Value


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes, or the address of bytes: exactly one of the two."""

    data: bytes | None = None
    uri: str | None = None


EXTERNAL_BLOB: Final = 3
"""The `kind` by which the table format marks a blob whose bytes lie outside the table."""

Cell = Value | Blob
Row = Mapping[str, Cell]


def size_of(cell: Cell) -> int:
    """About how many bytes a value takes."""
    match cell:
        case str():
            return len(cell)
        case tuple():
            return sum(map(size_of, cell))
        case Blob(data=bytes(data)):
            return len(data)
        case _:
            return 8


# ── addresses of blobs ───────────────────────────────────────────────────────────────────────────


SCHEMES: Final = frozenset({"abfss", "az", "cos", "file", "gs", "hf", "oss", "s3", "tos"})

_PLACE: Final = re.compile(r"//[\w.@-]*(/[^\x00-\x1f\x7f]*)?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def find_address_flaw(address: str) -> str | None:
    """Why this text cannot be the address of a blob; None if it can."""
    scheme, colon, rest = address.partition(":")
    if not colon:
        return "it has no scheme, such as s3://"
    if scheme.lower() not in SCHEMES:
        return f"its scheme is none of {', '.join(sorted(SCHEMES))}"
    found = _PLACE.fullmatch(rest)
    if found is None:
        return f"what follows {scheme}: is no place"
    path = found[1] or ""
    try:
        spelled = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return "its path is not UTF-8"
    if _CONTROL.search(spelled) or (scheme.lower() != "file" and "//" in spelled):
        return "its path cannot be one"
    return None
