"""`Objects`: small named blobs of bytes, with compare-and-swap.

Sidecars, leases, staging records, jobs and schema files are objects. One protocol serves a local
folder, an S3 bucket and memory; one contract suite tests all three. It guarantees:

1. A put is all or nothing. A reader sees the old bytes or the new bytes, never a mixture. The
   incomplete file of a writer that died is not listed and has no valid key.
2. Of concurrent calls of `put_new`, or of `put_if_match` with one tag, exactly one succeeds, among
   threads, processes and hosts.
3. `delete` of a missing object succeeds. `read` raises `ObjectNotFound` for a missing object only.
4. `exists` answers as an object store does: for objects, and for prefixes that hold an object.
5. A listing that cannot be completed and a request that is not permitted raise `StorageFailure`. No
   method repeats a conditional put: the second request could meet the result of the first, and be
   reported as a conflict with another writer.
6. `clock_ms` and `modified_ms` come from one clock, the clock of the store. Their difference is an
   age that does not depend on the clocks of the writers.

A `Tag` is opaque. It stands for the bytes that an object had when it was read or written. Equal
bytes may have equal tags.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol

from omnigraph.errors import StoreKeyInvalid

Tag = NewType("Tag", str)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object as it was read."""

    data: bytes
    tag: Tag
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One object as a listing shows it."""

    key: str
    size_bytes: int
    modified_ms: int


class Objects(Protocol):
    """Named bytes below one root. Every method may raise `StorageFailure`."""

    def read(self, key: str) -> StoredObject:
        """Raises `ObjectNotFound`."""
        ...

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """A range of an object that is never replaced. Raises ObjectNotFound."""
        ...

    def put_over(self, key: str, data: bytes) -> Tag:
        """Create or replace, unconditionally."""
        ...

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Create or replace, from parts that need not fit into memory together. All or nothing."""
        ...

    def put_new(self, key: str, data: bytes) -> Tag:
        """Create. Raises `ObjectExists`."""
        ...

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        """Replace the object if its tag is `tag`. Raises `ObjectChanged`, also if it is missing."""
        ...

    def delete(self, key: str, *, is_flushed: bool = True) -> None:
        """Delete an object. A removal that is not flushed may be undone by a power cut."""
        ...

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object below `prefix`. Not atomic; after a failure the caller repeats it."""
        ...

    def exists(self, key: str) -> bool:
        """Is `key` an object, or the prefix of one?"""
        ...

    def list(self, prefix: str) -> Sequence[Listed]:
        """Every object below `prefix/`, in key order; none if there is no such prefix."""
        ...

    def find_unfinished(self) -> Sequence[Listed]:
        """The files of unfinished puts, which `list` hides; none where a put is one request."""
        ...

    def remove_unfinished(self, listed: Listed) -> None:
        """Delete the file of one unfinished put."""
        ...

    def clock_ms(self) -> int:
        """The time by the clock of the store."""
        ...


TEMPORARY_NAME: Final = re.compile(r"#\d+$")
"""The names of unfinished puts in a local store. The reference hides the same names."""

UNFINISHED_NAME: Final = re.compile(rf"{TEMPORARY_NAME.pattern}|\.tmp\.[0-9a-f]{{32}}$")
"""The same, and what a process left that was killed while Lance wrote a file."""


def check_key(key: str) -> None:
    """Refuse keys that would leave the root, are ambiguous, or name an unfinished put."""
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            raise StoreKeyInvalid(key, reason="it has an empty, '.' or '..' segment")
        if "\0" in segment or "\\" in segment:
            raise StoreKeyInvalid(key, reason="it holds a backslash or a null character")
        if TEMPORARY_NAME.search(segment):
            raise StoreKeyInvalid(key, reason="'#' and digits end the names of unfinished puts")
