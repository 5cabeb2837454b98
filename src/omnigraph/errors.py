"""Every error OmniGraph raises, grouped by what a caller would do about it.

::

    OmnigraphError
    ├── InputError            your input is wrong; fix it and ask again
    │   ├── SchemaInvalid         a .pg program was rejected; `findings` holds every reason
    │   ├── QueryInvalid          a .gq program was rejected; `findings` holds every reason
    │   ├── QueryNotFound         no query of that name; or several, and none was named
    │   ├── ParameterInvalid      a parameter is missing, or its value does not fit its type
    │   ├── MigrationUnsupported  the new schema cannot be reached from the old one
    │   ├── BackfillInvalid       what old rows are to get in a new property does not fit it
    │   ├── FileUnreadable        a named file is missing or is not what it should be
    │   ├── StoreUriInvalid       a place to keep a graph was spelled in a way we cannot use
    │   ├── StoreKeyInvalid       an object's name would leave the store or hide in it
    │   ├── BranchNameInvalid     no branch can have that name
    │   ├── KeyInvalid            a value cannot be (part of) the identity of a node
    │   ├── ConfigInvalid         the operator's configuration cannot be used
    │   ├── PolicyInvalid         a policy cannot be used as it stands
    │   ├── RequestInvalid        a request to the server makes no sense
    │   ├── KeyReused             an idempotency key came back with another request
    │   ├── NotConfirmed          something would be destroyed, and nobody said yes
    │   ├── OpenedReadOnly        a write was asked of a graph opened for reading
    │   ├── NotAMutation          a query that only reads was asked to change the graph
    │   ├── NotARead              a query that changes the graph was asked to read
    │   ├── QueryMemoryExceeded   a read would hold more memory than it is allowed to
    │   ├── QueryTimeout          a read took longer than it is allowed to
    │   ├── TypeUnknown           the schema has no node or edge type of that name
    │   ├── ConstraintViolation   rows break the schema; `violations` holds every way
    │   ├── LoadRejected          records of a load are wrong; `faults` says which and why
    │   ├── RecipeInvalid         a pipeline file was rejected; `mistakes` holds every reason
    │   ├── NotExportable         a row holds a number that a record cannot spell
    │   ├── ResolutionsInvalid    a file of resolutions cannot be used
    │   ├── CursorInvalid         a cursor or page token is not one of ours, or not for this
    │   ├── ChangesRefused        what changed cannot be told for this commit
    │   ├── NotABlob              a property was to be read as a Blob and is none
    │   ├── BlobRangeInvalid      bytes were asked for that lie outside of a Blob
    │   ├── Misaddressed          the graph was named twice, not at all, or for another command
    │   └── UsageError            a command was called the wrong way
    ├── NotFoundError         what was named is not there; look again, or name another
    │   ├── ObjectNotFound        no object of that key
    │   ├── TableNotFound         no table at that path, or none on that branch
    │   ├── VersionNotFound       the table exists, that version of it does not
    │   ├── ForkNotFound          the table has no branch of that name
    │   ├── GraphNotFound         no graph at that place
    │   ├── BranchNotFound        the graph has no branch of that name
    │   ├── TableUnknown          the snapshot shows no table of that key
    │   ├── OperationNotFound     no pending write and no recovery has that id
    │   ├── GraphNotServed        the server has no graph of that name
    │   ├── StoredQueryNotFound   the server has no stored query of that name, or hides it
    │   ├── JobNotFound           the graph has no job of that id
    │   ├── ChangeFeedGap         commits a cursor has not seen yet were cleaned up
    │   ├── NothingYet            the branch had no commit at that time
    │   ├── BlobNotFound          no such Blob: nothing of that name, or it is null
    │   ├── ExternalBlob          what a Blob holds is kept elsewhere; `uri` says where
    │   └── CommitNotFound        no branch's history holds that commit
    ├── ConflictError         somebody else was first; read again, then decide again
    │   ├── ExpectedVersionMismatch  a table moved since it was read
    │   ├── HeadMoved             the branch is not at the commit the caller built on
    │   ├── BlobChanged           a Blob is not what the caller knows it as
    │   ├── KeyConflict           rows that were to be new exist already
    │   ├── MergeConflicts        two branches changed the same, or do not go together
    │   ├── MergeBaseUnavailable  where two branches last agreed can no longer be read
    │   ├── UpdateRefused         the manifest already says something that excludes the change
    │   ├── Contention            other writers kept winning; nothing of ours took effect
    │   ├── AlreadyDone           a write with the same idempotency key was there first
    │   ├── Fenced                somebody recovered our operation; it must not go on
    │   ├── DriftFound            a table moved by something other than us
    │   ├── LeaseHeld             another process writes that table
    │   ├── LeaseLost             we were silent too long; another process took over
    │   ├── SchemaLocked          a schema change is under way
    │   ├── SchemaChanged         the schema is another one than the caller worked with
    │   ├── RecoveryPending       an unfinished write has to be resolved first
    │   ├── BranchesExist         a schema change needs main to be the only branch
    │   ├── SchemaOutdated        a branch was to start under another schema than the one in force
    │   ├── BranchExists          the graph has a branch of that name already
    │   ├── BranchInUse           other branches came from this one, or still read its files
    │   ├── GraphExists           there is a graph at that place already
    │   ├── ObjectExists          the key was to be new and is not
    │   ├── ObjectChanged         the object is no longer the one that was read
    │   ├── ForkExists            the table already has a branch of that name, or its remains
    │   └── ForkInUse             other branches of the table were forked from this one
    ├── PlacementError        the place the graph is kept in does not fit; an operator must act
    │   ├── ConditionalWritesIgnored  the store accepts conditional puts and does not honour them
    │   ├── GraphIncomplete       an init died there and left something behind
    │   ├── FormatTooNew          written by a newer program; upgrade first
    │   ├── FormatTooOld          written by a program too old for us
    │   └── GraphRelocated        the files were moved; branches still point at the old place
    ├── PipelineError         bulk work could not be run; nothing was changed, an operator must act
    │   ├── JavaMissing           Spark needs Java, and there is none
    │   ├── SparkUnusable         Spark did not start, or cannot reach what it needs
    │   └── JobFailed             a bulk job was started and died
    ├── EmbeddingError        a text could not become a vector; nothing was changed
    │   ├── EmbedderMissing       no provider is set up, or it lacks its key
    │   ├── EmbeddingModelMismatch  the property was embedded with another model
    │   └── EmbeddingFailed       the provider did not answer, or not with a vector that fits
    ├── CorruptionError       what is stored contradicts itself; nothing was changed
    │   ├── ManifestCorrupt       the manifest holds rows that cannot be understood
    │   ├── SchemaFilesInvalid    the three schema files do not agree
    │   ├── SidecarCorrupt        a sidecar cannot be understood
    │   ├── SidecarTooNew         a newer program left a sidecar
    │   ├── InvariantViolated     what must never happen to a table did
    │   ├── LeaseCorrupt          a lease cannot be understood
    │   ├── ObjectCorrupt         a small file beside the tables cannot be understood
    │   └── SchemaCorrupt         the stored form of the schema cannot be understood
    ├── StorageFailure        the store failed; whether a write took effect must be looked up
    │   ├── ReplyLost             a commit was sent, failed oddly, and cannot be found
    │   └── TableCorrupt          files a table names are missing or cannot be read
    ├── AccessError           you may not; ask somebody who may
    │   ├── Unauthorized          no token, or one the server does not know
    │   ├── Forbidden             the policy does not let this actor do this
    │   ├── QueryCancelled        a read was stopped: its caller went away, or the server stops
    │   ├── JobCancelled          somebody asked for the work to stop, and it did
    │   └── TooManyRequests       this actor has too much under way; try again later
    ├── ServerFailure         the server did not answer as it should; ask again
    │   ├── ServerUnreachable     no answer came
    │   └── ServerAnswerInvalid   an answer came that cannot be understood
    └── OutcomeUnknown        work may still become visible; look before trying again

The class says the remedy, `code` says the cause, and the facts are fields: nobody reads a message
with a regular expression. Codes are append-only; a code once published keeps its meaning.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol


class Code(StrEnum):
    """Stable names of causes. Append, never rename or reuse."""

    SCHEMA_INVALID = "schema_invalid"
    QUERY_INVALID = "query_invalid"
    QUERY_NOT_FOUND = "query_not_found"
    PARAMETER_INVALID = "parameter_invalid"
    MIGRATION_UNSUPPORTED = "migration_unsupported"
    USAGE = "usage"
    FILE_UNREADABLE = "file_unreadable"
    STORE_URI_INVALID = "store_uri_invalid"
    STORE_KEY_INVALID = "store_key_invalid"
    OBJECT_NOT_FOUND = "object_not_found"
    TABLE_NOT_FOUND = "table_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    FORK_NOT_FOUND = "fork_not_found"
    OBJECT_EXISTS = "object_exists"
    OBJECT_CHANGED = "object_changed"
    FORK_EXISTS = "fork_exists"
    FORK_IN_USE = "fork_in_use"
    CONDITIONAL_WRITES_IGNORED = "conditional_writes_ignored"
    GRAPH_RELOCATED = "graph_relocated"
    STORAGE_FAILURE = "storage_failure"
    REPLY_LOST = "reply_lost"
    TABLE_CORRUPT = "table_corrupt"
    BRANCH_NAME_INVALID = "branch_name_invalid"
    MANIFEST_CORRUPT = "manifest_corrupt"
    EXPECTED_VERSION_MISMATCH = "expected_version_mismatch"
    CONTENTION = "contention"
    COMMIT_NOT_FOUND = "commit_not_found"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UPDATE_REFUSED = "update_refused"
    SCHEMA_CORRUPT = "schema_corrupt"
    KEY_INVALID = "key_invalid"
    FENCED = "fenced"
    FORMAT_TOO_NEW = "format_too_new"
    FORMAT_TOO_OLD = "format_too_old"
    SCHEMA_FILES_INVALID = "schema_files_invalid"
    SCHEMA_LOCKED = "schema_locked"
    GRAPH_EXISTS = "graph_exists"
    GRAPH_INCOMPLETE = "graph_incomplete"
    GRAPH_NOT_FOUND = "graph_not_found"
    TABLE_UNKNOWN = "table_unknown"
    OPENED_READ_ONLY = "opened_read_only"
    CONFIG_INVALID = "config_invalid"
    NOT_CONFIRMED = "not_confirmed"
    BRANCH_NOT_FOUND = "branch_not_found"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_IN_USE = "branch_in_use"
    LEASE_HELD = "lease_held"
    LEASE_LOST = "lease_lost"
    LEASE_CORRUPT = "lease_corrupt"
    NOT_A_MUTATION = "not_a_mutation"
    TYPE_UNKNOWN = "type_unknown"
    CONSTRAINT_VIOLATION = "constraint_violation"
    HEAD_MOVED = "head_moved"
    KEY_CONFLICT = "key_conflict"
    SIDECAR_CORRUPT = "sidecar_corrupt"
    SIDECAR_TOO_NEW = "sidecar_too_new"
    INVARIANT_VIOLATED = "invariant_violated"
    DRIFT_FOUND = "drift_found"
    OPERATION_NOT_FOUND = "operation_not_found"
    LOAD_REJECTED = "load_rejected"
    JAVA_MISSING = "java_missing"
    SPARK_UNUSABLE = "spark_unusable"
    JOB_FAILED = "job_failed"
    RECIPE_INVALID = "recipe_invalid"
    FORBIDDEN = "forbidden"
    NOT_EXPORTABLE = "not_exportable"
    EMBEDDER_MISSING = "embedder_missing"
    EMBEDDING_MODEL_MISMATCH = "embedding_model_mismatch"
    EMBEDDING_FAILED = "embedding_failed"
    POLICY_INVALID = "policy_invalid"
    REQUEST_INVALID = "request_invalid"
    KEY_REUSED = "key_reused"
    GRAPH_NOT_SERVED = "graph_not_served"
    STORED_QUERY_NOT_FOUND = "stored_query_not_found"
    JOB_NOT_FOUND = "job_not_found"
    ALREADY_DONE = "already_done"
    UNAUTHORIZED = "unauthorized"
    TOO_MANY_REQUESTS = "too_many_requests"
    SERVER_UNREACHABLE = "server_unreachable"
    JOB_CANCELLED = "job_cancelled"
    SERVER_ANSWER_INVALID = "server_answer_invalid"
    MERGE_CONFLICTS = "merge_conflicts"
    MERGE_BASE_UNAVAILABLE = "merge_base_unavailable"
    RESOLUTIONS_INVALID = "resolutions_invalid"
    CURSOR_INVALID = "cursor_invalid"
    CHANGES_REFUSED = "changes_refused"
    CHANGE_FEED_GAP = "change_feed_gap"
    NOT_A_READ = "not_a_read"
    QUERY_MEMORY_EXCEEDED = "query_memory_exceeded"
    NOTHING_YET = "nothing_yet"
    SCHEMA_CHANGED = "schema_changed"
    BRANCHES_EXIST = "branches_exist"
    SCHEMA_OUTDATED = "schema_outdated"
    BACKFILL_INVALID = "backfill_invalid"
    RECOVERY_PENDING = "recovery_pending"
    NOT_A_BLOB = "not_a_blob"
    BLOB_RANGE_INVALID = "blob_range_invalid"
    BLOB_NOT_FOUND = "blob_not_found"
    EXTERNAL_BLOB = "external_blob"
    BLOB_CHANGED = "blob_changed"
    MISADDRESSED = "misaddressed"
    OBJECT_CORRUPT = "object_corrupt"
    QUERY_TIMEOUT = "query_timeout"
    QUERY_CANCELLED = "query_cancelled"


class Finding(Protocol):
    """One reason a program was rejected. `lang.source.Diagnostic` is the implementation."""

    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def line(self) -> int | None: ...
    @property
    def column(self) -> int | None: ...
    def render(self) -> str: ...


class OmnigraphError(Exception):
    """The root. Catch it to catch everything we raise on purpose."""

    code: ClassVar[Code]
    retryable: ClassVar[bool] = False
    """May the very same request succeed later?"""


class InputError(OmnigraphError):
    """The input is wrong. Nothing was changed; asking again unchanged cannot help."""


class ProgramInvalid(InputError):
    """A program was rejected, for every reason in `findings`."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        assert findings, "a rejection needs a reason"
        self.findings = tuple(findings)
        super().__init__("\n".join(finding.render() for finding in self.findings))


