"""Merges as callers ask for them: texts in, one `MergeRequest` out."""

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
class SparkMergeBulk:
    """`engine.merge.workers.BulkMerge` on Spark, which is imported only for a large merge."""

    rows_max: int

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        from omnigraph.pipeline.branch_merge import open_workers  # noqa: PLC0415 - brings Spark

        return open_workers(job, read_settings())


def parse_merge(
    source: str,
    into: str,
    *,
    actor: str | None,
    detect: str,
    on_conflict: str | Mapping[str, str] | None,
    resolutions: str | None,
    base: str | None,
    dry_run: bool,
    idempotency_key: str | None,
    message: str | None,
) -> MergeRequest:
    """What callers say in texts as one request. Raises ResolutionsInvalid, UsageError."""
    resolved = None if resolutions is None else decode_resolutions(resolutions)
    source_name, target_name = parse_branch(source), parse_branch(into)
    if resolved is not None and (resolved.source, resolved.target) != (source_name, target_name):
        raise ResolutionsInvalid(
            f"they are for merging '{resolved.source}' into '{resolved.target}'"
        )
    rulings = Rulings(
        # Conflicts were found, and resolved, by the rule the file names.
        read_detect(detect if resolved is None else resolved.detect),
        read_strategies(on_conflict),
        {} if resolved is None else rows_of(resolved),
        {} if resolved is None else broken_of(resolved),
    )
    body = ("merge", source_name, target_name, base, detect, on_conflict, resolutions)
    return MergeRequest(
        source_name,
        target_name,
        actor=actor,
        rulings=rulings,
        resolved=resolved,
        base=None if base is None else CommitId(base),
        dry_run=dry_run,
        message=message,
        idempotency=parse_key(idempotency_key, *body),
    )


def merge(graph: Graph, request: MergeRequest, *, delete_branch: bool) -> MergeResult:
    """Raises what `Graph.merge` raises."""
    merged = graph.merge(request, SparkMergeBulk(MERGE_ROWS.read()))
    if delete_branch and not request.dry_run:
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
