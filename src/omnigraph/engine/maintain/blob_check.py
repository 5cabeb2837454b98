"""Checks that blob files exist and are long enough: reads one byte of each file, the last that a
blob needs. External blobs are not checked.
"""

from collections.abc import Iterator

from omnigraph.engine.tables.cells import EXTERNAL_BLOB
from omnigraph.engine.tables.record_format import is_blob
from omnigraph.errors import OmnigraphError
from omnigraph.storage.tables import ROW_ADDRESS, Handle, ScanRequest, Tables

_FRAGMENT_SHIFT = 32
_BATCH_ROWS = 1 << 16


def find_lost_blobs(tables: Tables, handle: Handle, column: str) -> Iterator[str]:
    """The problems of the files of a blob column."""
    for address, end in _last_blobs(tables, handle, column):
        try:
            tables.open_blob(handle, column, address).read(end - 1, 1)
        except OmnigraphError as error:
            yield f"has blobs in {column!r} that cannot be read: {error}"


def _last_blobs(tables: Tables, handle: Handle, column: str) -> list[tuple[int, int]]:
    """For each file, the blob that ends last: the address of its row, and its length."""
    farthest: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    request = ScanRequest(columns=(column,), with_row_address=True, batch_rows_max=_BATCH_ROWS)
    with tables.scan(handle, request) as batches:
        for batch in batches:
            assert is_blob(batch[column].type), column
            addresses = batch[ROW_ADDRESS].to_pylist()
            for address, each in zip(addresses, batch[column].to_pylist(), strict=True):
                if each is None or each["kind"] == EXTERNAL_BLOB or not each["size"]:
                    continue
                assert address is not None
                file = (address >> _FRAGMENT_SHIFT, each["kind"], each["blob_id"])
                found = (each["position"] + each["size"], address, each["size"])
                farthest[file] = max(found, farthest.get(file, found))
    return [(address, size) for _, address, size in farthest.values()]