class SchemaInvalid(ProgramInvalid):
    """A .pg program was rejected."""

    code = Code.SCHEMA_INVALID


class QueryInvalid(ProgramInvalid):
    """A .gq program was rejected."""

    code = Code.QUERY_INVALID


class QueryNotFound(InputError):
    """The file holds no query of that name; or it holds several and none was named."""

    code = Code.QUERY_NOT_FOUND

    def __init__(self, name: str | None, *, available: Sequence[str]) -> None:
        self.name = name
        self.available = tuple(available)
        listed = ", ".join(self.available) or "none"
        if name is None:
            super().__init__(f"the file holds {len(available)} queries; name one of: {listed}")
        else:
            super().__init__(f"query '{name}' not found; the file holds: {listed}")


class ParameterInvalid(InputError):
    """A parameter is missing, or its value does not fit the declared type."""

    code = Code.PARAMETER_INVALID

    def __init__(self, name: str, *, declared: str, reason: str) -> None:
        self.name = name
        self.declared = declared
        self.reason = reason
        super().__init__(f"parameter '${name}' ({declared}): {reason}")


class MigrationUnsupported(InputError):
    """The desired schema cannot be reached from the accepted one."""

    code = Code.MIGRATION_UNSUPPORTED

    def __init__(self, entity: str, *, reason: str, rule: str | None) -> None:
        self.entity = entity
        self.reason = reason
        self.rule = rule
        super().__init__(f"[{rule}] {reason}" if rule else reason)


