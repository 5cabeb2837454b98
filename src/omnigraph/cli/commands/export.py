"""`omnigraph export`: the nodes and edges of a snapshot, as records or as Parquet."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from omnigraph.cli.graphs import open_client
from omnigraph.cli.options import (
    Branch,
    Commit,
    GraphUri,
    SparkMaster,
    SparkRemote,
    Types,
    Version,
    find_spark,
)
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_bytes, print_json, print_note, writing_to_stdout
from omnigraph.errors import UsageError
from omnigraph.errors.base import counted


def export(
    context: typer.Context,
    uri: GraphUri = None,
    *,
    branch: Branch = None,
    commit: Commit = None,
    version: Version = None,
    types: Types = None,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table, such as node:Person. Repeatable."),
    ] = None,
    output_format: Annotated[str, typer.Option("--format", help="jsonl or parquet.")] = "jsonl",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A file, compressed if it ends in .gz or .zst; a new folder for parquet; here or "
            "at s3://. Standard output by default.",
        ),
    ] = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    jsonl: Annotated[bool, typer.Option("--jsonl", hidden=True)] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written, as JSON; needs --output.")
    ] = False,
) -> None:
    """Write the nodes and edges of a snapshot in the form that load reads."""
    from omnigraph.sdk.documents import export_document
    from omnigraph.sdk.embedded.graph import LocalGraph

    if jsonl:
        print_note("warning: --jsonl is what export does anyway")
    if output is None and (as_json or output_format == "parquet"):
        raise UsageError("name a place to write to: --output")
    client = open_client(uri, context.obj, read_only=True)
    if not isinstance(client, LocalGraph):
        if output_format != "jsonl" or as_json:
            raise UsageError(
                "a server exports JSON lines, and does not count them: drop --format and --json"
            )
        if spark_master or spark_remote:
            raise UsageError("a server chooses its Spark")
        lines = client.export_lines(
            types=types or (), tables=tables or (), branch=branch, commit=commit, version=version
        )
        _write_served(lines, output, commit or branch or "main")
        return
    graph = client
    with writing_to_stdout(), showing(context.obj, wanted=progress):
        result = graph.export(
            sys.stdout.buffer if output is None else output,
            format=output_format,
            types=types or (),
            tables=tables or (),
            branch=branch,
            commit=commit,
            version=version,
            spark=find_spark(spark_master, spark_remote),
        )
    if as_json:
        print_json(export_document(result))
    elif output is not None:
        rows = counted(sum(result.counts.values()), "row")
        print_note(f"exported {rows} of {result.branch} to {output}")


def _write_served(lines: Iterator[bytes], output: str | None, what: str) -> None:
    """Raises FileUnreadable."""
    if output is None:
        print_bytes(lines)
        return
    from omnigraph.sdk.files import write_lines

    write_lines(output, lines)
    print_note(f"exported {what} to {output}")
