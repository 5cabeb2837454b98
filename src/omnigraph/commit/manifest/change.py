"""A change: what a writer wants done to a branch, as a value.

Mutations, loads, merges, schema changes and maintenance differ in what they want. Each turns its
request into a `Change`, and only `attempt` carries a `Change` out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from omnigraph.commit.manifest.model import Manifest, accept
from omnigraph.commit.manifest.records import Commit, Idempotency
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
    idempotency: Idempotency | None = None
    schema_hash: str | None = None
    """The schema this was decided under, which must be in force."""
    schema: SchemaShift | None = None
    """The schema that comes into force with this change."""
