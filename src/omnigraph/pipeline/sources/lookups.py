"""The ends of edges, found by a property of their nodes instead of their ids.

A load first reads all input that looks nothing up. Then it writes, for every property that an edge
is looked up by, one Arrow file: each value, and the id of the node that has it. The nodes are those
that the load brings and those that were committed when the load began. The tasks that read the
edges read this file. A value that no node has, or several have, is a fault of the edge's record.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.arrow import arrow_type
from omnigraph.catalog.fitting import Misfit, Misread
from omnigraph.catalog.model import NodeType, Property
from omnigraph.catalog.types import INTEGERS, Scalar, ValueType
from omnigraph.engine.tables.cells import Cell
from omnigraph.engine.tables.columns import carrier_of
from omnigraph.engine.write.coercion import coerce
from omnigraph.engine.write.violations import clip
from omnigraph.pipeline.sources.values import Column, joined

_COMPARED: Final = frozenset({Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME, *INTEGERS})

_FILES_KEPT_MAX: Final = 4
"""How many lookup files a worker keeps in memory."""


def can_look_up(wanted: ValueType) -> bool:
    """May nodes be found by values of this type? Only equality that is exact counts."""
    return not wanted.is_list and wanted.base in _COMPARED


@dataclass(frozen=True, slots=True)
class Lookup:
    """The node that an end means is the one whose property has the value of the column."""

    node: NodeType
    property: Property
    path: str | None = None
    """The lookup file; None as long as nothing can be looked up."""

    def find(self, values: Column) -> Column:
        """The ids of the nodes with these values; null where there is none, or are several."""
        if self.path is None:
            return pc.cast(values, pa.string())
        known, ids = _read(self.path)
        return ids.take(pc.index_in(_plain(values, self.property.type), value_set=known))

    def find_one(self, value: object) -> str | Misread:
        """The id of the node with this JSON value, or why there is none."""
        try:
            cell = coerce(value, self.property)
        except Misfit as misfit:
            return Misread(str(value), f"{self.property.type}: {misfit}")
        if self.path is None:
            return str(cell)
        known = _read_dictionary(self.path)
        found = known.get(cell)
        if found is not None:
            return found
        who = f"several {self.node.name} have" if cell in known else f"no {self.node.name} has"
        return Misread(str(value), f"looked up: {who} the {self.property.name} {clip(value)}")


def _plain(values: Column, of: ValueType) -> Column:
    carrier = carrier_of(of)
    return joined(values) if carrier is None else joined(values).view(carrier)


@lru_cache(maxsize=_FILES_KEPT_MAX)
def _read(path: str) -> tuple[Column, Column]:
    with pa.ipc.open_file(path) as file:
        table = file.read_all()
    return joined(table["value"]), joined(table["id"])


@lru_cache(maxsize=_FILES_KEPT_MAX)
def _read_dictionary(path: str) -> dict[Cell, str | None]:
    values, ids = _read(path)
    return dict(zip(values.to_pylist(), ids.to_pylist(), strict=True))


def write_lookup(
    path: Path, of: Property, incoming: Iterable[pa.Table], committed: Iterable[pa.Table]
) -> str:
    """The lookup file of one property, of rows with `id` and the property.

    A committed row counts unless the load brings a row with its id. Of several rows that the load
    brings with one id, the last counts.
    """
    fields = pa.schema(
        [pa.field("id", pa.string()), pa.field(of.name, arrow_type(of.type.optional()))]
    )
    fresh = _last_of_each(_gather(incoming, fields))
    old = _gather(committed, fields)
    if fresh.num_rows and old.num_rows:
        replaced = pc.is_in(old["id"], value_set=joined(fresh["id"]))
        old = old.filter(pc.invert(replaced))
    rows = pa.concat_tables([fresh, old])
    rows = rows.filter(pc.is_valid(rows[of.name]))
    values = _plain(rows[of.name], of.type)
    pairs = pa.table({"value": values, "id": rows["id"]})
    found = pairs.group_by("value").aggregate([("id", "min"), ("id", "max")])
    is_one = pc.equal(found["id_min"], found["id_max"])
    none: pa.Scalar[Any] = pa.scalar(None, pa.string())
    table = pa.table({"value": found["value"], "id": pc.if_else(is_one, found["id_min"], none)})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return str(path)


def _gather(tables: Iterable[pa.Table], fields: pa.Schema) -> pa.Table:
    chosen = [each.select(fields.names).cast(fields) for each in tables]
    return pa.concat_tables([fields.empty_table(), *chosen])


def _last_of_each(rows: pa.Table) -> pa.Table:
    if len(pc.unique(rows["id"])) == rows.num_rows:
        return rows
    places = pa.table({"id": rows["id"], "at": pa.array(range(rows.num_rows), pa.int64())})
    last = places.group_by("id").aggregate([("at", "max")])["at_max"]
    return rows.take(last.take(pc.sort_indices(last)))
