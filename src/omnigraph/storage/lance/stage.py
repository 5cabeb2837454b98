"""Staging on Lance: files are written, HEAD stays.

Every change of rows becomes an operation that conflicts with every other change of rows. Lance by
itself would rebase an append over commits in between, even with retries off. So the operation
*touches* a fragment that all other changes touch too: it lists the first fragment of its base as
updated, with no change. A table without fragments has none to list; its change is a `Merge`, which
conflicts with every operation that moves data.

`fields_for_preserving_frag_bitmap` always names all fields. Without it, a full-text index counts
the new fragment as covered and finds none of its rows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import (
    LOOKED_UP_MAX,
    ROW_ADDRESS,
    ROW_ID,
    ROWS_PER_FILE,
    Mark,
    Receipt,
    Replacement,
    RowChanges,
    Rows,
    Staged,
    TableRef,
    TableSettings,
)

STORAGE_VERSION: Final = "2.2"
_ROWS_PER_PROBE: Final = 250_000
"""Each comparison builds a hash table of all keys, so rows are compared in large tables."""


@dataclass(frozen=True, slots=True)
class LancePayload:
    """What `commit_exact` needs to publish a staged change."""

    base: LanceHandle | None
    """The handle that it was staged on; None for a table that does not exist yet."""

    operation: LanceOperation.BaseOperation
    files: tuple[str, ...]
    """The files that staging created, relative to the branch folder."""

    fresh: tuple[FragmentMetadata, ...] = ()
    shrunk: tuple[FragmentMetadata, ...] = ()
    removed: tuple[int, ...] = ()
    dropped: int = 0
    """The fragments of a change of rows, without the touched fragment."""


# --- rows -----------------------------------------------------------------------------------


def stage_rows(store: LanceStore, handle: LanceHandle, changes: RowChanges, mark: Mark) -> Staged:
    dataset = handle.dataset
    updates = changes.updates
    inserted = changes.inserts.num_rows if changes.inserts is not None else 0
    updated = updates.rows.num_rows if updates is not None else 0
    dropped = [*changes.deletes, *(updates.row_addresses if updates is not None else ())]
    with translating(handle.ref, "stage rows of"):
        fresh: list[FragmentMetadata] = []
        shrunk: list[FragmentMetadata] = []
        removed: list[int] = []
        calls: list[Callable[[], None]] = [
            lambda: fresh.extend(_write_changed(store, dataset, changes.inserts, updates))
        ]
        if dropped:
            calls.append(lambda: _drop_rows(dataset, dropped, shrunk, removed))
        store.together(calls)
        operation = guarded(dataset, fresh, shrunk, removed)
    files = table_files.written_data(fresh) + table_files.written_deletions(shrunk)
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        inserted=inserted,
        updated=updated,
        deleted=len(changes.deletes),
        payload=LancePayload(
            handle,
            operation,
            tuple(files),
            tuple(fresh),
            tuple(shrunk),
            tuple(removed),
            dropped=len(dropped),
        ),
    )


def stage_append(handle: LanceHandle, rows: Rows, mark: Mark) -> Staged:
    with translating(handle.ref, "stage an append to"):
        fragments = write_rows(handle.dataset, rows, mode="append")
    return stage_receipts(handle, [receipt_of(each) for each in fragments], mark)


def stage_receipts(handle: LanceHandle, receipts: Sequence[Receipt], mark: Mark) -> Staged:
    fragments = [FragmentMetadata.from_json(receipt.fragment) for receipt in receipts]
    with translating(handle.ref, "stage an append to"):
        operation = guarded(handle.dataset, fragments, [], [])
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        inserted=sum(receipt.row_count for receipt in receipts),
        receipts=tuple(receipts),
        payload=LancePayload(
            handle, operation, tuple(table_files.written_data(fragments)), tuple(fragments)
        ),
    )


def stage_upsert(
    store: LanceStore, handle: LanceHandle, rows: pa.Table, mark: Mark, *, key: str
) -> Staged:
    keys = rows[key]
    assert len(pc.unique(keys)) == rows.num_rows, (
        "one row per key, or the winner is a matter of luck"
    )
    found = locate(handle, key, keys.combine_chunks())
    at = pc.index_in(keys, value_set=found[key].combine_chunks())
    is_known = pc.is_valid(at)
    places = found.take(at.filter(is_known))
    changes = RowChanges(
        inserts=rows.filter(pc.invert(is_known)),
        updates=Replacement(
            rows.filter(is_known),
            row_ids=places[ROW_ID].to_numpy().tolist(),
            row_addresses=places[ROW_ADDRESS].to_numpy().tolist(),
        ),
    )
    return stage_rows(store, handle, changes, mark)


def stage_delete(store: LanceStore, handle: LanceHandle, where: str, mark: Mark) -> Staged:
    with translating(handle.ref, "find rows to delete of"):
        doomed = handle.dataset.scanner(columns=[], filter=where, with_row_address=True).to_table()
    changes = RowChanges(deletes=doomed[ROW_ADDRESS].to_numpy().tolist())
    return stage_rows(store, handle, changes, mark)


def stage_overwrite(
    handle: LanceHandle,
    schema: pa.Schema,
    mark: Mark,
    rows: Rows | None = None,
    receipts: Sequence[Receipt] = (),
) -> Staged:
    fragments = [FragmentMetadata.from_json(receipt.fragment) for receipt in receipts]
    with translating(handle.ref, "stage an overwrite of"):
        if rows is not None:
            fragments += write_rows(handle.dataset, rows, mode="overwrite")
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        inserted=sum(each.num_rows for each in fragments),
        deleted=handle.row_count,
        receipts=tuple(receipt_of(each) for each in fragments),
        payload=LancePayload(
            handle,
            LanceOperation.Overwrite(schema, fragments),
            tuple(table_files.written_data(fragments)),
            tuple(fragments),
        ),
    )


def stage_create(
    store: LanceStore, ref: TableRef, schema: pa.Schema, mark: Mark, rows: Rows | None
) -> Staged:
    assert ref.branch is None, "a table is created on main; branches are forked"
    fragments: list[FragmentMetadata] = []
    if rows is not None:
        with translating(ref, "stage the creation of"):
            fragments = write_rows(
                store.uri(ref), rows, mode="create", storage_options=store.options()
            )
    return Staged(
        ref=ref,
        read_version=0,
        mark=mark,
        inserted=sum(each.num_rows for each in fragments),
        payload=LancePayload(
            None,
            LanceOperation.Overwrite(schema, fragments),
            tuple(table_files.written_data(fragments)),
        ),
    )


def stage_settings(handle: LanceHandle, settings: TableSettings, mark: Mark) -> Staged:
    schema = handle.dataset.lance_schema
    field_ids = {field.name(): field.id() for field in schema.fields()}
    operation = LanceOperation.UpdateConfig(
        config_updates=_update_map(settings.config),
        schema_metadata_updates=_update_map(settings.schema_metadata),
        field_metadata_updates={
            field_ids[name]: LanceOperation.UpdateMap(dict(updates))
            for name, updates in settings.field_metadata.items()
        }
        or None,
    )
    payload = LancePayload(handle, operation, ())
    return Staged(ref=handle.ref, read_version=handle.version, mark=mark, payload=payload)


# --- finding rows ---------------------------------------------------------------------------


def locate(handle: LanceHandle, column: str, values: "Sequence[str] | pa.Array[Any]") -> pa.Table:
    wanted = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    with translating(handle.ref, "look rows up in"):
        spelled_out = len(wanted) <= LOOKED_UP_MAX
        scanner = handle.dataset.scanner(
            columns=[column],
            filter=_one_of(column, map(str, wanted.to_pylist())) if spelled_out else None,
            with_row_id=True,
            with_row_address=True,
            batch_size=None if spelled_out else _ROWS_PER_PROBE,
        )
        if spelled_out:
            return scanner.to_table()
        # Only matching rows are kept, because the table may be many times larger. Arrow hashes the
        # wanted values at every call, so there are few calls.
        rows_min = max(_ROWS_PER_PROBE, len(wanted))
        found = [
            rows.filter(pc.is_in(rows[column], value_set=wanted))
            for rows in _gather(scanner.to_batches(), scanner.projected_schema, rows_min)
        ]
        return pa.concat_tables([scanner.projected_schema.empty_table(), *found])


def _gather(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows_min: int
) -> Iterator[pa.Table]:
    """Combine batches to tables of at least this many rows; the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= rows_min:
            yield pa.Table.from_batches(waiting, schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _one_of(column: str, values: Iterable[str]) -> str:
    quoted = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    return f"`{column}` IN ({quoted})" if quoted else "false"


# --- pieces ---------------------------------------------------------------------------------


def write_rows(
    target: LanceDataset | str,
    rows: Rows,
    *,
    mode: str,
    rows_per_file: int = ROWS_PER_FILE,
    storage_options: dict[str, str] | None = None,
) -> list[FragmentMetadata]:
    written = write_fragments(
        rows,
        target,
        mode=mode,
        max_rows_per_file=rows_per_file,
        data_storage_version=STORAGE_VERSION,
        enable_stable_row_ids=True,
        storage_options=storage_options,
        # A blob column may hold addresses of files that are not ours.
        allow_external_blob_outside_bases=True,
    )
    assert isinstance(written, list), "a transaction was not asked for"
    return written


def _write_changed(
    store: LanceStore,
    dataset: LanceDataset,
    inserts: pa.Table | None,
    updates: Replacement | None,
) -> list[FragmentMetadata]:
    """Write updated rows first, with their row ids, then inserted rows."""
    parts = [part for part in (updates.rows if updates else None, inserts) if part is not None]
    parts = [part for part in parts if part.num_rows > 0]
    if not parts:
        return []
    names = parts[0].column_names
    rows = pa.concat_tables([part.select(names) for part in parts])
    fragments = write_rows(dataset, rows, mode="append")
    store.contents.remember(dataset, fragments, rows)
    row_ids = list(updates.row_ids) if updates is not None else []
    begin = 0
    for fragment in fragments:
        kept = row_ids[begin : begin + fragment.physical_rows]
        begin += fragment.physical_rows
        if not kept:
            break
        fragment.row_id_meta = RowIdSequence(kept).to_inline_metadata()
    return fragments


def _drop_rows(
    dataset: LanceDataset,
    row_addresses: Sequence[int],
    shrunk: list[FragmentMetadata],
    removed: list[int],
) -> None:
    """Add the fragments with deleted rows, and the ids of fragments whose rows are all deleted."""
    addresses = np.sort(np.asarray(row_addresses, dtype=np.uint64))
    assert (addresses[1:] != addresses[:-1]).all(), "a row is updated or deleted once"
    numbers = addresses >> np.uint64(32)
    offsets = addresses & np.uint64(0xFFFFFFFF)
    for number in sorted(set(numbers.tolist())):
        fragment = dataset.get_fragment(number)
        assert fragment is not None, f"no fragment {number} in version {dataset.version}"
        rest = fragment.delete_rows(offsets[numbers == number].tolist())
        if rest is None:
            removed.append(number)
        else:
            shrunk.append(rest)


def guarded(
    dataset: LanceDataset,
    fresh: list[FragmentMetadata],
    shrunk: list[FragmentMetadata],
    removed: list[int],
) -> LanceOperation.BaseOperation:
    """(2) The operation, which conflicts with every other change of rows."""
    existing = dataset.get_fragments()
    if not existing:
        return LanceOperation.Merge(fresh, dataset.lance_schema)
    first = existing[0].metadata
    touched = {fragment.id for fragment in shrunk} | set(removed)
    return LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=shrunk if first.id in touched else [*shrunk, first],
        new_fragments=fresh,
        fields_for_preserving_frag_bitmap=[field.id() for field in dataset.lance_schema.fields()],
        update_mode="rewrite_rows",
    )


def receipt_of(fragment: FragmentMetadata) -> Receipt:
    return Receipt(json.dumps(fragment.to_json()), row_count=fragment.num_rows)


def _update_map(updates: Mapping[str, str | None]) -> LanceOperation.UpdateMap | None:
    return LanceOperation.UpdateMap(dict(updates)) if updates else None
