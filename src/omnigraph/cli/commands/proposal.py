"""`omnigraph proposal`: propose a merge, review it, merge it."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.history import aligned, iso_of_micros
from omnigraph.cli.merges import (
    Conflicts,
    Detect,
    DryRun,
    OnConflict,
    Resolutions,
    check_conflict_file,
    read_strategies,
    show_merge,
)
from omnigraph.cli.options import GraphUri, IdempotencyKey, Json, Message
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_target
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.proposals.standing import ProposalStanding
    from omnigraph.sdk.client import GraphClient

app = typer.Typer(help="Propose to merge a branch, review it, and merge it.", no_args_is_help=True)

_Id = Annotated[str, typer.Argument(metavar="PROPOSAL", help="The id of the proposal.")]


@app.command("open")
def open_(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    uri: GraphUri = None,
    *,
    title: Annotated[str, typer.Option("--title", "-t", help="One line: what is proposed.")],
    text: Annotated[str, typer.Option(help="Why, in as many lines as it takes.")] = "",
    into: Annotated[str, typer.Option(help="The branch to merge into.")] = "main",
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> None:
    """Propose to merge a branch into another. Changes neither."""
    graph, actor = _enter(context, uri, "open")
    opened = graph.proposals.open(
        source, into, title=title, text=text, actor=actor, idempotency_key=idempotency_key
    )
    _tell(opened, f"opened proposal {opened.proposal.id}", as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    state: Annotated[str | None, typer.Option(help="open, merged or closed.")] = None,
    author: Annotated[str | None, typer.Option(help="The actor who opened it.")] = None,
    branch: Annotated[str | None, typer.Option(help="The source or the target.")] = None,
    as_json: Json = False,
) -> None:
    """List the proposals, newest first: id, state, branches, author, title."""
    from omnigraph.sdk.proposals import entry_document

    graph = open_client(uri, context.obj, read_only=True)
    found = graph.proposals.list(state=state, author=author, branch=branch)
    if as_json:
        print_json({"proposals": [entry_document(each) for each in found]})
        return
    rows = [
        (
            each.id,
            each.state.value,
            f"{each.source} → {each.target}",
            each.author or "-",
            each.title,
        )
        for each in found
    ]
    for line in aligned(rows):
        print_line(line)


@app.command()
def show(
    context: typer.Context,
    proposal: _Id,
    uri: GraphUri = None,
    *,
    conflicts: Annotated[
        bool, typer.Option("--conflicts", help="Count the conflicts of the merge as well.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a proposal: approvals, checks, comments, and what it still lacks."""
    graph = open_client(uri, context.obj, read_only=True)
    found = graph.proposals.show(proposal, conflicts=conflicts)
    if as_json:
        _tell(found, "", as_json=True)
        return
    for line in _lines(found):
        print_line(line)


