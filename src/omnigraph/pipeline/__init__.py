"""The data pipeline: loads, exports and rewrites of any size, by tasks that return receipts.

1. A task reads a piece of the input, checks it and writes files that no table version names. It
   returns receipts: descriptions and counts of these files.
2. Only the driver commits. A task that runs twice therefore leaves unused files and nothing else.
3. On Spark, the memory of the driver does not grow with the input.
4. A task is a plain function of its number. Workers of Spark run it, or this process does (D28).

Rooms, lowest first. `tasks` says what a task is and runs tasks here. `settings` says where Spark
runs. `spark` starts Spark, runs tasks on it and notices its death. `sources` reads records and
tables. `stage` plans the input and writes rows as fragments, pending files and keys. `checks`
checks the rules across rows on these keys. `recipes` reads pipeline files.

On top of them: `local_load` and `spark_load` are the two engines of a load, `head_start` begins on
one and goes on on the other, and `load` chooses; they fulfil `engine.load.bulk`. `branch_merge`
fulfils `engine.merge.workers`, `rewrite` fulfils `engine.schema.rewriting`. `export` writes a
snapshot to files, and `datasource` shows it to Spark as a DataFrame with the columns that
`datasource_schema` describes. `queries` runs reads of the query language on Spark. `dataframes`
makes commits of DataFrames and streams, and rows of the change feed.
"""

from typing import TYPE_CHECKING

from omnigraph.extras import require
from omnigraph.pipeline.settings import SparkSettings

if TYPE_CHECKING:
    from omnigraph.pipeline.datasource import register as register

__all__ = ["SparkSettings", "register"]


def __getattr__(name: str) -> object:
    """`register`, imported on first use, because it imports pyspark."""
    if name == "register":
        require("pyspark", extra="spark")
        from omnigraph.pipeline.datasource import register  # noqa: PLC0415 - imports pyspark

        return register
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
