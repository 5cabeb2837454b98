"""What a transaction does to a table, from staging to its outcome."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from omnigraph.storage.tables.versions import Handle, Index, TableRef

Rows = pa.Table | pa.RecordBatchReader


@dataclass(frozen=True, slots=True)
class Mark:
    """How a transaction is recognised afterwards, by its writer and by strangers."""

    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Replacement:
    """New content for rows that exist: row i of `rows` replaces the row at place i.

    The addresses are left out where other pieces of the same change drop the old rows.
    """

    rows: pa.Table
    row_ids: Sequence[int]
    row_addresses: Sequence[int]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What one transaction does to the rows of a table. Addresses are of its handle's version."""

    inserts: pa.Table | None = None
    updates: Replacement | None = None
    deletes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is left to say once a fragment is written: its description, and how many rows it has."""

    fragment: str
    row_count: int


@dataclass(frozen=True, slots=True)
class FragmentDeletions:
    """A fragment that lost rows: its number, and the description of what it lost."""

    fragment_id: int
    deletions: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """Files that make up a change of rows, or a part of one, once somebody else commits them."""

    fresh: tuple[Receipt, ...] = ()
    shrunk: tuple[FragmentDeletions, ...] = ()
    removed: tuple[int, ...] = ()
    """Fragments that lost all their rows."""
    updated: int = 0
    dropped: int = 0
    """Rows that are no longer where they were: deleted, or updated and in a new place."""


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
    """Stands beside another index of the column, under a name of its own."""

    @property
    def name(self) -> str:
        kind = f"_{self.kind.value.lower()}" if self.is_second else ""
        return f"{self.column}{kind}_idx"

    def is_built_by(self, index: Index) -> bool:
        return index.name == self.name and index.kind.upper() == self.kind.value


class IndexScope(Enum):
    UNCOVERED = "uncovered"
    """Index only the fragments no segment covers. A full-text index whose rows were updated is
    rebuilt all the same, because a second segment would bring their former text back."""

    REBUILD = "rebuild"
    """Index everything anew, in one segment, and drop what existed."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Changes to what a table says about itself. A value of None removes the key."""

    config: Mapping[str, str | None] = field(default_factory=dict)
    schema_metadata: Mapping[str, str | None] = field(default_factory=dict)
    field_metadata: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ColumnFill:
    """A new column that is not null everywhere: what every row that exists gets in it.

    The expression is SQL over the columns of the row, as they are called before the change.
    """

    entity: str
    """What the column is called in messages."""
    column: "pa.Field[pa.DataType]"
    expression: str | None
    """None: nothing of the row is needed, only how many rows there are."""
    convert: Callable[["pa.Array[Any]", int], "pa.Array[Any]"]
    """Makes cells of the column out of what the expression gave for so many rows."""


@dataclass(frozen=True, slots=True)
class Reshape:
    """Other columns for the same rows. What is not filled is null, and no row is rewritten."""

    drops: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    """Former name to new name."""
    nulls: tuple["pa.Field[pa.DataType]", ...] = ()
    fills: tuple[ColumnFill, ...] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """A change whose files are written and which nobody can see yet."""

    ref: TableRef
    read_version: int
    """The version it was staged on; 0 for a table that does not exist yet."""

    mark: Mark
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    receipts: tuple[Receipt, ...] = ()
    """The new fragments of an append or an overwrite, which may be staged again later (D5)."""

    payload: object = field(default=None, repr=False, compare=False)
    """The implementation's own record."""


@dataclass(frozen=True, slots=True)
class CompactedFragments:
    """Fragments whose rows were put together, and those that hold all these rows now."""

    before: tuple[int, ...]
    """By number."""
    after: tuple[str, ...]
    """By identity, for they have no numbers yet. The one with the most rows comes last."""


@dataclass(frozen=True, slots=True)
class StagedCompaction:
    """Fragments rewritten together, not yet put in the place of the old ones."""

    ref: TableRef
    read_version: int
    fragments_before: int
    groups: tuple[CompactedFragments, ...] = ()
    payload: object = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Landed:
    """It is the version right after the one it was made for."""

    handle: Handle


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was published; somebody else was first."""

    reason: str


@dataclass(frozen=True, slots=True)
class LandedLater:
    """It landed, and something that does not conflict with it landed in between."""

    handle: Handle


Outcome = Landed | Refused | LandedLater
