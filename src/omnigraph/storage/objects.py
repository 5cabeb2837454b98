"""`Objects`: small named blobs of bytes, with compare-and-swap.

Sidecars, leases, staging notes, jobs and schema files are objects. One protocol serves a local
folder, an S3 bucket and memory; one contract suite runs against all three. What it promises:

1. A put is all or nothing. A reader sees the old bytes or the new ones, never a mixture, and
   whatever a dying writer leaves behind is invisible to `list` and cannot be addressed.
2. `put_new` and `put_if_match` have exactly one winner, among threads, processes and hosts.
3. `delete` of a missing object succeeds. `read` of one is `ObjectNotFound`, and nothing else is.
4. `exists` answers as an object store does: only objects exist, and prefixes that hold one.
5. Nothing is guessed: a listing that cannot be completed, a probe that was not permitted, raise
   `StorageFailure`. No method retries a conditional put, because a retry would meet its own
   first attempt and call it a stranger's.
6. Time is the store's own. `clock_ms` and `modified_ms` come from one clock, so their difference
   is an age, whatever the clocks of the writers say.

A `Tag` names the bytes an object had when it was read or written; it is opaque. A store may give
equal bytes equal tags.
"""

import re
from collections.abc import Sequence
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
        """Part of an object that nobody changes. Raises ObjectNotFound."""
        ...

    def put_over(self, key: str, data: bytes) -> Tag:
        """Create or replace, unconditionally."""
        ...

    def put_new(self, key: str, data: bytes) -> Tag:
        """Create. Raises `ObjectExists`."""
        ...

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        """Replace the object that carries `tag`. Raises `ObjectChanged`, also if it is gone."""
        ...

    def delete(self, key: str) -> None: ...

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object below `prefix`. Not atomic; finish it by calling it again."""
        ...

    def exists(self, key: str) -> bool:
        """Is `key` an object, or the prefix of one?"""
        ...

    def list(self, prefix: str) -> Sequence[Listed]:
        """Every object below `prefix/`, in key order; none if there is no such prefix."""
        ...

    def find_unfinished(self) -> Sequence[Listed]:
        """Puts that were never finished, which no listing shows; none where puts are one step."""
        ...

    def remove_unfinished(self, listed: Listed) -> None:
        """Remove one of those."""
        ...

    def clock_ms(self) -> int:
        """The store's idea of now."""
        ...


TEMPORARY_NAME: Final = re.compile(r"#\d+$")
"""Names of this shape are a local store's unfinished puts. The reference hides the same ones."""


def check_key(key: str) -> None:
    """Refuse keys that would leave the root, mean two things, or name an unfinished put."""
    for segment in key.split("/"):
        if segment in {"", ".", ".."}:
            raise StoreKeyInvalid(key, reason="it has an empty, '.' or '..' segment")
        if "\0" in segment or "\\" in segment:
            raise StoreKeyInvalid(key, reason="it holds a backslash or a null character")
        if TEMPORARY_NAME.search(segment):
            raise StoreKeyInvalid(key, reason="'#' and digits end the names of unfinished puts")
