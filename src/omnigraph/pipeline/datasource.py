"""`format("omnigraph")`: the rows of one type as a DataFrame, and DataFrames as commits.

1. A source finds its snapshot when it is asked for its columns, which is when `load` is called, and
   Spark keeps the source. So a DataFrame shows the same rows every time it is used.
2. A partition is some fragments, which one task reads. It reads only the columns of the option
   `columns`, because Spark does not tell which ones it needs.
3. Filters are left to Spark. What Spark 4.3 pushes for one use of a DataFrame it keeps for every
   other, and so loses rows; a source cannot notice (docs/adr/0011).
4. Spark may print options, so credentials are none (D22). They are part of the class that is
   registered, which travels as bytes.
5. The same class makes the writers of `dataframes`; which options they take is said there.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.effects import REAL
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.load.export import cut_pieces
from omnigraph.engine.load.sorted_runs import SortPiece, slices_of
from omnigraph.engine.opening import open_graph
from omnigraph.engine.query.target import Target, microseconds
from omnigraph.engine.settings import Settings
from omnigraph.engine.tables.cells import EXTERNAL_BLOB
from omnigraph.engine.tables.record_format import is_blob
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.ids import MAIN, CommitId, TableKey, TypeKind, Version, parse_branch, table_key
from omnigraph.pipeline import settings as spark_settings
from omnigraph.pipeline.dataframes.begun_write import Home
from omnigraph.pipeline.dataframes.change_reader import (
    COLUMNS,
    ChangeRange,
    ChangesReader,
    ChangesStream,
    make_changes_reader,
    parse_change_options,
)
from omnigraph.pipeline.dataframes.change_sink import ChangeSink
from omnigraph.pipeline.dataframes.write_options import are_wanted, parse_write_options
from omnigraph.pipeline.dataframes.writers import (
    FrameWriter,
    StreamWriter,
    make_stream_writer,
    make_writer,
)
from omnigraph.pipeline.datasource_schema import as_spark, pick_columns, spark_schema
from omnigraph.pipeline.spark.session import find_session, read_settings
from omnigraph.pipeline.stage.fragments import Storage
from omnigraph.storage.tables import ROW_ADDRESS, Handle, ScanRequest, Tables

__all__ = ["DataFrame", "OmnigraphSource", "SparkSession", "open_dataframe", "register"]

NAME: Final = "omnigraph"
PARTITION_ROWS: Final = 200_000

_OPTIONS: Final = ("path", "type", "edge", "branch", "snapshot", "version", "at", "columns")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read."""

    path: str
    key: TableKey
    target: Target
    """Which branch, and when."""
    columns: tuple[str, ...] | None


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Raises UsageError."""
    for name in options:
        if name == "pushdown":
            raise UsageError(
                "there is no option 'pushdown' any more: Spark 4.3 mixes up the filters of several "
                "uses of a DataFrame; name 'columns', or ask for a few rows by a query"
            )
        if name not in _OPTIONS:
            raise UsageError(f"there is no option '{name}'; there are {', '.join(_OPTIONS)}")
    path = options.get("path")
    if not path:
        raise UsageError("say where the graph is: option 'path'")
    if ("type" in options) == ("edge" in options):
        raise UsageError("name one type: option 'type', or option 'edge'")
    columns = options.get("columns")
    edge = options.get("edge")
    return SourceOptions(
        path=path,
        key=table_key("node", options["type"]) if edge is None else table_key("edge", edge),
        target=parse_target(options),
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
    )


def parse_target(options: Mapping[str, str]) -> Target:
    """Raises UsageError, BranchNameInvalid."""
    snapshot, version, at = (options.get(name) for name in ("snapshot", "version", "at"))
    if len([each for each in (snapshot, version, at) if each is not None]) > 1:
        raise UsageError("a read looks at one moment: option 'snapshot', 'version' or 'at'")
    if snapshot is not None and "branch" in options:
        raise UsageError("a snapshot says which branch it is on; name it alone")
    if snapshot is not None:
        return Target(commit_id=CommitId(snapshot))
    if version is not None and not version.isdecimal():
        raise UsageError(f"option 'version' is a number, not '{version}'")
    return Target(
        parse_branch(options.get("branch") or MAIN),
        version=None if version is None else Version(int(version)),
        at_us=None if at is None else microseconds(at),
    )


class Fragments(InputPartition):
    """(2)"""

    def __init__(self, piece: SortPiece) -> None:
        super().__init__(None)
        self.piece = piece


@dataclass
class TableReader(DataSourceReader):
    """Reads a table at the version its source found."""

    storage: Storage
    pieces: tuple[SortPiece, ...]
    columns: tuple[str, ...]
    schema: StructType
    """These columns in their order, by whatever names."""
    where: str | None = None

    def partitions(self) -> Sequence[InputPartition]:
        return [Fragments(piece) for piece in self.pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Fragments):
            return  # Spark makes one up when there are none
        pa.set_cpu_count(1)
        tables, handle = self._open(partition.piece)
        request = ScanRequest(
            columns=self.columns,
            where=self.where,
            fragment_ids=partition.piece.fragment_ids,
            with_row_address=any(
                isinstance(handle.schema.field(name).type, pa.BaseExtensionType)
                for name in self.columns
            ),
        )
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        with tables.scan(handle, request) as batches:
            for batch in batches:
                rows = pa.Table.from_batches([batch])
                whole = [(0, rows.num_rows)]
                blobs = request.with_row_address
                for start, count in slices_of(rows, rows.num_rows) if blobs else whole:
                    yield self._shape(tables, handle, batch.slice(start, count), wanted)

    def _open(self, piece: SortPiece) -> tuple[Tables, Handle]:
        tables = self.storage.open().tables
        return tables, tables.open_at(piece.ref, piece.version)

    def _shape(
        self, tables: Tables, handle: Handle, batch: pa.RecordBatch, wanted: pa.Schema
    ) -> pa.RecordBatch:
        columns: list[pa.Array[Any]] = []
        for place, name in enumerate(self.columns):
            cells: pa.Array[Any] = batch[name]
            of = wanted.field(place).type
            if is_blob(cells.type):
                columns.append(_blobs(tables, handle, batch, name, of))
            else:
                columns.append(as_spark(cells, of))
        return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _blobs(
    tables: Tables, handle: Handle, batch: pa.RecordBatch, name: str, of: pa.DataType
) -> "pa.Array[Any]":
    found: list[Any] = batch[name].to_pylist()
    addresses: list[Any] = batch[ROW_ADDRESS].to_pylist()
    here = [
        at
        for at, each in zip(addresses, found, strict=True)
        if each is not None and each["kind"] != EXTERNAL_BLOB
    ]
    data = iter(tables.read_blobs(handle, name, here))
    cells = [
        None
        if each is None
        else {"data": None, "uri": each["blob_uri"]}
        if each["kind"] == EXTERNAL_BLOB
        else {"data": next(data), "uri": None}
        for each in found
    ]
    return pa.array(cells, of)


class OmnigraphSource(DataSource):
    """The source. `register` makes it known."""

    home: Home = Home()

    @classmethod
    def name(cls) -> str:
        return NAME

    @cached_property
    def _rows(self) -> "TableRows":
        return find_rows(self.home, parse_options(self.options))  # (1)

    @property
    def _are_changes(self) -> bool:
        return are_wanted(self.options.get("changes"))

    def schema(self) -> StructType:
        return COLUMNS if self._are_changes else self._rows.schema

    def reader(self, schema: StructType) -> TableReader | ChangesReader:  # named so by Spark
        if self._are_changes:
            return make_changes_reader(self.home, parse_change_options(self.options))
        rows = self._rows
        return TableReader(rows.storage, rows.pieces, rows.columns, schema)

    def writer(self, schema: StructType, overwrite: bool) -> FrameWriter:  # noqa: FBT001 - Spark's
        options = parse_write_options(self.options, overwrite=overwrite)
        return make_writer(self.home, options, schema)

    def streamReader(self, schema: StructType) -> ChangesStream:  # noqa: ARG002, N802 - Spark's
        if not self._are_changes:
            raise UsageError("a stream reads changes: say option 'changes' 'true'")
        options = parse_change_options(self.options)
        return ChangesStream(ChangeRange(self.home, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter | ChangeSink:  # noqa: FBT001, N802 - Spark's
        options = parse_write_options(self.options, overwrite=overwrite)
        return make_stream_writer(self.home, options, schema)


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one type at one snapshot."""

    storage: Storage
    pieces: tuple[SortPiece, ...]
    columns: tuple[str, ...]
    schema: StructType


