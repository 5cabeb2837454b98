"""Stored bytes contradict each other, or the store failed: look before anything is tried again."""

from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError


class CorruptionError(OmnigraphError):
    """What is stored contradicts itself. Nothing was changed; an operator must look."""


class ManifestCorrupt(CorruptionError, code=Code.MANIFEST_CORRUPT):
    template = "manifest row {object_id!r}: {reason}"
    object_id: str
    _: KW_ONLY
    reason: str


class SidecarCorrupt(CorruptionError, code=Code.SIDECAR_CORRUPT):
    template = (
        "sidecar {file!r}: {reason}; nothing is written while it is there; put it back from a "
        "backup, or delete it: what its write had begun is then undone"
    )
    file: str
    _: KW_ONLY
    reason: str


class SidecarTooNew(CorruptionError, code=Code.SIDECAR_TOO_NEW):
    """A newer program left a sidecar. Only that program can roll it forward or back."""

    template = (
        "sidecar {file!r} has version {found}, newer than {supported}; upgrade omnigraph first"
    )
    file: str
    _: KW_ONLY
    found: int
    supported: int


class InvariantViolated(CorruptionError, code=Code.INVARIANT_VIOLATED):
    """A table is in a state that no crash explains. Nothing was changed; look at the sidecar."""

    template = "operation {operation_id}, table {table_key}: {reason}"
    operation_id: str
    _: KW_ONLY
    table_key: str
    reason: str


class LeaseCorrupt(CorruptionError, code=Code.LEASE_CORRUPT):
    template = "lease {key!r}: {reason}"
    key: str
    _: KW_ONLY
    reason: str


class ObjectCorrupt(CorruptionError, code=Code.OBJECT_CORRUPT):
    """A small file beside the tables is damaged: a job, an idempotency record, a branch's ref."""

    template = "{key!r}: {reason}; put it back from a backup"
    key: str
    _: KW_ONLY
    reason: str


class SchemaCorrupt(CorruptionError, code=Code.SCHEMA_CORRUPT):
    """The stored form of the schema is damaged, or a program of an unknown version wrote it."""

    template = "the stored schema is damaged at {place}: {reason}"
    place: str
    _: KW_ONLY
    reason: str


class SchemaFilesInvalid(CorruptionError, code=Code.SCHEMA_FILES_INVALID):
    """The three files that hold the schema do not agree."""

    template = "{file}: {reason}"
    file: str
    _: KW_ONLY
    reason: str


class StorageFailure(OmnigraphError, code=Code.STORAGE_FAILURE):
    """The store failed. Find out whether a write took effect before you retry it."""

    template = "could not {action} {subject!r}: {reason}"
    action: str
    _: KW_ONLY
    subject: str
    reason: str


class ReplyLost(StorageFailure, code=Code.REPLY_LOST):
    """The store did not refuse a commit, but failed, and the commit cannot be found."""


class TableCorrupt(StorageFailure, code=Code.TABLE_CORRUPT):
    """Files that a table names are missing, cut short, or not what they should be."""


class OutcomeUnknown(OmnigraphError, code=Code.OUTCOME_UNKNOWN, retryable=True):
    """The store failed during the publish; the commit may still become visible."""

    template = (
        "it is not known whether commit {commit_id} reached branch {branch!r}; look for it before "
        "trying again"
    )
    branch: str
    _: KW_ONLY
    commit_id: str
    operation_id: str | None = None
