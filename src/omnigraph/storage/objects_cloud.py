"""`Objects` in a bucket or in memory, through obstore.

Reads, listings, deletions and plain puts are repeated by the client when the network stumbles:
repeating them changes nothing. Conditional puts go through a second client that never repeats
one: its second try would meet the result of its first, and report our own success as somebody
else's. A caller who gets `StorageFailure` from one of them reads the object to learn what happened.
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
"""What Lance takes among its storage options and obstore wants in a drawer of its own."""


@dataclass(frozen=True, slots=True)
class CloudObjects:
    """Objects below one prefix of a store that speaks obstore."""

    patient: ObjectStore
    """Repeats what may be repeated."""

    once: ObjectStore
    """Sends each request one time."""

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
            return _tag_of(obstore.put(self.once, key, data, mode="create")["e_tag"])

    def put_if_match(self, key: str, data: bytes, *, tag: Tag) -> Tag:
        check_key(key)
        with translating_objects("replace", key):
            try:
                placed = obstore.put(self.once, key, data, mode={"e_tag": tag})
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
        # A bucket tells its time only by dating what is put into it.
        key = f"{layout.CLOCK}/{self.new_id()}"
        self.put_over(key, b"")
        try:
            return self.read(key).modified_ms
        finally:
            self.delete(key)


def open_memory(new_id: Callable[[], str]) -> CloudObjects:
    """A store that lives as long as the value returned, for tests and trials."""
    memory = MemoryStore()
    return CloudObjects(patient=memory, once=memory, new_id=new_id)


def open_bucket(
    uri: str, storage_options: Mapping[str, str], new_id: Callable[[], str]
) -> CloudObjects:
    """A prefix of an S3 bucket, after proof that its conditional puts are worth the name.

    Raises:
        ConditionalWritesIgnored: the store lets two writers win.
        StorageFailure: the store cannot be reached, or not with these options.

    """
    with translating_objects("open", uri):
        objects = CloudObjects(
            patient=connect(uri, storage_options, retries_max=None),
            once=connect(uri, storage_options, retries_max=0),
            new_id=new_id,
        )
    check_conditional_puts(objects, uri)
    return objects


def check_conditional_puts(objects: CloudObjects, uri: str) -> None:
    """Some servers answer 200 to every conditional put. On those, every lease would be a wish."""
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
        # A store that cannot delete shows it soon enough; the verdict above is worth more.
        with suppress(StorageFailure):
            objects.delete(key)


def connect(
    uri: str, storage_options: Mapping[str, str], *, retries_max: int | None = None
) -> ObjectStore:
    """A store as obstore knows it, with options as Lance spells them."""
    config = {k: v for k, v in storage_options.items() if k not in _CLIENT_OPTIONS}
    client = {k: v for k, v in storage_options.items() if k in _CLIENT_OPTIONS}
    return S3Store.from_url(
        uri,
        # Options arrive from outside as text; obstore checks their names and values itself.
        config=config,  # type: ignore[arg-type]
        client_options=client,  # type: ignore[arg-type]
        retry_config={} if retries_max is None else {"max_retries": retries_max},
    )


def _tag_of(e_tag: str | None) -> Tag:
    assert e_tag is not None, "a store without entity tags cannot compare and swap"
    return Tag(e_tag)
