"""A table at one version: its fragments, indices and history, and how rows are read from it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

ROW_ID: Final = "_rowid"
"""The identity of a row. Updates and compactions keep it."""

ROW_ADDRESS: Final = "_rowaddr"
"""The place of a row: fragment in the upper 32 bits, offset in the lower. Valid for one version."""

ROW_UPDATED: Final = "_row_last_updated_at_version"
"""The version that wrote the content of a row. Among that version and all versions built on it, row
id and this version together identify the content."""

ROWS_PER_FILE: Final = 100_000
"""An update rewrites the fragment it touches, so fragments are kept small."""

Addresses = np.ndarray[Any, np.dtype[np.uint64]]
"""An array of row addresses or of row ids."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """One table on one of its branches. `path` is relative to the root; no branch means main."""

    path: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class IoStats:
    """How many read requests a table has sent to its store, and how many bytes they returned."""

    count: int = 0
    nbytes: int = 0

    def __add__(self, other: "IoStats") -> "IoStats":
        return IoStats(self.count + other.count, self.nbytes + other.nbytes)

    def __sub__(self, other: "IoStats") -> "IoStats":
        return IoStats(self.count - other.count, self.nbytes - other.nbytes)


class Handle(Protocol):
    """A table at one version. Cheap to keep; safe to share among threads that read."""

    @property
    def ref(self) -> TableRef: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def row_count(self) -> int: ...
    @property
    def config(self) -> Mapping[str, str]:
        """The settings of the table. Known without a read."""
        ...

    @property
    def io(self) -> IoStats:
        """The reads through this handle so far, by all threads that share it."""
        ...


@dataclass(frozen=True, slots=True)
class Fragment:
    """Rows that were written together."""

    fragment_id: int
    row_count: int
    deleted_count: int
    identity: str = ""
    """Equal for two fragments exactly if they show the same rows with the same columns."""
    written: str = ""
    """Equal for two fragments that differ at most in the rows that were deleted from them."""


@dataclass(frozen=True, slots=True)
class FragmentContent:
    """A fragment by its files. Equal files and equal deletions mean equal content."""

    fragment_id: int
    row_count: int
    """Rows that are not deleted."""
    files: tuple[str, ...]
    """The names of its data files. A name is never used twice, by any branch of the table."""
    deletions: str
    """The name of the file that lists its deleted rows; empty if no row is deleted."""


@dataclass(frozen=True, slots=True)
class Index:
    """One index of a table, and the fragments it covers."""

    name: str
    column: str
    kind: str
    covered: frozenset[int]
    segment_count: int


@dataclass(frozen=True, slots=True)
class TableStats:
    """What maintenance decides by."""

    fragments: tuple[Fragment, ...]
    indices: tuple[Index, ...]
    config: Mapping[str, str]


class TransactionKind(Enum):
    DATA = "data"
    INDEX = "index"
    CONFIG = "config"
    COMPACTION = "compaction"
    RESTORE = "restore"
    FORK = "fork"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """The transaction that made one version. `uuid` is None if the transaction cannot be read."""

    version: int
    kind: TransactionKind
    uuid: str | None
    properties: Mapping[str, str]
    restores: int | None = None
    """The version whose content a restore published again."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    version: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class VersionLocation:
    """The file that describes a version. Size and tag are None where they would cost a request."""

    path: str
    """The key in the object store; for a local file, its absolute path without the first slash."""
    size_bytes: int | None
    tag: str | None


@dataclass(frozen=True, slots=True)
class TableBranch:
    """A branch of a table. `identifier` differs each time a branch of that name is created."""

    name: str
    parent: str | None
    parent_version: int
    identifier: str


@dataclass(frozen=True, slots=True)
class ForkFiles:
    """The files of a branch that does not exist yet: their keys below the root, and their bytes."""

    transaction: tuple[str, bytes]
    version: tuple[str, bytes]
    ref: tuple[str, bytes]


class Metric(Enum):
    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The `limit` rows whose vectors lie closest, after the filter, best first."""

    column: str
    vector: tuple[float, ...]
    limit: int
    metric: Metric = Metric.L2
    refine_factor: int | None = None
    probes: int | None = None
    """The minimum number of index partitions that the search reads."""
    is_exact: bool = False
    """Compare every vector that passes the filter, even if there is an index."""


class TextQueryMode(Enum):
    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Rows whose text matches, best first. Needs a full-text index on the column."""

    column: str
    text: str
    match: TextQueryMode = TextQueryMode.ANY
    fuzziness: int = 0
    expansions_max: int = 50
    """The maximum number of indexed words that a fuzzy word may match."""


class BlobMode(Enum):
    """How blob columns are read."""

    DESCRIPTIONS = "blobs_descriptions"
    """Where the bytes are, and how many."""

    BYTES = "all_binary"
    """The bytes themselves."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """Which rows and columns of a version to read."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    among: Mapping[str, Collection[str]] | None = None
    """A hint: every row that matches `where` has one of these texts in one of these columns."""
    limit: int | None = None
    offset: int | None = None
    fragment_ids: tuple[int, ...] | None = None
    nearest: VectorQuery | None = None
    text: TextQuery | None = None
    indexed_only: bool = False
    """Leave out rows that the index of the search does not cover."""
    blobs: BlobMode = BlobMode.DESCRIPTIONS
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows_max: int | None = None
    ahead_bytes_max: int | None = None
    """How many bytes may be read ahead of the consumer; None leaves it to the store."""


EVERYTHING: Final = ScanRequest()

Pause = Callable[[], None]

LOOKED_UP_MAX: Final = 1_000
"""Above this many values, one pass over the column is faster than a filter that lists them."""


class BlobFile(Protocol):
    """The bytes of one blob. They never change, because the files of a table are written once."""

    @property
    def length(self) -> int: ...

    @property
    def place(self) -> str:
        """Names the place of the bytes. No other bytes ever have the same place.

        The same value written again, for example by a compaction, has another place.
        """
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes, which must exist; no others are fetched. Raises `StorageFailure`."""
        ...
