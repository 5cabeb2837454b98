"""The sidecar of an attempt: everything that another process needs to finish or undo it.

An attempt writes `__recovery/{operation}.json` before it moves the first table. Version 3 names
every table transaction by its uuid, so recovery reads from a table's history what happened (D3).
Its paths are relative, so a moved graph can be recovered. It holds the complete intended commit, so
a roll-forward publishes that commit. Versions 1 and 2 are the reference's (`compat.old_sidecar`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from omnigraph.commit.leases.lock_key import LockKey
from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.document import Document
from omnigraph.commit.manifest.model import TableVersion
from omnigraph.commit.manifest.records import (
    Commit,
    JsonObject,
    VersionFile,
    decode_commit,
    decode_extension,
)
from omnigraph.commit.manifest.schema_files import SchemaFiles, SchemaShift
from omnigraph.commit.manifest.updates import (
    CommitIntent,
    DropTable,
    RegisterTable,
    SetVersion,
    Update,
)
from omnigraph.ids import (
    BranchName,
    CommitId,
    OperationId,
    TableKey,
    Version,
    graph_branch,
    lance_branch,
)

VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class PinnedWrite:
    """The commits that an attempt makes in one table."""

    key: TableKey
    path: str
    branch: BranchName
    """The branch of the table that the commits land on."""
    expected: Version
    """The version that the graph's branch showed when the attempt was armed."""
    is_fork: bool
    """Does the branch write this table for the first time, and so fork it?"""
    transactions: tuple[str, ...]
    """The uuids of the commits, in order. Empty for a writer that cannot choose them."""
    confirmed: Version | None = None
    """The version that was reached, for a writer that cannot choose its uuids (phase B')."""
    is_new: bool = False
    """Is the table created? `expected` is then the version found at its path, or 0."""
    shown_as: TableKey | None = None
    """The key by which the branch will show the table, if it is renamed."""

    @property
    def lock_key(self) -> LockKey:
        return LockKey(self.key, self.branch)


@dataclass(frozen=True, slots=True)
class Sidecar:
    operation_id: OperationId
    kind: WriterKind
    branch: BranchName
    branch_identifier: str
    started_at_us: int
    writes: tuple[PinnedWrite, ...]
    updates: tuple[Update, ...]
    reads: Mapping[TableKey, Version]
    intent: CommitIntent
    schema: SchemaShift | None = None
    on_top_of: CommitId | None = None
    """The commit that must be the head when this is published."""

    @property
    def actor(self) -> str | None:
        return self.intent.actor

    def confirm(self, reached: Mapping[TableKey, Version]) -> "Sidecar":
        """The same sidecar with the version that every write reached."""
        return replace(
            self,
            writes=tuple(replace(each, confirmed=reached[each.key]) for each in self.writes),
        )

    def encode(self) -> bytes:
        intent = self.intent
        document: JsonObject = {
            "schema_version": VERSION,
            "operation_id": self.operation_id,
            "started_at": str(self.started_at_us),
            "branch": lance_branch(self.branch),
            "branch_identifier": self.branch_identifier,
            "actor_id": intent.actor,
            "writer_kind": self.kind.value,
            "tables": [_encode_write(each) for each in self.writes],
            "manifest_delta": [_encode_update(each) for each in self.updates],
            "read_set": dict(sorted(self.reads.items())),
            "on_top_of": self.on_top_of,
            "lineage": {
                "graph_commit_id": intent.id,
                "created_at": intent.created_at_us,
                "merged_parent_commit_id": intent.merged_parent,
                "ext": intent.extension.encode(),
                "carried": [_encode_commit(each) for each in intent.carried],
            },
        }
        if self.schema is not None:
            document["schema"] = _encode_shift(self.schema)
        return json.dumps(document, ensure_ascii=False, indent=2).encode()


