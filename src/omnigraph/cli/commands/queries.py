"""`omnigraph queries`: check a folder of stored queries, list those of a server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.address import ServerAddress, find_address
from omnigraph.cli.exits import Exit
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import connect, find_schema
from omnigraph.cli.options import Json, Schema
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors import Misaddressed
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.sdk.stored_queries import StoredQueries, StoredQuery

app = typer.Typer(help="List and check stored queries.", no_args_is_help=True)

_Uri = Annotated[
    str | None,
    typer.Argument(metavar="GRAPH", help="The graph whose schema is used, without --schema."),
]


@app.command()
def validate(
    context: typer.Context,
    uri: _Uri = None,
    *,
    folder: Annotated[Path, typer.Option("--queries", help="The folder of .gq files.")],
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Check every query of a folder against a schema, as a server would.

    The schema is a file, or that of a graph. Exits with 1 if a query does not fit.
    """
    found = _read(folder, schema, uri, context.obj)
    warnings = [(each.name, warning) for each in _listed(found) for warning in each.warnings]
    if as_json:
        broken = [{"query": each.source, "message": each.reason} for each in found.broken]
        noted = [{"query": name, "message": message} for name, message in warnings]
        print_json({"ok": not broken, "breakages": broken, "warnings": noted})
    else:
        for each in found.broken:
            print_line(f"ERROR query {each.source}: {each.reason}")
        for name, message in warnings:
            print_line(f"WARN  query '{name}': {message}")
        valid = counted(len(found.queries), "query", "queries")
        print_line(f"{valid} valid, {len(found.broken)} broken")
    if found.broken:
        raise typer.Exit(Exit.FAILED)


@app.command("list")
def list_(
    context: typer.Context,
    uri: _Uri = None,
    *,
    folder: Annotated[
        Path | None, typer.Option("--queries", help="A folder of .gq files, without a server.")
    ] = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """List the stored queries of a folder or of a server, with their parameters."""
    if folder is None:
        document = _fetch(uri, context.obj)
    else:
        found = _listed(_read(folder, schema, uri, context.obj))
        document = {"queries": [_document(each) for each in found]}
    if as_json:
        print_json(document)
        return
    for each in document["queries"]:
        kind = "mutation" if each["mutation"] else "read"
        print_line(f"{each['name']}({', '.join(map(_spell, each['params']))}) {kind}")


def _fetch(uri: str | None, settings: Globals) -> dict[str, Any]:
    """The catalog of a server. Raises Misaddressed."""
    address = find_address(uri, settings)
    if not isinstance(address, ServerAddress):
        raise Misaddressed("name the stored queries: --queries DIR, or a --server that has some")
    return connect(address).stored_queries()


def _read(folder: Path, schema: Path | None, uri: str | None, settings: Globals) -> "StoredQueries":
    from omnigraph.sdk.stored_queries import read_stored

    catalog, _ = find_schema(schema, uri, settings)
    return read_stored(folder, catalog)


def _listed(found: "StoredQueries") -> list["StoredQuery"]:
    return sorted(found.queries.values(), key=lambda each: each.name)


def _document(query: "StoredQuery") -> dict[str, Any]:
    """The entry of a catalog, with the types in the spelling of the language."""
    document: dict[str, Any] = query.document()
    for entry, parameter in zip(document["params"], query.parameters, strict=True):
        entry["type"] = str(parameter.type).removesuffix("?")
    return {**document, "mcp_expose": True}


def _spell(parameter: dict[str, Any]) -> str:
    optional = "?" if parameter["nullable"] else ""
    return f"{parameter['name']}: {parameter.get('type', parameter['kind'])}{optional}"
