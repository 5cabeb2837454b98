"""`omnigraph commit`: the history of a graph."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from omnigraph.cli.commands.diff import print_change, show_value
from omnigraph.cli.graphs import open_client
from omnigraph.cli.history import DRAW, graph_lines, log_lines, short_lines
from omnigraph.cli.options import GraphUri, Json, Kinds, Ops, Types
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import Commit
    from omnigraph.ids import CommitId
    from omnigraph.sdk.client import GraphClient


class _Asked(TypedDict):
    actor: str | None
    since_us: int | None
    limit: int | None
    merged: bool


app = typer.Typer(help="Read the history.", no_args_is_help=True)

_CommitId = Annotated[str, typer.Argument(metavar="ID", help="The commit, by its id.")]


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
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="The most commits to print.")
    ] = None,
    oneline: Annotated[bool, typer.Option("--oneline", help="One line for each commit.")] = False,
    draw: Annotated[
        bool,
        typer.Option("--graph", DRAW, help="Draw how branches part and merge, beside one-liners."),
    ] = False,
    all_branches: Annotated[
        bool, typer.Option("--all", help="The commits of all branches, with their names.")
    ] = False,
    entity: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="TYPE ID", help="Only the commits that changed this node or edge."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the commits of a branch, newest first: id, time, actor, changed rows, message.

    The rows are those inserted, updated and deleted: `+2 ~1 −0`. `--filter actor=` finds commits
    without an actor. `omnigraph log` is the same command.
    """
    from omnigraph.sdk.documents import commit_document
    from omnigraph.sdk.moments import microseconds

    given = _read_filters(filters or [])
    graph = open_client(uri, context.obj, read_only=True)
    if entity is not None:
        if draw or oneline or all_branches or given:
            raise UsageError("--entity takes only --branch, --limit and --json beside it")
        _list_revisions(graph, entity, branch, limit, as_json=as_json)
        return
    since = given.get("since")
    asked: _Asked = {
        "actor": given.get("actor"),
        "since_us": None if since is None else microseconds(since),
        "limit": limit,
        "merged": draw,
    }
    heads: dict[CommitId, list[str]] = {}
    if all_branches:
        heads = _find_heads(graph)
        commits = _find_everywhere(graph, heads, asked)
    else:
        commits = graph.commits(given.get("branch", branch), **asked)
    if as_json:
        print_json({"commits": [commit_document(each) for each in commits]})
        return
    form = graph_lines if draw else short_lines if oneline else log_lines
    for line in form(commits, heads):
        print_line(line)


def _list_revisions(
    graph: "GraphClient", entity: tuple[str, str], branch: str, limit: int | None, *, as_json: bool
) -> None:
    from omnigraph.sdk.history import REVISIONS_DEFAULT, revision_document

    type_name, identity = entity
    most = REVISIONS_DEFAULT if limit is None else limit
    found = graph.revisions(type_name, identity, branch=branch, limit=most)
    if as_json:
        print_json({"revisions": [revision_document(each) for each in found]})
        return
    for number, each in enumerate(found):
        if number:
            print_line("")
        for line in log_lines([each.commit], {}):
            print_line(line)
        print_line(f"{each.op.value}:")
        before, after = each.before or {}, each.after or {}
        for name in each.changed:
            print_line(
                f"    {name}: {show_value(before.get(name))} → {show_value(after.get(name))}"
            )


def _find_heads(graph: "GraphClient") -> "dict[CommitId, list[str]]":
    """The branches by their heads, main first."""
    heads: dict[CommitId, list[str]] = {}
    for each in graph.branches.summaries():
        if each.head is not None:
            heads.setdefault(each.head.id, []).append(each.name)
    return heads


def _find_everywhere(
    graph: "GraphClient", heads: "Mapping[CommitId, Sequence[str]]", asked: "_Asked"
) -> "Sequence[Commit]":
    """The commits of all branches: each once, after its children."""
    from omnigraph.commit.manifest.lineage import newest_first

    found: list[Commit] = []
    for names in heads.values():
        found += graph.commits(names[0], **asked)
    return newest_first(found)[: asked["limit"]]


@app.command()
def show(
    context: typer.Context,
    commit_id: _CommitId,
    uri: GraphUri = None,
    *,
    as_json: Json = False,
) -> None:
    """Show one commit, whatever branch it is on."""
    from omnigraph.sdk.documents import commit_document

    found = open_client(uri, context.obj, read_only=True).commit(commit_id)
    if as_json:
        print_json(commit_document(found))
        return
    for line in log_lines([found], {}):
        print_line(line)
    for key, counts in (found.counts or {}).items():
        print_line(f"  {key}: {counts}")


@app.command()
def changes(
    context: typer.Context,
    commit_id: _CommitId,
    uri: GraphUri = None,
    *,
    limit: Annotated[int, typer.Option(help="The most changes to print.")] = 1_000,
    page_token: Annotated[str | None, typer.Option(help="Continue after the last page.")] = None,
    kinds: Kinds = None,
    types: Types = None,
    ops: Ops = None,
    as_json: Json = False,
) -> None:
    """Show the changes of a commit since its first parent: every entity, before and after."""
    from omnigraph.sdk.reviewing import commit_changes_document

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
    for line in log_lines([page.cause], {}):
        print_line(line)
    print_line("")
    for each in page.changes:
        print_change(each)
    if page.next_page_token is not None:
        print_line(f"next page: {page.next_page_token}")


def _read_filters(filters: list[str]) -> dict[str, str]:
    given = {}
    for each in filters:
        key, equals, value = each.partition("=")
        if not equals or key not in ("actor", "branch", "since"):
            message = "--filter takes actor=NAME, branch=NAME or since=TIME"
            raise UsageError(f"{message}, not '{each}'")
        given[key] = value
    return given
