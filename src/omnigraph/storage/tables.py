"""`Tables`: versioned tables of rows, changed in two steps.

A change is *staged* first: its files are written, nothing can see them, HEAD has not moved. Then
`commit_exact` makes one new version of it, or does not. No method here moves HEAD as a side
effect of writing. The few things Lance cannot do in two steps are methods of `SingleStepOps`,
reached by a name of its own (`tables.single_step`); docs/dev/storage.md gives the reason for each.

What an implementation promises:

1. A `Handle` is one version of one table on one branch, for good. Reading it shows nothing else.
2. A staged change lands as `read_version + 1` or is refused, as long as every writer of the table
   goes through here: data changes are guarded, so that any two of them conflict. Index, setting
   and compaction commits do not conflict with data; one that slips in between makes the outcome
   `Elsewhere`. Leases exist to prevent that; this layer only tells (D1).
3. The caller names the transaction (`Mark`); after a commit the name is read back and compared.
   When a commit fails in a way that is not a refusal, the name is looked for before anything is
   reported. `ReplyLost` is raised only if it cannot be found.
4. On a local disk opened as durable, every file a landed transaction created has been flushed,
   with its folder, when the call returns (D11).
5. Branches are opened by their own folder, and their recorded base is compared with where they
   are found: a copied graph answers `GraphRelocated` and never reads from the old place (D16).

Values in reading order: what is addressed (`TableRef`, `Handle`), what is read (`ScanRequest`),
what is staged (`Mark`, `RowChanges`, `IndexSpec`, `Staged`), what came of it (`Landed`, `Refused`,
`Elsewhere`), what happened before (`Transacted`, `Branch`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from omnigraph.storage.blobs import BlobFile
from omnigraph.storage.objects import Listed

ROW_ID: Final = "_rowid"
"""A row's identity: survives updates and compaction."""

ROW_ADDRESS: Final = "_rowaddr"
"""A row's place: fragment in the upper 32 bits, offset in the lower. Valid for one version."""

ROW_UPDATED: Final = "_row_last_updated_at_version"
"""The version that gave a row its content. Together with the row's identity it names that content,
among all versions that grew out of that one."""

ROWS_PER_FILE: Final = 100_000
"""An update costs what the fragment it touches weighs, so fragments are kept small."""

Rows = pa.Table | pa.RecordBatchReader

Addresses = np.ndarray[Any, np.dtype[np.uint64]]
"""Row addresses or row ids, many of them."""


# --- what is addressed ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableRef:
    """One table on one of its branches. `path` is relative to the root; no branch means main."""

    path: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Io:
    """Requests to where a table is stored, and the bytes that they brought."""

    count: int = 0
    nbytes: int = 0

    def __add__(self, other: "Io") -> "Io":
        return Io(self.count + other.count, self.nbytes + other.nbytes)

    def __sub__(self, other: "Io") -> "Io":
        return Io(self.count - other.count, self.nbytes - other.nbytes)


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
    def io(self) -> Io:
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


# --- what is read ---------------------------------------------------------------------------


class Metric(Enum):
    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"


@dataclass(frozen=True, slots=True)
class Nearest:
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


