"""Reads of an open graph: queries, entities, snapshots, history. Each asks the gate first."""

from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot, open_pin
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.cancellation import time_limit
from omnigraph.engine.gate import Action
from omnigraph.engine.graph.state import OpenGraph
from omnigraph.engine.history.diff import EVERY_CHANGE, ChangeFilter, GraphDiff, find_diff
from omnigraph.engine.history.feed import ChangeFeed, CommitPage, FeedPage, Poll, read_commit
from omnigraph.engine.query.blob import BlobName, OpenBlob, find_blob_owner
from omnigraph.engine.query.reading import Explanation, ReadView, bind_query, explain_query
from omnigraph.engine.query.result import QueryResult
from omnigraph.engine.query.target import NOW_ON_MAIN, Target
from omnigraph.engine.schema.plan import SchemaPlan, SchemaRequest, plan_schema
from omnigraph.engine.write.batch import find_type
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey, Version
from omnigraph.lang.source import Source
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which commits to list. None accepts every value; an empty actor means «without one»."""

    actor: str | None = None
    since_us: int | None = None
    limit: int | None = None

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
        source: Source,
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
            now_ms = self._stores.effects.now_ms()
            bound = bind_query(
                source, catalog, name=name, params=params, now_ms=now_ms, binding=binding
            )
            return self._reader.execute(bound, catalog, view)

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
                return explain_query(source, catalog, name=name)
            now_ms = self._stores.effects.now_ms()
            bound = bind_query(source, catalog, name=name, params=params, now_ms=now_ms)
            return self._reader.analyze(bound, catalog, view)

    def find(self, type_name: str, identity: str, target: Target = NOW_ON_MAIN) -> QueryResult:
        """One node or edge by id; no row if there is none. Raises TypeUnknown, …"""
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
        self, before: ManifestSnapshot, after: ManifestSnapshot, where: ChangeFilter = EVERY_CHANGE
    ) -> GraphDiff:
        """What differs between two snapshots. Raises ChangesRefused, TypeUnknown, Forbidden."""
        for each in (before, after):
            self._check_readable(each.branch)
        catalogs = (self._targets.catalog_at(before), self._targets.catalog_at(after))
        where.check_types(*catalogs)
        return find_diff(self._stores.tables, self._open_pin, catalogs, (before, after), where)

    def changes(self, branch: BranchName, poll: Poll) -> FeedPage:
        """What commits changed, after a cursor. Raises what `ChangeFeed.poll` raises."""
        self._check_readable(branch)
        return self._feed(branch).poll(poll)

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
        commit = self._targets.commit(commit_id)
        self._check_readable(commit.branch)
        parent = None if commit.parent is None else self._targets.commit(commit.parent)
        return read_commit(self._feed(MAIN), commit, parent, poll)

    def commits(
        self, branch: BranchName = MAIN, where: CommitFilter = EVERY_COMMIT
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. Raises BranchNotFound, Forbidden."""
        self._check_readable(branch)
        history = reversed(self._bases.current(branch).manifest.log.commits)
        return tuple(each for each in history if where.accepts(each))[: where.limit]

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
        base, catalog = self._bases.current(branch), self.active_schema().catalog
        return ChangeFeed(self._stores, catalog, base, self._open_pin, self._targets.catalog_at)
