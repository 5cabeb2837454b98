"""Opening Lance tables below one root, and the handle of an open table.

One session serves all tables of a store. It caches manifests, file footers and index pages, so
opening a table again costs no read. Branches and versions may share it, even after a branch was
deleted and created again, because the session keys its entries by file and entity tag.
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
"""This many branches may be published to in turn without reading their last rows again."""


@dataclass(frozen=True, slots=True)
class LanceHandle:
    """A Lance dataset at one version. No method advances it."""

    ref: TableRef
    version: int
    dataset: LanceDataset
    parts: list[tuple[FragmentContent, ...]] = field(
        default_factory=list, repr=False, compare=False
    )
    """Its fragments, after the first request for them; they never change."""

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
    """The root of the tables, and the options to open it."""

    root: Root
    objects: Objects
    disk: Disk
    storage_options: Mapping[str, str]
    session: Session
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL
    contents: Contents = field(default_factory=Contents)
    keys: ByFile[Hashes] = field(default_factory=ByFile)
    """The keys in the sealed files of manifests (`lance.swap`)."""
    old_nulls: ByFile[frozenset[int]] = field(default_factory=ByFile)
    """The rows of a file with nulls that Lance reads as empty blobs (`lance.old_blobs`)."""
    tails: ByFile[pa.Table] = field(default_factory=lambda: ByFile(TAILS_KEPT_MAX))
    """The rows of the files that the last swaps wrote."""

    def uri(self, ref: TableRef) -> str:
        """The folder of a table on a branch, in the spelling that Lance expects."""
        table = self.root.locate(ref.path)
        folder = layout.branch_folder(ref.branch)
        return f"{table}/{folder}" if folder else table

    @property
    def is_flushed(self) -> bool:
        """Are files flushed to a disk of this machine?"""
        return self.root.is_local and not isinstance(self.disk, RelaxedDisk)

    def options(self) -> dict[str, str] | None:
        """None for no options: with an empty dictionary Lance would drop its defaults."""
        return dict(self.storage_options) or None

    def open(self, ref: TableRef, version: int | None = None) -> LanceHandle:
        try:
            dataset = self._open_dataset(ref, version)
        except VersionNotFound as missing:
            # Lance raises the same error for a missing version and for a missing table.
            newest = self._open_dataset(ref, None).version
            raise VersionNotFound(
                ref.path, branch=ref.branch, version=missing.version, newest=newest
            ) from missing
        if ref.branch is not None:
            self._check_base(ref, dataset)
        return LanceHandle(ref, dataset.version, dataset)

    @contextmanager
    def reading(self, handle: LanceHandle, action: str) -> Iterator[None]:
        """Cleanup may delete a version while it is read; its missing files are then no damage."""
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
        """(5) A branch records the absolute path of its inherited files. Accept only this root."""
        table = self.root.locate(ref.path)
        for base in dataset.base_paths().values():
            recorded = base.path
            if recorded == table or recorded.startswith(f"{table}/"):
                continue
            if self.root.is_local and _is_same_place(recorded, table):
                continue
            raise GraphRelocated(recorded=recorded, actual=table)

    def flush(self, ref: TableRef, files: list[str], *, is_new_table: bool = False) -> None:
        """Flush files of a table, named relative to its branch folder."""
        if not self.is_flushed:
            return
        folder = Path(self.uri(ref))
        below = Path(self.root.uri) if is_new_table else Path(self.root.locate(ref.path))
        with translating(ref, "flush"):
            flush_files(self.disk, [folder / file for file in files], below=below)


def new_session(bytes_max: int = CACHE_BYTES_MAX) -> Session:
    """Lance's own default is seven gigabytes, with entries of every version."""
    footers = bytes_max // 8
    return Session(index_cache_size_bytes=bytes_max - footers, metadata_cache_size_bytes=footers)


@contextmanager
def translating(ref: TableRef, action: str, *, version: int | None = None) -> Iterator[None]:
    with translating_tables(action, ref.path, branch=ref.branch, version=version):
        yield


def _is_same_place(recorded: str, table: str) -> bool:
    """Do both paths name the same folder, for example through a symbolic link?"""
    real_table = os.path.realpath(table)
    real_recorded = os.path.realpath(recorded)
    return real_recorded == real_table or real_recorded.startswith(f"{real_table}{os.sep}")
