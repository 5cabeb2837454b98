"""Results as JSON documents, the same on every surface.

Field names come in two generations, and clients of either exist; both are in every document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit, JsonObject, JsonValue, RowCounts, as_time
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.commit.manifest.stamp import CURRENT
from omnigraph.errors import RecordFault
from omnigraph.ids import TableKey, lance_branch, split_table_key
from omnigraph.jsontext import read_json

if TYPE_CHECKING:
    from omnigraph.catalog.model import Annotation, Catalog, Property
    from omnigraph.engine.history.branch_summary import BranchSummary
    from omnigraph.engine.load.export import ExportResult
    from omnigraph.engine.load.recipe_plan import PlannedInput, RecipePlan
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.schema.apply import SchemaResult
    from omnigraph.engine.schema.plan import SchemaPlan
    from omnigraph.engine.write.mutate import MutationResult


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
        "created_at_iso": iso_time(commit.created_at_us),
        "message": commit.message,
        "row_counts": None if commit.row_counts is None else _counts(commit.row_counts),
        "tables": None if commit.counts is None else counts_document(commit.counts),
    }


def iso_time(microseconds: int) -> str:
    """Microseconds since 1970 as people and programs read a time: `2026-06-01T12:00:00.000000Z`."""
    return as_time(microseconds).isoformat(timespec="microseconds").replace("+00:00", "Z")


def counts_document(counts: Mapping[TableKey, RowCounts]) -> list[JsonValue]:
    return [{"table_key": key, **_counts(each)} for key, each in counts.items()]


def _counts(counts: RowCounts) -> JsonObject:
    return {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
    }


def summaries_document(found: Sequence[BranchSummary]) -> JsonObject:
    """The names of the branches, and what is known of each."""
    return {
        "branches": [each.name for each in found],
        "summaries": [
            {
                "name": each.name,
                "head": None if each.head is None else commit_document(each.head),
                "ahead": each.ahead,
                "behind": each.behind,
            }
            for each in found
        ],
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
    from omnigraph.wire.causes import clash_document

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
        "tables": counts_document(result.counts),
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
        "since": None if planned.since is None else dict(planned.since),
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


def types_document(catalog: Catalog) -> JsonObject:
    return {
        "nodes": [
            {
                "name": each.name,
                "description": _description(each.annotations),
                "implements": [*each.implements],
                "properties": [_property(one, each.key) for one in each.properties],
            }
            for each in catalog.nodes
        ],
        "edges": [
            {
                "name": each.name,
                "description": _description(each.annotations),
                "source": each.source,
                "target": each.target,
                "properties": [_property(one) for one in each.properties],
            }
            for each in catalog.edges
        ],
    }


def _property(found: Property, key: Sequence[str] = ()) -> JsonObject:
    return {"name": found.spelling, "type": str(found.type), "is_key": found.name in key}


def _description(annotations: Sequence[Annotation]) -> str | None:
    return next((each.value for each in annotations if each.name == "description"), None)
