"""Table reads that are counted, and charged to the memory of an execution.

`ON_READ` is called for every read with the bytes read and the I/O of the store. A search keeps what
it reads, so `Metered` charges each batch: a search that needs too much memory fails early.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from omnigraph.engine.cancellation import check_cancelled
from omnigraph.engine.tables.memory import Memory
from omnigraph.storage.tables import ROW_ADDRESS, Handle, IoStats, ScanRequest, Tables, TableStats

SEARCH: Final = "search"
"""The operator name under which a search is charged."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """One read of a table: the bytes of its values, and the I/O of the store."""

    nbytes: int
    io: IoStats


OnRead = Callable[[TableRead], None]

ON_READ: Final[ContextVar[OnRead | None]] = ContextVar("on_read", default=None)
"""Called for every read of a table.

Cached columns outlive the execution that first reads them, and a later execution may read more of
them. So the callback belongs to the running context, not to the columns.
"""


def read(tables: Tables, handle: Handle, request: ScanRequest) -> pa.Table:
    check_cancelled()
    before = handle.io
    table = tables.read(handle, request, check_cancelled)
    _tell(table.nbytes, handle.io - before)
    return table


def scan(tables: Tables, handle: Handle, request: ScanRequest) -> Iterator[pa.RecordBatch]:
    check_cancelled()
    before = handle.io
    with tables.scan(handle, request) as batches:
        for batch in batches:
            check_cancelled()
            after = handle.io
            _tell(batch.nbytes, after - before)
            before = after
            yield batch


def _tell(nbytes: int, io: IoStats) -> None:
    if (on_read := ON_READ.get()) is not None:
        on_read(TableRead(nbytes, io))


@dataclass(frozen=True, slots=True)
class Metered:
    """One table at one version, as a search reads it."""

    tables: Tables
    handle: Handle
    memory: Memory = field(default_factory=Memory)

    def read(self, request: ScanRequest) -> pa.Table:
        """Raises QueryMemoryExceeded at the first batch that does not fit."""
        if request.nearest is not None:  # the request itself bounds the rows
            table = read(self.tables, self.handle, request)
            self.hold(table.nbytes)
            return table
        batches = list(self.scan(request))
        return pa.Table.from_batches(
            batches, batches[0].schema if batches else self._shape(request)
        )

    def scan(self, request: ScanRequest) -> Iterator[pa.RecordBatch]:
        for batch in scan(self.tables, self.handle, request):
            self.hold(batch.nbytes)
            yield batch

    def count(self, where: str) -> int:
        check_cancelled()
        before = self.handle.io
        found = self.tables.count(self.handle, where)
        _tell(0, self.handle.io - before)
        return found

    def inspect(self) -> TableStats:
        return self.tables.inspect(self.handle)

    def hold(self, nbytes: int) -> None:
        """Raises QueryMemoryExceeded."""
        self.memory.hold(SEARCH, nbytes)

    def check(self, nbytes: int) -> None:
        """Check that so many more bytes fit for a moment. Raises QueryMemoryExceeded."""
        self.memory.check(SEARCH, nbytes)

    def has_room(self, nbytes: int) -> bool:
        return self.memory.held + nbytes <= self.memory.bytes_max

    @contextmanager
    def meanwhile(self) -> Iterator[None]:
        with self.memory.meanwhile():
            yield

    def _shape(self, request: ScanRequest) -> pa.Schema:
        columns = self.handle.schema.names if request.columns is None else request.columns
        fields = [self.handle.schema.field(name) for name in columns]
        if request.with_row_address:
            fields.append(pa.field(ROW_ADDRESS, pa.uint64()))
        return pa.schema(fields)
