"""The version of the format, as a manifest states it: a key in the metadata of its schema.

A manifest without one, or with one that is no number, is of version 1: the first programs set none.
Above `CURRENT` is refused, reading or writing, because an older program must not guess at a newer
format. Below `FLOOR` is refused too, because no step forward from there is kept. Every branch has a
stamp of its own; one that was forked from an older state has an older stamp.
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
"""From this version on the commits are rows of the manifest."""


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
