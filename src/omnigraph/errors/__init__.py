"""Every error that OmniGraph raises on purpose, in one module per remedy.

The class says the remedy, `code` says the cause, and the facts are fields: no caller has to read a
message with a regular expression. Codes are append-only; a published code keeps its meaning.
`docs/errors.md` explains each of them. In brackets: the builtin that catches the class as well.

::

    OmnigraphError
    ├── InputError [ValueError]        your input is wrong; correct it and ask again
    │     SchemaInvalid · QueryInvalid · QueryNotFound · ParameterInvalid · MigrationUnsupported
    │     BackfillInvalid · KeyInvalid · UsageError · Misaddressed · RequestInvalid
    │     FileUnreadable [OSError] · StoreUriInvalid · StoreKeyInvalid · BranchNameInvalid
    │     ConfigInvalid · PolicyInvalid · KeyReused · NotConfirmed · OpenedReadOnly · NotAMutation
    │     NotARead · QueryMemoryExceeded · QueryTimeout [TimeoutError] · TypeUnknown
    │     PathWeightInvalid ·
    │     ConstraintViolation · LoadRejected · RecipeInvalid · NotExportable · ResolutionsInvalid
    │     CursorInvalid · ChangesRefused · NotABlob · BlobRangeInvalid · GraphClosed
    ├── NotFoundError [KeyError]       what you named does not exist; name another
    │     ObjectNotFound · TableNotFound · VersionNotFound · ForkNotFound · BranchNotFound
    │     TagNotFound · ProposalNotFound
    │     GraphNotFound [FileNotFoundError] · TableUnknown · OperationNotFound · GraphNotServed
    │     StoredQueryNotFound · JobNotFound · NothingYet · BlobNotFound · ExternalBlob
    │     CommitNotFound · ChangeFeedGap · BucketNotFound
    ├── ConflictError                  another writer was first; read again, then decide again
    │     ExpectedVersionMismatch · UpdateRefused · Contention · AlreadyDone · HeadMoved
    │     BlobChanged · KeyConflict · MergeConflicts · MergeBaseUnavailable · Fenced · DriftFound
    │     LeaseHeld · LeaseLost · SchemaLocked · SchemaChanged · RecoveryPending · BranchesExist
    │     SchemaOutdated · BranchExists · BranchInUse · TagExists · GraphExists [FileExistsError]
    │     ObjectExists · ObjectChanged · ForkExists · ForkInUse · CloneRunning
    │     ProposalNotOpen · ProposalBlocked
    ├── PlacementError                 the place that holds the graph does not fit; operators act
    │     ConditionalWritesIgnored · BucketUnreachable · BucketForbidden · GraphRelocated
    │     GraphIncomplete · FormatTooNew · FormatTooOld
    ├── ExtraMissing [ImportError]     an optional library is not installed; install the extra
    ├── HelperUnusable                 no helper process can run; commands work without it
    ├── PipelineError                  bulk work could not run; operators act
    │     JavaMissing · SparkUnusable · JobFailed · SparkPackageMissing
    ├── EmbeddingError                 no vector could be made from a text; operators act
    │     EmbedderMissing · EmbeddingModelMismatch · EmbeddingFailed
    ├── CorruptionError                what is stored contradicts itself; operators look
    │     ManifestCorrupt · SidecarCorrupt · SidecarTooNew · InvariantViolated · LeaseCorrupt
    │     ObjectCorrupt · SchemaCorrupt · SchemaFilesInvalid
    ├── StorageFailure                 the store failed; find out whether a write took effect
    │     ReplyLost · TableCorrupt
    ├── OutcomeUnknown                 a commit may still become visible; look before you retry
    ├── AccessError                    the request was refused or stopped
    │     Unauthorized [PermissionError] · Forbidden [PermissionError] · QueryCancelled
    │     JobCancelled · TooManyRequests · WriteQueueFull · TooManyFailedLogins
    │     CrossSite
    └── ServerFailure                  the server gave no usable answer; ask again
          ServerUnreachable [ConnectionError] · ServerAnswerInvalid

Modules, in reading order: `base` (the root, the codes, how a class is declared), `findings` (what
errors list), `invalid`, `not_found`, `conflict`, `environment`, `storage`, `serving`.
"""

from omnigraph.errors.base import Code as Code, OmnigraphError as OmnigraphError
from omnigraph.errors.conflict import *
from omnigraph.errors.environment import *
from omnigraph.errors.findings import *
from omnigraph.errors.invalid import *
from omnigraph.errors.not_found import *
from omnigraph.errors.serving import *
from omnigraph.errors.storage import *