@app.command()
def comment(
    context: typer.Context,
    proposal: _Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The comment.")],
    uri: GraphUri = None,
    *,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> None:
    """Add a comment to a proposal."""
    graph, actor = _enter(context, uri, "comment")
    found = graph.proposals.comment(proposal, text, actor=actor, idempotency_key=idempotency_key)
    _tell(found, f"commented on {proposal}", as_json=as_json)


@app.command()
def approve(
    context: typer.Context,
    proposal: _Id,
    uri: GraphUri = None,
    *,
    if_source: Annotated[
        str | None, typer.Option(help="Refuse if this is not the head of the source.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve a proposal: the head that its source has now, and no later one."""
    graph, actor = _enter(context, uri, "approve")
    found = graph.proposals.approve(proposal, actor=actor, if_source=if_source)
    _tell(found, f"approved {found.source_head} of {found.proposal.source}", as_json=as_json)


@app.command()
def check(
    context: typer.Context,
    proposal: _Id,
    uri: GraphUri = None,
    *,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Run the checks of the target branch on the merged graph, which stays unpublished."""
    graph, actor = _enter(context, uri, "check")
    with showing(context.obj, wanted=progress):
        found = graph.proposals.check(proposal, actor=actor)
    failing = ", ".join(found.failing_checks)
    done = f"{counted(len(found.required_checks), 'check')} ran"
    _tell(found, f"{done}; failing: {failing}" if failing else done, as_json=as_json)


@app.command()
def merge(
    context: typer.Context,
    proposal: _Id,
    uri: GraphUri = None,
    *,
    if_source: Annotated[
        str | None, typer.Option(help="Refuse if this is not the head of the source.")
    ] = None,
    if_target: Annotated[
        str | None, typer.Option(help="Refuse if this is not the head of the target.")
    ] = None,
    detect: Detect = "row",
    on_conflict: OnConflict = None,
    dry_run: DryRun = False,
    conflicts: Conflicts = None,
    resolutions: Resolutions = None,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source once it is merged.")
    ] = False,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Merge a proposal that has its approvals and passes its checks, or change nothing."""
    check_conflict_file(conflicts, dry_run=dry_run)
    graph = open_client(uri, context.obj, read_only=dry_run)
    actor = find_writer(graph, context.obj)
    if not dry_run:
        print_target("proposal merge", graph.uri, context.obj)
    with showing(context.obj, wanted=progress):
        result = graph.proposals.merge(
            proposal,
            if_source=if_source,
            if_target=if_target,
            actor=actor,
            message=message,
            detect=detect,
            on_conflict=read_strategies(on_conflict),
            resolutions=resolutions,
            dry_run=dry_run,
            delete_branch=delete_branch,
            idempotency_key=idempotency_key,
        )
    done = f"{'would merge' if dry_run else 'merged'} {result.source} into {result.target}"
    show_merge(result, done, detect=detect, conflicts=conflicts, as_json=as_json)


@app.command()
def close(
    context: typer.Context, proposal: _Id, uri: GraphUri = None, *, as_json: Json = False
) -> None:
    """Close a proposal without merging it."""
    graph, actor = _enter(context, uri, "close")
    _tell(graph.proposals.close(proposal, actor=actor), f"closed {proposal}", as_json=as_json)


def _enter(context: typer.Context, uri: str | None, verb: str) -> "tuple[GraphClient, str | None]":
    graph = open_client(uri, context.obj)
    print_target(f"proposal {verb}", graph.uri, context.obj)
    return graph, find_writer(graph, context.obj)


def _tell(standing: "ProposalStanding", done: str, *, as_json: bool) -> None:
    from omnigraph.sdk.proposals import proposal_document

    if as_json:
        print_json(proposal_document(standing))
    else:
        print_line(done)


def _lines(standing: "ProposalStanding") -> list[str]:
    found = standing.proposal
    lines = [
        f"proposal {found.id}: {found.title}",
        f"state: {found.state.value}",
        f"source: {found.source} @ {standing.source_head or 'deleted'}",
        f"target: {found.target} @ {standing.target_head or 'deleted'}",
        f"author: {found.author or '-'}, {iso_of_micros(found.created_at_us)}",
    ]
    lines += [f"    {line}" for line in found.text.splitlines()]
    for each in found.approvals:
        counts = "" if each.actor in standing.counted else " (does not count any more)"
        lines.append(f"approved by {each.actor or '-'} @ {each.source_head}{counts}")
    for result in found.checks:
        rows = result.reason or counted(result.row_count or 0, "row")
        verdict = "passed" if result.passed else f"failed: {rows}"
        old = "" if standing.is_current(result) else " (of other heads)"
        lines.append(f"check {result.name}: {verdict}{old}")
    lines += [f"{each.actor or '-'}: {each.text}" for each in found.comments]
    if standing.missing_approvals:
        lines.append(f"missing: {counted(standing.missing_approvals, 'approval')}")
    if standing.failing_checks:
        lines.append(f"not passed: {', '.join(standing.failing_checks)}")
    if standing.conflict_count is not None:
        lines.append(counted(standing.conflict_count, "conflict"))
    return lines
