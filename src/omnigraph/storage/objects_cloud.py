"""`Objects` in a bucket or in memory, through obstore.

After a network failure the client repeats reads, listings, deletions and plain puts, which are
idempotent. Conditional puts use a second client that repeats nothing: a second request could meet
the result of the first and report it as a conflict with another writer. After `StorageFailure` from
a conditional put, the caller reads the object to learn the outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import obstore
from obstore.store import MemoryStore, ObjectStore, S3Store

from omnigraph.errors import ConditionalWritesIgnored, ObjectChanged, ObjectExists, StorageFailure
from omnigraph.storage import layout
from omnigraph.storage.objects import Listed, StoredObject, Tag, check_key
from omnigraph.storage.translate import translating_objects

_CLIENT_OPTIONS: Final = frozenset({"allow_http", "timeout", "connect_timeout"})
"""Options that Lance takes as storage options and obstore as client options."""


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

    def delete(self, key: str) -> None:
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


def open_bucket(
    uri: str, storage_options: Mapping[str, str], new_id: Callable[[], str]
) -> CloudObjects:
    """A prefix of an S3 bucket, after a probe of its conditional puts.

    Raises:
        ConditionalWritesIgnored: the store lets two writers win.
        StorageFailure: the store cannot be reached, or not with these options.

    """
    with translating_objects("open", uri):
        objects = CloudObjects(
            patient=connect(uri, storage_options, retries_max=None),
            unretried=connect(uri, storage_options, retries_max=0),
            new_id=new_id,
        )
    check_conditional_puts(objects, uri)
    return objects


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
        # A failure to delete will show later; the result of the probe matters more.
        with suppress(StorageFailure):
            objects.delete(key)


def connect(
    uri: str, storage_options: Mapping[str, str], *, retries_max: int | None = None
) -> ObjectStore:
    """A store of obstore, from options in the spelling of Lance."""
    config = {k: v for k, v in storage_options.items() if k not in _CLIENT_OPTIONS}
    client = {k: v for k, v in storage_options.items() if k in _CLIENT_OPTIONS}
    return S3Store.from_url(
        uri,
        # Options are text from the user; obstore checks their names and values.
        config=config,  # type: ignore[arg-type]
        client_options=client,  # type: ignore[arg-type]
        retry_config={} if retries_max is None else {"max_retries": retries_max},
    )


def _tag_of(e_tag: str | None) -> Tag:
    assert e_tag is not None, "a store without entity tags cannot compare and swap"
    return Tag(e_tag)
