"""The schema a command checks against: a file that was named, or the one a graph is bound to."""

from pathlib import Path

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.cli.files import read_source
from omnigraph.cli.globals import Globals
from omnigraph.cli.graphs import open_graph
from omnigraph.compiler.lint import SchemaFile, SchemaGraph


def find_schema(
    file: Path | None, uri: str | None, settings: Globals
) -> tuple[Catalog, SchemaFile | SchemaGraph]:
    """The catalog, and where it came from. Raises what reading or opening raises."""
    if file is not None:
        return compile_schema(read_source(file)), SchemaFile(str(file))
    graph = open_graph(uri, settings, read_only=True)
    return graph.catalog, SchemaGraph(graph.uri)
