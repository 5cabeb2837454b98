"""A write whose tasks may run: its plan, its staging record and its scratch folder."""

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.commit.leases.owner import Owner, find_process
from omnigraph.commit.leases.staging import StagingRecord
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph
from omnigraph.engine.load.bulk import LoadMode, LoadTarget
from omnigraph.engine.load.run import find_target
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import ERRORS_MAX, Settings
from omnigraph.errors import LoadRejected, ObjectNotFound, UsageError
from omnigraph.ids import OperationId, TableKey
from omnigraph.pipeline.dataframes.write_options import SHOWN, FrameWriteOptions
from omnigraph.pipeline.settings import SparkSettings
from omnigraph.pipeline.sources.mappings import ColumnMapping, find_table_type, fit_columns
from omnigraph.pipeline.sources.splits import Partition, Split
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.pipeline.stage.ingest import Ingest
from omnigraph.pipeline.stage.scratch import check_scratch, scratch_folder
from omnigraph.storage.layout import staging_record_key
from omnigraph.storage.tables import Pieces, Receipt

TTL_MS: Final = 7 * 24 * 3_600_000
"""No process renews the record of a write, because none lives as long as the write but the Java
machine. On its machine the record counts as dead once it is; elsewhere after this time."""

_graphs: Final[dict[tuple[str, frozenset[tuple[str, str]]], Graph]] = {}
"""Graphs that this worker opened. Spark uses a worker again for the next batch."""


@dataclass(frozen=True, slots=True)
class Home:
    """What a session tells its workers about itself, as part of the registered class."""

    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: SparkSettings = field(default_factory=SparkSettings)
    folder: str = ""
    """Where relative paths start: the working folder of the program that registered the source."""

    def locate(self, path: str) -> str:
        """What the program means by a path; workers have a working folder of their own."""
        return path if "://" in path else str(Path(self.folder) / path)

    def open(self, path: str) -> Graph:
        """The graph, for writing; opened once in a process. Raises what `open_graph` raises."""
        path = self.locate(path)
        key = (path, frozenset(self.storage_options.items()))
        if key not in _graphs:
            settings = Settings(storage_options=dict(self.storage_options))
            _graphs[key] = open_graph(path, settings=settings)
        return _graphs[key]


@dataclass(frozen=True, slots=True)
class BegunWrite:
    """What the commit has to know of the beginning."""

    operation_id: OperationId
    key: TableKey
    target: LoadTarget
    """The table when the write began."""
    schema_hash: str
    scratch: str
    bucket_count: int

    def ingest(self, catalog: Catalog, mode: LoadMode, storage: Storage, parts: int = 0) -> Ingest:
        """The work of the tasks, of which there are or were so many."""
        splits = (
            Split(number, "frame 0", SHOWN, number, None, Partition()) for number in range(parts)
        )
        return Ingest(
            splits=tuple(splits),
            catalog=catalog,
            mode=mode,
            targets={self.key: self.target},
            storage=storage,
            scratch=self.scratch,
            errors_max=ERRORS_MAX,
            keeps_rows=False,
            bucket_count=self.bucket_count,
        )

    def is_open(self, graph: Graph) -> bool:
        """Has no commit taken the files over, and no abort deleted them?"""
        try:
            graph.objects.read(staging_record_key(self.operation_id))
        except ObjectNotFound:
            return False
        return True

    def end(self, graph: Graph) -> None:
        """Delete the record. The scratch folder is left to the process that reads it."""
        graph.objects.delete(staging_record_key(self.operation_id))

    def discard(self, graph: Graph, receipts: Iterator[Receipt]) -> None:
        """Delete all files that are known, and the record."""
        graph.tables.discard(self.target.ref, Pieces(fresh=tuple(receipts)))
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.end(graph)


def check_columns(graph: Graph, options: FrameWriteOptions, schema: pa.Schema) -> ColumnMapping:
    """What feeds what, before any task runs.

    Raises TypeUnknown, UsageError, and LoadRejected if a column does not fit.
    """
    catalog = graph.active_schema().catalog
    type_ = find_table_type(catalog, options.source)
    fitting = fit_columns(catalog, type_, options.source, schema, shown=SHOWN, are_texts=False)
    if fitting.faults:
        raise LoadRejected(fitting.faults[:ERRORS_MAX], count=len(fitting.faults))
    if len(fitting.mapping.pairs) > 1:
        family = fitting.mapping.pairs[0].family
        raise UsageError(
            f"one write feeds one table, and edge {family} has one for each pair of ends; name a "
            f"pair, such as {fitting.mapping.pairs[0].name}, or use omnigraph.spark.write"
        )
    return fitting.mapping


def begin_write(
    home: Home, options: FrameWriteOptions, key: TableKey, bucket_count: int
) -> tuple[BegunWrite, Ingest]:
    """Write the staging record and make the scratch folder.

    Raises BranchNotFound, SparkUnusable.
    """
    graph = home.open(options.path)
    schema = graph.active_schema()
    check_scratch(home.spark, graph.root)
    pins = graph.snapshot(options.branch).pins
    operation_id = OperationId(REAL.new_id())
    folder = scratch_folder(home.spark, graph.root, operation_id)
    target = find_target(pins[key], options.branch, options.mode)
    begun = BegunWrite(operation_id, key, target, schema.schema_hash, str(folder), bucket_count)
    versions = {each: pin.version for each, pin in pins.items()}
    record = StagingRecord(operation_id, options.branch, versions, find_driver(), TTL_MS)
    graph.objects.put_new(staging_record_key(operation_id), record.encode(0))
    folder.mkdir(parents=True)
    storage = Storage(graph.root, home.storage_options, graph.settings.durability)
    return begun, begun.ingest(schema.catalog, options.mode, storage)


def find_driver() -> Owner:
    """The Java machine that started this worker, itself or through pyspark's daemon."""
    parent = os.getppid()
    try:
        if b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes():
            status = Path(f"/proc/{parent}/status").read_text()
            parent = int(status.partition("PPid:")[2].split()[0])
    except (OSError, ValueError, IndexError):
        pass  # another system: the parent will do
    return find_process(parent)
