"""Undoing, picking, blaming and tagging in a graph on a server."""

from collections.abc import Sequence
from typing import Unpack

from omnigraph.commit.manifest.commit_tags import CommitTag
from omnigraph.engine.history.diff import ChangeOp
from omnigraph.engine.history.entity_history import EntityRevision, PropertyOrigin
from omnigraph.engine.merge.run import MergeResult
from omnigraph.ids import MAIN, CommitId
from omnigraph.sdk.files import read_text
from omnigraph.sdk.history import REVISIONS_DEFAULT, PickOptions
from omnigraph.sdk.remote.decoding import commit_of, decode_merge, decoded
from omnigraph.sdk.remote.http import AsyncConnection, segment
from omnigraph.sdk.remote.proposals import AsyncProposals
from omnigraph.sdk.remote.reads import check_actor
from omnigraph.wire.history import BlameReply, OriginReply, RevisionsReply, TagReply, TagsReply


class AsyncTags:
    """The tags of a graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> Sequence[CommitTag]:
        """By name."""
        document = await self._connection.get("/tags")
        return decoded(self._connection.url, document, _decode_tags)

    async def create(
        self,
        name: str,
        commit: str,
        *,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> CommitTag:
        """Give a commit a name. Cleanup keeps the commit while it has one."""
        check_actor(actor)
        body = {"name": name, "commit": commit}
        document = await self._connection.write(
            "POST", "/tags", body, key=idempotency_key, message=message
        )
        return decoded(self._connection.url, document, _decode_tag)

    async def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> None:
        check_actor(actor)
        await self._connection.write("DELETE", f"/tags/{segment(name)}", key=idempotency_key)


class AsyncHistory:
    """The part of a graph on a server that looks at single commits and entities of the past."""

    _connection: AsyncConnection

    @property
    def tags(self) -> AsyncTags:
        """The tags: `list`, `create`, `delete`."""
        return AsyncTags(self._connection)

    @property
    def proposals(self) -> AsyncProposals:
        """The proposals: `open`, `list`, `show`, `approve`, `merge` and others."""
        return AsyncProposals(self._connection)

    async def revert(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult:
        """Undo what a commit changed, as a new commit. Later changes to other rows stay."""
        return await self._pick("revert", commit, options)

    async def cherry_pick(self, commit: str, **options: Unpack[PickOptions]) -> MergeResult:
        """Apply to a branch what a commit of another branch changed, as a new commit."""
        return await self._pick("cherry-pick", commit, options)

    async def _pick(self, verb: str, commit: str, options: PickOptions) -> MergeResult:
        check_actor(options.get("actor"))
        resolutions = options.get("resolutions")
        body = {
            "branch": str(options.get("into", MAIN)),
            "mainline": options.get("mainline"),
            "detect": options.get("detect"),
            "on_conflict": options.get("on_conflict"),
            "resolutions": None if resolutions is None else read_text(resolutions)[0],
            "dry_run": options.get("dry_run", False),
        }
        document = await self._connection.write(
            "POST",
            f"/commits/{segment(commit)}/{verb}",
            body,
            key=options.get("idempotency_key"),
            message=options.get("message"),
        )
        return decoded(self._connection.url, document, decode_merge)

    async def blame(
        self, type_name: str, identity: str, *, branch: str = MAIN
    ) -> Sequence[PropertyOrigin]:
        """The commit that set each property of one node or edge; empty if it does not exist."""
        asked = {"type": type_name, "id": identity, "branch": branch}
        document = await self._connection.get("/blame", asked)
        return decoded(self._connection.url, document, _decode_blame)

    async def revisions(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str = MAIN,
        limit: int = REVISIONS_DEFAULT,
    ) -> Sequence[EntityRevision]:
        """The commits of a branch that changed one node or edge, newest first."""
        asked = {"type": type_name, "id": identity, "branch": branch, "limit": limit}
        document = await self._connection.get("/revisions", asked)
        return decoded(self._connection.url, document, _decode_revisions)


def _decode_tag(document: object) -> CommitTag:
    return _tag(TagReply.model_validate(document))


def _decode_tags(document: object) -> tuple[CommitTag, ...]:
    return tuple(map(_tag, TagsReply.model_validate(document).tags))


def _tag(reply: TagReply) -> CommitTag:
    commit_id = CommitId(reply.graph_commit_id)
    return CommitTag(reply.name, commit_id, reply.actor_id, reply.created_at, reply.message)


def _decode_blame(document: object) -> tuple[PropertyOrigin, ...]:
    return tuple(map(_origin, BlameReply.model_validate(document).properties))


def _origin(reply: OriginReply) -> PropertyOrigin:
    return PropertyOrigin(
        reply.property,
        reply.value,
        None if reply.commit is None else commit_of(reply.commit),
        None if reply.merged_by is None else commit_of(reply.merged_by),
    )


def _decode_revisions(document: object) -> tuple[EntityRevision, ...]:
    return tuple(
        EntityRevision(commit_of(each.commit), ChangeOp(each.op), each.before, each.after)
        for each in RevisionsReply.model_validate(document).revisions
    )
