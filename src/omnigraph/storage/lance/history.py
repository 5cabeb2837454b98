"""The transactions and the files of the versions of a Lance table."""

from datetime import UTC, datetime
from pathlib import Path

from lance import LanceDataset, LanceOperation
from lance.dataset import Version as LanceVersion

from omnigraph.storage import layout
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating, unshared
from omnigraph.storage.tables import (
    TransactionKind,
    TransactionRecord,
    VersionInfo,
    VersionLocation,
)
from omnigraph.storage.translate import is_foreign, is_unreadable_rewrite

_KINDS: tuple[tuple[type[LanceOperation.BaseOperation], TransactionKind], ...] = (
    (LanceOperation.CreateIndex, TransactionKind.INDEX),
    (LanceOperation.UpdateConfig, TransactionKind.CONFIG),
    (LanceOperation.Rewrite, TransactionKind.COMPACTION),
    (LanceOperation.Restore, TransactionKind.RESTORE),
    (LanceOperation.Clone, TransactionKind.FORK),
)


def find_transactions(handle: LanceHandle, *, after: int) -> tuple[TransactionRecord, ...]:
    dataset = unshared(handle)
    return tuple(_read(dataset, version) for version in range(after + 1, handle.version + 1))


def find_marked(handle: LanceHandle, uuid: str, *, after: int) -> int | None:
    """The version after `after` that a transaction made; None if there is none."""
    for transacted in find_transactions(handle, after=after):
        if transacted.uuid == uuid:
            return transacted.version
    return None


def find_versions(handle: LanceHandle) -> tuple[VersionInfo, ...]:
    with translating(handle.ref, "list the versions of"):
        return tuple(_facts(each) for each in handle.dataset.versions())


def locate_version(store: LanceStore, handle: LanceHandle) -> VersionLocation:
    uri = f"{store.uri(handle.ref)}/{layout.version_file(handle.version)}"
    if not store.root.is_local:
        _, _, key = uri.removeprefix("s3://").partition("/")
        return VersionLocation(key, None, None)
    with translating(handle.ref, "look at a version of", version=handle.version):
        facts = Path(uri).stat()
    # The tag as the object store library computes it for local files.
    tag = f"{facts.st_ino:x}-{facts.st_mtime_ns // 1000:x}-{facts.st_size:x}"
    return VersionLocation(uri.removeprefix("/"), facts.st_size, tag)


def _facts(listed: LanceVersion) -> VersionInfo:
    version, created = listed["version"], listed["timestamp"]
    assert isinstance(version, int)
    assert isinstance(created, datetime)
    # Lance returns local time without a time zone.
    return VersionInfo(version, created_ms=int(created.astimezone(UTC).timestamp() * 1_000))


def _read(dataset: LanceDataset, version: int) -> TransactionRecord:
    try:
        transaction = dataset.read_transaction(version)
    except BaseException as error:
        if is_unreadable_rewrite(error):
            return TransactionRecord(version, TransactionKind.COMPACTION, uuid=None, properties={})
        if is_foreign(error):
            return TransactionRecord(version, TransactionKind.UNREADABLE, uuid=None, properties={})
        raise
    if transaction is None:
        return TransactionRecord(version, TransactionKind.UNREADABLE, uuid=None, properties={})
    operation = transaction.operation
    return TransactionRecord(
        version,
        _kind_of(operation),
        uuid=transaction.uuid,
        properties=dict(transaction.transaction_properties or {}),
        restores=operation.version if isinstance(operation, LanceOperation.Restore) else None,
    )


def _kind_of(operation: LanceOperation.BaseOperation) -> TransactionKind:
    if type(operation) is LanceOperation.BaseOperation:
        # An operation that Lance has no Python class for: the reservation before a compaction.
        return TransactionKind.COMPACTION
    for kind_class, kind in _KINDS:
        if isinstance(operation, kind_class):
            return kind
    return TransactionKind.DATA
