"""Changes of rows that several processes write and one commits.

A process that writes a part describes it as a value that can be sent: new fragments completely, and
of fragments with deleted rows only the deletion file. The committing process has read the rest of
those fragments from the version.
"""

from collections.abc import Sequence
from pathlib import Path

from lance.fragment import DeletionFile, FragmentMetadata

from omnigraph.storage import layout
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.stage import LancePayload, guarded, receipt_of
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import FragmentDeletions, Mark, Pieces, Staged, TableRef


def to_pieces(store: LanceStore, staged: Staged) -> Pieces:
    payload = staged.payload
    assert isinstance(payload, LancePayload), "staged by another store"
    store.flush(staged.ref, _with_blobs(store, staged.ref, payload.files))
    return Pieces(
        fresh=tuple(receipt_of(each) for each in payload.fresh),
        shrunk=tuple(_shrunk(each) for each in payload.shrunk),
        removed=payload.removed,
        updated=staged.updated,
        dropped=payload.dropped,
    )


def stage_pieces(handle: LanceHandle, pieces: Sequence[Pieces], mark: Mark) -> Staged:
    fresh = [FragmentMetadata.from_json(each.fragment) for part in pieces for each in part.fresh]
    removed = [number for part in pieces for number in part.removed]
    lost = {each.fragment_id: each for part in pieces for each in part.shrunk}
    assert len(lost) == sum(len(part.shrunk) for part in pieces), "one piece shrinks a fragment"
    with translating(handle.ref, "stage rows of"):
        shrunk = [_shrink(handle, lost[number]) for number in sorted(lost)]
        operation = guarded(handle.dataset, fresh, shrunk, removed)
    updated = sum(part.updated for part in pieces)
    dropped = sum(part.dropped for part in pieces)
    files = table_files.written_data(fresh) + table_files.written_deletions(shrunk)
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        inserted=sum(each.row_count for part in pieces for each in part.fresh) - updated,
        updated=updated,
        deleted=dropped - updated,
        payload=LancePayload(
            handle,
            operation,
            tuple(files),
            tuple(fresh),
            tuple(shrunk),
            tuple(removed),
            dropped=dropped,
        ),
    )


def discard(store: LanceStore, ref: TableRef, pieces: Pieces) -> None:
    fresh = [FragmentMetadata.from_json(each.fragment) for each in pieces.fresh]
    files = table_files.written_data(fresh)
    files += [_deletions(each).path(each.fragment_id) for each in pieces.shrunk]
    folder = layout.branch_folder(ref.branch)
    for file in files:
        key = "/".join(part for part in (ref.path, folder, file) if part)
        store.objects.delete(key)
        if file.endswith(".lance"):
            store.objects.delete_prefix(key.removesuffix(".lance"))


def _with_blobs(store: LanceStore, ref: TableRef, files: Sequence[str]) -> list[str]:
    return table_files.with_blobs(Path(store.uri(ref)), files) if store.is_flushed else []


def _shrunk(fragment: FragmentMetadata) -> FragmentDeletions:
    assert fragment.deletion_file is not None, "it lost rows"
    return FragmentDeletions(fragment.id, fragment.deletion_file.json())


def _deletions(shrunk: FragmentDeletions) -> DeletionFile:
    return DeletionFile.from_json(shrunk.deletions)  # type: ignore[misc, call-arg] # it is static


def _shrink(handle: LanceHandle, lost: FragmentDeletions) -> FragmentMetadata:
    fragment = handle.dataset.get_fragment(lost.fragment_id)
    assert fragment is not None, f"no fragment {lost.fragment_id} in version {handle.version}"
    shrunk = fragment.metadata
    shrunk.deletion_file = _deletions(lost)
    return shrunk
