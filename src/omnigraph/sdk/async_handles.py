"""A branch, a snapshot and a transaction of an asynchronous graph.

The methods of `sdk.handles` pass a call on and return what the graph returns. On an asynchronous
graph that is a coroutine, so the same functions serve here; `awaited` says so to type checkers.
Only what waits before it returns is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Concatenate, ParamSpec, Self, TypeVar, Unpack, cast

from omnigraph.errors.base import counted
from omnigraph.ids import BranchName, TableKey
from omnigraph.sdk.handles import Branch, Snapshot, Transaction, branch_in
from omnigraph.sdk.steps import Steps, WriteOptions

if TYPE_CHECKING:
    from omnigraph.commit.manifest.model import Pin
    from omnigraph.commit.manifest.records import Commit
    from omnigraph.commit.manifest.snapshot import ManifestSnapshot
    from omnigraph.engine.load.export import ExportFormat, ExportResult
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.engine.write.steps import WriteStep
    from omnigraph.sdk.remote.async_graph import AsyncGraph
    from omnigraph.sdk.remote.blob import AsyncBlob
    from omnigraph.sdk.remote.review import AsyncDiff

P = ParamSpec("P")
T = TypeVar("T")


def awaited(
    method: Callable[Concatenate[Any, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A method of a handle that passes its call on: on an asynchronous graph, to be awaited."""
    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", method)


class AsyncSnapshot:
    """One state of the whole graph, which no writer changes. Made by `await graph.at(…)`."""

    def __init__(self, graph: AsyncGraph, pinned: ManifestSnapshot) -> None:
        self._graph = graph
        self._pinned = pinned

    def __repr__(self) -> str:
        commit = "no commit" if self.commit is None else self.commit.id
        return f"AsyncSnapshot({self._graph.uri!r}, {self.branch} @ {commit})"

    @property
    def branch(self) -> BranchName:
        return self._pinned.branch

    @property
    def version(self) -> int:
        """The version of the branch's manifest."""
        return self._pinned.manifest_version

    @property
    def commit(self) -> Commit | None:
        """The newest commit it shows; None in a graph from before commits were recorded."""
        return self._pinned.commit

    @property
    def tables(self) -> Mapping[TableKey, Pin]:
        """The version and row count of every table."""
        return self._pinned.pins

    @property
    async def schema(self) -> str:
        """The text of the schema under which it was committed; to be awaited."""
        return await self._graph.schema_at(self._pinned)

    query = awaited(Snapshot.query)
    explain = awaited(Snapshot.explain)
    entity = awaited(Snapshot.entity)
    export = awaited(Snapshot.export)

    async def blob(
        self, entity: str, type_name: str, identity: str, property_name: str
    ) -> AsyncBlob:
        """The bytes of one property; `entity` is `node` or `edge`. Raises BlobNotFound, …"""
        return await self._graph.blob(
            entity, type_name, identity, property_name, snapshot=self._pinned
        )

    async def diff(
        self,
        other: AsyncSnapshot | AsyncBranch | str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> AsyncDiff:
        """What changes from this state to another: a snapshot, a branch, or the name of one."""
        return await self._graph.diff(
            self._name,
            str(other) if isinstance(other, str) else other.name_in_diff,
            kinds=kinds,
            types=types,
            ops=ops,
            since_merge_base=since_merge_base,
        )

    @property
    def name_in_diff(self) -> str:
        return self._name

    @property
    def _where(self) -> dict[str, object]:
        return {"snapshot": self._pinned}

    @property
    def _name(self) -> str:
        return f"{self.branch}@{self.version}"


class AsyncBranch(Steps["Coroutine[Any, Any, MutationResult]"]):
    """One branch of a graph. Made by `await graph.branch(…)`."""

    def __init__(self, graph: AsyncGraph, name: BranchName) -> None:
        self._graph = graph
        self.name = name

    def __repr__(self) -> str:
        return f"AsyncBranch({self._graph.uri!r}, {self.name!r})"

    def __str__(self) -> str:
        return self.name

    @property
    async def head(self) -> Commit | None:
        """Its newest commit; to be awaited."""
        return (await self._graph.snapshot(self.name)).commit

    @property
    async def schema(self) -> str:
        """The text of the schema in force; to be awaited."""
        return await self._graph.schema_source

    query = awaited(Branch.query)
    explain = awaited(Branch.explain)
    entity = awaited(Branch.entity)
    commits = awaited(Branch.commits)
    load = awaited(Branch.load)
    merge_into = awaited(Branch.merge_into)

    async def at(
        self,
        *,
        commit: str | None = None,
        version: int | None = None,
        time: datetime | str | None = None,
    ) -> AsyncSnapshot:
        """The branch pinned: as it is now, or at a version or a time; or at a commit."""
        branch = self.name if commit is None else None
        return await self._graph.at(branch=branch, commit=commit, version=version, time=time)

    async def blob(
        self, entity: str, type_name: str, identity: str, property_name: str
    ) -> AsyncBlob:
        """The bytes of one property; `entity` is `node` or `edge`. Raises BlobNotFound, …"""
        return await self._graph.blob(entity, type_name, identity, property_name, branch=self.name)

    async def diff(
        self,
        other: AsyncSnapshot | AsyncBranch | str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> AsyncDiff:
        """What changes from this branch to another state. Raises TypeUnknown, ChangesRefused."""
        return await self._graph.diff(
            self.name,
            other if isinstance(other, str) else other.name_in_diff,
            kinds=kinds,
            types=types,
            ops=ops,
            since_merge_base=since_merge_base,
        )

    async def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = "jsonl",  # noqa: A002 - the usual name
        types: Collection[str] = (),
        tables: Collection[str] = (),
    ) -> ExportResult:
        """`AsyncSnapshot.export` of the branch as it is now."""
        return await (await self.at()).export(output, format=format, types=types, tables=tables)

    def transaction(self, **options: Unpack[WriteOptions]) -> AsyncTransaction:
        """Several steps, one commit; nothing if the block raises."""
        options["branch"] = branch_in(self.name, options)
        return AsyncTransaction(self._graph, options)

    def _take(self, step: WriteStep, options: WriteOptions) -> Coroutine[Any, Any, MutationResult]:
        options["branch"] = branch_in(self.name, options)
        return self._graph.write([step], **options)

    @property
    def name_in_diff(self) -> str:
        return self.name

    @property
    def _where(self) -> dict[str, object]:
        return {"branch": self.name}


class AsyncTransaction(Steps[None]):
    """Steps that become one commit when the `async with` block ends, or nothing if it raises."""

    def __init__(self, graph: AsyncGraph, options: WriteOptions) -> None:
        self._graph = graph
        self._options = options
        self._steps: list[WriteStep] = []
        self._is_open = False
        self.result: MutationResult | None = None

    def __repr__(self) -> str:
        return f"AsyncTransaction({self._graph.uri!r}, {counted(len(self._steps), 'step')})"

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        if kind is None and self._steps:
            self.result = await self._graph.write(self._steps, **self._options)

    _take = Transaction._take  # noqa: SLF001 - of one pair
