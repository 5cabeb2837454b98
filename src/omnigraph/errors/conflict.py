"""Another writer was first: the caller reads again, then decides again."""

from collections.abc import Sequence
from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError, first_of
from omnigraph.errors.findings import Clash


class ConflictError(OmnigraphError):
    """Another writer was first. Nothing of this request took effect."""


class ExpectedVersionMismatch(ConflictError, code=Code.EXPECTED_VERSION_MISMATCH, retryable=True):
    """A table is not at the version that the caller read."""

    template = "table {table_key} is at version {actual}, expected {expected}"
    table_key: str
    _: KW_ONLY
    expected: int
    actual: int


class UpdateRefused(ConflictError, code=Code.UPDATE_REFUSED):
    """The manifest already holds something that excludes the change."""

    template = "table {table_key} cannot be changed so: {reason}"
    table_key: str
    _: KW_ONLY
    reason: str


class Contention(ConflictError, code=Code.CONTENTION, retryable=True):
    template = "branch {branch!r} is busy: {attempts} attempts to publish were overtaken"
    branch: str
    _: KW_ONLY
    attempts: int


class AlreadyDone(ConflictError, code=Code.ALREADY_DONE, retryable=True):
    """The branch holds a write with the same idempotency key. Its result is the answer."""

    template = "the write with key {key!r} was done already, as commit {commit_id}"
    key: str
    _: KW_ONLY
    commit_id: str


class HeadMoved(ConflictError, code=Code.HEAD_MOVED):
    """The branch is not at the commit that the caller built on."""

    template = "branch {branch!r} is {_found}, not at {expected}"
    branch: str
    _: KW_ONLY
    expected: str
    actual: str | None

    @property
    def _found(self) -> str:
        return "at no commit" if self.actual is None else f"at {self.actual}"


class BlobChanged(ConflictError, code=Code.BLOB_CHANGED):
    """The Blob has another ETag than the caller knows. Read it again from its beginning."""

    template = "the Blob is {actual} now, not {expected}"
    _: KW_ONLY
    expected: str
    actual: str


class KeyConflict(ConflictError, code=Code.KEY_CONFLICT):
    """Rows that were to be new exist already. Nothing was written; upsert replaces them."""

    template = "{type_name} exists already: {_listed}"
    type_name: str
    _: KW_ONLY
    ids: Sequence[str]
    kind: str = "node"
    """`node` or `edge`."""

    @property
    def _listed(self) -> str:
        assert self.ids, "a conflict needs a row"
        rest = len(self.ids) - 5
        more = f" and {rest} more" if rest > 0 else ""
        return ", ".join(map(repr, self.ids[:5])) + more


class MergeConflicts(ConflictError, code=Code.MERGE_CONFLICTS):
    """Two branches cannot be merged, for every reason in `conflicts`. Nothing was changed."""

    template = "'{source}' cannot be merged into '{target}', and nothing was changed: {_shown}"
    source: str
    target: str
    conflicts: Sequence[Clash]

    @property
    def _shown(self) -> str:
        assert self.conflicts, "a refusal needs a reason"
        return first_of([f"{each.kind}: {each.message}" for each in self.conflicts], 3, glue="; ")


class MergeBaseUnavailable(ConflictError, code=Code.MERGE_BASE_UNAVAILABLE):
    """A cleanup removed the state in which two branches last agreed. Name another base."""

    template = (
        "'{source}' and '{target}' last agreed at {bases}, which can no longer be read; "
        "older common commits: {candidates}"
    )
    source: str
    target: str
    _: KW_ONLY
    bases: Sequence[str]
    """The commits that would be the right base, and cannot be read."""
    candidates: Sequence[str]
    """Older common commits that can be read; the caller may name one of them as the base."""


class Fenced(ConflictError, code=Code.FENCED, retryable=True):
    """Another process took this operation for dead and rolled it back."""

    template = (
        "this operation on branch {branch!r} was taken for dead and undone by commit {recovered_by}"
    )
    branch: str
    _: KW_ONLY
    recovered_by: str


class DriftFound(ConflictError, code=Code.DRIFT_FOUND):
    """Another program moved a table, and no sidecar explains it. An operator must repair it."""

    template = (
        "table {table_key} on branch {branch!r} is at version {head}, and the branch shows "
        "{shown}; nothing explains the difference; run `omnigraph repair`"
    )
    table_key: str
    _: KW_ONLY
    branch: str
    shown: int
    head: int


