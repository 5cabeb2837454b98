"""What is known about writes that did not finish: pending notes, and recoveries of the past."""

from dataclasses import dataclass
from datetime import UTC

from omnigraph.commit.audit import RecoveryKind, read_audit
from omnigraph.commit.sidecars import find_sidecars, places_of, read_sidecar
from omnigraph.commit.workbench import Workbench
from omnigraph.ids import BranchName, OperationId, TableKey


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write whose note is there: under way, or waiting for somebody to resolve it."""

    operation_id: OperationId
    kind: str
    branch: BranchName
    actor: str | None
    tables: tuple[TableKey, ...]
    is_alive: bool
    """Does its writer still hold its leases?"""


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


def find_pending(bench: Workbench) -> tuple[PendingWrite, ...]:
    """Every note that is there, oldest first. Raises SidecarCorrupt, SidecarTooNew."""
    found = []
    for operation_id in find_sidecars(bench.stores.objects):
        sidecar = read_sidecar(bench.stores.objects, operation_id)
        if sidecar is not None:
            places = places_of(sidecar)
            found.append(
                PendingWrite(
                    operation_id,
                    sidecar.kind.value,
                    sidecar.branch,
                    sidecar.actor,
                    tuple(place.table for place in places),
                    any(bench.leases.is_alive(place, operation_id) for place in places),
                )
            )
    return tuple(found)


def find_recoveries(bench: Workbench) -> tuple[PastRecovery, ...]:
    """Every recovery there ever was, newest first."""
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
        for row in reversed(read_audit(bench.stores).to_pylist())
    )
