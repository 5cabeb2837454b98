"""`omnigraph commit`: the history of a graph."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import open_graph
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.commit.records import Commit

app = typer.Typer(help="Look at the history.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


@app.command("list")
def list_(
    context: typer.Context,
    uri: Annotated[str | None, typer.Argument(help="The graph.")] = None,
    *,
    branch: Annotated[str, typer.Option(help="Whose history.")] = "main",
    filters: Annotated[
        list[str] | None,
        typer.Option("--filter", help="actor=NAME or since=TIME; may be repeated."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="At most so many.")] = None,
    as_json: Json = False,
) -> None:
    """List the commits of a branch, newest first.

    `--filter actor=` finds commits without an actor.
    """
    from omnigraph.sdk.documents import commit_document

    wanted = _read_filters(filters or [])
    graph = open_graph(uri, context.obj, read_only=True)
    since = wanted.get("since")
    commits = graph.commits(
        branch,
        actor=wanted.get("actor"),
        since_us=None if since is None else _microseconds(since),
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
    uri_option: Annotated[str | None, typer.Option("--uri", help="The graph.")] = None,
    as_json: Json = False,
) -> None:
    """Show one commit, whatever branch it is on."""
    uri, commit_id = (uri_option, first) if second is None else (first, second)
    from omnigraph.sdk.documents import commit_document

    found = open_graph(uri, context.obj, read_only=True).commit(commit_id)
    if as_json:
        print_json(commit_document(found))
        return
    print_line(_line(found))
    print_line(f"actor: {found.actor or '(none)'}")
    print_line(f"created: {datetime.fromtimestamp(found.created_at_us / 1e6, UTC).isoformat()}")


def _line(commit: "Commit") -> str:
    parents = "".join(f" parent={parent}" for parent in commit.parents)
    return f"{commit.id} branch={commit.branch} version={commit.manifest_version}{parents}"


def _read_filters(filters: list[str]) -> dict[str, str]:
    wanted = {}
    for each in filters:
        key, equals, value = each.partition("=")
        if not equals or key not in ("actor", "since"):
            raise UsageError(f"--filter takes actor=NAME or since=TIME, not '{each}'")
        wanted[key] = value
    return wanted


def _microseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-06-01T00:00:00Z"
        raise UsageError(f"since= takes a time such as {example}, not '{text}'") from None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1_000_000)