class BackfillInvalid(InputError):
    """What the rows that exist are to get in a new property cannot be computed, or does not fit."""

    code = Code.BACKFILL_INVALID

    def __init__(self, entity: str, *, reason: str) -> None:
        self.entity = entity
        self.reason = reason
        super().__init__(f"{entity} cannot be filled so: {reason}")


class KeyInvalid(InputError):
    """A value cannot be the key of a node, or a member of it."""

    code = Code.KEY_INVALID

    def __init__(self, member: str | None, *, declared: str, value: object) -> None:
        self.member = member
        self.declared = declared
        self.value = value
        subject = "the key" if member is None else f"the key {member}"
        shown = repr(value)
        clipped = shown if len(shown) <= 60 else f"{shown[:59]}…"
        super().__init__(f"{subject} is {declared}, and {clipped} is not a value of it")


class UsageError(InputError):
    """A command or call was made the wrong way."""

    code = Code.USAGE


class Misaddressed(InputError):
    """The graph was named twice, not at all, or in a way that the command cannot take."""

    code = Code.MISADDRESSED


class FileUnreadable(InputError):
    """A file that was named is missing, forbidden, or not text."""

    code = Code.FILE_UNREADABLE

    def __init__(self, path: str, *, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"cannot read {path}: {reason}")


class StoreUriInvalid(InputError):
    """A place to keep a graph was spelled in a way we cannot use."""

    code = Code.STORE_URI_INVALID

    def __init__(self, uri: str, *, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"cannot keep a graph at {uri!r}: {reason}")


class StoreKeyInvalid(InputError):
    """An object's name would leave the store, or is one the store keeps for itself."""

    code = Code.STORE_KEY_INVALID

    def __init__(self, key: str, *, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"{key!r} cannot name an object: {reason}")


class BranchNameInvalid(InputError):
    """No branch can have that name."""

    code = Code.BRANCH_NAME_INVALID

    def __init__(self, name: str, *, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name!r} cannot name a branch: {reason}")


class ConfigInvalid(InputError):
    """The operator's configuration cannot be used as it stands."""

    code = Code.CONFIG_INVALID

    def __init__(self, path: str, *, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class PolicyInvalid(InputError):
    """A policy, or a file of cases for one, cannot be used as it stands."""

    code = Code.POLICY_INVALID

    def __init__(self, name: str, *, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"policy {name}: {reason}")


class RequestInvalid(InputError):
    """A request was understood, and makes no sense."""

    code = Code.REQUEST_INVALID


class KeyReused(InputError):
    """The idempotency key was used for another request before. Choose a new one."""

    code = Code.KEY_REUSED

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the idempotency key {key!r} was used for another request before")


class NotConfirmed(InputError):
    """Something would be destroyed, and nobody said yes."""

    code = Code.NOT_CONFIRMED

    def __init__(self, action: str, *, target: str) -> None:
        self.action = action
        self.target = target
        super().__init__(f"{action} {target}: not confirmed; say --yes to go ahead")


class OpenedReadOnly(InputError):
    """The graph was opened for reading, and a write was asked of it."""

    code = Code.OPENED_READ_ONLY

    def __init__(self, uri: str) -> None:
        self.uri = uri
        super().__init__(f"{uri} was opened read-only")


class NotAMutation(InputError):
    """The query only reads, and the graph was asked to change by it."""

    code = Code.NOT_A_MUTATION

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"query '{name}' only reads; run it with query (POST /query)")


class NotARead(InputError):
    """The query changes the graph, and was asked to read it."""

    code = Code.NOT_A_READ

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"query '{name}' changes the graph; run it with mutate (POST /mutate)")


