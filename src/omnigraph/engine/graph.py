"""An open graph: branches, commits, snapshots and writes of one root.

A `Graph` holds no branch: every call names the one it means. It is safe to share among threads.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from omnigraph.catalog.model import Catalog
from omnigraph.commit.attempt.locks import lock_branches
from omnigraph.commit.attempt.schema_lock import check_unlocked, clear_stale
from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.base import Base, Bases, find_incarnation, manifest_ref
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.records import Commit, Extension
from omnigraph.commit.manifest.snapshot import (
    ManifestSnapshot,
    find_commit,
    open_pin,
    snapshot_at_commit,
    snapshot_at_version,
    snapshot_of,
)
from omnigraph.commit.recovery.audit import Recovery
from omnigraph.commit.recovery.drift import heal_fenced, undo_ended
from omnigraph.commit.recovery.heal import heal
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.engine.active_schema import ActiveSchema, SchemaCache
from omnigraph.engine.cancellation import tell, time_limit
from omnigraph.engine.gate import Action, Gate, let_pass
from omnigraph.engine.history.diff import EVERY_CHANGE, ChangeFilter, GraphDiff, find_diff
from omnigraph.engine.history.feed import ChangeFeed, CommitPage, FeedPage, Poll, read_commit
from omnigraph.engine.load.bulk import BulkLoader
from omnigraph.engine.load.run import LoadRequest, LoadResult, load
from omnigraph.engine.maintain.cleanup import CleanupRequest, CleanupResult, cleanup
from omnigraph.engine.maintain.doctor import DoctorFinding, examine
from omnigraph.engine.maintain.indexes import IndexRequest, IndicesResult, ensure_indices
from omnigraph.engine.maintain.inspection import (
    PastRecovery,
    PendingWrite,
    find_pending,
    find_recoveries,
)
from omnigraph.engine.maintain.optimize import OptimizeRequest, OptimizeResult, optimize
from omnigraph.engine.maintain.repair import RepairRequest, RepairResult, repair
from omnigraph.engine.maintain.wanted_indexes import find_substrings
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.run import MergeResult, merge
from omnigraph.engine.merge.workers import BulkMerge
from omnigraph.engine.query.blob import BlobName, OpenBlob, find_blob_owner
from omnigraph.engine.query.reading import Analysis, Reader, ReadView, bind_query
from omnigraph.engine.query.result import QueryResult, ReadTarget
from omnigraph.engine.query.table_cache import TableCache
from omnigraph.engine.query.target import NOW_ON_MAIN, Target
from omnigraph.engine.schema.apply import SchemaResult, apply_schema
from omnigraph.engine.schema.plan import SchemaPlan, SchemaRequest, plan_schema
from omnigraph.engine.schema.rewriting import RewriterFactory, in_process
from omnigraph.engine.search.provider import GraphEmbedder, search_provider
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.engine.stages import watching
from omnigraph.engine.write.batch import Existing, delete_ids, find_type, read_rows
from omnigraph.engine.write.idempotency import IdempotencyKey, run_idempotent_without_commit
from omnigraph.engine.write.mutate import (
    ON_MAIN,
    MutationResult,
    WriteRequest,
    WriteTask,
    carry_out,
    parse_program,
)
from omnigraph.engine.write.upkeep import Upkeep
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    CommitNotFound,
    NothingYet,
    OpenedReadOnly,
    SchemaOutdated,
    UsageError,
)
from omnigraph.ids import (
    MAIN,
    BranchName,
    CommitId,
    TableKey,
    Version,
    is_encodable,
    parse_branch,
)
from omnigraph.lang.source import Source
from omnigraph.storage.layout import RECOVERY, Root
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, Tables


class Mode(Enum):
    READ_WRITE = "read_write"
    READ_ONLY = "read_only"
    """Nothing is ever written: no migration, no recovery, no repair."""


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """Which commits to list. None leaves a fact open; an empty actor means «without one»."""

    actor: str | None = None
    since_us: int | None = None
    limit: int | None = None

    def accepts(self, commit: Commit) -> bool:
        if self.actor is not None and (commit.actor or "") != self.actor:
            return False
        return self.since_us is None or commit.created_at_us >= self.since_us


EVERY_COMMIT = CommitFilter()

OURS: Final = "omnigraph:"
"""How the names begin that recoveries and upkeep sign with; nobody else may."""


class Graph:
    """Make one with `opening.create` or `opening.open_graph`."""

    def __init__(
        self,
        stores: Stores,
        bases: Bases,
        contract: ActiveSchema,
        mode: Mode,
        *,
        gate: Gate = let_pass,
        settings: Settings = DEFAULTS,
    ) -> None:
        self._stores = stores
        self._bases = bases
        self._bench = WriteContext(
            stores, bases, timing=settings.timing, observe=tell, meter=settings.meter
        )
        self._upkeep = Upkeep(self._bench, contract.catalog) if settings.maintenance else None
        self._contracts = SchemaCache(stores.objects, contract)
        self._mode = mode
        self._gate = gate
        self._settings = settings
        embedding = GraphEmbedder(settings.embedding, settings.effects)
        self._reader = Reader(
            stores,
            settings,
            TableCache(settings.query_cache_bytes_max),
            search_provider(embedding, kept_bytes_max=settings.query_cache_bytes_max // 4),
        )

    @property
    def uri(self) -> str:
        return self._stores.root.uri

    @property
    def root(self) -> Root:
        return self._stores.root

    @property
    def objects(self) -> Objects:
        """For records that are kept beside the graph, such as jobs."""
        return self._stores.objects

    @property
    def tables(self) -> Tables:
        """For readers of snapshots; a writer names its tables in a `Change`."""
        return self._stores.tables

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def catalog(self) -> Catalog:
        """What the schema in force means."""
        return self.renew().catalog

    @property
    def schema_source(self) -> str:
        return self.renew().source

    def renew(self) -> ActiveSchema:
        """The schema in force, which another process may have changed. Main says when it was.

        Raises SchemaFilesInvalid.
        """
        contract = self._contracts.for_manifest(self._bases.current(MAIN).manifest)
        if self._upkeep is not None:
            self._upkeep.catalog = contract.catalog
        return contract

    def refresh(self) -> tuple[Recovery, ...]:
        """Finish or undo whatever dead writers left behind; what was done about each.

        What those did who only slept, after they woke up, is undone as well.
        Every write does this first, so calling it is never necessary. Raises SidecarCorrupt,
        SidecarTooNew, InvariantViolated, OpenedReadOnly.
        """
        self.check_writable()
        listed = self._stores.objects.list(RECOVERY)
        recovered = heal(self._bench, listed)
        clear_stale(self._bench)
        heal_fenced(self._bench, listed)
        if recovered:
            self.renew()
        return recovered

    def pending_writes(self) -> tuple[PendingWrite, ...]:
        """Writes that are under way, or wait to be finished or undone; oldest first."""
        return find_pending(self._bench)

    def recoveries(self) -> tuple[PastRecovery, ...]:
        """What was done about writes that did not finish; newest first."""
        return find_recoveries(self._bench)

    # reading

    def snapshot(self, branch: BranchName = MAIN) -> ManifestSnapshot:
        """The branch as it is now. Raises BranchNotFound."""
        return snapshot_of(self._bases.current(branch).manifest)

    def snapshot_at_commit(self, commit_id: CommitId) -> ManifestSnapshot:
        """Raises CommitNotFound; VersionNotFound when it was cleaned up."""
        return snapshot_at_commit(self._stores, self.commit(commit_id))

    def snapshot_at_version(self, branch: BranchName, version: Version) -> ManifestSnapshot:
        """Raises BranchNotFound, VersionNotFound."""
        return snapshot_at_version(self._stores, branch, version)

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
        BranchNotFound, CommitNotFound, VersionNotFound, QueryMemoryExceeded, QueryTimeout.
        """
        with time_limit(timeout):
            seen, catalog = self._see(target)
            now_ms = self._stores.effects.now_ms()
            question = bind_query(
                source, catalog, name=name, params=params, now_ms=now_ms, binding=binding
            )
            return self._reader.answer(question, catalog, seen)

    def analyse(
        self,
        source: Source,
        *,
        name: str | None = None,
        params: object = None,
        target: Target = NOW_ON_MAIN,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
        timeout: float | None = None,
    ) -> Analysis:
        """Run a read for what its operators do, not for its rows. Raises what `query` raises."""
        with time_limit(timeout):
            seen, catalog = self._see(target)
            now_ms = self._stores.effects.now_ms()
            question = bind_query(
                source, catalog, name=name, params=params, now_ms=now_ms, binding=binding
            )
            return self._reader.analyse(question, catalog, seen)

    def find(self, type_name: str, identity: str, target: Target = NOW_ON_MAIN) -> QueryResult:
        """One node or edge by id; no row if there is none. Raises TypeUnknown, …"""
        seen, catalog = self._see(target)
        return self._reader.find(find_type(catalog, type_name), identity, seen)

    def blob(self, name: BlobName, target: Target = NOW_ON_MAIN) -> OpenBlob:
        """One blob of one node or edge. Raises BlobNotFound, NotABlob, UsageError, …"""
        seen, catalog = self._see(target)
        return self._reader.open_blob(find_blob_owner(catalog, name), name, seen)

    def _see(self, target: Target) -> tuple[ReadView, Catalog]:
        """What a target names, and the schema to read it by; of a branch as it is, one probe."""
        if target.is_past:
            seen = self.look(target)
            return seen, self.catalog_at(seen.snapshot)
        base = self._bases.current(target.branch)
        return self._seen_now(base), self._contracts.for_manifest(base.manifest).catalog

    def catalog_at(self, snapshot: ManifestSnapshot) -> Catalog:
        """What the schema meant that a snapshot was made under."""
        schema_hash = self._schema_hash_at(snapshot.commit)
        self.renew()
        return self._contracts.at(schema_hash).catalog

    def _schema_hash_at(self, commit: Commit | None) -> str | None:
        """The schema that a commit was made under; None if that is not known."""
        while commit is not None and commit.extension.schema_hash is None:
            # Recoveries and upkeep do not say, and change nothing about it.
            is_ours = commit.extension != Extension() and commit.parent is not None
            commit = self.commit(CommitId(str(commit.parent))) if is_ours else None
        return None if commit is None else commit.extension.schema_hash

    def look(self, target: Target) -> ReadView:
        """The snapshot that a target names. Raises BranchNotFound, CommitNotFound, …"""
        if target.snapshot is not None:
            commit = target.snapshot.commit
            asked = ReadTarget(None, None if commit is None else commit.id)
            return ReadView(asked, target.snapshot, self._incarnation_of)
        if target.commit_id is not None:
            snapshot = self.snapshot_at_commit(target.commit_id)
            return ReadView(ReadTarget(None, target.commit_id), snapshot, self._incarnation_of)
        if target.version is not None:
            past = self.snapshot_at_version(target.branch, target.version)
            return ReadView(ReadTarget(target.branch, None), past, self._incarnation_of)
        if target.at_us is not None:
            commit = self.commit_at(target.branch, target.at_us)
            snapshot = snapshot_at_commit(self._stores, commit)
            return ReadView(ReadTarget(None, commit.id), snapshot, self._incarnation_of)
        return self._seen_now(self._bases.current(target.branch))

    def _seen_now(self, base: Base) -> ReadView:
        manifest = base.manifest

        def incarnation_of(branch: BranchName) -> str:
            is_known = branch == manifest.branch
            return base.identifier if is_known else self._incarnation_of(branch)

        return ReadView(ReadTarget(manifest.branch, None), snapshot_of(manifest), incarnation_of)

    def _incarnation_of(self, branch: BranchName) -> str:
        return find_incarnation(self._stores, branch)

    def commit_at(self, branch: BranchName, at_us: int) -> Commit:
        """The newest commit of a branch at a time. Raises BranchNotFound, NothingYet."""
        history = self._bases.current(branch).manifest.log.commits
        found = [each for each in history if each.created_at_us <= at_us]
        if not found:
            raise NothingYet(branch, at_us=at_us)
        return found[-1]

    def open_table(self, snapshot: ManifestSnapshot, key: TableKey) -> Handle:
        """The rows a snapshot shows of one table. Raises TableUnknown."""
        return open_pin(self._stores, snapshot.pin(key))

    def diff(
        self, before: ManifestSnapshot, after: ManifestSnapshot, where: ChangeFilter = EVERY_CHANGE
    ) -> GraphDiff:
        """What differs between two snapshots. Raises ChangesRefused, TypeUnknown."""
        catalogs = (self.catalog_at(before), self.catalog_at(after))
        where.check_types(*catalogs)
        return find_diff(self._stores.tables, self._open_pin, catalogs, (before, after), where)

    def _open_pin(self, pin: Pin) -> Handle:
        return open_pin(self._stores, pin)

    def feed(self, branch: BranchName = MAIN) -> ChangeFeed:
        """The changes of a branch, commit by commit. Raises BranchNotFound."""
        base = self._bases.current(branch)
        return ChangeFeed(self._stores, self.catalog, base, self._open_pin, self.catalog_at)

    def changes(self, branch: BranchName, asked: Poll) -> FeedPage:
        """What commits changed, after a cursor. Raises what `ColumnMapping.poll` raises."""
        return self.feed(branch).poll(asked)

    def commit_changes(self, commit_id: CommitId, asked: Poll) -> CommitPage:
        """What one commit changed. Raises CommitNotFound, ChangesRefused, ChangeFeedGap."""
        commit = self.commit(commit_id)
        parent = None if commit.parent is None else self.commit(commit.parent)
        return read_commit(self.feed(), commit, parent, asked)

    # writing

    def mutate(
        self,
        source: Source,
        *,
        name: str | None = None,
        params: object = None,
        order: WriteRequest = ON_MAIN,
        binding: IntegerEncoding = IntegerEncoding.NATIVE,
    ) -> MutationResult:
        """Run a mutation and commit what it changes; no commit if that is nothing.

        Raises QueryInvalid, QueryNotFound, ParameterInvalid, NotAMutation before anything is read;
        ConstraintViolation, HeadMoved, ExpectedVersionMismatch, BranchNotFound.
        """
        contract = self._ask(order)
        now_ms = self._stores.effects.now_ms()
        program = parse_program(
            source, contract.catalog, name=name, params=params, now_ms=now_ms, binding=binding
        )
        return self._carry_out(program, contract, order, query_name=program.name)

    def write_rows(
        self,
        type_name: str,
        rows: Sequence[Mapping[str, object]],
        *,
        existing: Existing,
        order: WriteRequest = ON_MAIN,
    ) -> MutationResult:
        """Write rows of one type; those that exist are replaced whole, or refused.

        Raises TypeUnknown, ConstraintViolation, KeyConflict, HeadMoved, BranchNotFound.
        """
        contract = self._ask(order)
        type_ = find_type(contract.catalog, type_name)
        task = read_rows(type_, rows, existing, self._stores.effects.new_id)
        return self._carry_out(task, contract, order)

    def remove_rows(
        self, type_name: str, ids: Collection[str], *, order: WriteRequest = ON_MAIN
    ) -> MutationResult:
        """Delete rows of one type, with nodes their edges. Ids that do not exist are ignored.

        Raises TypeUnknown, ConstraintViolation, HeadMoved, ExpectedVersionMismatch, BranchNotFound.
        """
        contract = self._ask(order)
        type_ = find_type(contract.catalog, type_name)
        return self._carry_out(delete_ids(contract.catalog, type_, ids), contract, order)

    def load(
        self, order: LoadRequest, bulk: BulkLoader, *, from_branch: BranchName | None = None
    ) -> LoadResult:
        """Load files as one commit, or nothing.

        A branch that does not exist is made, if `from_branch` says from which; it stays when the
        load fails. Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound,
        FileUnreadable, JavaMissing, SparkUnusable, JobFailed.
        """
        contract = self._ask(order)
        if from_branch is not None and self._make_branch(order, from_branch):
            order = replace(order, branch_created=True)
        with watching() as record:
            loaded = load(self._bench, contract, bulk, order, self._settings)
        if self._upkeep is not None:
            self._upkeep.after(order.branch, tuple(loaded.counts))
        return LoadResult(
            uri=self.uri,
            branch=order.branch,
            base_branch=from_branch,
            branch_created=loaded.branch_created,
            mode=order.mode,
            counts=loaded.counts,
            actor=order.actor,
            commit=loaded.commit,
            timings_ms=record.timings_ms,
            engine=loaded.engine,
        )

    def _make_branch(self, order: LoadRequest, source: BranchName) -> bool:
        """Was there none? Another load may make it at the same time, which is as good."""
        if order.branch in self.branches():
            return False
        try:
            self.create_branch(order.branch, source=source, actor=order.actor)
        except BranchExists:
            return False
        return True

    def merge(self, order: MergeRequest, bulk: BulkMerge | None = None) -> MergeResult:
        """Make one branch show what another changed since they last agreed, or change nothing.

        `bulk` finds workers if there is much to do. Raises JobFailed, MergeConflicts,
        MergeBaseUnavailable, HeadMoved, BranchNotFound, CommitNotFound, ResolutionsInvalid,
        SchemaLocked, UsageError.
        """
        if not order.dry_run:
            self._check_signer(order.actor)
        if order.source == order.into:
            raise UsageError(f"'{order.source}' cannot be merged into itself")
        self._gate(order.actor, Action.BRANCH_MERGE, order.source, order.into)
        contract = self.renew()
        for key in order.rulings.rows:
            self.snapshot(order.into).pin(key)
        for name in order.rulings.strategies:
            if name:
                find_type(contract.catalog, name)
        merged = merge(self._bench, contract, order, self._settings, bulk)
        if self._upkeep is not None and not order.dry_run:
            self._upkeep.after(order.into, merged.tables)
        return merged

    def ensure_indices(
        self,
        branch: BranchName = MAIN,
        *,
        actor: str | None = None,
        queries: Source | None = None,
    ) -> IndicesResult:
        """Build the indexes that are missing, as a commit of its own; none if nothing is.

        `queries` are looked through for `contains`, which an index of its own serves. Raises
        BranchNotFound, SchemaLocked, LeaseHeld, QueryInvalid.
        """
        self._check_signer(actor)
        self._gate(actor, Action.ADMIN, branch)
        catalog = self.catalog
        used = frozenset() if queries is None else find_substrings(queries, catalog)
        return ensure_indices(self._bench, catalog, IndexRequest(branch, actor, used))

    def _ask(self, order: WriteRequest | LoadRequest) -> ActiveSchema:
        """May this be written? Then by the schema that is returned, and no other: what is in force
        may be another one a moment later, and a write must know that it is.

        Raises OpenedReadOnly, UsageError, Forbidden.
        """
        self._check_signer(order.actor)
        self._gate(order.actor, Action.CHANGE, order.branch)
        return self.renew()

    def _check_signer(self, actor: str | None) -> None:
        """Raises OpenedReadOnly, UsageError."""
        self.check_writable()
        if actor is None:
            return
        if actor.startswith(OURS):
            raise UsageError(f"actors whose names start with '{OURS}' are our own")
        if not is_encodable(actor):
            raise UsageError(f"{actor!r} cannot be an actor: half a character cannot be written")

    def _carry_out(
        self,
        task: WriteTask,
        contract: ActiveSchema,
        order: WriteRequest,
        query_name: str | None = None,
    ) -> MutationResult:
        written = carry_out(self._bench, contract, task, order)
        if self._upkeep is not None:
            self._upkeep.after(order.branch, written.tables)
        return MutationResult(
            branch=order.branch,
            query_name=query_name,
            affected_nodes=written.affected.nodes,
            affected_edges=written.affected.edges,
            actor=order.actor,
            commit=written.commit,
        )

    # the schema

    def plan_schema(self, order: SchemaRequest) -> SchemaPlan:
        """What another schema would change. Raises SchemaInvalid, BackfillInvalid."""
        manifest = self._bases.current(MAIN).manifest
        return plan_schema(manifest, self._contracts.for_manifest(manifest), order)

    def apply_schema(
        self, order: SchemaRequest, hire: RewriterFactory = in_process
    ) -> SchemaResult:
        """Put another schema in force, as one commit; no commit if it changes nothing.

        Raises SchemaInvalid, MigrationUnsupported, BackfillInvalid, BranchesExist, SchemaLocked,
        SchemaChanged, Forbidden.
        """
        self._check_signer(order.actor)
        self._gate(order.actor, Action.SCHEMA_APPLY, None, MAIN)
        result = apply_schema(self._bench, self._contracts, order, hire)
        self.renew()
        return result

    # maintenance

    def optimize(
        self,
        branch: BranchName = MAIN,
        *,
        actor: str | None = None,
        idempotency: IdempotencyKey | None = None,
        hire: RewriterFactory = in_process,
    ) -> OptimizeResult:
        """Put small fragments together and bring the indexes up to date. Removes nothing.

        Raises BranchNotFound, SchemaLocked, LeaseHeld, KeyReused, Forbidden.
        """
        self._check_signer(actor)
        self._gate(actor, Action.ADMIN, branch)
        order = OptimizeRequest(branch, actor, idempotency)
        return optimize(self._bench, self.renew().catalog, order, hire)

    def cleanup(self, order: CleanupRequest, *, actor: str | None = None) -> CleanupResult:
        """Remove what need not stay; or say what would go, if it is not confirmed.

        Raises SchemaLocked, UsageError, Forbidden.
        """
        if order.policy.keep is None and order.policy.older_than_ms is None:
            raise UsageError("say what to keep: a number of commits, an age, or both")
        if order.is_confirmed:
            self._check_signer(actor)
        self._gate(actor, Action.ADMIN, None)
        return cleanup(self._bench, order)

    def repair(self, order: RepairRequest, *, actor: str | None = None) -> RepairResult:
        """Look for tables that another tool moved, and show or undo that, if it is confirmed.

        Raises UsageError, SchemaLocked, RecoveryPending, Forbidden.
        """
        if order.is_confirmed:
            self._check_signer(actor)
        self._gate(actor, Action.ADMIN, None)
        return repair(self._bench, order)

    def examine(self, *, is_deep: bool = False) -> list[DoctorFinding]:
        """Everything that is wrong with the graph, and what to do about each.

        Changes nothing, but for one thing: bytes that were fenced, or torn by a power cut, are
        undone first if the graph was opened for writing (D38).
        """
        if self._mode is Mode.READ_WRITE:
            undo_ended(self._bench)
        return examine(self._bench, is_deep=is_deep)

    # commits

    def commits(
        self, branch: BranchName = MAIN, where: CommitFilter = EVERY_COMMIT
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. Raises BranchNotFound."""
        history = reversed(self._bases.current(branch).manifest.log.commits)
        return tuple(each for each in history if where.accepts(each))[: where.limit]

    def find_write(self, key: str, *, branch: BranchName, actor: str | None) -> Commit | None:
        """The commit of the write that had this idempotency key. Raises BranchNotFound."""
        log = self._bases.current(branch).manifest.log
        return log.find_key(key, actor=actor, branch=branch)

    def commit(self, commit_id: CommitId) -> Commit:
        """A commit of any branch. Raises CommitNotFound."""
        if not is_encodable(commit_id):
            raise CommitNotFound(commit_id)
        return find_commit(self._bases, self.branches(), commit_id)

    # branches

    def branches(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        return branches.find_branches(self._stores)

    def create_branch(
        self,
        name: str,
        *,
        source: BranchName = MAIN,
        commit_id: CommitId | None = None,
        actor: str | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> BranchName:
        """A branch that starts as another one is now, or as a commit left the graph.

        Raises BranchExists, BranchNameInvalid, BranchNotFound, CommitNotFound, SchemaLocked,
        SchemaOutdated, Forbidden.
        """
        self.check_writable()
        branch = parse_branch(name)
        self._gate(actor, Action.BRANCH_CREATE, source, branch)

        def create() -> None:
            check_unlocked(self._bench)
            start, schema_hash = self._fork_point(source, commit_id)

            def recheck() -> None:
                check_unlocked(self._bench)
                # One that came and went since the start was read would not be noticed otherwise.
                self._check_in_force(schema_hash, commit_id or source)

            branches.create_branch(self._stores, branch, start, recheck=recheck)

        with lock_branches(self._bench):
            run_idempotent_without_commit(
                self._stores.objects, idempotency, actor, create, is_done=BranchExists
            )
        return branch

    def _fork_point(
        self, source: BranchName, commit_id: CommitId | None
    ) -> tuple[Handle, str | None]:
        """Where a branch starts, and the schema that was in force there."""
        if commit_id is None:
            base = self._bases.current(source)
            return base.handle, base.manifest.log.schema_hash
        commit = self.commit(commit_id)
        schema_hash = self._schema_hash_at(commit)
        self._check_in_force(schema_hash, commit_id)
        snapshot_at_commit(self._stores, commit)
        ref = manifest_ref(commit.branch)
        return self._stores.tables.open_at(ref, commit.manifest_version), schema_hash

    def _check_in_force(self, schema_hash: str | None, start: str) -> None:
        """Raises SchemaOutdated."""
        now = self._bases.current(MAIN).manifest.log.schema_hash
        if schema_hash is not None and now is not None and schema_hash != now:
            raise SchemaOutdated(start, schema=schema_hash, in_force=now)

    def delete_branch(
        self, name: str, *, actor: str | None = None, idempotency: IdempotencyKey | None = None
    ) -> Deleted:
        """Raises BranchNotFound, BranchInUse, BranchNameInvalid, SchemaLocked, Forbidden."""
        self.check_writable()
        branch = parse_branch(name)
        self._gate(actor, Action.BRANCH_DELETE, None, branch)
        deleted = Deleted(branch, ())

        def delete() -> None:
            nonlocal deleted
            check_unlocked(self._bench)
            deleted = branches.delete_branch(self._stores, self._bases, branch)

        with lock_branches(self._bench):
            run_idempotent_without_commit(
                self._stores.objects, idempotency, actor, delete, is_done=BranchNotFound
            )
        return deleted

    def check_writable(self) -> None:
        """Raises OpenedReadOnly."""
        if self._mode is Mode.READ_ONLY:
            raise OpenedReadOnly(self.uri)
