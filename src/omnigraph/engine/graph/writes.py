"""Writes of an open graph: rows, programs, loads, merges, schemas, branches."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.gate import Action
from omnigraph.engine.graph.branching import create_branch, delete_branch
from omnigraph.engine.graph.state import OpenGraph
from omnigraph.engine.load.bulk import BulkLoader
from omnigraph.engine.load.run import LoadRequest, LoadResult, load
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.run import MergeResult, merge
from omnigraph.engine.merge.workers import BulkMerge
from omnigraph.engine.query.target import Target
from omnigraph.engine.schema.apply import SchemaResult, apply_schema
from omnigraph.engine.schema.plan import SchemaRequest
from omnigraph.engine.schema.rewriting import RewriterFactory, in_process
from omnigraph.engine.stages import watching
from omnigraph.engine.write.batch import Existing, find_type
from omnigraph.engine.write.idempotency import IdempotencyKey
from omnigraph.engine.write.mutate import ON_MAIN, MutationResult, WriteRequest, carry_out
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep, bind_steps
from omnigraph.errors import BranchExists, UsageError
from omnigraph.ids import MAIN, BranchName, CommitId, parse_branch
from omnigraph.lang.source import Source


class GraphWrites(OpenGraph):
    def write(self, steps: Sequence[WriteStep], request: WriteRequest = ON_MAIN) -> MutationResult:
        """Run steps in order and commit what they change; no commit if that is nothing.

        Raises what `bind_steps` raises before any table is read; ConstraintViolation, KeyConflict,
        HeadMoved, ExpectedVersionMismatch, BranchNotFound, OpenedReadOnly, Forbidden.
        """
        schema = self._authorise(request)
        task = bind_steps(steps, schema.catalog, self._stores.effects)
        written = carry_out(self._context, schema, task, request)
        self._tidy(request.branch, written.tables)
        return MutationResult(
            branch=request.branch,
            query_name=task.query_name,
            affected_nodes=written.affected.nodes,
            affected_edges=written.affected.edges,
            actor=request.actor,
            commit=written.commit,
        )

    def mutate(
        self,
        source: Source,
        *,
        name: str | None = None,
        params: object = None,
        request: WriteRequest = ON_MAIN,
    ) -> MutationResult:
        """Run a mutation. Raises what `write` raises."""
        return self.write([ProgramStep(source, name, params)], request)

    def write_rows(
        self,
        type_name: str,
        rows: Sequence[Mapping[str, object]],
        *,
        existing: Existing,
        request: WriteRequest = ON_MAIN,
    ) -> MutationResult:
        """Write rows of one type. Raises what `write` raises."""
        return self.write([RowsStep(type_name, rows, existing)], request)

    def remove_rows(
        self, type_name: str, ids: Collection[str], *, request: WriteRequest = ON_MAIN
    ) -> MutationResult:
        """Delete rows of one type. Raises what `write` raises."""
        return self.write([DeleteStep(type_name, ids)], request)

    def load(
        self, request: LoadRequest, bulk: BulkLoader, *, from_branch: BranchName | None = None
    ) -> LoadResult:
        """Load files as one commit, or nothing.

        A branch that does not exist is created from `from_branch`; it stays when the load fails.
        Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound, FileUnreadable,
        JavaMissing, SparkUnusable, JobFailed.
        """
        schema = self._authorise(request)
        if from_branch is not None and self._create_missing(request, from_branch):
            request = replace(request, branch_created=True)
        with watching() as record:
            loaded = load(self._context, schema, bulk, request, self.settings)
        self._tidy(request.branch, tuple(loaded.counts))
        return LoadResult(
            uri=self.uri,
            branch=request.branch,
            base_branch=from_branch,
            branch_created=loaded.branch_created,
            mode=request.mode,
            counts=loaded.counts,
            actor=request.actor,
            commit=loaded.commit,
            timings_ms=record.timings_ms,
            engine=loaded.engine,
        )

    def _create_missing(self, request: LoadRequest, source: BranchName) -> bool:
        """False if the branch exists, also if another load created it at the same time."""
        if self.has_branch(request.branch):
            return False
        try:
            self.create_branch(request.branch, source=source, actor=request.actor)
        except BranchExists:
            return False
        return True

    def merge(self, request: MergeRequest, bulk: BulkMerge | None = None) -> MergeResult:
        """Apply to one branch what another changed since their merge base, or change nothing.

        `bulk` finds workers if there is much to do. Raises JobFailed, MergeConflicts,
        MergeBaseUnavailable, HeadMoved, BranchNotFound, CommitNotFound, ResolutionsInvalid,
        SchemaLocked, UsageError.
        """
        if not request.dry_run:
            self._check_signer(request.actor, request.message)
        if request.source == request.into:
            raise UsageError(f"'{request.source}' cannot be merged into itself")
        self._gate(request.actor, Action.BRANCH_MERGE, request.source, request.into)
        schema = self.active_schema()
        for key in request.rulings.rows:
            self._targets.view(Target(request.into)).snapshot.pin(key)
        for name in request.rulings.strategies:
            if name:
                find_type(schema.catalog, name)
        merged = merge(self._context, schema, request, self.settings, bulk)
        if not request.dry_run:
            self._tidy(request.into, merged.tables)
        return merged

    def _authorise(self, request: WriteRequest | LoadRequest) -> ActiveSchema:
        """The schema that the write is decided under: another may be in force a moment later, and
        the commit then refuses the write.

        Raises OpenedReadOnly, UsageError, Forbidden.
        """
        self._check_signer(request.actor, request.message)
        self._gate(request.actor, Action.CHANGE, request.branch)
        return self.active_schema()

    def apply_schema(
        self, request: SchemaRequest, rewriter_for: RewriterFactory = in_process
    ) -> SchemaResult:
        """Put another schema in force, as one commit; no commit if it changes nothing.

        Raises SchemaInvalid, MigrationUnsupported, BackfillInvalid, BranchesExist, SchemaLocked,
        SchemaChanged, Forbidden.
        """
        self._check_signer(request.actor, request.message)
        self._gate(request.actor, Action.SCHEMA_APPLY, None, MAIN)
        result = apply_schema(self._context, self._schemas, request, rewriter_for)
        self.active_schema()
        return result

    def branches(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name. Raises Forbidden."""
        self._check_readable(None)
        return branches.find_branches(self._stores)

    def has_branch(self, branch: BranchName) -> bool:
        """For the process itself, which decides what to ask the gate: asks no gate."""
        return branch in branches.find_branches(self._stores)

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
        create_branch(
            self._context,
            self._targets,
            branch,
            source=source,
            commit_id=commit_id,
            actor=actor,
            idempotency=idempotency,
        )
        return branch

    def delete_branch(
        self, name: str, *, actor: str | None = None, idempotency: IdempotencyKey | None = None
    ) -> Deleted:
        """Raises BranchNotFound, BranchInUse, BranchNameInvalid, SchemaLocked, Forbidden."""
        self.check_writable()
        branch = parse_branch(name)
        self._gate(actor, Action.BRANCH_DELETE, None, branch)
        return delete_branch(
            self._context, self._targets, branch, actor=actor, idempotency=idempotency
        )
