"""Moving HEAD on Lance: commits that land exactly, the manifest's swap, restore.

Always with the dataset a change was staged on and never with its address: a branch handle gives
the address of main, and a commit sent there destroys main.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation, Transaction
from lance.optimize import Compaction

from omnigraph.errors import OmnigraphError, ReplyLost
from omnigraph.storage import lance_files, layout
from omnigraph.storage.durability import flush_files
from omnigraph.storage.lance_history import find_marked
from omnigraph.storage.lance_stage import LancePayload, write_rows
from omnigraph.storage.lance_store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import (
    Elsewhere,
    Landed,
    Mark,
    Outcome,
    Refused,
    Staged,
    StagedCompaction,
)
from omnigraph.storage.translate import is_foreign, is_refusal

FOLD_AT_FRAGMENTS: Final = 16
"""A swap costs what the fragments of the table weigh; at this many they are written as one (D9)."""


# --- exact commits --------------------------------------------------------------------------


def commit_exact(store: LanceStore, staged: Staged) -> Outcome:
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
        _check_mark(store, handle, staged)
    _flush_commit(store, staged, payload, handle)
    return _judge(handle, staged.read_version)


def _send(store: LanceStore, staged: Staged, payload: LancePayload) -> LanceDataset:
    transaction = Transaction(
        staged.read_version,
        payload.operation,
        uuid=staged.mark.uuid,
        transaction_properties=dict(staged.mark.properties),
    )
    if payload.base is not None:
        return LanceDataset.commit(payload.base.dataset, transaction, max_retries=0)
    # (2) Retries stay 0: a retried creation finds the winner's table and overwrites it.
    LanceDataset.commit(
        store.uri(staged.ref),
        transaction,
        max_retries=0,
        enable_stable_row_ids=True,
        storage_options=store.options(),
    )
    # Reopened, because a table made by its address does not share the session.
    return store.open(staged.ref, version=1).dataset


def _look_for(store: LanceStore, staged: Staged, failure: BaseException) -> LanceHandle | None:
    """(3) Look before judging: a refusal may be of our own second try, a failure a lost reply."""
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


def _judge(handle: LanceHandle, read_version: int) -> Outcome:
    assert handle.version > read_version, "versions only rise"
    return Landed(handle) if handle.version == read_version + 1 else Elsewhere(handle)


def _flush_commit(
    store: LanceStore, staged: Staged, payload: LancePayload, handle: LanceHandle
) -> None:
    if not store.is_flushed:
        return
    files = [
        *lance_files.with_blobs(Path(store.uri(staged.ref)), payload.files),
        layout.transaction_file(staged.read_version, staged.mark.uuid),
        layout.version_file(handle.version),
    ]
    store.flush(staged.ref, files, is_new_table=payload.base is None)


def try_out(scratch: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    """Commit to a copy that nobody will ever see."""
    return LanceDataset.commit(scratch, Transaction(scratch.version, operation), max_retries=0)


# --- restore --------------------------------------------------------------------------------


def restore(store: LanceStore, head: LanceHandle, *, to: int, mark: Mark) -> Outcome:
    now = store.open(head.ref)
    if now.version != head.version:
        return Refused(f"HEAD is {now.version}, not {head.version}")
    outcome = commit_exact(store, _staged_restore(head, to, mark))
    if isinstance(outcome, Elsewhere):
        # Lance never refuses a restore, so ours has buried a commit that was not ours to bury.
        buried = outcome.handle.version - 1
        assert isinstance(outcome.handle, LanceHandle)
        again = Mark(f"{mark.uuid}-unburied", mark.properties)
        return _not_landed(commit_exact(store, _staged_restore(outcome.handle, buried, again)))
    return outcome


def _staged_restore(head: LanceHandle, to: int, mark: Mark) -> Staged:
    payload = LancePayload(head, LanceOperation.Restore(to), ())
    return Staged(ref=head.ref, read_version=head.version, mark=mark, payload=payload)


def _not_landed(outcome: Outcome) -> Outcome:
    """The repair of a restore is not the restore, wherever it landed."""
    return Elsewhere(outcome.handle) if isinstance(outcome, Landed) else outcome


# --- the swap of the manifest ---------------------------------------------------------------


def swap_rows(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    assert len(pc.unique(rows[key])) == rows.num_rows, "Lance inserts both rows of a repeated key"
    if len(handle.dataset.get_fragments()) >= FOLD_AT_FRAGMENTS:
        return _fold(store, handle, rows, key=key, mark=mark)
    return _merge(store, handle, rows, key=key)


def _merge(store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str) -> Outcome:
    """Row-level compare-and-swap: overlapping keys contend, and every publish shares one key.

    The immediate form, because staging drops the fence of the key and two writers then both
    insert the branch head. No index, because one on the key turns the fence off. Retries stay 0,
    so that contention reaches the caller, who must re-read before it tries again.
    """
    dataset = store.reopen(handle)
    merge = (
        dataset.merge_insert(key)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .use_index(False)
        .conflict_retries(0)
    )
    with translating(handle.ref, "swap rows of"):
        try:
            merge.execute(rows)
        except OSError as failure:
            if is_refusal(failure):
                return Refused(str(failure).partition(", /")[0])
            raise
    swapped = LanceHandle(handle.ref, dataset.version, dataset)
    if store.is_flushed:
        store.flush(handle.ref, _files_behind(store.read_transaction(swapped), swapped.version))
    return _judge(swapped, handle.version)


def _files_behind(transaction: Transaction, version: int) -> list[str]:
    """What a transaction wrote that Lance composed itself."""
    return [
        *lance_files.written_by(transaction.operation, transaction.read_version),
        layout.transaction_file(transaction.read_version, transaction.uuid),
        layout.version_file(version),
    ]


def _fold(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    """The same swap as a strict overwrite: all rows, old and new, in one fragment.

    An overwrite with retries off is refused by anything that landed since, so it is the stronger
    condition. Compacting beside the publishers instead would make publishes land at versions
    other than the ones they record.
    """
    dataset = handle.dataset
    with translating(handle.ref, "fold"):
        kept = dataset.to_table()
        kept = kept.filter(pc.invert(pc.is_in(kept[key], value_set=rows[key].combine_chunks())))
        folded = pa.concat_tables([kept, rows.select(kept.column_names)])
        folded = folded.replace_schema_metadata(dataset.schema.metadata)
        fragments = write_rows(dataset, folded, mode="overwrite", rows_per_file=folded.num_rows)
    staged = Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        inserted=folded.num_rows,
        deleted=handle.row_count,
        payload=LancePayload(
            handle,
            LanceOperation.Overwrite(dataset.schema, fragments),
            tuple(lance_files.written_data(fragments)),
        ),
    )
    return commit_exact(store, staged)


# --- compaction -----------------------------------------------------------------------------


def commit_compaction(store: LanceStore, staged: StagedCompaction) -> Outcome:
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
    harden(store, compacted)
    # Lance reserves fragment numbers in one version and swaps the fragments in the next.
    is_exact = compacted.version == staged.read_version + 2
    return Landed(compacted) if is_exact else Elsewhere(compacted)


def harden(store: LanceStore, handle: LanceHandle, *, beyond: LanceHandle | None = None) -> None:
    if not store.is_flushed:
        return
    with translating(handle.ref, "flush"):
        known = set() if beyond is None else set(lance_files.reachable(beyond.dataset))
        files = [each for each in lance_files.reachable(handle.dataset) if each not in known]
        flush_files(store.disk, files, below=Path(store.root.locate(handle.ref.path)))
