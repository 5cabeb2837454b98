"""The swap of the manifest on Lance: rows inserted or replaced by key, if nobody was faster.

Rewriting the tail (ADR 19): the fragments of the table are sealed or open. A swap writes the open
ones again, with its own rows and without those it replaces, and lists the sealed ones as they are,
in one strict overwrite, which anything that landed meanwhile refuses. It costs what is open, and
that is bounded, whatever the history.

1. A fragment is sealed if it has `SEALED_ROWS` rows, none of them deleted, and holds no key of the
   swap. Otherwise it is open, so no key is ever there twice.
2. Once the open rows suffice they are sealed, and ours are written apart from them. The head of the
   branch is in every publish, so it never is among the sealed.
3. `SEALED_MANY` sealed fragments of one size become one of the next, so that their number grows
   with the logarithm of the history.

Merging is the same swap as a merge-insert, where Lance compares the keys. It takes three times as
long and asks for nothing unusual, while listing a fragment again is something that a later Lance
might refuse. Writers of both forms can work on one graph: each refuses the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, LanceFragment

from omnigraph.storage import layout
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.commit import commit_exact, judge
from omnigraph.storage.lance.contents import Hashes
from omnigraph.storage.lance.stage import LancePayload, write_rows
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import ManifestSwap, Mark, Outcome, Refused, Staged
from omnigraph.storage.translate import is_refusal

SEALED_ROWS: Final = 128
SEALED_MANY: Final = 8

FOLD_AT_FRAGMENTS: Final = 16
"""A merge costs what the fragments of the table weigh; at this many they are written as one."""


def swap_rows(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    assert len(pc.unique(rows[key])) == rows.num_rows, "a key is swapped once"
    # Whoever made the table may have allowed nulls where we write none.
    rows = rows.select(handle.schema.names).cast(handle.schema.remove_metadata())
    match store.swap:
        case ManifestSwap.REWRITE_TAIL:
            return _rewrite_tail(store, handle, rows, key=key, mark=mark)
        case ManifestSwap.MERGE:
            if len(handle.dataset.get_fragments()) >= FOLD_AT_FRAGMENTS:
                return _fold(store, handle, rows, key=key, mark=mark)
            return _merge(store, handle, rows, key=key)
    assert_never(store.swap)


# --- rewriting the tail ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """A fragment, and what Lance tells of it, asked once."""

    fragment: LanceFragment
    told: FragmentMetadata

    @property
    def file(self) -> str:
        """Its one file. Columns are never added to the manifest, so it has no other."""
        return table_files.name_of(self.told.files[0])

    @property
    def is_whole(self) -> bool:
        return self.told.deletion_file is None and len(self.told.files) == 1

    @property
    def is_large(self) -> bool:
        return self.is_whole and self.told.physical_rows >= SEALED_ROWS


def _rewrite_tail(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    dataset = handle.dataset
    with translating(handle.ref, "swap rows of"):
        sealed, tail = _sort_out(store, dataset, rows, key)
        kept = _without(_read(store, dataset, tail), rows, key)
        fresh = [_joined(kept, rows)]
        if kept.num_rows >= SEALED_ROWS:
            sealed, absorbed = _find_absorbed(sealed)
            fresh = [_joined(_read(store, dataset, absorbed), kept), _joined(rows)]
        written = [_write(store, dataset, table, key) for table in fresh]
        # What is sealed may be large, and is not read again.
        store.tails.keep(table_files.name_of(written[-1].files[0]), fresh[-1])
    return _overwrite(store, handle, [each.told for each in sealed], written, mark)


def _sort_out(
    store: LanceStore, dataset: LanceDataset, rows: pa.Table, key: str
) -> tuple[list[_Piece], list[_Piece]]:
    """(1) The fragments that are sealed, and those that are open."""
    pieces = [_Piece(each, each.metadata) for each in dataset.get_fragments()]
    _learn_keys(store, dataset, [each for each in pieces if each.is_large], key)
    swapped = _hashes(rows[key].to_pylist())
    sealed: list[_Piece] = []
    tail: list[_Piece] = []
    for each in pieces:
        held = store.keys.find(each.file) if each.is_large else None
        (tail if held is None or not held.isdisjoint(swapped) else sealed).append(each)
    return sealed, tail


def _learn_keys(
    store: LanceStore, dataset: LanceDataset, pieces: Sequence[_Piece], key: str
) -> None:
    """Read the keys of files that others wrote; each once, because a file never changes."""
    unknown = [each for each in pieces if store.keys.find(each.file) is None]
    if not unknown:
        return
    fragments = [each.fragment for each in unknown]
    keys = dataset.scanner(columns=[key], fragments=fragments).to_table()[key].to_pylist()
    assert len(keys) == sum(each.told.physical_rows for each in unknown), "nothing is deleted"
    begin = 0
    for each in unknown:
        store.keys.keep(each.file, _hashes(keys[begin : begin + each.told.physical_rows]))
        begin += each.told.physical_rows


def _hashes(keys: Sequence[object]) -> Hashes:
    return frozenset(map(hash, keys))


def _find_absorbed(sealed: Sequence[_Piece]) -> tuple[list[_Piece], list[_Piece]]:
    """(3) The sealed fragments that stay, and those that are sealed again with what is new."""
    stay = list(sealed)
    absorbed: list[_Piece] = []
    rows = SEALED_ROWS * SEALED_MANY
    while True:
        alike = [each for each in stay if each.told.physical_rows < rows]
        if len(alike) + 1 < SEALED_MANY:
            return stay, absorbed
        stay = [each for each in stay if each.told.physical_rows >= rows]
        absorbed += alike
        rows *= SEALED_MANY


def _read(store: LanceStore, dataset: LanceDataset, pieces: Sequence[_Piece]) -> pa.Table:
    """The rows of fragments. What this process wrote last is still in memory."""
    if len(pieces) == 1 and pieces[0].is_whole:
        rows = store.tails.find(pieces[0].file)
        if rows is not None:
            return rows
    if not pieces:
        return dataset.schema.remove_metadata().empty_table()
    rows = dataset.scanner(fragments=[each.fragment for each in pieces]).to_table()
    return rows.replace_schema_metadata(None)


def _joined(*tables: pa.Table) -> pa.Table:
    """In one chunk: Lance writes each for itself, and a tail would grow by one with every swap."""
    return pa.concat_tables(tables).combine_chunks()


def _without(rows: pa.Table, others: pa.Table, key: str) -> pa.Table:
    """The rows whose keys the others do not have."""
    return rows.filter(pc.invert(pc.is_in(rows[key], value_set=others[key].combine_chunks())))


def _write(store: LanceStore, dataset: LanceDataset, rows: pa.Table, key: str) -> FragmentMetadata:
    (fragment,) = write_rows(dataset, rows, mode="append", rows_per_file=rows.num_rows)
    if rows.num_rows >= SEALED_ROWS:
        file = table_files.name_of(fragment.files[0])
        store.keys.keep(file, _hashes(rows[key].to_pylist()))
    return fragment


def _overwrite(
    store: LanceStore,
    handle: LanceHandle,
    listed: Sequence[FragmentMetadata],
    written: Sequence[FragmentMetadata],
    mark: Mark,
) -> Outcome:
    """Make the table consist of these fragments.

    The schema is the one of Lance and not of Arrow: it keeps the numbers of the columns, by which
    files that are listed again are read.
    """
    operation = LanceOperation.Overwrite(handle.dataset.lance_schema, [*listed, *written])
    payload = LancePayload(handle, operation, tuple(table_files.written_data(written)))
    return commit_exact(
        store, Staged(ref=handle.ref, read_version=handle.version, mark=mark, payload=payload)
    )


# --- merging --------------------------------------------------------------------------------


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
    return judge(swapped, handle.version)


def _files_behind(transaction: Transaction, version: int) -> list[str]:
    """What a transaction wrote that Lance composed itself."""
    return [
        *table_files.written_by(transaction.operation, transaction.read_version),
        layout.transaction_file(transaction.read_version, transaction.uuid),
        layout.version_file(version),
    ]


def _fold(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    """The same swap as an overwrite of all rows, old and new, in one fragment.

    Compacting beside the publishers instead would make publishes land at versions other than the
    ones they record (D9).
    """
    with translating(handle.ref, "fold"):
        kept = handle.dataset.to_table().replace_schema_metadata(None)
        folded = pa.concat_tables([_without(kept, rows, key), rows])
        written = write_rows(handle.dataset, folded, mode="append", rows_per_file=folded.num_rows)
    return _overwrite(store, handle, [], written, mark)
