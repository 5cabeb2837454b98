"""Options that several commands share, declared once: a flag has one spelling and one help text."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.config import read_config
from omnigraph.pipeline.settings import SparkSettings, place, read_settings

GraphUri = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH", help="The graph: a path, file:// or s3://; first, or after the rest."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

Branch = Annotated[str | None, typer.Option(help="The branch to read; main by default.")]
Commit = Annotated[
    str | None, typer.Option("--snapshot", "--commit", help="Read the state at this commit.")
]
Snapshot = Annotated[str | None, typer.Option(help="Read the state at this commit.")]
Version = Annotated[int | None, typer.Option(help="Read this version of the branch's manifest.")]
At = Annotated[
    str | None, typer.Option(help="Read the state at this time, e.g. 2026-06-01T00:00:00Z.")
]

QueryName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="Which query, if the source holds several."),
]
QueryFile = Annotated[Path | None, typer.Option(help="The query, a .gq file.")]
QueryText = Annotated[
    str | None, typer.Option("--query-string", "-e", help="The text of the query.")
]


class QueryEngineName(StrEnum):
    """Where a query runs."""

    AUTO = "auto"
    PROCESS = "process"
    SPARK = "spark"


QueryEngine = Annotated[
    QueryEngineName,
    typer.Option(
        "--engine",
        help="Where to run it: process; spark; auto, the process as far as its memory allows.",
    ),
]
Params = Annotated[str | None, typer.Option(help="The parameters, a JSON object.")]
ParamsFile = Annotated[Path | None, typer.Option(help="A file that holds the parameters.")]
Schema = Annotated[
    Path | None, typer.Option(help="The schema, a .pg file; the graph's by default.")
]

Kinds = Annotated[list[str] | None, typer.Option("--kind", help="Only node, or only edge.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only this type. Repeatable.")]
Ops = Annotated[
    list[str] | None, typer.Option("--op", help="Only insert, update or delete. Repeatable.")
]

Portable = Annotated[
    bool,
    typer.Option("--portable", help="Refuse a schema that the reference 0.8 does not understand."),
]
Message = Annotated[str | None, typer.Option("--message", "-m", help="Why; the commit keeps it.")]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(help="Names this write: if it is repeated with the same key, it happens once."),
]

LoadBase = Annotated[
    str | None, typer.Option("--from", help="Create the branch from this one if it is missing.")
]
LoadEngineName = Annotated[
    str | None,
    typer.Option("--engine", help="Where to load: auto (by the size of the input), spark, local."),
]
Rejects = Annotated[
    Path | None, typer.Option(help="A file that takes all faults, one JSON object a line.")
]

SparkMaster = Annotated[
    str | None, typer.Option("--spark-master", help="The Spark master to run on.")
]
SparkRemote = Annotated[
    str | None,
    typer.Option("--spark-remote", help="A Spark Connect server to use, such as sc://host:15002."),
]


def find_spark(master: str | None, remote: str | None) -> SparkSettings:
    """The command line first, then the environment, then the configuration.

    Raises ConfigInvalid, SparkUnusable.
    """
    found = read_settings(under=read_config().spark)
    return replace(place(found, master=master, remote=remote), is_brief=True)
