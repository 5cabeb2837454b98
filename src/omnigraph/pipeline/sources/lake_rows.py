"""The rows of Delta and Iceberg tables, by the package of their format."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from omnigraph.engine.load.inputs import Format
from omnigraph.pipeline.sources import delta, iceberg
from omnigraph.pipeline.sources.lake import LakeListing
from omnigraph.pipeline.sources.parse import Parsed
from omnigraph.pipeline.sources.splits import LakeRows, Split
from omnigraph.pipeline.sources.tabular import read_table


def list_lake(
    format_: Format,
    address: str,
    options: Mapping[str, str],
    storage_options: Mapping[str, str],
    *,
    after: int | None = None,
) -> LakeListing:
    """Raises ExtraMissing, FileUnreadable, UsageError."""
    list_files = delta.list_files if format_ is Format.DELTA else iceberg.list_files
    return list_files(address, options, storage_options, after)


def read_lake_rows(split: Split, options: Mapping[str, str]) -> Iterator[tuple[Parsed, int]]:
    """The rows of a split, some at a time, with how many there were. Raises FileUnreadable."""
    content = split.content
    assert isinstance(content, LakeRows)
    for batch in read_lake_batches(split, options):
        yield read_table(content.mapping, batch), batch.num_rows


def read_lake_batches(split: Split, options: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """The mapped columns of one data file. Raises ExtraMissing, FileUnreadable."""
    content = split.content
    assert isinstance(content, LakeRows)
    columns = list(dict.fromkeys(content.mapping.columns.values()))
    is_delta = content.table.format is Format.DELTA
    read_file = delta.read_file if is_delta else iceberg.read_file
    return read_file(content.table, split.path, columns, options)
