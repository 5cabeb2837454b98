"""Creating a graph.

1. The process that creates `_schema.pg` creates the graph. Every other process gets GraphExists.
2. `__manifest` is created last, and its first version makes the whole graph visible. Without a
   manifest there is no graph, only the remains of a creation.
3. A creation that fails removes its files, if the claim is still its own. A creation that is killed
   leaves remains, which `clear_remains` removes. Neither removes anything of a graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.commit.manifest import stamp
from omnigraph.commit.manifest.identity import GraphIdentity, write_identity
from omnigraph.commit.manifest.model import SCHEMA, read_manifest
from omnigraph.commit.manifest.records import Commit, Extension
from omnigraph.commit.manifest.schema_files import FILES, SchemaFiles, claim, write_rest
from omnigraph.commit.manifest.snapshot import describe_table
from omnigraph.commit.manifest.updates import (
    CommitIntent,
    RegisterTable,
    SetVersion,
    Update,
    successor,
)
from omnigraph.errors import (
    GraphExists,
    GraphIncomplete,
    ObjectCorrupt,
    ObjectExists,
    ObjectNotFound,
    TableNotFound,
)
from omnigraph.ids import MAIN, CommitId, TableKey, Version
from omnigraph.jsontext import read_json
from omnigraph.storage.layout import CLONE_CLAIM, IDENTITY, MANIFEST, SCHEMA_SOURCE
from omnigraph.storage.objects import Objects, Tag
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, Landed, Mark, TableRef

EMPTY: Final = read_manifest(SCHEMA.empty_table(), branch=MAIN, version=Version(0))


@dataclass(frozen=True, slots=True)
class NewTable:
    key: TableKey
    path: str
    schema: pa.Schema


def create_graph(
    stores: Stores,
    files: SchemaFiles,
    tables: Sequence[NewTable],
    *,
    actor: str | None,
    message: str | None = None,
) -> Commit:
    """Create an empty graph.

    Raises GraphExists, or GraphIncomplete if a creation left remains.
    """
    check_absent(stores)
    try:
        tag = claim(stores.objects, files)
    except ObjectExists:
        raise GraphExists(stores.root.uri) from None
    try:
        write_rest(stores.objects, files)
        versions = [_create_table(stores, table) for table in tables]
        extension = Extension(schema_hash=files.schema_hash, message=message)
        return _create_manifest(stores, extension, tables, versions, actor)
    except BaseException:
        _undo(stores, tables, tag)
        raise


def has_manifest(stores: Stores) -> bool:
    try:
        stores.tables.open_at(TableRef(MANIFEST))
    except TableNotFound:
        return False
    return True


def find_remains(stores: Stores) -> list[str]:
    """The schema files that exist. If there is no manifest, a creation died."""
    return [key for key in FILES if stores.objects.exists(key)]


def check_not_cloning(stores: Stores) -> None:
    """Raises GraphIncomplete if a clone began here and did not end.

    A clone writes the schema source last, so a whole graph may still have the claim.
    """
    if stores.objects.exists(SCHEMA_SOURCE):
        return
    if (source := read_clone_claim(stores.objects)) is not None:
        raise GraphIncomplete(stores.root.uri, found=[CLONE_CLAIM], source=source)


def read_clone_claim(objects: Objects) -> str | None:
    """What is being cloned to this place; None if nothing is. Raises ObjectCorrupt."""
    try:
        data = objects.read(CLONE_CLAIM).data
    except ObjectNotFound:
        return None
    try:
        return str(read_json(data)["source"])
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(CLONE_CLAIM, reason=f"it names no source: {error}") from error


def check_absent(stores: Stores) -> None:
    """Raises GraphExists, or GraphIncomplete if a creation or clone left remains and no graph."""
    check_not_cloning(stores)
    if has_manifest(stores):
        raise GraphExists(stores.root.uri)
    if remains := find_remains(stores):
        raise GraphIncomplete(stores.root.uri, found=remains)


def clear_remains(stores: Stores, tables: Sequence[NewTable]) -> None:
    """Remove the remains of a creation that died.

    Raises GraphExists if there is a graph, and GraphIncomplete for the remains of a clone.
    """
    check_not_cloning(stores)
    if has_manifest(stores):
        raise GraphExists(stores.root.uri)
    _remove(stores, tables)


def _create_table(stores: Stores, table: NewTable) -> Handle:
    staged = stores.tables.stage_create(TableRef(table.path), table.schema, _mark(stores))
    outcome = stores.tables.commit_exact(staged)
    if not isinstance(outcome, Landed):
        raise GraphIncomplete(stores.root.uri, found=[table.path])
    return outcome.handle


def _create_manifest(
    stores: Stores,
    extension: Extension,
    tables: Sequence[NewTable],
    versions: Sequence[Handle],
    actor: str | None,
) -> Commit:
    updates: list[Update] = []
    for table, handle in zip(tables, versions, strict=True):
        shown = describe_table(stores, table.key, handle)
        updates += [RegisterTable(table.key, table.path), SetVersion(shown)]
    genesis = CommitIntent(
        CommitId(stores.effects.new_id()),
        stores.effects.now_ms() * 1000,
        actor,
        extension=extension,
    )
    first = successor(EMPTY, updates, [genesis])
    stamped = SCHEMA.with_metadata({stamp.KEY: str(stamp.CURRENT)})
    write_identity(stores.objects, GraphIdentity(genesis.id, stores.root.uri), None)
    staged = stores.tables.stage_create(
        TableRef(MANIFEST), stamped, _mark(stores), first.rows.cast(stamped)
    )
    outcome = stores.tables.commit_exact(staged)
    if not isinstance(outcome, Landed):
        raise GraphExists(stores.root.uri)
    return first.commits[0]


def _undo(stores: Stores, tables: Sequence[NewTable], tag: Tag) -> None:
    """Remove a failed creation, unless the claim is not ours any more or the graph exists."""
    try:
        still_ours = stores.objects.read(SCHEMA_SOURCE).tag == tag
    except ObjectNotFound:
        still_ours = False
    if still_ours and not has_manifest(stores):
        _remove(stores, tables)


def _remove(stores: Stores, tables: Sequence[NewTable]) -> None:
    """The claim is removed last: while it exists, no other process begins."""
    stores.objects.delete_prefix(MANIFEST)
    for table in tables:
        stores.objects.delete_prefix(table.path)
    for key in (IDENTITY, *reversed(FILES)):
        stores.objects.delete(key)


def _mark(stores: Stores) -> Mark:
    return Mark(stores.effects.new_id())
