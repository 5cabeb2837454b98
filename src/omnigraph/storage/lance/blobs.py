"""Ranges of the blobs in Lance tables.

Lance stores small blobs in the data file, larger ones together in a file beside it, and the largest
in files of their own. A range is read from any of them without the rest. A blob of which the table
stores only the address is not opened here, because Lance would send a request to that address.
"""

from dataclasses import dataclass

from lance import BlobFile, LanceDataset

from omnigraph.storage.lance.store import LanceHandle, LanceStore
from omnigraph.storage.lance.table_files import name_of

_OFFSET_BITS = 32
"""The lower bits of a row address number the row; the upper bits number the fragment."""


@dataclass(frozen=True, slots=True)
class LanceBlob:
    store: LanceStore
    handle: LanceHandle
    file: BlobFile
    length: int
    place: str

    def read(self, offset: int, length: int) -> bytes:
        if not length:
            return b""
        with self.store.reading(self.handle, "read a blob of"):
            return self.file.read_range(offset, length)


def open_blob(store: LanceStore, handle: LanceHandle, column: str, address: int) -> LanceBlob:
    with store.reading(handle, "open a blob of"):
        (file,) = handle.dataset.take_blobs(column, addresses=[address], buffer_size=0)
        assert file is not None, f"{column} at {address} is null"
        place = _place(handle.dataset, column, address)
        return LanceBlob(store, handle, file, file.size(), place)


def _place(dataset: LanceDataset, column: str, address: int) -> str:
    """The file that holds the column, and the row in it. A file name is never used twice."""
    field = dataset.lance_schema.field(column)
    fragment = dataset.get_fragment(address >> _OFFSET_BITS)
    assert field is not None, f"no column {column}"
    assert fragment is not None, f"no fragment of {address}"
    fields = {field.id(), *(each.id() for each in field.children())}
    (name,) = [name_of(each) for each in fragment.metadata.files if fields & set(each.fields)]
    return f"{name}/{address & ((1 << _OFFSET_BITS) - 1)}/{field.id()}"
