"""Every error OmniGraph raises, grouped by what a caller would do about it.

::

    OmnigraphError
    ├── InputError            your input is wrong; fix it and ask again
    │   ├── SchemaInvalid         a .pg program was rejected; `findings` holds every reason
    │   ├── QueryInvalid          a .gq program was rejected; `findings` holds every reason
    │   ├── QueryNotFound         no query of that name; or several, and none was named
    │   ├── ParameterInvalid      a parameter is missing, or its value does not fit its type
    │   ├── MigrationUnsupported  the new schema cannot be reached from the old one
    │   ├── FileUnreadable        a named file is missing or is not what it should be
    │   ├── StoreUriInvalid       a place to keep a graph was spelled in a way we cannot use
    │   ├── StoreKeyInvalid       an object's name would leave the store or hide in it
    │   ├── BranchNameInvalid     no branch can have that name
    │   └── UsageError            a command was called the wrong way
    ├── NotFoundError         what was named is not there; look again, or name another
    │   ├── ObjectNotFound        no object of that key
    │   ├── TableNotFound         no table at that path, or none on that branch
    │   ├── VersionNotFound       the table exists, that version of it does not
    │   ├── BranchNotFound        the table has no branch of that name
    │   └── CommitNotFound        no branch's history holds that commit
    ├── ConflictError         somebody else was first; read again, then decide again
    │   ├── ExpectedVersionMismatch  a table moved since it was read
    │   ├── UpdateRefused         the manifest already says something that excludes the change
    │   ├── Contention            other writers kept winning; nothing of ours took effect
    │   ├── ObjectExists          the key was to be new and is not
    │   ├── ObjectChanged         the object is no longer the one that was read
    │   ├── BranchExists          the table already has a branch of that name, or its remains
    │   └── BranchInUse           other branches were forked from this one
    ├── PlacementError        the place the graph is kept in does not fit; an operator must act
    │   ├── ConditionalWritesIgnored  the store accepts conditional puts and does not honour them
    │   └── GraphRelocated        the files were moved; branches still point at the old place
    ├── CorruptionError       what is stored contradicts itself; nothing was changed
    │   ├── ManifestCorrupt       the manifest holds rows that cannot be understood
    │   └── SchemaCorrupt         the stored form of the schema cannot be understood
    └── StorageFailure        the store failed; whether a write took effect must be looked up
        ├── ReplyLost             a commit was sent, failed oddly, and cannot be found
        └── TableCorrupt          files a table names are missing or cannot be read

The class says the remedy, `code` says the cause, and the facts are fields: nobody reads a message
with a regular expression. Codes are append-only; a code once published keeps its meaning.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar, Protocol


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
    BRANCH_NOT_FOUND = "branch_not_found"
    OBJECT_EXISTS = "object_exists"
    OBJECT_CHANGED = "object_changed"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_IN_USE = "branch_in_use"
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
    MERGE_BASE_UNAVAILABLE = "merge_base_unavailable"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UPDATE_REFUSED = "update_refused"
    SCHEMA_CORRUPT = "schema_corrupt"


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


class UsageError(InputError):
    """A command or call was made the wrong way."""

    code = Code.USAGE


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
        super().__init__(f"no table {path!r} on branch {branch or 'main'!r}")


class VersionNotFound(NotFoundError):
    """The table exists; that version of it does not, or no longer."""

    code = Code.VERSION_NOT_FOUND

    def __init__(self, path: str, *, branch: str | None, version: int) -> None:
        self.path = path
        self.branch = branch
        self.version = version
        super().__init__(f"table {path!r} has no version {version} on branch {branch or 'main'!r}")


class BranchNotFound(NotFoundError):
    """The table has no branch of that name."""

    code = Code.BRANCH_NOT_FOUND

    def __init__(self, path: str, *, branch: str) -> None:
        self.path = path
        self.branch = branch
        super().__init__(f"table {path!r} has no branch {branch!r}")


class CommitNotFound(NotFoundError):
    """No branch's history holds that commit."""

    code = Code.COMMIT_NOT_FOUND

    def __init__(self, commit_id: str) -> None:
        self.commit_id = commit_id
        super().__init__(f"commit {commit_id!r} not found")


class ConflictError(OmnigraphError):
    """Somebody else was first. Nothing of ours took effect; read again, then decide again."""


class ExpectedVersionMismatch(ConflictError):
    """A table is not at the version the caller read. Read again, then decide again."""

    code = Code.EXPECTED_VERSION_MISMATCH

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

    def __init__(self, branch: str, *, attempts: int) -> None:
        self.branch = branch
        self.attempts = attempts
        super().__init__(
            f"branch {branch!r} is busy: {attempts} attempts to publish were overtaken"
        )


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


class BranchExists(ConflictError):
    """The table has a branch of that name, or the remains of one."""

    code = Code.BRANCH_EXISTS

    def __init__(self, path: str, *, branch: str) -> None:
        self.path = path
        self.branch = branch
        super().__init__(f"table {path!r} already has a branch {branch!r}, or the remains of one")


class BranchInUse(ConflictError):
    """Other branches were forked from this one, and read its files."""

    code = Code.BRANCH_IN_USE

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


class CorruptionError(OmnigraphError):
    """What is stored contradicts itself. Nothing was changed; an operator must look."""


class ManifestCorrupt(CorruptionError):
    """The manifest holds rows that cannot be understood."""

    code = Code.MANIFEST_CORRUPT

    def __init__(self, object_id: str, *, reason: str) -> None:
        self.object_id = object_id
        self.reason = reason
        super().__init__(f"manifest row {object_id!r}: {reason}")


class SchemaCorrupt(CorruptionError):
    """The stored form of the schema is damaged, or was written by a version we do not know."""

    code = Code.SCHEMA_CORRUPT

    def __init__(self, place: str, *, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"the stored schema is damaged at {place}: {reason}")


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
