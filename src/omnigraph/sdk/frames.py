"""Tables and values of other libraries: pandas, polars, Arrow, the Arrow C stream, numpy.

None of these libraries is imported here, except Arrow: a value says itself what it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


def is_table(given: object) -> bool:
    """Is it a table of a library, and not one of Spark, which never is in this process?"""
    library = _library_of(given)
    return library != "pyspark" and (
        _is_pandas(given) or hasattr(_collected(given), "__arrow_c_stream__")
    )


def as_reader(given: Any) -> pa.RecordBatchReader:
    """The rows of a table, some at a time."""
    if _is_pandas(given):
        table = pa.Table.from_pandas(given, preserve_index=False)
        whole = [_whole(each) for each in table.columns]
        return pa.table(whole, table.column_names).to_reader()
    return pa.RecordBatchReader.from_stream(_collected(given))


def plain(value: object) -> object:
    """Scalars and arrays of numpy as Python's numbers, times and lists; the rest as it is."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if _library_of(value) != "numpy":
        return value
    found: Any = value
    if found.dtype.kind == "M":
        # Finer times than microseconds would become bare numbers.
        found = found.astype("datetime64[us]" if found.dtype != "datetime64[D]" else found.dtype)
    return found.tolist()


def plain_params(params: Mapping[str, object] | None) -> dict[str, object] | None:
    """The parameters of a query; what is no mapping is left to those who check it."""
    if type(params) is dict and _PLAIN.issuperset(map(type, params.values())):
        return params
    return cast("dict[str, object] | None", plain(params))


@contextmanager
def spooled(source: object, above: str | None = None) -> Iterator[object]:
    """The source of a load, with every table in it as a Parquet file in a temporary folder."""
    listed = source if isinstance(source, list | tuple) else [source]
    if not any(is_table(_data_of(each)) for each in listed):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-frames-", dir=above) as folder:
        yield [_spool(each, Path(folder), number) for number, each in enumerate(listed, 1)]


def _spool(given: object, folder: Path, number: int) -> object:
    data = _data_of(given)
    if not is_table(data):
        return given
    import pyarrow.parquet as pq

    path = folder / f"frame-{number}.parquet"
    with as_reader(data) as reader:
        fields = [each.with_type(_stored_type(each.type)) for each in reader.schema]
        schema = pa.schema(fields)
        with pq.ParquetWriter(path, schema, compression="lz4") as writer:
            for batch in reader:
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    is_described = data is not given
    return replace(cast("Any", given), data=str(path)) if is_described else str(path)


def _stored_type(of: pa.DataType) -> pa.DataType:
    """A type that Parquet stores, and that a load reads."""
    if isinstance(of, pa.DictionaryType):
        return _stored_type(of.value_type)
    if pa.types.is_string_view(of):
        return pa.large_string()
    if pa.types.is_binary_view(of):
        return pa.large_binary()
    return of


def _data_of(given: object) -> object:
    """The data of an `Input`, else what was given."""
    from omnigraph.engine.load.inputs import Input

    return given.data if isinstance(given, Input) else given


def _library_of(given: object) -> str:
    return type(given).__module__.partition(".")[0]


def _is_pandas(given: object) -> bool:
    """A frame, not a series."""
    return _library_of(given) == "pandas" and hasattr(given, "columns")


def _collected(given: Any) -> Any:
    """A lazy frame of polars is a plan; it is carried out here."""
    is_lazy = _library_of(given) == "polars" and type(given).__name__ == "LazyFrame"
    return given.collect() if is_lazy else given


def _whole(column: Any) -> Any:
    """Pandas turns whole numbers beside a missing one into floats; they become whole again."""
    if not (pa.types.is_floating(column.type) and column.null_count):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
