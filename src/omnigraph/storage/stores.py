"""Opening the objects and the tables of a root."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from omnigraph.effects import Effects
from omnigraph.storage.bucket_options import canonical_options, resolve_bucket
from omnigraph.storage.durability import Disk, Durability, disk_for
from omnigraph.storage.lance.store import LanceStore, new_session
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.layout import MEMORY_URI, Root, parse_root
from omnigraph.storage.mapped import MappedFiles
from omnigraph.storage.objects import Objects
from omnigraph.storage.objects_cloud import open_bucket, open_memory
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.tables import CACHE_BYTES_MAX, ManifestSwap, Tables
from omnigraph.storage.together import run_together

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stores:
    """The objects and the tables of one graph."""

    root: Root
    objects: Objects
    volatile: Objects
    """The same objects without flushing, for leases: a power cut ends every lease anyway."""
    tables: Tables
    effects: Effects
    mapped: MappedFiles | None = None
    """What is kept beside the tables of a local graph."""
    is_remote: bool = False
    """Does a call wait for a network? Such calls are sent together where they can be (D30)."""

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make calls that do not depend on each other; in parallel if the store is remote.

        Raises the first failure, by position, after all calls have ended.
        """
        if len(calls) > 1 and self.is_remote:
            return run_together(calls)
        return [each() for each in calls]


def open_stores(
    uri: str,
    effects: Effects,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = Durability.DURABLE,
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    is_written: bool = True,
    maps_bases: bool = False,
) -> Stores:
    """Open a root. This creates nothing; a bucket must pass a probe of its conditional puts.

    A store that is not written is not probed: a reader may lack the right to put. With
    `maps_bases`, branches of a graph that was moved can be read, and never written.

    Raises:
        StoreUriInvalid: the root is not a local path or an `s3://` address.
        ConfigInvalid: an option is unknown, or does not fit the others.
        ConditionalWritesIgnored: the bucket lets two writers win.
        BucketUnreachable, BucketForbidden, BucketNotFound: the options do not reach the bucket.

    """
    root = parse_root(uri)
    given = canonical_options(storage_options or {})
    disk = disk_for(durability)
    if root.is_local:
        objects: Objects = LocalObjects(Path(root.uri), disk)
        volatile: Objects = LocalObjects(Path(root.uri), disk_for(Durability.RELAXED))
        options: Mapping[str, str] = {}
    else:
        access = resolve_bucket(root.uri, given)
        objects = volatile = open_bucket(access, effects, is_written=is_written)
        options = access.for_lance()
    tables = open_tables(
        root,
        objects,
        disk,
        options,
        swap=swap,
        cache_bytes_max=cache_bytes_max,
        maps_bases=maps_bases,
    )
    mapped = MappedFiles(Path(root.uri)) if root.is_local else None
    return Stores(root, objects, volatile, tables, effects, mapped, is_remote=not root.is_local)


def open_objects(
    uri: str,
    effects: Effects,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = Durability.DURABLE,
) -> Objects:
    """Open the objects alone; also of `memory://`, which has no tables."""
    if uri == MEMORY_URI:
        return open_memory(effects.new_id)
    root = parse_root(uri)
    if root.is_local:
        return LocalObjects(Path(root.uri), disk_for(durability))
    return open_bucket(resolve_bucket(root.uri, storage_options or {}), effects)


def open_tables(
    root: Root,
    objects: Objects,
    disk: Disk,
    storage_options: Mapping[str, str],
    *,
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL,
    cache_bytes_max: int = CACHE_BYTES_MAX,
    maps_bases: bool = False,
) -> Tables:
    session = new_session(cache_bytes_max)
    return LanceTables(
        LanceStore(
            root,
            objects,
            disk,
            storage_options,
            session,
            swap,
            maps_bases,
            is_remote=not root.is_local,
        )
    )