class TextMatch(Enum):
    ANY = "any"
    ALL = "all"
    PHRASE = "phrase"


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Rows whose text matches, best first. Needs a full-text index on the column."""

    column: str
    text: str
    match: TextMatch = TextMatch.ANY
    fuzziness: int = 0
    expansions_max: int = 50
    """How many words a fuzzy one may stand for."""


class Blobs(Enum):
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
    nearest: Nearest | None = None
    text: TextQuery | None = None
    indexed_only: bool = False
    """Leave out rows that the index of a search does not cover."""
    blobs: Blobs = Blobs.DESCRIPTIONS
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows_max: int | None = None
    ahead_bytes_max: int | None = None
    """How much may be read before it is asked for; as much as the store likes if not said."""


EVERYTHING: Final = ScanRequest()

Pause = Callable[[], None]

LOOKED_UP_MAX: Final = 1_000
"""Above this many values one pass over a column beats a filter that spells them all out."""


# --- what is staged -------------------------------------------------------------------------


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
class Shrunk:
    """A fragment that lost rows: its number, and the description of what it lost."""

    fragment_id: int
    deletions: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """Files that make up a change of rows, or a part of one, once somebody else commits them."""

    fresh: tuple[Receipt, ...] = ()
    shrunk: tuple[Shrunk, ...] = ()
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
class Fill:
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
    fills: tuple[Fill, ...] = ()


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
    gathered: tuple[CompactedFragments, ...] = ()
    payload: object = field(default=None, repr=False, compare=False)


# --- what came of it ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Landed:
    """It is the version right after the one it was made for."""

    handle: Handle


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was published; somebody else was first."""

    reason: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """It landed, and something that does not conflict with it landed in between."""

    handle: Handle


Outcome = Landed | Refused | Elsewhere


# --- what happened before -------------------------------------------------------------------


class TransactionKind(Enum):
    DATA = "data"
    INDEX = "index"
    CONFIG = "config"
    COMPACTION = "compaction"
    RESTORE = "restore"
    FORK = "fork"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Transacted:
    """The transaction that made one version. One that cannot be read back has no uuid."""

    version: int
    kind: TransactionKind
    uuid: str | None
    properties: Mapping[str, str]
    restores: int | None = None
    """The version whose content a restore brought back."""


@dataclass(frozen=True, slots=True)
class VersionFacts:
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


CACHE_BYTES_MAX: Final = 2 << 30
"""What a store keeps of manifests, footers and index pages, if nobody says otherwise."""


class Swap(Enum):
    """How the manifest is swapped. To readers there is no difference, nor to a rival."""

    REWRITE_TAIL = "rewrite_tail"
    """Files are listed again, but for the last one, which is written again (ADR 19)."""

    MERGE = "merge"
    """A merge-insert, which compares keys by itself; slower."""


# --- the protocols --------------------------------------------------------------------------


class SingleStepOps(Protocol):
    """What Lance does only in one step: these calls write and move HEAD together."""

    def swap_rows(self, handle: Handle, rows: pa.Table, *, key: str, mark: Mark) -> Outcome:
        """Insert or replace rows by key, if nobody touched those keys since `handle`.

        This is the compare-and-swap of `__manifest`, and every publish goes through it (D9).
        Refused means contention. A merge-insert (see `Swap`) chooses its own transaction uuid, so
        `mark` is not always recorded: recognise what landed by its rows. After a refusal, too: on
        a bucket the client may have repeated a request that had landed, and lost to itself.
        Raises `StorageFailure` when the outcome is unknown.
        """
        ...

    def commit_compaction(self, staged: StagedCompaction) -> Outcome:
        """Put compacted fragments in place: two versions, so never `Landed` at + 1.

        The handle of `Landed` is the version that must be confirmed before it is published.
        """
        ...

    def delete_versions(self, handle: Handle, versions: Sequence[int]) -> int:
        """Forget exactly these versions and the files only they use. Never HEAD.

        How many bytes that freed.
        """
        ...


