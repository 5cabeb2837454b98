"""`omnigraph branch`: create, list, merge and delete branches."""

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import (
    as_served,
    confirm_destructive,
    find_place,
    find_writer,
    open_client,
)
from omnigraph.cli.history import age, aligned
from omnigraph.cli.merges import (
    Conflicts,
    Detect,
    DryRun,
    Into,
    OnConflict,
    Resolutions,
    check_conflict_file,
    read_strategies,
    show_merge,
)
from omnigraph.cli.options import GraphUri, IdempotencyKey, Json, Message
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_note, print_target
from omnigraph.effects import REAL
from omnigraph.ids import MAIN

if TYPE_CHECKING:
    from omnigraph.engine.history.branch_summary import BranchSummary

app = typer.Typer(help="Create, list, merge and delete branches.", no_args_is_help=True)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The new branch; slashes are allowed.")
    ],
    uri: GraphUri = None,
    *,
    source: Annotated[str, typer.Option("--from", help="The branch it starts from.")] = "main",
    commit: Annotated[str | None, typer.Option(help="Start from this commit instead.")] = None,
    as_json: Json = False,
) -> None:
    """Create a branch. The cost does not depend on the size of the graph."""
    graph = open_client(uri, context.obj)
    print_target("branch create", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    if (served := as_served(graph)) is not None:
        document = served.branches.ask_create(name, source=source, commit=commit)
    else:
        created = graph.branches.create(name, source=source, commit=commit, actor=actor)
        document = {
            "uri": graph.uri,
            "from": commit or source,
            "name": created,
            "actor_id": actor,
        }
    if as_json:
        print_json(document)
    else:
        print_line(f"created branch {document['name']} from {document['from']}")


@app.command("list")
def list_(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    names: Annotated[
        bool, typer.Option("--names", help="Print the names alone; reads no branch.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the branches, main first: head, age, actor, and commits ahead of and behind main."""
    from omnigraph.sdk.documents import summaries_document

    graph = open_client(uri, context.obj, read_only=True)
    if names:
        found = graph.branches.list()
        if as_json:
            print_json({"branches": list(found)})
        else:
            for name in found:
                print_line(name)
        return
    summaries = graph.branches.summaries()
    if as_json:
        print_json(summaries_document(summaries))
    else:
        now_ms = REAL.now_ms()
        for line in aligned([_cells(each, now_ms) for each in summaries]):
            print_line(line)


def _cells(summary: "BranchSummary", now_ms: int) -> tuple[str, ...]:
    head = summary.head
    if head is None:
        return summary.name, "-", "-", "-", ""
    is_main = summary.name == MAIN
    distance = "" if is_main else f"ahead {summary.ahead}, behind {summary.behind}"
    return summary.name, head.id, age(head.created_at, now_ms), head.actor or "-", distance


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The branch to delete.")],
    uri: GraphUri = None,
    *,
    as_json: Json = False,
) -> None:
    """Delete a branch. Refuses main, and a branch that other branches depend on."""
    store = find_place(uri, context.obj)
    confirm_destructive(f"delete branch {name} of", store, context.obj, interactive=not as_json)
    graph = open_client(uri, context.obj)
    print_target("branch delete", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    if (served := as_served(graph)) is not None:
        document = served.branches.ask_delete(name)
    else:
        deleted = graph.branches.delete(name, actor=actor)
        for key in deleted.forks_left:
            print_note(f"note: the files of {key} on {name} could not be removed; cleanup will")
        document = {"uri": graph.uri, "name": name, "actor_id": actor}
    if as_json:
        print_json(document)
    else:
        print_line(f"deleted branch {name}")


@app.command()
def merge(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    uri: GraphUri = None,
    *,
    into: Into = "main",
    detect: Detect = "row",
    on_conflict: OnConflict = None,
    dry_run: DryRun = False,
    conflicts: Conflicts = None,
    resolutions: Resolutions = None,
    base: Annotated[str | None, typer.Option(help="The commit to use as the merge base.")] = None,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source once it is merged.")
    ] = False,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Merge a branch into another: one commit with two parents, or nothing.

    If there are conflicts, all are reported and nothing changes. Resolve them by a rule
    (--on-conflict), or one by one: --dry-run --conflicts FILE writes them, --resolutions FILE
    applies the decisions.
    """
    check_conflict_file(conflicts, dry_run=dry_run)
    graph = open_client(uri, context.obj, read_only=dry_run)
    actor = find_writer(graph, context.obj)
    if not dry_run:
        print_target("branch merge", graph.uri, context.obj)
    with showing(context.obj, wanted=progress):
        result = graph.merge(
            source,
            into,
            actor=actor,
            detect=detect,
            on_conflict=read_strategies(on_conflict),
            resolutions=resolutions,
            base=base,
            dry_run=dry_run,
            delete_branch=delete_branch,
            idempotency_key=idempotency_key,
            message=message,
        )
    if result.branch_delete_error is not None:
        print_note(f"note: {source} was merged and not deleted: {result.branch_delete_error}")
    done = f"{'would merge' if dry_run else 'merged'} {result.source} into {result.target}"
    show_merge(result, done, detect=detect, conflicts=conflicts, as_json=as_json)
