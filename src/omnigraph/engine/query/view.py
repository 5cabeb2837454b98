"""One snapshot, as tables to read.

Nothing here looks at what writers do meanwhile: a snapshot names versions, and versions stay.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.types import ValueType
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, open_pin
from omnigraph.compiler.ir import STRING
from omnigraph.engine.query.rows import ID, ResidentRows
from omnigraph.engine.query.table_cache import TableCache, TableState
from omnigraph.engine.settings import AccessMode
from omnigraph.engine.tables import filters, metered
from omnigraph.engine.tables.arrays import nulls
from omnigraph.engine.tables.columns import column_type
from omnigraph.ids import BranchName, lance_branch
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, Tables

SMALL_ROWS: Final = 20_000
"""A table so small is read whole in about the time of a look-up or two."""

LOOK_UP_COST: Final = 20_000
"""What a look-up through an index costs, in values that a scan would read in that time."""

LOOK_UP_COST_PER_ID: Final = 130

ENCODING_COST: Final = 8
"""What finding both ends of an edge among the nodes costs, in values that a scan would read."""

VALUE_BYTES: Final = 16
"""A guess at what a value takes up in memory, before it is read."""

BATCH_ROWS: Final = 1 << 16


class TableView:
    """One table of the snapshot."""

    def __init__(
        self,
        type_: NodeType | EdgeType,
        pin: Pin,
        state: TableState,
        stores: Stores,
        cache: TableCache,
    ) -> None:
        self.type = type_
        self.pin = pin
        self.state = state
        self._stores = stores
        self._cache = cache
        self._resident: ResidentRows | None = None

    @property
    def tables(self) -> Tables:
        return self._stores.tables

    @property
    def row_count(self) -> int:
        return self.pin.row_count

    @property
    def handle(self) -> Handle:
        self._cache.grown = True  # whoever needs a handle reads, and what is read may be kept
        return self._cache.handle(self.state, lambda: open_pin(self._stores, self.pin))

    # the whole of it

    @property
    def resident(self) -> ResidentRows:
        """The same ones for as long as this view is used, whatever leaves the shelf meanwhile."""
        if self._resident is None:
            self._resident = self._cache.get_or_build(
                self.state, lambda: ResidentRows(self.row_count, self.read)
            )
        return self._resident

    def is_resident(self, columns: Collection[str]) -> bool:
        found = self._cache.find(self.state)
        return isinstance(found, ResidentRows) and found.has(columns)

    def read(self, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Columns of all rows, or of those that a filter lets through."""
        handle = self.handle
        held = self._held(handle, columns)
        if where == filters.NOTHING or not self.row_count:
            return self._complete(self._empty(held), columns)
        table = metered.read(self.tables, handle, ScanRequest(columns=held, where=where))
        return self._complete(table, columns)

    # parts of it

    def scan(self, columns: Sequence[str], where: str | None) -> Iterator[pa.Table]:
        """The rows that a filter lets through, as they are read."""
        if where == filters.NOTHING or not self.row_count:
            return
        handle = self.handle
        held = self._held(handle, columns)
        request = ScanRequest(columns=held, where=where, batch_rows_max=BATCH_ROWS)
        for batch in metered.scan(self.tables, handle, request):
            yield self._complete(pa.Table.from_batches([batch]), columns)

    def read_by_ids(self, ids: Collection[str], columns: Sequence[str]) -> pa.Table:
        return self.read_by(ID, ids, columns)

    def read_by(self, column: str, values: Collection[str], columns: Sequence[str]) -> pa.Table:
        """The rows whose column holds one of these texts."""
        listed = list(dict.fromkeys(values))
        parts = []
        for at in range(0, len(listed), filters.VALUES_MAX):
            some = listed[at : at + filters.VALUES_MAX]
            parts.append(self.read(columns, filters.one_of(column, STRING, some)))
        return pa.concat_tables(parts) if parts else self.read(columns, filters.NOTHING)

    # columns that a table of the past had not yet

    def _held(self, handle: Handle, columns: Sequence[str]) -> tuple[str, ...]:
        known = set(handle.schema.names)
        return tuple(name for name in columns if name in known) or (ID,)

    def _complete(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        if table.num_columns != len(columns):
            for name in columns:
                if name not in table.column_names:
                    kind = arrow_type(column_type(self.type, name))
                    table = table.append_column(name, nulls(table.num_rows, kind))
        return table.select(list(columns))

    def _empty(self, held: Sequence[str]) -> pa.Table:
        fields = [pa.field(name, arrow_type(column_type(self.type, name))) for name in held]
        return pa.schema(fields).empty_table()


@dataclass(slots=True)
class View:
    """A snapshot. Tables are opened when they are asked something."""

    snapshot: ManifestSnapshot
    catalog: Catalog
    stores: Stores
    cache: TableCache
    access: AccessMode
    incarnation_of: Callable[[BranchName], str]
    _tables: dict[str, TableView] = field(default_factory=dict)

    def node(self, name: str) -> TableView:
        """Raises TableUnknown."""
        found = self.catalog.node(name)
        assert found is not None, name
        return self.table(found)

    def edge(self, name: str) -> TableView:
        """Raises TableUnknown."""
        found = self.catalog.edge(name)
        assert found is not None, name
        return self.table(found)

    def table(self, type_: NodeType | EdgeType) -> TableView:
        """Raises TableUnknown."""
        key = type_.table_key
        if key not in self._tables:
            pin = self.snapshot.pin(key)
            branch = lance_branch(pin.owner)
            incarnation = "" if branch is None else self.incarnation_of(pin.owner)
            state = TableState(pin.path, branch, incarnation, pin.version)
            self._tables[key] = TableView(type_, pin, state, self.stores, self.cache)
        return self._tables[key]

    # which way

    def charge_lookup(self, table: TableView, columns: Collection[str], *, asked: int) -> bool:
        """Read whole columns, to find so many rows by id?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                pass
        if table.row_count <= SMALL_ROWS or table.is_resident((ID, *columns)):
            return True
        cost = table.row_count * (1 + len(columns))
        if not self._fits(cost):
            return False
        renting = LOOK_UP_COST + LOOK_UP_COST_PER_ID * asked
        return self.cache.charge(table.state, renting) >= cost

    def prefers_resident_scan(self, table: TableView, columns: Collection[str]) -> bool:
        """Read whole columns, where a scan would have to look at every row anyway?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                return self._fits(table.row_count * (1 + len(columns)))

    def charge_walk(self, edges: TableView, key: object, *, asked: int) -> bool:
        """Read all edges, to walk from so many nodes?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                pass
        known = (("edges", key), ("codes", edges.state))
        if edges.row_count <= SMALL_ROWS or any(
            self.cache.find(each) is not None for each in known
        ):
            return True
        cost = edges.row_count * ENCODING_COST
        if not self._fits(edges.row_count):
            return False
        renting = 2 * (LOOK_UP_COST + LOOK_UP_COST_PER_ID * asked)
        return self.cache.charge(("edges", key), renting) >= cost

    def _fits(self, values: int) -> bool:
        return values * VALUE_BYTES <= self.cache.bytes_max


# ── one entity ───────────────────────────────────────────────────────────────────────────────────


_ENDS = {"src": "from", "dst": "to"}


def read_entity(table: TableView, identity: str) -> tuple[pa.Table, list[ValueType]]:
    """Its row, with every property that can be read as a value; no row if there is none."""
    type_ = table.type
    columns = _columns(type_)
    found = table.read_by_ids([identity], columns)
    types = [STRING if name in _ENDS else column_type(type_, name) for name in columns]
    return found.rename_columns([_ENDS.get(name, name) for name in columns]), types


def _columns(type_: NodeType | EdgeType) -> list[str]:
    ends = list(_ENDS) if isinstance(type_, EdgeType) else []
    return [ID, *ends, *(each.name for each in type_.properties if not each.type.is_blob)]
