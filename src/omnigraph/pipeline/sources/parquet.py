"""Parquet: row groups become splits, and only mapped columns are read."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.errors import FileUnreadable
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.sources.parse import Parsed
from omnigraph.pipeline.sources.splits import RowGroups, Split
from omnigraph.pipeline.sources.tabular import read_table
from omnigraph.storage.inputs import InputFile, open_input

ROWS_PER_BATCH: Final = 65_536


@dataclass(frozen=True, slots=True)
class Footer:
    """What a Parquet file says of itself."""

    schema: pa.Schema
    row_counts: tuple[int, ...]
    """Of every row group."""
    sizes: tuple[Mapping[str, int], ...]
    """Of every row group, the bytes that each column takes once it is unpacked."""


def read_footer(file: InputFile, options: Mapping[str, str]) -> Footer:
    """Raises FileUnreadable."""
    with _open(file.path, file.shown, options) as parquet:
        metadata = parquet.metadata
        sizes, row_counts = [], []
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            taken: dict[str, int] = {}
            for at in range(group.num_columns):
                column = group.column(at)
                name = column.path_in_schema.partition(".")[0]
                taken[name] = taken.get(name, 0) + column.total_uncompressed_size
            sizes.append(taken)
            row_counts.append(group.num_rows)
        return Footer(parquet.schema_arrow, tuple(row_counts), tuple(sizes))


def cut_row_groups(
    file: InputFile, footer: Footer, mapping: ColumnMapping, first: int, split_bytes: int
) -> tuple[list[Split], int]:
    """The splits of a file, numbered from `first`, and how many bytes they hold."""
    wanted = {name.partition(".")[0] for name in mapping.columns.values()}
    sizes = [sum(taken.get(name, 0) for name in wanted) for taken in footer.sizes]
    splits: list[Split] = []
    start, held = 0, 0
    for number, size in enumerate(sizes):
        held += size
        if held >= split_bytes or number == len(sizes) - 1:
            content = RowGroups(mapping)
            at = first + len(splits)
            splits.append(Split(at, file.path, file.shown, start, number + 1, content))
            start, held = number + 1, 0
    return splits, sum(sizes)


def read_row_groups(split: Split, options: Mapping[str, str]) -> Iterator[tuple[Parsed, int]]:
    """The rows of a split, some at a time, with how many there were. Raises FileUnreadable."""
    content = split.content
    assert isinstance(content, RowGroups)
    for batch in read_batches(split, options):
        yield read_table(content.mapping, batch), batch.num_rows


def read_batches(split: Split, options: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """The mapped columns of a split. Raises FileUnreadable."""
    content = split.content
    assert isinstance(content, RowGroups)
    assert split.end is not None
    with _open(split.path, split.shown, options) as parquet:
        yield from parquet.iter_batches(
            batch_size=ROWS_PER_BATCH,
            row_groups=list(range(split.start, split.end)),
            columns=list(dict.fromkeys(content.mapping.columns.values())),
            use_threads=False,
        )


@contextmanager
def _open(path: str, shown: str, options: Mapping[str, str]) -> Iterator[pq.ParquetFile]:
    with open_input(path, shown, options) as file:
        try:
            with pq.ParquetFile(file) as parquet:
                yield parquet
        except pa.ArrowException as error:
            raise FileUnreadable(shown, reason=str(error).splitlines()[0]) from error
