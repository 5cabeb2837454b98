"""`omnigraph tag`: names for commits."""

from typing import Annotated

import typer

from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.history import aligned, iso_of_micros
from omnigraph.cli.options import GraphUri, Json, Message
from omnigraph.cli.render import print_json, print_line, print_target

app = typer.Typer(help="Give commits names, which cleanup keeps.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The tag; slashes are allowed.")]


@app.command()
def create(
    context: typer.Context,
    name: _Name,
    uri: GraphUri = None,
    *,
    commit: Annotated[
        str | None, typer.Option(help="The commit; the head of the branch by default.")
    ] = None,
    branch: Annotated[str, typer.Option(help="The branch whose head gets the tag.")] = "main",
    message: Message = None,
    as_json: Json = False,
) -> None:
    """Give a commit a name. Reads and branches take the name for the commit; it never moves."""
    from omnigraph.sdk.history import tag_document

    graph = open_client(uri, context.obj)
    print_target("tag create", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    chosen = commit or graph.commits(branch, limit=1)[0].id
    tag = graph.tags.create(name, chosen, actor=actor, message=message)
    if as_json:
        print_json(tag_document(tag))
    else:
        print_line(f"tagged {tag.commit_id} as {tag.name}")


@app.command("list")
def list_(context: typer.Context, uri: GraphUri = None, *, as_json: Json = False) -> None:
    """List the tags by name: commit, time, actor, message."""
    from omnigraph.sdk.history import tag_document

    graph = open_client(uri, context.obj, read_only=True)
    tags = graph.tags.list()
    if as_json:
        print_json({"tags": [tag_document(each) for each in tags]})
        return
    rows = [
        (
            each.name,
            each.commit_id,
            iso_of_micros(each.created_at_us),
            each.actor or "-",
            each.message or "-",
        )
        for each in tags
    ]
    for line in aligned(rows):
        print_line(line)


@app.command()
def delete(
    context: typer.Context, name: _Name, uri: GraphUri = None, *, as_json: Json = False
) -> None:
    """Delete a tag. Its commit stays until a cleanup."""
    graph = open_client(uri, context.obj)
    print_target("tag delete", graph.uri, context.obj)
    actor = find_writer(graph, context.obj)
    graph.tags.delete(name, actor=actor)
    if as_json:
        print_json({"name": name, "actor_id": actor})
    else:
        print_line(f"deleted tag {name}")
