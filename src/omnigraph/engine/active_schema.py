"""The schema in force: read, compiled, and checked against its recorded hash.

A schema is in force from the commit that names its hash. Its three files are written after that
commit. Until all three are written, the sidecar of the schema change holds the same texts.
"""

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import decode_ir, encode_pretty, schema_hash
from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.schema_files import (
    FoundSchema,
    SchemaFiles,
    find_past_schema,
    read_schema_files,
)
from omnigraph.errors import CorruptionError, SchemaFilesInvalid
from omnigraph.ids import BranchName, CommitId
from omnigraph.lang.source import Source
from omnigraph.storage.layout import SCHEMA_IR, SCHEMA_SOURCE
from omnigraph.storage.objects import Objects

READS_MAX: Final = 3
"""How often the files are read before a disagreement counts as corruption."""


@dataclass(frozen=True, slots=True)
class ActiveSchema:
    """A schema in force, or about to be."""

    source: str
    catalog: Catalog
    schema_hash: str
    is_recorded: bool = field(default=True, compare=False)
    """Does the graph store its canonical form and hash? Old graphs store only the source."""

    def files(self) -> SchemaFiles:
        return SchemaFiles(self.source, encode_pretty(self.catalog), self.schema_hash)


def compile_active_schema(source: str, *, name: str, in_force: bool = False) -> ActiveSchema:
    """Compile a schema text. Raises SchemaInvalid."""
    catalog = compile_schema(Source(name, source), in_force=in_force)
    return ActiveSchema(source, catalog, schema_hash(catalog))


def check_schema_files(found: FoundSchema) -> ActiveSchema:
    """Compile the schema files of a graph, and check that they agree.

    A person may edit comments and layout of the source, but not its meaning. Raises
    SchemaFilesInvalid, SchemaInvalid, SchemaCorrupt.
    """
    schema = compile_active_schema(found.source, name=SCHEMA_SOURCE, in_force=True)
    if found.ir is None or found.schema_hash is None:
        return replace(schema, is_recorded=False)
    if schema_hash(decode_ir(found.ir)) != found.schema_hash:
        raise SchemaFilesInvalid(SCHEMA_IR, reason="it is not what its recorded hash was made of")
    if schema.schema_hash != found.schema_hash:
        raise SchemaFilesInvalid(
            SCHEMA_SOURCE,
            reason="it says something else than the schema in force; put the old text back, "
            "or change the schema with `omnigraph schema apply`",
        )
    return schema


def read_active_schema(
    objects: Objects, wanted: str | None, *, is_newest: bool = False
) -> ActiveSchema:
    """The schema in force; `wanted` is the hash that the newest commit names, if it names one.

    Unless the commit is known to be the newest, the files may be those of a later schema: another
    process has put it in force since the caller read the branch. The text of `wanted` is then among
    the past schemas. Raises SchemaFilesInvalid, SchemaInvalid, SchemaCorrupt.
    """
    for reads_left in reversed(range(READS_MAX)):
        is_whole = False
        try:
            schema = _read_files(objects)
            if wanted in (None, schema.schema_hash):
                return schema
            is_whole = True
            trouble: CorruptionError = SchemaFilesInvalid(
                SCHEMA_SOURCE, reason=f"the newest commit was made under schema {wanted}"
            )
        except CorruptionError as torn:
            trouble = torn
        source = _find_text(objects, wanted, is_overtaken=is_whole and not is_newest)
        if source is not None:
            return compile_active_schema(source, name=SCHEMA_SOURCE, in_force=True)
        if not reads_left:
            raise trouble
    raise AssertionError("the last reading returns or raises")


def _read_files(objects: Objects) -> ActiveSchema:
    found = read_schema_files(objects)
    if found is None:
        raise SchemaFilesInvalid(SCHEMA_SOURCE, reason="it is missing")
    return check_schema_files(found)


def _find_text(objects: Objects, wanted: str | None, *, is_overtaken: bool) -> str | None:
    """The text of a schema that the files do not hold: its change, or the next one, is under way.

    If a later schema has overtaken the wanted one, no change need be under way any more.
    """
    # Most reads find the files whole, and a small query imports no recovery (ADR 35).
    from omnigraph.commit.recovery.sidecar import Sidecar  # noqa: PLC0415
    from omnigraph.commit.recovery.sidecar_store import find_sidecars, read_sidecar  # noqa: PLC0415

    for operation_id in find_sidecars(objects):
        try:
            sidecar = read_sidecar(objects, operation_id)
        except CorruptionError:
            # A corrupt sidecar is a concern of recovery, not of a reader.
            continue
        if isinstance(sidecar, Sidecar) and sidecar.schema is not None:
            if wanted in (None, sidecar.schema.files.schema_hash):
                return sidecar.schema.files.source
            is_overtaken = is_overtaken or wanted == sidecar.schema.before
    return find_past_schema(objects, wanted) if wanted is not None and is_overtaken else None


class SchemaCache:
    """The schema of an open graph, read again when a commit of a branch names another hash.

    A look-up costs nothing while the branch does not move. Safe to share among threads.
    """

    def __init__(self, objects: Objects, schema: ActiveSchema) -> None:
        self._objects = objects
        self._schema = schema
        self._checked: dict[BranchName, CommitId] = {}
        self._past: dict[str, ActiveSchema] = {}
        self._lock = Lock()

    def for_manifest(self, manifest: Manifest) -> ActiveSchema:
        """The schema of a branch. Raises what `read_active_schema` raises."""
        head = manifest.head
        with self._lock:
            if head is not None and self._checked.get(manifest.branch) == head.id:
                return self._schema
            wanted = manifest.log.schema_hash
            if wanted != self._schema.schema_hash:
                self._schema = read_active_schema(self._objects, wanted)
            if head is not None:
                self._checked[manifest.branch] = head.id
            return self._schema

    def at(self, schema_hash: str | None) -> ActiveSchema:
        """The schema of a past hash; the current schema if the graph did not keep that one."""
        with self._lock:
            if schema_hash is None or schema_hash == self._schema.schema_hash:
                return self._schema
            if schema_hash not in self._past:
                source = find_past_schema(self._objects, schema_hash)
                if source is None:
                    return self._schema
                self._past[schema_hash] = compile_active_schema(
                    source, name=SCHEMA_SOURCE, in_force=True
                )
            return self._past[schema_hash]

    def adopt(self, schema: ActiveSchema) -> None:
        """Use the schema that this process just applied."""
        with self._lock:
            self._schema = schema
