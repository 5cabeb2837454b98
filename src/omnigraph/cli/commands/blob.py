"""`omnigraph blob`: the bytes of a Blob property, or its length and tag."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.inputs import write_whole
from omnigraph.cli.options import Branch, Commit, GraphUri, Json
from omnigraph.cli.render import print_bytes, print_json, print_note
from omnigraph.cli.tables import print_entity
from omnigraph.errors import UsageError
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.query.blob import OpenBlob

app = typer.Typer(help="Read Blob properties.", no_args_is_help=True)

Entity = Annotated[str, typer.Argument(metavar="ENTITY", help="node or edge.")]
TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="Its type.")]
Identity = Annotated[str, typer.Argument(metavar="ID", help="Its id.")]
Property = Annotated[str, typer.Argument(metavar="PROPERTY", help="The property that is a Blob.")]


@app.command()
def get(
    context: typer.Context,
    entity: Entity,
    type_name: TypeName,
    identity: Identity,
    property_name: Property,
    *,
    uri: GraphUri = None,
    branch: Branch = None,
    commit: Commit = None,
    offset: Annotated[int, typer.Option(min=0, help="The first byte to read.")] = 0,
    length: Annotated[int | None, typer.Option(min=0, help="The most bytes to read.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; standard output by default."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written, as JSON; needs --out.")
    ] = False,
) -> None:
    """Write the bytes of a Blob, or a range of them. External blobs are not fetched."""
    if out is None and as_json:
        raise UsageError("name a file to write to: --out")
    if out is None and sys.stdout.isatty():
        raise UsageError("the bytes may upset a terminal; name a file with --out, or use a pipe")
    graph = open_client(uri, context.obj, read_only=True)
    blob = graph.blob(entity, type_name, identity, property_name, branch=branch, commit=commit)
    chunks = blob.chunks(offset, length)
    if out is None:
        print_bytes(chunks)
        return
    count = write_whole(out, chunks)
    if as_json:
        print_json({**_document(blob), "offset": offset, "written": count, "out": str(out)})
    else:
        print_note(f"wrote {count} of {counted(blob.length or 0, 'byte')} to {out}")


@app.command()
def stat(
    context: typer.Context,
    entity: Entity,
    type_name: TypeName,
    identity: Identity,
    property_name: Property,
    *,
    uri: GraphUri = None,
    branch: Branch = None,
    commit: Commit = None,
    as_json: Json = False,
) -> None:
    """Print the length and the ETag of a Blob, its address if it is external, and the commit."""
    graph = open_client(uri, context.obj, read_only=True)
    blob = graph.blob(entity, type_name, identity, property_name, branch=branch, commit=commit)
    if as_json:
        print_json(_document(blob))
    else:
        print_entity({key: value for key, value in _document(blob).items() if value is not None})


def _document(blob: "OpenBlob") -> dict[str, object]:
    return {
        "entity": blob.name.entity,
        "type": blob.name.type_name,
        "id": blob.name.id,
        "property": blob.name.property_name,
        "length": blob.length,
        "etag": blob.etag,
        "uri": blob.uri,
        "snapshot_id": blob.commit_id,
    }
