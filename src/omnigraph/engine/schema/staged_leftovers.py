"""A schema change that the reference implementation left unfinished.

The reference implementation writes the three files of a new schema beside the old ones, publishes,
and renames them one by one. Our writers keep the files in the sidecar, so staged files are never
ours. If the other program died, the manifest shows how far it got: tables with the columns of the
new schema were published, tables with the columns of the old schema were not.

1. While the schema is locked, by any program, its files are left alone.
2. If the tables fit both schemas, or neither, the case is unclear. The old schema stays in force,
   and the staged files stay until cleanup deletes them or a person decides.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.context import WriteContext
from omnigraph.commit.leases.lock_key import SCHEMA_LOCK_KEY
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.schema_files import write_schema_files
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.commit.recovery.heal import lease
from omnigraph.engine.active_schema import ActiveSchema, compile_active_schema
from omnigraph.engine.tables.columns import schema_of
from omnigraph.errors import LeaseHeld, ObjectNotFound, ProgramInvalid
from omnigraph.ids import MAIN, SCHEMA_LOCK, TableKey
from omnigraph.storage.layout import (
    MANIFEST,
    SCHEMA_IR,
    SCHEMA_SOURCE,
    SCHEMA_STATE,
    staged_schema_key,
)
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import Stores

STAGED: Final = tuple(map(staged_schema_key, (SCHEMA_SOURCE, SCHEMA_IR, SCHEMA_STATE)))

Columns = Mapping[TableKey, frozenset[str]]
"""The column names of every table."""


class LeftoverVerdict(Enum):
    PUBLISHED = "published"
    """The change was published; its files must be promoted."""
    ABANDONED = "abandoned"
    """The change was never published."""
    UNCLEAR = "unclear"
    """(2)"""


def has_staged(objects: Objects) -> bool:
    """Does a staged schema file exist? One request per file."""
    return any(objects.exists(each) for each in STAGED)


def classify_leftovers(
    *, live: ActiveSchema | None, staged: ActiveSchema | None, shown: Columns
) -> LeftoverVerdict:
    """Classify the change from both texts and from the tables that the manifest shows.

    Without a staged text, the live text is already the new one: it is renamed first.
    """
    if staged is None:
        fits = live is not None and columns_of(live.catalog) == shown
        return LeftoverVerdict.PUBLISHED if fits else LeftoverVerdict.UNCLEAR
    if live is not None and live.schema_hash == staged.schema_hash:
        return LeftoverVerdict.ABANDONED
    fits_old = live is not None and columns_of(live.catalog) == shown
    fits_new = columns_of(staged.catalog) == shown
    if fits_old == fits_new:
        return LeftoverVerdict.UNCLEAR
    return LeftoverVerdict.PUBLISHED if fits_new else LeftoverVerdict.ABANDONED


def columns_of(catalog: Catalog) -> Columns:
    types: tuple[NodeType | EdgeType, ...] = (*catalog.nodes, *catalog.edges)
    return {each.table_key: frozenset(schema_of(each).names) for each in types}


def resolve_staged_schema(stores: Stores) -> LeftoverVerdict | None:
    """Promote or delete the staged files; None if there are none, or the schema is locked (1)."""
    if not has_staged(stores.objects):
        return None
    context = WriteContext(stores, Bases(stores))
    try:
        with lease(context, SCHEMA_LOCK_KEY, wait_ms_max=0):
            if stores.tables.find_branch(MANIFEST, SCHEMA_LOCK) is not None:
                return None
            return _resolve(stores, context.bases.current(MAIN).manifest)
    except LeaseHeld:
        return None


def _resolve(stores: Stores, manifest: Manifest) -> LeftoverVerdict:
    objects = stores.objects
    live, staged = _compile(objects, SCHEMA_SOURCE), _compile(objects, STAGED[0])
    shown = {
        key: frozenset(open_pin(stores, pin).schema.names) for key, pin in manifest.pins.items()
    }
    verdict = classify_leftovers(live=live, staged=staged, shown=shown)
    if verdict is LeftoverVerdict.UNCLEAR:
        return verdict
    if verdict is LeftoverVerdict.PUBLISHED:
        schema = staged or live
        assert schema is not None, "one of them fits"
        write_schema_files(objects, schema.files())
    for each in STAGED:
        objects.delete(each)
    return verdict


def _compile(objects: Objects, key: str) -> ActiveSchema | None:
    """None for a text that is missing or invalid."""
    try:
        return compile_active_schema(objects.read(key).data.decode(), name=key, in_force=True)
    except (ObjectNotFound, ProgramInvalid, UnicodeDecodeError):
        return None
