"""`option("changes", "true")`: the change feed of a branch as rows, for a batch and for a stream.

1. An offset of a stream is a cursor of the feed, and stands after a whole commit. A batch holds
   whole commits: as many as fit the limit, and at least one.
2. A stream that starts at `baseline` first reads all rows of one commit as inserts, nodes before
   edges, in pieces that fit the limit; its offsets count the pieces until the cursor takes over.
3. `before` and `after` are records as JSON: the rows of all types are in one frame.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from omnigraph.catalog.names import ID, SYSTEM_ID
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.history.diff import ChangeFilter, EntityChange, Image
from omnigraph.engine.history.feed import CHANGES_MAX, Block, Poll, decode_position
from omnigraph.engine.history.images import read_rows, spell_row
from omnigraph.engine.load.bulk import type_of
from omnigraph.engine.load.export import cut_pieces
from omnigraph.engine.load.sorted_runs import SortPiece, request_for
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, parse_branch, split_table_key
from omnigraph.pipeline.dataframes.begun_write import Home

COLUMNS: Final = (
    spark.StructType()
    .add("_change", spark.StringType(), nullable=False)
    .add("_commit", spark.StringType(), nullable=False)
    .add("_actor", spark.StringType())
    .add("_time", spark.TimestampType(), nullable=False)
    .add("_position", spark.LongType(), nullable=False)
    .add("kind", spark.StringType(), nullable=False)
    .add("type", spark.StringType(), nullable=False)
    .add("id", spark.StringType(), nullable=False)
    .add("before", spark.StringType())
    .add("after", spark.StringType())
)
OPTIONS: Final = ("changes", "path", "branch", "type", "edge", "start", "end", "maxChanges")
CHANGES_PER_BATCH: Final = 10_000
ROWS_PER_BATCH: Final = 1_000
BASELINE: Final = "baseline"


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Which changes, from where to where."""

    path: str
    branch: BranchName
    where: ChangeFilter
    start: str | None
    """`beginning`, `now`, `after:COMMIT`, or `baseline`."""
    end: CommitId | None
    changes_max: int


def parse_change_options(options: Mapping[str, str]) -> ChangeOptions:
    """Raises UsageError."""
    known = {each.lower() for each in OPTIONS}
    given = {name.lower(): value for name, value in options.items()}
    for name in given:
        if name not in known:
            raise UsageError(f"changes have no option '{name}'; there are {', '.join(OPTIONS)}")
    if not given.get("path"):
        raise UsageError("say where the graph is: load(path) or option 'path'")
    if "type" in given and "edge" in given:
        raise UsageError("name one type, or none for the changes of all")
    kind = "node" if "type" in given else "edge" if "edge" in given else None
    most = given.get("maxchanges") or str(CHANGES_PER_BATCH)
    if not most.isdecimal() or int(most) < 1:
        raise UsageError(f"option 'maxChanges' is a positive number, not '{most}'")
    end = given.get("end")
    return ChangeOptions(
        path=given["path"],
        branch=parse_branch(given.get("branch") or MAIN),
        where=ChangeFilter((kind,), (given.get("type") or given["edge"],))
        if kind
        else ChangeFilter(),
        start=given.get("start"),
        end=None if end is None else CommitId(end),
        changes_max=int(most),
    )


def open_reading(home: Home, path: str) -> Graph:
    settings = Settings(storage_options=dict(home.storage_options))
    return open_graph(home.locate(path), mode=Mode.READ_ONLY, settings=settings)


# ── positions ────────────────────────────────────────────────────────────────────────────────────


class CommitRange(InputPartition):
    """The commits between two cursors."""

    def __init__(self, start: str, end: str) -> None:
        super().__init__(None)
        self.start = start
        self.end = end


class BaselinePiece(InputPartition):
    """(2) Some fragments of one table, at the commit of a baseline."""

    def __init__(self, commit: str, piece: SortPiece) -> None:
        super().__init__(None)
        self.commit = commit
        self.piece = piece


@dataclass
class ChangeRange:
    """Reads what lies between two positions of a feed; shared by batches and streams."""

    home: Home
    options: ChangeOptions

    def open(self) -> Graph:
        return open_reading(self.home, self.options.path)

    def poll(self, graph: Graph, cursor: str | None, start: str | None, most: int) -> Any:
        asked = Poll(self.options.where, cursor, start, changes_max=min(most, CHANGES_MAX))
        return graph.changes(self.options.branch, asked)

    def first_cursor(self, graph: Graph, start: str) -> str:
        """A cursor that stands at a start, before any change is read."""
        asked = Poll(self.options.where, None, start)
        return graph.feed_cursor(self.options.branch, asked)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, CommitRange):
            yield from to_batches(self._read_changes(partition))
        elif isinstance(partition, BaselinePiece):
            yield from to_batches(self._read_baseline(partition))

    def _read_changes(self, asked: CommitRange) -> Iterator[dict[str, Any]]:
        graph = self.open()
        last = decode_position(asked.end).commit
        wanted = _commits_between(graph, self.options.branch, asked.start, last)
        cursor: str | None = asked.start
        position = 0
        while cursor is not None and wanted:
            page = self.poll(graph, cursor, None, CHANGES_MAX)
            for block in page.blocks:
                if block.cause.id not in wanted:
                    return
                for change in block.changes:
                    yield spell_change(block, change, position)
                    position += 1
            if page.cursor is not None and (
                page.caught_up or decode_position(page.cursor).commit == last
            ):
                return
            cursor = page.cursor or page.next_page_token

    def _read_baseline(self, asked: BaselinePiece) -> Iterator[dict[str, Any]]:
        graph = self.open()
        commit = graph.commit(CommitId(asked.commit))
        kind, name = split_table_key(asked.piece.key)
        type_ = type_of(graph.active_schema().catalog, asked.piece.key)
        handle = graph.tables.open_at(asked.piece.ref, asked.piece.version)
        position = 0
        with graph.tables.scan(handle, request_for(asked.piece, handle)) as batches:
            for batch in batches:
                for row in read_rows(type_, pa.Table.from_batches([batch])):
                    yield {
                        "_change": "insert",
                        "_commit": commit.id,
                        "_actor": commit.actor,
                        "_time": commit.created_at,
                        "_position": position,
                        "kind": kind,
                        "type": name,
                        "id": row["id"],
                        "before": None,
                        "after": json.dumps({type_.id_name: row["id"], **spell_row(type_, row)}),
                    }
                    position += 1