class QueryMemoryExceeded(InputError):
    """A read would hold more than it may. Ask for less, or raise the setting."""

    code = Code.QUERY_MEMORY_EXCEEDED

    def __init__(self, operator: str, *, needed: int, allowed: int, setting: str) -> None:
        self.operator = operator
        self.needed = needed
        self.allowed = allowed
        self.setting = setting
        super().__init__(
            f"the query needs {needed:,} bytes at its step '{operator}', and {allowed:,} are "
            f"allowed; narrow it down, or raise {setting}"
        )


class QueryTimeout(InputError):
    """A read took longer than it may. Nothing of it is left; ask for less, or allow more time."""

    code = Code.QUERY_TIMEOUT

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            f"the read was stopped after {seconds:g} seconds; narrow it down, or allow more time: "
            f"timeout=, --timeout, and limits.query_seconds on a server"
        )


class TypeUnknown(InputError):
    """The schema has no node or edge type of that name."""

    code = Code.TYPE_UNKNOWN

    def __init__(self, name: str, *, hint: str | None = None) -> None:
        self.name = name
        self.hint = hint
        tail = "" if hint is None else f"; {hint}"
        super().__init__(f"there is no type '{name}'{tail}")


class Breach(Protocol):
    """One way in which rows break the schema. `engine.write.violations.Violation` implements it."""

    @property
    def kind(self) -> str: ...
    @property
    def type_name(self) -> str: ...
    @property
    def property_name(self) -> str | None: ...
    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def value(self) -> object: ...
    @property
    def message(self) -> str: ...


class ConstraintViolation(InputError):
    """Rows break the schema, in every way that `violations` lists. Nothing was written."""

    code = Code.CONSTRAINT_VIOLATION
    _SHOWN_MAX: ClassVar[int] = 5

    def __init__(self, violations: Sequence[Breach]) -> None:
        assert violations, "a rejection needs a reason"
        self.violations = tuple(violations)
        shown = [each.message for each in self.violations[: self._SHOWN_MAX]]
        rest = len(self.violations) - len(shown)
        super().__init__("\n".join([*shown, f"and {rest} more"] if rest else shown))


class RecordFault(Protocol):
    """What is wrong with one record of a load. `engine.load.bulk.Fault` implements it."""

    @property
    def kind(self) -> str: ...
    @property
    def file(self) -> str | None: ...
    @property
    def line(self) -> int | None: ...
    @property
    def type_name(self) -> str | None: ...
    @property
    def property_name(self) -> str | None: ...
    @property
    def ids(self) -> tuple[str, ...]: ...
    @property
    def value(self) -> object: ...
    @property
    def message(self) -> str: ...
    def render(self) -> str: ...


class LoadRejected(InputError):
    """Records of a load are wrong, and nothing was loaded.

    `faults` are the first of them, `count` says how many were found altogether.
    """

    code = Code.LOAD_REJECTED
    _SHOWN_MAX: ClassVar[int] = 10

    def __init__(self, faults: Sequence[RecordFault], *, count: int) -> None:
        assert faults, "a rejection needs a reason"
        self.faults = tuple(faults)
        self.count = count
        shown = [each.render() for each in self.faults[: self._SHOWN_MAX]]
        rest = count - len(shown)
        lines = ["nothing was loaded:", *shown, *([f"and {rest} more"] if rest > 0 else [])]
        super().__init__("\n".join(lines))


class NotExportable(InputError):
    """A row holds a number that a record cannot spell. No load and no mutation puts one there."""

    code = Code.NOT_EXPORTABLE

    def __init__(self, type_name: str, property_name: str, *, id: str, value: float) -> None:  # noqa: A002 - the word of the language
        self.type_name = type_name
        self.property_name = property_name
        self.id = id
        self.value = value
        super().__init__(
            f"{type_name} '{id}' cannot be exported: its {property_name} holds {value}, "
            "which is no number of JSON"
        )


class ResolutionsInvalid(InputError):
    """A file of resolutions does not say, for this merge, what it should."""

    code = Code.RESOLUTIONS_INVALID

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"these resolutions cannot be used: {reason}")


class CursorInvalid(InputError):
    """A cursor or a page token is not one of ours, or was made for something else."""

    code = Code.CURSOR_INVALID

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this cursor cannot be used: {reason}")


class ChangesRefused(InputError):
    """What a commit changed cannot be told: it has no parent, or the schema changed with it."""

    code = Code.CHANGES_REFUSED

    def __init__(self, reason: str, *, commit_id: str, type_name: str | None = None) -> None:
        self.reason = reason
        """`parentless_commit` or `schema_boundary`."""
        self.commit_id = commit_id
        self.type_name = type_name
        of = "" if type_name is None else f" of {type_name}"
        why = {
            "parentless_commit": "it has no parent to compare it with",
            "schema_boundary": f"the schema{of} was another one before it",
        }
        super().__init__(f"what commit {commit_id} changed cannot be told: {why[reason]}")


class NotABlob(InputError):
    """A property was to be read as a Blob and is something else; a query reads it."""

    code = Code.NOT_A_BLOB

    def __init__(self, type_name: str, *, property_name: str, declared: str) -> None:
        self.type_name = type_name
        self.property_name = property_name
        self.declared = declared
        super().__init__(f"{type_name}.{property_name} is {declared}, not a Blob")


class BlobRangeInvalid(InputError):
    """Bytes were asked for that lie outside of a Blob.

    `end` is the last of them; the length of the Blob, if no last one was named.
    """

    code = Code.BLOB_RANGE_INVALID

    def __init__(self, *, start: int, end: int | None, length: int) -> None:
        self.start = start
        self.end = length if end is None else end
        self.length = length
        asked = f"from {start} on" if end is None else f"{start} to {end}"
        super().__init__(f"bytes {asked} lie outside of a Blob of {length} bytes")


class RecipeInvalid(InputError):
    """A pipeline file was rejected, for every reason in `mistakes`: lines and messages."""

    code = Code.RECIPE_INVALID

    def __init__(self, path: str, mistakes: Sequence[tuple[int, str]]) -> None:
        assert mistakes, "a rejection needs a reason"
        self.path = path
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(f"{path}:{line}: {text}" for line, text in self.mistakes))


class NotFoundError(OmnigraphError):
    """What was named is not there. Look again, or name something else."""


class ObjectNotFound(NotFoundError):
    """The store holds no object of that key."""

    code = Code.OBJECT_NOT_FOUND

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"no object {key!r}")


