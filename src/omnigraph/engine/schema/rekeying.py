"""Adding a key to an edge type: every edge is written again under the id that its key spells.

1. Two edges with one key would become one edge. The change is refused before anything moves, and
   the error names them.
2. For history these are deletions and insertions: the feed shows both, and blame of an edge names
   the commit of the schema change.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import KeyValue, derive_id
from omnigraph.catalog.model import EdgeType
from omnigraph.catalog.names import spell_all
from omnigraph.engine.tables.columns import column_type, read_cells
from omnigraph.engine.write.violations import clip
from omnigraph.errors import MigrationUnsupported
from omnigraph.storage.tables import Handle, Mark, ScanRequest, Staged, Tables

_SHOWN_MAX = 5


def check_rekeying(
    tables: Tables, handle: Handle, edge: EdgeType, former: Mapping[str, str]
) -> None:
    """(1) `former` maps names of columns to those that the table has now.

    Raises MigrationUnsupported.
    """
    if any(each.type.is_blob for each in edge.properties):
        reason = f"a key cannot be added to {edge.name}, which has edges with a Blob"
        raise MigrationUnsupported(edge.table_key, reason=reason, rule=None)
    names = {name: former.get(name, name) for name in edge.key}
    old: list[pa.Array[pa.StringScalar]] = []
    new: list[pa.Array[pa.StringScalar]] = []
    with tables.scan(handle, ScanRequest(columns=("id", *names.values()))) as batches:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            old.append(rows["id"].combine_chunks())
            new.append(_ids(edge, rows, names))
    pairs = pa.table({"old": pa.chunked_array(old, pa.string()), "new": pa.chunked_array(new)})
    counts = pairs.group_by("new").aggregate([("old", "count"), ("old", "list")])
    one = pa.scalar(1, pa.int64())
    doubled = counts.filter(pc.greater(counts["old_count"], one)).sort_by("new")
    if not doubled.num_rows:
        return
    shown = [
        f"{clip(row['new'])} ({', '.join(sorted(row['old_list'])[:_SHOWN_MAX])})"
        for row in doubled.slice(0, _SHOWN_MAX).to_pylist()
    ]
    more = f" and {doubled.num_rows - len(shown)} more" if doubled.num_rows > len(shown) else ""
    raise MigrationUnsupported(
        edge.table_key,
        reason=f"@key({spell_all(edge.key)}) cannot be added to {edge.name}: several edges have "
        f"the key {', '.join(shown)}{more}; delete all but one of each first",
        rule=None,
    )


def stage_rekeying(tables: Tables, handle: Handle, mark: Mark, edge: EdgeType) -> Staged:
    """(2) All edges under their new ids."""

    def rekeyed() -> Iterator[pa.RecordBatch]:
        at = handle.schema.names.index("id")
        with tables.scan(handle) as batches:
            for batch in batches:
                rows = pa.Table.from_batches([batch])
                ids = _ids(edge, rows, {name: name for name in edge.key})
                renewed = rows.set_column(at, handle.schema.field("id"), ids)
                yield from renewed.cast(handle.schema).to_batches()

    rows = pa.RecordBatchReader.from_batches(handle.schema, rekeyed())
    return tables.stage_overwrite(handle, handle.schema, mark, rows)


def _ids(edge: EdgeType, rows: pa.Table, names: Mapping[str, str]) -> "pa.Array[pa.StringScalar]":
    columns = [read_cells(rows[names[name]], column_type(edge, name)) for name in edge.key]
    ids = []
    for cells in zip(*columns, strict=True):
        values: dict[str, KeyValue] = {}
        for name, cell in zip(edge.key, cells, strict=True):
            assert isinstance(cell, str | int | float), "a member of a key is a single value"
            values[name] = cell
        ids.append(derive_id(edge, values))
    return pa.array(ids, pa.string())
