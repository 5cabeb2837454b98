"""The two protocols: `Tables`, and `SingleStepOps` for what Lance does only in one step."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from omnigraph.storage.durability import FlushWaves
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
    BlobFile,
    ForkFiles,
    FragmentContent,
    Handle,
    Pause,
    ScanRequest,
    TableBranch,
    TableRef,
    TableStats,
    TransactionRecord,
    VersionInfo,
    VersionLocation,
)

T = TypeVar("T")

CACHE_BYTES_MAX: Final = 2 << 30
"""The default size of the cache for manifests, footers and index pages."""


class ManifestSwap(Enum):
    """How `swap_rows` writes. Readers and other writers see no difference."""

    REWRITE_TAIL = "rewrite_tail"
    """Rewrite the last fragment and list the others unchanged (ADR 19)."""

    MERGE = "merge"
    """A merge-insert, which compares keys itself; slower."""


class SingleStepOps(Protocol):
    """Operations that Lance offers only in one step: they write files and move HEAD together."""

    def swap_rows(self, handle: Handle, rows: pa.Table, *, key: str, mark: Mark) -> Outcome:
        """Insert or replace rows by key, if no commit since `handle` touched those keys.

        This is the compare-and-swap of `__manifest`, and every publish goes through it (D9).
        `Refused` means contention. A merge-insert (see `ManifestSwap`) chooses its own transaction
        uuid, so `mark` is not always recorded: the caller recognises its commit by its rows. It
        must look for them after a refusal too: on a bucket the client may have repeated a request
        that had landed, and then the repetition is refused.
        Raises `StorageFailure` when the outcome is unknown.
        """
        ...

    def commit_compaction(
        self, staged: StagedCompaction, waves: FlushWaves | None = None
    ) -> Outcome:
        """Replace fragments by their compacted form. This makes two versions.

        The handle of `Landed` is the second one; the caller confirms it before it publishes it.
        """
        ...

    def delete_versions(self, handle: Handle, versions: Sequence[int]) -> int:
        """Delete exactly these versions, never HEAD, and the files that only they use.

        Returns the number of bytes freed.
        """
        ...


class Tables(Protocol):
    """The tables below one root. Every method may raise `StorageFailure`."""

    @property
    def single_step(self) -> SingleStepOps: ...

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make calls that do not depend on each other; in parallel if the tables are remote.

        Raises the first failure, by position, after all calls have ended.
        """
        ...

    # reading

    def open_at(self, ref: TableRef, version: int | None = None) -> Handle:
        """Open a version of a table; the newest if `version` is None.

        Raises `TableNotFound`, `VersionNotFound`, `GraphRelocated`, `TableCorrupt`.
        """
        ...

    def probe(self, handle: Handle) -> int:
        """The newest version, found as cheaply as the store allows.

        The answer is never too high. It is too low if versions in between were deleted, so a writer
        that was refused opens the table again instead of probing again.
        """
        ...

    def scan(
        self, handle: Handle, request: ScanRequest = EVERYTHING
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches in the order they are read. The context translates errors that reading raises."""
        ...

    def read(
        self, handle: Handle, request: ScanRequest = EVERYTHING, pause: Pause | None = None
    ) -> pa.Table:
        """All rows of the request. `pause` is called between batches; it may raise to stop."""
        ...

    def count(self, handle: Handle, where: str) -> int: ...

    def read_blobs(
        self, handle: Handle, column: str, addresses: Sequence[int]
    ) -> list[bytes | None]:
        """The blobs at these row addresses, in the order of the addresses; None for a null."""
        ...

    def open_blob(self, handle: Handle, column: str, address: int) -> BlobFile:
        """Open one blob to read ranges. It is not null, and its bytes are in the table."""
        ...

    def locate(self, handle: Handle, column: str, values: Sequence[str]) -> pa.Table:
        """The column, `_rowid` and `_rowaddr` of all rows that hold one of these values.

        Up to `LOOKED_UP_MAX` values are looked up in the index of the column, if there is one. For
        more values the whole column is read.
        """
        ...

    def scan_at(
        self, handle: Handle, row_addresses: Addresses, request: ScanRequest
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches of exactly the rows at these ascending addresses, with their addresses."""
        ...

    def inspect(self, handle: Handle) -> TableStats: ...

    def find_fragments(self, handle: Handle) -> tuple[FragmentContent, ...]:
        """The fragments of the version. Known without a read."""
        ...

    def find_field_numbers(self, handle: Handle) -> Mapping[str, int]:
        """The numbers of the columns. A name may move to another column, a number does not."""
        ...

    def find_transactions(self, handle: Handle, *, after: int) -> tuple[TransactionRecord, ...]:
        """The transactions of the versions from `after + 1` to the handle's, oldest first."""
        ...

    def find_versions(self, handle: Handle) -> tuple[VersionInfo, ...]: ...

    def find_debris(self, path: str) -> tuple[Listed, ...]:
        """Files that no version on any branch refers to. Some may be staged by a running writer."""
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
        """Append fragments that another process wrote, or that were staged on an older version."""
        ...

    def to_pieces(self, staged: Staged) -> Pieces:
        """What another process needs to commit this change. The files are flushed first (D11)."""
        ...

    def stage_pieces(self, handle: Handle, pieces: Sequence[Pieces], mark: Mark) -> Staged:
        """One transaction of all pieces, which were all written on the handle's version.

        At most one of the pieces may delete rows of any one fragment.
        """
        ...

    def discard(self, ref: TableRef, pieces: Pieces) -> None:
        """Delete the files of pieces that will never be committed. Missing files are ignored."""
        ...

    def stage_upsert(self, handle: Handle, rows: pa.Table, mark: Mark, *, key: str) -> Staged:
        """Replace rows whose key is committed, insert the others. Keys in `rows` must differ."""
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
        """Replace all rows and the schema. The table loses its indices.

        The new rows are `rows`, those of `receipts` that an earlier overwrite staged, or both.
        """
        ...

    def stage_reshape(
        self, handle: Handle, reshape: Reshape, mark: Mark, filled: Sequence[str] | None = None
    ) -> Staged:
        """Drop, rename and add columns in one transaction.

        Rows keep their ids, and the remaining columns keep their indices. The table must have rows;
        the caller overwrites an empty table instead. Only filled columns are written. `filled` is
        what `fill` returned for every fragment, if the caller filled them. Raises BackfillInvalid.
        """
        ...

    def fill(self, handle: Handle, fills: tuple[ColumnFill, ...], fragment_id: int) -> str:
        """Write the new columns of one fragment and flush the file (D11). Raises BackfillInvalid.

        The caller passes the result to `stage_reshape` on the same version.
        """
        ...

    def stage_unindex(self, handle: Handle, columns: Collection[str], mark: Mark) -> Staged:
        """Drop every index of these columns. They have at least one."""
        ...

    def stage_indices(
        self, handle: Handle, specs: Sequence[IndexSpec], scope: IndexScope, mark: Mark
    ) -> Staged | None:
        """Build the indices that are missing or incomplete; None if there are none."""
        ...

    def restage_indices(
        self, built: Staged, handle: Handle, names: Collection[str], mark: Mark
    ) -> Staged | None:
        """Stage indices with these names again, which were staged on an earlier version.

        They cover the fragments of that version and none that was added since. None if they no
        longer fit: a covered fragment was removed or its columns rewritten, the schema changed, or
        another writer has built one of the indices.
        """
        ...

    def stage_settings(self, handle: Handle, settings: TableSettings, mark: Mark) -> Staged: ...

    def stage_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> StagedCompaction | None:
        """Rewrite small fragments into larger ones; None if there is nothing to compact."""
        ...

    def plan_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> tuple[str, ...]:
        """Plan the tasks of a compaction that other processes carry out, one text per task."""
        ...

    def run_compaction_task(self, handle: Handle, task: str) -> str:
        """Carry out one task, on the version of its plan. Its files are flushed (D11)."""
        ...

    def stage_compaction_results(self, handle: Handle, outcomes: Sequence[str]) -> StagedCompaction:
        """Combine the results of all tasks of a plan."""
        ...

    # moving HEAD, deliberately

    def commit_exact(self, staged: Staged, waves: FlushWaves | None = None) -> Outcome:
        """Publish a staged change. Its files are flushed now, or with the next of `waves`.

        Raises `ReplyLost` if the commit failed without a refusal and cannot be found.
        """
        ...

    def commit_detached(self, staged: Staged) -> Handle:
        """A version of its own, outside the history of the table: only this handle shows it.

        A change may be staged on top of it, and be committed detached as well.
        """
        ...

    def remove_detached(self, staged: Staged, handle: Handle) -> None:
        """Remove a detached version and the files that were staged for it."""
        ...

    def restore(self, head: Handle, *, to: int, mark: Mark) -> Outcome:
        """Publish the content of version `to` again, on top of exactly `head`.

        Only under the lease (D1): Lance never refuses a restore, even if a commit landed after
        `head`. `Refused` if HEAD is not `head` before. `LandedLater` if a commit landed in between;
        its content has then been restored on top, and the caller must read the table again.
        """
        ...

    def fsync_version(
        self, handle: Handle, *, beyond: Handle | None = None, waves: FlushWaves | None = None
    ) -> None:
        """Flush every file of this version except those of `beyond`, which is flushed already.

        With `waves`, leave them to the next wave.
        """
        ...

    def begin_waves(self) -> FlushWaves:
        """The flushes of one write, which wait together in waves (D31)."""
        ...

    def flush_staged(
        self, staged: Collection[Staged], waves: FlushWaves
    ) -> AbstractContextManager[None]:
        """Flush the files of staged changes, while the caller does something else."""
        ...

    def flush_wave(self, waves: FlushWaves) -> None:
        """Flush everything that was left to the next wave, at once."""
        ...

    def find_torn(self, shown: Handle) -> int | None:
        """The newest version, if it is later than `shown` and a power cut tore it (D31).

        A torn version cannot be read: its own file, or a file that it added, is incomplete.
        """
        ...

    def find_whole(self, ref: TableRef) -> Handle | None:
        """The newest version that can be read; None if there is none.

        For a table that no other one names the versions of. Reads the ends of all its files.
        """
        ...

    def remove_torn(self, shown: Handle, version: int) -> None:
        """Delete the file of the newest version. Only under the lease, and only if it is torn: no
        writer ever reported a torn version as landed.
        """
        ...

    # branches

    def find_branches(self, path: str) -> tuple[TableBranch, ...]: ...

    def find_branch(self, path: str, branch: str) -> TableBranch | None:
        """One branch by its ref, without listing the others; None if there is no such branch."""
        ...

    def find_branch_names(self, path: str) -> tuple[str, ...]: ...

    def read_fork(self, source: Handle, branch: str) -> ForkFiles | None:
        """Read ahead what `fork` needs; None if it needs nothing. Raises `ForkExists`."""
        ...

    def fork(
        self,
        source: Handle,
        branch: str,
        waves: FlushWaves | None = None,
        files: ForkFiles | None = None,
    ) -> Handle:
        """Create a branch of the table that starts at `source`. Raises `ForkExists`.

        `files` is what `read_fork` returned for the same source and branch.
        """
        ...

    def delete_branch(self, path: str, branch: str) -> None:
        """Raises `ForkNotFound`, `ForkInUse`."""
        ...

    def clear_branch(self, path: str, branch: str, *, only: str | None = None) -> None:
        """Delete a branch, or the files that a deleted branch left. Raises `ForkInUse`.

        With `only`, delete it only if its identifier is still this one.
        """
        ...

    # moving

    def reroot(self, path: str, data: bytes) -> bytes:
        """A version file of a branch of this table, with its inherited files below this root.

        Reads and writes nothing. Returns equal bytes if they are below this root already. Raises
        `GraphRelocated` if a recorded place is of another table, and `TableCorrupt`.
        """
        ...

    def find_files(self, ref: TableRef, version: int) -> frozenset[str]:
        """The key of every file that a version refers to, and of the folders that it owns: one for
        each index, one for the blobs of a data file. The transaction is included, the version file
        is not.
        """
        ...
