"""Nulls in blob columns that Lance 7 wrote, and that Lance 14 reads as empty blobs.

Lance 7 recorded the nulls of a page in a second layer; Lance 14 reads only the first layer. It
describes such a null as an empty blob at position 0 of the file. So this module reads the page
itself where it meets that description, once per file. Pages never change.
"""

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.file import LanceFileReader
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.storage import layout
from omnigraph.storage.lance.store import LanceStore
from omnigraph.storage.lance.table_files import name_of
from omnigraph.storage.tables import ROW_ADDRESS, Addresses

_OFFSET_BITS: Final = 32
_OLD_LAYERS: Final = re.compile(r"layers: \[\s*RepdefAllValidItem,\s*RepdefNullableItem,\s*\]")
_ITEMS: Final = re.compile(r"num_items: (\d+),")

Nulls = frozenset[int]
"""Rows of a file, by number."""


def blob_columns(dataset: LanceDataset) -> list[str]:
    return [each.name for each in dataset.schema if isinstance(each.type, pa.BaseExtensionType)]


def mend(
    store: LanceStore, dataset: LanceDataset, columns: Sequence[str], batch: pa.RecordBatch
) -> pa.RecordBatch:
    """The batch, with the nulls that the page records. The batch has row addresses."""
    for name in columns:
        column = batch[name]
        suspects = _find_suspects(column)
        if not suspects.any():
            continue
        addresses = batch[ROW_ADDRESS].to_numpy()
        lost = np.zeros(len(batch), dtype=bool)
        lost[suspects] = _are_null(store, dataset, name, addresses[suspects])
        if lost.any():
            at = batch.schema.get_field_index(name)
            mended = pc.if_else(pa.array(~lost), column, pa.scalar(None, column.type))
            batch = batch.set_column(at, batch.schema.field(at), mended)
    return batch


def has_nulls(store: LanceStore, dataset: LanceDataset, fragment: FragmentMetadata) -> bool:
    """Does the fragment hold nulls that a copy by Lance would turn into empty blobs?"""
    return any(_nulls(store, dataset, name, fragment) for name in blob_columns(dataset))


def _find_suspects(column: Any) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Which rows are described as an empty blob at the start of the file."""
    found = column.is_valid().to_numpy(zero_copy_only=False)
    for key in ("kind", "position", "size", "blob_id"):
        found = found & (pc.fill_null(pc.struct_field(column, key), 0).to_numpy() == 0)
    return np.asarray(found, dtype=bool)


def _are_null(
    store: LanceStore, dataset: LanceDataset, name: str, addresses: Addresses
) -> list[bool]:
    known: dict[int, Nulls] = {}
    for number in {int(each) >> _OFFSET_BITS for each in addresses}:
        fragment = dataset.get_fragment(number)
        assert fragment is not None, f"no fragment {number} in version {dataset.version}"
        known[number] = _nulls(store, dataset, name, fragment.metadata)
    mask = (1 << _OFFSET_BITS) - 1
    return [(int(each) & mask) in known[int(each) >> _OFFSET_BITS] for each in addresses]


def _nulls(
    store: LanceStore, dataset: LanceDataset, name: str, fragment: FragmentMetadata
) -> Nulls:
    field = dataset.lance_schema.field(name)
    assert field is not None, f"no column {name}"
    holders = [each for each in fragment.files if field.id() in each.fields]
    if not holders:
        return frozenset()  # the column is younger than the fragment
    (file,) = holders
    key = f"{name_of(file)}/{field.id()}"
    found = store.old_nulls.find(key)
    if found is None:
        found = frozenset(_read_nulls(store, dataset, file, field.id()))
        store.old_nulls.keep(key, found)
    return found


def _read_nulls(
    store: LanceStore, dataset: LanceDataset, file: DataFile, field_id: int
) -> Iterator[int]:
    key = _key_of(store, dataset, file)
    reader = LanceFileReader(store.root.locate(key), storage_options=store.options())
    column = file.column_indices[list(file.fields).index(field_id)]
    start = 0
    for page in reader.metadata().columns[column].pages:
        items = _ITEMS.search(page.encoding)
        if items is None:
            return  # only a newer Lance writes a page without them
        row_count = int(items[1])
        if _OLD_LAYERS.search(page.encoding):
            offsets = page.buffers[1]
            data = store.objects.read_range(key, offsets.position, offsets.size)
            ends = np.frombuffer(data, dtype=f"<u{offsets.size // (row_count + 1)}")
            # A null consists of its marker byte only.
            yield from (start + np.flatnonzero(np.diff(ends.astype(np.int64)) == 1)).tolist()
        start += row_count


def _key_of(store: LanceStore, dataset: LanceDataset, file: DataFile) -> str:
    home = dataset.uri if file.base_id is None else dataset.base_paths()[file.base_id].path
    root = store.root.uri
    if store.root.is_local:
        # A branch records the path of its inherited files, perhaps in another spelling.
        home, root = os.path.realpath(home), os.path.realpath(root)
    return f"{layout.relative(home, root)}/{layout.data_file(name_of(file))}"
