"""The graph, the store or the server has nothing of that name: the caller names another."""

from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError


class NotFoundError(OmnigraphError, KeyError):
    """What the caller named does not exist, or no longer. Name something else."""


class ObjectNotFound(NotFoundError, code=Code.OBJECT_NOT_FOUND):
    template = "no object {key!r}"
    key: str


class TableNotFound(NotFoundError, code=Code.TABLE_NOT_FOUND):
    """No table has that path, or it has no such branch. `branch` None is the table's main."""

    template = (
        "no table {path!r} on branch {_branch!r}: it never was there, or a schema change dropped it"
    )
    path: str
    _: KW_ONLY
    branch: str | None

    @property
    def _branch(self) -> str:
        return self.branch or "main"


class VersionNotFound(NotFoundError, code=Code.VERSION_NOT_FOUND):
    """The table exists; that version of it does not, or no longer."""

    template = "table {path!r} has no version {version} on branch {_branch!r}{_why}"
    path: str
    _: KW_ONLY
    branch: str | None
    version: int
    newest: int | None = None
    """The newest version that ever existed, if it is known."""

    @property
    def _branch(self) -> str:
        return self.branch or "main"

    @property
    def _why(self) -> str:
        if self.newest is None:
            return ""
        if self.version > self.newest:
            return f"; the newest is {self.newest}"
        return " any more: a cleanup removed it, or a schema change that dropped data"


class ForkNotFound(NotFoundError, code=Code.FORK_NOT_FOUND):
    template = "table {path!r} has no branch {branch!r}"
    path: str
    _: KW_ONLY
    branch: str


class GraphNotFound(NotFoundError, FileNotFoundError, code=Code.GRAPH_NOT_FOUND):
    template = "no graph at {uri}; make one with: omnigraph init {uri} --schema FILE"
    uri: str


class BranchNotFound(NotFoundError, code=Code.BRANCH_NOT_FOUND):
    template = "branch {branch!r} not found"
    branch: str


class TagNotFound(NotFoundError, code=Code.TAG_NOT_FOUND):
    template = "tag {tag!r} not found"
    tag: str


class ProposalNotFound(NotFoundError, code=Code.PROPOSAL_NOT_FOUND):
    template = "proposal {proposal_id!r} not found"
    proposal_id: str


class TableUnknown(NotFoundError, code=Code.TABLE_UNKNOWN):
    """The snapshot has no table of that key."""

    template = "there is no table {table_key} here"
    table_key: str


class OperationNotFound(NotFoundError, code=Code.OPERATION_NOT_FOUND):
    """No pending write and no recovery has that id."""

    template = "no unfinished write {operation_id!r} is known"
    operation_id: str


class GraphNotServed(NotFoundError, code=Code.GRAPH_NOT_SERVED):
    """The server has no graph of that name, or withholds it because it is broken."""

    template = "graph '{graph_id}' not found"
    graph_id: str


class StoredQueryNotFound(NotFoundError, code=Code.STORED_QUERY_NOT_FOUND):
    """The server has no stored query of that name, or hides it from this actor."""

    template = "stored query '{name}' not found"
    name: str


class JobNotFound(NotFoundError, code=Code.JOB_NOT_FOUND):
    template = "job '{job_id}' not found"
    job_id: str


class NothingYet(NotFoundError, code=Code.NOTHING_YET):
    """The branch had no commit at that time."""

    template = "branch '{branch}' has no commit from {at_us} microseconds since 1970 or before"
    branch: str
    _: KW_ONLY
    at_us: int


class BlobNotFound(NotFoundError, code=Code.BLOB_NOT_FOUND):
    """There is no such Blob. `missing` is what does not exist: type, property, entity or value."""

    entity: str
    _: KW_ONLY
    type_name: str
    id: str
    property_name: str
    missing: str

    def _message(self) -> str:
        return {
            "type": f"there is no {self.entity} type '{self.type_name}'",
            "property": f"{self.type_name} has no property '{self.property_name}'",
            "entity": f"there is no {self.type_name} with id '{self.id}'",
            "value": f"{self.property_name} of {self.type_name} '{self.id}' is null",
        }[self.missing]


class ExternalBlob(NotFoundError, code=Code.EXTERNAL_BLOB):
    """The graph holds only the address of these bytes. Fetch them if you trust that place."""

    template = "the bytes are kept elsewhere, at {uri}: {reason}"
    uri: str
    _: KW_ONLY
    reason: str


class CommitNotFound(NotFoundError, code=Code.COMMIT_NOT_FOUND):
    """No branch's history holds that commit."""

    template = "commit {commit_id!r} not found"
    commit_id: str


class ChangeFeedGap(NotFoundError, code=Code.CHANGE_FEED_GAP):
    template = (
        "commit {first_unreadable} can no longer be read, and what it changed is lost to this "
        "feed; start anew from a baseline"
    )
    first_unreadable: str
    _: KW_ONLY
    cursor: str | None


class BucketNotFound(NotFoundError, code=Code.BUCKET_NOT_FOUND):
    template = (
        "there is no bucket {bucket!r} at {endpoint}; make it first, or check its name, the "
        "endpoint and the region"
    )
    bucket: str
    _: KW_ONLY
    endpoint: str
