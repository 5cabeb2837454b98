"""The door: a bound read becomes a DataFrame."""

from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from io import StringIO
from pathlib import Path, PurePath
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.compiler import plan
from omnigraph.compiler.ir import PathOf
from omnigraph.engine.graph import Graph
from omnigraph.engine.query.operators.execution import Execution
from omnigraph.errors import UsageError
from omnigraph.pipeline.queries.lower import Lowering
from omnigraph.pipeline.queries.scans import Scans
from omnigraph.pipeline.spark.jobs import failing_as
from omnigraph.pipeline.spark.session import SparkSettings, find_session, read_settings
from omnigraph.pipeline.stage.fragments import Storage

FORMATS: Final = ("parquet", "csv", "json", "orc")


def to_dataframe(
    spark: SparkSession, query: plan.ReadPlan, execution: Execution, storage: Storage
) -> DataFrame:
    """The result of a read. Raises UsageError for what Spark cannot answer."""
    if _has_paths(query.root):
        raise UsageError(
            "shortest paths are found in the process, not on Spark: run the read without Spark, or "
            "ask only for the ends"
        )
    lowering = Lowering(Scans(spark, execution.view, storage), execution)
    shown = lowering.table(query.root)
    return shown.data.toDF(*names_of(query.root))


def _has_paths(part: object) -> bool:
    """Does a plan read a part of a path anywhere?"""
    if isinstance(part, tuple):
        return any(map(_has_paths, part))
    if isinstance(part, type) or not is_dataclass(part):
        return False
    return isinstance(part, PathOf) or any(
        _has_paths(getattr(part, each.name)) for each in fields(part)
    )


def session_of(spark: SparkSession | SparkSettings | None) -> SparkSession:
    """The session, or the one that these settings find. Raises JavaMissing, SparkUnusable."""
    if spark is None or isinstance(spark, SparkSettings):
        return find_session(spark or read_settings())
    return spark


def storage_of(graph: Graph) -> Storage:
    """How tasks reach a graph."""
    return Storage(graph.root, graph.settings.storage_options, graph.settings.durability)


def names_of(root: plan.Operator) -> list[str]:
    return [each.name for each in plan.columns_of(root)]


def explain_dataframe(data: DataFrame) -> str:
    """Spark's plan, as Spark prints it."""
    printed = StringIO()
    with redirect_stdout(printed):
        data.explain(mode="formatted")
    return printed.getvalue().strip()


def write_dataframe(data: DataFrame, path: str) -> str:
    """Write a result as a folder, in the format of its suffix or as Parquet; return the format.

    Raises UsageError for another suffix, or if something is there already; JobFailed.
    """
    suffix = PurePath(path).suffix.removeprefix(".") or FORMATS[0]
    if suffix not in FORMATS:
        raise UsageError(f"Spark writes {', '.join(FORMATS)}; '{path}' ends in none of them")
    # The Java machine has a working folder of its own.
    place = path if "://" in path else str(Path(path).absolute())
    with failing_as("writing the result"):
        try:
            data.write.format(suffix).mode("error").option("header", True).save(place)
        except AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise UsageError(f"there is something at {path}; name a new folder") from None
    return suffix
