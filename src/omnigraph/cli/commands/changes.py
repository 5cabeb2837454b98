"""`omnigraph changes`: the change feed of a branch."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.commands.diff import print_change
from omnigraph.cli.graphs import open_client
from omnigraph.cli.inputs import write_whole
from omnigraph.cli.options import GraphUri, Json, Kinds, Ops, Types
from omnigraph.cli.render import print_bytes, print_json, print_line, print_note
from omnigraph.errors import UsageError

app = typer.Typer(help="Follow the changes of commits.", no_args_is_help=True)

_Branch = Annotated[str, typer.Option(help="The branch whose commits are read.")]


@app.command()
def poll(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    cursor: Annotated[
        str | None, typer.Option(help="Continue here: the cursor or page token of the last answer.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Start here: now, beginning, or after:COMMIT.")
    ] = None,
    branch: _Branch = "main",
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    commits: Annotated[int, typer.Option(help="The most commits to read.")] = 128,
    limit: Annotated[int, typer.Option(help="The most changes to print.")] = 1_000,
    as_json: Json = False,
) -> None:
    """Print the changes of commits since a cursor, and the next cursor.

    Every commit is delivered at least once, whole, in the order of the branch's history. Save the
    cursor after everything before it is processed.
    """
    from omnigraph.sdk.reviewing import feed_document

    graph = open_client(uri, context.obj, read_only=True)
    page = graph.changes(
        cursor,
        start=start,
        branch=branch,
        kinds=kinds or (),
        types=types or (),
        ops=ops or (),
        commits_max=commits,
        limit=limit,
    )
    if as_json:
        print_json(feed_document(page))
        return
    for block in page.blocks:
        actor = "" if block.cause.actor is None else f" by {block.cause.actor}"
        print_line(f"commit {block.cause.id}{actor}")
        for each in block.changes:
            print_change(each)
    if page.next_page_token is not None:
        print_line(f"next page: {page.next_page_token}")
    else:
        tail = "" if page.caught_up else " (there is more)"
        print_line(f"cursor: {page.cursor}{tail}")


@app.command()
def baseline(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; it appears when it is complete.")
    ] = None,
    branch: _Branch = "main",
    kinds: Kinds = None,
    types: Types = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written, as JSON; needs --out.")
    ] = False,
) -> None:
    """Write all entities of a branch, then a line with the cursor that its changes follow from."""
    if out is None and as_json:
        raise UsageError("name a file to write to: --out")
    graph = open_client(uri, context.obj, read_only=True)
    found = graph.baseline(branch=branch, kinds=kinds or (), types=types or ())
    if out is None:
        print_bytes(found.lines())
        return
    write_whole(out, found.lines())
    if as_json:
        print_json({"path": str(out), **found.document()})
    else:
        print_note(f"baseline of {branch} written to {out}")
        print_line(f"cursor: {found.resume_cursor}")
