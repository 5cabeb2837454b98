"""Where bulk work of a command runs: the command line, then the environment, then the file."""

from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.config import read_config
from omnigraph.pipeline.settings import SparkSettings, place, read_settings

SparkMaster = Annotated[
    str | None, typer.Option("--spark-master", help="The Spark master to run on.")
]
SparkRemote = Annotated[
    str | None,
    typer.Option("--spark-remote", help="A Spark Connect server to use, such as sc://host:15002."),
]


def find_spark(master: str | None, remote: str | None) -> SparkSettings:
    """Raises ConfigInvalid, SparkUnusable."""
    found = read_settings(under=read_config().spark)
    return replace(place(found, master=master, remote=remote), is_brief=True)
