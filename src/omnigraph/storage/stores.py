"""Opening the objects and the tables of a root."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.effects import Effects
from omnigraph.storage.durability import Disk, Durability, disk_for
from omnigraph.storage.lance.store import LanceStore, new_session
from omnigraph.storage.lance.tables import LanceTables
from omnigraph.storage.layout import MEMORY_URI, Root, parse_root
from omnigraph.storage.objects import Objects
from omnigraph.storage.objects_cloud import open_bucket, open_memory
from omnigraph.storage.objects_local import LocalObjects
from omnigraph.storage.tables import CACHE_BYTES_MAX, ManifestSwap, Tables


@dataclass(frozen=True, slots=True)
class Stores:
    """The objects and the tables of one graph."""

    root: Root
    objects: Objects
    volatile: Objects
    """The same objects without flushing, for leases: a power cut ends every lease anyway."""
    tables: Tables
    effects: Effects


def open_stores(
    uri: str,
    effects: Effects,
    *,
    storage_options: Mapping[str, str] | None = None,
    durability: Durability = Durability.DURABLE,
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> Stores:
    """Open a root. This creates nothing; a bucket must pass a probe of its conditional puts.

    Raises:
        StoreUriInvalid: the root is not a local path or an `s3://` address.
        ConditionalWritesIgnored: the bucket lets two writers win.
        StorageFailure: the bucket cannot be reached.

    """
    root = parse_root(uri)
    options = dict(storage_options or {})
    disk = disk_for(durability)
    objects = _open_objects_at(root, effects, options, disk)
    relaxed = disk_for(Durability.RELAXED)
    volatile = LocalObjects(Path(root.uri), relaxed) if root.is_local else objects
    tables = open_tables(root, objects, disk, options, swap=swap, cache_bytes_max=cache_bytes_max)
    return Stores(root, objects, volatile, tables, effects)


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
    return _open_objects_at(
        parse_root(uri), effects, dict(storage_options or {}), disk_for(durability)
    )


def _open_objects_at(
    root: Root, effects: Effects, storage_options: Mapping[str, str], disk: Disk
) -> Objects:
    if root.is_local:
        return LocalObjects(Path(root.uri), disk)
    return open_bucket(root.uri, storage_options, effects.new_id)


def open_tables(
    root: Root,
    objects: Objects,
    disk: Disk,
    storage_options: Mapping[str, str],
    *,
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL,
    cache_bytes_max: int = CACHE_BYTES_MAX,
) -> Tables:
    session = new_session(cache_bytes_max)
    return LanceTables(LanceStore(root, objects, disk, storage_options, session, swap))
