"""Results as JSON documents, the same on every surface.

Field names come in two generations, and clients of either exist; both are in every document.
"""

import json
from collections.abc import Sequence
from typing import Final

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit, JsonObject, JsonValue
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.commit.manifest.stamp import CURRENT
from omnigraph.engine.load.export import ExportResult
from omnigraph.engine.load.recipe_plan import PlannedInput, RecipePlan
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.maintain.cleanup import CleanupResult
from omnigraph.engine.maintain.doctor import DoctorFinding
from omnigraph.engine.maintain.indexes import IndexReport, IndexState, IndicesResult
from omnigraph.engine.maintain.inspection import PastRecovery, PendingWrite
from omnigraph.engine.maintain.optimize import OptimizedTable, OptimizeResult
from omnigraph.engine.maintain.repair import RepairResult
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.schema.apply import SchemaResult
from omnigraph.engine.schema.plan import SchemaPlan
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import RecordFault
from omnigraph.ids import lance_branch, split_table_key
from omnigraph.jsontext import read_json
from omnigraph.wire.causes import clash_document


def snapshot_document(snapshot: ManifestSnapshot) -> JsonObject:
    pins = snapshot.pins.values()
    return {
        "branch": snapshot.branch,
        "manifest_version": snapshot.manifest_version,
        "tables": [_table(pin) for pin in pins],
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.manifest_version,
        "internal_schema_version": CURRENT,
        "graph_commit_id": None if snapshot.commit is None else snapshot.commit.id,
        "commit": None if snapshot.commit is None else commit_document(snapshot.commit),
        "datasets": [_dataset(pin) for pin in pins],
    }


def _table(pin: Pin) -> JsonObject:
    return {
        "table_key": pin.key,
        "table_path": pin.path,
        "table_version": pin.version,
        "table_branch": lance_branch(pin.owner),
        "row_count": pin.row_count,
    }


def _dataset(pin: Pin) -> JsonObject:
    kind, name = split_table_key(pin.key)
    return {
        "entity_kind": kind,
        "type_name": name,
        "dataset_path": pin.path,
        "published_dataset_version": pin.version,
        "native_dataset_branch": lance_branch(pin.owner),
        "entity_count": pin.row_count,
    }


def commit_document(commit: Commit) -> JsonObject:
    branch = lance_branch(commit.branch)
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": branch,
        "manifest_version": commit.manifest_version,
        "graph_branch": branch,
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": commit.created_at_us,
        "message": commit.message,
    }


def mutation_document(result: MutationResult) -> JsonObject:
    return {
        "branch": result.branch,
        "query_name": result.query_name,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "actor_id": result.actor,
        "commit": None if result.commit is None else commit_document(result.commit),
    }


def merge_document(result: MergeResult) -> JsonObject:
    deleted: JsonObject = {
        "branch_deleted": result.branch_deleted,
        "branch_delete_error": result.branch_delete_error,
    }
    return {
        "source": result.source,
        "target": result.target,
        "outcome": result.outcome.value,
        "actor_id": result.actor,
        "commit": None if result.commit is None else commit_document(result.commit),
        "source_commit_id": result.source_commit,
        "target_commit_id": result.target_commit,
        "base_commit_ids": list(result.base_commits),
        "tables": [
            {
                "table_key": key,
                "inserted": each.inserted,
                "updated": each.updated,
                "deleted": each.deleted,
            }
            for key, each in result.counts.items()
        ],
        "merge_conflicts": [clash_document(each) for each in result.conflicts],
        **({} if result.branch_deleted is None else deleted),
    }


def load_document(result: LoadResult) -> JsonObject:
    counts = [(*split_table_key(key), count) for key, count in result.counts.items()]
    nodes: list[JsonValue] = [
        {"name": name, "entities_loaded": n} for kind, name, n in counts if kind == "node"
    ]
    edges: list[JsonValue] = [
        {"name": name, "entities_loaded": n} for kind, name, n in counts if kind == "edge"
    ]
    base: JsonObject = {} if result.base_branch is None else {"base_branch": result.base_branch}
    return {
        "uri": result.uri,
        "branch": result.branch,
        **base,
        "branch_created": result.branch_created,
        "mode": result.mode.value,
        "engine": None if result.engine is None else result.engine.value,
        "nodes_loaded": sum(n for kind, _, n in counts if kind == "node"),
        "edges_loaded": sum(n for kind, _, n in counts if kind == "edge"),
        "node_types_loaded": len(nodes),
        "edge_types_loaded": len(edges),
        "tables": [
            {"table_key": key, "rows_loaded": count} for key, count in result.counts.items()
        ],
        "nodes": nodes,
        "edges": edges,
        "total_entities": sum(result.counts.values()),
        "commit": None if result.commit is None else commit_document(result.commit),
        "timings_ms": dict(result.timings_ms),
        "actor_id": result.actor,
    }


def export_document(result: ExportResult) -> JsonObject:
    return {
        "branch": result.branch,
        "commit": None if result.commit is None else commit_document(result.commit),
        "format": result.format.value,
        "output": result.output,
        "tables": [{"table_key": key, "row_count": count} for key, count in result.counts.items()],
        "total_entities": sum(result.counts.values()),
    }


def schema_plan_document(uri: str, plan: SchemaPlan) -> JsonObject:
    return {"uri": uri, **plan.to_json()}


def schema_result_document(uri: str, result: SchemaResult) -> JsonObject:
    return {
        **schema_plan_document(uri, result.plan),
        "applied": result.applied,
        "manifest_version": result.manifest_version,
        "graph_manifest_version": result.manifest_version,
        "commit": None if result.commit is None else commit_document(result.commit),
    }


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


def plan_document(plan: RecipePlan) -> JsonObject:
    return {
        "file": plan.path,
        "mode": plan.mode.value,
        "branch": plan.branch,
        "from": plan.from_branch,
        "is_sound": plan.is_sound,
        "inputs": [_planned(each) for each in plan.inputs],
    }


def _planned(planned: PlannedInput) -> JsonObject:
    return {
        "name": planned.name,
        "table_key": planned.table_key,
        "files": list(planned.files),
        "rows": planned.row_count,
        "where": planned.where,
        "columns": [
            {
                "property": each.target,
                "property_type": each.target_type,
                "source": each.source,
                "source_type": each.source_type,
            }
            for each in planned.columns
        ],
        "unused": list(planned.unused),
        "problems": list(planned.problems),
    }


def fault_document(fault: RecordFault) -> JsonObject:
    return {
        "file": fault.file,
        "line": fault.line,
        "kind": fault.kind,
        "type": fault.type_name,
        "property": fault.property_name,
        "ids": list(fault.ids),
        "value": read_json(json.dumps(fault.value, default=str)),
        "reason": fault.message,
    }


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
    }


def _outcomes(recovery: PastRecovery) -> JsonValue:
    try:
        found: JsonValue = read_json(recovery.outcomes_json)
    except ValueError as error:
        # One damaged row must not hide the others.
        return {"problem": f"the audit cannot be read: {error}"}
    return found


def indices_document(result: IndicesResult) -> JsonObject:
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
