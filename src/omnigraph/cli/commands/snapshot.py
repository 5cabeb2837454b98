"""`omnigraph snapshot`: what a branch shows."""

from typing import Annotated

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.render import print_json, print_line


def snapshot(
    context: typer.Context,
    uri: Annotated[str | None, typer.Argument(help="The graph.")] = None,
    *,
    branch: Annotated[str | None, typer.Option(help="Which branch; main if none.")] = None,
    commit: Annotated[str | None, typer.Option(help="As this commit left the graph.")] = None,
    version: Annotated[int | None, typer.Option(help="At this version of the manifest.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
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
