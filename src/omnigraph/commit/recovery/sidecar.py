"""The sidecar of an attempt: everything that another process needs to finish or undo it.

An attempt writes `__recovery/{operation}.json` before it moves the first table. Version 3 names
every table transaction by its uuid, so recovery reads from a table's history what happened (D3).
Its paths are relative, so a moved graph can be recovered. It holds the complete intended commit, so
a roll-forward publishes that commit. Version 4 is the same for a group: its `lineage` lists the
commits of all members, and they are recovered together (D29). A program that knows only version 3
refuses it. Versions 1 and 2 are the reference's (`compat.old_sidecar`).
"""

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
    RowCounts,
    VersionFile,
    decode_commit,
    decode_extension,
    decode_touched,
    dump_json,
    encode_touched,
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

VERSION_ALONE: Final = 3
VERSION_GROUP: Final = 4
VERSION_MAX: Final = VERSION_GROUP


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
    intents: tuple[CommitIntent, ...]
    """The commit to publish; of a group, the commits of its members in order."""
    schema: SchemaShift | None = None
    on_top_of: CommitId | None = None
    """The commit that must be the head when this is published."""

    @property
    def intent(self) -> CommitIntent:
        """The commit that is the head once this is published."""
        return self.intents[-1]

    @property
    def is_group(self) -> bool:
        return len(self.intents) > 1

    @property
    def actor(self) -> str | None:
        """Of a group, the actor of its first member."""
        return self.intents[0].actor

    def confirm(self, reached: Mapping[TableKey, Version]) -> "Sidecar":
        """The same sidecar with the version that every write reached."""
        return replace(
            self,
            writes=tuple(replace(each, confirmed=reached[each.key]) for each in self.writes),
        )

    def with_counts(self, counts: Mapping[TableKey, RowCounts]) -> "Sidecar":
        """The same sidecar with these counts in its commit, unless the writer gave counts.

        The members of a group give theirs: a table commit does not tell them apart.
        """
        extension = self.intent.extension
        if extension.counts is not None or self.is_group:
            return self
        counted = replace(extension, counts=counts)
        return replace(self, intents=(replace(self.intent, extension=counted),))

    def encode(self) -> bytes:
        lineage = [_encode_intent(each) for each in self.intents]
        if self.is_group:
            for entry, intent in zip(lineage, self.intents, strict=True):
                entry["actor_id"] = intent.actor
        document: JsonObject = {
            "schema_version": VERSION_GROUP if self.is_group else VERSION_ALONE,
            "operation_id": self.operation_id,
            "started_at": str(self.started_at_us),
            "branch": lance_branch(self.branch),
            "branch_identifier": self.branch_identifier,
            "actor_id": self.actor,
            "writer_kind": self.kind.value,
            "tables": [_encode_write(each) for each in self.writes],
            "manifest_delta": [_encode_update(each) for each in self.updates],
            "read_set": dict(sorted(self.reads.items())),
            "on_top_of": self.on_top_of,
            "lineage": [*lineage] if self.is_group else lineage[0],
        }
        if self.schema is not None:
            document["schema"] = _encode_shift(self.schema)
        return dump_json(document).encode()


def decode_sidecar(document: Document) -> Sidecar:
    """Decode a sidecar of version 3 or 4. Raises SidecarCorrupt."""
    is_group = document.take("schema_version", int) == VERSION_GROUP
    lineage = document.objects("lineage") if is_group else [document.object("lineage")]
    if not lineage:
        raise document.corrupt("it names no commit")
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
        intents=tuple(_decode_intent(each, each if is_group else document) for each in lineage),
        on_top_of=_commit_id(document.optional("on_top_of", str)),
        schema=None if document.value("schema") is None else _decode_shift(document),
    )


def _encode_intent(intent: CommitIntent) -> JsonObject:
    document: JsonObject = {
        "graph_commit_id": intent.id,
        "created_at": intent.created_at_us,
        "merged_parent_commit_id": intent.merged_parent,
        "ext": intent.extension.encode(),
        "carried": [_encode_commit(each) for each in intent.carried],
    }
    if intent.touched is not None:
        document["touched"] = encode_touched(intent.touched)
    return document


def _decode_intent(document: Document, signed: Document) -> CommitIntent:
    """`signed` names the actor: the sidecar itself, or the entry of a group's member."""
    touched = document.value("touched")
    return CommitIntent(
        id=CommitId(document.take("graph_commit_id", str)),
        created_at_us=document.take("created_at", int),
        actor=signed.optional("actor_id", str),
        merged_parent=_commit_id(document.optional("merged_parent_commit_id", str)),
        extension=decode_extension(document.value("ext"), "lineage"),
        carried=tuple(_decode_carried(each) for each in document.objects("carried")),
        touched=None if touched is None else decode_touched(touched, "lineage"),
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