class LeaseHeld(ConflictError, code=Code.LEASE_HELD, retryable=True):
    """Another process writes that table and did not finish in time."""

    template = (
        "table {table_key} on branch {branch!r} is being written by {owner}, "
        "last heard of {age_ms} ms ago"
    )
    table_key: str
    _: KW_ONLY
    branch: str
    owner: str
    age_ms: int


class LeaseLost(ConflictError, code=Code.LEASE_LOST, retryable=True):
    """The writer did not renew its lease, and another process took it over."""

    template = "operation {operation_id} was silent too long and was taken over"
    operation_id: str


class SchemaLocked(ConflictError, code=Code.SCHEMA_LOCKED, retryable=True):
    template = "a schema change{_by} is under way; try again when it is done"
    _: KW_ONLY
    owner: str | None = None
    """The process that changes the schema; None if its program does not tell."""
    age_ms: int | None = None

    @property
    def _by(self) -> str:
        return "" if self.owner is None else f" by {self.owner}"


class SchemaChanged(ConflictError, code=Code.SCHEMA_CHANGED):
    """The schema in force is not the one that the caller worked with."""

    template = "the schema was changed meanwhile: it is {actual:.12} now, and was {expected:.12}"
    _: KW_ONLY
    expected: str
    actual: str


class RecoveryPending(ConflictError, code=Code.RECOVERY_PENDING, retryable=True):
    """The writer of an operation, or the next writer, must finish or undo it first."""

    template = "operation {operation_id} is not finished; try again when it is"
    operation_id: str


class BranchesExist(ConflictError, code=Code.BRANCHES_EXIST):
    """A schema changes only while main is the only branch. Merge or delete the others first."""

    template = "the schema cannot change while there are other branches: {branches}"
    branches: Sequence[str]


class SchemaOutdated(ConflictError, code=Code.SCHEMA_OUTDATED):
    """All branches have one schema. A commit of an older schema can be read, not branched."""

    template = (
        "no branch can start at {start}: it was made under schema {schema:.19}, and "
        "{in_force:.19} is in force; read it as a snapshot, or export it"
    )
    start: str
    _: KW_ONLY
    schema: str
    in_force: str


class BranchExists(ConflictError, code=Code.BRANCH_EXISTS):
    template = "branch {branch!r} already exists"
    branch: str


class BranchInUse(ConflictError, code=Code.BRANCH_IN_USE):
    """Other branches came from this one or still read its files, or tags name its commits."""

    template = "branch {branch!r} is needed by: {users}"
    branch: str
    _: KW_ONLY
    users: Sequence[str]


class TagExists(ConflictError, code=Code.TAG_EXISTS):
    """A tag never moves. Delete it first, or choose another name."""

    template = "tag {tag!r} exists already and names commit {commit_id}"
    tag: str
    _: KW_ONLY
    commit_id: str


class ProposalNotOpen(ConflictError, code=Code.PROPOSAL_NOT_OPEN):
    """The proposal was merged or closed. Open another one."""

    template = "proposal {proposal_id} is {state}"
    proposal_id: str
    _: KW_ONLY
    state: str


class ProposalBlocked(ConflictError, code=Code.PROPOSAL_BLOCKED):
    """The proposal cannot be merged yet, for every reason in `reasons`. Nothing was changed."""

    template = "proposal {proposal_id} cannot be merged: {_shown}"
    proposal_id: str
    _: KW_ONLY
    reasons: Sequence[str]

    @property
    def _shown(self) -> str:
        return "; ".join(self.reasons)


class GraphExists(ConflictError, FileExistsError, code=Code.GRAPH_EXISTS):
    template = "{uri} is already initialized; nothing was changed"
    uri: str


class ObjectExists(ConflictError, code=Code.OBJECT_EXISTS):
    template = "object {key!r} exists already"
    key: str


class ObjectChanged(ConflictError, code=Code.OBJECT_CHANGED):
    """The object was deleted, or is no longer the one that was read."""

    template = "object {key!r} changed since it was read"
    key: str


class ForkExists(ConflictError, code=Code.FORK_EXISTS):
    template = "table {path!r} already has a branch {branch!r}, or the remains of one"
    path: str
    _: KW_ONLY
    branch: str


class ForkInUse(ConflictError, code=Code.FORK_IN_USE):
    """Other branches of the table were forked from this one, and read its files."""

    template = "branch {branch!r} of table {path!r} is the source of: {children}"
    path: str
    _: KW_ONLY
    branch: str
    children: Sequence[str]


class CloneRunning(ConflictError, code=Code.CLONE_RUNNING, retryable=True):
    """A clone copies the graph, or writes it."""

    template = "a clone works at {uri} (operation {operation_id}); try again when it has ended"
    uri: str
    _: KW_ONLY
    operation_id: str
