"""What a table is at one version, and how rows are read from it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

ROW_ID: Final = "_rowid"
"""A row's identity: survives updates and compaction."""

ROW_ADDRESS: Final = "_rowaddr"
"""A row's place: fragment in the upper 32 bits, offset in the lower. Valid for one version."""

ROW_UPDATED: Final = "_row_last_updated_at_version"
"""The version that gave a row its content. Together with the row's identity it names that content,
among all versions that grew out of that one."""

ROWS_PER_FILE: Final = 100_000
"""An update costs what the fragment it touches weighs, so fragments are kept small."""

Addresses = np.ndarray[Any, np.dtype[np.uint64]]
"""Row addresses or row ids, many of them."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """One table on one of its branches. `path` is relative to the root; no branch means main."""

    path: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class IoStats:
    """Requests to where a table is stored, and the bytes that they brought."""

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
        """What the table was told about itself. Known without a read."""
        ...

    @property
    def io(self) -> IoStats:
        """What has been read through it so far, by everybody who shares it."""
        ...


@dataclass(frozen=True, slots=True)
class Fragment:
    """One run of rows that were written together."""

    fragment_id: int
    row_count: int
    deleted_count: int
    identity: str = ""
    """The same for fragments that show the same rows with the same columns, and for no others."""


@dataclass(frozen=True, slots=True)
class FragmentContent:
    """A fragment, and what tells its content apart from that of any other."""

    fragment_id: int
    row_count: int
    """Rows that are there, without the deleted."""
    files: tuple[str, ...]
    """The names of its data files. A name is never used twice, by any branch of the table."""
    deletions: str
    """The name of the list of its deleted rows; empty if there is none."""


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
    """What maintenance looks at."""

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
    """The transaction that made one version. One that cannot be read back has no uuid."""

    version: int
    kind: TransactionKind
    uuid: str | None
    properties: Mapping[str, str]
    restores: int | None = None
    """The version whose content a restore brought back."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    version: int
    created_ms: int


@dataclass(frozen=True, slots=True)
class VersionLocation:
    """The file that describes a version. Size and tag are known where asking is free."""

    path: str
    """The key of the object store: for a local file its absolute path without the first slash."""
    size_bytes: int | None
    tag: str | None


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a table. `identifier` differs each time a branch of that name is created."""

    name: str
    parent: str | None
    parent_version: int
    identifier: str


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
    """How many partitions of an index are looked into, at least."""
    is_exact: bool = False
    """Look at every vector the filter lets through, index or not."""


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
    """How many words a fuzzy one may stand for."""


class BlobMode(Enum):
    """How blob columns are read."""

    DESCRIPTIONS = "blobs_descriptions"
    """Where the bytes are, and how many."""

    BYTES = "all_binary"
    """The bytes themselves."""


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """What to read of a version."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    among: Mapping[str, Collection[str]] | None = None
    """A hint: whatever matches `where` has one of these texts in one of these columns."""
    limit: int | None = None
    offset: int | None = None
    fragment_ids: tuple[int, ...] | None = None
    nearest: VectorQuery | None = None
    text: TextQuery | None = None
    indexed_only: bool = False
    """Leave out rows that the index of a search does not cover."""
    blobs: BlobMode = BlobMode.DESCRIPTIONS
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows_max: int | None = None
    ahead_bytes_max: int | None = None
    """How much may be read before it is asked for; as much as the store likes if not said."""


EVERYTHING: Final = ScanRequest()

Pause = Callable[[], None]

LOOKED_UP_MAX: Final = 1_000
"""Above this many values one pass over a column beats a filter that spells them all out."""
