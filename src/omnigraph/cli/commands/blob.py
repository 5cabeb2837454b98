"""`omnigraph blob`: what a Blob of one node or edge holds, or only what it is."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.graphs import open_client
from omnigraph.cli.inputs import write_whole
from omnigraph.cli.options import Branch, Commit, Json, UriOption
from omnigraph.cli.render import print_json, print_note
from omnigraph.cli.tables import print_entity
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.engine.query.blob import OpenBlob

app = typer.Typer(help="Read what Blobs hold.", no_args_is_help=True)

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
    uri: UriOption = None,
    branch: Branch = None,
    commit: Commit = None,
    offset: Annotated[int, typer.Option(min=0, help="Leave out so many bytes.")] = 0,
    length: Annotated[int | None, typer.Option(min=0, help="At most so many bytes.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file; standard output if none.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written, as JSON; needs --out.")
    ] = False,
) -> None:
    """Write the bytes of a Blob, or a range of them. What is kept elsewhere is not fetched."""
    if out is None and as_json:
        raise UsageError("name a file to write to: --out")
    if out is None and sys.stdout.isatty():
        raise UsageError("the bytes may upset a terminal; name a file with --out, or use a pipe")
    graph = open_client(uri, context.obj, read_only=True)
    blob = graph.blob(entity, type_name, identity, property_name, branch=branch, commit=commit)
    chunks = blob.chunks(offset, length)
    if out is None:
        _print_bytes(chunks)
        return
    count = write_whole(out, chunks)
    if as_json:
        print_json({**_document(blob), "offset": offset, "written": count, "out": str(out)})
    else:
        print_note(f"wrote {count} of {blob.length} bytes to {out}")


@app.command()
def stat(
    context: typer.Context,
    entity: Entity,
    type_name: TypeName,
    identity: Identity,
    property_name: Property,
    *,
    uri: UriOption = None,
    branch: Branch = None,
    commit: Commit = None,
    as_json: Json = False,
) -> None:
    """Tell how long a Blob is, its ETag, where it is kept if that is elsewhere, and the commit."""
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


def _print_bytes(chunks: Iterator[bytes]) -> None:
    try:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough. What is still buffered would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(Exit.FAILED) from None
