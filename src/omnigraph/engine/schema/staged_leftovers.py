"""A change of the schema that another program left half done.

The reference puts the three files of a new schema beside the old ones, publishes, and renames them
one after the other. We keep them in the note of the change, so whatever waits there is not ours.
If its program died, what the manifest shows tells how far it got: tables as the new schema has them
were published, tables as the old one has them were not.

1. While the schema is locked, by whomever, its files are left alone.
2. Where the tables fit both schemas, or neither, nobody can tell. The old one stays in force, and
   the files that wait stay too, until they are cleaned up or somebody looks.
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
"""What every table consists of."""


class LeftoverVerdict(Enum):
    PUBLISHED = "published"
    """The change was visible; its files have to follow."""
    ABANDONED = "abandoned"
    """It never became visible."""
    UNCLEAR = "unclear"
    """(2)"""


def has_staged(objects: Objects) -> bool:
    """Costs a look for each file."""
    return any(objects.exists(each) for each in STAGED)


def classify_leftovers(
    *, live: ActiveSchema | None, staged: ActiveSchema | None, shown: Columns
) -> LeftoverVerdict:
    """What became of a change, from both texts and from what the manifest shows.

    Without a text of its own, the one in force is the new one already: it was renamed first.
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
    """Finish or forget what waits; None if nothing does, or if it is not ours to say (1)."""
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
    """None for a text that is not there, or says nothing."""
    try:
        return compile_active_schema(objects.read(key).data.decode(), name=key, in_force=True)
    except (ObjectNotFound, ProgramInvalid, UnicodeDecodeError):
        return None
