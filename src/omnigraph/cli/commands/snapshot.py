"""`omnigraph snapshot`: the tables of a branch."""

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import Branch, GraphUri, Json, Snapshot, Version
from omnigraph.cli.render import print_json, print_line


def snapshot(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    branch: Branch = None,
    commit: Snapshot = None,
    version: Version = None,
    as_json: Json = False,
) -> None:
    """Show the version and row count of every table, on a branch, at a commit or at a version."""
    from omnigraph.sdk.documents import snapshot_document

    graph = open_client(uri, context.obj, read_only=True)
    shown = graph.snapshot(branch, commit=commit, version=version)
    if as_json:
        print_json(snapshot_document(shown))
        return
    print_line(f"branch: {shown.branch}")
    print_line(f"manifest_version: {shown.manifest_version}")
    for pin in shown.pins.values():
        print_line(f"{pin.key} v{pin.version} branch={pin.owner} rows={pin.row_count}")
