"""Documents of a server as the values an embedded graph gives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit, Extension, RowCounts
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.history.branch_summary import BranchSummary
from omnigraph.engine.load.bulk import LoadEngine, LoadMode
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.merge.classify import Outcome
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.schema.apply import SchemaResult
from omnigraph.engine.schema.plan import decode_schema_plan
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.errors import SchemaCorrupt, ServerAnswerInvalid
from omnigraph.ids import BranchName, CommitId, TableKey, Version, graph_branch
from omnigraph.wire.causes import read_clash
from omnigraph.wire.replies import (
    BranchesReply,
    CommitReply,
    CommitsReply,
    LoadReply,
    MergeReply,
    MutationReply,
    SchemaApplyReply,
    SnapshotReply,
    TableCountsReply,
)

T = TypeVar("T")


def decoded(url: str, document: object, decode: Callable[[Any], T]) -> T:
    """Raises ServerAnswerInvalid for a document that is not what it should be."""
    try:
        return decode(document)
    except (ValueError, KeyError, TypeError, SchemaCorrupt) as error:
        raise ServerAnswerInvalid(url, status=200, reason=str(error)) from error


def commit_of(reply: CommitReply) -> Commit:
    parent, merged = reply.parent_commit_id, reply.merged_parent_commit_id
    return Commit(
        id=CommitId(reply.graph_commit_id),
        branch=graph_branch(reply.graph_branch),
        manifest_version=Version(reply.graph_manifest_version),
        parent=None if parent is None else CommitId(parent),
        merged_parent=None if merged is None else CommitId(merged),
        actor=reply.actor_id,
        created_at_us=reply.created_at,
        extension=Extension(message=reply.message, counts=decode_counts(reply.tables)),
    )


def decode_counts(
    tables: Sequence[TableCountsReply] | None,
) -> Mapping[TableKey, RowCounts] | None:
    if tables is None:
        return None
    return {
        TableKey(each.table_key): RowCounts(each.inserted, each.updated, each.deleted)
        for each in tables
    }


def _maybe(reply: CommitReply | None) -> Commit | None:
    return None if reply is None else commit_of(reply)


def decode_commit(document: object) -> Commit:
    return commit_of(CommitReply.model_validate(document))


def decode_commits(document: object) -> tuple[Commit, ...]:
    return tuple(commit_of(each) for each in CommitsReply.model_validate(document).commits)


def decode_summaries(document: object) -> tuple[BranchSummary, ...]:
    reply = BranchesReply.model_validate(document)
    if reply.summaries is None:
        raise ValueError("the server told no details of its branches")
    return tuple(
        BranchSummary(BranchName(each.name), _maybe(each.head), each.ahead, each.behind)
        for each in reply.summaries
    )


def decode_snapshot(document: object) -> ManifestSnapshot:
    reply = SnapshotReply.model_validate(document)
    pins = [
        Pin(
            TableKey(each.table_key),
            each.table_path,
            Version(each.table_version),
            graph_branch(each.table_branch),
            each.row_count,
        )
        for each in reply.tables
    ]
    return ManifestSnapshot(
        BranchName(reply.branch),
        Version(reply.manifest_version),
        _maybe(reply.commit),
        {each.key: each for each in pins},
    )


def decode_schema_result(document: Mapping[str, Any]) -> SchemaResult:
    reply = SchemaApplyReply.model_validate(document)
    version = Version(reply.manifest_version)
    return SchemaResult(decode_schema_plan(document), version, _maybe(reply.commit))


def decode_mutation(document: object) -> MutationResult:
    reply = MutationReply.model_validate(document)
    return MutationResult(
        branch=BranchName(reply.branch),
        query_name=reply.query_name,
        affected_nodes=reply.affected_nodes,
        affected_edges=reply.affected_edges,
        actor=reply.actor_id,
        commit=_maybe(reply.commit),
    )


def decode_load(document: object) -> LoadResult:
    reply = LoadReply.model_validate(document)
    base = reply.base_branch
    return LoadResult(
        uri=reply.uri,
        branch=BranchName(reply.branch),
        base_branch=None if base is None else BranchName(base),
        branch_created=reply.branch_created,
        mode=LoadMode(reply.mode),
        counts={TableKey(each.table_key): each.rows_loaded for each in reply.tables},
        actor=reply.actor_id,
        commit=_maybe(reply.commit),
        engine=None if reply.engine is None else LoadEngine(reply.engine),
    )


def decode_merge(document: object) -> MergeResult:
    reply = MergeReply.model_validate(document)
    return MergeResult(
        source=BranchName(reply.source),
        target=BranchName(reply.target),
        outcome=Outcome(reply.outcome),
        actor=reply.actor_id,
        commit=_maybe(reply.commit),
        source_commit=CommitId(reply.source_commit_id),
        target_commit=CommitId(reply.target_commit_id),
        base_commits=tuple(CommitId(each) for each in reply.base_commit_ids),
        counts=decode_counts(reply.tables) or {},
        conflicts=tuple(read_clash(each) for each in reply.merge_conflicts),
        branch_deleted=reply.branch_deleted,
        branch_delete_error=reply.branch_delete_error,
    )
