"""The branches of a graph on a server."""

from typing import Any

from omnigraph.commit.manifest.branches import Deleted
from omnigraph.engine.history.branch_summary import BranchSummary
from omnigraph.ids import MAIN, BranchName
from omnigraph.sdk.remote.decoding import decode_summaries, decoded
from omnigraph.sdk.remote.http import AsyncConnection, segment
from omnigraph.sdk.remote.reads import check_actor
from omnigraph.wire.replies import BranchCreateReply, BranchesReply


class AsyncBranches:
    """The branches of a graph."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        document = await self._connection.get("/branches")
        reply = decoded(self._connection.url, document, BranchesReply.model_validate)
        others = sorted(each for each in reply.branches if each != MAIN)
        return (MAIN, *(BranchName(each) for each in others))

    async def summaries(self) -> tuple[BranchSummary, ...]:
        """The same branches, each with its head and how far it is ahead of and behind main."""
        document = await self._connection.get("/branches", {"details": True})
        return decoded(self._connection.url, document, decode_summaries)

    async def create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchName:
        """A branch that starts as `source` is now, or as `commit` left the graph."""
        check_actor(actor)
        document = await self.ask_create(
            name, source=source, commit=commit, idempotency_key=idempotency_key
        )
        reply = decoded(self._connection.url, document, BranchCreateReply.model_validate)
        return BranchName(reply.name)

    async def ask_create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """The same, with all that the server answers: who it was for, too."""
        body = {"name": name, "from": source, "commit": commit}
        return await self._connection.write("POST", "/branches", body, key=idempotency_key)

    async def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        check_actor(actor)
        await self.ask_delete(name, idempotency_key=idempotency_key)
        return Deleted(BranchName(name), ())

    async def ask_delete(self, name: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The same, with all that the server answers."""
        path = f"/branches/{segment(name)}"
        return await self._connection.write("DELETE", path, key=idempotency_key)
