"""Versioned tables of rows, changed in two steps.

A caller *stages* a change first: its files are written, no version refers to them, HEAD has not
moved. Then `commit_exact` publishes the staged change as one new version, or refuses it. No staging
method moves HEAD. The few operations that Lance offers only in one step are methods of
`SingleStepOps`, reached as `tables.single_step`; docs/dev/storage.md gives the reason for each.

Every implementation of `Tables` guarantees:

1. A `Handle` stands for one version of one table on one branch, and never for another one.
2. A staged change of rows lands as `read_version + 1` or is refused, if all writers of the table
   use this protocol: any two changes of rows conflict. Commits of indices, settings and
   compactions do not conflict with changes of rows; if one lands in between, the outcome is
   `LandedLater`. Leases prevent that; this layer only reports it (D1).
3. The caller names the transaction (`Mark`). After a commit the name is read back and compared.
   After a failure that is not a refusal, the versions since are searched for the name. `ReplyLost`
   is raised only if the name is not found.
4. On a local disk opened as durable, every file that a landed transaction created, and its folder,
   is flushed before the call returns (D11).
5. A branch is opened by its own folder, and its recorded base is compared with the place of that
   folder: a copied graph raises `GraphRelocated` and never reads from the old place (D16).

Reading order: `versions` (what a version consists of, and how rows are read), `changes` (what is
staged, and the outcome of a commit), `protocol` (`Tables` and `SingleStepOps`).
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
    BlobFile as BlobFile,
    BlobMode as BlobMode,
    ForkFiles as ForkFiles,
    Fragment as Fragment,
    FragmentContent as FragmentContent,
    Handle as Handle,
    Index as Index,
    IoStats as IoStats,
    Metric as Metric,
    Pause as Pause,
    ScanRequest as ScanRequest,
    TableBranch as TableBranch,
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
