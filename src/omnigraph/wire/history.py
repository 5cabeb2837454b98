"""Bodies and replies of the routes that revert, pick, blame and tag."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.wire.formats import BRANCH, MAYBE_BRANCH
from omnigraph.wire.replies import CommitReply
from omnigraph.wire.requests import ConflictsBody


class PickBody(ConflictsBody):
    branch: Annotated[
        str | None,
        Field(description="The branch to change; main if none.", json_schema_extra=MAYBE_BRANCH),
    ] = None
    mainline: Annotated[
        Literal[1, 2] | None,
        Field(description="For a merge: the parent from which its changes count."),
    ] = None


class TagCreateBody(BaseModel):
    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(json_schema_extra=BRANCH)]
    commit: Annotated[str, Field(description="The id of a commit, or another tag.")]


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TagReply(_Reply):
    name: str
    graph_commit_id: str
    actor_id: str | None
    created_at: int
    created_at_iso: str
    message: str | None


class TagsReply(_Reply):
    tags: list[TagReply]


class TagDeleteReply(_Reply):
    name: str
    actor_id: str | None


class OriginReply(_Reply):
    property: str
    value: Any
    commit: CommitReply | None
    merged_by: CommitReply | None


class BlameReply(_Reply):
    properties: list[OriginReply]


class RevisionReply(_Reply):
    op: Literal["insert", "update", "delete"]
    commit: CommitReply
    changed: list[str]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class RevisionsReply(_Reply):
    revisions: list[RevisionReply]
