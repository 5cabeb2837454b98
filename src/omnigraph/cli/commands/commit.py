"""`omnigraph commit`: the history of a graph."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.address import named_once
from omnigraph.cli.commands.diff import print_change
from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import GraphUri, Json, Kinds, Ops, Types, UriOption
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import Commit

app = typer.Typer(help="Read the history.", no_args_is_help=True)


@app.command("list")
def list_(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    branch: Annotated[str, typer.Option(help="The branch whose history is read.")] = "main",
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="actor=NAME, branch=NAME or since=TIME. Repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="The most commits to print.")] = None,
    as_json: Json = False,
) -> None:
    """List the commits of a branch, newest first.

    `--filter actor=` finds commits without an actor.
    """
    from omnigraph.sdk.documents import commit_document
    from omnigraph.sdk.moments import microseconds

    given = _read_filters(filters or [])
    graph = open_client(uri, context.obj, read_only=True)
    since = given.get("since")
    commits = graph.commits(
        given.get("branch", branch),
        actor=given.get("actor"),
        since_us=None if since is None else microseconds(since),
        limit=limit,
    )
    if as_json:
        print_json({"commits": [commit_document(each) for each in commits]})
    else:
        for each in commits:
            print_line(_line(each))


@app.command()
def show(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="[URI] ID", help="The commit, by its id.")],
    second: Annotated[str | None, typer.Argument(hidden=True)] = None,
    *,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Show one commit, whatever branch it is on."""
    from omnigraph.sdk.documents import commit_document

    uri, commit_id = _read_place(first, second, uri_option)
    found = open_client(uri, context.obj, read_only=True).commit(commit_id)
    if as_json:
        print_json(commit_document(found))
        return
    print_line(_line(found))
    print_line(f"actor: {found.actor or '(none)'}")
    print_line(f"created: {datetime.fromtimestamp(found.created_at_us / 1e6, UTC).isoformat()}")


@app.command()
def changes(
    context: typer.Context,
    first: Annotated[str, typer.Argument(metavar="[URI] ID", help="The commit, by its id.")],
    second: Annotated[str | None, typer.Argument(hidden=True)] = None,
    *,
    limit: Annotated[int, typer.Option(help="The most changes to print.")] = 1_000,
    page_token: Annotated[str | None, typer.Option(help="Continue after the last page.")] = None,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    uri_option: UriOption = None,
    as_json: Json = False,
) -> None:
    """Show the changes of a commit since its first parent: every entity, before and after."""
    from omnigraph.sdk.reviewing import commit_changes_document

    uri, commit_id = _read_place(first, second, uri_option)
    page = open_client(uri, context.obj, read_only=True).commit_changes(
        commit_id,
        page_token=page_token,
        limit=limit,
        kinds=kinds or (),
        types=types or (),
        ops=ops or (),
    )
    if as_json:
        print_json(commit_changes_document(page))
        return
    print_line(_line(page.cause))
    for each in page.changes:
        print_change(each)
    if page.next_page_token is not None:
        print_line(f"next page: {page.next_page_token}")


def _read_place(first: str, second: str | None, option: str | None) -> tuple[str | None, str]:
    """The graph and the commit: `[URI] ID`. Raises Misaddressed."""
    return (option, first) if second is None else (named_once(first, option), second)


def _line(commit: "Commit") -> str:
    parents = "".join(f" parent={parent}" for parent in commit.parents)
    return f"{commit.id} branch={commit.branch} version={commit.manifest_version}{parents}"


def _read_filters(filters: list[str]) -> dict[str, str]:
    given = {}
    for each in filters:
        key, equals, value = each.partition("=")
        if not equals or key not in ("actor", "branch", "since"):
            message = "--filter takes actor=NAME, branch=NAME or since=TIME"
            raise UsageError(f"{message}, not '{each}'")
        given[key] = value
    return given
