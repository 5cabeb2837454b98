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
   `LandedLater`. Leases exist to prevent that; this layer only tells (D1).
3. The caller names the transaction (`Mark`); after a commit the name is read back and compared.
   When a commit fails in a way that is not a refusal, the name is looked for before anything is
   reported. `ReplyLost` is raised only if it cannot be found.
4. On a local disk opened as durable, every file a landed transaction created has been flushed,
   with its folder, when the call returns (D11).
5. Branches are opened by their own folder, and their recorded base is compared with where they
   are found: a copied graph answers `GraphRelocated` and never reads from the old place (D16).

Values in reading order: what is addressed (`TableRef`, `Handle`), what is read (`ScanRequest`),
what is staged (`Mark`, `RowChanges`, `IndexSpec`, `Staged`), what came of it (`Landed`, `Refused`,
`LandedLater`), what happened before (`TransactionRecord`, `Branch`).
"""

from omnigraph.storage.tables.changes import (
    ColumnFill as ColumnFill,
    CompactedFragments as CompactedFragments,
    FragmentDeletions as FragmentDeletions,
    IndexKind as IndexKind,
    IndexScope as IndexScope,
    IndexSpec as IndexSpec,
    Landed as Landed,
    LandedLater as LandedLater,
    Mark as Mark,
    Outcome as Outcome,
    Pieces as Pieces,
    Receipt as Receipt,
    Refused as Refused,
    Replacement as Replacement,
    Reshape as Reshape,
    RowChanges as RowChanges,
    Rows as Rows,
    Staged as Staged,
    StagedCompaction as StagedCompaction,
    TableSettings as TableSettings,
)
from omnigraph.storage.tables.protocol import (
    CACHE_BYTES_MAX as CACHE_BYTES_MAX,
    ManifestSwap as ManifestSwap,
    SingleStepOps as SingleStepOps,
    Tables as Tables,
)
from omnigraph.storage.tables.versions import (
    EVERYTHING as EVERYTHING,
    LOOKED_UP_MAX as LOOKED_UP_MAX,
    ROW_ADDRESS as ROW_ADDRESS,
    ROW_ID as ROW_ID,
    ROW_UPDATED as ROW_UPDATED,
    ROWS_PER_FILE as ROWS_PER_FILE,
    Addresses as Addresses,
    BlobMode as BlobMode,
    Branch as Branch,
    Fragment as Fragment,
    FragmentContent as FragmentContent,
    Handle as Handle,
    Index as Index,
    IoStats as IoStats,
    Metric as Metric,
    Pause as Pause,
    ScanRequest as ScanRequest,
    TableRef as TableRef,
    TableStats as TableStats,
    TextQuery as TextQuery,
    TextQueryMode as TextQueryMode,
    TransactionKind as TransactionKind,
    TransactionRecord as TransactionRecord,
    VectorQuery as VectorQuery,
    VersionInfo as VersionInfo,
    VersionLocation as VersionLocation,
)
