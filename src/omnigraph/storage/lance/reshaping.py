"""Other columns for a Lance table, without rewriting its rows.

Lance stores columns by number. A file lists the numbers that it holds; the schema gives each number
a name. So dropping and renaming change only the schema, an added column that no file holds is null,
and a filled column is one more file in each fragment. All changes are one `Merge` operation, which
conflicts with every other change of rows.

Only Lance can assign the numbers of a changed schema, and only by changing a table. So the change
is made first to a scratch copy, which has the description of the table and none of its rows. The
schema of the scratch copy is then committed to the table.
"""

import base64
import json
import pickle
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
from lance import LanceOperation
from lance.bitmap import Bitmap
from lance.dataset import Index as LanceIndex
from lance.fragment import FragmentMetadata, LanceFragment
from lance.schema import LanceSchema

from omnigraph.errors import BackfillInvalid
from omnigraph.jsontext import read_json
from omnigraph.storage import layout
from omnigraph.storage.lance import table_files
from omnigraph.storage.lance.commit import try_out
from omnigraph.storage.lance.stage import LancePayload
from omnigraph.storage.lance.store import LanceHandle, LanceStore, translating
from omnigraph.storage.tables import ColumnFill, Mark, Reshape, Staged


def stage_reshape(
    store: LanceStore,
    handle: LanceHandle,
    reshape: Reshape,
    mark: Mark,
    filled: Sequence[str] | None = None,
) -> Staged:
    fragments = handle.dataset.get_fragments()
    assert fragments, "a table without rows is overwritten instead"
    with translating(handle.ref, "reshape"):
        before = [each.metadata for each in fragments]
        after, schema = before, handle.dataset.lance_schema
        if reshape.fills:
            done = map(_decode, filled or ()) if filled else _fill_all(fragments, reshape.fills)
            by_id = {metadata.id: (metadata, evolved) for metadata, evolved in done}
            after = [by_id[each.id][0] for each in before]
            schema = by_id[before[0].id][1]
        merge = LanceOperation.Merge(after, schema)
        schema = _evolve(store, handle, merge, reshape, name=mark.uuid)
    known = set(table_files.written_data(before))
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        payload=LancePayload(
            handle,
            LanceOperation.Merge(after, schema),
            tuple(each for each in table_files.written_data(after) if each not in known),
        ),
    )


_Filled = tuple[FragmentMetadata, LanceSchema]
"""A fragment with one more file, and the schema with its new columns."""


def fill(
    store: LanceStore, handle: LanceHandle, fills: tuple[ColumnFill, ...], fragment_id: int
) -> str:
    with translating(handle.ref, "fill columns of"):
        fragment = handle.dataset.get_fragment(fragment_id)
        assert fragment is not None, f"no fragment {fragment_id} in version {handle.version}"
        known = set(table_files.written_data([fragment.metadata]))
        filled = _fill(fragment, fills)
    written = table_files.written_data([filled[0]])
    store.flush(handle.ref, [each for each in written if each not in known])
    return _encode(filled)


def _encode(filled: _Filled) -> str:
    """Only pickle preserves the numbers of a schema. The text comes from workers of ours."""
    metadata, schema = filled
    return json.dumps([metadata.to_json(), base64.b64encode(pickle.dumps(schema)).decode()])


def _decode(text: str) -> _Filled:
    metadata, schema = read_json(text)
    return (
        FragmentMetadata.from_json(json.dumps(metadata)),
        pickle.loads(base64.b64decode(schema)),  # noqa: S301 - see `_encode`
    )


def _fill_all(fragments: list[LanceFragment], fills: tuple[ColumnFill, ...]) -> Iterator[_Filled]:
    return (_fill(each, fills) for each in fragments)


def _fill(fragment: LanceFragment, fills: tuple[ColumnFill, ...]) -> _Filled:
    """The fragment with one more file. At most one fragment is in memory."""
    row_count = fragment.count_rows()
    columns = [each.convert(_evaluate(fragment, each), row_count) for each in fills]
    rows = pa.table(columns, schema=pa.schema([each.column for each in fills]))
    return fragment.merge_columns(rows.to_reader())


def _evaluate(fragment: LanceFragment, fill: ColumnFill) -> "pa.Array[Any]":
    if fill.expression is None:
        return pa.nulls(0)
    # One column of the table is read too, because Lance scans no rows for constants alone.
    anchor = fragment.schema.names[0]
    try:
        columns = {"anchor": f"`{anchor}`", "filled": fill.expression}
        given = fragment.scanner(columns=columns).to_table()
    except (ValueError, OSError) as error:
        raise BackfillInvalid(fill.entity, reason=str(error).partition(", /")[0]) from error
    return given["filled"].combine_chunks()


def _evolve(
    store: LanceStore,
    handle: LanceHandle,
    filled: LanceOperation.Merge,
    reshape: Reshape,
    *,
    name: str,
) -> LanceSchema:
    """The schema after the change, with its numbers. It starts from the schema with the fills."""
    scratch = layout.scratch_prefix(name)
    try:
        dataset = store.reopen(handle).shallow_clone(
            store.root.locate(scratch), handle.version, storage_options=store.options()
        )
        if reshape.fills:
            dataset = try_out(dataset, filled)
        # Added first: otherwise Lance would reuse the number of a dropped column without files.
        if reshape.nulls:
            dataset.add_columns(pa.schema(reshape.nulls))
        if reshape.drops:
            dataset.drop_columns(list(reshape.drops))
        if reshape.renames:
            for old, new in reshape.renames.items():
                renaming: Any = {"path": old, "name": new}  # declared as a list of these
                dataset.alter_columns(renaming)
        return dataset.lance_schema
    finally:
        store.objects.delete_prefix(scratch)


def stage_unindex(handle: LanceHandle, columns: Collection[str], mark: Mark) -> Staged:
    """Indices are found by the name of their column, so an index of a renamed column is renamed."""
    dataset = handle.dataset
    with translating(handle.ref, "drop indices of"):
        fields = {field.name(): field.id() for field in dataset.lance_schema.fields()}
        doomed = [
            LanceIndex(
                uuid=str(segment.uuid),
                name=index.name,
                fields=[fields[index.field_names[0]]],
                dataset_version=segment.dataset_version_at_last_update,
                fragment_ids=Bitmap(segment.fragment_ids),
                index_version=segment.index_version,
                base_id=segment.base_id,
            )
            for index in dataset.describe_indices()
            if index.field_names[0] in columns
            for segment in index.segments
        ]
    operation = LanceOperation.CreateIndex([], doomed)
    return Staged(
        ref=handle.ref,
        read_version=handle.version,
        mark=mark,
        payload=LancePayload(handle, operation, ()),
    )
