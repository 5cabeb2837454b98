"""The rewriters that an embedded graph uses for large tables."""

from dataclasses import dataclass

from omnigraph.engine.graph import Graph
from omnigraph.engine.schema.rewriting import Rewriter
from omnigraph.pipeline.settings import REWRITE_ROWS, SparkSettings


@dataclass(frozen=True, slots=True)
class SparkRewriters:
    """`engine.schema.rewriting.RewriterFactory`: Spark for large tables, None for the others."""

    graph: Graph
    rows_min: int
    spark: SparkSettings | None = None

    def __call__(self, row_count: int) -> Rewriter | None:
        if row_count < self.rows_min:
            return None
        from omnigraph.pipeline.rewrite import open_rewriter

        return open_rewriter(self.graph.root, self.graph.settings, self.spark)


def spark_rewriters(graph: Graph, spark: SparkSettings | None) -> SparkRewriters:
    """Raises UsageError."""
    return SparkRewriters(graph, REWRITE_ROWS.read(), spark)
