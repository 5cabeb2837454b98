"""A graph behind a server, for programs that run in an event loop.

`await omnigraph.aopen("https://host", graph="research", token=…)` gives one. Its methods are those
of `RemoteGraph`, with `await`; results that come in pieces are asynchronous iterators. The blocking
client runs these very methods (`remote.blocking`).
"""

from collections.abc import Coroutine, Generator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack, cast

from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.write.batch import Existing, check_ids
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep
from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.ids import MAIN, parse_branch
from omnigraph.sdk.async_handles import AsyncBranch, AsyncSnapshot, AsyncTransaction
from omnigraph.sdk.files import read_text
from omnigraph.sdk.handles import Branch, Closed
from omnigraph.sdk.remote.branches import AsyncBranches
from omnigraph.sdk.remote.bulk import AsyncBulk
from omnigraph.sdk.remote.decoding import (
    decode_merge,
    decode_mutation,
    decoded,
)
from omnigraph.sdk.remote.history import AsyncHistory
from omnigraph.sdk.remote.http import AsyncConnection, connect_async, segment
from omnigraph.sdk.remote.reads import check_actor, spell_params
from omnigraph.sdk.spelling import spell
from omnigraph.sdk.steps import Steps, WriteOptions


class AsyncClosed(Closed):
    """Stands for a closed connection; `close` is to be awaited."""

    async def close(self) -> None:  # type: ignore[override]
        pass


