"""The difference between two snapshots, entity by entity.

1. Changes are ordered: tables by key, then rows by id. They do not depend on storage: a row that
   was moved, or written again unchanged, did not change.
2. A change has the whole row before and after; an edge has its ends.
3. A diff holds row refs for all changes. Rows are read in portions, as the caller iterates.
4. Each side is read with the schema of its time. If the columns of a type differ between the two
   sides, the diff is refused, because their rows are not comparable. If one side lacks a type, all
   its rows are inserted or deleted.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, family_of
from omnigraph.commit.manifest.model import Pin, is_same_version
from omnigraph.commit.manifest.records import Commit, JsonObject, RowCounts, Touched
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.history.images import read_rows, spell_properties
from omnigraph.engine.history.table_diff import Difference, find_difference
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.tables.row_refs import RowRefs, Type, fetch, portions
from omnigraph.errors import ChangesRefused, TypeUnknown
from omnigraph.ids import TableKey, split_table_key
from omnigraph.storage.tables import Handle, Tables

CHANGES_AT_A_TIME: Final = 1_024


class ChangeOp(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """The wanted changes; an empty field accepts all."""

    kinds: tuple[str, ...] = ()
    """`node`, `edge`."""
    types: tuple[str, ...] = ()
    ops: tuple[ChangeOp, ...] = ()

    def accepts(self, key: TableKey) -> bool:
        kind, name = split_table_key(key)
        wanted = not self.types or name in self.types or family_of(name) in self.types
        return (not self.kinds or kind in self.kinds) and wanted

    def check_types(self, *catalogs: Catalog) -> None:
        """Every wanted type must be in one of the catalogs. Raises TypeUnknown."""
        known = {each.name for catalog in catalogs for each in catalog.nodes}
        known |= {each.name for catalog in catalogs for each in catalog.edges}
        known |= {name for catalog in catalogs for name in catalog.edge_names}
        for name in self.types:
            if name not in known:
                raise TypeUnknown(name)


EVERY_CHANGE: Final = ChangeFilter()


@dataclass(frozen=True, slots=True)
class Image:
    """The properties and ends of an entity in one snapshot."""

    properties: JsonObject
    ends: tuple[str, str] | None
    """The ids of the source and the target of an edge."""


@dataclass(frozen=True, slots=True)
class EntityChange:
    kind: str
    type_name: str
    id: str
    op: ChangeOp
    before: Image | None
    after: Image | None

    @property
    def ends(self) -> tuple[str, str] | None:
        """The ends of an edge; of a deleted edge, its former ends."""
        image = self.before if self.after is None else self.after
        assert image is not None
        return image.ends


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """The difference between two snapshots: counts, and changes that are read on demand."""

    before: ManifestSnapshot
    after: ManifestSnapshot
    counts: Mapping[TableKey, RowCounts]
    """By key, for every table with changes."""
    tables: Tables = field(repr=False)
    parts: tuple["TableChanges", ...] = field(repr=False)

    def __repr__(self) -> str:
        return f"<GraphDiff {describe_counts(self.counts)}>"

    def changes(self, *, skip: int = 0) -> Iterator[EntityChange]:
        """(1) Every change in order, after the first `skip`."""
        for part in self.parts:
            if skip >= len(part):
                skip -= len(part)
            else:
                yield from part.read(self.tables, skip)
                skip = 0

    def only(self, touched: Touched) -> "GraphDiff":
        """The changes of these entities alone: those of one member of a group (D29)."""
        some = [each.only(touched.get(each.type.table_key, ())) for each in self.parts]
        parts = tuple(each for each in some if len(each))
        counts = {each.type.table_key: each.counts for each in parts}
        return replace(self, counts=counts, parts=parts)

    def __len__(self) -> int:
        return sum(map(len, self.parts))


def describe_counts(counts: Mapping[TableKey, RowCounts]) -> str:
    """`node:Artwork +1 ~2 −0, edge:Hangs +1 ~0 −0`, or `no changes`."""
    return ", ".join(f"{key} {each}" for key, each in counts.items()) or "no changes"


def find_diff(
    tables: Tables,
    open_pin: Callable[[Pin], Handle],
    catalogs: tuple[Catalog, Catalog],
    snapshots: tuple[ManifestSnapshot, ManifestSnapshot],
    where: ChangeFilter = EVERY_CHANGE,
) -> GraphDiff:
    """Compare two snapshots, each with the schema of its time. Raises ChangesRefused."""
    before, after = snapshots
    parts = []
    for key in sorted(before.pins.keys() | after.pins.keys()):
        old, new = before.pins.get(key), after.pins.get(key)
        if not where.accepts(key) or is_same_version(old, new):
            continue
        handles = [None if each is None else open_pin(each) for each in (old, new)]
        type_ = _find_type(catalogs[new is not None], key, after.commit, handles)
        difference = find_difference(tables, type_, handles[0], handles[1])
        part = _order(type_, difference, where)
        if len(part):
            parts.append(part)
    counts = {each.type.table_key: each.counts for each in parts}
    return GraphDiff(before, after, counts, tables, tuple(parts))


def _find_type(
    catalog: Catalog, key: TableKey, commit: Commit | None, handles: list[Handle | None]
) -> Type:
    """(4) The type of a table. Raises ChangesRefused if its columns differ."""
    kind, name = split_table_key(key)
    found: NodeType | EdgeType | None = catalog.node(name) if kind == "node" else catalog.edge(name)
    shapes = {
        tuple(sorted((each.name, str(each.type)) for each in handle.schema))
        for handle in handles
        if handle is not None
    }
    if found is None or len(shapes) > 1:
        commit_id = "" if commit is None else commit.id
        raise ChangesRefused("schema_boundary", commit_id=commit_id, type_name=name)
    return found


# ── one table ────────────────────────────────────────────────────────────────────────────────────

_INSERT, _UPDATE, _DELETE = range(3)
_OPS: Final = (ChangeOp.INSERT, ChangeOp.UPDATE, ChangeOp.DELETE)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes of one table in id order, as operations and row refs."""

    type: Type
    difference: Difference
    ops: "np.ndarray[Any, np.dtype[np.int8]]"
    places: "np.ndarray[Any, np.dtype[np.int64]]"
    """The index of each change in the row refs of its operation."""
    ids: "pa.Array[Any]" = field(repr=False)

    def only(self, ids: Collection[str]) -> "TableChanges":
        is_wanted = pc.is_in(self.ids, value_set=pa.array(list(ids), pa.string()))
        mask = is_wanted.to_numpy(zero_copy_only=False)
        kept = self.ids.filter(is_wanted)
        return TableChanges(self.type, self.difference, self.ops[mask], self.places[mask], kept)

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def counts(self) -> RowCounts:
        found = np.bincount(self.ops, minlength=3).tolist()
        return RowCounts(found[_INSERT], found[_UPDATE], found[_DELETE])

    def read(self, tables: Tables, skip: int) -> Iterator[EntityChange]:
        """(3)"""
        for start in range(skip, len(self), CHANGES_AT_A_TIME):
            stop = min(start + CHANGES_AT_A_TIME, len(self))
            yield from self._read(tables, self.ops[start:stop], self.places[start:stop])

    def _read(
        self,
        tables: Tables,
        ops: "np.ndarray[Any, np.dtype[np.int8]]",
        places: "np.ndarray[Any, np.dtype[np.int64]]",
    ) -> Iterator[EntityChange]:
        of = self.difference
        was = {_UPDATE: of.replaced, _DELETE: of.deleted}
        will_be = {_INSERT: of.inserted, _UPDATE: of.replacing}
        before = self._images(tables, of.before, was, ops, places)
        after = self._images(tables, of.after, will_be, ops, places)
        for op in ops.tolist():
            old = next(before) if op in was else None
            new = next(after) if op in will_be else None
            yield self._change(_OPS[op], old, new)

    def _images(
        self,
        tables: Tables,
        handle: Handle | None,
        refs: Mapping[int, RowRefs],
        ops: "np.ndarray[Any, np.dtype[np.int8]]",
        places: "np.ndarray[Any, np.dtype[np.int64]]",
    ) -> Iterator[Row]:
        """The rows of one side in the order of the changes, read in portions."""
        is_there = np.isin(ops, list(refs))
        addresses = np.zeros(len(ops), np.uint64)
        for op, some in refs.items():
            mask = ops == op
            addresses[mask] = some.addresses[places[mask]]
        addresses = addresses[is_there]
        if handle is None:
            return
        for start, stop in portions(tables, self.type, handle, addresses):
            yield from read_rows(self.type, fetch(tables, self.type, handle, addresses[start:stop]))

    def _change(self, op: ChangeOp, old: Row | None, new: Row | None) -> EntityChange:
        row = old if new is None else new
        assert row is not None, "a change has a row on some side"
        kind, name = split_table_key(self.type.table_key)
        return EntityChange(
            kind, name, str(row["id"]), op, _image(self.type, old), _image(self.type, new)
        )


def _image(type_: Type, row: Row | None) -> Image | None:
    if row is None:
        return None
    ends = (str(row["src"]), str(row["dst"])) if isinstance(type_, EdgeType) else None
    return Image(spell_properties(type_, row), ends)


def _order(type_: Type, of: Difference, where: ChangeFilter) -> TableChanges:
    """(1) The wanted changes of a table, by id."""
    groups = [(_INSERT, of.inserted), (_UPDATE, of.replaced), (_DELETE, of.deleted)]
    wanted = [each for each in groups if not where.ops or _OPS[each[0]] in where.ops]
    ids = pa.concat_arrays([pa.array([], pa.string()), *(refs.ids for _, refs in wanted)])
    none = np.empty(0, np.int64)
    ops = np.concatenate([none, *(np.full(len(refs), op) for op, refs in wanted)])
    places = np.concatenate([none, *(np.arange(len(refs)) for _, refs in wanted)])
    order = pc.sort_indices(ids).to_numpy()
    ops, places = ops[order].astype(np.int8), places[order].astype(np.int64)
    return TableChanges(type_, of, ops, places, ids.take(pa.array(order)))
