"""The compare-and-swap of the manifest: insert or replace rows by key, or be refused.

Rewriting the tail (ADR 19): each fragment of the table is sealed or open. A swap writes the rows of
the open fragments again, without the rows that it replaces and with its own rows, and lists the
sealed fragments unchanged. This is one strict overwrite, which Lance refuses if any commit landed
in between. The cost depends on the open rows, whose number is bounded for any length of history.

1. A fragment is sealed if it has `SEALED_ROWS` rows, none of them deleted, and holds no key of the
   swap. Otherwise it is open. So no key is in the table twice.
2. When the open rows are enough, they are sealed, and the rows of the swap are written apart. Every
   publish writes the head of the branch, so the head is never in a sealed fragment.
3. `SEALED_MANY` sealed fragments of one size are combined to one of the next size, so their number
   grows with the logarithm of the history.

Merging is the same swap as a merge-insert, in which Lance compares the keys. It takes three times
as long. It remains because a later Lance might refuse a commit that lists a fragment again. Writers
of both forms can work on one graph: each form conflicts with the other.
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
from omnigraph.storage.lance.commit import classify_landing, commit_exact
from omnigraph.storage.lance.contents import Hashes
from omnigraph.storage.lance.stage import LancePayload, write_rows
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import ManifestSwap, Mark, Outcome, Refused, Staged
from omnigraph.storage.translate import is_refusal

SEALED_ROWS: Final = 128
SEALED_MANY: Final = 8

FOLD_AT_FRAGMENTS: Final = 16
"""The cost of a merge grows with the fragments; at this many they are written as one."""


def swap_rows(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    assert len(pc.unique(rows[key])) == rows.num_rows, "a key is swapped once"
    # The program that created the table may have allowed nulls where ours writes none.
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
    """A fragment with the facts that Lance computes on request, cached."""

    fragment: LanceFragment
    told: FragmentMetadata

    @property
    def file(self) -> str:
        """Its only file: columns are never added to the manifest."""
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
        # Sealed fragments may be large, and are not read again.
        store.tails.keep(table_files.name_of(written[-1].files[0]), fresh[-1])
    return _overwrite(store, handle, [each.told for each in sealed], written, mark)


def _sort_out(
    store: LanceStore, dataset: LanceDataset, rows: pa.Table, key: str
) -> tuple[list[_Piece], list[_Piece]]:
    """(1) The sealed fragments, and the open ones."""
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
    """Read the keys of files that other processes wrote, each once: files never change."""
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
    """(3) The sealed fragments that stay, and those that are combined with the new rows."""
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
    """The rows of fragments. The rows that this process wrote last are in memory."""
    if len(pieces) == 1 and pieces[0].is_whole:
        rows = store.tails.find(pieces[0].file)
        if rows is not None:
            return rows
    if not pieces:
        return dataset.schema.remove_metadata().empty_table()
    rows = dataset.scanner(fragments=[each.fragment for each in pieces]).to_table()
    return rows.replace_schema_metadata(None)


def _joined(*tables: pa.Table) -> pa.Table:
    """In one chunk: Lance writes each chunk apart, and every swap would add one to the tail."""
    return pa.concat_tables(tables).combine_chunks()


def _without(rows: pa.Table, others: pa.Table, key: str) -> pa.Table:
    """The rows whose keys are not among the other rows."""
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

    The schema is Lance's and not Arrow's: it keeps the numbers of the columns, by which the listed
    files are read.
    """
    operation = LanceOperation.Overwrite(handle.dataset.lance_schema, [*listed, *written])
    payload = LancePayload(handle, operation, tuple(table_files.written_data(written)))
    return commit_exact(
        store, Staged(ref=handle.ref, read_version=handle.version, mark=mark, payload=payload)
    )


# --- merging --------------------------------------------------------------------------------


def _merge(store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str) -> Outcome:
    """Row-level compare-and-swap: overlapping keys contend, and every publish shares one key.

    The immediate form, because staging drops the key filter, and two writers would then both insert
    the branch head. No index, because an index on the key turns the filter off. Retries stay 0, so
    that contention reaches the caller, who reads the manifest again before the next try.
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
    return classify_landing(swapped, handle.version)


def _files_behind(transaction: Transaction, version: int) -> list[str]:
    """The files of a transaction that Lance composed itself."""
    return [
        *table_files.written_by(transaction.operation, transaction.read_version),
        layout.transaction_file(transaction.read_version, transaction.uuid),
        layout.version_file(version),
    ]


def _fold(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, *, key: str, mark: Mark
) -> Outcome:
    """The same swap as an overwrite of all rows, old and new, in one fragment.

    A compaction concurrent with publishes would make them land at other versions than they record
    (D9).
    """
    with translating(handle.ref, "fold"):
        kept = handle.dataset.to_table().replace_schema_metadata(None)
        folded = pa.concat_tables([_without(kept, rows, key), rows])
        written = write_rows(handle.dataset, folded, mode="append", rows_per_file=folded.num_rows)
    return _overwrite(store, handle, [], written, mark)