class AsyncGraph(AsyncBulk, AsyncHistory, Steps["Coroutine[Any, Any, MutationResult]"]):
    """A graph on a server, for one event loop. Close it, or use it in an `async with`.

    Any number of calls may be in flight at once. Cancelling a call closes its request.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self._branches = AsyncBranches(connection)
        self._place = connection.url

    @property
    def branches(self) -> AsyncBranches:
        """The branches: `list`, `summaries`, `create`, `delete`."""
        return self._branches

    def __repr__(self) -> str:
        state = ", closed" if isinstance(self._connection, AsyncClosed) else ""
        return f"AsyncGraph({self._place!r}{state})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. Later calls raise GraphClosed; closing again does nothing."""
        connection = self._connection
        self._connection = cast("AsyncConnection", AsyncClosed(self._place))
        self._branches = AsyncBranches(self._connection)
        await connection.close()

    # branches, snapshots, transactions

    async def at(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        time: datetime | str | None = None,
    ) -> AsyncSnapshot:
        """A pinned state to read: repeated reads see the same commit.

        Raises BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, UsageError.
        """
        pinned = await self.snapshot(branch, commit=commit, version=version, at=time)
        return AsyncSnapshot(self, pinned)

    async def branch(
        self,
        name: str,
        *,
        create: bool = False,
        source: str = MAIN,
        actor: str | None = None,
    ) -> AsyncBranch:
        """A branch to read and write. `create` creates it from `source` if it does not exist.

        Raises BranchNotFound, BranchNameInvalid; SchemaLocked if it is created.
        """
        known = parse_branch(name)
        if known not in await self.branches.list():
            if not create:
                raise BranchNotFound(known)
            await self.branches.create(known, source=source, actor=actor)
        return AsyncBranch(self, known)

    def transaction(self, **options: Unpack[WriteOptions]) -> AsyncTransaction:
        """Several steps, one commit; nothing if the block raises.

        async with graph.transaction(message="rehang") as tx:
            tx.insert("Gallery", [{"code": "W2"}])
            tx.delete("Hangs", ids)
        """
        return AsyncTransaction(self, options)

    async def entity(self, type_name: str, identity: str) -> dict[str, object] | None:
        """One node or edge of main by its id; None if there is none. Raises TypeUnknown."""
        return await self.find(type_name, identity)

    async def find(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> dict[str, object] | None:
        """One node or edge by its id, now or in the past; None if there is none.

        Raises TypeUnknown, UsageError, BranchNotFound, CommitNotFound, VersionNotFound, NothingYet.
        """
        result = await self.look_up(
            type_name,
            identity,
            branch=branch,
            snapshot=snapshot,
            commit=commit,
            version=version,
            at=at,
        )
        found = result.rows()
        return found[0] if found else None

    def _take(self, step: WriteStep, options: WriteOptions) -> Coroutine[Any, Any, MutationResult]:
        return self.write([step], **options)

    async def mutate_stored(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Run a mutation that the server knows by name."""
        body = {
            "params": spell_params(params),
            "branch": branch,
            "expect_mutation": True,
        }
        path = f"/queries/{segment(name)}"
        if if_commit is not None:
            path += "/if-graph-commit"
        return await self._change(
            path, body, None, key=idempotency_key, if_commit=if_commit, message=message
        )

    # writing

    async def write(
        self,
        steps: Sequence[WriteStep],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run steps in order, as one commit or not at all."""
        if len(steps) == 1:
            path, body = _request_of(steps[0])
            if path == "/mutate" and if_commit is not None:
                path = "/mutate/if-graph-commit"
        else:
            path, body = "/transaction", {"steps": [_step_of(each) for each in steps]}
        return await self._change(
            path,
            {**body, "branch": branch},
            actor,
            key=idempotency_key,
            if_commit=if_commit,
            message=message,
        )

    async def _change(
        self,
        path: str,
        body: Mapping[str, object],
        actor: str | None,
        *,
        key: str | None,
        if_commit: str | None,
        message: str | None,
    ) -> MutationResult:
        check_actor(actor)
        document = await self._connection.write(
            "POST", path, body, key=key, if_commit=if_commit, message=message
        )
        return decoded(self.uri, document, decode_mutation)

    async def merge(
        self,
        source: str | Branch | AsyncBranch,
        into: str | Branch | AsyncBranch = MAIN,
        *,
        actor: str | None = None,
        detect: str = "row",
        on_conflict: str | Mapping[str, str] | None = None,
        resolutions: str | Path | None = None,
        base: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Make `into` show what `source` changed since they last agreed."""
        check_actor(actor)
        body = {
            "source": str(source),
            "target": str(into),
            "detect": detect,
            "on_conflict": on_conflict,
            "resolutions": None if resolutions is None else read_text(resolutions)[0],
            "base": base,
            "dry_run": dry_run,
            "delete_branch": delete_branch,
        }
        document = await self._connection.write(
            "POST", "/branches/merge", body, key=idempotency_key, message=message
        )
        return decoded(self.uri, document, decode_merge)


class Opening:
    """A graph that is about to be opened: `await` it, or use it in an `async with`."""

    def __init__(self, graph: AsyncGraph) -> None:
        self._graph = graph

    def __repr__(self) -> str:
        return f"<opening {self._graph!r}: await it, or use it in an async with>"

    def __await__(self) -> Generator[Any, None, AsyncGraph]:
        return self._open().__await__()

    async def _open(self) -> AsyncGraph:
        return self._graph

    async def __aenter__(self) -> AsyncGraph:
        return await self._graph.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._graph.close()


def aopen(url: str, *, graph: str | None = None, token: str | None = None) -> Opening:
    """A graph on a server, for an event loop: `async with omnigraph.aopen(url) as graph`.

    `url` is the server's, with `graph` naming one of its graphs; or already that of a graph.
    Nothing is asked yet: the first call finds out who answers. An embedded graph blocks the thread
    that uses it: open it with `omnigraph.open`, and call it with `asyncio.to_thread`.

    Raises UsageError for anything but the address of a server.
    """
    if not str(url).startswith(("http://", "https://")):
        raise UsageError(
            f"aopen takes the address of a server, not '{url}'; open an embedded graph with "
            "omnigraph.open, and call it with asyncio.to_thread"
        )
    return Opening(AsyncGraph(connect_async(address_of(url, graph), token=token)))


def address_of(url: str, graph: str | None) -> str:
    """The address of a graph: of a server with the id of one of its graphs, or given whole."""
    base = url.rstrip("/")
    return base if graph is None else f"{base}/graphs/{segment(graph)}"


def _request_of(step: WriteStep) -> tuple[str, dict[str, object]]:
    """The route of one step, and its body."""
    body = _step_of(step)
    match body.pop("op"):
        case "mutate":
            return "/mutate", body
        case "delete":
            return "/rows/delete", body
        case verb:
            return "/rows", {**body, "existing": "refuse" if verb == "insert" else "replace"}


def _step_of(step: WriteStep) -> dict[str, object]:
    """A step as a transaction spells it. Raises UsageError."""
    match step:
        case ProgramStep():
            program = {"query": step.source.text, "name": step.name}
            return {"op": "mutate", **program, "params": spell_params(step.params)}
        case RowsStep():
            verb = "insert" if step.existing is Existing.REFUSE else "upsert"
            return {"op": verb, "type": step.type_name, "rows": spell(list(step.rows))}
        case DeleteStep():
            check_ids(step.ids)
            return {"op": "delete", "type": step.type_name, "ids": sorted(step.ids)}
