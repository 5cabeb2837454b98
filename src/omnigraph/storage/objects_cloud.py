"""`Objects` in a bucket or in memory, through obstore.

After a network failure the client repeats reads, listings, deletions and plain puts, which are
idempotent. Conditional puts use a second client that repeats nothing: a second request could meet
the result of the first and report it as a conflict with another writer. After `StorageFailure` from
a conditional put, the caller reads the object to learn the outcome.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import obstore
from obstore.store import MemoryStore, ObjectStore, S3Store

from omnigraph.effects import Effects
from omnigraph.errors import (
    BucketUnreachable,
    ConditionalWritesIgnored,
    ObjectChanged,
    ObjectExists,
    StorageFailure,
)
from omnigraph.storage import layout
from omnigraph.storage.bucket_errors import explaining, is_busy
from omnigraph.storage.bucket_options import BucketAccess
from omnigraph.storage.objects import Listed, StoredObject, Tag, check_key
from omnigraph.storage.translate import translating_objects

FIRST_PAUSES_MS: Final = (200, 600)
"""Between the first requests to a bucket that says that it is busy."""


@dataclass(frozen=True, slots=True)
class CloudObjects:
    """Objects below one prefix of a store of obstore."""

    patient: ObjectStore
    """Repeats idempotent requests."""

    unretried: ObjectStore
    """Sends each request once."""

    new_id: Callable[[], str]

    def read(self, key: str) -> StoredObject:
        check_key(key)
        with translating_objects("read", key):
            found = obstore.get(self.patient, key)
            return StoredObject(
                data=bytes(found.bytes()),
                tag=_tag_of(found.meta["e_tag"]),
                modified_ms=int(found.meta["last_modified"].timestamp() * 1_000),
            )

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        check_key(key)
        with translating_objects("read", key):
            return bytes(obstore.get_range(self.patient, key, start=offset, length=length))

    def put_over(self, key: str, data: bytes) -> Tag:
        check_key(key)
        with translating_objects("write", key):
            return _tag_of(obstore.put(self.patient, key, data, mode="overwrite")["e_tag"])

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        check_key(key)
        with translating_objects("write", key):
            obstore.put(self.patient, key, iter(parts), mode="overwrite")

    def put_new(self, key: str, data: bytes) -> Tag:
        check_key(key)
        with translating_objects("create", key):
            return _tag_of(obstore.put(self.unretried, key, data, mode="create")["e_tag"])

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        check_key(key)
        with translating_objects("replace", key):
            try:
                placed = obstore.put(self.unretried, key, data, mode={"e_tag": tag})
            except FileNotFoundError as error:
                raise ObjectChanged(key) from error
            return _tag_of(placed["e_tag"])

    def delete(self, key: str, *, is_flushed: bool = True) -> None:  # noqa: ARG002 - the protocol's
        check_key(key)
        with translating_objects("delete", key):
            try:
                obstore.delete(self.patient, key)
            except FileNotFoundError:
                return

    def delete_prefix(self, prefix: str) -> None:
        for listed in self.list(prefix):
            self.delete(listed.key)

    def exists(self, key: str) -> bool:
        check_key(key)
        with translating_objects("look for", key):
            try:
                obstore.head(self.patient, key)
            except FileNotFoundError:
                return any(len(chunk) > 0 for chunk in obstore.list(self.patient, key))
            return True

    def list(self, prefix: str) -> Sequence[Listed]:
        check_key(prefix)
        with translating_objects("list", prefix):
            found = [
                Listed(
                    key=meta["path"],
                    size_bytes=meta["size"],
                    modified_ms=int(meta["last_modified"].timestamp() * 1_000),
                )
                for chunk in obstore.list(self.patient, prefix)
                for meta in chunk
            ]
        return sorted(found, key=lambda each: each.key)

    def find_unfinished(self) -> Sequence[Listed]:
        return ()

    def remove_unfinished(self, listed: Listed) -> None:
        """There are none."""

    def clock_ms(self) -> int:
        # A bucket tells the time only by dating an object that is put into it.
        key = f"{layout.CLOCK}/{self.new_id()}"
        self.put_over(key, b"")
        try:
            return self.read(key).modified_ms
        finally:
            self.delete(key)


def open_memory(new_id: Callable[[], str]) -> CloudObjects:
    """A store in memory, for tests; its objects end with the returned value."""
    memory = MemoryStore()
    return CloudObjects(patient=memory, unretried=memory, new_id=new_id)


def open_bucket(access: BucketAccess, effects: Effects, *, is_written: bool = True) -> CloudObjects:
    """A prefix of an S3 bucket, after a first request that says whether it can be used.

    For a writer that is a probe of the conditional puts; a reader may lack the right to put.

    Raises:
        ConditionalWritesIgnored: the store lets two writers win.
        BucketUnreachable, BucketForbidden, BucketNotFound: these options do not reach it.

    """
    with explaining(access):
        objects = CloudObjects(
            patient=connect(access), unretried=connect(access, retries_max=0), new_id=effects.new_id
        )
    for pause_ms in (*FIRST_PAUSES_MS, None):
        try:
            with explaining(access):
                if is_written:
                    check_conditional_puts(objects, access.uri)
                else:
                    _check_listing(objects)
        except BucketUnreachable as error:
            if pause_ms is None or not is_busy(error):
                raise
            effects.sleep_ms(pause_ms)
        else:
            break
    return objects


def _check_listing(objects: CloudObjects) -> None:
    for _ in obstore.list(objects.unretried, layout.PROBE, chunk_size=1):
        break


def check_conditional_puts(objects: CloudObjects, uri: str) -> None:
    """Some servers accept every conditional put. On them a lease would exclude no writer."""
    key = f"{layout.PROBE}/{objects.new_id()}"
    try:
        first = objects.put_new(key, b"first")
        try:
            objects.put_new(key, b"second")
        except ObjectExists:
            pass
        else:
            raise ConditionalWritesIgnored(uri, condition="If-None-Match")
        objects.put_if_match(key, b"second", tag=first)
        try:
            objects.put_if_match(key, b"third", tag=first)
        except ObjectChanged:
            pass
        else:
            raise ConditionalWritesIgnored(uri, condition="If-Match")
    finally:
        # A failure to delete will show later; the result of the probe matters more. Sent once, so
        # that a store that does not answer is reported at once.
        with suppress(StorageFailure), translating_objects("delete", key):
            obstore.delete(objects.unretried, key)


def connect(access: BucketAccess, *, retries_max: int | None = None) -> ObjectStore:
    """A store of obstore below the address. Its options are complete, so it reads no variable."""
    # Not `from_url`, which in obstore 0.12 loses the name of one option.
    return S3Store(
        access.bucket, prefix=access.prefix or None, **access.for_obstore(retries_max=retries_max)
    )


def _tag_of(e_tag: str | None) -> Tag:
    assert e_tag is not None, "a store without entity tags cannot compare and swap"
    return Tag(e_tag)
