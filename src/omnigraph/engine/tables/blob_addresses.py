"""Addresses that may stand for the bytes of a Blob.

The table format keeps an address only if it could open it, and says so when rows are staged, in
its own words. What it would refuse is refused here, when the value is read and its row is known.
"""

import re
from typing import Final
from urllib.parse import unquote

SCHEMES: Final = frozenset({"abfss", "az", "cos", "file", "gs", "hf", "oss", "s3", "tos"})

_PLACE: Final = re.compile(r"//[\w.@-]*(/[^\x00-\x1f\x7f]*)?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def find_flaw(address: str) -> str | None:
    """Why this cannot be the address of bytes; None if it can."""
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
