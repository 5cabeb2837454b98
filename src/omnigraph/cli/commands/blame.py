"""`omnigraph blame`: which commit set each property of a node or edge."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import open_client
from omnigraph.cli.history import aligned, iso_seconds
from omnigraph.cli.options import GraphUri, Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.engine.history.entity_history import PropertyOrigin


def blame(
    context: typer.Context,
    type_name: Annotated[str, typer.Argument(metavar="TYPE", help="Its node or edge type.")],
    identity: Annotated[str, typer.Argument(metavar="ID", help="Its id.")],
    uri: GraphUri = None,
    *,
    branch: Annotated[str, typer.Option(help="The branch whose head is blamed.")] = "main",
    names: Annotated[
        list[str] | None, typer.Option("--property", help="Only this property. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which commit set each property of a node or edge, when, and who made it.

    A value that came by a merge is followed to the branch that set it. A value that is older than
    the history a cleanup left has no commit. Exits with 1 if there is no such node or edge.
    """
    from omnigraph.sdk.history import origin_document

    graph = open_client(uri, context.obj, read_only=True)
    origins = graph.blame(type_name, identity, branch=branch)
    known = [each.name for each in origins]
    if origins and (unknown := [each for each in names or [] if each not in known]):
        raise UsageError(f"{type_name} has no property {unknown[0]}; it has {', '.join(known)}")
    wanted = [each for each in origins if not names or each.name in names]
    if as_json:
        properties = [origin_document(each) for each in wanted]
        print_json({"type": type_name, "id": identity, "properties": properties})
    elif wanted:
        for line in aligned([_cells(each) for each in wanted]):
            print_line(line)
    else:
        print_line(f"no {type_name} with id {identity}")
    if not origins:
        raise typer.Exit(Exit.FAILED)


def _cells(origin: "PropertyOrigin") -> tuple[str, ...]:
    value = json.dumps(origin.value, ensure_ascii=False)
    commit, merge = origin.commit, origin.merged_by
    if commit is None:
        return origin.name, value, "-", "-", "-", "older than the history that is left"
    through = "" if merge is None else f"merged by {merge.actor or '-'} in {merge.id}"
    when = iso_seconds(commit.created_at)
    return origin.name, value, commit.id, when, commit.actor or "-", through or commit.message or ""
