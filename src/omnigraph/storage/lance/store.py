"""Opening Lance tables below one root, and the handle that is handed around.

One session serves all tables of a store: it caches manifests, file footers and index pages, and
keeps a reopened table from costing a read. It is safe to share among branches and versions, also
when a branch is deleted and made again, because it keys what it holds by file and entity tag.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lance
import pyarrow as pa
from lance import LanceDataset, Transaction
from lance.lance import _Session as Session

from omnigraph.errors import GraphRelocated, TableCorrupt, VersionNotFound
from omnigraph.storage import layout
from omnigraph.storage.durability import Disk, RelaxedDisk, flush_files
from omnigraph.storage.lance.contents import ByFile, Contents, Hashes
from omnigraph.storage.layout import Root
from omnigraph.storage.objects import Objects
from omnigraph.storage.tables import (
    CACHE_BYTES_MAX,
    FragmentContent,
    IoStats,
    ManifestSwap,
    TableRef,
)
from omnigraph.storage.translate import translating_tables

TAILS_KEPT_MAX: Final = 16
"""As many branches may be published to in turn without reading what was just written."""


@dataclass(frozen=True, slots=True)
class LanceHandle:
    """A Lance dataset checked out at one version. Nothing here ever advances it."""

    ref: TableRef
    version: int
    dataset: LanceDataset
    parts: list[tuple[FragmentContent, ...]] = field(
        default_factory=list, repr=False, compare=False
    )
    """What it is made of, once somebody asked; it never changes."""

    @property
    def schema(self) -> pa.Schema:
        return self.dataset.schema

    @property
    def row_count(self) -> int:
        return self.dataset.count_rows()

    @property
    def config(self) -> Mapping[str, str]:
        return self.dataset.config()

    @property
    def io(self) -> IoStats:
        counted = self.dataset.io_stats_snapshot()
        return IoStats(counted.read_iops, counted.read_bytes)


@dataclass(frozen=True, slots=True)
class LanceStore:
    """Where tables are, and how they are reached."""

    root: Root
    objects: Objects
    disk: Disk
    storage_options: Mapping[str, str]
    session: Session
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL
    contents: Contents = field(default_factory=Contents)
    keys: ByFile[Hashes] = field(default_factory=ByFile)
    """Which keys the sealed files of manifests hold. See `lance.swap`."""
    old_nulls: ByFile[frozenset[int]] = field(default_factory=ByFile)
    """Which rows of a file have null blobs that Lance does not see. See `lance.old_blobs`."""
    tails: ByFile[pa.Table] = field(default_factory=lambda: ByFile(TAILS_KEPT_MAX))
    """The rows of the files that swaps wrote last."""

    def uri(self, ref: TableRef) -> str:
        """The folder of a table on a branch, as Lance wants it spelled."""
        table = self.root.locate(ref.path)
        folder = layout.branch_folder(ref.branch)
        return f"{table}/{folder}" if folder else table

    @property
    def is_flushed(self) -> bool:
        """Is anybody waiting for files to reach a disk of this machine?"""
        return self.root.is_local and not isinstance(self.disk, RelaxedDisk)

    def options(self) -> dict[str, str] | None:
        """Lance takes an empty dictionary for a request to use none of its defaults."""
        return dict(self.storage_options) or None

    def open(self, ref: TableRef, version: int | None = None) -> LanceHandle:
        try:
            dataset = self._open_dataset(ref, version)
        except VersionNotFound as missing:
            # Lance says the same of a missing version and of a missing table.
            newest = self._open_dataset(ref, None).version
            raise VersionNotFound(
                ref.path, branch=ref.branch, version=missing.version, newest=newest
            ) from missing
        if ref.branch is not None:
            self._check_base(ref, dataset)
        return LanceHandle(ref, dataset.version, dataset)

    @contextmanager
    def reading(self, handle: LanceHandle, action: str) -> Iterator[None]:
        """A version may go while it is read: then its files are not damaged but removed."""
        ref, version = handle.ref, handle.version
        try:
            with translating(ref, action, version=version):
                yield
        except TableCorrupt as corrupt:
            folder = f"{ref.path}/{layout.branch_folder(ref.branch)}".rstrip("/")
            if self.objects.exists(f"{folder}/{layout.version_file(version)}"):
                raise
            raise VersionNotFound(
                ref.path, branch=ref.branch, version=version, newest=version
            ) from corrupt

    def reopen(self, handle: LanceHandle) -> LanceDataset:
        """A dataset of the same version that may be advanced without moving the handle."""
        return self._open_dataset(handle.ref, handle.version)

    def read_transaction(self, handle: LanceHandle) -> Transaction:
        """The transaction that made the handle's version."""
        with translating(handle.ref, "read back a commit to", version=handle.version):
            transaction = handle.dataset.read_transaction(handle.version)
        assert transaction is not None, "every version of ours has a transaction"
        return transaction

    def _open_dataset(self, ref: TableRef, version: int | None) -> LanceDataset:
        with translating(ref, "open", version=version):
            return lance.dataset(
                self.uri(ref),
                version=version,
                session=self.session,
                storage_options=self.options(),
            )

    def _check_base(self, ref: TableRef, dataset: LanceDataset) -> None:
        """(5) A branch records absolutely where its inherited files are. Believe only this root."""
        table = self.root.locate(ref.path)
        for base in dataset.base_paths().values():
            recorded = base.path
            if recorded == table or recorded.startswith(f"{table}/"):
                continue
            if self.root.is_local and _is_same_place(recorded, table):
                continue
            raise GraphRelocated(recorded=recorded, actual=table)

    def flush(self, ref: TableRef, files: list[str], *, is_new_table: bool = False) -> None:
        """Make files of a table, named relative to its branch folder, survive a power cut."""
        if not self.is_flushed:
            return
        folder = Path(self.uri(ref))
        below = Path(self.root.uri) if is_new_table else Path(self.root.locate(ref.path))
        with translating(ref, "flush"):
            flush_files(self.disk, [folder / file for file in files], below=below)


def new_session(bytes_max: int = CACHE_BYTES_MAX) -> Session:
    """Lance would keep seven gigabytes, and something of every version there ever was."""
    footers = bytes_max // 8
    return Session(index_cache_size_bytes=bytes_max - footers, metadata_cache_size_bytes=footers)


@contextmanager
def translating(ref: TableRef, action: str, *, version: int | None = None) -> Iterator[None]:
    with translating_tables(action, ref.path, branch=ref.branch, version=version):
        yield


def _is_same_place(recorded: str, table: str) -> bool:
    """The same folder by another name, such as through a symbolic link."""
    real_table = os.path.realpath(table)
    real_recorded = os.path.realpath(recorded)
    return real_recorded == real_table or real_recorded.startswith(f"{real_table}{os.sep}")
