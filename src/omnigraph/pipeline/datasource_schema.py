"""The columns of a table as Spark wants them: which type each has there, and how cells get there.

Spark takes a schema and then insists on exactly the Arrow types that it derives from it. A type
that Spark lacks becomes the next wider one: a U32 is a long, a U64 a decimal of 20 digits, a
Vector an array. A DateTime is a timestamp. A Blob is its bytes, or its address if it is elsewhere.
Edges have the columns `from` and `to`, as in records.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from omnigraph.engine.load.parquet_parts import as_instants
from omnigraph.engine.tables.record_format import columns_by_name
from omnigraph.errors import UsageError

_SCALARS: Final[Mapping[pa.DataType, spark.DataType]] = {
    pa.string(): spark.StringType(),
    pa.bool_(): spark.BooleanType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.TimestampType(),
}
_BLOB: Final = spark.StructType().add("data", spark.BinaryType()).add("uri", spark.StringType())


def pick_columns(schema: pa.Schema, wanted: Sequence[str] | None) -> dict[str, str]:
    """The columns that are wanted, or all of them, by their names in data. Raises UsageError."""
    known = columns_by_name(schema)
    if wanted is None:
        return known
    for name in wanted:
        if name not in known:
            raise UsageError(f"there is no column '{name}'; there are {', '.join(known)}")
    return {name: known[name] for name in wanted}


def spark_schema(schema: pa.Schema, columns: Mapping[str, str]) -> spark.StructType:
    made = spark.StructType()
    for name, column in columns.items():
        stored = schema.field(column)
        made = made.add(name, spark_type(stored.type), stored.nullable)
    return made


def spark_type(of: pa.DataType) -> spark.DataType:
    """The type that a column of a table has in Spark."""
    if isinstance(of, pa.BaseExtensionType):
        return _BLOB
    if pa.types.is_list(of) or pa.types.is_fixed_size_list(of):
        return spark.ArrayType(spark_type(of.value_type))
    if isinstance(of, pa.StructType):
        made = spark.StructType()
        for each in of:
            made = made.add(each.name, spark_type(each.type))
        return made
    return _SCALARS[of]


def as_spark(cells: "pa.Array[Any]", wanted: pa.DataType) -> "pa.Array[Any]":
    """Cells of a stored column in the Arrow type that Spark derives."""
    return as_instants(cells).cast(wanted)
