"""Merges as callers ask for them: texts and paths in, orders out."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from omnigraph.engine.graph import Graph
from omnigraph.engine.merge.conflicts import ConflictFile, decode_resolutions, encode_conflicts
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.rulings import Rulings, broken_of, read_detect, read_strategies, rows_of
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.merge.workers import MergeJob, Workers
from omnigraph.engine.write.idempotency import parse_key
from omnigraph.errors import BranchNotFound, OmnigraphError, ResolutionsInvalid
from omnigraph.ids import CommitId, parse_branch
from omnigraph.pipeline.settings import MERGE_ROWS, read_settings


@dataclass(frozen=True, slots=True)
class Request:
    """What to merge."""

    source: str
    into: str
    actor: str | None
    base: str | None
    dry_run: bool
    idempotency_key: str | None = None
    delete_branch: bool = False
    """Delete the source once it is merged."""
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided about conflicts beforehand."""

    detect: str
    on_conflict: str | Mapping[str, str] | None
    resolutions: str | None
    """The text of a file of conflicts that somebody filled in."""


@dataclass(frozen=True, slots=True)
class OnSpark:
    """`engine.merge.workers.Bulk`: Spark, which is not even imported before there is much to do."""

    rows_max: int

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        from omnigraph.pipeline.branch_merge import open_workers  # noqa: PLC0415 - brings Spark

        return open_workers(job, read_settings())


def merge(graph: Graph, request: Request, decided: Decided) -> MergeResult:
    """Raises what `Graph.merge` raises."""
    resolved = None if decided.resolutions is None else decode_resolutions(decided.resolutions)
    source, into = parse_branch(request.source), parse_branch(request.into)
    if resolved is not None and (resolved.source, resolved.target) != (source, into):
        raise ResolutionsInvalid(
            f"they are for merging '{resolved.source}' into '{resolved.target}'"
        )
    rulings = Rulings(
        # Conflicts were found, and resolved, by the rule the file names.
        read_detect(decided.detect if resolved is None else resolved.detect),
        read_strategies(decided.on_conflict),
        {} if resolved is None else rows_of(resolved),
        {} if resolved is None else broken_of(resolved),
    )
    merged = graph.merge(
        MergeRequest(
            source,
            into,
            actor=request.actor,
            rulings=rulings,
            resolved=resolved,
            base=None if request.base is None else CommitId(request.base),
            dry_run=request.dry_run,
            message=request.message,
            idempotency=parse_key(
                request.idempotency_key,
                "merge",
                source,
                into,
                request.base,
                decided.detect,
                decided.on_conflict,
                decided.resolutions,
            ),
        ),
        OnSpark(MERGE_ROWS.read()),
    )
    if request.delete_branch and not request.dry_run:
        return _delete_source(graph, merged)
    return merged


def _delete_source(graph: Graph, merged: MergeResult) -> MergeResult:
    """The merge is done either way; that the branch stayed is told, not raised."""
    error = None
    try:
        graph.delete_branch(merged.source, actor=merged.actor)
    except BranchNotFound:
        pass  # it is what was wanted, and was done before
    except OmnigraphError as refused:
        error = str(refused)
    return replace(merged, branch_deleted=error is None, branch_delete_error=error)


def conflict_file(result: MergeResult, detect: str) -> str:
    """The conflicts of a dry run, for somebody to resolve."""
    of = ConflictFile(
        result.source, result.target, result.source_commit, result.target_commit, detect
    )
    return encode_conflicts(of, result.conflicts)
