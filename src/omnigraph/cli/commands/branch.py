"""`omnigraph branch`: create, list, merge and delete branches."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import named_once
from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import (
    as_served,
    confirm_destructive,
    find_place,
    find_writer,
    open_client,
)
from omnigraph.cli.options import GraphUri, Json, UriOption
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import clash_lines, print_json, print_line, print_note, print_target
from omnigraph.errors import FileUnreadable, UsageError

if TYPE_CHECKING:
    from omnigraph.engine.merge.run import MergeResult

app = typer.Typer(help="Create, list, merge and delete branches.", no_args_is_help=True)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new branch; slashes are allowed.")],
    uri: GraphUri = None,
    *,
    source: Annotated[str, typer.Option("--from", help="The branch it starts from.")] = "main",
    commit: Annotated[str | None, typer.Option(help="Start from this commit instead.")] = None,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Create a branch. The cost does not depend on the size of the graph."""
    graph = open_client(named_once(uri, uri_option), context.obj)
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
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """List the branches, main first."""
    found = open_client(named_once(uri, uri_option), context.obj, read_only=True).branches.list()
    if as_json:
        print_json({"branches": list(found)})
    else:
        for name in found:
            print_line(name)


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The branch to delete.")],
    uri: GraphUri = None,
    *,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Delete a branch. Refuses main, and a branch that other branches depend on."""
    store = find_place(named_once(uri, uri_option), context.obj)
    confirm_destructive(f"delete branch {name} of", store, context.obj, interactive=not as_json)
    graph = open_client(named_once(uri, uri_option), context.obj)
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
    source: Annotated[str, typer.Argument(help="The branch to merge.")],
    uri: GraphUri = None,
    *,
    into: Annotated[str, typer.Option(help="The branch to merge into.")] = "main",
    detect: Annotated[str, typer.Option(help="The unit of a conflict: row or property.")] = "row",
    on_conflict: Annotated[
        list[str] | None,
        typer.Option(help="ours or theirs; TYPE=ours for one type. Repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would happen; exit with 1 on conflicts.")
    ] = False,
    conflicts: Annotated[
        Path | None,
        typer.Option(help="With --dry-run: write the conflicts to this file, to be resolved."),
    ] = None,
    resolutions: Annotated[
        Path | None, typer.Option(help="A file of conflicts with the decisions filled in.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="The commit to use as the merge base.")] = None,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source once it is merged.")
    ] = False,
    progress: ShowProgress = None,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Merge a branch into another: one commit with two parents, or nothing.

    If there are conflicts, all are reported and nothing changes. Resolve them by a rule
    (--on-conflict), or one by one: --dry-run --conflicts FILE writes them, --resolutions FILE
    applies the decisions.
    """
    from omnigraph.sdk.documents import merge_document

    if conflicts is not None and not dry_run:
        raise UsageError("--conflicts writes what a --dry-run found; add --dry-run")
    graph = open_client(named_once(uri, uri_option), context.obj, read_only=dry_run)
    actor = find_writer(graph, context.obj)
    if not dry_run:
        print_target("branch merge", graph.uri, context.obj)
    with showing(context.obj, wanted=progress):
        result = graph.merge(
            source,
            into,
            actor=actor,
            detect=detect,
            on_conflict=_read_strategies(on_conflict or []),
            resolutions=resolutions,
            base=base,
            dry_run=dry_run,
            delete_branch=delete_branch,
        )
    if conflicts is not None:
        _write_conflicts(conflicts, result, detect)
    if result.branch_delete_error is not None:
        print_note(f"note: {source} was merged and not deleted: {result.branch_delete_error}")
    if as_json:
        print_json(merge_document(result))
    else:
        _print_merge(result, dry_run=dry_run)
    if result.conflicts:  # only a dry run returns them
        raise typer.Exit(Exit.FAILED)


def _read_strategies(given: list[str]) -> dict[str, str]:
    return {name: side for name, _, side in (_split_strategy(each) for each in given)}


def _split_strategy(text: str) -> tuple[str, str, str]:
    return text.partition("=") if "=" in text else ("", "", text)


def _write_conflicts(path: Path, result: "MergeResult", detect: str) -> None:
    from omnigraph.sdk.embedded.merging import conflict_file

    try:
        path.write_text(conflict_file(result, detect), encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
    print_note(f"{len(result.conflicts)} conflicts written to {path}")


def _print_merge(result: "MergeResult", *, dry_run: bool) -> None:
    verb = "would merge" if dry_run else "merged"
    print_line(f"{verb} {result.source} into {result.target}: {result.outcome.value}")
    for key, each in result.counts.items():
        print_line(f"  {key}: +{each.inserted} ~{each.updated} -{each.deleted}")
    for line in clash_lines(result.conflicts):
        print_line(line)
