"""The rows that a merge takes from its source: a few are read once, many as they are needed.

The checks of a merge read some columns of these rows, and its commits read all. In a bucket each
read is a request that the merge waits for (D30).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.engine.tables.row_refs import Type, fetch
from omnigraph.storage.tables import Addresses, Handle, Tables

TAKEN_ROWS_MAX: Final = 256
"""More rows are not kept in memory."""


@dataclass(slots=True)
class TakenRows:
    type: Type
    handle: Handle
    _addresses: Addresses = field(default_factory=lambda: np.empty(0, np.uint64))
    """Ascending."""
    _rows: pa.Table | None = None

    def keep(self, tables: Tables, addresses: Addresses) -> None:
        """Read these rows, unless they are many or hold blobs."""
        has_blobs = any(each.type.is_blob for each in self.type.properties)
        if 0 < len(addresses) <= TAKEN_ROWS_MAX and not has_blobs:
            self._addresses = np.sort(addresses)
            self._rows = fetch(tables, self.type, self.handle, self._addresses)

    def fetch(
        self, tables: Tables, addresses: Addresses, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows at these addresses, in this order; of all columns or some."""
        kept = self.find(addresses)
        if kept is None:
            return fetch(tables, self.type, self.handle, addresses, columns)
        return kept if columns is None else kept.select(list(columns))

    def find(self, addresses: Addresses) -> pa.Table | None:
        """The rows at these addresses, if all of them are kept."""
        if self._rows is None or not np.isin(addresses, self._addresses).all():
            return None
        return self._rows.take(np.searchsorted(self._addresses, addresses))