def find_rows(home: Home, question: SourceOptions) -> TableRows:
    """Raises what opening a graph raises; BranchNotFound, CommitNotFound, VersionNotFound."""
    settings = Settings(storage_options=dict(home.storage_options))
    graph = open_graph(home.locate(question.path), mode=Mode.READ_ONLY, settings=settings)
    pin = graph.resolve(question.target).pin(question.key)
    pieces = cut_pieces(graph.tables, pin, rows=PARTITION_ROWS)
    handle = graph.tables.open_at(pieces[0].ref, pieces[0].version)
    columns = pick_columns(handle.schema, question.columns)
    return TableRows(
        Storage(graph.root, settings.storage_options, settings.durability),
        tuple(piece for piece in pieces if piece.fragment_ids),
        tuple(columns.values()),
        spark_schema(handle.schema, columns),
    )


def register(spark: SparkSession, *, storage_options: Mapping[str, str] | None = None) -> None:
    """Make `format("omnigraph")` known to a session, for reads, writes and streams.

    Credentials that the workers do not have by themselves are given here and nowhere else.
    """
    spark.dataSource.register(_equipped(NAME, spark, storage_options or {}))


def _equipped(
    called: str, spark: SparkSession, storage_options: Mapping[str, str]
) -> type[DataSource]:
    """(4) A source class that contains its credentials, and what its session is."""
    master = spark.conf.get("spark.master", None)
    settings = spark_settings.place(read_settings(), master=master, remote=None)
    equipment = Home(dict(storage_options), settings, str(Path.cwd()))

    class Equipped(OmnigraphSource):
        home = equipment

        @classmethod
        def name(cls) -> str:
            return called

    return Equipped


