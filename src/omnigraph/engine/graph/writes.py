"""Writes of an open graph: rows, programs, loads, merges, schemas, branches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.commit.manifest import branches
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.engine.active_schema import ActiveSchema
from omnigraph.engine.gate import Action
from omnigraph.engine.graph.state import OpenGraph
from omnigraph.engine.query.target import Target
from omnigraph.engine.stages import watching
from omnigraph.errors import (
    BranchExists,
    ChangesRefused,
    InputError,
    NotFoundError,
    OutcomeUnknown,
    SchemaChanged,
    TagNotFound,
    UsageError,
)
from omnigraph.ids import MAIN, BranchName, CommitId, parse_branch
from omnigraph.lang.source import Source

if TYPE_CHECKING:
    from omnigraph.commit.manifest.commit_tags import CommitTag
    from omnigraph.engine.load.bulk import BulkLoader
    from omnigraph.engine.load.run import LoadRequest, LoadResult
    from omnigraph.engine.merge.plan import MergeRequest
    from omnigraph.engine.merge.run import MergeResult, Vet
    from omnigraph.engine.merge.sources import MergeSource, Pick
    from omnigraph.engine.merge.workers import BulkMerge
    from omnigraph.engine.schema.apply import SchemaResult
    from omnigraph.engine.schema.plan import SchemaRequest
    from omnigraph.engine.schema.rewriting import RewriterFactory
    from omnigraph.engine.write.batch import Existing
    from omnigraph.engine.write.idempotency import IdempotencyKey
    from omnigraph.engine.write.mutate import MutationResult, WriteRequest
    from omnigraph.engine.write.steps import WriteStep


class GraphWrites(OpenGraph):
    def write(
        self, steps: Sequence[WriteStep], request: WriteRequest | None = None
    ) -> MutationResult:
        """Run steps in order and commit what they change; no commit if that is nothing.

        Raises what `bind_steps` raises before any table is read; ConstraintViolation, KeyConflict,
        HeadMoved, ExpectedVersionMismatch, BranchNotFound, OpenedReadOnly, Forbidden.
        """
        from omnigraph.engine.write.mutate import ON_MAIN, MutationResult
        from omnigraph.engine.write.steps import bind_steps

        request = request or ON_MAIN
        schema = self._authorise(request, self.known_schema)
        assert self._queue is not None, "a graph that is writable has a queue"
        try:
            task = bind_steps(steps, schema.catalog, self._stores.effects)
            written = self._queue.write(schema, task, request)
        except (InputError, NotFoundError, SchemaChanged):
            # Nothing was written. If the known schema is not in force any more, decide again.
            known, schema = schema, self.active_schema()
            if schema.schema_hash == known.schema_hash:
                raise
            task = bind_steps(steps, schema.catalog, self._stores.effects)
            written = self._queue.write(schema, task, request)
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
        request: WriteRequest | None = None,
    ) -> MutationResult:
        """Run a mutation. Raises what `write` raises."""
        from omnigraph.engine.write.steps import ProgramStep

        return self.write([ProgramStep(source, name, params)], request)

    def write_rows(
        self,
        type_name: str,
        rows: Sequence[Mapping[str, object]],
        *,
        existing: Existing,
        request: WriteRequest | None = None,
    ) -> MutationResult:
        """Write rows of one type. Raises what `write` raises."""
        from omnigraph.engine.write.steps import RowsStep

        return self.write([RowsStep(type_name, rows, existing)], request)

    def remove_rows(
        self, type_name: str, ids: Collection[str], *, request: WriteRequest | None = None
    ) -> MutationResult:
        """Delete rows of one type. Raises what `write` raises."""
        from omnigraph.engine.write.steps import DeleteStep

        return self.write([DeleteStep(type_name, ids)], request)

    def load(
        self, request: LoadRequest, bulk: BulkLoader, *, from_branch: BranchName | None = None
    ) -> LoadResult:
        """Load files as one commit, or nothing.

        A branch that does not exist is created from `from_branch`. If the load then fails, it is
        deleted again, unless another writer has used it.
        Raises LoadRejected, KeyConflict, ExpectedVersionMismatch, BranchNotFound, FileUnreadable,
        JavaMissing, SparkUnusable, JobFailed.
        """
        from omnigraph.engine.graph.branching import discard_unused
        from omnigraph.engine.load.run import LoadResult, load

        schema = self._authorise(request)
        assert self._queue is not None, "a graph that is writable has a queue"
        if from_branch is not None and self._create_missing(request, from_branch):
            request = replace(request, branch_created=True)
        try:
            with watching() as record:
                write = self._queue.write
                loaded = load(self._context, schema, bulk, request, self.settings, write=write)
        except OutcomeUnknown:
            raise
        except (Exception, KeyboardInterrupt):
            if request.branch_created:
                discard_unused(self._context, self._targets, request.branch)
            raise
        self._tidy(request.branch, loaded.tables)
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
        if not request.dry_run:
            self._check_unprotected(request.actor, Action.BRANCH_MERGE, request.into)
        return self._merge(request, bulk)

    def pick(self, pick: Pick, request: MergeRequest, bulk: BulkMerge | None = None) -> MergeResult:
        """Apply to a branch what one commit changed, or undo it, as a commit with one parent.

        Makes no commit if the branch is like that already. Raises what `merge` raises;
        VersionNotFound if cleanup removed the state, ChangesRefused if the schema was another one.
        """
        from omnigraph.engine.merge.sources import find_commit_source

        if not request.dry_run:
            self._check_signer(request.actor, request.message)
        commit = self._targets.commit(pick.commit_id)
        self._check_readable(commit.branch)
        self._gate(request.actor, Action.CHANGE, request.into)
        if not request.dry_run:
            self._check_unprotected(request.actor, Action.CHANGE, request.into)
        targets = self._targets
        source = find_commit_source(self._stores, pick, targets.commit, targets.find_before)
        in_force = self.active_schema().schema_hash
        for each in (source.base, source.source):
            schema_hash = self._targets.schema_hash_at(each.commit)
            if schema_hash is not None and schema_hash != in_force:
                raise ChangesRefused("schema_boundary", commit_id=commit.id)
        if request.message is None:
            request = replace(request, message=pick.default_message(commit))
        return self._merge(request, bulk, source)

    def _merge(
        self,
        request: MergeRequest,
        bulk: BulkMerge | None,
        picked: MergeSource | None = None,
        vet: Vet | None = None,
    ) -> MergeResult:
        """Under the schema that was last seen in force; again if it is not in force any more."""
        from omnigraph.engine.merge.run import merge
        from omnigraph.engine.write.batch import find_type

        named = [each for each in request.rulings.strategies if each]
        # A dry run publishes nothing that could be refused.
        is_known = not (request.dry_run or named)
        schema = self.known_schema() if is_known else self.active_schema()
        for key in request.rulings.rows:
            self._targets.view(Target(request.into)).snapshot.pin(key)
        for name in named:
            find_type(schema.catalog, name)
        merge_under = partial(merge, self._context, picked=picked, vet=vet)
        try:
            merged = merge_under(schema, request, self.settings, bulk)
        except SchemaChanged:
            known, schema = schema, self.active_schema()
            if schema.schema_hash == known.schema_hash:
                raise
            merged = merge_under(schema, request, self.settings, bulk)
        if not request.dry_run:
            self._tidy(request.into, merged.tables)
        return merged

    def _authorise(
        self,
        request: WriteRequest | LoadRequest,
        find_schema: Callable[[], ActiveSchema] | None = None,
    ) -> ActiveSchema:
        """The schema that the write is decided under: another may be in force a moment later, and
        the commit then refuses the write.

        Raises OpenedReadOnly, UsageError, Forbidden.
        """
        self._check_signer(request.actor, request.message)
        self._gate(request.actor, Action.CHANGE, request.branch)
        self._check_unprotected(request.actor, Action.CHANGE, request.branch)
        return (find_schema or self.active_schema)()

    def apply_schema(
        self, request: SchemaRequest, rewriter_for: RewriterFactory | None = None
    ) -> SchemaResult:
        """Put another schema in force, as one commit; no commit if it changes nothing.

        Raises SchemaInvalid, MigrationUnsupported, BackfillInvalid, BranchesExist, SchemaLocked,
        SchemaChanged, Forbidden.
        """
        from omnigraph.engine.schema.apply import apply_schema
        from omnigraph.engine.schema.rewriting import in_process

        self._check_signer(request.actor, request.message)
        self._gate(request.actor, Action.SCHEMA_APPLY, None, MAIN)
        self._check_unprotected(request.actor, Action.SCHEMA_APPLY, MAIN)
        result = apply_schema(self._context, self._schemas, request, rewriter_for or in_process)
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
        from omnigraph.engine.graph.branching import create_branch

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
        from omnigraph.engine.graph.branching import delete_branch

        self.check_writable()
        branch = parse_branch(name)
        self._gate(actor, Action.BRANCH_DELETE, None, branch)
        self._check_unprotected(actor, Action.BRANCH_DELETE, branch)
        return delete_branch(
            self._context, self._targets, branch, actor=actor, idempotency=idempotency
        )

    def create_tag(
        self,
        name: str,
        commit_id: CommitId,
        *,
        actor: str | None = None,
        message: str | None = None,
        idempotency: IdempotencyKey | None = None,
    ) -> CommitTag:
        """A name for a commit, which cleanup then keeps; of a group, for its last member.

        Raises TagExists, CommitNotFound, VersionNotFound, UsageError, Forbidden.
        """
        from omnigraph.commit.manifest.commit_tags import CommitTag, read_tag
        from omnigraph.engine.graph.branching import create_tag

        self._check_signer(actor, message)
        commit = self._targets.find_last_member(self._targets.commit(commit_id))
        self._gate(actor, Action.CHANGE, commit.branch)
        now_us = self._stores.effects.now_ms() * 1000
        tag = CommitTag(name, commit.id, actor, now_us, message)
        create_tag(self._context, self._targets, tag, idempotency=idempotency)
        return read_tag(self._stores.objects, name)

    def tags(self) -> Sequence[CommitTag]:
        """By name. Raises Forbidden."""
        from omnigraph.commit.manifest.commit_tags import find_tags

        self._check_readable(None)
        return find_tags(self._stores.objects)

    def delete_tag(
        self, name: str, *, actor: str | None = None, idempotency: IdempotencyKey | None = None
    ) -> None:
        """Raises TagNotFound, Forbidden."""
        from omnigraph.commit.manifest.commit_tags import read_tag
        from omnigraph.engine.graph.branching import delete_tag

        self.check_writable()
        with suppress(TagNotFound):  # a repeated request is answered as the first was
            tag = read_tag(self._stores.objects, name)
            self._gate(actor, Action.CHANGE, self._targets.commit(tag.commit_id).branch)
        delete_tag(self._context, name, actor=actor, idempotency=idempotency)
