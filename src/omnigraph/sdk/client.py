"""What a graph is to a caller: embedded in this process, or on a server.

`LocalGraph` and `RemoteGraph` subclass `GraphClient`, and one suite of tests runs on both. What
only an embedded graph can do, such as a Spark data frame, is not here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self, Unpack

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.query.blob import OpenBlob
from omnigraph.engine.query.reading import Explanation
from omnigraph.engine.query.result import Result
from omnigraph.engine.settings import CHANGES_DEFAULT, COMMITS_DEFAULT, ERRORS_MAX
from omnigraph.errors import BranchNotFound
from omnigraph.ids import MAIN, BranchName, parse_branch
from omnigraph.sdk.handles import Branch, Snapshot, Transaction
from omnigraph.sdk.history import HistoryClient
from omnigraph.sdk.prepared import PreparedRead
from omnigraph.sdk.steps import Steps, WriteOptions

if TYPE_CHECKING:
    from omnigraph.catalog.outline import SchemaOutline
    from omnigraph.engine.history.branch_summary import BranchSummary
    from omnigraph.engine.history.feed import CommitPage, FeedPage
    from omnigraph.engine.load.bulk import LoadEngine, LoadMode
    from omnigraph.engine.load.export import ExportFormat, ExportResult
    from omnigraph.engine.load.run import LoadResult
    from omnigraph.engine.maintain.optimize import OptimizeResult
    from omnigraph.engine.merge.run import MergeResult
    from omnigraph.engine.schema.apply import SchemaResult
    from omnigraph.engine.schema.plan import SchemaPlan
    from omnigraph.engine.write.mutate import MutationResult
    from omnigraph.engine.write.steps import WriteStep
    from omnigraph.sdk.differences import Beginning, Differences


class BranchesClient(Protocol):
    def list(self) -> tuple[BranchName, ...]: ...
    def summaries(self) -> tuple[BranchSummary, ...]: ...

    def create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchName: ...

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Deleted: ...


class GraphClient(Steps["MutationResult"], HistoryClient, Protocol):
    """A graph, embedded or on a server. `LocalGraph` and `RemoteGraph` subclass it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def at(
        self,
        *,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        time: datetime | str | None = None,
    ) -> Snapshot:
        """A pinned state to read: repeated reads see the same commit.

        `branch` is main if nothing else is given; `version` and `time` name a past state of it.
        `commit` names the state that a commit left, and is given alone.

        Raises BranchNotFound, CommitNotFound, VersionNotFound, NothingYet, UsageError.
        """
        return Snapshot(self, self.snapshot(branch, commit=commit, version=version, at=time))

    def branch(
        self,
        name: str,
        *,
        create: bool = False,
        source: str = MAIN,
        actor: str | None = None,
    ) -> Branch:
        """A branch to read and write. `create` creates it from `source` if it does not exist.

        Raises BranchNotFound, BranchNameInvalid; SchemaLocked, OpenedReadOnly if it is created.
        """
        known = parse_branch(name)
        if known not in self.branches.list():
            if not create:
                raise BranchNotFound(known)
            self.branches.create(known, source=source, actor=actor)
        return Branch(self, known)

    def transaction(self, **options: Unpack[WriteOptions]) -> Transaction:
        """Several steps, one commit; nothing if the block raises.

        with graph.transaction(message="rehang") as tx:
            tx.insert("Gallery", [{"code": "W2"}])
            tx.delete("Hangs", ids)
        """
        return Transaction(self, options)

    def entity(self, type_name: str, identity: str) -> dict[str, object] | None:
        """One node or edge of main by its id; None if there is none. Raises TypeUnknown."""
        return self.find(type_name, identity)

    def _take(self, step: WriteStep, options: WriteOptions) -> MutationResult:
        return self.write([step], **options)

    def close(self) -> None: ...

    def write(
        self,
        steps: Sequence[WriteStep],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult: ...

    def schema_at(self, snapshot: ManifestSnapshot) -> str: ...

    def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation: ...

    def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = "jsonl",  # noqa: A002 - the usual name
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> ExportResult: ...

    @property
    def uri(self) -> str: ...

    @property
    def branches(self) -> BranchesClient: ...

    @property
    def catalog(self) -> Catalog: ...

    @property
    def schema_source(self) -> str: ...

    def describe(
        self,
        *,
        types: Sequence[str] = (),
        question: str | None = None,
        budget: int | None = None,
        samples: int = 0,
    ) -> SchemaOutline: ...

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> ManifestSnapshot: ...

    def commits(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since_us: int | None = None,
        limit: int | None = None,
        merged: bool = False,
    ) -> tuple[Commit, ...]: ...

    def commit(self, commit_id: str) -> Commit: ...

    def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
    ) -> Result: ...

    def prepare(self, source: str | Path, *, name: str | None = None) -> PreparedRead[Result]:
        """A read to run often: `statement = graph.prepare(text)`, `statement({"lo": 2})`.

        It is checked now. Raises QueryInvalid, QueryNotFound, NotARead.
        """

    def find(
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
        found = self.look_up(
            type_name,
            identity,
            branch=branch,
            snapshot=snapshot,
            commit=commit,
            version=version,
            at=at,
        ).rows()
        return found[0] if found else None

    def look_up(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> Result: ...

    def blob(
        self,
        entity: str,
        type_name: str,
        identity: str,
        property_name: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> OpenBlob: ...

    def merge(
        self,
        source: str | Branch,
        into: str | Branch = MAIN,
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
    ) -> MergeResult: ...

    def load(
        self,
        source: object,
        *,
        mode: LoadMode | str,
        type: str | None = None,  # noqa: A002 - as the schema calls it
        edge: str | None = None,
        mapping: Mapping[str, str] | None = None,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        max_errors: int = ERRORS_MAX,
        idempotency_key: str | None = None,
        message: str | None = None,
        engine: LoadEngine | str | None = None,
    ) -> LoadResult: ...

    def export_lines(
        self,
        *,
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> Iterator[bytes]: ...

    def diff(
        self,
        before: str,
        after: str,
        *,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
        since_merge_base: bool = False,
    ) -> Differences: ...

    def commit_changes(
        self,
        commit_id: str,
        *,
        page_token: str | None = None,
        limit: int = CHANGES_DEFAULT,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
        ops: Collection[str] = (),
    ) -> CommitPage: ...

    def changes(
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
    ) -> FeedPage: ...

    def baseline(
        self,
        *,
        branch: str = MAIN,
        kinds: Collection[str] = (),
        types: Collection[str] = (),
    ) -> Beginning: ...

    def plan_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
    ) -> SchemaPlan: ...

    def apply_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
        portable: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> SchemaResult: ...

    def optimize(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> OptimizeResult: ...
