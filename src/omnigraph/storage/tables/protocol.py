"""The two protocols: `Tables`, and `SingleStepOps` for what Lance cannot do in two steps."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, Protocol

import pyarrow as pa

from omnigraph.storage.blobs import BlobFile
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables.changes import (
    ColumnFill,
    IndexScope,
    IndexSpec,
    Mark,
    Outcome,
    Pieces,
    Receipt,
    Reshape,
    RowChanges,
    Rows,
    Staged,
    StagedCompaction,
    TableSettings,
)
from omnigraph.storage.tables.versions import (
    EVERYTHING,
    ROWS_PER_FILE,
    Addresses,
    Branch,
    FragmentContent,
    Handle,
    Pause,
    ScanRequest,
    TableRef,
    TableStats,
    TransactionRecord,
    VersionInfo,
    VersionLocation,
)

CACHE_BYTES_MAX: Final = 2 << 30
"""What a store keeps of manifests, footers and index pages, if nobody says otherwise."""


class ManifestSwap(Enum):
    """How the manifest is swapped. To readers there is no difference, nor to a rival."""

    REWRITE_TAIL = "rewrite_tail"
    """Files are listed again, but for the last one, which is written again (ADR 19)."""

    MERGE = "merge"
    """A merge-insert, which compares keys by itself; slower."""


class SingleStepOps(Protocol):
    """What Lance does only in one step: these calls write and move HEAD together."""

    def swap_rows(self, handle: Handle, rows: pa.Table, *, key: str, mark: Mark) -> Outcome:
        """Insert or replace rows by key, if nobody touched those keys since `handle`.

        This is the compare-and-swap of `__manifest`, and every publish goes through it (D9).
        `Refused` means contention. A merge-insert (see `ManifestSwap`) chooses its own transaction
        uuid, so `mark` is not always recorded: the caller recognises its commit by its rows. It
        must look for them after a refusal too: on a bucket the client may have repeated a request
        that had landed, and then the repetition is refused.
        Raises `StorageFailure` when the outcome is unknown.
        """
        ...

    def commit_compaction(self, staged: StagedCompaction) -> Outcome:
        """Put compacted fragments in place: two versions, so never `Landed` at + 1.

        The handle of `Landed` is the version that must be confirmed before it is published.
        """
        ...

    def delete_versions(self, handle: Handle, versions: Sequence[int]) -> int:
        """Forget exactly these versions and the files only they use. Never HEAD.

        How many bytes that freed.
        """
        ...


class Tables(Protocol):
    """Tables below one root. Every method may raise `StorageFailure`."""

    @property
    def single_step(self) -> SingleStepOps: ...

    # reading

    def open_at(self, ref: TableRef, version: int | None = None) -> Handle:
        """A version of a table; the newest if none is named.

        Raises `TableNotFound`, `VersionNotFound`, `GraphRelocated`, `TableCorrupt`.
        """
        ...

    def probe(self, handle: Handle) -> int:
        """The newest version, found as cheaply as the store allows.

        Never ahead of the truth. It may lag behind it when versions in between were deleted, so
        whoever lost a race opens the table afresh instead of probing again.
        """
        ...

    def scan(
        self, handle: Handle, request: ScanRequest = EVERYTHING
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches as they are read. The context translates errors that occur while reading."""
        ...

    def read(
        self, handle: Handle, request: ScanRequest = EVERYTHING, pause: Pause | None = None
    ) -> pa.Table:
        """All of it; `pause` is called between two batches, and may raise to read no more."""
        ...

    def count(self, handle: Handle, where: str) -> int: ...

    def read_blobs(
        self, handle: Handle, column: str, addresses: Sequence[int]
    ) -> list[bytes | None]:
        """The bytes of a blob column at these row addresses, in their order; None for a null."""
        ...

    def open_blob(self, handle: Handle, column: str, address: int) -> BlobFile:
        """One blob, to read parts of. It is not null, and not kept elsewhere."""
        ...

    def locate(self, handle: Handle, column: str, values: Sequence[str]) -> pa.Table:
        """Where rows are: the column, `_rowid` and `_rowaddr` of rows whose value is listed.

        Up to `LOOKED_UP_MAX` values are looked up in an index, if there is one; for more of them
        the whole column is read.
        """
        ...

    def scan_at(
        self, handle: Handle, row_addresses: Addresses, request: ScanRequest
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches of exactly the rows at these addresses, which ascend; with their addresses."""
        ...

    def inspect(self, handle: Handle) -> TableStats: ...

    def find_fragments(self, handle: Handle) -> tuple[FragmentContent, ...]:
        """What the version is made of. Known without a read."""
        ...

    def find_transactions(self, handle: Handle, *, after: int) -> tuple[TransactionRecord, ...]:
        """What made each version from `after + 1` to the handle's, oldest first."""
        ...

    def find_versions(self, handle: Handle) -> tuple[VersionInfo, ...]: ...

    def find_debris(self, path: str) -> tuple[Listed, ...]:
        """Files of a table that no version names, on any branch. Some may have just been staged."""
        ...

    def locate_version(self, handle: Handle) -> VersionLocation:
        """The file that describes the handle's version."""
        ...

    # staging: files only

    def stage_create(
        self, ref: TableRef, schema: pa.Schema, mark: Mark, rows: Rows | None = None
    ) -> Staged: ...

    def stage_rows(self, handle: Handle, changes: RowChanges, mark: Mark) -> Staged:
        """Inserts, updates that keep their row ids, and deletions, as one transaction."""
        ...

    def stage_append(self, handle: Handle, rows: Rows, mark: Mark) -> Staged: ...

    def stage_receipts(self, handle: Handle, receipts: Sequence[Receipt], mark: Mark) -> Staged:
        """Append fragments that were written elsewhere, or staged before on an older version."""
        ...

    def to_pieces(self, staged: Staged) -> Pieces:
        """What somebody else needs to commit this. Its files are flushed first (D11)."""
        ...

    def stage_pieces(self, handle: Handle, pieces: Sequence[Pieces], mark: Mark) -> Staged:
        """One transaction of all pieces, which were written on the handle's version.

        No two of them may have dropped rows of one fragment.
        """
        ...

    def discard(self, ref: TableRef, pieces: Pieces) -> None:
        """Delete files that nothing will ever name. Those that are gone already do not matter."""
        ...

    def stage_upsert(self, handle: Handle, rows: pa.Table, mark: Mark, *, key: str) -> Staged:
        """Replace rows whose key exists, insert the others. Keys in `rows` must differ."""
        ...

    def stage_delete(self, handle: Handle, where: str, mark: Mark) -> Staged: ...

    def stage_overwrite(
        self,
        handle: Handle,
        schema: pa.Schema,
        mark: Mark,
        rows: Rows | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> Staged:
        """Replace all rows, perhaps by none, and the schema. Indices are lost.

        The new rows are given, or were staged for an overwrite before and are named by their
        receipts; or both.
        """
        ...

    def stage_reshape(
        self, handle: Handle, reshape: Reshape, mark: Mark, filled: Sequence[str] | None = None
    ) -> Staged:
        """Drop, rename and add columns, all in one transaction.

        Rows keep their ids, and indices of columns that stay are kept. The table has rows: an
        empty one is overwritten. Only filled columns cost what the table weighs; they may have been
        filled before, by `fill`, in every fragment. Raises BackfillInvalid.
        """
        ...

    def fill(self, handle: Handle, fills: tuple[ColumnFill, ...], fragment_id: int) -> str:
        """Fill the new columns of one fragment; its file is flushed (D11). Raises BackfillInvalid.

        The answer is for `stage_reshape`, on the same version.
        """
        ...

    def stage_unindex(self, handle: Handle, columns: Collection[str], mark: Mark) -> Staged:
        """Drop every index of these columns; there is one at least."""
        ...

    def stage_indices(
        self, handle: Handle, specs: Sequence[IndexSpec], scope: IndexScope, mark: Mark
    ) -> Staged | None:
        """Build what is missing; None if nothing is."""
        ...

    def restage_indices(
        self, built: Staged, handle: Handle, names: Collection[str], mark: Mark
    ) -> Staged | None:
        """Attach indices that were staged on an earlier version to a later one.

        Only those of these names. They know the rows that were there then; what came since they do
        not cover. None if they no longer fit: a fragment they cover is gone or its columns were
        rewritten, the schema is another, or somebody else has built one of them.
        """
        ...

    def stage_settings(self, handle: Handle, settings: TableSettings, mark: Mark) -> Staged: ...

    def stage_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> StagedCompaction | None:
        """Rewrite small fragments together; None if there is nothing to gain."""
        ...

    def plan_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> tuple[str, ...]:
        """The same in steps that others may take: which fragments to put together, one text for
        each task.
        """
        ...

    def run_compaction_task(self, handle: Handle, task: str) -> str:
        """Do one task of a plan, on the version it was made for. Its files are flushed (D11)."""
        ...

    def stage_compaction_results(self, handle: Handle, outcomes: Sequence[str]) -> StagedCompaction:
        """What all tasks of a plan came to."""
        ...

    # moving HEAD, deliberately

    def commit_exact(self, staged: Staged) -> Outcome:
        """Raises `ReplyLost` when the commit failed oddly and cannot be found."""
        ...

    def restore(self, head: Handle, *, to: int, mark: Mark) -> Outcome:
        """Make the content of version `to` the newest again, on top of exactly `head`.

        Only under the lease (D1): Lance lets a restore bury whatever landed meanwhile. Refused
        if HEAD is not `head`. LandedLater if a commit slipped in all the same; it has then been
        put back on top, and the caller must look again.
        """
        ...

    def fsync_version(self, handle: Handle, *, beyond: Handle | None = None) -> None:
        """Flush every file of this version, except those of a version known to be flushed."""
        ...

    def find_torn(self, shown: Handle) -> int | None:
        """The newest version, if it is later than the one shown and a power cut left it, or a file
        that came with it, so that it cannot be read (D31).
        """
        ...

    def remove_torn(self, shown: Handle, version: int) -> None:
        """Take the newest version away by its file. Only under the lease, and only if it is torn:
        nobody was ever told of it.
        """
        ...

    # branches

    def find_branches(self, path: str) -> tuple[Branch, ...]: ...

    def find_branch(self, path: str, branch: str) -> Branch | None:
        """One branch by its ref, without listing the others."""
        ...

    def fork(self, source: Handle, branch: str) -> Handle:
        """A new branch of the table that starts as `source`. Raises `ForkExists`."""
        ...

    def delete_branch(self, path: str, branch: str) -> None:
        """Raises `ForkNotFound`, `ForkInUse`."""
        ...

    def clear_branch(self, path: str, branch: str, *, only: str | None = None) -> None:
        """Remove a branch or whatever is left of one; `only` if it is still the one that was looked
        at, by its identifier. Raises `ForkInUse`.
        """
        ...
