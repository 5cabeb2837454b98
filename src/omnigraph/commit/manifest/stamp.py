"""The stamp: the version of the format, a key in the schema metadata of a manifest.

A manifest without a stamp, or with one that is not a number, has version 1: the first programs set
none. A stamp above `CURRENT` is refused for reading and writing, because a program must not guess
at a newer format. A stamp below `FLOOR` is refused because no migration from it exists. Every
branch has its own stamp; a branch that was forked from an older state has an older stamp.
"""

from typing import Final

from omnigraph.errors import FormatTooNew, FormatTooOld
from omnigraph.ids import BranchName
from omnigraph.storage.tables import Handle

KEY: Final = "omnigraph:internal_schema_version"
CURRENT: Final = 4
FLOOR: Final = 1
UNSTAMPED: Final = 1
LINEAGE_IN_MANIFEST: Final = 4
"""From this version on, commits are rows of the manifest."""


def read_stamp(handle: Handle) -> int:
    text = (handle.schema.metadata or {}).get(KEY.encode(), b"").decode()
    return int(text) if text.isascii() and text.isdigit() else UNSTAMPED


def check_stamp(handle: Handle, branch: BranchName) -> None:
    """Raises FormatTooNew or FormatTooOld."""
    stamp = read_stamp(handle)
    if stamp > CURRENT:
        raise FormatTooNew(branch, found=stamp, supported=CURRENT)
    if stamp < FLOOR:
        raise FormatTooOld(branch, found=stamp, supported=FLOOR)
