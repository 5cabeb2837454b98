"""`omnigraph relocate` and `omnigraph clone`: a graph at another place."""

from typing import Annotated

import typer

from omnigraph.cli.address import find_storage_options, find_store, parse_storage_options
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_target


def relocate(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Make the branches of a graph that was moved or copied read their files from here.

    Every command that writes does this first; this command does nothing else. It may be repeated.
    """
    from omnigraph.sdk.embedded.moving import relocate as relocate_graph
    from omnigraph.sdk.upkeep_documents import relocate_document

    place = find_store(uri, context.obj)
    print_target("relocate", place, context.obj)
    with showing(context.obj, wanted=progress):
        result = relocate_graph(place, storage_options=find_storage_options(uri, context.obj))
    if as_json:
        print_json(relocate_document(result))
        return
    if result.previous_uri is not None:
        print_line(f"moved here from {result.previous_uri}")
    print_line(f"{result.versions_rewritten} of {result.versions} versions of branches re-rooted")


def clone(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="The graph: a path, file:// or s3://.")],
    target: Annotated[str, typer.Argument(help="The place of the copy.")],
    *,
    branch: Annotated[
        list[str] | None,
        typer.Option(help="Copy only this branch and those it was created from. Repeatable."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="End with this commit; later commits are left out.")
    ] = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Copy a graph with its branches and history to another place.

    Other processes may write to the graph meanwhile. Repeat the command after an interruption: it
    continues.
    """
    from omnigraph.sdk.embedded.moving import clone as clone_graph
    from omnigraph.sdk.upkeep_documents import clone_document

    print_target("clone", target, context.obj)
    with showing(context.obj, wanted=progress):
        result = clone_graph(
            source,
            target,
            branch=branch or None,
            at=at,
            storage_options=parse_storage_options(context.obj),
        )
    if as_json:
        print_json(clone_document(result))
        return
    branches = ", ".join(result.branches)
    print_line(f"cloned {result.source} to {result.uri}")
    print_line(f"{branches}; {result.commits} commits, {result.bytes_copied} bytes copied")
