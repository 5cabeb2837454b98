"""`Tables` on Lance, method by method, in the order of the protocol. The other modules of this
package do the work.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.lance import (
    blobs,
    branches,
    commit,
    compact,
    contents,
    debris,
    handover,
    history,
    index,
    read,
    reshaping,
    stage,
    swap,
    torn,
)
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.objects import Listed
from omnigraph.storage.tables import (
    EVERYTHING,
    ROWS_PER_FILE,
    Addresses,
    BlobFile,
    ColumnFill,
    ForkFiles,
    FragmentContent,
    Handle,
    IndexScope,
    IndexSpec,
    Mark,
    Outcome,
    Pause,
    Pieces,
    Receipt,
    Reshape,
    RowChanges,
    Rows,
    ScanRequest,
    Staged,
    StagedCompaction,
    TableBranch,
    TableRef,
    TableSettings,
    TableStats,
    TransactionRecord,
    VersionInfo,
    VersionLocation,
)

T = TypeVar("T")


def _own(handle: Handle) -> LanceHandle:
    """Callers know only the protocol `Handle`; every handle of this store is a `LanceHandle`."""
    assert isinstance(handle, LanceHandle), f"a handle of another store: {handle!r}"
    return handle


@dataclass(frozen=True, slots=True)
class LanceSingleStepOps:
    """`SingleStepOps` on Lance."""

    store: LanceStore

    def swap_rows(self, handle: Handle, rows: pa.Table, *, key: str, mark: Mark) -> Outcome:
        return swap.swap_rows(self.store, _own(handle), rows, key=key, mark=mark)

    def commit_compaction(
        self, staged: StagedCompaction, waves: FlushWaves | None = None
    ) -> Outcome:
        return commit.commit_compaction(self.store, staged, waves)

    def delete_versions(self, handle: Handle, versions: Sequence[int]) -> int:
        with translating(handle.ref, "delete versions of"):
            dataset = self.store.reopen(_own(handle))
            return int(dataset.cleanup_old_versions(versions=list(versions)).bytes_removed)


@dataclass(frozen=True, slots=True)
class LanceTables:
    """The tables below one root."""

    store: LanceStore

    @property
    def single_step(self) -> LanceSingleStepOps:
        return LanceSingleStepOps(self.store)

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        return self.store.together(calls)

    # reading

    def open_at(self, ref: TableRef, version: int | None = None) -> Handle:
        return self.store.open(ref, version)

    def probe(self, handle: Handle) -> int:
        return read.probe(self.store, _own(handle))

    def scan(
        self, handle: Handle, request: ScanRequest = EVERYTHING
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        return read.scan(self.store, _own(handle), request)

    def read(
        self, handle: Handle, request: ScanRequest = EVERYTHING, pause: Pause | None = None
    ) -> pa.Table:
        return read.read(self.store, _own(handle), request, pause)

    def count(self, handle: Handle, where: str) -> int:
        return read.count(self.store, _own(handle), where)

    def read_blobs(
        self, handle: Handle, column: str, addresses: Sequence[int]
    ) -> list[bytes | None]:
        return read.read_blobs(self.store, _own(handle), column, addresses)

    def open_blob(self, handle: Handle, column: str, address: int) -> BlobFile:
        return blobs.open_blob(self.store, _own(handle), column, address)

    def locate(self, handle: Handle, column: str, values: Sequence[str]) -> pa.Table:
        return stage.locate(_own(handle), column, values)

    def scan_at(
        self, handle: Handle, row_addresses: Addresses, request: ScanRequest
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        return read.scan_at(self.store, _own(handle), row_addresses, request)

    def inspect(self, handle: Handle) -> TableStats:
        return index.inspect(_own(handle))

    def find_fragments(self, handle: Handle) -> tuple[FragmentContent, ...]:
        return read.find_fragments(_own(handle))

    def find_field_numbers(self, handle: Handle) -> Mapping[str, int]:
        return contents.field_numbers(_own(handle).dataset)

    def find_transactions(self, handle: Handle, *, after: int) -> tuple[TransactionRecord, ...]:
        return history.find_transactions(_own(handle), after=after)

    def find_versions(self, handle: Handle) -> tuple[VersionInfo, ...]:
        return history.find_versions(_own(handle))

    def find_debris(self, path: str) -> tuple[Listed, ...]:
        return debris.find_debris(self.store, path)

    def locate_version(self, handle: Handle) -> VersionLocation:
        return history.locate_version(self.store, _own(handle))

    # staging

    def stage_create(
        self, ref: TableRef, schema: pa.Schema, mark: Mark, rows: Rows | None = None
    ) -> Staged:
        return stage.stage_create(self.store, ref, schema, mark, rows)

    def stage_rows(self, handle: Handle, changes: RowChanges, mark: Mark) -> Staged:
        return stage.stage_rows(self.store, _own(handle), changes, mark)

    def stage_append(self, handle: Handle, rows: Rows, mark: Mark) -> Staged:
        return stage.stage_append(_own(handle), rows, mark)

    def stage_receipts(self, handle: Handle, receipts: Sequence[Receipt], mark: Mark) -> Staged:
        return stage.stage_receipts(_own(handle), receipts, mark)

    def to_pieces(self, staged: Staged) -> Pieces:
        return handover.to_pieces(self.store, staged)

    def stage_pieces(self, handle: Handle, pieces: Sequence[Pieces], mark: Mark) -> Staged:
        return handover.stage_pieces(_own(handle), pieces, mark)

    def discard(self, ref: TableRef, pieces: Pieces) -> None:
        handover.discard(self.store, ref, pieces)

    def stage_upsert(self, handle: Handle, rows: pa.Table, mark: Mark, *, key: str) -> Staged:
        return stage.stage_upsert(self.store, _own(handle), rows, mark, key=key)

    def stage_delete(self, handle: Handle, where: str, mark: Mark) -> Staged:
        return stage.stage_delete(self.store, _own(handle), where, mark)

    def stage_overwrite(
        self,
        handle: Handle,
        schema: pa.Schema,
        mark: Mark,
        rows: Rows | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> Staged:
        return stage.stage_overwrite(_own(handle), schema, mark, rows, receipts)

    def stage_reshape(
        self, handle: Handle, reshape: Reshape, mark: Mark, filled: Sequence[str] | None = None
    ) -> Staged:
        return reshaping.stage_reshape(self.store, _own(handle), reshape, mark, filled)

    def fill(self, handle: Handle, fills: tuple[ColumnFill, ...], fragment_id: int) -> str:
        return reshaping.fill(self.store, _own(handle), fills, fragment_id)

    def stage_unindex(self, handle: Handle, columns: Collection[str], mark: Mark) -> Staged:
        return reshaping.stage_unindex(_own(handle), columns, mark)

    def stage_indices(
        self, handle: Handle, specs: Sequence[IndexSpec], scope: IndexScope, mark: Mark
    ) -> Staged | None:
        return index.stage_indices(_own(handle), specs, scope, mark)

    def restage_indices(
        self, built: Staged, handle: Handle, names: Collection[str], mark: Mark
    ) -> Staged | None:
        return index.restage_indices(built, _own(handle), names, mark)

    def stage_settings(self, handle: Handle, settings: TableSettings, mark: Mark) -> Staged:
        return stage.stage_settings(_own(handle), settings, mark)

    def stage_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> StagedCompaction | None:
        return compact.stage_compaction(self.store, _own(handle), rows_per_file=rows_per_file)

    def plan_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> tuple[str, ...]:
        return compact.plan_compaction(self.store, _own(handle), rows_per_file=rows_per_file)

    def run_compaction_task(self, handle: Handle, task: str) -> str:
        return compact.run_compaction_task(self.store, _own(handle), task)

    def stage_compaction_results(self, handle: Handle, outcomes: Sequence[str]) -> StagedCompaction:
        return compact.stage_compaction_results(_own(handle), outcomes)

    # moving HEAD

    def commit_exact(self, staged: Staged, waves: FlushWaves | None = None) -> Outcome:
        return commit.commit_exact(self.store, staged, waves)

    def commit_detached(self, staged: Staged) -> Handle:
        return commit.commit_detached(staged)

    def remove_detached(self, staged: Staged, handle: Handle) -> None:
        commit.remove_detached(self.store, staged, _own(handle))

    def restore(self, head: Handle, *, to: int, mark: Mark) -> Outcome:
        return commit.restore(self.store, _own(head), to=to, mark=mark)

    def fsync_version(
        self, handle: Handle, *, beyond: Handle | None = None, waves: FlushWaves | None = None
    ) -> None:
        known = None if beyond is None else _own(beyond)
        commit.fsync_version(self.store, _own(handle), beyond=known, waves=waves)

    def begin_waves(self) -> FlushWaves:
        return FlushWaves(self.store.disk)

    def flush_staged(
        self, staged: Collection[Staged], waves: FlushWaves
    ) -> AbstractContextManager[None]:
        return commit.flush_staged(self.store, staged, waves)

    def flush_wave(self, waves: FlushWaves) -> None:
        commit.flush_wave(self.store, waves)

    def find_torn(self, shown: Handle) -> int | None:
        return torn.find_torn(self.store, _own(shown))

    def find_whole(self, ref: TableRef) -> Handle | None:
        return torn.find_whole(self.store, ref)

    def remove_torn(self, shown: Handle, version: int) -> None:
        torn.remove_torn(self.store, _own(shown), version)

    # branches

    def find_branch(self, path: str, branch: str) -> TableBranch | None:
        return branches.find_branch(self.store, path, branch)

    def find_branches(self, path: str) -> tuple[TableBranch, ...]:
        return branches.find_branches(self.store, path)

    def find_branch_names(self, path: str) -> tuple[str, ...]:
        return branches.find_branch_names(self.store, path)

    def read_fork(self, source: Handle, branch: str) -> ForkFiles | None:
        return branches.read_fork(self.store, _own(source), branch)

    def fork(
        self,
        source: Handle,
        branch: str,
        waves: FlushWaves | None = None,
        files: ForkFiles | None = None,
    ) -> Handle:
        return branches.fork(self.store, _own(source), branch, waves, files)

    def delete_branch(self, path: str, branch: str) -> None:
        branches.delete_branch(self.store, path, branch)

    def clear_branch(self, path: str, branch: str, *, only: str | None = None) -> None:
        branches.clear_branch(self.store, path, branch, only=only)

    # moving

    def reroot(self, path: str, data: bytes) -> bytes:
        return self.store.reroot(path, data)

    def find_files(self, ref: TableRef, version: int) -> frozenset[str]:
        return debris.find_files(self.store, ref, version)
