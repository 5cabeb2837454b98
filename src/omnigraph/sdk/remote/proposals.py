"""The proposals of a graph on a server."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.proposals.proposal import (
    Approval,
    Comment,
    Proposal,
    ProposalCheck,
    ProposalState,
)
from omnigraph.engine.proposals.standing import ProposalStanding
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.sdk.files import read_text
from omnigraph.sdk.proposals import ProposalMergeOptions
from omnigraph.sdk.remote.decoding import decode_merge, decoded
from omnigraph.sdk.remote.http import AsyncConnection, segment
from omnigraph.sdk.remote.reads import check_actor
from omnigraph.wire.proposals import ProposalEntry, ProposalReply, ProposalsReply


class AsyncProposals:
    """The proposals of a graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def open(
        self,
        source: str,
        target: str = MAIN,
        *,
        title: str,
        text: str = "",
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding:
        """Propose to merge a branch."""
        body = {"title": title, "text": text, "source": source, "target": target}
        return await self._write("/proposals", body, actor, idempotency_key)

    async def list(
        self,
        *,
        state: str | None = None,
        author: str | None = None,
        branch: str | None = None,
    ) -> Sequence[Proposal]:
        """The newest first; `branch` is the source or the target."""
        asked = {"state": state, "author": author, "branch": branch}
        document = await self._connection.get("/proposals", asked)
        return decoded(self._connection.url, document, _decode_list)

    async def show(self, proposal_id: str, *, conflicts: bool = False) -> ProposalStanding:
        """A proposal and what it still lacks; `conflicts` counts those of the merge."""
        asked = {"conflicts": True} if conflicts else {}
        document = await self._connection.get(_path(proposal_id), asked)
        return decoded(self._connection.url, document, _decode)

    async def comment(
        self,
        proposal_id: str,
        text: str,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ProposalStanding:
        path = f"{_path(proposal_id)}/comments"
        return await self._write(path, {"text": text}, actor, idempotency_key)

    async def approve(
        self, proposal_id: str, *, actor: str | None = None, if_source: str | None = None
    ) -> ProposalStanding:
        """Approve the present head of the source; `if_source` is the head that the caller saw."""
        path = f"{_path(proposal_id)}/approvals"
        return await self._write(path, {"if_source": if_source}, actor)

    async def check(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Run the checks of the target branch on the merged graph, which is not published."""
        return await self._write(f"{_path(proposal_id)}/checks", None, actor)

    async def merge(self, proposal_id: str, **options: Unpack[ProposalMergeOptions]) -> MergeResult:
        """Merge a proposal that has its approvals and passes its checks, or change nothing."""
        check_actor(options.get("actor"))
        resolutions = options.get("resolutions")
        body = {
            "if_source": options.get("if_source"),
            "if_target": options.get("if_target"),
            "detect": options.get("detect"),
            "on_conflict": options.get("on_conflict"),
            "resolutions": None if resolutions is None else read_text(resolutions)[0],
            "dry_run": options.get("dry_run", False),
            "delete_branch": options.get("delete_branch", False),
        }
        document = await self._connection.write(
            "POST",
            f"{_path(proposal_id)}/merge",
            body,
            key=options.get("idempotency_key"),
            message=options.get("message"),
        )
        return decoded(self._connection.url, document, decode_merge)

    async def close(self, proposal_id: str, *, actor: str | None = None) -> ProposalStanding:
        """Close a proposal without merging it."""
        return await self._write(f"{_path(proposal_id)}/close", None, actor)

    async def _write(
        self,
        path: str,
        body: Mapping[str, str | None] | None,
        actor: str | None,
        key: str | None = None,
    ) -> ProposalStanding:
        check_actor(actor)
        document = await self._connection.write("POST", path, body, key=key)
        return decoded(self._connection.url, document, _decode)


def _path(proposal_id: str) -> str:
    return f"/proposals/{segment(proposal_id)}"


def _decode_list(document: object) -> tuple[Proposal, ...]:
    return tuple(map(_proposal, ProposalsReply.model_validate(document).proposals))


def _decode(document: object) -> ProposalStanding:
    reply = ProposalReply.model_validate(document)
    source, target = (
        None if each is None else CommitId(each)
        for each in (reply.source_commit_id, reply.target_commit_id)
    )
    return ProposalStanding(
        _whole(reply),
        source,
        target,
        counted=frozenset(each.actor_id for each in reply.approvals if each.counts),
        required_approvals=reply.required_approvals,
        required_checks=tuple(reply.required_checks),
        conflict_count=reply.conflict_count,
    )


def _proposal(reply: ProposalEntry) -> Proposal:
    """What a list tells of a proposal."""
    merged = reply.merged_commit_id
    return Proposal(
        id=reply.id,
        title=reply.title,
        text="",
        source=BranchName(reply.source),
        target=BranchName(reply.target),
        author=reply.author,
        created_at_us=reply.created_at,
        state=ProposalState(reply.state),
        merged_commit=None if merged is None else CommitId(merged),
        closed_by=reply.closed_by,
    )


def _whole(reply: ProposalReply) -> Proposal:
    return replace(
        _proposal(reply),
        text=reply.text,
        approvals=_approvals(reply),
        checks=_checks(reply),
        comments=_comments(reply),
    )


def _approvals(reply: ProposalReply) -> tuple[Approval, ...]:
    return tuple(
        Approval(each.actor_id, each.created_at, CommitId(each.source_commit_id))
        for each in reply.approvals
    )


def _checks(reply: ProposalReply) -> tuple[ProposalCheck, ...]:
    return tuple(
        ProposalCheck(
            each.name,
            each.row_count,
            CommitId(each.source_commit_id),
            CommitId(each.target_commit_id),
            each.created_at,
            each.reason,
        )
        for each in reply.checks
    )


def _comments(reply: ProposalReply) -> tuple[Comment, ...]:
    return tuple(Comment(each.actor_id, each.created_at, each.text) for each in reply.comments)