def open_dataframe(
    graph: Graph,
    snapshot: ManifestSnapshot,
    type_name: str,
    *,
    spark: SparkSession | None,
    columns: Sequence[str] | None,
) -> DataFrame:
    """The rows a snapshot shows of one type. Raises TypeUnknown, UsageError, SparkUnusable."""
    kind, name = find_kind(snapshot, type_name)
    pin = snapshot.pins[table_key(kind, name)]
    options = {
        "path": graph.uri,
        "type" if kind == "node" else "edge": name,
        "branch": str(snapshot.branch),
        "version": str(snapshot.manifest_version),
    }
    if columns is not None:
        # Before Spark asks: what it makes of our errors is a page of its own.
        options["columns"] = ",".join(
            pick_columns(graph.open_table(snapshot, pin.key).schema, columns)
        )
    session = spark or find_session(read_settings())
    credentials = graph.settings.storage_options
    if not credentials:
        register(session)
        return session.read.format(NAME).options(**options).load()
    called = f"{NAME}_{REAL.new_id()}"
    session.dataSource.register(_equipped(called, session, credentials))
    return session.read.format(called).options(**options).load()


def find_kind(snapshot: ManifestSnapshot, name: str) -> tuple[TypeKind, str]:
    """A type by its name, or by its table key where a node and an edge share one."""
    kinds: tuple[TypeKind, TypeKind] = ("node", "edge")
    for kind in kinds:
        plain = name.removeprefix(f"{kind}:")
        if table_key(kind, plain) in snapshot.pins:
            return kind, plain
    raise TypeUnknown(name)
