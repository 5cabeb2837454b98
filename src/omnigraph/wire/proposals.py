"""Bodies and replies of the routes of proposals."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.wire.formats import BRANCH, LINE, MAYBE_BRANCH, NOT_BLANK
from omnigraph.wire.requests import ConflictsBody, DeleteBranch

State = Literal["open", "merged", "closed"]

_IfSource = Annotated[
    str | None, Field(description="Refuse if the source has another head (412).", min_length=1)
]
_IfTarget = Annotated[
    str | None, Field(description="Refuse if the target has another head (412).", min_length=1)
]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True)


class ProposalOpenBody(_Body):
    title: Annotated[
        str,
        Field(
            description="One line, at most 200 characters.", max_length=200, json_schema_extra=LINE
        ),
    ]
    text: Annotated[str, Field(description="Why; at most 64 KiB.")] = ""
    source: Annotated[str, Field(description="The branch to merge.", json_schema_extra=BRANCH)]
    target: Annotated[
        str | None,
        Field(
            description="The branch to merge into; main if none.", json_schema_extra=MAYBE_BRANCH
        ),
    ] = None


class CommentBody(_Body):
    text: Annotated[str, Field(description="At most 16 KiB.", json_schema_extra=NOT_BLANK)]


class ApprovalBody(_Body):
    if_source: _IfSource = None


class ProposalMergeBody(ConflictsBody):
    if_source: _IfSource = None
    if_target: _IfTarget = None
    delete_branch: DeleteBranch = False


class _Reply(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ApprovalReply(_Reply):
    actor_id: str | None
    created_at: int
    created_at_iso: str
    source_commit_id: Annotated[str, Field(description="The head that was approved.")]
    is_current: Annotated[bool, Field(description="Is that still the head of the source?")]
    counts: Annotated[bool, Field(description="Current, and its actor may still approve.")]


class CheckReply(_Reply):
    name: str
    passed: bool
    row_count: int | None
    reason: Annotated[str | None, Field(description="Why the check could not run.")]
    source_commit_id: str
    target_commit_id: str
    created_at: int
    created_at_iso: str
    is_current: Annotated[bool, Field(description="Are both still the heads?")]


class CommentReply(_Reply):
    actor_id: str | None
    created_at: int
    created_at_iso: str
    text: str


class ProposalEntry(_Reply):
    id: str
    title: str
    source: str
    target: str
    author: str | None
    state: State
    created_at: int
    created_at_iso: str
    approval_count: int
    comment_count: int
    merged_commit_id: str | None
    closed_by: str | None


class ProposalReply(ProposalEntry):
    text: str
    source_commit_id: Annotated[
        str | None, Field(description="The head of the source; null if the branch was deleted.")
    ]
    target_commit_id: str | None
    approvals: list[ApprovalReply]
    checks: list[CheckReply]
    comments: list[CommentReply]
    required_approvals: int
    missing_approvals: int
    required_checks: list[str]
    failing_checks: Annotated[
        list[str], Field(description="Failed, or not run for the present heads.")
    ]
    conflict_count: Annotated[int | None, Field(description="With `conflicts=true` only.")]
    is_mergeable: bool


class ProposalsReply(_Reply):
    proposals: list[ProposalEntry]
