"""A change: what a writer wants done to a branch, as a value.

Mutations, loads, merges, schema changes and maintenance differ in what they want. Each turns its
request into a `Change`, and only `attempt` carries a `Change` out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from omnigraph.commit.manifest.model import Manifest, accept
from omnigraph.commit.manifest.records import Commit, Idempotency, PipelineRun, RowCounts, Touched
from omnigraph.commit.manifest.schema_files import SchemaShift
from omnigraph.commit.manifest.updates import Update
from omnigraph.ids import BranchName, CommitId, TableKey, Version
from omnigraph.storage.tables import Handle, Mark, Staged, StagedCompaction


class WriterKind(StrEnum):
    """The kind of a writer, with the names of the sidecar format."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


Stage = Callable[[Handle, Mark], Staged | StagedCompaction | None]
"""Stages one table commit on top of the given version. None if no commit is needed, which only a
write that is not named may return."""


def counts_of(commits: Iterable[Staged | StagedCompaction]) -> RowCounts:
    """The rows that staged commits of one table change. A compaction changes none."""
    rows = (each for each in commits if isinstance(each, Staged))
    counts = (RowCounts(each.inserted, each.updated, each.deleted) for each in rows)
    return sum(counts, RowCounts())


@dataclass(frozen=True, slots=True)
class Creation:
    """An empty table, created at a new path or on top of a table that no branch shows."""

    path: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class TableWrite:
    """The commits to one table, in order."""

    key: TableKey
    expected: Version
    """The version that the writer read and that the branch must show. For a new table, the version
    found at its path, or 0."""
    stages: tuple[Stage, ...]
    is_named: bool = True
    """Can the writer choose the uuids of its transactions? A compaction cannot."""
    creation: Creation | None = None
    """The first commit of a new table, before the stages."""
    shown_as: TableKey | None = None
    """The new key of the table, if the change renames it."""

    @property
    def commit_count(self) -> int:
        return len(self.stages) + (self.creation is not None)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One write of a group: the commit that it keeps, and the entities that it touched (D29)."""

    commit_id: CommitId
    created_at_us: int
    touched: Touched
    counts: Mapping[TableKey, RowCounts]
    actor: str | None = None
    message: str | None = None
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True)
class Change:
    kind: WriterKind
    branch: BranchName
    writes: tuple[TableWrite, ...]
    actor: str | None = None
    message: str | None = None
    updates: tuple[Update, ...] = ()
    """Further updates of the manifest: registrations, tombstones, pointers."""
    reads: Mapping[TableKey, Version] = field(default_factory=dict)
    """Tables that were read to decide this and are not written, with their versions."""
    recheck: Callable[[Manifest], None] = accept
    """Called if a table of `reads` moved. Raises if the change is no longer valid (D5)."""
    on_top_of: CommitId | None = None
    """The commit that must be the head, also for a roll-forward."""
    merged_parent: CommitId | None = None
    carried: tuple[Commit, ...] = ()
    counts: Mapping[TableKey, RowCounts] | None = None
    """The rows it changes, for the commit to record. None: as the staged commits count them."""
    idempotency: Idempotency | None = None
    proposal: str | None = None
    """The proposal that this merges, for the commit to record (D39)."""
    pipeline: PipelineRun | None = None
    """The run of a pipeline file that this is; refused if another run came in between."""
    schema_hash: str | None = None
    """The schema this was decided under, which must be in force."""
    schema: SchemaShift | None = None
    """The schema that comes into force with this change."""
    is_shared: bool = False
    """Could it share a group (D29)? Then the next write of this process builds on it, like on any
    mutation."""
    group: tuple[GroupMember, ...] = ()
    """Two or more writes that are published together, each with a commit of its own. Their actors,
    messages and keys count then, and not those of the change."""
