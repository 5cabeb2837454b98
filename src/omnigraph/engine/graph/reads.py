"""Reads of an open graph: queries, entities, snapshots, history. Each asks the gate first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.commit.manifest.branches import find_branches
from omnigraph.commit.manifest.identity import read_graph_id
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, open_pin
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.cancellation import time_limit
from omnigraph.engine.gate import Action
from omnigraph.engine.graph.state import OpenGraph
from omnigraph.engine.query.blob import BlobName, OpenBlob, find_blob_owner
from omnigraph.engine.query.reading import (
    BoundQuery,
    Explanation,
    PreparedQuery,
    ReadView,
    bind_query,
    explain_query,
)
from omnigraph.engine.query.result import QueryResult
from omnigraph.engine.query.target import NOW_ON_MAIN, Target
from omnigraph.errors import BranchNotFound, CommitNotFound, Forbidden, UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.lang.source import Source
from omnigraph.storage.tables import Handle

if TYPE_CHECKING:
    from omnigraph.engine.history.branch_summary import BranchSummary
    from omnigraph.engine.history.diff import ChangeFilter, GraphDiff
    from omnigraph.engine.history.entity_history import (
        EntityHistory,
        EntityRevision,
        PropertyOrigin,
    )
    from omnigraph.engine.history.feed import ChangeFeed, CommitPage, FeedPage, Poll
    from omnigraph.engine.query.columns.view import View
    from omnigraph.engine.query.operators.execution import Execution
    from omnigraph.engine.schema.plan import SchemaPlan, SchemaRequest


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which commits to list. None accepts every value; an empty actor means «without one»."""

    actor: str | None = None
    since_us: int | None = None
    limit: int | None = None
    merged: bool = False
    """List also the commits of merged branches."""

    def accepts(self, commit: Commit) -> bool:
        if self.actor is not None and (commit.actor or "") != self.actor:
            return False
        return self.since_us is None or commit.created_at_us >= self.since_us


EVERY_COMMIT = CommitFilter()


