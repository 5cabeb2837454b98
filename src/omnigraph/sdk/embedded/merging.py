"""Merges as callers ask for them: texts in, one `MergeRequest` out."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from omnigraph.engine.graph import Graph
from omnigraph.engine.merge.conflicts import ConflictFile, decode_resolutions, encode_conflicts
from omnigraph.engine.merge.plan import MergeRequest
from omnigraph.engine.merge.rulings import Rulings, broken_of, read_detect, read_strategies, rows_of
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.merge.sources import Pick
from omnigraph.engine.merge.workers import MergeJob, Workers
from omnigraph.engine.write.idempotency import parse_key
from omnigraph.errors import BranchNotFound, OmnigraphError, ResolutionsInvalid
from omnigraph.ids import MAIN, CommitId, parse_branch
from omnigraph.pipeline.settings import MERGE_ROWS, read_settings
from omnigraph.sdk.files import read_text
from omnigraph.sdk.history import PickOptions
from omnigraph.sdk.proposals import ProposalMergeOptions


@dataclass(frozen=True, slots=True)
class SparkMergeBulk:
    """`engine.merge.workers.BulkMerge` on Spark, which is imported only for a large merge."""

    rows_max: int

    def open(self, job: MergeJob) -> AbstractContextManager[Workers]:
        from omnigraph.pipeline.branch_merge import open_workers

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
    body = ("merge", source_name, target_name, base, detect, on_conflict, resolutions)
    return MergeRequest(
        source_name,
        target_name,
        actor=actor,
        rulings=_rulings(detect, on_conflict, resolved),
        resolved=resolved,
        base=None if base is None else CommitId(base),
        dry_run=dry_run,
        message=message,
        idempotency=parse_key(idempotency_key, *body),
    )


def parse_pick(chosen: Pick, options: PickOptions) -> MergeRequest:
    """A request to revert or pick a commit. Raises ResolutionsInvalid, UsageError."""
    resolutions = options.get("resolutions")
    detect, on_conflict = options.get("detect", "row"), options.get("on_conflict")
    into = parse_branch(options.get("into", MAIN))
    text = None if resolutions is None else read_text(resolutions)[0]
    resolved = None if text is None else decode_resolutions(text)
    if resolved is not None and (resolved.source, resolved.target) != (chosen.label, into):
        raise ResolutionsInvalid(f"they are for '{resolved.source}' on '{resolved.target}'")
    body = (chosen.kind.value, chosen.commit_id, chosen.mainline, into, detect, on_conflict, text)
    return MergeRequest(
        chosen.label,
        into,
        actor=options.get("actor"),
        rulings=_rulings(detect, on_conflict, resolved),
        resolved=resolved,
        dry_run=options.get("dry_run", False),
        message=options.get("message"),
        idempotency=parse_key(options.get("idempotency_key"), *body),
    )


def _rulings(
    detect: str, on_conflict: str | Mapping[str, str] | None, resolved: ConflictFile | None
) -> Rulings:
    return Rulings(
        # Conflicts were found, and resolved, by the rule the file names.
        read_detect(detect if resolved is None else resolved.detect),
        read_strategies(on_conflict),
        {} if resolved is None else rows_of(resolved),
        {} if resolved is None else broken_of(resolved),
    )


def pick(graph: Graph, chosen: Pick, request: MergeRequest) -> MergeResult:
    """Raises what `Graph.pick` raises."""
    return graph.pick(chosen, request, SparkMergeBulk(MERGE_ROWS.read()))


def merge(graph: Graph, request: MergeRequest, *, delete_branch: bool) -> MergeResult:
    """Raises what `Graph.merge` raises."""
    merged = graph.merge(request, SparkMergeBulk(MERGE_ROWS.read()))
    if delete_branch and not request.dry_run:
        return _delete_source(graph, merged)
    return merged


def merge_proposal(
    graph: Graph, proposal_id: str, request: MergeRequest, options: ProposalMergeOptions
) -> MergeResult:
    """Raises what `Graph.merge_proposal` raises."""
    seen = [options.get("if_source"), options.get("if_target")]
    source, target = (None if each is None else CommitId(each) for each in seen)
    merged = graph.merge_proposal(
        proposal_id,
        request,
        SparkMergeBulk(MERGE_ROWS.read()),
        if_source=source,
        if_target=target,
    )
    if options.get("delete_branch", False) and not request.dry_run:
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
