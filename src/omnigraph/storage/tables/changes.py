"""What one transaction does to a table: the request, the staged files, the outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from omnigraph.storage.tables.versions import Handle, Index, TableRef

Rows = pa.Table | pa.RecordBatchReader


@dataclass(frozen=True, slots=True)
class Mark:
    """The name of a transaction, by which its writer and recovery recognise it afterwards."""

    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replacement:
    """New content for committed rows: row i of `rows` replaces row `row_ids[i]`.

    `row_addresses` is empty if other pieces of the same change delete the old rows.
    """

    rows: pa.Table
    row_ids: Sequence[int]
    row_addresses: Sequence[int]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Inserts, updates and deletions of one transaction. Addresses are of the handle's version."""

    inserts: pa.Table | None = None
    updates: Replacement | None = None
    deletes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """A fragment that was written: its description in Lance's JSON, and its row count."""

    fragment: str
    row_count: int


@dataclass(frozen=True, slots=True)
class FragmentDeletions:
    """The deletion file of one fragment, in Lance's JSON."""

    fragment_id: int
    deletions: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """Files of a change of rows, or of a part of it, that another process commits."""

    fresh: tuple[Receipt, ...] = ()
    shrunk: tuple[FragmentDeletions, ...] = ()
    removed: tuple[int, ...] = ()
    """Fragments whose rows are all deleted."""
    updated: int = 0
    dropped: int = 0
    """Rows that left their old place: deleted rows, and updated rows, which have a new place."""


class IndexKind(Enum):
    BTREE = "BTREE"
    INVERTED = "INVERTED"
    NGRAM = "NGRAM"
    IVF_FLAT = "IVF_FLAT"
    IVF_PQ = "IVF_PQ"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    column: str
    kind: IndexKind
    parameters: Mapping[str, int | str | bool] = field(default_factory=dict)
    is_second: bool = False
    """The column has another index; this one has the kind in its name."""

    @property
    def name(self) -> str:
        kind = f"_{self.kind.value.lower()}" if self.is_second else ""
        return f"{self.column}{kind}_idx"

    def is_built_by(self, index: Index) -> bool:
        return index.name == self.name and index.kind.upper() == self.kind.value


class IndexScope(Enum):
    UNCOVERED = "uncovered"
    """Index only the fragments that no segment covers. A full-text index is rebuilt if indexed rows
    were updated, because with a second segment a search would still find their former text."""

    REBUILD = "rebuild"
    """Index all fragments in one new segment, and drop the old segments."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Changes to the settings and metadata of a table. None removes a key."""

    config: Mapping[str, str | None] = field(default_factory=dict)
    schema_metadata: Mapping[str, str | None] = field(default_factory=dict)
    field_metadata: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ColumnFill:
    """The values of a new column for the committed rows.

    The expression is SQL over the columns of the row, by their names before the change.
    """

    entity: str
    """The name of the column in messages."""
    column: "pa.Field[pa.DataType]"
    expression: str | None
    """None if the values depend on the row count only."""
    convert: Callable[["pa.Array[Any]", int], "pa.Array[Any]"]
    """Converts the result of the expression, and the row count, to cells of the column."""


@dataclass(frozen=True, slots=True)
class Reshape:
    """Other columns for the same rows. New columns without a fill are null; no row is rewritten."""

    drops: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    """Former name to new name."""
    nulls: tuple["pa.Field[pa.DataType]", ...] = ()
    fills: tuple[ColumnFill, ...] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """A change whose files are written, and which no version shows yet."""

    ref: TableRef
    read_version: int
    """The version that it was staged on; 0 for a table that does not exist yet."""

    mark: Mark
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    receipts: tuple[Receipt, ...] = ()
    """The new fragments of an append or an overwrite, which may be staged again later (D5)."""

    payload: object = field(default=None, repr=False, compare=False)
    """For the implementation only."""


@dataclass(frozen=True, slots=True)
class CompactedFragments:
    """Fragments that were compacted together, and the new fragments that hold their rows."""

    before: tuple[int, ...]
    """Fragment numbers."""
    after: tuple[str, ...]
    """By identity, because they have no numbers yet. The one with the most rows is last."""


@dataclass(frozen=True, slots=True)
class StagedCompaction:
    """Compacted fragments that do not replace the old ones yet."""

    ref: TableRef
    read_version: int
    fragments_before: int
    groups: tuple[CompactedFragments, ...] = ()
    payload: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Landed:
    """Published as the version right after the one it was staged on."""

    handle: Handle


@dataclass(frozen=True, slots=True)
class Refused:
    """Not published: another commit conflicts with it."""

    reason: str


@dataclass(frozen=True, slots=True)
class LandedLater:
    """Published, but after another commit that does not conflict with it."""

    handle: Handle


Outcome = Landed | Refused | LandedLater
