"""The audit table: one row per recovery. It can be rebuilt from the recovery commits (D14)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from omnigraph.commit.manifest.change import WriterKind
from omnigraph.commit.manifest.document import Document
from omnigraph.commit.manifest.records import Commit, JsonObject, dump_json
from omnigraph.errors import Contention, ManifestCorrupt, TableNotFound
from omnigraph.ids import CommitId, OperationId, TableKey, Version
from omnigraph.storage.layout import RECOVERY_AUDIT
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, Landed, LandedLater, Mark, TableRef

TABLE: Final = TableRef(RECOVERY_AUDIT)
BUDGET: Final = 5

_FIELDS: list["pa.Field[Any]"] = [
    pa.field("graph_commit_id", pa.string(), nullable=False),
    pa.field("recovery_kind", pa.string(), nullable=False),
    pa.field("recovery_for_actor", pa.string()),
    pa.field("operation_id", pa.string(), nullable=False),
    pa.field("sidecar_writer_kind", pa.string(), nullable=False),
    pa.field("per_table_outcomes_json", pa.string(), nullable=False),
    pa.field("created_at", pa.timestamp("us"), nullable=False),
]
SCHEMA: Final = pa.schema(_FIELDS)


class RecoveryKind(StrEnum):
    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    ORPHANED = "OrphanedBranchDiscarded"


@dataclass(frozen=True, slots=True)
class TableOutcome:
    key: TableKey
    before: Version
    after: Version

    def encode(self) -> JsonObject:
        return {"table_key": self.key, "from_version": self.before, "to_version": self.after}


@dataclass(frozen=True, slots=True)
class RecoveredMember:
    """A write of a group that was recovered, by its intended commit."""

    commit_id: CommitId
    actor: str | None

    def encode(self) -> JsonObject:
        return {"graph_commit_id": self.commit_id, "actor_id": self.actor}


@dataclass(frozen=True, slots=True)
class Recovery:
    """How an unfinished operation was recovered."""

    operation_id: OperationId
    kind: RecoveryKind
    writer: WriterKind
    actor: str | None
    """The actor of the operation; of a group, the actor of its first member."""
    commit_id: CommitId
    outcomes: tuple[TableOutcome, ...]
    created_at_us: int
    members: tuple[RecoveredMember, ...] = ()
    """Every write of a group; empty for an operation of one write."""

    def encode(self) -> JsonObject:
        """For the recovery commit, so that commit and audit are one write."""
        document: JsonObject = {
            "recovery_kind": self.kind.value,
            "recovery_for_actor": self.actor,
            "operation_id": self.operation_id,
            "sidecar_writer_kind": self.writer.value,
            "per_table_outcomes": [each.encode() for each in self.outcomes],
        }
        if self.members:
            document["members"] = [each.encode() for each in self.members]
        return document


def decode_recovery(commit: Commit) -> Recovery:
    """Read a recovery from its commit. Raises ManifestCorrupt."""
    found = commit.extension.recovery
    if not isinstance(found, dict):
        raise ManifestCorrupt(commit.id, reason="a recovery that does not say what it did")
    document = Document(commit.id, found)
    return Recovery(
        operation_id=OperationId(document.take("operation_id", str)),
        kind=document.enum("recovery_kind", RecoveryKind),
        writer=document.enum("sidecar_writer_kind", WriterKind),
        actor=document.optional("recovery_for_actor", str),
        commit_id=commit.id,
        outcomes=tuple(
            TableOutcome(
                TableKey(each.take("table_key", str)),
                Version(each.take("from_version", int)),
                Version(each.take("to_version", int)),
            )
            for each in document.objects("per_table_outcomes")
        ),
        created_at_us=commit.created_at_us,
        members=tuple(
            RecoveredMember(
                CommitId(each.take("graph_commit_id", str)), each.optional("actor_id", str)
            )
            for each in document.objects("members")
        ),
    )


def record(stores: Stores, recovery: Recovery) -> None:
    """Append the row of a recovery, unless the operation has one. Raises Contention."""
    row = pa.Table.from_pylist(
        [
            {
                "graph_commit_id": recovery.commit_id,
                "recovery_kind": recovery.kind.value,
                "recovery_for_actor": recovery.actor,
                "operation_id": recovery.operation_id,
                "sidecar_writer_kind": recovery.writer.value,
                "per_table_outcomes_json": _encode_outcomes(recovery.outcomes),
                "created_at": recovery.created_at_us,
            }
        ],
        schema=SCHEMA,
    )
    for _ in range(1 + BUDGET):
        mark = Mark(stores.effects.new_id(), {"operation_id": recovery.operation_id})
        head = _open(stores)
        if head is None:
            staged = stores.tables.stage_create(TABLE, SCHEMA, mark, row)
        elif _is_recorded(stores, head, recovery.operation_id):
            return
        else:
            staged = stores.tables.stage_append(head, row, mark)
        if isinstance(stores.tables.commit_exact(staged), Landed | LandedLater):
            return
    raise Contention("main", attempts=1 + BUDGET)


def read_audit(stores: Stores) -> pa.Table:
    """Every row, oldest first."""
    head = _open(stores)
    return SCHEMA.empty_table() if head is None else stores.tables.read(head).sort_by("created_at")


def _open(stores: Stores) -> Handle | None:
    """None if the table was never created. Any other failure is raised."""
    try:
        return stores.tables.open_at(TABLE)
    except TableNotFound:
        return None


def _is_recorded(stores: Stores, head: Handle, operation_id: OperationId) -> bool:
    quoted = operation_id.replace("'", "''")
    return stores.tables.count(head, f"operation_id = '{quoted}'") > 0


def _encode_outcomes(outcomes: tuple[TableOutcome, ...]) -> str:
    return f"[{','.join(dump_json(each.encode()) for each in outcomes)}]"
