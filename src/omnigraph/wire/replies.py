"""Bodies of answers. A field with two names carries both: clients of both generations exist."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class _Reply(BaseModel):
    model_config = ConfigDict(extra="allow")


class HealthReply(_Reply):
    status: str
    version: str
    internal_schema_version: int


class GraphEntry(_Reply):
    graph_id: str
    uri: str


class GraphsReply(_Reply):
    graphs: list[GraphEntry]
    quarantined: dict[str, str] | None = None


class TableEntry(_Reply):
    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


class DatasetEntry(_Reply):
    entity_kind: str
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int


class RowCountsReply(_Reply):
    inserted: int
    updated: int
    deleted: int


class TableCountsReply(RowCountsReply):
    table_key: str


class CommitReply(_Reply):
    graph_commit_id: str
    manifest_branch: str | None
    manifest_version: int
    graph_branch: str | None
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    created_at_iso: str | None = None
    message: str | None = None
    row_counts: RowCountsReply | None = None
    tables: list[TableCountsReply] | None = None


class CommitsReply(_Reply):
    commits: list[CommitReply]


class SnapshotReply(_Reply):
    branch: str
    manifest_version: int
    tables: list[TableEntry]
    graph_branch: str
    graph_manifest_version: int
    internal_schema_version: int
    graph_commit_id: str | None
    commit: CommitReply | None
    datasets: list[DatasetEntry]


class ExplainReply(_Reply):
    query_name: str
    plan: list[str]
    row_count: int | None = None
    steps: list[dict[str, Any]]


class MutationReply(_Reply):
    branch: str
    query_name: str | None
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: CommitReply | None


class ReadTargetReply(_Reply):
    branch: str | None
    snapshot: str | None


class ReadReply(_Reply):
    query_name: str
    target: ReadTargetReply
    row_count: int
    columns: list[str] | None = None
    rows: list[dict[str, Any]]
    graph_commit_id: str | None = None


class LoadedTable(_Reply):
    table_key: str
    rows_loaded: int


class LoadedType(_Reply):
    name: str
    entities_loaded: int


class LoadReply(_Reply):
    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str | None = None
    tables: list[LoadedTable]
    nodes: list[LoadedType]
    edges: list[LoadedType]
    total_entities: int
    actor_id: str | None
    commit: CommitReply | None


class SchemaReply(_Reply):
    schema_source: str


class OutlineReply(_Reply):
    text: str
    tokens: int
    types: list[str]
    omitted: list[str]


class PropertyEntry(_Reply):
    name: str
    type: str
    is_key: bool


class NodeTypeEntry(_Reply):
    name: str
    description: str | None
    implements: list[str]
    properties: list[PropertyEntry]


class EdgeTypeEntry(_Reply):
    name: str
    description: str | None
    source: str
    target: str
    properties: list[PropertyEntry]


class TypesReply(_Reply):
    nodes: list[NodeTypeEntry]
    edges: list[EdgeTypeEntry]


class RightsReply(_Reply):
    graph_id: str
    actor_id: str | None
    actions: list[str]


class SchemaPlanReply(_Reply):
    uri: str
    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    effects: list[dict[str, Any]]


class SchemaApplyReply(SchemaPlanReply):
    applied: bool
    manifest_version: int
    graph_manifest_version: int
    commit: CommitReply | None


class OptimizeReply(_Reply):
    uri: str
    branch: str
    tables: list[dict[str, Any]]
    commits: list[str]


class BranchSummaryReply(_Reply):
    name: str
    head: CommitReply | None
    ahead: int | None
    behind: int | None


class BranchesReply(_Reply):
    branches: list[str]
    summaries: list[BranchSummaryReply] | None = None


class BranchCreateReply(_Reply):
    uri: str
    name: str
    actor_id: str | None


class BranchDeleteReply(_Reply):
    uri: str
    name: str
    actor_id: str | None


class MergeReply(_Reply):
    source: str
    target: str
    outcome: str
    actor_id: str | None
    commit: CommitReply | None
    source_commit_id: str
    target_commit_id: str
    base_commit_ids: list[str]
    tables: list[TableCountsReply]
    merge_conflicts: list[dict[str, Any]]
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None


class Endpoints(_Reply):
    from_: Annotated[str, Field(alias="from")]
    to: str


class ImageEntry(_Reply):
    properties: dict[str, Any]
    endpoints: Endpoints | None = None


class ChangedType(_Reply):
    id: int
    name: str


class ChangeEntry(_Reply):
    kind: str
    type: ChangedType
    op: str
    id: str
    endpoints: Endpoints | None = None
    before: ImageEntry | None = None
    after: ImageEntry | None = None


class CauseReply(_Reply):
    graph_commit_id: str
    parent_commit_id: str | None = None
    merged_parent_commit_id: str | None = None
    authored_branch: str
    graph_manifest_version: int
    actor_id: str | None = None
    authored_at: int
    authored_at_iso: str | None = None
    message: str | None = None
    tables: list[TableCountsReply] | None = None


class DiffSide(_Reply):
    branch: str
    graph_commit_id: str | None
    manifest_version: int


class DiffCounts(RowCountsReply):
    kind: str
    name: str


class DiffReply(_Reply):
    from_: Annotated[DiffSide, Field(alias="from")]
    to: DiffSide
    types: list[DiffCounts]


class CommitChangesReply(_Reply):
    cause: CauseReply
    changes: list[ChangeEntry]
    next_page_token: str | None = None


class ChangeBlock(_Reply):
    cause: CauseReply
    changes: list[ChangeEntry]


class FeedReply(_Reply):
    blocks: list[ChangeBlock]
    next_page_token: str | None = None
    cursor: str | None = None
    caught_up: bool | None = None


class QueryParameter(_Reply):
    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None


class StoredQueryEntry(_Reply):
    name: str
    tool_name: str
    mutation: bool
    params: list[QueryParameter]
    description: str | None = None
    instruction: str | None = None


class QuarantinedQuery(_Reply):
    source: str
    reason: str


class StoredQueriesReply(_Reply):
    queries: list[StoredQueryEntry]
    quarantined: list[QuarantinedQuery] | None = None


class JobReply(_Reply):
    job_id: str
    kind: str
    state: str
    actor_id: str | None
    created_at: int
    created_at_iso: str | None = None
    updated_at: int
    updated_at_iso: str | None = None
    phase: str | None
    progress: dict[str, Any] | None
    idempotency_key: str
    result: dict[str, Any] | None
    error: dict[str, Any] | None


class JobsReply(_Reply):
    jobs: list[JobReply]


class ReloadReply(_Reply):
    generation: int
    graphs: list[str]
    quarantined: dict[str, str]
