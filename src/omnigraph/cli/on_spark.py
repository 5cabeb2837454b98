"""Queries of the command line that run on Spark."""

from typing import TYPE_CHECKING

from omnigraph.cli.options import find_spark
from omnigraph.cli.render import print_json, print_note
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.pipeline.datasource import DataFrame
    from omnigraph.sdk.client import GraphClient
    from omnigraph.sdk.embedded.on_spark import GraphOnSpark


def open_on_spark(graph: "GraphClient", master: str | None, remote: str | None) -> "GraphOnSpark":
    """Raises UsageError for a graph on a server."""
    from omnigraph.sdk.embedded.graph import LocalGraph

    if not isinstance(graph, LocalGraph):
        raise UsageError("Spark reads the graph in its storage; name it by a URI or --store")
    return graph.spark(find_spark(master, remote))


def write_rows(data: "DataFrame", output: str, *, as_json: bool) -> None:
    """Write a result to a folder, and say so."""
    from omnigraph.pipeline.queries.run import write_dataframe

    written = write_dataframe(data, output)
    if as_json:
        print_json({"output": output, "format": written, "columns": data.columns})
    else:
        print_note(f"wrote {', '.join(data.columns)} as {written} to {output}")