class TableNotFound(NotFoundError):
    """There is no table at that path, or the path holds none on that branch."""

    code = Code.TABLE_NOT_FOUND

    def __init__(self, path: str, *, branch: str | None) -> None:
        self.path = path
        self.branch = branch
        super().__init__(
            f"no table {path!r} on branch {branch or 'main'!r}: it never was there, or a schema "
            "change dropped it"
        )


class VersionNotFound(NotFoundError):
    """The table exists; that version of it does not, or no longer."""

    code = Code.VERSION_NOT_FOUND

    def __init__(
        self, path: str, *, branch: str | None, version: int, newest: int | None = None
    ) -> None:
        self.path = path
        self.branch = branch
        self.version = version
        self.newest = newest
        """The newest version that was ever there, if that is known."""
        message = f"table {path!r} has no version {version} on branch {branch or 'main'!r}"
        if newest is not None and version <= newest:
            message += " any more: a cleanup removed it, or a schema change that dropped data"
        elif newest is not None:
            message += f"; the newest is {newest}"
        super().__init__(message)


class ForkNotFound(NotFoundError):
    """The table has no branch of that name."""

    code = Code.FORK_NOT_FOUND

    def __init__(self, path: str, *, branch: str) -> None:
        self.path = path
        self.branch = branch
        super().__init__(f"table {path!r} has no branch {branch!r}")


class GraphNotFound(NotFoundError):
    """There is no graph at that place."""

    code = Code.GRAPH_NOT_FOUND

    def __init__(self, uri: str) -> None:
        self.uri = uri
        super().__init__(f"no graph at {uri}; make one with: omnigraph init {uri} --schema FILE")


class BranchNotFound(NotFoundError):
    """The graph has no branch of that name."""

    code = Code.BRANCH_NOT_FOUND

    def __init__(self, branch: str) -> None:
        self.branch = branch
        super().__init__(f"branch {branch!r} not found")


class TableUnknown(NotFoundError):
    """The snapshot shows no table of that key."""

    code = Code.TABLE_UNKNOWN

    def __init__(self, table_key: str) -> None:
        self.table_key = table_key
        super().__init__(f"there is no table {table_key} here")


class OperationNotFound(NotFoundError):
    """No pending write and no recovery has that id."""

    code = Code.OPERATION_NOT_FOUND

    def __init__(self, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(f"no unfinished write {operation_id!r} is known")


class GraphNotServed(NotFoundError):
    """The server has no graph of that name, or keeps it back because it is broken."""

    code = Code.GRAPH_NOT_SERVED

    def __init__(self, graph_id: str) -> None:
        self.graph_id = graph_id
        super().__init__(f"graph '{graph_id}' not found")


class StoredQueryNotFound(NotFoundError):
    """The server has no stored query of that name, or does not let this actor know."""

    code = Code.STORED_QUERY_NOT_FOUND

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"stored query '{name}' not found")


class JobNotFound(NotFoundError):
    """The graph has no job of that id."""

    code = Code.JOB_NOT_FOUND

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job '{job_id}' not found")


class NothingYet(NotFoundError):
    """The branch had no commit at that time."""

    code = Code.NOTHING_YET

    def __init__(self, branch: str, *, at_us: int) -> None:
        self.branch = branch
        self.at_us = at_us
        super().__init__(
            f"branch '{branch}' has no commit from {at_us} microseconds since 1970 or before"
        )


class BlobNotFound(NotFoundError):
    """There is no such Blob. `missing` says what is not there: type, property, entity or value."""

    code = Code.BLOB_NOT_FOUND

    def __init__(
        self,
        entity: str,
        *,
        type_name: str,
        id: str,  # noqa: A002 - as the schema calls it
        property_name: str,
        missing: str,
    ) -> None:
        self.entity = entity
        self.type_name = type_name
        self.id = id
        self.property_name = property_name
        self.missing = missing
        facts = {
            "type": f"there is no {entity} type '{type_name}'",
            "property": f"{type_name} has no property '{property_name}'",
            "entity": f"there is no {type_name} with id '{id}'",
            "value": f"{property_name} of {type_name} '{id}' is null",
        }
        super().__init__(facts[missing])


class ExternalBlob(NotFoundError):
    """What a Blob holds is not in the graph; fetch it from where it is, if you trust that place."""

    code = Code.EXTERNAL_BLOB

    def __init__(self, uri: str, *, reason: str) -> None:
        self.uri = uri
        self.reason = reason
        super().__init__(f"the bytes are kept elsewhere, at {uri}: {reason}")


class CommitNotFound(NotFoundError):
    """No branch's history holds that commit."""

    code = Code.COMMIT_NOT_FOUND

    def __init__(self, commit_id: str) -> None:
        self.commit_id = commit_id
        super().__init__(f"commit {commit_id!r} not found")


class ChangeFeedGap(NotFoundError):
    """Commits that a cursor has not seen yet can no longer be read. Start anew from a baseline."""

    code = Code.CHANGE_FEED_GAP

    def __init__(self, first_unreadable: str, *, cursor: str | None) -> None:
        self.first_unreadable = first_unreadable
        self.cursor = cursor
        super().__init__(
            f"commit {first_unreadable} can no longer be read, and what it changed is lost to "
            "this feed; start anew from a baseline"
        )


class ConflictError(OmnigraphError):
    """Somebody else was first. Nothing of ours took effect; read again, then decide again."""


class ExpectedVersionMismatch(ConflictError):
    """A table is not at the version the caller read. Read again, then decide again."""

    code = Code.EXPECTED_VERSION_MISMATCH
    retryable = True

    def __init__(self, table_key: str, *, expected: int, actual: int) -> None:
        self.table_key = table_key
        self.expected = expected
        self.actual = actual
        super().__init__(f"table {table_key} is at version {actual}, expected {expected}")


class UpdateRefused(ConflictError):
    """The manifest already says something that excludes the change."""

    code = Code.UPDATE_REFUSED

    def __init__(self, table_key: str, *, reason: str) -> None:
        self.table_key = table_key
        self.reason = reason
        super().__init__(f"table {table_key} cannot be changed so: {reason}")


class Contention(ConflictError):
    """Other writers won every round of the race for a branch's manifest."""

    code = Code.CONTENTION
    retryable = True

    def __init__(self, branch: str, *, attempts: int) -> None:
        self.branch = branch
        self.attempts = attempts
        super().__init__(
            f"branch {branch!r} is busy: {attempts} attempts to publish were overtaken"
        )


