"""Inputs of any format that the Spark session reads: ORC, text, XML, Avro, JDBC and so on.

A format that Spark does not ship needs a package in the session. The error names the package;
nothing is downloaded here.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from omnigraph.errors import SparkPackageMissing, UsageError
from omnigraph.pipeline.spark.liveness import SPARK_ERRORS
from omnigraph.storage.bucket_options import S3

_PACKAGES: Final[Mapping[str, str]] = {
    "avro": "org.apache.spark:spark-avro_2.13",
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
    "s3": "org.apache.hadoop:hadoop-aws",
}
_NO_FORMAT: Final = ("DATA_SOURCE_NOT_FOUND", "Failed to find data source", "Failed to find the")
_NO_DRIVER: Final = ("No suitable driver", "ClassNotFoundException")
_NO_FILES: Final = ("No FileSystem for scheme", "S3AFileSystem not found")
_REASON_MAX: Final = 300
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://")


def open_source(
    spark: SparkSession, format_: str, paths: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """The rows of an input, as Spark reads them. Raises SparkPackageMissing, UsageError."""
    reader = spark.read.format(format_).options(**options)
    try:
        frame = reader.load([_address(each) for each in paths]) if paths else reader.load()
        frame.schema  # noqa: B018 - a server analyses a frame when it is asked for its columns
    except SPARK_ERRORS as error:
        raise _explain(format_, str(error)) from error
    return frame


def _address(path: str) -> str:
    """Without a scheme Spark would look in the default file system of its cluster."""
    return path if _SCHEME.match(path) else f"file://{Path(path).absolute()}"


def _explain(format_: str, said: str) -> SparkPackageMissing | UsageError:
    if any(each in said for each in _NO_FORMAT):
        package = _PACKAGES.get(format_, f"the package that reads '{format_}'")
        return SparkPackageMissing(format_, package=package)
    if any(each in said for each in _NO_FILES):
        return SparkPackageMissing(S3, package=_PACKAGES["s3"])
    if any(each in said for each in _NO_DRIVER):
        return SparkPackageMissing(format_, package="the JDBC driver of the database")
    reason = next(iter(said.strip().splitlines()), "it cannot be read")
    return UsageError(f"Spark cannot read it as {format_}: {reason[:_REASON_MAX]}")
