"""What a caller holds of a graph: a branch, a snapshot, a transaction.

1. A `Snapshot` is pinned: it names one commit, so every read of it sees the same rows.
2. A `Branch` reads the branch as it is at each call, and writes to it.
3. A `Transaction` collects steps and sends them once, when its block ends without an error.

All three hold a `GraphClient` and add no behaviour, so they are the same for an embedded graph and
for a graph on a server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Self, Unpack

from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.query.blob import OpenBlob
from omnigraph.engine.query.reading import Explanation
from omnigraph.engine.query.result import Result
from omnigraph.errors import GraphClosed, UsageError
from omnigraph.errors.base import counted
from omnigraph.ids import MAIN, BranchName, TableKey
from omnigraph.sdk.steps import Steps, WriteOptions

if TYPE_CHECKING:
    from omnigraph.engine.load.export import ExportFormat, ExportResult
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.engine.write.steps import WriteStep
    from omnigraph.sdk.client import GraphClient
    from omnigraph.sdk.differences import Differences


class _Reads(ABC):
    """The reads that a branch and a snapshot share."""

    _graph: GraphClient

    @property
    @abstractmethod
    def _where(self) -> dict[str, object]:
        """The state, as keywords of `GraphClient.query`."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """The state, as `GraphClient.diff` names one."""

    def query(
        self,
        /,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        timeout: float | None = None,
        **values: object,
    ) -> Result:
        """Run a read.

        `source` is the text of a query file, or its path; `name` picks a query when the file holds
        several. Parameters are given in `params` or as keywords: `query(text, lo=2)`. The read
        stops after `timeout` seconds.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotARead, QueryMemoryExceeded,
        QueryTimeout.
        """
        given = {**(params or {}), **values} if values else params
        return self._graph.query(source, name=name, params=given, timeout=timeout, **self._where)  # type: ignore[arg-type]

    def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add what each operator did."""
        return self._graph.explain(
            source,
            name=name,
            params=params,
            analyze=analyze,
            timeout=timeout,
            **self._where,  # type: ignore[arg-type]
        )

    def entity(self, type_name: str, identity: str) -> dict[str, object] | None:
        """One node or edge by its id; None if there is none. Raises TypeUnknown."""
        return self._graph.find(type_name, identity, **self._where)  # type: ignore[arg-type]

    def blob(self, entity: str, type_name: str, identity: str, property_name: str) -> OpenBlob:
        """The bytes of one property; `entity` is `node` or `edge`. Raises BlobNotFound, …"""
        return self._graph.blob(entity, type_name, identity, property_name, **self._where)  # type: ignore[arg-type]

    def diff(
        self,
        other: Snapshot | Branch | str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> Differences:
        """What changes from this state to another: a snapshot, a branch, or the name of one.

        Its `counts` say how much, by table; its `changes()` tell every entity. `kinds` (`node`,
        `edge`), `types` and `ops` (`insert`, `update`, `delete`) restrict it. `since_merge_base`
        begins where the two histories parted. Raises TypeUnknown, ChangesRefused.
        """
        after = other if isinstance(other, str) else other.name_in_diff
        return self._graph.diff(
            self._name,
            after,
            kinds=kinds,
            types=types,
            ops=ops,
            since_merge_base=since_merge_base,
        )

    @property
    def name_in_diff(self) -> str:
        return self._name


class Snapshot(_Reads):
    """(1) One state of the whole graph, which no writer changes. Made by `at`."""

    def __init__(self, graph: GraphClient, pinned: ManifestSnapshot) -> None:
        self._graph = graph
        self._pinned = pinned

    def __repr__(self) -> str:
        commit = "no commit" if self.commit is None else self.commit.id
        return f"Snapshot({self._graph.uri!r}, {self.branch} @ {commit})"

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
    def schema(self) -> str:
        """The text of the schema under which it was committed."""
        return self._graph.schema_at(self._pinned)

    def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = "jsonl",  # noqa: A002 - the usual name
        types: Collection[str] = (),
        tables: Collection[str] = (),
    ) -> ExportResult:
        """Write all records to a file, or Parquet to a new folder; they load back as they were.

        `types` names types and `tables` table keys such as `node:Person`; all if both are empty.
        Raises TypeUnknown, TableUnknown, FileUnreadable, NotExportable.
        """
        return self._graph.export(
            output,
            format=format,
            types=types,
            tables=tables,
            branch=self.branch,
            version=self.version,
        )

    @property
    def _where(self) -> dict[str, object]:
        return {"snapshot": self._pinned}

    @property
    def _name(self) -> str:
        return f"{self.branch}@{self.version}"