def decode_sidecar(document: Document) -> Sidecar:
    """Decode a sidecar of version 3. Raises SidecarCorrupt."""
    lineage = document.object("lineage")
    actor = document.optional("actor_id", str)
    return Sidecar(
        operation_id=OperationId(document.take("operation_id", str)),
        kind=document.enum("writer_kind", WriterKind),
        branch=graph_branch(document.optional("branch", str)),
        branch_identifier=document.take("branch_identifier", str),
        started_at_us=document.number_text("started_at"),
        writes=tuple(_decode_write(each) for each in document.objects("tables")),
        updates=tuple(_decode_update(each) for each in document.objects("manifest_delta")),
        reads={
            TableKey(key): Version(version)
            for key, version in document.object("read_set").numbers().items()
        },
        intent=CommitIntent(
            id=CommitId(lineage.take("graph_commit_id", str)),
            created_at_us=lineage.take("created_at", int),
            actor=actor,
            merged_parent=_commit_id(lineage.optional("merged_parent_commit_id", str)),
            extension=decode_extension(lineage.value("ext"), "lineage"),
            carried=tuple(_decode_carried(each) for each in lineage.objects("carried")),
        ),
        on_top_of=_commit_id(document.optional("on_top_of", str)),
        schema=None if document.value("schema") is None else _decode_shift(document),
    )


def _commit_id(text: str | None) -> CommitId | None:
    return None if text is None else CommitId(text)


def _encode_write(write: PinnedWrite) -> JsonObject:
    document: JsonObject = {
        "table_key": write.key,
        "table_path": write.path,
        "table_branch": lance_branch(write.branch),
        "expected_version": write.expected,
        "is_fork": write.is_fork,
        "txn_uuids": list(write.transactions),
    }
    if write.confirmed is not None:
        document["confirmed_version"] = write.confirmed
    if write.is_new:
        document["is_new"] = True
    if write.shown_as is not None:
        document["shown_as"] = write.shown_as
    return document


def _decode_write(document: Document) -> PinnedWrite:
    confirmed = document.optional("confirmed_version", int)
    shown_as = document.optional("shown_as", str)
    return PinnedWrite(
        key=TableKey(document.take("table_key", str)),
        path=document.take("table_path", str),
        branch=graph_branch(document.optional("table_branch", str)),
        expected=Version(document.take("expected_version", int)),
        is_fork=document.take("is_fork", bool),
        transactions=tuple(document.texts("txn_uuids")),
        confirmed=None if confirmed is None else Version(confirmed),
        is_new=document.optional("is_new", bool) or False,
        shown_as=None if shown_as is None else TableKey(shown_as),
    )


def _encode_shift(shift: SchemaShift) -> JsonObject:
    """The complete three schema files, so that a roll-forward needs nothing else."""
    return {
        "before": shift.before,
        "after": shift.files.schema_hash,
        "source": shift.files.source,
        "ir": shift.files.ir,
        "state": shift.files.encode_state(),
    }


def _decode_shift(document: Document) -> SchemaShift:
    schema = document.object("schema")
    files = SchemaFiles(
        source=schema.take("source", str),
        ir=schema.take("ir", str),
        schema_hash=schema.take("after", str),
    )
    return SchemaShift(schema.take("before", str), files)


def _encode_update(update: Update) -> JsonObject:
    match update:
        case RegisterTable(key, path):
            return {"kind": "register", "table_key": key, "table_path": path}
        case DropTable(key, version):
            return {"kind": "drop", "table_key": key, "version": version}
        case SetVersion(table):
            return {
                "kind": "version",
                "table_key": table.key,
                "version": table.version,
                "table_branch": lance_branch(table.owner),
                "row_count": table.row_count,
                "manifest_path": table.file.path,
            }
    assert_never(update)


def _decode_update(document: Document) -> Update:
    key = TableKey(document.take("table_key", str))
    match document.take("kind", str):
        case "register":
            return RegisterTable(key, document.take("table_path", str))
        case "drop":
            return DropTable(key, Version(document.take("version", int)))
        case "version":
            return SetVersion(
                TableVersion(
                    key,
                    Version(document.take("version", int)),
                    graph_branch(document.optional("table_branch", str)),
                    document.take("row_count", int),
                    VersionFile(document.take("manifest_path", str)),
                )
            )
        case kind:
            raise document.corrupt(f"an update of kind {kind!r}")


def _encode_commit(commit: Commit) -> JsonObject:
    return {
        "graph_commit_id": commit.id,
        "branch": lance_branch(commit.branch),
        "manifest_version": commit.manifest_version,
        "metadata": commit.encode(),
    }


def _decode_carried(document: Document) -> Commit:
    return decode_commit(
        document.take("graph_commit_id", str),
        branch=document.optional("branch", str),
        manifest_version=document.take("manifest_version", int),
        metadata=document.take("metadata", str),
    )
