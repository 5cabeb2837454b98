"""Results of maintenance and recovery as JSON documents, the same on every surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from omnigraph.commit.manifest.records import JsonObject, JsonValue
from omnigraph.ids import lance_branch, split_table_key
from omnigraph.jsontext import read_json
from omnigraph.sdk.documents import iso_time

if TYPE_CHECKING:
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.maintain.cleanup import CleanupResult
    from omnigraph.engine.maintain.clone import CloneResult
    from omnigraph.engine.maintain.doctor import DoctorFinding
    from omnigraph.engine.maintain.indexes import IndexReport, IndicesResult
    from omnigraph.engine.maintain.inspection import PastRecovery, PendingWrite
    from omnigraph.engine.maintain.optimize import OptimizedTable, OptimizeResult
    from omnigraph.engine.maintain.repair import RepairResult


def optimize_document(uri: str, result: OptimizeResult) -> JsonObject:
    tables: list[JsonValue] = [each.to_json() for each in result.tables]
    datasets: list[JsonValue] = [_optimized_dataset(each) for each in result.tables]
    commits: list[JsonValue] = [each.id for each in result.commits]
    return {
        "uri": uri,
        "branch": result.branch,
        "tables": tables,
        "datasets": datasets,
        "commits": commits,
    }


_LATER: Final = {"table_key": "type_key", "manifest_version": "published_dataset_version"}


def _dataset_of(table: JsonObject) -> JsonObject:
    """The same in the later words."""
    return {_LATER.get(name, name): value for name, value in table.items()}


def _optimized_dataset(table: OptimizedTable) -> JsonObject:
    return {
        **_dataset_of(table.to_json()),
        "pending_indexes": [
            {"property": each.column, "index": each.kind, "reason": each.reason}
            for each in table.pending
        ],
    }


def cleanup_document(uri: str, result: CleanupResult) -> JsonObject:
    age_ms = result.policy.older_than_ms
    tables: list[JsonObject] = [
        {
            "table_key": each.key,
            "branch": lance_branch(each.branch),
            "bytes_removed": each.bytes_removed,
            "old_versions_removed": each.versions_removed,
            "error": each.error,
        }
        for each in result.tables
    ]
    return {
        "uri": uri,
        "confirmed": result.is_confirmed,
        "keep_versions": result.policy.keep,
        "older_than_secs": None if age_ms is None else age_ms // 1000,
        "tables": [*tables],
        "datasets": [_dataset_of(each) for each in tables],
        "forks": list(result.forks),
        "residue_bytes": result.residue_bytes,
        "bytes_removed": result.bytes_removed,
    }


def relocate_document(result: RelocateResult) -> JsonObject:
    return {
        "uri": result.uri,
        "previous_uri": result.previous_uri,
        "graph_id": result.graph_id,
        "versions": result.versions,
        "versions_rewritten": result.versions_rewritten,
    }


def clone_document(result: CloneResult) -> JsonObject:
    return {
        "source": result.source,
        "uri": result.uri,
        "graph_id": result.graph_id,
        "branches": list(result.branches),
        "commits": result.commits,
        "files": result.files,
        "bytes_copied": result.bytes_copied,
    }


def repair_document(uri: str, result: RepairResult) -> JsonObject:
    tables: list[JsonObject] = [
        {
            "table_key": each.key,
            "branch": lance_branch(each.branch),
            "manifest_version": each.shown,
            "lance_head_version": each.head,
            "classification": each.verdict.value,
            "action": each.action.value,
            "operations": list(each.operations),
            "error": None,
        }
        for each in result.tables
    ]
    return {
        "uri": uri,
        "confirm": result.request.is_confirmed,
        "force": result.request.is_forced,
        "discard": result.request.is_discarded,
        "manifest_version": result.manifest_version,
        "graph_manifest_version": result.manifest_version,
        "tables": [*tables],
        "datasets": [_dataset_of(each) for each in tables],
    }


def findings_document(uri: str, findings: Sequence[DoctorFinding]) -> JsonObject:
    listed: list[JsonValue] = [
        {
            "branch": each.branch,
            "subject": each.subject,
            "problem": each.problem,
            "remedy": each.remedy,
        }
        for each in findings
    ]
    return {"uri": uri, "ok": not findings, "findings": listed}


def pending_document(pending: PendingWrite) -> JsonObject:
    return {
        "operation_id": pending.operation_id,
        "state": pending.state.value,
        "writer_kind": pending.kind,
        "branch": pending.branch,
        "actor_id": pending.actor,
        "tables": list(pending.tables),
        "problem": pending.problem,
    }


def recovery_document(recovery: PastRecovery) -> JsonObject:
    return {
        "operation_id": recovery.operation_id,
        "state": "resolved",
        "graph_commit_id": recovery.commit_id,
        "recovery_kind": recovery.kind.value,
        "sidecar_writer_kind": recovery.writer,
        "recovery_for_actor": recovery.actor,
        "per_table_outcomes": _outcomes(recovery),
        "created_at": recovery.created_at_us,
        "created_at_iso": iso_time(recovery.created_at_us),
    }


def _outcomes(recovery: PastRecovery) -> JsonValue:
    try:
        found: JsonValue = read_json(recovery.outcomes_json)
    except ValueError as error:
        # One damaged row must not hide the others.
        return {"problem": f"the audit cannot be read: {error}"}
    return found


def indices_document(result: IndicesResult) -> JsonObject:
    from omnigraph.engine.maintain.indexes import IndexState

    return {
        "branch": result.branch,
        "built": [_index(each) for each in result.of(IndexState.BUILT)],
        "pending": [_index(each) for each in result.of(IndexState.PENDING)],
        "already_covered": [_index(each) for each in result.of(IndexState.COVERED)],
        "commits": [each.id for each in result.commits],
        "actor_id": result.actor,
    }


def _index(report: IndexReport) -> JsonObject:
    kind, name = split_table_key(report.table)
    document: JsonObject = {
        "table_key": report.table,
        "entity_kind": kind,
        "type_name": name,
        "column": report.column,
        "index": report.kind,
    }
    return document if report.reason is None else {**document, "reason": report.reason}
