"""`omnigraph load`: load files as one commit, or none."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import confirm_destructive, find_writer, open_client
from omnigraph.cli.options import (
    GraphUri,
    IdempotencyKey,
    Json,
    LoadBase,
    LoadEngineName,
    Message,
    Rejects,
    SparkMaster,
    SparkRemote,
    find_spark,
)
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_json, print_line, print_note, print_target
from omnigraph.errors import LoadRejected, UsageError
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.load.run import LoadResult

_Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="DATA", help="Files, folders or patterns; - is standard input."),
]
_Data = Annotated[
    list[str] | None,
    typer.Option("--data", help="The same as a flag. Repeatable."),
]
_Type = Annotated[str | None, typer.Option("--type", help="The node type of the rows of a table.")]
_Edge = Annotated[str | None, typer.Option("--edge", help="The edge type of the rows of a table.")]
_Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="PROPERTY=COLUMN: the column of a property, or of id, from or to. Repeatable.",
    ),
]
_Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="jsonl, parquet, csv, delta or iceberg; by default from the names of files.",
    ),
]
_Delimiter = Annotated[str | None, typer.Option(help=r"The delimiter of a CSV; \t is a tab.")]
_Null = Annotated[str, typer.Option(help="The text that means null in a CSV.")]
_Header = Annotated[
    str | None,
    typer.Option(
        help="The names of the columns of a CSV without a header line, separated by commas; none: "
        "they are called 1, 2 and so on.",
    ),
]
_Skip = Annotated[int, typer.Option(min=0, help="How many records of a CSV to leave out in front.")]
_Quote = Annotated[
    str | None, typer.Option(help="none: a quote in a CSV is a character like any other.")
]
_Const = Annotated[
    list[str] | None,
    typer.Option("--const", help="PROPERTY=VALUE: the same value in every row. Repeatable."),
]
_Pattern = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        help="PROPERTY=PATTERN: how a Date or DateTime is spelled, as %d.%m.%Y. Repeatable.",
    ),
]
_Lookup = Annotated[
    list[str] | None,
    typer.Option(
        "--lookup",
        help="from=TYPE.PROPERTY: the property by which the node of an end is found. Repeatable.",
    ),
]
_Mode = Annotated[str, typer.Option(help="append, merge or overwrite.")]
_Branch = Annotated[str, typer.Option(help="The branch to load onto.")]
_MaxErrors = Annotated[int, typer.Option(min=1, help="How many faults to print.")]


def load(
    context: typer.Context,
    files: _Files = None,
    uri: GraphUri = None,
    *,
    data: _Data = None,
    mode: _Mode,
    node_type: _Type = None,
    edge_type: _Edge = None,
    mapping: _Map = None,
    format_name: _Format = None,
    delimiter: _Delimiter = None,
    null: _Null = "",
    header: _Header = None,
    skip: _Skip = 0,
    quote: _Quote = None,
    constants: _Const = None,
    patterns: _Pattern = None,
    lookups: _Lookup = None,
    branch: _Branch = "main",
    base: LoadBase = None,
    max_errors: _MaxErrors = 100,
    rejects: Rejects = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    engine: LoadEngineName = None,
    spark_master: SparkMaster = None,
    spark_remote: SparkRemote = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Load nodes and edges from JSON lines, Parquet or CSV, as one commit.

    Small files are loaded in this process, everything else on Spark.

    Each JSON line names its type. The rows of a Parquet or CSV file are of one --type or --edge; a
    property takes the column of its name, unless --map names another.
    """
    from omnigraph.sdk.documents import load_document
    from omnigraph.sdk.embedded.graph import LocalGraph
    from omnigraph.sdk.embedded.rejecting import rejecting
    from omnigraph.sdk.tables import read_table

    settings: Globals = context.obj
    inputs = [*(files or ()), *(data or ())]
    if not inputs:
        raise UsageError("name the data: omnigraph load GRAPH DATA …, or --data")
    table = read_table(
        type=node_type,
        edge=edge_type,
        map=mapping or (),
        format=format_name,
        delimiter=delimiter,
        null=null,
        header=header,
        skip=skip,
        quote=quote,
        const=constants or (),
        pattern=patterns or (),
        lookup=lookups or (),
        prefix="--",
    )
    spark = find_spark(spark_master, spark_remote)
    graph = open_client(uri, settings)
    if mode == "overwrite":
        confirm_destructive("overwrite", graph.uri, settings, interactive=not as_json)
    print_target("load", graph.uri, settings)
    is_local = isinstance(graph, LocalGraph)
    try:
        with showing(settings, wanted=progress), rejecting(None if is_local else rejects):
            if isinstance(graph, LocalGraph):
                result = graph.load(
                    [replace(table, data=each) for each in inputs],
                    mode=mode,
                    branch=branch,
                    from_branch=base,
                    actor=find_writer(graph, settings),
                    max_errors=max_errors,
                    rejects=rejects,
                    idempotency_key=idempotency_key,
                    message=message,
                    engine=engine,
                    spark=spark,
                )
            elif spark_master or spark_remote:
                raise UsageError("a server chooses its Spark")
            else:
                result = graph.load(
                    [replace(table, data=each) for each in inputs],
                    mode=mode,
                    branch=branch,
                    from_branch=base,
                    actor=find_writer(graph, settings),
                    max_errors=max_errors,
                    idempotency_key=idempotency_key,
                    message=message,
                    engine=engine,
                )
    except LoadRejected as rejected:
        if rejects is not None:
            print_rejects(rejects, rejected, is_whole=is_local)
        raise
    if as_json:
        print_json(load_document(result))
    else:
        print_loaded(result)


def ingest(
    context: typer.Context,
    files: _Files = None,
    uri: GraphUri = None,
    *,
    data: _Data = None,
    mode: _Mode = "merge",
    branch: _Branch = "main",
    base: Annotated[str, typer.Option("--from", help="Create the branch from this one.")] = "main",
    max_errors: _MaxErrors = 100,
    rejects: Rejects = None,
    message: Message = None,
    as_json: Json = False,
) -> None:
    """Deprecated name of load."""
    print_note("warning: 'ingest' is now 'load'")
    load(
        context,
        files,
        uri,
        data=data,
        mode=mode,
        branch=branch,
        base=base,
        max_errors=max_errors,
        rejects=rejects,
        message=message,
        as_json=as_json,
    )


def print_loaded(result: "LoadResult") -> None:
    for key, count in result.counts.items():
        print_line(f"{key} rows={count}")
    commit = "nothing to load" if result.commit is None else f"commit {result.commit.id}"
    rows = counted(sum(result.counts.values()), "row")
    print_line(f"loaded {rows} onto {result.branch}: {commit}")
    if result.actor is not None:
        print_line(f"actor_id: {result.actor}")


def print_rejects(path: Path, rejected: LoadRejected, *, is_whole: bool) -> None:
    """A server sends at most --max-errors faults."""
    written = rejected.count if is_whole else len(rejected.faults)
    print_note(f"{written} of {counted(rejected.count, 'fault')} are in {path}")
