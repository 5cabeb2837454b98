"""A change: what a writer wants done to a branch, as a value.

Mutations, loads, merges, schema changes and maintenance differ in what they want. They all say it
with this, and `attempt` alone carries it out.
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
    """Who writes, spelled as sidecars spell it."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"


Stage = Callable[[Handle, Mark], Staged | StagedCompaction | None]
"""Write the files of one table commit, to be put on top of the given version. None: no need to,
which only a write that is not named may find."""


@dataclass(frozen=True, slots=True)
class Creation:
    """An empty table, made where there is none, or over one that nobody shows any more."""

    path: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class TableWrite:
    """What happens to one table: its commits, in order."""

    key: TableKey
    expected: Version
    """The version the writer read, which must be what the branch shows. Of a table that is to be
    created, the version that was found at its path; 0 if there was none."""
    stages: tuple[Stage, ...]
    is_named: bool = True
    """Can its transactions be named in advance? A compaction chooses its own."""
    creation: Creation | None = None
    """Its first commit, before the stages, if the branch does not show it yet."""
    shown_as: TableKey | None = None
    """The key the branch shows it by from now on, if that is another one."""

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
    """What else the manifest is to say: registrations, tombstones, pointers."""
    reads: Mapping[TableKey, Version] = field(default_factory=dict)
    """Tables that were read to decide this and are not written, and the versions they were at."""
    recheck: Callable[[Manifest], None] = accept
    """Called when a table of `reads` moved: raises if the change may no longer be made."""
    on_top_of: CommitId | None = None
    """The commit that must be the newest, whoever makes this visible."""
    merged_parent: CommitId | None = None
    carried: tuple[Commit, ...] = ()
    idempotency: Idempotency | None = None
    schema_hash: str | None = None
    """The schema it was decided under, which must be the one in force."""
    schema: SchemaShift | None = None
    """The schema that comes into force with it."""
