"""The protocol between a load and the pipeline, which does its bulk work. It knows no Spark.

1. `ingest` reads all input once, checks each record by itself, and writes the rows to files that no
   table version names. Rows become fragments of their table if nothing is left to decide. They
   become pending files if the load must first find the rows that they replace, or if the branch
   has no fork of the table yet.
2. `Ingested.check` checks the rules across rows afterwards, against the tables that a manifest
   pins, and again if those move. It may leave the rules to the in-process evaluator, which reads
   the pending rows. Both report the same faults.
3. The result of an ingest is all that the load knows of it. Tasks may have run twice.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Protocol

import pyarrow as pa

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.settings import ERRORS_MAX
from omnigraph.engine.write.violations import Violation
from omnigraph.ids import BranchName, OperationId, TableKey, split_table_key
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import Root
from omnigraph.storage.tables import Pieces, Receipt, TableRef

ORDINAL: Final = "__ordinal"
"""A column of pending rows: the place of a row in the input. Later input has higher ordinals."""


class LoadMode(StrEnum):
    APPEND = "append"
    """Rows are new; one that exists is refused."""
    MERGE = "merge"
    """Rows that exist are replaced whole, others are added."""
    OVERWRITE = "overwrite"
    """Every table that has records in the input holds nothing else afterwards."""


class LoadEngine(StrEnum):
    """Where the tasks of a load run (D28)."""

    AUTO = "auto"
    """In the process if the input is small, else on Spark."""
    LOCAL = "local"
    SPARK = "spark"


def type_of(catalog: Catalog, key: TableKey) -> NodeType | EdgeType:
    """The type whose rows a table holds. A node and an edge may share a name."""
    kind, name = split_table_key(key)
    found = catalog.node(name) if kind == "node" else catalog.edge(name)
    assert found is not None, f"{key} is not of this schema"
    return found


# ── the job ──────────────────────────────────────────────────────────────────────────────────────


class Placement(Enum):
    """(1) Which files take the rows of a table."""

    IN_PLACE = "in_place"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """One table of the graph, as a worker has to know it."""

    ref: TableRef
    version: int
    placement: Placement
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class LoadJob:
    sources: Sequence[Input | str]
    """A text names files of records; `-` is standard input."""
    mode: LoadMode
    branch: BranchName
    operation_id: OperationId
    catalog: Catalog
    targets: Mapping[TableKey, LoadTarget]
    root: Root
    storage_options: Mapping[str, str] = field(repr=False)
    durability: Durability
    errors_max: int = ERRORS_MAX
    rejects: "Rejects | None" = None
    """Receives every fault, and not only the first ones."""
    engine: LoadEngine | None = None
    """None leaves the choice to the bulk loader."""
    input_options: Mapping[str, str] | None = field(default=None, repr=False)
    """How the input is reached, if not like the graph."""

    @property
    def reading_options(self) -> Mapping[str, str]:
        return self.storage_options if self.input_options is None else self.input_options


# ── its result ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in the input. Without a place it is about committed rows."""

    kind: str
    """A `ViolationKind`; `record` for a line that could not be read at all; or `column`."""
    message: str
    file: str | None = None
    line: int | None = None
    type_name: str | None = None
    property_name: str | None = None
    ids: tuple[str, ...] = ()
    value: object = None

    def render(self) -> str:
        if self.file is None:
            return self.message
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


Rejects = Callable[[Fault], None]
"""Receives one fault after the other; there may be as many as records."""

RECORD: Final = "record"
COLUMN: Final = "column"
"""Of a fault: a column of a table does not fit, whatever is in it."""


def fault_of(violation: Violation, *, file: str | None = None, line: int | None = None) -> Fault:
    return Fault(
        kind=violation.kind,
        message=violation.message,
        file=file,
        line=line,
        type_name=violation.type_name,
        property_name=violation.property_name,
        ids=violation.ids,
        value=violation.value,
    )


@dataclass(frozen=True, slots=True)
class Faults:
    """The first of the faults there are, and how many there are altogether."""

    listed: tuple[Fault, ...] = ()
    count: int = 0


def gather_faults(found: Iterable[Fault], errors_max: int, rejects: Rejects | None) -> Faults:
    """Keep the first faults, count all, and pass each to `rejects`."""
    listed: list[Fault] = []
    count = 0
    for each in found:
        count += 1
        if count <= errors_max:
            listed.append(each)
        if rejects is not None:
            rejects(each)
    return Faults(tuple(listed), count)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """(2) Which rules the rows of a load break, together and with the committed rows."""

    faults: Faults = field(default_factory=Faults)
    existing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By type, the ids of appended rows that committed rows have."""
    tables_read: frozenset[TableKey] = frozenset()
    """The committed tables that the result depends on."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where in the input a row came from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Ingested(Protocol):
    """Input that was read. Its rows are in files that no table version names."""

    @property
    def counts(self) -> Mapping[TableKey, int]:
        """How many records there were for each table that had any."""
        ...

    @property
    def faults(self) -> Faults:
        """The faults of records, each checked by itself."""
        ...

    def read_faults(self) -> Iterable[Fault]:
        """All of them, if the job has `rejects`, without holding them; else the first."""
        ...

    @property
    def engine(self) -> LoadEngine:
        """The engine that read the input: local or Spark."""
        ...

    @property
    def is_small(self) -> bool:
        """(2) Are the rows so few that the rules are only evaluated under the write locks?"""
        ...

    @property
    def receipts(self) -> Mapping[TableKey, tuple[Receipt, ...]]:
        """The fragments of tables whose rows are in place."""
        ...

    @property
    def given_ids(self) -> Mapping[TableKey, int]:
        """How many records of a table named their row, by its key or its id."""
        ...

    def read_pending(self, key: TableKey) -> pa.Table:
        """The pending rows, in the order of the input, with their `ORDINAL`."""
        ...

    def open_pending(self, key: TableKey, columns: Sequence[str]) -> pa.RecordBatchReader:
        """The same rows as a stream, with these columns in this order."""
        ...

    def fits(self, key: TableKey) -> bool:
        """Do the pending rows fit in the memory of this process?"""
        ...

    def write_pending(self, key: TableKey, pin: Pin, ref: TableRef) -> tuple[Pieces, ...]:
        """Write the pending rows as files that no version names, as the mode says.

        They belong to `ref`, which shows what `pin` shows, and fit only on that version.
        Raises JobFailed.
        """
        ...

    def place_of(self, ordinal: int) -> RecordPlace: ...

    def check(self, pins: Mapping[TableKey, Pin]) -> CheckResult | None:
        """(2) Check the rules of the load against the pinned tables.

        None leaves the rules to the in-process evaluator; then all rows are in pending files.
        Raises JobFailed.
        """
        ...


class BulkLoader(Protocol):
    """Does bulk work."""

    def ingest(self, job: LoadJob) -> AbstractContextManager[Ingested]:
        """(1) Read all input. Pending files are deleted when the context ends.

        Raises FileUnreadable, JavaMissing, SparkUnusable, JobFailed.
        """
        ...