class AlreadyDone(ConflictError):
    """A write with the same idempotency key is on the branch; its result is the answer."""

    code = Code.ALREADY_DONE
    retryable = True

    def __init__(self, key: str, *, commit_id: str) -> None:
        self.key = key
        self.commit_id = commit_id
        super().__init__(f"the write with key {key!r} was done already, as commit {commit_id}")


class HeadMoved(ConflictError):
    """The branch is not at the commit the caller built on. Read it again, then decide again."""

    code = Code.HEAD_MOVED

    def __init__(self, branch: str, *, expected: str, actual: str | None) -> None:
        self.branch = branch
        self.expected = expected
        self.actual = actual
        found = "at no commit" if actual is None else f"at {actual}"
        super().__init__(f"branch {branch!r} is {found}, not at {expected}")


class BlobChanged(ConflictError):
    """A Blob is not what the caller knows it as. Read it again from its beginning."""

    code = Code.BLOB_CHANGED

    def __init__(self, *, expected: str, actual: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(f"the Blob is {actual} now, not {expected}")


class KeyConflict(ConflictError):
    """Rows that were to be new exist already. Nothing was written; upsert replaces them."""

    code = Code.KEY_CONFLICT
    _SHOWN_MAX: ClassVar[int] = 5

    def __init__(self, type_name: str, *, ids: Sequence[str], kind: str = "node") -> None:
        """`kind` is `node` or `edge`."""
        assert ids, "a conflict needs a row"
        self.type_name = type_name
        self.kind = kind
        self.ids = tuple(ids)
        listed = ", ".join(repr(each) for each in self.ids[: self._SHOWN_MAX])
        rest = len(self.ids) - self._SHOWN_MAX
        more = f" and {rest} more" if rest > 0 else ""
        super().__init__(f"{type_name} exists already: {listed}{more}")


class Clash(Protocol):
    """One reason two branches do not go together. `engine.merge.conflicts.Conflict` is one."""

    @property
    def kind(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def row_id(self) -> str | None: ...
    @property
    def property_name(self) -> str | None: ...
    @property
    def base(self) -> Any: ...
    @property
    def ours(self) -> Any: ...
    @property
    def theirs(self) -> Any: ...
    @property
    def message(self) -> str: ...


class MergeConflicts(ConflictError):
    """Two branches do not go together, for every reason in `conflicts`. Nothing was changed."""

    code = Code.MERGE_CONFLICTS
    _SHOWN_MAX: ClassVar[int] = 3

    def __init__(self, source: str, target: str, conflicts: Sequence[Clash]) -> None:
        assert conflicts, "a refusal needs a reason"
        self.source = source
        self.target = target
        self.conflicts = tuple(conflicts)
        first = self.conflicts[: self._SHOWN_MAX]
        shown = "; ".join(f"{each.kind}: {each.message}" for each in first)
        rest = len(self.conflicts) - self._SHOWN_MAX
        more = f"; and {rest} more" if rest > 0 else ""
        super().__init__(
            f"'{source}' cannot be merged into '{target}', and nothing was changed: {shown}{more}"
        )


class MergeBaseUnavailable(ConflictError):
    """The state in which two branches last agreed can no longer be read. Name another base."""

    code = Code.MERGE_BASE_UNAVAILABLE

    def __init__(
        self, source: str, target: str, *, bases: Sequence[str], candidates: Sequence[str]
    ) -> None:
        self.source = source
        self.target = target
        self.bases = tuple(bases)
        """The commits that would be the right base, and cannot be read."""
        self.candidates = tuple(candidates)
        """Older common commits that can; one of them may be named as the base."""
        older = ", ".join(self.candidates) or "none"
        super().__init__(
            f"'{source}' and '{target}' last agreed at {', '.join(self.bases)}, which can no "
            f"longer be read; older common commits: {older}"
        )


class Fenced(ConflictError):
    """Somebody took this operation for dead and undid it. What it wrote will not be seen."""

    code = Code.FENCED
    retryable = True

    def __init__(self, branch: str, *, recovered_by: str) -> None:
        self.branch = branch
        self.recovered_by = recovered_by
        super().__init__(
            f"this operation on branch {branch!r} was taken for dead and undone by commit "
            f"{recovered_by}"
        )


class DriftFound(ConflictError):
    """A table moved by something other than us, and nothing says why. It must be repaired."""

    code = Code.DRIFT_FOUND

    def __init__(self, table_key: str, *, branch: str, shown: int, head: int) -> None:
        self.table_key = table_key
        self.branch = branch
        self.shown = shown
        self.head = head
        super().__init__(
            f"table {table_key} on branch {branch!r} is at version {head}, and the branch shows "
            f"{shown}; nothing explains the difference; run `omnigraph repair`"
        )


class LeaseHeld(ConflictError):
    """Another process writes that table and did not finish in time. Try again later."""

    code = Code.LEASE_HELD
    retryable = True

    def __init__(self, table_key: str, *, branch: str, owner: str, age_ms: int) -> None:
        self.table_key = table_key
        self.branch = branch
        self.owner = owner
        self.age_ms = age_ms
        super().__init__(
            f"table {table_key} on branch {branch!r} is being written by {owner}, "
            f"last heard of {age_ms} ms ago"
        )


class LeaseLost(ConflictError):
    """We were silent for so long that another process took over. Start anew."""

    code = Code.LEASE_LOST
    retryable = True

    def __init__(self, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(f"operation {operation_id} was silent too long and was taken over")


class SchemaLocked(ConflictError):
    """A schema change is under way. Try again when it is done."""

    code = Code.SCHEMA_LOCKED
    retryable = True

    def __init__(self, *, owner: str | None = None, age_ms: int | None = None) -> None:
        self.owner = owner
        """Who changes it; None for a program that does not say."""
        self.age_ms = age_ms
        by = "" if owner is None else f" by {owner}"
        super().__init__(f"a schema change{by} is under way; try again when it is done")


class SchemaChanged(ConflictError):
    """The schema in force is not the one the caller worked with. Read it, then decide again."""

    code = Code.SCHEMA_CHANGED

    def __init__(self, *, expected: str, actual: str) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"the schema was changed meanwhile: it is {actual[:12]} now, and was {expected[:12]}"
        )


class RecoveryPending(ConflictError):
    """An unfinished write has to be resolved first, by whoever makes it or by the next writer."""

    code = Code.RECOVERY_PENDING
    retryable = True

    def __init__(self, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(f"operation {operation_id} is not finished; try again when it is")


class BranchesExist(ConflictError):
    """A schema is changed while main is the only branch. Merge or delete the others first."""

    code = Code.BRANCHES_EXIST

    def __init__(self, branches: Sequence[str]) -> None:
        self.branches = tuple(branches)
        super().__init__(
            f"the schema cannot change while there are other branches: {', '.join(self.branches)}"
        )


class SchemaOutdated(ConflictError):
    """All branches are under one schema. What was made under another can be read, not branched."""

    code = Code.SCHEMA_OUTDATED

    def __init__(self, start: str, *, schema: str, in_force: str) -> None:
        self.start = start
        self.schema = schema
        self.in_force = in_force
        super().__init__(
            f"no branch can start at {start}: it was made under schema {schema[:19]}, and "
            f"{in_force[:19]} is in force; read it as a snapshot, or export it"
        )


class BranchExists(ConflictError):
    """The graph has a branch of that name already."""

    code = Code.BRANCH_EXISTS

    def __init__(self, branch: str) -> None:
        self.branch = branch
        super().__init__(f"branch {branch!r} already exists")


class BranchInUse(ConflictError):
    """Other branches came from this one, or still read its files."""

    code = Code.BRANCH_IN_USE

    def __init__(self, branch: str, *, users: Sequence[str]) -> None:
        self.branch = branch
        self.users = tuple(users)
        super().__init__(f"branch {branch!r} is needed by: {', '.join(self.users)}")


class GraphExists(ConflictError):
    """There is a graph at that place already. Nothing touches it."""

    code = Code.GRAPH_EXISTS

    def __init__(self, uri: str) -> None:
        self.uri = uri
        super().__init__(f"{uri} is already initialized; nothing was changed")


class ObjectExists(ConflictError):
    """The object was to be created, and is there already."""

    code = Code.OBJECT_EXISTS

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"object {key!r} exists already")


class ObjectChanged(ConflictError):
    """The object is gone, or no longer the one that was read."""

    code = Code.OBJECT_CHANGED

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"object {key!r} changed since it was read")


class ForkExists(ConflictError):
    """The table has a branch of that name, or the remains of one."""

    code = Code.FORK_EXISTS

    def __init__(self, path: str, *, branch: str) -> None:
        self.path = path
        self.branch = branch
        super().__init__(f"table {path!r} already has a branch {branch!r}, or the remains of one")


class ForkInUse(ConflictError):
    """Other branches were forked from this one, and read its files."""

    code = Code.FORK_IN_USE

    def __init__(self, path: str, *, branch: str, children: Sequence[str]) -> None:
        self.path = path
        self.branch = branch
        self.children = tuple(children)
        listed = ", ".join(self.children)
        super().__init__(f"branch {branch!r} of table {path!r} is the source of: {listed}")


class PlacementError(OmnigraphError):
    """The place the graph is kept in does not fit. Somebody who runs it must act."""


class ConditionalWritesIgnored(PlacementError):
    """The store accepts conditional puts and does not honour them: two writers would both win."""

    code = Code.CONDITIONAL_WRITES_IGNORED

    def __init__(self, uri: str, *, condition: str) -> None:
        self.uri = uri
        self.condition = condition
        super().__init__(
            f"the store at {uri!r} does not honour {condition}; it cannot hold a graph"
        )


class GraphRelocated(PlacementError):
    """The files were moved or copied; a branch still points into the place they came from."""

    code = Code.GRAPH_RELOCATED

    def __init__(self, *, recorded: str, actual: str) -> None:
        self.recorded = recorded
        self.actual = actual
        super().__init__(
            f"a branch kept at {actual!r} reads its inherited files from {recorded!r}: "
            "move the graph back, or export it there and load it here"
        )


class GraphIncomplete(PlacementError):
    """An attempt to make a graph died there, and left something behind."""

    code = Code.GRAPH_INCOMPLETE

    def __init__(self, uri: str, *, found: Sequence[str]) -> None:
        self.uri = uri
        self.found = tuple(found)
        super().__init__(
            f"{uri} holds the remains of an init that did not finish ({', '.join(self.found)}); "
            "`omnigraph init --force` clears them"
        )


class FormatTooNew(PlacementError):
    """The graph was written by a newer program."""

    code = Code.FORMAT_TOO_NEW

    def __init__(self, branch: str, *, found: int, supported: int) -> None:
        self.branch = branch
        self.found = found
        self.supported = supported
        super().__init__(
            f"branch {branch!r} has format {found}, newer than {supported}; upgrade omnigraph first"
        )


class FormatTooOld(PlacementError):
    """The graph was written by a program so old that no step forward is kept."""

    code = Code.FORMAT_TOO_OLD

    def __init__(self, branch: str, *, found: int, supported: int) -> None:
        self.branch = branch
        self.found = found
        self.supported = supported
        super().__init__(
            f"branch {branch!r} has format {found}, older than {supported}; "
            "step it forward with an older release first"
        )


class PipelineError(OmnigraphError):
    """Bulk work could not be run. Nothing was changed; somebody who runs it must act."""

    retryable = True


class JavaMissing(PipelineError):
    """Spark runs on Java, and there is none to be found."""

    code = Code.JAVA_MISSING

    def __init__(self, *, looked: str) -> None:
        self.looked = looked
        super().__init__(
            f"Spark needs Java 17 or 21, and there is none ({looked}): "
            "install openjdk-17-jre-headless, or set JAVA_HOME"
        )


class SparkUnusable(PipelineError):
    """Spark did not start, or its workers cannot reach what they need."""

    code = Code.SPARK_UNUSABLE

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Spark cannot be used: {reason}")


class JobFailed(PipelineError):
    """A bulk job was started and died. Nothing of it is visible."""

    code = Code.JOB_FAILED

    def __init__(self, job: str, *, reason: str) -> None:
        self.job = job
        self.reason = reason
        super().__init__(f"{job} failed: {reason}")


class EmbeddingError(OmnigraphError):
    """A text could not be turned into a vector. Nothing was changed."""


class EmbedderMissing(EmbeddingError):
    """No provider is set up, or it lacks what it needs."""

    code = Code.EMBEDDER_MISSING

    def __init__(self, provider: str, *, reason: str) -> None:
        self.provider = provider
        self.reason = reason
        super().__init__(f"texts cannot be embedded with {provider}: {reason}")


class EmbeddingModelMismatch(EmbeddingError):
    """Vectors of two models cannot be compared."""

    code = Code.EMBEDDING_MODEL_MISMATCH

    def __init__(self, *, declared: str, configured: str) -> None:
        self.declared = declared
        self.configured = configured
        super().__init__(
            f"the vectors are of the model {declared!r}, and {configured!r} is set up: "
            "set OMNIGRAPH_EMBED_MODEL, or give a vector"
        )


class EmbeddingFailed(EmbeddingError):
    """The provider did not answer, or not with vectors that fit."""

    code = Code.EMBEDDING_FAILED

    def __init__(self, provider: str, *, reason: str, attempts: int) -> None:
        self.provider = provider
        self.reason = reason
        self.attempts = attempts
        tries = "once" if attempts == 1 else f"{attempts} times"
        super().__init__(f"{provider}, asked {tries}, did not embed the text: {reason}")


class CorruptionError(OmnigraphError):
    """What is stored contradicts itself. Nothing was changed; an operator must look."""


class ManifestCorrupt(CorruptionError):
    """The manifest holds rows that cannot be understood."""

    code = Code.MANIFEST_CORRUPT

    def __init__(self, object_id: str, *, reason: str) -> None:
        self.object_id = object_id
        self.reason = reason
        super().__init__(f"manifest row {object_id!r}: {reason}")


class SidecarCorrupt(CorruptionError):
    """A sidecar cannot be understood, so nobody can tell what its writer was about."""

    code = Code.SIDECAR_CORRUPT

    def __init__(self, file: str, *, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(
            f"sidecar {file!r}: {reason}; nothing is written while it is there; put it back from a "
            "backup, or delete it: what its write had begun is then undone"
        )


class SidecarTooNew(CorruptionError):
    """A newer program left a sidecar. Only it can say what to do."""

    code = Code.SIDECAR_TOO_NEW

    def __init__(self, file: str, *, found: int, supported: int) -> None:
        self.file = file
        self.found = found
        self.supported = supported
        super().__init__(
            f"sidecar {file!r} has version {found}, newer than {supported}; upgrade omnigraph first"
        )


class InvariantViolated(CorruptionError):
    """What must never happen to a table did. Nothing was changed; look at the sidecar."""

    code = Code.INVARIANT_VIOLATED

    def __init__(self, operation_id: str, *, table_key: str, reason: str) -> None:
        self.operation_id = operation_id
        self.table_key = table_key
        self.reason = reason
        super().__init__(f"operation {operation_id}, table {table_key}: {reason}")


class LeaseCorrupt(CorruptionError):
    """A lease cannot be understood."""

    code = Code.LEASE_CORRUPT

    def __init__(self, key: str, *, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"lease {key!r}: {reason}")


class ObjectCorrupt(CorruptionError):
    """A small file beside the tables cannot be understood: a job, a promise, a branch's ref."""

    code = Code.OBJECT_CORRUPT

    def __init__(self, key: str, *, reason: str) -> None:
        self.key = key
        self.reason = reason
        super().__init__(f"{key!r}: {reason}; put it back from a backup")


class SchemaCorrupt(CorruptionError):
    """The stored form of the schema is damaged, or was written by a version we do not know."""

    code = Code.SCHEMA_CORRUPT

    def __init__(self, place: str, *, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"the stored schema is damaged at {place}: {reason}")


class SchemaFilesInvalid(CorruptionError):
    """The three files that hold the schema do not agree."""

    code = Code.SCHEMA_FILES_INVALID

    def __init__(self, file: str, *, reason: str) -> None:
        self.file = file
        self.reason = reason
        super().__init__(f"{file}: {reason}")


class StorageFailure(OmnigraphError):
    """The store failed. Whether a write took effect must be looked up before it is retried."""

    code = Code.STORAGE_FAILURE

    def __init__(self, action: str, *, subject: str, reason: str) -> None:
        self.action = action
        self.subject = subject
        self.reason = reason
        super().__init__(f"could not {action} {subject!r}: {reason}")


class ReplyLost(StorageFailure):
    """A commit was sent and failed in a way that is not a refusal, and it cannot be found."""

    code = Code.REPLY_LOST


class TableCorrupt(StorageFailure):
    """Files that a table names are missing, cut short, or not what they should be."""

    code = Code.TABLE_CORRUPT


class AccessError(OmnigraphError):
    """You may not. Nothing was done; ask somebody who may, or to be allowed to."""


class Unauthorized(AccessError):
    """There was no token, or one the server does not know."""

    code = Code.UNAUTHORIZED

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Forbidden(AccessError):
    """The policy does not let this actor do this."""

    code = Code.FORBIDDEN

    def __init__(self, actor: str | None, *, action: str, branch: str | None) -> None:
        self.actor = actor
        self.action = action
        self.branch = branch
        where = "" if branch is None else f" on branch {branch!r}"
        super().__init__(f"{actor or 'nobody'} may not {action}{where}")


class QueryCancelled(AccessError):
    """A read was stopped before its end. Nothing of it is left."""

    code = Code.QUERY_CANCELLED
    retryable = True

    def __init__(self) -> None:
        super().__init__("the read was cancelled: its caller went away, or the server stops")


class JobCancelled(AccessError):
    """Somebody asked for the work to stop, and it did. Nothing was changed."""

    code = Code.JOB_CANCELLED

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id} was cancelled")


class TooManyRequests(AccessError):
    """The actor has too much under way. Nothing was done; try again later."""

    code = Code.TOO_MANY_REQUESTS
    retryable = True

    def __init__(self, actor: str, *, limit: str, retry_after_s: int) -> None:
        self.actor = actor
        self.limit = limit
        self.retry_after_s = retry_after_s
        super().__init__(f"{actor} has more than {limit} under way; try again in {retry_after_s} s")


class ServerFailure(OmnigraphError):
    """The server did not answer as it should. Asking again with the same key does nothing twice."""


class ServerUnreachable(ServerFailure):
    """No answer came."""

    code = Code.SERVER_UNREACHABLE
    retryable = True

    def __init__(self, url: str, *, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"no answer from {url}: {reason}")


class ServerAnswerInvalid(ServerFailure):
    """An answer came, and it is not one of ours."""

    code = Code.SERVER_ANSWER_INVALID

    def __init__(self, url: str, *, status: int, reason: str) -> None:
        self.url = url
        self.status = status
        self.reason = reason
        super().__init__(f"{url} answered {status}: {reason}")


class OutcomeUnknown(OmnigraphError):
    """The store failed while work was being made visible, and it may still become so.

    Look for the commit before trying again.
    """

    code = Code.OUTCOME_UNKNOWN
    retryable = True

    def __init__(self, branch: str, *, commit_id: str, operation_id: str | None = None) -> None:
        self.branch = branch
        self.commit_id = commit_id
        self.operation_id = operation_id
        super().__init__(
            f"it is not known whether commit {commit_id} reached branch {branch!r}; look for it "
            "before trying again"
        )
