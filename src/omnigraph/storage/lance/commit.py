"""Moving HEAD on Lance: exact commits, restores, compactions.

A commit uses the dataset that the change was staged on, never its address: the address of a branch
handle is that of main, and a commit sent there would destroy main.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from lance import LanceDataset, LanceOperation, Transaction
from lance.optimize import Compaction

from omnigraph.errors import OmnigraphError, ReplyLost
from omnigraph.storage import layout
from omnigraph.storage.durability import FlushWaves
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.history import find_marked
from omnigraph.storage.lance.stage import LancePayload
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import (
    Landed,
    LandedLater,
    Mark,
    Outcome,
    Refused,
    Staged,
    StagedCompaction,
)
from omnigraph.storage.translate import is_foreign, is_refusal, translating_objects

# --- exact commits --------------------------------------------------------------------------


def commit_exact(store: LanceStore, staged: Staged, waves: FlushWaves | None = None) -> Outcome:
    payload = staged.payload
    assert isinstance(payload, LancePayload), "staged by another store"
    try:
        dataset = _send(store, staged, payload)
    except BaseException as failure:
        if not is_foreign(failure):
            raise
        handle = _look_for(store, staged, failure)
        if handle is None:
            return Refused(str(failure).partition(", /")[0])
    else:
        handle = LanceHandle(staged.ref, dataset.version, dataset)
        if handle.version != staged.read_version + 1:
            # The next version was taken. Lance has tried again, or met its own first try.
            _check_mark(store, handle, staged)
    if waves is None:
        _flush_commit(store, staged, payload, handle)
    else:
        _add_commit(store, staged, payload, handle, waves)
    return classify_landing(handle, staged.read_version)


def _send(store: LanceStore, staged: Staged, payload: LancePayload) -> LanceDataset:
    transaction = Transaction(
        staged.read_version,
        payload.operation,
        uuid=staged.mark.uuid,
        transaction_properties=dict(staged.mark.properties),
    )
    if payload.base is not None:
        return LanceDataset.commit(payload.base.dataset, transaction, max_retries=0)
    # (2) Retries stay 0: a repeated creation would overwrite the table of the other writer.
    LanceDataset.commit(
        store.uri(staged.ref),
        transaction,
        max_retries=0,
        enable_stable_row_ids=True,
        storage_options=store.options(),
    )
    # Opened again, because a table created by its address does not share the session.
    return store.open(staged.ref, version=1).dataset


def _look_for(store: LanceStore, staged: Staged, failure: BaseException) -> LanceHandle | None:
    """(3) Search for the commit: a refusal may be of our second try, a failure a lost reply."""
    try:
        head = store.open(staged.ref)
        version = find_marked(head, staged.mark.uuid, after=staged.read_version)
    except OmnigraphError as blind:
        if is_refusal(failure):
            return None
        raise _lost(staged, failure) from blind
    if version is not None:
        return store.open(staged.ref, version)
    if is_refusal(failure):
        return None
    raise _lost(staged, failure) from failure


def _lost(staged: Staged, failure: BaseException) -> ReplyLost:
    return ReplyLost("commit to", subject=staged.ref.path, reason=str(failure))


def _check_mark(store: LanceStore, handle: LanceHandle, staged: Staged) -> None:
    found = store.read_transaction(handle).uuid
    if found != staged.mark.uuid:
        reason = f"version {handle.version} is of transaction {found}, not {staged.mark.uuid}"
        raise ReplyLost("commit to", subject=handle.ref.path, reason=reason)


def classify_landing(handle: LanceHandle, read_version: int) -> Outcome:
    assert handle.version > read_version, "versions only rise"
    return Landed(handle) if handle.version == read_version + 1 else LandedLater(handle)


def _flush_commit(
    store: LanceStore, staged: Staged, payload: LancePayload, handle: LanceHandle
) -> None:
    waves = FlushWaves(store.disk)
    _add_commit(store, staged, payload, handle, waves)
    flush_wave(store, waves)


def _add_commit(
    store: LanceStore,
    staged: Staged,
    payload: LancePayload,
    handle: LanceHandle,
    waves: FlushWaves,
) -> None:
    if not store.is_flushed:
        return
    files = [
        *table_files.with_blobs(Path(store.uri(staged.ref)), payload.files),
        layout.transaction_file(staged.read_version, staged.mark.uuid),
        layout.version_file(handle.version),
    ]
    store.add_flushes(waves, staged.ref, files, is_new_table=payload.base is None)


@contextmanager
def flush_staged(
    store: LanceStore, staged: Collection[Staged], waves: FlushWaves
) -> Iterator[None]:
    for each in staged:
        payload = each.payload
        assert isinstance(payload, LancePayload), "staged by another store"
        if store.is_flushed:
            files = table_files.with_blobs(Path(store.uri(each.ref)), payload.files)
            store.add_flushes(waves, each.ref, files, is_new_table=payload.base is None)
    with translating_objects("flush", store.root.uri), waves.flushing():
        yield


def flush_wave(store: LanceStore, waves: FlushWaves) -> None:
    with translating_objects("flush", store.root.uri):
        waves.flush()


def try_out(scratch: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    """Commit to a copy of the table that is deleted afterwards."""
    return LanceDataset.commit(scratch, Transaction(scratch.version, operation), max_retries=0)


# --- detached versions ------------------------------------------------------------------------


def commit_detached(staged: Staged) -> LanceHandle:
    payload = staged.payload
    assert isinstance(payload, LancePayload), "staged by another store"
    assert payload.base is not None, "a new table has no rows to look at"
    transaction = Transaction(staged.read_version, payload.operation, uuid=staged.mark.uuid)
    with translating(staged.ref, "look ahead at"):
        # One retry: Lance draws the number of the version by its first.
        dataset = LanceDataset.commit(
            payload.base.dataset, transaction, detached=True, max_retries=1
        )
    return LanceHandle(staged.ref, dataset.version, dataset)


def remove_detached(store: LanceStore, staged: Staged, handle: LanceHandle) -> None:
    payload = staged.payload
    assert isinstance(payload, LancePayload), "staged by another store"
    folder = f"{staged.ref.path}/{layout.branch_folder(staged.ref.branch)}".rstrip("/")
    names = [
        layout.detached_file(handle.version),
        layout.transaction_file(staged.read_version, staged.mark.uuid),
        *payload.files,
    ]
    for name in names:
        store.objects.delete(f"{folder}/{name}", is_flushed=False)
        if name.startswith(f"{layout.DATA}/") and name.endswith(".lance"):
            store.objects.delete_prefix(f"{folder}/{name.removesuffix('.lance')}")


# --- restore --------------------------------------------------------------------------------


def restore(store: LanceStore, head: LanceHandle, *, to: int, mark: Mark) -> Outcome:
    now = store.open(head.ref)
    if now.version != head.version:
        return Refused(f"HEAD is {now.version}, not {head.version}")
    outcome = commit_exact(store, _staged_restore(head, to, mark))
    if isinstance(outcome, LandedLater):
        # Lance never refuses a restore, so ours has hidden a commit of another writer.
        buried = outcome.handle.version - 1
        assert isinstance(outcome.handle, LanceHandle)
        again = Mark(f"{mark.uuid}-unburied", mark.properties)
        return _not_landed(commit_exact(store, _staged_restore(outcome.handle, buried, again)))
    return outcome


def _staged_restore(head: LanceHandle, to: int, mark: Mark) -> Staged:
    payload = LancePayload(head, LanceOperation.Restore(to), ())
    return Staged(ref=head.ref, read_version=head.version, mark=mark, payload=payload)


def _not_landed(outcome: Outcome) -> Outcome:
    """A restore that repairs another restore never counts as `Landed`."""
    return LandedLater(outcome.handle) if isinstance(outcome, Landed) else outcome


# --- compaction -----------------------------------------------------------------------------


def commit_compaction(
    store: LanceStore, staged: StagedCompaction, waves: FlushWaves | None = None
) -> Outcome:
    assert isinstance(staged.payload, tuple)
    handle, rewritten = staged.payload
    assert isinstance(handle, LanceHandle)
    dataset = store.reopen(handle)
    with translating(staged.ref, "compact"):
        try:
            Compaction.commit(dataset, rewritten)
        except OSError as failure:
            if is_refusal(failure):
                return Refused(str(failure).partition(", /")[0])
            raise
    compacted = LanceHandle(staged.ref, dataset.version, dataset)
    fsync_version(store, compacted, waves=waves)
    # Lance reserves fragment numbers in one version and replaces the fragments in the next.
    is_exact = compacted.version == staged.read_version + 2
    return Landed(compacted) if is_exact else LandedLater(compacted)


def fsync_version(
    store: LanceStore,
    handle: LanceHandle,
    *,
    beyond: LanceHandle | None = None,
    waves: FlushWaves | None = None,
) -> None:
    if not store.is_flushed:
        return
    now = FlushWaves(store.disk) if waves is None else waves
    with translating(handle.ref, "flush"):
        known = set() if beyond is None else set(table_files.reachable(beyond.dataset))
        files = [each for each in table_files.reachable(handle.dataset) if each not in known]
        now.add(files, below=Path(store.root.locate(handle.ref.path)))
        if waves is None:
            now.flush()
