"""The rows that the members of a group look up: committed rows, and those of earlier members.

1. *One look per table.* While `is_recording`, a look-up that no scan has answered is noted and
   finds nothing. `fetch` then reads all noted look-ups of a table in one scan. The members run
   again, until no look-up is noted: one scan for a column of ids, whatever the number of members.
2. A look-up that was never noted reads the table itself. Noting saves scans, never answers.
3. *Earlier members.* A member sees the branch as the members before it left it: their rows instead
   of the committed ones (`absorb`). An entity belongs to one member of a group, so a row of an
   earlier member is only read, or the group ends before the member that would touch it (D29).
4. *Trials.* What a member decides depends only on the answers of its look-ups. So a member that ran
   while look-ups were noted need not run again if each `AnsweredLookup` still has its answer.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from omnigraph.catalog.model import EdgeType
from omnigraph.commit.manifest.model import Manifest, Pin
from omnigraph.compiler.ir import Predicate, Scalarish
from omnigraph.engine.tables.cells import Cell, Row
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.write.base_rows import (
    BaseRows,
    FoundRow,
    RowRef,
    Type,
    identity_for,
    satisfies,
    text_of,
    uniques_of,
)
from omnigraph.engine.write.pending import PendingTable
from omnigraph.ids import TableKey
from omnigraph.storage.tables import Handle, Tables

EARLIER: Final = RowRef(-2, -2)
"""Stands for the place of a row that an earlier member wrote. It is never written."""

_Slot = tuple[TableKey, frozenset[str]]
"""A table, and the blobs that its look-ups read."""

RivalKey = tuple[str | None, tuple[Cell, ...]]
"""The id of a row whose place is looked for, or None; and its values of unique columns."""


@dataclass(frozen=True, slots=True)
class AnsweredLookup:
    """(4) A look-up of a member, and the answer that it got."""

    ask: Callable[[], list[FoundRow]]
    answer: list[FoundRow]


@dataclass(slots=True)
class _IdLookups:
    """Look-ups by id of one table, with the same treatment of columns."""

    columns: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    found: dict[str, FoundRow] = field(default_factory=dict)
    noted: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _RivalLookups:
    known: set[RivalKey] = field(default_factory=set)
    found: dict[str, FoundRow] = field(default_factory=dict)
    noted: dict[RivalKey, Row] = field(default_factory=dict)


@dataclass(slots=True)
class _EdgeLookups:
    sources: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    found: dict[str, FoundRow] = field(default_factory=dict)
    noted_sources: set[str] = field(default_factory=set)
    noted_targets: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Earlier:
    """(3) What earlier members did to one table."""

    rows: dict[str, Row] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    holders: dict[tuple[Cell, ...], list[str]] = field(default_factory=lambda: defaultdict(list))
    """The ids of rows by their values of unique columns, led by the names of the columns."""
    at: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """The ids of edges by column, `src` or `dst`, and node."""

    def add(self, type_: Type, rows: Iterable[Row], gone: Iterable[str]) -> None:
        for row in rows:
            identity = text_of(row, "id")
            self.rows[identity] = row
            self.touched.add(identity)
            for key in _unique_values(type_, row):
                self.holders[key].append(identity)
            if isinstance(type_, EdgeType):
                for column in ("src", "dst"):
                    self.at[column, text_of(row, column)].append(identity)
        self.touched.update(gone)

    def find(self, ids: Iterable[str]) -> list[FoundRow]:
        rows = self.rows
        return [FoundRow(EARLIER, rows[each]) for each in ids if each in rows]


class GroupRows(BaseRows):
    """The tables of one branch, as each member of a group sees them in its turn."""

    def __init__(
        self, tables: Tables, manifest: Manifest, open_pin: Callable[[Pin], Handle]
    ) -> None:
        super().__init__(tables, manifest, open_pin)
        self.is_recording = False
        self._traced: list[AnsweredLookup] | None = None
        self._ids: defaultdict[_Slot, _IdLookups] = defaultdict(_IdLookups)
        self._slots: dict[tuple[TableKey, tuple[str, ...]], _Slot] = {}
        """By table and columns of a look-up, where its answers are."""
        self._rivals: defaultdict[TableKey, _RivalLookups] = defaultdict(_RivalLookups)
        self._edges: defaultdict[TableKey, _EdgeLookups] = defaultdict(_EdgeLookups)
        self._types: dict[TableKey, Type] = {}
        self._earlier: defaultdict[TableKey, _Earlier] = defaultdict(_Earlier)
        self._scans: dict[tuple[TableKey, tuple[str, ...], tuple[str, ...]], list[FoundRow]] = {}

    # earlier members

    def absorb(self, tables: Iterable[PendingTable]) -> None:
        """(3) The members after this one see what it wrote."""
        for table in tables:
            key = table.type.table_key
            self._earlier[key].add(table.type, table.rows.values(), table.gone)

    def is_touched(self, tables: Iterable[PendingTable]) -> bool:
        """Does a write touch an entity that an earlier member touched?"""
        for table in tables:
            touched = self._earlier[table.type.table_key].touched
            if not (touched.isdisjoint(table.rows) and touched.isdisjoint(table.gone)):
                return True
        return False

    # look-ups

    def begin_trace(self) -> list[AnsweredLookup]:
        """(4) The look-ups that are made from now on, as they are made."""
        self._traced = []
        return self._traced

    def end_trace(self) -> None:
        self._traced = None

    def _trace(self, ask: Callable[[], list[FoundRow]]) -> list[FoundRow]:
        answer = ask()
        if self._traced is not None:
            self._traced.append(AnsweredLookup(ask, answer))
        return answer

    def find_matches(
        self, type_: Type, where: Predicate, value: Scalarish, columns: Collection[str]
    ) -> list[FoundRow]:
        if identity_for(type_, where, value) is not None:
            return super().find_matches(type_, where, value, columns)  # by id
        return self._trace(partial(self._find_matches, type_, where, value, tuple(columns)))

    def _find_matches(
        self, type_: Type, where: Predicate, value: Scalarish, columns: Collection[str]
    ) -> list[FoundRow]:
        earlier = self._earlier[type_.table_key]
        found = super().find_matches(type_, where, value, columns)
        matching = [
            identity
            for identity, row in earlier.rows.items()
            if satisfies(row[where.column], where.comparator, value)
        ]
        rest = [each for each in found if each.id not in earlier.touched]
        return [*rest, *earlier.find(matching)]

    def find_by_id(
        self, type_: Type, ids: Collection[str], columns: Collection[str]
    ) -> list[FoundRow]:
        return self._trace(partial(self._find_by_id, type_, tuple(ids), tuple(columns)))

    def _find_by_id(
        self, type_: Type, ids: tuple[str, ...], columns: tuple[str, ...]
    ) -> list[FoundRow]:
        earlier = self._earlier[type_.table_key]
        lookups = self._lookups_of(type_, columns)
        rest = [each for each in ids if each not in earlier.touched] if earlier.touched else ids
        if lookups.known.issuperset(rest) and lookups.columns.issuperset(columns):
            found = [lookups.found[each] for each in rest if each in lookups.found]
        elif self.is_recording:
            lookups.columns.update(columns)
            lookups.noted.update(rest)
            found = []
        else:
            found = super().find_by_id(type_, rest, columns)  # (2)
        return found if len(rest) == len(ids) else [*found, *earlier.find(ids)]

    def _lookups_of(self, type_: Type, columns: tuple[str, ...]) -> _IdLookups:
        """Look-ups of a table share their columns, but bytes of blobs are read only if wanted."""
        slot = self._slots.get((type_.table_key, columns))
        if slot is None:
            self._types[type_.table_key] = type_
            blobs = frozenset(each for each in columns if column_type(type_, each).is_blob)
            slot = self._slots[type_.table_key, columns] = type_.table_key, blobs
        return self._ids[slot]

    def find_rivals(
        self, type_: Type, rows: Collection[Row], unlocated: Collection[str]
    ) -> list[FoundRow]:
        if not uniques_of(type_):
            return super().find_rivals(type_, rows, unlocated)  # by id
        return self._trace(partial(self._find_sharing, type_, tuple(rows), frozenset(unlocated)))

    def _find_sharing(
        self, type_: Type, rows: Collection[Row], unlocated: Collection[str]
    ) -> list[FoundRow]:
        earlier = self._earlier[type_.table_key]
        found = self._find_committed_rivals(type_, rows, unlocated)
        sharing = {
            identity
            for row in rows
            for key in _unique_values(type_, row)
            for identity in earlier.holders.get(key, ())
        }
        rest = [each for each in found if each.id not in earlier.touched]
        return [*rest, *earlier.find(sharing.union(unlocated))]

    def _find_committed_rivals(
        self, type_: Type, rows: Collection[Row], unlocated: Collection[str]
    ) -> list[FoundRow]:
        self._types[type_.table_key] = type_
        lookups = self._rivals[type_.table_key]
        wanted = {_rival_key(type_, row, unlocated): row for row in rows}
        if lookups.known.issuperset(wanted):
            return [*lookups.found.values()]
        if not self.is_recording:
            return super().find_rivals(type_, rows, unlocated)  # (2)
        lookups.noted.update(wanted)
        return []

    def find_at(
        self,
        edge: EdgeType,
        *,
        sources: Collection[str],
        targets: Collection[str],
        columns: tuple[str, ...] = ("src",),
    ) -> list[FoundRow]:
        return self._trace(partial(self._find_at, edge, tuple(sources), tuple(targets), columns))

    def _find_at(
        self,
        edge: EdgeType,
        sources: Collection[str],
        targets: Collection[str],
        columns: tuple[str, ...],
    ) -> list[FoundRow]:
        earlier = self._earlier[edge.table_key]
        found = self._find_committed_at(edge, sources, targets, columns)
        at = [identity for each in sources for identity in earlier.at.get(("src", each), ())]
        at += [identity for each in targets for identity in earlier.at.get(("dst", each), ())]
        rest = [each for each in found if each.id not in earlier.touched]
        return [*rest, *earlier.find(dict.fromkeys(at))]

    def _find_committed_at(
        self,
        edge: EdgeType,
        sources: Collection[str],
        targets: Collection[str],
        columns: tuple[str, ...],
    ) -> list[FoundRow]:
        self._types[edge.table_key] = edge
        lookups = self._edges[edge.table_key]
        if lookups.sources.issuperset(sources) and lookups.targets.issuperset(targets):
            return [
                each
                for each in lookups.found.values()
                if each.row["src"] in sources or each.row["dst"] in targets
            ]
        if not self.is_recording:
            return super().find_at(edge, sources=sources, targets=targets, columns=columns)  # (2)
        lookups.noted_sources.update(sources)
        lookups.noted_targets.update(targets)
        return []

    # reading

    def _find(
        self,
        type_: Type,
        parts: Sequence[str],
        columns: Collection[str],
        among: Mapping[str, Collection[str]] | None = None,
    ) -> list[FoundRow]:
        """The same scan is done once: a member runs several times until it is decided."""
        scan = type_.table_key, tuple(parts), tuple(columns)
        if scan not in self._scans:
            self._scans[scan] = super()._find(type_, parts, columns, among)
        return self._scans[scan]

    def fetch(self) -> bool:
        """(1) Read what was noted, one scan per table and kind of look-up. False if nothing was."""
        noted = [
            self._fetch_ids(),
            self._fetch_rivals(),
            self._fetch_edges(),
        ]
        return any(noted)

    def _fetch_ids(self) -> bool:
        wanted = [(key, each) for (key, _), each in self._ids.items() if each.noted]
        for key, lookups in wanted:
            # Earlier ids are read again: a look-up may have wanted more columns since.
            lookups.known |= lookups.noted
            lookups.noted = set()
            found = super().find_by_id(self._types[key], lookups.known, lookups.columns)
            lookups.found = {each.id: each for each in found}
        return bool(wanted)

    def _fetch_rivals(self) -> bool:
        wanted = [(key, each) for key, each in self._rivals.items() if each.noted]
        for key, lookups in wanted:
            rows = [*lookups.noted.values()]
            unlocated = [identity for identity, _ in lookups.noted if identity is not None]
            found = super().find_rivals(self._types[key], rows, unlocated)
            lookups.found.update({each.id: each for each in found})
            lookups.known.update(lookups.noted)
            lookups.noted = {}
        return bool(wanted)

    def _fetch_edges(self) -> bool:
        wanted = [
            (key, each)
            for key, each in self._edges.items()
            if each.noted_sources or each.noted_targets
        ]
        for key, lookups in wanted:
            edge = self._types[key]
            assert isinstance(edge, EdgeType), "only edges have ends"
            found = super().find_at(
                edge,
                sources=lookups.noted_sources,
                targets=lookups.noted_targets,
                columns=("src", "dst"),
            )
            lookups.found.update({each.id: each for each in found})
            lookups.sources |= lookups.noted_sources
            lookups.targets |= lookups.noted_targets
            lookups.noted_sources, lookups.noted_targets = set(), set()
        return bool(wanted)


def _unique_values(type_: Type, row: Row) -> list[tuple[Cell, ...]]:
    """The values that no other row may hold, each led by the names of its columns."""
    found = [(group, *map(row.get, group)) for group in uniques_of(type_)]
    return [each for each in found if None not in each]


def _rival_key(type_: Type, row: Row, unlocated: Collection[str]) -> RivalKey:
    identity = text_of(row, "id")
    values = tuple(row.get(name) for group in uniques_of(type_) for name in group)
    return (identity if identity in unlocated else None), values