def _commits_between(
    graph: Graph, branch: BranchName, start: str, last: CommitId | None
) -> frozenset[CommitId]:
    """The commits after a cursor, up to one."""
    ids = [each.id for each in reversed(graph.commits(branch))]
    first = decode_position(start).commit
    begin = 0 if first is None else ids.index(first) + 1
    end = 0 if last is None else ids.index(last) + 1
    return frozenset(ids[begin:end])


def spell_change(block: Block, change: EntityChange, position: int) -> dict[str, Any]:
    """(3)"""
    return {
        "_change": change.op.value,
        "_commit": block.cause.id,
        "_actor": block.cause.actor,
        "_time": block.cause.created_at,
        "_position": position,
        "kind": change.kind,
        "type": change.type_name,
        "id": change.id,
        "before": _spell_image(change, change.before),
        "after": _spell_image(change, change.after),
    }


def _spell_image(change: EntityChange, image: Image | None) -> str | None:
    if image is None:
        return None
    ends = {} if image.ends is None else dict(zip(("from", "to"), image.ends, strict=True))
    id_name = SYSTEM_ID if ID in image.properties else ID
    return json.dumps({id_name: change.id, **ends, **image.properties})


def to_batches(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(COLUMNS, timezone="UTC")
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(some, schema=schema)
            some = []
    if some:
        yield pa.RecordBatch.from_pylist(some, schema=schema)


# ── readers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass
class ChangesReader(DataSourceReader):
    """The changes after one commit, up to another."""

    between: ChangeRange
    start: str
    end: str

    def partitions(self) -> Sequence[InputPartition]:
        return [CommitRange(self.start, self.end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.between.read(partition)


def make_changes_reader(home: Home, options: ChangeOptions) -> ChangesReader:
    """Raises UsageError, CommitNotFound, BranchNotFound."""
    between = ChangeRange(home, options)
    graph = between.open()
    start = options.start or "beginning"
    if start == BASELINE:
        raise UsageError("a baseline is for streams; read the rows of each type by option 'type'")
    last = "now" if options.end is None else f"after:{options.end}"
    return ChangesReader(
        between, between.first_cursor(graph, start), between.first_cursor(graph, last)
    )


@dataclass
class ChangesStream(DataSourceStreamReader):
    """(1) The feed as a stream."""

    between: ChangeRange

    def __post_init__(self) -> None:
        self._graph: Graph | None = None

    def _open(self) -> Graph:
        if self._graph is None:
            self._graph = self.between.open()
        return self._graph

    def __getstate__(self) -> dict[str, Any]:
        return {"between": self.between, "_graph": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        graph, options = self._open(), self.between.options
        start = options.start or BASELINE
        if start != BASELINE:
            return {"cursor": self.between.first_cursor(graph, start)}
        snapshot, cursor = graph.baseline(options.branch, options.where)
        assert snapshot.commit is not None, "a branch has a commit"
        return {"cursor": cursor, BASELINE: str(snapshot.commit.id), "piece": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's
        return ReadMaxRows(self.between.options.changes_max)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        assert most is not None or isinstance(limit, ReadAllAvailable)
        if BASELINE in start:
            return self._after_pieces(start, most)
        cursor: str | None = start["cursor"]
        token: str | None = None
        while True:
            page = self.between.poll(self._open(), token or cursor, None, most or CHANGES_MAX)
            token = page.next_page_token
            if page.cursor is None:
                continue  # the rest of a commit that is larger than a page
            cursor = page.cursor
            if page.caught_up or most is not None:
                return {"cursor": cursor}

    def _after_pieces(self, start: dict[str, Any], most: int | None) -> dict[str, Any]:
        """(2)"""
        pieces = self._pieces(start[BASELINE])
        at = start["piece"]
        end = len(pieces) if most is None else min(len(pieces), at + 1)
        if end >= len(pieces):
            return {"cursor": start["cursor"]}
        return {**start, "piece": end}

    def _pieces(self, commit: str) -> list[SortPiece]:
        graph, options = self._open(), self.between.options
        pins = graph.snapshot_at_commit(CommitId(commit)).pins
        keys = sorted(
            (key for key in pins if options.where.accepts(key)),
            key=lambda key: (split_table_key(key)[0] != "node", key),
        )
        pieces = (
            piece
            for key in keys
            for piece in cut_pieces(graph.tables, pins[key], rows=options.changes_max)
        )
        return [piece for piece in pieces if piece.fragment_ids]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if BASELINE in start:
            pieces = self._pieces(start[BASELINE])[start["piece"] : end.get("piece")]
            return [BaselinePiece(start[BASELINE], each) for each in pieces]
        if start == end:
            return []
        return [CommitRange(start["cursor"], end["cursor"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.between.read(partition)