class Tables(Protocol):
    """Tables below one root. Every method may raise `StorageFailure`."""

    @property
    def single_step(self) -> SingleStepOps: ...

    # reading

    def open_at(self, ref: TableRef, version: int | None = None) -> Handle:
        """A version of a table; the newest if none is named.

        Raises `TableNotFound`, `VersionNotFound`, `GraphRelocated`, `TableCorrupt`.
        """
        ...

    def probe(self, handle: Handle) -> int:
        """The newest version, found as cheaply as the store allows.

        Never ahead of the truth. It may lag behind it when versions in between were deleted, so
        whoever lost a race opens the table afresh instead of probing again.
        """
        ...

    def scan(
        self, handle: Handle, request: ScanRequest = EVERYTHING
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches as they are read. The context translates errors that occur while reading."""
        ...

    def read(
        self, handle: Handle, request: ScanRequest = EVERYTHING, pause: Pause | None = None
    ) -> pa.Table:
        """All of it; `pause` is called between two batches, and may raise to read no more."""
        ...

    def count(self, handle: Handle, where: str) -> int: ...

    def read_blobs(
        self, handle: Handle, column: str, addresses: Sequence[int]
    ) -> list[bytes | None]:
        """The bytes of a blob column at these row addresses, in their order; None for a null."""
        ...

    def open_blob(self, handle: Handle, column: str, address: int) -> BlobFile:
        """One blob, to read parts of. It is not null, and not kept elsewhere."""
        ...

    def locate(self, handle: Handle, column: str, values: Sequence[str]) -> pa.Table:
        """Where rows are: the column, `_rowid` and `_rowaddr` of rows whose value is listed.

        Up to `LOOKED_UP_MAX` values are looked up in an index, if there is one; for more of them
        the whole column is read.
        """
        ...

    def scan_at(
        self, handle: Handle, row_addresses: Addresses, request: ScanRequest
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        """Batches of exactly the rows at these addresses, which ascend; with their addresses."""
        ...

    def inspect(self, handle: Handle) -> TableStats: ...

    def find_parts(self, handle: Handle) -> tuple[FragmentContent, ...]:
        """What the version is made of. Known without a read."""
        ...

    def find_transactions(self, handle: Handle, *, after: int) -> tuple[Transacted, ...]:
        """What made each version from `after + 1` to the handle's, oldest first."""
        ...

    def find_versions(self, handle: Handle) -> tuple[VersionFacts, ...]: ...

    def find_debris(self, path: str) -> tuple[Listed, ...]:
        """Files of a table that no version names, on any branch. Some may have just been staged."""
        ...

    def locate_version(self, handle: Handle) -> VersionLocation:
        """The file that describes the handle's version."""
        ...

    # staging: files only

    def stage_create(
        self, ref: TableRef, schema: pa.Schema, mark: Mark, rows: Rows | None = None
    ) -> Staged: ...

    def stage_rows(self, handle: Handle, changes: RowChanges, mark: Mark) -> Staged:
        """Inserts, updates that keep their row ids, and deletions, as one transaction."""
        ...

    def stage_append(self, handle: Handle, rows: Rows, mark: Mark) -> Staged: ...

    def stage_receipts(self, handle: Handle, receipts: Sequence[Receipt], mark: Mark) -> Staged:
        """Append fragments that were written elsewhere, or staged before on an older version."""
        ...

    def to_pieces(self, staged: Staged) -> Pieces:
        """What somebody else needs to commit this. Its files are flushed first (D11)."""
        ...

    def stage_pieces(self, handle: Handle, pieces: Sequence[Pieces], mark: Mark) -> Staged:
        """One transaction of all pieces, which were written on the handle's version.

        No two of them may have dropped rows of one fragment.
        """
        ...

    def discard(self, ref: TableRef, pieces: Pieces) -> None:
        """Delete files that nothing will ever name. Those that are gone already do not matter."""
        ...

    def stage_upsert(self, handle: Handle, rows: pa.Table, mark: Mark, *, key: str) -> Staged:
        """Replace rows whose key exists, insert the others. Keys in `rows` must differ."""
        ...

    def stage_delete(self, handle: Handle, where: str, mark: Mark) -> Staged: ...

    def stage_overwrite(
        self,
        handle: Handle,
        schema: pa.Schema,
        mark: Mark,
        rows: Rows | None = None,
        receipts: Sequence[Receipt] = (),
    ) -> Staged:
        """Replace all rows, perhaps by none, and the schema. Indices are lost.

        The new rows are given, or were staged for an overwrite before and are named by their
        receipts; or both.
        """
        ...

    def stage_reshape(
        self, handle: Handle, reshape: Reshape, mark: Mark, filled: Sequence[str] | None = None
    ) -> Staged:
        """Drop, rename and add columns, all in one transaction.

        Rows keep their ids, and indices of columns that stay are kept. The table has rows: an
        empty one is overwritten. Only filled columns cost what the table weighs; they may have been
        filled before, by `fill`, in every fragment. Raises BackfillInvalid.
        """
        ...

    def fill(self, handle: Handle, fills: tuple[Fill, ...], fragment_id: int) -> str:
        """Fill the new columns of one fragment; its file is flushed (D11). Raises BackfillInvalid.

        The answer is for `stage_reshape`, on the same version.
        """
        ...

    def stage_unindex(self, handle: Handle, columns: Collection[str], mark: Mark) -> Staged:
        """Drop every index of these columns; there is one at least."""
        ...

    def stage_indices(
        self, handle: Handle, specs: Sequence[IndexSpec], scope: IndexScope, mark: Mark
    ) -> Staged | None:
        """Build what is missing; None if nothing is."""
        ...

    def restage_indices(
        self, built: Staged, handle: Handle, names: Collection[str], mark: Mark
    ) -> Staged | None:
        """Attach indices that were staged on an earlier version to a later one.

        Only those of these names. They know the rows that were there then; what came since they do
        not cover. None if they no longer fit: a fragment they cover is gone or its columns were
        rewritten, the schema is another, or somebody else has built one of them.
        """
        ...

    def stage_settings(self, handle: Handle, settings: TableSettings, mark: Mark) -> Staged: ...

    def stage_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> StagedCompaction | None:
        """Rewrite small fragments together; None if there is nothing to gain."""
        ...

    def plan_compaction(
        self, handle: Handle, *, rows_per_file: int = ROWS_PER_FILE
    ) -> tuple[str, ...]:
        """The same in steps that others may take: which fragments to put together, one text for
        each task.
        """
        ...

    def run_compaction_task(self, handle: Handle, task: str) -> str:
        """Do one task of a plan, on the version it was made for. Its files are flushed (D11)."""
        ...

    def stage_gathered(self, handle: Handle, outcomes: Sequence[str]) -> StagedCompaction:
        """What all tasks of a plan came to."""
        ...

    # moving HEAD, deliberately

    def commit_exact(self, staged: Staged) -> Outcome:
        """Raises `ReplyLost` when the commit failed oddly and cannot be found."""
        ...

    def restore(self, head: Handle, *, to: int, mark: Mark) -> Outcome:
        """Make the content of version `to` the newest again, on top of exactly `head`.

        Only under the lease (D1): Lance lets a restore bury whatever landed meanwhile. Refused
        if HEAD is not `head`. Elsewhere if a commit slipped in all the same; it has then been
        put back on top, and the caller must look again.
        """
        ...

    def fsync_version(self, handle: Handle, *, beyond: Handle | None = None) -> None:
        """Flush every file of this version, except those of a version known to be flushed."""
        ...

    def find_torn(self, shown: Handle) -> int | None:
        """The newest version, if it is later than the one shown and a power cut left it, or a file
        that came with it, so that it cannot be read (D31).
        """
        ...

    def remove_torn(self, shown: Handle, version: int) -> None:
        """Take the newest version away by its file. Only under the lease, and only if it is torn:
        nobody was ever told of it.
        """
        ...

    # branches

    def find_branches(self, path: str) -> tuple[Branch, ...]: ...

    def find_branch(self, path: str, branch: str) -> Branch | None:
        """One branch by its ref, without listing the others."""
        ...

    def fork(self, source: Handle, branch: str) -> Handle:
        """A new branch of the table that starts as `source`. Raises `ForkExists`."""
        ...

    def delete_branch(self, path: str, branch: str) -> None:
        """Raises `ForkNotFound`, `ForkInUse`."""
        ...

    def clear_branch(self, path: str, branch: str, *, only: str | None = None) -> None:
        """Remove a branch or whatever is left of one; `only` if it is still the one that was looked
        at, by its identifier. Raises `ForkInUse`.
        """
        ...
