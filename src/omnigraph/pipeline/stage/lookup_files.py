"""Reading input in two phases: what edges are looked up in first, then the edges.

If a record of the first phase is wrong, the second looks nothing up: the load fails anyway, and
records that are right would be blamed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.effects import REAL
from omnigraph.engine.load.bulk import LoadMode
from omnigraph.ids import TableKey
from omnigraph.pipeline.sources.lookups import Lookup, write_lookup
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.sources.splits import Partition, Records, Split
from omnigraph.pipeline.stage.fragments import LOOKED_UP
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.storage.tables import ScanRequest

Answers = Sequence[Mapping[str, Any]]


def mapping_of(split: Split) -> ColumnMapping | None:
    content = split.content
    return None if isinstance(content, Records | Partition) else content.mapping


def looks_up(split: Split) -> bool:
    """Does it have edges whose ends are looked up?"""
    mapping = mapping_of(split)
    return mapping is not None and bool(mapping.lookups)


def find_looked_up(mappings: Iterable[ColumnMapping]) -> dict[TableKey, tuple[str, ...]]:
    """By table, the properties that nodes are looked up by."""
    names: dict[TableKey, set[str]] = {}
    for mapping in mappings:
        for each in mapping.lookups.values():
            names.setdefault(each.node.table_key, set()).add(each.property.name)
    return {key: tuple(sorted(found)) for key, found in names.items()}


@dataclass(frozen=True, slots=True)
class LookupFiles:
    """The lookup files of one load, by table and property."""

    paths: Mapping[tuple[TableKey, str], str]

    def fill(self, mapping: ColumnMapping) -> ColumnMapping:
        return replace(
            mapping, lookups={target: self._fill(each) for target, each in mapping.lookups.items()}
        )

    def fill_split(self, split: Split) -> Split:
        content = split.content
        if isinstance(content, Records | Partition):
            return split
        return replace(split, content=replace(content, mapping=self.fill(content.mapping)))

    def _fill(self, lookup: Lookup) -> Lookup:
        return replace(lookup, path=self.paths.get((lookup.node.table_key, lookup.property.name)))


def write_lookup_files(work: Ingest, answers: Answers) -> LookupFiles:
    """Once the first phase is read. Without any file if it had a fault."""
    if any(each["fault_count"] for each in answers):
        return LookupFiles({})
    paths: dict[tuple[TableKey, str], str] = {}
    for key, names in work.looked_up.items():
        found = [each["tables"][key] for each in answers if key in each["tables"]]
        files = [str(each[LOOKED_UP]) for each in found if each.get(LOOKED_UP)]
        is_replaced = work.mode is LoadMode.OVERWRITE and bool(found)
        node = work.catalog.node(key.partition(":")[2])
        assert node is not None, "a looked up table is one of nodes"
        for name in names:
            of = node.find(name)
            assert of is not None, "the survey found it"
            path = Path(work.scratch) / f"lookup-{REAL.new_id()}.arrow"
            committed = () if is_replaced else _read_committed(work, key, name)
            paths[key, name] = write_lookup(path, of, map(_read_file, files), committed)
    return LookupFiles(paths)


def _read_file(path: str) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


def _read_committed(work: Ingest, key: TableKey, name: str) -> Iterator[pa.Table]:
    target = work.targets[key]
    if not target.row_count:
        return
    tables = work.storage.open_anyway().tables
    handle = tables.open_at(target.ref, target.version)
    with tables.scan(handle, ScanRequest(columns=("id", name))) as batches:
        for batch in batches:
            yield pa.Table.from_batches([batch])
