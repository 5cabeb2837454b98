"""What changed, asked of a server: diffs, feeds and baselines as an embedded graph gives them.

A diff is counted by one request, and told by another as one reads on; both look at the very same
two states, whoever writes meanwhile.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

from omnigraph.commit.manifest.records import Commit, Extension, JsonObject, RowCounts
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.history.diff import ChangeOp, EntityChange, Image, describe_counts
from omnigraph.engine.history.feed import Block, CommitPage, FeedPage
from omnigraph.engine.settings import CHANGES_DEFAULT, COMMITS_DEFAULT
from omnigraph.errors import ServerAnswerInvalid, UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version, graph_branch
from omnigraph.jsontext import read_json
from omnigraph.sdk.remote.decoding import decode_counts, decode_snapshot, decoded
from omnigraph.sdk.remote.http import AsyncConnection, segment, whole_lines
from omnigraph.wire.media import NDJSON
from omnigraph.wire.replies import (
    CauseReply,
    ChangeEntry,
    CommitChangesReply,
    DiffReply,
    DiffSide,
    Endpoints,
    FeedReply,
    ImageEntry,
)


class AsyncDiff:
    """What differs between two states: counted; and, as far as one reads on, told."""

    def __init__(
        self, connection: AsyncConnection, reply: DiffReply, where: Mapping[str, object]
    ) -> None:
        self._connection = connection
        self._reply = reply
        self._where = where
        self._counts = {
            TableKey(f"{each.kind}:{each.name}"): RowCounts(
                each.inserted, each.updated, each.deleted
            )
            for each in reply.types
        }

    @property
    def counts(self) -> Mapping[TableKey, RowCounts]:
        """How many entities differ, by table."""
        return self._counts

    def __repr__(self) -> str:
        return f"<AsyncDiff {describe_counts(self.counts)}>"

    def __len__(self) -> int:
        return sum(each.inserted + each.updated + each.deleted for each in self.counts.values())

    @property
    async def before(self) -> ManifestSnapshot:
        """To be awaited."""
        return await self._snapshot(self._reply.from_)

    @property
    async def after(self) -> ManifestSnapshot:
        """To be awaited."""
        return await self._snapshot(self._reply.to)

    async def _snapshot(self, side: DiffSide) -> ManifestSnapshot:
        asked = {"branch": side.branch, "version": side.manifest_version}
        document = await self._connection.get("/snapshot", asked)
        return decoded(self._connection.url, document, decode_snapshot)

    async def changes(self, *, skip: int = 0) -> AsyncIterator[EntityChange]:
        """Every change, in order, without the first so many."""
        sides = (self._reply.from_, self._reply.to)
        before, after = (f"{each.branch}@{each.manifest_version}" for each in sides)
        asked = {"from": before, "to": after, "skip": skip, **self._where}
        async with self._connection.stream("GET", "/diff", NDJSON, params=asked) as pieces:
            async for lines in whole_lines(pieces):
                for line in lines.splitlines():
                    yield decoded(self._connection.url, line, _decode_line)


class AsyncBaseline:
    """Everything a branch shows, and the cursor from which its changes follow.

    The server says where it stands once everything is told: read `lines()` to the end.
    """

    def __init__(self, connection: AsyncConnection, body: Mapping[str, object]) -> None:
        self._connection = connection
        self._body = body
        self._told: JsonObject | None = None

    async def lines(self) -> AsyncIterator[bytes]:
        """Every row, as an export spells it; then one line that says where to go on.

        Raises ServerAnswerInvalid if that line does not come.
        """
        last = b""
        async with self._connection.stream(
            "POST", "/changes/baseline", NDJSON, json=self._body
        ) as pieces:
            async for lines in whole_lines(pieces):
                last = lines
                yield lines
        self._told = self._read_end(last.rstrip(b"\n").rpartition(b"\n")[2])

    def _read_end(self, line: bytes) -> JsonObject:
        try:
            told = read_json(line)["baseline"]
            return {name: told[name] for name in ("snapshot_commit_id", "resume_cursor")}
        except (ValueError, KeyError, TypeError):
            reason = "the baseline was cut off"
            raise ServerAnswerInvalid(self._connection.url, status=200, reason=reason) from None

    def document(self) -> JsonObject:
        if self._told is None:
            raise UsageError("a baseline is complete once its lines were read to the end")
        return dict(self._told)

    @property
    def resume_cursor(self) -> str:
        return str(self.document()["resume_cursor"])

    @property
    async def snapshot(self) -> ManifestSnapshot:
        """To be awaited."""
        asked = {"commit": self.document()["snapshot_commit_id"]}
        document = await self._connection.get("/snapshot", asked)
        return decoded(self._connection.url, document, decode_snapshot)


class AsyncReview:
    """The part of a graph on a server that is about what changed."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def uri(self) -> str:
        return self._connection.url

    async def diff(
        self,
        before: str,
        after: str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> AsyncDiff:
        """What differs between two states: branches, commits, or `branch@version`."""
        where = _where(kinds, types, ops)
        asked = {"from": before, "to": after, "since_merge_base": since_merge_base or None}
        document = await self._connection.get("/diff", {**asked, **where})
        reply = decoded(self._connection.url, document, DiffReply.model_validate)
        return AsyncDiff(self._connection, reply, where)

    async def commit_changes(
        self,
        commit_id: str,
        *,
        page_token: str | None = None,
        limit: int = CHANGES_DEFAULT,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
    ) -> CommitPage:
        """What one commit changed since its first parent, so many changes at a time."""
        asked = {"page_token": page_token, "limit": limit, **_where(kinds, types, ops)}
        document = await self._connection.get(f"/commits/{segment(commit_id)}/changes", asked)
        return decoded(self._connection.url, document, _decode_commit_page)

    async def changes(
        self,
        cursor: str | None = None,
        *,
        start: str | None = None,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        commits_max: int = COMMITS_DEFAULT,
        limit: int = CHANGES_DEFAULT,
    ) -> FeedPage:
        """What the commits of a branch changed, after a cursor, or from `start` on."""
        asked = {
            "cursor": cursor,
            "start": start,
            "branch": branch,
            "commits": commits_max,
            "limit": limit,
            **_where(kinds, types, ops),
        }
        return decoded(
            self._connection.url, await self._connection.get("/changes", asked), _decode_feed_page
        )

    def baseline(
        self,
        *,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
    ) -> AsyncBaseline:
        """Everything a branch shows, and the cursor from which its changes follow."""
        body = {"branch": branch, "kinds": list(kinds), "type_names": list(types)}
        return AsyncBaseline(self._connection, body)


def _where(
    kinds: Collection[str], types: Collection[str], ops: Collection[str]
) -> dict[str, object]:
    return {"kind": list(kinds), "type": list(types), "op": list(ops)}


# ── documents ────────────────────────────────────────────────────────────────────────────────────


def _decode_line(line: bytes) -> EntityChange:
    return _change(ChangeEntry.model_validate_json(line))


def _decode_commit_page(document: object) -> CommitPage:
    reply = CommitChangesReply.model_validate(document)
    return CommitPage(_commit(reply.cause), _changes(reply.changes), reply.next_page_token)


def _decode_feed_page(document: object) -> FeedPage:
    reply = FeedReply.model_validate(document)
    blocks = [Block(_commit(each.cause), _changes(each.changes)) for each in reply.blocks]
    return FeedPage(
        tuple(blocks), reply.cursor, reply.next_page_token, caught_up=bool(reply.caught_up)
    )


def _commit(cause: CauseReply) -> Commit:
    parent, merged = cause.parent_commit_id, cause.merged_parent_commit_id
    return Commit(
        id=CommitId(cause.graph_commit_id),
        branch=BranchName(graph_branch(cause.authored_branch)),
        manifest_version=Version(cause.graph_manifest_version),
        parent=None if parent is None else CommitId(parent),
        merged_parent=None if merged is None else CommitId(merged),
        actor=cause.actor_id,
        created_at_us=cause.authored_at,
        extension=Extension(message=cause.message, counts=decode_counts(cause.tables)),
    )


def _changes(listed: list[ChangeEntry]) -> tuple[EntityChange, ...]:
    return tuple(map(_change, listed))


def _change(entry: ChangeEntry) -> EntityChange:
    return EntityChange(
        kind=entry.kind,
        type_name=entry.type.name,
        id=entry.id,
        op=ChangeOp(entry.op),
        before=_image(entry.before, entry.endpoints),
        after=_image(entry.after, entry.endpoints),
    )


def _image(image: ImageEntry | None, ends: Endpoints | None) -> Image | None:
    """An edge that used to lead elsewhere says so; otherwise it leads where the change says."""
    if image is None:
        return None
    own = image.endpoints or ends
    properties: dict[str, Any] = image.properties
    return Image(properties, None if own is None else (own.from_, own.to))
