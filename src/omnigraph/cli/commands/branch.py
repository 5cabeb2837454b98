"""`omnigraph branch`: create, list and delete branches."""

from typing import Annotated

import typer

from omnigraph.cli.address import find_actor, find_store
from omnigraph.cli.confirm import confirm_destructive
from omnigraph.cli.graphs import open_graph
from omnigraph.cli.render import print_json, print_line, print_note, print_target

app = typer.Typer(help="Create, list and delete branches.", no_args_is_help=True)

Uri = Annotated[str | None, typer.Argument(help="The graph.")]
UriOption = Annotated[str | None, typer.Option("--uri", help="The graph, as an option.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new branch; slashes are allowed.")],
    uri: Uri = None,
    *,
    source: Annotated[str, typer.Option("--from", help="The branch it starts from.")] = "main",
    commit: Annotated[
        str | None, typer.Option(help="Start as this commit left the graph instead.")
    ] = None,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Create a branch. It costs the same whatever the graph holds."""
    graph = open_graph(uri or uri_option, context.obj)
    print_target("branch create", graph.uri, context.obj)
    created = graph.branches.create(
        name, source=source, commit=commit, actor=find_actor(context.obj)
    )
    if as_json:
        print_json(
            {
                "uri": graph.uri,
                "from": commit or source,
                "name": created,
                "actor_id": find_actor(context.obj),
            }
        )
    else:
        print_line(f"created branch {created} from {commit or source}")


@app.command("list")
def list_(
    context: typer.Context, uri: Uri = None, *, uri_option: UriOption = None, as_json: Json = False
) -> None:
    """List the branches, main first."""
    found = open_graph(uri or uri_option, context.obj, read_only=True).branches.list()
    if as_json:
        print_json({"branches": list(found)})
    else:
        for name in found:
            print_line(name)


@app.command()
def delete(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The branch to delete.")],
    uri: Uri = None,
    *,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Delete a branch. Refuses main, and a branch that others came from or still read."""
    store = find_store(uri or uri_option, context.obj)
    confirm_destructive(f"delete branch {name} of", store, context.obj, interactive=not as_json)
    graph = open_graph(uri or uri_option, context.obj)
    print_target("branch delete", graph.uri, context.obj)
    deleted = graph.branches.delete(name, actor=find_actor(context.obj))
    for key in deleted.forks_left:
        print_note(f"note: the files of {key} on {name} could not be removed; cleanup will")
    if as_json:
        print_json({"uri": graph.uri, "name": name, "actor_id": find_actor(context.obj)})
    else:
        print_line(f"deleted branch {name}")
