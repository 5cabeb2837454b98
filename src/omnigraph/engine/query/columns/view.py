"""One snapshot as tables to read.

A snapshot names table versions, and a version never changes, so concurrent writers have no effect.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import ref

import pyarrow as pa

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.names import spelling_of
from omnigraph.catalog.types import ValueType, Vector
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, open_pin
from omnigraph.compiler.ir import STRING
from omnigraph.engine.query.columns.rows import ID, ResidentRows, column_file
from omnigraph.engine.query.columns.table_cache import Item, TableCache, TableState
from omnigraph.engine.settings import AccessMode
from omnigraph.engine.tables import filters, metered
from omnigraph.engine.tables.arrays import Array, nulls
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.tables.memory import Sized
from omnigraph.ids import BranchName, lance_branch
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, ScanRequest, Tables

SMALL_ROWS: Final = 20_000
"""Reading a table of so many rows takes about as long as one or two look-ups."""

LOOK_UP_COST: Final = 100_000
"""The cost of one call to an index, in values that a scan reads in the same time."""

LOOK_UP_COST_PER_ID: Final = 600
LOOK_UP_COST_PER_ROW: Final = 100

FEW_IDS: Final = 16
"""The first look-up of so few ids never reads a whole table: its texts may be long."""

ENCODING_COST: Final = 12
"""The cost of resolving both ends of an edge, in values that a scan reads."""

VALUE_BYTES: Final = 16
"""The estimated bytes of a value that was not read yet."""

BATCH_ROWS: Final = 1 << 16

KNOWN_MAX: Final = 4_096
"""For so many operators a view keeps what they worked out."""


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
        self._folder: str | None = None

    @property
    def tables(self) -> Tables:
        return self._stores.tables

    @property
    def row_count(self) -> int:
        return self.pin.row_count

    @property
    def handle(self) -> Handle:
        self._cache.grown = True  # a caller with a handle reads, and may add to the cache
        return self._cache.handle(self.state, lambda: open_pin(self._stores, self.pin))

    # the whole table

    @property
    def resident(self) -> ResidentRows:
        """The rows of the whole table; the same object while this view lives, even if evicted."""
        if self._resident is None:
            self._resident = self._cache.get_or_build(self.state, self._make_resident)
        return self._resident

    def _make_resident(self) -> ResidentRows:
        before = self._cache.succeed(self.state)
        if before is None or not isinstance(before[0], ResidentRows):
            return ResidentRows(self.row_count, self.read, self.kept)
        # Weakly: each version would hold on to all versions before it.
        rows, handle = ref(before[0]), before[1]
        return ResidentRows(
            self.row_count,
            lambda columns: self._read_added(rows(), handle, columns) or self.read(columns),
            self.kept,
        )

    def _read_added(
        self, before: ResidentRows | None, known: Handle, columns: Sequence[str]
    ) -> pa.Table | None:
        """All rows, of which those of an earlier version are at hand and the others are read.

        None unless this version has all fragments of the earlier one, unchanged, before its own.
        """
        if before is None or not before.has(columns):
            return None
        tables, handle = self.tables, self.handle
        old, now = tables.find_fragments(known), tables.find_fragments(handle)
        numbers = tables.find_field_numbers(handle)
        is_longer = len(now) > len(old) > 0 and now[: len(old)] == old
        is_alike = tables.find_field_numbers(known) == numbers and numbers.keys() >= set(columns)
        if not is_longer or not is_alike:
            return None
        added = tuple(each.fragment_id for each in now[len(old) :])
        request = ScanRequest(columns=tuple(columns), fragment_ids=added)
        fresh = metered.read(tables, handle, request)
        held = [before.column(name) for name in columns]
        if [each.type for each in held] != [fresh[name].type for name in columns]:
            return None
        return pa.table(
            {
                name: pa.chunked_array([column, *fresh[name].chunks])
                for name, column in zip(columns, held, strict=True)
            }
        )

    def is_resident(self, columns: Collection[str]) -> bool:
        """Are these columns read, or at hand without a read?"""
        found = self._resident or self._cache.find(self.state)
        if isinstance(found, ResidentRows) and found.has(columns):
            return True
        return bool(columns) and all(self.is_kept(column_file(each)) for each in columns)

    # files beside the table

    def kept(self, name: str) -> Mapping[str, Array] | None:
        mapped = self._stores.mapped
        return None if mapped is None else mapped.read(self.folder, name)

    def is_kept(self, name: str) -> bool:
        mapped = self._stores.mapped
        return mapped is not None and mapped.has(self.folder, name)

    def keep(self, name: str, arrays: Mapping[str, Array]) -> None:
        if self._stores.mapped is not None:
            self._stores.mapped.write(self.folder, name, arrays)

    @property
    def folder(self) -> str:
        """The folder of the mapped files of this state; empty if it has none."""
        if self._folder is None:
            mapped, state = self._stores.mapped, self.state
            known = mapped and mapped.folder_of(state.path, state.branch, state.version)
            self._folder = known or ""
        return self._folder

    def read(self, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """Columns of all rows, or of the rows that pass a filter."""
        handle = self.handle
        held = self._held(handle, columns)
        if where == filters.NOTHING or not self.row_count:
            return self._complete(self._empty(held), columns)
        table = metered.read(self.tables, handle, ScanRequest(columns=held, where=where))
        return self._complete(table, columns)

    # parts of the table

    def scan(self, columns: Sequence[str], where: str | None) -> Iterator[pa.Table]:
        """The rows that pass a filter, batch by batch."""
        if where == filters.NOTHING or not self.row_count:
            return
        handle = self.handle
        held = self._held(handle, columns)
        request = ScanRequest(columns=held, where=where, batch_rows_max=BATCH_ROWS)
        for batch in metered.scan(self.tables, handle, request):
            yield self._complete(pa.Table.from_batches([batch]), columns)

    def read_by_ids(self, ids: Collection[str], columns: Sequence[str]) -> pa.Table:
        return self.read_by(ID, ids, columns)

    def pick_by_ids(self, ids: Collection[str], columns: Sequence[str]) -> pa.Table:
        """The same rows, out of whole columns."""
        resident = self.resident
        resident.load_to_find(columns)
        at = resident.find(pa.array(ids, pa.string()))
        at = at[at >= 0]
        return pa.table({name: resident.take(name, at) for name in columns})

    def read_by(self, column: str, values: Collection[str], columns: Sequence[str]) -> pa.Table:
        """The rows whose column holds one of these texts."""
        listed = list(dict.fromkeys(values))
        parts = []
        for at in range(0, len(listed), filters.VALUES_MAX):
            some = listed[at : at + filters.VALUES_MAX]
            parts.append(self.read(columns, filters.one_of(column, STRING, some)))
        return pa.concat_tables(parts) if parts else self.read(columns, filters.NOTHING)

    # columns that a past version of the table lacks

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
    """A snapshot. A table is opened when it is first read."""

    snapshot: ManifestSnapshot
    catalog: Catalog
    stores: Stores
    cache: TableCache
    access: AccessMode
    incarnation_of: Callable[[BranchName], str]
    _tables: dict[str, TableView] = field(default_factory=dict)
    _nodes: dict[str, TableView] = field(default_factory=dict)
    _edges: dict[str, TableView] = field(default_factory=dict)
    _walked: dict[Hashable, Sized] = field(default_factory=dict)
    _known: dict[tuple[str, int], tuple[object, object]] = field(default_factory=dict)

    @property
    def pins(self) -> object:
        return self.snapshot.pins

    def entries(self) -> Iterable[Hashable]:
        return [each.state for each in [*self._tables.values()]] + list(self._walked)

    def node(self, name: str) -> TableView:
        """Raises TableUnknown."""
        known = self._nodes.get(name)
        if known is not None:
            return known
        found = self.catalog.node(name)
        assert found is not None, name
        self._nodes[name] = self.table(found)
        return self._nodes[name]

    def edge(self, name: str) -> TableView:
        """Raises TableUnknown."""
        known = self._edges.get(name)
        if known is not None:
            return known
        found = self.catalog.edge(name)
        assert found is not None, name
        self._edges[name] = self.table(found)
        return self._edges[name]

    # what reads of one snapshot need not work out again

    def remember(self, kind: str, operator: object, worked_out: object) -> None:
        """Keep what an operator worked out for this snapshot, for the next run of its plan."""
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        # The entry holds the operator, so no other gets its identity.
        self._known[kind, id(operator)] = operator, worked_out

    def remembered(self, kind: str, operator: object) -> Any:
        """None if nothing is kept."""
        found = self._known.get((kind, id(operator)))
        return None if found is None else found[1]

    def walked(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """An entry of the cache that walks use, at hand as long as the view lives."""
        found: Any = self._walked.get(key)
        if found is None:
            found = self._walked[key] = self.cache.get_or_build(key, make)
        return found  # type: ignore[no-any-return]

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

    # choosing between an index and whole columns

    def prefers_resident(self, table: TableView, columns: Collection[str], *, asked: int) -> bool:
        """Would reading whole columns be cheaper than looking up `asked` more ids?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                pass
        if table.row_count <= SMALL_ROWS or table.is_resident((ID, *columns)):
            return True
        cost = table.row_count * (1 + self._width(table, columns))
        if not self.fits(cost):
            return False
        charged = self.cache.charged(table.state)
        if not charged and asked <= FEW_IDS:
            return False
        return charged + _look_up_cost(asked, asked) >= cost

    def charge_lookup(self, table: TableView, *, asked: int) -> None:
        self.cache.charge(table.state, _look_up_cost(asked, asked))

    def prefers_resident_scan(self, table: TableView, columns: Collection[str]) -> bool:
        """Should a scan of every row read and cache whole columns?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                return self.fits(table.row_count * (1 + len(columns)))

    def prefers_resident_walk(self, walk: "EdgeView", *, asked: int) -> bool:
        """Would reading all edges be cheaper than looking up those of `asked` more nodes?"""
        match self.access:
            case AccessMode.RESIDENT:
                return True
            case AccessMode.INDEXED:
                return False
            case AccessMode.AUTO:
                pass
        edges = walk.edges
        known = (("edges", walk.key), ("codes", edges.state))
        if (
            edges.row_count <= SMALL_ROWS
            or any(self.cache.find(each) is not None for each in known)
            or edges.is_kept(walk.file)
        ):
            return True
        if not self.fits(edges.row_count):
            return False
        expected = _look_up_cost(asked, round(asked * walk.mean_degree))
        charged = self.cache.charged(("edges", walk.key))
        if not charged and asked <= FEW_IDS:
            return False
        return charged + expected >= edges.row_count * ENCODING_COST + walk.node_count

    def charge_walk(self, walk: "EdgeView", *, asked: int, found: int) -> None:
        """Charge look-ups that found so many edges of `asked` nodes."""
        self.cache.charge(("edges", walk.key), _look_up_cost(asked, found))

    def _width(self, table: TableView, columns: Collection[str]) -> int:
        """How many values a row has; a vector counts as many as its bytes are worth."""
        bases = (column_type(table.type, name).base for name in columns)
        return sum(
            max(1, 4 * base.dimension // VALUE_BYTES) if isinstance(base, Vector) else 1
            for base in bases
        )

    def fits(self, values: int) -> bool:
        """Can so many values be cached?"""
        return values * VALUE_BYTES <= self.cache.bytes_max


@dataclass(frozen=True, slots=True)
class EdgeView:
    """The edges that one walk follows, and the nodes at both ends."""

    edges: TableView
    source: TableView
    target: TableView
    near: TableView
    """The end that the walk starts from."""

    @property
    def far(self) -> TableView:
        """The end that it leads to."""
        return self.source if self.near is self.target else self.target

    @property
    def key(self) -> tuple[object, ...]:
        return (self.edges.state, self.source.state, self.target.state)

    @property
    def file(self) -> str:
        """The name of the mapped file of these edges, beside the table of the edges."""
        return f"edges {self.source.folder} {self.target.folder}"

    @property
    def node_count(self) -> int:
        return self.source.row_count + self.target.row_count

    @property
    def mean_degree(self) -> float:
        """How many edges of this kind a near node has on average."""
        return self.edges.row_count / max(1, self.near.row_count)


def _look_up_cost(asked: int, found: int) -> int:
    calls = -(-asked // filters.VALUES_MAX)
    return calls * LOOK_UP_COST + asked * LOOK_UP_COST_PER_ID + found * LOOK_UP_COST_PER_ROW


# ── one entity ───────────────────────────────────────────────────────────────────────────────────


_ENDS = {"src": "from", "dst": "to"}


def read_entity(table: TableView, identity: str) -> tuple[pa.Table, list[ValueType]]:
    """The row of an id with every property but blobs; no row if the id is missing."""
    type_ = table.type
    columns = _columns(type_)
    found = table.read_by_ids([identity], columns)
    types = [STRING if name in _ENDS else column_type(type_, name) for name in columns]
    called = {ID: type_.id_name, **_ENDS}
    return found.rename_columns([called.get(name) or spelling_of(name) for name in columns]), types


def _columns(type_: NodeType | EdgeType) -> list[str]:
    ends = list(_ENDS) if isinstance(type_, EdgeType) else []
    return [ID, *ends, *(each.name for each in type_.properties if not each.type.is_blob)]
