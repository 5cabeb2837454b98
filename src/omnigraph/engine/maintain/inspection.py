"""Unfinished writes, by their sidecars, and past recoveries, by the audit."""

from dataclasses import dataclass
from datetime import UTC
from enum import StrEnum

from omnigraph.commit.context import WriteContext
from omnigraph.commit.recovery.audit import RecoveryKind, read_audit
from omnigraph.commit.recovery.sidecar_store import find_sidecars, lock_keys_of, read_sidecar
from omnigraph.errors import SidecarCorrupt, SidecarTooNew
from omnigraph.ids import BranchName, OperationId, TableKey


class PendingState(StrEnum):
    UNDER_WAY = "under_way"
    """The writer holds its leases."""
    UNRESOLVED = "unresolved"
    """The writer is dead."""
    CORRUPT = "corrupt"
    TOO_NEW = "too_new"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write with a sidecar: running, or waiting for recovery."""

    operation_id: OperationId
    state: PendingState
    kind: str | None = None
    branch: BranchName | None = None
    actor: str | None = None
    tables: tuple[TableKey, ...] = ()
    problem: str | None = None
    """Why the sidecar cannot be read; the other fields are then unknown."""

    @property
    def is_alive(self) -> bool:
        return self.state is PendingState.UNDER_WAY


@dataclass(frozen=True, slots=True)
class PastRecovery:
    """A row of the audit."""

    operation_id: OperationId
    commit_id: str
    kind: RecoveryKind
    writer: str
    actor: str | None
    outcomes_json: str
    created_at_us: int


def find_pending(context: WriteContext) -> tuple[PendingWrite, ...]:
    """Every sidecar, oldest first, readable or not."""
    found = (_look(context, each) for each in find_sidecars(context.stores.objects))
    return tuple(each for each in found if each is not None)


def _look(context: WriteContext, operation_id: OperationId) -> PendingWrite | None:
    try:
        sidecar = read_sidecar(context.stores.objects, operation_id)
    except SidecarCorrupt as error:
        return PendingWrite(operation_id, PendingState.CORRUPT, problem=str(error))
    except SidecarTooNew as error:
        return PendingWrite(operation_id, PendingState.TOO_NEW, problem=str(error))
    if sidecar is None:
        return None
    lock_keys = lock_keys_of(sidecar)
    is_alive = any(context.leases.is_alive(lock_key, operation_id) for lock_key in lock_keys)
    return PendingWrite(
        operation_id,
        PendingState.UNDER_WAY if is_alive else PendingState.UNRESOLVED,
        sidecar.kind.value,
        sidecar.branch,
        sidecar.actor,
        tuple(lock_key.table for lock_key in lock_keys),
    )


def find_recoveries(context: WriteContext) -> tuple[PastRecovery, ...]:
    """Every recovery in the audit, newest first."""
    return tuple(
        PastRecovery(
            OperationId(row["operation_id"]),
            row["graph_commit_id"],
            RecoveryKind(row["recovery_kind"]),
            row["sidecar_writer_kind"],
            row["recovery_for_actor"],
            row["per_table_outcomes_json"],
            round(row["created_at"].replace(tzinfo=UTC).timestamp() * 1_000_000),
        )
        for row in reversed(read_audit(context.stores).to_pylist())
    )