class GraphReads(OpenGraph):
    @property
    def catalog(self) -> Catalog:
        """The compiled schema in force. Raises Forbidden."""
        self._check_readable(None)
        return self.active_schema().catalog

    @property
    def schema_source(self) -> str:
        """The text of the schema in force. Raises Forbidden."""
        self._check_readable(None)
        return self.active_schema().source

    def schema_at(self, target: Target) -> ActiveSchema:
        """The schema that a target is read by. Raises Forbidden, BranchNotFound, …"""
        return self._targets.schema_at(self.resolve(target))

    def plan_schema(self, request: SchemaRequest) -> SchemaPlan:
        """What another schema would change. Raises SchemaInvalid, BackfillInvalid, Forbidden."""
        from omnigraph.engine.schema.plan import plan_schema

        self._check_readable(None)
        manifest = self._bases.current(MAIN).manifest
        return plan_schema(manifest, self._schemas.for_manifest(manifest), request)

    def resolve(self, target: Target, action: Action = Action.READ) -> ManifestSnapshot:
        """The snapshot that a target names. Raises Forbidden, BranchNotFound, CommitNotFound, …"""
        self._check_readable(self._targets.branch_of(target), action)
        return self._targets.view(target).snapshot

    def find_snapshot(self, text: str) -> ManifestSnapshot:
        """What a text names: a branch, a commit, or `branch@version`. Raises as `resolve`."""
        return self.resolve(self._targets.named(text))

    def snapshot(self, branch: BranchName = MAIN) -> ManifestSnapshot:
        """The branch as it is now. Raises BranchNotFound."""
        return self.resolve(Target(branch))

    def snapshot_at_commit(self, commit_id: CommitId) -> ManifestSnapshot:
        """Raises CommitNotFound; VersionNotFound when it was cleaned up."""
        return self.resolve(Target(commit_id=commit_id))

    def snapshot_at_version(self, branch: BranchName, version: Version) -> ManifestSnapshot:
        """Raises BranchNotFound, VersionNotFound."""
        return self.resolve(Target(branch, version))

    def query(
        self,
        source: Source | PreparedQuery,
        *,
        name: str | None = None,
        params: object = None,
        target: Target = NOW_ON_MAIN,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
        timeout: float | None = None,
    ) -> QueryResult:
        """Run a read on one snapshot.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotARead before any table is read;
        Forbidden, BranchNotFound, CommitNotFound, VersionNotFound, QueryMemoryExceeded,
        QueryTimeout.
        """
        with time_limit(timeout):
            view, catalog = self._see(target)
            bound = self._bind(source, catalog, view, name, params, binding=binding)
            return self._reader.execute(bound, catalog, view)

    def compile(self, source: Source, *, name: str | None = None) -> tuple[PreparedQuery, str]:
        """A read to run often, checked by the schema of main, and its name.

        Raises QueryInvalid, QueryNotFound, NotARead, Forbidden.
        """
        _, catalog = self._see(NOW_ON_MAIN)
        prepared = PreparedQuery(source, name)
        return prepared, prepared.compiled(catalog).name

    def prepare(
        self,
        source: Source,
        *,
        name: str | None = None,
        params: object = None,
        target: Target = NOW_ON_MAIN,
    ) -> tuple[BoundQuery, Execution]:
        """A read with its snapshot, its parameters and its instant, for an engine to run.

        Raises what `query` raises before any table is read.
        """
        view, catalog = self._see(target)
        bound = self._bind(source, catalog, view, name, params)
        return bound, self._reader.prepare(bound, catalog, view)

    def view(self, target: Target = NOW_ON_MAIN) -> View:
        """The tables of one snapshot, for work on whole columns. Raises as `resolve`."""
        seen, catalog = self._see(target)
        return self._reader.view(catalog, seen)

    def explain(
        self,
        source: Source,
        *,
        name: str | None = None,
        params: object = None,
        target: Target = NOW_ON_MAIN,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add what each operator did."""
        with time_limit(timeout):
            view, catalog = self._see(target)
            if not analyze:
                statistics = self._reader.statistics
                return explain_query(source, catalog, view.snapshot, statistics, name=name)
            bound = self._bind(source, catalog, view, name, params)
            return self._reader.analyze(bound, catalog, view)

    def _bind(
        self,
        source: Source | PreparedQuery,
        catalog: Catalog,
        view: ReadView,
        name: str | None,
        params: object,
        *,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
    ) -> BoundQuery:
        """A read of this instant, with its parameters."""
        if isinstance(source, Source):
            source = self._reader.queries.of(source, name)
        return bind_query(
            source,
            catalog,
            view.snapshot,
            params=params,
            now_ms=self._stores.effects.now_ms(),
            statistics=self._reader.statistics,
            binding=binding,
        )

    def find(self, type_name: str, identity: str, target: Target = NOW_ON_MAIN) -> QueryResult:
        """One node or edge by id; no row if there is none. Raises TypeUnknown, …"""
        from omnigraph.engine.write.batch import find_type

        view, catalog = self._see(target)
        return self._reader.find(find_type(catalog, type_name), identity, view)

    def blob(self, name: BlobName, target: Target = NOW_ON_MAIN) -> OpenBlob:
        """One blob of one node or edge. Raises BlobNotFound, NotABlob, UsageError, …"""
        view, catalog = self._see(target)
        return self._reader.open_blob(find_blob_owner(catalog, name), name, view)

    def _see(self, target: Target) -> tuple[ReadView, Catalog]:
        self._check_readable(self._targets.branch_of(target))
        return self._targets.see(target)

    def open_table(self, snapshot: ManifestSnapshot, key: TableKey) -> Handle:
        """The rows a snapshot shows of one table. Raises TableUnknown."""
        return open_pin(self._stores, snapshot.pin(key))

    def diff(
        self, before: ManifestSnapshot, after: ManifestSnapshot, where: ChangeFilter | None = None
    ) -> GraphDiff:
        """What differs between two snapshots. Raises ChangesRefused, TypeUnknown, Forbidden."""
        from omnigraph.engine.history.diff import EVERY_CHANGE, find_diff

        for each in (before, after):
            self._check_readable(each.branch)
        catalogs = (self._targets.catalog_at(before), self._targets.catalog_at(after))
        where = where or EVERY_CHANGE
        where.check_types(*catalogs)
        return find_diff(self._stores.tables, self._open_pin, catalogs, (before, after), where)

    def find_merge_base(
        self, before: ManifestSnapshot, after: ManifestSnapshot
    ) -> ManifestSnapshot:
        """The state at which two histories parted; of several, the newest.

        Raises UsageError if they have no commit in common; VersionNotFound if the state was cleaned
        up; Forbidden.
        """
        from omnigraph.commit.manifest.lineage import Lineage

        if before.commit is None or after.commit is None:
            raise UsageError("a state without a commit has no history to compare")
        lineage = Lineage.of(self._histories({before.branch, after.branch}))
        found = lineage.merge_bases(before.commit.id, after.commit.id)
        if not found:
            names = f"'{before.branch}' and '{after.branch}'"
            raise UsageError(f"{names} have no commit in common; compare them with A..B")
        newest = max((lineage.commits[each] for each in found), key=lambda e: e.created_at_us)
        return self.resolve(Target(commit_id=newest.id))

    def _histories(self, names: set[BranchName]) -> Iterator[Commit]:
        """The commits of these branches and of main. A deleted branch left its in the others."""
        for name in {MAIN, *names} & {*find_branches(self._stores)}:
            log = self._bases.current(name).manifest.log
            yield from log.ancestors
            yield from log.commits

    def branch_summaries(self) -> tuple[BranchSummary, ...]:
        """The branches, main first, each with its head. Raises Forbidden.

        A branch that the actor may not read has a name only.
        """
        self._check_readable(None)
        return tuple(self._summarize(each) for each in find_branches(self._stores))

    def _summarize(self, name: BranchName) -> BranchSummary:
        from omnigraph.engine.history.branch_summary import BranchSummary, summarize

        try:
            for each in (name, MAIN):
                self._check_readable(each)
            return summarize(self._bases.current(name).manifest, self._bases.current(MAIN).manifest)
        except (Forbidden, BranchNotFound):  # deleted since it was listed
            return BranchSummary(name)

    def changes(self, branch: BranchName, poll: Poll) -> FeedPage:
        """What commits changed, after a cursor. Raises what `ChangeFeed.poll` raises."""
        self._check_readable(branch)
        return self._feed(branch).poll(poll)

    def feed_cursor(self, branch: BranchName, poll: Poll) -> str:
        """The cursor where a poll starts. Raises CommitNotFound, CursorInvalid, UsageError."""
        self._check_readable(branch)
        poll.where.check_types(self.active_schema().catalog)
        feed = self._feed(branch)
        at = feed.find_start(poll)
        if at.commit is not None and at.commit not in {each.id for each in feed.history}:
            raise CommitNotFound(at.commit)
        return at.encode()

    def baseline(self, branch: BranchName, where: ChangeFilter) -> tuple[ManifestSnapshot, str]:
        """The head of a branch, and the cursor from which its changes follow."""
        self._check_readable(branch, Action.EXPORT)
        where.check_types(self.active_schema().catalog)
        feed = self._feed(branch)
        head = feed.history[-1].id
        cursor = feed.position(where, head).encode()
        return self._targets.view(Target(commit_id=head)).snapshot, cursor

    def commit_changes(self, commit_id: CommitId, poll: Poll) -> CommitPage:
        """What one commit changed. Raises CommitNotFound, ChangesRefused, ChangeFeedGap."""
        from omnigraph.engine.history.feed import read_commit

        commit = self._targets.commit(commit_id)
        self._check_readable(commit.branch)
        before = self._targets.find_before(commit)
        return read_commit(self._feed(MAIN), commit, before, poll)

    def commits(
        self, branch: BranchName = MAIN, where: CommitFilter = EVERY_COMMIT
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. Raises BranchNotFound, Forbidden."""
        from omnigraph.commit.manifest.lineage import newest_first

        self._check_readable(branch)
        log = self._bases.current(branch).manifest.log
        history = (
            newest_first((*log.commits, *log.ancestors)) if where.merged else log.commits[::-1]
        )
        return tuple(each for each in history if where.accepts(each))[: where.limit]

    def pipeline_runs(self, name: str, branch: BranchName = MAIN) -> list[Commit]:
        """The runs of a pipeline that remember what they loaded, oldest first.

        Raises BranchNotFound, Forbidden.
        """
        self._check_readable(branch)
        return self._bases.current(branch).manifest.log.find_runs(name)

    def revisions(
        self, type_name: str, identity: str, branch: BranchName = MAIN
    ) -> Iterator[EntityRevision]:
        """The commits of a branch that changed one node or edge, newest first.

        Raises TypeUnknown, BranchNotFound, Forbidden.
        """
        self._check_readable(branch)
        return self._history(type_name, identity).revisions(branch)

    def blame(
        self, type_name: str, identity: str, branch: BranchName = MAIN
    ) -> tuple[PropertyOrigin, ...]:
        """The commit that set each property of one node or edge; empty if it does not exist.

        Raises TypeUnknown, BranchNotFound, Forbidden.
        """
        self._check_readable(branch)
        return self._history(type_name, identity).blame(branch)

    def _history(self, type_name: str, identity: str) -> EntityHistory:
        from omnigraph.engine.history.entity_history import EntityHistory
        from omnigraph.engine.write.batch import find_type

        key = find_type(self.active_schema().catalog, type_name).table_key

        def find_past(catalog: Catalog) -> NodeType | EdgeType | None:
            types: Iterator[NodeType | EdgeType] = chain(catalog.nodes, catalog.edges)
            return next((each for each in types if each.table_key == key), None)

        return EntityHistory(
            self._stores,
            self._bases,
            self._targets.catalog_at,
            find_past,
            self._targets.commit,
            self._open_pin,
            key,
            identity,
        )

    def commit(self, commit_id: CommitId) -> Commit:
        """A commit of any branch. Raises CommitNotFound, Forbidden."""
        self._check_readable(None)
        return self._targets.commit(commit_id)

    def find_write(self, key: str, *, branch: BranchName, actor: str | None) -> Commit | None:
        """The commit of the write that had this idempotency key. Raises BranchNotFound."""
        self._check_readable(branch)
        log = self._bases.current(branch).manifest.log
        return log.find_key(key, actor=actor, branch=branch)

    def _feed(self, branch: BranchName) -> ChangeFeed:
        from omnigraph.engine.history.feed import ChangeFeed

        base, catalog = self._bases.current(branch), self.active_schema().catalog
        stores, first = self._stores, base.manifest.log.commits[0]
        graph_id = read_graph_id(stores.objects, stores.root, first.id)
        return ChangeFeed(stores, graph_id, catalog, base, self._open_pin, self._targets.catalog_at)
