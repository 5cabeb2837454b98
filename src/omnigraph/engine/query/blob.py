"""One blob of one node or edge in a snapshot, read in chunks.

A reader holds at most one chunk. Equal tags (ETags on HTTP) mean equal bytes. The tag of a blob of
up to one chunk is the digest of its bytes; such a blob is read once, when it is opened. The tag of
a larger blob is the digest of its place: files of a table are written once and their names are
never reused. If an update or a compaction writes a large blob again unchanged, its tag changes, and
a client that compares tags reads it once more.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.names import column_of
from omnigraph.compiler.ir import STRING
from omnigraph.engine.query.columns.rows import ID
from omnigraph.engine.query.columns.view import TableView
from omnigraph.engine.tables import filters, metered
from omnigraph.engine.tables.cells import EXTERNAL_BLOB
from omnigraph.errors import BlobNotFound, BlobRangeInvalid, ExternalBlob, NotABlob, UsageError
from omnigraph.ids import CommitId
from omnigraph.storage.tables import ROW_ADDRESS, BlobFile, ScanRequest

CHUNK_BYTES: Final = 4 * 2**20
"""The most bytes of a blob that a reader holds."""

ENTITIES: Final = ("node", "edge")

Fetch = Callable[[int, int], Iterator[bytes]]
"""Reads a range of a blob in chunks: offset, length."""


@dataclass(frozen=True, slots=True)
class BlobName:
    """Identifies a blob: its entity and property."""

    entity: str
    type_name: str
    id: str
    property_name: str

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.entity not in ENTITIES:
            raise UsageError(f"a Blob is of a node or an edge, not of {self.entity!r}")

    def missing(self, what: str) -> BlobNotFound:
        return BlobNotFound(
            self.entity,
            type_name=self.type_name,
            id=self.id,
            property_name=self.property_name,
            missing=what,
        )


@dataclass(frozen=True, slots=True)
class OpenBlob:
    """An existing blob. Of an external blob only the `uri` is known."""

    name: BlobName
    commit_id: CommitId | None
    """The commit whose snapshot shows it."""
    length: int | None = None
    etag: str | None = None
    """Equal tags mean equal bytes; without the quotes of HTTP."""
    uri: str | None = None
    fetch: Fetch | None = field(default=None, repr=False, compare=False)

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A range of the blob, or all of it; shorter if the blob ends before.

        Raises BlobRangeInvalid beyond the end, ExternalBlob, and what the store raises.
        """
        return b"".join(self.chunks(offset, length))

    def chunks(self, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The same range in chunks of at most `CHUNK_BYTES`."""
        start, size = self.find_range(offset, length)
        assert self.fetch is not None, "a blob that is not external can be fetched"
        return self.fetch(start, size) if size else iter(())

    def find_range(self, offset: int, length: int | None) -> tuple[int, int]:
        """The offset and the length of a range. Raises BlobRangeInvalid, ExternalBlob."""
        if self.length is None:
            raise ExternalBlob(str(self.uri), reason="fetch it yourself, if you trust that place")
        end = self.length if length is None else min(offset + length, self.length)
        if offset < 0 or end < offset:
            last = None if length is None else offset + length - 1
            raise BlobRangeInvalid(start=offset, end=last, length=self.length)
        return offset, end - offset


def split(offset: int, length: int) -> Iterator[tuple[int, int]]:
    """A range as ranges of one chunk each."""
    for start in range(offset, offset + length, CHUNK_BYTES):
        yield start, min(CHUNK_BYTES, offset + length - start)


def find_blob_owner(catalog: Catalog, name: BlobName) -> NodeType | EdgeType:
    """The type that declares the blob. Raises BlobNotFound, NotABlob."""
    is_node = name.entity == "node"
    type_ = catalog.node(name.type_name) if is_node else catalog.edge(name.type_name)
    if type_ is None:
        raise name.missing("type")
    found = type_.named(name.property_name)
    if found is None:
        raise name.missing("property")
    if not found.type.is_blob:
        raise NotABlob(type_.name, property_name=found.spelling, declared=str(found.type))
    return type_


def open_blob(table: TableView, name: BlobName, commit_id: CommitId | None) -> OpenBlob:
    """Raises BlobNotFound, and what the store raises."""
    found, address = _describe(table, name)
    if found is None:
        raise name.missing("value")
    if found["kind"] == EXTERNAL_BLOB:
        return OpenBlob(name, commit_id, uri=found["blob_uri"])
    file = table.tables.open_blob(table.handle, column_of(name.property_name), address)
    if file.length > CHUNK_BYTES:
        etag = hashlib.sha256(f"{file.place}/{file.length}".encode()).hexdigest()
        return OpenBlob(name, commit_id, file.length, etag, fetch=_reading(file))
    data = file.read(0, file.length)
    return OpenBlob(
        name, commit_id, len(data), hashlib.sha256(data).hexdigest(), fetch=_slicing(data)
    )


def _describe(table: TableView, name: BlobName) -> tuple[Mapping[str, Any] | None, int]:
    """The description of a blob, found by its id, and the address of its row."""
    column = column_of(name.property_name)
    handle = table.handle
    is_held = column in handle.schema.names  # the property may be younger than the snapshot
    request = ScanRequest(
        columns=(column,) if is_held else (ID,),
        where=filters.one_of(ID, STRING, [name.id]),
        with_row_address=True,
    )
    rows = metered.read(table.tables, handle, request).to_pylist()
    if not rows:
        raise name.missing("entity")
    return (rows[0][column] if is_held else None), rows[0][ROW_ADDRESS]


def _reading(file: BlobFile) -> Fetch:
    def fetch(offset: int, length: int) -> Iterator[bytes]:
        return (file.read(start, size) for start, size in split(offset, length))

    return fetch


def _slicing(data: bytes) -> Fetch:
    def fetch(offset: int, length: int) -> Iterator[bytes]:
        yield data[offset : offset + length]

    return fetch
