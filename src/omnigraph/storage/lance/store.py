"""Opening Lance tables below one root, and the handle of an open table.

One session serves all tables of a store. It caches manifests, file footers and index pages, so
opening a table again costs no read. Branches and versions may share it, even after a branch was
deleted and created again, because the session keys its entries by file and entity tag.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import lance
import pyarrow as pa
from lance import LanceDataset, Transaction
from lance.lance import _Session as Session

from omnigraph.errors import GraphRelocated, ObjectNotFound, TableCorrupt, VersionNotFound
from omnigraph.storage import layout
from omnigraph.storage.durability import Disk, FlushWaves, RelaxedDisk
from omnigraph.storage.lance import version_file
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
from omnigraph.storage.together import run_together
from omnigraph.storage.translate import translating_tables

T = TypeVar("T")

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
    storage_options: Mapping[str, str] = field(repr=False)
    session: Session
    swap: ManifestSwap = ManifestSwap.REWRITE_TAIL
    maps_bases: bool = False
    """Are inherited files that a branch records elsewhere read below this root? Else the branch is
    refused. For readers alone: a commit would record the mapped and the unmapped place."""
    contents: Contents = field(default_factory=Contents)
    keys: ByFile[Hashes] = field(default_factory=ByFile)
    """The keys in the sealed files of manifests (`lance.swap`)."""
    old_nulls: ByFile[frozenset[int]] = field(default_factory=ByFile)
    """The rows of a file with nulls that Lance reads as empty blobs (`lance.old_blobs`)."""
    tails: ByFile[pa.Table] = field(default_factory=lambda: ByFile(TAILS_KEPT_MAX))
    """The rows of the files that the last swaps wrote."""
    is_remote: bool = False
    """Does a call wait for a network? Such calls are sent together where they can be (D30)."""

    def uri(self, ref: TableRef) -> str:
        """The folder of a table on a branch, in the spelling that Lance expects."""
        return branch_uri(self.root.uri, ref.path, ref.branch)

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
        return LanceHandle(ref, dataset.version, dataset)

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make calls that do not depend on each other; in parallel if the store is remote."""
        if len(calls) > 1 and self.is_remote:
            return run_together(calls)
        return [each() for each in calls]

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
            transaction = unshared(handle).read_transaction(handle.version)
        assert transaction is not None, "every version of ours has a transaction"
        return transaction

    def _open_dataset(self, ref: TableRef, version: int | None) -> LanceDataset:
        with translating(ref, "open", version=version):
            dataset = lance.dataset(
                self.uri(ref),
                version=version,
                session=self.session,
                storage_options=self.options(),
            )
        return dataset if ref.branch is None else self._at_this_root(ref, dataset)

    def _at_this_root(self, ref: TableRef, dataset: LanceDataset) -> LanceDataset:
        """(5) A branch records the absolute path of its inherited files. Accept only this root."""
        for base in dataset.base_paths().values():
            if not self.is_here(ref.path, base.path):
                if self.maps_bases:
                    return self._map_bases(ref, dataset.version)
                raise GraphRelocated(recorded=base.path, actual=self.root.locate(ref.path))
        return dataset

    def _map_bases(self, ref: TableRef, version: int) -> LanceDataset:
        """The version as if its bases were recorded below this root. Nothing is written."""
        key = f"{ref.path}/{layout.branch_folder(ref.branch)}/{layout.version_file(version)}"
        try:
            data = self.reroot(ref.path, self.objects.read(key).data)
        except ObjectNotFound as gone:
            raise VersionNotFound(
                ref.path, branch=ref.branch, version=version, newest=version
            ) from gone
        return self.open_bytes(ref, version, data)

    def open_bytes(self, ref: TableRef, version: int, data: bytes) -> LanceDataset:
        """A version as these bytes of its file describe it, without reading the file."""
        with translating(ref, "open", version=version):
            return LanceDataset(
                self.uri(ref),
                version=version,
                session=self.session,
                storage_options=self.options(),
                serialized_manifest=version_file.description_of(data),
            )

    def reroot(self, path: str, data: bytes) -> bytes:
        """A version file with its bases below this root. Raises GraphRelocated, TableCorrupt."""
        try:
            return version_file.move_bases(data, lambda recorded: self._move_base(path, recorded))
        except version_file.VersionFileInvalid as invalid:
            raise TableCorrupt("move a version of", subject=path, reason=str(invalid)) from invalid

    def _move_base(self, path: str, recorded: str) -> str:
        if self.is_here(path, recorded):
            return recorded
        table = self.root.locate(path)
        folder = layout.find_base_folder(recorded, path)
        if folder is None:
            raise GraphRelocated(recorded=recorded, actual=table)
        return f"{table}{folder}"

    def is_here(self, path: str, recorded: str) -> bool:
        """Is the recorded place this table, or one of its branches?"""
        table = self.root.locate(path)
        if recorded == table or recorded.startswith(f"{table}/"):
            return True
        return self.root.is_local and _is_same_place(recorded, table)

    def flush(self, ref: TableRef, files: list[str], *, is_new_table: bool = False) -> None:
        """Flush files of a table, named relative to its branch folder, in one wave."""
        waves = FlushWaves(self.disk)
        self.add_flushes(waves, ref, files, is_new_table=is_new_table)
        with translating(ref, "flush"):
            waves.flush()

    def add_flushes(
        self, waves: FlushWaves, ref: TableRef, files: list[str], *, is_new_table: bool = False
    ) -> None:
        """Leave files of a table, named relative to its branch folder, to the next wave."""
        if not self.is_flushed:
            return
        folder = Path(self.uri(ref))
        below = Path(self.root.uri) if is_new_table else Path(self.root.locate(ref.path))
        waves.add([folder / file for file in files], below=below)


def branch_uri(root: str, path: str, branch: str | None) -> str:
    table = f"{root.rstrip('/')}/{path}"
    folder = layout.branch_folder(branch)
    return f"{table}/{folder}" if folder else table


def unshared(handle: LanceHandle) -> LanceDataset:
    """A dataset of the same version for one thread alone, made without a request.

    Reading a transaction and building an index borrow a dataset mutably. A thread that reads the
    same dataset meanwhile fails with «Already mutably borrowed», and a read that is under way makes
    them fail. Handles are shared among threads, so neither may use the dataset of a handle.
    """
    return handle.dataset.checkout_version(handle.version)


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
