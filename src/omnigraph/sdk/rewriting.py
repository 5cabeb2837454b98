"""Who writes large tables of an embedded graph anew."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.engine.graph import Graph
from omnigraph.engine.rewriting import Rewriter
from omnigraph.errors import UsageError
from omnigraph.pipeline.settings import SparkSettings

SPARK_ROWS: Final = "OMNIGRAPH_REWRITE_SPARK_ROWS"
SPARK_ROWS_DEFAULT: Final = 50_000_000
"""Up to here one process is done within a minute or so. On the same machine it is faster than Spark
at any size that was measured; other machines are what tasks are for."""


def read_threshold(environment: Mapping[str, str] = os.environ) -> int:
    """From how many rows on a table is written anew on Spark. Raises UsageError."""
    given = environment.get(SPARK_ROWS)
    if not given:
        return SPARK_ROWS_DEFAULT
    if not given.isdecimal():
        raise UsageError(f"{SPARK_ROWS} is a number of rows, not '{given}'")
    return int(given)


@dataclass(frozen=True, slots=True)
class Hiring:
    """`engine.rewriting.Hire`: workers of Spark for large tables, nobody for the others."""

    graph: Graph
    rows_min: int
    spark: SparkSettings | None = None

    def __call__(self, row_count: int) -> Rewriter | None:
        if row_count < self.rows_min:
            return None
        from omnigraph.pipeline.rewrite import open_rewriter  # noqa: PLC0415 - brings Spark along

        return open_rewriter(self.graph.root, self.graph.settings, self.spark)


def hiring(graph: Graph, spark: SparkSettings | None) -> Hiring:
    """Raises UsageError."""
    return Hiring(graph, read_threshold(), spark)
