"""What one write has decided so far: for each table, the rows to write and the rows to delete.

1. A row is pending at most once. Writing it again replaces it, so no later statement can match or
   restore a superseded version.
2. An existing row is replaced in place, by its row ref. Refs are found as late as possible, in one
   scan per table together with the search for unique values (`find_existing`). A row that a
   statement had to read already has its ref.
3. An id is pending or gone, never both. A step of a transaction may write a row that an earlier
   step deleted: the row then replaces the committed one. A step may delete a row that an earlier
   step wrote: a new row is forgotten, a committed one is gone.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.change import Stage, TableWrite
from omnigraph.commit.manifest.records import RowCounts
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.tables.columns import build_table
from omnigraph.engine.write.base_rows import BaseRows, FoundRow, RowRef, Type, text_of
from omnigraph.engine.write.validate import Delta
from omnigraph.engine.write.violations import Violation
from omnigraph.errors import KeyConflict
from omnigraph.ids import TableKey, split_table_key
from omnigraph.storage.tables import Handle, Mark, Replacement, RowChanges, Staged, Tables


@dataclass(frozen=True, slots=True)
class Affected:
    """How many nodes and edges a write affected, as reported to the caller."""

    nodes: int = 0
    edges: int = 0

    def __add__(self, other: "Affected") -> "Affected":
        return Affected(self.nodes + other.nodes, self.edges + other.edges)


def affected(type_: Type, count: int) -> Affected:
    return Affected(nodes=count) if isinstance(type_, NodeType) else Affected(edges=count)


_UNKNOWN: Final = RowRef(-1, -1)
"""Stands for the ref of a pending row that was not looked up."""


@dataclass(slots=True)
class PendingTable:
    """The decisions about one table."""

    type: Type
    rows: dict[str, Row] = field(default_factory=dict)
    """(1) The rows to write, whole, by id."""
    refs: dict[str, RowRef | None] = field(default_factory=dict)
    """(2) The ref of the committed row; None for a new row; absent if not looked up yet."""
    fresh: set[str] = field(default_factory=set)
    """Ids of pending rows that must not exist yet."""
    gone: dict[str, RowRef] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    """The sources of edges that are deleted or get another source."""
    rivals: list[FoundRow] = field(default_factory=list)
    """Committed rows that share an id or a unique value with a pending one."""

    def write(self, row: Row, *, is_new: bool = False) -> None:
        identity = text_of(row, "id")
        self.rows[identity] = row
        if identity in self.gone:  # (3)
            self.refs[identity] = self.gone.pop(identity)
        if is_new:
            self.refs[identity] = None

    def rewrite(self, found: FoundRow, row: Row) -> None:
        self.write(row)
        self.refs[found.id] = found.ref

    def insert(self, row: Row, *, is_new: bool) -> None:
        """Write a row that must not exist. Raises KeyConflict if it is pending already."""
        identity = text_of(row, "id")
        if identity in self.rows:
            raise self._conflict([identity])
        if identity not in self.gone:
            self.fresh.add(identity)
        self.write(row, is_new=is_new)

    def delete(self, found: Iterable[FoundRow]) -> list[str]:
        """Delete committed rows; return the ids of those that were neither replaced nor gone."""
        doomed = [each for each in found if each.id not in self.gone and each.id not in self.rows]
        for each in doomed:
            self._remove(each)
        return [each.id for each in doomed]

    def delete_pending(self, ids: Collection[str], committed: BaseRows) -> list[str]:
        """(3) Delete pending rows and the committed rows they replace; return the deleted ids.

        Raises KeyConflict for a committed row that an earlier step inserted as new.
        """
        doomed = [each for each in ids if each in self.rows]
        columns = ("src",) if isinstance(self.type, EdgeType) else ()
        wanted = [each for each in doomed if self.refs.get(each, _UNKNOWN) is not None]
        replaced = committed.find_by_id(self.type, wanted, columns) if wanted else []
        if taken := sorted(each.id for each in replaced if each.id in self.fresh):
            raise self._conflict(taken)
        for each in doomed:
            row = self.rows.pop(each)
            self.refs.pop(each, None)
            self.fresh.discard(each)
            if isinstance(self.type, EdgeType):
                self.left.add(text_of(row, "src"))
        for found in replaced:
            self._remove(found)
        return doomed

    def _remove(self, found: FoundRow) -> None:
        self.gone[found.id] = found.ref
        if isinstance(self.type, EdgeType):
            self.left.add(text_of(found.row, "src"))

    def check_fresh(self) -> None:
        """Raises KeyConflict if rows that must be new are committed."""
        if taken := sorted(each for each in self.fresh if self.refs[each] is not None):
            raise self._conflict(taken)

    def _conflict(self, ids: list[str]) -> KeyConflict:
        kind, name = split_table_key(self.type.table_key)
        return KeyConflict(name, ids=ids, kind=kind)

    def adopt(self, other: "PendingTable") -> None:
        """Take over the decisions of another write about other rows."""
        self.rows |= other.rows
        self.refs |= other.refs
        self.gone |= other.gone
        self.left |= other.left

    @property
    def delta(self) -> Delta:
        return Delta(self.type, self.rows, self.gone.keys(), self.left)

    def find_existing(self, committed: BaseRows) -> None:
        """(2) Find the committed rows that pending rows replace or share a unique value with."""
        unlocated = self.rows.keys() - self.refs.keys()
        self.rivals = committed.find_rivals(self.type, self.rows.values(), unlocated)
        found = {each.id: each for each in self.rivals}
        for identity in unlocated:
            there = found.get(identity)
            self.refs[identity] = None if there is None else there.ref
            if there is not None and isinstance(self.type, EdgeType):
                self._record_move(there)

    def _record_move(self, before: FoundRow) -> None:
        source = text_of(before.row, "src")
        if self.rows[before.id]["src"] != source:
            self.left.add(source)

    @property
    def counts(self) -> RowCounts:
        """The rows that the table gains, replaces and loses, once `find_existing` has run."""
        inserted = sum([self.refs[key] is None for key in self.rows])
        return RowCounts(inserted, len(self.rows) - inserted, len(self.gone))

    def changes(self) -> RowChanges:
        located = [(self.refs[key], row) for key, row in self.rows.items()]
        inserts = [row for ref, row in located if ref is None]
        updates = [(ref, row) for ref, row in located if ref is not None]
        return RowChanges(
            inserts=build_table(self.type, inserts) if inserts else None,
            updates=Replacement(
                build_table(self.type, [row for _, row in updates]),
                row_ids=[ref.row_id for ref, _ in updates],
                row_addresses=[ref.row_address for ref, _ in updates],
            )
            if updates
            else None,
            deletes=[ref.row_address for ref in self.gone.values()],
        )


class Pending:
    """The decisions about a branch. Implements `validate.Before` for the committed rows."""

    def __init__(self, catalog: Catalog, committed: BaseRows, new_id: Callable[[], str]) -> None:
        self.catalog = catalog
        self.committed = committed
        self.new_id = new_id
        self.violations: list[Violation] = []
        """Values that do not fit their column."""
        self._tables: dict[TableKey, PendingTable] = {}

    def table(self, type_: Type) -> PendingTable:
        found = self._tables.get(type_.table_key)
        if found is None:
            found = self._tables[type_.table_key] = PendingTable(type_)
        return found

    def adopt(self, tables: Iterable[PendingTable]) -> None:
        """Take over the decisions of another write, once they are valid, about other rows."""
        for table in tables:
            self.table(table.type).adopt(table)

    def find_existing(self) -> None:
        """(2) Find the committed rows that pending rows replace or share a unique value with."""
        for table in self.tables():
            if table.rows:
                table.find_existing(self.committed)

    def check_fresh(self) -> None:
        """Raises KeyConflict if a row that must be new exists."""
        for table in self.tables():
            table.check_fresh()

    def tables(self) -> list[PendingTable]:
        """The tables that change, in key order."""
        changing = [each for each in self._tables.values() if each.rows or each.gone]
        if len(changing) > 1:
            changing.sort(key=lambda each: each.type.table_key)
        return changing

    def deltas(self) -> list[Delta]:
        return [each.delta for each in self.tables()]

    def writes(self, tables: Tables) -> tuple[TableWrite, ...]:
        """One commit for each table that changes."""
        return tuple(
            TableWrite(
                table.type.table_key,
                self.committed.version_of(table.type),
                (_stage(tables, table.changes()),),
            )
            for table in self.tables()
        )

    def counts(self) -> dict[TableKey, RowCounts]:
        return {each.type.table_key: each.counts for each in self.tables()}

    # validate.Before

    def find_ids(self, node: str, ids: Collection[str]) -> Collection[str]:
        return self.committed.find_ids(self._node(node), ids)

    def find_holders(self, delta: Delta) -> Iterable[Row]:
        return [each.row for each in self.table(delta.type).rivals]

    def find_edges(self, edge: EdgeType, sources: Collection[str]) -> Iterable[tuple[str, str]]:
        found = self.committed.find_at(edge, sources=sources, targets=())
        return [(each.id, text_of(each.row, "src")) for each in found]

    def _node(self, name: str) -> NodeType:
        node = self.catalog.node(name)
        assert node is not None, "the ends of an edge are node types"
        return node


def _stage(tables: Tables, changes: RowChanges) -> Stage:
    def stage(handle: Handle, mark: Mark) -> Staged:
        return tables.stage_rows(handle, changes, mark)

    return stage