class Branch(_Reads, Steps["MutationResult"]):
    """(2) One branch of a graph. Made by `graph.branch`."""

    def __init__(self, graph: GraphClient, name: BranchName) -> None:
        self._graph = graph
        self.name = name

    def __repr__(self) -> str:
        return f"Branch({self._graph.uri!r}, {self.name!r})"

    def __str__(self) -> str:
        return self.name

    @property
    def head(self) -> Commit | None:
        """Its newest commit."""
        return self._graph.snapshot(self.name).commit

    @property
    def schema(self) -> str:
        """The text of the schema in force."""
        return self._graph.schema_source

    def at(
        self,
        *,
        commit: str | None = None,
        version: int | None = None,
        time: datetime | str | None = None,
    ) -> Snapshot:
        """The branch pinned: as it is now, or at a version or a time; or at a commit."""
        branch = self.name if commit is None else None
        return self._graph.at(branch=branch, commit=commit, version=version, time=time)

    def commits(
        self,
        *,
        actor: str | None = None,
        since_us: int | None = None,
        limit: int | None = None,
        merged: bool = False,
    ) -> tuple[Commit, ...]:
        """Its history, newest first. `actor=""` finds commits without an actor."""
        return self._graph.commits(
            self.name, actor=actor, since_us=since_us, limit=limit, merged=merged
        )

    def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = "jsonl",  # noqa: A002 - the usual name
        types: Collection[str] = (),
        tables: Collection[str] = (),
    ) -> ExportResult:
        """`Snapshot.export` of the branch as it is now."""
        return self.at().export(output, format=format, types=types, tables=tables)

    def load(self, /, source: object, **options: object) -> LoadResult:
        """Load data as one commit, or nothing. The keywords are those of `graph.load`."""
        return self._graph.load(source, branch=self.name, **options)  # type: ignore[arg-type]

    def merge_into(self, /, target: Branch | str = MAIN, **options: object) -> MergeResult:
        """Merge this branch into another. The keywords are those of `graph.merge`."""
        return self._graph.merge(self, str(target), **options)  # type: ignore[arg-type]

    def transaction(self, **options: Unpack[WriteOptions]) -> Transaction:
        """Several steps, one commit; nothing if the block raises."""
        options["branch"] = branch_in(self.name, options)
        return Transaction(self._graph, options)

    def _take(self, step: WriteStep, options: WriteOptions) -> MutationResult:
        options["branch"] = branch_in(self.name, options)
        return self._graph.write([step], **options)

    @property
    def _where(self) -> dict[str, object]:
        return {"branch": self.name}

    @property
    def _name(self) -> str:
        return self.name


def branch_in(name: BranchName, options: WriteOptions) -> str:
    """The branch of a write through a handle. Raises UsageError for another branch."""
    if options.get("branch", name) != name:
        raise UsageError(f"this is branch '{name}'; use graph.branch for another")
    return name


class Transaction(Steps[None]):
    """(3) Steps that become one commit when the `with` block ends, or nothing if it raises.

    Each step sees the rows that earlier steps wrote. No step runs before the block ends, so a step
    returns nothing; `result` is the result of all steps afterwards, None if there was no step.
    """

    def __init__(self, graph: GraphClient, options: WriteOptions) -> None:
        self._graph = graph
        self._options = options
        self._steps: list[WriteStep] = []
        self._is_open = False
        self.result: MutationResult | None = None

    def __repr__(self) -> str:
        return f"Transaction({self._graph.uri!r}, {counted(len(self._steps), 'step')})"

    def __enter__(self) -> Self:
        self._is_open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        if kind is None and self._steps:
            self.result = self._graph.write(self._steps, **self._options)

    def _take(self, step: WriteStep, options: WriteOptions) -> None:
        if options:
            raise UsageError("actor, message and the rest are given to the transaction")
        if not self._is_open:
            raise UsageError("a transaction takes steps inside its `with` block")
        self._steps.append(step)


class Closed:
    """Stands for a closed graph or connection. Every use but `close` raises GraphClosed."""

    def __init__(self, place: str) -> None:
        self._place = place

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        raise GraphClosed(self._place)
